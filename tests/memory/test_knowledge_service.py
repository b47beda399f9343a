"""What one Engine knows of its team, by the tools that ask for it: over real repositories, with a real history."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from context_engine import tools
from context_engine.context.project_knowledge import QUOTED_FROM_REPOSITORY
from context_engine.engine import Engine
from context_engine.errors import PlanNotFound
from context_engine.history import HistoryMiner
from context_engine.index import LiveIndex
from context_engine.model import Query
from context_engine.plans.model import Plan, PlanStep
from context_engine.search.file_usage import BOOST_MAX
from context_engine.server import mcp_server, prompt_templates
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from tests.support.engines import found, indexed, open_engine
from tests.support.trees import commit, git, repository, tree

ADR = "# 3. Amounts are whole cents\n\nStatus: accepted\n\n## Decision\n\nAmounts are kept as whole cents, never as floats.\n"
AGENTS = "# Rules\n\n- Every amount is rounded half to even.\n- Run `make test` before each commit.\n"
FILES = {
    "docs/adr/0003-cents.md": ADR,
    "AGENTS.md": AGENTS,
    "src/amount.py": "# TODO: negative amounts are not refused\ndef amount(cents):\n    return cents\n",
    "src/invoice.py": "from src.amount import amount\n\ndef invoice(lines):\n    return sum(amount(each) for each in lines)\n",
    "src/mail.py": "def send(message):\n    return message\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository whose invoices always changed with its amounts."""
    root = repository(tmp_path / "shop", FILES)
    for number in range(6):
        for path in ("src/amount.py", "src/invoice.py"):
            tree(root, {path: f"{FILES[path]}# step {number}\n"})
        commit(
            root, f"fix(amount): round step {number} of an invoice" if number < 5 else "Sum in one place\n\nFixes #77"
        )
    return root


@pytest.fixture
def engine(shop: Path) -> Generator[Engine]:
    with indexed(shop) as engine:
        yield engine


def ask(engine: Engine, tool: str, **arguments: Any) -> dict[str, Any]:
    return json.loads(tools.call(engine, tool, arguments).text)


def known(engine: Engine, query: str, **arguments: Any) -> list[dict[str, Any]]:
    return ask(engine, "context_search", query=query, **arguments)["results"]


# -- discoveries ------------------------------------------------------------------------------------------------------


def test_a_comment_of_an_issue_is_shown_with_the_commit_and_the_day_of_its_line(engine: Engine, shop: Path) -> None:
    first = git(shop, "log", "--reverse", "--format=%H %aI").split()[:2]
    issue = known(engine, "negative amounts are not refused", type="issue")[0]
    assert issue["links"] == [f"src/amount.py:1@{first[0][:12]}"]
    assert issue["date"][:10] == first[1][:10]


def test_a_decision_record_is_found_with_its_line_and_forgotten_with_its_file(engine: Engine, shop: Path) -> None:
    engine.memory.run_to_end()
    first = known(engine, "why whole cents", type="decision")[0]
    assert "never as floats" in first["content"]
    assert first["source"] == "discovery"
    assert first["links"][0].startswith("docs/adr/0003-cents.md:5@")
    (shop / "docs/adr/0003-cents.md").unlink()
    engine.index.update()
    engine.memory.run_to_end()
    assert known(engine, "why whole cents", type="decision") == []


def test_commits_tell_what_was_fixed_also_in_the_text_below_their_subject(engine: Engine) -> None:
    engine.memory.run_to_end()
    issues = known(engine, "round an invoice, sums", type="issue", limit=20)
    told = {each["content"] for each in issues if each["source"] == "git"}
    assert "fix(amount): round step 4 of an invoice" in told
    assert "Sum in one place" in told


def test_an_answer_says_that_files_are_still_being_indexed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_engine(shop) as engine:
        monkeypatch.setattr(LiveIndex, "is_building", property(lambda _: True))
        warned = ask(engine, "context_search", query="whole cents")["warnings"]
        assert "not all files are read yet: ask again in a moment" in warned
        engine.index.update()
        assert engine.memory.find_unread() == []


