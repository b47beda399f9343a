"""`ctx review` at the terminal and in CI: readable findings, exit codes that say what happened, and the formats of others."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from context_engine.cli.command_runner import FINDINGS
from tests.support.terminal import Run, runner, sit_down
from tests.support.trees import commit, git, repository, tree

GOOD = "def load(path):\n    with open(path) as file:\n        return file.read()\n"
BAD = GOOD + "\n\ndef safe(path):\n    try:\n        return load(path)\n    except:\n        return None\n"
WORSE = GOOD + "<<<<<<< ours\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n"
QUIET = ("--analyzer", "none")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit and a change that nobody has staged."""
    root = repository(tmp_path / "w", {"src/a.py": GOOD, "pyproject.toml": '[project]\nname = "w"\n'})
    return sit_down(tree(root, {"src/a.py": BAD}), monkeypatch)


@pytest.fixture
def review(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return runner(monkeypatch, capsys, "review", *QUIET)


def test_findings_are_on_stdout_and_everything_about_the_review_on_stderr(root: Path, review: Run) -> None:
    code, out, err = review()
    assert code == 0
    assert out.splitlines()[:2] == ["P2 src/a.py:9  Bare except", "       9 │ except:"]
    assert "builtin bare-except · correctness" in out
    assert "1 file reviewed" in err
    assert "risk " in err


@pytest.mark.parametrize(
    ("content", "fail_on", "code"),
    [
        (BAD, "none", 0),
        (BAD, "P1", 0),
        (BAD, "P2", FINDINGS),
        (BAD, "p2", FINDINGS),
        (WORSE, "P0", FINDINGS),
        (WORSE, "none", 0),
    ],
)
def test_the_exit_code_says_whether_the_named_priority_was_found(
    root: Path, review: Run, content: str, fail_on: str, code: int
) -> None:
    tree(root, {"src/a.py": content})
    assert review("--fail-on", fail_on)[0] == code


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no-such-branch"], "no-such-branch"),
        (["--staged", "--base", "main"], "--staged"),
        (["--confidence", "0.5", "--analyzer", "x" * 3_000], "analyzers"),
    ],
)
def test_a_review_that_is_not_possible_is_an_error_and_no_empty_success(
    root: Path, review: Run, words: list[str], said: str
) -> None:
    code, out, err = review(*words)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("words", [["--staged"], ["topic"], ["HEAD"], ["--base", "main"], ["main..topic"], []])
def test_each_way_to_name_a_change_finds_it(root: Path, review: Run, words: list[str]) -> None:
    git(root, "checkout", "--quiet", "-b", "topic")
    if words == ["--staged"]:
        git(root, "add", "--all")
    elif words:
        commit(root, "change")
    code, out, _ = review(*words, "--fail-on", "P2")
    assert code == FINDINGS
    assert "src/a.py:9" in out


def test_every_format_is_printed_whole_and_sarif_lands_in_its_file(root: Path, review: Run) -> None:
    assert review("--format", "markdown")[1].startswith("# Review: Needs attention\n")
    for name, key in (("json", "findings"), ("sarif", "runs"), ("rdjson", "diagnostics")):
        code, out, _ = review("--format", name, "--sarif", root / f"{name}.sarif")
        assert code == 0
        assert json.loads(out)[key]
        (run,) = json.loads((root / f"{name}.sarif").read_text())["runs"]
        assert [each["ruleId"] for each in run["results"]] == ["bare-except"]


def test_excluded_files_and_doubtful_findings_are_told_of(root: Path, review: Run) -> None:
    assert "not looked at: src/a.py (excluded by a pattern)" in review("--exclude", "src/**")[2]
    code, out, err = review("--confidence", "0.99")
    assert (code, out, "1 below confidence" in err) == (0, "", True)
    code, _, err = review("--staged")
    assert (code, "nothing to review: " in err) == (0, True)


def test_the_hook_for_pre_commit_is_a_command_that_works(root: Path, review: Run) -> None:
    (hook,) = yaml.safe_load((Path(__file__).resolve().parents[2] / ".pre-commit-hooks.yaml").read_text())
    command = shlex.split(hook["entry"])
    assert command[:2] == ["ctx", "review"]
    tree(root, {"src/a.py": WORSE})
    git(root, "add", "--all")
    code, out, _ = review(*command[2:])
    assert code == FINDINGS
    assert out
