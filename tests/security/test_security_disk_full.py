"""A full disk, or one that became read-only, is an error with the next step; what can be read still is, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parents[2]

TRIAL = r"""
import json, os, subprocess, sys
from pathlib import Path

place, how = Path(sys.argv[1]), sys.argv[2]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(place)], check=True)
os.environ |= {"HOME": str(place), "XDG_CACHE_HOME": str(place / "cache"), "XDG_CONFIG_HOME": str(place / "config"), "XDG_DATA_HOME": str(place / "data")}
root = place / "work"
from tests.security.every_tool import CODE, CODE_TEXT, FILES, PLAN, EveryTool, through, _first
from context_engine.engine import Engine
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.profiles import ToolSelection
from context_engine.settings import Settings
from context_engine.cli.app import run

def git(*words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@a", *words], cwd=root, check=True, capture_output=True)

for name, text in FILES.items():
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
git("init", "-q"); git("add", "-A"); git("commit", "-q", "-m", "first")
(root / CODE).write_text(CODE_TEXT.replace("max(0,", "max(1,")); git("commit", "-qam", "fix: second"); (root / CODE).write_text(CODE_TEXT)

def opened():
    return Engine.open(root, settings=Settings(workers=0))

def gate(engine):
    lines = []
    def log(line):
        lines.append(line)
    return ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds")), log=log), lines

told = {"replies": [], "bugs": [], "cli": []}
READS = (
    ("codebase_retrieval", {"query": "total of an order"}), ("get_context_for_prompt", {"query": "total"}), ("find_symbol", {"name": "total"}),
    ("trace", {"symbol": "total"}), ("search_files", {"query": "total"}), ("read_file", {"path": CODE}), ("read_fragment", {"path": CODE, "symbols": ["total"]}),
    ("list_directory", {}), ("context_search", {"query": "cents"}), ("list_memories", {}), ("list_plans", {}), ("load_plan", {}), ("view_progress", {}),
    ("view_history", {}), ("undo_edit", {"list": True}), ("review_git_diff", {"target": "HEAD"}), ("get_review_status", {}), ("index_status", {}),
    ("scrub_secrets", {"content": CODE_TEXT}), ("validate_content", {"content": CODE_TEXT}), ("visualize_plan", {}), ("enhance_prompt", {"prompt": "total"}),
)

def tried(gate, log, when, calls):
    for name, arguments in calls:
        if "plan_id" in PLAN_TOOLS.get(name, ()):
            arguments = arguments | {"plan_id": plan}
        if name == "get_review_status":
            arguments = {"session_id": session}
        from context_engine.tools import Call
        reply = gate.call(name, arguments, Call(session="s")).reply
        error = json.loads(reply.text)["error"] if reply.is_error else {}
        told["replies"].append([when, name, error.get("code", ""), error.get("message", ""), error.get("suggestion", "")])

PLAN_TOOLS = {name: ("plan_id",) for name in ("load_plan", "view_progress", "view_history", "visualize_plan")}
with opened() as engine:
    first, log = gate(engine)
    session = EveryTool(through(first))
    session.call("index_workspace")
    session.call("add_memory", content="Orders are placed by users.", category="decisions")
    saved = session.call("save_plan", plan=PLAN, name="rounding", allow_invalid=True)
    plan = _first(r"plan_[0-9a-f-]{20,}", saved)
    session.call("edit_file", path="shop/scratch.py", edits=[{"old_string": "return 1", "new_string": "return 2"}])
    started = session.call("reactive_review_pr", commit_hash="HEAD", base_ref="HEAD~1", wait_s=20)
    session_id = _first(r"rev_[\w-]+", started)
    session = session_id
    tried(first, log, "before", READS)

    def spoil():
        if how == "read-only":
            first.gain._database.close()  # a disk with a file that is open for writing cannot be made read-only
            subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
            return
        with open(place / "filler", "ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass

    def mend():
        if how == "read-only":
            subprocess.run(["mount", "-o", "remount,rw", str(place)], check=True)
        else:
            (place / "filler").unlink()

    if how == "read-only":  # a file that is open for writing keeps the system from closing the disk
        engine.close()
    spoil()
    if how == "read-only":
        engine = opened()
        first, log = gate(engine)
    tried(first, log, "warm", READS)
    everything = EveryTool(through(first))
    for part in (everything.read, everything.edit, everything.remember, everything.plan, everything.review):
        part()
        spoil()
    everything.call("index_workspace", force=True)
    everything.call("reindex_workspace")
    told["uncalled"] = sorted(everything.uncalled() - {"clear_index"})
    for each in everything.replies:
        error = json.loads(each.text)["error"] if each.error else {}
        told["replies"].append(["spoiled", each.tool, each.error, error.get("message", ""), error.get("suggestion", "")])
    told["bugs"] += [line for line in log if line.get("traceback") or line.get("code") == "INTERNAL"]
    told["code"] = (root / CODE).read_text() == CODE_TEXT
spoil()
with opened() as engine:
    cold, log = gate(engine)
    tried(cold, log, "cold", READS)
    told["bugs"] += [line for line in log if line.get("traceback") or line.get("code") == "INTERNAL"]

import io, contextlib
os.chdir(root)
for words in ([["status"], ["search", "total"], ["memory", "list"], ["memory", "add", "facts", "It is so and so."], ["memory", "search", "cents"], ["plan", "list"], ["plan", "show", plan],
               ["plan", "create", "round all totals"], ["undo", "--list"], ["undo"], ["review"], ["index"], ["index", "--force"], ["store", "check"], ["workspace", "add", "."],
               ["token", "create", "n", "--project", "p"], ["chunks", "export", "out"], ["store", "export", "x.zip"], ["completion", "bash"], ["tools"]]):
    spoil()
    sys.argv = ["ctx", *words]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = run()
    told["cli"].append([words, code, out.getvalue()[-600:]])

mend()
with opened() as engine:
    after, log = gate(engine)
    tried(after, log, "after", READS)
    from context_engine.tools import Call
    told["after"] = {
        "memories": json.loads(after.call("list_memories", {}, Call()).reply.text)["total"],
        "undo": after.call("undo_edit", {"list": True}, Call()).reply.text,
        "index": engine.index.store.check(),
        "wrote": after.call("write_file", {"path": "new.py", "content": "x = 1\n"}, Call()).reply.is_error,
        "remembered": after.call("add_memory", {"content": "The disk was full.", "category": "facts"}, Call()).reply.is_error,
        "temp": [str(each) for each in root.rglob(".ctx-*.tmp")],
    }
    told["bugs"] += [line for line in log if line.get("traceback") or line.get("code") == "INTERNAL"]
    spoil() if how == "full" else None
    told["cleared"] = after.call("clear_index", {"confirm": True}, Call()).reply.text
print("@@" + json.dumps(told, default=str))
"""


def trial(how: str, tmp_path: Path) -> dict[str, Any]:
    """Run the trial in a mount namespace of its own: what it mounts, nobody else sees, and it goes with the process."""
    unshare = shutil.which("unshare")
    apart = ["--mount"] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    if (
        unshare is None
        or subprocess.run([unshare, *apart, "mount", "-t", "tmpfs", "none", tmp_path], capture_output=True).returncode
    ):
        pytest.skip("this user may not mount a file system of a few megabytes")
    (tmp_path / "disk").mkdir()
    done = subprocess.run(
        [unshare, *apart, sys.executable, "-c", TRIAL, str(tmp_path / "disk"), how],
        env=os.environ | {"PYTHONPATH": str(HERE)}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "@@" in done.stdout, done.stderr[-3_000:]
    return json.loads(done.stdout.partition("@@")[2])


WRITES = {
    *("add_memory", "create_plan", "save_plan", "write_file", "safe_replace", "reindex_workspace"),
    "reactive_review_pr",
}
CONSEQUENCES = {
    "PLAN_NOT_FOUND", "APPROVAL_NOT_FOUND", "REVIEW_NOT_FOUND", "MEMORY_NOT_FOUND", "NO_MATCH", "PRECONDITION_FAILED", "CONFLICT"
}  # fmt: skip
"""What a call says of something that the call before it could not write."""


@pytest.mark.full_disk
@pytest.mark.parametrize(("how", "code"), [("full", "DISK_FULL"), ("read-only", "WRITE_FAILED")])
def test_on_a_spoiled_disk_every_tool_and_command_says_so_reads_go_on_and_nothing_is_lost(
    how: str, code: str, tmp_path: Path, tried: Callable[..., None]
) -> None:
    told = trial(how, tmp_path)
    tried(len(told["replies"]) + len(told["cli"]))
    assert told["uncalled"] == []
    assert told["bugs"] == []
    refused = [row for row in told["replies"] if row[2]]
    assert {row[2] for row in refused} <= {code, *CONSEQUENCES}, refused
    assert all(row[4] for row in refused), "each says what to do"
    assert {row[1] for row in refused if row[2] == code} >= WRITES
    assert [row for row in refused if row[0] != "spoiled"] == [], (
        "what only reads goes on, in an old process and a new one"
    )
    for words, exit_code, written in told["cli"]:
        assert "Traceback" not in written, words
        assert "ctx has a bug" not in written, words
        assert exit_code == 0 or written, words
    assert {words[0] for words, exit_code, _ in told["cli"] if exit_code == 0} >= {"status", "search", "review", "undo"}
    after = told["after"]
    assert told["code"], "no file was damaged"
    assert after["memories"] >= 1
    assert "edited shop/scratch.py" in after["undo"]
    assert after["index"] == []
    assert (after["wrote"], after["remembered"], after["temp"]) == (False, False, [])
    assert "freed" in told["cleared"]
