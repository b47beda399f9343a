"""Front matter is read and changed without touching anything else."""

from __future__ import annotations

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.memory.memory_file import parse_front_matter, replace_body, update_fields, write_front_matter

NAMES = st.text("abcxyz_", min_size=1, max_size=6)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
VALUES = st.one_of(TEXTS, st.lists(TEXTS, max_size=3), st.dictionaries(TEXTS, TEXTS, max_size=3))
FIELDS = st.dictionaries(NAMES, VALUES, max_size=5)
LINES = st.sampled_from(["\n", "\r\n"])

BY_HAND = "---\n# who wrote this\nid: mem_1   # never change\nmine:\n  deep: [1, yes]\n\n# and why\ntags: [a,  b]\n---\nBody.\n"


@given(FIELDS, TEXTS)
@example({"a": "yes", "b": "2026-11-21", "c": "---", "d": "null", "e": ""}, "---\nbody")
@example({"a": "\x85\u2028\x00\x7f"}, "")
def test_what_is_written_reads_as_it_was_meant(fields: dict, body: str) -> None:
    found = parse_front_matter(write_front_matter(fields, body))
    assert found.problem == ""
    assert found.fields == fields
    assert found.body == body


@given(FIELDS, st.dictionaries(NAMES, st.none() | VALUES, max_size=3), TEXTS, LINES)
@example({"a": "x\n\ny\n"}, {"b": "1"}, "", "\n")
@example({"a": ["x"], "b": "# no comment"}, {"a": None}, "body", "\r\n")
def test_a_change_changes_what_it_names_and_nothing_else(fields: dict, changes: dict, body: str, newline: str) -> None:
    text = write_front_matter(fields, "").replace("\n", newline) + body
    before = parse_front_matter(text).fields
    after = parse_front_matter(update_fields(text, changes))
    meant = {name: value for name, value in {**before, **changes}.items() if value is not None}
    assert after.fields == meant
    assert after.body == body


@given(st.dictionaries(st.sampled_from(["id", "tags", "other", "more"]), VALUES, min_size=1))
def test_lines_of_other_keys_stay_byte_for_byte(changes: dict) -> None:
    after = update_fields(BY_HAND, changes)
    for line in ("# who wrote this\n", "mine:\n  deep: [1, yes]\n", "\n# and why\n", "---\nBody.\n"):
        assert line in after
    if "id" not in changes:
        assert "id: mem_1   # never change\n" in after


def test_a_key_that_stands_there_twice_is_removed_for_good() -> None:
    assert parse_front_matter(update_fields("---\nid: a\ntags: [x]\nid: b\n---\nBody", {"id": None})).fields == {
        "tags": ["x"]
    }


def test_types_that_other_readers_see_survive() -> None:
    after = yaml.safe_load(update_fields(BY_HAND, {"id": "mem_2"}).split("---\n")[1])
    assert after == {"id": "mem_2", "mine": {"deep": [1, True]}, "tags": ["a", "b"]}


def test_a_mapping_on_one_line_is_written_anew_with_all_that_was_in_it() -> None:
    after = update_fields("---\n{id: mem_1, mine: yes}\n---\nBody.\n", {"tags": ["a"]})
    assert yaml.safe_load(after.split("---\n")[1]) == {"id": "mem_1", "mine": True, "tags": ["a"]}
    assert after.endswith("---\nBody.\n")


def test_a_file_without_front_matter_is_all_body_and_gets_some() -> None:
    assert parse_front_matter("# Title\n---\nnot: matter\n").body == "# Title\n---\nnot: matter\n"
    assert update_fields("Use tabs.\n", {"id": "mem_1"}) == "---\nid: mem_1\n---\nUse tabs.\n"


def test_empty_front_matter_and_a_mark_in_front_are_understood() -> None:
    assert parse_front_matter("---\n---\nBody").body == "Body"
    assert parse_front_matter("\ufeff---\r\nid: a\r\n---\r\nBody").fields == {"id": "a"}


def test_what_is_broken_is_a_problem_with_its_line() -> None:
    assert parse_front_matter("---\nid: a\n").problem == "its front matter has no end: a line `---` is missing"
    assert "(line 4)" in parse_front_matter("---\nid: a\nb: [\n---\n").problem
    assert "not a mapping" in parse_front_matter("---\n- a\n---\n").problem
    assert parse_front_matter("---\n" + "[" * 5_000 + "\n---\n").problem


def test_aliases_that_grow_are_not_followed() -> None:
    bomb = "a: &a [x,x,x]\n" + "".join(
        f"{new}: &{new} [*{old},*{old},*{old}]\n"
        for old, new in zip("abcdefghijklmnop", "bcdefghijklmnopq", strict=True)
    )
    assert parse_front_matter(f"---\n{bomb}---\nBody").body == "Body"


@given(FIELDS, TEXTS, TEXTS)
def test_another_body_leaves_the_front_matter_as_it_is(fields: dict, old: str, new: str) -> None:
    text = write_front_matter(fields, old)
    assert replace_body(text, new) == text.removesuffix(old) + new if old else write_front_matter(fields, new)
