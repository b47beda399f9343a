"""Search by meaning: what it adds to words, what it may never do, and a model that has its say in the time there is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from context_engine.embedding.deadline_embedder import DeadlineEmbedder
from context_engine.embedding.embedder import Mode, normalize_rows
from context_engine.embedding.static_embedder import StaticEmbedder
from context_engine.embedding.vector_rows import Keys, VectorRows, VectorSpace, quantize
from context_engine.engine import Engine
from context_engine.index.encoder import StaticEncoder
from context_engine.index.file_roles import ROLES
from context_engine.index.snapshot import Snapshot
from context_engine.model import Filter, Query
from context_engine.search import semantic_scores
from context_engine.search.rankers import RankingView
from context_engine.search.searcher import Ranking, Searcher
from context_engine.search.semantic_scores import CandidateScores, ChunkPromise, SemanticRanker
from context_engine.semantic import reranker
from context_engine.semantic.embedding_backfill import EmbeddingTexts
from context_engine.semantic.missing_vectors import CHUNKS, EmbeddingProgress
from context_engine.semantic.reranker import Reranker, select_candidates
from context_engine.semantic.vector_store import VectorStore
from tests.support.engines import LANGUAGES, indexed
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
    assert paths(snapshot, Searcher(snapshot, ROLES).rank(asked)) == []
    found = Searcher(snapshot, ROLES, SemanticRanker(nearest_to(snapshot, "billing/vat.py"))).rank(asked)
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
    near = Searcher(snapshot, ROLES, SemanticRanker(nearest_to(snapshot, "billing/vat.py")))
    assert paths(snapshot, near.rank(Query("ImposeCustomsDuty"))) == []


def test_what_is_far_from_everything_finds_nothing(snapshot: Snapshot) -> None:
    searcher = Searcher(snapshot, ROLES, SemanticRanker(StaticEncoder().query))
    assert paths(snapshot, searcher.rank(Query("zebras graze in moonlit savannah"))) == []


def test_a_question_without_a_known_word_is_answered_by_words_alone(snapshot: Snapshot) -> None:
    none = SemanticRanker(lambda _: np.zeros(256, np.float32))
    ranking = Searcher(snapshot, ROLES, none).rank(Query("compute tax"))
    assert ranking == Searcher(snapshot, ROLES).rank(Query("compute tax"))


def test_vectors_of_another_width_are_never_compared(snapshot: Snapshot) -> None:
    other = SemanticRanker(lambda _: np.ones(8, np.float32))
    assert Searcher(snapshot, ROLES, other).rank(Query("compute tax")).engine == "lexical"


def test_the_addends_of_words_and_meaning_sum_to_the_score(snapshot: Snapshot) -> None:
    ranking = Searcher(snapshot, ROLES, SemanticRanker(StaticEncoder().query)).rank(
        Query("how is the tax of a price computed")
    )
    assert {"chunk", "static", "static_card"} <= set(ranking.places[0].why)
    for place in ranking.places:
        assert sum(place.why.values()) == pytest.approx(place.score, abs=1e-4)


def test_a_filter_holds_for_what_is_found_by_meaning_too(snapshot: Snapshot) -> None:
    near = Searcher(snapshot, ROLES, SemanticRanker(nearest_to(snapshot, "billing/vat.py")))
    found = near.rank(Query("charge customs duty amounts", filter=Filter(exclude_paths=("billing/**",))))
    assert not [path for path in paths(snapshot, found) if path.startswith("billing/")]


def test_where_chunks_are_many_those_of_promising_files_are_compared_and_come_out_the_same(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher, asked = (
        Searcher(snapshot, ROLES, SemanticRanker(StaticEncoder().query)),
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


# -- a model -------------------------------------------------------------------------------------------------------


class Slow:
    """Another embedder: the static table under another name, as slow as told, and it counts what it is asked."""

    name, dimensions, fingerprint, tokens_max, is_local = "slow", 384, "5104", 128, True

    def __init__(self, seconds: float = 0.0) -> None:
        self._static = StaticEmbedder.open_shipped()
        self.seconds = seconds
        self.passages: list[str] = []

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:
        if mode == "passage":
            for text in texts:
                time.sleep(self.seconds)
                self.passages.append(text)
        return self._static.embed(texts, mode)

    def close(self) -> None:
        """Nothing to let go of."""


class Case:
    """A model with its store and how far it is told to be."""

    def __init__(self, engine: Engine, folder: Path, seconds: float = 0.0) -> None:
        self.slow = Slow(seconds)
        self.embedder = DeadlineEmbedder(lambda: self.slow, idle_s=60)
        assert self.embedder.ensure_loaded(time.monotonic() + 20)
        self.vectors = VectorStore(folder, VectorSpace("5104", 384))
        self.filled: EmbeddingProgress | None = None
        self.texts = EmbeddingTexts(engine.files.read_kept, LANGUAGES)
        self.model = Reranker(
            self.embedder,
            lambda: self.vectors,
            lambda _: self.filled,
            lambda snapshot, n: self.texts.make_texts(CHUNKS, snapshot, n),
        )

    def searcher(self, snapshot: Snapshot) -> Searcher:
        return Searcher(snapshot, ROLES, SemanticRanker(StaticEncoder().query, self.model))

    def fill(self, snapshot: Snapshot) -> None:
        """Every chunk its vector."""
        numbers = np.arange(snapshot.chunks)
        texts = self.texts.make_texts(CHUNKS, snapshot, numbers)
        self.vectors.put(snapshot.chunk_column("key"), self.slow.embed(texts, "passage"))
        self.filled = EmbeddingProgress(0, 0, snapshot.chunks, snapshot.chunks)
        self.slow.passages.clear()


@pytest.fixture
def case(engine: Engine, tmp_path: Path) -> Iterator[Case]:
    made = Case(engine, tmp_path)
    yield made
    made.embedder.close()


ASKED = Query("how is the tax of a price computed")


def eventually(check: Callable[[], object]) -> bool:
    """What a thread does soon after."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if check():
            return True
        time.sleep(0.01)
    return False


