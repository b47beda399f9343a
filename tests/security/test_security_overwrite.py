"""A whole file is not written over what somebody else changed since the session read it, unless the session says it knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.tools import Call
from tests.support.engines import open_engine


class Session:
    """One client's calls."""

    def __init__(self, engine: Engine) -> None:
        self._gate = ToolDispatcher(single_engine(engine))

    def __call__(self, tool: str, session: str = "me", **arguments: Any) -> str:
        return self._gate.call(tool, arguments, Call(session=session, reader="documents")).reply.text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "w" / "notes.py"
    path.parent.mkdir()
    path.write_text("ONE = 1\nTWO = 2\n")
    return path


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with open_engine(file.parent) as engine:
        yield Session(engine)


def error_of(reply: str) -> dict[str, Any]:
    return json.loads(reply)["error"]


def test_a_file_that_somebody_else_changed_since_it_was_read_is_not_written_over(session: Session, file: Path) -> None:
    session("read_file", path="notes.py")
    file.write_text("ONE = 1\nTWO = 22\n")
    refused = error_of(session("write_file", path="notes.py", content="ONE = 11\nTWO = 2\n"))
    assert refused["code"] == "STALE_FILE"
    assert "Read it again" in refused["suggestion"]
    assert file.read_text() == "ONE = 1\nTWO = 22\n"


def test_after_reading_it_again_it_is_written(session: Session, file: Path) -> None:
    session("read_file", path="notes.py")
    file.write_text("ONE = 1\nTWO = 22\n")
    session("read_file", path="notes.py")
    assert session("write_file", path="notes.py", content="ONE = 11\n").startswith("replaced notes.py")
    assert file.read_text() == "ONE = 11\n"


def test_the_current_hash_says_that_the_session_knows(session: Session, file: Path) -> None:
    session("read_file", path="notes.py")
    file.write_text("ONE = 1\nTWO = 22\n")
    refused = error_of(session("write_file", path="notes.py", content="ONE = 11\n"))
    (told,) = [
        word.rstrip(".") for word in refused["suggestion"].split() if refused["details"]["actual"].startswith(word[:12])
    ]
    done = session("write_file", path="notes.py", content="ONE = 11\n", expected_hash=told)
    assert "its content was replaced as a whole" in done
    assert "still fitted" not in done
    assert session("write_file", path="notes.py", content="ONE = 12\n").startswith("replaced"), "now it knows the file"


def test_another_session_counts_as_somebody_else(session: Session, file: Path) -> None:
    session("read_file", path="notes.py")
    session("write_file", "other", path="notes.py", content="ONE = 0\n")
    assert error_of(session("write_file", path="notes.py", content="ONE = 11\n"))["code"] == "STALE_FILE"
    assert file.read_text() == "ONE = 0\n"


def test_what_the_session_wrote_itself_or_never_read_it_may_write_over(session: Session, file: Path) -> None:
    assert session("write_file", path="notes.py", content="ONE = 3\n").startswith("replaced")
    assert session("write_file", path="notes.py", content="ONE = 4\n").startswith("replaced")
    session("edit_file", path="notes.py", edits=[{"old_string": "4", "new_string": "5"}])
    assert session("write_file", path="notes.py", content="ONE = 6\n").startswith("replaced")
    assert file.read_text() == "ONE = 6\n"


def test_an_edit_that_still_fits_exactly_is_made_as_before(session: Session, file: Path) -> None:
    session("read_file", path="notes.py")
    file.write_text("ONE = 1\nTWO = 22\n")
    done = session("edit_file", path="notes.py", edits=[{"old_string": "ONE = 1", "new_string": "ONE = 7"}])
    assert "the edit still fitted" in done
    assert file.read_text() == "ONE = 7\nTWO = 22\n"


def test_writing_what_is_there_already_is_no_trouble(session: Session, file: Path) -> None:
    session("read_file", path="notes.py")
    file.write_text("ONE = 1\n")
    assert session("write_file", path="notes.py", content="ONE = 1\n").startswith("unchanged")
