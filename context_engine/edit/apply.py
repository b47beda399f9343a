"""Apply planned changes to files: lock, read, plan, write, report. All files of a call are changed, or none.

Between reading and writing no other process of this package may write (`storage.locks`), and a change by any other
program is noticed before it is overwritten. The journal records what was written, so that it can be undone and redone.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from context_engine.edit.delta import apply_delta, reverse_delta
from context_engine.edit.edit_errors import try_each
from context_engine.edit.file_content import BYTES_MAX
from context_engine.edit.file_edit import FileEdit, delta_of, hash_of, rename_file, revert_op
from context_engine.edit.journal import Journal, JournalEntry, Op, State
from context_engine.edit.patch import EditPlan
from context_engine.errors import (
    AccessDenied,
    CallError,
    ContextEngineError,
    FileNotFound,
    HostError,
    InvalidArgument,
    InvalidPath,
    NextStep,
    StaleFile,
    StorageBusy,
    TooLarge,
    WriteFailed,
)
from context_engine.model import RelPath
from context_engine.repo import FolderWriter, Root, TargetFile, keep_open
from context_engine.storage import STATE_FOLDER, PathLocks

# -- transaction -------------------------------------------------------------------------------------------------------

# Write all of the planned files or none, and repair what a dead process has left in between.
#
# The order makes it safe: record what is meant, stage every file next to its place, check once more that the files
# are as they were read, rename, and record that it is done. The caller holds the locks of the files.

FileState = Literal["before", "after", "torn", "foreign"]
"""A file of an interrupted transaction: untouched, written, partly overwritten, or changed by another program since."""


@dataclass(frozen=True, slots=True)
class FileStep:
    """One file of a transaction. `leaves`: the folders to remove with it when it is deleted, if they are empty then."""

    seen: TargetFile
    planned: EditPlan
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
        with ExitStack() as kept:  # the folders stay open while it is taken back
            try:
                for op in ops:
                    self._folders.make(op.folders)
                kept.enter_context(keep_open([step.seen for step in steps]))
                for step in steps:
                    if step.op.temp:
                        step.seen.stage(step.planned.data, step.op.temp, flush=self._flush, mode=step.op.mode)
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

    def _put(self, step: FileStep) -> None:
        if step.planned.is_deletion:
            step.seen.remove()
        elif step.op.temp:
            step.seen.put(step.op.temp)
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
            for name in (op.temp, _old_name(op)):
                seen.discard(name)
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
        temporary = _old_name(op)
        try:
            if not seen.exists:
                self._folders.make(self._folders.missing(seen.path))
            seen.stage(old, temporary, flush=self._flush, mode=op.mode)
            seen.put(temporary)
        finally:
            seen.discard(temporary)


def _old_name(op: Op) -> str:
    """Return the temporary name of the old content: the process that repairs a killed repair derives the same one."""
    return TargetFile.temporary_name(hash_of(f"{op.before} {op.path}".encode("utf-8", "surrogatepass"))[:12])


# -- past versions -----------------------------------------------------------------------------------------------------

# The bytes of files before and after a past edit, by going back from the files as they are now.
#
# The journal has how each edit changed a file, not the whole file. So a version is known only while a chain of edits
# leads from the present file to it; a change by another program breaks the chain.


Versions = tuple[bytes | None, bytes | None]
"""A file before and after a past edit; None where there was no file."""


def find_versions(
    entry: JournalEntry, others: Sequence[JournalEntry], present: Mapping[str, bytes | None]
) -> dict[str, Versions | None]:
    """Return the versions of each file of an edit, from the present files and the other edits of them.

    None for a file whose versions are not known any more.
    """
    known = {(path, hash_of(data)): data for path, data in present.items()}
    steps = [op for one in (*others, entry) for op in one.ops]
    is_growing = True
    while is_growing:
        is_growing = False
        for op in steps:
            if (op.path, op.after) in known and (op.path, op.before) not in known:
                after = known[op.path, op.after] or b""
                known[op.path, op.before] = apply_delta(reverse_delta(op.delta), after) if op.before else None
                is_growing = True
    found: dict[str, Versions | None] = {}
    for op in entry.ops:
        before, after = ((op.path, side) for side in entry.sides(op))
        found[op.path] = (known[before], known[after]) if before in known and after in known else None
    return found


# -- apply -------------------------------------------------------------------------------------------------------------

VERSION_EDITS_MAX = 200
"""Edits through which a past version is looked for: as many as the local page lists."""
READS_MAX = 100_000
"""Beyond these the oldest reads are forgotten; an edit of such a file only loses a warning."""
LIST_EDITS = NextStep("undo_edit", "to see what can be undone", {"list": True})
CHANGED_SINCE = "was changed by another session or program after you read it"

_IS_HASH = re.compile(r"[0-9a-f]{12,64}").fullmatch
"""The read tools show 12 digits or more."""
_IS_NUMBER = re.compile(r"[0-9]{1,18}").fullmatch
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class EditedFile:
    """A file of a call: its SHA-256 in hex before and after, empty where there is no file, and its plan.

    `old_data` are its bytes before, None for no file. `syntax` says whether it still parses, where that was asked for.
    """

    path: str
    before: str
    after: str
    planned: EditPlan
    old_data: bytes | None = field(default=None, repr=False)
    syntax: str = ""

    @property
    def new_data(self) -> bytes | None:
        """Its bytes after the edit; None when it was deleted."""
        return self.planned.new_data


@dataclass(frozen=True, slots=True)
class EditResult:
    """The outcome of a call. `undo_id` is empty when nothing was written: in a dry run, or without a difference."""

    undo_id: str
    files: tuple[EditedFile, ...]
    warnings: tuple[str, ...] = ()


class ReadTracker:
    """The files that sessions were shown, with the hash of what each saw last. Thread-safe.

    A caller without a session, whose name is empty, has never seen anything.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hashes: OrderedDict[tuple[str, str], str] = OrderedDict()

    def note_read(self, session: str, path: str, sha256: str) -> None:
        """Remember that a session was shown a file with this hash (hex)."""
        if not session:
            return
        with self._lock:
            self._hashes[session, path] = sha256
            self._hashes.move_to_end((session, path))
            if len(self._hashes) > READS_MAX:
                self._hashes.popitem(last=False)

    def hash_of(self, session: str, path: str) -> str:
        """Return the hash of a file as a session saw it last; empty when it never did."""
        with self._lock:
            return self._hashes.get((session, path), "")

    def is_outdated(self, session: str, path: str, sha256: str) -> bool:
        """Return whether a session saw a file, but not as it is now."""
        return self.hash_of(session, path) not in {"", sha256}

    def note_write(self, session: str, file: EditedFile) -> None:
        """Remember that a session changed a file itself, unless it had seen another version of what it kept."""
        if file.planned.is_whole or not self.is_outdated(session, file.path, file.before):
            self.note_read(session, file.path, file.after)


