"""PURE. A plan as one page for the browser: everything in one file, no script, nothing fetched, by day, by night and on paper.

The page is a tree of elements, and only a tree is ever written: what somebody put into a title is a text node, whatever it looks
like. The policy in its head allows this one style sheet and nothing else, so even markup that got through would do nothing.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, tostring

from context_engine.plans import plan_svg
from context_engine.plans.effort import format_effort
from context_engine.plans.model import Plan, PlanEvidence, PlanStep, step_numbers
from context_engine.plans.page_style import STYLE
from context_engine.plans.plan_lifecycle import DONE, Approval
from context_engine.plans.plan_progress import Execution
from context_engine.plans.plan_svg import Scene
from context_engine.plans.plan_version import PlanVersion

BYTES_MAX = 1_000_000
"""A page larger than this is no letter any more; texts are cut until it fits."""
WIDE_STEPS = 5
"""So many boxes side by side fit the page without being made smaller."""
VERSIONS_MAX = 30
LOOKS = {
    "done": "done", "active": "in progress", "ready": "ready", "failed": "failed", "blocked": "held up by a failure",
    "waiting": "waiting",
}  # fmt: skip


class Room(NamedTuple):
    """How much of the longest things is shown: characters of a text, items of a list."""

    chars: int
    items: int


ROOMS = (Room(20_000, 500), Room(2_000, 60), Room(300, 8), Room(100, 2), Room(30, 0))
"""Tried in this order until the page is small enough. The last has the titles of steps alone, whose 30 characters take at most
150 bytes: 2,000 of them, the most that a plan has, stay below the limit."""


def page(
    plan: Plan,
    execution: Execution | None = None,
    approvals: Sequence[Approval] = (),
    versions: Sequence[PlanVersion] = (),
) -> str:
    """The plan as HTML; with its execution, how far it is. `versions`: newest first. Always less than a megabyte."""
    text = ""
    for room in ROOMS:
        text = _written(plan, execution, approvals, versions, room)
        if len(text.encode()) < BYTES_MAX:
            break
    return text


def _written(
    plan: Plan, execution: Execution | None, approvals: Sequence[Approval], versions: Sequence[PlanVersion], room: Room
) -> str:
    scene = plan_svg.scene(plan, execution)
    text = Texts(room)
    body = [
        *_head(scene, execution, text),
        *_pictures(scene, execution),
        *_steps(scene, execution, text),
        *_around(plan, text),
        *_ways(approvals, versions, plan, text),
        el("footer", "Written by Context Engine from ", el("code", f"{plan.id or 'a plan'} v{plan.version}"), "."),
    ]
    root = el("html", _meta(text(plan.goal)), el("body", el("main", *body)), lang="en")
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"


def _meta(title: str) -> Element:
    """The head of the page: its title, its one style sheet, and the policy that allows no more than that."""
    allowed = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", **{"http-equiv": "Content-Security-Policy", "content": policy}),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        el("style", STYLE),
    )


# -- elements ---------------------------------------------------------------------------------------------------------

Content = Element | str | None


def el(tag: str, *content: Content | Iterable[Content], **told: str) -> Element:
    """An element with what is in it, in order; texts become text nodes. `kind` is its class."""
    made = Element(tag, {name.replace("kind", "class"): value for name, value in told.items() if value})
    last: Element | None = None
    for each in _flat(content):
        if isinstance(each, Element):
            made.append(each)
            last = each
        elif last is None:
            made.text = (made.text or "") + each
        else:
            last.tail = (last.tail or "") + each
    return made


def _flat(content: Iterable[Content | Iterable[Content]]) -> Iterator[Element | str]:
    for each in content:
        if isinstance(each, str):
            yield plan_svg.shown(each)
        elif isinstance(each, Element):
            yield each
        elif each is not None:
            yield from _flat(each)


class Texts(NamedTuple):
    """Texts of other people as a page can show them."""

    room: Room

    def __call__(self, text: str) -> str:
        """The text, cut where there is no room."""
        return text if len(text) <= self.room.chars else text[: self.room.chars].rstrip() + "…"

    def said(self, text: str) -> list[Content]:
        """The same, what stands between backticks as code."""
        parts = self(text).split("`")
        if len(parts) % 2 == 0:  # one of them has no partner
            return [self(text)]
        return [el("code", part) if place % 2 and part else part for place, part in enumerate(parts)]

    def some(self, rows: Sequence[Element]) -> list[Element]:
        """The first rows, and how many there are beyond them."""
        left = len(rows) - self.room.items if self.room.items else 0
        return [*rows[: self.room.items], *([el("li", f"and {left:,} more", kind="soft")] if left > 0 else [])]


def _listed(rows: Iterable[Element], text: Texts, kind: str = "") -> Element | None:
    found = text.some(list(rows))
    return el("ul", found, kind=kind) if found else None


def _section(title: str, *content: Content | Iterable[Content]) -> list[Element]:
    """A heading and what stands below it; nothing when there is nothing."""
    found = list(_flat(content))
    return [el("h2", title), *(each if isinstance(each, Element) else el("p", each) for each in found)] if found else []


# -- the top ----------------------------------------------------------------------------------------------------------


def _head(scene: Scene, execution: Execution | None, text: Texts) -> Iterator[Element]:
    plan = scene.plan
    yield el("h1", text(plan.goal), dir="auto")
    status = execution.status if execution else ""
    look = {"completed": "done", "executing": "active", "failed": "failed", "stalled": "failed"}.get(status, "")
    provenance = {"core": "made from the repository", "host": "made by an agent", "model": "made by a model"}
    yield el(
        "div",
        el("span", status.replace("_", " "), kind=f"chip {look}".strip()) if status else None,
        el("span", f"version {plan.version}", kind="chip"),
        el("span", provenance[plan.provenance], kind="chip"),
        el("span", plan.created_at[:10], kind="chip") if plan.created_at else None,
        kind="line",
    )
    if plan.task.strip() not in ("", plan.goal.strip()):
        yield el("p", text.said(plan.task.strip()), kind="said", dir="auto")
    if text.room != ROOMS[0]:
        yield el("p", "The plan is too large for a page: long texts and lists are cut, or left out.", kind="warning")
    yield from _trouble(scene)
    yield _facts(scene, execution)
    if execution:
        yield _track(execution.percentage)


def _trouble(scene: Scene) -> Iterator[Element]:
    number = scene.number
    if scene.drawn.cycle:
        circle = " → ".join(str(number[uid]) for uid in scene.drawn.cycle)
        yield el("p", f"Steps wait for each other in a circle: {circle}.", kind="warning")
    for each in scene.plan.open_feedback[:5]:
        yield el("p", f"Asked for, and not done yet: {Texts(Room(500, 1))(each)}", kind="warning")


def _facts(scene: Scene, execution: Execution | None) -> Element:
    plan, number = scene.plan, scene.number
    path = " → ".join(str(number[uid]) for uid in scene.timed.critical_path[:12])
    facts = {
        "steps": f"{len(plan.steps):,}",
        "files": f"{len(plan.files):,}",
        "shortest time": format_effort(scene.timed.duration_h) if plan.steps else "",
        "critical path": path + (" …" if len(scene.timed.critical_path) > 12 else ""),
        "open questions": str(len(plan.open_questions)) if plan.open_questions else "",
        "confidence": f"{plan.confidence_score:.0%}" if plan.confidence_score else "",
        "done": f"{execution.percentage:g} %" if execution else "",
        "next": f"step {number[execution.next]}" if execution and execution.next else "",
        "left at this pace": format_effort(execution.eta_hours)
        if execution and execution.eta_hours is not None
        else "",
    }
    return el("dl", (el("div", el("dt", name), el("dd", said)) for name, said in facts.items() if said), kind="facts")


def _track(percentage: float) -> Element:
    told = {
        "viewBox": "0 0 100 1",
        "preserveAspectRatio": "none",
        "role": "img",
        "aria-label": f"{percentage:g} % done",
    }
    whole = el("rect", kind="whole", width="100", height="1")
    return el("svg", whole, el("rect", kind="part", width=f"{percentage:g}", height="1"), kind="track", **told)


# -- pictures ---------------------------------------------------------------------------------------------------------


def _pictures(scene: Scene, execution: Execution | None) -> Iterator[Element]:
    if not scene.plan.steps:
        return
    left = f" The last {scene.omitted:,} steps are not drawn." if scene.omitted else ""
    is_wide = max(map(len, scene.drawn.levels)) > WIDE_STEPS and len(scene.drawn.levels) > WIDE_STEPS
    yield el("h2", "What waits for what")
    yield el("div", plan_svg.dependencies(scene), kind="picture wide" if is_wide else "picture")
    yield _key(scene, execution)
    if left:
        yield el("p", left.strip(), kind="note")
    yield el("h2", "When it can happen")
    yield el("div", plan_svg.times(scene), kind="picture")
    hours = format_effort(scene.timed.duration_h)
    unknown = sum(step.estimate is None for step in scene.plan.steps)
    guessed = f" {unknown} steps without an estimate count as an hour." if unknown else ""
    told = f"Earliest times in working hours, with as many hands as needed: {hours}. Dots: how long a step could wait."
    yield el("p", told + guessed, kind="note")


def _key(scene: Scene, execution: Execution | None) -> Element:
    """What the colours mean that there are."""
    there = set(scene.looks.values())
    shown = [el("span", meaning, kind=look) for look, meaning in LOOKS.items() if execution and look in there]
    return el("p", shown, el("span", "critical path: what holds up the whole", kind="critical"), kind="key")


# -- steps ------------------------------------------------------------------------------------------------------------


def _steps(scene: Scene, execution: Execution | None, text: Texts) -> Iterator[Element]:
    yield el("h2", "Steps")
    if not scene.plan.steps:
        yield el("p", "There are none yet.", kind="soft")
    for number, step in enumerate(scene.plan.steps, 1):
        yield _step(scene, execution, number, step, text)


def _step(scene: Scene, execution: Execution | None, number: int, step: PlanStep, text: Texts) -> Element:
    look = scene.looks[step.uid]
    chip = el("span", LOOKS[look], kind=f"chip {look}") if look in LOOKS else None
    head = el("header", el("span", str(number), kind="place"), el("h3", text(step.title), dir="auto"), chip)
    if not text.room.items:
        return el("article", head, kind=f"step {look}", id=f"step-{number}")
    description = step.description.strip()
    rows = [each for name, said in _rows(execution, step, text) for each in (el("dt", name), el("dd", said))]
    return el(
        "article",
        head,
        el("p", _under(scene, step), kind="under"),
        el("p", text.said(description), kind="said", dir="auto") if description else None,
        el("dl", rows) if rows else None,
        kind=f"step {look}",
        id=f"step-{number}",
    )


def _under(scene: Scene, step: PlanStep) -> Iterator[Content]:
    """How long, how pressing, after what."""
    number = scene.number
    slack = scene.timed.slack[step.uid]
    yield f"{step.priority} priority"
    yield (
        f" · {step.estimated_effort[:60] or format_effort(step.hours)}"
        if step.estimate or step.estimated_effort
        else None
    )
    yield f" · can wait {format_effort(slack)}" if slack else " · on the critical path"
    waits = scene.drawn.depends[step.uid]
    for place, uid in enumerate(waits[:20]):
        yield ", " if place else " · after "
        yield el("a", f"step {number[uid]}", href=f"#step-{number[uid]}")
    if len(waits) > 20:
        yield f" and {len(waits) - 20} more"


def _rows(execution: Execution | None, step: PlanStep, text: Texts) -> Iterator[tuple[str, Content]]:
    """What is told of a step below its description; nothing of what is empty."""
    state = execution.steps[step.uid] if execution else None
    is_done = state is not None and state.status in DONE
    told: list[tuple[str, Content]] = [
        ("changes", _paths(step.files_to_modify, text)),
        ("creates", _paths(step.files_to_create, text)),
        ("deletes", _paths(step.files_to_delete, text)),
        ("done when", _listed((_criterion(each, text, is_done=is_done) for each in step.acceptance_criteria), text)),
        ("checked by", _listed((el("li", el("code", text(each))) for each in step.checks), text)),
        ("because of", _listed((_evidence(each, text) for each in step.evidence[:8]), text)),
        ("failed", text(state.error.strip()) if state and state.error else None),
        ("notes", text(state.notes.strip()) if state and state.notes else None),
        (
            "by",
            text(" · ".join(filter(None, (state.actor, state.completed_at[:10])))) if state and state.actor else None,
        ),
    ]
    yield from ((name, said) for name, said in told if said is not None and said != "")


def _criterion(said: str, text: Texts, *, is_done: bool) -> Element:
    mark = el("span", "✓" if is_done else "○", kind="mark yes" if is_done else "mark")
    return el("li", mark, text.said(said))


def _evidence(each: PlanEvidence, text: Texts) -> Element:
    place = f"{each.path}:{each.line}" if each.line else each.path
    said = " ".join(part for part in (each.symbol, f"({each.kind})") if part)
    return el("li", el("code", text(place)) if place else None, f" {text(said)}")


def _paths(paths: Sequence[str], text: Texts) -> Element | None:
    return _listed((el("li", el("code", text(each))) for each in paths), text, "paths")


# -- around the steps -------------------------------------------------------------------------------------------------


def _around(plan: Plan, text: Texts) -> Iterator[Element]:
    """What a plan says beside its steps, as far as it says anything."""

    def lines(rows: Iterable[str]) -> Element | None:
        return _listed((el("li", text.said(each), dir="auto") for each in rows), text)

    def column(title: str, rows: Iterable[str]) -> Element | None:
        found = lines(rows)
        return None if found is None else el("div", el("h3", title), found)

    questions = [f"{each.text} - {each.answer}" if each.answer else each.text for each in plan.questions]
    yield from _section("Questions", lines(questions))
    yield from _section("Risks", _table(("risk", "likelihood", "what to do"), _risks(plan, text), text))
    scope = plan.scope
    columns = [
        column("Included", ("the top folder" if each == "." else each for each in scope.included)), column("Left alone", scope.excluded), column("Assumed", scope.assumptions),
        column("Held to", scope.constraints), column("Has to be there", plan.mvp_features),
        column("Would be nice", plan.nice_to_have_features),
    ]  # fmt: skip
    found = [each for each in columns if each is not None]
    yield from _section("Scope", el("div", found, kind="columns") if found else None)
    yield from _section("Milestones", _table(("milestone", "steps", "time"), _milestones(plan, text), text))
    testing = plan.testing_strategy
    tests = {"Unit": testing.unit, "Integration": testing.integration, "Coverage": testing.coverage_target}
    yield from _section("Testing", lines(f"{name}: {said.strip()}" for name, said in tests.items() if said.strip()))
    notes = plan.architecture.notes.strip()
    patterns = ", ".join(plan.architecture.patterns_used)
    yield from _section(
        "Architecture",
        el("p", text.said(notes), kind="said", dir="auto") if notes else None,
        el("p", text(f"Patterns: {patterns}")) if patterns else None,
        [el("pre", text(each.mermaid.strip())) for each in plan.architecture.diagrams[: text.room.items]],
    )


def _risks(plan: Plan, text: Texts) -> list[tuple[str, ...]]:
    return [(text(each.issue), each.likelihood, text(each.mitigation)) for each in plan.risks]


def _milestones(plan: Plan, text: Texts) -> list[tuple[str, ...]]:
    number = step_numbers(plan)
    return [
        (
            text(each.name),
            ", ".join(str(n) for n in sorted(number[uid] for uid in each.steps_included if uid in number)),
            text(each.estimated_time),
        )
        for each in plan.milestones
    ]


def _ways(approvals: Sequence[Approval], versions: Sequence[PlanVersion], plan: Plan, text: Texts) -> Iterator[Element]:
    """Who said what about it, and how it came to be as it is."""
    number = step_numbers(plan)
    decided = []
    for each in approvals:
        about = ", ".join(str(number[uid]) for uid in each.steps if uid in number)
        what = f"steps {about}" if about else "the whole plan"
        said = " · ".join(filter(None, (each.decided_by, text(each.comment or each.modifications or each.note))))
        decided.append((each.status.replace("_", " "), f"{what}, version {each.plan_version}", said))
    yield from _section("Approvals", _table(("decision", "about", "by"), decided, text))
    rows = [
        (str(each.version), each.created_at[:16].replace("T", " "), text(each.author or each.provenance),
         text("; ".join(filter(None, (each.change_summary, each.reason)))))
        for each in versions[:VERSIONS_MAX]
    ]  # fmt: skip
    yield from _section(
        "Versions", _table(("version", "at (UTC)", "by", "what"), rows, text) if len(rows) > 1 else None
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], text: Texts) -> Element | None:
    if not (rows and text.room.items):
        return None
    shown = rows[: text.room.items]
    body = [el("tr", [el("td", cell, dir="auto") for cell in row]) for row in shown]
    return el("table", el("thead", el("tr", [el("th", name) for name in head])), el("tbody", body))
