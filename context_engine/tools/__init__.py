"""The tools that an agent can call, and `call`, which runs one: parse, call the Engine, format the reply.

    reply = call(engine, "find_symbol", {"name": "Engine.search"})
    print(reply.text)

Nothing here knows the protocol or opens files; `server` and `ctx call` both use `call`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from context_engine.errors import ContextEngineError, UnknownTool
from context_engine.text import compact_json, suggest_nearest
from context_engine.tools.arguments import is_malformed, parse_json_text, to_snake_case
from context_engine.tools.catalog_tools import ASK_MANIFEST, call_tool, resolve_call, tool_manifest
from context_engine.tools.content_tools import scrub_secrets, validate_content
from context_engine.tools.context_tools import enhance_prompt, get_context_for_prompt
from context_engine.tools.edit_tools import edit_file, rename_symbol, safe_replace, undo_edit, write_file
from context_engine.tools.file_tools import list_directory, read_file
from context_engine.tools.fragment_tools import read_fragment, read_regions
from context_engine.tools.index_tools import clear_index, index_status, index_workspace, reindex_workspace
from context_engine.tools.memory_tools import (
    add_memory,
    context_search,
    delete_memory,
    list_memories,
    render_rules_page,
    update_memory,
)
from context_engine.tools.plan_creation_tools import create_plan, refine_plan
from context_engine.tools.plan_step_tools import (
    complete_step,
    execute_plan,
    fail_step,
    request_approval,
    respond_approval,
    start_step,
    view_progress,
)
from context_engine.tools.plan_tools import (
    approval_row,
    compare_plan_versions,
    delete_plan,
    list_plans,
    load_plan,
    rollback_plan,
    save_plan,
    view_history,
    visualize_plan,
)
from context_engine.tools.reply import count_fitting, reply_size
from context_engine.tools.review_tools import (
    get_review_status,
    get_review_telemetry,
    parse_review_options,
    pause_review,
    reactive_review_pr,
    resume_review,
    review_changes,
    review_git_diff,
)
from context_engine.tools.search_tools import (
    codebase_retrieval,
    cortex_search,
    excerpt_hit,
    find_symbol,
    parse_search_arguments,
    semantic_search,
    trace,
)
from context_engine.tools.text_search_tools import grep_codebase, scout, search_files
from context_engine.tools.tool import Call, Reply, Tool, UserAnswer, UserQuestion, no_answer

if TYPE_CHECKING:
    from context_engine.engine import Engine

__all__ = [
    "ALL",
    "ASK_MANIFEST",
    "Call",
    "Reply",
    "Tool",
    "UserAnswer",
    "UserQuestion",
    "approval_row",
    "call",
    "call_tool",
    "codebase_retrieval",
    "count_fitting",
    "excerpt_hit",
    "failure",
    "find",
    "get_context_for_prompt",
    "is_malformed",
    "no_answer",
    "parse_json_text",
    "parse_review_options",
    "parse_search_arguments",
    "render_rules_page",
    "reply_size",
    "resolve_call",
    "to_snake_case",
]

ALL: tuple[Tool, ...] = (
    codebase_retrieval,
    get_context_for_prompt,
    find_symbol,
    trace,
    search_files,
    read_file,
    read_fragment,
    read_regions,
    list_directory,
    edit_file,
    write_file,
    safe_replace,
    undo_edit,
    rename_symbol,
    context_search,
    add_memory,
    list_memories,
    update_memory,
    delete_memory,
    enhance_prompt,
    create_plan,
    refine_plan,
    visualize_plan,
    execute_plan,
    save_plan,
    load_plan,
    list_plans,
    delete_plan,
    request_approval,
    respond_approval,
    start_step,
    complete_step,
    fail_step,
    view_progress,
    view_history,
    compare_plan_versions,
    rollback_plan,
    review_changes,
    review_git_diff,
    reactive_review_pr,
    get_review_status,
    pause_review,
    resume_review,
    get_review_telemetry,
    scrub_secrets,
    validate_content,
    scout,
    grep_codebase,
    semantic_search,
    cortex_search,
    index_status,
    index_workspace,
    reindex_workspace,
    clear_index,
    tool_manifest,
    call_tool,
)
"""All tools in the order that agents see: the most important first."""


def find(name: str) -> Tool:
    """Return the tool with this name or alias. Raises: UnknownTool, with the nearest name."""
    for tool in ALL:
        if name == tool.name or name in tool.aliases:
            return tool
    suggestion = suggest_nearest(name, [tool.name for tool in ALL]).strip() or "tool_manifest lists all tools."
    raise UnknownTool(f"no tool is called {name!r}", suggestion=suggestion, details={"name": name})


def call(engine: "Engine", name: str, arguments: Any = None, context: Call | None = None) -> Reply:
    """Call a tool by name with arguments as a client sends them.

    Raises: UnknownTool, InvalidArgument, and the errors of the Engine; `failure` turns them into replies.
    """
    return find(name).call(engine, arguments, context or Call())


def failure(error: ContextEngineError, extra: Mapping[str, Any] = MappingProxyType({})) -> Reply:
    """Build the reply for an error: `{error: {code, message, suggestion, retryable, details}}` plus `extra` fields."""
    return Reply(compact_json({**extra, "error": error.as_dict()}), is_error=True)