class Editor:
    """Changes files of one workspace. Thread-safe; any number of processes may edit the same workspace.

    `folder` contains locks and journal; nothing is made there before the first edit. `on_write` is called with the
    paths of changed files. `flush=False` leaves it to the system when content reaches the disk.
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
        self._folders = FolderWriter(root)
        self._journal = Journal(folder, flush=flush)
        self._locks = PathLocks(folder / "locks")
        self._transactions = Transactions(root, self._journal, flush=flush)
        self._on_write = on_write
        self._now = now
        self.reads = ReadTracker()

    # -- the interface --

    def apply(self, changes: Sequence[FileEdit], *, dry_run: bool = False, session: str = "") -> EditResult:
        """Change files, all or none. A dry run does everything but the writing.

        `session` names the editor: what it has read (`reads`) and was changed since must match exactly.

        Raises: what the plans raise; FileNotFound, InvalidPath, AccessDenied, TooLarge; StaleFile; WriteFailed,
        DiskFull and StorageBusy when the machine prevents it; InvalidArgument. Nothing was written then.
        """
        paths = self._check_paths(changes)
        if dry_run:
            return self._build_result(0, self._steps(paths, changes, session), session)
        with self._lock_files(paths):
            steps = self._steps(paths, changes, session)
            differing = [step for step in steps if step.op.before != step.op.after]
            number = 0
            if differing:
                number = self._transactions.write(differing, at=self._now(), session=session)
        return self._report_written(number, steps, session)

    def move_file(self, path: str, new_path: str, change: FileEdit | None = None) -> tuple[FileEdit, FileEdit]:
        """Prepare another name for a file, its content changed as `change` says; its permissions stay.

        Raises: what the change raises; FileNotFound, InvalidPath, AccessDenied, TooLarge.
        """
        file = TargetFile.read(self._root, self._check_path(path, must_exist=True), bytes_max=BYTES_MAX)
        new = change.plan(file.data).new_data if change else None
        return rename_file(path, new_path, file.data, new=new, mode=file.mode)

    def undo(self, undo_id: str = "", *, session: str = "") -> EditResult:
        """Undo this call, otherwise the newest one that is not undone: of this session, if it made any.

        Raises: as `apply`; InvalidArgument when there is none, StaleFile when its changes were changed again since.
        """
        return self._turn(undo_id, "done", session)

    def redo(self, undo_id: str = "", *, session: str = "") -> EditResult:
        """Redo this call, otherwise what was undone last. Raises: as `undo`."""
        return self._turn(undo_id, "undone", session)

    def history(self, limit: int = 20) -> list[JournalEntry]:
        """List what can be undone or redone, newest first, without contents."""
        return self._journal.entries(limit)

    def past_versions(self, undo_id: str) -> dict[str, Versions | None]:
        """Return each file of a past call before and after it, as `find_versions`.

        Raises: InvalidArgument for a call that is not kept.
        """
        entry = self._entry(undo_id)
        if entry is None or entry.state == "open":
            raise InvalidArgument(f"there is no edit {undo_id[:20]!r}", next_steps=LIST_EDITS)
        paths = {op.path for op in entry.ops}
        outlines = self._journal.entries(VERSION_EDITS_MAX)
        numbers = [one.id for one in outlines if one.id != entry.id and paths & {op.path for op in one.ops}]
        others = [one for number in numbers if (one := self._journal.entry(number)) is not None]
        present: dict[str, bytes | None] = {}
        for path in paths:
            with suppress(CallError, HostError):  # a link, or too large by now: its versions are not known
                seen = TargetFile.read(self._root, path, bytes_max=BYTES_MAX)
                present[path] = seen.data if seen.exists else None
        return find_versions(entry, others, present)

    def recover(self) -> tuple[str, ...]:
        """Finish or take back what killed processes left half written; return a sentence for each. It never fails."""
        messages: list[str] = []
        try:
            for entry in self._journal.find_unfinished():
                with suppress(StorageBusy), self._locks.hold((op.path for op in entry.ops), wait_s=0):
                    messages += self._finish_entry(entry)  # its files are not locked, so its writer is dead
        except ContextEngineError as error:
            messages.append(f"edits may be half written, and cannot be repaired now: {error.message}")
        return tuple(messages)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    # -- planning --

    def _check_paths(self, changes: Sequence[FileEdit]) -> list[RelPath]:
        """Return the paths of these changes, each once. Raises: InvalidArgument."""
        typed = [change.path for change in changes]
        paths = _for_each(typed, changes, lambda change: self._check_path(change.path, must_exist=not change.creates))
        twice = sorted({path for path in paths if paths.count(path) > 1})
        if twice or not paths:
            raise InvalidArgument(
                f"{twice[0]} is named twice; nothing was written" if twice else "no file is named",
                suggestion="Name each file once, with all of its edits.",
                details={"paths": twice},
            )
        return paths

    def _check_path(self, text: str, *, must_exist: bool) -> RelPath:
        """Return a path in the workspace. Raises: AccessDenied for our own files, where limits could be lifted."""
        path = self._root.rel(text, must_exist=False)
        if path.split("/")[0].casefold() == STATE_FOLDER:
            raise AccessDenied(
                f"{path} belongs to Context Engine itself",
                suggestion="Ask the user to change it.",
                details={"path": path},
            )
        return self._root.rel(text) if must_exist else path

    def _steps(self, paths: Sequence[RelPath], changes: Sequence[FileEdit], session: str) -> list[FileStep]:
        pairs = list(zip(paths, changes, strict=True))
        return _for_each(paths, pairs, lambda pair: self._step(*pair, session))

    def _step(self, path: RelPath, change: FileEdit, session: str) -> FileStep:
        seen = TargetFile.read(self._root, path, bytes_max=BYTES_MAX)
        if not (seen.exists or change.creates):
            raise FileNotFound(f"{path} is gone", suggestion="It was just deleted.", details={"path": path})
        old = seen.data if seen.exists else None
        before = hash_of(old)
        _check_expected_hash(path, change, old, before)
        planned = change.plan(old)
        seen.check_may_write()
        if self.reads.is_outdated(session, path, before):
            _check_outdated_edit(path, change, planned, before, self.reads.hash_of(session, path))
        return FileStep(seen, planned, self._op(seen, change, planned, before), change.leaves)

    def _op(self, seen: TargetFile, change: FileEdit, planned: EditPlan, before: str) -> Op:
        in_place = not planned.is_deletion and seen.is_overwritten_in_place
        return Op(
            path=seen.path,
            before=before,
            after=hash_of(planned.new_data),
            delta=delta_of(seen.data, planned),
            mode=seen.mode if seen.exists else change.mode,
            image=seen.data if in_place else None,
            temp="" if in_place or planned.is_deletion else TargetFile.temporary_name(),
            folders=() if seen.exists else self._folders.missing(seen.path),
        )

    # -- undo and redo --

    def _turn(self, undo_id: str, wanted: State, session: str) -> EditResult:
        entry = self._choose_entry(undo_id, wanted, session)
        changes = [revert_op(op) for op in entry.ops]
        paths = self._check_paths(changes)
        with self._lock_files(paths):
            if self._journal.entry(entry.id) != entry:
                message = f"another session has just undone or redone edit {entry.id}"
                raise StaleFile(message, next_steps=LIST_EDITS)
            steps = self._steps(paths, changes, "")
            self._transactions.write(steps, at=self._now(), session=session, turns=entry.id)
        return self._report_written(entry.id, steps, session)

    def _choose_entry(self, undo_id: str, wanted: State, session: str) -> JournalEntry:
        entry = self._entry(undo_id) if undo_id else self._journal.newest(wanted, session)
        if entry is not None and entry.state == wanted:
            return entry
        verb = "undo" if wanted == "done" else "redo"
        is_listed = undo_id or self._journal.entries(1)
        raise InvalidArgument(
            f"edit {undo_id} cannot be {verb}ne" if undo_id else f"there is nothing to {verb}",
            suggestion="" if is_listed else "No edit has been made with ctx in this workspace.",
            next_steps=LIST_EDITS if is_listed else (),
            details={"undo_id": undo_id},
        )

    def _entry(self, undo_id: str) -> JournalEntry | None:
        return self._journal.entry(int(undo_id)) if _IS_NUMBER(undo_id) else None

    # -- around the writing --

    @contextmanager
    def _lock_files(self, paths: Sequence[str]) -> Generator[None]:
        """Lock these files; finish first what a killed process left half written in them."""
        while True:
            with self._locks.hold(paths):
                unfinished = self._journal.find_unfinished(paths)
                if not unfinished:
                    yield
                    return
            for entry in unfinished:  # its files were locked here, so its writer is dead
                with self._locks.hold(op.path for op in entry.ops):
                    self._finish_entry(entry)

    def _finish_entry(self, entry: JournalEntry) -> list[str]:
        """Bring an unfinished entry to an end; return a sentence about it."""
        outcome = self._transactions.repair(entry.id)
        if outcome and self._on_write is not None:
            self._on_write(frozenset(op.path for op in entry.ops))
        names = ", ".join(op.path for op in entry.ops)
        return [f"an edit of {names} was interrupted; {outcome}"] if outcome else []

    def _report_written(self, number: int, steps: Sequence[FileStep], session: str) -> EditResult:
        """Report the changed files to the reads of the session and to `on_write`; return the result."""
        result = self._build_result(number, steps, session)
        changed = [file for file in result.files if file.before != file.after]
        for file in changed:
            self.reads.note_write(session, file)
        if changed and self._on_write is not None:
            self._on_write(frozenset(file.path for file in changed))
        return result

    def _build_result(self, number: int, steps: Sequence[FileStep], session: str) -> EditResult:
        files: list[EditedFile] = []
        warnings: list[str] = []
        for step in steps:
            op, old_data = step.op, step.seen.data if step.seen.exists else None
            files.append(EditedFile(op.path, op.before, op.after, step.planned, old_data))
            if self.reads.is_outdated(session, op.path, op.before):
                fate = "its content was replaced as a whole" if step.planned.is_whole else "the edit still fitted"
                warnings.append(f"{op.path} {CHANGED_SINCE}; {fate}")
        return EditResult(str(number) if number else "", tuple(files), tuple(warnings))


def _check_expected_hash(path: str, change: FileEdit, old: bytes | None, before: str) -> None:
    """Refuse a file that is not the one the caller expects. Raises: StaleFile, InvalidArgument."""
    expected = change.expected_hash.strip().lower()
    if expected and not _IS_HASH(expected):
        raise InvalidArgument(
            f"{change.expected_hash[:80]!r} is not the hash of a file",
            suggestion="Pass the hash that the read tools show, or leave it out.",
            details={"path": path},
        )
    if before.startswith(expected):
        return
    fits = old is not None and not change.creates and still_fits(change, old)
    suggestion = "Read it again, then repeat the call with its present content."
    if fits:
        suggestion = "Its target is still there once: repeat the call without the hash, or read the file first."
    raise StaleFile(
        f"{path} {'was changed since it was read' if old is not None else 'does not exist any more'}",
        suggestion=suggestion,
        details={"path": path, "expected": expected[:16], "actual": before[:16], "still_fits": fits},
    )


def _check_outdated_edit(path: str, change: FileEdit, planned: EditPlan, before: str, seen: str) -> None:
    """Refuse to change a file that changed since the caller read it, unless the edit is certain. Raises: StaleFile."""
    details = {"path": path, "seen": seen[:16], "actual": before[:16]}
    if not planned.is_exact:
        raise StaleFile(
            f"{path} {CHANGED_SINCE}, and not all of the target is there exactly",
            suggestion="Read it again, then quote what is there now.",
            details=details,
        )
    if planned.is_whole and not change.expected_hash and hash_of(planned.new_data) != before:
        raise StaleFile(
            f"{path} {CHANGED_SINCE}, and would lose that change; nothing was written",
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
    return planned.is_exact and not planned.is_whole


def _for_each(names: Sequence[str], items: Sequence[_Item], do: Callable[[_Item], _Result]) -> list[_Result]:
    """Do something for each item, and report all failures at once: the first one, with the others in its details."""
    done, failed = try_each(items, lambda _, item: do(item))
    if not failed:
        return done
    name, first = names[failed[0][0]], failed[0][1]
    rows: list[dict[str, Any]] = [{**error.as_dict(), "path": names[number]} for number, error in failed]
    message = first.message.removesuffix("; nothing was written")
    more = ""
    if len(failed) > 1:
        more = f"; {len(failed) - 1} more of {len(items)} files failed"
    raise type(first)(
        f"{message if name in message else f'{name}: {message}'}{more}; nothing was written",
        suggestion=first.suggestion,
        details={**first.details, "path": name, "failed": rows},
    ) from first
