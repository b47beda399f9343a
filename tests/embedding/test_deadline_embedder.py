"""Nobody waits for an embedder longer than allowed: what is slow, absent, failing or asleep costs an answer nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

from context_engine.embedding.deadline_embedder import (
    ABSENT_REST_S,
    FAILING_REST_MAX_S,
    FAILING_REST_S,
    GIVE_UP_S,
    HANGING_S,
    QUERIES_KEPT,
    DeadlineEmbedder,
)
from context_engine.embedding.embedder import Mode
from context_engine.embedding.minilm import MiniLM
from context_engine.errors import EmbedderFailed, EmbedderUnusable, StorageBusy, UnsupportedHost
from tests.support import weights
from tests.support.scripted import LONG_S, Scripted, vector, vectors

NEVER = threading.Event()
BUSY = EmbedderFailed("too many requests", suggestion="later")


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@contextmanager
def deadline_embedder(*embedders: Scripted, **knobs: object) -> Generator[DeadlineEmbedder]:
    """A `DeadlineEmbedder` around embedders: the first is opened first, the last again and again."""
    left = list(embedders)

    def opened() -> Scripted:
        return left.pop(0) if len(left) > 1 else left[0]

    one = DeadlineEmbedder(opened, **({"quiet_s": 0.0} | knobs))  # type: ignore[arg-type]  # ty: ignore[invalid-argument-type]
    try:
        yield one
    finally:
        for embedder in embedders:
            embedder.gate.set()
        one.close()


def soon() -> float:
    """A moment by which everything that comes at all has come."""
    return time.monotonic() + LONG_S


def later() -> float:
    """A moment so far away that a test which waits for it is a test that hangs."""
    return time.monotonic() + 3_600.0


def is_vector_of(text: str, row: np.ndarray | None) -> bool:
    return row is not None and np.array_equal(row, vector(text))


def ignored(first: int, rows: np.ndarray) -> None:
    """Keep nothing."""


class Kept:
    """Keeps what a `keep` is given, and can be waited for."""

    def __init__(self) -> None:
        self.rows: dict[int, np.ndarray] = {}
        self.came = threading.Semaphore(0)

    def __call__(self, first: int, rows: np.ndarray) -> None:
        self.rows |= {first + number: row for number, row in enumerate(rows)}
        self.came.release()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


# -- queries ------------------------------------------------------------------------------------------------------


def test_the_first_query_does_not_wait_for_loading() -> None:
    embedder = Scripted()
    embedder.gate.clear()
    with deadline_embedder(embedder) as one:
        assert one.state == "asleep"
        assert one.embed_query("a", later()) is None
        assert one.state == "loading"
        embedder.gate.set()
        assert one.ensure_loaded(soon())
        assert one.state == "ready"
        assert is_vector_of("a", one.embed_query("a", soon()))


def test_nothing_is_opened_before_somebody_asks_and_opening_loads_nothing() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder) as one:
        assert (one.identity, one.is_local) == (None, True)
        assert one.ensure_open(soon())
        assert one.identity == ("scripted", "feed", 8, True)
        assert (embedder.asked, one.state) == ([], "asleep")


def test_a_query_is_embedded_once_and_the_last_ones_are_kept() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder) as one:
        assert one.ensure_loaded(soon())
        queries = [f"query {number}" for number in range(QUERIES_KEPT)]
        for query in [*queries, *queries]:
            assert is_vector_of(query, one.embed_query(query, soon()))
        assert embedder.texts == queries
        one.embed_query("one more", soon())
        one.embed_query(queries[0], soon())
        assert embedder.texts == [*queries, "one more", queries[0]]


def test_a_query_that_hangs_costs_its_own_time_and_later_ones_none() -> None:
    embedder, clock = Scripted(), Clock()
    with deadline_embedder(embedder, now=clock) as one:
        assert one.ensure_loaded(clock() + LONG_S)
        assert embedder.has_begun()
        embedder.gate.clear()
        assert one.embed_query("slow", clock() + 0.01) is None
        assert embedder.has_begun()
        clock.seconds += HANGING_S + 0.1
        assert [one.embed_query(text, clock() + LONG_S) for text in ("slow", "b", "c")] == [None, None, None]
        embedder.gate.set()
        while one._running:
            pass
        assert is_vector_of("slow", one.embed_query("slow", clock() + LONG_S))
        assert embedder.texts == ["slow"], "what came too late was kept, and what could not be had was not even asked"


def test_what_is_only_just_late_is_waited_for() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder) as one, ThreadPoolExecutor(1) as pool:
        assert one.ensure_loaded(soon())
        embedder.gate.clear()
        assert one.embed_query("late", time.monotonic() + 0.01) is None
        second = pool.submit(one.embed_query, "second", soon())
        while not one._tasks:
            pass
        embedder.gate.set()
        assert is_vector_of("second", second.result(LONG_S))


def test_queries_are_embedded_before_the_passages_of_others() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder) as one, ThreadPoolExecutor(3) as pool:
        assert one.ensure_loaded(soon())
        embedder.asked.clear()
        embedder.gate.clear()
        first = pool.submit(one.embed_passages, ["passage 1"], soon(), ignored)
        assert embedder.has_begun()
        assert embedder.has_begun()
        second = pool.submit(one.embed_passages, ["passage 2"], soon(), ignored)
        while not one._tasks:
            pass
        query = pool.submit(one.embed_query, "query", soon())
        while len(one._tasks) < 2:
            pass
        embedder.gate.set()
        assert is_vector_of("query", query.result(LONG_S))
        assert np.array_equal(first.result(LONG_S), vectors(["passage 1"]))
        assert np.array_equal(second.result(LONG_S), vectors(["passage 2"]))
        assert embedder.texts == ["passage 1", "query", "passage 2"]


def test_many_threads_get_each_the_vector_of_their_own_text() -> None:
    with deadline_embedder(Scripted()) as one, ThreadPoolExecutor(8) as pool:
        assert one.ensure_loaded(soon())
        texts = [f"text {number % 90}" for number in range(400)]
        rows = pool.map(lambda text: one.embed_query(text, soon()), texts)
        assert all(is_vector_of(text, row) for text, row in zip(texts, rows, strict=True))


# -- passages -----------------------------------------------------------------------------------------------------


def test_passages_come_in_order_and_each_is_kept() -> None:
    embedder, kept = Scripted(), Kept()
    texts = [f"passage {number}" * 30 for number in range(20)]
    with deadline_embedder(embedder) as one:
        assert one.ensure_loaded(soon())
        assert np.array_equal(one.embed_passages(texts, soon(), kept), vectors(texts))
        assert embedder.texts == texts
        while len(kept.rows) < len(texts):
            assert kept.came.acquire(timeout=LONG_S)
    assert np.array_equal([kept.rows[number] for number in range(20)], vectors(texts))


def test_a_batch_that_ends_too_late_is_kept_although_nobody_waits_for_it() -> None:
    embedder, kept = Scripted(), Kept()
    with deadline_embedder(embedder) as one:
        assert one.ensure_loaded(soon())
        one.embed_query("so that the pace is known", soon())
        embedder.gate.clear()
        assert one.embed_passages(["late"], time.monotonic() + 0.05, kept).shape == (0, 8)
        assert kept.rows == {}
        embedder.gate.set()
        assert kept.came.acquire(timeout=LONG_S)
        assert np.array_equal(kept.rows[0], vector("late"))


def test_what_will_not_fit_is_not_begun() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder) as one:
        assert one.ensure_loaded(soon())
        one._pace.record(["x" * 500], 1.0)
        assert len(one.embed_passages(["x" * 500], time.monotonic() + 0.5, ignored)) == 0
        assert embedder.asked == [("query", [])], "it was loaded"


def test_no_passage_leaves_this_machine_while_somebody_waits() -> None:
    embedder = Scripted(is_local=False)
    with deadline_embedder(embedder) as one:
        assert one.ensure_loaded(soon())
        assert is_vector_of("a", one.embed_query("a", soon()))
        assert len(one.embed_passages(["b"], soon(), ignored)) == 0
        assert embedder.texts == ["a"]


def test_a_store_that_refuses_what_is_kept_disturbs_nothing() -> None:
    def refuses(first: int, rows: np.ndarray) -> None:
        raise StorageBusy("another process is writing vectors")

    with deadline_embedder(Scripted()) as one:
        assert one.ensure_loaded(soon())
        assert np.array_equal(one.embed_passages(["a"], soon(), refuses), vectors(["a"]))
        assert is_vector_of("b", one.embed_query("b", soon()))
        assert one.state == "ready"


# -- the background -----------------------------------------------------------------------------------------------


def test_the_background_stands_back_while_an_answer_is_under_way() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder) as one, ThreadPoolExecutor(1) as pool:
        assert one.ensure_loaded(soon())
        assert embedder.has_begun()
        with one.answering():
            filled = pool.submit(one.embed_in_background, ["a", "b"], NEVER)
            assert not embedder.entered.acquire(timeout=0.3)
        assert np.array_equal(filled.result(LONG_S), vectors(["a", "b"]))


def test_a_query_does_not_wait_for_the_background() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder) as one, ThreadPoolExecutor(1) as pool:
        assert one.ensure_loaded(soon())
        assert embedder.has_begun()
        embedder.gate.clear()
        filled = pool.submit(one.embed_in_background, ["a"], NEVER)
        assert embedder.has_begun()
        asked = in_thread(lambda: one.embed_query("query", soon()))
        assert embedder.has_begun(), "both are under way at once"
        embedder.gate.set()
        asked.join(LONG_S)
        assert np.array_equal(filled.result(LONG_S), vectors(["a"]))
        assert is_vector_of("query", one.embed_query("query", soon()))


def test_the_background_loads_the_model_and_works_in_small_batches() -> None:
    embedder = Scripted()
    texts = [f"{number} " + "x" * 600 for number in range(12)]
    with deadline_embedder(embedder) as one:
        assert np.array_equal(one.embed_in_background(texts, NEVER), vectors(texts))
        assert len(embedder.asked[1][1]) < len(texts), "before anything was measured"


def test_what_goes_to_another_machine_goes_at_once() -> None:
    embedder = Scripted(is_local=False)
    texts = [f"{number} " + "x" * 600 for number in range(12)]
    with deadline_embedder(embedder) as one:
        assert np.array_equal(one.embed_in_background(texts, NEVER), vectors(texts))
        assert embedder.asked[1:] == [("passage", texts)]


def test_the_background_waits_until_an_embedder_that_fails_is_well_again() -> None:
    embedder, clock = Scripted(), Clock()
    embedder.trouble = BUSY
    with deadline_embedder(embedder, now=clock) as one, ThreadPoolExecutor(1) as pool:
        filled = pool.submit(one.embed_in_background, ["a"], NEVER)
        while one.state != "failing: too many requests":
            pass
        embedder.trouble = None
        clock.seconds += FAILING_REST_S
        assert np.array_equal(filled.result(LONG_S), vectors(["a"]))


def test_what_was_made_before_it_was_cancelled_comes_back() -> None:
    cancel = threading.Event()

    class Cancelling(Scripted):
        def embed(self, texts: Sequence[str], mode: Mode, **knobs: threading.Event | None) -> np.ndarray:
            rows = super().embed(texts, mode, **knobs)
            if mode == "passage":
                cancel.set()
            return rows

    texts = [f"{number} " + "x" * 600 for number in range(12)]
    with deadline_embedder(Cancelling()) as one:
        rows = one.embed_in_background(texts, cancel)
    assert 0 < len(rows) < len(texts)
    assert np.array_equal(rows, vectors(texts[: len(rows)]))


# -- trouble ------------------------------------------------------------------------------------------------------


def test_an_absent_embedder_is_named_with_the_next_step_and_looked_for_again_later() -> None:
    clock, embedder, there = Clock(), Scripted(), threading.Event()

    def opened() -> Scripted:
        if not there.is_set():
            raise UnsupportedHost("the model is not here", suggestion="Run: ctx model pull minilm")
        return embedder

    one = DeadlineEmbedder(opened, now=clock, quiet_s=0.0)
    assert not one.ensure_open(clock() + LONG_S)
    assert (one.state, one.suggestion) == ("absent: the model is not here", "Run: ctx model pull minilm")
    assert one.embed_query("a", clock() + LONG_S) is None
    assert one.embed_in_background(["a"], NEVER).shape == (0, 0)
    there.set()
    assert not one.ensure_loaded(clock() + LONG_S), "it has just been looked for"
    clock.seconds += ABSENT_REST_S
    assert one.ensure_loaded(clock() + LONG_S)
    assert (one.state, one.suggestion) == ("ready", "")
    one.close()


def test_no_embedder_at_all_is_absent_as_well() -> None:
    one = DeadlineEmbedder(lambda: None)
    assert not one.ensure_loaded(soon())
    assert one.state.startswith("absent: ")
    one.close()


def test_a_failing_embedder_is_left_alone_for_longer_each_time() -> None:
    embedder, clock = Scripted(), Clock()
    with deadline_embedder(embedder, now=clock) as one:
        assert one.ensure_loaded(clock() + LONG_S)
        embedder.trouble = BUSY
        rest_s = FAILING_REST_S
        for number in range(1, 5):
            assert one.embed_query(f"{number}", clock() + LONG_S) is None
            assert (one.state, one.suggestion) == ("failing: too many requests", "later")
            clock.seconds += rest_s - 0.1
            assert one.embed_query("too early", clock() + LONG_S) is None
            assert len(embedder.texts) == number
            clock.seconds += 0.1
            rest_s *= 2
        embedder.trouble = None
        assert is_vector_of("well again", one.embed_query("well again", clock() + LONG_S))
        assert one.state == "ready"


@pytest.mark.parametrize(
    ("trouble", "rest_s"),
    [
        (EmbedderUnusable("the key is refused", suggestion="check it"), FAILING_REST_MAX_S),
        (EmbedderFailed("too busy", suggestion="later", details={"retry_after_s": 77.0}), 77.0),
        (MemoryError("no room"), FAILING_REST_S),
    ],
    ids=["a person must act", "the endpoint says when", "not ours"],
)
def test_how_long_it_is_left_alone_depends_on_the_trouble(trouble: Exception, rest_s: float) -> None:
    embedder, clock = Scripted(), Clock()
    with deadline_embedder(embedder, now=clock) as one:
        assert one.ensure_loaded(clock() + LONG_S)
        embedder.trouble = trouble
        assert one.embed_query("a", clock() + LONG_S) is None
        assert str(trouble) in one.state
        assert one.suggestion
        embedder.trouble = None
        clock.seconds += rest_s - 1
        assert one.embed_query("a", clock() + LONG_S) is None
        clock.seconds += 1
        assert is_vector_of("a", one.embed_query("a", clock() + LONG_S))


def test_what_is_overdue_for_long_is_cancelled_and_counts_as_a_failure() -> None:
    embedder, clock = Scripted(), Clock()
    with deadline_embedder(embedder, now=clock) as one:
        assert one.ensure_loaded(clock() + LONG_S)
        assert embedder.has_begun()
        embedder.gate.clear()
        assert one.embed_query("a", clock() + 0.01) is None
        assert embedder.has_begun()
        clock.seconds += GIVE_UP_S + 1
        assert one.embed_query("b", clock() + LONG_S) is None
        assert one.state.startswith("failing: ")
        embedder.gate.set()
        clock.seconds += FAILING_REST_S
        while one.embed_query("b", clock() + LONG_S) is None:
            pass
        assert embedder.texts[0] == "a"
        assert set(embedder.texts[1:]) == {"b"}


def test_an_embedder_that_fails_while_it_loads_says_so() -> None:
    embedder = Scripted()
    embedder.trouble = EmbedderUnusable("the file is damaged", suggestion="Run: ctx model pull minilm --force")
    with deadline_embedder(embedder) as one:
        assert not one.ensure_loaded(soon())
        assert one.state == "failing: the file is damaged"
        assert one.embed_query("a", soon()) is None


# -- sleeping and ending ------------------------------------------------------------------------------------------


def test_after_an_idle_time_the_memory_is_given_back_and_the_model_comes_again_when_it_is_wanted() -> None:
    first, second = Scripted(), Scripted()
    with deadline_embedder(first, second, idle_s=0.02) as one:
        assert one.ensure_loaded(soon())
        assert first.closed.wait(LONG_S)
        while one.state != "asleep":
            pass
        assert one.identity is not None, "what it was is still known"
        one.embed_query("a", soon())
        assert one.ensure_loaded(soon()) or one.state == "asleep"
        assert second.asked


def test_the_model_does_not_fall_asleep_while_it_is_filling() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder, idle_s=0.05) as one, ThreadPoolExecutor(1) as pool:
        assert one.ensure_loaded(soon())
        assert embedder.has_begun()
        embedder.gate.clear()
        filled = pool.submit(one.embed_in_background, ["a"], NEVER)
        assert embedder.has_begun()
        assert not embedder.closed.wait(0.2)
        embedder.gate.set()
        assert np.array_equal(filled.result(LONG_S), vectors(["a"]))
        assert embedder.closed.wait(LONG_S)


def test_another_model_behind_the_same_choice_is_not_mixed_in() -> None:
    first, second = Scripted(), Scripted(fingerprint="beef")
    with deadline_embedder(first, second, idle_s=0.02) as one:
        assert one.ensure_loaded(soon())
        assert first.closed.wait(LONG_S)
        while one.state != "asleep":
            pass
        assert not one.ensure_loaded(soon())
        assert one.state.startswith("absent: scripted is another model")
        assert one.identity is not None
        assert one.identity.fingerprint == "feed"
        assert second.closed.is_set()


def test_closing_does_not_wait_for_what_hangs_and_nobody_is_left_waiting() -> None:
    embedder = Scripted()
    with deadline_embedder(embedder) as one, ThreadPoolExecutor(3) as pool:
        assert one.ensure_loaded(soon())
        assert embedder.has_begun()
        embedder.gate.clear()
        filling = pool.submit(one.embed_in_background, ["b"], NEVER)
        assert embedder.has_begun()
        asking = pool.submit(one.embed_query, "a", later())
        assert embedder.has_begun()
        waiting = pool.submit(one.embed_query, "c", later())
        while not one._tasks:
            pass
        one.close()
        assert (asking.result(LONG_S), waiting.result(LONG_S)) == (None, None)
        assert embedder.closed.wait(LONG_S), "its thread closes it, for only that knows when it is done"
        embedder.gate.set()
        filling.result(LONG_S)
        assert one.embed_query("d", soon()) is None
        assert not one.ensure_loaded(soon())
        one.close()


def test_closing_what_was_never_used_is_closing() -> None:
    one = DeadlineEmbedder(Scripted)
    one.close()
    assert not one.ensure_loaded(soon())
    assert one.embed_query("a", soon()) is None


# -- the real thing -----------------------------------------------------------------------------------------------


def test_minilm_loads_in_its_thread_serves_and_gives_its_memory_back() -> None:
    folder = weights.minilm()
    texts = ["def parse(path): return json.loads(path.read_text())"] * 3
    alone = MiniLM(folder)
    one = DeadlineEmbedder(lambda: MiniLM(folder), idle_s=0.2, quiet_s=0.0)
    assert one.embed_query("how is json read", soon()) is None
    assert one.ensure_loaded(soon())
    row = one.embed_query("how is json read", soon())
    assert row is not None
    assert np.allclose(row, alone.embed(["how is json read"], "query")[0], atol=1e-5)
    made = one.embed_passages(texts, soon(), ignored)
    assert np.allclose(made, alone.embed(texts, "passage")[: len(made)], atol=1e-5)
    assert np.allclose(one.embed_in_background(texts, NEVER), alone.embed(texts, "passage"), atol=1e-5)
    alone.close()
    while one.state == "ready":
        pass
    assert one.state == "asleep"
    one.close()
