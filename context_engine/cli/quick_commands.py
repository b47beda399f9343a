"""`ctx search`, `symbol`, `trace`, `why`, `context`, `read` and `call` without their imports: the daemon answers.

This reads the plain forms of their command lines. It returns None for everything else - `--help`, a mistake,
`--workspace` - and the full program takes over. Without a daemon the command runs here, and starts one for the
next. Only a small part of the standard library is imported before the answer; a test checks that.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter

from context_engine.cli.global_options import VERBOSE
from context_engine.daemon import ask_daemon, is_switched_off, start_daemon

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

ANSWER_S = 60.0
"""Longer than any answer takes; then the command runs in this process."""
STDIN_BYTES_MAX = 10_000_000
TERMINAL_VARIABLES = (
    *("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"),
    *("UNICODE_VERSION", "CTX_QUIET"),
)
"""Variables that Rich reads, and that of --quiet."""
ALIASES = {"-n": "--limit", "-d": "--direction", "-l": "--files-with-matches"}
LIST, FLAG, TEXT = "list", "flag", "text"
SIGNATURES: Mapping[str, Any] = {
    "search": {
        "arguments": ("query",),
        "--limit": ("limit", (1, 50), 10),
        "--kind": ("kind", LIST, None),
        "--tag": ("tag", LIST, None),
        "--lang": ("lang", LIST, None),
        "--include": ("include", LIST, None),
        "--exclude": ("exclude", LIST, None),
        "--json": ("as_json", FLAG, False),
        "--why": ("why", FLAG, False),
        "--files-with-matches": ("only_paths", FLAG, False),
        "--format": ("format", ("text", "lines", "vimgrep"), "text"),
    },
    "symbol": {
        "arguments": ("name",),
        "--kind": ("kind", TEXT, ""),
        "--path": ("path", TEXT, ""),
        "--limit": ("limit", (1, 200), 20),
        "--json": ("as_json", FLAG, False),
    },
    "trace": {
        "arguments": ("target",),
        "--direction": ("direction", TEXT, "callers"),
        "--depth": ("depth", (0, 4), 0),
        "--limit": ("limit", (1, 200), 100),
        "--possible": ("possible", FLAG, False),
        "--json": ("as_json", FLAG, False),
    },
    "why": {
        "arguments": ("target",),
        "--json": ("as_json", FLAG, False),
    },
    "context": {
        "arguments": ("task",),
        "--limit": ("limit", (1, 20), 5),
        "--budget": ("budget", (500, 100_000), 8_000),
        "--json": ("as_json", FLAG, False),
    },
    "read": {"arguments": ("targets",), "--json": ("as_json", FLAG, False)},
    "call": {"arguments": ("tool", "arguments")},
}
"""Command -> its arguments, and option -> (parameter, kind, limits or words, default), as in the full program."""
JOINED = ("search", "context")
"""Commands whose argument is a question: it needs no quotes."""


def run_quickly(argv: Sequence[str], env: Mapping[str, str]) -> int | None:
    """Run a query command and return its exit code; None for what the full program must read."""
    parsed = parse_command(argv)
    if parsed is None or env.get("CTX_DEBUG"):
        return None
    command, root, options = parsed
    if options.get("arguments") == "-":
        options["arguments"] = sys.stdin.read(STDIN_BYTES_MAX)
    began_s = perf_counter()
    answer = _ask(command, root, options, env)
    if answer is not None and _show(answer):
        if env.get(VERBOSE):
            sys.stderr.write(f"answered by the daemon in {perf_counter() - began_s:.3f} s\n")
        return answer["code"]
    from pathlib import Path

    from context_engine.cli.command_runner import run_to_exit_code
    from context_engine.cli.query_commands import run_query

    code = run_to_exit_code(lambda: run_query(command, Path(root) if root else None, options))
    if answer is None:
        start_daemon(env)
    return code


def parse_command(argv: Sequence[str]) -> tuple[str, str, dict[str, Any]] | None:
    """Return the command, its root and its options, or None where the full program must read the line.

    >>> parse_command(["why", "src/a.py", "--json"])
    ('why', '', {'as_json': True, 'target': 'src/a.py'})
    >>> parse_command(["trace", "main", "--depth", "9"]), parse_command(["trace", "--help"])
    (None, None)
    """
    if not argv or argv[0] not in SIGNATURES:
        return None
    signature = SIGNATURES[argv[0]]
    options = {name: default for key, (name, _, default) in _options(signature).items()}
    given: list[str] = []
    root = ""
    words = iter(argv[1:])
    for word in words:
        if word == "-" or not word.startswith("-"):
            given.append(word)
            continue
        name, equals, value = word.partition("=")
        name = ALIASES.get(name, name) if not equals else name
        if name != "--root" and name not in _options(signature):
            return None
        kind = TEXT if name == "--root" else signature[name][1]
        if kind != FLAG and not equals:
            value = next(words, "-")
        if (kind == FLAG and equals) or value.startswith("-"):
            return None
        if name == "--root":
            root = value
        elif not _set_option(options, signature[name], value):
            return None
    return _with_arguments(argv[0], root, options, given)


def _options(signature: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: row for key, row in signature.items() if key.startswith("-")}


def _set_option(options: dict[str, Any], row: tuple[str, Any, Any], value: str) -> bool:
    """Set one option; return False for a value that the full program must judge."""
    name, kind, _ = row
    if kind == LIST:
        options[name] = [*(options[name] or ()), value]
    elif isinstance(kind, tuple) and isinstance(kind[0], str):
        if value not in kind:
            return False
        options[name] = value
    elif isinstance(kind, tuple):
        if not value.isdecimal() or not value.isascii() or not kind[0] <= int(value[:9]) <= kind[1]:
            return False
        options[name] = int(value[:9])
    else:
        options[name] = True if kind == FLAG else value
    return True


def _with_arguments(
    command: str, root: str, options: dict[str, Any], given: list[str]
) -> tuple[str, str, dict[str, Any]] | None:
    names = SIGNATURES[command]["arguments"]
    if not given or not all(given):
        return None
    if command == "read":
        return command, root, options | {"targets": given}
    if command in JOINED:
        given = [" ".join(given)]
    if command == "call":
        given = [*given, "{}"][:2] if len(given) < 2 else given
    if len(given) != len(names):
        return None
    return command, root, options | dict(zip(names, given, strict=True))


# -- the daemon -------------------------------------------------------------------------------------------------------


def _ask(command: str, root: str, options: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the answer of the daemon; None without one."""
    if is_switched_off(env):
        return None
    try:
        folder = os.getcwd()
    except OSError:
        return None
    request = {
        "kind": "query",
        "command": command,
        "root": root or env.get("CTX_ROOT", "").strip(),
        "folder": folder,
        "options": options,
        "terminals": {"out": _is_terminal(sys.stdout), "err": _is_terminal(sys.stderr)},
        "env": _terminal_environment(env),
    }
    return ask_daemon(request, ANSWER_S, env=env)


