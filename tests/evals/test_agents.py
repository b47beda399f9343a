"""The comparison of agents: what its report counts, and that its tasks are complete."""

from __future__ import annotations

import doctest
import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evals.agents import score
from evals.agents.score import Call, count, source_lines
from evals.agents.shell import cut
from evals.agents.tasks import read_tasks

SOURCE = frozenset(("def total(items):", "return sum(items)", "def mean(items):", "print(mean([1, 2]))"))
GOLD = frozenset(("def mean(items):",))


def test_examples_hold() -> None:
    assert doctest.testmod(score).failed == 0


def test_a_log_is_counted_by_what_it_showed() -> None:
    calls = [
        Call("hook", "a.py:1  def total(items):\n"),
        Call("rg total", "a.py:1:def total(items):\na.py:2:    return sum(items)\n"),
        Call("sed -n 1,2p a.py", "def total(items):\n    return sum(items)\n"),
        Call("ctx read mean", "def mean(items):\n", after_change=True),
    ]
    counts = count(calls, SOURCE, GOLD)
    assert (counts["calls"], counts["ctx_calls"]) == (3, 1)
    assert (counts["unused"], counts["ctx_unused"]) == (2, 1)
    assert (counts["again"], counts["hook_again"], counts["nothing_new"]) == (3, 2, 1)
    assert counts["gold_share"] == 0, "the place was read only after something had been changed"


@given(st.lists(st.text(max_size=9), max_size=6))
def test_what_is_sent_grows_with_every_call(texts: list[str]) -> None:
    counts = count([Call("cat a.py", text) for text in texts], SOURCE, GOLD)
    assert counts["window"] == sum(map(len, texts))
    assert counts["window"] <= counts["sent"] <= counts["window"] * max(1, len(texts))


@given(st.sampled_from(sorted(SOURCE)), st.sampled_from(["", "a/b.py:12:", "a/b.py-12-", "  12\t", "12: ", "12 | "]))
def test_a_line_is_known_whatever_stands_before_it(line: str, before: str) -> None:
    assert source_lines(f"{before}    {line}", SOURCE) == {line}


@given(st.text(max_size=60))
def test_a_cut_output_keeps_both_ends(text: str) -> None:
    shown = cut(text, most=20, end=5)
    assert shown == text or (shown.startswith(text[:15]) and shown.endswith(text[-5:]))


def test_the_tasks_are_of_three_kinds_many_repositories_and_several_languages() -> None:
    tasks = list(read_tasks())
    assert len({task.name for task in tasks}) == len(tasks) >= 20
    assert len({task.repository.name for task in tasks}) >= 10
    assert len({task.repository.language for task in tasks}) >= 4
    assert min(Counter(task.kind for task in tasks).values()) >= 5
    assert {task.kind for task in tasks} == {"names", "behavior", "several"}


def test_arms_are_compared_task_by_task() -> None:
    rows = {
        ("a", "plain"): {"calls": 4.0},
        ("a", "ctx"): {"calls": 3.0},
        ("b", "plain"): {"calls": 9.0},
        ("c", "ctx"): {"calls": 1.0},
    }
    lines = [line.split() for line in score.table(rows, "plain").splitlines()]
    assert ["lower,", "of", "1", "ctx", "<", "plain", "1"] in lines
    assert ["median", "of", "2", "plain", "6.5"] in lines


def test_an_issue_does_not_give_the_file_away() -> None:
    for task in read_tasks():
        for place in task.gold:
            path, ends = place.rsplit(":", 1)
            assert re.fullmatch(r"\d+-\d+", ends)
            assert path not in task.issue
