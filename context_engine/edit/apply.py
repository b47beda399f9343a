"""From what is wanted to files on the disk: lock, read, plan, write, tell.

All files of a call, or none; and back again.

Between reading and writing nobody else of ours may write (`store.locks`), and whoever else did is noticed before it is
too late. What was written is in the journal, so that it can be undone and done again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from context_engine.edit.file_content import BYTES_MAX
from context_engine.edit.file_edit import (
    FileEdit,
    Plan,
    PlannedFile,
    delta_of,
    hash_of,
    rename_file,
    replaces,
    revert_op,
)
from context_engine.edit.journal import Journal, JournalEntry, Op, State
from context_engine.edit.read_tracker import ReadTracker
from context_engine.edit.transaction import FileStep, Transactions
from context_engine.errors import (
    AccessDenied,
    CallError,
    ContextEngineError,
    FileNotFound,
    InvalidArgument,
    NextStep,
    StaleFile,
    StorageBusy,
)
from context_engine.model import RelPath
from context_engine.repo import file_writer
from context_engine.repo.file_writer import FileStamp
from context_engine.repo.paths import Root
from context_engine.storage import PathLocks, is_state_path

_IS_HASH = re.compile(r"[0-9a-f]{12,64}").fullmatch
"""The read tools show 12 digits or more."""
_IS_NUMBER = re.compile(r"[0-9]{1,18}").fullmatch
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file: its SHA-256 in hex before and after, empty for no file; `plan` is what its plan gave.

    `old_data` are its bytes before, None for no file; `syntax` says whether it still parses, where that was asked for.
    """

    path: str
    before: str
    after: str
    planned: PlannedFile
    old_data: bytes | None = field(default=None, repr=False)
    syntax: str = ""

    @property
    def new_data(self) -> bytes | None:
        """Its bytes after the edit; None when it was deleted."""
        return self.planned.data


