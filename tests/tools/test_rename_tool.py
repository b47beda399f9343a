"""rename_symbol on a real work tree: it lists first, writes what is sure as one edit, and can be undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine import tools
from context_engine.engine import Engine
from context_engine.errors import FileNotFound, StaleFile
from tests.support.edits import contents
from tests.support.engines import indexed
from tests.support.trees import tree

FILES = {
    "zoo/cats.py": "def feed(cat):\n    return cat\n\n\nclass Cat:\n    def feed(self):\n        return feed(self)\n",
    "zoo/keeper.py": "from zoo.cats import feed\n\n\ndef work(box):\n    box.feed()\n    return feed(1)\n",
    "README.md": "Call `feed`.\n",
    ".gitignore": "build/\n",
    "build/copy.py": "def feed(): ...\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project."""
    return tree(tmp_path / "project", FILES)


@pytest.fixture
def engine(root: Path) -> Iterator[Engine]:
    """An engine with an index."""
    with indexed(root) as one:
        yield one


def rename(engine: Engine, name: str, new_name: str, **more: Any) -> str:
    return tools.call(engine, "rename_symbol", {"name": name, "newName": new_name, **more}).text


def test_by_default_the_places_are_listed_and_nothing_is_written(engine: Engine, root: Path) -> None:
    before = contents(root)
    told = rename(engine, ".feed", "serve")
    assert contents(root) == before
    assert told.splitlines()[0] == (
        "function feed (zoo/cats.py:1) -> serve · 4 sure places in 2 files · dry run: nothing was written"
    )
    assert "zoo/keeper.py:5:9 the type of its owner is not known | box.feed()" in told
    assert "README.md:1:7 in text | Call `feed`." in told
    assert "zoo/keeper.py:6:12 return feed(1)" in told
    assert "1 place of this name certainly means something else" in told
    assert "dry_run false" in told and "build/" not in told
    with pytest.raises(FileNotFound):
        rename(engine, ".feed", "serve", path="gone.py", dry_run=False)
    assert contents(root) == before


def test_what_is_sure_is_written_as_one_edit_and_undone_as_one(engine: Engine, root: Path) -> None:
    before = contents(root)
    told = rename(engine, ".feed", "serve", dryRun=False, accept=["none"])
    assert "renamed · undo 1" in told and "box.feed()" in told and "dry_run" not in told
    after = contents(root)
    assert after["zoo/cats.py"].decode() == (
        "def serve(cat):\n    return cat\n\n\nclass Cat:\n    def feed(self):\n        return serve(self)\n"
    )
    assert after["zoo/keeper.py"].decode().count("serve") == 2
    assert {path for path in before if before[path] != after[path]} == {"zoo/cats.py", "zoo/keeper.py"}
    tools.call(engine, "undo_edit", {})
    assert contents(root) == before


def test_a_file_that_changes_meanwhile_stops_all_of_it(engine: Engine, root: Path) -> None:
    found = engine.edits.rename_symbol(".feed", "serve")
    (root / "zoo/keeper.py").write_text("feed = 1\n")
    before = contents(root)
    with pytest.raises(StaleFile):
        engine.edits.apply(found.changes)
    assert contents(root) == before


def test_a_secret_on_the_line_of_a_place_is_masked_in_the_list_and_stays_in_the_file(
    engine: Engine, root: Path
) -> None:
    secret = "AKIA" + "Q3EGRIZPSLWDTVX7"
    (root / "keys.py").write_text(f'from zoo.cats import feed\n\nfeed("{secret}")\n')
    assert secret not in rename(engine, ".feed", "serve")
    rename(engine, ".feed", "serve", dry_run=False, accept=["none"])
    assert (root / "keys.py").read_text() == f'from zoo.cats import serve\n\nserve("{secret}")\n'
