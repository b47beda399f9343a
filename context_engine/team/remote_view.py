"""One repository on a remote store as this machine has seen it: the last state, and the polls that renew it.

The last seen state is in a file too, for the next process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

import msgspec

from context_engine.errors import StorageCorrupt, StoreUnavailable, StoreUnusable
from context_engine.storage import make_private_folder, open_private
from context_engine.team.manifest import Manifest, decode_manifest
from context_engine.team.remote_store import RETRY_DELAY_S, ManifestRevision, unavailable_error

if TYPE_CHECKING:  # its library is optional
    from context_engine.team.postgres_store import PostgresStore

SILENT_S = 5.0
"""A remote store that takes longer is reported as not answering, though no query waits for it."""
NOTHING = ManifestRevision(0, None)


class RemoteView:
    """The last seen state of a repository on a remote store. Its owner locks: not thread-safe by itself.

    `rest_s`: how old the last poll may be for an answer; `wait_s`: how long an answer waits for a newer state, without
    limit when None. `needs_state`: without any state an error is raised, not an empty state returned.
    """

    def __init__(
        self,
        file: ManifestFile,
        remote: PostgresStore,
        repository: str,
        *,
        prefetch: Callable[[Manifest], None],
        rest_s: float,
        wait_s: float | None,
        needs_state: bool,
    ) -> None:
        """Ask nothing yet. `prefetch` gets the manifest of a newer state, in the thread that found it."""
        self.problem = ""
        """Why the remote store could not be asked, so that answers come from what was here already; empty while it
        answers."""
        self._file = file
        self._remote = remote
        self._repository = repository
        self._prefetch = prefetch
        self._rest_s = rest_s
        self._wait_s = wait_s
        self._needs_state = needs_state
        self.last = NOTHING
        """The last state that this process has seen."""
        self._poll: Future[ManifestRevision] | None = None
        self._poll_began_s = 0.0
        self._next_poll_at = 0.0
        self._has_asked = False

    def read_in_time(self) -> ManifestRevision:
        """Return the state, at most `rest_s` old; the last seen one while asking takes longer than `wait_s`.

        Raises: StoreUnusable; StoreUnavailable where a state is needed and none was ever seen.
        """
        if time.monotonic() < self._next_poll_at:
            return self.last
        seen = self._read_last()
        is_first_contact = seen == NOTHING and not self._has_asked
        if self._wait_s is None or is_first_contact:
            return self.read_or_keep()
        if self._poll is None:
            self._poll, self._poll_began_s = Future(), time.monotonic()
            work = partial(_carry_out, self._poll, partial(self._ask_and_prefetch, seen))
            threading.Thread(target=work, name="ctx-remote-store", daemon=True).start()
        age_s = time.monotonic() - self._poll_began_s
        if wait([self._poll], max(0.0, self._wait_s - age_s)).done:  # an older poll is not waited for again
            return self._finish_poll(self._poll.result)
        if time.monotonic() - self._poll_began_s >= SILENT_S:
            self.problem = unavailable_error(self._remote.name, f"silent for {SILENT_S:.0f} s or more").message
        return self.last

    def read_or_keep(self) -> ManifestRevision:
        """Return the newest state, the last seen one where the remote store does not answer. Raises as above."""
        return self._finish_poll(partial(self._ask, self._read_last()))

    def read(self) -> ManifestRevision:
        """Return the newest state. Raises: StoreUnavailable, StoreUnusable."""
        return self.replace(self._ask(self._read_last()))

    def replace(self, state: ManifestRevision) -> ManifestRevision:
        """Make a state the last one seen, and return it."""
        self._poll = None
        if state is not self.last:
            self._file.write(state)
            self.last = state
        return state

    def forget(self) -> None:
        """Forget the state, after it was deleted."""
        self.last, self._poll, self._next_poll_at = NOTHING, None, 0.0

    def end_poll(self) -> None:
        """Let no answer wait for the poll that is under way."""
        self._poll = None

    def _finish_poll(self, poll: Callable[[], ManifestRevision]) -> ManifestRevision:
        """Use the result of a poll; while the remote store does not answer, the last state stays in use."""
        self._poll = None
        try:
            self.replace(poll())
            self.problem = ""
            self._next_poll_at = time.monotonic() + self._rest_s
        except StoreUnusable as error:
            self.problem = error.message
            raise
        except StoreUnavailable as error:
            self.problem = error.message
            if self.last == NOTHING and self._needs_state:
                raise
            self._next_poll_at = time.monotonic() + max(self._rest_s, RETRY_DELAY_S)
        self._has_asked = True
        return self.last

    def _ask(self, seen: ManifestRevision) -> ManifestRevision:
        """Return the remote state; `seen` when it has not changed."""
        if self._remote.revision(self._repository) == seen.revision:
            return seen
        return self._remote.read_manifest(self._repository)

    def _ask_and_prefetch(self, seen: ManifestRevision) -> ManifestRevision:
        """Return the remote state after fetching its segments, so that no query waits for them.

        Damage is reported where they are opened.
        """
        state = self._ask(seen)
        if state is not seen and state.manifest is not None:
            with suppress(msgspec.MsgspecError, FileNotFoundError, StorageCorrupt):
                self._prefetch(decode_manifest(state.manifest))
        return state

    def _read_last(self) -> ManifestRevision:
        """Return the last state seen, here or by another process; nothing where it cannot be read any more."""
        if self.last == NOTHING:
            stored = self._file.read()
            with suppress(StorageCorrupt):
                self._file.parse(stored)
                self.last = stored
        return self.last


def _carry_out(poll: Future[ManifestRevision], ask: Callable[[], ManifestRevision]) -> None:
    """Ask in a thread of its own; an error is raised where the result is used."""
    try:
        poll.set_result(ask())
    except Exception as error:  # noqa: BLE001 - a thread has no caller
        poll.set_exception(error)


class ManifestFile:
    """A manifest with its revision in a file that is replaced as a whole; read again when the file is another one."""

    def __init__(self, path: Path, store_name: str) -> None:
        self._path = path
        self._store_name = store_name
        self._mark: tuple[int, int, int] | None = None
        self._content = NOTHING
        self._parsed: tuple[ManifestRevision, Manifest | None] = (NOTHING, None)

    def read(self) -> ManifestRevision:
        """Return what the file holds; nothing where there is no file, or one that was cut off."""
        try:
            facts = os.stat(self._path)
            mark = facts.st_ino, facts.st_mtime_ns, facts.st_size
            if mark != self._mark:
                content = self._path.read_bytes()
                is_whole = len(content) > 8
                revision = int.from_bytes(content[:8], "little")
                self._content = ManifestRevision(revision, content[8:]) if is_whole else NOTHING
                self._mark = mark
        except (FileNotFoundError, NotADirectoryError):
            self._mark, self._content = None, NOTHING
        return self._content

    def parse(self, state: ManifestRevision) -> Manifest | None:
        """Return the manifest of a state, None where it has none; the last one is kept. Raises: StorageCorrupt."""
        if state != self._parsed[0]:
            try:
                self._parsed = state, None if state.manifest is None else decode_manifest(state.manifest)
            except msgspec.MsgspecError as error:
                problem = f"the list of segments on the shared store {self._store_name} cannot be read: {error}"
                raise corrupt_store_error(problem) from error
        return self._parsed[1]

    def write(self, state: ManifestRevision) -> None:
        """Replace the file; remove it where the state has no manifest."""
        if state.manifest is None:
            self._path.unlink(missing_ok=True)
            return
        make_private_folder(self._path.parent)
        part = self._path.with_name(f"{self._path.name}-{token_hex(4)}.part")
        try:
            with open(part, "wb", opener=open_private) as out:
                out.write(state.revision.to_bytes(8, "little") + state.manifest)
            os.replace(part, self._path)
        finally:
            part.unlink(missing_ok=True)

    def close(self) -> None:
        """Free the memory of the parsed manifest."""
        self._parsed = NOTHING, None


def corrupt_store_error(what: str) -> StorageCorrupt:
    """Return the error for damage that only the machine that shares the index can repair."""
    return StorageCorrupt(what, suggestion="run `ctx index --force` where the index is shared from")
