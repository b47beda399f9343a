"""Read comments: those right above a definition, the one that introduces a file, and none at all.

The lines above a definition that belong to it are comments and attributes without a blank line between. A parser puts
them inside some definitions and leaves them outside others; reading lines works for all languages.

>>> find_lines_above(Comments(line=("//",)), ["x", "// Adds.", "#[inline]", "fn add()"], 4)
LeadingLines(first=2, comments=True, attributes=True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from textwrap import dedent
from typing import NamedTuple

from tree_sitter import Node

from context_engine.languages.grammars import Grammars
from context_engine.languages.language import Comments, Language, compile_pattern
from context_engine.languages.syntax_trees import read_tree

LINES_MAX = 200
"""A longer comment is not about one definition."""
ENDINGS = (")", "]", ")]", "})", "})]")
"""The last line of an attribute that takes several lines."""


class LeadingLines(NamedTuple):
    """The first line that belongs to a definition, possibly its own first line, and what is above it."""

    first: int
    comments: bool = False
    attributes: bool = False


def find_lines_above(comments: Comments, lines: Sequence[str], first: int) -> LeadingLines:
    """Find the lines above line `first`, counted from 1, that belong to it; they have the same indentation."""
    found = LeadingLines(first)
    indent = _indent(lines[first - 1])
    while first - found.first < LINES_MAX:
        row = found.first - 2
        if row < 0 or _indent(lines[row]) != indent:
            break
        comment = find_comment_end(comments, lines, row, is_upward=True)
        start = comment if comment is not None else _attribute_start(lines, row, indent)
        if start is None:
            break
        has_comments, has_attributes = comment is not None, comment is None
        found = LeadingLines(start + 1, found.comments or has_comments, found.attributes or has_attributes)
    return found


def find_leading_lines(comments: Comments, lines: Sequence[str]) -> LeadingLines:
    """Find the comments and attributes at the start of a text; `first` is the line of the definition itself.

    >>> find_leading_lines(Comments(line=("#",)), ["# Adds.", "@cached", "def add():"])
    LeadingLines(first=3, comments=True, attributes=True)
    """
    has_comments = has_attributes = False
    row = 0
    while row < len(lines) - 1:
        stop = find_comment_end(comments, lines, row, is_upward=False)
        if stop is not None:
            has_comments = True
        elif ATTRIBUTE.match(lines[row]):
            has_attributes, stop = True, _attribute_stop(lines, row)
        elif lines[row].strip():
            break
        row = row + 1 if stop is None else stop + 1
    return LeadingLines(row + 1, has_comments, has_attributes)


def _indent(line: str) -> str:
    """Return the indentation of a line; a line in a block comment is one blank deeper than its mark."""
    stripped = line.lstrip(" \t")
    indent = line[: len(line) - len(stripped)]
    return indent.removesuffix(" ") if stripped.startswith("*") else indent


def find_comment_end(comments: Comments, lines: Sequence[str], row: int, *, is_upward: bool) -> int | None:
    """Return the last line of the comment that begins at a line; upward, the first line of the one that ends there.

    None if it is not a comment.
    """
    line = lines[row].strip()
    is_script = is_upward and line.startswith("#!")
    if comments.line and line.startswith(comments.line) and not is_script and not ATTRIBUTE.match(line):
        return row
    for opening, closing in comments.block:
        if is_upward and line.endswith(closing):
            starts = range(row, max(-1, row - LINES_MAX), -1)
            return next((start for start in starts if lines[start].lstrip().startswith(opening)), None)
        if not is_upward and line.startswith(opening):
            return next((stop for stop in range(row, len(lines)) if lines[stop].rstrip().endswith(closing)), None)
    return None


def _attribute_start(lines: Sequence[str], row: int, indent: str) -> int | None:
    """Return the first line of the attribute that this line is, or ends; None if it is not an attribute."""
    if ATTRIBUTE.match(lines[row]):
        return row
    starts = range(row - 1, max(-1, row - LINES_MAX), -1) if lines[row].strip() in ENDINGS else ()
    start = next((start for start in starts if _indent(lines[start]) == indent), None)
    return start if start is not None and ATTRIBUTE.match(lines[start]) else None


def _attribute_stop(lines: Sequence[str], row: int) -> int:
    """Return the last line of the attribute that begins here: where its brackets are closed."""
    depth = 0
    for stop in range(row, len(lines)):
        depth += sum((mark in "([{") - (mark in ")]}") for mark in lines[stop])
        if depth <= 0:
            return stop
    return row


HEAD_LINES = 60
HEAD_BYTES = 6_000  # sixty lines of a hundred characters
HEAD_CHARS_MAX = 600
COMMENT_CHARS_MAX = 1_000  # marks and indentation included, so that 600 are left
# What may come before the comment that introduces a file, in any of our languages.
PASSED = (
    r"(?:package|import|from|use|using|namespace|module|require|include|extern|mod|open|export \*|pub use|pub mod|"
    r"library|part|alias|'use strict'|\"use strict\"|<\?php|<\?xml|<!doctype|declare|#include|#pragma|#ifndef|#define|"
    r"#!|@file:|@import|@charset|---)"
)
# Searched with `in`, in lower-case text: a case-insensitive regular expression is a hundred times slower here.
LICENCE_TEXTS = (
    "licensed under", "permission is hereby", "redistribution and use", "general public licen", "apache license",
    "spdx-license", "governed by a", "without warrant", "source code form is subject", "licensed to the",
)  # fmt: skip
LICENCE_LINES = (
    "copyright", "(c)", "©", "licence", "license", "all rights reserved", "-*-", "vim:", "author", "@version", "@since",
    "eslint", "jshint", "pylint", "flake8", "noqa", "mypy:", "coding:", "coding=", "generated by", "shellcheck",
    "frozen_string_literal", "go:build", "+build", "#!", "{-#",
)  # fmt: skip


def read_file_header(language: Language, data: bytes) -> str:
    r"""Return the comment that introduces a file without license text, at most 600 characters; empty if there is none.

    >>> from context_engine.languages import Languages
    >>> go = Languages.builtin()["go"]
    >>> read_file_header(go, b"// Copyright 2020\n\n// Package web routes requests.\npackage web\n")
    'Package web routes requests.'
    """
    head = data[:HEAD_BYTES].decode("utf-8", "replace")
    if language.content == "documentation":
        return _document_words(head)
    pattern, written = _leading(language.comments), language.comments.docstring
    docstring = compile_pattern(written, "is") if written else None
    texts: list[str] = []
    position, length = 0, 0
    while length < HEAD_CHARS_MAX:
        match = pattern.match(head, position)
        kind = match.lastgroup if match else None
        if kind != "blank" and docstring and (quoted := docstring.match(head, position)):
            match, kind = quoted, "docstring"
        if match is None or match.end() == position:
            break
        position = match.end()
        if kind in ("comment", "docstring"):
            text = docstring_text(language.comments, match[0]) if kind == "docstring" else match["comment"]
            text = _without_licence(language.comments, text[:COMMENT_CHARS_MAX])
            texts.append(text)
            length += len(text)
        if head.count("\n", 0, position) >= HEAD_LINES:
            break
    return "\n".join(filter(None, texts))[:HEAD_CHARS_MAX].rstrip()


@lru_cache(maxsize=256)
def _leading(comments: Comments) -> re.Pattern[str]:
    """Match what may come next in a file header, apart from a docstring: blank lines, a comment, a line to skip."""
    marks = []
    if comments.line:
        line = "|".join(map(re.escape, comments.line))
        marks.append(rf"(?:[ \t]*(?:{line})(?!\[)[^\n]*(?:\n|\Z))+")
    marks += [rf"[ \t]*{re.escape(opening)}.*?(?:{re.escape(closing)}|\Z)" for opening, closing in comments.block]
    comment, passed = "|".join(marks) or "(?!)", rf"(?:{PASSED}[^\n]*(?:\n\s*|\Z))+"
    parts = rf"(?P<blank>\s+)|(?P<comment>{comment})|(?P<passed>{passed})"
    return re.compile(parts, re.DOTALL | re.IGNORECASE)


def _without_licence(comments: Comments, text: str) -> str:
    lower = text.lower()
    if any(mark in lower for mark in LICENCE_TEXTS):
        return ""
    present = [mark for mark in LICENCE_LINES if mark in lower]
    lines = [line for line in text.split("\n") if not any(mark in line.lower() for mark in present)]
    return strip_marks(comments, lines)


PROSE_MARK = re.compile(
    r"\A---\n.*?\n---\n|<!--.*?(?:-->|\Z)|!?\[!\[[^\[\]\n]*\]\((?:[^\n]*\))?"
    r"|^\s*(?:[=~*^-]{3,}|\.\. [^\n]*|<[^>\n]*>)\s*$",
    re.DOTALL | re.MULTILINE,
)


def _document_words(head: str) -> str:
    """Return the first words of a document without front matter, badges and rules."""
    text = PROSE_MARK.sub("", "\n".join(head.split("\n")[:HEAD_LINES]))
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line)[:HEAD_CHARS_MAX].rstrip()


_PROSE = ("comment", "string", "char_literal", "character_literal", "heredoc", "regex", "rune_literal", "text_block")
"""Parts of the names of nodes that are not code, in any grammar."""
_CODE_INSIDE = ("interpolation", "substitution", "expansion")
_BLANKS = bytes(byte if byte in b"\n\r" else 32 for byte in range(256))


_PYTHON_WORDS = re.compile(
    rb"""#[^\n]*|(?:\b[rbuftRBUFT]{1,2})?(?:\'\'\'(?:\\.|[^\\])*?(?:\'\'\'|\Z)|\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)"""
    rb"""|\'(?:\\.|[^\'\\\n])*\'?|\"(?:\\.|[^\"\\\n])*\"?)""",
    re.DOTALL,
)


