"""Editors over small real folders, and the plainest plan there is: one exact text becomes another, where it stands once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from context_engine.edit.apply import Editor
from context_engine.edit.delta import delta_of_spans
from context_engine.edit.file_edit import FileEdit, edit_file
from context_engine.edit.patch import EditPlan
from context_engine.errors import NoMatch
from context_engine.repo.paths import Root
from context_engine.storage.state_folder import STATE_FOLDER


def swap(path: str, *pairs: tuple[str, str], **more: Any) -> FileEdit:
    """A change of one file: of each pair the first text becomes the second.

    NoMatch where it does not stand exactly once.
    """

    def plan(data: bytes) -> EditPlan:
        new, spans, shift = data, [], 0
        found = sorted((_place(path, data, old.encode()), old.encode(), now.encode()) for old, now in pairs)
        for at, old, now in found:
            start = at + shift
            new = new[:start] + now + new[start + len(old) :]
            spans.append((start, start + len(now), old))
            shift += len(now) - len(old)
        return EditPlan(new, (), delta_of_spans(new, spans))

    return edit_file(path, plan, **more)


def _place(path: str, data: bytes, old: bytes) -> int:
    if data.count(old) != 1:
        raise NoMatch(f"{path} holds {old!r} {data.count(old)} times", suggestion="Quote more.", details={"path": path})
    return data.index(old)


def editor(root: Path, *, flush: bool = False, **more: Any) -> Editor:
    """An editor of a folder, as one process would have it; it does not wait for the disk unless told to."""
    return Editor(Root(root), root / STATE_FOLDER, flush=flush, **more)


@contextmanager
def editing(root: Path, **more: Any) -> Generator[Editor]:
    """The same, let go of at the end."""
    one = editor(root, **more)
    try:
        yield one
    finally:
        one.close()


def contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder and what it holds, but for our own state."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and STATE_FOLDER not in path.relative_to(root).parts
    }


def version(number: int) -> bytes:
    """A file that says on every line which version it is; seven versions in a row are of different lengths."""
    return b"".join(b"line %d of version %d\n" % (line, number) for line in range(300 + number % 7 * 40))
