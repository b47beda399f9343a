r"""PURE. Patterns that a stranger may have written: run by RE2, or translated for Python's `re`.

Python's `re` may take years for thirty characters, so it runs our own patterns only
(tests/security/test_security_patterns.py). The time of RE2 grows with the text and with nothing else. It has no
look-around and no back-references; a pattern that needs them is refused with RE2's reason.

>>> compile_linear("(a+)+$").search("a" * 40 + "!") is None
True
>>> compile_linear(r"(a)\1")
Traceback (most recent call last):
ValueError: invalid escape sequence: \1

The contract of a text search is the syntax of Rust's `regex`, one line at a time, as ripgrep has it.
`to_python_pattern` translates such a pattern so that it finds the same lines, or says why it cannot: a pattern that the
two engines would answer differently is refused.

>>> escape_literal("a.b*")
'a\\.b\\*'
>>> to_python_pattern(r"^\d+$")
'(?<![^\\r])(?:[\\d]+)(?![^\\r])'
"""

from __future__ import annotations

import re
from typing import Any

from context_engine.errors import InvalidArgument

_META = frozenset("\\.+*?()|[]{}^$")

_UNDECODED = r"\udc80-\udcff"
"""How `surrogateescape` shows bytes that are not UTF-8; to Rust they are not characters, so no class contains them."""
_NO_LINE_END = rf"\r\n{_UNDECODED}"
_SPACES = r"\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's White_Space without line ends; Python's own `\\s` has four control characters more."""
_CLASSES = {"d": r"\d", "w": r"\w", "s": _SPACES}
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x09\x0b\x0c\x0e-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x09\x0b\x0c\x0e-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\x0b\x0c ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_CONTROLS = {"t": "\t", "f": "\f", "v": "\v", "a": "\a"}
_HEX = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[xuU]\{([0-9A-Fa-f]{1,8})\}")
_REPEAT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_GROUP = re.compile(r"\((?:\?(?:P?<[A-Za-z_]\w*>|:|(-?i)(:|\)))|(?!\?))")
_NAMED_CLASS = re.compile(r"\[:(\^?)([a-z]+):\]")
_BRACKETS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*+(?:\]|\Z)|[()]", re.DOTALL)
_REPEAT_MAX = 1_000
"""Rust gives up on larger ones as well: the compiled pattern would be too large."""
_LINE_ENDS = "a search goes line by line, so a pattern cannot contain a line end"


def load_re2() -> Any:
    """Return the module of RE2, or None where it is not installed."""
    try:
        import re2
    except ImportError:
        return None
    return re2


def compile_linear(pattern: str | bytes, flags: str = "") -> Any:
    """Return a compiled pattern with the methods of one of `re`; `flags` are letters out of `ims`.

    Raises: ValueError.
    """
    engine = load_re2()
    if engine is None:
        raise ValueError("google-re2 is not installed")
    options = engine.Options()
    options.log_errors = False
    kept = "".join(flag for flag in "ims" if flag in flags)
    if kept:
        if isinstance(pattern, bytes):
            pattern = b"(?%b)%b" % (kept.encode(), pattern)
        else:
            pattern = f"(?{kept}){pattern}"
    try:
        return engine.compile(pattern, options)
    except engine.error as error:
        reason = error.args[0] if error.args else error
        raise ValueError(reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)) from None
    except UnicodeError:
        raise ValueError("it has half a character (a lone surrogate)") from None


def escape_literal(text: str) -> str:
    r"""Return plain text as a pattern in Rust's syntax.

    >>> escape_literal("a-b"), escape_literal("\0")
    ('a-b', '\\x00')
    """
    return "".join(f"\\{char}" if char in _META else "\\x00" if char == "\0" else char for char in text)


def closes_too_early(pattern: str) -> bool:
    r"""Return whether a bracket closes a group that was never opened: ripgrep would take it for the end of its own.

    >>> closes_too_early("a)(b"), closes_too_early(r"\)[)](a)")
    (True, False)
    """
    depth = 0
    for found in _BRACKETS.findall(pattern):
        depth += (found == "(") - (found == ")")
        if depth < 0:
            return True
    return False


