"""PURE. Pictures of a plan as SVG, for a page that needs no script: what waits for what, and when it can happen.

They are drawn from the same graph and the same hours as the Mermaid diagrams. Colours are classes, which the page gives a look by
day and by night; every text is a text node of a tree, so no title can become markup.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement

from context_engine.plans.dependency_graph import GraphTiming, StepGraph, build_graph, compute_timing
from context_engine.plans.effort import format_effort
from context_engine.plans.graph_layout import Placed, Point, Sizes, placed
from context_engine.plans.model import DAY_HOURS, Plan, step_numbers
from context_engine.plans.plan_lifecycle import DONE
from context_engine.plans.plan_progress import Execution

STEPS_MAX = 80
"""Beyond it nobody finds a step in a picture, as in Mermaid."""
EDGES_MAX = 400
BOX = (212.0, 58.0)
"""Width and height: two lines of a title."""
LINE_CHARS = 23
"""Of a title in a box, in characters of a Latin alphabet; wider ones count twice."""
HINT_CHARS = 200
"""Of the title that a browser shows over a box."""
MARGIN = 6.0
WIDE = 960.0
"""Of the chart of times; the page scales it."""
LABELS = 300.0
HOURS = 84.0
"""What the times behind the bars need."""
ROW = 30.0
BAR = 16.0
TICKS = (0.5, 1, 2, 4, 8, 16, 24, 40, 80, 160, 400, 800, 1_600, 4_000, 16_000)
"""Hours between two lines of the chart, in days and weeks of work where there are many."""
TICKS_MAX = 9


class Scene(NamedTuple):
    """What is drawn: a plan, what follows from it, and how each step stands (a class of the page)."""

    plan: Plan
    drawn: StepGraph
    timed: GraphTiming
    looks: Mapping[str, str]
    number: Mapping[str, int]

    @property
    def shown(self) -> tuple[str, ...]:
        """The steps that get a box: the first ones, where there are too many."""
        return self.drawn.order[:STEPS_MAX]

    @property
    def omitted(self) -> int:
        """How many do not."""
        return len(self.drawn.order) - len(self.shown)


def scene(plan: Plan, execution: Execution | None) -> Scene:
    """A plan as it is drawn."""
    drawn = build_graph(plan)
    looks = {step.uid: look_of(execution, step.uid) for step in plan.steps}
    timed = compute_timing(drawn, {step.uid: step.hours for step in plan.steps})
    return Scene(plan, drawn, timed, looks, step_numbers(plan))


def look_of(execution: Execution | None, uid: str) -> str:
    """How a step looks: done, active, ready, failed, blocked or waiting; `plain` where nobody knows."""
    if execution is None:
        return "plain"
    state = execution.steps[uid]
    if state.status in DONE:
        return "done"
    if state.status == "pending":
        return "blocked" if state.blocked_by else "waiting"
    return "active" if state.status == "in_progress" else state.status


# -- what waits for what ----------------------------------------------------------------------------------------------


def dependencies(view: Scene) -> Element:
    """Boxes and arrows, downwards; to the right where many steps stand side by side and few behind each other."""
    shown = set(view.shown)
    levels = [kept for level in view.drawn.levels if (kept := [uid for uid in level if uid in shown])]
    edges = [(other, uid) for uid in view.shown for other in view.drawn.depends[uid] if other in shown][:EDGES_MAX]
    lies = len(levels) < max(map(len, levels), default=0)
    width, height = BOX
    sizes = Sizes(height, width, 22.0, 64.0) if lies else Sizes(width, height, 26.0, 46.0)
    found = placed(levels, edges, sizes)
    size = (found.along, found.across) if lies else (found.across, found.along)
    svg = _svg(size[0] + 2 * MARGIN, size[1] + 2 * MARGIN, "graph", f"What waits for what, in {len(shown)} steps")
    _arrowheads(svg)
    critical = set(pairwise(view.timed.critical_path))
    for edge in sorted(found.lines, key=critical.__contains__):  # the critical path lies on top
        _arrow(svg, edge, found, sizes, lies=lies, is_critical=edge in critical)
    for uid in view.shown:
        _box(svg, view, uid, _turned(found.boxes[uid], lies))
    return svg


def _turned(point: Point, lies: bool) -> tuple[float, float]:
    x, y = (point.along, point.across) if lies else point
    return x + MARGIN, y + MARGIN


def _arrow(svg: Element, edge: tuple[str, str], found: Placed, sizes: Sizes, *, lies: bool, is_critical: bool) -> None:
    """A smooth line from the end of one box, past those between, to the beginning of the other."""
    one, other = found.boxes[edge[0]], found.boxes[edge[1]]
    half = sizes.along / 2
    stops = [Point(one.across, one.along + half)]
    for point in found.lines[edge]:
        stops += [Point(point.across, point.along - half), Point(point.across, point.along + half)]
    stops.append(Point(other.across, other.along - half - 5))  # room for the head
    path = ["M{:.1f} {:.1f}".format(*_turned(stops[0], lies))]
    for number, (here, there) in enumerate(pairwise(stops)):
        if number % 2:
            path.append("L{:.1f} {:.1f}".format(*_turned(there, lies)))
            continue
        middle = (here.along + there.along) / 2
        bends = (Point(here.across, middle), Point(there.across, middle), there)
        path.append("C" + " ".join("{:.1f} {:.1f}".format(*_turned(each, lies)) for each in bends))
    kind = "critical" if is_critical else "usual"
    _add(svg, "path", {"class": f"arrow {kind}", "d": "".join(path), "marker-end": f"url(#head-{kind})"})


def _box(svg: Element, view: Scene, uid: str, at: tuple[float, float]) -> None:
    number = view.number[uid]
    step = view.plan.steps[number - 1]
    width, height = BOX
    x, y = at[0] - width / 2, at[1] - height / 2
    critical = " critical" if uid in view.timed.critical_path else ""
    link = _add(svg, "a", {"href": f"#step-{number}", "class": f"box {view.looks[uid]}{critical}"})
    _add(link, "title", {}, f"{number}. {step.title[:HINT_CHARS]}")
    _add(link, "rect", {"x": x, "y": y, "width": width, "height": height, "rx": 9})
    _add(link, "text", {"class": "number", "x": x + 12, "y": at[1] + 5}, str(number))
    lines = wrapped(step.title, LINE_CHARS, 2)
    first = at[1] + 4.5 - 8 * (len(lines) - 1)
    for place, line in enumerate(lines):
        _add(link, "text", {"x": x + 12 + 9 * len(str(number)) + 8, "y": first + 16 * place}, line)


def _arrowheads(svg: Element) -> None:
    definitions = _add(svg, "defs", {})
    for kind in ("usual", "critical"):
        told = {"id": f"head-{kind}", "viewBox": "0 0 8 8", "refX": 3, "refY": 4, "orient": "auto"}
        marker = _add(
            definitions, "marker", told | {"markerWidth": 7, "markerHeight": 7, "markerUnits": "userSpaceOnUse"}
        )
        _add(marker, "path", {"class": f"head {kind}", "d": "M0 0L8 4L0 8z"})


# -- when it can happen -----------------------------------------------------------------------------------------------


def times(view: Scene) -> Element:
    """A bar for each step from its earliest start, with the time that it could wait behind it."""
    hours = {step.uid: step.hours for step in view.plan.steps}
    shown = [uid for level in view.drawn.levels for uid in level][:STEPS_MAX]
    end = max((view.timed.start[uid] + hours[uid] for uid in shown), default=0.0) or 1.0
    scale = (WIDE - LABELS - HOURS) / end
    height = ROW * len(shown) + 34
    svg = _svg(WIDE, height, "times", f"When each of {len(shown)} steps can happen, in working hours")
    for hour in ticks(end):
        x = LABELS + hour * scale
        _add(svg, "line", {"class": "tick", "x1": x, "x2": x, "y1": 22, "y2": height - 4})
        _add(svg, "text", {"class": "tick", "x": x, "y": 14, "text-anchor": "middle"}, moment(hour))
    for place, uid in enumerate(shown):
        _bar(svg, view, uid, 28 + ROW * place, scale, hours[uid])
    return svg


def _bar(svg: Element, view: Scene, uid: str, top: float, scale: float, hours: float) -> None:
    number = view.number[uid]
    title = view.plan.steps[number - 1].title
    critical = " critical" if uid in view.timed.critical_path else ""
    link = _add(svg, "a", {"href": f"#step-{number}", "class": f"bar {view.looks[uid]}{critical}"})
    _add(
        link,
        "title",
        {},
        f"{number}. {title[:HINT_CHARS]}: {format_effort(hours)} from {moment(view.timed.start[uid])}",
    )
    _add(link, "rect", {"class": "row", "x": 0, "y": top - 4, "width": WIDE, "height": ROW - 4, "rx": 5})
    _add(link, "text", {"class": "number", "x": 26, "y": top + 13, "text-anchor": "end"}, str(number))
    _add(link, "text", {"x": 36, "y": top + 13}, wrapped(title, 36, 1)[0])
    x, width = LABELS + view.timed.start[uid] * scale, max(3.0, hours * scale)
    slack = view.timed.slack[uid] * scale
    if slack > 1:
        _add(link, "line", {"class": "slack", "x1": x + width, "x2": x + width + slack, "y1": top + 9, "y2": top + 9})
    _add(link, "rect", {"x": x, "y": top + 1, "width": width, "height": BAR, "rx": 4})
    _add(link, "text", {"class": "hours", "x": x + width + max(slack, 0.0) + 6, "y": top + 13}, format_effort(hours))


def ticks(end: float) -> list[float]:
    """The hours that get a line: as many as can be told apart.

    >>> ticks(5), ticks(100)
    ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 16.0, 32.0, 48.0, 64.0, 80.0, 96.0])
    """
    step = next((each for each in TICKS if end / each <= TICKS_MAX - 1), end / (TICKS_MAX - 1))
    return [float(step * number) for number in range(int(end / step) + 1)]


def moment(hours: float) -> str:
    """A moment of a chart in words; from two days on in days.

    >>> moment(0), moment(3), moment(40)
    ('start', '3 h', '5 d')
    """
    if not hours:
        return "start"
    return f"{hours:g} h" if hours < 2 * DAY_HOURS else f"{round(hours / DAY_HOURS, 1):g} d"


# -- texts and elements -----------------------------------------------------------------------------------------------


def wrapped(text: str, chars: int, lines_max: int) -> list[str]:
    """A text on so many lines of so many characters, with an ellipsis where it is cut.

    >>> wrapped("adapt what uses it", 10, 2), wrapped("unbreakable_name", 10, 2), wrapped("", 5, 1)
    (['adapt what', 'uses it'], ['unbreakab…'], [''])
    """
    lines, rest = [""], shown(text).split()
    while rest:
        word = rest.pop(0)
        joined = f"{lines[-1]} {word}".strip()
        if _width(joined) <= chars:
            lines[-1] = joined
        elif lines[-1] and len(lines) < lines_max:
            lines.append("")
            rest.insert(0, word)
        else:
            lines[-1] = _cut(joined, chars)
            break
    return lines


def _cut(text: str, chars: int) -> str:
    """The beginning of a text that leaves room for an ellipsis."""
    wide = accumulate(_width(char) for char in text[:chars])
    kept = sum(each <= chars - 1 for each in wide)
    return text[:kept].rstrip() + "…"


def _width(text: str) -> int:
    """How wide a text is, in characters of a Latin alphabet."""
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def _svg(width: float, height: float, name: str, label: str) -> Element:
    told = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "width": f"{width:.0f}", "height": f"{height:.0f}"}
    return Element("svg", told | {"class": name, "role": "img", "aria-label": label})


def _add(parent: Element, tag: str, told: Mapping[str, object], text: str = "") -> Element:
    """An element below another; numbers with one digit behind the point."""
    added = SubElement(parent, tag, {key: _written(value) for key, value in told.items()})
    added.text = shown(text) or None
    return added


def shown(text: str) -> str:
    r"""A text as a page can show it: no controls, no marks that turn the direction of text, nothing that is no character.

    >>> shown("a\x00\u202eb\ud800\n")
    'ab\n'
    """
    return text if text.isprintable() else "".join(char for char in text if _is_shown(char))


def _is_shown(char: str) -> bool:
    return char in "\n\t\u200c\u200d" or unicodedata.category(char)[0] != "C"


def _written(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
