r"""PURE. The texts that a line must contain to match a pattern, as far as the pattern shows them.

>>> factors_of(r"def \w+_timeout\("), factors_of("TODO|FIXME")
(And(parts=('_timeout(', 'def ')), Or(parts=('fixme', 'todo')))
>>> factors_of("[a-z]+"), factors_of("(?x) a b")
(None, None)

Texts are in lower case and of ASCII alone: an index of them serves searches with and without regard to case. A text of
three characters is the least that counts. Syntax that is not known here has no factors, so nothing is left out for it.
The method is that of Russ Cox, "Regular Expression Matching with a Trigram Index" (2012).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

GRAM = 3
"""The length of the texts that an index lists."""
TEXTS_MAX = 24
"""Texts of one set; beyond that they are cut short, and their whole length counts where they are cut."""
CLASS_MAX = 12
"""A class of more characters is any character."""
CHARS_MAX = 48
REPEAT_MAX = 1_000
"""A larger bound of a repetition may be refused by the matcher, which must see the pattern then."""
DEPTH_MAX = 40


@dataclass(frozen=True, slots=True)
class And:
    """Every part must be there."""

    parts: tuple[Factor, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the parts must be there."""

    parts: tuple[Factor, ...]


Factor = str | And | Or


def factors_of(pattern: str) -> Factor | None:
    """Return what a matching line contains, in the syntax of Rust's `regex`; None where nothing is known."""
    try:
        fact = _PatternReader(pattern.removeprefix("(?i)")).read_all()
    except _UnknownSyntaxError:
        return None
    return fact.all_needs()


def factors_of_text(text: str) -> Factor | None:
    """Return what a line that contains this text contains.

    >>> factors_of_text("Größe: x = 1"), factors_of_text("ab")
    ('e: x = 1', None)
    """
    pieces = "".join(char if char.isascii() else "\0" for char in text).split("\0")
    return _both(*(_one_of({piece.lower()}) for piece in pieces))


def any_of(factors: Iterable[Factor | None]) -> Factor | None:
    """Return the factors of a search for several things, of which one is enough."""
    return _either(*factors)


def _both(*needs: Factor | None) -> Factor | None:
    parts: set[Factor] = set()
    for need in needs:
        if isinstance(need, And):
            parts.update(need.parts)
        elif need is not None:
            parts.add(need)
    texts = [part for part in parts if isinstance(part, str)]
    inner = {text for text in texts if any(text in other and text != other for other in texts)}
    return _join(And, parts - inner)


def _either(*needs: Factor | None) -> Factor | None:
    parts: set[Factor] = set()
    for need in needs:
        if need is None:
            return None
        if isinstance(need, Or):
            parts.update(need.parts)
        else:
            parts.add(need)
    return _join(Or, parts)


def _join(kind: type[And | Or], parts: set[Factor]) -> Factor | None:
    if len(parts) < 2:
        return next(iter(parts), None)
    return kind(tuple(sorted(parts, key=repr)))


def _one_of(texts: Iterable[str]) -> Factor | None:
    return _either(*(text if len(text) >= GRAM else None for text in texts))


# -- what is known of a part of a pattern ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fact:
    """The whole text of a match (`exact`, if few are possible), else how it begins and ends, and what else is in it."""

    exact: frozenset[str] | None
    begins: frozenset[str]
    ends: frozenset[str]
    needs: Factor | None = None

    def all_needs(self) -> Factor | None:
        if self.exact is not None:
            return _one_of(self.exact)
        return _both(self.needs, _one_of(self.begins), _one_of(self.ends))

    def shorten_sets(self) -> _Fact:
        """Return the same with sets that stay small: cut texts count as needs first."""
        exact, begins, ends, needs = self.exact, self.begins, self.ends, self.needs
        if exact is not None and not _is_small(exact):
            exact, begins, ends, needs = None, exact, exact, _both(needs, _one_of(exact))
        if not _is_small(begins):
            needs = _both(needs, _one_of(begins))
            begins = _cut(frozenset(text[: GRAM - 1] for text in begins))
        if not _is_small(ends):
            needs = _both(needs, _one_of(ends))
            ends = _cut(frozenset(text[1 - GRAM :] for text in ends))
        return _Fact(exact, begins, ends, needs)


