"""The page of `ctx ui`: its server, its projects, and which request is answered by which tool or view.

    GET  (empty), assets/NAME     the page and its files
    POST api/NAME                 what a view shows, as JSON; the body has `project` and the arguments
    POST write/NAME               a change; the server has checked that the page may write

Nothing else can be called through the page. Tools are called through the dispatcher of all clients, so they are
checked, limited and masked in the same way. The calls of the page itself are not recorded.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from context_engine import __version__
from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.server import (
    GainStore,
    PageResponse,
    PageServer,
    Projects,
    ToolDispatcher,
    ToolSelection,
    gain_file,
    read_events,
)
from context_engine.settings import EDITORS, Settings
from context_engine.storage import workspace_id
from context_engine.text import compact_json
from context_engine.tools import Call, find
from context_engine.ui import page_views

if TYPE_CHECKING:
    from context_engine.engine import Engine

Arguments = Mapping[str, Any]
View = Callable[["Engine", Arguments], dict[str, Any]]
MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
READ_TOOLS: Mapping[str, tuple[str, Arguments]] = {
    "explain": ("explain", {"format": "json"}),
    "code": ("read", {}),
    "search": ("search_code", {"format": "json"}),
    "symbols": ("symbols", {}),
    "plans": ("list_plans", {}),
    "plan": ("load_plan", {}),
    "plan-history": ("view_history", {"include_events": True}),
    "plan-difference": ("compare_plan_versions", {}),
    "memories": ("list_memories", {"full": True, "status": "all", "limit": 200}),
}
WRITE_TOOLS = ("add_memory", "update_memory", "delete_memory", "undo_edit", "pause_review", "resume_review")
HELP = {
    **dict.fromkeys(("list_plans", "load_plan", "view_progress"), "Open Plans"),
    "undo_edit": "Open Edits",
    "list_memories": "Open Memories",
    "index_workspace": "Run `ctx index`",
}
"""The place of the page, or the command, in the place of a tool that an error names."""
LABELS = {"modifications": "what to change"}
READ_VIEWS: Mapping[str, View] = {
    "call": page_views.view_call,
    "health": page_views.view_health,
    "graph": page_views.view_graph,
    "edits": page_views.view_edits,
    "edit": page_views.view_edit,
    "review": page_views.view_review,
    "review-session": page_views.view_session,
    "review-sessions": page_views.view_sessions,
    "settings": page_views.view_settings,
}


class LocalPage(PageServer):
    """A page about some projects, `folders` as path -> name; the first one is shown first.

    It only reads unless `may_write`. Decisions about plans are recorded as those of a person if `is_person`, else as
    those of an agent.
    """

    def __init__(self, folders: Mapping[str, str], *, may_write: bool = False, is_person: bool = False) -> None:
        super().__init__(may_write=may_write)
        self._is_person = is_person
        self._settings = Settings.load(next(iter(folders), None))
        # not followed: the page reads the index, and the server next to it keeps the index up to date
        self._projects = Projects(list(folders), log=lambda _line: None, follow=False, given_names=folders)
        self._dispatcher = ToolDispatcher(
            self._projects.engine,
            selection=ToolSelection(profiles=("all",), read_only=not may_write, structured=True),
            gain=GainStore(enabled=False),
        )
        self._assets = {item.name: item.read_bytes() for item in (files("context_engine.ui") / "assets").iterdir()}

    def run(self) -> None:
        """Serve until a signal or `stop`; then close the projects."""
        threading.Thread(target=self._warm_up, name="warming", daemon=True).start()
        try:
            super().run()
        finally:
            self._projects.close()

    def _warm_up(self) -> None:
        """Open the first project before the page asks for it."""
        with suppress(ContextEngineError):  # reported when the page asks
            self._projects.engine(self._projects.names[0]).index.is_available()

    def read_events(self, seen: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the calls of all clients, and lines of logs, that are new to a page, and what is running."""
        return read_events(gain_file(self._settings), seen)

    def answer(self, path: str, arguments: Arguments, *, is_write: bool) -> PageResponse:
        """Answer a request that the server has checked."""
        kind, _, name = path.partition("/")
        if kind in ("", "assets"):
            name = name if kind else "index.html"
            if name not in self._assets:
                return _MISSING
            return PageResponse(self._assets[name], MEDIA_TYPES[name.rpartition(".")[2]])
        given = dict(arguments)
        project = given.pop("project", "")
        try:
            if not isinstance(project, str):
                raise InvalidArgument("project must be the name of a project", details={"argument": "project"})
            if kind == ("write" if is_write else "api"):
                answer = self._write if is_write else self._read
                return PageResponse(answer(name, project, given).encode())
        except KeyError:
            pass  # there is no such view
        except ContextEngineError as error:
            text = compact_json({"error": _describe_for_person(error, READ_TOOLS.get(name, (name,))[0])})
            return PageResponse(self._dispatcher.redact(text).encode(), status=409)
        return _MISSING

    def _read(self, name: str, project: str, arguments: Arguments) -> str:
        """Return the JSON of a view. Raises: KeyError without such a view, the errors of the Engine."""
        if name == "state":
            return compact_json(self._state())
        if name in READ_TOOLS:
            tool, fixed = READ_TOOLS[name]
            return self._call_tool(tool, project, {**arguments, **fixed})
        view = READ_VIEWS[name]
        return self._dispatcher.redact(compact_json(view(self._projects.engine(project), arguments)))

    def _write(self, name: str, project: str, arguments: Arguments) -> str:
        if name in WRITE_TOOLS:
            return self._call_tool(name, project, arguments)
        decide = partial(page_views.decide_plan, is_person=self._is_person)
        view = {"decide": decide, "cancel": page_views.request_cancel}[name]
        return self._dispatcher.redact(compact_json(view(self._projects.engine(project), arguments)))

    def _call_tool(self, tool: str, project: str, arguments: Arguments) -> str:
        """Return the reply of a tool as JSON. Raises: the error of the tool."""
        outcome = self._dispatcher.call(tool, {**arguments, "project": project}, Call())
        if outcome.error:
            raise outcome.error
        return outcome.reply.text

    def _state(self) -> dict[str, Any]:
        """Return what the page needs to begin: the projects, and whether it may write."""
        projects = [
            {"name": name, "path": path, "workspace": workspace_id(Path(path))}
            for name, path in self._projects.paths_by_name.items()
        ]
        state = {"version": __version__, "write": self._may_write, "recording": self._settings.gain}
        return {**state, "projects": projects, "editor": EDITORS[self._settings.editor]}


def _describe_for_person(error: ContextEngineError, tool: str) -> dict[str, Any]:
    """Return an error in the words of the page, which has no names of tools or of their arguments."""
    names = {str(error.details.get("argument") or "argument")}
    with suppress(ContextEngineError):  # another view is not a tool
        names |= {parameter.name for parameter in find(tool).parameters if "_" in parameter.name}
    suggestion = error.format_suggestion(lambda step: f"{HELP[step.tool]} {step.purpose}." if step.tool in HELP else "")

    def reword(found: re.Match[str]) -> str:
        return LABELS.get(found[0], found[0].replace("_", " ")) if found[0] in names else found[0]

    texts = {"message": error.message, "suggestion": suggestion}
    return error.as_dict() | {key: re.sub(r"\w+", reword, text) for key, text in texts.items()}


_MISSING = PageResponse(compact_json({"error": {"message": "The page has no such address."}}).encode(), status=404)
