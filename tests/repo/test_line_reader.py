"""Lines read by their bytes are the lines of the file, whatever its encoding; long ones are cut around their match."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.repo.file_reader import LineStart, LineWindow, read_lines_at
from context_engine.storage.confined_folder import ConfinedFolder
from context_engine.text.lines import shorten_line
from tests.support.trees import tree


@given(
    st.lists(st.text("aä€😀 \t", max_size=9), min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be-marked"]),
    st.data(),
)
def test_a_line_is_read_by_the_byte_where_it_begins(
    lines: list[str], end: str, encoding: str, data: st.DataObject
) -> None:
    text = end.join(lines)
    raw = b"\xfe\xff" + text.encode("utf-16-be") if encoding == "utf-16-be-marked" else text.encode(encoding)
    spots, wanted, offset = [], [], 0
    for line in lines:
        column = data.draw(st.integers(0, len(line)))
        spots.append(LineStart(offset, len(line[: column - 1].encode()) + 1 if column else 0))
        wanted.append(LineWindow(line, column))
        offset += len((line + end).encode())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        path.write_bytes(raw)
        assert read_lines_at(ConfinedFolder(path.parent), path.name, spots, 100) == wanted


@given(st.integers(0, 30_000), st.integers(0, 30_000), st.sampled_from(["x", "ä", "€", "😀"]), st.integers(20, 300))
def test_a_long_line_is_cut_around_its_match(before: int, after: int, filler: str, chars_max: int) -> None:
    line = filler * before + "needle" + filler * after
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "f")
        path.write_bytes(f"first\n{line}\nlast".encode())
        (seen,) = read_lines_at(
            ConfinedFolder(path.parent), path.name, [LineStart(6, len((filler * before).encode()) + 1)], chars_max
        )
    assert seen.column == before + 1
    assert "needle" in seen.text
    assert len(seen.text) <= chars_max + 2
    shown = seen.text.strip("…")
    start = before - shown.index("needle")
    assert line[start : start + len(shown)] == shown
    assert (seen.text[0] == "…", seen.text[-1] == "…") == (start > 0, start + len(shown) < len(line))
    assert (seen.text == line) == (len(line) <= chars_max)


def test_a_character_cut_at_either_end_of_what_is_read_spoils_no_other(tmp_path: Path) -> None:
    for far in range(185, 205):
        line = f"{'x' * 5_000}€{'x' * far}é needle{'y' * far}€{'y' * 5_000}"
        tree(tmp_path, {"f": line})
        column = len(line[: line.index("needle")].encode()) + 1
        (seen,) = read_lines_at(ConfinedFolder(tmp_path), "f", [LineStart(0, column)], 50)
        assert "é needle" in seen.text


def test_what_is_no_plain_file_any_more_is_not_opened(tmp_path: Path) -> None:
    tree(tmp_path, {"f": "x", "folder/": ""})
    (tmp_path / "link").symlink_to("f")
    names = ["gone", "folder", "link"]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        names.append("pipe")
    for name in names:
        with pytest.raises(OSError):  # noqa: PT011 - which one is the system's affair
            read_lines_at(ConfinedFolder(tmp_path), name, [LineStart(0, 0)], 80)


@given(st.text("ab", max_size=40), st.integers(0, 40), st.integers(1, 20))
def test_the_cut_holds_the_place_it_was_made_around(text: str, at: int, chars_max: int) -> None:
    shown = shorten_line(text, at, chars_max)
    assert len(shown.strip("…")) == min(len(text), chars_max)
    assert shown.strip("…") in text
