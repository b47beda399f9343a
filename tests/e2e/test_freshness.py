"""An answer shows the last edit, or does not say that it is fresh."""

from __future__ import annotations

import doctest
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from evals.freshness import ask_at_once
from evals.freshness.ask_at_once import OTHER_LINES, SHOWN, WRONG
from tests.support.trees import repository

SHELF = "\n\n".join(f"def read_{name}(path):\n    return open(path).{name}\n" for name in ("name", "mode", "encoding"))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a change is reported some 0.1 s later")
def test_an_answer_to_a_question_right_after_an_edit_shows_it_or_is_not_marked_fresh(tmp_path: Path) -> None:
    files = {f"src/part_{number}.py": SHELF.replace("read", f"read_{number}") for number in range(8)}
    root = repository(tmp_path / "w", files)
    # each of the ten ways to ask twice; `make eval-freshness` asks hundreds of times
    rounds = list(ask_at_once.ask_rounds(root, tmp_path, 20, random.Random(7)))
    wrong = [(way, edit, text) for way, outcome, edit, text in rounds if outcome in (WRONG, OTHER_LINES)]
    assert wrong == []
    assert Counter(outcome for _, outcome, _, _ in rounds)[SHOWN] >= 10  # most, on a busy machine too


def test_the_examples_of_the_eval_hold() -> None:
    assert doctest.testmod(ask_at_once).failed == 0
