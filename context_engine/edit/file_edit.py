r"""PURE.

What is wanted of one file, as a plan: a function from its bytes to what becomes of it. Nothing is written here.

>>> new = write_file("notes.txt", "one\ntwo\n").plan(b"\xef\xbb\xbfone\r\n")
>>> new.data
b'\xef\xbb\xbfone\r\ntwo\r\n'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Protocol

from context_engine.edit.delta import Delta, apply_delta, delta_of_spans, make_delta, relocate_delta, reverse_delta
from context_engine.edit.journal import Op
from context_engine.edit.model import Inverse
from context_engine.errors import (
    BinaryFile,
    BugError,
    InvalidArgument,
    StaleFile,
    StorageCorrupt,
    WrongEncoding,
)
from context_engine.repo import file_reader


class PlannedFile(Protocol):
    """What becomes of a file: its whole new content, and which spans of it are new."""

    @property
    def data(self) -> bytes | None:
        """None: the file is deleted."""
        ...

    @property
    def inverse(self) -> Sequence[Inverse]:
        """What stood in those spans, in their order."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether the plan rests on nothing but what was quoted exactly."""
        ...


Plan = Callable[[bytes | None], PlannedFile]
"""Gets the content of a file, None where there is none; gives what becomes of it, or raises why nothing can."""


@dataclass(frozen=True, slots=True)
class FileEdit:
    """What is wanted of one file. `expected_hash`: the beginning of the SHA-256 that it must have, if any.

    `mode` and `leaves` come from the journal: the permissions of a file that is made again, the folders that go with
    one that is deleted again.
    """

    path: str
    plan: Plan
    expected_hash: str = ""
    creates: bool = False
    mode: int | None = None
    leaves: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileReplacement:
    """A plan for a file as a whole. `delta` is how it differs from what lies there, where that is known already."""

    data: bytes | None
    delta: Delta | None = None
    inverse: tuple[Inverse, ...] = ()
    is_exact: bool = True


def replaces(planned: PlannedFile) -> bool:
    """Return whether all of a file goes, whatever is in it: it was not planned from what is there."""
    return isinstance(planned, FileReplacement) and planned.delta is None


def edit_file(path: str, plan: Callable[[bytes], PlannedFile], *, expected_hash: str = "") -> FileEdit:
    """A file that is there is changed as a plan says."""
    return FileEdit(path, lambda data: plan(data or b""), expected_hash)


def write_file(path: str, text: str, *, overwrite: bool = True, expected_hash: str = "") -> FileEdit:
    """A file gets this text, whether it is there or not.

    One that is there keeps its encoding, its mark and its line ends.
    """
    return FileEdit(path, partial(_rewritten, path, text, overwrite), expected_hash, creates=True)


def delete_file(path: str, *, expected_hash: str = "") -> FileEdit:
    """A file goes."""
    return FileEdit(path, _nothing, expected_hash)


def rename_file(
    path: str, new_path: str, old: bytes, *, new: bytes | None = None, mode: int | None = None
) -> tuple[FileEdit, FileEdit]:
    """A file of these bytes goes by another name, which must be free, and holds what it held, or `new`."""
    gone = delete_file(path, expected_hash=hash_of(old))
    return gone, FileEdit(
        new_path, partial(_replace_whole, new_path, old if new is None else new), creates=True, mode=mode
    )


def revert_op(op: Op) -> FileEdit:
    """What an op of the journal did is turned back: as it was, else by its pieces where each stands exactly once."""
    return FileEdit(
        op.path, partial(_revert_bytes, op), creates=True, mode=op.mode, leaves=() if op.before else op.folders
    )


def delta_of(old: bytes, planned: PlannedFile) -> Delta:
    """How a plan changes a file. Raises: BugError when the plan contradicts itself; nothing must be written then."""
    new = planned.data or b""
    if isinstance(planned, FileReplacement):
        delta = make_delta(old, new) if planned.delta is None else planned.delta
    else:
        delta = delta_of_spans(new, ((each.start, each.stop, each.original) for each in planned.inverse))
    if _apply_delta(reverse_delta(delta), new) != old:
        raise BugError(
            "a plan does not lead back to the file it was made for", suggestion="Report it; nothing was written."
        )
    return delta


def hash_of(data: bytes | None) -> str:
    """What names a content: its SHA-256 in hex; empty for no file."""
    return "" if data is None else sha256(data).hexdigest()


def _nothing(_: bytes | None) -> FileReplacement:
    return FileReplacement(None)


def _replace_whole(path: str, data: bytes, old: bytes | None) -> FileReplacement:
    if old is not None:
        raise InvalidArgument(
            f"{path} exists already; nothing was written",
            suggestion="Choose another name, or delete that file first.",
            details={"path": path},
        )
    return FileReplacement(data)


def _rewritten(path: str, text: str, overwrite: bool, old: bytes | None) -> FileReplacement:
    if old is not None and not overwrite:
        raise InvalidArgument(
            f"{path} exists already; nothing was written",
            suggestion="Edit it with edit_file, or allow overwriting.",
            details={"path": path},
        )
    if old and (why := file_reader.binary(old)):
        raise BinaryFile(
            f"{path} holds no text: {why}; nothing was written",
            suggestion="Choose another name.",
            details={"path": path},
        )
    was = file_reader.decode(old or b"")
    if was.bom:
        text = text.removeprefix("\ufeff")
    if "\r" not in text and file_reader.newline_of(was.text) == "\r\n":
        text = text.replace("\n", "\r\n")
    try:
        return FileReplacement(was.bom + text.encode(was.encoding))
    except UnicodeEncodeError as error:
        raise WrongEncoding(
            f"{path} is kept in {was.encoding}, which has no {text[error.start]!r}; nothing was written",
            suggestion="Leave that character out, or ask the user whether the file may become UTF-8.",
            details={"path": path, "encoding": was.encoding},
        ) from None


def _revert_bytes(op: Op, data: bytes | None) -> FileReplacement:
    delta = reverse_delta(op.delta)
    if hash_of(data) == op.after:
        new = _led_back(op, delta, data or b"")
        return FileReplacement(new if op.before else None, delta)
    if data is not None and op.before and op.after and (found := relocate_delta(delta, data)) is not None:
        return FileReplacement(apply_delta(found, data), found)
    gone = "is gone" if data is None else "is there again" if not op.after else "was changed since"
    raise StaleFile(
        f"{op.path} {gone}, and what was changed does not stand there exactly once; nothing was written",
        suggestion="Read it, then change by an edit what should be as it was.",
        details={"path": op.path, "expected": op.after[:16], "actual": hash_of(data)[:16]},
    )


def _led_back(op: Op, delta: Delta, data: bytes) -> bytes:
    new = _apply_delta(delta, data)
    if new is None or (op.before and hash_of(new) != op.before):
        raise StorageCorrupt(
            f"what the journal holds of {op.path} does not lead back; nothing was written",
            suggestion="Restore the file from version control.",
            details={"path": op.path},
        )
    return new


def _apply_delta(delta: Delta, data: bytes) -> bytes | None:
    try:
        return apply_delta(delta, data)
    except ValueError:
        return None
