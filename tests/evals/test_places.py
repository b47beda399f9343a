"""The evaluation of places: what a reply shows is read from its text alone, and its figures are what they say."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.text import fence_for
from evals.places import commits, score, shown, windows
from evals.places.score import pay, score_places
from evals.places.shown import Place, find_in_markdown, find_in_rows
from tests.support.trees import commit, git, repository, tree

PLACES = Path(score.__file__).parent
FILES = {
    "billing/tax.py": "def rate(country):\n    return 19\n\n\ndef round_cents(amount):\n    return int(amount + 0.5)\n",
    "parcels/label.py": "def print_label(parcel):\n    return parcel.code\n",
}


@pytest.mark.parametrize("module", [shown, windows, score, commits])
def test_examples_hold(module) -> None:
    assert doctest.testmod(module).failed == 0


# -- what a reply shows -----------------------------------------------------------------------------------------------

code = st.text(
    st.sampled_from("ab `~#·\n-0123") | st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=80
)
paths = st.from_regex(r"[a-z]{1,8}(/[a-z_]{1,8}){0,3}\.(py|md)", fullmatch=True)
pieces = st.lists(st.tuples(paths, st.integers(1, 5_000), code), max_size=6)


@given(pieces)
def test_every_place_of_a_markdown_reply_is_found_whatever_its_code_says(written: list[tuple[str, int, str]]) -> None:
    places, parts = [], ["3 places in 2 files; begin with ## x"]
    for path, first, text in written:
        places.append(Place(path, first, first + text.count("\n")))
        fence = fence_for(text)
        lines = f"lines {first}-{places[-1].last} · f"
        parts.append(
            f"## {path} · 0.9 · defines f, g\n\n{lines}\n{fence}python\n{text}\n{fence}\n\n- other.py: imports it"
        )
    assert find_in_markdown("\n\n".join(parts)) == places


@given(pieces)
def test_every_place_of_a_search_reply_is_found_in_its_order(written: list[tuple[str, int, str]]) -> None:
    places = [Place(path, first, first + text.count("\n")) for path, first, text in written]
    rows = [
        f"@@ {path}:{first}-{last} f\n({text})"
        for (path, first, last), (_, _, text) in zip(places, written, strict=True)
    ]
    assert find_in_rows("\n".join(["hybrid", *rows])) == places


def test_a_span_counts_only_as_far_as_its_code_is_written_out() -> None:
    assert find_in_markdown("## a.py\n\nlines 3-90, 200-210 · f\n```\ndef f():\n    ...\n```") == [Place("a.py", 3, 4)]
    parts = [Place("a.py", 3, 4), Place("a.py", 80, 81)]
    assert find_in_markdown("## a.py\n\nlines 3-4, 80-90 · f\n```\none\ntwo\nthree\nfour\n```") == parts
    assert find_in_rows("@@ a.py:3-90 f\ndef f(): ...") == [Place("a.py", 3, 3)]


# -- the figures ------------------------------------------------------------------------------------------------------


def test_a_hunk_is_shown_when_a_place_comes_within_three_lines_of_it() -> None:
    hunks = {"a.py": [(100, 102)]}
    hits = {last: score_places(hunks, [Place("a.py", 90, last)])["hunks"] for last in (96, 97)}
    assert hits == {96: 0.0, 97: 1.0}
    assert score_places(hunks, [Place("a.py", 105, 200)])["hunks"] == 1.0
    assert score_places(hunks, [Place("a.py", 106, 200)])["hunks"] == 0.0
    assert score_places(hunks, [Place("b.py", 100, 102)])["hunks"] == 0.0


def test_near_is_the_share_of_shown_lines_that_lie_around_a_hunk() -> None:
    figures = score_places({"a.py": [(100, 100)]}, [Place("b.py", 1, 10), Place("a.py", 71, 90)])
    assert figures == {"hunks": 0.0, "files": 1.0, "first": 0.0, "near": pytest.approx(11 / 30)}
    assert score_places({"a.py": [(1, 1)]}, []) == {"hunks": 0.0, "files": 0.0, "first": 0.0, "near": 0.0}


def test_a_budget_pays_for_the_lines_that_its_characters_hold() -> None:
    lines = ["x" * 9] * 10  # with its line break ten characters each
    places = [Place("a", 1, 3), Place("a", 6, 9)]
    assert pay(places, "x" * 200, 50, lambda _: lines) == places
    assert pay(places, "x" * 201, 50, lambda _: lines) == places
    assert pay(places, "x" * 201, 10, lambda _: lines) == [Place("a", 1, 3), Place("a", 6, 6)]
    assert pay(places, "x" * 201, 2, lambda _: lines) == []


# -- tasks ------------------------------------------------------------------------------------------------------------


def test_a_commit_that_explains_itself_is_a_task_of_its_parent(tmp_path: Path) -> None:
    root = repository(tmp_path / "own+work", FILES)
    parent = git(root, "rev-parse", "HEAD")
    tree(
        root, {"billing/tax.py": FILES["billing/tax.py"].replace("+ 0.5", "+ 0.49"), "tests/test_tax.py": "assert 1\n"}
    )
    why = "Round cents down (#12)\n\nA price must never be higher than the one that was shown before.\n\nSigned-off-by: Ann"
    sha = commit(root, why)
    commit(tree(root, {"parcels/label.py": "x = 1\n"}), "Print the code of a label")
    commit(
        tree(root, {"logo.py": "color = 1\n"}),
        "Add a logo\n\nEverybody has asked for one, and now there is one for all.",
    )
    (task,) = commits.tasks_of("own/work", root / ".git")
    assert task == {
        "id": f"own/work@{sha[:10]}",
        "repo": "own/work",
        "parent": parent,
        "query": "Round cents down\n\nA price must never be higher than the one that was shown before.",
        "hunks": {"billing/tax.py": [[6, 6]]},
    }


# -- the protocol -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "is_ours"),
    [(("adapter.py",), True), (("adapter.py", "--tool", "search"), True), (("windows.py",), False)],
    ids=["context", "search", "windows"],
)
def test_an_adapter_shows_the_code_that_a_task_is_about(
    program: tuple[str, ...], is_ours: bool, tmp_path: Path
) -> None:
    root = repository(tmp_path / "work", FILES)
    ask = {"root": str(root), "query": "Round cents down", "budget_tokens": 1_000}
    requests = [ask, {"root": str(root / "gone"), "query": "x y z", "budget_tokens": 1_000}, ask]
    command = [sys.executable, str(PLACES / program[0]), *program[1:]]
    lines = "".join(f"{json.dumps(request)}\n" for request in requests)
    ran = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True, cwd=root)
    found, failed, again = map(json.loads, ran.stdout.splitlines())
    assert found["shown"][0]["path"] == "billing/tax.py"
    assert found["shown"][0]["first"] <= 5 <= found["shown"][0]["last"]
    assert "int(amount + 0.5)" in found["text"]
    assert again["shown"] == found["shown"]
    assert failed["shown"] == []
    assert failed["text"] == ""
    assert failed["error"]
    if is_ours:
        assert not (root / ".context-engine").exists()


def test_prepared_trees_are_asked_and_a_refusal_counts_as_nothing_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, hunks in enumerate([{"billing/tax.py": [[6, 6]]}, {"parcels/label.py": [[2, 2]]}]):
        folder = tmp_path / f"own+work@{number}"
        repository(folder / "tree", FILES)
        task = {"id": str(number), "repo": "own/work", "query": "Round cents down", "hunks": hunks}
        (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
    tasks = score.read_tasks(tmp_path, 1)
    rows = list(score.ask_all("windows", windows.ask_windows, tasks, [1_000]))
    assert [(row.task, row.first) for row in rows] == [("0", 1.0), ("1", 0.0)]

    def refuse(root: Path, query: str, tokens: int) -> score.Reply:
        raise ValueError("too long")

    assert [row.hunks for row in score.ask_all("refusing", refuse, tasks, [1_000])] == [0.0, 0.0]
    assert "refusing, 0, 1000: ValueError: too long" in capsys.readouterr().err