def test_an_answer_says_what_was_not_read_of_the_history(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HistoryMiner.__init__.__kwdefaults__ or {}, "most", 3)
    with indexed(shop) as engine:
        warned = ask(engine, "context_search", query="whole cents")["warnings"]
        assert "not all could be read: only the newest 3 commits are read" in warned


@pytest.mark.parametrize("case", ["no git", "one commit", "shallow", "no index"])
def test_it_answers_without_a_history(tmp_path: Path, shop: Path, case: str) -> None:
    if case == "shallow":
        git(tmp_path, "clone", "--quiet", "--depth=1", shop.as_uri(), "copy")
        root = tmp_path / "copy"
    else:
        root = tmp_path / "copy"
        (repository if case == "one commit" else tree)(root, FILES)
    with open_engine(root) as engine:
        if case != "no index":
            engine.index.update()
            assert known(engine, "why whole cents")
        ask(engine, "add_memory", category="facts", content="The shop is closed on Sundays.")
        assert known(engine, "when is the shop closed")[0]["source"] == "memory"
        bundled = ask(engine, "get_context_for_prompt", query="how is an amount rounded")
        assert bundled["files"]
        assert ask(engine, "enhance_prompt", prompt="change src/invoice.py to round")["changed"] is True


# -- bundles and prompts ----------------------------------------------------------------------------------------------


def test_a_bundle_holds_what_changes_together_what_is_remembered_and_what_was_decided(engine: Engine) -> None:
    ask(engine, "add_memory", category="decisions", content="An amount of an invoice is never negative.")
    engine.memory.run_to_end()
    told = ask(engine, "get_context_for_prompt", query="compute the amount of an invoice")
    assert "src/invoice.py: changed together with src/amount.py in 7 of 7 commits" in told["hints"]
    assert told["memories"][0]["content"] == "An amount of an invoice is never negative."
    assert any("whole cents" in each["content"] for each in told["discoveries"])
    assert not [each for each in told.get("warnings", []) if "history" in each]


# -- use --------------------------------------------------------------------------------------------------------------


# -- what a client pulls ----------------------------------------------------------------------------------------------


def test_a_client_pulls_rules_and_decisions_at_the_start_of_work(engine: Engine) -> None:
    ask(engine, "add_memory", category="preferences", content="Use tabs in Makefiles.", priority="critical")

    async def body() -> None:
        async with Client(mcp_server.build_server(ToolDispatcher(single_engine(engine)))) as client:
            (content,) = (await client.read_resource("ctx://rules")).contents
            assert isinstance(content, types.TextResourceContents)
            rules, decisions = content.text.split("## Decisions")
            assert rules.startswith(
                f"These are {QUOTED_FROM_REPOSITORY}.\n\n## Rules\n\n- Use tabs in Makefiles. (.context-engine/memories/preferences/"
            )
            assert "Every amount is rounded half to even. (AGENTS.md:3@" in rules
            assert "never as floats" in decisions

    anyio.run(body)
    gate = ToolDispatcher(single_engine(engine))
    text = prompt_templates.render_prompt(gate, "begin", {"task": "round it"}, listed=frozenset(), projects=())
    assert "Every amount is rounded half to even." in text


# -- a plan's step ----------------------------------------------------------------------------------------------------


def test_a_bundle_for_a_plan_holds_what_its_current_step_needs(engine: Engine) -> None:
    steps = (
        PlanStep(uid="s1", title="Send the message in a thread", files_to_modify=("src/mail.py",), acceptance_criteria=("tests pass",)),
        PlanStep(uid="s2", title="Round invoices", files_to_modify=("src/invoice.py",), depends_on=("s1",)),
    )  # fmt: skip
    saved = engine.plans.repository.save(Plan(goal="Faster mail", steps=steps))
    plain = ask(engine, "get_context_for_prompt", query="what is next", max_files=1)
    told = ask(engine, "get_context_for_prompt", query="what is next", max_files=1, plan_id=saved.plan.id)
    assert told["files"][0]["path"] == "src/mail.py"
    assert told["hints"][0] == f"{saved.plan.id}, step 1: Send the message in a thread; done when: tests pass"
    assert not [hint for hint in plain["hints"] if "step 1" in hint]
    assert told["query"] == "what is next"
    with pytest.raises(PlanNotFound):
        ask(engine, "get_context_for_prompt", query="what is next", plan_id="nope")


