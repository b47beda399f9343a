"""What every tool call passes, over MCP or from the terminal: admit, run, tell errors, mask, measure, write one line.

Two seams stand open: `admit` may refuse a call before it runs (limits, read-only), `mask` sees every outgoing text.
The gate knows nothing of the protocol.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from context_engine import tools
from context_engine.errors import BugError, ContextEngineError, TooLarge
from context_engine.server.metrics import Metrics
from context_engine.tools import Call, Reply

if TYPE_CHECKING:
    from context_engine.engine import Engine

Log = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to send, and the error behind it when there was one."""

    reply: Reply
    error: ContextEngineError | None = None


def silent(line: dict[str, Any]) -> None:
    """A log that keeps nothing: for the terminal, where the reply itself tells all."""


def to_stderr(line: dict[str, Any]) -> None:
    """A log that writes one JSON object a line to stderr."""
    print(json.dumps(line, ensure_ascii=False), file=sys.stderr, flush=True)  # noqa: T201 - the log of the server


def failures_to_stderr(line: dict[str, Any]) -> None:
    """A log that keeps only what went wrong."""
    if not line.get("ok"):
        to_stderr(line)


LOGS: dict[str, Log] = {
    "debug": to_stderr,
    "info": to_stderr,
    "warning": failures_to_stderr,
    "error": failures_to_stderr,
    "off": silent,
}
"""The log of each `log_level`."""


class Gate:
    """The door to the tools. Thread-safe. `engine` gives the Engine when a call needs it, or raises why there is none."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        *,
        log: Log = silent,
        admit: Callable[[str], None] | None = None,
        mask: Callable[[str], str] | None = None,
    ) -> None:
        self.metrics = Metrics()
        self._engine = engine
        self._log = log
        self._admit = admit
        self._mask = mask

    def call(self, name: str, arguments: Any, call: Call) -> Outcome:
        """Run one call to its end. Never raises for what a tool or its caller did wrong."""
        started = time.perf_counter()
        outcome = self._masked(self._attempt(name, arguments, call))
        code = outcome.error.code if outcome.error else ""
        ms = (time.perf_counter() - started) * 1000
        tool = _known_name(name)
        self.metrics.add(tool, ms, code)
        line = {"event": "call", "tool": tool, "ms": round(ms, 2), "ok": not code, "chars": len(outcome.reply.text)}
        self._log(line | ({"error": code} if code else {}))
        return outcome

    def _attempt(self, name: str, arguments: Any, call: Call) -> Outcome:
        """The call, with every error made a reply."""
        try:
            tools.find(name)
            if self._admit:
                self._admit(name)
            engine = self._engine()
            reply = tools.call(engine, name, arguments, Call(call.progress, call.cancel, self.metrics.rows))
            return self._inside_limit(reply, engine.settings.result_chars_max)
        except ContextEngineError as error:
            return Outcome(tools.failure(error), error)
        except Exception as error:  # noqa: BLE001 - the server must outlive a bug in any tool, and say so
            return self._bug(name, error)

    def _inside_limit(self, reply: Reply, chars_max: int) -> Outcome:
        """Tools keep the limit themselves; one that did not is refused rather than cut by a client in silence."""
        if len(reply.text) <= chars_max:
            return Outcome(reply)
        error = TooLarge(
            f"the reply has {len(reply.text):,} characters, at most {chars_max:,} are sent",
            suggestion="Ask for less: fewer results, a narrower path, a line range.",
        )
        return Outcome(tools.failure(error), error)

    def _bug(self, name: str, error: Exception) -> Outcome:
        self._log({"event": "bug", "tool": _known_name(name), "trace": traceback.format_exc()})
        bug = BugError(
            f"{name} failed: {type(error).__name__}: {error}",
            suggestion="This is a defect of ours; the log on stderr has the details worth reporting.",
        )
        return Outcome(tools.failure(bug), bug)

    def _masked(self, outcome: Outcome) -> Outcome:
        """The outgoing text: masked, and free of lone surrogates, which no client could decode."""
        text = outcome.reply.text.encode("utf-8", "replace").decode("utf-8")
        text = self._mask(text) if self._mask else text
        return Outcome(Reply(text, outcome.reply.is_error), outcome.error)


def _known_name(name: str) -> str:
    """The tool's own name; whatever else a client sends is counted as one, so that metrics cannot grow without end."""
    try:
        return tools.find(name).name
    except ContextEngineError:
        return "(unknown)"
