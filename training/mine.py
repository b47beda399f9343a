"""From packages to pairs: what somebody wrote about a piece of code, and that piece of code without it.

    python training/mine.py    reads the fetched packages, writes build/training/pairs.jsonl, the same bytes each time

Three kinds: `doc` (first sentence of a doc comment -> the function or type), `inline` (a comment inside a function ->
the lines that follow it), `file` (first sentence of a file's introduction -> its path and the names it defines).
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from context_engine.languages import Grammars, Language, Languages, Symbol, outline_file, read_file_header
from training.sources import BUILD, Package, fetch, files, listed, pinned

PAIRS = BUILD / "pairs.jsonl"
LANGUAGES = ("python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp", "ruby", "php")

PACKAGE_PAIRS_MAX = 1_200
"""One package must not decide what words mean: the largest would otherwise give a fifth of all pairs."""
FILE_PAIRS_MAX = 25
INLINE_SHARE = 3
"""At most one inline comment for so many doc comments: they are noisier."""
QUERY_USES_MAX = 3
"""So often may the same sentence stand for different code ("Returns the value.")."""
CODE_CHARS_MAX = 1_500  # the size of a chunk
QUERY_WORDS = range(3, 41)
INLINE_LINES_MAX = 12
CODE_KINDS = frozenset(
    {"function", "method", "constructor", "class", "interface", "struct", "enum", "trait", "macro", "type"}
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and the code it is about. `code` begins with the prefix that the engine puts before chunks."""

    package: str
    language: str
    path: str
    kind: str
    query: str
    code: str
    held_out: bool = False


# -- one file -----------------------------------------------------------------------------------------------------


def pairs_of(package: Package, path: str, data: bytes, language: Language, grammars: Grammars) -> list[Pair]:
    """The pairs of one file, in file order, the introduction first. Never raises: a broken file gives fewer."""
    symbols = list(outline_file(language, data, grammars, details=True).symbols)
    names = qualified(symbols)
    made = [("file", read_file_header(language, data), f"{path} | {' '.join(symbol.name for symbol in symbols[:40])}")]
    for symbol, name in zip(symbols, names, strict=True):
        if symbol.kind in CODE_KINDS:
            prefix = f"{path} | {name} | {symbol.signature}"
            text = data[symbol.start : symbol.stop].decode("utf-8", "replace")
            made.append(("doc", symbol.doc, f"{prefix}\n{without(symbol.doc, text)[:CODE_CHARS_MAX]}"))
            if symbol.kind in {"function", "method", "constructor"}:
                marks = language.comments.line
                made += [("inline", said, f"{prefix}\n{code}") for said, code in inline_comments(text, marks)]
    told = ((kind, sentence(text), code) for kind, text, code in made)
    return [
        Pair(package.title, language.name, path, kind, query, code, package.held_out)
        for kind, query, code in told
        if is_telling(query)
    ]


def qualified(symbols: list[Symbol]) -> list[str]:
    """The dotted name of each symbol, its parents or its owner before it."""
    names: list[str] = []
    for symbol in symbols:
        above = names[symbol.parent] if symbol.parent >= 0 else symbol.owner
        names.append(f"{above}.{symbol.name}" if above else symbol.name)
    return names


def without(doc: str, code: str) -> str:
    r'''The code less its docstring.

    >>> without("Adds.", 'def add(a, b):\n    """Adds."""\n    return a + b')
    'def add(a, b):\n    return a + b'
    '''
    first = doc.partition("\n")[0]
    if not first or first not in code:
        return code
    return re.sub(rf"[ \t]*\w?(\"\"\"|'''|\"|')\s*{re.escape(first)}.*?\1[ \t]*\n?", "", code, count=1, flags=re.DOTALL)


