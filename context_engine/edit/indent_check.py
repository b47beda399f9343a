r"""PURE. Whether it is certain where the new lines stand when one line was quoted without its indentation.

`foo()` is found in `    foo()` exactly, as a part of the line. What the replacement begins its further lines with may
then be meant as it is, or counted from where the target begins; most editors write it as it is and mangle half of them.
Here the second line must be where only the first reading makes sense: below a whole statement as deep as that, below
the head of a block one level deeper. Below anything else, prose and broken lines first of all, nobody can tell.

>>> doubt("    ", "if x:\n        foo()", unit="    "), bool(doubt("    ", "if x:\n    foo()", unit="    "))
('', True)
"""

from __future__ import annotations

import re

from context_engine.edit.normalized_lines import BLANKS, indent_of

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
"""A line that is a statement by itself: nothing deeper belongs below it."""
LIST_MARK = re.compile(r"(?:[-*+]|\d+[.)])[ \t]")
"""What is in a list stands by its mark, which may be deeper by any number of blanks."""
QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")


def is_partial(old: str, before: str) -> bool:
    """Whether a target is one line that begins inside or right behind its indentation, of which `before` is missing."""
    return bool(before) and not before.strip(BLANKS) and "\n" not in old.rstrip(f"{BLANKS}\n")


def doubt(indent: str, new: str, *, unit: str) -> str:
    """Why the further lines of a replacement may not stand where they are written; empty when it is certain.

    `indent` is that of the line in the file, `unit` one level around it.
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
    return BELONGS if second.startswith(GOES_ON) and not second.startswith(IS_COMMENT) else ""


def levels_below(line: str) -> int | None:
    """How much deeper the line below one is: 0 or 1 levels; None when that cannot be told.

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
    return 0 if WHOLE.fullmatch(line) else None
