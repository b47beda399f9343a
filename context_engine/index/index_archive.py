"""An index as one file, to take it to another machine: a zip archive of one generation.

    manifest.json    format, schema, name and commit of the repository; size and SHA-256 of each member
    index.db         the list of files and segments
    000001.seg ...   the segments

Archives of a local and of a shared index are alike. An archive is written under a temporary name and renamed. An import
unpacks it member by member next to the index and compares each with the manifest; an interrupted import continues with
the first member that is not complete. Checksums find accidents, not malice: import only what you would run.
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
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
from filelock import FileLock, Timeout

from context_engine import __version__
from context_engine.errors import (
    FileNotFound,
    InvalidArgument,
    NextStep,
    NotIndexed,
    PreconditionFailed,
    StorageBusy,
    StorageCorrupt,
)
from context_engine.index.embedded_store import (
    FIRST_GENERATION,
    SCHEMA_VERSION,
    EmbeddedStore,
    find_problems,
    set_current,
    translate_disk_errors,
)
from context_engine.index.index_transfer import migrate
from context_engine.index.shared_store import SharedStore
from context_engine.index.store_factory import AnyStore
from context_engine.storage.progress_counter import OnProgress, ProgressCounter
from context_engine.text import read_json

FORMAT = 1
"""Of the archive itself: the fields of its manifest and the names of its members."""
MANIFEST = "manifest.json"
MANIFEST_BYTES_MAX = 4_000_000
"""A member takes 150 bytes, and an index of a million files has a hundred of them."""
BLOCK_BYTES = 1 << 20
LEVEL = 1
"""Of deflate: twice the speed of the usual level for a tenth more bytes."""
ABANDONED_S = 86_400.0
"""An import that was not continued for a day is deleted."""
_IS_MEMBER = re.compile(r"index\.db|[0-9]{6,9}\.seg").fullmatch
RATIO_MAX = 100
"""Of the unpacked bytes to those of the archive: an index packs 3 to 8 times smaller, a bomb of zeros a thousand times."""
FREE_BYTES_LEFT = 100_000_000
"""Of the disk, whatever the size of an archive."""


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """One file of a generation."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """The content of an archive: when and by which version it was made, of which repository at which commit."""

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
        return sum(member.size for member in self.members)


# -- export -------------------------------------------------------------------------------------------------------


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
    """Write the published index into a file; an older file is replaced once the new one is complete.

    Raises: NotIndexed, Cancelled (nothing is written), DiskFull, StorageCorrupt, StoreUnavailable, StoreUnusable.
    """
    snapshot = store.snapshot()
    if snapshot is None:
        raise NotIndexed("this workspace has no index yet", next_steps=NextStep("index_workspace", "to build it"))
    static = snapshot.static()
    aside = store.folder / f"export-{os.getpid()}-{threading.get_ident()}"
    part = file.with_name(f"{file.name}.part")
    try:
        with translate_disk_errors(file.parent):
            with closing(EmbeddedStore(aside)) as copy:
                stats = migrate(store, copy, tell=tell, cancel=cancel)
                folder = aside / copy.generation()
            names = ["index.db", *sorted(path.name for path in folder.glob("*.seg"))]
            manifest = ArchiveManifest(
                format=FORMAT,
                schema=SCHEMA_VERSION,
                version=__version__,
                name=name,
                commit=commit,
                made_at=now,
                files=stats.files,
                chunks=stats.chunks,
                static=static.identity if static else "",
                members=tuple(_read_member(folder / member) for member in names),
            )
            _pack(manifest, folder, part, ProgressCounter("exporting", tell, cancel))
            os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
    return manifest


def _read_member(path: Path) -> ArchiveMember:
    with open(path, "rb") as source:
        return ArchiveMember(path.name, path.stat().st_size, hashlib.file_digest(source, "sha256").hexdigest())


def _pack(manifest: ArchiveManifest, folder: Path, part: Path, counter: ProgressCounter) -> None:
    counter.start(manifest.size_bytes)
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        archive.writestr(MANIFEST, json.dumps(asdict(manifest), indent=1))
        for member in manifest.members:
            with open(folder / member.name, "rb") as source, archive.open(member.name, "w", force_zip64=True) as target:
                for block in _read_blocks(source, member.size):
                    target.write(block)
                    counter(len(block))


def _read_blocks(source: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield at most `size` bytes, block by block."""
    while size > 0 and (block := source.read(min(BLOCK_BYTES, size))):
        size -= len(block)
        yield block


# -- import -------------------------------------------------------------------------------------------------------


def read_manifest(file: Path) -> ArchiveManifest:
    """Return the manifest of an archive.

    Raises: FileNotFound, InvalidArgument (not an archive, or of another schema).
    """
    try:
        with zipfile.ZipFile(file) as archive, archive.open(MANIFEST) as source:
            content = read_json(source.read(MANIFEST_BYTES_MAX), bytes_max=MANIFEST_BYTES_MAX)
        return _check_manifest(file, content)
    except FileNotFoundError:
        raise FileNotFound(f"there is no file {file}", suggestion="check the spelling") from None
    except (zipfile.BadZipFile, zlib.error, LookupError, ValueError, TypeError, OSError, RuntimeError) as error:
        raise InvalidArgument(
            f"{file.name} is not an exported index: {error}", suggestion="make one: ctx store export FILE"
        ) from None