def inline_comments(code: str, marks: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    r"""(comment, lines after it up to the next blank line) for the comments that stand on lines of their own.

    >>> list(inline_comments("f() {\n  // count what is left\n  n = left(m);\n\n  g();\n}", ("//",)))
    [('count what is left', '  n = left(m);')]
    """
    lines = code.split("\n")
    row = 1
    while marks and row < len(lines):
        start = row
        while row < len(lines) and lines[row].lstrip().startswith(marks):
            row += 1
        if row == start:
            row += 1
            continue
        said = " ".join(line.strip().lstrip("".join(marks)).strip() for line in lines[start:row])
        stop = row
        while stop < min(row + INLINE_LINES_MAX, len(lines)) and lines[stop].strip():
            stop += 1
        if stop > row:
            yield said, "\n".join(lines[row:stop])


# -- sentences ----------------------------------------------------------------------------------------------------

_MARKUP = re.compile(
    r"\{@\w+\s+([^}]*)\}|</?[a-zA-Z][^>]{0,80}>|:[a-z:]+:`~?([^`<]*)[^`]*`|\[([^\]]*)\]\([^)]*\)|[`*]+"
)
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`(\[])|\n\s*\n|\n\s*[@:\\-]|\n\s*#|\s@\w")
_TALK = re.compile(
    r"\b(todo|fixme|xxx|copyright|licen[cs]e|eslint|noqa|pylint|nolint|inheritdoc|spdx|deprecated|https?:)|[;={}]|-->|<<|>>",
    re.IGNORECASE,
)


def sentence(doc: str) -> str:
    r"""The first sentence of a comment, without its markup, on one line.

    >>> sentence("Parses a {@link Url} and\nkeeps `it`. Then more.\n\n@param x")
    'Parses a Url and keeps it.'
    """
    plain = _MARKUP.sub(lambda found: found[1] or found[2] or found[3] or "", doc)
    return " ".join(_END.split(plain.strip(), maxsplit=1)[0].split())


def is_telling(query: str) -> bool:
    """Whether a sentence says something a person might ask for: words, not code, legal talk or a chore."""
    words = re.findall(r"[A-Za-z]{2,}", query)
    return (
        len(words) in QUERY_WORDS
        and sum(map(len, words)) * 2 > len(query.replace(" ", ""))
        and query.isascii()
        and not _TALK.search(query)
    )


# -- many files ---------------------------------------------------------------------------------------------------


def mined(
    package: Package, sources: Iterable[tuple[str, bytes]], languages: Languages, grammars: Grammars
) -> list[Pair]:
    """The pairs of one package, at most `PACKAGE_PAIRS_MAX`, from files in an order that no alphabet decides."""
    found: list[Pair] = []
    inline = 0
    for path, data in sorted(sources, key=lambda each: sha256(each[0].encode()).digest()):
        language = languages.detect(path)
        if language is None or language.name not in LANGUAGES:
            continue
        try:
            pairs = pairs_of(package, path, data, language, grammars)[:FILE_PAIRS_MAX]
        except IndexError:  # an outline that breaks its promise is told, and costs one file
            print(f"{package.title}: {path} has no outline")
            continue
        for pair in pairs:
            if pair.kind == "inline":
                if inline * INLINE_SHARE >= len(found):
                    continue
                inline += 1
            found.append(pair)
        if len(found) >= PACKAGE_PAIRS_MAX:
            break
    return found[:PACKAGE_PAIRS_MAX]


def plain(text: str) -> str:
    """Letters only, lower case: what two copies of a text share.

    >>> plain("Int x1 = f(y);")
    'intxfy'
    """
    return re.sub(r"[^a-z]", "", text.lower())


def sketch(code: str) -> tuple[int, ...]:
    """What two nearly equal codes share: the three smallest hashes of their runs of five words, prefix left out."""
    words = re.findall(r"[a-z]+", code.partition("\n")[2].lower())
    runs = {zlib.crc32(" ".join(words[at : at + 5]).encode()) for at in range(max(1, len(words) - 4))}
    return tuple(sorted(runs)[:3])


def distinct(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs without copies: no code nearly twice for one kind, no sentence more than `QUERY_USES_MAX` times."""
    seen: set[tuple[int, ...] | str] = set()
    uses: Counter[str] = Counter()
    kept = []
    for pair in pairs:
        key = sketch(pair.code) if pair.kind == "doc" else plain(pair.query) + plain(pair.code)
        asked = plain(pair.query)
        if key in seen or uses[asked] >= QUERY_USES_MAX:
            continue
        seen.add(key)
        uses[asked] += 1
        kept.append(pair)
    return kept


def mine_all(packages: list[Package], languages: Languages, grammars: Grammars) -> list[Pair]:
    """The pairs of all packages; held-out ones come first, so that a copy is dropped from training and not from the test."""
    suffixes = tuple(f".{each}" for each in "py js mjs ts tsx go rs java c h cc cpp hpp rb php".split())
    lock, found = pinned(), []
    for package in sorted(packages, key=lambda each: not each.held_out):
        archives = fetch(package, lock[package.title])
        pairs = mined(package, files(archives, suffixes), languages, grammars)
        print(f"{package.title} {package.version}: {len(pairs)}", flush=True)
        found += pairs
    return distinct(found)


def write(pairs: Iterable[Pair], path: Path = PAIRS) -> None:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as out:
        out.writelines(json.dumps(asdict(pair), ensure_ascii=True) + "\n" for pair in pairs)


def read(path: Path = PAIRS) -> list[Pair]:
    """What `write` wrote."""
    with path.open(encoding="utf-8") as held:
        return [Pair(**json.loads(line)) for line in held]


def grammars() -> Grammars:
    """The parsers, unpacked under build/."""
    folder = BUILD / "grammars"
    folder.mkdir(parents=True, exist_ok=True)
    return Grammars(folder)


if __name__ == "__main__":
    write(mine_all(listed(), Languages.builtin(), grammars()))
