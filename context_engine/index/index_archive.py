"""An index as one file: to take it to another machine, to keep it, to give a team's CI a start. A zip of what a generation holds.

    manifest.json    format, schema, what it is an index of, and of each member its size and SHA-256
    index.db         the list of files and segments, as it was at one moment
    000001.seg ...   the segments

One made of a shared store and one made of this machine's are alike: each can be taken in by the other. It is written beside its place and renamed. It is taken in member by member, each compared with the manifest: an import that
broke off goes on with the first member that is not whole. What is taken in is believed about content only: every file
counts as changed until its hash has been compared. Import what you would run: it is checked, not distrusted.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import apsw
import msgspec
from filelock import FileLock, Timeout

from context_engine import __version__
from context_engine.errors import (
    Cancelled,
    FileNotFound,
    InvalidArgument,
    NotIndexed,
    PreconditionFailed,
    StorageBusy,
    StorageCorrupt,
)
from context_engine.index.embedded_store import (
    SCHEMA_VERSION,
    UNFINISHED,
    EmbeddedStore,
    find_problems,
    translate_disk_errors,
)
from context_engine.index.index_copy import copy_generation, open_for_change, publish
from context_engine.index.index_migration import migrate
from context_engine.index.shared_store import SharedStore
from context_engine.index.store_factory import AnyStore
from context_engine.model import Progress
from context_engine.storage.progress_counter import OnProgress
from context_engine.text.untrusted_data import read_json

FORMAT = 1
"""Of the archive itself: what its manifest says and how its members are named."""
MANIFEST = "manifest.json"
MANIFEST_BYTES_MAX = 4_000_000
"""A member takes 150 bytes, and an index of a million files has a hundred of them."""
BLOCK_BYTES = 1 << 20
LEVEL = 1
"""Of deflate: twice the speed of the usual level for a tenth more bytes."""
ABANDONED_S = 86_400.0
"""An import that nobody has gone on with for a day is given up."""
_IS_MEMBER = re.compile(r"index\.db|[0-9]{6,9}\.seg").fullmatch
RATIO_MAX = 100
"""Of the bytes of all members to those of the archive: an index packs 3 to 8 times smaller, a bomb of zeros a thousand times."""
FREE_BYTES_LEFT = 100_000_000
"""Of the disk, whatever an archive wants."""


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """One file of a generation."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """What an archive holds: made when, by which version, from a repository of this name at this commit."""

    format: int
    schema: int
    version: str
    name: str
    commit: str
    made_at: float
    files: int
    chunks: int
    static: str
    members: tuple[ArchiveMember, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all members, unpacked."""
        return sum(each.size for each in self.members)


# -- out ----------------------------------------------------------------------------------------------------------


def export_index(
    store: AnyStore,
    file: Path,
    *,
    name: str,
    commit: str,
    now: float,
    tell: OnProgress = lambda _: None,
    cancel: threading.Event | None = None,
) -> ArchiveManifest:
    """Write what serves now into a file; one that is there is replaced once the new one is whole.

    Raises: NotIndexed, Cancelled (nothing is written), DiskFull, StorageCorrupt, StoreUnavailable, StoreUnusable.
    """
    snapshot = store.snapshot()
    if snapshot is None:
        raise NotIndexed(
            "this workspace has no index yet", suggestion="call index_workspace (at a terminal: ctx index)"
        )
    static = snapshot.static()
    aside = store.folder / f"export-{os.getpid()}-{threading.get_ident()}"
    part = file.with_name(f"{file.name}.part")
    try:
        with translate_disk_errors(file.parent):
            folder = _laid_out(store, aside, tell, cancel)
            names = ["index.db", *sorted(path.name for path in folder.glob("*.seg"))]
            members = tuple(_member(folder / each) for each in names)
            said = ArchiveManifest(
                FORMAT, SCHEMA_VERSION, __version__, name, commit, now, snapshot.living_files, snapshot.living_chunks,
                static.identity if static else "", members,
            )  # fmt: skip
            _packed(said, folder, part, tell, cancel)
            os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
    return said


def _laid_out(store: AnyStore, aside: Path, tell: OnProgress, cancel: threading.Event | None) -> Path:
    """What serves now as a generation in a folder of its own, which nobody changes."""
    if isinstance(store, EmbeddedStore):
        copy_generation(store.folder / store.generation(), aside / "copy")
    else:
        with closing(EmbeddedStore(aside)) as own:
            migrate(store, own, tell=tell, cancel=cancel)
            copy_generation(aside / own.generation(), aside / "copy")
    return aside / "copy"


