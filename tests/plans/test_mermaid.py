"""Pictures of plans: whatever a title holds, Mermaid sees only what we draw.

The real parser is asked in `evals/mermaid`.
"""

from __future__ import annotations

import random
import re
import shutil

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.mermaid import (
    EDGES_MAX,
    NODES_MAX,
    MermaidDiagram,
    draw_architecture,
    draw_plan,
    escape_label,
)
from context_engine.plans.model import Plan
from context_engine.plans.plan_events import Execution, PlanEvent, fold_progress
from evals.mermaid import check
from tests.support.planned import plan_of, plans

KINDS = ("dependencies", "progress", "gantt")
LINE = re.compile(
    r"flowchart (?:TD|LR)|gantt|  (?:dateFormat YYYY-MM-DD|axisFormat %m-%d|excludes weekends)"
    r'|  \w+\["[^"\[\]{}()|<>;`\\:%]*"\]|  \w+ --> \w+|  classDef \w+Style [-#\w:,]+|  class [\w,]+ \w+Style'
    r"|  title [^:;%{}]*|  section (?:Done|Later|Stage \d+)"
    r"|  [^:;%{}]* :(?:done, |active, |crit, )*\w+, (?:\d{4}-\d\d-\d\d|after [\w ]+), [\d.e+]+h"
)
"""Every line that we may write, where each text is free of all that Mermaid takes for syntax."""


def shape(text: str) -> list[str]:
    """The lines, with codes taken out of texts: `#34;` is harmless and would look like syntax here."""
    return [re.sub(r"#\d+;", "", line) for line in text.splitlines()]


def after(plan: Plan, *done: int) -> Execution:
    told = [(f"s{n}", kind) for n in done for kind in ("step_started", "step_completed")]
    rows = [
        PlanEvent(seq=seq, at="2026-11-21T12:00:00Z", kind=kind, step=uid) for seq, (uid, kind) in enumerate(told, 1)
    ]
    return fold_progress(plan, rows)


def every(plan: Plan, execution: Execution) -> list[MermaidDiagram]:
    modules = {step.title: [1] for step in plan.steps}
    return [
        *(draw_plan(kind, plan, execution) for kind in KINDS),
        draw_architecture(modules, []),
    ]


def row(count: int) -> Plan:
    return plan_of(*((n - 1,) if n > 1 else () for n in range(1, count + 1)))


# -- titles -----------------------------------------------------------------------------------------------------------


@given(st.text(max_size=80) | st.sampled_from(check.HOSTILE), st.integers(20, 120))
def test_a_label_is_shown_as_it_is_and_holds_no_syntax(text: str, chars: int) -> None:
    coded = escape_label(text, chars)
    plain = check.decoded(coded)
    assert not set(re.sub(r"#\d+;", "", coded)) & set("\"'`#;:%[]{}()|<>\\&*_~^@$\n\r\0")
    assert len(plain) <= chars
    shown = "".join(text.split())
    assert shown.startswith("".join(plain.removesuffix("…").split())) or not shown.isprintable()


@given(plans(), st.randoms(use_true_random=False))
def test_every_line_of_every_picture_is_one_of_ours(plan: Plan, chance: random.Random) -> None:
    titled = [msgspec.structs.replace(step, title=check.title(chance)) for step in plan.steps]
    plan = msgspec.structs.replace(plan, goal=check.title(chance), steps=tuple(titled))
    for picture in every(plan, after(plan, 1)):
        assert [line for line in shape(picture.mermaid) if not LINE.fullmatch(line)] == []


def test_a_word_that_the_lexer_looks_for_in_labels_is_broken_up() -> None:
    assert escape_label("direction LR") == "direction#32;LR"


def test_one_picture_is_always_the_same_bytes() -> None:
    plan, again = row(9), row(9)
    assert every(plan, after(plan, 1, 2)) == every(again, after(again, 1, 2))


@pytest.mark.skipif(not (check.INSTALLED / "installed").exists(), reason="the parser comes with `make mermaid`")
@pytest.mark.slow
def test_the_real_parser_accepts_hostile_titles() -> None:
    assert shutil.which("node")
    assert check.main(["--plans", "10"]) == 0


# -- what is drawn -----------------------------------------------------------------------------------------------------


def test_an_arrow_leads_to_what_waits_and_the_critical_path_stands_out() -> None:
    plan = plan_of((), (1,), (1,), (2,))
    picture = draw_plan("dependencies", plan, after(plan), direction="LR")
    lines = picture.mermaid.splitlines()
    assert lines[0] == "flowchart LR"
    assert '  n2["2 · Step 2"]' in lines
    assert [line for line in lines if "-->" in line] == ["  n1 --> n2", "  n1 --> n3", "  n2 --> n4"]
    assert "  class n1,n2,n4 criticalStyle" in lines
    assert "3 h" in picture.legend


def test_in_a_gantt_chart_a_day_has_eight_hours_and_a_step_follows_those_it_waits_for() -> None:
    hours = (6, 4, 0, 10)
    plan = plan_of((), (1,), (1,), (2, 3))
    steps = (msgspec.structs.replace(step, hours=h) for step, h in zip(plan.steps, hours, strict=True))
    plan = msgspec.structs.replace(plan, steps=tuple(steps))
    lines = draw_plan("gantt", plan, after(plan), start=1e9).mermaid.splitlines()
    assert [line.partition(":")[2] for line in lines if " :" in line] == [
        "crit, n1, 2001-09-09, 18h",
        "crit, n2, after n1, 12h",
        "n3, after n1, 0.75h",
        "crit, n4, after n2 n3, 30h",
    ]


# -- large plans -------------------------------------------------------------------------------------------------------


def test_of_a_huge_plan_the_last_steps_are_taken_together_too() -> None:
    plan = plan_of(*[()] * 1000)
    for kind in KINDS:
        picture = draw_plan(kind, plan, after(plan, 1, 2))
        assert f"{1000 - NODES_MAX + 1} later steps" in picture.mermaid
        assert len(re.findall(r"^  (?:n\d+|allDone|later)\[|:.*h$", picture.mermaid, re.MULTILINE)) == NODES_MAX


def test_arrows_beyond_what_is_drawn_are_counted() -> None:
    plan = plan_of(*(tuple(range(1, n)) for n in range(1, 41)))
    picture = draw_plan("dependencies", plan, after(plan))
    assert picture.mermaid.count("-->") == EDGES_MAX
    assert f"{40 * 39 // 2 - EDGES_MAX} arrows are not shown" in picture.legend