@dataclass(frozen=True, slots=True)
class EditResult:
    """What came of a call. `undo_id` is empty when nothing was written: a dry run, or files that are so already."""

    undo_id: str
    files: tuple[ChangedFile, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PastEdit:
    """A call of the past that can be undone, or done again. `files`: each path, and created, edited or deleted."""

    undo_id: str
    at: float
    session: str
    is_undone: bool
    files: tuple[tuple[str, str], ...]


class Editor:
    """The files of one workspace, as they are changed.

    Thread-safe; any number of processes may edit the same workspace.

    `folder` is where locks and journal lie; nothing is made there before the first edit. `on_write` hears which files
    changed, once they have. `flush=False` leaves it to the system when content reaches the disk.
    """

    def __init__(
        self,
        root: Root,
        folder: Path,
        *,
        on_write: Callable[[frozenset[str]], object] | None = None,
        flush: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._root = root
        self._journal = Journal(folder, flush=flush)
        self._locks = PathLocks(folder / "locks")
        self._transactions = Transactions(root, self._journal, flush=flush)
        self._on_write = on_write
        self._now = now

    # -- the doors --

    def apply(
        self,
        changes: Sequence[FileEdit],
        *,
        dry_run: bool = False,
        session: str = "",
        ledger: ReadTracker | None = None,
    ) -> EditResult:
        """Change files, all or none. A dry run goes through everything but the writing.

        Raises: what the plans raise; FileNotFound, InvalidPath, AccessDenied, TooLarge; StaleFile; WriteFailed,
        DiskFull and StorageBusy when the machine is in the way; InvalidArgument. Nothing was written then.
        """
        paths = self._check_paths(changes)
        if dry_run:
            return _receipt(0, self._steps(paths, changes, ledger), ledger)
        with self._lock_files(paths):
            steps = self._steps(paths, changes, ledger)
            differing = [step for step in steps if step.op.before != step.op.after]
            number = self._transactions.write(differing, at=self._now(), session=session) if differing else 0
        return self._notify(_receipt(number, steps, ledger), ledger)

    def renaming(self, path: str, new_path: str, plan: Plan | None = None) -> tuple[FileEdit, FileEdit]:
        """What gives a file another name for `apply`, its content changed as `plan` says; its permissions stay.

        Raises: what the plan raises; FileNotFound, InvalidPath, AccessDenied, TooLarge.
        """
        seen = file_writer.look(self._root, self._path(path, must_exist=True), bytes_max=BYTES_MAX)
        new = plan(seen.data).data if plan else None
        return rename_file(path, new_path, seen.data, new=new, mode=seen.mode)

    def undo(self, undo_id: str = "", *, session: str = "", ledger: ReadTracker | None = None) -> EditResult:
        """Take back this call, else the newest one that still stands: of this session, if it made any.

        Raises: as `apply`; InvalidArgument when there is none, StaleFile when what it changed was changed again since.
        """
        return self._turn(undo_id, "done", session, ledger)

    def redo(self, undo_id: str = "", *, session: str = "", ledger: ReadTracker | None = None) -> EditResult:
        """Do this call again, else what was undone last. Raises: as `undo`."""
        return self._turn(undo_id, "undone", session, ledger)

    def history(self, limit: int = 20) -> tuple[PastEdit, ...]:
        """What can be undone or done again, newest first."""
        return tuple(
            PastEdit(str(each.id), each.at, each.session, each.state == "undone", tuple(_describe_ops(each)))
            for each in self._journal.entries(limit)
        )

    def recover(self) -> tuple[str, ...]:
        """Mend what killed processes have left half written; a sentence for each. For the start: it never fails."""
        told: list[str] = []
        try:
            for entry in self._journal.find_unfinished():
                with suppress(StorageBusy), self._locks.hold((op.path for op in entry.ops), wait_s=0):
                    told += self._finish_entry(entry)  # nobody holds its files, so its writer is dead
        except ContextEngineError as error:
            told.append(f"edits may be half written, and cannot be mended now: {error.message}")
        return tuple(told)

    def close(self) -> None:
        """Let go of the journal."""
        self._journal.close()

    # -- planning --

    def _check_paths(self, changes: Sequence[FileEdit]) -> list[RelPath]:
        """The paths of these changes."""
        typed = [change.path for change in changes]
        paths = _each(typed, changes, lambda change: self._path(change.path, must_exist=not change.creates))
        twice = sorted({path for path in paths if paths.count(path) > 1})
        if twice or not paths:
            raise InvalidArgument(
                f"{twice[0]} is named twice; nothing was written" if twice else "no file is named",
                suggestion="Name each file once, with all of its edits.",
                details={"paths": twice},
            )
        return paths

    def _path(self, text: str, *, must_exist: bool) -> RelPath:
        path = self._root.rel(text, must_exist=must_exist)
        if is_state_path(path):
            raise AccessDenied(
                f"{path} belongs to Context Engine itself",
                next_steps=NextStep("undo_edit", "to change it"),
                details={"path": path},
            )
        return path

    def _steps(
        self, paths: Sequence[RelPath], changes: Sequence[FileEdit], ledger: ReadTracker | None
    ) -> list[FileStep]:
        return _each(paths, list(zip(paths, changes, strict=True)), lambda pair: self._step(*pair, ledger))

    def _step(self, path: RelPath, change: FileEdit, ledger: ReadTracker | None) -> FileStep:
        seen = file_writer.look(self._root, path, bytes_max=BYTES_MAX)
        if not (seen.exists or change.creates):
            raise FileNotFound(f"{path} is gone", suggestion="It was just deleted.", details={"path": path})
        old = seen.data if seen.exists else None
        before = hash_of(old)
        _check_expected(path, change, old, before)
        file_writer.check_may_write(seen)
        planned = change.plan(old)
        if ledger is not None and ledger.is_outdated(path, before):
            _check_knows(path, change, planned, before, ledger.hash_of(path))
        return FileStep(seen, planned, self._op(seen, change, planned, before), change.leaves)

    def _op(self, seen: FileStamp, change: FileEdit, planned: PlannedFile, before: str) -> Op:
        in_place = planned.data is not None and file_writer.is_written_over(seen)
        return Op(
            path=seen.path,
            before=before,
            after=hash_of(planned.data),
            delta=delta_of(seen.data, planned),
            mode=seen.mode if seen.exists else change.mode,
            image=seen.data if in_place else None,
            temp="" if in_place or planned.data is None else file_writer.temporary(),
            folders=() if seen.exists else file_writer.missing_folders(self._root, seen.path),
        )

    # -- turning back --

    def _turn(self, undo_id: str, wanted: State, session: str, ledger: ReadTracker | None) -> EditResult:
        entry = self._choose_entry(undo_id, wanted, session)
        changes = [revert_op(op) for op in entry.ops]
        paths = self._check_paths(changes)
        with self._lock_files(paths):
            if self._journal.entry(entry.id) != entry:
                raise StaleFile(
                    f"somebody else has just turned back or repeated edit {entry.id}",
                    next_steps=NextStep("undo_edit", "to see what can be undone", {"list": True}),
                )
            steps = self._steps(paths, changes, None)
            self._transactions.write(steps, at=self._now(), session=session, turns=entry.id)
        return self._notify(_receipt(entry.id, steps, ledger), ledger)

    def _choose_entry(self, undo_id: str, wanted: State, session: str) -> JournalEntry:
        if not undo_id:
            entry = self._journal.newest(wanted, session)
        else:
            entry = self._journal.entry(int(undo_id)) if _IS_NUMBER(undo_id) else None
        if entry is not None and entry.state == wanted:
            return entry
        verb = "undone" if wanted == "done" else "done again"
        raise InvalidArgument(
            f"edit {undo_id} cannot be {verb}" if undo_id else f"there is nothing to be {verb}",
            next_steps=NextStep("undo_edit", "to see what can be undone", {"list": True}),
            details={"undo_id": undo_id},
        )

    # -- around the writing --

    @contextmanager
    def _lock_files(self, paths: Sequence[str]) -> Generator[None]:
        """Hold these files, none of them half written by somebody who was killed."""
        while True:
            with self._locks.hold(paths):
                left = self._journal.find_unfinished(paths)
                if not left:
                    yield
                    return
            for entry in left:  # we held its files, so its writer is dead
                with self._locks.hold(op.path for op in entry.ops):
                    self._finish_entry(entry)

    def _finish_entry(self, entry: JournalEntry) -> list[str]:
        """Bring an unfinished entry to an end; a sentence about it."""
        outcome = self._transactions.mend(entry.id)
        if outcome and self._on_write is not None:
            self._on_write(frozenset(op.path for op in entry.ops))
        names = ", ".join(op.path for op in entry.ops)
        return [f"an edit of {names} was broken off; {outcome}"] if outcome else []

    def _notify(self, receipt: EditResult, ledger: ReadTracker | None) -> EditResult:
        """Let everybody know who should."""
        changed = [each for each in receipt.files if each.before != each.after]
        if ledger is not None:
            for each in changed:
                if replaces(each.planned):
                    ledger.saw(each.path, each.after)
                else:
                    ledger.wrote(each.path, each.before, each.after)
        if changed and self._on_write is not None:
            self._on_write(frozenset(each.path for each in changed))
        return receipt


def _receipt(number: int, steps: Sequence[FileStep], ledger: ReadTracker | None) -> EditResult:
    files = tuple(_changed(step) for step in steps)
    outdated = [each for each in files if ledger is not None and ledger.is_outdated(each.path, each.before)]
    warnings = tuple(
        f"{each.path} was changed by somebody else after you read it; {_beside(each)}" for each in outdated
    )
    return EditResult(str(number) if number else "", files, warnings)


def _changed(step: FileStep) -> ChangedFile:
    old_data = step.seen.data if step.seen.exists else None
    return ChangedFile(step.op.path, step.op.before, step.op.after, step.planned, old_data)


def _beside(file: ChangedFile) -> str:
    """What became of somebody else's change."""
    return "its content was replaced as a whole" if replaces(file.planned) else "the edit still fitted"


def _describe_ops(entry: JournalEntry) -> Generator[tuple[str, str]]:
    """What became of each file when the call was made."""
    for op in entry.ops:
        before, after = (op.after, op.before) if entry.state == "undone" else (op.before, op.after)
        yield op.path, "created" if not before else "edited" if after else "deleted"


def _check_expected(path: str, change: FileEdit, old: bytes | None, before: str) -> None:
    """Refuse a file that is not the one the caller has in mind. Raises: StaleFile, InvalidArgument."""
    expected = change.expected_hash.strip().lower()
    if expected and not _IS_HASH(expected):
        raise InvalidArgument(
            f"{change.expected_hash[:80]!r} is no hash of a file",
            suggestion="Pass the hash that the read tools show, or leave it out.",
            details={"path": path},
        )
    if before.startswith(expected):
        return
    fits = old is not None and not change.creates and still_fits(change, old)
    raise StaleFile(
        f"{path} is not the file that was expected: it {'was changed' if old is not None else 'is not there'}",
        suggestion="What is to be replaced still stands there once: repeat the call without the hash, or read the file first."
        if fits
        else "Read it again, then repeat the call with what stands there now.",
        details={"path": path, "expected": expected[:16], "actual": before[:16], "still_fits": fits},
    )


def _check_knows(path: str, change: FileEdit, planned: PlannedFile, before: str, seen: str) -> None:
    """Refuse to change what somebody else changed since the caller read the file, unless it is certain.

    Raises: StaleFile.
    """
    details = {"path": path, "seen": seen[:16], "actual": before[:16]}
    if not planned.is_exact:
        raise StaleFile(
            f"{path} was changed by somebody else after you read it, and not all of the target stands there exactly",
            suggestion="Read it again, then quote what stands there now.",
            details=details,
        )
    if replaces(planned) and not change.expected_hash and hash_of(planned.data) != before:
        raise StaleFile(
            f"{path} was changed by somebody else after you read it, and would lose that change; nothing was written",
            suggestion="Read it again and keep what changed, or change parts of it with edit_file."
            f" To replace all of it, repeat the call with expected_hash {before[:12]}.",
            details=details,
        )


def still_fits(change: FileEdit, data: bytes) -> bool:
    """Return whether a change that was made for other bytes is certain on these: every target is there, and exactly."""
    try:
        planned = change.plan(data)
    except CallError:
        return False
    return planned.is_exact and not replaces(planned)


def _each(names: Sequence[str], items: Sequence[_Item], do: Callable[[_Item], _Result]) -> list[_Result]:
    """Do it for each, and tell all failures at once. Raises: the first one, with the others in its details."""
    done: list[_Result] = []
    failed: list[tuple[str, ContextEngineError]] = []
    for name, item in zip(names, items, strict=True):
        try:
            done.append(do(item))
        except ContextEngineError as error:
            failed.append((name, error))
    if not failed:
        return done
    name, first = failed[0]
    if len(items) == 1:
        raise first
    rows: list[dict[str, Any]] = [{**error.as_dict(), "path": path} for path, error in failed]
    message = first.message.removesuffix("; nothing was written")
    more = f"; {len(failed) - 1} more of {len(items)} files failed" if len(failed) > 1 else ""
    raise type(first)(
        f"{message if name in message else f'{name}: {message}'}{more}; nothing was written",
        suggestion=first.suggestion,
        details={**first.details, "path": name, "failed": rows},
    ) from first