def blank_comments_and_strings(language: Language, data: bytes, grammars: Grammars) -> bytes | None:
    """Return the bytes with comments and strings blank, at the same offsets; None if the file cannot be parsed.

    Code that is interpolated into a string stays, except in Python. Python is read by its tokens alone: its grammar
    needs time quadratic in a run of comments, five seconds for 5,000 lines of them.
    """
    if language.name == "python":
        return _PYTHON_WORDS.sub(lambda found: found.group().translate(_BLANKS), data)
    data, tree = read_tree(language, data, grammars)
    if isinstance(tree, str):
        return None
    pieces, done = [], 0
    for start, stop in _word_spans(tree.root_node):
        pieces += [data[done:start], data[start:stop].translate(_BLANKS)]
        done = stop
    return b"".join([*pieces, data[done:]])


def _word_spans(root: Node) -> Iterator[tuple[int, int]]:
    """Yield the spans of comments and strings in file order, without overlaps."""
    waiting = [(root, False)]
    while waiting:
        node, is_inside = waiting.pop()
        begins_words = any(word in node.type for word in _PROSE)
        is_inside = begins_words or (is_inside and not any(word in node.type for word in _CODE_INSIDE))
        if is_inside and not _contains_code(node):
            yield node.start_byte, node.end_byte
        else:
            waiting += [(child, is_inside) for child in reversed(node.children)]


