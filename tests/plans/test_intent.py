"""What a task asks for, and the names that only its words say to be names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.changeset import find_mentions, parse_intent, strip_commit_prefix


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        ("Add retries to the client", "add"),
        ("feat(router): nested groups", "add"),
        ("feat(test): add Stubs.clear", "add"),
        ("feat(router): tests of nested groups", "test"),
        ("Fixes a crash in the parser", "fix"),
        ("reverseproxy: Fix health check when method is GET", "fix"),
        ("The parser crashes on empty input", "fix"),
        ("Simplify the loader", "refactor"),
        ("Renaming Loader to Reader", "rename"),
        ("rename class Loader to Reader", "rename"),
        ("Remove the deprecated flag", "remove"),
        ("Deprecate the flag", "change"),
        ("Bump attrs to 23.2", "upgrade"),
        ("Adding tests for the loader", "test"),
        ("fix flaky test of the loader", "fix"),
        ("Document the loader", "docs"),
        ("Fix typos in the README", "docs"),
        ("Make the loader faster", "perf"),
        ("Prevent path traversal in uploads", "security"),
        ("Sorting of rows", "change"),
    ],
)
def test_the_kind_of_a_task(task: str, kind: str) -> None:
    assert parse_intent(task).kind == kind


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("rename function foo", ["foo"]),
        ("rename the method Reader.load to fetch", ["Reader.load"]),
        ("Give the parse function a timeout", ["parse"]),
        ("The timeout parameter is ignored", ["timeout"]),
        ("Remove unused field cache_dir", ["cache_dir"]),
        ("Add a file", []),
        ("Use the same function everywhere", []),
        ("Call `load` from main()", ["load", "main()"]),
    ],
)
def test_names_are_found_by_the_words_beside_them(task: str, names: list[str]) -> None:
    assert [each.text.strip("`") for each in find_mentions(task, parse_intent(task))] == names


def test_the_new_name_of_a_rename_is_not_looked_for() -> None:
    asked = parse_intent("rename `load_file` to `read_file`")
    assert (asked.names, asked.new_name) == (("load_file",), "read_file")
    assert [each.name for each in find_mentions("rename `load_file` to `read_file`", asked)] == ["load_file"]


@given(st.text(max_size=200))
def test_any_text_has_a_kind_and_its_names_stand_in_it(task: str) -> None:
    asked = parse_intent(task)
    assert all(name in task for name in asked.names)
    assert task.endswith(strip_commit_prefix(task))
