"""The wider tuning set: questions do not contain their answer, trees come before their commits, none of them is held back."""

from __future__ import annotations

import doctest
import json
import subprocess
from pathlib import Path

import pytest

from evals.wide import build, questions
from tests.project.test_training import DEVELOPMENT
from tests.support.engines import GRAMMARS, LANGUAGES

HELD_BACK = (
    "nlohmann/json fmtlib/fmt simdjson/simdjson catchorg/Catch2 yhirose/cpp-httplib SFML/SFML redhat-et/ripwire"
).split()
PYTHON = b'''class Shelf:
    def fill(self, boxes):
        """Puts boxes where there is room.

        Twice if needed.
        """
        return place(boxes)

    def widest(self, boxes):
        return max(boxes)
'''
GO = b"""package shelf

// Fill puts boxes where there is room left.
// Twice if needed.
func Fill(boxes []Box) int {
\treturn place(boxes)
}
"""


def test_the_list_names_at_least_sixty_repositories_in_fifteen_languages_and_none_that_is_held_back() -> None:
    listed = build.listed()
    assert len(listed) >= 60
    assert len(set(listed.values())) >= 15
    assert not set(listed) & {*HELD_BACK, *DEVELOPMENT}


@pytest.mark.parametrize(("path", "data", "lines"), [("a.py", PYTHON, (2, 7)), ("a.go", GO, (5, 7))])
def test_a_doc_question_names_its_function_and_its_file_lost_the_comment_and_no_line(
    path: str, data: bytes, lines: tuple[int, int]
) -> None:
    language = LANGUAGES.detect(path)
    assert language is not None
    (question,) = questions.find_doc_questions(path, data, language, GRAMMARS)
    assert "boxes where there is room" in question.sentence
    assert (question.first, question.last) == lines
    assert b"where there is room" not in question.bare
    assert question.bare.count(b"\n") == data.count(b"\n")
    assert b"place(boxes)" in question.bare


def test_a_tree_is_older_than_every_commit_that_is_asked_of_it(tmp_path: Path) -> None:
    mirror = tmp_path / "mirrors" / "ann+shelf" / "repo"
    mirror.mkdir(parents=True)
    _git(mirror, "init", "--quiet", "-b", "main")
    for number in range(50):
        (mirror / "shelf.py").write_text(f"def fill():\n    return {number}\n")
        (mirror / "README.md").write_text(f"{number}\n")
        _git(mirror, "add", ".")
        _git(mirror, "commit", "--quiet", "-m", f"Fill the shelf with boxes of size {number}")
    found = build.build("ann/shelf", "python", mirror / ".git", tmp_path / "out", LANGUAGES, GRAMMARS)
    asked = [question["query"] for question in found["commit_queries"]]
    assert asked == [f"Fill the shelf with boxes of size {number}" for number in range(10, 25)]
    assert all(question["relevant"] == ["shelf.py"] for question in found["commit_queries"])
    assert (tmp_path / "out/trees/ann+shelf/shelf.py").read_text() == "def fill():\n    return 9\n"
    again = build.build("ann/shelf", "python", tmp_path / "gone", tmp_path / "out", LANGUAGES, GRAMMARS)
    assert json.dumps(again) == json.dumps(found)


def test_the_examples_in_the_pure_part_hold() -> None:
    assert doctest.testmod(questions).failed == 0


def _git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)
