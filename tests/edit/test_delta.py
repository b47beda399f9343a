"""Deltas lead forth and back, byte for byte, and find their places again in a file that changed elsewhere."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.edit.delta import (
    CONTEXT_BYTES_MAX,
    Delta,
    apply_delta,
    delta_of_spans,
    make_delta,
    relocate_delta,
    reverse_delta,
)

CONTENT = st.text(alphabet="ab\n\r", max_size=60).map(str.encode)
NUMBERED = b"".join(b"line %d\n" % n for n in range(100))


@st.composite
def spans(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int, bytes]], bytes]:
    """A new content, spans of it with what stood there before, and the old content that they make."""
    new = draw(CONTENT)
    cuts = sorted(draw(st.lists(st.integers(0, len(new)), max_size=6).filter(lambda cuts: len(cuts) % 2 == 0)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=True))
    told = [(start, stop, draw(CONTENT)) for start, stop in pairs]
    old, at = b"", 0
    for start, stop, original in told:
        old += new[at:start] + original
        at = stop
    return new, told, old + new[at:]


@given(CONTENT, CONTENT)
@example(b"", b"x")
@example(b"x", b"")
@example(b"aa", b"aaa")
def test_between_any_two_versions_it_leads_both_ways(old: bytes, new: bytes) -> None:
    delta = make_delta(old, new)
    assert apply_delta(delta, old) == new
    assert apply_delta(reverse_delta(delta), new) == old
    assert bool(delta) == (old != new)


@given(spans())
def test_told_by_spans_it_leads_both_ways(told: tuple[bytes, list[tuple[int, int, bytes]], bytes]) -> None:
    new, each, old = told
    delta = delta_of_spans(new, each)
    assert apply_delta(delta, old) == new
    assert apply_delta(reverse_delta(delta), new) == old
    assert reverse_delta(reverse_delta(delta)) == delta


@given(spans())
def test_its_pieces_stand_in_order_and_do_not_touch(told: tuple[bytes, list[tuple[int, int, bytes]], bytes]) -> None:
    new, each, _ = told
    delta = delta_of_spans(new, each)
    assert all(one.start + len(one.old) < other.start for one, other in pairwise(delta))


def changed_at_50() -> Delta:
    return make_delta(NUMBERED, NUMBERED.replace(b"line 50\n", b"changed\n"))


def test_of_a_line_without_end_it_carries_a_part_only() -> None:
    (piece,) = make_delta(b"x" * 10_000, b"x" * 5_000 + b"y" + b"x" * 4_999)
    assert len(piece.old) == 2 * CONTEXT_BYTES_MAX + 1


def swapped(lines: dict[bytes, bytes]) -> Delta:
    """The delta that changes these lines of NUMBERED, in their order."""
    new, spans = NUMBERED, []
    for old, now in lines.items():
        at = new.index(old)
        new = new.replace(old, now)
        spans.append((at, at + len(now), old))
    return delta_of_spans(new, spans)


def test_from_another_version_than_its_own_it_is_refused() -> None:
    with pytest.raises(ValueError, match="not those of the delta"):
        apply_delta(changed_at_50(), NUMBERED[1:])


@pytest.mark.parametrize(
    "other",
    [
        NUMBERED.replace(b"line 50\n", b"line fifty\n"),
        NUMBERED.replace(b"line 48\n", b"line forty-eight\n"),
        NUMBERED + NUMBERED,
        b"",
    ],
    ids=["changed there", "changed near", "there twice", "empty"],
)
def test_where_its_place_is_not_certain_it_has_none(other: bytes) -> None:
    assert relocate_delta(changed_at_50(), other) is None


def test_pieces_in_another_order_have_no_place() -> None:
    delta = swapped({b"line 20\n": b"twenty\n", b"line 70\n": b"seventy\n"})
    half = NUMBERED.index(b"line 45\n")
    assert relocate_delta(delta, b"# above\n" + NUMBERED) is not None
    assert relocate_delta(delta, NUMBERED[half:] + NUMBERED[:half]) is None


@given(CONTENT, CONTENT, CONTENT, CONTENT)
def test_what_was_added_before_and_behind_does_not_matter(old: bytes, new: bytes, before: bytes, behind: bytes) -> None:
    delta = make_delta(old, new)
    around = before + old + behind
    found = relocate_delta(delta, around)
    if delta and found is not None:
        (piece,) = delta
        assert around.count(piece.old) == 1
        assert apply_delta(found, around) == around.replace(piece.old, piece.new)
