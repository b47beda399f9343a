"""The quick way to the daemon: it takes query commands, and leaves the others to the full program."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from context_engine.cli import command_table, daemon_queries, quick_commands
from context_engine.cli.quick_commands import QUERIES

HEAVY = {"typer", "rich", "msgspec", "pathlib", "socket", "subprocess", "typing", "threading", "hashlib", "numpy"}


def test_the_quick_reader_knows_the_commands_that_the_daemon_answers() -> None:
    assert command_table.QUERIES.keys() == QUERIES


@pytest.mark.parametrize("line", ["doctor", "", "search --help", "plan list", "--version", "completion"])
def test_other_commands_are_not_sent_to_the_daemon(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_commands, "ask_daemon", None)
    assert quick_commands.run_quickly(line.split(), {}, lambda: 7) == 7


@pytest.mark.parametrize(
    "line",
    [
        "search", "search a -n 0", "search a --format nope", "search a --nope", "search a -w team", "call", "call tool -",
        "call write_file {}", "read", "trace a --depth 5", "context a --budget 1",
    ],
)  # fmt: skip
def test_mistakes_and_calls_that_write_are_left_to_the_full_program(line: str) -> None:
    request = {"words": line.split(), "terminals": {}, "env": {}, "root": "", "folder": "/"}
    assert daemon_queries.QueryAnswerer(None).answer(request, None) == daemon_queries.DECLINED  # ty: ignore[invalid-argument-type]


def test_only_a_small_part_of_the_standard_library_is_imported_before_the_answer() -> None:
    code = (
        "import sys; before = set(sys.modules); import context_engine.cli.quick_commands, json\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {sys.path!r}\n{code}"], capture_output=True, check=True
    )
    imported = set(json.loads(done.stdout))
    assert not imported & HEAVY
    outside = {
        name
        for name in imported
        if not name.startswith("context_engine") and name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert outside == set()
