"""Every tool call, over MCP or from the terminal: admit, run, report errors, redact, measure, write one log line.

A call is admitted when its tool is not switched off, was not called too often, and nobody has cancelled it. `call_tool`
is opened here, so that what it reaches passes the same checks under its own name. The dispatcher knows nothing of the
protocol.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from context_engine import tools
from context_engine.errors import (
    AccessDenied,
    BugError,
    CallError,
    Cancelled,
    ContextEngineError,
    InvalidArgument,
    NextStep,
    RateLimited,
    TooLarge,
)
from context_engine.secrets import RedactedText
from context_engine.secrets.masked_text import collect_redactions, redact_reply
from context_engine.server.grants import OWNER, Grant, forbids, required_role
from context_engine.server.metrics import Metrics
from context_engine.server.profiles import (
    EVERY_PROJECT,
    MULTI_PROJECT_TOOLS,
    PROFILES,
    ToolSelection,
    find_forbidding_option,
)
from context_engine.server.rate_limits import RateLimiter, parse_rates, slow_after_s
from context_engine.text import escape_controls
from context_engine.tools import Call, Reply, Tool
from context_engine.tools.arguments import parse_json_text, to_snake_case
from context_engine.tools.catalog_tools import ASK_MANIFEST, call_tool, resolve_call
from context_engine.tools.reply import compact_json, count_fitting, format_count, reply_size

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.multi_repo import MultiRepo
    from context_engine.search.served_chunks import ServedChunks
    from context_engine.settings import Settings

Log = Callable[[dict[str, Any]], None]

REPLY_CHARS_MAX = 36_000
"""Until an Engine is open and its settings say otherwise."""
REPORT = "This is a defect of ours; the log on stderr has the details worth reporting."
MESSAGE_CHARS_MAX = 500
"""Of an error that is too long to be sent as it is."""


PATH_ARGUMENTS = frozenset({"path", "file_path", "root_path"})
"""Arguments that hold one path of a project."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """The reply to send, and its error if there was one."""

    reply: Reply
    error: ContextEngineError | None = None


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """A call taken apart: the tool that is meant, on which project; `via` is the tool it came through, if any."""

    tool: Tool
    name: str
    arguments: Any
    project: str = ""
    via: str = ""


def discard_line(line: dict[str, Any]) -> None:
    """Discard a log line: at the terminal the reply says everything."""


def log_to_stderr(line: dict[str, Any]) -> None:
    """A log that writes one JSON object a line to stderr, in one piece, since threads share it."""
    sys.stderr.write(escape_controls(json.dumps(line, ensure_ascii=False)) + "\n")
    sys.stderr.flush()


def log_failures_to_stderr(line: dict[str, Any]) -> None:
    """A log that keeps only what went wrong, or took too long."""
    if not line.get("ok") or line.get("slow"):
        log_to_stderr(line)


LOGS: dict[str, Log] = {
    "debug": log_to_stderr,
    "info": log_to_stderr,
    "warning": log_failures_to_stderr,
    "error": log_failures_to_stderr,
    "off": discard_line,
}
"""The log of each `log_level`."""


def single_engine(engine: Engine) -> Callable[[str], Engine]:
    """The engines of a dispatcher to one workspace: its name may be given, another one is refused."""

    def named(project: str) -> Engine:
        if project not in ("", engine.root.name):
            raise InvalidArgument(
                f"no project is called {project[:MESSAGE_CHARS_MAX]!r}",
                suggestion=f"Only {engine.root.name} is open: leave project out.",
                details={"argument": "project", "valid": [engine.root.name]},
            )
        return engine

    return named


class ToolDispatcher:
    """The door to the tools. Thread-safe. `engine` gives the Engine of a project ("": the only one), or raises why not.

    `limits` are those of the settings unless they are handed in; `mask` sees every outgoing text; `chunks` gives the
    folder of chunk files that the search for chunks answers from, where one is served. `grant` says what its callers
    may do; `names` are the projects that exist for them, so that what can be asked of several at once is.
    """

    def __init__(
        self,
        engine: Callable[[str], Engine],
        *,
        selection: ToolSelection = ToolSelection(),  # noqa: B008 - a value that cannot change
        log: Log = discard_line,
        limits: RateLimiter | None = None,
        redact: Callable[[str], RedactedText] = redact_reply,
        chunks: Callable[[], ServedChunks] | None = None,
        clock: Callable[[], float] = time.monotonic,
        grant: Grant = OWNER,
        metrics: Metrics | None = None,
        project_names: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.selection = selection
        self.log = log
        self.grant = grant
        self._pace = RateLimiter({grant.name: grant.per_minute}, burst_minutes=1)
        self._engine = engine
        self._names = project_names
        self._across: MultiRepo | None = None
        self._limits = limits
        self._mask = redact
        self._chunks = chunks
        self._clock = clock
        self._lock = threading.Lock()
        self._chars_max = REPLY_CHARS_MAX
        self._listed = frozenset(each.name for each in tools.ALL if selection.lists(each.name))
        self.forbidden: Mapping[str, str] = {
            each.name: option for each in tools.ALL if (option := self._find_forbidding_option(each, each.name))
        }

    def for_grant(
        self,
        engine: Callable[[str], Engine],
        grant: Grant,
        *,
        log: Log,
        metrics: Metrics,
        project_names: Callable[[], Sequence[str]] = tuple,
    ) -> ToolDispatcher:
        """A dispatcher of the same server for the holder of a token: with the projects, role, rates, log and counts of his own.

        The folder of chunk files belongs to no project, so it is there for those alone from whom no project is hidden.
        """
        return ToolDispatcher(
            engine,
            selection=self.selection,
            log=log,
            redact=self._mask,
            chunks=self._chunks if grant.sees_all else None,
            clock=self._clock,
            grant=grant,
            metrics=metrics,
            project_names=project_names,
        )

    def call(self, name: str, arguments: Any, call: Call) -> CallResult:
        """Run one call to its end. Never raises for what a tool or its caller did wrong."""
        with collect_redactions():
            return self._call(name, arguments, call)

    def _call(self, name: str, arguments: Any, call: Call) -> CallResult:
        started = self._clock()
        asked = None
        try:
            asked = parse_call(name, arguments)
            outcome = CallResult(self._run(asked, call))
        except ContextEngineError as error:
            outcome = _error_result(error, asked.tool if asked else None)
        except Exception as error:  # noqa: BLE001 - the server must outlive a bug in any tool, and say so
            outcome = self._report_bug(asked, name, error)
        try:
            outcome = self._finish_reply(outcome, _metric_name(asked, name))
        except Exception:  # noqa: BLE001 - what cannot be masked must not leave
            outcome = self._withhold_reply(_metric_name(asked, name))
        self._record_call(outcome, asked, _metric_name(asked, name), self._clock() - started)
        return outcome

    def engine(self, project: str = "") -> Engine:
        """The open Engine of a project. Raises: whatever keeps it from being open."""
        engine = self._engine(project)
        with self._lock:
            self._chars_max = engine.settings.result_chars_max
            if self._limits is None:
                self._limits = self._limits_from_settings(engine.settings)
        return engine

    def _target_of(self, asked: ResolvedCall) -> Engine | MultiRepo:
        """Return the engine of the project that a call names, or of all projects if the tool can search several."""
        names = self._names() if asked.tool.name in MULTI_PROJECT_TOOLS and asked.project in ("", EVERY_PROJECT) else ()
        if len(names) < 2:
            engine = self.engine(
                "" if asked.project == EVERY_PROJECT and asked.tool.name in MULTI_PROJECT_TOOLS else asked.project
            )
            _refuse_clone(engine, asked.tool)
            return engine
        return self._open_together(names)

    def _open_together(self, names: Sequence[str]) -> MultiRepo:
        """Open the projects as one engine, whose answers name those that failed.

        Raises: ContextEngineError when all failed.
        """
        from context_engine.multi_repo import MultiRepo

        engines: dict[str, Engine] = {}
        closed: dict[str, ContextEngineError] = {}
        for name in names:
            try:
                engines[name] = self.engine(name)
            except ContextEngineError as error:
                closed[name] = error
        if not engines:
            raise next(iter(closed.values()))
        absent = {name: f"not open: {error.message}" for name, error in closed.items()}
        with self._lock:
            if self._across is None or (self._across.engines, self._across.absent) != (engines, absent):
                self._across = MultiRepo(engines, absent)
            return self._across

    def _limits_from_settings(self, settings: Settings) -> RateLimiter:
        stated = parse_rates(settings.rate_limits_per_minute)
        for name in sorted(stated.keys() - {*PROFILES["all"], *(each.name for each in tools.ALL)}):
            self.log({"event": "settings", "ok": False, "why": f"rate_limits_per_minute: no tool is called {name}"})
        return RateLimiter(stated, burst_minutes=settings.rate_burst_minutes)

    def redact(self, text: str, sender: str = "(other)") -> str:
        """A text as it may leave: secrets masked and counted, and no lone surrogates, which no client could decode."""
        return self._redact_and_count(text, sender).text

    def _redact_and_count(self, text: str, sender: str) -> RedactedText:
        masked = self._mask(text.encode("utf-8", "replace").decode("utf-8"))
        if masked.count:
            self.metrics.add_redacted(sender, masked.count)
        return masked

    def _run(self, asked: ResolvedCall, call: Call) -> Reply:
        """The call itself, if it is admitted. Raises: ContextEngineError, and whatever a bug raises."""
        self._refuse_switched_off(asked)
        self._refuse_role(asked.tool)
        if call.cancel.is_set():
            raise Cancelled("cancelled before it began")
        self._refuse_token_too_often()
        asked = _infer_project_from_path(asked, self._names())
        engine = self._target_of(asked)
        self._refuse_too_often(asked.tool.name)
        known = replace(
            call, metrics=self.metrics.rows, chunks=self._chunks, listed=self._listed, disabled=self.forbidden
        )
        return asked.tool.call(engine, asked.arguments, known)

    def _refuse_switched_off(self, asked: ResolvedCall) -> None:
        for name in (asked.tool.name, asked.name, asked.via):
            if option := find_forbidding_option(
                self.selection, name, asked.tool.touches, destructive=asked.tool.hints.destructive
            ):
                raise AccessDenied(
                    f"{name} is switched off: the server was started with {option}",
                    suggestion=ASK_MANIFEST,
                    details={"tool": name, "option": option},
                )

    def _find_forbidding_option(self, tool: Tool, name: str) -> str:
        """Return the reason why a tool is off: an option of the server, or the role of the caller."""
        destructive = tool.hints.destructive
        option = find_forbidding_option(self.selection, name, tool.touches, destructive=destructive)
        beyond = forbids(self.grant.role, tool.touches, destructive=destructive)
        return option or (f"the role {self.grant.role}" if beyond else "")

    def _refuse_role(self, tool: Tool) -> None:
        needed = required_role(tool.touches, destructive=tool.hints.destructive)
        if forbids(self.grant.role, tool.touches, destructive=tool.hints.destructive):
            raise AccessDenied(
                f"{tool.name} needs a token of the role {needed}, and this one is of the role {self.grant.role}",
                suggestion="Ask who runs the server for such a token, or do without the tool.",
                details={"tool": tool.name, "role": self.grant.role, "needs": needed},
            )

    def _refuse_token_too_often(self) -> None:
        with self._lock:
            wait_s = self._pace.wait_s(self.grant.name, self._clock())
        if wait_s:
            raise _rate_limit_error("this token", self.grant.per_minute, wait_s, {"token": self.grant.name})

    def _refuse_too_often(self, tool: str) -> None:
        limits = self._limits
        assert limits is not None, "an Engine was opened before"
        with self._lock:
            wait_s = limits.wait_s(tool, self._clock())
        if wait_s:
            raise _rate_limit_error(tool, limits.per_minute[tool], wait_s, {"tool": tool})

    def _report_bug(self, asked: ResolvedCall | None, name: str, error: Exception) -> CallResult:
        tool = _metric_name(asked, name)
        self.log({"event": "bug", "tool": tool, "trace": self.redact(traceback.format_exc(), tool)})
        bug = BugError(
            f"{tool} failed: {type(error).__name__}: {error}",
            suggestion=REPORT,
        )
        return _error_result(bug, asked.tool if asked else None)

    def _finish_reply(self, outcome: CallResult, sender: str) -> CallResult:
        """The outcome as it leaves: masked, and inside the limit of a reply."""
        error = outcome.error
        text = _append_count(self._redact_and_count(outcome.reply.text, sender))
        if reply_size(text) <= self._chars_max:
            return CallResult(replace(outcome.reply, text=text), error)
        error = self._shorten_error(error, sender) if error else _too_large_error(reply_size(text), self._chars_max)
        return CallResult(Reply(self.redact(tools.failure(error).text, sender), is_error=True), error)

    def _shorten_error(self, error: ContextEngineError, sender: str) -> ContextEngineError:
        """The same error with less to say: of many failures what failed and why, as far as they fit.

        Masked, then cut.
        """

        def cut(text: str) -> str:
            return self.redact(text, sender)[:MESSAGE_CHARS_MAX]

        kept = ("edit", "path", "code", "message")
        failed = [{key: row[key] for key in kept if key in row} for row in error.details.get("failed", ())]
        room = self._chars_max - 4 * MESSAGE_CHARS_MAX
        count = count_fitting(map(compact_json, failed), chars_max=room)
        details = {"failed": failed[:count]} if count else {}
        return type(error)(cut(error.message), suggestion=cut(error.suggestion), details=details)

    def _withhold_reply(self, tool: str) -> CallResult:
        error = sys.exception()
        trace = "".join(
            traceback.format_tb(error.__traceback__ if error else None)
        )  # without its message, which is as unsearched
        self.log({"event": "bug", "tool": tool, "trace": trace})
        bug = BugError("the reply is held back: it could not be searched for secrets", suggestion=REPORT)
        return CallResult(tools.failure(bug), bug)

    def _record_call(self, outcome: CallResult, asked: ResolvedCall | None, tool: str, took_s: float) -> None:
        """Count the call and write its line."""
        code = outcome.error.code if outcome.error else ""
        slow = bool(asked) and took_s > slow_after_s(tool, with_dependencies=_asks_for_dependencies(asked.arguments))
        self.metrics.add(tool, took_s * 1000, code, slow=slow)
        line: dict[str, Any] = {"event": "call", "tool": tool, "ms": round(took_s * 1000, 2), "ok": not code}
        line["chars"] = len(outcome.reply.text)
        told = {"error": code, "slow": slow, "project": asked and asked.project, "via": asked and asked.via}
        self.log(line | {key: value for key, value in told.items() if value})


def parse_call(name: str, arguments: Any) -> ResolvedCall:
    """Which tool is meant, on which project, with what arguments. Raises: UnknownTool, InvalidArgument."""
    tool = tools.find(name)
    given, project = _split_project(arguments)
    if tool is not call_tool:
        return ResolvedCall(tool, name, given, project)
    inner, given = resolve_call(given)
    given, own = _split_project(given)
    return ResolvedCall(inner, inner.name, given, own or project, via=tool.name)


def _split_project(arguments: Any) -> tuple[Any, str]:
    """The arguments without `project`, which no tool takes itself, and the project."""
    arguments = parse_json_text(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(arguments, Mapping) or "project" not in arguments:
        return arguments, ""
    project = arguments["project"]
    if not isinstance(project, str | None):
        raise InvalidArgument("project must be the name of a project", details={"argument": "project"})
    return {key: value for key, value in arguments.items() if key != "project"}, project or ""


def _infer_project_from_path(asked: ResolvedCall, names: Sequence[str]) -> ResolvedCall:
    """Where a path begins with the name of a project, as answers over several write it, that is the project meant."""
    given = asked.arguments
    if asked.project or len(names) < 2 or asked.tool.name in MULTI_PROJECT_TOOLS or not isinstance(given, Mapping):
        return asked
    for key, value in given.items():
        name, between, rest = value.partition(":") if isinstance(value, str) else ("", "", "")
        if between and name in names and to_snake_case(str(key)) in PATH_ARGUMENTS:
            return replace(asked, arguments={**given, key: rest or "."}, project=name)
    return asked


def _refuse_clone(engine: Engine, tool: Tool) -> None:
    """Refuse to write to a clone: the next update would overwrite the change."""
    if tool.touches in ("files", "records") and engine.is_clone:
        raise AccessDenied(
            f"this repository is a clone that only follows its remote, and {tool.name} would change it",
            suggestion="Change it where you work on it, in a project of your own.",
            details={"tool": tool.name},
        )


def _asks_for_dependencies(arguments: Any) -> bool:
    """Whether a call that reads a file asks for what the file imports."""
    given = arguments if isinstance(arguments, Mapping) else {}
    return any(
        value not in (False, None, "false") for key, value in given.items() if to_snake_case(str(key)) == "include_deps"
    )


def _rate_limit_error(what: str, per_minute: int, wait_s: float, details: Mapping[str, Any]) -> RateLimited:
    """Create the error of an exceeded rate, with the time to wait."""
    retry_after_s = math.ceil(wait_s)
    return RateLimited(
        f"{what} was called too often: its limit is {per_minute} calls a minute in the long run",
        suggestion=f"Wait {retry_after_s} s, then call it again.",
        details={**details, "retry_after_s": retry_after_s, "per_minute": per_minute},
    )


def _metric_name(asked: ResolvedCall | None, name: str) -> str:
    """The tool's own name; whatever else a client sends is counted as one, so that metrics cannot grow without end."""
    if asked:
        return asked.tool.name
    try:
        return tools.find(name).name
    except ContextEngineError:
        return "(unknown)"


def _append_count(masked: RedactedText) -> str:
    """The text, and how many secrets are masked in it, where JSON stays JSON."""
    if not masked.count:
        return masked.text
    if masked.text.startswith('{"'):
        return f'{{"masked":{masked.count},{masked.text[1:]}'
    return f"{masked.text}\n… {format_count(masked.count, 'secret')} masked"


def _error_result(error: ContextEngineError, tool: Tool | None) -> CallResult:
    """The outcome of an error; where another call of the same tool would fail too, with a tool that takes another way."""
    if tool and tool.instead and not isinstance(error, CallError):
        next_steps = (*error.next_steps, NextStep(tool.instead, "meanwhile: it works in another way"))
        error = type(error)(error.message, suggestion=error.advice, next_steps=next_steps, details=error.details)
    return CallResult(tools.failure(error, tool.error_fields if tool else {}), error)


def _too_large_error(chars: int, chars_max: int) -> TooLarge:
    """Tools keep the limit themselves; a reply that did not is refused rather than cut by a client in silence."""
    return TooLarge(
        f"the reply has {chars:,} characters, at most {chars_max:,} are sent",
        suggestion="Ask for less: fewer results, a narrower path, a line range.",
    )
