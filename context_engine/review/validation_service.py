"""What one Engine knows of validation: parsers, secrets, plans and the workspace, put together for content of any kind.

engine.validation.validated('x = "("', Wanted(path="a.py")).passed   ->   True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.context.fact_check import Ground
from context_engine.context.gather import Workspace
from context_engine.errors import ContextEngineError
from context_engine.languages import PathIndex
from context_engine.review.source_versions import Parsers
from context_engine.review.validation.content_validation import Scrubbed, World, validated
from context_engine.review.validation.structured_content import PlanRemark
from context_engine.review.validation.validation_request import Validated, Wanted
from context_engine.secrets import DetectedSecret

if TYPE_CHECKING:
    from context_engine.plans.plan_json import PlanFinding
    from context_engine.plans.plan_validation import WorkspacePaths as PlanGround
    from context_engine.review.validation.remark import Severity

NEAR_MAX = 3


@dataclass(frozen=True, slots=True)
class House:
    """What it needs of the Engine. `find` knows the secrets of a text, `scrub` takes them out."""

    parsers: Parsers
    workspace: Workspace
    paths: Callable[[], PathIndex]
    find: Callable[[str, str], Sequence[DetectedSecret]]
    scrub: Callable[[str], Scrubbed]
    read_plan: Callable[[object], Iterator[PlanRemark]]


class Validating:
    """Content held against what is known. Keeps nothing of it."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._world = World(
            parsers=house.parsers,
            find=house.find,
            scrub=house.scrub,
            read_plan=house.read_plan,
            ground=self._ground,
            workspace=house.workspace,
            paths=house.paths,
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
            near_paths=lambda path: self._house.workspace.complete_path(path, limit=NEAR_MAX)[0],
        )

    def _text(self, path: str) -> str | None:
        """A file of the workspace that may be read out; None when there is none."""
        try:
            return self._house.workspace.read(path).text
        except ContextEngineError:
            return None


def plan_reader(ground: Callable[[], PlanGround]) -> Callable[[object], Iterator[PlanRemark]]:
    """What whoever knows plans says of one; `ground` are the paths it may speak of."""

    def read(value: object) -> Iterator[PlanRemark]:
        from context_engine.plans.plan_json import parse_plan  # 20 ms, for those who validate a plan
        from context_engine.plans.plan_validation import validate_plan

        plan, remarks = parse_plan(value)
        found = validate_plan(plan, ground(), remarks=remarks)
        told: tuple[tuple[Severity, Sequence[PlanFinding]], ...] = (
            ("error", found.errors),
            ("warning", found.warnings),
            ("info", found.autofixes),
        )
        for severity, listed in told:
            yield from (PlanRemark(severity, each.code, each.message, each.path, each.suggestion) for each in listed)

    return read
