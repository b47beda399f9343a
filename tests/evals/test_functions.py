"""The function-level evaluation: questions never stand in what they ask for, ranks are counted fairly, no package was trained on."""

from __future__ import annotations

import doctest
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from context_engine.embedding.static_embedder import StaticEmbedder
from context_engine.index.embedding_text import ChunkEmbeddingText
from context_engine.search.question import Question
from context_engine.search.rankers import RankingView, compute_signals
from evals.functions import bodies, commits, score, systems
from evals.functions.bodies import Case, Function, Known, case_of
from evals.functions.commits import Lines, removed, touched
from tests.project.test_training import DEVELOPMENT
from tests.support.engines import GRAMMARS, LANGUAGES, indexed
from tests.support.trees import tree
from training import mine, overlap, sources
from training.mine import plain
from training.sources import Package

PYTHON = b'''class Shelf:
    def fill(self, boxes):
        """Puts boxes where there is room. Twice if needed."""
        def widest(box):
            """Finds the widest box of all."""
            return max(box)

        return place(sorted(boxes, key=widest))

    def empty(self):
        """Empties it."""
        self.boxes.clear()


def width(box):
    return box.x
'''
JAVA = b"""class Shelf {
  /** Puts boxes where there is room. */
  void fill(Box... boxes) { place(boxes); }
}
"""


def functions(path: str, data: bytes) -> list[Function]:
    language = LANGUAGES.detect(path)
    assert language is not None
    return bodies.functions_of(path, data, language, GRAMMARS)


# -- questions ----------------------------------------------------------------------------------------------------


def test_every_function_is_a_document_under_the_head_that_the_index_gives_it() -> None:
    assert [each.bare.head for each in functions("shop/shelf.py", PYTHON)] == [
        "shop/shelf.py | Shelf.fill | def fill(self, boxes):",
        "shop/shelf.py | Shelf.fill.widest | def widest(box):",
        "shop/shelf.py | Shelf.empty | def empty(self):",
        "shop/shelf.py | width | def width(box):",
    ]


def test_a_document_holds_the_code_and_no_comment_of_its_own_or_of_functions_inside() -> None:
    fill, *_ = functions("shelf.py", PYTHON)
    assert "return place(sorted(boxes, key=widest))" in fill.bare.body
    assert "return max(box)" in fill.bare.body
    assert '"""' not in fill.bare.body
    assert "Puts boxes" in fill.told.body and "widest box" in fill.told.body


def test_a_comment_in_front_of_a_function_is_only_in_the_told_one() -> None:
    (fill,) = functions("Shelf.java", JAVA)
    assert fill.told.body.startswith("Puts boxes where there is room.\nvoid fill(")
    assert fill.bare.body.startswith("void fill(")


def test_questions_are_first_sentences_of_at_least_four_words() -> None:
    case, left_out = case_of("shop", functions("shelf.py", PYTHON), Known())
    assert case.questions == ["Puts boxes where there is room.", "Finds the widest box of all."]
    assert case.right == [{0}, {1}]
    assert len(case.documents) == 4
    assert left_out == {}


def test_the_same_sentence_about_two_functions_is_one_question_with_two_answers() -> None:
    case, _ = case_of("shop", functions("a.py", PYTHON) + functions("Shelf.java", JAVA), Known())
    assert case.right == [{0, 4}, {1}]


def test_a_sentence_that_still_stands_in_the_code_is_not_asked() -> None:
    echo = b'def fill(boxes):\n    """Puts boxes on the shelf."""\n    log("puts boxes on the shelf")\n'
    case, left_out = case_of("shop", functions("a.py", echo), Known())
    assert case.questions == []
    assert left_out == {"its sentence still stands in the code": 1}


def test_what_the_table_was_trained_on_is_not_asked() -> None:
    found = functions("shelf.py", PYTHON)
    by_sentence = Known(questions={plain("Finds the widest box of all")})
    pairs = mine.mined(Package("pypi", "shop", "1", "MIT"), [("shelf.py", PYTHON)], LANGUAGES, GRAMMARS)
    by_code = Known(codes={mine.sketch(pair.code) for pair in pairs if "widest box" in pair.query})
    for known in (by_sentence, by_code):
        case, left_out = case_of("shop", found, known)
        assert case.questions == ["Puts boxes where there is room."]
        assert left_out == {"training knows it": 1}


