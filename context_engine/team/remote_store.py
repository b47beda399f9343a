"""The remote store: a database in which the machines of a team share what one of them has made.

For each repository it keeps one manifest with a revision, and the segments that the manifest names. It does not
interpret their bytes. A commit replaces both at once or not at all. A reader sees one revision with everything that
belongs to it, or gets `FileNotFoundError` when a newer revision replaced it meanwhile. Every call names the repository,
and no call reaches the data of another one.

Records are kept next to the index, see `shared_records`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from context_engine.errors import InvalidArgument, StorageBusy, StoreUnavailable, UnsupportedHost
from context_engine.repo import Git, pip_install
from context_engine.settings import Settings
from context_engine.storage import open_private

Part = Literal["Store", "Records", "Search", "Jobs"]
BACKENDS: Mapping[str, tuple[str, Collection[Part]]] = {
    "postgresql": ("Postgres", ("Store", "Records", "Search", "Jobs")),
    "postgres": ("Postgres", ("Store", "Records", "Search", "Jobs")),
    "qdrant": ("Qdrant", ("Search",)),
    "https": ("Qdrant", ("Search",)),
    "http": ("Qdrant", ("Search",)),
}
"""Scheme of an address -> prefix of the classes and modules that serve it, also the extra with its library; and what it
serves."""
RETRY_DELAY_S = 30.0
"""A database that did not answer is tried again after this long: a try may take seconds, and an answer waits for it."""
PIECE_BYTES = 8_000_000
"""Segments are sent in pieces of this size: no message, and no copy in memory, is larger."""
OnBytesSent = Callable[[int], None]
"""Called with the size of each piece once it has arrived. An exception from it stops the transfer."""


class ManifestRevision(NamedTuple):
    """A manifest and its revision. Revision 0: nothing was ever stored; `manifest` None: nothing is stored now.

    `committed_at` is in seconds since 1970, 0 where it is not known.
    """

    revision: int
    manifest: bytes | None
    committed_at: float = 0.0


class RemoteStore(ABC):
    """A database that several machines share. Thread-safe.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is.
    """

    name: str
    """Its address without a password."""

    @abstractmethod
    def revision(self, repository: str) -> int:
        """Return the revision, which rises with every change, also when the repository is cleared. One short query."""

    @abstractmethod
    def read_manifest(self, repository: str) -> ManifestRevision:
        """Return the manifest and its revision."""

    @abstractmethod
    def read_piece(self, repository: str, name: str, number: int) -> tuple[int, bytes] | None:
        """Return the size of a segment and one of its pieces; None when the piece is missing."""

    @abstractmethod
    def acquire_lease(self, repository: str, wait_s: float) -> AbstractContextManager[RepositoryLease]:
        """Acquire the right to write, for one process on all machines. Raises: StorageBusy."""

    @abstractmethod
    def list_segment_sizes(self, repository: str) -> dict[str, int]:
        """Return the size of each segment that is stored completely."""

    @abstractmethod
    def count_stored_bytes(self, repository: str) -> int:
        """Return the size of all pieces, also of segments that have not arrived completely."""

    @abstractmethod
    def list_repositories(self) -> list[str]:
        """Return the repositories that have a manifest or pieces, sorted."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; they are opened again when needed."""

    def fetch(self, repository: str, name: str, target: Path, on_sent: OnBytesSent = lambda _: None) -> None:
        """Write a segment to a file. Raises: FileNotFoundError when it is not stored, or no longer."""
        size, number = 1, 0
        with open(target, "wb", opener=open_private) as out:
            while out.tell() < size:
                piece = self.read_piece(repository, name, number)
                if piece is None:
                    raise FileNotFoundError(name)
                size, content = piece
                out.write(content)
                on_sent(len(content))
                number += 1


