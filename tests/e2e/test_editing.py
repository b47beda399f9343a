"""An agent edits: it finds, reads, looks at what would become, writes, takes back; over stdio and HTTP, alone and beside others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.e2e.conftest import FILES, planted
from tests.e2e.wire import DOCUMENTS, Wire, told
from tests.support.engines import open_engine
from tests.support.serving import connected_to, serving


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of all these sessions."""
    return planted(tmp_path_factory.mktemp("editing") / "till")


@pytest.fixture(scope="module")
def wires(root: Path, own_places: None) -> Iterator[tuple[Wire, Wire]]:
    """Two agents, each with a server of his own, in one repository."""
    with Wire(root, options=DOCUMENTS) as one, Wire(root, options=DOCUMENTS) as other:
        one.shake_hands()
        other.shake_hands()
        yield one, other


@pytest.fixture
def wire(wires: tuple[Wire, Wire], root: Path) -> Iterator[Wire]:
    """The first of them; what it leaves behind is put right behind its back."""
    yield wires[0]
    for name, text in FILES.items():
        (root / name).write_text(text)


def refused(wire: Wire, tool: str, **arguments: Any) -> dict[str, Any]:
    result = wire.call(tool, **arguments)
    assert result["isError"]
    return json.loads(result["content"][0]["text"])["error"]


def test_each_step_feeds_the_next_from_a_word_to_a_changed_line(wire: Wire, root: Path) -> None:
    file = told(wire, "scout", keywords=["SALT_BYTES"], rootPath=".")["files"][0]
    lines = {"start": file["matches"][0]["line"], "end": file["matches"][0]["line"]}
    region = told(wire, "read_regions", filePath=file["path"], regions=[lines])["regions"][0]
    old = next(line for line in region["content"].split("\n") if "SALT_BYTES" in line)
    asked = {
        "filePath": file["path"],
        "oldContent": old,
        "newContent": "SALT_BYTES = 32",
        "anchor": {"lineRange": lines},
    }
    preview = told(wire, "safe_replace", **asked, dryRun=True)
    assert preview["success"]
    assert "SALT_BYTES = 32" in preview["preview"]["after"]
    assert (root / file["path"]).read_text() == FILES[file["path"]]
    done = told(wire, "safe_replace", **asked, dryRun=False)
    assert done["matchInfo"] == {"line": lines["start"], "column": 1, "matchType": "exact"}
    now = told(wire, "read_regions", filePath=file["path"], regions=[done["updatedLines"]], contextLines=0)
    assert now["regions"][0]["content"] == "SALT_BYTES = 32"


def test_two_servers_edit_one_file_at_once_and_no_edit_is_lost(wires: tuple[Wire, Wire], root: Path) -> None:
    count = 12
    (root / "list.txt").write_text("".join(f"row {number}\n" for number in range(2 * count)))
    for number in range(count):
        for each, wire in enumerate(wires):
            row = f"row {number + each * count}\n"
            edit = {"target": row, "replace": f"done by {each}: {row}"}
            wire.send(
                {"jsonrpc": "2.0", "id": f"p{number}", "method": "tools/call",
                 "params": {"name": "edit_file", "arguments": {"path": "list.txt", "edits": [edit]}}}
            )  # fmt: skip
    for wire in wires:
        answers = [wire.next() for _ in range(count)]
        assert [each for each in answers if each["result"].get("isError")] == []
    assert (root / "list.txt").read_text() == "".join(
        f"done by {number // count}: row {number}\n" for number in range(2 * count)
    )


def test_an_edit_is_undone_by_the_next_server_and_done_again(root: Path, own_places: None) -> None:
    before = (root / "web/cart.ts").read_bytes()
    with Wire(root, options=DOCUMENTS) as wire:
        wire.shake_hands()
        wire.text("edit_file", path="web/cart.ts", edits=[{"symbol": "Cart", "insert_before": "// The cart.\n"}])
        wire.process.kill()
    after = (root / "web/cart.ts").read_bytes()
    assert after.startswith(b"// The cart.\n")
    with Wire(root, options=DOCUMENTS) as wire:
        wire.shake_hands()
        assert "edited web/cart.ts" in wire.text("undo_edit", list=True)
        wire.text("undo_edit")
        assert (root / "web/cart.ts").read_bytes() == before
        wire.text("undo_edit", redo=True)
        assert (root / "web/cart.ts").read_bytes() == after
        (root / "web/cart.ts").write_text("// Somebody else.\n")
        assert refused(wire, "undo_edit")["code"] == "STALE_FILE"
        assert (root / "web/cart.ts").read_text() == "// Somebody else.\n"
        (root / "web/cart.ts").write_bytes(before)


def test_over_http_each_session_takes_back_its_own_edits(tmp_path: Path, own_places: None) -> None:
    root = planted(tmp_path / "till")

    async def body(base: str) -> None:
        async with connected_to(base, "legacy") as one, connected_to(base, "legacy") as other:
            for client, old, new in ((one, "def total(", "def one("), (other, "def place(", "def other(")):
                await client.call_tool(
                    "edit_file", {"path": "till/orders.py", "edits": [{"target": old, "replace": new}]}
                )
            await one.call_tool("undo_edit", {})
        text = (root / "till/orders.py").read_text()
        assert text == FILES["till/orders.py"].replace("def place(", "def other(")
        async with connected_to(base, "2026-07-28") as nobody:
            await nobody.call_tool("undo_edit", {})
        assert (root / "till/orders.py").read_text() == FILES["till/orders.py"]

    with open_engine(root, flush=False) as engine, serving(engine) as base:
        anyio.run(body, base)
