r"""PURE.

What a prompt names: paths, symbols, errors, addresses, commands and the lines of a stack trace, as they are written.

Nothing is looked up here. What looks like a name of code only by its capitals ("GitHub") is not `certain`: if nobody
defines it, nobody is told.

>>> [(each.text, each.kind, each.line) for each in parse_mentions("Why does `login()` fail at src/auth.py:12 with a KeyError?")]
[('login()', 'symbol', 0), ('src/auth.py:12', 'path', 12), ('KeyError', 'error', 0)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

MentionKind = Literal["path", "symbol", "error", "url", "command"]

MENTIONS_MAX = 24
"""A prompt that names more is a listing; the first ones say what it is about."""
FOUND_MAX = 200
"""Mentions looked at; many of them name the same."""
NAME_CHARS_MAX = 200


class Mention(NamedTuple):
    """Something a prompt names: as it is written, what it means (`name`), and the line it gives; 0 for none."""

    text: str
    kind: MentionKind
    name: str
    line: int = 0
    certain: bool = True


class _Found(NamedTuple):
    start: int
    stop: int
    mention: Mention


def parse_mentions(prompt: str) -> list[Mention]:
    """Everything that is named, each once, in the order of the text.

    Of two readings of the same words the first one holds.
    """
    taken: list[_Found] = []
    for find in (_urls, _frames, _commands, _paths, _errors, _symbols):
        for found in find(prompt):
            fits = len(taken) < FOUND_MAX and len(found.mention.name) <= NAME_CHARS_MAX
            if fits and not any(_overlap(found, other) for other in taken):
                taken.append(found)
    fences = [match.span() for match in _FENCE.finditer(prompt)]
    named: dict[tuple[str, str, int], Mention] = {}
    for found in sorted(_doubted(each, fences) for each in taken):
        known = named.setdefault(found.mention[1:4], found.mention)
        if found.mention.certain and not known.certain:
            named[found.mention[1:4]] = found.mention
    return list(named.values())[:MENTIONS_MAX]


_FENCE = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.MULTILINE | re.DOTALL)


def _doubted(found: _Found, fences: list[tuple[int, int]]) -> _Found:
    """Names inside a code fence may be anybody's: nobody is told that they are missing."""
    inside = any(start <= found.start < stop for start, stop in fences)
    return found._replace(mention=found.mention._replace(certain=False)) if inside else found


def _overlap(one: _Found, other: _Found) -> bool:
    return one.start < other.stop and other.start < one.stop


# -- addresses and commands -------------------------------------------------------------------------------------------

_URL = re.compile(r"https?://[^\s<>\"'`]+")


def _urls(prompt: str) -> Iterator[_Found]:
    for match in _URL.finditer(prompt):
        address = match.group().rstrip(".,;:!?)]}*")
        yield _Found(match.start(), match.start() + len(address), Mention(address, "url", address))


_STARTERS = frozenset(
    "pytest tox nox python python3 uv poetry pip npm npx pnpm yarn bun deno node make just task cargo go composer php "
    "phpunit gradle ./gradlew mvn ./mvnw dotnet mix bundle rake rspec swift flutter dart ruff mypy eslint tsc docker git".split()
)
_INLINE = re.compile(r"(?<!`)`([^`\n]{2,160})`(?!`)")
_SHELL = re.compile(r"^[ \t]*\$ +(?P<command>\S[^\n]{0,159})$", re.MULTILINE)


def _commands(prompt: str) -> Iterator[_Found]:
    """What stands in code marks and begins with a tool, and lines after a dollar sign."""
    for match in _INLINE.finditer(prompt):
        first, _, rest = match[1].strip().partition(" ")
        if first in _STARTERS and (rest or first in ("pytest", "tox", "nox")):
            yield _Found(match.start(1), match.end(1), Mention(match[1], "command", match[1].strip()))
    for match in _SHELL.finditer(prompt):
        yield _Found(*match.span("command"), Mention(match["command"], "command", match["command"].strip()))


# -- paths and stack traces -------------------------------------------------------------------------------------------

