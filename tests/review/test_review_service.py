"""Reviews of real repositories: what git says has changed, what a handed-in diff means, what is told of it and what was looked at."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.errors import InvalidArgument, PreconditionFailed
from context_engine.repo.git_diffs import DiffRequest
from context_engine.review.finding import ReviewOptions
from context_engine.review.verdict import ReviewResult
from tests.support.changes import diff_text
from tests.support.engines import open_engine
from tests.support.trees import commit, git, repository, tree

FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": "def total(items, tax=0):\n    return sum(items) + tax\n\n\ndef keep():\n    return 1\n",
    "shop/cart.py": "from shop.prices import total\n\nbill = total([1])\n",
    "src/cart.ts": "export function add(a: number): number {\n  return a;\n}\n",
}
MUTABLE = "def add(item, basket=[]):\n    basket.append(item)\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return repository(tmp_path / "work", FILES)


@pytest.fixture
def engine(here: Path) -> Generator[Engine]:
    with open_engine(here) as opened:
        yield opened


def told(reviewed: ReviewResult) -> list[tuple[str, str, int]]:
    return [(each.rule, each.path, each.span.first) for each in reviewed.findings]


def of_git(engine: Engine, target: str = "staged", **options: object) -> ReviewResult:
    return engine.reviews.review_git(DiffRequest(target), ReviewOptions(**options))[1]  # ty: ignore[invalid-argument-type]


def of_diff(engine: Engine, diff: str, **read: Any) -> ReviewResult:
    return engine.reviews.review(engine.reviews.read_diff(diff, **read), ReviewOptions())


def test_what_is_staged_is_reviewed_as_it_is_staged(here: Path, engine: Engine) -> None:
    tree(here, {"shop/cart.py": FILES["shop/cart.py"] + MUTABLE})
    git(here, "add", "-A")
    tree(here, {"shop/cart.py": FILES["shop/cart.py"], "shop/later.py": MUTABLE})
    assert told(of_git(engine)) == [("mutable-default", "shop/cart.py", 4)]
    assert of_git(engine, "unstaged").findings == ()


def test_a_commit_is_reviewed_against_its_parent_with_the_tree_it_had(here: Path, engine: Engine) -> None:
    commit(here, "change", {"shop/prices.py": "def keep():\n    return 1\n"})
    broken = git(here, "rev-parse", "HEAD")
    commit(here, "change", {"shop/cart.py": "", "shop/prices.py": FILES["shop/prices.py"]})
    assert told(of_git(engine, broken)) == [("broken-use", "shop/prices.py", 1)]
    assert of_git(engine, "HEAD").findings == ()


def test_every_file_is_reviewed_or_skipped_with_its_reason(here: Path, engine: Engine) -> None:
    (here / "logo.png").write_bytes(b"\x89PNG\0\0")
    tree(here, {"shop/new.py": MUTABLE, "docs/a.md": "# A\n"})
    (here / "shop/cart.py").unlink()
    git(here, "add", "-A")
    reviewed = of_git(engine, exclude_patterns=("docs/**",))
    assert [(each.path, each.skipped) for each in reviewed.coverage.files] == [
        ("docs/a.md", "excluded by a pattern"),
        ("logo.png", "binary"),
        ("shop/cart.py", "deleted"),
        ("shop/new.py", ""),
    ]
    assert reviewed.coverage.files_reviewed == 1


def test_when_the_time_is_over_the_rest_is_named_and_the_review_is_partial(here: Path, engine: Engine) -> None:
    tree(here, {"shop/new.py": MUTABLE})
    git(here, "add", "-A")
    reviewed = of_git(engine, time_budget_s=0.0, fail_on="P1")
    assert (reviewed.is_partial, reviewed.should_fail) == (True, True)
    assert [each.reason for each in reviewed.coverage.files_skipped] == ["no time was left"]


def test_patterns_that_leave_nothing_are_told_apart_from_an_empty_stage(here: Path, engine: Engine) -> None:
    with pytest.raises(PreconditionFailed, match="nothing is staged"):
        of_git(engine)
    tree(here, {"shop/new.py": MUTABLE})
    git(here, "add", "-A")
    with pytest.raises(PreconditionFailed, match="the patterns leave none") as refused:
        engine.reviews.read_git_change(DiffRequest("staged"), include_patterns=["*.go"])
    assert refused.value.details["reason"] == "filtered out"


# -- a diff that somebody hands in --


def test_a_diff_of_the_work_tree_is_reviewed_with_the_whole_files(here: Path, engine: Engine) -> None:
    changed = FILES["shop/prices.py"].replace("tax=0", "rate, tax")
    tree(here, {"shop/prices.py": changed})
    reviewed = of_diff(engine, diff_text("shop/prices.py", FILES["shop/prices.py"], changed))
    assert told(reviewed) == [("broken-use", "shop/prices.py", 1)]
    assert reviewed.coverage.files_partly == ()


def test_a_diff_that_is_not_applied_yet_is_reviewed_as_if_it_were(engine: Engine) -> None:
    after = FILES["shop/cart.py"] + MUTABLE
    reviewed = of_diff(engine, diff_text("shop/cart.py", FILES["shop/cart.py"], after))
    assert told(reviewed) == [("mutable-default", "shop/cart.py", 4)]


def test_a_diff_against_a_base_is_reviewed_with_the_files_of_the_base(here: Path, engine: Engine) -> None:
    after = FILES["shop/cart.py"] + MUTABLE
    diff = diff_text("shop/cart.py", FILES["shop/cart.py"], after)
    commit(here, "change", {"shop/cart.py": "entirely = 'other'\n"})
    assert of_diff(engine, diff).coverage.files_partly
    assert told(of_diff(engine, diff, base_ref="HEAD~1")) == [("mutable-default", "shop/cart.py", 4)]
    with pytest.raises(InvalidArgument):
        of_diff(engine, diff, base_ref="no-such-branch")


def test_contents_that_come_with_a_diff_are_taken_when_they_fit(engine: Engine) -> None:
    diff = diff_text("other/a.py", "x = 1\n", "x = 1\n" + MUTABLE)
    contexts = {"other/a.py": "x = 1\n" + MUTABLE}
    assert told(of_diff(engine, diff, contexts=contexts)) == [("mutable-default", "other/a.py", 2)]
    wrong = of_diff(engine, diff, contexts={"other/a.py": "something else\n"})
    assert (wrong.findings, len(wrong.coverage.files_partly)) == ((), 1)


def test_of_hunks_alone_is_said_what_can_be_said(engine: Engine) -> None:
    diff = (
        "--- a/other/a.py\n+++ b/other/a.py\n@@ -10,2 +10,5 @@\n x = 1\n+<<<<<<< HEAD\n+=======\n+>>>>>>> b\n y = 2\n"
    )
    reviewed = of_diff(engine, diff)
    assert [line for _, _, line in told(reviewed)] == [11, 12, 13]
    assert "only the hunks are known" in reviewed.coverage.files_partly[0].reason


def test_a_diff_of_paths_that_lead_out_reads_nothing_there(here: Path, engine: Engine) -> None:
    (here.parent / "outside.py").write_text("x = 1\n", encoding="utf-8")
    reviewed = of_diff(engine, "--- a/../outside.py\n+++ b/../outside.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n")
    assert [each.rule for each in reviewed.findings] == ["path-escape"]
    assert reviewed.coverage.files_partly


# -- the rules of a team --


def test_the_rules_of_the_workspace_hold_and_a_wrong_one_is_named(here: Path, engine: Engine) -> None:
    rules = "invariants:\n  - {id: NO-PRINT, deny: 'print\\('}\n  - {id: BAD, deny: '('}\n"
    tree(here, {".review-invariants.yml": rules, "shop/cart.py": FILES["shop/cart.py"] + "print(1)\n"})
    reviewed = of_git(engine, "head")
    assert told(reviewed) == [("NO-PRINT", "shop/cart.py", 4)]
    assert any("BAD" in each for each in reviewed.warnings)
    with pytest.raises(InvalidArgument, match=r"no invariants file 'other\.yml'"):
        of_git(engine, "head", invariants_path="other.yml")
