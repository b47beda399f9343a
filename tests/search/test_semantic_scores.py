"""Search by meaning: what it adds to words, and what it may never do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from context_engine.embedding.embedder import normalize_rows
from context_engine.embedding.vector_rows import VectorRows
from context_engine.engine import Engine
from context_engine.index.encoder import StaticEncoder
from context_engine.index.snapshot import Snapshot
from context_engine.model import Filter, Query
from context_engine.search import semantic_scores
from context_engine.search.rankers import RankingView
from context_engine.search.searcher import Ranking, Searcher
from context_engine.search.semantic_scores import SemanticRanker
from tests.support.engines import indexed
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
    found = engine.index.live.snapshot()
    assert found is not None
    return found


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


def test_a_question_without_a_known_word_is_answered_by_words_alone(snapshot: Snapshot) -> None:
    none = SemanticRanker(lambda _: np.zeros(256, np.float32))
    ranking = Searcher(snapshot, none).rank(Query("compute tax"))
    assert ranking == Searcher(snapshot).rank(Query("compute tax"))


def test_vectors_of_another_width_are_never_compared(snapshot: Snapshot) -> None:
    other = SemanticRanker(lambda _: np.ones(8, np.float32))
    assert Searcher(snapshot, other).rank(Query("compute tax")).engine == "lexical"


def test_the_addends_of_words_and_meaning_sum_to_the_score(snapshot: Snapshot) -> None:
    ranking = Searcher(snapshot, SemanticRanker(StaticEncoder().query)).rank(
        Query("how is the tax of a price computed")
    )
    assert {"chunk", "static", "static_card"} <= set(ranking.places[0].why)
    for place in ranking.places:
        assert sum(place.why.values()) == pytest.approx(place.score, abs=1e-4)


def test_a_filter_holds_for_what_is_found_by_meaning_too(snapshot: Snapshot) -> None:
    near = Searcher(snapshot, SemanticRanker(nearest_to(snapshot, "billing/vat.py")))
    found = near.rank(Query("charge customs duty amounts", filter=Filter(exclude_paths=("billing/**",))))
    assert not [path for path in paths(snapshot, found) if path.startswith("billing/")]


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
        snapshot = engine.index.live.snapshot()
        assert snapshot is not None
        assert not snapshot.all_alive
        engine.index.update(force=True)
        anew = [[(hit.chunk.path, hit.score) for hit in engine.search.find(each).hits] for each in asked]
    for one, two in zip(updated, anew, strict=True):
        assert [path for path, _ in one] == [path for path, _ in two]
        assert [score for _, score in one] == pytest.approx([score for _, score in two], rel=0.02)
