"""What is promised of speed is measured by `make bench-promised`; here each measurement does the work that it is to time, once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import promised
from bench.promised import ALL, Promise, Took
from tests.requirements.promises import PROMISES

LARGE = (
    promised.filtering_ten_thousand_chunks_takes_less_than_a_millisecond,
    promised.five_thousand_files_are_walked_in_half_a_second,
    promised.five_thousand_files_are_looked_through_for_edits_in_a_fifth_of_a_second,
)
"""Worlds that take seconds to make."""


@pytest.mark.parametrize(
    "promise", [pytest.param(each, id=each.__name__, marks=pytest.mark.slow if each in LARGE else ()) for each in ALL]
)
def test_what_is_timed_is_what_was_promised(promise: Promise, tmp_path: Path) -> None:
    took = promise(tmp_path, 1)
    assert took.ms > 0
    assert took.most_ms > 0


def test_every_promise_of_speed_is_measured() -> None:
    named = {
        test.partition("[")[2].removesuffix("]")
        for promise in PROMISES
        for test in promise.kept
        if test.startswith("tests/requirements/test_speed.py::")
    }
    assert named
    assert named <= {each.__name__ for each in ALL}


@pytest.mark.parametrize(("ms", "code"), [(9.0, 0), (11.0, 1)])
def test_a_promise_that_is_not_kept_fails_the_measurement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ms: float, code: int
) -> None:
    def a_cup_of_tea_takes_ten_milliseconds(_folder: Path, _tries: int) -> Took:
        return Took(ms, 10)

    monkeypatch.setattr(sys, "argv", ["promised.py"])
    assert promised.main((a_cup_of_tea_takes_ten_milliseconds,)) == code
    assert f"| a cup of tea takes ten milliseconds | {ms:.2f} | 10 |" in capsys.readouterr().out