def test_a_model_compares_the_best_places_and_what_it_embedded_is_kept(case: Case, snapshot: Snapshot) -> None:
    first = case.searcher(snapshot).rank(ASKED)
    assert {"model", "model3"} <= set(first.places[0].why)
    assert 0 < len(case.slow.passages) <= reranker.FILES * reranker.CHUNKS_PER_FILE
    count = len(case.slow.passages)
    assert eventually(lambda: len(case.vectors) == count)
    assert case.searcher(snapshot).rank(ASKED) == first
    assert len(case.slow.passages) == count


def test_an_answer_does_not_wait_for_a_model_that_takes_too_long(
    engine: Engine, snapshot: Snapshot, tmp_path: Path
) -> None:
    case = Case(engine, tmp_path, seconds=0.5)
    try:
        ranking = case.searcher(snapshot).rank(ASKED)
        assert ranking.engine == "hybrid"
        assert len(case.slow.passages) <= 1
        assert paths(snapshot, ranking)[0] == "billing/vat.py"
    finally:
        case.embedder.close()


def test_once_everything_has_a_vector_all_of_it_is_compared_and_nothing_embedded(
    case: Case, snapshot: Snapshot
) -> None:
    case.fill(snapshot)
    ranking = case.searcher(snapshot).rank(ASKED)
    assert all("model" in place.why for place in ranking.places)
    assert case.slow.passages == []


def test_cards_of_the_model_count_once_nearly_all_files_have_one(case: Case, snapshot: Snapshot) -> None:
    case.fill(snapshot)
    cards = [f"card of {path}" for path in snapshot.paths]
    case.vectors.put(snapshot.file_column("card_key"), case.slow.embed(cards, "passage"))
    for count, is_there in ((snapshot.files - 1, False), (snapshot.files, True)):
        case.filled = EmbeddingProgress(count, snapshot.files, snapshot.chunks, snapshot.chunks)
        why = case.searcher(snapshot).rank(ASKED).places[0].why
        assert ("model_card" in why) is is_there