def _check_manifest(file: Path, content: dict[str, Any]) -> ArchiveManifest:
    if content["format"] != FORMAT or content["schema"] != SCHEMA_VERSION:
        raise InvalidArgument(
            f"{file.name} was made by version {content['version']} (format {content['format']}, schema {content['schema']}); "
            f"this version reads format {FORMAT}, schema {SCHEMA_VERSION}",
            suggestion="use the same version on both machines, or build the index from the files: ctx index",
            details={"schema": content["schema"], "expected": SCHEMA_VERSION},
        )
    manifest = msgspec.convert(content, ArchiveManifest)
    names = {member.name for member in manifest.members}
    if not names or not all(_IS_MEMBER(member.name) and member.size >= 0 for member in manifest.members):
        raise ValueError("its manifest names files that are not part of an index")
    if len(names) < len(manifest.members):
        raise ValueError("its manifest names a member twice")
    if manifest.size_bytes > RATIO_MAX * file.stat().st_size + BLOCK_BYTES:
        raise ValueError(f"it would unpack to {manifest.size_bytes:,} bytes, more than {RATIO_MAX} times its own size")
    return manifest


def import_index(
    store: AnyStore, file: Path, *, tell: OnProgress = lambda _: None, cancel: threading.Event | None = None
) -> ArchiveManifest:
    """Replace the index by that of an archive, for everybody where it is shared. Readers are not disturbed.

    An interrupted import keeps what is complete next to the index, and the next call with the same file continues
    there. Raises: as `read_manifest`; StorageBusy, DiskFull, StorageCorrupt (a member is damaged), Cancelled,
    StoreUnavailable, StoreUnusable; PreconditionFailed where others share the index and this machine does not.
    """
    manifest = read_manifest(file)
    if isinstance(store, SharedStore) and not store.publishes:
        raise PreconditionFailed(
            f"the index of this workspace is the one that others share on {store.remote.name}",
            suggestion="set CTX_STORE_SHARES=1 to replace it for everybody, or leave CTX_STORE_URL unset to import it "
            "for this machine alone",
        )
    aside = store.folder / f"import-{_fingerprint(manifest)}"
    with translate_disk_errors(store.folder), closing(EmbeddedStore(aside)) as copy:
        if not copy.generation():
            _unpack(manifest, file, aside, ProgressCounter("importing", tell, cancel))
        migrate(copy, store, is_trusted=False, tell=tell, cancel=cancel)
    for path in (aside, *_find_abandoned(store.folder)):
        shutil.rmtree(path, ignore_errors=True)
    return manifest


def _fingerprint(manifest: ArchiveManifest) -> str:
    """Return a name that differs for each archive, so that an import continues with its own files."""
    members = json.dumps([asdict(member) for member in manifest.members])
    return hashlib.sha256(members.encode()).hexdigest()[:16]


def _unpack(manifest: ArchiveManifest, file: Path, aside: Path, counter: ProgressCounter) -> None:
    """Unpack an archive into a folder that becomes an index of its own.

    Raises: StorageBusy, StorageCorrupt, Cancelled.
    """
    folder = aside / FIRST_GENERATION
    folder.mkdir(parents=True, exist_ok=True)
    if manifest.size_bytes > shutil.disk_usage(aside).free - FREE_BYTES_LEFT:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(aside))
    try:
        with FileLock(aside / "unpack.lock", timeout=0), zipfile.ZipFile(file) as archive:
            counter.start(manifest.size_bytes)
            for member in manifest.members:
                _unpack_member(archive, member, folder / member.name, counter)
            if problems := find_problems(folder):
                shutil.rmtree(aside, ignore_errors=True)
                raise StorageCorrupt(
                    f"the imported index is damaged: {problems[0]}",
                    suggestion="run ctx store check --repair where it was made, and export it again; nothing was changed here",
                    details={"problems": problems[:20]},
                )
            set_current(aside, FIRST_GENERATION)
    except Timeout:
        raise StorageBusy(
            "another process is importing this archive", suggestion="call again when it is done"
        ) from None


def _unpack_member(archive: zipfile.ZipFile, member: ArchiveMember, place: Path, counter: ProgressCounter) -> None:
    """Unpack a member unless it is complete already."""
    if place.exists() and place.stat().st_size == member.size and _read_member(place) == member:
        counter(member.size)
        return
    part, digest, size = place.with_suffix(".part"), hashlib.sha256(), 0
    try:
        with archive.open(member.name) as source, open(part, "wb") as target:
            for block in _read_blocks(source, member.size):
                digest.update(block)
                target.write(block)
                size += len(block)
                counter(len(block))
            is_longer = bool(source.read(1))
            target.flush()
            os.fsync(target.fileno())
        if size != member.size or is_longer or digest.hexdigest() != member.sha256:
            raise _damaged_error(member, "its content differs from the manifest")
        os.replace(part, place)
    except (zipfile.BadZipFile, zlib.error, LookupError, EOFError, RuntimeError, NotImplementedError) as error:
        raise _damaged_error(member, str(error)) from None
    finally:
        part.unlink(missing_ok=True)


def _damaged_error(member: ArchiveMember, why: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"the archive is damaged at {member.name}: {why}",
        suggestion="copy it again from where it was made; its complete members are kept",
    )


def _find_abandoned(folder: Path) -> list[Path]:
    """Return imports that were not continued, and what killed exports left."""
    begun = (*folder.glob("import-*"), *folder.glob("export-*"))
    return [path for path in begun if time.time() - path.stat().st_mtime > ABANDONED_S]
