"""A prompt is given what the repository knows about it, and nothing else: facts with places, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.enhance import (
    ADDED_TOKENS_MAX,
    CONSTRAINTS_MAX,
    Command,
    EnhancedPrompt,
    EnhanceMode,
    LikelyFile,
    PromptRewrite,
    build_enhanced_prompt,
    build_rewrite_request,
    check_rewrite,
    insert_prompt,
)
from context_engine.context.project_knowledge import KnowledgeEntry, ProjectKnowledge
from context_engine.engine import Engine
from context_engine.history import FileHistory
from context_engine.history.commit_facts import CommitTable, HeadCommits
from context_engine.model import Commit, CommitFileChange, Filter, Query
from context_engine.text import estimate_tokens
from tests.support.engines import indexed, open_engine
from tests.support.trees import tree

FILES = {
    "zoo/cats.py": '"""Cats of the zoo, and how they purr."""\n\n\nclass Cat:\n    def purr(self):\n        return "rrr"\n\n\ndef feed_cat(cat):\n    return cat.purr()\n',
    "zoo/keeper.py": "from zoo.cats import feed_cat\n\n\nclass KeeperError(Exception):\n    pass\n\n\ndef open_gate():\n    feed_cat(None)\n",
    "aquarium/gate.py": "def open_gate():\n    return 'water'\n",
    "aquarium/keeper.py": "def feed_fish():\n    return 'flakes'\n",
    "tests/test_cats.py": "from zoo.cats import feed_cat\n\n\ndef helper_cat():\n    return 1\n\n\ndef test_feed():\n    assert feed_cat(CAT)\n",
    "tests/a.py": "def make_zoo():\n    pass\n",
    "tests/b.py": "def make_zoo():\n    pass\n",
    "tests/c.py": "def make_zoo():\n    pass\n",
    "Makefile": "test:\n\tpytest\nlint:\n\truff check\n",
    "pyproject.toml": "[tool.mypy]\n",
}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("zoos") / "w", FILES), staleness_ms=600_000) as engine:
        yield engine


NOTHING_KNOWN = ProjectKnowledge()


def told(
    engine: Engine, prompt: str, mode: EnhanceMode = "light", team: ProjectKnowledge = NOTHING_KNOWN
) -> EnhancedPrompt:
    return build_enhanced_prompt(prompt, mode, Filter(), engine, team)


def places(made: EnhancedPrompt) -> dict[str, list[str]]:
    return {each.text: [str(place) for place in each.places] for each in made.references}


# -- what is named --


def test_names_are_resolved_to_path_and_line(zoo: Engine) -> None:
    found = places(told(zoo, "Why does `feed_cat` call Cat.purr() at zoo/cats.py:10 and raise a KeeperError?"))
    assert found == {
        "feed_cat": ["zoo/cats.py:9 (feed_cat)"],
        "Cat.purr()": ["zoo/cats.py:5 (Cat.purr)"],
        "zoo/cats.py:10": ["zoo/cats.py:10 (feed_cat)"],
        "KeeperError": ["zoo/keeper.py:4 (KeeperError)"],
    }


def test_a_trace_of_another_machine_leads_to_the_files_of_this_one(zoo: Engine) -> None:
    trace = 'Traceback:\n  File "/home/ann/work/zoo/cats.py", line 6, in purr\n  File "/usr/lib/python3/json.py", line 3\nValueError: x'
    assert list(places(told(zoo, trace)).values())[:2] == [["zoo/cats.py:6 (Cat.purr)"], []]


def test_a_function_of_a_module_is_found_by_the_name_of_the_module(zoo: Engine) -> None:
    assert places(told(zoo, "see keeper.feed_fish"))["keeper.feed_fish"] == ["aquarium/keeper.py:1 (feed_fish)"]


def test_an_ambiguous_name_becomes_a_question_with_its_candidates(zoo: Engine) -> None:
    made = told(zoo, "rename `open_gate`")
    assert made.references[0].is_ambiguous
    (question,) = made.list_texts("open_questions")
    assert (
        question == "`open_gate` may be aquarium/gate.py:1 (open_gate) or zoo/keeper.py:8 (open_gate): which is meant?"
    )
    assert "keeper.py" in told(zoo, "look into `keeper.py`").list_texts("open_questions")[0]


def test_an_unknown_name_is_said_to_be_missing_with_what_comes_near(zoo: Engine) -> None:
    made = told(zoo, "fix `feed_cats` in zoo/cat.py")
    assert made.list_texts("open_questions") == [
        "`feed_cats` was not found; nearest: feed_cat",
        "`zoo/cat.py` was not found; nearest: zoo/cats.py, tests/test_cats.py",
    ]


def test_names_of_other_peoples_libraries_are_left_alone(zoo: Engine) -> None:
    made = told(zoo, "Use GitHub, json.loads() and print(), and catch the ValueError of Node.js")
    assert not made.is_changed and not any(each.is_missing for each in made.references)


def test_definitions_in_tests_count_only_where_nothing_else_is_meant(zoo: Engine) -> None:
    assert places(told(zoo, "`helper_cat`"))["helper_cat"] == ["tests/test_cats.py:4 (helper_cat)"]
    assert not places(told(zoo, "`make_zoo`"))["make_zoo"]  # three tests define it, so none of them is meant


def test_a_line_behind_the_end_of_a_file_is_said_not_to_be_there(zoo: Engine) -> None:
    assert told(zoo, "see zoo/cats.py:99").list_texts("references") == [
        "`zoo/cats.py:99`: zoo/cats.py; it has 10 lines, no line 99"
    ]


# -- what is not named --


@pytest.mark.parametrize(
    "prompt", ["make it better", "please fix the bug", "go on", "hello", "is this correct?", "weiter so"]
)
def test_a_prompt_that_names_nothing_comes_back_as_it_is(zoo: Engine, prompt: str) -> None:
    made = told(zoo, prompt, "rich")
    assert not made.is_changed and made.text == prompt and made.lines == ()


def test_files_that_a_task_is_about_are_told_and_never_those_that_were_named(zoo: Engine) -> None:
    made = told(zoo, "the cats of the zoo purr when the keeper feeds a cat")
    assert made.list_items(LikelyFile)[0].path == "zoo/cats.py"
    again = told(zoo, "the cats of the zoo in zoo/cats.py purr when the keeper feeds a cat")
    assert "zoo/cats.py" not in [each.path for each in again.list_items(LikelyFile)]


def test_history_may_rank_the_likely_files_anew(zoo: Engine) -> None:
    asked: list[Query] = []

    def localise(query: Query) -> list[tuple[str, float]]:
        asked.append(query)
        return [("Makefile", 2.0), ("zoo/cats.py", 1.5), ("tests/a.py", 0.2)]

    made = told(
        zoo, "the cats of the zoo purr when the keeper feeds a cat", team=ProjectKnowledge(predict_changes=localise)
    )
    assert [each.path for each in made.list_items(LikelyFile)] == ["Makefile", "zoo/cats.py"] and len(asked) == 1
    told(zoo, "make it better", team=ProjectKnowledge(predict_changes=localise))
    assert len(asked) == 1  # below the floor nobody is asked


# -- what the team knows --


def remembered(number: int, kind: str = "rule", content: str = "Never wake a cat.") -> KnowledgeEntry:
    return KnowledgeEntry(f"mem_{number}", kind, "Cats", content, "memory", f"memories/{number}.md", score=0.5)


def test_rules_and_decisions_are_told_with_their_ids_and_facts_are_not(zoo: Engine) -> None:
    team = ProjectKnowledge(
        recall=lambda _text, _limit, _files=None: [
            remembered(1),
            remembered(2, "facts"),
            remembered(3, "decision", "Cats\nare fed at 8."),
        ]
    )
    made = told(zoo, "fix `feed_cat`", team=team)
    assert made.list_texts("constraints") == [
        "memories/1.md says: “Never wake a cat.” [mem_1]",
        "memories/3.md says: “Cats are fed at 8.” [mem_3]",
    ]
    assert not told(zoo, "make it better", team=team).is_changed  # memories alone change no prompt
    many = ProjectKnowledge(recall=lambda _text, limit, _files=None: [remembered(n) for n in range(limit)])
    assert len(told(zoo, "fix `feed_cat`", team=many).list_items(KnowledgeEntry)) == CONSTRAINTS_MAX["light"]


def test_the_repositorys_own_commands_and_the_items_of_the_prompt_are_told(zoo: Engine) -> None:
    made = told(zoo, "Look after the cats.\n- fix `feed_cat`\n- add a test", "rich")
    assert [each.text for each in made.list_items(Command)] == ["make test", "make lint", "mypy ."]
    assert made.list_texts("done_when") == ["fix `feed_cat`", "add a test"]
    assert made.objective == "Look after the cats."
    assert len(told(zoo, "Fix `feed_cat`").list_items(Command)) == 2


def test_the_tests_of_a_file_are_told_and_rich_tells_more_than_light(zoo: Engine) -> None:
    prompt = "Fix `feed_cat`: the cats of the zoo purr when the keeper opens the gate"
    light, rich = told(zoo, prompt), told(zoo, prompt, "rich", ProjectKnowledge(history=_partners("aquarium/gate.py")))
    assert light.list_texts("related") == ["tests/test_cats.py tests zoo/cats.py"]
    assert "aquarium/gate.py usually changes together with zoo/cats.py" in rich.list_texts("related")
    assert {line.text for line in light.lines if line.section != "likely_files"} < {line.text for line in rich.lines}


def test_of_an_answer_that_is_probably_about_something_else_nothing_is_told(zoo: Engine) -> None:
    prompt = "the kubernetes cluster autoscaler of the cats evicts pods during rolling deployments"
    assert zoo.search.find(Query(prompt, 3)).weakness
    assert not told(zoo, prompt).is_changed


def _partners(path: str) -> FileHistory:
    """Return a history in which a file always changed together with zoo/cats.py."""
    commits = [
        Commit(f"{at:040x}", at, "a@b", "Feed the cats", (CommitFileChange("zoo/cats.py"), CommitFileChange(path)))
        for at in range(1, 9)
    ]
    order = np.arange(len(commits), dtype=np.int32)[::-1].copy()
    return FileHistory(CommitTable.empty().with_commits(commits).with_head("head", HeadCommits(order)), "head")


# -- the form --


words = st.sampled_from(
    [
        "fix",
        "`feed_cat`",
        "zoo/cats.py:3",
        "open_gate()",
        "the cats purr",
        "\n- add tests",
        "```py\nx = `1`\n```",
        "nope_nope",
        "ü",
        "  ",
    ]
)


@given(st.lists(words, min_size=1, max_size=12), st.sampled_from(["light", "rich"]))
def test_the_prompt_stays_word_for_word_and_what_is_added_keeps_its_limit(
    zoo: Engine, parts: list[str], mode: EnhanceMode
) -> None:
    prompt = " ".join(parts)
    made = told(zoo, prompt, mode)
    assert made.text.startswith(prompt)
    assert estimate_tokens(made.text.removeprefix(prompt)) <= ADDED_TOKENS_MAX[mode]
    assert made.is_changed == bool(made.lines)
    for place in (place for each in made.references for place in each.places):
        assert (zoo.root / place.path).is_file()


def test_without_an_index_files_are_still_resolved_and_nothing_is_called_missing(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "w", FILES)) as engine:
        made = told(engine, "fix `feed_cats` in zoo/cats.py:5")
        assert places(made) == {"feed_cats": [], "zoo/cats.py:5": ["zoo/cats.py:5 (Cat.purr)"]}
        assert not made.list_texts("open_questions") and "no index" in made.warnings[0]


PROMPT = "fix `feed_cat`, it purrs too early"


@pytest.fixture(scope="module")
def made(zoo: Engine) -> EnhancedPrompt:
    return build_enhanced_prompt(PROMPT, "light", Filter(), zoo, ProjectKnowledge())


def own(draft: str, made: EnhancedPrompt, zoo: Engine, mode: EnhanceMode = "light") -> PromptRewrite:
    return check_rewrite(draft, made, mode, zoo)


@given(st.text(max_size=40), st.text(max_size=40), st.text(min_size=1, max_size=20))
def test_the_user_s_words_are_put_where_the_draft_says(before: str, after: str, words: str) -> None:
    text = insert_prompt(f"{before}{{prompt}}{after}", words)
    assert words in text and text.startswith(before.partition("{prompt}")[0])
    assert insert_prompt(text, words) == text


@pytest.mark.parametrize(
    ("draft", "text", "reason"),
    [
        ("fix the cat", PROMPT, "must keep the original prompt"),
        (f"{PROMPT} in zoo/dogs.py", "zoo/dogs.py", "not found"),
        (f"{PROMPT} in zoo/cats.py:400", "zoo/cats.py:400", "no line 400"),
        (f"{PROMPT} " + "and more words, " * 400, PROMPT, "light allows 600"),
    ],
)
def test_what_is_not_so_is_an_objection(made: EnhancedPrompt, zoo: Engine, draft: str, text: str, reason: str) -> None:
    (objection,) = own(draft, made, zoo).objections
    assert objection.text.startswith(text) and reason in objection.reason
    assert reason in own(draft, made, zoo).problem


def test_the_model_is_told_the_facts_and_the_agent_only_what_to_do(made: EnhancedPrompt) -> None:
    second = build_rewrite_request(made, "light")
    assert PROMPT in second.brief and "zoo/cats.py:9" in second.brief and estimate_tokens(second.brief) <= 2_000
    step = second.next()
    assert "zoo/cats.py" not in step["brief"] and step["arguments_template"].keys() == {"prompt", "mode", "draft"}
