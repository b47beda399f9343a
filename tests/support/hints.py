"""The hints of replies and errors, read as the calls that an agent makes of them.

`watch_hints` looks at every call of a tool in a test run: each argument that a hint names must be one that the listed
schema has, with a value that it takes, because a strict client sends no other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from context_engine import tools
from context_engine.errors import ContextEngineError
from context_engine.tools import Call, Reply, Tool, to_snake_case
from context_engine.tools.edit_arguments import EDIT_OPTIONS

KNOWN = {*tools.list_names(), "repeat"}
NOT_FOLLOWED: list[str] = []
"""What was wrong with hints since the last look."""
_LINE = re.compile(r"^next: .*|^… .*", re.MULTILINE)
_TOOL = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b|\brepeat\b|\b(?:read|symbols|explain|history|scout|trace)(?= with | of )")
_VALUE = re.compile(r"""(?<!\.)\b([a-z]\w+)(?:: |=)(true|false|\d+\b|"[^"]*"|\[[^\]]*\])""")
_NAMED = re.compile(
    r"\b(?:raise|lower|leave|pass|larger|narrow with|with a|with|again with)"
    r" (?:the )?`?(\w+)`?(?:(?:,| or| and|, or) `?(\w+)`?)?(?: out)?"
)


def find_hints(text: str) -> Iterator[str]:
    """Yield what a reply says about further calls: the fields `next` and `suggestion`, and lines of what is left."""
    try:
        yield from _find_fields(json.loads(text))
    except ValueError:
        yield from (line.removeprefix("next: ") for line in _LINE.findall(text))


def _find_fields(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in ("next", "suggestion") and isinstance(inner, str):
                yield inner
            else:
                yield from _find_fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _find_fields(inner)


def find_problems(hint: str, called: Tool, sent: Any) -> Iterator[str]:
    """Yield the arguments of a hint that a client cannot send: to the tool named before them, or to the one called.

    What the client sent itself, it can send.
    """
    sent = {to_snake_case(str(name)) for name in sent} if isinstance(sent, Mapping) else set()
    own = [(0, called)]
    names = [(match.start(), match[0]) for match in _TOOL.finditer(hint)]
    own += [(at, called if name == "repeat" else tools.find(name)) for at, name in names if name in KNOWN]
    for match in _VALUE.finditer(hint):
        tool = [tool for start, tool in own if start <= match.start()][-1]
        schema = tool.list_schema()["properties"].get(match[1])
        if match[1] in sent or tool.name == "call_tool":  # which takes the arguments of any tool
            continue
        if schema is None:
            yield f"{tool.name} lists no {match[1]}: {hint}"
        elif not Draft202012Validator(schema).is_valid(json.loads(match[2])):
            yield f"{tool.name} does not take {match[0]}: {hint}"
    for match in _NAMED.finditer(hint):
        tool = [tool for start, tool in own if start <= match.start()][-1]
        known = {name for parameter in tool.parameters for name in (parameter.name, *parameter.older)}
        for name in filter(None, match.groups()):
            is_argument = to_snake_case(name) not in sent and (
                name in known or "_" in name or any(map(str.isupper, name))
            )
            listed = tool.list_schema()["properties"]
            of_edits = EDIT_OPTIONS if "edits" in listed else ()  # the schema of an edit is open
            is_listed = tool.name == "call_tool" or name in (*tools.list_names(), *listed, *of_edits)
            if is_argument and not is_listed:
                yield f"{tool.name} lists no {name}: {hint}"


def watch_hints() -> None:
    """Look at the hints of every call from now on."""
    call_tool = Tool.call

    def call(tool: Tool, engine: Any, arguments: Any, context: Call) -> Reply:
        try:
            reply = call_tool(tool, engine, arguments, context)
        except ContextEngineError as error:
            NOT_FOLLOWED.extend(find_problems(error.suggestion, tool, arguments))
            raise
        for hint in find_hints(reply.text):
            NOT_FOLLOWED.extend(find_problems(hint, tool, arguments))
        return reply

    Tool.call = call  # ty: ignore[invalid-assignment] - for this process
