"""Add the details that only answers need to an outline: signatures and doc comments.

This runs on single files when a call asks for them, so it may walk over nodes. Never raises.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tree_sitter import Node

from context_engine.languages.comments import ATTRIBUTE, docstring_text, find_comment_end, strip_marks
from context_engine.languages.language import Comments, Language
from context_engine.languages.outline_types import Symbol

SIGNATURE_CHARS_MAX = 300
SIGNATURE_BYTES_MAX = 4_000  # read so much to find these: attributes, comments and indentation fall away
DOC_CHARS_MAX = 1_000
INNER_FIELDS = ("value", "definition", "declaration", "declarator", "right")
BEFORE = re.compile(r"[^;{}()=,]*(?:(?<=\s)|(?<!.))")
BODY_MARK = re.compile(r" ?(?:=>|->|[{:=,]|\bdo|\bwhere|\bis|\bbegin)$")


def add_details(
    language: Language, data: bytes, symbols: list[Symbol], nodes: dict[tuple[int, int], Node]
) -> list[Symbol]:
    """Return the symbols with signature and doc. `nodes` are theirs by (start, stop); scanned files have none."""
    lines = data.decode("utf-8", "replace").split("\n")
    trailing = _trailing_comment(language.comments)
    result = []
    for symbol in symbols:
        node = nodes.get((symbol.start, symbol.stop))
        body = _body_start(node) if node is not None else None
        signature = _signature(data, symbol, body, trailing) if node else lines[symbol.line - 1].strip()
        doc = _docstring(language.comments, data, symbol, body)
        # A comment above a line belongs to the first definition on it, not to one inside.
        if not doc and (symbol.parent < 0 or symbols[symbol.parent].first < symbol.first):
            doc = _doc_above(language.comments, lines, symbol)
        result.append(symbol._replace(signature=signature[:SIGNATURE_CHARS_MAX], doc=doc[:DOC_CHARS_MAX]))
    return result


# -- signature ----------------------------------------------------------------------------------------------------


def _body_start(node: Node) -> int | None:
    """Return the start of the body: the `body` field of the definition, or of what it wraps (an assigned function)."""
    for _ in range(4):
        body = node.child_by_field_name("body")
        if body is not None:
            return body.start_byte
        inner = next(filter(None, map(node.child_by_field_name, INNER_FIELDS)), None)
        if inner is None:
            break
        node = inner
    for child in node.named_children[:20]:
        if child.type.endswith(BODY_TYPES):
            return child.start_byte
    return None


BODY_TYPES = ("_body", "block", "declaration_list", "compound_statement", "enum_variant_list", "do_block")


def _signature(data: bytes, symbol: Symbol, body: int | None, trailing: re.Pattern[str]) -> str:
    """Return the definition on one line, without attributes above it and without its body."""
    start, end = symbol.start, symbol.stop if body is None else body
    above = symbol.line - symbol.first
    attributed = above and ATTRIBUTE.match(data[start : start + SIGNATURE_BYTES_MAX].decode("utf-8", "replace"))
    for _ in range(above if attributed else 0):
        start = data.find(b"\n", start) + 1  # attributes may be longer than any signature
    kept = data[start : min(end, start + SIGNATURE_BYTES_MAX)].decode("utf-8", "replace").split("\n")
    if not attributed and body is None and len(kept) > 8:
        kept = kept[:1]
    begin = data.rfind(b"\n", 0, symbol.start) + 1
    before = data[begin : symbol.start].decode("utf-8", "replace")
    # `export`, `pub static` or a type may come before the node on its line.
    if BEFORE.fullmatch(before):
        kept[0] = before + kept[0]
    line = " ".join(" ".join(trailing.sub("", line) for line in kept).split())
    return BODY_MARK.sub("", line)


@lru_cache(maxsize=256)
def _trailing_comment(comments: Comments) -> re.Pattern[str]:
    marks = "|".join(map(re.escape, comments.line)) or "(?!)"
    return re.compile(rf"(?:^|\s+)(?:{marks})(?:[-/!#\s].*)?$")


# -- doc ----------------------------------------------------------------------------------------------------------


def _docstring(comments: Comments, data: bytes, symbol: Symbol, body: int | None) -> str:
    if not comments.docstring or body is None:
        return ""
    inside = data[body : min(symbol.stop, body + 4 * DOC_CHARS_MAX)].decode("utf-8", "replace")
    return docstring_text(comments, inside)


def _doc_above(comments: Comments, lines: list[str], symbol: Symbol) -> str:
    """Return the comment that ends right above the definition; attributes between them are skipped."""
    row = min(symbol.first, len(lines)) - 2
    while row >= 0 and ATTRIBUTE.match(lines[row]):
        row -= 1
    stop = row + 1
    while row >= 0 and (start := find_comment_end(comments, lines, row, is_upward=True)) is not None:
        row = start - 1
    return strip_marks(comments, lines[row + 1 : stop])