class RepositoryLease(ABC):
    """The right to change one repository. It ends with its block, or when its process dies.

    All calls raise StorageBusy when the lease was lost, and DiskFull.
    """

    @abstractmethod
    def commit(self, revision: int, manifest: bytes, added: Mapping[str, Path], named: Collection[str]) -> int:
        """Replace `revision` by a manifest with its new segments; return the new revision.

        `named` are all segments that the manifest needs; all others are deleted. Pieces that arrived stay after an
        interruption, and are not sent again. Raises StorageBusy when the repository is no longer at `revision`.
        """

    @abstractmethod
    def clear(self) -> int:
        """Delete the manifest and the segments; return the bytes freed."""

    @abstractmethod
    def write_piece(self, name: str, number: int, size: int, content: bytes) -> None:
        """Store one piece of a segment of `size` bytes."""

    def _send_pieces(self, name: str, path: Path, stored: Collection[int]) -> None:
        """Send a segment in pieces, except those whose numbers are `stored`."""
        size = path.stat().st_size
        for number, content in read_pieces(path):
            if number not in stored:
                self.write_piece(name, number, size, content)


def read_pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a segment, in order, with their numbers."""
    with open(path, "rb") as source:
        yield from enumerate(iter(partial(source.read, PIECE_BYTES), b""))


def hash_file(path: Path) -> str:
    """Return the name of a segment: the SHA-256 of its bytes."""
    with open(path, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


# -- opening ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TeamStore:
    """The address of the team's database, the name of this repository in it, and whether this machine publishes."""

    address: str = ""
    repository: str = ""
    publishes: bool = False

    @classmethod
    def of(cls, root: Path, settings: Settings) -> TeamStore:
        """Return the team of a workspace; its repository is named as git's remote, unless the settings name it."""
        return cls(settings.store_url, settings.store_repository or Git(root).shared_name(), settings.store_shares)


def open_remote_store(address: str) -> RemoteStore:
    """Return the store of indexes at an address, without connecting. Raises: InvalidArgument, UnsupportedHost."""
    return open_backend(address, "Store")


def serves(address: str, part: Part) -> bool:
    """Return whether the database at an address serves a part: Qdrant searches, and stores nothing else."""
    return part in BACKENDS.get(address.partition("://")[0], ("", ()))[1]


def open_backend(address: str, part: Part) -> Any:
    """Return one part of the database at an address. Its library is imported here, at the first use."""
    scheme = address.partition("://")[0] if "://" in address else ""
    backend, parts = BACKENDS.get(scheme, ("", ()))
    if not backend:
        schemes = ", ".join(f"{name}://" for name in BACKENDS)
        raise InvalidArgument(
            f"no store is known by the address {scheme or address[:40]!r}",
            suggestion=f"write embedded, or an address that begins with {schemes}",
        )
    if part not in parts:
        raise InvalidArgument(
            f"{backend} searches the repositories that are published there; it does not serve {part.lower()}",
            suggestion="Use postgresql://user@host/database for that.",
        )
    try:
        module = import_module(f"context_engine.team.{backend.lower()}_{part.lower()}")
    except ImportError as error:
        raise UnsupportedHost(
            f"a store at {scheme}:// needs a library that is not installed: {error.name}",
            suggestion=f"Install it: `{pip_install()} 'smart-context-engine[{backend.lower()}]'`",
        ) from error
    return getattr(module, f"{backend}{part}")(address)


# -- errors -----------------------------------------------------------------------------------------------------------


def busy_error(repository: str) -> StorageBusy:
    """Return the error for another process that is writing, or wrote in between."""
    return StorageBusy(
        f"another process is indexing {repository} into the shared store",
        suggestion="search as usual; the result appears by itself, or call again in a moment",
    )


def unavailable_error(name: str, error: object) -> StoreUnavailable:
    """Return the error for a database that does not answer."""
    why = " ".join(str(error).split()).partition(" Is the server running")[0][:300]
    return StoreUnavailable(
        f"the shared store {name} does not answer: {why}",
        suggestion="call again in a moment; if that does not help, check CTX_STORE_URL, the password and the database",
        details={"store": name},
    )
