"""Nothing that is kept holds a secret: plans, memories, reviews, histories, chunk files and the index, whatever argument it came in."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from context_engine.cli.tool_commands import build_dispatcher
from context_engine.engine import Engine
from context_engine.search import export_chunks
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.tools import Call
from tests.support.engines import cache_for, indexed
from tests.support.secret_examples import drawn
from tests.support.trees import git, repository, tree

PIECE_CHARS = 12
FORMS = (
    "ghp_<w36>",
    "AKIA<T16>",
    "glpat-<s20>",
    'password = "<w20>"',
    "postgres://app:<w16>@db.local/app",
    "https://me:<w18>@git.local/x",
    "curl -u bot:<w20> https://x.test",
    "Authorization: Basic <B30>",
    "export SERVICE_TOKEN=<x40>",
)


@dataclass
class Kept:
    """A workspace, the door to its tools, and every secret that went in."""

    engine: Engine
    gate: ToolDispatcher
    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)
    secrets: list[str] = field(default_factory=list)

    def secret(self) -> str:
        """A text with a secret of the next form."""
        number = next(self.numbers)
        told = drawn(FORMS[number % len(FORMS)], f"at rest {number}")
        self.secrets.append(told.parts[-1])
        return told.text

    def told(self, what: str) -> str:
        """A sentence with a secret in it."""
        return f"{what}: {self.secret()} and so on"

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers; an error fails the test."""
        outcome = self.gate.call(tool, arguments, Call(reader="documents"))
        assert outcome.error is None, (tool, outcome.reply.text)
        return json.loads(outcome.reply.text)

    def leaks(self) -> list[tuple[str, str]]:
        """Files of ours that hold a secret, and which."""
        folders = (self.folder / ".context-engine", cache_for(self.folder), self.folder.parent / "out")
        found = []
        for place in (place for folder in folders for place in folder.rglob("*") if place.is_file()):
            if "grammars" in place.parts:
                continue
            data = place.read_bytes()
            found += [(place.name, secret) for secret in self.secrets if any(piece in data for piece in pieces(secret))]
        return found


def pieces(secret: str) -> list[bytes]:
    """What no file may hold of a secret: a dozen characters in a row."""
    return [secret[at : at + PIECE_CHARS].encode() for at in range(max(1, len(secret) - PIECE_CHARS + 1))]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    source = {"src/bank.py": "def pay(cents):\n    return cents\n", "src/shop.py": "def buy():\n    return 1\n"}
    folder = repository(tmp_path / "w", source)
    with indexed(folder) as engine:
        yield Kept(engine, build_dispatcher(engine), folder)


def test_no_argument_of_a_memory_keeps_a_secret(kept: Kept) -> None:
    added = kept.call(
        "add_memory",
        content=kept.told("We log in with"),
        category="facts",
        title=kept.told("Login"),
        tags=[kept.secret()[:40]],
        source=kept.told("heard"),
        evidence=kept.told("seen"),
        owner=kept.told("me"),
        linked_symbols=["pay"],
    )
    kept.call(
        "update_memory",
        id=added["id"],
        content=kept.told("Now with"),
        title=kept.told("New login"),
        owner=kept.told("you"),
    )
    kept.call("context_search", query="login")
    assert kept.leaks() == []


def plan_of(kept: Kept) -> dict[str, Any]:
    """A plan with a secret in every text of it."""
    told = kept.told
    step = {
        "title": told("Types"),
        "description": told("Make them"),
        "acceptance_criteria": [told("no floats")],
        "checks": [told("run")],
        "estimated_effort": told("a day"),
        "files_to_modify": ["src/bank.py"],
        "evidence": [{"path": "src/bank.py", "line": 1, "kind": "mention", "detail": told("here")}],
    }
    return {
        "goal": told("Money in cents"),
        "task": told("Count in cents"),
        "scope": {name: [told(name)] for name in ("included", "excluded", "assumptions", "constraints")},
        "mvp_features": [told("pay")],
        "nice_to_have_features": [told("more")],
        "architecture": {
            "notes": told("layers"),
            "patterns_used": [told("pattern")],
            "diagrams": [{"type": "flow", "mermaid": f"graph TD\n  a[{told('node')}]"}],
        },
        "questions": [{"id": "q1", "text": told("which"), "candidates": [told("this")], "answer": told("that")}],
        "testing_strategy": {name: told(name) for name in ("unit", "integration", "coverage_target")},
        "steps": [step, {"title": "Bank", "depends_on": [1], "acceptance_criteria": ["tests pass"]}],
        "milestones": [{"name": told("first"), "estimated_time": told("a week")}],
        "risks": [{"issue": told("rounding"), "mitigation": told("tests"), "likelihood": "medium"}],
    }


