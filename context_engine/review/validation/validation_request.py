"""PURE. What a content is and what is to be looked at, and what came of it; light enough for a list of tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from context_engine.review.validation.remark import Remark

Kind = Literal[
    "generated_code", "plan_output", "review_finding", "raw_text", "json", "yaml", "toml", "markdown", "diff", "mermaid"
]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a content is, and what is to be looked at. `base` is an older version: only what is new is told."""

    kind: str = "raw_text"
    path: str = ""
    language: str = ""
    scrubs: bool = True
    tiers: frozenset[int] = frozenset({1, 2})
    schema: Mapping[str, Any] | None = None
    stops_on_error: bool = False
    base: str | None = None


@dataclass(frozen=True, slots=True)
class Validated:
    """What was found, most pressing first. `scrubbed` is the content without its secrets, None when it has none."""

    remarks: tuple[Remark, ...]
    tiers_run: tuple[int, ...] = ()
    skipped: tuple[tuple[int, str], ...] = ()
    scrubbed: str | None = None
    secrets: int = 0

    @property
    def passed(self) -> bool:
        """Whether nothing is certainly wrong."""
        return not any(remark.severity == "error" for remark in self.remarks)


def by_severity(remarks: Iterable[Remark]) -> dict[str, int]:
    """How many there are of each."""
    counts = Counter(remark.severity for remark in remarks)
    return {severity: counts[severity] for severity in ("error", "warning", "info")}
