"""Lines: bytes in, messages out; what is none is refused with a reply, and nothing that comes over a pipe can do harm."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from context_engine.server.framing import INVALID_REQUEST, PARSE_ERROR, TOO_LONG, LineFramer, parse_line

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ANY_JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=4),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(some.binary(max_size=60), some.lists(some.integers(0, 60), max_size=6))
def test_lines_are_the_same_however_the_pipe_cuts_them(stream: bytes, cuts: list[int]) -> None:
    cutter = LineFramer(bytes_max=1_000)
    edges = sorted({0, *cuts, len(stream)})
    lines = [line for start, stop in pairwise(edges) for line in cutter.feed(stream[start:stop])]
    assert [*lines, cutter.rest()] == stream.split(b"\n")


@given(some.integers(1, 9), some.integers(1, 40), some.integers(1, 9))
def test_a_line_over_the_limit_is_not_kept_and_the_next_one_is_heard(most: int, over: int, step: int) -> None:
    cutter = LineFramer(bytes_max=most)
    stream = b"x" * (most + over) + b"\nok"[: most + 1] + b"\n"
    lines: list[bytes] = []
    for start in range(0, len(stream), step):
        lines += cutter.feed(stream[start : start + step])
        assert sum(map(len, cutter._parts)) <= most
    assert lines == [TOO_LONG, b"ok"[:most]]


@pytest.mark.parametrize("ending", ["", "\r", " \t"])
@pytest.mark.parametrize("beginning", ["", "\ufeff", "  "])
def test_a_message_is_heard_whatever_white_stands_around_it(beginning: str, ending: str) -> None:
    assert parse_line(f"{beginning}{json.dumps(PING)}{ending}".encode()).message == PING


@pytest.mark.parametrize("line", [b"", b"\r", b"   ", b"\xef\xbb\xbf"])
def test_a_blank_line_says_nothing(line: bytes) -> None:
    assert parse_line(line) == (None, None)


def test_half_a_character_is_refused_by_the_id_of_its_request() -> None:
    message, refused = parse_line(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"half":"\\ud83d"}}')
    assert message is None
    assert (refused["id"], refused["error"]["code"]) == (7, INVALID_REQUEST)
    assert parse_line(b'{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}').error["id"] is None
    assert parse_line(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"whole":"\\ud83d\\ude00"}}').message


@pytest.mark.parametrize(
    "line",
    [
        *(b"{", b"nonsense", b"\x00", b"{'a': 1}", b'{"jsonrpc":"2.0","id":1,"method":"ping"', b'{"a":NaN}'),
        *(b'{"a":Infinity}', b"[" * 100_000, b'{"id":' + b"9" * 5_000 + b"}", b"\xff\xfe{\x00"),
    ],
)
def test_what_is_no_json_is_a_parse_error_with_a_null_id(line: bytes) -> None:
    message, refused = parse_line(line)
    assert message is None
    assert (refused["id"], refused["error"]["code"]) == (None, PARSE_ERROR)
    json.dumps(refused, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("message", "reply_id", "word"),
    [
        ([PING, PING], None, "batches"),
        ([], None, "batches"),
        (7, None, "object"),
        ({"id": 7, "method": "ping"}, 7, "2.0"),
        ({**PING, "jsonrpc": "1.0", "id": "x"}, "x", "2.0"),
        ({"jsonrpc": "2.0", "id": 7}, 7, "method"),
        ({"jsonrpc": "2.0"}, None, "method"),
        ({**PING, "method": 5}, 1, "method"),
        ({**PING, "params": [1]}, 1, "params"),
        ({**PING, "id": None}, None, "id"),
        ({**PING, "id": True}, None, "id"),
        ({**PING, "id": 1.5}, None, "id"),
        ({**PING, "id": {}}, None, "id"),
        ({**PING, "id": None, "error": {}}, None, "id"),
        ({"jsonrpc": "2.0", "id": {"a": 1}, "error": {}}, None, "id"),
        ({"jsonrpc": "2.0", "id": [], "result": {}}, None, "id"),
    ],
)
def test_json_that_is_no_message_is_refused_by_its_id_where_it_has_one(message: Any, reply_id: Any, word: str) -> None:
    heard_of = parse_line(json.dumps(message).encode())
    assert heard_of.message is None
    assert (heard_of.error["id"], heard_of.error["error"]["code"]) == (reply_id, INVALID_REQUEST)
    assert word in heard_of.error["error"]["message"]


@pytest.mark.parametrize(
    "message",
    [
        PING,
        {**PING, "id": "text"},
        {**PING, "id": 0, "params": {}},
        {**PING, "params": None},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "?"}},
    ],
)
def test_every_kind_of_message_is_heard_as_it_was_said(message: dict[str, Any]) -> None:
    assert parse_line(json.dumps(message).encode()) == (message, None)


def test_bytes_that_are_no_utf_8_do_not_cost_a_request_its_reply() -> None:
    message = parse_line(b'{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"caf\xe9"}}').message
    assert (message["id"], message["params"]["name"]) == (4, "caf\ufffd")


@given(ANY_JSON)
def test_any_json_is_a_message_or_is_refused_never_both_never_neither(value: Any) -> None:
    message, refused = parse_line(json.dumps(value).encode())
    assert (message is None) != (refused is None)
