"""HTML files of plans: readable and complete, inert whatever a title contains, and small enough to be sent."""

from __future__ import annotations

import doctest
import hashlib
from base64 import b64encode
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given

from context_engine.plans import mermaid, plan_markdown
from context_engine.plans.model import Plan, PlanDiagram, PlanRisk, PlanScope, PlanStep
from context_engine.plans.plan_events import Approval, Execution, PlanEvent, fold_progress
from context_engine.plans.plan_json import STEPS_MAX, normalize_plan
from context_engine.plans.plan_markdown import HTML_BYTES_MAX, render_html, render_plan
from tests.support.planned import plan_of, plans

HOSTILE = (
    "</title><script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '"><a href="https://example.org">',
    "&lt;b&gt; &amp; ]]> <!-- -->",
    "\x00\x1b[31m\u202eevil\ud800",
    "{{ 7 * 7 }} ${x} `y`",
    "</pre><script>alert(1)</script>",
)
VOID = ("meta",)


class Read(HTMLParser):
    """A page as a parser reads it: open elements, every attribute, every text by the element it is in."""

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
        if tag not in VOID:
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
    """Return a plan that contains this text in every field that takes one."""
    step = PlanStep(
        title=text, description=text, files_to_modify=(text,), files_to_create=(text,), files_to_delete=(text,),
        acceptance_criteria=(text,), checks=(text,), estimated_effort=text,
    )  # fmt: skip
    plan = Plan(goal=text, task=f"{text}!", steps=(step, step), risks=(PlanRisk(text, text),), open_feedback=(text,))
    plan = normalize_plan(plan)
    architecture = msgspec.structs.replace(
        plan.architecture, notes=text, patterns_used=(text,), diagrams=(PlanDiagram(text, text),)
    )
    return msgspec.structs.replace(plan, architecture=architecture)


@given(plan=plans())
def test_the_page_contains_the_markdown_and_the_diagrams_as_text(plan: Plan) -> None:
    execution = fold_progress(plan, (), now=0)
    read = Read(render_html(plan, execution))
    assert read.open == []
    text, *diagrams = read.said("pre")
    assert text == render_plan(plan, execution)
    drawn = [mermaid.draw_progress(plan, execution), mermaid.draw_gantt(plan, execution)] if plan.steps else []
    assert diagrams == [diagram.mermaid for diagram in drawn]
    assert read.values("class") == ["plan", *["mermaid"] * len(drawn)]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup(text: str) -> None:
    plain, hostile = Read(render_html(hostile_everywhere("x"))), Read(render_html(hostile_everywhere(text)))
    assert hostile.open == []
    assert hostile.tags == plain.tags
    assert [name for name, _ in hostile.attributes] == [name for name, _ in plain.attributes]
    title = hostile.said("title")[0]
    assert "".join(title.split()) == "".join(char for char in text if char.isprintable() and not char.isspace())


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_leads_nowhere_and_fetches_nothing(text: str) -> None:
    read = Read(render_html(hostile_everywhere(text)))
    assert not {"src", "srcset", "action", "style", "href", "onload"} & {name for name, _ in read.attributes}
    assert not {"script", "iframe", "img", "object", "embed", "link", "form", "base", "a"} & set(read.tags)


def test_its_policy_allows_its_own_style_sheet_and_nothing_else() -> None:
    read = Read(render_html(plan_of((), (1,))))
    (style,) = read.said("style")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [value for value in read.values("content") if "default-src" in value]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style
    assert "@import" not in style


def test_the_same_plan_is_the_same_page() -> None:
    plan = plan_of((), (1,), (1, 2))
    assert render_html(plan) == render_html(plan)
    assert render_html(plan).startswith("<!DOCTYPE html>\n<html")


def test_a_page_shows_the_progress_of_each_step() -> None:
    plan = plan_of((), (1,), (1,), (2,))
    events = (("s1", "step_started"), ("s1", "step_completed"), ("s2", "step_started"), ("s2", "step_failed"))
    html = render_html(plan, under_way(plan, *events))
    assert "25 % done" in html
    assert "class n1 doneStyle" in html
    assert "class n2 failedStyle" in html
    assert "class n4 blockedStyle" in html


def test_approvals_and_versions_are_shown() -> None:
    plan = plan_of((), (1,))
    asked = Approval(
        id="apr_1", plan_id="p", plan_version=1, plan_hash="h", type="step", steps=("s2",), status="rejected",
        decided_by="user", comment="not <now>",
    )  # fmt: skip
    (text, *_) = Read(render_html(plan, None, (asked,))).said("pre")
    assert "| rejected | steps 2, version 1 | user · not <now> |" in text


def test_a_page_of_the_largest_plan_stays_below_a_megabyte_and_has_every_step() -> None:
    files = tuple(f"src/{place}.py" for place in range(9))
    steps = tuple(PlanStep(title="&" * 490, description="<" * 800, files_to_modify=files) for _ in range(STEPS_MAX))
    html = render_html(normalize_plan(Plan(goal="g" * 9_000, steps=steps)))
    assert len(html.encode()) < HTML_BYTES_MAX
    read = Read(html)
    assert read.said("pre")[0].count("\n### ") == STEPS_MAX
    assert any(text.startswith("The plan is too large for one file") for text in read.said("p"))


def test_the_folder_of_the_workspace_itself_has_a_name() -> None:
    plan = msgspec.structs.replace(plan_of(()), scope=PlanScope((".", "src")))
    assert "- Included: the top folder\n- Included: src" in render_plan(plan)


def test_texts_that_have_room_are_not_cut() -> None:
    plan = normalize_plan(Plan(goal="Ship", steps=(PlanStep(title="One", description="word " * 2_000),)))
    assert "…" not in render_html(plan)


def test_the_examples_hold() -> None:
    assert doctest.testmod(plan_markdown).failed == 0
