"""PURE. The tools that a client sees: profiles, which add up, single tools, excluded tools, read-only.

A client pays for every listed tool in each request, so the default lists a few. Other tools can still be called, by
name or through `call_tool`. The dispatcher refuses excluded tools, and tools that write under read-only.

This module imports only what every interpreter has loaded already, because the first reply waits for it.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

CORE = (
    *("codebase_retrieval", "get_context_for_prompt", "search_files", "read_file", "read_fragment", "list_directory"),
    *("find_symbol", "edit_file", "write_file", "context_search", "add_memory", "index_status", "tool_manifest"),
    "call_tool",
)
EDIT = (*CORE, "safe_replace", "undo_edit", "scout", "read_regions", "validate_content")
CODE = (*EDIT, "trace", "cortex_search", "rename_symbol")
PLAN = (
    *("create_plan", "refine_plan", "visualize_plan", "execute_plan", "save_plan", "load_plan", "list_plans"),
    *("delete_plan", "request_approval", "respond_approval", "start_step", "complete_step", "fail_step"),
    *("view_progress", "view_history", "compare_plan_versions", "rollback_plan"),
)
REVIEW = (
    *("review_changes", "review_git_diff", "reactive_review_pr", "get_review_status", "pause_review"),
    *("resume_review", "get_review_telemetry", "scrub_secrets", "validate_content"),
)
SEEDS = (
    *("scout", "read_regions", "safe_replace"),  # seed 000
    *("list_directory", "read_file", "search_files", "read_fragment", "edit_file", "write_file"),  # seed 001
    *("index_workspace", "codebase_retrieval", "semantic_search", "get_file", "get_context_for_prompt"),  # seed 002
    *("enhance_prompt", "tool_manifest", "index_status", "reindex_workspace", "clear_index", "add_memory"),
    *("list_memories", *PLAN, *REVIEW),
    *("context_search", "grep_codebase"),  # seed 003, which has read_file too
    "cortex_search",  # seed 004
)
"""The 50 names in the documents that this product was made from."""
OWN = ("find_symbol", "trace", "undo_edit", "rename_symbol", "call_tool", "update_memory", "delete_memory")
"""The names that this product adds."""
ALIASES = ("get_file",)
"""Other names of a tool: listed where a profile or `--tools` has them, else only callable."""

PROFILES: Mapping[str, tuple[str, ...]] = {
    "core": CORE,
    "edit": EDIT,
    "code": CODE,
    "plan": PLAN,
    "review": REVIEW,
    "seeds": SEEDS,
    "all": (*(name for name in SEEDS if name not in ALIASES), *OWN),
}
"""Profile -> its listed tools. Tools of a later release are listed once they exist."""


MULTI_PROJECT_TOOLS = frozenset(
    ("codebase_retrieval", "semantic_search", "search_files", "find_symbol", "get_context_for_prompt", "context_search")
)
"""The tools that search several projects at once; calls of all others must name one."""
EVERY_PROJECT = "*"
"""In place of a project's name: all of them."""

_ToolSelectionFields = namedtuple(  # noqa: PYI024 - no annotations: see above
    "_ToolSelectionFields", "profiles tools exclude read_only projects", defaults=(("core",), (), (), False, ())
)


class ToolSelection(_ToolSelectionFields):
    """The selection of tools at the start of a server: `tools` are added to the profiles; `exclude` overrides both.

    `projects` are the names of the open projects; a single one needs no name.

    >>> ToolSelection(read_only=True)
    ToolSelection(profiles=('core',), tools=(), exclude=(), read_only=True, projects=())
    """

    __slots__ = ()

    def mentions(self, name: str) -> bool:
        """Return whether a profile or `--tools` has this name."""
        is_named = name in self.tools or any(name in PROFILES[profile] for profile in self.profiles)
        return is_named and name not in self.exclude

    def lists(self, name: str) -> bool:
        """Return whether a tool is listed; `all` also lists tools that it does not name."""
        return self.mentions(name) or ("all" in self.profiles and name not in self.exclude)

    def find_unknown_name(self) -> str:
        """Return the problem of an unknown profile or tool, with the nearest name; empty when all are known.

        >>> ToolSelection(profiles=("coer",)).find_unknown_name()
        'no profile is called coer; did you mean core?'
        """
        for name in self.profiles:
            if name not in PROFILES:
                return _describe_unknown("profile", name, tuple(PROFILES))
        for name in (*self.tools, *self.exclude):
            if name not in PROFILES["all"] and name not in ALIASES:
                return _describe_unknown("tool", name, (*PROFILES["all"], *ALIASES))
        return ""


def list_tools(rows: Iterable[Mapping[str, Any]], selection: ToolSelection) -> list[dict[str, Any]]:
    """Return the tools of `tools/list` in the order of the rows, with aliases right after their tool.

    A row is `{"tool": <as on the wire>, "touches": <what it may change>, "aliases": [<other names>]}`.
    """
    tools = []
    for row in rows:
        wire = dict(row["tool"])
        if find_forbidding_option(selection, wire["name"], str(row["touches"]), destructive=_is_destructive(wire)):
            continue
        tools += [wire] if selection.lists(wire["name"]) else []
        tools += [_alias_tool(wire, alias) for alias in row.get("aliases", ()) if selection.mentions(alias)]
    return [_add_project_parameter(wire, selection.projects) for wire in tools]


def find_forbidding_option(selection: ToolSelection, name: str, touches: str, *, destructive: bool) -> str:
    """Return the option that forbids a tool, or an empty text. Rebuilding the index is not a write; deleting it is.

    >>> find_forbidding_option(ToolSelection(read_only=True), "write_file", "files", destructive=True)
    '--read-only'
    """
    if name in selection.exclude:
        return "--exclude-tools"
    writes = touches in ("files", "records") or (touches == "index" and destructive)
    return "--read-only" if selection.read_only and writes else ""


def _is_destructive(wire: Mapping[str, Any]) -> bool:
    annotations = wire.get("annotations")
    return isinstance(annotations, Mapping) and bool(annotations.get("destructiveHint"))


def _alias_tool(wire: Mapping[str, Any], alias: str) -> dict[str, Any]:
    """Return the tool under an alias, with a short description."""
    first_sentence = wire["description"].split(". ")[0].rstrip(".")
    return {**wire, "name": alias, "description": f"{first_sentence}. The same as {wire['name']}."}


def _add_project_parameter(wire: dict[str, Any], projects: Sequence[str]) -> dict[str, Any]:
    """Return a tool with the parameter `project` where there are several projects."""
    schema = wire["inputSchema"]
    if len(projects) < 2 or not isinstance(schema, Mapping):
        return wire
    across = wire["name"] in MULTI_PROJECT_TOOLS
    names, description, required = list(projects), "Which project.", ["project", *schema.get("required", ())]
    if across:
        names, description, required = [*projects, EVERY_PROJECT], "Which project; none: all.", required[1:]
    parameter = {"type": "string", "enum": names, "description": description}
    properties = {**schema["properties"], "project": parameter}
    return {**wire, "inputSchema": {**schema, "properties": properties, "required": required}}


def _describe_unknown(noun: str, name: str, known: Sequence[str]) -> str:
    import difflib  # imported only when the start fails

    close = difflib.get_close_matches(name, known, 1, 0.6)
    advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    return f"no {noun} is called {name}; {advice}"