def test_vectors_here_and_there_do_not_count_only_those_of_the_first_files(case: Case, snapshot: Snapshot) -> None:
    """The second file is known and the first is not: the model says nothing, for it would lift the second one."""
    ranked = CandidateScores(
        np.array([3, 2, 1, 0, 0, 0], np.float32)[: snapshot.files],
        ChunkPromise([(1.0, np.zeros(snapshot.chunks, np.float32))]),
    )
    view = RankingView(snapshot)
    chosen = select_candidates(view, ranked, None)
    owners = snapshot.chunk_file[chosen]
    for known_files, counted in (((1, 2), ()), ((0, 2), (0,)), ((0, 1, 2), (0, 1, 2))):
        known = np.isin(owners, known_files)
        near = reranker._combine_some(view, chosen, np.full(len(chosen), 0.5, np.float32), known, None)
        found = () if near is None else tuple(np.flatnonzero(near.files["model"]).tolist())
        assert found == counted


def test_cosines_of_a_model_that_finds_everything_alike_are_counted_from_the_least(
    case: Case, snapshot: Snapshot
) -> None:
    found = np.ones(4, bool)
    plain = np.array([0.1, 0.4, 0.9, 0.1], np.float32)
    alike = np.float32(0.7) + np.float32(0.3) * plain
    one, two = (reranker._from_least(values, found) for values in (plain, alike))
    assert np.allclose(one / one.max(), two / two.max(), atol=1e-5)


def test_a_file_that_changed_since_it_was_indexed_gives_no_vector(
    engine: Engine, case: Case, snapshot: Snapshot
) -> None:
    file = engine.root / "billing" / "vat.py"
    before = file.read_bytes()
    try:
        file.write_bytes(b"def compute_tax(everything, is):\n    different = now\n    return different\n")
        case.searcher(snapshot).rank(ASKED)
        own = snapshot.chunk_column("key")[int(snapshot.chunk_starts[snapshot.by_path["billing/vat.py"]])]
        assert not any("different = now" in text for text in case.slow.passages)
        assert bool(case.vectors.missing(np.array([own]))[0])
    finally:
        file.write_bytes(before)


def test_the_best_places_come_file_after_file_and_none_that_a_filter_keeps_out(
    snapshot: Snapshot,
) -> None:
    view = RankingView(snapshot)
    ranked = CandidateScores(
        np.arange(snapshot.files, dtype=np.float32),
        ChunkPromise([(1.0, np.arange(snapshot.chunks, dtype=np.float32))]),
    )
    chosen = select_candidates(view, ranked, None)
    owners = snapshot.chunk_file[chosen].tolist()
    best = list(range(snapshot.files - 1, 0, -1))[: reranker.FILES]
    assert list(dict.fromkeys(owners)) == best
    assert owners == sorted(owners, reverse=True)
    assert len(set(chosen.tolist())) == len(chosen)
    assert max(np.bincount(owners)) <= reranker.CHUNKS_PER_FILE
    allowed = np.zeros(snapshot.chunks, bool)
    allowed[chosen[0]] = True
    assert select_candidates(view, ranked, allowed).tolist() == [int(chosen[0])]


def test_no_vector_of_the_store_serves_under_another_text(case: Case, snapshot: Snapshot) -> None:
    case.searcher(snapshot).rank(ASKED)
    keys: Keys = snapshot.chunk_column("key")
    assert eventually(lambda: (~case.vectors.missing(keys)).sum() == len(case.slow.passages))
    texts = np.array(case.texts.make_texts(CHUNKS, snapshot, np.arange(snapshot.chunks)))
    rows, found = case.vectors.get(keys)
    made = quantize(case.slow.embed(texts[found].tolist(), "query"))
    assert np.array_equal(rows.values[found], made.values)


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