def _is_terminal(stream: Any) -> bool:
    return stream is not None and stream.isatty()


def _terminal_environment(env: Mapping[str, str]) -> dict[str, str]:
    shown = {name: env[name] for name in TERMINAL_VARIABLES if name in env}
    for descriptor in (0, 1, 2):
        try:
            size = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if not size.columns:  # a terminal that was never shown, as that of a compile buffer in an editor
            continue
        return {"COLUMNS": str(size.columns), "LINES": str(size.lines)} | shown
    return shown


def _show(answer: Mapping[str, Any]) -> bool:
    """Write an answer; return False when it is not one, or this terminal cannot show it as it is."""
    out, err, code = answer.get("out"), answer.get("err"), answer.get("code")
    if not isinstance(out, str) or not isinstance(err, str) or not isinstance(code, int):
        return False
    try:
        out.encode(sys.stdout.encoding)
        err.encode(sys.stderr.encoding)
    except (UnicodeEncodeError, AttributeError):  # the full program escapes what the encoding lacks
        return False
    try:
        sys.stderr.write(err)
        sys.stderr.flush()
        sys.stdout.write(out)
        sys.stdout.flush()
    except BrokenPipeError:
        from context_engine.cli.command_runner import ignore_broken_pipe

        raise SystemExit(ignore_broken_pipe()) from None
    return True
