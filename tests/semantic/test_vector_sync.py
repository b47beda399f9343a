"""What a team has embedded is taken and not made again; what is made here is given where somebody shares, and nowhere else."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from context_engine.embedding.vector_rows import keys_of, quantised
from context_engine.errors import StoreUnavailable
from context_engine.semantic import vector_sync as exchanging
from context_engine.semantic.embedding_backfill import OTHERS_LOOK_S
from context_engine.semantic.vector_sync import KEPT_DAYS, RELOOK_S, RETRY_S, STAMP_DAYS, Exchange
from tests.semantic.test_embedding_backfill import MANY, Stage, filled, is_true, stage, texts_of, until
from tests.support.scripted import LONG_S, Scripted, vectors
from tests.support.vector_depots import Dictionary

APP = "team/app"
TODAY = 20_000


@dataclass
class Team:
    """A depot, and the exchanges that machines have with it; time stands still unless it is moved."""

    depot: Dictionary = field(default_factory=Dictionary)
    now_s: float = 1_000.0
    today: int = TODAY

    def exchange(self, *, shares: bool = False) -> Exchange:
        return Exchange(lambda: self.depot, APP, shares=shares, now=lambda: self.now_s, today=lambda: self.today)

    def holds(self, one: Stage) -> int:
        """How many of the vectors of a workspace it has; those that it has are right."""
        space, wanted = one.store.space, one.all_keys()
        rows, found = self.depot.fetch(APP, space, wanted)
        own, _ = one.store.get(wanted)
        assert (rows.values[found] == own.values[found]).all()
        assert (rows.scales[found] == own.scales[found]).all()
        return int(found.sum())

    def is_away(self) -> None:
        self.depot.trouble = StoreUnavailable("it is away", suggestion="wait")

    def is_back(self) -> None:
        self.depot.trouble = None


def shared(one: Stage, team: Team) -> None:
    """Have another machine fill everything and share it."""
    exchange = team.exchange(shares=True)
    filled(one, one.filler(exchange=exchange))
    until(lambda: exchange.has_given(one.snapshot()))


def elsewhere(one: Stage, name: str) -> Scripted:
    """The same workspace on a machine that has no vectors yet; its embedder."""
    one.folder = one.folder.with_name(name)
    one.reads.clear()
    return Scripted()


# -- taking --


def test_who_is_in_no_team_exchanges_nothing(tmp_path: Path) -> None:
    with stage(tmp_path) as one:
        exchange = Exchange()
        filled(one, one.filler(exchange=exchange))
        assert (exchange.take(one.store, one.all_keys(), threading.Event()), exchange.trouble) == (0, None)
        assert exchange.give(one.snapshot(), one.store)
        assert exchange.has_given(one.snapshot())


def test_what_the_team_has_is_not_made_again_and_no_file_is_read_for_it(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        shared(one, team)
        own, exchange = elsewhere(one, "desk"), team.exchange()
        assert filled(one, one.filler(lambda: own, exchange)).is_complete
        assert (own.asked, one.reads) == ([], [])
        assert exchange.taken == len(one.all_keys()) == team.holds(one)
        assert is_true(one)


def test_after_something_came_more_is_waited_for_before_the_rest_is_made(tmp_path: Path) -> None:
    """A job that shares has seen the same edits, and is about to give what is still missing."""
    team = Team()
    with stage(tmp_path) as one:
        shared(one, team)
        own, exchange = elsewhere(one, "desk"), team.exchange()
        texts = [text for text in texts_of(one) if "src/" not in text]
        team.depot.rows[APP, one.store.space] = {
            key: row
            for key, row in team.depot.rows[APP, one.store.space].items()
            if key in {bytes(each) for each in keys_of(texts).view("V16").tolist()}
        }
        filler = one.filler(lambda: own, exchange)
        assert one.timely.ready(time.monotonic() + LONG_S)
        own.asked.clear()
        assert (filler._round(), exchange.taken) == (OTHERS_LOOK_S, len(texts))
        assert own.asked == []
        assert filled(one, filler).is_complete
        assert sorted(own.texts) == sorted(set(texts_of(one)) - set(texts))
        assert team.holds(one) == len(texts), "he does not share"


def test_what_was_given_while_others_were_made_is_taken(tmp_path: Path) -> None:
    team, embedder = Team(), Scripted()
    with stage(tmp_path, MANY, embedder) as one:
        exchange = team.exchange()
        filler = one.filler(exchange=exchange)
        assert one.timely.ready(time.monotonic() + LONG_S)
        assert embedder.has_begun()
        embedder.gate.clear()
        filler.wake()
        assert embedder.has_begun(), "the first of the cards"
        chunks = one.snapshot().chunk_column("key")
        team.depot.put(APP, one.store.space, chunks, quantised(vectors(["made elsewhere"] * len(chunks))), TODAY)
        embedder.gate.set()
        assert filled(one, filler).is_complete
        assert exchange.taken == len(chunks)
        assert len(texts_of(one)) == one.snapshot().living_files


def test_who_is_told_to_stop_takes_no_more(tmp_path: Path) -> None:
    team, stopped = Team(), threading.Event()
    with stage(tmp_path) as one:
        shared(one, team)
        elsewhere(one, "desk")
        stopped.set()
        exchange, store = team.exchange(), one.opened()
        assert exchange.take(store, one.all_keys(), stopped) == 0
        assert len(store) == 0


# -- giving --


def test_who_shares_gives_all_that_was_made_here_before_and_now(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        filled(one, one.filler())
        assert team.holds(one) == 0
        shared(one, team)
        assert team.holds(one) == len(one.all_keys())
        one.edit("src/new.py", "def fresh():\n    return 1\n")
        one.engine.index.update()
        exchange = team.exchange(shares=True)
        filled(one, one.filler(exchange=exchange))
        until(lambda: exchange.has_given(one.snapshot()))
        assert team.holds(one) == len(one.all_keys())


def test_who_does_not_share_gives_nothing(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        exchange = team.exchange()
        filled(one, one.filler(exchange=exchange))
        assert exchange.has_given(one.snapshot())
        assert (team.holds(one), set(team.depot.asked)) == (0, {"fetch"})


def test_what_is_made_is_given_before_all_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team, embedder = Team(), Scripted()
    monkeypatch.setattr(exchanging, "GIVE_REST_S", 0.0)
    with stage(tmp_path, MANY, embedder) as one:
        filler = one.filler(exchange=team.exchange(shares=True))
        put = team.depot.put

        def noted(*given: Any) -> int:
            before_all.append(len(texts_of(one)) < len(one.all_keys()))
            return put(*given)

        before_all: list[bool] = []
        monkeypatch.setattr(team.depot, "put", noted)
        filled(one, filler)
        assert before_all[0]


def test_once_a_day_the_depot_is_told_what_is_in_use_and_drops_what_is_not(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        team.depot.put(APP, one.opened().space, keys_of(["old"]), quantised(vectors(["old"])), TODAY - KEPT_DAYS - 1)
        exchange = team.exchange(shares=True)
        filled(one, one.filler(exchange=exchange))
        for day in (0, 0, STAMP_DAYS, STAMP_DAYS + 1):
            team.today = TODAY + day
            assert exchange.give(one.snapshot(), one.store)
        assert (team.depot.asked.count("stamp"), team.depot.asked.count("tidy")) == (3, 3)
        assert set(team.depot.days.values()) == {TODAY + STAMP_DAYS + 1}
        assert team.depot.held(APP) == {one.store.space: len(one.all_keys())}


def test_a_depot_that_was_emptied_is_filled_again(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        exchange = team.exchange(shares=True)
        filled(one, one.filler(exchange=exchange))
        until(lambda: exchange.has_given(one.snapshot()))
        team.depot.rows.clear()
        team.now_s += RELOOK_S
        assert exchange.give(one.snapshot(), one.store)
        assert team.holds(one) == len(one.all_keys())


# -- trouble --


def test_while_the_depot_is_away_texts_are_embedded_here_and_it_is_left_alone_for_a_while(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        team.is_away()
        exchange = team.exchange(shares=True)
        assert filled(one, one.filler(exchange=exchange)).is_complete
        assert exchange.trouble is not None
        assert exchange.trouble.message == "it is away"
        assert not exchange.give(one.snapshot(), one.store)
        assert (team.depot.asked, exchange.has_given(one.snapshot())) == (["fetch"], False)
        team.is_back()
        team.now_s += RETRY_S
        assert exchange.give(one.snapshot(), one.store)
        assert (exchange.trouble, exchange.has_given(one.snapshot())) == (None, True)
        assert team.holds(one) == len(one.all_keys())


def test_who_has_all_that_he_needs_looks_whether_the_team_is_back(tmp_path: Path) -> None:
    team = Team()
    with stage(tmp_path) as one:
        team.is_away()
        exchange = team.exchange()
        assert filled(one, one.filler(exchange=exchange)).is_complete
        assert exchange.trouble is not None
        team.is_back()
        assert not exchange.give(one.snapshot(), one.store), "it is left alone for a while"
        team.now_s += RETRY_S
        assert exchange.give(one.snapshot(), one.store)
        assert exchange.trouble is None


def test_what_broke_off_in_the_middle_is_given_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanging, "AT_ONCE", 2)
    team = Team()
    with stage(tmp_path) as one:
        filled(one, one.filler())
        exchange, put = team.exchange(shares=True), team.depot.put

        def breaks_off(*given: Any) -> int:
            if team.depot.asked.count("put") == 2:
                team.is_away()
            return put(*given)

        monkeypatch.setattr(team.depot, "put", breaks_off)
        assert not exchange.give(one.snapshot(), one.store)
        monkeypatch.setattr(team.depot, "put", put)
        team.is_back()
        assert team.holds(one) == 4
        team.now_s += RETRY_S
        assert exchange.give(one.snapshot(), one.store)
        assert team.holds(one) == len(one.all_keys())


def test_a_team_whose_depot_cannot_be_opened_is_told_of_and_nothing_else_is_lost(tmp_path: Path) -> None:
    def refused() -> Dictionary:
        raise StoreUnavailable("no way there", suggestion="look at CTX_STORE_URL")

    with stage(tmp_path) as one:
        exchange = Exchange(refused, APP)
        assert filled(one, one.filler(exchange=exchange)).is_complete
        exchange.close()
