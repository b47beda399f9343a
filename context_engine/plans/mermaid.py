"""PURE. Mermaid diagrams of a plan: dependencies, progress, Gantt chart and modules.

Titles are untrusted text: `escape_label` encodes every character that Mermaid could take for syntax, and only generated
names are used as identifiers. The same plan always gives the same diagram.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from context_engine.plans.dependency_graph import build_graph, compute_timing
from context_engine.plans.model import DAY_HOURS, Plan
from context_engine.plans.plan_events import Execution, StepState
from context_engine.timestamps import format_timestamp

Direction = Literal["TD", "LR"]

NODES_MAX = 80
"""With more boxes a diagram is unreadable, and some viewers refuse to draw it; done steps are grouped first."""
LABEL_CHARS = 50
EDGES_MAX = 400
"""Mermaid refuses to draw more than 500 unless it is configured to."""
STEPS_SHOWN_MAX = 8
"""Numbers of steps in the label of a module."""
BAR_HOURS = (0.25, 4_000)
"""The shortest bar that can be seen, and two years of work, which is longer than any chart that can be read."""
START = 1_704_067_200.0
"""2024-01-01, a Monday: the start of a chart when the plan has no date."""
DONE_NODE, LATER_NODE = "allDone", "later"
"""Names that no chart takes for a tag of its own."""
_STYLES = {
    "done": "fill:#d5f5e3,stroke:#1e8449,color:#145a32",
    "active": "fill:#d6eaf8,stroke:#2874a6,color:#1b4f72",
    "ready": "fill:#fef9e7,stroke:#b7950b,color:#7d6608",
    "failed": "fill:#fadbd8,stroke:#b03a2e,color:#78281f",
    "blocked": "fill:#f2f3f4,stroke:#b03a2e,color:#515a5a,stroke-dasharray:4",
    "waiting": "fill:#f2f3f4,stroke:#909497,color:#515a5a",
    "critical": "stroke:#b03a2e,stroke-width:3px",
    "touched": "fill:#d6eaf8,stroke:#2874a6,color:#1b4f72",
    "related": "fill:#f2f3f4,stroke:#909497,color:#515a5a",
}
_PLAIN = frozenset(" .,-/+=!?")
_ABOVE_LATIN = 0x2000
"""From here on there are symbols and emoji, and none that Mermaid knows; below, punctuation it may know."""
_JOINS = "\u200d\ufe0f"
"""Characters that join the parts of an emoji."""


class MermaidDiagram(NamedTuple):
    """A picture, how to read it, and the numbers of the steps that it shows only together."""

    mermaid: str
    legend: str
    omitted: tuple[int, ...] = ()


def draw_plan(
    kind: str,
    plan: Plan,
    execution: Execution,
    *,
    direction: Direction = "TD",
    start: float | None = None,
    label_chars: int = LABEL_CHARS,
) -> MermaidDiagram:
    """Draw the `dependencies` of a plan, its `progress` or its `gantt` chart, which begins at the day of `start`."""
    view = _DiagramView(plan, execution, label_chars)
    if kind == "gantt":
        return _draw_gantt(plan, view, START if start is None else start)
    legend = f"An arrow leads from a step to one that waits for it. Red border: critical path, {view.duration_h:g} h."
    members = {"critical": [view.nodes[uid] for uid in view.shown if uid in view.critical]}
    if kind == "progress":
        members, legend = _color_by_state(view)
    return view.draw_flowchart(members, legend, direction)


def _color_by_state(view: _DiagramView) -> tuple[dict[str, list[str]], str]:
    """Return the boxes of each state, and how to read the diagram."""
    members: dict[str, list[str]] = {name: [] for name in _STYLES}
    for uid in view.shown:
        members[view.states[uid]].append(view.nodes[uid])
    members["done"] += [DONE_NODE] if view.done else []
    members["waiting"] += [LATER_NODE] if view.later else []
    counted = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(view.execution.counts.items()))
    legend = (
        f"{view.execution.percentage:g} % done: {counted or 'no steps'}. Green: done, blue: in progress, "
        "yellow: ready, red: failed, red dashes: blocked by a failure, gray: waiting."
    )
    return members, legend


def _draw_gantt(plan: Plan, view: _DiagramView, start: float) -> MermaidDiagram:
    """Draw each step after those it waits for, with unlimited hands. A day is a working day of eight hours."""
    hours = {step.uid: step.weight for step in plan.steps}
    drawn: set[str] = set()

    def bar(label: str, tags: Sequence[str], name: str, uids: Sequence[str]) -> str:
        # Only bars above it, so that a circle of dependencies or of a group with its steps has a beginning.
        needed = drawn.intersection(view.nodes[other] for uid in uids for other in view.drawn.depends[uid])
        drawn.add(name)
        begin = f"after {' '.join(sorted(needed))}" if needed else format_timestamp(start)[:10]
        longest, _ = compute_timing(view.drawn, {uid: hours[uid] for uid in uids})
        length = min(max(longest, BAR_HOURS[0]), BAR_HOURS[1])
        # Mermaid rounds days, but not hours: three of its hours are one of a day that has eight.
        return f"  {label} :{', '.join([*tags, name])}, {begin}, {length * 24 / DAY_HOURS:g}h"

    lines = [
        "gantt",
        f"  title {view.title}",
        "  dateFormat YYYY-MM-DD",
        "  axisFormat %m-%d",
        "  excludes weekends",
    ]
    if view.done:
        lines += ["  section Done", bar(f"{len(view.done)} steps done", ["done"], DONE_NODE, view.done)]
    for place, level in enumerate(view.drawn.levels, 1):
        shown = [uid for uid in level if uid in view.shown]
        lines += [f"  section Stage {place}"] if shown else []
        for uid in shown:
            tags = [tag for tag in ("done", "active") if tag == view.states[uid]] + ["crit"] * (uid in view.critical)
            lines.append(bar(view.shown[uid], tags, view.nodes[uid], [uid]))
    if view.later:
        lines += ["  section Later", bar(f"{len(view.later)} later steps", [], LATER_NODE, view.later)]
    legend = "Order, not time: a step without an estimate is drawn as one hour; red: critical path."
    if plan.has_estimates:
        legend = f"Earliest times in working days of eight hours; red: critical path, {view.duration_h:g} h."
    return MermaidDiagram("\n".join(lines) + "\n", legend + view.grouped_note, view.omitted)


def draw_architecture(
    touched: Mapping[str, Sequence[int]],
    imports: Iterable[tuple[str, str]],
    *,
    direction: Direction = "TD",
    label_chars: int = LABEL_CHARS,
) -> MermaidDiagram:
    """Draw the modules that a plan touches, with the step numbers, and their imports and importers."""
    edges = sorted({(one, other) for one, other in imports if one != other and (one in touched or other in touched)})
    related = sorted({name for edge in edges for name in edge} - set(touched))
    shown = [*sorted(touched), *related][:NODES_MAX]
    names = {name: f"m{place}" for place, name in enumerate(shown, 1)}
    boxes = {}
    for name, node in names.items():
        steps = touched.get(name, ())
        listed = ", ".join(map(str, steps[:STEPS_SHOWN_MAX])) + ("…" if len(steps) > STEPS_SHOWN_MAX else "")
        numbers = f" · {'step' if len(steps) == 1 else 'steps'} {listed}" if steps else ""
        boxes[node] = escape_label(name or "the top folder", label_chars) + numbers
    arrows = [(names[one], names[other]) for one, other in edges if one in names and other in names][:EDGES_MAX]
    members = {
        "touched": [node for name, node in names.items() if name in touched],
        "related": [node for name, node in names.items() if name not in touched],
    }
    left = len(touched) + len(related) - len(shown)
    omitted_note = f" {left} more modules are not shown." if left else ""
    legend = "An arrow leads from a module to one that it imports. Blue: touched by the plan, gray: related."
    return MermaidDiagram(_draw_flowchart(boxes, arrows, members, direction), legend + omitted_note)


def _draw_flowchart(
    boxes: Mapping[str, str],
    arrows: Iterable[tuple[str, str]],
    members: Mapping[str, Collection[str]],
    direction: Direction,
) -> str:
    lines = [f"flowchart {direction}", *(f'  {name}["{label}"]' for name, label in boxes.items())]
    lines += [f"  {one} --> {other}" for one, other in arrows]
    for style, nodes in members.items():
        if nodes:
            lines += [f"  classDef {style}Style {_STYLES[style]}", f"  class {','.join(nodes)} {style}Style"]
    return "\n".join(lines) + "\n"


def escape_label(text: str, chars_max: int = LABEL_CHARS) -> str:
    """Escape a text for Mermaid: shortened, with every character encoded that could be taken for syntax.

    >>> escape_label('say "end" [x]; %%{init}%% <b>')
    'say #34;end#34; #91;x#93;#59; #37;#37;#123;init#125;#37;#37; #60;b#62;'
    >>> escape_label("a long title", 6)
    'a lon…'
    """
    plain = " ".join("".join(map(_visible_char, text)).split())
    shown = plain if len(plain) <= chars_max else plain[: chars_max - 1].rstrip() + "…"
    coded = "".join(char if _is_harmless(char) else f"#{ord(char)};" for char in shown)
    # Mermaid's lexer looks for this word inside a quoted label too: `direction LR` there takes the whole line away.
    return coded.replace("direction ", "direction#32;")


def _visible_char(char: str) -> str:
    """Return a character as it can be shown: no control characters, no direction marks, nothing unassigned."""
    kind = unicodedata.category(char)
    if kind in ("Cc", "Zs", "Zl", "Zp"):
        return " "
    return char if kind[0] != "C" or char in _JOINS else ""


def _is_harmless(char: str) -> bool:
    return char in _PLAIN or char.isalnum() or ord(char) >= _ABOVE_LATIN or unicodedata.category(char)[0] == "M"


def _display_state(state: StepState) -> str:
    """Return the name of the style of a step."""
    if state.status == "pending":
        return "blocked" if state.blocked_by else "waiting"
    return {"completed": "done", "skipped": "done", "in_progress": "active"}.get(state.status, state.status)


class _DiagramView:
    """The steps with a box of their own by label, those that share one (what is done, what comes last), and all nodes.

    The number of a step begins its label, so that no title is taken for a keyword or a date.
    """

    def __init__(self, plan: Plan, execution: Execution, label_chars: int) -> None:
        self.title = escape_label(plan.goal, label_chars) or "Plan"
        self.execution = execution
        self.states = {uid: _display_state(state) for uid, state in execution.steps.items()}
        self.drawn = build_graph(plan)
        self.duration_h, self.critical = compute_timing(self.drawn, {step.uid: step.weight for step in plan.steps})
        self.done: list[str] = []
        if len(plan.steps) > NODES_MAX:
            for level in self.drawn.levels:
                self.done += level if execution.done.issuperset(level) else ()
        done = set(self.done)
        rest = [uid for uid in self.drawn.order if uid not in done]
        room = NODES_MAX - bool(self.done)
        self.later = rest[room - 1 :] if len(rest) > room else []
        number = plan.step_numbers()
        labels = {step.uid: f"{number[step.uid]} · {escape_label(step.title, label_chars)}" for step in plan.steps}
        self.shown = {uid: labels[uid] for uid in rest[: len(rest) - len(self.later)]}
        grouped = dict.fromkeys(self.done, DONE_NODE) | dict.fromkeys(self.later, LATER_NODE)
        self.nodes = {uid: grouped.get(uid, f"n{number[uid]}") for uid in self.drawn.order}
        self.omitted = tuple(sorted(number[uid] for uid in grouped))
        self.grouped_note = f" {len(self.omitted)} steps are shown together." if self.omitted else ""

    def draw_flowchart(
        self, members: Mapping[str, Collection[str]], legend: str, direction: Direction
    ) -> MermaidDiagram:
        """Draw the boxes in the style of their class, and an arrow for each pair one of which waits for the other."""
        boxes = {DONE_NODE: f"{len(self.done)} steps done"} if self.done else {}
        boxes |= {self.nodes[uid]: label for uid, label in self.shown.items()}
        boxes |= {LATER_NODE: f"{len(self.later)} later steps"} if self.later else {}
        pairs = [(self.nodes[other], self.nodes[uid]) for uid in self.drawn.order for other in self.drawn.depends[uid]]
        arrows = [(one, other) for one, other in dict.fromkeys(pairs) if one != other]
        hidden = f" {len(arrows) - EDGES_MAX} arrows are not shown." if len(arrows) > EDGES_MAX else ""
        chart = _draw_flowchart(boxes, arrows[:EDGES_MAX], members, direction)
        return MermaidDiagram(chart, legend + self.grouped_note + hidden, self.omitted)
