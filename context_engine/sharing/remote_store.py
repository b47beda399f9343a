"""The remote store: what a database must be able to do to hold the indexes of a team.

Values in, values out; it understands none.

For each repository it keeps one manifest with a revision, and the segments that the manifest names. A commit puts both
in place at once or not at all; what a reader sees is a revision and all that belongs to it, or `FileNotFoundError` when
a newer one took its place meanwhile. Every call names the repository, and no call reaches another one's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from context_engine.errors import StorageBusy, StoreUnavailable

RETRY_DELAY_S = 30.0
"""A database that did not answer is asked again after this long: asking may take seconds, and an answer waits for it."""
PIECE_BYTES = 8_000_000
"""Segments travel in pieces of this size: no message, and no copy in memory, is larger."""
OnBytesSent = Callable[[int], None]
"""Told the bytes of each piece once it has arrived. What it raises ends the way of the pieces that are still to come."""


class ManifestRevision(NamedTuple):
    """What a remote store holds of a repository. Revision 0: nothing ever; `manifest` None: nothing now.

    `committed_at`: when it was put there, in seconds since 1970, 0 where that is not known.
    """

    revision: int
    manifest: bytes | None
    committed_at: float = 0.0


class RemoteStore(Protocol):
    """A database that several machines share. Thread-safe.

    All calls raise StoreUnavailable when it does not answer, StoreUnusable when it cannot serve as it is.
    """

    name: str
    """Its address without a password."""

    def revision(self, repository: str) -> int:
        """Return the revision, which rises with every change, clearing included. One short query."""
        ...

    def read_manifest(self, repository: str) -> ManifestRevision:
        """Return the manifest and its revision."""
        ...

    def fetch(self, repository: str, name: str, target: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Write a segment to a file. Raises: FileNotFoundError when it is not there, or no longer."""
        ...

    def acquire_lease(self, repository: str, wait_s: float) -> AbstractContextManager[object]:
        """Acquire the right to write, for one process of all machines; it ends when that process dies.

        Raises: StorageBusy.
        """
        ...

    def stage(self, repository: str, name: str, path: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Send a segment ahead of the commit that will name it, for who may write; pieces that are there are not sent again.

        What arrived stays when the rest does not, until a commit that does not name it. Raises: StorageBusy, DiskFull.
        """
        ...

    def restore(self, repository: str, name: str, path: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Put a segment that is damaged or missing back as it was, for who may write. Raises: StorageBusy, DiskFull."""
        ...

    def commit(
        self, repository: str, revision: int, manifest: bytes, added: Mapping[str, Path], named: Collection[str]
    ) -> int:
        """Put a manifest with its new segments in place of `revision`; the new revision.

        `named`: all segments that the manifest is made of; what else lies there is dropped.
        Raises: StorageBusy when it is no longer at `revision`, DiskFull.
        """
        ...

    def clear(self, repository: str) -> int:
        """Delete the manifest and the segments; return the bytes freed."""
        ...

    def list_segment_sizes(self, repository: str) -> dict[str, int]:
        """Return the bytes of each segment that is stored completely."""
        ...

    def count_stored_bytes(self, repository: str) -> int:
        """Bytes of all that lies there of its segments, of those too that have not arrived as a whole."""
        ...

    def list_repositories(self) -> list[str]:
        """Those that have something on it, sorted; such too of which only pieces have arrived."""
        ...

    def close(self) -> None:
        """Close the connections; the store can be used again afterwards."""
        ...


def read_pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the pieces of a segment, in order, with their numbers."""
    with open(path, "rb") as source:
        yield from enumerate(iter(partial(source.read, PIECE_BYTES), b""))


def busy_error(repository: str) -> StorageBusy:
    """Return the error for another process that writes, or wrote in between."""
    return StorageBusy(
        f"another process is indexing {repository} into the shared store",
        suggestion="search as usual; the result appears by itself, or call again in a moment",
    )


def unavailable_error(name: str, error: object) -> StoreUnavailable:
    """Return the error for a database that does not answer."""
    why = " ".join(str(error).split())[:300]
    return StoreUnavailable(
        f"the shared store {name} does not answer: {why}",
        suggestion="call again in a moment; if it stays so, check CTX_STORE_URL, the password and whether the database runs",
        details={"store": name},
    )


def hash_file(path: Path) -> str:
    """Return the name of a segment: the SHA-256 of its bytes."""
    with open(path, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