def _member(path: Path) -> ArchiveMember:
    with open(path, "rb") as source:
        return ArchiveMember(path.name, path.stat().st_size, hashlib.file_digest(source, "sha256").hexdigest())


def _packed(said: ArchiveManifest, folder: Path, part: Path, tell: OnProgress, cancel: threading.Event | None) -> None:
    done = 0
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        archive.writestr(MANIFEST, json.dumps(asdict(said), indent=1))
        for member in said.members:
            with open(folder / member.name, "rb") as source, archive.open(member.name, "w", force_zip64=True) as target:
                for block in _blocks(source, member.size, cancel):
                    target.write(block)
                    done += len(block)
                    tell(Progress("exporting", done, said.size_bytes))


def _blocks(source: IO[bytes], size: int, cancel: threading.Event | None) -> Iterator[bytes]:
    """At most so many bytes, block by block. Raises: Cancelled."""
    while size > 0 and (block := source.read(min(BLOCK_BYTES, size))):
        if cancel is not None and cancel.is_set():
            raise Cancelled("cancelled; what was there before is as it was", suggestion="call it again to go on")
        size -= len(block)
        yield block


# -- in -----------------------------------------------------------------------------------------------------------


def read_manifest(file: Path) -> ArchiveManifest:
    """What an archive says of itself. Raises: FileNotFound, InvalidArgument (no archive of ours, or of another schema)."""
    try:
        with zipfile.ZipFile(file) as archive, archive.open(MANIFEST) as source:
            told = read_json(source.read(MANIFEST_BYTES_MAX), bytes_max=MANIFEST_BYTES_MAX)
        return _checked(file, told)
    except FileNotFoundError:
        raise FileNotFound(f"there is no file {file}", suggestion="check the spelling") from None
    except (zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError, OSError, RuntimeError) as error:
        raise InvalidArgument(
            f"{file.name} is no exported index: {error}", suggestion="make one: ctx store export FILE"
        ) from None


def _checked(file: Path, told: dict[str, Any]) -> ArchiveManifest:
    if told["format"] != FORMAT or told["schema"] != SCHEMA_VERSION:
        raise InvalidArgument(
            f"{file.name} was made by version {told['version']} (format {told['format']}, schema {told['schema']}); "
            f"this one reads format {FORMAT}, schema {SCHEMA_VERSION}",
            suggestion="use the same version on both machines, or leave it: ctx index builds the index from the files",
            details={"schema": told["schema"], "expected": SCHEMA_VERSION},
        )
    said = msgspec.convert(told, ArchiveManifest)
    if not all(_IS_MEMBER(each.name) and each.size >= 0 for each in said.members) or not said.members:
        raise ValueError("its manifest names what no index holds")
    if len({each.name for each in said.members}) < len(said.members):
        raise ValueError("its manifest names a member twice")
    if said.size_bytes > RATIO_MAX * file.stat().st_size + BLOCK_BYTES:
        raise ValueError(f"it would unpack to {said.size_bytes:,} bytes, more than {RATIO_MAX} times its own size")
    return said


def import_index(
    store: AnyStore, file: Path, *, tell: OnProgress = lambda _: None, cancel: threading.Event | None = None
) -> ArchiveManifest:
    """Put the index of an archive in the place of the one that serves: for all, where that is shared. Readers go on undisturbed.

    Broken off, it leaves what is whole beside the index, and the next call with the same file goes on there.
    Raises: as `read_manifest`, and StorageBusy, DiskFull, StorageCorrupt (a member is damaged), Cancelled, PreconditionFailed
    where others share and this machine does not, StoreUnavailable, StoreUnusable.
    """
    said = read_manifest(file)
    if isinstance(store, SharedStore):
        _shared(store, said, file, tell, cancel)
    else:
        _taken_in(store, said, file, tell, cancel)
    return said


def _shared(
    store: SharedStore, said: ArchiveManifest, file: Path, tell: OnProgress, cancel: threading.Event | None
) -> None:
    """By way of an index of this machine's kind, which stays until all has arrived."""
    if not store.shares:
        raise PreconditionFailed(
            f"the index of this workspace is the one that others share on {store.depot.name}",
            suggestion="set CTX_STORE_SHARES=1 to put this one in its place for all, or leave CTX_STORE_URL unset to take it in "
            "for this machine alone",
        )
    aside = store.folder / f"import-{_mark(said)}"
    with translate_disk_errors(store.folder), closing(EmbeddedStore(aside)) as own:
        if not own.generation():
            _taken_in(own, said, file, tell, cancel)
        migrate(own, store, tell=tell, cancel=cancel)
    for path in (aside, *_given_up(store.folder)):
        shutil.rmtree(path, ignore_errors=True)


