r"""PURE. How far added lines are indented, by evidence: the indents of the lines that the target and the file share.

The target may have lost its indent, have one too much, or be written in blanks where the file has tabs. A rule that
turns the target's indents into the file's, for every line they share, also turns those of added lines. Where no single
rule explains all of them, or two do and disagree, nothing is guessed: `Indents.doubt` says what is not certain.

>>> map_indents([("", "    "), ("  ", "      ")], ["    "], nearby=["a", "  b"]).indents
['        ']
>>> map_indents([("    ", "\t")], ["        "], nearby=["\tx"]).indents
['\t\t']
>>> map_indents([("  ", "  "), ("  ", "\t")], ["  "], nearby=[]).doubt
'the lines of the target are indented by no single rule'
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from context_engine.edit.file_content import BLANKS, indent_of

Rule = Callable[[str], str | None]
"""From an indent of the target to one of the file; None where the rule does not apply."""

UNIT_MIN = 2
"""Steps of one blank are alignment (` * ` in a comment), not a level."""
UNIT_MAX = 8
"""Wider levels are not in use."""
COMMON_UNITS = (8, 4, 2)
"""The usual widths of a level, the widest first."""

NO_RULE = "the lines of the target are indented by no single rule"
OTHER_CHARACTERS = "blanks and tabs would be mixed"
BOTH_WAYS = "the added lines may be indented as in the file already"
NO_LEVEL = "the added lines stand on no level of the file"


class Indents(NamedTuple):
    """The indents of added lines in the file, or why they are not certain."""

    indents: list[str]
    doubt: str = ""


def map_indents(
    evidence: Sequence[tuple[str, str]],
    added: Sequence[str],
    *,
    nearby: Iterable[str],
    may_lack: bool = False,
    leads: bool = False,
) -> Indents:
    """Return the indents of added lines, from pairs (in the target, in the file) of the lines they share.

    `may_lack`: nothing is before the first line of the target, so that it may have lost its indent alone; that line is
    then not evidence. `leads`: the first added line is the first of the replacement, and is where that one was.
    """
    around = list(nearby)
    found = _by_one_rule(evidence, added, around)
    first, placed = evidence[0]
    if not may_lack or first or not placed:
        return found
    if len(evidence) == 1:
        return Indents([], BOTH_WAYS) if added else found
    if found.doubt != NO_RULE:
        return found
    rest = _by_one_rule(evidence[1:], added[1:] if leads else added, around)
    if rest.doubt or not leads:
        return rest
    if added[0] == first:
        return Indents([placed, *rest.indents])
    return Indents([], NO_RULE)


def unit_of(text: Iterable[str]) -> str:
    r"""Return one level of indentation in lines of a file: a tab, some blanks, or nothing when none is indented.

    >>> unit_of(["a", "    b", "        c", "a", "  d", "      e"]), unit_of(["a", "\tb"]), unit_of(["a"])
    ('    ', '\t', '')
    """
    indents = [indent_of(line) for line in text if line.strip()]
    if 2 * sum("\t" in indent for indent in indents) > sum(bool(indent) for indent in indents):
        return "\t"
    depths = [len(indent) for indent in indents if "\t" not in indent]
    steps = Counter(
        deeper - depth for depth, deeper in pairwise(depths) if UNIT_MIN <= deeper - depth <= UNIT_MAX
    ) or Counter(depth for depth in depths if UNIT_MIN <= depth <= UNIT_MAX)
    if steps:
        return " " * min(steps, key=lambda step: (-steps[step], step))
    return ""


# -- one rule for all ----------------------------------------------------------------------------------------------


def _by_one_rule(evidence: Sequence[tuple[str, str]], added: Sequence[str], nearby: Sequence[str]) -> Indents:
    pairs = list(dict.fromkeys(evidence))
    if all(old == placed for old, placed in pairs):
        return _keep_indents(pairs, added, nearby)
    if len({old for old, _ in pairs}) < len(pairs):
        return Indents([], NO_RULE)
    rule = _shift(pairs)
    if rule is not None:
        doubt = _shift_doubt(pairs, added, nearby)
        found = Indents([], doubt) if doubt else _check_indents(rule, pairs, added, nearby)
        if _lands_on_levels(pairs[0], found.indents, nearby):
            return found
        return Indents([], NO_LEVEL)
    return _agree([[rule(line) for line in added] for rule in _conversions(pairs, added, nearby)])


def _keep_indents(pairs: list[tuple[str, str]], added: Sequence[str], nearby: Sequence[str]) -> Indents:
    """Return the indents as they are; where the target is not indented, the lines around decide the character."""
    if any(old for old, _ in pairs):
        return Indents(list(added))
    return _check_indents(lambda indent: indent, pairs, added, nearby)


def _check_indents(rule: Rule, pairs: list[tuple[str, str]], added: Sequence[str], nearby: Sequence[str]) -> Indents:
    """Return the indents that a rule gives, if they use the characters of the file's indentation."""
    indents: list[str] = []
    used = set("".join(placed for _, placed in pairs)) or set("".join(map(indent_of, nearby)))
    for indent in added:
        placed = rule(indent)
        if placed is None:
            return Indents([], NO_LEVEL)
        if used and set(placed) - used:
            return Indents([], OTHER_CHARACTERS)
        indents.append(placed)
    return Indents(indents)


