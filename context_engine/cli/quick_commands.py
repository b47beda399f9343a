"""The commands that only ask (`QUERIES`), without their imports: the daemon answers.

The daemon reads the command line. It declines what must run at the terminal - a mistake, `--help`, a first index, a
call that may write - and without a daemon, or after that, the full program runs. Only a small part of the standard
library is imported before the answer; a test checks that.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter

from context_engine.cli.global_options import VERBOSE
from context_engine.daemon import ask_daemon, is_switched_off, start_daemon

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

ANSWER_S = 60.0
"""Longer than any answer takes; then the command runs in this process."""
TERMINAL_VARIABLES = (
    *("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"),
    *("UNICODE_VERSION", "CTX_QUIET"),
)
"""Variables that Rich reads, and that of --quiet."""
QUERIES = frozenset(("search", "symbol", "trace", "why", "context", "read", "status", "history", "call"))
HELP = frozenset(("--help", "-h"))


def run_quickly(argv: Sequence[str], env: Mapping[str, str], run_here: Callable[[], int]) -> int:
    """Have the daemon run a query command, or run it here and start one for the next; return the exit code."""
    is_query = bool(argv) and argv[0] in QUERIES and not HELP.intersection(argv)
    if not is_query or env.get("CTX_DEBUG") or "_CTX_COMPLETE" in env or is_switched_off(env):
        return run_here()
    began_s = perf_counter()
    answer = _ask(argv, env)
    if answer is not None and _show(answer):
        if env.get(VERBOSE):
            sys.stderr.write(f"answered by the daemon in {perf_counter() - began_s:.3f} s\n")
        return answer["code"]
    code = run_here()
    if answer is None:
        start_daemon(env)
    return code


def _ask(argv: Sequence[str], env: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the answer of the daemon; None without one."""
    try:
        folder = os.getcwd()
    except OSError:
        return None
    request = {
        "kind": "query",
        "words": list(argv),
        "root": env.get("CTX_ROOT", "").strip(),
        "folder": folder,
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
    texts, streams = answer.get("texts"), {"out": sys.stdout, "err": sys.stderr}
    if not isinstance(texts, list) or not isinstance(answer.get("code"), int):
        return False
    try:
        for name, text in texts:
            text.encode(streams[name].encoding)
    except (UnicodeEncodeError, AttributeError):  # the full program escapes what the encoding lacks
        return False
    try:
        for name, text in texts:
            streams[name].write(text)
            streams[name].flush()
    except BrokenPipeError:
        from context_engine.cli.command_runner import ignore_broken_pipe

        raise SystemExit(ignore_broken_pipe()) from None
    return True
