"""What can be saved of a damaged index: segments that are whole stay, the files of the others are forgotten and read again.

A rebuild from nothing would mend everything too; this costs only what is lost. Where the list of files itself is damaged
nothing can be told, and the index begins anew. On a shared store nothing is lost as long as the database or this machine has
a segment as it was: each is mended from the other. A repair that is broken off has mended what it came to, and goes on from there.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import apsw
from filelock import FileLock, Timeout

from context_engine.errors import StorageBusy, StorageCorrupt, StoreUnavailable, StoreUnusable
from context_engine.index import embedded_store
from context_engine.index import segment as segments
from context_engine.index.embedded_store import UNFINISHED, EmbeddedStore, translate_disk_errors
from context_engine.index.index_copy import open_for_change
from context_engine.index.manifest import SegmentRef
from context_engine.index.shared_store import SharedStore
from context_engine.index.store_factory import AnyStore
from context_engine.sharing.remote_store import digest
from context_engine.storage.progress_counter import OnProgress, ProgressCounter

STAGE = "reading"


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What was wrong; how many files have to be read again, and whether that is all of them.

    On a shared store also how many segments were fetched anew and how many were put back, and what is `left` for who shares.
    """

    problems: tuple[str, ...]
    files_lost: int = 0
    is_anew: bool = False
    fetched: int = 0
    restored: int = 0
    left: tuple[str, ...] = ()


def find_problems(
    store: AnyStore, *, thorough: bool = True, tell: OnProgress = lambda _: None, cancel: threading.Event | None = None
) -> tuple[str, ...]:
    """What is wrong with what serves, in words; empty when it is sound, or when there is nothing. Reads every byte.

    Of a shared store that is what lies here, and what lies in the database as well when it is to be `thorough`; else only how
    much that is. Raises: Cancelled.
    """
    count = ProgressCounter(STAGE, tell, cancel)
    if isinstance(store, SharedStore):
        return _examined_shared(store, count) if thorough else tuple(store.check())
    generation = store.generation()
    return _examined_own(store.folder / generation, count) if generation else ()


def repair(
    store: AnyStore, *, tell: OnProgress = lambda _: None, cancel: threading.Event | None = None
) -> RepairReport:
    """Mend what can be, and forget what is lost; an indexing run then reads that again.

    Raises: StorageBusy, DiskFull, Cancelled, StoreUnavailable, StoreUnusable.
    """
    count = ProgressCounter(STAGE, tell, cancel)
    return _mended_shared(store, count) if isinstance(store, SharedStore) else _mended_own(store, count)


# -- of this machine ----------------------------------------------------------------------------------------------


def _examined_own(path: Path, count: ProgressCounter) -> tuple[str, ...]:
    return tuple(
        embedded_store.find_problems(path, count.start(sum(each.stat().st_size for each in path.glob("*.seg"))))
    )


def _mended_own(store: EmbeddedStore, count: ProgressCounter) -> RepairReport:
    with translate_disk_errors(store.folder):
        if not store.generation():
            return RepairReport(())
        try:
            with FileLock(store.folder / "writer.lock", timeout=0):
                problems = _examined_own(store.folder / store.generation(), count)
                return _saved(store, problems) if problems else RepairReport(())
        except Timeout:
            raise StorageBusy(
                "another process is indexing this workspace", suggestion="call again in a moment"
            ) from None


def _saved(store: EmbeddedStore, problems: tuple[str, ...]) -> RepairReport:
    path = store.folder / store.generation()
    store.close()
    try:
        with open_for_change(path / "index.db") as db:
            known = [int(str(row[0])) for row in db.execute("SELECT id FROM segment ORDER BY id")]
            lost = [number for number in known if segments.find_damage(path / f"{number:06d}.seg")]
            files = sum(_forget(db, number) for number in lost)
            db.executemany("INSERT OR REPLACE INTO fact VALUES (?,?)", list(UNFINISHED.items()))
            db.execute("UPDATE fact SET value = value + 1 WHERE name = 'epoch'")
        for each in path.glob("*.seg"):
            if int(each.stem) not in set(known) - set(lost):
                each.unlink(missing_ok=True)
        if not embedded_store.find_problems(path):
            return RepairReport(problems, files)
    except apsw.Error:
        pass  # the list itself is damaged: see below
    (store.folder / "CURRENT").unlink(missing_ok=True)
    return RepairReport(problems, is_anew=True)


