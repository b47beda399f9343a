"""Plans in replies: whole where they fit, else as many steps as do, and how to get the others."""

from collections.abc import Mapping
from typing import Any

from context_engine.plans.model import Plan
from context_engine.plans.wire import wire
from context_engine.tools.fit import NOTE_CHARS, compact, fitting_rows, size, thrifty

SPARE = ("dependency_graph", "architecture", "evidence", "scope", "risks", "milestones", "testing_strategy")
"""Left out of a plan too long for a reply, in this order, before steps are: the graph follows from them."""


def shown_plan(plan: Plan, room: int, *, from_step: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan as a reply of so many characters can hold it, and beside it what was left out; nothing when nothing was.

    `steps_shown`, `steps_total`, `next_step` (the `from_step` to go on with), `fields_left_out`.
    """
    whole = wire(plan)
    if from_step <= 1 and size(compact(whole)) <= room:
        return whole, {}
    rows = whole.pop("steps")
    left_out = _without_spare(whole, room // 2)
    shown = fitting_rows(rows[from_step - 1 :], chars_max=room - size(compact(whole)) + NOTE_CHARS)
    after = from_step - 1 + len(shown)
    told = {
        "steps_shown": len(shown),
        "steps_total": len(rows),
        "next_step": after + 1 if after < len(rows) else None,
        "fields_left_out": left_out,
    }
    return whole | {"steps": list(shown)}, thrifty(told)


def _without_spare(whole: dict[str, Any], room: int) -> list[str]:
    """Take out of the plan what it can be shown without, until it fits; what that was."""
    left_out = []
    for name in SPARE:
        if size(compact(whole)) <= room:
            break
        if whole.pop(name, None):
            left_out.append(name)
    return left_out


def answer(told: Mapping[str, Any], kept: tuple[str, ...] = ()) -> str:
    """A reply: `ok`, then what is told of it, without what is empty; `kept` stays whatever it is."""
    full = {"ok": True, **told}
    return compact({key: value for key, value in full.items() if key in kept or key in thrifty({key: value})})
