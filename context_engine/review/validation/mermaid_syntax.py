r"""PURE. Mermaid diagrams: whether the kind is one, its blocks end and its brackets close. What is inside labels is nobody's business.

Not a parser of Mermaid: new kinds and arrows come with every release, so what is not known is doubted, never called wrong.

>>> mermaid_faults("graph TD\n  A[Start --> B")
(Fault(line=2, column=4, message="'[' is never closed", is_sure=True),)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from context_engine.languages.brackets import Bracket, first_problem
from context_engine.review.validation.remark import Fault

FLOWS = frozenset({"graph", "flowchart", "flowchart-elk"})
BRACED = frozenset(
    {"classDiagram", "classDiagram-v2", "stateDiagram", "stateDiagram-v2", "erDiagram", "requirementDiagram"}
)
OTHERS = frozenset(
    "journey gantt pie quadrantChart gitGraph mindmap timeline zenuml sankey xychart block packet kanban architecture radar treemap "
    "info C4Context C4Container C4Component C4Dynamic C4Deployment".split()
)
KINDS = FLOWS | BRACED | OTHERS | {"sequenceDiagram"}
"""The words that a diagram may begin with; `-beta` and a version may stand behind each."""

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


def mermaid_faults(text: str) -> tuple[Fault, ...]:
    """What is wrong with a diagram; its front matter, directives and comments count for nothing."""
    text = _fenced(text)
    for pattern in (_HEAD, _HIDDEN, _QUOTED):
        text = pattern.sub(_blank, text)
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines, 1) if line.strip()), 0)
    if not first:
        return (Fault(1, 1, "there is no diagram"),)
    kind = _KIND.match(lines[first - 1].strip())
    if kind is None or kind[1] not in KINDS:
        return (_unknown(lines[first - 1].strip(), first),)
    if kind[1] in FLOWS:
        return (*_blocks(lines, first, re.compile(r"\s*(subgraph)\b")), *_statements(lines, first))
    if kind[1] == "sequenceDiagram":
        return tuple(_blocks(lines, first, _BLOCK))
    return _braces(lines, first) if kind.group() in BRACED else ()


def _unknown(said: str, line: int) -> Fault:
    word = said.split()[0][:40]
    near = difflib.get_close_matches(word, KINDS, 1, 0.75)
    if near:
        return Fault(line, 1, f"{word!r} is no kind of diagram; did you mean {near[0]}?")
    return Fault(
        line,
        1,
        f"{word!r} is no kind of diagram that we know",
        is_sure=not re.fullmatch(r"[a-z][A-Za-z]+(-beta)?", word),
    )


def _blocks(lines: Sequence[str], first: int, opening: re.Pattern[str]) -> Iterator[Fault]:
    """Blocks that begin with a word and end with `end`."""
    opened: list[tuple[str, int]] = []
    for number, line in enumerate(lines[first:], first + 1):
        if found := opening.match(line):
            opened.append((found[1], number))
        elif _END.match(line):
            if not opened:
                yield Fault(number, 1, "this end ends nothing")
            else:
                opened.pop()
        elif (
            (found := _BETWEEN.match(line))
            and opening is _BLOCK
            and opened
            and opened[-1][0] not in _BETWEEN_OF[found[1]]
        ):
            yield Fault(number, 1, f"{found[1]} does not belong into {opened[-1][0]}", is_sure=False)
    yield from (Fault(number, 1, f"this {word} is never ended") for word, number in opened)


def _statements(lines: Sequence[str], first: int) -> Iterator[Fault]:
    """Shapes of nodes: each statement closes what it opens."""
    for number, line in enumerate(lines[first:], first + 1):
        if not _UNBRACKETED.match(line):
            problem = first_problem(_brackets(_ASIDE.sub(_blank, line), number, "()[]{}"))
            if problem:
                yield Fault(*problem)


def _braces(lines: Sequence[str], first: int) -> tuple[Fault, ...]:
    """Bodies in braces, over lines; what `:` introduces is a label, and an arrow of an ER diagram holds braces itself."""
    inside = (
        bracket
        for number, line in enumerate(lines[first - 1 :], first)
        for bracket in _brackets(re.sub(r"[|o}{]{2}(?:--|\.\.)[|o}{]{2}", _blank, line.partition(":")[0]), number, "{}")
    )
    problem = first_problem(inside)
    return (Fault(*problem),) if problem else ()


def _brackets(line: str, number: int, which: str) -> Iterator[Bracket]:
    return ((character, number, column) for column, character in enumerate(line, 1) if character in which)


def _fenced(text: str) -> str:
    """The diagram in a code fence, on the lines it stands on."""
    found = _FENCE.match(text)
    return "\n" * text.count("\n", 0, found.start(1)) + found[1] if found else text


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found.group())