def test_no_argument_of_a_plan_keeps_a_secret(kept: Kept) -> None:
    saved = kept.call(
        "save_plan",
        plan=plan_of(kept),
        name=kept.told("Cents"),
        tags=["money"],
        reason=kept.told("why"),
        allow_invalid=True,
    )
    plan_id = saved["plan_id"]
    asked = kept.call("request_approval", plan_id=plan_id, note=kept.told("please"))
    kept.call(
        "respond_approval",
        request_id=asked["request"]["id"],
        action="approve",
        comment=kept.told("yes"),
        decided_by="me",
    )
    again = kept.call("request_approval", plan_id=plan_id, step_numbers=[2])["request"]["id"]
    wish = {"comment": kept.told("not so"), "modifications": kept.told("but so")}
    kept.call("respond_approval", request_id=again, action="request_modification", **wish)
    kept.call("start_step", plan_id=plan_id, step_number=1, actor=kept.told("me"), force=True)
    kept.call("fail_step", plan_id=plan_id, step_number=1, error=kept.told("it said"), retry=True)
    kept.call("start_step", plan_id=plan_id, step_number=1, force=True)
    kept.call(
        "complete_step",
        plan_id=plan_id,
        step_number=1,
        notes=kept.told("done"),
        evidence=[{"command": kept.told("ran"), "exit": 0, "output": kept.told("printed")}],
        force=True,
    )
    kept.call("refine_plan", plan_id=plan_id, feedback=kept.told("also"), assist="off")
    kept.call(
        "create_plan",
        task=kept.told("Make src/bank.py round"),
        assist="off",
        auto_save=True,
        save_name=kept.told("name"),
    )
    kept.call("rollback_plan", plan_id=plan_id, target_version=1, reason=kept.told("back"), force=True)
    assert len(kept.secrets) > 25
    assert kept.leaks() == []


def test_no_limit_cuts_a_secret_so_that_its_beginning_is_kept(kept: Kept) -> None:
    for width in range(20, 210, 14):
        secret = f"{'x ' * (width // 2)}{kept.secret()}"
        plan = {"goal": f"Goal {secret}", "steps": [{"title": f"Step {secret}", "acceptance_criteria": ["tests pass"]}]}
        kept.call("save_plan", plan=plan, name=f"Name {secret}"[:300], allow_invalid=True)
        kept.call("create_plan", task=f"Make src/bank.py round {secret}", assist="off", auto_save=True)
    assert kept.leaks() == []


def test_no_part_of_a_review_keeps_a_secret(kept: Kept) -> None:
    lines = [kept.secret() for _ in FORMS]
    text = "def pay(cents):\n    try:\n        return eval(cents)\n    except:\n        pass\n" + "".join(
        f"# {line}\n" for line in lines
    )
    tree(kept.folder, {"src/bank.py": text})
    git(kept.folder, "checkout", "-qb", "topic")
    git(kept.folder, "commit", "-qam", kept.told("Pay"))
    begun = kept.call(
        "reactive_review_pr",
        commit_hash="topic",
        base_ref="main",
        title=kept.told("Pay"),
        author=kept.told("me"),
        options={"custom_instructions": kept.told("look at")},
        wait_s=30,
    )
    session = begun["session_id"]
    kept.call("get_review_status", session_id=session, include_findings=True, wait_s=30)
    kept.call("review_git_diff", target="topic", base="main", assist="host")
    assert kept.leaks() == []


def test_what_is_derived_of_files_and_commits_keeps_no_secret(kept: Kept) -> None:
    secret = kept.secret()
    tree(
        kept.folder,
        {
            "src/pay.py": f"# TODO log in without {secret} here\ndef pay():\n    return 1\n",
            "docs/adr/0001-login.md": f"# Log in\n\n## Decision\n\nWe log in with {secret}.\n",
            "AGENTS.md": f"- Always run it with {secret}\n",
            "deploy.py": f'KEY = """\n{secret}\n"""\n\ndef deploy():\n    return KEY\n',
        },
    )
    git(kept.folder, "add", ".")
    git(kept.folder, "commit", "-qm", f"Fix login with {secret}\n\nIt was {secret} all the time, see {secret}.")
    kept.engine.index.update()
    kept.engine.memory.run_to_end()
    assert kept.call("context_search", query="log in")["results"]
    assert kept.leaks() == []


def test_chunk_files_contain_no_secret(kept: Kept) -> None:
    text = "\n".join(kept.secret() for _ in FORMS[:5])
    tree(kept.folder, {"src/keys.py": f'def keys():\n    return """\n{text}\n"""\n'})
    kept.engine.index.update()
    (kept.folder.parent / "out").mkdir()
    export_chunks(kept.engine.search, kept.folder.parent / "out")
    assert kept.leaks() == []


def test_exported_chunks_hold_no_secret_that_is_a_name_or_a_heading(tmp_path: Path) -> None:
    token = drawn("ghp_<w36>", "export").text
    files = {"a.py": f"def {token}():\n    return 1\n", "b.md": f"# {token}\n\nText below the heading.\n"}
    with indexed(tree(tmp_path / "w", files)) as engine:
        export_chunks(engine.search, tmp_path / "out")
    written = "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    assert "Text below the heading." in written
    assert token[:12] not in written
