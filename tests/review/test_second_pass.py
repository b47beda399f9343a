"""The second look: only what stands in the change counts, doubles are one, and the same draft twice changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.llm_endpoint import is_strict
from context_engine.model import Finding
from context_engine.review.finding import ReviewOptions
from context_engine.review.review_store import ReviewStore
from context_engine.review.second_pass import (
    CONFIDENCE_MAX,
    SCHEMA,
    PendingReview,
    PendingReviews,
    check_draft,
    explain_rejections,
    is_same_finding,
    join_findings,
    make_pending,
    merge_draft_into,
    review_brief,
)
from context_engine.review.source_versions import Parsers, ReviewedFile
from context_engine.review.verdict import (
    ChangeSummary,
    Coverage,
    FileCoverage,
    ReviewResult,
    make_result,
)
from context_engine.secrets import redact
from context_engine.text import estimate_tokens
from context_engine.text.diff_reader import parse_diff
from context_engine.text.lines import LineSpan
from tests.support.engines import GRAMMARS, LANGUAGES

KEY = "ghp_" + "a1B2c3D4e5F6" * 3
DIFF = f"""\
diff --git a/src/pay.py b/src/pay.py
--- a/src/pay.py
+++ b/src/pay.py
@@ -10,4 +10,6 @@ def charge(card):
     amount = total(card)
-    return send(card, amount)
+    token = "{KEY}"
+    for try_number in range(3):
+        send(card, amount)
     log(card)
     done(card)
diff --git a/tests/test_pay.py b/tests/test_pay.py
--- a/tests/test_pay.py
+++ b/tests/test_pay.py
@@ -1 +1,2 @@
 import pay
