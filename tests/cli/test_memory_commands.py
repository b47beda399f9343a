"""`ctx memory` and `ctx context` at the terminal: what a team knows, read, searched and kept true by a person."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from context_engine.cli import shell_completion
from context_engine.context.project_knowledge import QUOTED_FROM_REPOSITORY
from context_engine.engine import Engine
from context_engine.memory.memory_requests import CATEGORIES
from context_engine.text.ids import short_id
from tests.support.terminal import Keyboard, Run, runner, sit_down
from tests.support.trees import tree

MONEY = "Amounts are whole cents everywhere."
RULES = "# Rules\n\n- Never round an amount twice.\n- Always name tests by the sentence they prove.\n"
ADR = "# 7. One currency type\n\nStatus: accepted\n\n## Decision\n\nThere is one type for money: Cents.\n"
CODE = "def split(cents, parts):\n    # FIXME: loses a cent when parts is odd\n    return [cents // parts] * parts\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that tells of itself, and somebody at a terminal in it."""
    files = {
        "AGENTS.md": RULES,
        "docs/adr/0007-money.md": ADR,
        "src/money.py": CODE,
        "pyproject.toml": '[project]\nname="w"\n',
    }
    there = {"DATA_FOLDER": tmp_path / "home", "FAKE_NOW": "2026-11-21T12:00:00Z"}
    return sit_down(tree(tmp_path / "w", files), monkeypatch, **there)


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys)


def added(ctx: Run, *words: object) -> str:
    """The id of a memory that these words write down."""
    code, out, err = ctx("memory", "add", *words, "--json")
    assert code == 0, err
    return json.loads(out)["id"]


def files(root: Path) -> list[str]:
    return sorted(path.parent.name for path in (root / ".context-engine/memories").rglob("*.md"))


# -- writing ----------------------------------------------------------------------------------------------------------


def test_a_memory_is_written_down_listed_and_shown(root: Path, ctx: Run) -> None:
    assert ctx("memory", "list") == (
        1,
        "",
        "nothing found: There are no memories yet: `ctx memory add` writes the first one.\n",
    )
    memory = added(ctx, "decisions", MONEY, "--file", "src/money.py", "--tag", "billing", "--priority", "critical")
    assert files(root) == ["decisions"]
    code, out, _ = ctx("memory", "list")
    assert code == 0
    assert out.splitlines() == [
        "id        category   status  changed   what",
        f"{short_id(memory)}  decisions  active  just now  ! {MONEY}",
    ]
    shown = ctx("memory", "show", short_id(memory))[1]
    assert shown.startswith(f"{MONEY}\n")
    assert re.search(f"^id +{memory}$", shown, re.MULTILINE)
    assert re.search("^linked files +src/money.py$", shown, re.MULTILINE)
    assert json.loads(ctx("memory", "show", memory, "--json")[1])["tags"] == ["billing"]


def test_what_is_similar_or_secret_is_told_beside(root: Path, ctx: Run) -> None:
    added(ctx, "decisions", MONEY)
    code, out, _ = ctx("memory", "add", "decisions", "Amounts are whole cents everywhere now.")
    assert code == 0
    assert " · action created · " in out
    assert "similar:" in out
    assert MONEY in out
    assert "`ctx memory edit` changes one" in out
    key = "ghp_" + "a1B2" * 9
    assert " · redactions 1 · " in ctx("memory", "add", "facts", f"The key is {key}.")[1]
    assert "error: " in ctx("memory", "add", "nonsense", "x")[2]


def test_only_what_is_named_is_changed(root: Path, ctx: Run) -> None:
    memory = added(ctx, "decisions", MONEY, "--file", "src/money.py")
    tree(root, {"src/money.py": CODE + "\n\nVAT = 19\n"})
    assert "stale" in ctx("memory", "list")[1]
    assert ctx("memory", "list", "--status", "active")[0] == 1
    code, out, _ = ctx("memory", "edit", short_id(memory), "--revalidate")
    assert (code, out.splitlines()[1:]) == (0, ["changed: linked_files"])
    assert ctx("memory", "list", "--status", "active")[0] == 0
    assert ctx("memory", "edit", memory, "--title", "Cents", "--category", "facts")[0] == 0
    assert files(root) == ["facts"]
    assert ctx("memory", "show", memory)[1].startswith("Cents\n")
    assert "no option says what to change" in ctx("memory", "edit", memory)[2]


@pytest.mark.parametrize(("typed", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 1), ("", 1, 1)])
def test_a_memory_is_deleted_after_a_yes(
    root: Path, ctx: Run, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, left: int
) -> None:
    memory = added(ctx, "decisions", MONEY)
    monkeypatch.setattr(sys, "stdin", Keyboard(typed))
    assert ctx("memory", "delete", short_id(memory))[0] == code
    assert len(files(root)) == left


def test_where_nobody_can_be_asked_nothing_is_deleted_unasked(root: Path, ctx: Run) -> None:
    memory = added(ctx, "decisions", MONEY)
    code, _, err = ctx("memory", "delete", memory)
    assert code == 2
    assert "--yes" in err
    assert ctx("memory", "delete", memory, "--yes")[0] == 0
    assert files(root) == []
    assert ctx("memory", "show", memory)[0] == 2


# -- knowing ----------------------------------------------------------------------------------------------------------


def test_search_finds_what_people_wrote_and_what_the_repository_tells(root: Path, ctx: Run) -> None:
    added(ctx, "decisions", MONEY)
    with Engine.open(root) as engine:
        engine.index.update()
        engine.memory.run_to_end()
    code, out, _ = ctx("memory", "search", "amounts of money in cents")
    assert code == 0
    heads = [line for line in out.splitlines() if line.startswith("@@ ")]
    assert any(head.startswith("@@ decision .context-engine/memories/decisions/") for head in heads)
    assert any("docs/adr/0007-money.md" in head for head in heads)
    assert MONEY in out.splitlines()
    issue = ctx("memory", "search", "loses a cent", "--type", "issue")[1]
    assert "\n@@ issue src/money.py:2" in issue
    assert json.loads(ctx("memory", "search", "cents", "--json", "-n", "1")[1])["totalFound"] >= 2
    code, out, _ = ctx("memory", "search", "zyxwvut")
    assert code == 1
    assert out.startswith("0 of 0 results\n")


def test_the_rules_are_one_page(root: Path, ctx: Run) -> None:
    code, out, _ = ctx("memory", "rules")
    assert code == 0
    assert out.startswith(f"These are {QUOTED_FROM_REPOSITORY}.\n\n## Rules\n")
    assert "Never round an amount twice." in out
    assert "## Decisions" in out


def test_categories_are_offered_to_the_shell() -> None:
    assert CATEGORIES == shell_completion.MEMORY_CATEGORIES
    assert shell_completion.complete_memory_categories("de") == [("decisions", "")]