# -- all lines moved by the same ---------------------------------------------------------------------------------


def _shift(pairs: list[tuple[str, str]]) -> Rule | None:
    """Return the rule that adds something before every indent, or removes it; None when neither explains all pairs."""
    old, placed = pairs[0]
    if placed.endswith(old):
        more = placed.removesuffix(old)
        if all(placed_indent == more + one for one, placed_indent in pairs):
            return lambda indent: more + indent
    if old.endswith(placed):
        less = old.removesuffix(placed)
        if all(one == less + placed_indent for one, placed_indent in pairs):
            return lambda indent: indent.removeprefix(less) if indent.startswith(less) else None
    return None


def _shift_doubt(pairs: list[tuple[str, str]], added: Sequence[str], nearby: Sequence[str]) -> str:
    """Return why one level of evidence does not show how far lines are moved; empty when it does."""
    if len(pairs) > 1:
        return ""
    old, placed = pairs[0]
    others = [indent for indent in added if indent != old]
    unit = unit_of(nearby) or (placed.removesuffix(old) if len(placed) > len(old) else old.removesuffix(placed))
    if any(not _is_level(indent, old, unit) for indent in others):
        return NO_LEVEL
    if len(placed) > len(old):
        absolute = bool(others) and all(indent.startswith(placed) for indent in added)
    else:
        absolute = any(len(indent) < len(old) for indent in others)
    return BOTH_WAYS if absolute else ""


def _lands_on_levels(pair: tuple[str, str], indents: Iterable[str], nearby: Sequence[str]) -> bool:
    """Return whether lines were moved by whole levels, or are now indented like lines of the file."""
    unit, known = unit_of(nearby), set(map(indent_of, nearby))
    return _is_level(*pair, unit) or all(indent in known or _is_level(indent, "", unit) for indent in indents)


