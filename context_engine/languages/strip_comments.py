r"""A file's bytes with its comments and strings made blank: what is left is code. Never raises.

Lines and offsets stay. What is interpolated into a string is code and stays as well, but in Python.

>>> python = Languages.builtin()["python"]
>>> code_only(python, b'x = "print()"  # print()\n', Grammars(getfixture("tmp_path")))
b'x =                     \n'

Python is read by its tokens alone: its grammar needs time quadratic in a run of comments, five seconds for 5,000 lines
of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree_sitter import Node

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language, Languages
from context_engine.languages.syntax_trees import read_tree

__all__ = ["Grammars", "Languages", "code_only"]

_PROSE = ("comment", "string", "char_literal", "character_literal", "heredoc", "regex", "rune_literal", "text_block")
"""What the names of nodes hold that are no code, in any grammar."""
_CODE_INSIDE = ("interpolation", "substitution", "expansion")
_BLANKS = bytes(byte if byte in b"\n\r" else 32 for byte in range(256))


_PYTHON = re.compile(
    rb"""#[^\n]*|(?:\b[rbuftRBUFT]{1,2})?(?:\'\'\'(?:\\.|[^\\])*?(?:\'\'\'|\Z)|\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)"""
    rb"""|\'(?:\\.|[^\'\\\n])*\'?|\"(?:\\.|[^\"\\\n])*\"?)""",
    re.DOTALL,
)


def code_only(language: Language, data: bytes, grammars: Grammars) -> bytes | None:
    """The bytes without what is said in words; None when the file cannot be parsed."""
    if language.name == "python":
        return _PYTHON.sub(lambda found: found.group().translate(_BLANKS), data)
    data, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return None
    pieces, done = [], 0
    for start, stop in _prose(tree.root_node):
        pieces += [data[done:start], data[start:stop].translate(_BLANKS)]
        done = stop
    return b"".join([*pieces, data[done:]])


def _prose(root: Node) -> Iterator[tuple[int, int]]:
    """Where comments and strings stand, in order and apart from each other."""
    waiting = [(root, False)]
    while waiting:
        node, is_inside = waiting.pop()
        said = node.type
        is_inside = any(word in said for word in _PROSE) or (
            is_inside and not any(word in said for word in _CODE_INSIDE)
        )
        if is_inside and not _holds_code(node):
            yield node.start_byte, node.end_byte
        else:
            waiting += [(child, is_inside) for child in reversed(node.children)]


def _holds_code(node: Node) -> bool:
    """Whether something is interpolated, at any depth."""
    waiting = list(node.named_children)
    while waiting:
        child = waiting.pop()
        if any(word in child.type for word in _CODE_INSIDE):
            return True
        waiting += child.named_children
    return False
