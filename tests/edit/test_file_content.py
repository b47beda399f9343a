"""Bytes become text and come back as the same bytes, whatever they are; what cannot come back is refused."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit import file_content as content_module
from context_engine.edit.file_content import content_of
from context_engine.edit.model import Edit
from context_engine.edit.patch import plan
from context_engine.errors import BinaryFile, InvalidEdit, TooLarge, WrongEncoding

MARKS = [b"", codecs.BOM_UTF8]
texts = st.text(st.sampled_from("ab \t\r\n\f\x0b\x1c\x85\u2028é𝄞"), max_size=30)


@given(st.sampled_from(MARKS), st.binary(max_size=40))
def test_any_bytes_without_nul_come_back(mark: bytes, body: bytes) -> None:
    data = mark + body.replace(b"\0", b"")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return
    content = content_of(data)
    assert content.bom + content.encode(content.text) == data


@given(st.sampled_from(["utf-16-le", "utf-16-be"]), texts)
def test_utf16_with_its_mark_comes_back(encoding: str, text: str) -> None:
    mark = codecs.BOM_UTF16_LE if encoding.endswith("le") else codecs.BOM_UTF16_BE
    content = content_of(mark + text.encode(encoding))
    assert (content.text, content.bom + content.encode(content.text)) == (text, mark + text.encode(encoding))


@given(texts)
def test_a_place_in_the_folded_text_is_the_same_place_in_the_text(text: str) -> None:
    content = content_of(text.encode())
    rest = [content.text[content.offset(at) :].replace("\r\n", "\n") for at in range(len(content.norm) + 1)]
    assert rest == [content.norm[at:] for at in range(len(content.norm) + 1)]


@given(texts)
def test_a_line_ends_at_a_line_feed_and_at_nothing_else(text: str) -> None:
    content = content_of(text.encode())
    written = [line + content.break_of(number) for number, line in enumerate(content.lines)]
    assert "".join(written) == text
    assert [content.line_of(start) for start in content.starts[:-1]] == list(range(len(content.lines)))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"a\0b", BinaryFile),
        (codecs.BOM_UTF16_LE + "a\0b".encode("utf-16-le"), BinaryFile),
        (codecs.BOM_UTF16_LE + b"odd", WrongEncoding),
        (codecs.BOM_UTF16_LE + b"\x00\xd8a\x00", WrongEncoding),
        (codecs.BOM_UTF32_LE + b"odd", WrongEncoding),
    ],
)
def test_what_cannot_come_back_is_refused_and_says_what_to_do(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        plan(data, [Edit("a", "b")])
    assert getattr(caught.value, "suggestion", "")


def test_a_file_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_module, "BYTES_MAX", 10)
    with pytest.raises(TooLarge) as caught:
        plan(b"a" * 11, [Edit("a", "b")])
    assert caught.value.details == {"size": 11, "limit": 10}


# -- encodings that others destroy ------------------------------------------------------------------------------


def test_bytes_that_are_no_utf8_survive_an_edit_elsewhere() -> None:
    assert plan(b"caf\xe9\nb\n", [Edit("b", "c")]).data == b"caf\xe9\nc\n"
    assert plan("日本\nb\n".encode("shift-jis"), [Edit("b", "c")]).data == "日本\nc\n".encode("shift-jis")


def test_an_edit_is_encoded_as_the_file_is() -> None:
    assert plan("日本\nb\n".encode("shift-jis"), [Edit("b", "日")]).data == "日本\n日\n".encode("shift-jis")
    with pytest.raises(WrongEncoding, match="ü"):
        plan("日本\nb\n".encode("shift-jis"), [Edit("b", "ü")])


def test_a_byte_order_mark_stays_and_is_no_part_of_the_first_line() -> None:
    assert plan(codecs.BOM_UTF8 + b"a\nb\n", [Edit("a\nb", "c")]).data == codecs.BOM_UTF8 + b"c\n"


def test_utf16_stays_utf16() -> None:
    data = codecs.BOM_UTF16_BE + "a\r\nb\r\n".encode("utf-16-be")
    assert plan(data, [Edit("b", "é\nc")]).data == codecs.BOM_UTF16_BE + "a\r\né\r\nc\r\n".encode("utf-16-be")


@pytest.mark.parametrize("replacement", ["a\0b", "\ud800", "\udc80x"])
def test_what_no_file_can_hold_is_refused(replacement: str) -> None:
    with pytest.raises(InvalidEdit):
        plan(b"x = \xff\ny\n", [Edit("y", replacement)])
    with pytest.raises(InvalidEdit):
        plan(b"x\n", [Edit("x", replacement)])


def test_half_a_character_in_a_target_does_not_match_a_broken_byte() -> None:
    with pytest.raises(InvalidEdit):
        plan(b"x\xff\n", [Edit("x\udcff", "y")])
