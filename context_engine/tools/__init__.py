"""The tools that an agent can call, and `call`, which runs one: parse, call the Engine, format the reply.

    reply = call(engine, "symbols", {"name": "Engine.search"})
    print(reply.text)

Nothing here knows the protocol or opens files; `server` and `ctx call` both use `call`.
"""

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from context_engine.errors import ContextEngineError
from context_engine.lazy_exports import lazy_exports
from context_engine.text import compact_json

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.tools.arguments import ENDLESS, bind, is_malformed, parse_json_text, split_list, to_snake_case
    from context_engine.tools.catalog_tools import ASK_MANIFEST, call_tool, resolve_call
    from context_engine.tools.context_tools import format_snippet
    from context_engine.tools.index_tools import format_explanation, shorten_status
    from context_engine.tools.memory_tools import render_rules_page
    from context_engine.tools.plan_tools import approval_row
    from context_engine.tools.reply import count_fitting, find_matches, reply_size
    from context_engine.tools.review_tools import parse_review_options
    from context_engine.tools.search_tools import find_best_line, search_code
    from context_engine.tools.structured_replies import read_object
    from context_engine.tools.text_form import format_reply, format_value
    from context_engine.tools.tool import Call, Reader, Reply, Tool, UserAnswer, UserQuestion, no_answer

    ALL: tuple[Tool, ...]


MODULES: Mapping[str, str] = {
    "search_code": "search_tools",
    "read": "read_tools",
    "search_text": "text_search_tools",
    "symbols": "symbol_tools",
    **dict.fromkeys(("edit_file", "write_file"), "edit_tools"),
    "get_context": "context_tools",
    "search_memory": "memory_tools",
    **dict.fromkeys(("list_tools", "call_tool"), "catalog_tools"),
    "explain": "index_tools",
    "history": "history_tools",
    **dict.fromkeys(("read_file", "read_fragment", "read_regions", "list_directory"), "read_tools"),
    **dict.fromkeys(("safe_replace", "undo_edit", "rename_symbol"), "edit_tools"),
    **dict.fromkeys(("add_memory", "list_memories", "update_memory", "delete_memory"), "memory_tools"),
    "enhance_prompt": "context_tools",
    **dict.fromkeys(("create_plan", "refine_plan"), "plan_creation_tools"),
    "visualize_plan": "plan_tools",
    "execute_plan": "plan_step_tools",
    **dict.fromkeys(("save_plan", "load_plan", "list_plans", "delete_plan"), "plan_tools"),
    **dict.fromkeys(("request_approval", "respond_approval"), "plan_step_tools"),
    **dict.fromkeys(("start_step", "complete_step", "fail_step", "view_progress"), "plan_step_tools"),
    **dict.fromkeys(("view_history", "compare_plan_versions", "rollback_plan"), "plan_tools"),
    **dict.fromkeys(("review_changes", "review_git_diff", "reactive_review_pr", "get_review_status"), "review_tools"),
    **dict.fromkeys(("pause_review", "resume_review", "get_review_telemetry"), "review_tools"),
    **dict.fromkeys(("scrub_secrets", "validate_content"), "content_tools"),
    **dict.fromkeys(("scout", "grep_codebase"), "text_search_tools"),
    **dict.fromkeys(("semantic_search", "cortex_search"), "search_tools"),
    **dict.fromkeys(("index_status", "index_workspace", "reindex_workspace", "clear_index"), "index_tools"),
}
"""Tool -> the module that defines it, in the order that agents see: the most important first."""
_import_export = lazy_exports(__name__)


def __getattr__(name: str) -> Any:
    """Import what is used; `ALL` has all tools in the order of `MODULES`, and imports each of their modules."""
    if name != "ALL":
        return _import_export(name)
    value = globals()["ALL"] = tuple(map(_import_tool, MODULES))
    return value


def _import_tool(name: str) -> "Tool":
    return getattr(importlib.import_module(f"{__name__}.{MODULES[name]}"), name)


def list_names() -> tuple[str, ...]:
    """Return the names of all tools; nothing is imported for it."""
    if "ALL" in globals():
        return tuple(tool.name for tool in globals()["ALL"])
    return tuple(MODULES)


def find(name: str) -> "Tool":
    """Return the tool with this name, or as it is under an older one. Raises: UnknownTool, with the nearest name.

    One search or one read imports its own module, and not those of plans and reviews.
    """
    if "ALL" not in globals() and name in MODULES:
        return _import_tool(name)
    from context_engine.tools import ALL
    from context_engine.tools.catalog_tools import find_tool

    return find_tool(ALL, name)


def call(engine: "Engine", name: str, arguments: Any = None, context: "Call | None" = None) -> "Reply":
    """Call a tool by name with arguments as a client sends them.

    Raises: UnknownTool, InvalidArgument, and the errors of the Engine; `failure` turns them into replies.
    """
    from context_engine.tools.tool import Call

    return find(name).call(engine, arguments, context or Call())


def failure(error: ContextEngineError, extra: Mapping[str, Any] = MappingProxyType({})) -> "Reply":
    """Build the reply for an error: `{error: {code, message, suggestion, retryable, details}}` plus `extra` fields."""
    from context_engine.tools.tool import Reply

    return Reply(compact_json({**extra, "error": error.as_dict()}), is_error=True)
