"""Localization: what a search finds, and what the history adds to it, each by name."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.history.change_prediction import WEIGHTS, PredictedChange, combine_signals, predict_changes
from context_engine.history.commit_facts import CommitTable, HistoryFile
from context_engine.history.file_history import FileHistory
from context_engine.history.mining import HistoryMiner
from context_engine.model import Filter, Query
from context_engine.repo.git import Git
from context_engine.settings import Settings
from tests.history.test_file_history import history
from tests.support.trees import commit, git, repository, tree

NO_HISTORY = FileHistory(CommitTable.empty(), "")
SCORES = st.lists(st.floats(0.01, 100), min_size=1, max_size=9).map(lambda values: sorted(values, reverse=True))


def paths(rows: Sequence[PredictedChange]) -> list[str]:
    return [row.path for row in rows]


# -- out of values ----------------------------------------------------------------------------------------------------


@given(SCORES)
def test_without_a_history_the_search_decides(scores: list[float]) -> None:
    found = [(f"f{number}", score) for number, score in enumerate(scores)]
    rows = combine_signals(found, NO_HISTORY, "task", limit=9)
    assert paths(rows) == [path for path, _ in found]
    assert all(row.why == {"search": pytest.approx(row.score, abs=1e-6)} for row in rows)


@given(SCORES, st.lists(st.sets(st.sampled_from(["f0", "f1", "f2", "new"]), min_size=1), max_size=6))
def test_a_score_is_the_sum_of_its_addends_and_none_is_over_its_weight(
    scores: list[float], touched: list[set[str]]
) -> None:
    found = [(f"f{number}", score) for number, score in enumerate(scores)]
    for row in combine_signals(found, history(*map(sorted, touched)), "Step by step", limit=99):
        assert row.score == pytest.approx(sum(row.why.values()), abs=1e-5)
        assert all(0 < value <= WEIGHTS[name] + 1e-6 for name, value in row.why.items())


def test_what_always_changes_with_the_best_found_comes_in() -> None:
    past = history(*[("a.py", "test_a.py")] * 3)
    rows = combine_signals([("a.py", 9.0), ("b.py", 1.0)], past, "unlike", limit=9)
    assert paths(rows) == ["a.py", "test_a.py", "b.py"]
    assert set(rows[1].why) == {"together", "recent"}


def test_what_was_changed_for_a_like_task_comes_in() -> None:
    past = history(("logo.svg",), ("parser.py",), days=[0, 90])  # Step 0, Step 1
    rows = combine_signals([("a.py", 9.0)], past, "Step 1", limit=9)
    assert paths(rows)[:2] == ["a.py", "parser.py"]
    assert rows[1].why["alike"] > 0


def test_of_two_equally_found_files_the_one_changed_these_days_comes_first() -> None:
    past = history(("b.py",), ("a.py",), days=[0, 720])
    assert paths(combine_signals([("a.py", 1.0), ("b.py", 1.0)], past, "unlike")) == ["b.py", "a.py"]


def test_what_is_gone_or_filtered_out_does_not_come_in() -> None:
    past = history(*[("a.py", "b.py", "c.py")] * 3)
    rows = combine_signals([("a.py", 1.0)], past, "Step", limit=9, passes=lambda path: path != "b.py")
    assert paths(rows) == ["a.py", "c.py"]


# -- with a repository ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Engine, FileHistory]]:
    """A shop in which prices change together with their test and a table that no word connects with them."""
    place = tmp_path_factory.mktemp("shop")
    root = repository(
        place / "repo", {"stock.py": "def count_items(): return 1\n", "tests/test_stock.py": "items = 1\n"}
    )
    for number in range(4):
        files = {
            "price.py": f"def discount(price): return price * {number}\n",
            "tests/test_price.py": f"def test_discount(): assert discount(1) == {number}\n",
            "rates.csv": f"1,2,{number}\n",
        }
        commit(tree(root, files), f"Lower the discount, step {number}")
    git(root, "mv", "rates.csv", "table.csv")
    commit(root, "Call rates a table")
    mined = HistoryMiner(Git(root), HistoryFile(place / "history")).mine()
    settings = Settings(cache_folder=place / "cache", workers=0, watch=False)
    with Engine.open(root, settings=settings) as engine:
        engine.index.update()
        yield engine, FileHistory(mined.facts, mined.head)


def ask(shop: tuple[Engine, FileHistory], text: str, **more: Any) -> tuple[PredictedChange, ...]:
    engine, past = shop
    searcher = engine.search.searcher()
    assert searcher is not None
    return predict_changes(searcher, Query(text, **more), past)


def test_a_task_finds_its_file_its_test_and_what_changes_with_them(shop: tuple[Engine, FileHistory]) -> None:
    rows = ask(shop, "the discount of a price is wrong")
    assert paths(rows)[:3] == ["price.py", "tests/test_price.py", "table.csv"]
    assert "search" not in rows[2].why


def test_the_filter_holds_for_what_the_history_brings_in(shop: tuple[Engine, FileHistory]) -> None:
    rows = ask(shop, "the discount of a price is wrong", filter=Filter(include_paths=("*.py",)))
    assert "table.csv" not in paths(rows)
    assert paths(rows)[0] == "price.py"


def test_tests_are_held_back_less_than_in_a_search(shop: tuple[Engine, FileHistory]) -> None:
    searcher = shop[0].search.searcher()
    assert searcher is not None
    scores = []
    for role_power in (1.0, 1 / 3, 0.0):
        places = searcher.rank(Query("discount price items"), role_power=role_power).places
        by_path = {searcher.snapshot.paths[place.file]: place.score for place in places}
        scores.append(by_path["tests/test_price.py"] / by_path["price.py"])
    assert scores[0] < scores[1] < scores[2]
    shares = {row.path: row.why["search"] for row in ask(shop, "discount price items") if "search" in row.why}
    assert shares["tests/test_price.py"] == pytest.approx(scores[1], abs=1e-5)
