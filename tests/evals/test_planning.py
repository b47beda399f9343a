"""The evaluation of plans: they are made before the commit that they are held against, and its figures are what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from evals.planning import score
from tests.support.trees import commit, git, repository, tree


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirrors")
    root = repository(folder / "work", {"parser.py": "def parse_dates(): return 0\n", "logo.py": "colour = 1\n"})
    for number in (1, 2):
        files = {"parser.py": f"def parse_dates(): return {number}\n", "test_parser.py": f"assert {number}\n"}
        commit(tree(root, files), f"Parse dates of the {number}. kind")
    git(folder, "clone", "--quiet", "--bare", str(root), "own+dates")
    return folder / "own+dates"


def test_the_example_holds() -> None:
    assert doctest.testmod(score).failed == 0


def test_a_task_is_planned_before_its_commit_and_held_against_it(
    mirror: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = score.planned("dates", mirror, 9, show=True)
    assert [(row["subject"], row["files"]) for row in rows] == [
        ("Parse dates of the 1. kind", ["parser.py"]),
        ("Parse dates of the 2. kind", ["parser.py", "test_parser.py"]),
    ]
    assert [row["plan"][0] for row in rows] == ["parser.py", "parser.py"]
    assert "test_parser.py" not in rows[0]["plan"]  # it came with the commit
    assert "parser.py:1" in capsys.readouterr().out
