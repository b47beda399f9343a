"""What a team has embedded is taken and not made again; what is made here is given where somebody shares, and nowhere else."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from context_engine.embedding.vector_rows import hash_texts, quantize
from context_engine.errors import StoreUnavailable
from context_engine.semantic import vector_sync as exchanging
from context_engine.semantic.embedding_backfill import OTHERS_LOOK_S
from context_engine.semantic.vector_sync import KEPT_DAYS, RELOOK_S, RETRY_S, STAMP_DAYS, VectorSync
from tests.semantic.test_embedding_backfill import MANY, Stage, filled, is_true, stage, texts_of, until
from tests.support.remote_vector_stores import DictionaryVectorStore
from tests.support.scripted import LONG_S, Scripted, vectors

APP = "team/app"
TODAY = 20_000


@dataclass
class Team:
    """A remote, and the exchanges that machines have with it; time stands still unless it is moved."""

    remote: DictionaryVectorStore = field(default_factory=DictionaryVectorStore)
    now_s: float = 1_000.0
    today: int = TODAY

    def vector_sync(self, *, shares: bool = False) -> VectorSync:
        return VectorSync(lambda: self.remote, APP, publishes=shares, now=lambda: self.now_s, today=lambda: self.today)

    def holds(self, one: Stage) -> int:
        """How many of the vectors of a workspace it has; those that it has are right."""
        space, wanted = one.store.space, one.all_keys()
        rows, found = self.remote.fetch(APP, space, wanted)
        own, _ = one.store.get(wanted)
        assert (rows.values[found] == own.values[found]).all()
        assert (rows.scales[found] == own.scales[found]).all()
        return int(found.sum())

    def is_away(self) -> None:
        self.remote.trouble = StoreUnavailable("it is away", suggestion="wait")

    def is_back(self) -> None:
        self.remote.trouble = None


def shared(one: Stage, team: Team) -> None:
    """Have another machine fill everything and share it."""
    vector_sync = team.vector_sync(shares=True)
    filled(one, one.backfill(vector_sync=vector_sync))
    until(lambda: vector_sync.has_published(one.snapshot()))


def elsewhere(one: Stage, name: str) -> Scripted:
    """The same workspace on a machine that has no vectors yet; its embedder."""
    one.folder = one.folder.with_name(name)
    one.reads.clear()
    return Scripted()


# -- taking --


def test_who_is_in_no_team_exchanges_nothing(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        vector_sync = VectorSync()
        filled(one, one.backfill(vector_sync=vector_sync))
        assert (vector_sync.fetch(one.store, one.all_keys(), threading.Event()), vector_sync.error) == (0, None)
        assert vector_sync.publish(one.snapshot(), one.store)
        assert vector_sync.has_published(one.snapshot())


def test_what_the_team_has_is_not_made_again_and_no_file_is_read_for_it(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        shared(one, team)
        own, vector_sync = elsewhere(one, "desk"), team.vector_sync()
        assert filled(one, one.backfill(lambda: own, vector_sync)).is_complete
        assert (own.asked, one.reads) == ([], [])
        assert vector_sync.fetched_count == len(one.all_keys()) == team.holds(one)
        assert is_true(one)


def test_after_something_came_more_is_waited_for_before_the_rest_is_made(tmp_path: Path) -> None:
    """A job that shares has seen the same edits, and is about to give what is still missing."""
    team = Team()
    with stage(tmp_path) as one:
        shared(one, team)
        own, vector_sync = elsewhere(one, "desk"), team.vector_sync()
        texts = [text for text in texts_of(one) if "src/" not in text]
        team.remote.rows[APP, one.store.space] = {
            key: row
            for key, row in team.remote.rows[APP, one.store.space].items()
            if key in {bytes(each) for each in hash_texts(texts).view("V16").tolist()}
        }
        backfill = one.backfill(lambda: own, vector_sync)
        assert one.deadline_embedder.ensure_loaded(time.monotonic() + LONG_S)
        own.asked.clear()
        assert (backfill._round(), vector_sync.fetched_count) == (OTHERS_LOOK_S, len(texts))
        assert own.asked == []
        assert filled(one, backfill).is_complete
        assert sorted(own.texts) == sorted(set(texts_of(one)) - set(texts))
        assert team.holds(one) == len(texts), "he does not share"


def test_what_was_given_while_others_were_made_is_taken(tmp_path: Path) -> None:
    team, embedder = Team(), Scripted()
    with stage(tmp_path, MANY, embedder) as one:
        vector_sync = team.vector_sync()
        backfill = one.backfill(vector_sync=vector_sync)
        assert one.deadline_embedder.ensure_loaded(time.monotonic() + LONG_S)
        assert embedder.has_begun()
        embedder.gate.clear()
        backfill.wake()
        assert embedder.has_begun(), "the first of the cards"
        chunks = one.snapshot().chunk_column("key")
        team.remote.put(APP, one.store.space, chunks, quantize(vectors(["made elsewhere"] * len(chunks))), TODAY)
        embedder.gate.set()
        assert filled(one, backfill).is_complete
        assert vector_sync.fetched_count == len(chunks)
        assert len(texts_of(one)) == one.snapshot().living_files


def test_who_is_told_to_stop_takes_no_more(tmp_path: Path) -> None:
    team, stopped = Team(), threading.Event()
    with stage(tmp_path) as one:
        shared(one, team)
        elsewhere(one, "desk")
        stopped.set()
        vector_sync, store = team.vector_sync(), one.opened()
        assert vector_sync.fetch(store, one.all_keys(), stopped) == 0
        assert len(store) == 0


# -- giving --


def test_who_shares_gives_all_that_was_made_here_before_and_now(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        filled(one, one.backfill())
        assert team.holds(one) == 0
        shared(one, team)
        assert team.holds(one) == len(one.all_keys())
        one.edit("src/new.py", "def fresh():\n    return 1\n")
        one.engine.index.update()
        vector_sync = team.vector_sync(shares=True)
        filled(one, one.backfill(vector_sync=vector_sync))
        until(lambda: vector_sync.has_published(one.snapshot()))
        assert team.holds(one) == len(one.all_keys())


def test_who_does_not_share_gives_nothing(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        vector_sync = team.vector_sync()
        filled(one, one.backfill(vector_sync=vector_sync))
        assert vector_sync.has_published(one.snapshot())
        assert (team.holds(one), set(team.remote.asked)) == (0, {"fetch"})


def test_what_is_made_is_given_before_all_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team, embedder = Team(), Scripted()
    monkeypatch.setattr(exchanging, "GIVE_REST_S", 0.0)
    with stage(tmp_path, MANY, embedder) as one:
        backfill = one.backfill(vector_sync=team.vector_sync(shares=True))
        put = team.remote.put

        def noted(*given: Any) -> int:
            before_all.append(len(texts_of(one)) < len(one.all_keys()))
            return put(*given)

        before_all: list[bool] = []
        monkeypatch.setattr(team.remote, "put", noted)
        filled(one, backfill)
        assert before_all[0]


def test_once_a_day_the_depot_is_told_what_is_in_use_and_drops_what_is_not(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        team.remote.put(APP, one.opened().space, hash_texts(["old"]), quantize(vectors(["old"])), TODAY - KEPT_DAYS - 1)
        vector_sync = team.vector_sync(shares=True)
        filled(one, one.backfill(vector_sync=vector_sync))
        until(lambda: vector_sync.has_published(one.snapshot()))  # from here on only this thread publishes
        for day in (0, 0, STAMP_DAYS, STAMP_DAYS + 1):
            team.today = TODAY + day
            assert vector_sync.publish(one.snapshot(), one.store)
        assert (team.remote.asked.count("stamp"), team.remote.asked.count("tidy")) == (3, 3)
        assert set(team.remote.days.values()) == {TODAY + STAMP_DAYS + 1}
        assert team.remote.count_by_space(APP) == {one.store.space: len(one.all_keys())}


def test_a_depot_that_was_emptied_is_filled_again(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        vector_sync = team.vector_sync(shares=True)
        filled(one, one.backfill(vector_sync=vector_sync))
        until(lambda: vector_sync.has_published(one.snapshot()))
        team.remote.rows.clear()
        team.now_s += RELOOK_S
        assert vector_sync.publish(one.snapshot(), one.store)
        assert team.holds(one) == len(one.all_keys())


# -- trouble --


def test_while_the_depot_is_away_texts_are_embedded_here_and_it_is_left_alone_for_a_while(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        team.is_away()
        vector_sync = team.vector_sync(shares=True)
        assert filled(one, one.backfill(vector_sync=vector_sync)).is_complete
        assert vector_sync.error is not None
        assert vector_sync.error.message == "it is away"
        assert not vector_sync.publish(one.snapshot(), one.store)
        assert (team.remote.asked, vector_sync.has_published(one.snapshot())) == (["fetch"], False)
        team.is_back()
        team.now_s += RETRY_S
        assert vector_sync.publish(one.snapshot(), one.store)
        assert (vector_sync.error, vector_sync.has_published(one.snapshot())) == (None, True)
        assert team.holds(one) == len(one.all_keys())


def test_who_has_all_that_he_needs_looks_whether_the_team_is_back(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        team.is_away()
        vector_sync = team.vector_sync()
        assert filled(one, one.backfill(vector_sync=vector_sync)).is_complete
        assert vector_sync.error is not None
        team.is_back()
        assert not vector_sync.publish(one.snapshot(), one.store), "it is left alone for a while"
        team.now_s += RETRY_S
        assert vector_sync.publish(one.snapshot(), one.store)
        assert vector_sync.error is None


def test_what_broke_off_in_the_middle_is_given_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanging, "AT_ONCE", 2)
    team = Team()
    with stage(tmp_path) as one:
        filled(one, one.backfill())
        vector_sync, put = team.vector_sync(shares=True), team.remote.put

        def breaks_off(*given: Any) -> int:
            if team.remote.asked.count("put") == 2:
                team.is_away()
            return put(*given)

        monkeypatch.setattr(team.remote, "put", breaks_off)
        assert not vector_sync.publish(one.snapshot(), one.store)
        monkeypatch.setattr(team.remote, "put", put)
        team.is_back()
        assert team.holds(one) == 4
        team.now_s += RETRY_S
        assert vector_sync.publish(one.snapshot(), one.store)
        assert team.holds(one) == len(one.all_keys())


def test_a_team_whose_depot_cannot_be_opened_is_told_of_and_nothing_else_is_lost(tmp_path: Path) -> None:
    def refused() -> DictionaryVectorStore:
        raise StoreUnavailable("no way there", suggestion="look at CTX_STORE_URL")

    with stage(tmp_path) as one:
        vector_sync = VectorSync(refused, APP)
        assert filled(one, one.backfill(vector_sync=vector_sync)).is_complete
        vector_sync.close()
