"""The versions of a file before and after each past edit, from the file as it is now."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.apply import Editor, find_versions
from context_engine.edit.file_edit import delete_file, delta_of, hash_of, replace_whole, write_file
from context_engine.edit.journal import JournalEntry, Op
from context_engine.repo.paths import Root

VERSIONS = st.lists(st.none() | st.binary(max_size=30), min_size=2, max_size=6)


def entry(number: int, before: bytes | None, after: bytes | None) -> JournalEntry:
    delta = delta_of(before or b"", replace_whole(after))
    return JournalEntry(number, 0.0, "", "done", 0, (Op("a", hash_of(before), hash_of(after), delta),))


@given(VERSIONS)
def test_every_version_on_a_chain_of_edits_is_found_from_the_last_one(versions: list[bytes | None]) -> None:
    entries = [entry(number, old, new) for number, (old, new) in enumerate(itertools.pairwise(versions))]
    for number, one in enumerate(entries):
        others = [other for other in entries if other is not one]
        found = find_versions(one, others, {"a": versions[-1]})
        assert found == {"a": (versions[number], versions[number + 1])}


@given(VERSIONS, st.binary(min_size=31, max_size=40))
def test_a_file_that_another_program_changed_has_no_known_versions(versions: list[bytes | None], now: bytes) -> None:
    one = entry(1, versions[0], versions[1])
    assert find_versions(one, [], {"a": now}) == {"a": None}


def test_undone_edits_keep_their_direction(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    editor = Editor(Root(tmp_path / "w"), tmp_path / "state")
    first = editor.apply([write_file("a.txt", "one\n")]).undo_id
    second = editor.apply([write_file("a.txt", "two\n")]).undo_id
    third = editor.apply([delete_file("a.txt")]).undo_id
    expected = {first: (None, b"one\n"), second: (b"one\n", b"two\n"), third: (b"two\n", None)}
    for _ in range(3):
        for number, sides in expected.items():
            assert editor.past_versions(number) == {"a.txt": sides}
        editor.undo()
    editor.close()