_NOTHING = frozenset([""])
EMPTY = _Fact(_NOTHING, _NOTHING, _NOTHING)
ANYTHING = _Fact(None, _NOTHING, _NOTHING)


def _is_small(texts: frozenset[str]) -> bool:
    return len(texts) <= TEXTS_MAX and all(len(text) <= CHARS_MAX for text in texts)


def _cut(texts: frozenset[str]) -> frozenset[str]:
    return texts if len(texts) <= TEXTS_MAX else _NOTHING


def _literals(texts: Iterable[str]) -> _Fact:
    exact = frozenset(texts)
    return _Fact(exact, exact, exact)


def _then(first: _Fact, second: _Fact) -> _Fact:
    """Return the fact of one part after another."""
    if first.exact is not None and second.exact is not None:
        return _literals(_cross(first.exact, second.exact)).shorten_sets()
    begins, ends = first.begins, second.ends
    if first.exact is not None:
        begins = _cross(first.exact, second.begins)
    if second.exact is not None:
        ends = _cross(first.ends, second.exact)
    seam = _one_of(_cross(first.ends, second.begins))
    return _Fact(None, begins, ends, _both(first.needs, second.needs, seam)).shorten_sets()


def _cross(lefts: frozenset[str], rights: frozenset[str]) -> frozenset[str]:
    return frozenset(left + right for left in lefts for right in rights)


def _or_else(first: _Fact, second: _Fact) -> _Fact:
    """Return the fact of a choice."""
    if first.exact is not None and second.exact is not None:
        return _literals(first.exact | second.exact).shorten_sets()
    return _Fact(
        None,
        first.begins | second.begins,
        first.ends | second.ends,
        _either(first.all_needs(), second.all_needs()),
    ).shorten_sets()


def _at_least_once(fact: _Fact) -> _Fact:
    """Return the fact of a part that may be repeated."""
    return _Fact(None, fact.begins, fact.ends, fact.all_needs())


# -- reading -----------------------------------------------------------------------------------------------------------


class _UnknownSyntaxError(Exception):
    """Something that is not read here, or that may be no pattern at all."""


_CLASSES = frozenset("dDsSwW")
_PLACES = frozenset("bBAz")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_PUNCTUATION = frozenset("\\.+*?()|[]{}^$#&-~/\"'<>%,:;=!@ `_") - frozenset("<>_")
_SPECIAL = frozenset("\\.+*?()|[]{}^$")


