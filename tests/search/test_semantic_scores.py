"""Search by meaning: what it adds to words, and what it may never do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from context_engine.embedding.embedder import normalize_rows
from context_engine.embedding.vector_rows import VectorRows, quantize
from context_engine.engine import Engine
from context_engine.index.encoder import StaticEncoder
from context_engine.index.snapshot import Snapshot
from context_engine.model import Query
from context_engine.search import semantic_scores
from context_engine.search.rankers import RankingView
from context_engine.search.searcher import Ranking, Searcher
from context_engine.search.semantic_scores import (
    BLOCK_NUMBERS,
    SemanticRanker,
    compute_cosines,
    find_greatest,
    fold_by_file,
)
from tests.support.engines import indexed, snapshot_of
from tests.support.trees import tree

FILES = {
    "store/session.py": '"""Keeps what a visitor has done."""\n\n\ndef remember(visitor, item):\n    """Store a cookie for the visitor."""\n    cookie = sign(visitor)\n    visitor.cookies.append(cookie)\n    return item\n',
    "net/dial.py": "def connect(host, port):\n    socket = open_socket(host, port)\n    socket.handshake()\n    return socket\n",
    "billing/vat.py": "def compute_tax(price, country):\n    rate = RATES[country]\n    return price * rate\n",
    "billing/invoice.py": "from billing.vat import compute_tax\n\n\ndef total(lines):\n    return sum(line.price + compute_tax(line.price, 'de') for line in lines)\n",
    "tests/test_vat.py": "from billing.vat import compute_tax\n\n\ndef test_tax():\n    assert compute_tax(100, 'de') == 19\n",
    "many.py": "".join(
        f"def step_{n}(queue):\n    queue.push({n})\n    return 'padding {'word ' * 30}'\n\n\n" for n in range(40)
    ),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("meaning") / "w", FILES)) as engine:
        yield engine


@pytest.fixture
def snapshot(engine: Engine) -> Snapshot:
    return snapshot_of(engine)


def paths(snapshot: Snapshot, ranking: Ranking) -> list[str]:
    return [snapshot.paths[place.file] for place in ranking.places]


# -- static vectors ------------------------------------------------------------------------------------------------


def test_a_file_is_found_by_its_meaning_though_no_word_of_the_question_stands_in_it(snapshot: Snapshot) -> None:
    asked = Query("charge customs duty amounts")
    assert paths(snapshot, Searcher(snapshot).rank(asked)) == []
    found = Searcher(snapshot, SemanticRanker(nearest_to(snapshot, "billing/vat.py"))).rank(asked)
    assert paths(snapshot, found)[0] == "billing/vat.py"
    assert found.engine == "hybrid"
    assert set(found.places[0].why) <= {"static", "static3", "static_card", "importance"}


def nearest_to(snapshot: Snapshot, path: str) -> semantic_scores.QueryVector:
    """As if every question meant just the first chunk of a file."""
    parts = snapshot.static()
    assert parts is not None
    rows, base = parts.chunk[0]
    row = int(snapshot.chunk_starts[snapshot.by_path[path]]) - base
    vector = normalize_rows(VectorRows(rows.values[row : row + 1], rows.scales[row : row + 1]).floats())[0]
    return lambda _: vector


def test_a_name_that_stands_nowhere_finds_nothing_however_near_it_looks(snapshot: Snapshot) -> None:
    near = Searcher(snapshot, SemanticRanker(nearest_to(snapshot, "billing/vat.py")))
    assert paths(snapshot, near.rank(Query("ImposeCustomsDuty"))) == []


def test_what_is_far_from_everything_finds_nothing(snapshot: Snapshot) -> None:
    searcher = Searcher(snapshot, SemanticRanker(StaticEncoder().query))
    assert paths(snapshot, searcher.rank(Query("zebras graze in moonlit savannah"))) == []


def test_where_chunks_are_many_those_of_promising_files_are_compared_and_come_out_the_same(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher, asked = (
        Searcher(snapshot, SemanticRanker(StaticEncoder().query)),
        Query("compute the tax of a price", 3),
    )
    every = searcher.rank(asked)
    monkeypatch.setattr(semantic_scores, "COMPARED_ALL_MAX", 1)
    monkeypatch.setattr(semantic_scores, "COMPARED_FILES", 2)
    view, words = RankingView(snapshot), np.arange(snapshot.files, dtype=np.float32)
    chosen = semantic_scores._choose_chunks(view, words, np.zeros(snapshot.files, np.float32))
    assert 0 < len(chosen) < snapshot.chunks
    some = searcher.rank(asked)
    assert some.places[0] == every.places[0]


def test_what_was_deleted_or_edited_away_counts_for_nothing(tmp_path: Path) -> None:
    """An updated index ranks like one built anew: the greatest cosine that all are divided by is never a dead file's."""
    others = {f"other/part_{n}.py": f"def part_{n}(queue):\n    return queue.pop({n})\n" for n in range(20)}
    root = tree(tmp_path / "w", FILES | others)
    with indexed(root) as engine:
        (root / "billing" / "vat.py").unlink()
        (root / "net" / "dial.py").write_text("def dial(number):\n    return number\n", encoding="utf-8")
        engine.index.update()
        asked = [Query("how is the tax of a price computed"), Query("open a socket to a host"), Query("dial a number")]
        updated = [[(hit.chunk.path, hit.score) for hit in engine.search.find(each).hits] for each in asked]
        snapshot = snapshot_of(engine)
        assert not snapshot.all_alive
        engine.index.update(force=True)
        anew = [[(hit.chunk.path, hit.score) for hit in engine.search.find(each).hits] for each in asked]
    for one, two in zip(updated, anew, strict=True):
        assert [path for path, _ in one] == [path for path, _ in two]
        assert [score for _, score in one] == pytest.approx([score for _, score in two], rel=0.02)


