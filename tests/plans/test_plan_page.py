"""Pages of plans: whole and closed in themselves, whatever a title holds, and small enough to be sent."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from html.parser import HTMLParser
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans import plan_svg
from context_engine.plans.graph_layout import LINE, Sizes, placed
from context_engine.plans.model import Estimate, Plan, PlanDiagram, PlanRisk, PlanScope, PlanStep
from context_engine.plans.plan_lifecycle import Approval
from context_engine.plans.plan_markdown import render_plan
from context_engine.plans.plan_page import BYTES_MAX, page
from context_engine.plans.plan_parsing import STEPS_MAX, normalize_plan
from context_engine.plans.plan_progress import Execution, PlanEvent, fold_progress
from context_engine.plans.plan_svg import wrapped
from tests.support.planned import plan_of, plans

HOSTILE = (
    "</title><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '"><a href="https://example.org">',
    "&lt;b&gt; &amp; ]]> <!-- -->",
    "\x00\x1b[31m\u202eevil\ud800",
    "{{ 7 * 7 }} ${x} `y`",
)


class Read(HTMLParser):
    """A page as a parser reads it: what is open, every attribute, every text by the element it stands in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def said(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.attributes if key == name]


def under_way(plan: Plan, *kinds: tuple[str, str]) -> Execution:
    events = [
        PlanEvent(seq=seq, at=f"2026-11-21T12:{seq:02}:00Z", kind=kind, step=uid)
        for seq, (uid, kind) in enumerate(kinds, 1)
    ]
    return fold_progress(plan, events, now=0)


def hostile_everywhere(text: str) -> Plan:
    """A plan that says this wherever it can say something."""
    step = PlanStep(
        title=text, description=text, files_to_modify=(text,), files_to_create=(text,), files_to_delete=(text,),
        acceptance_criteria=(text,), checks=(text,), estimated_effort=text,
    )  # fmt: skip
    plan = normalize_plan(
        Plan(goal=text, task=f"{text}!", steps=(step, step), risks=(PlanRisk(text, text),), open_feedback=(text,))
    )
    drawn = msgspec.structs.replace(
        plan.architecture, notes=text, patterns_used=(text,), diagrams=(PlanDiagram(text, text),)
    )
    return msgspec.structs.replace(plan, architecture=drawn)


# -- the page ---------------------------------------------------------------------------------------------------------


@given(plan=plans())
def test_every_element_of_a_page_is_closed_in_its_place(plan: Plan) -> None:
    read = Read(page(plan, fold_progress(plan, (), now=0)))
    assert read.open == []
    assert read.tags.count("html") == read.tags.count("main") == 1
    assert read.tags.count("article") == len(plan.steps)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup(text: str) -> None:
    plain, hostile = Read(page(hostile_everywhere("x"))), Read(page(hostile_everywhere(text)))
    assert hostile.open == []
    assert _shape(hostile) == _shape(plain)
    assert {name for name, _ in hostile.attributes} == {name for name, _ in plain.attributes}
    title = hostile.said("title")[0]
    assert "".join(title.split()) == "".join(char for char in text if char.isprintable() and not char.isspace())


def _shape(read: Read) -> list[str]:
    """The elements of a page; a title in a picture may take two lines, and a text may hold code."""
    return [tag for tag in read.tags if tag not in ("text", "code")]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_leads_nowhere_but_to_itself(text: str) -> None:
    read = Read(page(hostile_everywhere(text)))
    assert all(value.startswith("#step-") for value in read.values("href"))
    assert set(read.values("marker-end")) <= {"url(#head-usual)", "url(#head-critical)"}
    assert not {"src", "srcset", "action", "style", "xlink:href", "onload"} & {name for name, _ in read.attributes}
    assert not {"script", "iframe", "img", "object", "embed", "link", "form", "base"} & set(read.tags)


def test_its_policy_allows_its_own_style_sheet_and_nothing_else() -> None:
    read = Read(page(plan_of((), (1,))))
    (style,) = read.said("style")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [value for value in read.values("content") if "default-src" in value]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style
    assert "@import" not in style


def test_the_same_plan_is_the_same_page() -> None:
    plan = plan_of((), (1,), (1, 2))
    assert page(plan) == page(plan)
    assert page(plan).isprintable() is False  # lines, so that a difference can be read
    assert page(plan).startswith("<!DOCTYPE html>\n<html")


def test_a_page_tells_how_far_each_step_is() -> None:
    plan = plan_of((), (1,), (1,), (2,))
    execution = under_way(
        plan, ("s1", "step_started"), ("s1", "step_completed"), ("s2", "step_started"), ("s2", "step_failed")
    )
    kinds = [
        value.removeprefix("step ")
        for value in Read(page(plan, execution)).values("class")
        if value.startswith("step ")
    ]
    assert kinds == ["done", "failed", "ready", "blocked"]
    assert "25 %" in Read(page(plan, execution)).said("dd")
    assert "critical path: what holds up the whole" in page(plan)
    assert "held up by a failure" not in page(plan)


def test_a_circle_is_drawn_and_told() -> None:
    plan = plan_of((), (3,), (2,))
    assert "in a circle: 2 → 3 → 2." in page(plan)
    assert Read(page(plan)).open == []


