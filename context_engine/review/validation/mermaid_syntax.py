r"""PURE. Check Mermaid diagrams: the kind exists, blocks end, brackets close. Texts of labels are not checked.

This is not a parser of Mermaid: new kinds and arrows come with every release, so unknown ones are doubtful, not wrong.

>>> [(error.line, error.column, error.title) for error in find_mermaid_errors("graph TD\n  A[Start --> B")]
[(2, 4, "'[' is never closed")]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from context_engine.languages import Bracket, check_brackets
from context_engine.model import Finding, syntax_finding
from context_engine.review.content_parsers import UNSURE
from context_engine.text import find_near_words

FLOWS = frozenset({"graph", "flowchart", "flowchart-elk"})
BRACED = frozenset(
    {"classDiagram", "classDiagram-v2", "stateDiagram", "stateDiagram-v2", "erDiagram", "requirementDiagram"}
)
OTHERS = frozenset(
    "journey gantt pie quadrantChart gitGraph mindmap timeline zenuml sankey xychart block packet kanban architecture "
    "radar treemap info C4Context C4Container C4Component C4Dynamic C4Deployment".split()
)
KINDS = FLOWS | BRACED | OTHERS | {"sequenceDiagram"}
"""The words that a diagram may begin with; `-beta` or a version may follow."""

_HEAD = re.compile(r"\A\s*---\n.*?\n---[ \t]*\n", re.DOTALL)
_FENCE = re.compile(r"\A\s*```(?:mermaid)?[ \t]*\n(.*)```\s*+\Z", re.DOTALL)
_QUOTED = re.compile(r'"[^"]*"', re.DOTALL)
_HIDDEN = re.compile(r"%%\{.*?\}%%|%%[^\n]*", re.DOTALL)
_ASIDE = re.compile(r"\|[^|\n]*\||(?<=\w)>[^\]\n]{0,500}\]")
"""Labels of edges, and the shape `A>text]` that opens with something else."""
_KIND = re.compile(r"([A-Za-z][\w-]*?)(-beta|-v\d+)?(?=[\s:;{]|$)")
_BLOCK = re.compile(r"\s*(loop|alt|opt|par|par_over|critical|break|rect|box)\b")
_BETWEEN = re.compile(r"\s*(else|and|option)\b")
_END = re.compile(r"\s*+end\s*+(?:;\s*+)?$")
_BETWEEN_OF = {"else": ("alt",), "and": ("par", "par_over"), "option": ("critical",)}
_UNBRACKETED = re.compile(r"\s*(click|href|style|classDef|linkStyle|class|direction|acc\w+|title)\b")


def find_mermaid_errors(text: str) -> tuple[Finding, ...]:
    """Return the errors of a diagram; front matter, directives and comments are ignored."""
    text = _strip_fence(text)
    for pattern in (_HEAD, _HIDDEN, _QUOTED):
        text = pattern.sub(_blank, text)
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines, 1) if line.strip()), 0)
    if not first:
        return (syntax_finding(1, 1, "the diagram is empty"),)
    kind = _KIND.match(lines[first - 1].strip())
    if kind is None or kind[1] not in KINDS:
        return (_report_unknown_kind(lines[first - 1].strip(), first),)
    if kind[1] in FLOWS:
        return (*_check_blocks(lines, first, re.compile(r"\s*(subgraph)\b")), *_check_statements(lines, first))
    if kind[1] == "sequenceDiagram":
        return tuple(_check_blocks(lines, first, _BLOCK))
    return _check_braces(lines, first) if kind.group() in BRACED else ()


def _report_unknown_kind(text: str, line: int) -> Finding:
    word = text.split()[0][:40]
    near = find_near_words(word, KINDS, 1)
    if near:
        return syntax_finding(line, 1, f"{word!r} is not a kind of diagram; did you mean {near[0]}?")
    return syntax_finding(
        line,
        1,
        f"{word!r} is not a kind of diagram that we know",
        confidence=UNSURE if re.fullmatch(r"[a-z][A-Za-z]+(-beta)?", word) else 1.0,
    )


def _check_blocks(lines: Sequence[str], first: int, opening: re.Pattern[str]) -> Iterator[Finding]:
    opened: list[tuple[str, int]] = []
    for number, line in enumerate(lines[first:], first + 1):
        if found := opening.match(line):
            opened.append((found[1], number))
        elif _END.match(line):
            if not opened:
                yield syntax_finding(number, 1, "this end closes no block")
            else:
                opened.pop()
        elif (
            (found := _BETWEEN.match(line))
            and opening is _BLOCK
            and opened
            and opened[-1][0] not in _BETWEEN_OF[found[1]]
        ):
            yield syntax_finding(number, 1, f"{found[1]} does not belong in {opened[-1][0]}", confidence=UNSURE)
    yield from (syntax_finding(number, 1, f"this {word} has no end") for word, number in opened)


def _check_statements(lines: Sequence[str], first: int) -> Iterator[Finding]:
    for number, line in enumerate(lines[first:], first + 1):
        if not _UNBRACKETED.match(line):
            problem = check_brackets(_find_brackets(_ASIDE.sub(_blank, line), number, "()[]{}"))
            if arrow := re.search(r"(?:--+[->ox]|==+[=>]|\.-+>?)[\s;]*$", line):
                problem = problem or syntax_finding(number, arrow.start() + 1, "this arrow leads nowhere")
            if problem:
                yield problem


def _check_braces(lines: Sequence[str], first: int) -> tuple[Finding, ...]:
    """Check bodies in braces, over lines.

    After `:` comes a label, and an arrow of an ER diagram contains braces itself.
    """
    inside = (
        bracket
        for number, line in enumerate(lines[first - 1 :], first)
        for bracket in _find_brackets(
            re.sub(r"[|o}{]{2}(?:--|\.\.)[|o}{]{2}", _blank, line.partition(":")[0]), number, "{}"
        )
    )
    problem = check_brackets(inside)
    return (problem,) if problem else ()


def _find_brackets(line: str, number: int, which: str) -> Iterator[Bracket]:
    return ((character, number, column) for column, character in enumerate(line, 1) if character in which)


def _strip_fence(text: str) -> str:
    """Return the diagram in a code fence, on its own lines."""
    found = _FENCE.match(text)
    return "\n" * text.count("\n", 0, found.start(1)) + found[1] if found else text


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found.group())
