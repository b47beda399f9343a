r"""Check whether the brackets and quotes of a text close, which does not depend on a parser that knows every construct.

A grammar is older than its language, and no grammar has macros, so a parser finds errors in healthy files. A bracket
that nothing closes is an error in every language, except in strings and comments.

>>> check_c_brackets('if (x) { puts("}"); /* ) */').title
"'{' is never closed"
>>> check_c_brackets("#if A\nf(a) {\n#else\nf(b) {\n#endif\n}") is None
True
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from tree_sitter import Node

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.syntax_trees import node_position, read_tree
from context_engine.model import Finding, syntax_finding

PREPROCESSED = frozenset({"c", "cpp", "objc"})
"""Their parsers see macros that they do not know; the brackets of one branch of each `#if` must still close."""

TOKEN_CHARS_MAX = 3
"""`${`, `#[`, `{{`, `]]`: a longer token is a word."""

_PAIRS = {"(": ")", "[": "]", "{": "}"}
_QUOTES = frozenset("\"'`")
_BRACKETS = frozenset((*_PAIRS, *_PAIRS.values()))
_NEVER = re.compile(r"\s*#\s*if\s+0\b")
_C_TOKEN = re.compile(
    r"""//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)           # comments
    |(?:u8|[uUL])?R"([^()\\\s]{0,16})\(.*?(?:\)\1"|\Z)      # raw strings
    |"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?       # strings and characters
    |\b\d[\w.']*                                     # numbers, since 1'000 is one
    |^[ \t]*\#[ \t]*(\w*)(?:\\\r?\n|/\*.*?\*/|[^\n])*         # the preprocessor's own lines
    |[()\[\]{}]""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)

Bracket = tuple[str, int, int]
"""The character, its line and its column. A quote is included only if nothing ends its string."""
Branch = Literal["now", "later", "done"]


def find_bracket_problem(language: Language, data: bytes, grammars: Grammars) -> Finding | None:
    """Return the first bracket that is not closed, or closes nothing; None also if the file cannot be parsed.

    Where a text has as many opening as closing brackets of a kind, the parser is astray, not the text.
    """
    if language.name in PREPROCESSED:
        return check_c_brackets(data.decode("utf-8", "replace"))
    data, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return None
    uneven = {quote for quote in _QUOTES if data.count(quote.encode()) % 2}
    for opening, closing in _PAIRS.items():
        if data.count(opening.encode()) != data.count(closing.encode()):
            uneven |= {opening, closing}
    return check_brackets(bracket for bracket in _of_tree(data, tree.root_node) if bracket[0] in uneven)


def check_c_brackets(text: str) -> Finding | None:
    """Check C and its relatives without a parser: the first branch of each `#if` counts, unless it is `#if 0`."""
    return check_brackets(_of_c(text))


def check_brackets(brackets: Iterable[Bracket]) -> Finding | None:
    """Return the first problem of brackets in file order.

    >>> check_brackets([("(", 1, 5), ("]", 2, 1)]).title
    "']' closes the '(' of line 1"
    """
    opened: list[Bracket] = []
    for character, line, column in brackets:
        if character in _PAIRS:
            opened.append((character, line, column))
        elif character in _QUOTES:
            return syntax_finding(line, column, f"the string that begins with {character} is never ended")
        elif not opened:
            return syntax_finding(line, column, f"{character!r} closes nothing")
        elif _PAIRS[(last := opened.pop())[0]] != character:
            return syntax_finding(line, column, f"{character!r} closes the {last[0]!r} of line {last[1]}")
    if opened:
        return syntax_finding(opened[-1][1], opened[-1][2], f"{opened[-1][0]!r} is never closed")
    return None


def _of_tree(data: bytes, root: Node) -> Iterator[Bracket]:
    """Yield the brackets among the tokens of a tree, in file order."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.child_count:
            waiting += reversed(node.children)
        elif not (node.is_named or node.is_missing) and len(node.type) <= TOKEN_CHARS_MAX:
            token = data[node.start_byte : node.end_byte].decode("latin-1")
            if token in _QUOTES and node.parent is not None and node.parent.is_error:
                yield (token, *node_position(data, node))
            for character in token if token == node.type else "":
                if character in _BRACKETS:
                    yield (character, *node_position(data, node))


def _of_c(text: str) -> Iterator[Bracket]:
    line = done = 0
    branches: list[Branch] = []
    for token in _C_TOKEN.finditer(text):
        line += text.count("\n", done, token.start())
        done = token.start()
        text_of_token = token.group()
        if token[2] is not None:
            _follow(branches, token[2], text_of_token)
        elif (text_of_token in _BRACKETS or _is_open(text_of_token)) and all(branch == "now" for branch in branches):
            yield text_of_token[0], line + 1, done - text.rfind("\n", 0, done)


def _is_open(token: str) -> bool:
    """Whether the token is a string that does not end on its line."""
    return token.startswith('"') and (len(token) == 1 or not token.endswith('"'))


def _follow(branches: list[Branch], directive: str, line: str) -> None:
    """Follow a preprocessor line: update for each open `#if` whether its lines count now, later or not any more."""
    if directive in ("if", "ifdef", "ifndef"):
        branches.append("later" if _NEVER.match(line) else "now")
    elif directive in ("else", "elif", "elifdef", "elifndef") and branches:
        branches[-1] = "now" if branches[-1] == "later" else "done"
    elif directive == "endif" and branches:
        branches.pop()
