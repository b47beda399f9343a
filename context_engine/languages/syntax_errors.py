"""A file's bytes -> its syntax errors, as its parser sees them. Never raises: what cannot be parsed says why.

A parser that recovers from errors finds some in healthy files as well (a macro, a dialect), so a single count says
little; compare the errors of two versions of a file.
"""

from __future__ import annotations

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Language
from context_engine.languages.signatures import position
from context_engine.languages.syntax_trees import read_tree
from context_engine.model import Finding, syntax_finding

ERRORS_MAX = 500
"""A file with more is no text in its language."""
SHOWN_BYTES = 40


def syntax_errors(language: Language, data: bytes, grammars: Grammars) -> tuple[Finding, ...] | str:
    """The syntax errors of a file in their order; a sentence when it cannot be parsed."""
    data, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return tree
    found: list[Finding] = []
    waiting = [tree.root_node] if tree.root_node.has_error else []
    while waiting and len(found) < ERRORS_MAX:
        node = waiting.pop()
        if node.is_missing:
            found.append(syntax_finding(*position(data, node), f"missing {node.type}"))
        elif node.is_error:
            shown = data[node.start_byte : min(node.end_byte, node.start_byte + SHOWN_BYTES)]
            text = " ".join(shown.decode("utf-8", "replace").split())
            found.append(syntax_finding(*position(data, node), f"unexpected {text!r}" if text else "syntax error"))
        waiting += [child for child in reversed(node.children) if child.has_error or child.is_missing]
    return tuple(found)
