"""Nothing that a repository names or brings along is started: no filter, hook, helper, module or program of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from context_engine.server.gate import Gate, alone
from context_engine.server.profiles import Shown
from context_engine.tools import Call
from tests.engines import indexed
from tests.security.traps import Traps, embedded_repository, hostile_repository, springs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the traps are shell scripts")

PLAN = {
    "goal": "Change alpha",
    "steps": [
        {"title": "Change it", "files_to_modify": ["src/app.py", "src/data.txt"], "acceptance_criteria": ["it runs"]},
        {"title": "Use it", "files_to_modify": ["src/web.js"], "depends_on": [1]},
    ],
}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get_context_for_prompt", {"query": "alpha calls beta, what is to do"}),
    ("context_search", {"query": "escape the name"}),
    ("list_directory", {}),
    ("search_files", {"query": "alpha"}),
    ("save_plan", {"plan": PLAN, "name": "alpha"}),
    ("load_plan", {"plan_id": "alpha"}),
    ("start_step", {"plan_id": "alpha", "step_number": 1}),
    ("write_file", {"path": "src/app.py", "content": "def alpha():\n    return 3\n"}),
    ("complete_step", {"plan_id": "alpha", "step_number": 1}),
    ("review_git_diff", {"target": "unstaged", "include_untracked": True}),
    ("review_git_diff", {"target": "staged"}),
    ("review_git_diff", {"target": "head"}),
    ("review_git_diff", {"target": "HEAD~1..HEAD"}),
    ("reactive_review_pr", {"commit_hash": "HEAD", "base_ref": "HEAD~1", "wait_s": 20}),
    ("create_plan", {"task": "change alpha in src/app.py"}),
    ("index_workspace", {"force": True}),
)


def outcomes(root: Path, *, calls: tuple[tuple[str, dict[str, Any]], ...] = CALLS) -> dict[str, Mapping[str, Any]]:
    """What each call says; all of them on one engine."""
    with indexed(root, flush=False) as engine:
        gate = Gate(alone(engine), shown=Shown(profiles=("all",)))
        return {f"{name} {arguments}": vars_of(gate.call(name, arguments, Call())) for name, arguments in calls}


def vars_of(outcome: Any) -> Mapping[str, Any]:
    return {"is_error": outcome.reply.is_error, "text": outcome.reply.text}


def ctx(traps: Traps, *words: str) -> subprocess.CompletedProcess[str]:
    """The real program, started in the hostile repository."""
    script = Path(sys.executable).with_name("ctx")
    env = traps.environment() | {"XDG_CACHE_HOME": str(traps.marks.with_name("cache")), "CTX_WORKERS": "1"}
    return subprocess.run([script, *words], cwd=traps.root, env=env, capture_output=True, text=True, timeout=120)


def test_the_traps_work(tmp_path: Path) -> None:
    hostile, embedded = hostile_repository(tmp_path / "a"), embedded_repository(tmp_path / "b")
    assert {"core.fsmonitor", "filter evil clean", "submodule filter evil clean"} <= set(springs(hostile, "diff"))
    assert {"diff.evil.textconv", "filter evil clean"} <= set(springs(hostile, "blame", "src/app.py"))
    assert "embedded clean" in springs(embedded, "blame", "src/app.py")


def test_no_tool_starts_a_program_that_the_repository_names(tmp_path: Path) -> None:
    traps = hostile_repository(tmp_path)
    with traps.armed():
        said = outcomes(traps.root)
    assert traps.sprung() == []
    failed = {name: each["text"] for name, each in said.items() if each["is_error"]}
    assert failed == {}, "a tool that does nothing proves nothing"


def test_no_tool_starts_a_program_of_a_bare_repository_within_a_clone(tmp_path: Path) -> None:
    traps = embedded_repository(tmp_path)
    with traps.armed():
        said = outcomes(traps.root)
    assert traps.sprung() == []
    assert any("escape the name" in each["text"] for each in said.values())


def test_the_program_starts_nothing_that_lies_in_the_repository(tmp_path: Path) -> None:
    traps = hostile_repository(tmp_path)
    for words in (["index"], ["search", "alpha"], ["context", "alpha"], ["review", "--target", "head"]):
        done = ctx(traps, *words)
        assert (words, traps.sprung()) == (words, []), done.stderr
        assert "Traceback" not in done.stderr
