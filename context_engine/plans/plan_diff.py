"""PURE. Compare two versions of a plan step by step; steps are matched by uid, so a moved step is the same step.

Derived values (numbers, `blocks`, the graph) are not compared: they would differ with every step. `compute_diffstat`
counts what steps are going to do with files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

import msgspec

from context_engine.plans.dependency_graph import build_graph, compute_timing
from context_engine.plans.model import Plan, PlanStep
from context_engine.plans.plan_json import VOLATILE_FIELDS
from context_engine.text import format_count

STEP_ORDER = "step_order"
"""In a comparable value: the uids in the order of the plan, because `steps` itself is by uid."""
NAMED_MAX = 4
"""Steps that a summary names one by one."""


class FieldChange(msgspec.Struct, frozen=True, rename={"old": "old_value", "new": "new_value"}):
    """One field that differs. `path` is a JSON pointer into `comparable_value` a plan: `/steps/s3/title`."""

    path: str
    type: Literal["added", "removed", "modified"]
    old: Any = None
    new: Any = None


class PlanDifference(NamedTuple):
    """All that differs between two plans; steps by uid.

    `modified` has the fields that changed, `moved` the numbers in both versions.
    """

    before: Plan
    after: Plan
    added: tuple[str, ...]
    removed: tuple[str, ...]
    modified: Mapping[str, tuple[str, ...]]
    moved: Mapping[str, tuple[int, int]]
    changes: tuple[FieldChange, ...]

    @property
    def summary(self) -> str:
        """The changes in one sentence.

        >>> from context_engine.plans.model import PlanStep
        >>> old = Plan(goal="g", steps=(PlanStep(uid="s1", title="Write"),))
        >>> new = Plan(goal="g", steps=(PlanStep(uid="s1", title="Write it"), PlanStep(uid="s2", title="Test")))
        >>> compare_plans(old, new).summary
        '1 step added (2), step 1 changed (title)'
        """
        number, old_number = self.after.step_numbers(), self.before.step_numbers()
        changed = (f"step {number[uid]} changed ({', '.join(fields)})" for uid, fields in self.modified.items())
        heads = dict.fromkeys(change.path.split("/")[1] for change in self.changes)
        parts = [
            _describe_steps(self.added, "added", number),
            _describe_steps(self.removed, "removed", old_number),
            f"{len(self.modified)} steps changed" if len(self.modified) > NAMED_MAX else ", ".join(changed),
            _describe_steps(self.moved, "moved", number),
            *(head.replace("_", " ") for head in heads if head not in ("steps", STEP_ORDER)),
        ]
        return ", ".join(part for part in parts if part) or "nothing changed"

    def graph_changes(self) -> dict[str, Any]:
        """Return the changes of the graph as JSON values; `duration_delta_h` is None if a step has no estimate."""
        edges, timings = [], []
        for plan in (self.before, self.after):
            drawn = build_graph(plan)
            edges.append({(other, uid) for uid, waits in drawn.depends.items() for other in waits})
            timings.append(compute_timing(drawn, {step.uid: step.weight for step in plan.steps}))
        (old_h, old_path), (new_h, new_path) = timings
        is_estimated = self.before.has_estimates and self.after.has_estimates
        return {
            "edges_added": [{"from": one, "to": other} for one, other in sorted(edges[1] - edges[0])],
            "edges_removed": [{"from": one, "to": other} for one, other in sorted(edges[0] - edges[1])],
            "critical_path_before": list(old_path),
            "critical_path_after": list(new_path),
            "duration_delta_h": round(new_h - old_h, 2) if is_estimated else None,
        }

    def serialize(self) -> dict[str, Any]:
        """Return the difference as JSON values; steps of both versions by uid and number."""
        number, old_number = self.after.step_numbers(), self.before.step_numbers()
        titles = {step.uid: step.title for step in (*self.before.steps, *self.after.steps)}

        def step(uid: str, place: Mapping[str, int]) -> dict[str, Any]:
            return {"uid": uid, "step_number": place[uid], "title": titles[uid]}

        return {
            "from_version": self.before.version,
            "to_version": self.after.version,
            "summary": self.summary,
            "steps_added": [step(uid, number) for uid in self.added],
            "steps_removed": [step(uid, old_number) for uid in self.removed],
            "steps_modified": [step(uid, number) | {"fields": list(fields)} for uid, fields in self.modified.items()],
            "steps_moved": [{"uid": uid, "from": old, "to": new} for uid, (old, new) in self.moved.items()],
            "files_added": sorted(self.after.files - self.before.files),
            "files_removed": sorted(self.before.files - self.after.files),
            "field_changes": msgspec.to_builtins(self.changes),
            "graph_changes": self.graph_changes(),
        }


def compare_plans(before: Plan, after: Plan) -> PlanDifference:
    """Compare two plans."""
    old, new = comparable_value(before), comparable_value(after)
    old_steps, new_steps = old["steps"], new["steps"]
    modified = {
        uid: tuple(key for key in step if step[key] != old_steps[uid][key])
        for uid, step in new_steps.items()
        if uid in old_steps and step != old_steps[uid]
    }
    return PlanDifference(
        before,
        after,
        tuple(uid for uid in new_steps if uid not in old_steps),
        tuple(uid for uid in old_steps if uid not in new_steps),
        modified,
        _find_moved(before, after),
        tuple(_find_changes(old, new, "")),
    )


def comparable_value(plan: Plan) -> dict[str, Any]:
    """Return the content of a plan for comparison, with steps by uid and questions by id."""
    content = msgspec.to_builtins(plan)
    value = {key: part for key, part in content.items() if key not in VOLATILE_FIELDS}
    value[STEP_ORDER] = [step.uid for step in plan.steps]
    value["steps"] = {row["uid"]: row for row in value["steps"]}
    value["questions"] = {row["id"]: row for row in value["questions"]}
    return value


def _find_changes(old: Any, new: Any, path: str) -> Iterable[FieldChange]:
    """Yield every field that differs; objects are compared by field, lists as a whole."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if old != new:
            yield FieldChange(path, "modified", old, new)
        return
    for key in dict.fromkeys((*old, *new)):
        at = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            yield FieldChange(at, "removed", old=old[key])
        elif key not in old:
            yield FieldChange(at, "added", new=new[key])
        else:
            yield from _find_changes(old[key], new[key], at)


