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
from context_engine.edit.model import Patch
from context_engine.edit.patch import EditPlan
from context_engine.errors import BugError, InvalidArgument, InvalidEdit, StaleFile, StorageCorrupt
from context_engine.repo import encode_as
from context_engine.secrets import count_labels, redact
from context_engine.text import LineSpan, decode


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
    check_secrets(path, planned.content.text, content_of(planned.data).text, patches=planned.patches)

    def plan(now: bytes | None) -> EditPlan:
        if now != data:
            raise StaleFile(f"{path} was changed since it was read", suggestion="Repeat the call.")
        return planned

    return FileEdit(path, plan, hash_of(data))


def write_file(
    path: str, text: str, *, overwrite: bool = True, expected_hash: str = "", labels_are_text: bool = False
) -> FileEdit:
    """Give a new or existing file this text. An existing one keeps its encoding, its byte order mark and line ends.

    `labels_are_text`: labels of redacted secrets are meant as written.
    """

    def plan(old: bytes | None) -> EditPlan:
        if old is not None and not overwrite:
            raise _exists_already(path, "Edit it with edit_file, or allow overwriting.")
        data, before = encode_as(path, text, old), decode(old or b"").text
        if not labels_are_text:
            refuse_labels(text, before)
        check_secrets(path, before, text, written=text)
        return replace_whole(data)

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


# -- what replies hide -------------------------------------------------------------------------------------------------

# Replies show labels in the place of secrets. An edit that copies such a label would overwrite the secret with it, and
# one that cuts through a secret would change what its author never saw; both are refused.


def refuse_labels(text: str, file: str) -> None:
    """Refuse a text with labels of redacted secrets that are not the text of the file. Raises: InvalidEdit."""
    for label in count_labels(text):
        if label not in file:
            raise InvalidEdit(
                f"{label} is what replies show for a secret; the file has no such text",
                suggestion="Leave the line with the secret out, and edit the lines around it. Where the label is meant"
                " as text, of a document or a test, repeat it by call_tool with labels_are_text: true.",
            )


def check_secrets(path: str, old: str, new: str, *, written: str = "", patches: Sequence[Patch] = ()) -> None:
    """Refuse a change that loses a secret of a file without its author having meant to. Raises: InvalidEdit.

    A secret may go with the lines that hold it. It may not become a label that is `written`, and it goes as a whole:
    no line of a key alone, no part of a value that one of the `patches` cuts.
    """
    for redaction in redact(old, path=path).redactions:
        values = [(old[start:stop], start, stop) for start, stop in redaction.parts]
        lost = [new.count(value) < old.count(value) for value, _, _ in values]
        is_cut = any(
            (patch.start < stop and patch.stop > start) and (patch.start > start or patch.stop < stop)
            for (_, start, stop), is_lost in zip(values, lost, strict=True)
            for patch in patches
            if is_lost
        )
        if any(lost) and (is_cut or not all(lost) or count_labels(written)):
            lines = LineSpan(*(1 + old.count("\n", 0, end) for end in (redaction.start, redaction.stop)))
            raise InvalidEdit(
                f"{redaction.replacement} hides a secret, line{'s' * (lines.lines > 1)} {lines}:"
                " this would change a part of it, or write a label over it",
                suggestion="Keep it as it is, or replace or delete all of it, without a label in the new text.",
            )
