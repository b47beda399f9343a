"""A session that uses every tool of the catalogue once, in an order in which each finds what it needs.

It works on any git work tree with two commits and the two files below; what else lies in the tree is the test's
business.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from context_engine import tools
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.tools import Call

CODE = "shop/orders.py"
CODE_TEXT = '''"""Orders and what they cost."""


def total(prices: list[int], discount: int = 0) -> int:
    """Sum the prices of an order, less the discount."""
    return max(0, sum(prices) - discount)


def place(user: str, prices: list[int]) -> dict:
    """Place an order for a user."""
    return {"user": user, "total": total(prices)}
'''
SCRATCH = "shop/scratch.py"
SCRATCH_TEXT = "def obsolete():\n    return 1\n"
FILES = {CODE: CODE_TEXT, SCRATCH: SCRATCH_TEXT}

PLAN = {
    "goal": "Round totals",
    "steps": [
        {
            "step_number": number,
            "title": f"Round in part {number}",
            "description": "Round the total.",
            "files_to_modify": [CODE],
            "acceptance_criteria": ["totals are rounded"],
        }
        for number in (1, 2, 3)
    ],
}
DIFF = f"""--- a/{CODE}
+++ b/{CODE}
@@ -6,1 +6,2 @@
-    return max(0, sum(prices) - discount)
+    print(prices)
+    return max(0, sum(prices) - discount)
"""


@dataclass
class Replied:
    """One call, what it answered, and how long that took."""

    tool: str
    arguments: dict[str, Any]
    text: str
    error: str
    seconds: float


Caller = Callable[[str, dict[str, Any]], tuple[str, bool]]
"""Calls a tool with arguments; the text of the reply, and whether it is an error."""


def through(gate: ToolDispatcher) -> Caller:
    """A caller in this process."""

    def call(tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        reply = gate.call(tool, arguments, Call(session="every-tool", reader="documents")).reply
        return reply.text, reply.is_error

    return call


@dataclass
class EveryTool:
    """A session that remembers each reply; `extra` are further calls, made before the edits."""

    caller: Caller
    extra: tuple[tuple[str, dict[str, Any]], ...] = ()
    replies: list[Replied] = field(default_factory=list)

    def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool and remember what it answered; the text."""
        started = time.monotonic()
        text, is_error = self.caller(tool, arguments)
        took_s = time.monotonic() - started
        code = ""
        if is_error:
            code = json.loads(text)["error"]["code"] if text.startswith("{") else text.partition(":")[0]
        self.replies.append(Replied(tool, arguments, text, code, took_s))
        return text

    def run(self) -> EveryTool:
        """Make all calls; this session, for its replies."""
        self.call("index_workspace", force=True)
        self.read()
        for tool, arguments in self.extra:
            self.call(tool, **arguments)
        self.edit()
        self.remember()
        self.plan()
        self.review()
        self.call("reindex_workspace")
        self.call("clear_index", confirm=True)
        return self

    def read(self) -> None:
        """Search and read."""
        for tool in (
            *("search_code", "codebase_retrieval", "semantic_search", "cortex_search", "search_memory"),
            *("context_search", "get_context", "get_context_for_prompt"),
        ):
            self.call(tool, query="how is the total of an order computed")
        self.call("enhance_prompt", prompt="round the total of an order in shop/orders.py")
        for relation in ("definition", "references", "imports", "outline"):
            self.call("symbols", name="total", path=CODE, relation=relation)
        self.call("explain", target="total")
        self.call("explain", target=CODE)
        for target in ("", CODE, f"{CODE}:4-7", "total"):
            self.call("history", target=target)
        self.call("history", target="HEAD", diff=True)
        self.call("find_symbol", name="total")
        self.call("find_symbol", outline=CODE)
        for direction in ("callers", "callees", "impact"):
            self.call("trace", symbol="total", direction=direction)
        self.call("search_text", query="total", context=3)
        self.call("search_files", query="t.t[a]l", regex=True, context=1)
        self.call("grep_codebase", pattern="total")
        self.call("scout", keywords=["total", "order"])
        self.call("read", items=[CODE, f"{CODE}:1-3", f"{CODE}#total", "shop", "how is an order placed"])
        self.call("read_file", path=CODE, include_deps=True)
        self.call("read_fragment", path=CODE, symbols=["total"], keywords=["discount"])
        self.call("read_regions", file_path=CODE, regions=[{"start": 1, "end": 5}])
        self.call("list_directory", path=".", depth=4, include_hidden=True, sizes=True)
        self.call("index_status", include_stats=True)
        self.call("list_tools", schemas=True)
        self.call("call_tool", name="read_file", arguments={"path": CODE})

    def edit(self) -> None:
        """Edit, undo and rename."""
        edit = {"old_string": "return 1", "new_string": "return 2"}
        self.call("edit_file", path=SCRATCH, edits=[edit], dry_run=True)
        self.call("edit_file", path=SCRATCH, edits=[edit])
        self.call("safe_replace", file_path=SCRATCH, old_content="return 2", new_content="return 3")
        self.call("undo_edit", list=True)
        self.call("undo_edit", steps=1)
        self.call("write_file", path="shop/new.py", content="NEW = 1\n")
        self.call("rename_symbol", name="obsolete", new_name="outdated", path=SCRATCH, dry_run=False)

    def remember(self) -> None:
        """Add, list, change, find and delete a memory."""
        added = self.call(
            "add_memory", content="Totals are rounded to cents.", category="decisions", linked_files=[CODE]
        )
        self.call("list_memories", full=True)
        self.call("context_search", query="rounded totals")
        memory = _first(r"mem_[\w-]+", added)
        self.call("update_memory", id=memory, content="Totals are rounded to whole cents.")
        self.call("delete_memory", id=memory)

    def plan(self) -> None:
        """Make, refine, show, execute, approve, compare, roll back and delete a plan."""
        self.call("create_plan", task="Round the total of an order to cents", auto_save=True)
        saved = self.call("save_plan", plan=PLAN, name="rounding", allow_invalid=True)
        plan = _first(r"plan_[0-9a-f-]{20,}", saved)
        self.call("load_plan", plan_id=plan)
        self.call("list_plans")
        self.call("refine_plan", plan_id=plan, operations=[{"op": "set_goal", "goal": "Round all totals"}])
        for kind in ("dependencies", "gantt"):
            self.call("visualize_plan", plan_id=plan, diagram_type=kind)
        asked = self.call("request_approval", plan_id=plan, step_numbers=[1])
        self.call(
            "respond_approval", request_id=_first(r"apr_[\w-]+|req_[\w-]+|approval_[\w-]+", asked), action="approve"
        )
        self.call("start_step", plan_id=plan, step_number=1, include_packet=True)
        self.call(
            "complete_step", plan_id=plan, step_number=1, criteria_met=["1"], notes="done", auto_detect_files=True
        )
        self.call("start_step", plan_id=plan, step_number=2)
        self.call("fail_step", plan_id=plan, step_number=2, error="it does not round")
        self.call("execute_plan", plan_id=plan, mode="single_step", step_number=3)
        self.call("view_progress", plan_id=plan)
        self.call("view_history", plan_id=plan)
        self.call("compare_plan_versions", plan_id=plan, from_version=1, to_version=2)
        self.call("rollback_plan", plan_id=plan, target_version=1)
        self.call("delete_plan", plan_id=plan, confirm=True)

    def review(self) -> None:
        """Review a diff, the work tree and a range of commits; validate and redact content."""
        self.call("review_changes", diff=DIFF, file_contexts={CODE: CODE_TEXT})
        self.call("review_git_diff", target="HEAD", include_untracked=True)
        self.call("review_git_diff", target="unstaged")
        started = self.call("reactive_review_pr", commit_hash="HEAD", base_ref="HEAD~1", wait_s=20)
        session = _first(r"rev_[\w-]+", started)
        for tool in ("get_review_status", "get_review_telemetry", "pause_review", "resume_review"):
            self.call(tool, session_id=session)
        self.call("validate_content", content=CODE_TEXT, file_path=CODE)
        self.call("scrub_secrets", content=CODE_TEXT)

    def uncalled(self) -> set[str]:
        """The tools of the catalogue that were not called."""
        return {tool.name for tool in tools.ALL} - {reply.tool for reply in self.replies}

    def failed(self, *, but: frozenset[str] = frozenset()) -> Iterator[str]:
        """The calls that ended with an error, except for these codes."""
        for reply in self.replies:
            if reply.error and reply.error not in but:
                yield f"{reply.tool} {reply.arguments}: {reply.text[:300]}"


def _first(pattern: str, text: str) -> str:
    """The first place of a reply that looks like an identifier of that kind."""
    found = re.search(pattern, text)
    return found.group() if found else "missing"
