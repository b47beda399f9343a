"""Calls of tools by name, as every test of tools makes them."""

from __future__ import annotations

import json
from typing import Any

from context_engine import tools
from context_engine.tools import Call


def text(engine: Any, name: str, call: Call | None = None, /, **arguments: Any) -> str:
    """The text of a reply, which is no error and within the limit."""
    reply = tools.call(engine, name, arguments, call)
    assert not reply.is_error
    assert len(reply.text) <= engine.settings.result_chars_max
    return reply.text


def told(engine: Any, name: str, /, **arguments: Any) -> Any:
    """The JSON of a reply."""
    return json.loads(text(engine, name, **arguments))
