"""PURE. The tools that a client sees: profiles, which add up, single tools, excluded tools, read-only.

A client pays for every listed tool in each request, so the default lists ten. Other tools can still be called, by
name or through `call_tool`, and by their names in the documents with the arguments there. The dispatcher refuses
excluded tools, and tools that write under read-only.

This module imports only what every interpreter has loaded already, because a stdio server waits for it.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file

if TYPE_CHECKING:
    from typing import Any

    from context_engine.tools import Tool


CORE = (
    *("search_code", "read", "search_text", "symbols", "edit_file", "write_file"),
    *("get_context", "search_memory", "list_tools", "call_tool"),
)
EDIT = (*CORE, "list_directory", "safe_replace", "undo_edit", "scout", "validate_content")
CODE = (*EDIT, "cortex_search", "rename_symbol", "explain", "history")
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
CAMEL_CASE = ("scout", "read_regions", "safe_replace", "edit_file", "read_file", "grep_codebase")
"""The arguments of these have names in camelCase there."""
SEEDS_ARGUMENTS = frozenset(("max_context_files", "generate_diagrams", "max_depth", "exclude", "include_steps"))
"""Arguments that the documents have, and other profiles do not list."""
ALIASES: Mapping[str, str] = {
    "codebase_retrieval": "search_code",
    "search_files": "search_text",
    "get_context_for_prompt": "get_context",
    "context_search": "search_memory",
    "tool_manifest": "list_tools",
    "get_file": "read_file",
    **dict.fromkeys(("find_symbol", "trace"), "symbols"),
}
"""Name in the documents or in an earlier release -> the tool: listed where a profile or `--tools` has that name, else
only callable."""
REPLACED = ("read_file", "read_fragment", "read_regions")
"""Tools that `read` replaces: callable, and listed by `seeds`."""

_CURRENT_SEEDS = tuple(name for name in SEEDS if name not in ALIASES and name not in REPLACED)

PROFILES: Mapping[str, tuple[str, ...]] = {
    "core": CORE,
    "edit": EDIT,
    "code": CODE,
    "plan": PLAN,
    "review": REVIEW,
    "seeds": SEEDS,
    "all": tuple(dict.fromkeys((*CODE, *_CURRENT_SEEDS, "update_memory", "delete_memory"))),
}
"""Profile -> its listed tools; `all` has each tool once, under its current name."""
KNOWN_NAMES = tuple(dict.fromkeys((*PROFILES["all"], *REPLACED, *ALIASES)))


MULTI_PROJECT_TOOLS = frozenset(
    ("search_code", "semantic_search", "search_text", "symbols", "get_context", "search_memory"),
)
"""The tools that search several projects at once; calls of all others must name one."""
EVERY_PROJECT = "*"
"""In place of a project's name: all of them."""

_ToolSelectionFields = namedtuple(  # noqa: PYI024 - no annotations: see above
    "_ToolSelectionFields",
    "profiles tools exclude read_only structured",
    defaults=(("core",), (), (), False, False),
)


class ToolSelection(_ToolSelectionFields):
    """The selection of tools at the start of a server: `tools` are added to the profiles; `exclude` overrides both.

    `structured` is for clients that are programs: tools are listed with the schemas of their replies, and the replies
    follow them.

    >>> ToolSelection(read_only=True)
    ToolSelection(profiles=('core',), tools=(), exclude=(), read_only=True, structured=False)
    """

    __slots__ = ()

    def lists(self, name: str) -> bool:
        """Return whether a profile or `--tools` has this name; `all` also lists tools that no profile knows."""
        is_named = name in self.tools or any(name in PROFILES[profile] for profile in self.profiles)
        is_new = "all" in self.profiles and name not in KNOWN_NAMES
        return (is_named or is_new) and not self.excludes(name)

    def excludes(self, name: str) -> bool:
        """Return whether a tool is excluded, by its own name or by an older one of it.

        >>> ToolSelection(exclude=("codebase_retrieval",)).excludes("search_code")
        True
        """
        own = ALIASES.get(name, name)
        return any(ALIASES.get(excluded, excluded) == own for excluded in self.exclude)

    def find_unknown_name(self) -> str:
        """Return the problem of an unknown profile or tool, with the nearest name; empty when all are known.

        >>> ToolSelection(profiles=("coer",)).find_unknown_name()
        'no profile is called coer; did you mean core?'
        """
        for noun, names, known in (
            ("profile", self.profiles, tuple(PROFILES)),
            ("tool", (*self.tools, *self.exclude), KNOWN_NAMES),
        ):
            for name in names:
                if name not in known:
                    return f"no {noun} is called {name}; {suggest_known(name, known, 'there are')}"
        return ""


def list_tools(known: Iterable[Tool], selection: ToolSelection) -> list[Tool]:
    """Return the tools of `tools/list` in the order of `known`, each under those of its names that are listed."""
    listed: list[Tool] = []
    for tool in known:
        if not find_forbidding_option(selection, tool):
            named = [tool, *map(tool.under, tool.aliases)]
            listed += [one for one in named if selection.lists(one.alias or one.name)]
    return listed


def find_forbidding_option(selection: ToolSelection, tool: Tool, name: str = "") -> str:
    """Return the option that forbids a tool, called by a `name`, or an empty text.

    Rebuilding the index is not a write; deleting it is.
    """
    if selection.excludes(name or tool.name):
        return "--exclude-tools"
    writes = tool.touches in ("files", "records") or (tool.touches == "index" and tool.hints.destructive)
    return "--read-only" if selection.read_only and writes else ""


def add_project_parameter(tool: str, schema: Mapping[str, Any], projects: Sequence[str]) -> Mapping[str, Any]:
    """Return the schema of the arguments of a tool with the parameter `project` where there are several projects."""
    if len(projects) < 2:
        return schema
    names, description, required = list(projects), "Which project.", ["project", *schema.get("required", ())]
    if tool in MULTI_PROJECT_TOOLS:
        names, description, required = [*projects, EVERY_PROJECT], "Which project; none: all.", required[1:]
    parameter = {"type": "string", "enum": names, "description": description}
    return {**schema, "properties": {**schema["properties"], "project": parameter}, "required": required}


def suggest_known(name: str, known: Sequence[str], all_are: str) -> str:
    """Return the known name next to another one as a question; without one, all of them."""
    from context_engine.text import find_near_words  # imported only when the start fails

    close = find_near_words(name, known, 1)
    return f"did you mean {close[0]}?" if close else f"{all_are} {', '.join(known)}"
