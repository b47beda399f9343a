r"""PURE. How far added lines are indented, by evidence: the indents of the lines that the target and the file share.

The target may have lost its indent, have one too much, or be written in blanks where the file has tabs. A rule that
turns the target's indents into the file's, for every line they share, also turns those of added lines. Where no single
rule explains all of them, or two do and disagree, nothing is guessed: `Doubt` says what is not certain.

>>> map_indents([("", "    "), ("  ", "      ")], ["    "], nearby=["a", "  b"])
['        ']
>>> map_indents([("    ", "\t")], ["        "], nearby=["\tx"])
['\t\t']
>>> map_indents([("  ", "  "), ("  ", "\t")], ["  "], nearby=[])
Traceback (most recent call last):
context_engine.edit.indent.Doubt: the lines of the target are indented by no single rule
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise

from context_engine.edit.file_content import BLANKS, indent_of

Rule = Callable[[str], str]
"""From an indent of the target to one of the file. Raises: Doubt where the rule does not apply."""

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


class Doubt(Exception):  # noqa: N818 - it is a doubt, and never leaves this package
    """It is not certain how lines are indented; the reason is its only argument."""


def map_indents(
    evidence: Sequence[tuple[str, str]],
    added: Sequence[str],
    *,
    nearby: Sequence[str],
    may_lack: bool = False,
    leads: bool = False,
) -> list[str]:
    """Return the indents of added lines, from pairs (in the target, in the file) of the lines they share.

    `may_lack`: nothing is before the first line of the target, so that it may have lost its indent alone; that line is
    then not evidence. `leads`: the first added line is the first of the replacement, and is where that one was.
    Raises: Doubt.
    """
    first, placed = evidence[0]
    is_cut = may_lack and placed != "" and not first
    is_only = len(evidence) == 1
    if is_cut and is_only and added:
        raise Doubt(BOTH_WAYS)
    try:
        return _by_one_rule(evidence, added, nearby)
    except Doubt as doubt:
        if not is_cut or is_only or doubt.args != (NO_RULE,):
            raise
    rest = _by_one_rule(evidence[1:], added[1:] if leads else added, nearby)
    if not leads:
        return rest
    if added[0] != first:
        raise Doubt(NO_RULE)
    return [placed, *rest]


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


def _by_one_rule(evidence: Sequence[tuple[str, str]], added: Sequence[str], nearby: Sequence[str]) -> list[str]:
    pairs = list(dict.fromkeys(evidence))
    if all(old == placed for old, placed in pairs):
        if any(old for old, _ in pairs):
            return list(added)
        return _use_rule(str, pairs, added, nearby)  # the lines around decide the character
    if len({old for old, _ in pairs}) < len(pairs):
        raise Doubt(NO_RULE)
    rule = _shift(pairs)
    if rule is None:
        return _agree(_conversions(pairs, added, nearby), added)
    if len(pairs) == 1:
        _check_only_level(*pairs[0], added, nearby)
    indents = _use_rule(rule, pairs, added, nearby)
    unit, known = unit_of(nearby), set(map(indent_of, nearby))
    lands = all(indent in known or _is_level(indent, "", unit) for indent in indents)
    if not lands and not _is_level(*pairs[0], unit):
        raise Doubt(NO_LEVEL)
    return indents


def _use_rule(rule: Rule, pairs: list[tuple[str, str]], added: Sequence[str], nearby: Sequence[str]) -> list[str]:
    """Return the indents that a rule gives, if they use the characters of the file's indentation."""
    used = set("".join(placed for _, placed in pairs)) or set("".join(map(indent_of, nearby)))
    indents: list[str] = []
    for indent in added:
        placed = rule(indent)
        if used and set(placed) - used:
            raise Doubt(OTHER_CHARACTERS)
        indents.append(placed)
    return indents


def _agree(rules: Sequence[Rule], added: Sequence[str]) -> list[str]:
    """Return the answer of all rules that apply to every line, if it is the same."""
    answers: list[list[str]] = []
    for rule in rules:
        with suppress(Doubt):
            answers.append([rule(indent) for indent in added])
    if not answers:
        raise Doubt(NO_LEVEL if rules else NO_RULE)
    if any(answer != answers[0] for answer in answers):
        raise Doubt(BOTH_WAYS)
    return answers[0]


# -- all lines moved by the same ---------------------------------------------------------------------------------


