"""Writes all of the planned files or none, and mends what a dead process has left between both.

The order is what makes it safe: record what is meant, write everything beside its place, look once more whether the
files are as they were read, rename, say in the journal that it is done. Whoever calls holds the locks of the files.
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
from context_engine.repo import file_writer
from context_engine.repo.file_writer import FileStamp
from context_engine.repo.paths import Root

Standing = Literal["before", "after", "torn", "foreign"]
"""A file of a transaction that was broken off: untouched, written, half written over, or changed by somebody else
since."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """One file on its way. `leaves`: the folders that go with it when it is deleted, should nothing else be in them."""

    seen: FileStamp
    planned: PlannedFile
    op: Op
    leaves: tuple[str, ...] = ()


class Transactions:
    """The transactions of one workspace. `flush=False` leaves it to the system when content reaches the disk."""

    def __init__(self, root: Root, journal: Journal, *, flush: bool) -> None:
        self._root = root
        self._journal = journal
        self._flush = flush

    # -- writing --

    def write(self, steps: Sequence[FileStep], *, at: float, session: str, turns: int = 0) -> int:
        """Write these files, all or none; the number of the entry in the journal.

        Raises: StaleFile when somebody else was quicker, WriteFailed, InvalidPath, DiskFull, StorageBusy,
        StorageCorrupt.
        """
        ops = [step.op for step in steps]
        is_divisible = len(ops) > 1 or any(op.image is not None for op in ops)  # a power cut could leave it half done
        number = self._journal.begin(ops, at=at, session=session, turns=turns, flush=is_divisible)
        touched: set[str] = set()
        with file_writer.Holding() as holding:
            try:
                for step in steps:
                    self._prepare(step, holding)
                for step in steps:
                    file_writer.check_unchanged(step.seen)
                for step in steps:
                    touched.add(step.op.path)
                    self._put(step)
                self._flush_folders(steps)
                self._journal.finish(number)
            except BaseException as error:
                self._take_back(number, steps, touched, error)
                raise
        for step in steps:
            file_writer.remove_folders(self._root, step.leaves)
        return number

    def _prepare(self, step: FileStep, holding: file_writer.Holding) -> None:
        """Everything that may fail, as far as it can be done without touching the file."""
        file_writer.make_folders(self._root, step.op.folders)
        holding.add(step.seen)
        if step.op.temp:
            file_writer.stage(step.seen, step.planned.data or b"", step.op.temp, flush=self._flush)

    def _put(self, step: FileStep) -> None:
        if step.planned.data is None:
            file_writer.remove(step.seen)
        elif step.op.temp:
            file_writer.put(step.seen, step.op.temp, mode=None if step.seen.exists else step.op.mode)
        else:
            file_writer.write_over(step.seen, step.planned.data, flush=self._flush)

    def _flush_folders(self, steps: Iterable[FileStep]) -> None:
        if self._flush:
            made = file_writer.folders_above(self._root, [folder for step in steps for folder in step.op.folders])
            file_writer.flush_folders([step.seen for step in steps], made)

    def _take_back(
        self, number: int, steps: Sequence[FileStep], touched: Collection[str], error: BaseException
    ) -> None:
        """Take back what we touched; what somebody else wrote stays, even if it is what we wanted to write."""
        try:
            entry = self._journal.entry(number)
            if entry is not None and entry.state == "open":
                found = [self._standing(op, step.seen) for op, step in zip(entry.ops, steps, strict=True)]
                ours = [(seen, standing if seen.path in touched else "foreign") for seen, standing in found]
                self._restore(entry.ops, ours)
        except ContextEngineError as second:
            raise WriteFailed(
                f"{error}; and what had been written could not be taken back: {second.message}",
                suggestion=f"{second.suggestion} The next edit or start then takes it back.",
                details=second.details,
            ) from error
        with suppress(ContextEngineError):  # else the next start finds all of it taken back, and forgets it
            self._journal.abort(number)

    # -- mending --

    def mend(self, number: int) -> str:
        """Bring an unfinished entry to an end: it counts if all of it was written, else all of it is taken back.

        What was done, in words; empty when nothing was left to do.
        """
        entry = self._journal.entry(number)
        if entry is None or entry.state != "open":  # another process was quicker
            return ""
        found = [self._standing(op) for op in entry.ops]
        if all(standing == "after" for _, standing in found):
            self._journal.finish(number)
            return "all of it had been written"
        self._restore(entry.ops, found)
        self._journal.abort(number)
        foreign = [seen.path for seen, standing in found if standing == "foreign"]
        return f"it was taken back, but for {', '.join(foreign)}, changed since" if foreign else "it was taken back"

    def _restore(self, ops: Iterable[Op], found: Iterable[tuple[FileStamp, Standing]]) -> None:
        """Give every file that is not as it was the content it had, and remove what was made for them."""
        for op, (seen, standing) in zip(ops, found, strict=True):
            if op.temp:
                file_writer.discard(seen, op.temp)
            if standing in {"after", "torn"}:
                self._put_back(op, seen, standing)
            file_writer.remove_folders(self._root, op.folders)

    def _standing(self, op: Op, seen: FileStamp | None = None) -> tuple[FileStamp, Standing]:
        """What has become of a file: of the one that was `seen`, wherever its folder is by now, else of what is there."""
        try:
            if seen is None:
                seen = file_writer.unseen(self._root, self._root.rel(op.path, must_exist=False))
            seen = file_writer.look_again(seen, bytes_max=BYTES_MAX)
        except (InvalidPath, AccessDenied, TooLarge, StaleFile):  # something that we would never have written
            return seen or file_writer.unseen(self._root, op.path), "foreign"
        now = hash_of(seen.data if seen.exists else None)
        if now == op.before:
            return seen, "before"
        if now == op.after and not file_writer.lies_beside(seen, op.temp):
            return seen, "after"
        is_torn = op.image is not None and file_writer.is_torn(seen.data, op.image, apply_delta(op.delta, op.image))
        return seen, "torn" if is_torn else "foreign"

    def _put_back(self, op: Op, seen: FileStamp, standing: Standing) -> None:
        """Give a file the content it had."""
        if not op.before:
            file_writer.remove(seen)
            return
        old = (
            op.image if standing == "torn" and op.image is not None else apply_delta(reverse_delta(op.delta), seen.data)
        )
        if file_writer.is_written_over(seen):
            file_writer.write_over(seen, old, flush=self._flush)
            return
        temp = file_writer.temporary()
        try:
            file_writer.make_folders(
                self._root, () if seen.exists else file_writer.missing_folders(self._root, seen.path)
            )
            file_writer.stage(seen, old, temp, flush=self._flush)
            file_writer.put(seen, temp, mode=None if seen.exists else op.mode)
        finally:
            file_writer.discard(seen, temp)
