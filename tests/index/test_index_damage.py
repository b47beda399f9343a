"""A damaged index is found, and a rebuild from the files answers as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.index import segment
from tests.support.engines import answers, indexed, open_engine
from tests.support.trees import repository

FILES = {f"src/part{number}.py": f"def part_{number}(value):\n    return value + {number}\n" for number in range(12)}
QUESTIONS = ("part_3", "return value", "def part", "part seven value")


def flipped(content: bytes) -> bytes:
    """Return the content with one bit in the middle of its arrays changed."""
    at = len(content) * 3 // 4
    while not content[at]:  # the padding between two arrays belongs to neither
        at += 1
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def segments(engine: Engine) -> list[Path]:
    return sorted(engine.cache_folder.glob("g-*/*.seg"))


@pytest.fixture
def pieces(tmp_path: Path) -> Path:
    """An index of several segments."""
    here = repository(tmp_path / "here", FILES)
    with indexed(here) as engine:
        for number in range(3):
            (here / f"more{number}.py").write_text(f"def more_{number}():\n    return {number}\n")
            engine.index.update(path=f"more{number}.py")
        assert len(segments(engine)) == 4
        assert engine.index.find_problems() == []
    return here


def damage(engine: Engine, how: str) -> None:
    """Damage one segment, or the list of files."""
    if how == "list":
        list_file = next(engine.cache_folder.glob("g-*/index.db"))
        for path in list_file.parent.glob("index.db-*"):
            path.unlink()
        list_file.write_bytes(b"SQLite format 3\0" + bytes(4096))
        return
    victim = segments(engine)[2]
    content = victim.read_bytes()
    victim.unlink()  # never write into what is mapped
    if how != "gone":
        victim.write_bytes(content[:-9] if how == "cut" else flipped(content))


@pytest.mark.parametrize("how", ["flipped", "cut", "gone", "list"])
def test_after_a_rebuild_a_damaged_index_answers_as_before(pieces: Path, how: str) -> None:
    with open_engine(pieces) as engine:
        before = answers(engine, QUESTIONS)
    damage(engine, how)
    with open_engine(pieces) as engine:
        assert engine.index.find_problems()
        assert engine.index.update(force=True).added == 15
        assert engine.index.find_problems() == []
        assert answers(engine, QUESTIONS) == before


def test_every_byte_of_a_large_segment_is_compared_too(pieces: Path) -> None:
    """When one is opened only its header is: a flip in the middle would rank wrongly for ever."""
    with open_engine(pieces) as engine:
        victim = segments(engine)[0]
        content = victim.read_bytes()
    victim.unlink()
    victim.write_bytes(flipped(content))
    assert segment.load(victim, bytes_checked_max=0).files
    assert "damaged" in segment.find_damage(victim)
