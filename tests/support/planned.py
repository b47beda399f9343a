"""Plans and events for tests: small worlds in which everything meets, and a ground with a few files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import strategies as st

from context_engine.context.assist import SecondPassRunner
from context_engine.context.llm_endpoint import ModelDraft
from context_engine.plans.model import (
    Milestone,
    Plan,
    PlanEvidence,
    PlanQuestion,
    PlanRisk,
    PlanScope,
    PlanStep,
)
from context_engine.plans.plan_diff import FieldChange
from context_engine.plans.plan_events import MOVES, PlanEvent
from context_engine.plans.plan_json import normalize_plan
from context_engine.plans.plan_validation import WorkspacePaths
from context_engine.tools.tool import Tool

FILES = ("src/app.py", "src/db.py", "src/web.py", "tests/test_app.py")
TITLES = st.sampled_from(["Write it", "Test it", "end", 'say "x" [y]; %%', "Ship 🎉", "a|b", "direction LR", "<b>"])
WORDS = st.sampled_from(["", "one", "two words", "~/odd~1/", "ümlaut"])
PATHS = st.lists(st.sampled_from(FILES), max_size=2, unique=True).map(tuple)
ESTIMATES = st.none() | st.integers(0, 9).map(float)


def plan_of(*waits: tuple[int, ...], **fields: Any) -> Plan:
    """A plan in which each step waits for these numbers: `plan_of((), (1,), (1, 2))`."""
    steps = [PlanStep(title=f"Step {n}", depends_on=tuple(map(str, each))) for n, each in enumerate(waits, 1)]
    return normalize_plan(Plan(goal="Ship it", steps=tuple(steps), **fields))


def ground(*more: str) -> WorkspacePaths:
    """A workspace of a few files; what leads out of it must not be named."""
    there = {*FILES, *more}

    def refusal(path: str) -> str:
        return "it leads out of the workspace" if path.startswith(("/", "..")) else ""

    return WorkspacePaths(there.__contains__, lambda path: "src/app.py" if path == "src/ap.py" else "", refusal)


@st.composite
def plans(draw: st.DrawFn, *, most: int = 7, acyclic: bool = True) -> Plan:
    """Any plan of a few steps; an acyclic one waits only for earlier steps."""
    count = draw(st.integers(0, most))
    steps = [_step(draw, number, count, acyclic) for number in range(1, count + 1)]
    plan = Plan(
        goal=draw(TITLES),
        task=draw(WORDS),
        scope=PlanScope(included=draw(PATHS), assumptions=(draw(st.sampled_from(["it works", "it is small"])),)),
        risks=tuple(draw(st.lists(st.builds(PlanRisk, TITLES, WORDS), max_size=2))),
        milestones=tuple(
            Milestone(title, tuple(f"s{n}" for n in range(1, count + 1, 2)))
            for title in draw(st.lists(TITLES, max_size=1))
        ),
        steps=tuple(draw(st.permutations(steps))),
        confidence_score=draw(st.sampled_from([0.0, 0.25, 1.0])),
        questions=tuple(
            PlanQuestion(f"q{n}", text, answer=draw(WORDS))
            for n, text in enumerate(draw(st.lists(TITLES, max_size=2, unique=True)), 1)
        ),
        open_feedback=draw(st.sampled_from([(), ("faster",)])),
        evidence=draw(st.sampled_from([(), (PlanEvidence("definition", "src/app.py", 3, "main"),)])),
    )
    return normalize_plan(plan)


def _step(draw: st.DrawFn, number: int, count: int, acyclic: bool) -> PlanStep:
    others = range(1, number if acyclic else count + 1)
    waits = draw(st.lists(st.sampled_from(others), max_size=3, unique=True)) if others else []
    return PlanStep(
        uid=f"s{number}",
        title=draw(TITLES),
        description=draw(WORDS),
        files_to_modify=draw(PATHS),
        depends_on=tuple(f"s{each}" for each in waits),
        priority=draw(st.sampled_from(["high", "medium", "low"])),
        hours=draw(ESTIMATES),
        acceptance_criteria=draw(st.sampled_from([(), ("it passes",)])),
    )


def events(uids: list[str], *, most: int = 30) -> st.SearchStrategy[list[PlanEvent]]:
    """Anything that may stand in a log, possible or not, some minutes apart."""
    kinds = st.sampled_from([*MOVES, *MOVES, "plan_changed", "unheard_of"])
    data = st.sampled_from([{}, {"forced": True}, {"error": "it broke"}, {"notes": "done"}])
    rows = st.lists(st.tuples(kinds, st.sampled_from([*uids, "gone"]), data), max_size=most)
    return rows.map(
        lambda told: [
            PlanEvent(seq=seq, at=f"2026-11-21T{seq // 60:02}:{seq % 60:02}:00.000Z", kind=kind, step=uid, data=said)
            for seq, (kind, uid, said) in enumerate(told, 1)
        ]
    )


def apply_changes(value: Mapping[str, Any], changes: Iterable[FieldChange]) -> dict[str, Any]:
    """The value with the changes applied to a copy of it."""
    made = deepcopy(dict(value))
    for change in changes:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in change.path.split("/")[1:])
        inner: Any = made
        for part in way:
            inner = inner[part]
        if change.type == "removed":
            del inner[last]
        else:
            inner[last] = deepcopy(change.new)
    return made


def detailed(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, and those that make its reply whole, as far as the tool has them."""
    names = {parameter.name for parameter in tool.parameters}
    whole = {"include_steps": True} if "include_steps" in names else {}
    return whole | dict(arguments)


class Filled:
    """A model that fills in what it is told to, and remembers what it was asked and what was wrong with it."""

    def __init__(self, *drafts: dict[str, Any]) -> None:
        self.drafts = list(drafts)
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.schemas: list[Any] = []

    def fill(self, brief: str, schema: Any, check: Any, cancel: Any = None, **_: Any) -> ModelDraft:
        self.asked.append(brief)
        self.schemas.append(schema)
        for draft in self.drafts:
            if not (wrong := check(draft)):
                return ModelDraft(draft)
            self.wrong.append(wrong)
        return ModelDraft(None, failure="the model gave no plan that is true")

    def close(self) -> None: ...


def with_model(engine: Any, monkeypatch: pytest.MonkeyPatch, *drafts: dict[str, Any]) -> Filled:
    model = Filled(*drafts)
    monkeypatch.setattr(engine, "second_pass", SecondPassRunner(model), raising=False)
    return model