def _find_moved(before: Plan, after: Plan) -> dict[str, tuple[int, int]]:
    """Return the steps to move to get from one order to the other, of those that both plans have."""
    old, new = before.step_numbers(), after.step_numbers()
    common = [uid for uid in new if uid in old]
    matcher = SequenceMatcher(None, [uid for uid in old if uid in new], common, autojunk=False)
    # Steps that are in order in both versions stay; all others have moved.
    staying = {place for block in matcher.get_matching_blocks() for place in range(block.b, block.b + block.size)}
    return {uid: (old[uid], new[uid]) for place, uid in enumerate(common) if place not in staying}


def _describe_steps(uids: Collection[str], what: str, number: Mapping[str, int]) -> str:
    named = f" ({', '.join(str(number[uid]) for uid in uids)})" if len(uids) <= NAMED_MAX else ""
    return f"{format_count(len(uids), 'step')} {what}{named}" if uids else ""


FileAction = Literal["create", "modify", "delete"]
ACTION_WORDS: Mapping[FileAction, str] = {"create": "created", "modify": "modified", "delete": "deleted"}


class FileDiffstat(NamedTuple):
    """What steps do with one file, and their numbers."""

    path: str
    change: FileAction
    steps: tuple[int, ...]


class Diffstat(NamedTuple):
    """Every file, by path, and one line for a reviewer."""

    files: tuple[FileDiffstat, ...]
    summary: str


def compute_diffstat(plan: Plan, steps: Collection[PlanStep]) -> Diffstat:
    """Return what steps are going to do with files. Of several things that steps do with one, deleting counts first."""
    number = plan.step_numbers()
    by_file: dict[str, dict[FileAction, list[int]]] = {}
    for step in steps:
        for change in ACTION_WORDS:
            for path in getattr(step, f"files_to_{change}"):
                by_file.setdefault(path, {}).setdefault(change, []).append(number[step.uid])
    files = []
    for path, changes in sorted(by_file.items()):
        change = next(change for change in ("delete", "create", "modify") if change in changes)
        files.append(FileDiffstat(path, change, tuple(sorted({step for rows in changes.values() for step in rows}))))
    counts = []
    for change, word in ACTION_WORDS.items():
        if count := sum(file.change == change for file in files):
            noun = "" if counts else " file" if count == 1 else " files"
            counts.append(f"{count}{noun} {word}")
    return Diffstat(tuple(files), ", ".join(counts))