class _PatternReader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def read_all(self) -> _Fact:
        fact = self._read_choice()
        if self._at < len(self._pattern):
            raise _UnknownSyntaxError
        return fact

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._pattern):
            raise _UnknownSyntaxError
        self._at += 1
        return self._pattern[self._at - 1]

    def _takes(self, text: str) -> bool:
        if self._pattern.startswith(text, self._at):
            self._at += len(text)
            return True
        return False

    def _read_choice(self) -> _Fact:
        fact = self._read_sequence()
        while self._takes("|"):
            fact = _or_else(fact, self._read_sequence())
        return fact

    def _read_sequence(self) -> _Fact:
        fact = EMPTY
        while self._peek() not in ("", "|", ")"):
            fact = _then(fact, self._read_repetition())
        return fact

    def _read_repetition(self) -> _Fact:
        is_place, fact = self._read_atom()
        if self._peek() and self._peek() in "*+?{":
            if is_place:  # some matchers refuse it
                raise _UnknownSyntaxError
            fact = _repeat(fact, *self._read_bounds())
            self._takes("?")
            if self._peek() and self._peek() in "*+?{":
                raise _UnknownSyntaxError
        return fact

    def _read_bounds(self) -> tuple[int, int | None]:
        """Return the least and the most of a repetition."""
        mark = self._take()
        if mark != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
        least, comma, most = self._read_until("}").partition(",")
        if not (least.isascii() and least.isdecimal()) or (most and not (most.isascii() and most.isdecimal())):
            raise _UnknownSyntaxError
        low, high = int(least), int(most or least)
        if low > high or high > REPEAT_MAX:
            raise _UnknownSyntaxError
        return low, (None if comma and not most else high)

    def _read_until(self, end: str) -> str:
        stop = self._pattern.find(end, self._at)
        if stop < 0:
            raise _UnknownSyntaxError
        found, self._at = self._pattern[self._at : stop], stop + 1
        return found

    def _read_atom(self) -> tuple[bool, _Fact]:
        """Return whether the next part is a place between characters, and its fact."""
        char = self._take()
        if char == "(":
            return False, self._read_group()
        if char == "[":
            return False, self._read_class()
        if char == "\\":
            return self._read_escape()
        if char == ".":
            return False, ANYTHING
        if char in "^$":
            return True, EMPTY
        if char in _SPECIAL:
            raise _UnknownSyntaxError
        return False, _literal(char)

    def _read_group(self) -> _Fact:
        if self._takes("?") and not self._takes(":"):
            raise _UnknownSyntaxError
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _UnknownSyntaxError
        fact = self._read_choice()
        if not self._takes(")"):
            raise _UnknownSyntaxError
        self._depth -= 1
        return fact

    def _read_escape(self) -> tuple[bool, _Fact]:
        char = self._take()
        if char in _CLASSES:
            return False, ANYTHING
        if char in _PLACES and self._peek() != "{":
            return True, EMPTY
        return False, _literal(self._read_escaped_char(char))

    def _read_escaped_char(self, char: str) -> str:
        if char in _CONTROLS and char not in "nr":
            return _CONTROLS[char]
        if char in _PUNCTUATION:
            return char
        raise _UnknownSyntaxError

    def _read_class(self) -> _Fact:
        """Read a class to its bracket. Classes in classes, operations on them and POSIX names are not read."""
        negated = self._takes("^")
        chars: set[str] = set()
        is_open = False
        while not self._takes("]"):
            first = self._read_member()
            is_open |= not first
            if self._peek() == "-":
                self._take()
                last = "-" if self._peek() == "]" else self._read_member()
                if self._peek() == "]" and last == "-":
                    chars.add("-")
                elif not first or not last or first > last:
                    raise _UnknownSyntaxError
                else:
                    is_open |= ord(last) - ord(first) > CLASS_MAX
                    chars.update(map(chr, range(ord(first), min(ord(last), ord(first) + CLASS_MAX) + 1)))
            chars.add(first)
        if not chars:
            raise _UnknownSyntaxError
        if negated or is_open or len(chars) > CLASS_MAX:
            return ANYTHING
        return _either_char(chars)

    def _read_member(self) -> str:
        """Return one character of a class; empty for a class of characters."""
        char = self._take()
        if char == "\\":
            char = self._take()
            return "" if char in _CLASSES else self._read_escaped_char(char)
        if char in "[]&~-^":
            raise _UnknownSyntaxError
        return char


def _literal(char: str) -> _Fact:
    return _either_char({char})


def _either_char(chars: set[str]) -> _Fact:
    if all(char.isascii() for char in chars):
        return _literals(char.lower() for char in chars)
    return ANYTHING


def _repeat(fact: _Fact, least: int, most: int | None) -> _Fact:
    if most == 0:
        return EMPTY
    if least == 0:
        if most == 1:
            return _or_else(fact, EMPTY)
        return ANYTHING
    return fact if (least, most) == (1, 1) else _at_least_once(fact)
