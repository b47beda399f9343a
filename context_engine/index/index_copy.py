"""A copy of one published generation, consistent whatever is written meanwhile: its database by backup, its segments by link.

Segments never change, so a hard link is as good as a copy and costs no room; where the file system has none they are copied.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
from filelock import FileLock, Timeout

from context_engine.errors import ContextEngineError
from context_engine.index.embedded_store import UNFINISHED, EmbeddedStore

TRIES = 20
"""A segment may be written and merged away while the list is copied: then the list is copied again."""
SEEDED = "g-000001"


def copy_generation(source: Path, target: Path) -> list[str]:
    """Copy a generation into a folder that is made; the names of its segments. Raises: OSError, apsw.Error.

    Segments are taken before the list that names them, and kept: a merge that takes them away comes too late, and none
    of their names is ever used again.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for _ in range(TRIES):
        _link_all(source, target)
        for stale in target.glob("index.db*"):
            stale.unlink()
        names = _list_copied(source / "index.db", target / "index.db")
        _link_all(source, target)
        if all((target / name).exists() for name in names):
            for extra in {path.name for path in target.glob("*.seg")} - set(names):
                (target / extra).unlink()
            return names
    raise FileNotFoundError(source)


def seed(store: EmbeddedStore, others: Iterable[Path], identity: str) -> bool:
    """Begin an index that does not exist with that of another work tree of the same repository; whether that was done.

    `others` are the folders of their indexes; the largest is taken whose static vectors are of this `identity` (empty:
    none). Nothing in it is believed: every file counts as changed until its content has been compared, which is much less
    work than to parse it. Trouble is no error, the index is then built from nothing.
    """
    if store.generation():
        return False
    chosen = _largest(others, identity)
    if chosen is None:
        return False
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(store.folder / "writer.lock", timeout=0):
            return not store.generation() and _begun(chosen, store.folder)
    except (Timeout, OSError, apsw.Error):
        return False


def _largest(folders: Iterable[Path], identity: str) -> Path | None:
    """The generation with most files, of our schema and with such vectors."""
    best: tuple[int, Path] | None = None
    for folder in folders:
        other = EmbeddedStore(folder)
        with suppress(ContextEngineError, OSError):
            snapshot = other.snapshot()
            static = snapshot.static() if snapshot else None
            if snapshot and snapshot.living_files and (static.identity if static else "") == identity:
                best = max(best or (0, folder), (snapshot.living_files, folder / snapshot.generation))
        other.close()
    return best[1] if best else None


def _begun(source: Path, folder: Path) -> bool:
    """Copy it, forget how its files looked, and put it in place."""
    target = folder / SEEDED
    try:
        copy_generation(source, target)
        with open_for_change(target / "index.db") as db:
            db.execute("UPDATE file SET mtime_ns = -1")
            db.execute("DELETE FROM touched")
            db.execute("DELETE FROM skipped")
            db.executemany("INSERT OR REPLACE INTO fact VALUES (?,?)", list(UNFINISHED.items()))
    except (OSError, apsw.Error):
        shutil.rmtree(target, ignore_errors=True)
        return False
    publish(folder, SEEDED)
    return True


def publish(folder: Path, generation: str) -> None:
    """Say which generation serves; whole, so that a reader finds the old name or the new one."""
    new = folder / "CURRENT.new"
    with open(new, "w", encoding="ascii") as out:
        out.write(generation)
        out.flush()
        os.fsync(out.fileno())
    os.replace(new, folder / "CURRENT")


@contextmanager
def open_for_change(path: Path) -> Generator[apsw.Connection]:
    """A database, one transaction long: committed when all went well, closed in any case."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        db.set_busy_timeout(5_000)
        with db:
            yield db
    finally:
        db.close()


def _list_copied(source: Path, target: Path) -> list[str]:
    """The database of a generation as it is at one moment; which segments it names."""
    if not source.exists():
        raise FileNotFoundError(source)
    here = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
    there = apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        here.set_busy_timeout(5_000)
        with there.backup("main", here, "main") as backup:
            while not backup.done:
                backup.step()
        numbers: list[Any] = [row[0] for row in there.execute("SELECT id FROM segment ORDER BY id")]
    finally:
        there.close()
        here.close()
    return [f"{number:06d}.seg" for number in numbers]


def _link_all(source: Path, target: Path) -> None:
    """Link every segment of a folder that is not there yet; one that vanishes meanwhile is left out."""
    for segment in source.glob("*.seg"):
        if not (target / segment.name).exists():
            with suppress(FileNotFoundError):
                _linked(segment, target / segment.name)


def _linked(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or a file system without links
        whole = target.with_suffix(".copy")
        shutil.copyfile(source, whole)
        os.replace(whole, target)
