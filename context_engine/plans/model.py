"""PURE. The data of a plan: a task divided into steps that depend on each other.

Steps name their dependencies by `uid`, which stays the same in every version. Derived values (step numbers, `blocks`,
`can_parallel_with`, the dependency graph) are never stored: `plan_json` adds them on writing and ignores them on
reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from context_engine.errors import InvalidArgument

Level = Literal["high", "medium", "low"]
LEVELS: tuple[Level, ...] = ("high", "medium", "low")
"""Of a priority or a likelihood; the most pressing first."""
Texts = tuple[str, ...]
Uid = Annotated[str, msgspec.Meta(pattern=r"\A(?:[A-Za-z][A-Za-z0-9_-]{0,39})?\Z")]
"""A letter first, so that it is never taken for a number; empty until it gets one."""
TITLE_CHARS_MAX = 500
TASK_CHARS_MAX = 10_000
"""Of the task that a plan repeats; a longer one is cut."""
Title = Annotated[str, msgspec.Meta(min_length=1, max_length=TITLE_CHARS_MAX)]
"""A title: what is longer is a description."""
FILE_FIELDS = ("files_to_modify", "files_to_create", "files_to_delete")
"""The fields of a step that list files."""
Hours = Annotated[float, msgspec.Meta(ge=0, le=100_000)]
"""Fifty years of work; more is a mistake, and would not fit a calendar."""

UNKNOWN_HOURS = 1.0
"""Weight of a step without an estimate, for the critical path and the share that is done; never shown as hours."""
DAY_HOURS = 8.0
"""A working day."""
NUMBER_DIGITS = 7
"""No plan has so many steps; and Python is slow to read thousands of digits."""


class PlanEvidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a file or a step is in the plan. `kind` is a word such as definition, reference, test, co_change."""

    kind: str
    path: str = ""
    line: int = 0
    symbol: str = ""


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a plan. Its number is its place in the plan; `depends_on` are uids of other steps."""

    uid: Uid = ""
    title: Title
    description: str = ""
    files_to_modify: Texts = ()
    files_to_create: Texts = ()
    files_to_delete: Texts = ()
    depends_on: Texts = ()
    priority: Level = "medium"
    estimated_effort: str = ""
    hours: Hours | None = None
    acceptance_criteria: Texts = ()
    checks: Texts = ()
    evidence: tuple[PlanEvidence, ...] = ()

    @property
    def files(self) -> frozenset[str]:
        """Every path it touches."""
        return frozenset((*self.files_to_modify, *self.files_to_create, *self.files_to_delete))

    @property
    def weight(self) -> float:
        """Its hours; `UNKNOWN_HOURS` without an estimate."""
        return UNKNOWN_HOURS if self.hours is None else self.hours


class PlanScope(msgspec.Struct, frozen=True):
    """The limits of a plan: its parts and what it leaves out."""

    included: Texts = ()
    excluded: Texts = ()
    assumptions: Texts = ()
    constraints: Texts = ()


class PlanDiagram(msgspec.Struct, frozen=True):
    """A picture of a plan, as Mermaid writes it."""

    type: str
    mermaid: str


class PlanArchitecture(msgspec.Struct, frozen=True):
    """How the plan fits into the code."""

    notes: str = ""
    patterns_used: Texts = ()
    diagrams: tuple[PlanDiagram, ...] = ()


class PlanRisk(msgspec.Struct, frozen=True):
    """A risk, and how to mitigate it."""

    issue: str
    mitigation: str = ""
    likelihood: Level = "medium"


class Milestone(msgspec.Struct, frozen=True):
    """Steps that are worth something together; `steps_included` are uids."""

    name: str
    steps_included: Texts = ()
    estimated_time: str = ""


class TestingStrategy(msgspec.Struct, frozen=True):
    """How to verify the result of the plan."""

    __test__ = False  # pytest takes the name for a class of tests

    unit: str = ""
    integration: str = ""
    coverage_target: str = ""


class PlanQuestion(msgspec.Struct, frozen=True):
    """A question to answer first. `candidates` are possible answers; an empty `answer` means unanswered."""

    id: str
    text: str
    candidates: Texts = ()
    answer: str = ""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A way to do a task. `uids_minted` counts the uids ever given, so that none is given twice."""

    goal: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]
    id: str = ""
    version: Annotated[int, msgspec.Meta(ge=0)] = 0
    task: str = ""
    scope: PlanScope = PlanScope()
    mvp_features: Texts = ()
    nice_to_have_features: Texts = ()
    architecture: PlanArchitecture = PlanArchitecture()
    risks: tuple[PlanRisk, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    testing_strategy: TestingStrategy = TestingStrategy()
    confidence_score: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    questions: tuple[PlanQuestion, ...] = ()
    open_feedback: Texts = ()
    evidence: tuple[PlanEvidence, ...] = ()
    provenance: Literal["core", "host", "model"] = "host"
    base_commit: str = ""
    created_at: str = ""
    uids_minted: Annotated[int, msgspec.Meta(ge=0)] = 0

    @property
    def files(self) -> frozenset[str]:
        """Every path that a step touches."""
        return frozenset().union(*(step.files for step in self.steps))

    @property
    def has_estimates(self) -> bool:
        """Whether every step has an estimate: a sum of some of them would not be the time of the plan."""
        return bool(self.steps) and all(step.hours is not None for step in self.steps)

    @property
    def open_questions(self) -> tuple[PlanQuestion, ...]:
        """Those without an answer."""
        return tuple(question for question in self.questions if not question.answer)

    def step_numbers(self) -> dict[str, int]:
        """Return the number of each step by its uid; the first is 1."""
        return {step.uid: number for number, step in enumerate(self.steps, 1)}

    def list_numbers(self, uids: Iterable[str]) -> list[int]:
        """Return the numbers of steps by their uids, sorted; a step that the plan does not have is left out."""
        number = self.step_numbers()
        return sorted(number[uid] for uid in uids if uid in number)

    def find_step(self, which: int | str) -> PlanStep:
        """Return the step with a number or uid; `"3"` is a number too. Raises: InvalidArgument, with the valid ones."""
        text = str(which).strip()
        if text.isdecimal() and len(text) < NUMBER_DIGITS and 1 <= int(text) <= len(self.steps):
            return self.steps[int(text) - 1]
        for step in self.steps:
            if step.uid == text:
                return step
        valid = f"Steps go from 1 to {len(self.steps)}."
        raise InvalidArgument(
            f"the plan has no step {text[:60]!r}",
            suggestion=valid if self.steps else "The plan has no steps yet: add one with refine_plan.",
            details={"step": text[:60], "steps": len(self.steps), "uids": [step.uid for step in self.steps[:50]]},
        )


def single_line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def format_effort(hours: float) -> str:
    """Format hours in words.

    >>> format_effort(0.5), format_effort(2.0), format_effort(20), format_effort(1.26)
    ('30 min', '2 h', '2.5 days', '1.3 h')
    """
    if hours < 1:
        return f"{hours * 60:.0f} min"
    if hours < 2 * DAY_HOURS:
        return f"{round(hours, 1):g} h"
    return f"{round(hours / DAY_HOURS, 1):g} days"