_FRAMES = (
    re.compile(r'File "(?P<path>[^"\n]+)", line (?P<line>\d+)'),  # Python
    re.compile(
        r"\bat [^\n(]{0,200}\((?:file://)?(?P<path>[^()\s:]*[/\\.][^()\s:]*):(?P<line>\d+)(?::\d+)?\)"
    ),  # JS, Java
    re.compile(r"\bin (?P<path>\S+\.\w+):line (?P<line>\d+)"),  # C#
    re.compile(r"(?<!\S)(?P<path>/?[^\s()]{1,300}\.php)\((?P<line>\d+)\)"),  # PHP
    re.compile(r"\bin (?P<path>/?[^\s:]+\.php)(?: on line |:)(?P<line>\d+)"),
    re.compile(r"--> (?P<path>[^\s:]+):(?P<line>\d+):\d+"),  # Rust
)


def _frames(prompt: str) -> Iterator[_Found]:
    for pattern in _FRAMES:
        for match in pattern.finditer(prompt):
            yield _Found(
                *match.span(), Mention(match.group().strip(), "path", _clean(match["path"]), int(match["line"]))
            )


SUFFIXES = frozenset(
    "py pyi js mjs cjs jsx ts mts cts tsx vue svelte go rs java kt kts scala rb php cs fs vb c h cc cpp hpp cxx m mm swift "
    "dart lua ex exs erl hs clj cljs ml pl r jl zig nim sh bash ps1 sql html css scss less md rst txt json yaml yml toml ini "
    "cfg conf xml gradle proto graphql tf lock j2 twig erb ipynb".split()
)
_PATH = re.compile(
    r"(?<![\w/.\\@-])(?P<path>(?:\.{0,2}[/\\])?(?:[\w.@+~\[\]-]+[/\\])*[\w@+~\[\]-][\w.@+~\[\]-]*)"
    r"(?::(?P<line>\d{1,7})(?::\d+)?|#L(?P<anchor>\d{1,7})(?:-L?\d+)?)?(?![\w/\\(])"
)


def _paths(prompt: str) -> Iterator[_Found]:
    """Words that end like a file; a bare `Node.js` may be the name of something else."""
    for match in _PATH.finditer(prompt):
        path = _clean(match["path"])
        folder, _, name = path.rpartition("/")
        _, dot, suffix = name.rpartition(".")
        line = int(match["line"] or match["anchor"] or 0)
        if dot and suffix.lower() in SUFFIXES and any(map(str.isalpha, name.removesuffix(f".{suffix}"))):
            text = match.group().rstrip(".")
            certain = bool(folder or line or "_" in name or _is_marked(prompt, match.start(), match.end()))
            yield _Found(match.start(), match.start() + len(text), Mention(text, "path", path, line, certain))


def _clean(path: str) -> str:
    """With slashes, without what points at the folder itself."""
    return path.replace("\\", "/").removeprefix("./").rstrip(".")


# -- errors and symbols -----------------------------------------------------------------------------------------------

_ERROR = re.compile(r"\b[A-Z]\w{1,80}(?:Error|Exception)\b")
_SYMBOL = re.compile(
    r"(?<![\w./@$-])(?P<name>[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*)(?P<call>\(\))?(?![\w/-])"
)
_HUMPS = re.compile(r"[a-z0-9][A-Z]")
_ABBREVIATIONS = frozenset(("e.g", "i.e", "a.k.a", "etc", "vs"))


def _errors(prompt: str) -> Iterator[_Found]:
    for match in _ERROR.finditer(prompt):
        marked = _is_marked(prompt, match.start(), match.end())
        yield _Found(*match.span(), Mention(match.group(), "error", match.group(), certain=marked))


def _symbols(prompt: str) -> Iterator[_Found]:
    """Names in code marks, names that are called, names that no language of people would spell so."""
    for match in _SYMBOL.finditer(prompt):
        name, called = match["name"], bool(match["call"])
        if name.lower() in _ABBREVIATIONS or len(name.strip("_$")) < 2:
            continue
        marked = _is_marked(prompt, match.start(), match.end())
        joined = any(mark in name for mark in ("::", "#", "->")) or "_" in name.strip("_")
        if marked or called or joined or _HUMPS.search(name):
            mention = Mention(match.group(), "symbol", name.replace("->", "."), certain=marked or joined)
            yield _Found(*match.span(), mention)


def _is_marked(prompt: str, start: int, stop: int) -> bool:
    """Whether code marks stand directly around a word."""
    return prompt[max(0, start - 1) : start] == "`" and prompt[stop : stop + 1] == "`"
