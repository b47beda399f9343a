"""Every tool call, over MCP or from the terminal: admit, run, report errors, redact, measure, write one log line.

`call_tool` is resolved here, so that the tool that it calls passes the same checks under its own name. The dispatcher
knows nothing of the protocol, and nothing of tokens: a team derives its own.
"""

from __future__ import annotations

import math
import re
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from context_engine import tools
from context_engine.context import ShownLines, ShownLinesBySession, Workspace
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
from context_engine.secrets import RedactedText, collect_redactions, redact_reply
from context_engine.server.gain_store import GainStore
from context_engine.server.metrics import Metrics
from context_engine.server.profiles import (
    ALIASES,
    EVERY_PROJECT,
    KNOWN_NAMES,
    MULTI_PROJECT_TOOLS,
    ToolSelection,
    find_forbidding_option,
)
from context_engine.server.rate_limits import RateLimiter, parse_rates, slow_after_s
from context_engine.server.server_log import Log, discard_line
from context_engine.text import compact_json, format_count
from context_engine.tools import (
    ASK_MANIFEST,
    Call,
    Reader,
    Reply,
    Tool,
    call_tool,
    count_fitting,
    parse_json_text,
    reply_size,
    resolve_call,
    to_snake_case,
)

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.multi_repo import MultiRepo
    from context_engine.search import ServedChunks
    from context_engine.settings import Settings

REPLY_CHARS_MAX = 36_000
"""The limit until the settings of an open Engine set another."""
REPORT = "This is a defect of ours; the log on stderr has the details worth reporting."
MESSAGE_CHARS_MAX = 500
"""The length of the message of an error that is too long to be sent as it is."""
_ADVICE = re.compile(r'"(?:next|suggestion)":"(?:[^"\\]|\\.)*"|\nnext: .*\Z')
"""Advice on the next call: fields of a reply, in which the content of files is escaped; the last line of a text."""
_TOOL_NAME = re.compile(r"\w+")
PATH_ARGUMENTS = frozenset({"path", "file_path", "root_path", "items", "paths"})
"""Arguments that are one path of a project, or several."""


class RemoteCatalog(Protocol):
    """Repositories that are searched without a copy on this machine; a team has them in its database."""

    settings: Settings

    def is_named_by(self, project: str) -> bool:
        """Return whether a project is one of them."""

    def open(self, project: str, tool: str, sees: Callable[[str, str], bool]) -> Workspace:
        """Return those that a project names, as far as the caller sees them. Raises: InvalidArgument."""


class CallResult(NamedTuple):
    """The reply to send, and its error if there was one."""

    reply: Reply
    error: ContextEngineError | None = None


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """A call with its tool and project; `via` is `call_tool` for a call that came through it."""

    tool: Tool
    name: str
    arguments: Any
    project: str = ""
    via: str = ""


def single_engine(engine: Engine) -> Callable[[str], Engine]:
    """Return the `engine` argument of a dispatcher for one workspace, which refuses other project names."""

    def find_engine(project: str) -> Engine:
        if project not in ("", engine.root.name):
            raise InvalidArgument(
                f"no project is called {project[:MESSAGE_CHARS_MAX]!r}",
                suggestion=f"Only {engine.root.name} is open: leave project out.",
                details={"argument": "project", "valid": [engine.root.name]},
            )
        return engine

    return find_engine


