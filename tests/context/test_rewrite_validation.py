"""Somebody's own version of a prompt stands when it keeps the user's words and says only what is so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.budget import estimate_max_tokens
from context_engine.context.enhance import (
    EnhancedPrompt,
    EnhanceMode,
    PromptRewrite,
    build_enhanced_prompt,
    build_rewrite_request,
    check_rewrite,
    insert_prompt,
)
from context_engine.context.project_knowledge import ProjectKnowledge
from context_engine.engine import Engine
from context_engine.model import Filter
from tests.support.engines import indexed
from tests.support.trees import tree

FILES = {
    "zoo/cats.py": '"""Cats of the zoo."""\n\n\ndef feed_cat(cat):\n    return cat.purr()\n',
    "zoo/keeper.py": "from zoo.cats import feed_cat\n\n\ndef open_gate():\n    feed_cat(None)\n",
    "Makefile": "test:\n\tpytest\n",
}
PROMPT = "fix `feed_cat`, it purrs too early"


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("zoos") / "w", FILES), staleness_ms=600_000) as engine:
        yield engine


@pytest.fixture(scope="module")
def made(zoo: Engine) -> EnhancedPrompt:
    return build_enhanced_prompt(PROMPT, "light", Filter(), zoo, ProjectKnowledge())


def own(draft: str, made: EnhancedPrompt, zoo: Engine, mode: EnhanceMode = "light") -> PromptRewrite:
    return check_rewrite(draft, made, mode, zoo)


def test_a_draft_that_keeps_the_words_and_names_what_is_there_stands(made: EnhancedPrompt, zoo: Engine) -> None:
    found = own(f"In zoo/cats.py:4: {PROMPT}. `open_gate` calls it; run `make test`.", made, zoo)
    assert not found.objections and not found.warnings and PROMPT in found.text


@given(st.text(max_size=40), st.text(max_size=40), st.text(min_size=1, max_size=20))
def test_the_user_s_words_are_put_where_the_draft_says(before: str, after: str, words: str) -> None:
    text = insert_prompt(f"{before}{{prompt}}{after}", words)
    assert words in text and text.startswith(before.partition("{prompt}")[0])
    assert insert_prompt(text, words) == text


def test_a_prompt_that_speaks_of_the_mark_itself_is_left_alone(zoo: Engine) -> None:
    about = build_enhanced_prompt("fill {prompt} in `feed_cat`", "light", Filter(), zoo, ProjectKnowledge())
    assert own("Please: fill {prompt} in `feed_cat`", about, zoo).text == "Please: fill {prompt} in `feed_cat`"


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


def test_rich_has_room_for_more(made: EnhancedPrompt, zoo: Engine) -> None:
    draft = f"{PROMPT} " + "and more words, " * 400
    assert own(draft, made, zoo, "light").objections and not own(draft, made, zoo, "rich").objections


def test_unknown_names_and_commands_are_told_of_and_the_users_own_are_not(zoo: Engine) -> None:
    about = build_enhanced_prompt("fix `feed_kat` in zoo/cats.py", "light", Filter(), zoo, ProjectKnowledge())
    found = own("fix `feed_kat` in zoo/cats.py; then `feed_dat`, and run `npm run lint`", about, zoo)
    assert found.warnings == (
        "nothing here defines feed_dat; nearest: feed_cat",
        "no file at the top of the repository defines `npm run lint`",
    )


def test_the_model_is_told_the_facts_and_the_agent_only_what_to_do(made: EnhancedPrompt) -> None:
    second = build_rewrite_request(made, "light")
    assert PROMPT in second.brief and "zoo/cats.py:4" in second.brief and estimate_max_tokens(second.brief) <= 2_000
    step = second.next()
    assert "zoo/cats.py" not in step["brief"] and step["arguments_template"].keys() == {"prompt", "mode", "draft"}


def test_a_prompt_of_any_length_leaves_the_facts_their_room(zoo: Engine) -> None:
    long = build_enhanced_prompt(
        "fix `feed_cat` " + "\u4ee3\u7801 and more " * 700, "rich", Filter(), zoo, ProjectKnowledge()
    )
    brief = build_rewrite_request(long, "rich").brief
    assert estimate_max_tokens(brief) <= 2_000 and "zoo/cats.py:4" in brief and "fix `feed_cat` \u4ee3" in brief
