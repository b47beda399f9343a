"""An answer ends where relevance falls off, and says when probably nothing here answers the question."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.model import Filter, Query
from context_engine.search.relevance import KEPT_FILES, KEPT_SHARE, Evidence
from context_engine.search.search_service import drop_distant
from context_engine.search.searcher import Place
from tests.support.engines import indexed
from tests.support.trees import tree

SHOP = {
    f"src/{name}.py": f'"""Handle the {name} of the shop."""\n\n\ndef load_{name}(shop):\n    return shop.{name}\n'
    for name in ("orders", "parcels", "invoices", "customers", "couriers", "depots", "routes")
}
shares = st.floats(0, 1)
evidence = st.builds(Evidence, shares, shares, shares, st.floats(0, 1.5))
rows_of_any_ranking = st.lists(
    st.builds(Place, st.integers(0, 99), st.integers(0, 9), st.floats(0.01, 10), st.just({})),
    max_size=30,
    unique_by=lambda place: place.chunk,
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root: Path = tree(tmp_path_factory.mktemp("shop"), SHOP)
    with indexed(root) as engine:
        yield engine


@given(evidence, st.sampled_from(["coverage", "cosine", "card", "named"]), shares)
def test_more_in_common_with_the_question_never_makes_an_answer_less_probable(
    facts: Evidence, fact: str, more: float
) -> None:
    nearer = replace(facts, **{fact: getattr(facts, fact) + more})
    assert 0 < facts.probability <= nearer.probability < 1


@given(rows_of_any_ranking, st.sampled_from([0.0, 0.2, KEPT_SHARE, 0.9, 1.0]))
def test_the_first_files_stay_and_no_file_near_the_best_is_lost(rows: list[Place], share: float) -> None:
    rows.sort(key=lambda place: -place.score)
    files = list(dict.fromkeys(place.file for place in rows))
    near = {place.file for place in rows if place.score >= (share or KEPT_SHARE) * rows[0].score}
    kept = near | set(files[:KEPT_FILES])
    assert drop_distant(rows, share) == [place for place in rows if place.file in kept]


def test_a_question_that_belongs_elsewhere_gets_the_reason_with_its_rows(shop: Engine) -> None:
    answer = shop.search.find(Query("how does the garbage collector sweep a shop of unreachable closures"))
    assert answer.hits
    assert answer.weakness.startswith("probably nothing here answers this")
    assert '"garbage"' in answer.weakness
    assert '"shop"' not in answer.weakness


def test_a_question_that_belongs_here_is_answered_without_a_doubt(shop: Engine) -> None:
    answer = shop.search.find(Query("where are the invoices of the shop loaded"))
    assert answer.hits[0].chunk.path == "src/invoices.py"
    assert answer.weakness == ""


def test_an_answer_within_a_filter_is_never_called_weak(shop: Engine) -> None:
    asked = Query("how does the garbage collector sweep a shop", filter=Filter(include_paths=("src/*",)))
    assert shop.search.find(asked).weakness == ""