def test_approvals_and_versions_are_told() -> None:
    plan = plan_of((), (1,))
    asked = Approval(
        id="apr_1", plan_id="p", plan_version=1, plan_hash="h", type="step", steps=("s2",), status="rejected",
        decided_by="user", comment="not <now>",
    )  # fmt: skip
    read = Read(page(plan, None, (asked,)))
    assert read.said("td") == ["rejected", "steps 2, version 1", "user · not <now>"]


def test_a_page_of_the_largest_plan_stays_below_a_megabyte_and_has_every_step() -> None:
    steps = tuple(
        PlanStep(
            title="&" * 490,
            description="<" * 800,
            files_to_modify=tuple(f"src/{n}/{m}.py" for m in range(9)),
        )
        for n in range(1, STEPS_MAX + 1)
    )
    text = page(normalize_plan(Plan(goal="g" * 9_000, steps=steps)))
    assert len(text.encode()) < BYTES_MAX
    read = Read(text)
    assert read.tags.count("article") == STEPS_MAX
    assert "The last 1,920 steps are not drawn." in read.said("p")
    assert any(said.startswith("The plan is too large for a page") for said in read.said("p"))


def test_the_folder_of_the_workspace_itself_has_a_name() -> None:
    plan = msgspec.structs.replace(plan_of(()), scope=PlanScope((".", "src")))
    assert {"the top folder", "src"} <= set(Read(page(plan)).said("li"))
    assert "- Included: the top folder\n- Included: src" in render_plan(plan)


def test_what_stands_between_backticks_is_code() -> None:
    step = PlanStep(title="One", description="call `a < b` now", acceptance_criteria=("`x` is `y", "`` is nothing"))
    read = Read(page(normalize_plan(Plan(goal="Ship", steps=(step,)))))
    assert "a < b" in read.said("code")
    assert "`x` is `y" in read.said("li")
    assert "call " in read.said("p")


def test_texts_that_have_room_are_not_cut() -> None:
    plan = normalize_plan(Plan(goal="Ship", steps=(PlanStep(title="One", description="word " * 2_000),)))
    assert "…" not in page(plan)


# -- pictures ---------------------------------------------------------------------------------------------------------


@given(plan=plans())
def test_each_step_has_a_box_and_each_wait_an_arrow(plan: Plan) -> None:
    read = Read(page(plan))
    kinds = read.values("class")
    assert sum(kind.startswith("box ") for kind in kinds) == len(plan.steps)
    assert sum(kind.startswith("arrow ") for kind in kinds) == sum(len(set(step.depends_on)) for step in plan.steps)


LEVELS = st.lists(st.integers(1, 5), min_size=1, max_size=6).map(
    lambda counts: [[f"{level}.{place}" for place in range(count)] for level, count in enumerate(counts)]
)


@given(levels=LEVELS, chance=st.randoms(use_true_random=False))
def test_no_box_lies_on_another_and_no_line_goes_through_one(levels: list[list[str]], chance: object) -> None:
    nodes = [node for level in levels for node in level]
    edges = [(one, other) for one in nodes for other in nodes if one[0] < other[0] and chance.random() < 0.3]  # ty: ignore[missing-attribute]
    sizes = Sizes(100, 40, 20, 30)
    found = placed(levels, edges, sizes)
    for level in levels:
        along = found.boxes[level[0]].along
        places = sorted(found.boxes[node].across for node in level)
        assert all(right - left >= 120 - 0.2 for left, right in pairwise(places))
        passing = [point.across for line in found.lines.values() for point in line if point.along == along]
        assert all(abs(at - place) >= 20 + (100 + LINE) / 2 - 0.2 for at in passing for place in places)
    assert set(found.lines) == set(edges)
    assert all(50 - 0.2 <= point.across <= found.across - 50 + 0.2 for point in found.boxes.values())
    assert found.along == 70 * len(levels) - 30


def test_a_line_of_boxes_is_straight() -> None:
    found = placed([["a"], ["b"], ["c"]], [("a", "b"), ("b", "c")], Sizes(100, 40, 20, 30))
    assert {point.across for point in found.boxes.values()} == {50.0}


@given(text=st.text(st.sampled_from("ab 日\u0301"), max_size=30), chars=st.integers(2, 12), lines=st.integers(1, 3))
def test_a_wrapped_title_is_the_beginning_of_it_and_fits(text: str, chars: int, lines: int) -> None:
    found = wrapped(text, chars, lines)
    assert 1 <= len(found) <= lines
    assert all(plan_svg._width(line) <= chars for line in found)
    whole, shown = "".join(text.split()), "".join("".join(found).split())
    assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1]))


def test_a_bar_begins_where_the_last_of_those_it_waits_for_ends() -> None:
    hours = (Estimate(1, 1, 1), Estimate(3, 3, 3), Estimate(2, 2, 2))
    plan = plan_of((), (), (1, 2))
    steps = tuple(msgspec.structs.replace(step, estimate=each) for step, each in zip(plan.steps, hours, strict=True))
    drawn = plan_svg.times(plan_svg.scene(msgspec.structs.replace(plan, steps=steps), None))
    bars = [bar.findall("rect")[-1] for bar in drawn.iter("a")]
    spans = [(float(bar.get("x", "")), float(bar.get("x", "")) + float(bar.get("width", ""))) for bar in bars]
    assert spans[2][0] == pytest.approx(spans[1][1], abs=0.2)
    assert spans[0][0] == spans[1][0] == plan_svg.LABELS
    assert spans[0][1] < spans[1][1] < spans[2][1]