def _contains_code(node: Node) -> bool:
    """Whether something is interpolated, at any depth."""
    waiting = list(node.named_children)
    while waiting:
        child = waiting.pop()
        if any(word in child.type for word in _CODE_INSIDE):
            return True
        waiting += child.named_children
    return False


ATTRIBUTE = re.compile(r"\s*(?:@[\w.]+|#!?\[|\[\w|template\s*<)")


def docstring_text(comments: Comments, text: str) -> str:
    """Return the docstring at the start of a text, without quotes and indentation; empty if there is none."""
    match = compile_pattern(comments.docstring, "s").match(text)
    if match is None:
        return ""
    first, _, rest = match[match.lastindex or 0].strip().partition("\n")
    return (first + "\n" + dedent(rest)).strip()


def strip_marks(comments: Comments, lines: list[str]) -> str:
    r"""Return the text of comment lines without their marks.

    >>> strip_marks(Comments(line=("//",), block=(("/*", "*/"),)), ["/** Adds two", " * numbers. */"])
    'Adds two\nnumbers.'
    """
    opening, closing = _marks(comments)
    texts = [closing.sub("", opening.sub("", line)).rstrip() for line in lines]
    return dedent("\n".join(texts)).strip()


@lru_cache(maxsize=256)
def _marks(comments: Comments) -> tuple[re.Pattern[str], re.Pattern[str]]:
    starts = sorted({*comments.line, *(pair[0] for pair in comments.block)}, key=len, reverse=True)
    ends = [re.escape(pair[1]) for pair in comments.block] or ["(?!)"]
    longer = "|".join(re.escape(mark) + r"[/!*#;%|-]*" for mark in starts) or "(?!)"
    return re.compile(rf"^\s*(?:{longer}|\*(?![*/\w]))? ?(?:[|^] )?"), re.compile(rf"\s*\**(?:{'|'.join(ends)})\s*$")
