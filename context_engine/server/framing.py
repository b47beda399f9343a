r"""PURE. Bytes in, JSON-RPC messages out: cut at newlines, read as JSON, refused with an error reply otherwise.

>>> framer = LineFramer(bytes_max=100)
>>> [parse_line(line).message for line in framer.feed(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n\n{"jso')]
[{'jsonrpc': '2.0', 'id': 1, 'method': 'ping'}, None]

A refusal has the id of its message where it has one: a client that waits for a reply gets one.
"""

from __future__ import annotations

import json
from collections import namedtuple

from context_engine.text import ParseError, read_json

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
"""Codes of JSON-RPC 2.0: not JSON; JSON, but not a request, notification or response."""

NAMES_MAX = 20_000
"""The names in all objects of a message: the largest plan has some thousand, and each takes time in later checks."""
ID_CHARS_SHOWN = 100
"""The shown part of the id of a message."""

TOO_LONG = b"\n"
"""The value for a line over the limit; no line contains a newline."""

ParsedLine = namedtuple("ParsedLine", "message error")  # noqa: PYI024 - annotations need `typing`
"""A message as a dict, or the reply that refuses it, or neither for a blank line."""


class LineFramer:
    """Cuts a stream of bytes into lines; one that grows over `bytes_max` is thrown away as it comes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self._bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their newline; `TOO_LONG` for one over the limit."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._add(part)
            lines.append(self.rest())
        self._add(rest)
        return lines

    def rest(self) -> bytes:
        """Return the bytes since the last newline: at the end of the stream, an unfinished line."""
        line = TOO_LONG if self._bytes > self._bytes_max else b"".join(self._parts)
        self._parts, self._bytes = [], 0
        return line

    def _add(self, part: bytes) -> None:
        self._bytes += len(part)
        self._parts = [*self._parts, part] if self._bytes <= self._bytes_max else []


def parse_line(line: bytes, *, bytes_max: int = 0) -> ParsedLine:
    """Parse one line. Bytes that are not UTF-8 become U+FFFD, so that a request still has its id.

    >>> parse_line(b"{").error["error"]["code"], parse_line(b'{"jsonrpc":"2.0","id":7}').error["id"]
    (-32700, 7)
    """
    if line == TOO_LONG:
        return ParsedLine(None, error_reply(INVALID_REQUEST, f"a message has at most {bytes_max:,} bytes"))
    text = line.decode("utf-8", "replace").lstrip("\ufeff")  # some shells begin a pipe with a byte order mark
    if not text.strip():
        return ParsedLine(None, None)
    try:
        message = read_json(text, bytes_max=len(text), names_max=NAMES_MAX)
    except ParseError as error:
        return ParsedLine(None, error_reply(PARSE_ERROR, f"this line cannot be read: {error.reason}"))
    if "\\ud" in text.lower() and not _is_text(json.dumps(message, ensure_ascii=False)):
        return ParsedLine(None, error_reply(INVALID_REQUEST, "half a surrogate pair is not a character", message))
    if trouble := _find_problem(message):
        return ParsedLine(None, error_reply(INVALID_REQUEST, trouble, message))
    return ParsedLine(message, None)


def error_reply(code: int, what: str, message: Any = None) -> dict[str, Any]:
    """Return an error reply, with the id of the refused message if it has one."""
    given = message.get("id") if isinstance(message, dict) else None
    return {"jsonrpc": "2.0", "id": given if _is_id(given) else None, "error": {"code": code, "message": what}}


def duplicate_id_reply(message: dict[str, Any]) -> dict[str, Any]:
    """Return the error reply to a request whose id is in use: two replies could not be distinguished.

    >>> duplicate_id_reply({"jsonrpc": "2.0", "id": 7, "method": "ping"})["error"]["message"]
    'a request with the id 7 is under way: give each request an id of its own'
    """
    shown = json.dumps(message["id"], ensure_ascii=False)[:ID_CHARS_SHOWN]
    text = f"a request with the id {shown} is under way: give each request an id of its own"
    return error_reply(INVALID_REQUEST, text, message)


def _find_problem(message: Any) -> str:
    """Return why a JSON value is not a message; empty when it is one."""
    if isinstance(message, list):
        return "batches are not supported: send each message as a line of its own"
    if not isinstance(message, dict):
        return "a message is a JSON object"
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc must be "2.0"'
    is_reply = "method" not in message
    may_be_null = is_reply and "error" in message  # for a request without a readable id
    if "id" in message and not _is_id(message["id"]) and not (may_be_null and message["id"] is None):
        return "id must be a text or a whole number"
    if is_reply:
        return "" if "result" in message or "error" in message else "method is missing"
    if not isinstance(message["method"], str):
        return "method must be a text"
    if not isinstance(message.get("params"), dict | None):
        return "params must be an object"
    return ""


def _is_id(value: Any) -> bool:
    """Return whether a value is a text or a whole number; true is neither."""
    if isinstance(value, str):
        return _is_text(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: str) -> bool:
    """Return whether every character can be written as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