def _shift(pairs: list[tuple[str, str]]) -> Rule | None:
    """Return the rule that adds something before every indent, or removes it; None when neither explains all pairs."""
    old, placed = pairs[0]
    if placed.endswith(old):
        more = placed.removesuffix(old)
        if all(placed_indent == more + one for one, placed_indent in pairs):
            return more.__add__
    if old.endswith(placed):
        less = old.removesuffix(placed)
        if all(one == less + placed_indent for one, placed_indent in pairs):
            return partial(_remove, less)
    return None


def _remove(less: str, indent: str) -> str:
    if not indent.startswith(less):
        raise Doubt(NO_LEVEL)
    return indent.removeprefix(less)


def _check_only_level(old: str, placed: str, added: Sequence[str], nearby: Sequence[str]) -> None:
    """Refuse added lines where one level of evidence does not show how far they are moved. Raises: Doubt."""
    others = [indent for indent in added if indent != old]
    unit = unit_of(nearby) or (placed.removesuffix(old) if len(placed) > len(old) else old.removesuffix(placed))
    if any(not _is_level(indent, old, unit) for indent in others):
        raise Doubt(NO_LEVEL)
    if len(placed) > len(old):
        absolute = bool(others) and all(indent.startswith(placed) for indent in added)
    else:
        absolute = any(len(indent) < len(old) for indent in others)
    if absolute:
        raise Doubt(BOTH_WAYS)


def _is_level(indent: str, base: str, unit: str) -> bool:
    """Return whether two indents are some whole levels apart; where no line is indented, any distance is a level."""
    shorter, longer = sorted((indent, base), key=len)
    more = longer.removeprefix(shorter)
    return longer.startswith(shorter) and (not unit or more == unit * (len(more) // len(unit)))


# -- blanks for tabs, tabs for blanks ----------------------------------------------------------------------------


def _conversions(pairs: list[tuple[str, str]], added: Sequence[str], nearby: Sequence[str]) -> list[Rule]:
    """Return the rules that turn levels of one character into levels of the other, if the pairs leave a choice.

    One level alone is explained by several widths of a tab: the lines around suggest one, or the added lines.
    """
    olds, placed = ({*"".join(side)} for side in zip(*pairs, strict=True))
    if any(set(indent) - olds for indent in added):
        return []
    if (olds, placed) == ({" "}, {"\t"}):
        widest = math.gcd(len(pairs[0][0]), *map(len, added))
        suggested = [unit for unit in COMMON_UNITS if widest % unit == 0][:1]
        widths = _tab_widths([(len(new), len(old)) for old, new in pairs], suggested)
        return [partial(_to_tabs, width, more) for width, more in widths]
    if (olds, placed) == ({"\t"}, {" "}):
        widths = _tab_widths([(len(old), len(new)) for old, new in pairs], [len(unit_of(nearby))])
        return [partial(_to_blanks, width, more) for width, more in widths]
    return []


def _tab_widths(points: list[tuple[int, int]], suggested: Sequence[int]) -> list[tuple[int, int]]:
    """Return the pairs (blanks to a tab, levels that only the blanks have) that explain all points (tabs, blanks)."""
    (tabs, blanks), *more = sorted(points)
    widths: list[int] = []
    if more:
        far_tabs, far_blanks = more[-1]
        widths = [(far_blanks - blanks) // (far_tabs - tabs)] if far_tabs > tabs else []
    elif blanks % tabs == 0 and UNIT_MIN <= blanks // tabs <= UNIT_MAX:
        widths = [blanks // tabs, *suggested]
    found: list[tuple[int, int]] = []
    for width in widths:
        offsets = {blanks - width * tabs for tabs, blanks in points}
        if UNIT_MIN <= width <= UNIT_MAX and len(offsets) == 1 and min(offsets) % width == 0:
            found.append((width, min(offsets) // width))
    return found


def _to_tabs(width: int, more: int, indent: str) -> str:
    level, rest = divmod(len(indent), width)
    if rest or level < more:
        raise Doubt(NO_LEVEL)
    return "\t" * (level - more)


def _to_blanks(width: int, more: int, indent: str) -> str:
    if len(indent) + more < 0:
        raise Doubt(NO_LEVEL)
    return " " * width * (len(indent) + more)


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


def find_doubt(indent: str, new: str, *, unit: str) -> str:
    r"""Return why the further lines of a replacement may be meant at another depth; empty when it is certain.

    `indent` is that of the line in the file, `unit` one level around it.

    >>> find_doubt("    ", "if x:\n        foo()", unit="    ")
    ''
    >>> find_doubt("    ", "if x:\n    foo()", unit="    ")
    'its second line may belong to the first'
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