# -- systems ------------------------------------------------------------------------------------------------------

small = st.integers(0, 5).map(np.float32)
grids = arrays.arrays(np.float32, (3, 6), elements=small)


def test_words_score_as_the_engine_scores_chunks(tmp_path: Path) -> None:
    root = tree(tmp_path / "shop", {"shelf.py": PYTHON.decode(), "Shelf.java": JAVA.decode(), "a.txt": "boxes\n" * 9})
    with indexed(root) as engine:
        snapshot = engine.index.store.snapshot()
        assert snapshot is not None
        spans = zip(snapshot.chunk_file, snapshot.chunk_column("start"), snapshot.chunk_column("stop"), strict=True)
        texts = [(root / snapshot.paths[file]).read_bytes()[start:stop].decode() for file, start, stop in spans]
        assert len(texts) >= 3
        for question in ("place the boxes where there is room", "Shelf.fill", "widest box", "nothing of it"):
            (scores,) = systems.by_words([question], texts)
            assert np.allclose(
                scores, compute_signals(RankingView(snapshot), Question.of(question), None).chunk, atol=1e-5
            )


@given(grids, st.floats(0.5, 3), st.integers(-4, 4))
def test_spreading_forgets_where_scores_lie_and_how_far_apart(scores: np.ndarray, by: float, to: int) -> None:
    moved = systems.spread(scores * np.float32(by) + np.float32(to))
    assert np.allclose(moved, systems.spread(scores), atol=1e-5)
    assert moved.min() >= 0 and moved.max() <= 1


@given(grids, st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=3, max_size=3))
def test_a_place_is_one_more_than_the_wrong_documents_that_are_no_worse(scores: np.ndarray, right: list) -> None:
    for row, answers, place in zip(scores, right, systems.places(scores, right), strict=True):
        best = max(row[number] for number in answers)
        assert place == 1 + sum(row[number] >= best for number in range(6) if number not in answers)


def test_a_place_below_the_tenth_is_worth_nothing() -> None:
    assert systems.figures(np.array([10, 11])) == systems.Figures(mrr=0.05, hit1=0.0)


# -- commits ------------------------------------------------------------------------------------------------------


def placed(name: str, first: int, last: int) -> Function:
    capsule = ChunkEmbeddingText(name, "")
    return Function("a.py", first, last, "", capsule, capsule)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (Lines("a.py", 3, 1), ["outer"]),
        (Lines("a.py", 6, 1), ["inner"]),
        (Lines("a.py", 2, 9), ["outer", "inner", "next"]),
        (Lines("a.py", 9, 0), []),
        (Lines("a.py", 8, 0), ["outer"]),
        (Lines("a.py", 30, 2), []),
        (Lines("b.py", 3, 1), []),
    ],
    ids=["a line", "a line of the inner one", "many lines", "between two", "at the end inside", "nowhere", "elsewhere"],
)
def test_a_change_touches_the_innermost_function_around_it(change: Lines, names: list[str]) -> None:
    found = touched([placed("outer", 2, 9), placed("inner", 5, 7), placed("next", 10, 12)], [change])
    assert [each.told.head for each in found] == names


def test_a_removed_line_that_looks_like_a_header_is_no_header() -> None:
    diff = "--- a/x.sql\n+++ b/x.sql\n@@ -4,2 +4 @@\n--- a/remark.sql\n-b\n+c\n@@ -8 +7,0 @@\n-d\n"
    assert removed(diff) == [Lines("x.sql", 4, 2), Lines("x.sql", 8, 1)]


def test_a_name_with_blanks_ends_where_it_ends() -> None:
    assert removed("--- a/my file.py\t\n+++ b/my file.py\t\n@@ -1 +1 @@\n-a\n+b\n") == [Lines("my file.py", 1, 1)]


