r"""PURE. Plans the edit of one file.

Plans for one file: a function from its bytes to what becomes of it. Nothing is written here.

>>> new = write_file("notes.txt", "one\ntwo\n").plan(b"\xef\xbb\xbfone\r\n")
>>> new.data
b'\xef\xbb\xbfone\r\ntwo\r\n'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from context_engine.edit.delta import Delta, apply_delta, make_delta, relocate_delta, reverse_delta
from context_engine.edit.file_content import content_of
from context_engine.edit.journal import Op
from context_engine.edit.patch import EditPlan
from context_engine.errors import BugError, InvalidArgument, InvalidEdit, StaleFile, StorageCorrupt
from context_engine.repo import encode_as
from context_engine.secrets import count_labels, redact_file


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The wanted change of one file. `expected_hash`: the beginning of the SHA-256 that it must have, if any.

    `plan` takes the content of the file, None where there is none, and returns what becomes of it, or raises why
    nothing can. `mode` and `leaves` come from the journal: the permissions of a file that is made again, and the
    folders that are removed with one that is deleted again.
    """

    path: str
    plan: Callable[[bytes | None], EditPlan]
    expected_hash: str = ""
    creates: bool = False
    mode: int | None = None
    leaves: tuple[str, ...] = ()


def replace_whole(data: bytes | None) -> EditPlan:
    """Plan this content for a file, whatever it contains; None deletes it."""
    return EditPlan(data or b"", is_whole=True, is_deletion=data is None)


def edit_file(path: str, plan: Callable[[bytes], EditPlan], *, expected_hash: str = "") -> FileEdit:
    """Change an existing file as a plan says."""
    return FileEdit(path, lambda data: plan(data or b""), expected_hash)


def replan(path: str, data: bytes, planned: EditPlan) -> FileEdit:
    """Change a file of these bytes as it was planned for them, and for no others."""

    def plan(now: bytes | None) -> EditPlan:
        if now != data:
            raise StaleFile(f"{path} was changed since it was read", suggestion="Repeat the call.")
        return planned

    return FileEdit(path, plan, hash_of(data))


def write_file(
    path: str, text: str, *, overwrite: bool = True, expected_hash: str = "", labels_are_text: bool = False
) -> FileEdit:
    """Give a new or existing file this text. An existing one keeps its encoding, its byte order mark and line ends.

    `labels_are_text`: see `check_labels`.
    """

    def plan(old: bytes | None) -> EditPlan:
        if old is not None and not overwrite:
            raise _exists_already(path, "Edit it with edit_file, or allow overwriting.")
        if count_labels(text):
            before = content_of(old or b"").text
            check_labels(before, text, before, are_text=labels_are_text)
        return replace_whole(encode_as(path, text, old))

    return FileEdit(path, plan, expected_hash, creates=True)


def delete_file(path: str, *, expected_hash: str = "") -> FileEdit:
    """Delete a file."""
    return FileEdit(path, lambda _: replace_whole(None), expected_hash)


def rename_file(
    path: str, new_path: str, old: bytes, *, new: bytes | None = None, mode: int | None = None
) -> tuple[FileEdit, FileEdit]:
    """Give a file of these bytes another name, which must be free; its content stays, or becomes `new`."""

    def plan(data: bytes | None) -> EditPlan:
        if data is not None:
            raise _exists_already(new_path, "Choose another name, or delete that file first.")
        return replace_whole(old if new is None else new)

    return delete_file(path, expected_hash=hash_of(old)), FileEdit(new_path, plan, creates=True, mode=mode)


def revert_op(op: Op) -> FileEdit:
    """Undo an op of the journal: as a whole, otherwise piece by piece where each is found exactly once."""
    leaves = () if op.before else op.folders
    return FileEdit(op.path, partial(_revert_bytes, op), creates=True, mode=op.mode, leaves=leaves)


def delta_of(old: bytes, planned: EditPlan) -> Delta:
    """Return how a plan changes a file. Raises: BugError for a plan that contradicts itself."""
    delta = make_delta(old, planned.data) if planned.is_whole else planned.delta
    if _apply_delta(reverse_delta(delta), planned.data) != old:
        raise BugError(
            "a plan does not lead back to the file it was made for", suggestion="Report it; nothing was written."
        )
    return delta


def hash_of(data: bytes | None) -> str:
    """Return the SHA-256 of a content in hex; empty for no file."""
    return "" if data is None else sha256(data).hexdigest()


def _exists_already(path: str, suggestion: str) -> InvalidArgument:
    return InvalidArgument(f"{path} exists already; nothing was written", suggestion=suggestion, details={"path": path})


def _revert_bytes(op: Op, data: bytes | None) -> EditPlan:
    delta = reverse_delta(op.delta)
    if hash_of(data) == op.after:
        old = _apply_delta(delta, data or b"")
        if old is None or (op.before and hash_of(old) != op.before):
            raise StorageCorrupt(
                f"the journal's record of {op.path} does not lead back to the file as it was; nothing was written",
                suggestion="Restore the file from version control.",
                details={"path": op.path},
            )
        return EditPlan(old, delta=delta, is_deletion=not op.before)
    if data is not None and op.before and op.after and (found := relocate_delta(delta, data)) is not None:
        return EditPlan(apply_delta(found, data), delta=found)
    state = "was changed since" if op.after else "is there again"
    if data is None:
        state = "is gone"
    raise StaleFile(
        f"{op.path} {state}, and what was changed is not there exactly once; nothing was written",
        suggestion="Read it, then change by an edit what should be as it was.",
        details={"path": op.path, "expected": op.after[:16], "actual": hash_of(data)[:16]},
    )


def _apply_delta(delta: Delta, data: bytes) -> bytes | None:
    try:
        return apply_delta(delta, data)
    except ValueError:
        return None


# -- labels of secrets -------------------------------------------------------------------------------------------------

# Replies show labels in the place of secrets. An edit that contained such a label would overwrite the secret with it,
# so it is refused.

AROUND_SECRETS = (
    "Leave the line with the secret out: edit the lines around it, and let the user change the secret."
    " Where the label is meant as text, of a document or a test, repeat it by call_tool with labels_are_text: true."
)


def check_labels(old: str, new: str, file: str, *, are_text: bool = False) -> None:
    """Refuse a text with labels of masked secrets that the one it replaces does not have. Raises: InvalidEdit.

    A label that the file contains as text may be written again, and any label where the caller says that they
    `are_text`; but never one that replies show for a secret of this file.
    """
    if added := count_labels(new) - count_labels(old):
        masks = count_labels(redact_file(file)) - count_labels(file)
        refuse_labels([label for label in added if label in masks or not (are_text or label in file)])


def refuse_labels(labels: Sequence[str]) -> None:
    """Refuse these labels, if there are any. Raises: InvalidEdit."""
    if labels:
        raise InvalidEdit(
            f"{labels[0]} is shown in replies for a secret, and would overwrite it", suggestion=AROUND_SECRETS
        )
