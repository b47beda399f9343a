r"""PURE. The parts of a request: which characters are the client's own, and which are there because of a context tool.

>>> body = {"system": "Be brief.", "tools": [{"name": "Read"}, {"name": "mcp__ctx__read"}], "messages": ["All code."]}
>>> measure_parts(body, [("reads", "All code.")], "", "")
{'list': 25, 'instructions': 0, 'guidance': 0, 'hooks': 0, 'replies': 0, 'reads': 9, 'client': 33}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

PARTS = ("list", "instructions", "guidance", "hooks", "replies", "reads", "client")
"""The listed tools of the context server, its instructions, the guidance, what hooks added, the replies of its tools,
what the agent searched and read by itself, and all the rest: system prompt and tools of the client, the task, the calls."""
REQUEST_KEYS = ("system", "instructions", "systemInstruction", "messages", "input", "contents", "tools")
"""The fields of a request that a model reads, in any client."""
SERVERS = ("ctx", "peer")
INSTRUCTIONS_BEGIN = 30
"""Characters by which the instructions are found: clients cut them at different lengths."""
_HOOK_BEGIN = re.compile(
    r"ctx on this request|To find code, ask |ctx on these matches:|ctx on this edit of|ctx: for this request most likely"
)
_HOOK_END = re.compile(r"</system-reminder>|</hook_context>|\n\n# Environment\n|\Z")


def measure_parts(
    body: Mapping[str, Any], results: Iterable[tuple[str, str]], instructions: str, guidance: str
) -> dict[str, int]:
    """Return the characters of each part. `results` are the part and the text of each result of a tool."""
    sizes = dict.fromkeys(PARTS, 0)
    for part, text in results:
        sizes[part] += _size(text) - _size("") - _count_hooks(text)
    tools = body.get("tools", [])
    described = sum(_count_common(text, instructions) for text in _list_texts(tools))
    sizes["list"] = sum(_size(tool) for name, tool in _list_tools(tools) if _is_of_server(name)) - described
    for text in _list_texts([body[key] for key in REQUEST_KEYS if key in body]):
        sizes["instructions"] += _count_common(text, instructions)
        sizes["guidance"] += len(guidance) if guidance and guidance in text else 0
        sizes["hooks"] += _count_hooks(text)
    sizes["client"] = count_visible_chars(body) - sum(sizes.values())
    return sizes


def count_visible_chars(body: Mapping[str, Any]) -> int:
    """Return the size of what a model reads of a request: instructions, conversation and tools, as compact JSON."""
    return sum(_size(body[key]) for key in REQUEST_KEYS if key in body)


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _is_of_server(name: str) -> bool:
    return any(server in re.split(r"[^a-z]+", name) for server in SERVERS)


def _list_tools(tools: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the object of each tool, in the four forms in which clients send them."""
    for tool in tools:
        if "functionDeclarations" in tool:
            yield from _list_tools(tool["functionDeclarations"])
        else:
            yield tool.get("function", tool).get("name", ""), tool


def _list_texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _list_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_texts(inner)


def _count_common(text: str, instructions: str) -> int:
    """Return how many characters of the instructions a text has, from their beginning."""
    at = text.find(instructions[:INSTRUCTIONS_BEGIN]) if instructions else -1
    if at < 0:
        return 0
    there = text[at : at + len(instructions)]
    return next(
        (n for n, (has, wants) in enumerate(zip(there, instructions, strict=False)) if has != wants), len(there)
    )


def _count_hooks(text: str) -> int:
    """Return how many characters of a text hooks have added: from the words they begin with to the end of their block."""
    count = end = 0
    for begin in _HOOK_BEGIN.finditer(text):
        if begin.start() < end:
            continue
        stop = _HOOK_END.search(text, begin.start())
        end = stop.start() if stop else len(text)
        count += end - begin.start()
    return count