def test_a_commit_is_asked_about_the_functions_it_changed_as_they_were_before(tmp_path: Path) -> None:
    repository, part = tmp_path / "repo", tmp_path / "repo" / "src"
    part.mkdir(parents=True)

    def commit(text: bytes) -> str:
        (part / "shelf.py").write_bytes(text)
        me = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
        for words in (["add", "-A"], [*me, "commit", "-qm", "m"]):
            subprocess.run(["git", *words], cwd=repository, check=True)
        told = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, check=True, capture_output=True, text=True)
        return told.stdout.strip()

    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    commit(PYTHON)
    sha = commit(b"# moved down\n" * 5 + PYTHON.replace(b"return box.x", b"return box.x + box.rim"))
    subprocess.run(["git", "checkout", "-q", "HEAD^"], cwd=repository, check=True)
    asked = [{"query": "Count the rim", "sha": sha}, {"query": "Lost", "sha": "0" * 40}]
    task = {"name": "shop", "root": "src", "commit_queries": asked}
    case = commits.case_of(task, part, repository / ".git", LANGUAGES, GRAMMARS)
    assert case.questions == ["Count the rim"]
    ((answer,),) = case.right
    assert case.documents[answer].head == "shelf.py | width | def width(box):"
    assert "rim" not in case.documents[answer].body


# -- the script ---------------------------------------------------------------------------------------------------


def test_vectors_are_made_once_and_again_when_a_text_changes(tmp_path: Path) -> None:
    static = StaticEmbedder()
    first = score.passages(static, ["open a file"], tmp_path)
    (kept,) = tmp_path.iterdir()
    np.save(kept, first * 2)
    assert np.array_equal(score.passages(static, ["open a file"], tmp_path), first * 2)
    assert np.array_equal(score.passages(static, ["close a file"], tmp_path), static.embed(["close a file"], "passage"))


def test_the_report_gives_each_package_and_the_mean_over_packages(tmp_path: Path) -> None:
    case = Case(
        "shop 1",
        [ChunkEmbeddingText("a | open", "open file"), ChunkEmbeddingText("b | shut", "shut door")],
        ["open"],
        [frozenset({0})],
    )
    ranks = score.ranked(case, StaticEmbedder(), tmp_path)
    worse = {name: np.array([2]) for name in ranks}
    lines = score.report({"shop 1": ranks, "yard 2": worse}, "functions").splitlines()
    assert "| shop 1 | 1 | 1.000 | 1.000 | 1.000 |" in lines
    assert "| yard 2 | 1 | 0.500 | 0.500 | 0.500 |" in lines
    assert "| **macro mean** | 2 | 0.750 | 0.750 | 0.750 |" in lines


def test_a_system_that_is_worse_than_words_alone_is_named() -> None:
    ranks = {"BM25": np.array([1]), "static": np.array([3]), "+ .5 static": np.array([2])}
    assert "MRR@10 below BM25: + .5 static on shop 1." in score.report({"shop 1": ranks}, "functions")
    ranks["+ .5 static"] = np.array([1])
    assert "nobody, anywhere" in score.report({"shop 1": ranks}, "functions")


# -- the packages -------------------------------------------------------------------------------------------------


def test_every_package_is_pinned_and_permissive() -> None:
    packages, lock = sources.listed(score.LIST), sources.pinned(score.LOCK)
    assert {package.title for package in packages} == set(lock)
    assert all(len(digest) == 64 for hashes in lock.values() for digest in hashes.values())
    assert all(lock.values())
    assert [package.title for package in packages if not package.is_permissive] == []


def test_no_package_was_trained_on_tuned_on_or_stands_in_another_evaluation() -> None:
    names = {overlap.name_of(package.name) for package in sources.listed(score.LIST)}
    trained = {overlap.name_of(package.name) for package in sources.listed()}
    tuned = {overlap.name_of(name) for name in DEVELOPMENT}
    assert len(trained) > 100 and len(tuned) == 21
    assert names & (trained | tuned | overlap.asked(None).names) == set()
    assert len(names) >= 5


@pytest.mark.parametrize("module", [commits, score, systems], ids=lambda module: module.__name__)
def test_the_examples_in_docstrings_hold(module: ModuleType) -> None:
    told = doctest.testmod(module)
    assert (told.attempted > 0, told.failed) == (True, 0)
