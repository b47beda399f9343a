"""The evaluation of localization: it asks nothing of the future, and its figures are what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from evals.localisation import replay, score
from tests.support.trees import commit, git, repository, tree


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five commits: the parser is made, twice changed with its test, renamed, and changed under its new name."""
    folder = tmp_path_factory.mktemp("mirrors")
    root = repository(folder / "work", {"parser.py": "def parse_dates(): return 0\n", "logo.py": "colour = 1\n"})
    for number in (1, 2):
        files = {"parser.py": f"def parse_dates(): return {number}\n", "test_parser.py": f"assert {number}\n"}
        commit(tree(root, files), f"Parse dates of the {number}. kind")
    git(root, "mv", "parser.py", "reader.py")
    commit(root, "Call the parser of dates a reader")
    files = {"reader.py": "def parse_dates(): return 3\n", "test_parser.py": "assert 3\n", "later.py": "x = 1\n"}
    commit(tree(root, files), "Read dates of the third kind")
    git(folder, "clone", "--quiet", "--bare", str(root), "own+dates")
    return folder / "own+dates"


@pytest.mark.parametrize("module", [replay, score])
def test_examples_hold(module) -> None:
    assert doctest.testmod(module).failed == 0


def test_a_question_is_asked_of_the_tree_and_the_history_before_its_commit(mirror: Path, tmp_path: Path) -> None:
    seen = []
    for question in replay.questions(mirror, tmp_path, 9):
        snapshot = question.searcher.snapshot
        seen.append((question.commit.subject, set(question.files), set(snapshot.by_path), len(question.history)))
    everything = {"parser.py", "logo.py", "test_parser.py"}
    assert seen == [
        ("Parse dates of the 1. kind", {"parser.py"}, {"parser.py", "logo.py"}, 1),
        ("Parse dates of the 2. kind", {"parser.py", "test_parser.py"}, everything, 2),
        ("Call the parser of dates a reader", {"parser.py"}, everything, 3),
        (
            "Read dates of the third kind",
            {"reader.py", "test_parser.py"},
            {"reader.py", "logo.py", "test_parser.py"},
            4,
        ),
    ]


def test_every_system_is_asked_and_counted(mirror: Path) -> None:
    ((name, place),) = score.mirrors(mirror.parent, "dates")
    assert (name, place) == ("dates", mirror)
    rows = score.asked(name, place, 2)
    assert [list(row["answers"]) for row in rows] == [list(score.SYSTEMS)] * 2
    assert all(row["answers"]["localised"][0] in {"parser.py", "reader.py"} for row in rows)
    assert all(len(answer) <= score.K for row in rows for answer in row["answers"].values())