def _taken_in(
    store: EmbeddedStore, said: ArchiveManifest, file: Path, tell: OnProgress, cancel: threading.Event | None
) -> None:
    aside = store.folder / f"import-{_mark(said)}"
    with translate_disk_errors(store.folder):
        aside.mkdir(parents=True, exist_ok=True)
        if said.size_bytes > shutil.disk_usage(aside).free - FREE_BYTES_LEFT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(aside))
        try:
            with FileLock(store.folder / "writer.lock", timeout=0):
                _unpacked(said, file, aside, tell, cancel)
                _ready(aside)
                _in_place(store, aside)
        except Timeout:
            raise StorageBusy(
                "another process is indexing this workspace", suggestion="call again when it is done"
            ) from None


def _mark(said: ArchiveManifest) -> str:
    """Tells one archive from another, so that an import goes on with its own."""
    told = json.dumps([asdict(each) for each in said.members])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _unpacked(said: ArchiveManifest, file: Path, aside: Path, tell: OnProgress, cancel: threading.Event | None) -> None:
    """Every member that is not whole there yet."""
    done = 0
    with zipfile.ZipFile(file) as archive:
        for member in said.members:
            place = aside / member.name
            if not (place.exists() and place.stat().st_size == member.size and _member(place) == member):
                _unpack(archive, member, place, lambda more, so_far=done: tell(_step(so_far + more, said)), cancel)
            done += member.size
            tell(_step(done, said))


def _step(done: int, said: ArchiveManifest) -> Progress:
    return Progress("importing", done, said.size_bytes)


def _unpack(
    archive: zipfile.ZipFile,
    member: ArchiveMember,
    place: Path,
    tell: Callable[[int], None],
    cancel: threading.Event | None,
) -> None:
    part, digest, done = place.with_suffix(".part"), hashlib.sha256(), 0
    try:
        with archive.open(member.name) as source, open(part, "wb") as target:
            for block in _blocks(source, member.size, cancel):
                digest.update(block)
                target.write(block)
                done += len(block)
                tell(done)
            is_longer = bool(source.read(1))
            target.flush()
            os.fsync(target.fileno())
        if done != member.size or is_longer or digest.hexdigest() != member.sha256:
            raise _damaged(member, "it is not what its manifest says")
        os.replace(part, place)
    except (zipfile.BadZipFile, zlib.error, LookupError, EOFError, RuntimeError, NotImplementedError) as error:
        raise _damaged(member, str(error)) from None
    finally:
        part.unlink(missing_ok=True)


def _damaged(member: ArchiveMember, why: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"the archive is damaged at {member.name}: {why}",
        suggestion="copy it again from where it was made; what was whole of it is kept",
    )


def _ready(aside: Path) -> None:
    """Sound, and nothing in it believed about how files look here. Raises: StorageCorrupt."""
    try:
        with open_for_change(aside / "index.db") as db:
            db.execute("UPDATE file SET mtime_ns = -1")
            db.execute("DELETE FROM touched")
            db.execute("DELETE FROM skipped")
            db.executemany("INSERT OR REPLACE INTO fact VALUES (?,?)", list(UNFINISHED.items()))
        problems = find_problems(aside)
    except apsw.Error as error:
        problems = [str(error)]
    if problems:
        shutil.rmtree(aside, ignore_errors=True)
        raise StorageCorrupt(
            f"the imported index is not sound: {problems[0]}",
            suggestion="export it again, after ctx store check --repair where it was made; nothing was changed here",
            details={"problems": problems[:20]},
        )


def _in_place(store: EmbeddedStore, aside: Path) -> None:
    """Make it the generation that serves; older ones go, and imports that nobody went on with."""
    current = store.generation()
    name = f"g-{int(current.removeprefix('g-')) + 1 if current else 1:06d}"
    shutil.rmtree(store.folder / name, ignore_errors=True)
    os.replace(aside, store.folder / name)
    publish(store.folder, name)
    old = [path for path in store.folder.glob("g-*") if path.name != name]
    for path in (*old, *_given_up(store.folder)):
        shutil.rmtree(path, ignore_errors=True)


def _given_up(folder: Path) -> list[Path]:
    """Imports that nobody went on with, and exports that were killed."""
    begun = (*folder.glob("import-*"), *folder.glob("export-*"))
    return [path for path in begun if time.time() - path.stat().st_mtime > ABANDONED_S]
