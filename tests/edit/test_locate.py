"""Where an edit lands: every place is counted, the nearest distance is the edit distance, windows are complete."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA, Levenshtein

from context_engine.edit.edit_errors import no_match_error
from context_engine.edit.file_content import content_of, keys_of
from context_engine.edit.locate import COUNTED_MAX, by_distance, by_whitespace, exact, locate
from context_engine.edit.model import Edit
from context_engine.errors import MultipleMatches
from context_engine.text.lines import LineSpan

texts = st.text(st.sampled_from("ab \n"), max_size=12)
words = st.sampled_from(["alphabet", "alphabot", "alphabett", "omega", "omegas", ""])
files = st.lists(words, max_size=8).map("\n".join)


@given(texts, texts.filter(bool))
def test_every_exact_place_is_counted_overlapping_ones_too(file: str, target: str) -> None:
    found = [spot.start for spot in exact(content_of(file.encode()), target)]
    assert found == [at for at in range(len(file)) if file.startswith(target, at)]


@given(texts, texts.filter(str.strip))
def test_every_place_with_the_same_keys_is_counted(file: str, target: str) -> None:
    content = content_of(file.encode())
    solid = [(number, key) for number, key in enumerate(keys_of(file)) if key]
    wanted = [key for key in keys_of(target) if key]
    places = [at for at in range(len(solid)) if [key for _, key in solid[at : at + len(wanted)]] == wanted]
    assert [spot.twins[0] for spot in by_whitespace(content, target)] == [solid[at][0] for at in places]


@given(files, st.lists(words.filter(bool), min_size=3, max_size=4).map("\n".join), st.integers(0, 5))
def test_a_few_characters_off_means_the_edit_distance_of_the_lines(file: str, target: str, distance_max: int) -> None:
    content = content_of(file.encode())
    found = {spot.twins[0]: spot.distance for spot in by_distance(content, target, distance_max)}
    solid = [number for number, line in enumerate(file.split("\n")) if line]
    count, cutoff = target.count("\n") + 1, min(distance_max, len(target) // 10) if len(target) >= 20 else 0
    near: dict[int, int] = {}
    for at in range(len(solid) - count + 1):
        there = "\n".join(content.lines[line] for line in solid[at : at + count])
        if cutoff and (distance := Levenshtein.distance(target, there)) <= cutoff:
            near[solid[at]] = distance
    assert found == near


names = st.lists(st.text(st.sampled_from("abcdefgh"), min_size=4, max_size=9), min_size=2, max_size=4, unique=True)


@given(names, st.sampled_from(["self,", "key=1,"]), st.booleans(), st.data())
def test_the_nearest_place_is_the_one_by_the_distance_of_the_whole_target(
    file: list[str], second: str, is_second_equal: bool, data: st.DataObject
) -> None:
    heads = [f"def {name}(\n{second}" for name in file]
    right = data.draw(st.sampled_from(heads))
    at = data.draw(st.integers(4, right.index("(") - 2))
    target = right[:at] + right[at + 1] + right[at] + right[at + 2 :]  # two letters are swapped
    if not is_second_equal:  # no line of the file is in the target
        target = target[:-1] + ";"
    details = no_match_error(content_of("\n".join(heads).encode()), Edit(target, "x")).details
    similar = [OSA.normalized_similarity(target, head) for head in heads]
    assert details["nearest"][0]["line"] == 2 * similar.index(max(similar)) + 1
    assert ("fileText" in details) == (max(similar) >= 0.9 and similar.count(max(similar)) == 1)
    assert details.get("fileText", heads[similar.index(max(similar))]) == heads[similar.index(max(similar))]


def test_a_short_target_is_never_looked_for_by_distance() -> None:
    assert list(by_distance(content_of(b"alphabet soup\n"), "alphabat soup", 5)) == []


def test_an_anchor_singles_out_one_of_very_many_places_up_to_a_limit() -> None:
    content = content_of(b"}\n" * (COUNTED_MAX - 1) + b"x\n")
    [spot] = locate(content, Edit("}", "]", line_range=LineSpan(500, 500)))
    assert content.line_of(spot.start) == 499
    with pytest.raises(MultipleMatches) as caught:
        locate(content_of(b"}\n" * (COUNTED_MAX + 1)), Edit("}", "]", line_range=LineSpan(500, 500)))
    assert f"more than {COUNTED_MAX:d}" in caught.value.message
