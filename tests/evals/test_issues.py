"""The evaluation of issues: trees know nothing of what came after them, and ranks are those of what a reply shows."""

from __future__ import annotations

import doctest
import json
from pathlib import Path

import pytest

from evals.issues import score
from evals.places import prepare
from evals.places.shown import Place
from evals.scratch_engine import open_indexed
from tests.support.trees import commit, git, repository, tree

PARSER = """#include "parser.hpp"

int Parser::read(const char *text) {
    return text[0];
}

int Parser::skip(int count) {
    return count + 1;
}
"""


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A bare mirror with three commits, and their hashes."""
    folder = tmp_path_factory.mktemp("mirrors")
    root = repository(folder / "work", {"parser.cpp": PARSER, "logo.cpp": "int color() { return 1; }\n"})
    hashes = [git(root, "rev-parse", "HEAD")]
    hashes.append(commit(tree(root, {"parser.cpp": PARSER.replace("+ 1", "+ 2")}), "Skip one more"))
    hashes.append(commit(tree(root, {"later.cpp": "int later() { return 2; }\n"}), "Add what comes later"))
    git(folder, "clone", "--quiet", "--bare", str(root), "own+dates")
    return folder, hashes


@pytest.mark.parametrize("module", [prepare, score])
def test_examples_hold(module) -> None:
    assert doctest.testmod(module).failed == 0


def test_a_prepared_tree_ends_at_its_commit(mirrors: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, hashes = mirrors
    tasks = [{"id": f"own/dates@{n}", "repo": "own/dates", "parent": hashes[n], "query": "x"} for n in (0, 1)]
    prepare.prepare(tasks, folder, tmp_path)
    for number, task in enumerate(tasks):
        made = prepare.folder_of(tmp_path, task)
        assert git(made / "tree", "rev-list", "--all").splitlines()[0] == hashes[number]
        assert git(made / "tree", "status", "--short") == ""
        assert not (made / "tree" / "later.cpp").exists()
        with open_indexed(made / "tree", made / "cache") as engine:
            outline = engine.symbols.outline("parser.cpp")
            assert {symbol.name for _, symbol in outline.symbols} >= {"read", "skip"}
    second = prepare.folder_of(tmp_path, tasks[1])
    assert "+ 2" in (second / "tree" / "parser.cpp").read_text(encoding="utf-8")


def test_both_locks_are_read(tmp_path: Path) -> None:
    row = {"query": "q", "gold_files": ["a.h"], "gold_funcs": [{"file": "a.h", "scope": "", "name": "f"}]}
    issues = {"instances_by_lang": {"cpp": [row | {"org": "o", "repo": "r", "number": 7, "base_sha": "b"}]}}
    commits = {"source_repo": "https://github.com/o/s", "instances": [row | {"sha": "0123456789ab", "parent": "p"}]}
    written = []
    for name, lock in (("multiswe", issues), ("cppbench", commits)):
        file = tmp_path / name
        file.write_text(json.dumps(lock | {"schema": f"ripwire-{name}-dataset-lock-v1"}), encoding="utf-8")
        written += score.read_lock(file)
    assert [(task["id"], task["repo"], task["data"], task["parent"]) for task in written] == [
        ("o/r@7", "o/r", "multiswe", "b"),
        ("o/s@0123456789", "o/s", "cppbench", "p"),
    ]
    assert [task["functions"] for task in written] == [[["a.h", "f"]]] * 2


def test_a_function_ranks_where_its_lines_are_shown_first(tmp_path: Path) -> None:
    tree(tmp_path, {"parser.cpp": PARSER, "logo.cpp": "int color() { return 1; }\n"})
    places = [Place("logo.cpp", 1, 1), Place("parser.cpp", 4, 9), Place("parser.cpp", 3, 3)]
    names = [("logo.cpp", "color"), ("parser.cpp", "skip"), ("parser.cpp", "read")]
    assert score.rank_functions(places, tmp_path, 9) == names
    assert score.rank_functions(places, tmp_path, 2) == names[:2]
    assert score.rank_functions([Place("parser.cpp", 1, 1), Place("gone.cpp", 1, 9)], tmp_path, 9) == []


def test_tasks_that_expect_nothing_are_not_counted() -> None:
    answers = [
        score.Answer("s", "1", "d", (1, 7), ()),
        score.Answer("s", "2", "d", (2,), (9,)),
    ]
    assert score.figures(answers, "files", 1) == "0.000 / 0.500"
    assert score.figures(answers, "files", 5) == "0.500 / 1.000"
    assert score.figures(answers, "files", 10) == "1.000 / 1.000"
    assert score.figures(answers, "functions", 5) == "0.000 / 0.000"
    assert score.figures(answers[:1], "functions", 5) == "-"
    assert "| s | both | 2/1 |" in score.table(answers)
