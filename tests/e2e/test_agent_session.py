"""An agent's session over stdio: ask, look around, read, edit outside, ask again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import planted
from tests.e2e.wire import Wire


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of the whole session."""
    return planted(tmp_path_factory.mktemp("session") / "till")


@pytest.fixture(scope="module")
def wire(root: Path, own_places: None) -> Iterator[Wire]:
    """One long session, as agents have them; its index is ready."""
    with Wire(root) as wire:
        wire.shake_hands()
        wait_for(lambda: told(wire, "index_status")["state"] == "ready")
        yield wire
        wire.end()


def told(wire: Wire, tool: str, **arguments: Any) -> Any:
    return json.loads(wire.text(tool, **arguments))


def wait_for(ready: Callable[[], bool], patience_s: float = 120.0) -> None:
    """Poll until ready: indexing runs on its own time."""
    until = time.monotonic() + patience_s
    while not ready():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.05)


def test_a_question_in_plain_words_finds_the_function(wire: Wire) -> None:
    reply = told(wire, "codebase_retrieval", query="where are passwords hashed")
    assert reply["results"][0]["path"] == "till/auth.py"
    assert "def hash_password" in reply["results"][0]["content"]
    assert reply["engine"] == "hybrid"
    assert reply["freshness"] == "fresh"


def test_every_rendering_finds_the_same_file(wire: Wire) -> None:
    assert "## till/orders.py" in wire.text("semantic_search", query="total of an order with discount")
    cortex = told(wire, "cortex_search", query="total of an order with discount", tags=["python", "code"], limit=3)
    assert cortex["results"][0]["chunk"]["metadata"]["file_path"] == "till/orders.py"
    assert {"id", "chunk_type", "title", "text", "tags", "metadata", "created_at", "updated_at"} == set(
        cortex["results"][0]["chunk"]
    )
    assert "embedding" not in json.dumps(cortex)


def test_a_symbol_is_found_with_its_callers(wire: Wire) -> None:
    assert "till/auth.py:8-10 function" in wire.text("find_symbol", name="hash_password")
    assert "Session" in wire.text("find_symbol", outline="till/auth.py")
    assert "till/auth.py:22" in wire.text("trace", symbol="hash_password")
    assert "till/orders.py" in wire.text("trace", path="till/auth.py", direction="importers")


def test_files_are_read_and_listed(wire: Wire) -> None:
    header, span, first, *_ = wire.text("get_file", path="till/orders.py", startLine=1, endLine=3).split("\n")
    assert header.startswith("till/orders.py · 13 lines · sha256 ")
    assert span == "@@ 1-3"
    assert first == '"""Orders and what they cost."""'
    with_deps = told(wire, "read_file", path="till/orders.py", includeDeps=True)
    assert [each["path"] for each in with_deps["dependencies"]] == ["till/auth.py"]
    tree = wire.text("list_directory")
    assert "├── till/" in tree
    assert "ignored.log" not in tree


def test_an_edit_is_found_without_asking_for_it(wire: Wire, root: Path) -> None:
    (root / "till" / "refund.py").write_text('def refund_customer(order):\n    """Give the money back."""\n')
    wait_for(lambda: "till/refund.py" in wire.text("codebase_retrieval", query="refund customer", profile="fast"))


def test_the_index_is_cleared_only_on_purpose_and_built_again(wire: Wire) -> None:
    assert wire.call("clear_index")["isError"]
    wait_for(lambda: not wire.call("clear_index", confirm=True)["isError"])  # busy while an edit is taken in
    assert told(wire, "index_workspace")["files"] >= 7
    assert told(wire, "codebase_retrieval", query="hash password")["results"]


def test_the_metrics_count_what_the_session_did(wire: Wire) -> None:
    wire.call("read_file", path="missing.py")
    stats = told(wire, "index_status", include_stats=True)["stats"]
    assert stats["read_file"]["errors"]["FILE_NOT_FOUND"] == 1
    assert stats["index_status"]["ok"] >= 1