def fold_case(text: str) -> str:
    """Fold the case of each character on its own, as Unicode's simple folding does.

    >>> fold_case("Straẞe"), fold_case("ÅſK") == "åsk"
    ('straße', True)
    """
    if text.isascii():
        return text.lower()
    return "".join(map(_fold_character, text))


def to_python_pattern(pattern: str, *, ignore_case: bool = False) -> str:
    """Translate the pattern for Python's `re`, to be searched in one line without its end.

    Raises: InvalidArgument, with the reason.
    """
    reader = _PatternTranslator(pattern, ignore_case)
    written = reader.alternatives(depth=0)
    try:
        re.compile(written)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidArgument(str(error)) from None
    return written


def _fold_character(char: str) -> str:
    for one in (char.casefold(), char.lower()):
        if len(one) == 1:
            return one
    return char


def _join_atoms(atoms: list[str]) -> str:
    """Join the atoms; neighbors that both ignore case become one, which Python searches faster."""
    written = [""]
    for atom in atoms:
        if atom.startswith("(?i:") and written[-1].startswith("(?i:"):
            written[-1] = written[-1][:-1] + atom[4:]
        else:
            written.append(atom)
    return "".join(written)


class _PatternTranslator:
    """One pass over a pattern; the parts of a group are collected in `atoms`, each in Python's syntax."""

    _DEPTH_MAX = 90  # Python's own compiler recurses too

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignore_case = ignore_case

    def alternatives(self, depth: int) -> str:
        """Translate everything up to the bracket that closes this group, or the end."""
        if depth > self._DEPTH_MAX:
            raise InvalidArgument("groups are nested too deeply")
        outside, branches, atoms = self._ignore_case, [], []
        while (char := self._peek()) and char != ")":
            if char == "|":
                self._at += 1
                branches.append(_join_atoms(atoms))
                atoms = []
            elif char in "*+?{":
                self._repeat(atoms)
            elif char == "(":
                atoms += self._group(depth)
            else:
                atoms.append(self._atom(char))
        if (depth == 0) != (char == ""):
            raise InvalidArgument("unopened group" if depth == 0 else "unclosed group")
        self._ignore_case = outside  # a flag is valid to the end of its group
        return "|".join([*branches, _join_atoms(atoms)])

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _group(self, depth: int) -> list[str]:
        """Translate a group, or nothing for a flag alone. Captures are not reported, so every group is a plain one."""
        if self._pattern.startswith(("(?=", "(?!", "(?<=", "(?<!"), self._at):
            raise InvalidArgument("look-around, including look-ahead and look-behind, is not supported")
        opening = _GROUP.match(self._pattern, self._at)
        if not opening:
            raise InvalidArgument("of the flags only (?i) is known without ripgrep")
        flag, ending = opening[1], opening[2]
        self._at = opening.end()
        outside = self._ignore_case
        if flag:
            self._ignore_case = flag == "i"
        if ending == ")":
            return []
        inside = self.alternatives(depth + 1)
        self._at += 1
        self._ignore_case = outside
        return [f"(?:{inside})"]

    def _repeat(self, atoms: list[str]) -> None:
        """Apply a quantifier to the atom before it; of two in a row the second repeats the first."""
        counted = _REPEAT.match(self._pattern, self._at)
        if self._peek() == "{" and not counted:
            raise InvalidArgument("repetition quantifier expects a valid decimal")
        if not atoms:
            raise InvalidArgument("repetition operator missing expression")
        if counted and max(int(counted[1]), int(counted[3] or 0)) > _REPEAT_MAX:
            raise InvalidArgument("compiled regex exceeds size limit")
        if counted and counted[3] and int(counted[3]) < int(counted[1]):
            raise InvalidArgument("invalid repetition count range, the start must be <= the end")
        written = counted[0] if counted else self._peek()
        self._at += len(written)
        if self._peek() == "?":  # lazy: the same lines are found
            self._at += 1
        atoms[-1] = f"(?:{atoms[-1]}{written})"

    def _atom(self, char: str) -> str:
        self._at += 1
        if char == ".":
            return f"[^{_NO_LINE_END}]"
        if char == "^":
            return r"(?<![^\r])"
        if char == "$":
            return r"(?![^\r])"
        if char == "[":
            return self._add_case_flag(self._class())
        if char == "\\":
            return self._escape()
        return self._char(char)

    def _escape(self) -> str:
        """Translate an escape outside of a class."""
        char = self._peek()
        if char in ("b", "B") and not self._pattern.startswith("b{", self._at):
            self._at += 1
            return f"\\{char}"
        if char in ("<", ">"):
            self._at += 1
            if char == "<":
                return r"(?<!\w)(?=\w)"
            return r"(?<=\w)(?!\w)"
        if char.lower() in _CLASSES:
            self._at += 1
            if char.islower():
                return f"[{_CLASSES[char]}]"
            return f"[^{_CLASSES[char.lower()]}{_NO_LINE_END}]"
        return self._char(self._escaped_char())

    def _escaped_char(self) -> str:
        """Return the single character that an escape means."""
        char = self._peek()
        if char.isdigit():
            raise InvalidArgument("backreferences are not supported")
        if char in ("n", "r"):
            raise InvalidArgument(_LINE_ENDS)
        if hexadecimal := _HEX.match(self._pattern, self._at):
            self._at = hexadecimal.end()
            return self._by_number(int(next(filter(None, hexadecimal.groups())), 16))
        if char in ("p", "P", "A", "z", "b"):
            raise InvalidArgument(f"\\{char} is not known without ripgrep")
        if not char or (char not in _CONTROLS and (char.isalnum() or ord(char) > 127)):
            raise InvalidArgument("unrecognized escape sequence" if char else "incomplete escape sequence")
        self._at += 1
        return _CONTROLS.get(char, char)

    def _by_number(self, number: int) -> str:
        if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
            raise InvalidArgument("invalid hexadecimal number")
        if chr(number) in "\r\n":
            raise InvalidArgument(_LINE_ENDS)
        return chr(number)

    def _char(self, char: str) -> str:
        if char in "\r\n":
            raise InvalidArgument(_LINE_ENDS)
        if self._ignore_case and char in "iI":
            return "[iI]"  # Python also folds the Turkish letters to an i
        if self._ignore_case and char.lower() != char.upper():
            return self._add_case_flag(re.escape(char))
        return re.escape(char)

    def _add_case_flag(self, written: str) -> str:
        if self._ignore_case:
            return f"(?i:{written})"
        return written

    # -- classes --

    def _class(self) -> str:
        """Translate a class in brackets, after the opening one."""
        negated = self._peek() == "^"
        self._at += negated
        members, first = [], True
        while (char := self._peek()) != "]" or first:
            if not char:
                raise InvalidArgument("unclosed character class")
            members.append(self._member())
            first = False
        self._at += 1
        inside = "".join(members)
        if negated:
            return f"[^{inside}{_NO_LINE_END}]"
        return f"[{inside}]"

    def _member(self) -> str:
        """Translate one character, range or named class."""
        if named := _NAMED_CLASS.match(self._pattern, self._at):
            if named[1] or named[2] not in _POSIX:
                raise InvalidArgument(f"{named[0]} is not known without ripgrep")
            self._at = named.end()
            return _POSIX[named[2]]
        if self._pattern.startswith(("[", "&&", "--", "~~"), self._at):
            raise InvalidArgument("classes inside classes are not known without ripgrep")
        escape = self._pattern[self._at : self._at + 2]
        if escape[:1] == "\\" and escape[1:].lower() in _CLASSES:
            if escape[1:].isupper():
                raise InvalidArgument(f"{escape} inside a class is not known without ripgrep")
            self._at += 2
            return _CLASSES[escape[1:]]
        return self._range()

    def _range(self) -> str:
        first = last = self._class_char()
        if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", "", "-"):
            self._at += 1
            last = self._class_char()
        if last < first:
            raise InvalidArgument("invalid character class range, the start must be <= the end")
        if first <= "\r" and last >= "\n":
            raise InvalidArgument(_LINE_ENDS)
        if first == last:
            return re.escape(first)
        around = r"\ud7ff\ue000-" if first < "\ud800" < last else ""  # between them are the undecoded bytes
        return f"{re.escape(first)}-{around}{re.escape(last)}"

    def _class_char(self) -> str:
        char = self._peek()
        self._at += 1
        if char == "\\":
            return self._escaped_char()
        return char
