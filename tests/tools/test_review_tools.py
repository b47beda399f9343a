"""The tools that review: what they take, what they answer, what they refuse, and how a second look comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.errors import (
    CallError,
    DiffCombinedUnsupported,
    DiffInvalid,
    DiffTruncated,
    InvalidArgument,
    PreconditionFailed,
    RefNotFound,
    ReviewNotFound,
    TooLarge,
)
from context_engine.tools.review_tools import review_changes, review_git_diff
from context_engine.tools.tool import Call, Tool
from tests.support.changes import diff_text
from tests.support.engines import open_engine
from tests.support.trees import commit, git, repository, tree

SOUND = "def add(item, basket):\n    basket.append(item)\n"
FAULTY = "def add(item, basket=[]):\n    basket.append(item)\n"
DIFF = diff_text("shop/cart.py", SOUND, FAULTY)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return repository(tmp_path / "work", {"shop/cart.py": SOUND, "shop/é ü.py": "x = 1\n"})


@pytest.fixture
def engine(here: Path) -> Generator[Engine]:
    with open_engine(here) as opened:
        yield opened


def call(engine: Engine, tool: Tool, **arguments: Any) -> dict[str, Any]:
    return json.loads(tool.call(engine, arguments, Call()).text)


def test_a_diff_is_answered_with_findings_verdict_and_coverage(engine: Engine) -> None:
    told = call(engine, review_changes, diff=DIFF, assist="off")
    (finding,) = told["findings"]
    assert finding.keys() == {
        *("id", "rule", "source", "title", "body", "priority", "category", "confidence_score", "code_location"),
        *("quote", "is_on_changed_line", "is_new", "evidence", "suggestion", "related"),
    }
    assert (finding["rule"], finding["priority"], finding["category"]) == ("mutable-default", 1, "correctness")
    assert finding["code_location"] == {"file_path": "shop/cart.py", "line_range": {"start": 1, "end": 1}}
    said = (told["ok"], told["verdict"], told["overall_correctness"])
    assert said == (True, "blocking_findings", "patch is incorrect")
    assert told["coverage"]["files_reviewed"] == 1
    assert {each["name"] for each in told["coverage"]["analyzers"]} >= {"ruff"}
    assert (told["should_fail"], "warnings" in told, "next" in told) == (False, False, False)
    assert (told["meta"]["tool"], told["meta"]["assist_used"]) == ("review_changes", "none")


def test_a_review_that_found_nothing_is_four_lines_and_the_rest_is_told_on_request(here: Path, engine: Engine) -> None:
    tree(here, {"shop/cart.py": SOUND + "\n\ndef first(basket):\n    return basket[0]\n"})
    text = review_git_diff.call(engine, {"target": "unstaged"}, Call(reader="agent")).text
    verdict, risk, idle, last = text.split("\n")
    assert verdict == "The checks found nothing; 1 file reviewed. They rarely catch logic errors."
    assert (risk[:5], idle[:13]) == ("risk ", "did not run: ")
    (review_id,) = re.findall("rev_[0-9a-f-]+", last)
    whole = call(engine, review_changes, review_id=review_id)
    assert (whole["coverage"]["files_reviewed"], "brief" in whole["next"]) == (1, True)


def test_what_was_not_looked_at_is_told_without_being_asked_for(here: Path, engine: Engine) -> None:
    (here / "picture.bin").write_bytes(b"\0\1")
    arguments = {"target": "unstaged", "include_untracked": True}
    assert "not looked at: picture.bin (binary)" in review_git_diff.call(engine, arguments, Call(reader="agent")).text


def test_options_narrow_what_is_told_and_count_the_rest(engine: Engine) -> None:
    def filtered(**options: Any) -> dict[str, int]:
        told = call(engine, review_changes, diff=DIFF, assist="off", **options)
        assert told["findings"] == []
        return {name: count for name, count in told["findings_filtered"].items() if count}

    (finding,) = call(engine, review_changes, diff=DIFF, assist="off")["findings"]
    assert filtered(categories="security") == {"category": 1}
    assert filtered(confidenceThreshold="0.99") == {"below_confidence": 1}
    assert filtered(allow_ids=[finding["id"]]) == {"allow_listed": 1}
    assert filtered(exclude_patterns=["shop/"]) == {}


@pytest.mark.parametrize("shape", ["markdown", "sarif", "rdjson"])
def test_a_review_is_rendered_for_people_and_for_other_programs(engine: Engine, shape: str) -> None:
    text = review_changes.call(engine, {"diff": DIFF, "format": shape}, Call()).text
    assert "mutable-default" in text or "Mutable default" in text
    assert (shape == "markdown") is not text.startswith("{")


MERGE = "diff --cc a.py\nindex 1,2..3\n--- a/a.py\n+++ b/a.py\n@@@ -1,1 -1,1 +1,2 @@@\n  x\n++y\n"
CUT = "--- a/a.py\n+++ b/a.py\n@@ -1,5 +1,5 @@\n x\n-y\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"diff": "garbage"}, DiffInvalid),
        ({"diff": MERGE}, DiffCombinedUnsupported),
        ({"diff": CUT}, DiffTruncated),
        ({"diff": DIFF + "\n" * 2_000_001}, TooLarge),
        ({"diff": " "}, InvalidArgument),
        ({}, InvalidArgument),
        ({"diff": DIFF, "fail_on": "P9"}, InvalidArgument),
        ({"diff": DIFF, "base_ref": "--output=x"}, InvalidArgument),
        ({"diff": DIFF, "file_contexts": {"a": 1}}, InvalidArgument),
        ({"diff": DIFF, "invariants_path": "no.yml"}, InvalidArgument),
        ({"findings": {"findings": []}}, InvalidArgument),
        ({"diff": DIFF, "review_id": "rev_no"}, ReviewNotFound),
        ({"findings": {"findings": []}, "review_id": "rev_no"}, ReviewNotFound),
    ],
)
def test_what_cannot_be_reviewed_is_an_error_that_names_the_next_step(
    engine: Engine, arguments: dict[str, Any], error: type[CallError]
) -> None:
    with pytest.raises(error) as refused:
        review_changes.call(engine, arguments, Call())
    assert refused.value.suggestion


# -- git --


def test_git_says_what_is_reviewed_and_how_it_was_asked(here: Path, engine: Engine) -> None:
    git(here, "mv", "shop/é ü.py", "shop/renamed ü.py")
    tree(here, {"shop/cart.py": FAULTY})
    git(here, "add", "-A")
    told = call(engine, review_git_diff, assist="off")
    about = told["git_info"]
    assert (about["target"], about["files_changed"], about["stats"]) == ("staged", 2, {"added": 1, "removed": 1})
    assert about["renames"] == [{"from": "shop/é ü.py", "to": "shop/renamed ü.py"}]
    assert about["command"].startswith("git diff")
    assert [each["rule"] for each in told["review"]["findings"]] == ["mutable-default"]


def test_a_branch_is_reviewed_from_where_it_left_the_default_branch(here: Path, engine: Engine) -> None:
    git(here, "checkout", "-q", "-b", "topic")
    commit(here, "change", {"shop/cart.py": FAULTY})
    git(here, "checkout", "-q", "main")
    commit(here, "change", {"shop/other.py": "def f(x=[]):\n    x.append(1)\n"})
    told = call(engine, review_git_diff, target="main...topic", assist="off", options={"fail_on": "P1"})
    assert [each["rule"] for each in told["review"]["findings"]] == ["mutable-default"]
    assert told["review"]["should_fail"]
    assert len(told["git_info"]["merge_base"]) == 40


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, PreconditionFailed),
        ({"target": "mian"}, RefNotFound),
        ({"target": "--output=x"}, CallError),
        ({"target": "HEAD", "options": {"fial_on": "P1"}}, InvalidArgument),
        ({"target": "HEAD", "include_patterns": ["*.go"]}, PreconditionFailed),
    ],
)
def test_what_git_cannot_give_is_an_error_that_names_the_next_step(
    engine: Engine, arguments: dict[str, Any], error: type[CallError]
) -> None:
    with pytest.raises(error) as refused:
        review_git_diff.call(engine, arguments, Call())
    assert refused.value.suggestion


# -- the second look --

LOGIC = {
    "file_path": "shop/cart.py", "start_line": 1, "end_line": 1, "quote": "def add(item, basket=[]):", "title": "Basket may be None",
    "body": "Callers pass None.", "priority": 1, "category": "correctness", "confidence_score": 0.99, "suggestion": "",
}  # fmt: skip


def test_the_caller_is_offered_a_second_look_and_hands_it_in_to_the_same_tool(engine: Engine) -> None:
    first = call(engine, review_changes, diff=DIFF)
    whole = call(engine, review_changes, review_id=first["review_id"])
    offered = whole["next"]
    assert [each["id"] for each in whole["findings"]] == [each["id"] for each in first["findings"]]
    assert isinstance(first["next"], str)
    assert whole["summary"].keys() >= {"risk", "hotspots"}
    assert (offered["tool"], offered["arguments_template"]["review_id"]) == ("review_changes", first["review_id"])
    assert "shop/cart.py" in offered["brief"]
    sent = {"findings": {"findings": [LOGIC]}, "review_id": first["review_id"]}
    second = call(engine, review_changes, **sent, submission_id=offered["arguments_template"]["submission_id"])
    assert {each["source"] for each in second["findings"]} == {"builtin", "host"}
    assert max(each["confidence_score"] for each in second["findings"] if each["source"] == "host") <= 0.85
    assert (second["second_pass"], second["meta"]["assist_used"]) == (True, "host")
    again = call(engine, review_changes, **sent, submission_id=offered["arguments_template"]["submission_id"])
    assert again["findings"] == second["findings"]


def test_a_workspace_that_nobody_may_write_to_is_reviewed_all_the_same(here: Path) -> None:
    (here / ".context-engine").write_text("a file where a folder belongs", encoding="utf-8")
    with open_engine(here) as engine:
        told = call(engine, review_changes, diff=DIFF)
    assert [each["rule"] for each in told["findings"]] == ["mutable-default"]
    assert "no second pass" in told["warnings"][0]
    assert "next" not in told


def test_a_review_is_as_safe_as_reading() -> None:
    assert review_changes.hints.read_only
    assert review_git_diff.hints.read_only