QUESTION = "round the amount of an invoice"
ASKED = (
    ("search_code", {"query": QUESTION, "token_budget": 500}),
    ("get_context", {"query": QUESTION, "token_budget": 500}),
    ("get_context", {"query": QUESTION, "format": "json"}),
    ("enhance_prompt", {"prompt": QUESTION, "mode": "rich"}),
    ("create_plan", {"task": QUESTION, "auto_save": False}),
)


def test_the_same_question_of_the_same_index_gives_the_same_bytes(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of the first answer, when the history is read slowly, later, in another order, and by another clock."""
    mine = HistoryMiner.mine

    def mine_slowly(*parts: Any, **options: Any) -> Any:
        threading.Event().wait(0.5)
        return mine(*parts, **options)

    monkeypatch.setattr(HistoryMiner, "mine", mine_slowly)
    seen: dict[str, set[str]] = {}
    for opened in range(4):
        monkeypatch.setenv("CTX_FAKE_NOW", f"{2027 + opened}-05-05")
        with indexed(shop, cache_folder=tmp_path / f"cache{opened // 2}") as engine:  # one is new, the next known
            if opened % 2:
                engine.start_background_work(0)
                engine.watch()
                engine.memory.run_to_end()
            for tool, arguments in ASKED[:: -1 if opened % 3 else 1]:
                for _ in range(2):
                    text = tools.call(engine, tool, arguments).text
                    if tool == "create_plan":  # ids are new
                        text = json.dumps(json.loads(text)["planning_context"])
                    seen.setdefault(f"{tool} {arguments}", set()).add(text)
    assert [name for name, texts in seen.items() if len(texts) > 1] == []


# -- use --


def test_what_is_read_and_edited_counts_more_in_answers_and_what_was_shown_does_not(tmp_path: Path) -> None:
    twins = {f"{name}.py": "def parcel_price(parcel):\n    return parcel.weight\n" for name in "abc"}
    root = tree(tmp_path / "w", twins)
    with indexed(root) as engine:
        plain = {str(hit.chunk.path): hit.score for hit in engine.search.find(Query("parcel price")).hits}
        assert [*plain] == ["a.py", "c.py", "b.py"]  # alike but for their names
        for _ in range(20):
            tools.call(engine, "codebase_retrieval", {"query": "parcel price", "include_paths": ["c.py"]})
            tools.call(engine, "read_file", {"path": "b.py"})
    with open_engine(root) as engine:
        lifted = {str(hit.chunk.path): hit.score for hit in engine.search.find(Query("parcel price")).hits}
        assert [*lifted] == ["b.py", "a.py", "c.py"]
        assert plain["b.py"] < lifted["b.py"] <= plain["b.py"] * (1 + BOOST_MAX)
        assert lifted["c.py"] == plain["c.py"]
        engine.clear_index()
        engine.index.update()
        assert found(engine, "parcel price") == [*plain]


def test_it_closes_while_the_thread_of_the_index_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start_late(thread: threading.Thread) -> None:
        if thread.name == "ctx-learning":
            is_starting.set()
            is_closing.wait(0.2)
        start(thread)

    start, is_starting, is_closing = threading.Thread.start, threading.Event(), threading.Event()
    with indexed(tree(tmp_path / "w", {"a.py": "x = 1\n"})) as engine:
        memory = engine.memory
        monkeypatch.setattr(threading.Thread, "start", start_late)
        waking = threading.Thread(target=memory.start)
        waking.start()
        assert is_starting.wait(10)
    waking.join()
