r"""PURE. Parses a prompt: the paths, symbols, errors, URLs, commands and stack frames it names, and what it asks for.

Nothing is looked up here. A name that only its capitals mark as code ("GitHub") is not `certain`: no error is reported
if it is not defined. Items and objective are the words of the prompt itself.

>>> prompt = "Why does `login()` fail at src/auth.py:12 with a KeyError?"
>>> [(mention.text, mention.kind, mention.line) for mention in parse_mentions(prompt)]
[('login()', 'symbol', 0), ('src/auth.py:12', 'path', 12), ('KeyError', 'error', 0)]
>>> extract_items("Do this:\n1. rename `foo`\n- [ ] update the docs"), extract_objective("Login is slow. Fix it.")
(['rename `foo`', 'update the docs'], 'Login is slow.')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from context_engine.search import drop_lead_in, find_paths
from context_engine.text import shorten_prose

MentionKind = Literal["path", "symbol", "error", "url", "command"]

MENTIONS_MAX = 24
"""A prompt that names more is a listing; the first names show what it is about."""
FOUND_MAX = 200
"""Most candidates that are examined; many of them are the same name."""
NAME_CHARS_MAX = 200
ITEMS_MAX = 8
ITEM_CHARS_MAX = 160
OBJECTIVE_CHARS_MAX = 200


class Mention(NamedTuple):
    """Something that a prompt names: its text, the `name` it means, and the line it gives (0 for none).

    `function`: the name of the function that a stack frame gives with the line.
    """

    text: str
    kind: MentionKind
    name: str
    line: int = 0
    certain: bool = True
    function: str = ""


class _FoundMention(NamedTuple):
    start: int
    stop: int
    mention: Mention

    def overlaps(self, other: _FoundMention) -> bool:
        return self.start < other.stop and other.start < self.stop


def parse_mentions(prompt: str) -> list[Mention]:
    """Return everything that a prompt names, once each, in its order. Of two readings of the same words one wins."""
    found: list[_FoundMention] = []
    for find in (_find_urls, _find_commands, _find_paths, _find_errors, _find_symbols):
        for candidate in find(prompt):
            fits = len(found) < FOUND_MAX and len(candidate.mention.name) <= NAME_CHARS_MAX
            if fits and not any(candidate.overlaps(other) for other in found):
                found.append(candidate)
    fences = [match.span() for match in _OPEN_FENCE.finditer(prompt)]
    mentions: dict[tuple[str, str, int], Mention] = {}
    for candidate in sorted(_doubt_in_fences(candidate, fences) for candidate in found):
        mention = candidate.mention
        key = mention.kind, mention.name, mention.line
        known = mentions.setdefault(key, mention)
        if mention.certain and not known.certain:
            mentions[key] = mention
    return list(mentions.values())[:MENTIONS_MAX]


_OPEN_FENCE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)


def _doubt_in_fences(found: _FoundMention, fences: list[tuple[int, int]]) -> _FoundMention:
    """Return a mention as uncertain if it is in a code fence: the code may be from anywhere."""
    if any(start <= found.start < stop for start, stop in fences):
        return found._replace(mention=found.mention._replace(certain=False))
    return found


# -- URLs and commands ------------------------------------------------------------------------------------------------

_URL = re.compile(r"https?://[^\s<>\"'`]+")


def _find_urls(prompt: str) -> Iterator[_FoundMention]:
    for match in _URL.finditer(prompt):
        url = match.group().rstrip(".,;:!?)]}*")
        yield _FoundMention(match.start(), match.start() + len(url), Mention(url, "url", url))


_PROGRAMS = frozenset(
    "pytest tox nox python python3 uv poetry pip npm npx pnpm yarn bun deno node make just task cargo go composer php "
    "phpunit gradle ./gradlew mvn ./mvnw dotnet mix bundle rake rspec swift flutter dart ruff mypy eslint tsc docker "
    "git".split()
)
_ALONE = ("pytest", "tox", "nox")
"""Programs that are a command without arguments."""
_INLINE = re.compile(r"(?<!`)`([^`\n]{2,160})`(?!`)")
_SHELL = re.compile(r"^[ \t]*\$ +(?P<command>\S[^\n]{0,159})$", re.MULTILINE)


def _find_commands(prompt: str) -> Iterator[_FoundMention]:
    """Find inline code that begins with a program, and lines after a dollar sign."""
    for match in _INLINE.finditer(prompt):
        command = match[1].strip()
        first, _, rest = command.partition(" ")
        if first in _PROGRAMS and (rest or first in _ALONE):
            yield _FoundMention(match.start(1), match.end(1), Mention(match[1], "command", command))
    for match in _SHELL.finditer(prompt):
        mention = Mention(match["command"], "command", match["command"].strip())
        yield _FoundMention(*match.span("command"), mention)


# -- paths and stack frames -------------------------------------------------------------------------------------------


def _find_paths(prompt: str) -> Iterator[_FoundMention]:
    """Find paths and frames; a bare `Node.js` may be something else, and is not certain."""
    for found in find_paths(prompt):
        text = prompt[found.start : found.stop]
        is_quoted = _is_inline_code(prompt, found.start, found.stop)
        certain = bool("/" in found.path or found.line or "_" in found.path or is_quoted)
        yield _FoundMention(
            found.start, found.stop, Mention(text, "path", found.path, found.line, certain, found.function)
        )


# -- errors and symbols -----------------------------------------------------------------------------------------------

_ERROR = re.compile(r"\b[A-Z]\w{1,80}(?:Error|Exception)\b")
_SYMBOL = re.compile(
    r"(?<![\w./@$-])(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*)(?P<call>\(\))?(?![\w/-])"
)
_CAMEL_CASE = re.compile(r"[a-z0-9][A-Z]")
_ABBREVIATIONS = frozenset(("e.g", "i.e", "a.k.a", "etc", "vs"))


def _find_errors(prompt: str) -> Iterator[_FoundMention]:
    for match in _ERROR.finditer(prompt):
        certain = _is_inline_code(prompt, *match.span())
        yield _FoundMention(*match.span(), Mention(match.group(), "error", match.group(), certain=certain))


def _find_symbols(prompt: str) -> Iterator[_FoundMention]:
    """Find names in backticks, names that are called, and names that no natural language spells like that."""
    for match in _SYMBOL.finditer(prompt):
        name, is_call = match["name"], bool(match["call"])
        if name.lower() in _ABBREVIATIONS or len(name.strip("_$")) < 2:
            continue
        is_code = _is_inline_code(prompt, *match.span())
        is_joined = any(mark in name for mark in ("::", "#", "->")) or "_" in name.strip("_")
        if is_code or is_call or is_joined or _CAMEL_CASE.search(name):
            mention = Mention(match.group(), "symbol", name.replace("->", "."), certain=is_code or is_joined)
            yield _FoundMention(*match.span(), mention)


def _is_inline_code(prompt: str, start: int, stop: int) -> bool:
    """Return whether a part of a prompt is directly between backticks."""
    return prompt[max(0, start - 1) : start] == "`" and prompt[stop : stop + 1] == "`"


# -- what the prompt asks for -----------------------------------------------------------------------------------------

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"^[ \t]*(?:[-*+\u2022]|\d{1,2}[.)])[ \t]+(?:\[[ xX]?\][ \t]+)?(\S[^\n]*)", re.MULTILINE)


def extract_items(prompt: str) -> list[str]:
    """Return the items of the lists of a prompt, outside code fences."""
    items = (match[1].rstrip() for match in _ITEM.finditer(_FENCE.sub("\n", prompt)))
    return list(dict.fromkeys(shorten_prose(item, ITEM_CHARS_MAX) for item in items))[:ITEMS_MAX]


def extract_objective(prompt: str) -> str:
    """Return the first sentence."""
    text = _FENCE.sub("\n", drop_lead_in(prompt)).strip()
    first = re.split(r"(?<=[.!?])\s|\n", text, maxsplit=1)[0].strip()
    return shorten_prose(first, OBJECTIVE_CHARS_MAX)
