"""What one Engine knows of validation: parsers, secrets, plans and the workspace, put together for content of any kind.

engine.validation.validated('x = "("', Wanted(path="a.py")).passed   ->   True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.context.fact_check import Ground
from context_engine.context.workspace import Workspace
from context_engine.errors import ContextEngineError
from context_engine.repo.paths import Root
from context_engine.review.source_versions import Parsers
from context_engine.review.validation.content_validation import World, validated
from context_engine.review.validation.structured_content import PlanRemark
from context_engine.review.validation.validation_request import Validated, Wanted
from context_engine.secrets.redactor import Redactor

if TYPE_CHECKING:
    from context_engine.plans.plan_json import PlanFinding
    from context_engine.review.validation.remark import Severity

NEAR_MAX = 3


@dataclass(frozen=True, slots=True)
class ValidationDependencies:
    """What it stands on: parsers, the workspace that content speaks of, and what takes secrets out."""

    root: Root
    parsers: Parsers
    workspace: Workspace
    scrubber: Redactor


class Validating:
    """Content held against what is known. Keeps nothing of it."""

    def __init__(self, parts: ValidationDependencies) -> None:
        self._workspace = parts.workspace
        self._world = World(
            parsers=parts.parsers,
            find=parts.scrubber.find,
            scrub=parts.scrubber.redact,
            read_plan=plan_reader(parts.root),
            ground=self._ground,
            workspace=parts.workspace,
            paths=parts.workspace.symbols.paths,
            read=self._text,
        )

    def validated(self, content: str, wanted: Wanted) -> Validated:
        """Look at a content tier by tier. Raises: InvalidArgument (the schema is none)."""
        return validated(content, wanted, self._world)

    def _ground(self) -> Ground:
        """The facts that findings of a review are held against."""
        return Ground(
            has_path=lambda path: self._text(path) is not None,
            text=self._text,
            near_paths=lambda path: self._workspace.search.complete_path(path, limit=NEAR_MAX)[0],
        )

    def _text(self, path: str) -> str | None:
        """A file of the workspace that may be read out; None when there is none."""
        try:
            return self._workspace.files.read(path).text
        except ContextEngineError:
            return None


def plan_reader(root: Root) -> Callable[[object], Iterator[PlanRemark]]:
    """Return what validates a plan of this workspace."""

    def read(value: object) -> Iterator[PlanRemark]:
        from context_engine.plans.plan_json import parse_plan  # 20 ms, for those who validate a plan
        from context_engine.plans.plan_service import workspace_paths
        from context_engine.plans.plan_validation import validate_plan

        plan, remarks = parse_plan(value)
        found = validate_plan(plan, workspace_paths(root), remarks=remarks)
        told: tuple[tuple[Severity, Sequence[PlanFinding]], ...] = (
            ("error", found.errors),
            ("warning", found.warnings),
            ("info", found.autofixes),
        )
        for severity, listed in told:
            yield from (PlanRemark(severity, each.code, each.message, each.path, each.suggestion) for each in listed)

    return read
