"""Write all of the planned files or none, and repair what a dead process has left in between.

The order makes it safe: record what is meant, stage every file next to its place, check once more that the files are as
they were read, rename, and record that it is done. The caller holds the locks of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from context_engine.edit.delta import apply_delta, reverse_delta
from context_engine.edit.file_content import BYTES_MAX
from context_engine.edit.file_edit import PlannedFile, hash_of
from context_engine.edit.journal import Journal, Op
from context_engine.errors import AccessDenied, ContextEngineError, InvalidPath, StaleFile, TooLarge, WriteFailed
from context_engine.repo import FolderWriter, OpenFolders, Root, TargetFile

FileState = Literal["before", "after", "torn", "foreign"]
"""A file of an interrupted transaction: untouched, written, partly overwritten, or changed by another program since."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """One file of a transaction. `leaves`: the folders to remove with it when it is deleted, if they are empty then."""

    seen: TargetFile
    planned: PlannedFile
    op: Op
    leaves: tuple[str, ...] = ()


class Transactions:
    """The transactions of one workspace. `flush=False` leaves it to the system when content reaches the disk."""

    def __init__(self, root: Root, journal: Journal, *, flush: bool) -> None:
        self._root = root
        self._folders = FolderWriter(root)
        self._journal = journal
        self._flush = flush

    # -- writing --

    def write(self, steps: Sequence[FileStep], *, at: float, session: str, turns: int = 0) -> int:
        """Write these files, all or none; return the number of the journal entry.

        Raises: StaleFile when another program was quicker, WriteFailed, InvalidPath, DiskFull, StorageBusy,
        StorageCorrupt.
        """
        ops = [step.op for step in steps]
        # a power cut could leave several files, or one that is overwritten in place, half done
        needs_flush = len(ops) > 1 or any(op.image is not None for op in ops)
        number = self._journal.begin(ops, at=at, session=session, turns=turns, flush=needs_flush)
        touched: set[str] = set()
        with OpenFolders() as open_folders:
            try:
                for step in steps:
                    self._prepare(step, open_folders)
                for step in steps:
                    step.seen.check_unchanged()
                for step in steps:
                    touched.add(step.op.path)
                    self._put(step)
                if self._flush:
                    self._folders.flush([step.seen for step in steps], [path for op in ops for path in op.folders])
                self._journal.finish(number)
            except BaseException as error:
                self._take_back(number, steps, touched, error)
                raise
        for step in steps:
            self._folders.remove(step.leaves)
        return number

    def _prepare(self, step: FileStep, open_folders: OpenFolders) -> None:
        """Do everything that may fail, as far as it is possible without touching the file."""
        self._folders.make(step.op.folders)
        open_folders.add(step.seen)
        if step.op.temp:
            step.seen.stage(step.planned.data or b"", step.op.temp, flush=self._flush)

    def _put(self, step: FileStep) -> None:
        if step.planned.data is None:
            step.seen.remove()
        elif step.op.temp:
            step.seen.put(step.op.temp, mode=None if step.seen.exists else step.op.mode)
        else:
            step.seen.write_over(step.planned.data, flush=self._flush)

    def _take_back(
        self, number: int, steps: Sequence[FileStep], touched: Collection[str], error: BaseException
    ) -> None:
        """Take back what was written. What another program wrote stays, even if its content is the same."""
        try:
            entry = self._journal.entry(number)
            if entry is not None and entry.state == "open":
                found = [self._state_of(op, step.seen) for op, step in zip(entry.ops, steps, strict=True)]
                ours = [(seen, state if seen.path in touched else "foreign") for seen, state in found]
                self._restore(entry.ops, ours)
        except ContextEngineError as second:
            raise WriteFailed(
                f"{error}; and what had been written could not be taken back: {second.message}",
                suggestion=f"{second.suggestion} The next edit or start then takes it back.",
                details=second.details,
            ) from error
        with suppress(ContextEngineError):  # otherwise the next start finds that all of it was taken back
            self._journal.abort(number)

    # -- repairing --

    def repair(self, number: int) -> str:
        """End an unfinished entry: it counts if all of it was written, otherwise all of it is taken back.

        Return what was done, in words; empty when nothing was left to do.
        """
        entry = self._journal.entry(number)
        if entry is None or entry.state != "open":  # another process was quicker
            return ""
        found = [self._state_of(op) for op in entry.ops]
        if all(state == "after" for _, state in found):
            for op, (seen, _) in zip(entry.ops, found, strict=True):
                seen.discard(op.temp)  # a new file is linked to its name before it loses this one
            self._journal.finish(number)
            return "all of it had been written"
        self._restore(entry.ops, found)
        self._journal.abort(number)
        foreign = [seen.path for seen, state in found if state == "foreign"]
        if foreign:
            return f"it was taken back, but for {', '.join(foreign)}, changed since"
        return "it was taken back"

    def _restore(self, ops: Iterable[Op], found: Iterable[tuple[TargetFile, FileState]]) -> None:
        """Give every changed file its old content back, and remove the folders that were made for them."""
        for op, (seen, state) in zip(ops, found, strict=True):
            if op.temp:
                seen.discard(op.temp)
            if state in {"after", "torn"}:
                self._put_back(op, seen, state)
            self._folders.remove(op.folders)

    def _state_of(self, op: Op, seen: TargetFile | None = None) -> tuple[TargetFile, FileState]:
        """Return the state of a file: of the one that was `seen`, wherever its folder is now, or at its path."""
        try:
            if seen is None:
                seen = TargetFile.unread(self._root, self._root.rel(op.path, must_exist=False))
            seen = seen.read_again(bytes_max=BYTES_MAX)
        except (InvalidPath, AccessDenied, TooLarge, StaleFile):  # an edit would never have written such a file
            return seen or TargetFile.unread(self._root, op.path), "foreign"
        now = hash_of(seen.data if seen.exists else None)
        if now == op.before:
            return seen, "before"
        if now == op.after and not seen.is_staged(op.temp):
            return seen, "after"
        if op.image is not None and seen.is_torn(op.image, apply_delta(op.delta, op.image)):
            return seen, "torn"
        return seen, "foreign"

    def _put_back(self, op: Op, seen: TargetFile, state: FileState) -> None:
        """Give a file the content that it had."""
        if not op.before:
            seen.remove()
            return
        if state == "torn" and op.image is not None:
            old = op.image
        else:
            old = apply_delta(reverse_delta(op.delta), seen.data)
        if seen.is_overwritten_in_place:
            seen.write_over(old, flush=self._flush)
            return
        temporary = TargetFile.temporary_name()
        try:
            if not seen.exists:
                self._folders.make(self._folders.missing(seen.path))
            seen.stage(old, temporary, flush=self._flush)
            seen.put(temporary, mode=None if seen.exists else op.mode)
        finally:
            seen.discard(temporary)
