"""Plans in replies: whole where they fit, else as many steps as do, and how to get the others."""

from collections.abc import Mapping
from typing import Any

from context_engine.plans.model import Plan
from context_engine.plans.plan_serialization import serialize_plan
from context_engine.tools.truncate import (
    NOTE_CHARS,
    compact_json,
    count_fitting,
    cut_to_size,
    drop_empty,
    reply_size,
    take_fitting_rows,
)

SPARE = ("dependency_graph", "architecture", "evidence", "scope", "risks", "milestones", "testing_strategy")
"""Left out of a plan too long for a reply, in this order, before steps are: the graph follows from them."""

LEAST_CHARS = 100
"""Of each field of a step that has no room even alone."""


def fit_plan(plan: Plan, room: int, *, from_step: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan as a reply of so many characters can hold it, and beside it what was left out; nothing when nothing was.

    `steps_shown`, `steps_total`, `next_step` (the `from_step` to go on with), `fields_left_out`.
    """
    whole = serialize_plan(plan)
    if from_step <= 1 and reply_size(compact_json(whole)) <= room:
        return whole, {}
    rows = whole.pop("steps")
    left_out = _without_spare(whole, room // 2)
    rest, space = rows[from_step - 1 :], room - reply_size(compact_json(whole))
    shown = take_fitting_rows(rest, chars_max=space + NOTE_CHARS) or [_cut(row, space) for row in rest[:1]]
    after = from_step - 1 + len(shown)
    told = {
        "steps_shown": len(shown),
        "steps_total": len(rows),
        "next_step": after + 1 if after < len(rows) else None,
        "fields_left_out": left_out,
    }
    return whole | {"steps": list(shown)}, drop_empty(told)


def _without_spare(whole: dict[str, Any], room: int) -> list[str]:
    """Take out of the plan what it can be shown without, until it fits; what that was."""
    left_out = []
    for name in SPARE:
        if reply_size(compact_json(whole)) <= room:
            break
        if whole.pop(name, None):
            left_out.append(name)
    return left_out


def _cut(row: Mapping[str, Any], room: int) -> dict[str, Any]:
    """A step that has no room even alone: its fields one after the other, the long ones by their beginnings."""
    share = max(room // (2 * len(row)), LEAST_CHARS)
    kept = {key: _beginning(value, share) for key, value in row.items()}
    return kept | {"cut": sorted(key for key in row if kept[key] != row[key])}


def _beginning(value: Any, room: int) -> Any:
    """A text or a list up to so many characters; anything else as it is."""
    if isinstance(value, str) and reply_size(value) > room:
        return cut_to_size(value, room - 1) + "…"
    if isinstance(value, list | tuple):
        return value[: count_fitting(map(compact_json, value), chars_max=room)]
    return value


def cut_lines(text: str, room: int) -> str:
    """A rendering up to so many characters, by whole lines; its last line says how much more there is."""
    lines = text.split("\n")
    count = count_fitting(lines, chars_max=room - NOTE_CHARS)
    if count == len(lines):
        return text
    return "\n".join(
        (*lines[:count], "", f"... {len(lines) - count:,} more lines: format json shows the rest in parts")
    )


def format_reply(told: Mapping[str, Any], kept: tuple[str, ...] = ()) -> str:
    """A reply: `ok`, then what is told of it, without what is empty; `kept` stays whatever it is."""
    full = {"ok": True, **told}
    return compact_json({key: value for key, value in full.items() if key in kept or key in drop_empty({key: value})})
