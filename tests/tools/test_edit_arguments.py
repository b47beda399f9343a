"""Edits as clients send them: other words, other shapes, JSON in a text; and what is not understood is refused by its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.model import Edit, Fuzzy, LineEdit, SymbolEdit
from context_engine.errors import InvalidArgument
from context_engine.text.lines import LineSpan
from context_engine.tools.edit_arguments import (
    EDITS_MAX,
    AnchorArg,
    ContentArg,
    EditListArg,
    FileEdits,
    FileEditsArg,
    FuzzyMatchArg,
    LineRangeArg,
)

EDITS = EditListArg("Edits.")
PLAIN = {"target": "a", "replace": "b"}


def edit(**fields: Any) -> Edit:
    (found,) = EDITS.read("edits", [PLAIN | fields])
    assert isinstance(found, Edit)
    return found


@pytest.mark.parametrize(
    "sent",
    [
        [{"target": "a", "replace": "b"}],
        {"target": "a", "replace": "b"},
        '[{"target": "a", "replace": "b"}]',
        ['{"target": "a", "replace": "b"}'],
        [{"oldContent": "a", "newContent": "b"}],
        [{"old_string": "a", "new_string": "b"}],
        [{"old_str": "a", "new_str": "b"}],
        [{"oldText": "a", "newText": "b"}],
        [{"search": "a", "replace": "b", "before": None}],
        [{"target": "a", "replace": "b", "old_string": "a"}],
    ],
)
def test_an_edit_is_understood_in_the_words_of_other_editors(sent: Any) -> None:
    assert EDITS.read("edits", sent) == (Edit("a", "b"),)


def test_every_field_of_an_edit_finds_its_place() -> None:
    assert edit(before="x", after="y", lineRange="3-9", expectedMatches="2", fuzzy=False) == Edit(
        "a", "b", "x", "y", LineSpan(3, 9), 2, Fuzzy(enabled=False)
    )
    anchor = {"beforeContext": "x", "afterContext": "y", "lineRange": {"start": 3, "end": "9"}}
    assert edit(anchor=anchor) == edit(before="x", after="y", line_range=[3, 9])
    assert edit(occurrence=2) == Edit("a", "b", occurrence=2)
    assert edit(fuzzyMatch={"maxDistance": 3, "whitespaceOnly": "false"}).fuzzy == Fuzzy(True, 3, False)
    assert edit(target=" a\r\n", replace="").target == " a\r\n", "blanks and line ends are content"


def test_an_edit_of_a_definition_says_what_is_done_with_it() -> None:
    read = EDITS.read("edits", [{"symbol": "A.b", "replace": "x"}, {"symbol": "c", "insertBefore": "y", "lines": "4"}])
    assert read == (SymbolEdit("A.b", "x"), SymbolEdit("c", "y", "before", LineSpan(4, 4)))
    inside = EDITS.read("edits", {"symbol": "A.b", "old_string": "x", "new_string": "y"})
    assert inside == (SymbolEdit("A.b", "y", target="x"),)


def test_an_edit_without_target_and_symbol_replaces_lines() -> None:
    assert EDITS.read("edits", {"line_range": "3-4", "replace": ""}) == (LineEdit(LineSpan(3, 4), ""),)


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ("10-20", (10, 20)), ("7", (7, 7)), (7, (7, 7)), (" 3 : 4 ", (3, 4)), ([1, 2], (1, 2)), ("[1, 2]", (1, 2)),
        ({"start": 1, "end": "2"}, (1, 2)), ('{"start": 1, "end": 2}', (1, 2)),
    ],
)  # fmt: skip
def test_a_range_of_lines_may_be_written_in_many_ways(value: Any, span: tuple[int, int]) -> None:
    assert LineRangeArg("").read("line_range", value) == LineSpan(*span)


@pytest.mark.parametrize(
    ("sent", "says", "suggests"),
    [
        ([], "has 0 entries", "target"),
        ("nonsense", "must be a list of objects", "target"),
        ([5], "must be a list of objects", "target"),
        ([PLAIN] * (EDITS_MAX + 1), f"has {EDITS_MAX + 1} entries", "target"),
        ([PLAIN, {"targt": "a", "replace": "b"}], "edit 2: targt is unknown", "Did you mean target?"),
        ([PLAIN | {"path": "a.py"}], "edit 1: path is not part of an edit", "files: ["),
        ([PLAIN, PLAIN | {"file_path": "a.py"}], "edit 2: path is not part of an edit", "next to edits"),
        ([PLAIN | {"wholly": 1}], "edit 1: wholly is unknown", "There are target"),
        ([{"target": "a"}], "edit 1: replace is missing", "target"),
        ([{"target": "a", "replace": None}], "edit 1: replace is missing", "target"),
        ([{"replace": "b"}], "edit 1: target is missing", "target"),
        ([{"target": 5, "replace": "b"}], "edit 1: target must be a text", "one string"),
        ([PLAIN | {"old_string": "c"}], "edit 1: target is given twice", "once"),
        ([PLAIN | {"occurrence": 0}], "edit 1: occurrence is 0", "between 1"),
        ([PLAIN | {"expected_matches": 0}], "edit 1: expected_matches is 0", "between 1"),
        ([PLAIN | {"occurrence": 1, "expected_matches": 2}], "cannot be combined", "one of them"),
        ([PLAIN | {"fuzzy": {"distance": 5}}], "edit 1: fuzzy.distance is unknown", "max_distance"),
        ([PLAIN | {"fuzzy": "perhaps"}], "edit 1: fuzzy must be true or false", ""),
        ([PLAIN | {"anchor": "x"}], "edit 1: anchor must be an object", "beforeContext"),
        ([PLAIN | {"anchor": {"above": "x"}}], "edit 1: anchor.above is unknown", "before"),
        ([PLAIN | {"target": "\ud800"}], "contains half a character", "whole"),
        ([{"symbol": "a"}], "edit 1 has no action", "insert_before"),
        (
            [{"symbol": "a", "replace": "x", "insert_after": "y"}],
            "edit 1 has replace and insert_after",
            "insert_before",
        ),
        ([{"symbol": "a", "replace": "x", "before": "y"}], "edit 1 has replace and before", "insert_before"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_place(sent: Any, says: str, suggests: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        EDITS.read("edits", sent)
    assert says in caught.value.message
    assert suggests in caught.value.suggestion


def test_files_are_read_with_their_edits_and_hashes() -> None:
    sent = [
        {"filePath": "a.py", "edits": [PLAIN], "expectedHash": "abc"},
        {"path": "b.py", "edits": json.dumps([PLAIN])},
    ]
    wants = (Edit("a", "b"),)
    assert FileEditsArg("").read("files", sent) == (FileEdits("a.py", wants, "abc"), FileEdits("b.py", wants))
    for wrong in (
        [{"path": "a.py"}],
        [{"edits": [PLAIN]}],
        [{"path": "a.py", "edits": [{}]}],
        [{"path": "a", "editz": []}],
    ):
        with pytest.raises(InvalidArgument, match="file 1: "):
            FileEditsArg("").read("files", wrong)


def test_content_is_a_text_and_nothing_that_was_made_of_one() -> None:
    assert ContentArg("").read("content", " \n5\t") == " \n5\t"
    for wrong in ({"a": 1}, [1], 5, True):
        with pytest.raises(InvalidArgument, match="must be a text"):
            ContentArg("").read("content", wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["target", "replace", "fuzzy", "line_range", "anchor", "symbol", "insert_after", "occurrence", "x"]), inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_whatever_is_sent_becomes_edits_or_a_refusal(sent: Any) -> None:
    for kind in (EDITS, FileEditsArg(""), AnchorArg(""), FuzzyMatchArg(""), LineRangeArg(""), ContentArg("")):
        try:
            kind.read("argument", sent)
        except InvalidArgument as error:
            assert error.message.startswith("argument")  # noqa: PT017 - most draws are refused, some are not
