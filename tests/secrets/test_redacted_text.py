"""Whatever part is cut out of a text, no secret of the whole text is in it; lines stay where they are; copies are masked, too."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.secrets import redacted_text
from context_engine.secrets.redacted_text import (
    AROUND_BYTES,
    RedactedDocument,
    RedactedDocuments,
    collect_redactions,
    find_hidden_spans,
    mark_searched,
    redact_file,
    redact_reply,
)
from tests.support.secret_examples import drawn

TOKEN = drawn("ghp_<w36>", "text").text
VALUE, OTHER = (drawn("<w28>", each).text for each in ("value", "other"))
KEY = drawn("-----BEGIN RSA PRIVATE KEY-----\n<b64>\n<b64>\n<b40>\n-----END RSA PRIVATE KEY-----", "key")
WHOLE = f'first ünï\napi_key = "{VALUE}"\n{TOKEN} and\nlast € {TOKEN}\n{KEY.text}\nend'
PIECES = [value[at : at + 12] for value in (TOKEN, VALUE, *KEY.parts) for at in range(len(value) - 11)]


def shows(text: str) -> list[str]:
    return [piece for piece in PIECES if piece in text]


@given(st.integers(0, len(WHOLE.encode())), st.integers(0, len(WHOLE.encode())))
def test_no_part_shows_a_secret_that_it_cuts(one: int, other: int) -> None:
    part = RedactedDocument.of(WHOLE.encode()).part(min(one, other), max(one, other))
    assert shows(part) == []


@given(st.integers(1, 9), st.integers(0, 9))
def test_lines_are_those_of_the_whole_text(first: int, more: int) -> None:
    text = RedactedDocument.of(WHOLE.encode())
    lines = text.lines(first, first + more)
    assert shows(lines) == []
    plain = RedactedDocument.of(b"a\nb\n\nc").lines(first, first + more)
    assert plain == "".join("a\nb\n\nc".splitlines(keepends=True)[first - 1 : first + more])
    assert lines.count("\n") == "".join(WHOLE.splitlines(keepends=True)[first - 1 : first + more]).count("\n")


def test_a_part_that_begins_inside_a_key_says_that_it_is_one() -> None:
    text = RedactedDocument.of(WHOLE.encode())
    assert text.lines(7, 8) == "[masked private key]\n\n"
    assert redact_file(WHOLE).count("[masked private key]") == 1


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252"])
def test_bytes_of_any_encoding_are_cut_where_they_are(encoding: str) -> None:
    data = f"é {TOKEN} é\n".encode(encoding)
    at = data.index(b"\n")
    assert RedactedDocument.of(data).part_bytes(0, at) == "é [masked github token] é".encode(encoding)


def test_a_large_text_is_searched_around_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redacted_text, "WHOLE_BYTES_MAX", 1_000)
    filler = "x = 1\n" * AROUND_BYTES
    data = f"{filler}{WHOLE}\n{filler}".encode()
    text = RedactedDocument.of(data)
    start = data.index(b"first")
    for at in range(start, start + len(WHOLE), 7):
        assert shows(text.part(at, at + 40)) == []
    assert text.has_secrets
    assert shows(RedactedDocuments().of(data).text) == []


def test_secrets_are_looked_for_once_for_each_content_and_path(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(data: bytes, path: str = "") -> tuple[redacted_text.HiddenSpan, ...]:
        asked.append(path)
        return find_hidden_spans(data, path)

    monkeypatch.setattr(redacted_text, "find_hidden_spans", counted)
    texts = RedactedDocuments()
    for path in ("a.py", "a.py", "b.env", "a.py"):
        assert shows(texts.of(WHOLE.encode(), path).text) == []
    texts.of(b"other", "a.py")
    assert asked == ["a.py", "b.env", "a.py"]


def test_what_masking_lays_bare_is_masked_at_its_own_place(monkeypatch: pytest.MonkeyPatch) -> None:
    find = redacted_text.find_secrets

    def in_turns(text: str, *args: object, **how: object) -> object:
        """What finds one secret at a time."""
        return find(text, "strict")[:1]

    monkeypatch.setattr(redacted_text, "find_secrets", in_turns)
    data = f"a {TOKEN} b {OTHER} c\nurl = postgres://app:{VALUE}@db/app\n{TOKEN} d".encode()
    text = RedactedDocument.of(data)
    assert (
        text.text
        == f"a [masked github token] b {OTHER} c\nurl = postgres://app:[masked password]@db/app\n[masked github token] d"
    )
    assert (
        text.part(data.index(b"url"), len(data))
        == "url = postgres://app:[masked password]@db/app\n[masked github token] d"
    )


# -- copies -----------------------------------------------------------------------------------------------------------


def test_copies_of_what_was_noted_are_masked_in_every_form_of_a_string() -> None:
    value = f'{VALUE}"\\é'
    with collect_redactions() as noted:
        noted.values[value] = "[masked password]"
        for form in (value, json.dumps(value), json.dumps(value, ensure_ascii=False)):
            assert VALUE not in redact_reply(f"see {form} there").text


def test_a_short_value_is_masked_only_as_a_whole_word() -> None:
    with collect_redactions() as noted:
        noted.values |= {"hunter2": "[masked password]", "a1": "[masked password]", "word": "[masked password]"}
        shown = redact_reply("hunter2 hunter22 (hunter2) a1 word").text
    assert shown == "[masked password] hunter22 ([masked password]) a1 word"


def test_a_part_that_was_searched_is_sent_as_it_is_and_what_is_around_it_is_searched() -> None:
    clean = "x = 1\n" * 500
    with collect_redactions():
        mark_searched(clean)
        reply = redact_reply(f"{TOKEN}\n{clean}{TOKEN} and a copy")
    assert reply.text == f"[masked github token]\n{clean}[masked github token] and a copy"
    assert reply.count == 2


def test_nothing_is_noted_from_one_reply_to_the_next() -> None:
    with collect_redactions():
        RedactedDocument.of(f'api_key = "{VALUE}"'.encode()).text  # noqa: B018 - reading it notes
        assert redact_reply(VALUE).text == "[masked secret]"
    assert redact_reply(VALUE).text == VALUE
    with collect_redactions():
        assert redact_reply(VALUE).text == VALUE
