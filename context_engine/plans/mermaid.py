"""PURE. Mermaid diagrams of a plan: dependencies, progress, Gantt chart and modules.

Titles are untrusted text: `escape_label` encodes every character that Mermaid could take for syntax, and only generated
names are used as identifiers. The same plan always gives the same diagram.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from context_engine.plans.dependency_graph import GraphTiming, StepGraph, build_graph, compute_timing
from context_engine.plans.model import DAY_HOURS, Plan
from context_engine.plans.plan_events import DONE, Execution
from context_engine.timestamps import DAY_S, format_timestamp

Direction = Literal["TD", "LR"]

NODES_MAX = 80
"""With more boxes a diagram is unreadable, and some viewers refuse to draw it; done steps are grouped first."""
LABEL_CHARS = 50
EDGES_MAX = 400
"""Mermaid refuses to draw more than 500 unless it is configured to."""
QUARTER_H = 0.25
"""The shortest bar: a thinner one cannot be seen."""
MORNING_H = 9
CHART_HOURS_MAX = 1_000_000
"""Five centuries of work: what would end later ends there, since calendars have an end too."""
START = 1_704_067_200.0
"""2024-01-01, a Monday: the start of a chart when the plan has no date."""
STATES = ("done", "active", "ready", "failed", "blocked", "waiting")
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
_DIRECTION = "direction "
"""The one word that Mermaid's lexer looks for inside a quoted label too: `direction LR` there takes the whole line
away."""
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
    view = _view(plan, execution)
    critical = set(view.timed.critical_path)
    members = {"critical": [name for uid, name in view.names.items() if uid in critical]}
    hours = f"{view.timed.duration_h:g} h"
    legend = f"An arrow leads from a step to one that waits for it. Red border: critical path, {hours}."
    return _draw_flowchart(plan, view, members, legend, direction, label_chars)


def draw_progress(
    plan: Plan, execution: Execution, *, direction: Direction = "TD", label_chars: int = LABEL_CHARS
) -> MermaidDiagram:
    """Draw the dependencies, colored by state."""
    view = _view(plan, execution)
    members: dict[str, list[str]] = {state: [] for state in STATES}
    for uid, name in view.names.items():
        members[_display_state(execution, uid)].append(name)
    members["done"] += [DONE_NODE] if view.done else []
    members["waiting"] += [LATER_NODE] if view.later else []
    counted = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(execution.counts.items()))
    legend = (
        f"{execution.percentage:g} % done: {counted or 'no steps'}. Green: done, blue: in progress, yellow: ready, "
        "red: failed, red dashes: blocked by a failure, gray: waiting."
    )
    return _draw_flowchart(plan, view, members, legend, direction, label_chars)


def _draw_flowchart(
    plan: Plan,
    view: _DiagramView,
    members: Mapping[str, Collection[str]],
    legend: str,
    direction: Direction,
    label_chars: int,
) -> MermaidDiagram:
    """Draw a box for each step that is shown, in the style of its class, and the arrows between them."""
    lines = [f"flowchart {direction}"]
    if view.done:
        lines.append(f'  {DONE_NODE}["{len(view.done)} steps done"]')
    for number, step in enumerate(plan.steps, 1):
        if name := view.names.get(step.uid):
            lines.append(f'  {name}["{_step_label(number, step.title, label_chars)}"]')
    if view.later:
        lines.append(f'  {LATER_NODE}["{len(view.later)} later steps"]')
    arrows = view.arrows
    lines += [f"  {one} --> {other}" for one, other in arrows[:EDGES_MAX]]
    hidden = f" {len(arrows) - EDGES_MAX} arrows are not shown." if len(arrows) > EDGES_MAX else ""
    drawn = "\n".join((*lines, *_classes(members))) + "\n"
    return MermaidDiagram(drawn, legend + view.grouped_note + hidden, view.omitted)


def draw_gantt(
    plan: Plan, execution: Execution | None = None, *, start: float | None = None, label_chars: int = LABEL_CHARS
) -> MermaidDiagram:
    """Draw the earliest times: working days of eight hours from nine, Monday to Friday, with unlimited hands."""
    view, start = _view(plan, execution), START if start is None else start
    number, critical = plan.step_numbers(), set(view.timed.critical_path)
    title = {step.uid: step.title for step in plan.steps}
    lines = [
        "gantt",
        f"  title {escape_label(plan.goal, label_chars) or 'Plan'}",
        "  dateFormat YYYY-MM-DD HH:mm",
        "  axisFormat %m-%d",
    ]
    lines += _grouped_bar(view, view.done, "Done", f"{len(view.done)} steps done", "done, ", DONE_NODE, start)
    for place, level in enumerate(view.drawn.levels, 1):
        shown = [uid for uid in level if uid in view.names]
        lines += [f"  section Stage {place}"] if shown else []
        for uid in shown:
            state = _display_state(execution, uid) if execution else ""
            tags = {"done": "done, ", "active": "active, "}.get(state, "") + ("crit, " if uid in critical else "")
            span = _format_span(view.timed.start[uid], view.timed.start[uid] + view.hours[uid], start)
            lines.append(f"  {_step_label(number[uid], title[uid], label_chars)} :{tags}{view.names[uid]}, {span}")
    lines += _grouped_bar(view, view.later, "Later", f"{len(view.later)} later steps", "", LATER_NODE, start)
    if plan.has_estimates:
        legend = f"Earliest times in working hours; red: critical path, {view.timed.duration_h:g} h."
    else:
        legend = "Order, not time: a step without an estimate is drawn as one hour; red: critical path."
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
    arrows = [(names[one], names[other]) for one, other in edges if one in names and other in names][:EDGES_MAX]
    lines = [
        f"flowchart {direction}",
        *(f'  {names[name]}["{_module_label(name, touched.get(name, ()), label_chars)}"]' for name in shown),
        *(f"  {one} --> {other}" for one, other in arrows),
        *_classes({"touched": [names[name] for name in shown if name in touched]}),
        *_classes({"related": [names[name] for name in shown if name not in touched]}),
    ]
    left = len(touched) + len(related) - len(shown)
    omitted_note = f" {left} more modules are not shown." if left else ""
    legend = "An arrow leads from a module to one that it imports. Blue: touched by the plan, gray: related."
    return MermaidDiagram("\n".join(lines) + "\n", legend + omitted_note)


def escape_label(text: str, chars_max: int = LABEL_CHARS) -> str:
    """Escape a text for Mermaid: shortened, with every character encoded that could be taken for syntax.

    >>> escape_label('say "end" [x]; %%{init}%% <b>')
    'say #34;end#34; #91;x#93;#59; #37;#37;#123;init#125;#37;#37; #60;b#62;'
    >>> escape_label("a long title", 6)
    'a lon…'
    """
    plain = " ".join("".join(_visible_char(char) for char in text).split())
    shown = plain if len(plain) <= chars_max else plain[: chars_max - 1].rstrip() + "…"
    coded = "".join(char if _is_harmless(char) else f"#{ord(char)};" for char in shown)
    return coded.replace(_DIRECTION, "direction#32;")


def _visible_char(char: str) -> str:
    """Return a character as it can be shown: no control characters, no direction marks, nothing unassigned."""
    kind = unicodedata.category(char)
    if kind in ("Cc", "Zs", "Zl", "Zp"):
        return " "
    if kind[0] != "C" or char in _JOINS:
        return char
    return ""


def _is_harmless(char: str) -> bool:
    return char in _PLAIN or char.isalnum() or ord(char) >= _ABOVE_LATIN or unicodedata.category(char)[0] == "M"


# -- what is shown -----------------------------------------------------------------------------------------------------

DONE_NODE, LATER_NODE = "allDone", "later"
"""Names that no chart takes for a tag of its own."""


@dataclass(frozen=True, slots=True)
class _DiagramView:
    """The steps that get a box of their own, by name, and those that share one: what is done, what comes last."""

    drawn: StepGraph
    timed: GraphTiming
    names: Mapping[str, str]
    done: tuple[str, ...]
    later: tuple[str, ...]
    omitted: tuple[int, ...]
    hours: Mapping[str, float]

    @property
    def grouped_note(self) -> str:
        return f" {len(self.omitted)} steps are shown together." if self.omitted else ""

    @property
    def arrows(self) -> tuple[tuple[str, str], ...]:
        """Every pair of boxes one of which waits for the other, once."""
        shared = dict.fromkeys(self.done, DONE_NODE) | dict.fromkeys(self.later, LATER_NODE)
        node = {**shared, **self.names}
        pairs = ((node[other], node[uid]) for uid in self.drawn.order for other in self.drawn.depends[uid])
        return tuple(dict.fromkeys(pair for pair in pairs if pair[0] != pair[1]))


def _view(plan: Plan, execution: Execution | None) -> _DiagramView:
    """Choose the steps with a box of their own: finished generations share one box, and so do the last steps."""
    drawn, number = build_graph(plan), plan.step_numbers()
    hours = {step.uid: step.weight for step in plan.steps}
    timed = compute_timing(drawn, hours)
    done: tuple[str, ...] = ()
    open_ones = drawn.order
    if len(open_ones) > NODES_MAX and execution:
        finished = [level for level in drawn.levels if all(execution.steps[uid].status in DONE for uid in level)]
        done = tuple(uid for level in finished for uid in level)
        open_ones = tuple(uid for uid in drawn.order if uid not in set(done))
    room = NODES_MAX - bool(done)
    shown = open_ones if len(open_ones) <= room else open_ones[: room - 1]
    later = open_ones[len(shown) :]
    names = {uid: f"n{number[uid]}" for uid in shown}
    omitted = tuple(sorted(number[uid] for uid in (*done, *later)))
    return _DiagramView(drawn, timed, names, done, later, omitted, hours)


def _classes(members: Mapping[str, Collection[str]]) -> Iterable[str]:
    for name, nodes in members.items():
        if nodes:
            yield f"  classDef {name}Style {_STYLES[name]}"
            yield f"  class {','.join(nodes)} {name}Style"


def _display_state(execution: Execution, uid: str) -> str:
    """Return one of `STATES`."""
    state = execution.steps[uid]
    if state.status in DONE:
        return "done"
    if state.status == "pending":
        return "blocked" if state.blocked_by else "waiting"
    return {"in_progress": "active"}.get(state.status, state.status)


def _step_label(number: int, title: str, label_chars: int) -> str:
    """Return the label of a step. The number comes first, so that no title is taken for a keyword, a date or a list."""
    return f"{number} · {escape_label(title, label_chars)}"


def _module_label(name: str, steps: Sequence[int], label_chars: int) -> str:
    label = escape_label(name or "the top folder", label_chars)
    if not steps:
        return label
    more = "…" if len(steps) > 8 else ""
    return f"{label} · {'step' if len(steps) == 1 else 'steps'} {', '.join(map(str, steps[:8]))}{more}"


# -- working hours -----------------------------------------------------------------------------------------------------


def _grouped_bar(
    view: _DiagramView, uids: Sequence[str], section: str, label: str, tags: str, name: str, start: float
) -> Iterable[str]:
    """Yield one bar for grouped steps: from the first start to the last end."""
    if uids:
        first = min(view.timed.start[uid] for uid in uids)
        last = max(view.timed.start[uid] + view.hours[uid] for uid in uids)
        yield f"  section {section}"
        yield f"  {label} :{tags}{name}, {_format_span(first, last, start)}"


def _format_span(begin_h: float, end_h: float, start: float) -> str:
    """Format two moments in working hours after the start, as Mermaid reads them.

    >>> _format_span(6, 10, START), _format_span(8, 8, START), _format_span(38, 42, START)
    ('2024-01-01 15:00, 2024-01-02 11:00', '2024-01-02 09:00, 2024-01-02 09:15', '2024-01-05 15:00, 2024-01-08 11:00')
    """
    end_h = max(end_h, begin_h + QUARTER_H)
    return f"{_format_moment(begin_h, start)}, {_format_moment(end_h, start, is_end=True)}"


def _format_moment(hours: float, start: float, *, is_end: bool = False) -> str:
    """Format a working hour as a calendar time.

    The end of a day is its evening, the beginning of the next is its morning.
    """
    minutes = round(min(hours, CHART_HOURS_MAX) * 60)
    days, rest = divmod(minutes, round(DAY_HOURS * 60))
    if is_end and days and not rest:
        days, rest = days - 1, round(DAY_HOURS * 60)
    midnight = _working_day(start, days)
    return format_timestamp(midnight + MORNING_H * 3600 + rest * 60)[:16].replace("T", " ")


def _working_day(start: float, days: int) -> float:
    """Return the midnight before a working day, counted from the day of the start or the next working day.

    >>> [format_timestamp(_working_day(START + 5 * DAY_S, days))[:10] for days in (0, 1, 5)]
    ['2024-01-08', '2024-01-09', '2024-01-15']
    """
    day = int(start // DAY_S)
    weekday = (day + 3) % 7  # the first day of 1970 was a Thursday
    if weekday > 4:
        day, weekday = day + 7 - weekday, 0
    weeks, left = divmod(weekday + days, 5)
    return (day - weekday + 7 * weeks + left) * DAY_S
