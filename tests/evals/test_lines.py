"""The evaluation of lines: its questions are well formed, and its figures are what they say."""

from __future__ import annotations

import doctest
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.lines import score
from evals.lines.score import QUESTIONS, Question, score_reply
from evals.places.shown import Place

REPOSITORIES = tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["repository"]
place = st.builds(Place, st.sampled_from("abcde"), st.integers(1, 20), st.integers(20, 40))
places = st.lists(place, min_size=1, max_size=3, unique_by=lambda place: place.path)


def test_examples_hold() -> None:
    assert doctest.testmod(score).failed == 0


def test_ten_repositories_at_pinned_commits_are_asked_200_questions() -> None:
    texts = [text for repository in REPOSITORIES for text, *_ in repository["questions"]]
    assert len(REPOSITORIES) == 10
    assert all(re.fullmatch("[0-9a-f]{40}", repository["commit"]) for repository in REPOSITORIES)
    assert len(set(texts)) == len(texts) >= 200


def test_no_repository_is_one_that_something_is_trained_or_tuned_on() -> None:
    lists = [QUESTIONS.parents[2] / path for path in ("training/packages.toml", "evals/wide/repositories.toml")]
    names = set(re.findall(r'"[^"]*?([^"/:]+)"', "\n".join(file.read_text(encoding="utf-8").lower() for file in lists)))
    assert {"starlette", "mybatis-3"} <= names
    assert names.isdisjoint(repository["name"].split("/")[1].lower() for repository in REPOSITORIES)


@pytest.mark.parametrize("repository", REPOSITORIES, ids=lambda repository: repository["name"])
def test_a_question_is_answered_by_at_most_three_spans_of_which_one_decides(repository) -> None:
    for question in (Question.of(*row) for row in repository["questions"]):
        spans = question.primary + question.secondary
        assert question.primary, question
        assert len(set(spans)) == len(spans) <= 3, question
        assert all(1 <= place.first <= place.last and ".." not in place.path for place in spans), question


@given(places, st.integers(1, 3))
def test_what_is_annotated_scores_one_and_another_file_nothing(spans, decisive) -> None:
    question = Question("?", spans[:decisive], spans[decisive:])
    best = score_reply(question, spans)
    assert {name: round(value, 9) for name, value in best.items()} == dict.fromkeys(best, 1.0)
    assert set(score_reply(question, [Place("z", 1, 40)]).values()) == {0.0}
