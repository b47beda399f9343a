"""Damage to a shared index is mended from the side that has it whole: this machine, the database, or the files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from context_engine.engine import Engine
from context_engine.errors import Cancelled, StorageCorrupt, StoreUnavailable
from context_engine.index.index_repair import find_problems, repair
from context_engine.index.shared_store import SharedStore
from context_engine.model import Progress
from context_engine.sharing.remote_store import RemoteStore
from context_engine.sharing.remote_vectors import open_vector_store
from tests.contracts.test_shared_store import REMOTE_STORES, database, store_at
from tests.contracts.test_shared_vectors import put
from tests.contracts.test_store import fill, holding
from tests.index.test_index_archive import flipped
from tests.support.databases import forbid, new_database, sql
from tests.support.engines import answers, open_engine
from tests.support.trees import repository, tree


@pytest.fixture(params=[name for name in REMOTE_STORES if "URL" not in name])
def place(request: pytest.FixtureRequest) -> Iterator[RemoteStore]:
    with closing(REMOTE_STORES[request.param]()) as opened:
        yield opened


class Team(NamedTuple):
    """Who shares, and somebody who reads."""

    ci: SharedStore
    reader: SharedStore


@pytest.fixture
def team(place: RemoteStore, tmp_path: Path) -> Team:
    """Three segments, on the database and on both machines."""
    ci, reader = (
        SharedStore(tmp_path / name, place, f"{tmp_path}/app", publishes=name == "ci") for name in ("ci", "reader")
    )
    for word in ("lion", "tiger", "lynx"):
        fill(ci, {f"{word}.py": f"{word} cat"})
    reader.snapshot()
    return Team(ci, reader)


def spoil_there(store: SharedStore, name: str, tmp_path: Path) -> None:
    """The database has a segment with one bit the other way round."""
    spoilt = tmp_path / "spoilt"
    spoilt.write_bytes(flipped(store.path(name).read_bytes()))
    with store.remote.acquire_lease(store.repository, 0):
        store.remote.restore(store.repository, name, spoilt)


def drop_there(store: SharedStore, name: str, _: Path) -> None:
    """The database has nothing of a segment any more, though its list names it."""
    held = store.remote.read_manifest(store.repository)
    with store.remote.acquire_lease(store.repository, 0):
        rest = [part.name for part in store.segment_refs() if part.name != name]
        store.remote.commit(store.repository, held.revision, held.manifest or b"", {}, rest)


def spoil_here(store: SharedStore, name: str) -> None:
    content = store.path(name).read_bytes()
    store.path(name).unlink()  # never write into what is mapped
    store.path(name).write_bytes(flipped(content))


Damage = Callable[[SharedStore, str, Path], None]
DAMAGES: dict[str, Damage] = {"damaged": spoil_there, "missing": drop_there}


@pytest.mark.parametrize("how", DAMAGES)
def test_what_the_database_lost_is_put_back_by_who_has_it_and_shares(how: str, team: Team, tmp_path: Path) -> None:
    victim = team.ci.segment_refs()[1]
    DAMAGES[how](team.ci, victim.name, tmp_path)
    for each in team:
        assert find_problems(each) == (f"segment {victim.number} is {how} on the shared store {each.remote.name}",)
    told = repair(team.reader)
    assert (told.left, told.restored, told.files_lost) == (told.problems, 0, 0), "a reader changes nothing"
    assert len(find_problems(team.ci)) == 1
    told = repair(team.ci)
    assert (told.restored, told.fetched, told.files_lost, told.left) == (1, 0, 0, ())
    assert [find_problems(each) for each in team] == [(), ()]
    fresh = SharedStore(tmp_path / "fresh", team.ci.remote, f"{tmp_path}/app", publishes=False)
    assert holding(fresh.snapshot(), "cat") == ["lion.py", "lynx.py", "tiger.py"]


def test_what_is_damaged_here_is_fetched_again(team: Team) -> None:
    for each in team:
        victim = each.segment_refs()[2]
        spoil_here(each, victim.name)
        assert find_problems(each) == (f"segment {victim.number} is damaged on this machine",)
        told = repair(each)
        assert (told.fetched, told.restored, told.files_lost, told.left) == (1, 0, 0, ())
        assert find_problems(each) == ()


def test_what_does_not_lie_here_is_no_damage(team: Team) -> None:
    for part in team.reader.segment_refs():
        team.reader.path(part.name).unlink()
    assert find_problems(team.reader) == ()
    assert repair(team.reader).problems == ()


@pytest.mark.parametrize("how", DAMAGES)
def test_what_nobody_has_is_forgotten_and_the_rest_stays(how: str, team: Team, tmp_path: Path) -> None:
    victim = team.ci.segment_refs()[0]
    DAMAGES[how](team.ci, victim.name, tmp_path)
    spoil_here(team.ci, victim.name)
    team.reader.path(victim.name).unlink()
    told = repair(team.ci)
    assert (told.files_lost, told.restored, told.is_rebuilt) == (1, 0, False)
    assert f"{how} on the shared store" in told.problems[0] and "on this machine" in told.problems[0]
    for each in team:
        assert (set(each.files()), find_problems(each)) == ({"tiger.py", "lynx.py"}, ())
    with team.ci.writer() as writer:
        assert writer.is_unfinished, "the next run reads it again and weighs all anew"


def test_what_was_indexed_here_alone_and_lost_is_forgotten_here(team: Team) -> None:
    fill(team.reader, {"puma.py": "puma cat"})
    (mine,) = (part for part in team.reader.segment_refs() if part.name not in team.reader.uploaded_names())
    for damage in (spoil_here, lambda store, name: store.path(name).unlink()):
        fill(team.reader, {"puma.py": "puma cat"})
        damage(team.reader, mine.name)
        told = repair(team.reader)
        assert (told.files_lost, told.left) == (1, ())
        assert set(team.reader.files()) == {"lion.py", "tiger.py", "lynx.py"}
        assert team.reader.generation() != team.ci.generation()
    assert (find_problems(team.ci), find_problems(team.reader)) == ((), ())


def test_a_list_of_this_machine_that_cannot_be_read_gives_way_to_that_of_the_team(team: Team) -> None:
    fill(team.reader, {"puma.py": "puma cat"})
    kept = team.reader.folder / "here.manifest"
    kept.write_bytes(kept.read_bytes()[:8] + b"\xc1garbage")
    assert set(team.reader.files()) == {"lion.py", "tiger.py", "lynx.py"}
    fill(team.reader, {"puma.py": "puma cat"})
    assert (holding(team.reader.snapshot(), "puma"), team.reader.check()) == (["puma.py"], [])
    assert team.reader.generation() != team.ci.generation()


def test_the_bytes_of_both_sides_are_counted_and_looking_can_be_ended(team: Team) -> None:
    steps: list[Progress] = []
    find_problems(team.ci, tell=steps.append)
    assert steps[-1].done == steps[-1].total == 2 * sum(part.size for part in team.ci.segment_refs())

    cancel, seen = threading.Event(), len(steps)
    cancel.set()
    with pytest.raises(Cancelled):
        find_problems(team.ci, tell=steps.append, cancel=cancel)
    assert len(steps) == seen + 1


def test_a_quick_look_fetches_nothing(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team.ci.remote, "fetch", None)
    assert find_problems(team.ci, thorough=False) == ()


@cache
def own_database() -> str:
    return new_database()


def test_while_the_database_is_away_nothing_is_mended(tmp_path: Path) -> None:
    with closing(store_at(tmp_path, own_database())) as store:
        fill(store, {"a.py": "lion"})
        with forbid(own_database()):
            assert "does not answer" in find_problems(store)[0]
            with pytest.raises(StoreUnavailable):
                repair(store)
        assert (repair(store).problems, store.clear() > 0) == ((), True)


def test_a_list_on_the_database_that_cannot_be_read_begins_the_index_anew(tmp_path: Path) -> None:
    address = own_database()
    with closing(store_at(tmp_path / "one", address)) as store:
        fill(store, {"a.py": "lion"})
        sql(address, "UPDATE context_engine.manifest SET content = '\\xc1', revision = revision + 1")
        assert "cannot be read" in find_problems(store)[0]
        assert repair(store).is_rebuilt
        with pytest.raises(StorageCorrupt):
            store.snapshot()
        store.clear()


def engines(tmp_path: Path) -> tuple[Engine, Engine]:
    """A repository on two machines, of which one shares."""
    files = {f"src/part{number}.py": f"def part_{number}(value):\n    return value + {number}\n" for number in range(6)}
    roots = [repository(tmp_path / name / "app", files) for name in ("ci", "laptop")]
    knobs: dict[str, Any] = {"store_url": database(), "store_repository": f"{tmp_path}/mended", "embedder": "static"}
    return open_engine(roots[0], store_shares=True, **knobs), open_engine(roots[1], **knobs)


def test_after_a_repair_both_machines_answer_as_before(tmp_path: Path) -> None:
    ci, laptop = engines(tmp_path)
    asked = ("part_3", "return value", "more")
    with ci, laptop:
        ci.index.update()
        tree(ci.root, {"more.py": "def more():\n    return 1\n"})
        tree(laptop.root, {"more.py": "def more():\n    return 1\n"})
        ci.index.update(path="more.py")
        laptop.index.update()
        before = [answers(each, asked) for each in (ci, laptop)]
        stores: list[Any] = [each.index.store for each in (ci, laptop)]
        first, second = stores[0].segment_refs()
        drop_there(stores[0], first.name, tmp_path)
        spoil_here(stores[0], first.name)
        stores[1].path(first.name).unlink()
        spoil_there(stores[0], second.name, tmp_path)
        told = ci.index.repair()
        assert (told.files_lost, told.restored) == (6, 1)
        assert (ci.index.update().added, ci.index.find_problems()) == (6, [])
        assert (laptop.index.update().added, laptop.index.find_problems()) == (0, [])
        assert [answers(each, asked) for each in (ci, laptop)] == before


def test_damaged_vectors_of_a_team_are_dropped_by_who_shares(tmp_path: Path) -> None:
    ci, laptop = engines(tmp_path)
    with ci, laptop, closing(open_vector_store(database())) as vectors:
        ci.index.update()
        put(vectors, f"{tmp_path}/mended", 1)
        sql(database(), "UPDATE context_engine.vector SET scale = -1")
        (wrong,) = laptop.index.find_problems()
        assert laptop.index.find_problems(thorough=False) == []
        told = laptop.index.repair()
        assert (told.problems, told.left) == ((wrong,), (wrong,))
        assert (ci.index.repair().left, ci.index.find_problems(), laptop.index.find_problems()) == ((), [], [])
