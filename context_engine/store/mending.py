"""What can be saved of a damaged index: segments that are whole stay, the files of the others are forgotten and read again.

A rebuild from nothing would mend everything too; this costs only what is lost. Where the list of files itself is damaged
nothing can be told, and the index begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import apsw
from filelock import FileLock, Timeout

from context_engine.errors import StorageBusy
from context_engine.store import segment as segments
from context_engine.store.copying import opened
from context_engine.store.embedded import UNFINISHED, EmbeddedStore, disk_errors, problems_of


@dataclass(frozen=True, slots=True)
class Mended:
    """What was wrong, how many files have to be read again, and whether that is all of them."""

    problems: tuple[str, ...]
    files_lost: int = 0
    is_anew: bool = False


def examined(store: EmbeddedStore) -> tuple[str, ...]:
    """What is wrong with what serves, in words; empty when it is sound, or when there is nothing. Reads every byte."""
    generation = store.generation()
    return tuple(problems_of(store.folder / generation)) if generation else ()


def mend(store: EmbeddedStore) -> Mended:
    """Forget what is damaged; an indexing run then reads it again. Raises: StorageBusy, DiskFull."""
    with disk_errors(store.folder):
        if not store.generation():
            return Mended(())
        try:
            with FileLock(store.folder / "writer.lock", timeout=0):
                problems = examined(store)
                return _saved(store, problems) if problems else Mended(())
        except Timeout:
            raise StorageBusy(
                "another process is indexing this workspace", suggestion="call again in a moment"
            ) from None


def _saved(store: EmbeddedStore, problems: tuple[str, ...]) -> Mended:
    path = store.folder / store.generation()
    store.close()
    try:
        with opened(path / "index.db") as db:
            known = [int(str(row[0])) for row in db.execute("SELECT id FROM segment ORDER BY id")]
            lost = [number for number in known if segments.problem(path / f"{number:06d}.seg")]
            files = sum(_forget(db, number) for number in lost)
            db.executemany("INSERT OR REPLACE INTO fact VALUES (?,?)", list(UNFINISHED.items()))
            db.execute("UPDATE fact SET value = value + 1 WHERE name = 'epoch'")
        for each in path.glob("*.seg"):
            if int(each.stem) not in set(known) - set(lost):
                each.unlink(missing_ok=True)
        if not problems_of(path):
            return Mended(problems, files)
    except apsw.Error:
        pass  # the list itself is damaged: see below
    (store.folder / "CURRENT").unlink(missing_ok=True)
    return Mended(problems, is_anew=True)


def _forget(db: apsw.Connection, segment: int) -> int:
    """Take a segment off the list, with the files in it; how many they were."""
    files = db.execute("SELECT count(*) FROM file WHERE segment=?", (segment,)).fetchall()
    for table in ("file", "dead", "touched"):
        db.execute(f"DELETE FROM {table} WHERE segment=?", (segment,))  # noqa: S608 - three names of ours
    db.execute("DELETE FROM segment WHERE id=?", (segment,))
    return int(str(files[0][0]))
