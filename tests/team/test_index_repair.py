"""A damaged index is found and repaired: from the database of a team where that is intact, else from the files."""

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
from context_engine.index import IndexStore, ProgressCounter, RepairReport, segment
from context_engine.model import Progress
from context_engine.team.remote_store import RemoteStore
from context_engine.team.shared_store import SharedStore
from tests.contracts.test_store import fill, holding
from tests.support.databases import forbid, new_database, sql
from tests.support.engines import answers, indexed, open_engine
from tests.support.trees import repository, tree
from tests.team.test_shared_store import REMOTE_STORES, database, store_at


def find_problems(
    store: IndexStore,
    *,
    thorough: bool = True,
    progress: Callable[[Progress], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> tuple[str, ...]:
    return store.find_damage(ProgressCounter(progress, cancel), thorough=thorough)


def repair(store: IndexStore) -> RepairReport:
    return store.repair(ProgressCounter(lambda _: None, None))


def flipped(content: bytes) -> bytes:
    """Return the content with one bit in the middle of its arrays changed."""
    at = len(content) * 3 // 4
    while not content[at]:  # the padding between two arrays belongs to neither
        at += 1
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


# -- an index of this machine -------------------------------------------------------------------------------------

FILES = {f"src/part{number}.py": f"def part_{number}(value):\n    return value + {number}\n" for number in range(12)}
QUESTIONS = ("part_3", "return value", "def part", "part seven value")


def segments(engine: Engine) -> list[Path]:
    return sorted(engine.cache_folder.glob("g-*/*.seg"))


@pytest.fixture
def pieces(tmp_path: Path) -> Path:
    """An index of several segments."""
    here = repository(tmp_path / "here", FILES)
    with indexed(here) as engine:
        for number in range(3):
            (here / f"more{number}.py").write_text(f"def more_{number}():\n    return {number}\n")
            engine.index.update(path=f"more{number}.py")
        assert len(segments(engine)) == 4
    return here


def test_a_sound_index_is_left_as_it_is(pieces: Path) -> None:
    with open_engine(pieces) as engine:
        before = {path: path.read_bytes() for path in segments(engine)}
        assert engine.index.find_problems() == []
        assert engine.index.repair().problems == ()
        assert {path: path.read_bytes() for path in segments(engine)} == before


@pytest.mark.parametrize("how", ["scribbled", "cut", "gone"])
def test_after_a_rebuild_a_damaged_index_answers_as_before(pieces: Path, how: str) -> None:
    with open_engine(pieces) as engine:
        before, victim = answers(engine, QUESTIONS), segments(engine)[2]
        content = victim.read_bytes()
        victim.unlink()  # never write into what is mapped
        if how != "gone":
            victim.write_bytes(content[:-9] if how == "cut" else flipped(content))
    with open_engine(pieces) as engine:
        assert engine.index.find_problems()
        assert engine.index.repair().needs_rebuild
        assert engine.index.update(force=True).added == 15
        assert engine.index.find_problems() == []
        assert answers(engine, QUESTIONS) == before


def test_every_byte_of_a_large_segment_is_compared_too(pieces: Path) -> None:
    """When one is opened only its header is: a flip in the middle would rank wrongly for ever."""
    with open_engine(pieces) as engine:
        victim = segments(engine)[0]
        content = victim.read_bytes()
    victim.unlink()
    victim.write_bytes(flipped(content))
    assert segment.load(victim, bytes_checked_max=0).files
    assert "damaged" in segment.find_damage(victim)


def test_a_damaged_list_is_repaired_by_a_rebuild(pieces: Path) -> None:
    with open_engine(pieces) as engine:
        before, db = answers(engine, QUESTIONS), next(engine.cache_folder.glob("g-*/index.db"))
    db.write_bytes(b"SQLite format 3\0" + bytes(4096))
    for path in db.parent.glob("index.db-*"):
        path.unlink()
    with open_engine(pieces) as engine:
        assert engine.index.find_problems()
        assert engine.index.repair().needs_rebuild
        engine.index.update(force=True)
        assert engine.index.find_problems() == []
        assert answers(engine, QUESTIONS) == before


def test_without_an_index_there_is_nothing_to_repair(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "new", FILES)) as engine:
        assert (engine.index.find_problems(), engine.index.repair().problems) == ([], ())


# -- an index that a team shares ----------------------------------------------------------------------------------


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
    drop_there(store, name, tmp_path)
    content = flipped(store.path(name).read_bytes())
    with store.remote.acquire_lease(store.repository, 0) as lease:
        lease.write_piece(name, 0, len(content), content)


def drop_there(store: SharedStore, name: str, _: Path) -> None:
    """The database has nothing of a segment any more, though its list names it."""
    held = store.remote.read_manifest(store.repository)
    with store.remote.acquire_lease(store.repository, 0) as lease:
        rest = [part.name for part in store.segment_refs() if part.name != name]
        lease.commit(held.revision, held.manifest or b"", {}, rest)


def spoil_here(store: SharedStore, name: str) -> None:
    content = store.path(name).read_bytes()
    store.path(name).unlink()  # never write into what is mapped
    store.path(name).write_bytes(flipped(content))


Damage = Callable[[SharedStore, str, Path], None]
DAMAGES: dict[str, Damage] = {"damaged": spoil_there, "missing": drop_there}


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_of_the_database_needs_a_rebuild_by_a_machine_that_shares(how: str, team: Team, tmp_path: Path) -> None:
    victim = team.ci.segment_refs()[1]
    DAMAGES[how](team.ci, victim.name, tmp_path)
    for store in team:
        assert find_problems(store) == (f"segment {victim.number} is {how} on the shared store {store.remote.name}",)
    report = repair(team.reader)
    assert (report.left, report.needs_rebuild) == (report.problems, False), "a reader changes nothing"
    report = repair(team.ci)
    assert (report.needs_rebuild, report.fetched, report.left) == (True, 0, ())


def test_what_is_damaged_here_is_fetched_again(team: Team) -> None:
    for store in team:
        victim = store.segment_refs()[2]
        spoil_here(store, victim.name)
        assert find_problems(store) == (f"segment {victim.number} is damaged on this machine",)
        report = repair(store)
        assert (report.fetched, report.needs_rebuild, report.left) == (1, False, ())
        assert holding(store.snapshot(), "cat") == ["lion.py", "lynx.py", "tiger.py"]
        assert find_problems(store) == ()


def test_what_does_not_lie_here_is_no_damage(team: Team) -> None:
    for part in team.reader.segment_refs():
        team.reader.path(part.name).unlink()
    assert find_problems(team.reader) == ()
    assert repair(team.reader).problems == ()


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_on_both_sides_is_named(how: str, team: Team, tmp_path: Path) -> None:
    victim = team.ci.segment_refs()[0]
    DAMAGES[how](team.ci, victim.name, tmp_path)
    spoil_here(team.ci, victim.name)
    report = repair(team.ci)
    assert (report.needs_rebuild, report.fetched) == (True, 0)
    assert f"{how} on the shared store" in report.problems[0] and "on this machine" in report.problems[0]


def test_what_was_indexed_here_alone_and_lost_needs_a_rebuild_here(team: Team) -> None:
    fill(team.reader, {"puma.py": "puma cat"})
    (mine,) = (part for part in team.reader.segment_refs() if part.name not in team.reader.uploaded_names())
    spoil_here(team.reader, mine.name)
    report = repair(team.reader)
    assert (report.needs_rebuild, report.left) == (True, ())
    assert find_problems(team.ci) == ()


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
    find_problems(team.ci, progress=steps.append)
    assert steps[-1].done == steps[-1].total == 2 * sum(part.size for part in team.ci.segment_refs())

    cancel, seen = threading.Event(), len(steps)
    cancel.set()
    with pytest.raises(Cancelled):
        find_problems(team.ci, progress=steps.append, cancel=cancel)
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
        assert repair(store).needs_rebuild
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
        assert ci.index.repair().needs_rebuild
        assert (ci.index.update(force=True).added, ci.index.find_problems()) == (7, [])
        assert (laptop.index.update().added, laptop.index.find_problems()) == (0, [])
        assert [answers(each, asked) for each in (ci, laptop)] == before
