"""PURE. The dependency graph of a plan: generations, cycles, the critical path and parallel groups.

Every plan has a graph, however wrong it is: dependencies on missing steps are ignored, and steps in a cycle come last.
Where the graph leaves the order open, the order of the steps decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from context_engine.plans.model import Plan

PARALLEL_SHOWN_MAX = 20
"""Names listed per step; the graph lists whole groups. A thousand independent steps would make a million names."""


@dataclass(frozen=True, slots=True)
class StepGraph:
    """The steps of a plan by uid.

    Each step of a level waits for one of the level before; `groups` touch disjoint files. `cycle` are the uids of one
    circle, the first one again at its end; empty when there is none.
    """

    levels: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    depends: Mapping[str, tuple[str, ...]]
    needed_by: Mapping[str, tuple[str, ...]]
    cycle: tuple[str, ...]

    @property
    def order(self) -> tuple[str, ...]:
        """Every step after all that it waits for."""
        return tuple(uid for level in self.levels for uid in level)


def build_graph(plan: Plan) -> StepGraph:
    """Build the graph of a plan."""
    place = {step.uid: number for number, step in enumerate(plan.steps)}
    depends = {
        step.uid: tuple(sorted((uid for uid in set(step.depends_on) if uid in place), key=place.__getitem__))
        for step in plan.steps
    }
    needed_by: dict[str, list[str]] = {uid: [] for uid in depends}
    for uid, waits_for in depends.items():
        for other in waits_for:
            needed_by[other].append(uid)
    sorter, cycle = TopologicalSorter(depends), ()
    try:
        sorter.prepare()
    except CycleError as error:
        circle = error.args[1][:0:-1]  # each waits for the next
        at = min(range(len(circle)), key=lambda index: place[circle[index]])
        cycle = (*circle[at:], *circle[: at + 1])
    levels, left = [], dict(place)  # after a CycleError the sorter still yields what no cycle blocks
    while ready := sorter.get_ready():
        levels.append(tuple(sorted(ready, key=place.__getitem__)))
        sorter.done(*ready)
        for uid in ready:
            del left[uid]
    levels += [(uid,) for uid in left]
    files = {step.uid: step.files for step in plan.steps}
    groups = tuple(group for level in levels for group in _disjoint(level, files) if len(group) > 1)
    return StepGraph(tuple(levels), groups, depends, {uid: tuple(others) for uid, others in needed_by.items()}, cycle)


def _disjoint(level: Iterable[str], files: Mapping[str, frozenset[str]]) -> list[tuple[str, ...]]:
    """Divide a level into groups without a common file; each step joins the first group that fits."""
    groups: list[tuple[list[str], set[str]]] = []
    for uid in level:
        fit = next((group for group in groups if group[1].isdisjoint(files[uid])), None)
        if fit is None:
            fit = ([], set())
            groups.append(fit)
        fit[0].append(uid)
        fit[1].update(files[uid])
    return [tuple(uids) for uids, _ in groups]


def compute_timing(drawn: StepGraph, hours: Mapping[str, float]) -> tuple[float, tuple[str, ...]]:
    """Return the hours of the longest chain of steps, which the plan takes with unlimited hands, and that chain.

    A step without hours takes none. Of equal chains the one through the first steps counts.
    """
    place = {uid: number for number, uid in enumerate(drawn.order)}
    ends: dict[str, float] = {}
    before: dict[str, str] = {}
    for uid in drawn.order:
        earlier = [other for other in drawn.depends[uid] if place[other] < place[uid]]
        ends[uid] = hours.get(uid, 0.0)
        if earlier:
            before[uid] = max(earlier, key=lambda other: (ends[other], -place[other]))
            ends[uid] += ends[before[uid]]
    path = [max(drawn.order, key=lambda uid: (ends[uid], -place[uid]))] if ends else []
    while path and path[-1] in before:
        path.append(before[path[-1]])
    return max(ends.values(), default=0.0), tuple(reversed(path))


def compute_closure(order: Iterable[str], edges: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Compute all that each step reaches over the edges, as bits, which are fast to count and to intersect.

    `order` has the target of an edge before its source; a bit is the position in that order.
    """
    bit: dict[str, int] = {}
    found: dict[str, int] = {}
    for place, uid in enumerate(order):
        bit[uid] = 1 << place
        found[uid] = 0
        for other in edges[uid]:
            found[uid] |= found.get(other, 0) | bit.get(other, 0)
    return found


def find_parallel(drawn: StepGraph, uid: str) -> tuple[str, ...]:
    """Return the first few other steps of the same parallel group."""
    group = next((group for group in drawn.groups if uid in group), ())
    return tuple(other for other in group if other != uid)[:PARALLEL_SHOWN_MAX]


def serialize_graph(plan: Plan, drawn: StepGraph) -> dict[str, Any]:
    """Return the graph as JSON values with step numbers; `duration_h` only if every step has an estimate."""
    number = plan.step_numbers()
    duration_h, critical_path = compute_timing(drawn, {step.uid: step.weight for step in plan.steps})
    graph = {
        "nodes": [{"id": step.uid, "step_number": number[step.uid]} for step in plan.steps],
        "edges": [{"from": number[one], "to": number[uid]} for uid in drawn.depends for one in drawn.depends[uid]],
        "critical_path": [number[uid] for uid in critical_path],
        "parallel_groups": [[number[uid] for uid in group] for group in drawn.groups],
        "execution_order": [number[uid] for uid in drawn.order],
        "levels": [[number[uid] for uid in level] for level in drawn.levels],
    }
    return graph if not plan.has_estimates else graph | {"duration_h": round(duration_h, 2)}
