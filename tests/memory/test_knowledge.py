"""What is known is found by what was asked for: memories and discoveries in one ranking, with or without vectors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context import KnowledgeEntry
from context_engine.errors import Cancelled, EmbedderFailed
from context_engine.memory.knowledge import IN_COMMITS, KnowledgeResults
from context_engine.memory.memory_index import TextEmbedder, compute_freshness, fuse_scores, take_best
from context_engine.memory.memory_requests import KnowledgeQuery, MemoryDraft
from tests.support.remembering import Remembering

ADR = "# Count money in cents\n\nStatus: accepted\n\n## Decision\n\nAmounts are whole numbers of cents.\n"
FILES = {
    "docs/adr/0003-cents.md": ADR,
    "AGENTS.md": "# Rules\n\n- Round amounts only in templates.\n- Never log a card number.\n",
    "src/billing/tax.py": "def tax():\n    pass  # TODO: amounts over a million overflow\n",
    "src/auth/login.py": "# FIXME: tokens never expire here\n",
}


@pytest.fixture
def here(tmp_path: Path) -> Remembering:
    (tmp_path / "work").mkdir()
    made = Remembering(tmp_path / "work")
    made.learn(FILES)
    return made


def ask(here: Remembering, query: str, **sought: object) -> KnowledgeResults:
    return here.knowledge.search(KnowledgeQuery(query, **sought))  # ty: ignore[invalid-argument-type]


def places(found: KnowledgeResults) -> list[str]:
    return [result.place for result in found.results]


def test_questions_are_answered_by_what_the_repository_says_of_itself(here: Remembering) -> None:
    assert places(ask(here, "how do we count money"))[0] == "docs/adr/0003-cents.md:5@c0ffeec0ffee"
    assert places(ask(here, "known issues with tokens"))[0] == "src/auth/login.py:1@c0ffeec0ffee"
    assert places(ask(here, "where to round amounts"))[0] == "AGENTS.md:3@c0ffeec0ffee"


def test_a_second_refresh_does_nothing_and_a_changed_file_is_asked_again(here: Remembering) -> None:
    before = ask(here, "amounts", limit=20)
    assert here.learn(FILES) == 0
    assert ask(here, "amounts", limit=20) == before
    assert here.learn(FILES | {"AGENTS.md": "- Amounts are never shown raw.\n"}) == 1
    assert "Amounts are never shown raw." in [each.content for each in ask(here, "amounts").results]


def test_a_refresh_can_be_cancelled_and_goes_on_later(here: Remembering) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        here.learn({"b.py": "# TODO: go on here"}, stop)
    assert here.learn({"b.py": "# TODO: go on here"}) == 1
    assert places(ask(here, "go on")) == ["b.py:1@c0ffeec0ffee"]


def test_filters_come_before_the_ranking_and_work_together(here: Remembering) -> None:
    assert {each.type for each in ask(here, "amounts", type="issue").results} == {"issue"}
    assert places(ask(here, "amounts tokens", module="auth")) == ["src/auth/login.py:1@c0ffeec0ffee"]
    assert places(ask(here, "amounts tokens", module="src/billing", type="issue")) == [
        "src/billing/tax.py:2@c0ffeec0ffee"
    ]
    assert ask(here, "amounts", module="auth", type="rule").total == 0
    best = ask(here, "amounts", type="issue").results[0]
    assert best.score > 0.7  # by the scale of what passed, not of all


@given(st.sampled_from("how amounts tokens cents never round".split()), st.integers(1, 20), st.booleans())
def test_scores_fall_from_one_to_nothing_and_the_limit_is_kept(words: str, limit: int, stale: bool) -> None:
    found = ask(SHARED[0], words, limit=limit, include_stale=stale)
    scores = [each.score for each in found.results]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert len(scores) == min(limit, found.total)


SHARED: list[Remembering] = []


@pytest.fixture(scope="module", autouse=True)
def shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    work = tmp_path_factory.mktemp("shared") / "work"
    work.mkdir()
    made = Remembering(work)
    made.learn(FILES)
    SHARED[:] = [made]


def test_without_embeddings_it_answers_by_words_and_says_so(here: Remembering) -> None:
    found = ask(here, "amounts")
    assert found.results
    assert found.engine == "lexical"
    assert "no embeddings are at hand" in found.warnings[0]
    assert "search_text" in found.warnings[0]


def test_a_failing_embedder_is_reported_with_its_reason(tmp_path: Path) -> None:
    def fail(texts: Sequence[str]) -> np.ndarray:
        raise EmbedderFailed(f"API rate limit exceeded for {len(texts)} texts")

    (tmp_path / "work").mkdir()
    here = Remembering(tmp_path / "work", embed=TextEmbedder("toy", fail))
    here.learn(FILES)
    found = ask(here, "amounts")
    assert found.results
    assert "API rate limit exceeded" in found.warnings[0]


def test_meaning_finds_what_shares_no_word_and_each_text_is_embedded_once(tmp_path: Path) -> None:
    embedded: list[str] = []

    def toy(texts: Sequence[str]) -> np.ndarray:
        embedded.extend(texts)
        return np.array([[0.1, "card" in text.lower() or "pan" in text.lower()] for text in texts], np.float32)

    (tmp_path / "work").mkdir()
    here = Remembering(tmp_path / "work", embed=TextEmbedder("toy", toy))
    here.learn(FILES)
    assert len(embedded) == 5  # before anybody asks
    found = ask(here, "leaking a PAN")
    assert embedded[5:] == ["leaking a PAN"]
    assert places(found)[0] == "AGENTS.md:4@c0ffeec0ffee"
    assert (found.engine, found.warnings) == ("hybrid", ())
    before = len(embedded)
    again = Remembering(tmp_path / "work", embed=TextEmbedder("toy", toy))
    ask(again, "printing a PAN")
    assert embedded[before:] == ["printing a PAN"]


def test_what_is_stale_is_left_out_and_counted_unless_asked_for(here: Remembering) -> None:
    here.write("src/money.py", "CENT = 1\n")
    added = here.memories.add(MemoryDraft("facts", "Amounts pass through money.py", linked_files=("src/money.py",)))
    here.write("src/money.py", "CENT = 2\n")
    found = ask(here, "amounts pass through", limit=20)
    assert added.path not in places(found)
    assert found.left_out == 1
    assert "include_stale" in found.warnings[-1]
    shown = {each.place: each for each in ask(here, "amounts pass through", limit=20, include_stale=True).results}
    assert (shown[added.path].status, shown[added.path].why) == ("stale", "src/money.py changed")
    assert shown[added.path].score == pytest.approx(0.3)


def test_bundles_and_prompts_get_what_still_holds_about_a_text_of_any_length(here: Remembering) -> None:
    added = here.memories.add(MemoryDraft("decisions", "Amounts are rounded once.", title="Once"))
    found = here.knowledge.recall("How are amounts rounded?\n" * 400, 3)
    assert len(found) == 2
    assert (found[0].id, found[0].source, found[0].place) == (added.id, "memory", added.path)
    assert found[1].source == "discovery"
    assert len(here.knowledge.recall("How are amounts rounded?", 1)) == 1
    assert here.knowledge.recall("ab", 3) == []


def test_issues_fade_as_others_come_and_not_by_the_clock(here: Remembering) -> None:
    issue = KnowledgeEntry(
        "dis_1", "issue", "Fix refunds", "Refunds were wrong.", "git", commit="abc", date="2026-11-01"
    )

    def scores() -> dict[str, float]:
        here.knowledge.refresh(IN_COMMITS, {"history": b"1"}, lambda _: [issue])
        return {each.id: each.score for each in ask(here, "refunds of amounts", limit=20, min_score=0.01).results}

    before = scores()
    here.at("2029-01-01T12:00:00Z")
    assert scores() == before
    here.at("2027-04-30T00:00:00Z")  # 180 days on
    here.memories.add(MemoryDraft("facts", "The shop is closed."))
    assert scores() == before | {"dis_1": pytest.approx(before["dis_1"] / 2)}


def test_what_is_used_counts_a_little_more(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    here = Remembering(tmp_path / "work", access=lambda path: float(path == "b.py"))
    here.learn({"a.py": "# TODO: twice the same", "b.py": "# TODO: twice the same"})
    first, second = ask(here, "twice the same").results
    assert first.paths == ("b.py",)
    assert second.score < first.score <= second.score * 1.15


# -- the numbers -------------------------------------------------------------------------------------------------------

SCORES = st.dictionaries(st.integers(1, 9), st.floats(0.01, 10), max_size=5)


@given(SCORES, SCORES, st.sets(st.integers(1, 9)))
def test_only_what_is_allowed_is_ranked_and_the_best_of_both_is_one(
    by_words: dict, by_meaning: dict, allowed: set
) -> None:
    found = fuse_scores(by_words, by_meaning, allowed)
    assert found.keys() <= allowed
    assert all(0.0 < score <= 1.0 for score in found.values())
    others = {number: score * 100 for number, score in by_words.items() if number not in allowed}
    assert fuse_scores(by_words | others, by_meaning, allowed) == found


@given(SCORES, st.integers(0, 9))
def test_the_best_are_no_worse_than_those_left_out(scores: dict, most: int) -> None:
    kept = take_best(scores, most)
    assert len(kept) == min(most, len(scores))
    left = [score for number, score in scores.items() if number not in kept]
    assert min(kept.values(), default=99.0) >= max(left, default=0.0) or most == 0


@given(st.sampled_from(["issue", "pattern", "rule", "decision"]), st.floats(0, 5_000), st.floats(0, 5_000))
def test_nothing_grows_fresher_with_age(kind: str, age: float, more: float) -> None:
    assert (
        compute_freshness(kind, age_days=age + more, stale=False)
        <= compute_freshness(kind, age_days=age, stale=False)
        <= 1.0
    )
