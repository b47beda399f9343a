"""The quick reader of command lines: it agrees with the full program, or leaves the line to it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import typer

from context_engine.cli.app import app
from context_engine.cli.quick_commands import FLAG, LIST, SIGNATURES, parse_command

HEAVY = {"typer", "rich", "msgspec", "pathlib", "socket", "subprocess", "typing", "threading", "hashlib", "numpy"}
GROUP: Any = typer.main.get_command(app)


@pytest.mark.parametrize("command", SIGNATURES)
def test_the_table_has_the_options_limits_and_defaults_of_the_full_program(command: str) -> None:
    parameters = {each.name: each for each in GROUP.commands[command].params if each.name != "help"}
    table = {row[0]: (option, row) for option, row in SIGNATURES[command].items() if option.startswith("-")}
    names = {*table, *(("targets",) if command == "read" else SIGNATURES[command]["arguments"])}
    assert names == parameters.keys() - {"root", "workspace"}
    for name, (option, (_, kind, default)) in table.items():
        full = parameters[name]
        assert option in full.opts
        assert full.default == default or (kind == LIST and not full.default)
        assert full.multiple == (kind == LIST)
        assert full.is_flag == (kind == FLAG)
        if isinstance(kind, tuple) and isinstance(kind[0], str):
            assert tuple(full.type_descriptor.choices) == kind
        elif isinstance(kind, tuple):
            assert (full.min, full.max) == kind


@pytest.mark.parametrize(
    "line",
    [
        "search", "search --help", "search a -n 0", "search a --format nope", "search a -n 99", "search a -n x", "search a --nope",
        "search a --json=1", "search a -w team", "search a --number 3", "search a -n", "search a --kind --json",
        "call", "call a b c", "read", "trace a --depth 5", "context a --budget 1", "status", "--version", "",
        "search -- -a", "search a -n3", "search a --lim 3",
    ],
)  # fmt: skip
def test_what_is_not_plain_is_left_to_the_full_program(line: str) -> None:
    assert parse_command(line.split()) is None


@pytest.mark.parametrize(
    ("line", "command", "options"),
    [
        (
            "search a -n 3 --lang python --lang go --json",
            "search",
            {"query": "a", "limit": 3, "lang": ["python", "go"], "as_json": True},
        ),
        (
            "search where is a -l --format lines",
            "search",
            {"query": "where is a", "only_paths": True, "format": "lines"},
        ),
        ("context fix the retry --budget 900", "context", {"task": "fix the retry", "budget": 900}),
        ("trace a -n 3 --json", "trace", {"target": "a", "limit": 3, "as_json": True}),
        ("search --exclude=tests/** a", "search", {"query": "a", "exclude": ["tests/**"], "why": False}),
        ("symbol --path src main", "symbol", {"name": "main", "path": "src", "limit": 20}),
        ("call tool -", "call", {"tool": "tool", "arguments": "-"}),
        ("call tool", "call", {"tool": "tool", "arguments": "{}"}),
        ("read a b:1-2", "read", {"targets": ["a", "b:1-2"], "as_json": False}),
    ],
)
def test_a_plain_line_is_read(line: str, command: str, options: dict[str, Any]) -> None:
    parsed = parse_command(line.split())
    assert parsed
    assert parsed[0] == command
    assert parsed[2] | options == parsed[2]


def test_the_root_is_read_for_every_command() -> None:
    for command in SIGNATURES:
        assert parse_command([command, "x", "--root", "/tmp"])[1] == "/tmp"  # ty: ignore[not-subscriptable]


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