class ToolDispatcher:
    """The entry to the tools. Thread-safe.

    `engine` returns the Engine of a project ("": the only one), or raises the reason why it is not open. `redact` is
    applied to every outgoing text. `chunks` returns the served folder of chunk files, if there is one. `project_names`
    are the projects that exist for the callers; some tools search all of these at once. `remote` has the repositories
    of a database. `gain` counts what calls cost. `shown` returns the lines that a connection was shown of a workspace.
    """

    def __init__(
        self,
        engine: Callable[[str], Engine],
        *,
        selection: ToolSelection = ToolSelection(),  # noqa: B008 - a value that cannot change
        log: Log = discard_line,
        redact: Callable[[str], RedactedText] = redact_reply,
        chunks: Callable[[], ServedChunks] | None = None,
        clock: Callable[[], float] = time.monotonic,
        metrics: Metrics | None = None,
        project_names: Callable[[], Sequence[str]] = tuple,
        gain: GainStore | None = None,
        remote: RemoteCatalog | None = None,
        shown: Callable[[str, str], ShownLines] | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self.gain = gain or GainStore()
        self.selection = selection
        documents: Reader = "documents" if "seeds" in selection.profiles else "agent"
        self._reader: Reader = "program" if selection.structured else documents
        self.log = log
        self.chunks = chunks
        self.remote = remote
        self.clock = clock
        self._engine = engine
        self.project_names = project_names
        self._across: MultiRepo | None = None
        self._limits: RateLimiter | None = None  # those of the first settings
        self._redact = redact
        self._lock = threading.Lock()
        self._shown = shown or ShownLinesBySession().get
        self._chars_max = REPLY_CHARS_MAX
        self._logs_arguments = False
        self._listed = frozenset(filter(selection.lists, (*tools.list_names(), *ALIASES)))
        listed = ((own, alias) for alias, own in ALIASES.items() if alias in self._listed and own not in self._listed)
        self._renamed = dict(listed)

    # -- what a team decides by the token of the caller --

    def find_obstacle(self, tool: Tool) -> str:
        """Return the reason why a tool is off for every call; empty if it is not."""
        return find_forbidding_option(self.selection, tool)

    def check_caller(self, tool: Tool) -> None:
        """Refuse a tool to this caller. Raises: AccessDenied, RateLimited."""

    def sees(self, name: str, path: str) -> bool:  # noqa: ARG002 - a team looks at them
        """Return whether a project exists for the caller."""
        return True

    @cached_property
    def forbidden(self) -> Mapping[str, str]:
        """The tools that are off, each with the option or role that forbids it."""
        if type(self) is ToolDispatcher and not self.selection.exclude and not self.selection.read_only:
            return {}  # nothing can be, and the modules of the tools need not be imported
        options = {tool.name: self.find_obstacle(tool) for tool in tools.ALL}
        return {name: option for name, option in options.items() if option}

    # -- one call --

    def call(self, name: str, arguments: Any, call: Call) -> CallResult:
        """Run one call to its end. Errors of the tool or its caller are in the result."""
        call = replace(call, reader=call.reader or self._reader)
        with collect_redactions():
            started = self.clock()
            resolved = None
            try:
                resolved = parse_call(name, arguments)
                outcome = CallResult(self._run(resolved, call))
            except ContextEngineError as error:
                if isinstance(error, Cancelled) and call.cancel in self.gain.canceled:
                    error = Cancelled(
                        "a person canceled this call in `ctx ui`", suggestion="Ask before you call it again."
                    )
                outcome = _error_result(error, resolved.tool if resolved else None)
            except Exception as error:  # noqa: BLE001 - the server must outlive a bug in any tool, and report it
                metric = _metric_name(resolved, name)
                self.log({"event": "bug", "tool": metric, "trace": self.redact(traceback.format_exc(), metric)})
                bug = BugError(f"{metric} failed: {type(error).__name__}: {error}", suggestion=REPORT)
                outcome = _error_result(bug, resolved.tool if resolved else None)
            metric = _metric_name(resolved, name)
            try:
                outcome = self._finish_reply(outcome, metric)
            except Exception as error:  # noqa: BLE001 - what cannot be redacted must not leave
                trace = "".join(traceback.format_tb(error.__traceback__))  # its message may contain secrets
                self.log({"event": "bug", "tool": metric, "trace": trace})
                bug = BugError("the reply is held back: it could not be searched for secrets", suggestion=REPORT)
                outcome = CallResult(tools.failure(bug), bug)
            if outcome.error and call.is_brief:
                outcome = outcome._replace(reply=Reply(tools.format_reply(outcome.reply.text), is_error=True))
            self._record_call(outcome, resolved, metric, (self.clock() - started) * 1_000, arguments, call)
            return outcome

    def show_running(self, name: str, arguments: Any, call: Call, state: str) -> None:
        """Show `ctx ui` a call that is running in some state, or that has ended; a person may cancel it there."""
        with suppress(ContextEngineError):
            resolved = parse_call(name, arguments)
            project, given = resolved.project, resolved.arguments
            self.gain.show_running(call, resolved.tool.name, state, project=project, arguments=given)

    def engine(self, project: str = "") -> Engine:
        """Return the open Engine of a project. Raises: the reason why it is not open."""
        engine = self._engine(project)
        self._use_settings(engine.settings)
        self.gain.note_engine(project, engine)
        return engine

    def redact(self, text: str, sender: str = "(other)") -> str:
        """Return a text that may leave: secrets are redacted and counted, and lone surrogates are replaced."""
        return self._redact_and_count(text, sender).text

    def _run(self, resolved: ResolvedCall, call: Call) -> Reply:
        """Run a call if it is admitted. Raises: ContextEngineError, and any exception of a bug."""
        for name in filter(None, (resolved.tool.name, resolved.name, resolved.via)):
            if option := find_forbidding_option(self.selection, resolved.tool, name):
                raise AccessDenied(
                    f"{name} is switched off: the server was started with {option}",
                    suggestion=ASK_MANIFEST,
                    details={"tool": name, "option": option},
                )
        self.check_caller(resolved.tool)
        if call.cancel.is_set():
            raise Cancelled("cancelled before it began")
        resolved = _infer_project_from_path(resolved, self.project_names())
        engine = self._target_of(resolved)
        limits, tool = self._limits, resolved.tool.name
        assert limits is not None, "an Engine was opened before"
        with self._lock:
            wait_s = limits.wait_s(tool, self.clock())
        if wait_s:
            raise rate_limit_error(resolved.name, limits.per_minute[tool], wait_s, {"tool": resolved.name})
        place = str(getattr(engine, "root", resolved.project))
        known = replace(
            call,
            metrics=self.metrics.rows,
            chunks=self.chunks,
            listed=self._listed,
            disabled=self.forbidden,
            shown=self._shown(call.connection if engine.settings.session_memory else "", place),
        )
        return resolved.tool.call(engine, resolved.arguments, known)

    def _target_of(self, call: ResolvedCall) -> Workspace:
        """Return the engine of the project that a call names, or of all projects if the tool can search several."""
        project, tool = call.project, call.tool
        if self.remote is not None and self.remote.is_named_by(project):
            remote = self.remote.open(project, tool.name, self.sees)
            self._use_settings(self.remote.settings)
            return remote
        if tool.name in MULTI_PROJECT_TOOLS and project in ("", EVERY_PROJECT):
            names = self.project_names()
            if len(names) >= 2:
                return self._open_together(names)
            project = ""
        engine = self.engine(project)
        if tool.touches in ("files", "records") and engine.is_clone:  # its next update would overwrite the change
            raise AccessDenied(
                f"this repository is a clone that only follows its remote, and {tool.name} would change it",
                suggestion="Change it where you work on it, in a project of your own.",
                details={"tool": tool.name},
            )
        return engine

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

    def _use_settings(self, settings: Settings) -> None:
        """Limit replies and calls as the settings say; the rates are those of the first ones."""
        with self._lock:
            self._chars_max = settings.result_chars_max
            self._logs_arguments = settings.log_level == "debug"
            if self._limits is not None:
                return
            stated = parse_rates(settings.rate_limits_per_minute)
            for name in sorted(stated.keys() - {*KNOWN_NAMES, *tools.list_names()}):
                self.log({"event": "settings", "ok": False, "why": f"rate_limits_per_minute: no tool is called {name}"})
            rates = {ALIASES.get(name, name): rate for name, rate in stated.items()}
            self._limits = RateLimiter(rates, burst_minutes=settings.rate_burst_minutes)

    # -- the end of a call --

    def _redact_and_count(self, text: str, sender: str) -> RedactedText:
        redacted = self._redact(text.encode("utf-8", "replace").decode("utf-8"))
        if redacted.count:
            self.metrics.add_redacted(sender, redacted.count)
        return redacted

    def _finish_reply(self, outcome: CallResult, sender: str) -> CallResult:
        """Return the outcome as it leaves: redacted, and within the limit of a reply, which tools keep themselves."""
        text, error = outcome.reply.text, outcome.error
        if self._renamed:
            text = _ADVICE.sub(lambda advice: _TOOL_NAME.sub(self._use_listed_name, advice[0]), text)
        text = _append_count(self._redact_and_count(text, sender))
        size = reply_size(text)
        if size <= self._chars_max:
            return CallResult(replace(outcome.reply, text=text), error)
        if error:
            error = self._shorten_error(error, sender)
        else:
            error = TooLarge(
                f"the reply has {size:,} characters, at most {self._chars_max:,} are sent",
                suggestion="Ask for less: fewer results, a narrower path, a line range.",
            )
        return CallResult(Reply(self.redact(tools.failure(error).text, sender), is_error=True), error)

    def _use_listed_name(self, found: re.Match[str]) -> str:
        """Return the name under which a client sees a tool that an advice names."""
        return self._renamed.get(found[0], found[0])

    def _shorten_error(self, error: ContextEngineError, sender: str) -> ContextEngineError:
        """Return the same error with texts that are redacted, then cut, and as many of its failed edits as fit."""
        kept = ("edit", "path", "code", "message")
        failed = [{key: row[key] for key in kept if key in row} for row in error.details.get("failed", ())]
        count = count_fitting(map(compact_json, failed), chars_max=self._chars_max - 4 * MESSAGE_CHARS_MAX)
        details = {"failed": failed[:count]} if count else {}
        message = self.redact(error.message, sender)[:MESSAGE_CHARS_MAX]
        suggestion = self.redact(error.suggestion, sender)[:MESSAGE_CHARS_MAX]
        return type(error)(message, suggestion=suggestion, details=details)

    def _record_call(
        self, outcome: CallResult, resolved: ResolvedCall | None, tool: str, ms: float, arguments: Any, call: Call
    ) -> None:
        """Count the call and write its line."""
        code, reply = outcome.error.code if outcome.error else "", outcome.reply
        project = resolved.project if resolved else ""
        if resolved:
            arguments = resolved.arguments
        slow = bool(resolved) and ms > 1_000 * slow_after_s(tool, with_dependencies=_asks_for_dependencies(arguments))
        self.metrics.add(tool, ms, code, slow=slow)
        name = resolved.name if resolved else tool
        line = {"event": "call", "tool": name, "ms": round(ms, 2), "ok": not code, "chars": len(reply.text)}
        optional = {"error": code, "slow": slow, "project": project, "via": resolved and resolved.via}
        if self._logs_arguments:
            shown = self.redact(compact_json(arguments), tool)[:MESSAGE_CHARS_MAX]
            optional |= {"session": call.session, "arguments": shown}
        self.log(line | {key: value for key, value in optional.items() if value})
        self.gain.record(call, tool, reply, project=project, arguments=arguments, ms=ms, error=code)


def parse_call(name: str, arguments: Any) -> ResolvedCall:
    """Return the tool, project and arguments of a call. Raises: UnknownTool, InvalidArgument."""
    tool = tools.find(name)
    given, project = _split_project(arguments)
    if tool.name != call_tool.name:
        return ResolvedCall(tool, name, given, project)
    inner, given = resolve_call(given)
    given, own = _split_project(given)
    return ResolvedCall(inner, inner.name, given, own or project, via=tool.name)


def may_write(call: Mapping[str, Any]) -> bool:
    """Return whether a call of a tool may change anything; one that would be refused does not."""
    try:
        return not parse_call(call.get("name", ""), call.get("arguments")).tool.hints.read_only
    except (ContextEngineError, TypeError):
        return False


def rate_limit_error(what: str, per_minute: int, wait_s: float, details: Mapping[str, Any]) -> RateLimited:
    """Create the error of an exceeded rate, with the time to wait."""
    retry_after_s = math.ceil(wait_s)
    return RateLimited(
        f"{what} was called too often: its limit is {per_minute} calls a minute in the long run",
        suggestion=f"Wait {retry_after_s} s, then call it again.",
        details={**details, "retry_after_s": retry_after_s, "per_minute": per_minute},
    )


def _split_project(arguments: Any) -> tuple[Any, str]:
    """Return the arguments without `project`, which no tool takes itself, and the project."""
    if isinstance(arguments, str):
        arguments = parse_json_text(arguments)
    if not isinstance(arguments, Mapping) or "project" not in arguments:
        return arguments, ""
    project = arguments["project"]
    if not isinstance(project, str | None):
        raise InvalidArgument("project must be the name of a project", details={"argument": "project"})
    return {key: value for key, value in arguments.items() if key != "project"}, project or ""


def _infer_project_from_path(call: ResolvedCall, names: Sequence[str]) -> ResolvedCall:
    """Take the project from a path such as `web:src/app.py`, as replies about several projects write it."""
    given = call.arguments
    if call.project or len(names) < 2 or call.tool.name in MULTI_PROJECT_TOOLS or not isinstance(given, Mapping):
        return call
    for key, value in given.items():
        paths = value if isinstance(value, list) else [value]
        if to_snake_case(str(key)) not in PATH_ARGUMENTS or not all(isinstance(path, str) for path in paths):
            continue
        parts = [path.partition(":") for path in paths]
        if len({name for name, _, _ in parts}) == 1 and parts[0][1] and parts[0][0] in names:
            rest = [after or "." for _, _, after in parts]
            inner = rest if isinstance(value, list) else rest[0]
            return replace(call, arguments={**given, key: inner}, project=parts[0][0])
    return call


def _asks_for_dependencies(arguments: Any) -> bool:
    """Return whether a call that reads a file asks for the imports of the file, too."""
    given = arguments if isinstance(arguments, Mapping) else {}
    values = [value for key, value in given.items() if to_snake_case(str(key)) == "include_deps"]
    return any(value not in (False, None, "false") for value in values)


def _metric_name(call: ResolvedCall | None, name: str) -> str:
    """Return the name of the tool itself; all unknown names share one, so that metrics cannot grow without end."""
    if call:
        return call.tool.name
    try:
        return tools.find(name).name
    except ContextEngineError:
        return "(unknown)"


def _append_count(redacted: RedactedText) -> str:
    """Return the text with the number of redacted secrets; JSON stays JSON."""
    if not redacted.count:
        return redacted.text
    if redacted.text.startswith('{"'):
        return f'{{"masked":{redacted.count},{redacted.text[1:]}'
    return f"{redacted.text}\n… {format_count(redacted.count, 'secret')} masked"


def _error_result(error: ContextEngineError, tool: Tool | None) -> CallResult:
    """Return the result of an error; where a repeated call would fail too, it names a tool that works differently."""
    if tool and tool.instead and not isinstance(error, CallError):
        next_steps = (*error.next_steps, NextStep(tool.instead, "meanwhile: it works in another way"))
        error = type(error)(error.message, suggestion=error.advice, next_steps=next_steps, details=error.details)
    return CallResult(tools.failure(error, tool.error_fields if tool else {}), error)
