"""What is told of findings, in which order, what is left out and counted, and what all of it amounts to."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from context_engine.model import Finding
from context_engine.review.finding import CATEGORIES, ReviewOptions, assign_ids
from context_engine.review.verdict import (
    AnalyzerRun,
    ChangeSummary,
    Coverage,
    FileCoverage,
    make_result,
    merge_duplicates,
    merge_runs,
    select_findings,
    summarize_change,
)
from context_engine.text.lines import LineSpan

FINDING = Finding(
    rule="eval", source="builtin", title="Text run as code", body="It runs.", priority=1, category="security",
    confidence=0.75, path="a.py", span=LineSpan(3, 3), quote="eval(x)", is_on_changed_line=True,
)  # fmt: skip
FINDINGS = st.builds(
    replace,
    st.just(FINDING),
    rule=st.sampled_from(["eval", "S307", "secret"]),
    priority=st.integers(0, 3),
    category=st.sampled_from(CATEGORIES),
    confidence=st.sampled_from([0.5, 0.7, 0.95]),
    path=st.sampled_from(["a.py", "b.py"]),
    span=st.integers(1, 4).map(lambda line: LineSpan(line, line)),
    is_on_changed_line=st.booleans(),
    is_new=st.booleans(),
)
OPTIONS = st.builds(
    ReviewOptions,
    confidence_threshold=st.sampled_from([0.0, 0.7, 1.0]),
    max_findings=st.integers(1, 4),
    changed_lines_only=st.booleans(),
    categories=st.lists(st.sampled_from(CATEGORIES), min_size=1, unique=True).map(tuple),
)


@given(st.lists(FINDINGS, max_size=9), OPTIONS)
def test_every_finding_is_told_or_counted_once(findings: list[Finding], options: ReviewOptions) -> None:
    told, filtered = select_findings(assign_ids(findings), options)
    assert len(told) + sum(filtered.values()) == len(findings)
    assert len(told) <= options.max_findings
    assert list(told) == sorted(told, key=lambda each: each.order)
    for each in told:
        assert each.is_new and each.category in options.categories
        assert each.confidence >= options.confidence_threshold
        assert each.is_on_changed_line or each.priority == 0 or not options.changed_lines_only


@given(st.lists(FINDINGS, max_size=9), st.integers(1, 100))
def test_a_finding_keeps_its_id_while_its_lines_move(findings: list[Finding], lines: int) -> None:
    moved = [replace(each, span=LineSpan(each.span.first + lines, each.span.last + lines)) for each in findings]
    assert [each.id for each in assign_ids(findings)] == [each.id for each in assign_ids(moved)]


@given(st.lists(FINDINGS, max_size=9))
def test_ids_are_all_different(findings: list[Finding]) -> None:
    named = assign_ids(findings)
    assert len({each.id for each in named}) == len(named)


@given(st.lists(FINDINGS, max_size=6), OPTIONS)
def test_the_order_in_which_findings_come_does_not_matter(findings: list[Finding], options: ReviewOptions) -> None:
    backwards = list(reversed(assign_ids(findings)))
    assert select_findings(merge_duplicates(backwards), options) == select_findings(
        merge_duplicates(assign_ids(findings)), options
    )


def test_two_programs_that_say_the_same_of_a_line_are_one_finding() -> None:
    ours, theirs = assign_ids([FINDING, replace(FINDING, rule="S307", source="ruff", confidence=0.7)])
    ours, theirs = (ours, theirs) if ours.rule == "eval" else (theirs, ours)
    (one,) = merge_duplicates([theirs, ours])
    assert (one.rule, one.related) == ("eval", (theirs.id,))


def test_checks_alone_never_say_that_a_patch_is_correct() -> None:
    silent = make_result([], ReviewOptions(), Coverage((FileCoverage("a.py"),)), ChangeSummary())
    assert (silent.verdict, silent.overall_correctness) == ("no_deterministic_findings", "needs attention")
    assert "rarely catch logic errors" in silent.overall_explanation
    looked_again = make_result([], ReviewOptions(), Coverage(), ChangeSummary(), second_pass=True)
    assert looked_again.overall_correctness == "patch is correct"
    cut_off = make_result([], ReviewOptions(), Coverage(), ChangeSummary(), second_pass=True, is_partial=True)
    assert cut_off.overall_correctness == "needs attention"
    assert (
        make_result([FINDING], ReviewOptions(), Coverage(), ChangeSummary(), second_pass=True).overall_correctness
        == "patch is incorrect"
    )


def test_runs_over_parts_of_a_change_come_together_without_losing_a_reason() -> None:
    runs = AnalyzerRun("ruff", True, 20, 1), AnalyzerRun("ruff", False, why_not="took longer than 1 s")
    assert merge_runs(runs) == (AnalyzerRun("ruff", True, 20, 1, "took longer than 1 s"),)


def stats(path: str, added: int, removed: int, is_test: bool, is_code: bool) -> Any:
    return SimpleNamespace(path=path, added=range(added), removed=range(removed), is_test=is_test, is_code=is_code)


def test_risk_is_a_sum_that_says_where_it_comes_from() -> None:
    calm = summarize_change([stats("docs/a.md", 3, 1, is_test=False, is_code=False)])
    assert (calm.classification, calm.risk, calm.factors) == ("docs", 1, ())
    parts = [stats("src/auth/login.py", 300, 200, is_test=False, is_code=True)]
    wild = summarize_change(parts, hot_paths={"src/auth/login.py"})
    assert wild.risk == 5
    assert wild.factors == (
        "500 changed lines", "often changed: src/auth/login.py", "about access", "code changed, no test changed",
    )  # fmt: skip
    tested = summarize_change([*parts, stats("tests/test_login.py", 9, 0, is_test=True, is_code=True)])
    assert tested.factors[-1] == "about access"