+assert pay
diff --git a/old.py b/old.py
deleted file mode 100644
--- a/old.py
+++ /dev/null
@@ -1 +0,0 @@
-gone = 1
"""
PARSERS = Parsers(LANGUAGES, GRAMMARS)
NEW = {
    "src/pay.py": "\n"
    * 8
    + f"def charge(card):\n    amount = total(card)\n    token = '{KEY}'\n    for try_number in range(3):\n"
    "        send(card, amount)\n    log(card)\n    done(card)\n",
    "tests/test_pay.py": "import pay\nassert pay\n",
}
FILES = parse_diff(DIFF)
CHANGED = [
    ReviewedFile.of(each, b"", NEW[each.new_path].encode() if each.new_path else None, PARSERS) for each in FILES
]
CHECKED = Finding(
    "retry-sends-twice", "builtin", "The card is charged again", "Each try sends the charge again, paid or not.", 1,
    "correctness", 0.75, "src/pay.py", LineSpan(12, 13), "for try_number in range(3):", "id-1", is_on_changed_line=True,
)  # fmt: skip


def row(**other: Any) -> dict[str, Any]:
    made = {
        "file_path": "src/pay.py",
        "start_line": 13,
        "end_line": 13,
        "quote": "send(card, amount)",
        "title": "Nobody looks at what send returns",
        "body": "A refused card counts as paid.",
        "priority": 1,
        "category": "correctness",
        "confidence_score": 0.97,
        "suggestion": "Raise when it is refused.",
    }
    return made | other


def draft(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"findings": list(rows)}


def reviewed(*findings: Finding, **options: Any) -> ReviewResult:
    coverage = Coverage(
        (FileCoverage("src/pay.py"), FileCoverage("tests/test_pay.py"), FileCoverage("old.py", "deleted"))
    )
    return make_result(findings, ReviewOptions(**options), coverage, ChangeSummary())


def kept(*findings: Finding, **options: Any) -> PendingReview:
    said = reviewed(*findings, **options)
    return make_pending(
        said, ReviewOptions(**options), CHANGED, lambda text: redact(text).text, ["Money is counted in cents."]
    )


@pytest.fixture
def seconds(tmp_path: Path) -> PendingReviews:
    return PendingReviews(ReviewStore(tmp_path / ".context-engine"), lambda: 1_795_262_400.0)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"start_line": 2, "end_line": 2}, "not in the diff"),
        ({"start_line": 13, "end_line": 99}, "not in the diff"),
        ({"start_line": 14, "end_line": 13}, "is not a range of lines"),
        ({"quote": "send(card, amount + 1)"}, "quoted code"),
        ({"quote": "return send(card, amount)"}, "quoted code"),
        ({"file_path": "src/other.py"}, "there is no"),
        ({"file_path": "../src/pay.py"}, "not a path inside"),
        ({"file_path": "old.py", "start_line": 1, "end_line": 1, "quote": "gone = 1"}, "there is no"),
    ],
)
def test_a_finding_about_what_is_not_in_the_change_is_set_aside_with_its_reason(
    wrong: dict[str, Any], why: str
) -> None:
    again = merge_draft_into(kept(CHECKED), draft(row(**wrong), row()), source="host")
    assert [(each.place, why in each.reason) for each in again.rejected] == [("findings[0]", True)]
    assert len(again.result.findings) == 2
    assert why in explain_rejections(kept(), draft(row(**wrong)))


def test_a_draft_of_which_nothing_stands_is_no_second_look() -> None:
    before = kept()
    again = merge_draft_into(before, draft(row(start_line=2, end_line=2)), source="host")
    assert again.pending == before
    assert again.result.overall_correctness == "needs attention"
    assert len(again.rejected) == 1


def test_what_a_check_says_as_well_is_one_finding_and_surer() -> None:
    double = row(start_line=12, end_line=12, quote="for try_number in range(3):", confidence_score=0.95,
                 title="The card is charged again", body="Each try sends the charge again, whether paid or not.")  # fmt: skip
    (found,) = merge_draft_into(kept(CHECKED), draft(double), source="host").result.findings
    assert (found.id, found.source, found.confidence) == ("id-1", "builtin", 0.95)
    assert "the second pass (host) reports it, too" in found.evidence[-1]


def test_findings_that_are_not_told_stay_counted() -> None:
    quiet = replace(CHECKED, id="id-2", rule="other", confidence=0.3)
    first = kept(CHECKED, quiet)
    assert first.result.suppressed == "1 below confidence"
    unsure = row(confidence_score=0.5)
    assert merge_draft_into(first, draft(unsure), source="host").result.suppressed == "2 below confidence"


def test_nothing_secret_is_kept_or_shown(seconds: PendingReviews) -> None:
    review_id = seconds.keep(kept(CHECKED))
    shown = seconds.offer("review_changes", review_id).next()
    assert KEY not in msgspec.json.encode(seconds.load(review_id)).decode() + json.dumps(shown)
    assert (shown["arguments_template"]["review_id"], shown["tool"]) == (review_id, "review_changes")
    lines = [line.text for file in kept().files for hunk in file.hunks for line in hunk.lines]
    assert len(lines) == sum(len(hunk.lines) for file in FILES for hunk in file.hunks)


def test_a_draft_may_be_a_list_or_json_in_a_text() -> None:
    for form in (
        draft(row()),
        [row()],
        json.dumps(draft(row())),
        json.dumps([row()]),
        f"```json\n{json.dumps([row()])}\n```",
    ):
        assert len(merge_draft_into(kept(), form, source="host").result.findings) == 1


def test_endpoints_can_hold_a_model_to_the_schema() -> None:
    assert is_strict(SCHEMA)


# -- the brief --------------------------------------------------------------------------------------------------------


def test_the_brief_shows_numbered_hunks_with_their_symbols_the_findings_and_the_rules(seconds: PendingReviews) -> None:
    text = seconds.offer("review_changes", seconds.keep(kept(CHECKED, custom_instructions="Mind the retries."))).brief
    assert "[1] src/pay.py:10-15 in charge" in text
    assert "+   12     for try_number in range(3):" in text
    assert "-          return send(card, amount)" in text
    assert "P1 src/pay.py:12-13 retry-sends-twice" in text
    assert "Money is counted in cents." in text
    assert "Mind the retries." in text
    assert text.index("src/pay.py:10-15") < text.index("tests/test_pay.py"), "code is shown before tests"
    assert KEY not in text


def test_a_brief_is_never_too_long_and_says_what_it_left_out() -> None:
    lines = [f"line number {number} of a long file" for number in range(5_000)]
    body = "".join(f"+{line}\n" for line in lines)
    (file,) = parse_diff(f"--- /dev/null\n+++ b/x.py\n@@ -0,0 +1,5000 @@\n{body}")
    long = ReviewedFile.of(file, None, "\n".join(lines).encode(), PARSERS)
    pending = make_pending(reviewed(), ReviewOptions(), [long], lambda text: text, ["rule"] * 50)
    text = review_brief(replace(pending, result=replace(pending.result, findings=(CHECKED,) * 50)))
    assert estimate_tokens(text) <= 2_000
    assert "[1] x.py:1-40" in text
    assert " more" in text
    across = row(file_path="x.py", start_line=39, end_line=42, quote=lines[38])
    assert not check_draft(draft(across), pending.files).rejected, "a finding may reach over two pieces"


# -- laws -------------------------------------------------------------------------------------------------------------

words = st.lists(st.sampled_from(["card", "twice", "sent", "never", "closed"]), min_size=1, max_size=4).map(" ".join)
findings = st.builds(
    lambda title, first, source, sure: Finding(
        "rule", source, title, "", 2, "correctness", sure, "a.py", LineSpan(first, first), "", f"{title}{first}{source}"
    ),
    words, st.integers(1, 3), st.sampled_from(["host", "model"]), st.floats(0, 1),
)  # fmt: skip


@given(st.lists(findings, max_size=4), st.lists(findings, max_size=4))
def test_joining_again_changes_nothing_and_nobody_is_surer_than_allowed(
    checks: list[Finding], second: list[Finding]
) -> None:
    checked = [replace(each, source="builtin", id=f"check {number}") for number, each in enumerate(checks)]
    once = join_findings(checked, second)
    assert join_findings(once, second) == once
    assert len(once) <= len(checked) + len(second)
    assert [each.id for each in once[: len(checked)]] == [each.id for each in checked]
    assert all(each.confidence <= CONFIDENCE_MAX for each in once[len(checked) :])
    assert all(any(is_same_finding(known, each) for known in once) for each in second)


def test_what_stands_is_anchored_in_a_line_that_is_quoted() -> None:
    quoted = draft(row(quote="  log(card)\n    done(card)", start_line=14, end_line=15))
    found = merge_draft_into(kept(changed_lines_only=False), quoted, source="model").result.findings
    assert [(each.span, each.quote, each.is_on_changed_line) for each in found] == [
        (LineSpan(14, 15), "log(card)", False)
    ]
