"""A memory is a Markdown file that people may write, and what they leave out is filled in."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine import timestamps
from context_engine.memory.memory_file import LinkedFile, Memory, derive_title, format_file, parse_file, update_file
from context_engine.text.ids import CHANCE_BYTES, SLUG_CHARS_MAX, make_slug, short_id, uuid7

PLAIN = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30).map(lambda text: " ".join(text.split()))
WORDS = PLAIN.filter(bool).filter(lambda text: text not in ("null", "~"))
LISTS = st.lists(WORDS, max_size=3, unique=True).map(tuple)
MOMENTS = st.integers(0, 4_000_000_000_000).map(lambda ms: timestamps.format_timestamp(ms / 1000))


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    at = draw(MOMENTS)
    return Memory(
        id=f"mem_{draw(st.uuids())}",
        category=draw(st.sampled_from(["facts", "decisions"])),
        title=draw(WORDS),
        content="\n\n".join(draw(st.lists(WORDS, min_size=1, max_size=3))),
        tags=draw(LISTS),
        subtype=draw(st.sampled_from(["", "rule", "issue"])),
        priority=draw(st.sampled_from(["critical", "helpful", "archive"])),
        evidence=draw(st.just("") | WORDS),
        created_at=at,
        updated_at=draw(st.just(at) | MOMENTS),
        expires_at=draw(st.just("") | MOMENTS),
        linked_files=tuple(
            LinkedFile(path, blob)
            for path, blob in draw(st.dictionaries(WORDS, st.just("") | WORDS, max_size=2)).items()
        ),
        supersedes=draw(LISTS),
        superseded_by=draw(st.just("") | WORDS),
    )


@given(memories())
def test_a_memory_reads_as_it_was_written(memory: Memory) -> None:
    assert parse_file(format_file(memory), memory.file_name) == memory


@given(memories(), memories())
def test_a_changed_memory_reads_as_the_new_one_and_keeps_what_is_not_ours(old: Memory, new: Memory) -> None:
    text = format_file(old).replace("---\n", "---\nreviewed: by hand # yes\n", 1)
    after = update_file(text, old, new)
    assert parse_file(after, new.file_name) == new
    assert "reviewed: by hand # yes\n" in after


@given(memories())
def test_nothing_changed_is_nothing_written(memory: Memory) -> None:
    assert update_file(format_file(memory), memory, memory) == format_file(memory)


def test_a_file_written_by_hand_needs_nothing_but_a_sentence() -> None:
    found = parse_file("# Money is counted in cents\n\nEverywhere.\n", "decisions/cents.md", modified_at=86_400.0)
    assert isinstance(found, Memory)
    assert (found.category, found.title, found.priority) == ("decisions", "Money is counted in cents", "helpful")
    assert found.created_at == found.updated_at == "1970-01-02T00:00:00.000Z"
    assert (
        found.id
        == getattr(parse_file("Another day.", "decisions/cents.md"), "id", "")
        != getattr(parse_file("A", "facts/cents.md"), "id", "")
    )


def test_what_people_write_is_understood() -> None:
    found = parse_file(
        "---\ntags: style, yes\nexpires_at: 2027-01-31\nlinked_files:\n- src/a.py\npriority: critical\nowner: ~\n---\nUse tabs.",
        "facts/a.md",
    )
    assert isinstance(found, Memory)
    assert found.tags == ("style", "yes")
    assert found.expires_at == "2027-01-31T00:00:00.000Z"
    assert found.linked_files == (LinkedFile("src/a.py"),)
    assert (found.priority, found.owner) == ("critical", "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\ntags: [\n---\nBody", "cannot be read: did not find"),
        ("---\npriority: urgent\n---\nBody", "its priority is 'urgent'; it is one of critical, helpful, archive"),
        ("---\nsubtype: idea\n---\nBody", "its subtype is 'idea'"),
        ("---\nexpires_at: soon\n---\nBody", "its expires_at is 'soon', no date"),
        ("---\ntitle: [a]\n---\nBody", "its title is not a text"),
        ("---\ntags: {a: b}\n---\nBody", "its tags is not a list of texts"),
        ("---\nid: mem_1\n---\n\n", "it has no content"),
        ("---\nid: mem_1\n---\n<<<<<<< ours\nUse tabs.\n=======\nUse spaces.\n>>>>>>> theirs\n", "conflict markers"),
        ("---\n<<<<<<< ours\nid: mem_1\n=======\nid: mem_2\n>>>>>>> theirs\n---\nUse tabs.\n", "conflict markers"),
    ],
)
def test_what_cannot_be_understood_says_why(text: str, why: str) -> None:
    found = parse_file(text, "facts/a.md")
    assert isinstance(found, str)
    assert why in found


def test_a_title_is_the_first_line_cut_at_a_word() -> None:
    assert derive_title("\n\n- word " + "longer " * 20).endswith("longer…")
    assert len(derive_title("x" * 500)) == 80
    assert derive_title("###\n---") == "Untitled"


@given(st.text())
@example("../../x")
@example("a/b\\c\0d")
@example("con")
def test_a_slug_is_a_plain_part_of_a_file_name(title: str) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", make_slug(title))
    assert len(make_slug(title)) <= SLUG_CHARS_MAX
    assert make_slug(make_slug(title)) == make_slug(title)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1), st.binary(min_size=CHANCE_BYTES, max_size=CHANCE_BYTES))
def test_ids_sort_by_the_time_they_were_made_at(one: int, other: int, chance: bytes) -> None:
    made = uuid7(one, chance), uuid7(other, chance)
    assert (made[0] < made[1]) == (one < other)
    assert all(
        re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", each) for each in made
    )


def test_ids_of_one_millisecond_have_different_short_names() -> None:
    assert len({short_id(uuid7(1, os.urandom(CHANCE_BYTES))) for _ in range(1_000)}) == 1_000