# -- vectors alone --------------------------------------------------------------------------------------------------

SIZE = 6
ROWS = arrays.arrays(np.float32, st.tuples(st.integers(0, 40), st.just(SIZE)), elements=st.floats(-1, 1, width=32))
VALUES = st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75]), max_size=30)


def unit(row: np.ndarray) -> np.ndarray:
    length = float(np.linalg.norm(row))
    return (row / length if length else row).astype(np.float32)


@given(ROWS, st.integers(0, 1_000))
def test_a_cosine_is_the_product_of_the_two_vectors(rows: np.ndarray, seed: int) -> None:
    query = unit(np.random.default_rng(seed).standard_normal(SIZE))
    rows = np.array([unit(row) for row in rows], np.float32).reshape(len(rows), SIZE)
    plain = [sum(float(a) * float(b) for a, b in zip(row, query, strict=True)) for row in rows]
    assert compute_cosines(quantize(rows), query) == pytest.approx(plain, abs=0.02)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only there can threads be counted")
def test_a_product_of_vectors_waits_for_no_threads() -> None:
    program = "import context_engine, numpy, os; print(os.listdir('/proc/self/task'))"
    env = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    threads = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
    ).stdout
    assert threads.count(",") == 0


def test_where_a_vector_stands_does_not_change_its_cosine() -> None:
    rng = np.random.default_rng(4)
    size, count = 384, 2 * BLOCK_NUMBERS // 384 + 5
    row, query = unit(rng.standard_normal(size)), unit(rng.standard_normal(size))
    assert len(set(compute_cosines(quantize(np.tile(row, (count, 1))), query).tolist())) == 1


@given(st.data())
def test_a_file_has_its_best_chunk_and_the_sum_of_its_three_best_that_pass(data: st.DataObject) -> None:
    values = data.draw(VALUES)
    flags = st.lists(st.booleans(), min_size=len(values), max_size=len(values))
    owners = sorted(data.draw(st.lists(st.integers(0, 4), min_size=len(values), max_size=len(values))))
    counts = data.draw(flags)
    best, top3 = fold_by_file(np.array(values, np.float32), np.array(counts, bool), np.array(owners, np.intp), 6)
    for file in range(6):
        rows = zip(values, owners, counts, strict=True)
        positive = sorted(
            (value for value, owner, passes in rows if owner == file and passes and value > 0), reverse=True
        )
        assert best[file] == max(positive, default=0)
        assert top3[file] == sum(positive[:3])


@given(VALUES, st.integers(0, 12), st.data())
def test_the_greatest_come_first_and_of_equal_ones_the_first(
    values: list[float], limit: int, data: st.DataObject
) -> None:
    allowed = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    passing = [number for number, passes in enumerate(allowed) if passes]
    wanted = sorted(passing, key=lambda number: (-values[number], number))[:limit]
    assert find_greatest(np.array(values, np.float32), limit, np.array(allowed, bool)).tolist() == wanted
