"""What changed is told by names, sizes and times alone; only suspects have to be read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.index.build_order import compare_files
from context_engine.index.index_store import FileState

facts = st.tuples(st.integers(0, 1), st.integers(0, 1))
listings = st.dictionaries(st.sampled_from("abcd"), facts, max_size=4)


@given(listings, listings, listings)
def test_every_file_is_counted_once_and_for_what_it_is(indexed: dict, present: dict, kept_out: dict) -> None:
    kept_out = {path: seen for path, seen in kept_out.items() if path not in indexed}
    changes = compare_files({path: FileState(*seen, b"") for path, seen in indexed.items()}, present, kept_out)
    fate = {}
    for path in {*indexed, *present, *kept_out}:
        if path not in present:
            fate[path] = "removed"
        elif path in indexed:
            fate[path] = "unchanged" if indexed[path] == present[path] else "suspect"
        else:
            fate[path] = "kept out" if kept_out.get(path) == present[path] else "added"
    assert list(changes.added) == sorted(path for path in fate if fate[path] == "added")
    assert list(changes.suspect) == sorted(path for path in fate if fate[path] == "suspect")
    assert list(changes.removed) == sorted(path for path in fate if fate[path] == "removed")
    assert changes.unchanged == list(fate.values()).count("unchanged")


@given(listings, listings)
def test_nothing_changed_only_when_both_sides_are_alike(indexed: dict, present: dict) -> None:
    changes = compare_files({path: FileState(*seen, b"") for path, seen in indexed.items()}, present, {})
    assert changes.is_empty == (indexed == present)
