r"""Searches listed files by RE2 in this process, where `find_text_engine` finds no ripgrep; both find the same lines.

It refuses what RE2 cannot: `\<` and `\b{start}`, `\A` and `\z`, the flag `x`, `\u{e9}`, and classes inside classes.
To its `\b` only the letters of ASCII are letters.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.repo.file_reader import contents_in, open_root
from context_engine.repo.ripgrep import (
    GrepRequest,
    MatchedLine,
    Ripgrep,
    SearchDeadline,
    find_ripgrep,
    invalid_pattern,
)
from context_engine.storage import ConfinedFolder
from context_engine.text import compile_linear, decode

UNICODE = {"d": r"\p{Nd}", "w": r"\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{200c}\x{200d}", "s": r"\t\v\f\r\x{85}\p{Z}"}
"""RE2's own short classes know only ASCII."""
_TOKEN = re.compile(r"(?s)\\b\{|\\[xpP]\{[^}\\]*\}|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*+(?:\]|\\?\Z)|[\r\n]")
_SHORT_CLASS = re.compile(r"(?s)\\([dws])|\\.")
_UNLIKE_RUST = re.compile(r"(?s)\\(?:b\{|[<>AzZCQE])|\[.*?(?:[^\\]\[(?!:)|&&|--|~~|\\[DWS]).*")
_LINE_END = re.compile(r"(?s)(?!\[\^)(?:\[.*)?(?:\\[nr]|[\r\n])")
_REASONS = {
    r"\(\?<?[=!]": "look-around, including look-ahead and look-behind, is not supported",
    r"\\\d": "backreferences are not supported",
    r"perl operator|\\u": "it is not known without ripgrep",
}


class Re2Search:
    """The search by RE2, with the methods of `Ripgrep`."""

    name = "re2"

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = ConfinedFolder(os.path.realpath(root))

    def counts(self, files: Sequence[str], asked: GrepRequest, patience: SearchDeadline) -> tuple[dict[str, int], bool]:
        """Return the matching lines of each file, and whether every file could be read."""
        find, read = _compile(asked), self._read(files, patience)
        found = {path: _count_lines(find, text.replace(b"\r\n", b"\n")) for path, text in read}
        return {path: count for path, count in found.items() if count}, len(found) == len(files)

    def places(
        self, files: Sequence[str], asked: GrepRequest, patience: SearchDeadline, *, context: int = 0, most: int
    ) -> list[MatchedLine]:
        """Return the first `most` matching lines of each file with the lines around them."""
        find, read = _compile(asked), self._read(files, patience)
        return [place for path, text in read for place in _find_places(find, path, text, context, most)]

    def _read(self, files: Sequence[str], patience: SearchDeadline) -> Iterator[tuple[str, bytes]]:
        """Yield the text of each file as UTF-8 without its mark; files that cannot be read are left out."""
        with open_root(self._root) as top:
            for path in files:
                patience.check()
                try:
                    data, _ = contents_in(top, path, path, bytes_max=256_000_000)  # all of it is in memory
                except ContextEngineError:
                    continue
                if not data.isascii() or b"\0" in data:
                    text, encoding, mark, _ = decode(data)
                    data = data[len(mark) :] if encoding == "utf-8" else text.encode("utf-8", "replace")
                yield path, data


class DecodingSearch(Ripgrep):
    """The search by `rg`, and by RE2 in the files that have to be decoded before."""

    def __init__(self, root: str | os.PathLike[str], command: str, encoding_of: Callable[[str], str]) -> None:
        super().__init__(root, command)
        self._encoding_of = encoding_of
        self._decoded = Re2Search(root)

    def counts(self, files: Sequence[str], asked: GrepRequest, patience: SearchDeadline) -> tuple[dict[str, int], bool]:
        """Return the matching lines of each file, and whether every file could be read."""
        encoded, plain = self._split(files)
        found, is_complete = super().counts(plain, asked, patience)
        try:
            more, is_decoded = self._decoded.counts(encoded, asked, patience) if encoded else ({}, True)
        except InvalidArgument:  # only `rg` takes the pattern
            if not plain:
                raise
            more, is_decoded = {}, False
        return found | more, is_complete and is_decoded

    def places(
        self, files: Sequence[str], asked: GrepRequest, patience: SearchDeadline, *, context: int = 0, most: int
    ) -> list[MatchedLine]:
        """Return the first `most` matching lines of each file with the lines around them."""
        encoded, plain = self._split(files)
        found = super().places(plain, asked, patience, context=context, most=most)
        return found + (self._decoded.places(encoded, asked, patience, context=context, most=most) if encoded else [])

    def _split(self, files: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        encoded = [path for path in files if self._encoding_of(path)]
        return encoded, [path for path in files if not self._encoding_of(path)] if encoded else files


TextEngine = Ripgrep | Re2Search
"""Both keep one contract: tests/contracts/test_text_search.py."""


def find_text_engine(
    root: str | os.PathLike[str], encoding_of: Callable[[str], str] = lambda _: "", *, path: str | None = None
) -> TextEngine:
    """Return the best engine of this machine: the `rg` next to our Python, the one on PATH, or RE2."""
    command = find_ripgrep(path, outside=root)
    return DecodingSearch(root, command, encoding_of) if command else Re2Search(root)


def _count_lines(find: Any, text: bytes) -> int:
    count = start = 0
    end = len(text) - text.endswith(b"\n")  # behind the last line end there is no line
    while start < len(text) and (match := find(text, start)) and match.start() <= end:
        count += 1
        start = text.find(b"\n", match.start()) + 1 or len(text)
    return count


def _find_places(find: Any, path: str, text: bytes, context: int, most: int) -> Iterator[MatchedLine]:
    unseen: deque[MatchedLine] = deque(maxlen=context + 1)
    offset = after = 0
    for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), 1):
        match = find(line.removesuffix(b"\r"))
        unseen.append(MatchedLine(path, number, match.start() + 1 if match else 0, offset))
        if match or after:
            yield from unseen
            unseen.clear()
        most, after = (most - 1, context) if match and most else (most, max(0, after - 1))
        if not most and not after:
            return
        offset += len(line) + 1


def _compile(asked: GrepRequest) -> Any:
    """Return the search for any of the patterns. Raises: InvalidArgument."""
    try:
        written = [_TOKEN.sub(_write_for_re2, pattern) for pattern in asked.patterns]
        for pattern in written:  # one by one, since `a)(b` would fit into the group around it
            compile_linear(pattern)
        flags = "im" if asked.ignore_case else "m"
        return compile_linear("|".join(f"(?:{pattern})" for pattern in written).encode(), flags, by_line=True).search
    except ValueError as error:
        known = (reason for sign, reason in _REASONS.items() if re.search(sign, str(error)))
        raise invalid_pattern(asked, next(known, str(error))) from None


def _write_for_re2(match: re.Match[str]) -> str:
    """Return a part of a pattern for RE2. Raises: ValueError for what means something else there."""
    token = match[0]
    if _UNLIKE_RUST.fullmatch(token):
        raise ValueError(f"{token} is not known without ripgrep")
    if _LINE_END.match(token):
        raise ValueError("a search goes line by line, so a pattern cannot contain a line end")
    if token.startswith("["):
        return _SHORT_CLASS.sub(lambda short: UNICODE.get(short[1] or "", short[0]), token)
    if token[1:].lower() in UNICODE:
        return f"[{'^' * token[1].isupper()}{UNICODE[token[1].lower()]}]"
    return token
