"""PURE. Mermaid diagrams of a plan: dependencies, progress, Gantt chart and modules.

Titles are untrusted text: `escape_label` encodes every character that Mermaid could take for syntax, and only generated
names are used as identifiers. The same plan always gives the same diagram.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from context_engine.plans.dependency_graph import build_graph, compute_timing
from context_engine.plans.model import DAY_HOURS, Plan
from context_engine.plans.plan_events import DONE, Execution
from context_engine.timestamps import DAY_S, format_timestamp

Direction = Literal["TD", "LR"]

NODES_MAX = 80
"""With more boxes a diagram is unreadable, and some viewers refuse to draw it; done steps are grouped first."""
LABEL_CHARS = 50
EDGES_MAX = 400
"""Mermaid refuses to draw more than 500 unless it is configured to."""
STEPS_SHOWN_MAX = 8
"""Numbers of steps in the label of a module."""
QUARTER_H = 0.25
"""The shortest bar: a thinner one cannot be seen."""
MORNING_H = 9
CHART_HOURS_MAX = 1_000_000
"""Five centuries of work: what would end later ends there, since calendars have an end too."""
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


def draw_dependencies(
    plan: Plan, execution: Execution | None = None, *, direction: Direction = "TD", label_chars: int = LABEL_CHARS
) -> MermaidDiagram:
    """Draw the dependencies of the steps; the critical path is highlighted."""
    view = _DiagramView(plan, execution)
    legend = f"An arrow leads from a step to one that waits for it. Red border: critical path, {view.duration_h:g} h."
    members = {"critical": [name for uid, name in view.names.items() if uid in view.critical]}
    return view.draw_flowchart(members, legend, direction, label_chars)


def draw_progress(
    plan: Plan, execution: Execution, *, direction: Direction = "TD", label_chars: int = LABEL_CHARS
) -> MermaidDiagram:
    """Draw the dependencies, colored by state."""
    view = _DiagramView(plan, execution)
    members: dict[str, list[str]] = {name: [] for name in _STYLES}
    for uid, name in view.names.items():
        members[_display_state(execution, uid)].append(name)
    members["done"] += [DONE_NODE] if view.done else []
    members["waiting"] += [LATER_NODE] if view.later else []
    counted = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(execution.counts.items()))
    legend = (
        f"{execution.percentage:g} % done: {counted or 'no steps'}. Green: done, blue: in progress, yellow: ready, "
        "red: failed, red dashes: blocked by a failure, gray: waiting."
    )
    return view.draw_flowchart(members, legend, direction, label_chars)


def draw_gantt(
    plan: Plan, execution: Execution | None = None, *, start: float | None = None, label_chars: int = LABEL_CHARS
) -> MermaidDiagram:
    """Draw the earliest times: working days of eight hours from nine, Monday to Friday, with unlimited hands."""
    view, start = _DiagramView(plan, execution), START if start is None else start
    lines = [
        "gantt",
        f"  title {escape_label(plan.goal, label_chars) or 'Plan'}",
        "  dateFormat YYYY-MM-DD HH:mm",
        "  axisFormat %m-%d",
        *view.draw_grouped_bar(view.done, "Done", f"{len(view.done)} steps done", f"done, {DONE_NODE}", start),
    ]
    labels = view.labels(label_chars)
    for place, level in enumerate(view.drawn.levels, 1):
        shown = [uid for uid in level if uid in view.names]
        lines += [f"  section Stage {place}"] if shown else []
        for uid in shown:
            state = _display_state(execution, uid) if execution else ""
            tags = [state] if state in ("done", "active") else []
            tags += ["crit"] if uid in view.critical else []
            lines.append(f"  {labels[uid]} :{', '.join([*tags, view.names[uid]])}, {view.format_span([uid], start)}")
    lines += view.draw_grouped_bar(view.later, "Later", f"{len(view.later)} later steps", LATER_NODE, start)
    legend = "Order, not time: a step without an estimate is drawn as one hour; red: critical path."
    if plan.has_estimates:
        legend = f"Earliest times in working hours; red: critical path, {view.duration_h:g} h."
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


def _display_state(execution: Execution, uid: str) -> str:
    """Return the name of the style of a step."""
    state = execution.steps[uid]
    if state.status == "pending":
        return "blocked" if state.blocked_by else "waiting"
    return {"completed": "done", "skipped": "done", "in_progress": "active"}.get(state.status, state.status)


class _DiagramView:
    """The steps that get a box of their own, by name, and those that share one: what is done, and what comes last."""

    def __init__(self, plan: Plan, execution: Execution | None) -> None:
        self.drawn = build_graph(plan)
        self._plan = plan
        self._hours = {step.uid: step.weight for step in plan.steps}
        self._start, self.duration_h, critical_path = compute_timing(self.drawn, self._hours)
        self.critical = set(critical_path)
        self.done: tuple[str, ...] = ()
        if len(self.drawn.order) > NODES_MAX and execution:
            finished = [level for level in self.drawn.levels if all(execution.steps[u].status in DONE for u in level)]
            self.done = tuple(uid for level in finished for uid in level)
        done = set(self.done)
        open_ones = tuple(uid for uid in self.drawn.order if uid not in done)
        room = NODES_MAX - bool(done)
        shown = open_ones if len(open_ones) <= room else open_ones[: room - 1]
        self.later = open_ones[len(shown) :]
        number = plan.step_numbers()
        self.names = {uid: f"n{number[uid]}" for uid in shown}
        self.omitted = tuple(sorted(number[uid] for uid in (*self.done, *self.later)))
        self.grouped_note = f" {len(self.omitted)} steps are shown together." if self.omitted else ""

    def labels(self, label_chars: int) -> dict[str, str]:
        """Return the label of each step. Its number comes first, so that no title is taken for a keyword or a date."""
        steps = enumerate(self._plan.steps, 1)
        return {step.uid: f"{number} · {escape_label(step.title, label_chars)}" for number, step in steps}

    def draw_flowchart(
        self, members: Mapping[str, Collection[str]], legend: str, direction: Direction, label_chars: int
    ) -> MermaidDiagram:
        """Draw the boxes in the style of their class, and an arrow for each pair one of which waits for the other."""
        boxes = {DONE_NODE: f"{len(self.done)} steps done"} if self.done else {}
        boxes |= {self.names[uid]: label for uid, label in self.labels(label_chars).items() if uid in self.names}
        boxes |= {LATER_NODE: f"{len(self.later)} later steps"} if self.later else {}
        node = {**dict.fromkeys(self.done, DONE_NODE), **dict.fromkeys(self.later, LATER_NODE), **self.names}
        pairs = ((node[other], node[uid]) for uid in self.drawn.order for other in self.drawn.depends[uid])
        arrows = list(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1]))
        hidden = f" {len(arrows) - EDGES_MAX} arrows are not shown." if len(arrows) > EDGES_MAX else ""
        chart = _draw_flowchart(boxes, arrows[:EDGES_MAX], members, direction)
        return MermaidDiagram(chart, legend + self.grouped_note + hidden, self.omitted)

    def draw_grouped_bar(self, uids: Sequence[str], section: str, label: str, tags: str, start: float) -> Iterator[str]:
        """Yield one bar for grouped steps."""
        if uids:
            yield f"  section {section}"
            yield f"  {label} :{tags}, {self.format_span(uids, start)}"

    def format_span(self, uids: Sequence[str], start: float) -> str:
        """Format the first start of these steps and their last end, as Mermaid reads them."""
        begin_h = min(self._start[uid] for uid in uids)
        end_h = max(self._start[uid] + self._hours[uid] for uid in uids)
        return (
            f"{_format_moment(begin_h, start)}, {_format_moment(max(end_h, begin_h + QUARTER_H), start, is_end=True)}"
        )


def _format_moment(hours: float, start: float, *, is_end: bool = False) -> str:
    """Format a working hour after a start as a calendar time, from Monday to Friday.

    The end of a day is its evening, the beginning of the next is its morning.

    >>> [_format_moment(8, START), _format_moment(8, START, is_end=True), _format_moment(38, START + 5 * DAY_S)]
    ['2024-01-02 09:00', '2024-01-01 17:00', '2024-01-12 15:00']
    """
    minutes = round(min(hours, CHART_HOURS_MAX) * 60)
    days, rest = divmod(minutes, round(DAY_HOURS * 60))
    if is_end and days and not rest:
        days, rest = days - 1, round(DAY_HOURS * 60)
    day = int(start // DAY_S)
    weekday = (day + 3) % 7  # the first day of 1970 was a Thursday
    if weekday > 4:  # work begins on the next Monday
        day, weekday = day + 7 - weekday, 0
    weeks, left = divmod(weekday + days, 5)
    midnight = (day - weekday + 7 * weeks + left) * DAY_S
    return format_timestamp(midnight + MORNING_H * 3600 + rest * 60)[:16].replace("T", " ")
