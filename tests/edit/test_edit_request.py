"""What a caller wants, turned into a plan: the occurrence that is meant, and masks of secrets that must not be written."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.edit_service import plan_file
from context_engine.edit.file_edit import check_secrets, refuse_labels, replan, write_file
from context_engine.edit.model import AnyEdit, Edit, LineEdit, SymbolEdit
from context_engine.edit.patch import plan
from context_engine.errors import CallError, InvalidEdit, MultipleMatches, NoMatch
from context_engine.secrets import count_labels, redact
from context_engine.secrets.secret_rules import builtin_rules
from context_engine.text import LineSpan
from tests.support.engines import GRAMMARS, LANGUAGES
from tests.support.secret_examples import drawn

MASK = "[masked password]"


def became(text: str, *wants: AnyEdit, path: str = "a.txt", labels_are_text: bool = False) -> str:
    return plan_file(text.encode(), path, wants, LANGUAGES, GRAMMARS, labels_are_text=labels_are_text).data.decode()


# -- occurrences ------------------------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 9), st.sampled_from(["\n", "\r\n"]))
def test_the_occurrence_that_is_meant_changes_and_no_other(count: int, meant: int, end: str) -> None:
    lines = [f"line {number}{end}same{end}" for number in range(count)]
    want = Edit("same\n", "other\n", occurrence=meant)
    if meant > count:
        with pytest.raises(NoMatch, match=f"found {count} occurrences? of the target, not {meant}"):
            became("".join(lines), want)
        return
    lines[meant - 1] = lines[meant - 1].replace("same", "other")
    assert became("".join(line.replace("other", "same") for line in lines), want) == "".join(lines)


def test_two_occurrences_on_one_line_cannot_be_told_apart_by_their_number() -> None:
    with pytest.raises(MultipleMatches):
        became("a = a\n", Edit("a", "b", occurrence=2))


def test_what_stands_nowhere_exactly_has_no_occurrences() -> None:
    assert became("key  =  1\n", Edit("key = 1\n", "key = 2\n", occurrence=1)) == "key = 2\n"
    with pytest.raises(CallError) as caught:
        became("x\n", Edit("", "y", occurrence=1))
    assert caught.value.code == "INVALID_EDIT"


# -- masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        Edit("url = 1", f"url = {MASK}"),
        Edit(f"url = {MASK}", "url = 2"),
        Edit("x", "y", before=f"url = {MASK}"),
        Edit("x", "y", after=f"url = {MASK}"),
        SymbolEdit("f", f"def f():\n    return '{MASK}'\n"),
        SymbolEdit("f", f"URL = '{MASK}'\n", "before"),
    ],
)
def test_a_mask_that_the_file_has_not_is_refused_wherever_it_stands(edit: Edit | SymbolEdit) -> None:
    with pytest.raises(InvalidEdit, match="the file has no such text") as caught:
        became("url = 1\nx\n\n\ndef f():\n    return 1\n", edit, path="a.py")
    assert "lines around it" in caught.value.suggestion


def test_a_label_that_the_file_holds_as_text_may_be_quoted_moved_and_written_again() -> None:
    assert became(f"shown as {MASK}\n", Edit(f"shown as {MASK}", f"{MASK} is shown")) == f"{MASK} is shown\n"
    more = Edit("z", f"{MASK} {MASK}")
    assert became(f"shown as {MASK}, z\n", more) == f"shown as {MASK}, {MASK} {MASK}\n"


ADDRESS = "postgres://app:Tr0ub4dor@db/app"


def test_a_label_is_never_written_over_a_secret_even_where_the_file_holds_it_as_text_too() -> None:
    secret = f"see {MASK}\nx\nurl = {ADDRESS}\n"
    shown = redact(secret).text
    for new in (shown, shown.replace("x\n", ""), shown.removeprefix(f"see {MASK}\n")):
        for are_text in (False, True):
            with pytest.raises(InvalidEdit, match="change a part of it, or write a label over it"):
                write_file("a.txt", new, labels_are_text=are_text).plan(secret.encode())
            with pytest.raises(InvalidEdit, match="change a part of it, or write a label over it"):
                became(secret, LineEdit(LineSpan(1, 3), new), labels_are_text=are_text)
    assert became(secret, Edit("x", MASK)) == f"see {MASK}\n{MASK}\nurl = {ADDRESS}\n"


def test_a_secret_goes_with_its_lines_but_never_in_parts() -> None:
    key = drawn("-----BEGIN PRIVATE KEY-----\n<b64>\n<b64>\n<b40>\n-----END PRIVATE KEY-----", "edit").text
    file = f"a\n{key}\nurl = {ADDRESS}\n"
    for first, last in ((4, 4), (4, 6), (3, 3), (5, 7)):
        with pytest.raises(InvalidEdit, match=re.escape("[masked private key] hides a secret, lines 3-5")) as caught:
            became(file, LineEdit(LineSpan(first, last), ""))
        assert "labels_are_text" not in caught.value.suggestion
    with pytest.raises(InvalidEdit, match="change a part of it, or write a label over it"):
        became(file, Edit("ub", "oo"))
    with pytest.raises(InvalidEdit, match="change a part of it, or write a label over it"):
        replan("a.txt", file.encode(), plan(file.encode(), [Edit("ub", "oo")]))
    assert became(file, LineEdit(LineSpan(2, 7), "")) == "a\n"
    assert (
        became(file, LineEdit(LineSpan(7, 7), "url = env('URL')"), Edit("a\n", "b\n"))
        == f"b\n{key}\nurl = env('URL')\n"
    )
    assert became(file, Edit("Tr0ub4dor", "new")) == file.replace("Tr0ub4dor", "new")


@pytest.mark.parametrize(
    "label", ["[REDACTED:x:1]", "[REDACTED]", "[REDACTED:github-token:0a1b2c]", "[masked corporate token]"]
)
def test_an_invented_label_is_refused_unless_the_caller_says_that_it_is_text(label: str) -> None:
    new = write_file("a.md", f"{label}\n")
    with pytest.raises(InvalidEdit, match="the file has no such text") as caught:
        new.plan(None)
    assert "labels_are_text: true" in caught.value.suggestion
    assert write_file("a.md", label, labels_are_text=True).plan(None).data == label.encode()
    assert became("x\n", Edit("x", label), labels_are_text=True) == f"{label}\n"


def test_a_whole_file_may_hold_labels_that_it_held() -> None:
    change = write_file("a.md", f"{MASK}\n")
    assert change.plan(f"see {MASK}".encode()).data == f"{MASK}\n".encode()
    for old in (None, b"", f"{ADDRESS}\n".encode()):
        with pytest.raises(InvalidEdit):
            change.plan(old)


def test_every_kind_of_mask_is_known() -> None:
    kinds = builtin_rules().kinds
    assert count_labels(" ".join(f"[masked {kind}]" for kind in kinds)).keys() == {f"[masked {kind}]" for kind in kinds}
    assert not count_labels("[masked ball], [masked], masked password")
    assert count_labels(redact("postgres://app:Tr0ub4dor@db/app, password = 'aB3dE5gH7jK9mN1pQ3'").text).total() == 2


@given(st.lists(st.sampled_from(["a", MASK, "[masked secret]", "\n"]), max_size=8))
def test_the_same_labels_in_another_order_are_always_accepted(parts: list[str]) -> None:
    old, new = "".join(parts), "".join(sorted(parts))
    refuse_labels(new, old)
    check_secrets("a.py", old, new, written=new)
