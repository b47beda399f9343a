"""PURE. Tier 3: what an agent or a model has to say of a content, asked for with a brief and held against the content.

It never fails content: what nobody can check is an opinion. A remark on lines or code that are not there is set aside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from context_engine.context.fact_check import Claim, Ground, Lines, Quote, Rejected, grounded
from context_engine.context.refinement import SecondPass
from context_engine.context.refinement_prompt import Part, brief
from context_engine.review.validation.remark import Remark
from context_engine.text.lines import count_lines, split_lines

REMARKS_MAX = 30
CATEGORIES = ("correctness", "completeness", "security", "clarity")
SAME_CONTENT = "<the same content>"
"""Stands in the template of the next call for what the agent has already: nobody pays for it twice."""

_TEXT = {"type": "string"}
_REMARK = {
    "line": {"type": "integer", "minimum": 1},
    "quote": _TEXT | {"description": "The line, word for word."},
    "category": {"type": "string", "enum": list(CATEGORIES)},
    "message": _TEXT | {"minLength": 3, "maxLength": 500},
    "suggestion": _TEXT,
}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "findings": {
            "type": "array",
            "maxItems": REMARKS_MAX,
            "items": {"type": "object", "properties": _REMARK, "required": [*_REMARK], "additionalProperties": False},
        }
    },
    "required": ["findings"],
    "additionalProperties": False,
}
"""What a second pass fills in."""

_TASK = (
    "Read the content below and say what is wrong with it that no parser sees: what it claims and does not do, what it leaves out,"
    " what breaks at the edges. Each finding names one line and quotes it. An empty list is a good answer."
)
_HERE = "content"


class Stands(NamedTuple):
    """The remarks that stand, and those that do not."""

    remarks: tuple[Remark, ...]
    rejected: tuple[Rejected, ...]


def second_pass(content: str, kind: str, path: str, remarks: Sequence[Remark]) -> SecondPass:
    """What somebody is asked; `content` is without its secrets."""
    known = [f"line {each.line}: {each.message}" for each in remarks if each.line]
    lines = [f"{number}: {line}" for number, line in enumerate(split_lines(content), 1)]
    asked = brief(_TASK, [Part("Known already", known[:10]), Part(f"Content ({path or kind})", lines)])
    again = {"content": SAME_CONTENT, "content_type": kind, "file_path": path}
    return SecondPass("validate_content", asked, SCHEMA, again, draft="findings", is_stored=False)


def standing(draft: Mapping[str, Any], content: str) -> Stands:
    """What of a draft stands on the content."""
    ground = Ground(has_path=_HERE.__eq__, text=lambda _: content)
    claims = [
        Claim(
            row,
            f"findings[{number}]",
            lines=[Lines(_HERE, row["line"], row["line"])],
            quotes=[Quote(_HERE, row["quote"])],
        )
        for number, row in enumerate(draft["findings"])
    ]
    found = grounded(claims, ground)
    return Stands(tuple(_remark(row, content) for row in found.kept), found.rejected)


def wrong_with(draft: Mapping[str, Any], content: str) -> str:
    """Why a whole draft is of no use, for whoever may try once more; empty when some of it stands, or nothing was to be said."""
    stands = standing(draft, content)
    return stands.rejected[0].reason if stands.rejected and not stands.remarks else ""


def _remark(row: Mapping[str, Any], content: str) -> Remark:
    line = _anchored(row["line"], row["quote"], content)
    return Remark(
        3,
        "warning",
        row["category"],
        f"critique-{row['category']}",
        row["message"].strip(),
        line,
        1,
        row["suggestion"].strip(),
    )


def _anchored(line: int, quote: str, content: str) -> int:
    """The line nearest to the one that is named on which the quote begins; the named one when it stands on none."""
    lines = split_lines(content)
    wanted = " ".join(quote.split("\n")[0].split())
    found = [number for number, each in enumerate(lines, 1) if wanted and wanted in " ".join(each.split())]
    return min(found, key=lambda number: (abs(number - line), number), default=min(line, count_lines(content)))
