"""A SCIP index gives exact edges for files that it knows as they are; anything else falls back, and the answer says so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from context_engine.model import Trace
from context_engine.settings import Settings
from tests.support.engines import indexed
from tests.support.scip import DEFINITION, document, field, index_of, name_at, number, symbol_of
from tests.support.trees import tree

SHOP = Path(__file__).parents[2] / "examples/shop"
REAL = Path(__file__).with_name("shop.scip")
"""What scip-python 0.6.6 says of `examples/shop`: `scip-python index . --project-name shop --project-version 1`."""

CART = "class Cart:\n    def add(self, item):\n        return item\n\n\nclass Bag:\n    def add(self, item):\n        return item\n"
USE = "def fill(box, other):\n    box.add(1)\n    other.add(2)\n    box.add(3); other.close()\n"
ADD, BAG_ADD = symbol_of("cart.py", "Cart#add()."), symbol_of("cart.py", "Bag#add().")
CART_DOCUMENT = document(
    "cart.py",
    name_at(CART, "Cart", symbol_of("cart.py", "Cart#"), roles=DEFINITION),
    name_at(CART, "add", ADD, roles=DEFINITION),
    name_at(CART, "Bag", symbol_of("cart.py", "Bag#"), roles=DEFINITION),
    name_at(CART, "add", BAG_ADD, nth=1, roles=DEFINITION),
)
USE_DOCUMENT = document(
    "use.py", name_at(USE, "add", ADD), name_at(USE, "add", BAG_ADD, nth=1), name_at(USE, "add", ADD, nth=2)
)


def shop(tmp_path: Path, *documents: bytes, **files: str) -> Path:
    """A workspace with an index that is newer than its files."""
    root = tree(
        tmp_path / "shop",
        {"cart.py": CART, "use.py": USE, **{name.replace("_py", ".py"): text for name, text in files.items()}},
    )
    for file in root.iterdir():
        os.utime(file, (1_000, 1_000))
    (root / "index.scip").write_bytes(index_of(*(documents or (CART_DOCUMENT, USE_DOCUMENT))))
    return root


def lines_of(trace: Trace, origin: str = "scip") -> list[tuple[str, int]]:
    return [(str(edge.path), edge.line) for edge in trace.edges if edge.origin == origin]


def test_receivers_that_the_text_does_not_show_have_exact_callers(tmp_path: Path) -> None:
    with indexed(shop(tmp_path)) as engine:
        found = engine.symbols.trace("Cart.add")
        assert lines_of(found) == [("use.py", 2), ("use.py", 4)]
        assert {edge.certainty for edge in found.edges} == {"exact"} and found.possible == 0
        assert lines_of(engine.symbols.trace("Bag.add")) == [("use.py", 3)]


def test_without_an_index_the_same_uses_are_possible(tmp_path: Path) -> None:
    root = shop(tmp_path)
    (root / "index.scip").unlink()
    with indexed(root) as engine:
        found = engine.symbols.trace("Cart.add")
        assert (found.edges, found.possible) == ((), 3)


def test_callees_come_from_the_index(tmp_path: Path) -> None:
    with indexed(shop(tmp_path)) as engine:
        rows = engine.symbols.trace("fill", "callees").edges
        assert [(edge.target.split(" ")[0], edge.origin) for edge in rows] == [
            ("Cart.add", "scip"), ("Bag.add", "scip"), ("Cart.add", "scip"),
        ]  # fmt: skip


def test_a_file_that_changed_since_is_resolved_without_the_index_and_the_answer_says_so(tmp_path: Path) -> None:
    root = shop(tmp_path)
    with indexed(root) as engine:
        assert len(engine.symbols.trace("Cart.add").edges) == 2
        (root / "use.py").write_text("import os\n" + USE)
        found = engine.symbols.trace("Cart.add")
        assert (found.edges, found.possible) == ((), 3)
        assert any("1 file changed since index.scip was made" in note and "use.py" in note for note in found.notes)


def test_ranges_that_do_not_hold_their_names_are_not_believed_whatever_the_times_say(tmp_path: Path) -> None:
    root = shop(tmp_path)
    (root / "cart.py").write_text(CART.replace("def add", "def  add"))
    os.utime(root / "cart.py", (1_000, 1_000))
    with indexed(root) as engine:
        assert any("cart.py" in note for note in engine.symbols.trace("Cart.add").notes)


def test_a_definition_in_a_changed_file_is_found_again_by_its_qualified_name(tmp_path: Path) -> None:
    root = shop(tmp_path)
    (root / "cart.py").write_text("import os\n\n\n" + CART)
    with indexed(root) as engine:
        assert lines_of(engine.symbols.trace("Cart.add")) == [("use.py", 2), ("use.py", 4)]


def test_an_index_with_the_text_of_a_file_needs_no_times(tmp_path: Path) -> None:
    use = document("use.py", name_at(USE, "add", ADD), text=USE)
    root = shop(tmp_path, CART_DOCUMENT, use)
    os.utime(root / "use.py", (9e9, 9e9))
    with indexed(root) as engine:
        assert lines_of(engine.symbols.trace("Cart.add")) == [("use.py", 2)]


def test_an_index_that_is_made_again_is_read_again(tmp_path: Path) -> None:
    root = shop(tmp_path)
    with indexed(root) as engine:
        assert len(engine.symbols.trace("Cart.add").edges) == 2
        (root / "index.scip").write_bytes(index_of(CART_DOCUMENT, document("use.py", name_at(USE, "add", ADD))))
        assert len(engine.symbols.trace("Cart.add").edges) == 1


def test_columns_count_as_the_document_says(tmp_path: Path) -> None:
    text = 'def fill(box):\n    "😀"; box.add(1)\n'
    for encoding, shift in ((1, 3), (2, 1), (3, 0), (0, 1)):
        use = document("use.py", name_at(text, "add", ADD, shift=shift), encoding=encoding)
        root = shop(tmp_path / str(encoding), CART_DOCUMENT, use, use_py=text)
        with indexed(root) as engine:
            assert lines_of(engine.symbols.trace("Cart.add")) == [("use.py", 2)], encoding


def test_ranges_are_read_in_their_newer_form(tmp_path: Path) -> None:
    place = field(8, b"".join(field(key, value) for key, value in ((1, 1), (2, 8), (3, 11))))
    root = shop(tmp_path, CART_DOCUMENT, document("use.py", place + field(2, ADD)))
    with indexed(root) as engine:
        assert lines_of(engine.symbols.trace("Cart.add")) == [("use.py", 2)]


def test_what_an_index_says_of_another_package_is_no_use(tmp_path: Path) -> None:
    text = "def fill(box, other):\n    box.add(1)\n    other.add(2)\n"
    foreign = symbol_of("queue.py", "Queue#add().", "queue")
    use = document("use.py", name_at(text, "add", ADD), name_at(text, "add", foreign, nth=1))
    with indexed(shop(tmp_path, CART_DOCUMENT, use, use_py=text)) as engine:
        found = engine.symbols.trace("Cart.add", with_possible=True)
        assert [(edge.line, edge.origin) for edge in found.edges] == [(2, "scip")]


def test_implementations_that_only_the_index_knows_are_listed(tmp_path: Path) -> None:
    text = "class Tote:\n    def add(self, item): ...\n"
    tote = document(
        "tote.py",
        name_at(text, "Tote", symbol_of("tote.py", "Tote#"), roles=DEFINITION),
        name_at(text, "add", symbol_of("tote.py", "Tote#add()."), roles=DEFINITION),
        implements={symbol_of("tote.py", "Tote#"): symbol_of("cart.py", "Cart#")},
    )
    with indexed(shop(tmp_path, CART_DOCUMENT, tote, tote_py=text)) as engine:
        assert [edge.source for edge in engine.symbols.trace("Cart", "implementations").edges] == ["Tote"]


def test_open_uses_of_a_rename_become_sure(tmp_path: Path) -> None:
    root = shop(tmp_path)
    with indexed(root) as engine:
        plan = engine.edits.rename_symbol("Cart.add", "put")
        assert not [place for place in plan.uncertain if place.is_open]
        assert {(one.path, one.line) for one in plan.certain} == {("cart.py", 2), ("use.py", 2), ("use.py", 4)}
        (root / "index.scip").unlink()
        assert [place for place in engine.edits.rename_symbol("Cart.add", "put").uncertain if place.is_open]


def test_a_language_without_rules_has_exact_uses_too(tmp_path: Path) -> None:
    text = "local function feed(cat)\n  return cat\nend\n\nlocal function other()\n  return feed(1)\nend\n"
    feed = symbol_of("zoo.lua", "feed().")
    zoo = document("zoo.lua", name_at(text, "feed", feed, roles=DEFINITION), name_at(text, "feed", feed, nth=1))
    root = shop(tmp_path, CART_DOCUMENT, zoo)
    (root / "zoo.lua").write_text(text)
    os.utime(root / "zoo.lua", (1_000, 1_000))
    with indexed(root) as engine:
        found = engine.symbols.trace("feed", with_possible=True).edges
        assert [(edge.line, edge.origin, edge.certainty) for edge in found] == [(6, "scip", "exact")]


# -- which index is used ----------------------------------------------------------------------------------------------


def test_off_and_a_path_are_settings_of_the_user_alone(tmp_path: Path) -> None:
    root = shop(tmp_path)
    elsewhere = (root / "index.scip").rename(tmp_path / "made.scip")
    with indexed(root) as engine:
        assert not engine.symbols.trace("Cart.add").edges
    with indexed(root, scip_index=str(elsewhere)) as engine:
        assert len(engine.symbols.trace("Cart.add").edges) == 2
    elsewhere.rename(root / "index.scip")
    with indexed(root, scip_index="off") as engine:
        assert not engine.symbols.trace("Cart.add").edges
    tree(root, {".context-engine/config.yml": f"scip_index: {tmp_path}/made.scip\n"})
    assert "scip_index" in Settings.load(root, env={}).ignored


def test_a_link_in_the_place_of_the_index_is_not_followed(tmp_path: Path) -> None:
    root = shop(tmp_path)
    (root / "index.scip").rename(tmp_path / "outside.scip")
    (root / "index.scip").symlink_to(tmp_path / "outside.scip")
    with indexed(root) as engine:
        found = engine.symbols.trace("Cart.add")
        assert not found.edges and any("index.scip is not used" in note for note in found.notes)


@pytest.mark.parametrize(
    "damage", [b"\xff" * 40, b"not an index", field(1, b"x") + number(2 << 3 | 2) + number(10**9), b"\n" + b"\x80" * 30]
)
def test_a_damaged_index_is_named_and_the_answer_is_our_own(damage: bytes, tmp_path: Path) -> None:
    root = shop(tmp_path)
    (root / "index.scip").write_bytes(damage)
    with indexed(root) as engine:
        found = engine.symbols.trace("Cart.add")
        assert found.possible == 3 and any("index.scip is not used" in note for note in found.notes)


def test_an_index_of_a_folder_of_the_workspace_knows_the_files_below_it(tmp_path: Path) -> None:
    outer = tmp_path / "all"
    shop(outer)
    (outer / "shop/index.scip").unlink()
    made = index_of(CART_DOCUMENT, USE_DOCUMENT, root=(outer / "shop").as_uri())
    (outer / "index.scip").write_bytes(made)
    with indexed(outer) as engine:
        assert lines_of(engine.symbols.trace("Cart.add")) == [("shop/use.py", 2), ("shop/use.py", 4)]


# -- what real indexers write -----------------------------------------------------------------------------------------


def test_an_index_of_scip_python_is_read(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    shutil.copytree(SHOP, root)
    shutil.copy(REAL, root / "index.scip")
    os.utime(root / "index.scip", (9e9, 9e9))
    with indexed(root) as engine:
        found = engine.symbols.trace("Order.add")
        assert lines_of(found) == [("tests/test_orders.py", 6), ("tests/test_orders.py", 12)]
        callees = engine.symbols.trace("Order.total", "callees").edges
    assert [(edge.target.split(" ")[0], edge.origin) for edge in callees] == [("discount_for", "scip")]
    assert not any("index.scip" in note for note in found.notes)