def _is_level(indent: str, base: str, unit: str) -> bool:
    """Return whether two indents are some whole levels apart; where no line is indented, any distance is a level."""
    shorter, longer = sorted((indent, base), key=len)
    more = longer.removeprefix(shorter)
    if not unit:
        return longer.startswith(shorter)
    return bool(unit) and longer.startswith(shorter) and more == unit * (len(more) // len(unit))


# -- blanks for tabs, tabs for blanks ----------------------------------------------------------------------------


def _conversions(pairs: list[tuple[str, str]], added: Sequence[str], nearby: Sequence[str]) -> list[Rule]:
    """Return the rules that turn levels of one character into levels of the other, if the pairs leave a choice."""
    olds, placed = "".join(old for old, _ in pairs), "".join(new for _, new in pairs)
    if not _is_pure(olds, placed) or any(set(indent) - set(olds) for indent in added):
        return []
    points = [(len(old), len(new)) for old, new in pairs]
    if "\t" in placed:
        return [_to_tabs(unit, shift) for unit, shift in _blanks_a_tab(points, [len(indent) for indent in added])]
    return [_to_blanks(unit, shift) for unit, shift in _tabs_in_blanks(points, unit_of(nearby))]


def _is_pure(olds: str, placed: str) -> bool:
    """Return whether the target is indented with one character only and the file with the other only."""
    return (set(olds), set(placed)) in (({" "}, {"\t"}), ({"\t"}, {" "}))


def _blanks_a_tab(points: list[tuple[int, int]], added: list[int]) -> list[tuple[int, int]]:
    """Return the pairs (blanks to a tab, tabs to add) that explain all points.

    One level alone is explained without any tabs to add; the added lines may suggest something else.
    """
    (x, y), *more = sorted(points)
    if more:
        far_x, far_y = more[-1]
        units = [(far_x - x) // (far_y - y)] if far_y > y else []
    else:
        widest = math.gcd(x, *added)
        units = []
        if _is_unit(x, y):
            units = [x // y, *(unit for unit in COMMON_UNITS if widest % unit == 0)][:2]
    return [
        (unit, shift)
        for unit in units
        if UNIT_MIN <= unit <= UNIT_MAX
        for shift in [y - x // unit]
        if all(x % unit == 0 and x // unit + shift == y for x, y in points)
    ]


def _tabs_in_blanks(points: list[tuple[int, int]], local: str) -> list[tuple[int, int]]:
    """Return the pairs (blanks for a tab, blanks to add) that explain all points; one level alone as for tabs."""
    (x, y), *more = sorted(points)
    if more:
        far_x, far_y = more[-1]
        units = [(far_y - y) // (far_x - x)]
    else:
        units = [y // x, len(local)] if _is_unit(y, x) else []
    return [
        (unit, shift)
        for unit in units
        if UNIT_MIN <= unit <= UNIT_MAX
        for shift in [y - x * unit]
        if shift % unit == 0 and all(x * unit + shift == y for x, y in points)
    ]


def _is_unit(blanks: int, tabs: int) -> bool:
    """Return whether so many blanks are so many tabs, each of a usual width."""
    return blanks % tabs == 0 and UNIT_MIN <= blanks // tabs <= UNIT_MAX


def _to_tabs(unit: int, shift: int) -> Rule:
    def rule(indent: str) -> str | None:
        level, rest = divmod(len(indent), unit)
        return "\t" * (level + shift) if not rest and level + shift >= 0 else None

    return rule


def _to_blanks(unit: int, shift: int) -> Rule:
    def rule(indent: str) -> str | None:
        width = len(indent) * unit + shift
        return " " * width if width >= 0 else None

    return rule


def _agree(answers: list[list[str | None]]) -> Indents:
    """Return the answer of all rules, if it is the same."""
    whole = [
        indents
        for answer in answers
        if len(indents := [indent for indent in answer if indent is not None]) == len(answer)
    ]
    if not whole:
        return Indents([], NO_LEVEL if answers else NO_RULE)
    if any(indents != whole[0] for indents in whole):
        return Indents([], BOTH_WAYS)
    return Indents(whole[0])


# -- one line quoted without its indentation ---------------------------------------------------------------------------

# `foo()` is found in `    foo()` exactly, as a part of the line. The indentation of the replacement's further lines may
# then be meant as written, or counted from where the target begins. Most editors write it as it is, which ruins half.
# Here the second line must be where only the first reading makes sense: below a whole statement at the same depth, or
# below the head of a block one level deeper. Below anything else, such as prose and broken lines, it is not certain.


LEVELS = "its further lines are not indented by whole levels from there"
BELONGS = "its second line may belong to the first"

GOES_ON = tuple(".,?:+-*/%&|^=<>)]}")
"""A line that begins so belongs to the one before it, and may be indented by anything."""
IS_COMMENT = ("//", "/*")
LEAVES_OPEN = tuple("([,=+-*/%&|^<>.\\?")
"""A line that ends so goes on in the next one."""
OPENS = re.compile(
    r"(?:async|begin|case|class|def|default|do|elif|else|elsif|except|finally|fn|for|func|function|if|loop|match|module"
    r"|switch|try|unless|until|when|while|with)\b"
)
"""Words that begin a block."""
WHOLE = re.compile(
    r"[^\s\"'`<#>*].*[;)}\]]|(?:assert|break|const|continue|del|from|import|let|pass|raise|return|throw|use|val|var|yield)\b.*"
    r"|[\w.\[\]\"']+ *(?:[-+*/|&]|:)?= *\S.*"
)
"""A line that is a whole statement: nothing deeper belongs below it."""
LIST_MARK = re.compile(r"(?:[-*+]|\d+[.)])[ \t]")
"""The content of a list is aligned with its mark, which may be deeper by any number of blanks."""
QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")


def is_partial(old: str, before: str) -> bool:
    """Return whether a target is one line that begins within or after its indentation, of which `before` is missing."""
    return bool(before) and not before.strip(BLANKS) and "\n" not in old.rstrip(f"{BLANKS}\n")


def doubt(indent: str, new: str, *, unit: str) -> str:
    r"""Return why the further lines of a replacement may be meant at another depth; empty when it is certain.

    `indent` is that of the line in the file, `unit` one level around it.

    >>> doubt("    ", "if x:\n        foo()", unit="    "), bool(doubt("    ", "if x:\n    foo()", unit="    "))
    ('', True)
    """
    first, *further = new.strip(BLANKS).split("\n")
    solid = [line for line in further if line.strip(BLANKS)]
    if not solid:
        return ""
    for line in solid:
        more = indent_of(line).removeprefix(indent)
        if not line.startswith(indent) or not unit or more != unit * (len(more) // len(unit)):
            return LEVELS
    second = solid[0].lstrip(BLANKS)
    deeper = levels_below(first.rstrip(BLANKS))
    if deeper is None or indent_of(solid[0]) != indent + unit * deeper:
        return BELONGS
    if second.startswith(GOES_ON) and not second.startswith(IS_COMMENT):
        return BELONGS
    return ""


def levels_below(line: str) -> int | None:
    """Return how much deeper the line below one is: 0 or 1 levels; None when that is not certain.

    >>> [levels_below(line) for line in ("x = f(1)", "if x:", "if (x) return;", "x = f(1,", "See the manual", "- item")]
    [0, 1, 0, None, None, None]
    """
    bare = QUOTED.sub("''", line)
    open_brackets = sum(map(bare.count, "([{")) - sum(map(bare.count, ")]}"))
    if LIST_MARK.match(line) or line.endswith(LEAVES_OPEN):
        return None
    if line.endswith("{") and open_brackets == 1:
        return 1
    if open_brackets:
        return None
    if OPENS.match(line) and not line.endswith((";", "}")):
        return 1
    if WHOLE.fullmatch(line):
        return 0
    return None
