"""A memory is a Markdown file that people may write, and what they leave out is filled in."""

from __future__ import annotations

import os
import re

from hypothesis import example, given
from hypothesis import strategies as st

from context_engine import timestamps
from context_engine.memory.memory_file import (
    LinkedFile,
    Memory,
    collect_terms,
    compare_terms,
    format_file,
    hash_content,
    parse_file,
    update_file,
)
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


SENTENCES = st.lists(
    st.sampled_from("use never tabs spaces port 3000 4000 is the not in Makefiles always retry after 5 s".split()),
    max_size=10,
).map(" ".join)


@given(SENTENCES, SENTENCES)
def test_who_is_compared_with_whom_does_not_matter(one: str, other: str) -> None:
    terms = collect_terms(one), collect_terms(other)
    assert 0.0 <= compare_terms(*terms) == compare_terms(*reversed(terms)) <= 1.0
    assert compare_terms(terms[0], terms[0]) == (1.0 if one else 0.0)


@given(SENTENCES, SENTENCES)
def test_equal_digests_mean_equal_words(one: str, other: str) -> None:
    assert (hash_content(one) == hash_content(other)) == (one.casefold().split() == other.casefold().split())
    assert hash_content(one) == hash_content(f"  **{one.upper()}!**\n")
