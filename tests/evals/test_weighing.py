"""What other weights would have done is what they do: sheets rank as rows do, folds never see themselves, rules are not bent."""

from __future__ import annotations

import doctest
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.model import Query
from context_engine.search.fuse import WEIGHTS
from evals.retrieval import ablation, metrics, weighing
from evals.retrieval.ablation import Asked, broken_rules
from evals.retrieval.metrics import Target
from evals.retrieval.tiers import NAMES, Workbench, sheet
from evals.retrieval.weighing import Scores, Sheet, column, folds_of, held_out
from tests.support.engines import grammars_folder

TINY = Path(__file__).resolve().parents[2] / "evals" / "retrieval" / "tiny" / "corpus"
SIGNALS = ("chunk", "name", "importance")
PATHS = st.lists(st.sampled_from("abcdefghijklmno"), min_size=1, max_size=15)
ADDENDS = st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=15, max_size=15)
WEIGHED = st.lists(st.integers(0, 3), min_size=3, max_size=3)


def sheet_of(repo: str, kind: str, addends: Sequence[Sequence[float]], *hits: list[int], category: str = "") -> Sheet:
    return Sheet(
        repo, kind, SIGNALS, np.array(addends, np.float32), tuple(np.array(rows, np.intp) for rows in hits), category
    )


# -- sheets -------------------------------------------------------------------------------------------------------


@given(PATHS, ADDENDS, WEIGHED, st.sets(st.sampled_from("abcxyz"), min_size=1))
def test_a_sheet_ranks_as_its_rows_do_when_they_are_sorted_by_hand(
    paths: list[str], addends: list[list[int]], weights: list[int], wanted: set[str]
) -> None:
    targets = [Target(path) for path in sorted(wanted)]
    scored = [
        (sum(a * w for a, w in zip(each, weights, strict=True)), path)
        for path, each in zip(paths, addends, strict=False)
        if each[0] * weights[0] + each[1] * weights[1] > 0
    ]
    ordered = sorted(scored, key=lambda pair: -pair[0])
    by_hand = metrics.ranks([{"path": path, "start": 1, "end": 1} for _, path in ordered], targets)
    hits = [[n for n, path in enumerate(paths) if target.path == path] for target in targets]
    made = sheet_of("r", "questions", addends[: len(paths)], *hits)
    assert made.ndcg(np.array([weights], np.float32).T)[0] == pytest.approx(metrics.ndcg(by_hand, wanted=len(targets)))


# -- weights and means --------------------------------------------------------------------------------------------


# -- cross-validation ---------------------------------------------------------------------------------------------


@given(st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=1), st.integers(1, 9))
def test_each_repository_is_held_out_exactly_once(repos: set[str], folds: int) -> None:
    dealt = folds_of(sorted(repos), folds)
    assert sorted(repo for fold in dealt for repo in fold) == sorted(repos)
    assert all(dealt)


def test_a_fold_is_judged_by_what_was_chosen_on_the_others() -> None:
    odd = sheet_of("odd", "questions", [[2, 0, 0], [0, 2, 0]], [1])  # only its name helps, where chunks help the others
    sheets = [sheet_of(repo, "questions", [[2, 0, 0], [0, 2, 0]], [0]) for repo in "ab"] + [odd]
    weights = np.hstack([column(SIGNALS, {"chunk": 2, "name": 1}), column(SIGNALS, {"chunk": 1, "name": 2})])
    (found,) = held_out([Scores.of(sheets, weights)], folds_of(["a", "b", "odd"], 3))
    assert found.choices == (0, 0, 0)
    assert found.means["questions"] == pytest.approx((1 + 1 + metrics.ndcg([2], wanted=1)) / 3)


# -- the rules ----------------------------------------------------------------------------------------------------


def asked(*ranks: int) -> Asked:
    """A tier at which question n of repository n finds its target at this rank."""
    rows = np.zeros((9, len(NAMES)), np.float32)
    rows[:, NAMES.index("chunk")] = np.arange(9, 0, -1)
    sheets = [
        Sheet(f"r{n}", "questions", NAMES, rows, (np.array([rank - 1]),), "semantic") for n, rank in enumerate(ranks)
    ]
    return Asked(sheets, {})


def test_a_repository_that_loses_much_breaks_a_rule_even_where_the_mean_gains() -> None:
    rules = broken_rules({"lexical": asked(1, 9, 9), "static": asked(2, 1, 1)})
    assert rules == ["r0 loses 0.369 at the tier static"]


# -- the product --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with parsers in it."""
    cache = tmp_path_factory.mktemp("ablation")
    (cache / "grammars").symlink_to(grammars_folder())
    return cache


def test_a_sheet_by_the_products_own_weights_ranks_as_the_product(bench: Path) -> None:
    question = "check digit of a barcode"
    with Workbench(bench).opened(TINY) as searchers:
        assert list(searchers) == ["lexical", "static"]
        for searcher in searchers.values():
            made = sheet(searcher, question, [Target("scanner/src/barcode.rs")], repo="r", kind="questions")
            scores = made.addends @ column(NAMES, WEIGHTS)
            told = searcher.rank(Query(question, limit=len(made.addends))).places
            assert scores[:, 0].tolist() == pytest.approx([place.score for place in told], abs=1e-4)
            assert told[0].score > told[-1].score


def test_without_a_provider_words_and_static_vectors_are_compared(
    bench: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked_ = [{"query": "check digit of a barcode", "relevant": ["barcode.rs"], "category": "semantic"}]
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([{"name": TINY.name, "queries": asked_, "commit_queries": asked_}]))
    code = ablation.main([f"--tasks={tasks}", f"--corpus={TINY.parent}", f"--cache={bench}"])
    told = capsys.readouterr().out
    assert code == 0, told
    assert "| static | 1.0000 | 1.0000 |" in told
    assert "| corpus | 2 | 1.000 | +0.000 |" in told
    assert "All hold." in told


def test_the_examples_in_the_docstrings_are_true() -> None:
    for module in (weighing, ablation):
        outcome = doctest.testmod(module)
        assert outcome.attempted and not outcome.failed