def _forget(db: apsw.Connection, segment: int) -> int:
    """Take a segment off the list, with the files in it; how many they were."""
    files = db.execute("SELECT count(*) FROM file WHERE segment=?", (segment,)).fetchall()
    for table in ("file", "dead", "touched"):
        db.execute(f"DELETE FROM {table} WHERE segment=?", (segment,))  # noqa: S608 - three names of ours
    db.execute("DELETE FROM segment WHERE id=?", (segment,))
    return int(str(files[0][0]))


# -- of a team ----------------------------------------------------------------------------------------------------


class DamagedSegment(NamedTuple):
    """A segment that is not as it should be: how it is on this machine and in the database, empty where it is well.

    `is_uploaded`: whether the database must have it; what was indexed here alone it has not.
    """

    part: SegmentRef
    here: str
    there: str
    is_uploaded: bool

    @property
    def is_lost(self) -> bool:
        """Whether nobody has it as it was."""
        return bool(self.here and (self.there or not self.is_uploaded))

    def describe(self, store: str) -> str:
        """What is wrong with it."""
        places = ((self.here, "on this machine"), (self.there, f"on the shared store {store}"))
        return f"segment {self.part.number} is " + " and ".join(f"{how} {where}" for how, where in places if how)


def _examined_shared(store: SharedStore, count: ProgressCounter) -> tuple[str, ...]:
    try:
        ailing = _ailing(store, count)
    except (StorageCorrupt, StoreUnavailable, StoreUnusable) as error:
        return (error.message,)
    told = tuple(each.describe(store.depot.name) for each in ailing)
    return (store.problem, *told) if store.problem else told or tuple(store.check())


def _mended_shared(store: SharedStore, count: ProgressCounter) -> RepairReport:
    store.depot.revision(store.repository)  # while it is away nothing can be told: that is raised
    try:
        ailing = _ailing(store, count)
    except StorageCorrupt as error:
        return RepairReport((error.message,), is_anew=True, left=() if store.shares else (error.message,))
    if not ailing:
        return RepairReport(problems := tuple(store.check()), left=problems)
    store.close()
    fetched = [each.part.name for each in ailing if each.here and not each.is_lost]
    put_back = [each.part.name for each in ailing if not each.here and store.shares]
    for name in fetched:
        store.fetch(name)
    for name in put_back:
        store.restore(name)
    lost = [each.part.name for each in ailing if each.is_lost]
    files = store.forget(lost) if lost else 0
    left = [each for each in ailing if each.there and not store.shares]
    problems, others = (tuple(each.describe(store.depot.name) for each in some) for some in (ailing, left))
    return RepairReport(problems, files, fetched=len(fetched), restored=len(put_back), left=others)


def _ailing(store: SharedStore, count: ProgressCounter) -> list[DamagedSegment]:
    """Every segment that is not as it should be. The database is asked for all that it must have, unless it is away."""
    store.refresh()
    parts = store.segment_refs()
    lodged = frozenset() if store.problem else store.uploaded_names()
    count.start(sum(part.size * (1 + (part.name in lodged)) for part in parts))
    looked = [
        DamagedSegment(part, _how_here(store, part, count), _how_there(store, part, count) if part.name in lodged else "",
               part.name in lodged or bool(store.problem))
        for part in parts
    ]  # fmt: skip
    return [each for each in looked if each.there or each.is_lost or each.here == "damaged"]


def _how_here(store: SharedStore, part: SegmentRef, count: ProgressCounter) -> str:
    try:
        how = "" if digest(store.path(part.name)) == part.name else "damaged"
    except FileNotFoundError:
        how = "missing"
    count(part.size)
    return how


def _how_there(store: SharedStore, part: SegmentRef, count: ProgressCounter) -> str:
    """What the database has of a segment, fetched to be compared and for nothing else."""
    store.folder.mkdir(parents=True, exist_ok=True)
    aside = store.folder / f"{part.name[:16]}-{token_hex(4)}.part"
    try:
        store.depot.fetch(store.repository, part.name, aside, count)
        return "" if digest(aside) == part.name else "damaged"
    except FileNotFoundError:
        return "missing"
    finally:
        aside.unlink(missing_ok=True)
