"""A long run indexes first what is probably asked about, and what was asked: answers come before it is complete."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from context_engine.cli import progress
from context_engine.index.build_order import (
    FILE_BYTES_MIN,
    ORDERED_FILES_MIN,
    BuildOrder,
    compare_files,
    list_recent_files,
    rank_files,
)
from context_engine.index.embedded_store import FileState
from context_engine.languages import Languages
from context_engine.model import Query
from context_engine.repo import Git
from tests.support.engines import open_engine, snapshot_of
from tests.support.trees import commit, repository, tree
from tests.support.waiting import until

LONG = "    return zebra  # black and white\n" * 120
MANY = {f"lib/part_{number:04}.py": f"def part_{number}():\n{LONG}" for number in range(ORDERED_FILES_MIN + 500)}
LAST = {"zoo/aardvark_keeper.py": "def feed_aardvarks(zoo):\n    return zoo.ants\n"}

sizes = st.dictionaries(
    st.sampled_from([f"{folder}/{n}.py" for folder in "abc" for n in range(9)]), st.integers(0, 9_000)
)


@given(sizes, st.lists(st.sampled_from(["a/1.py", "b/2.py", "c/3.py", "gone.py"])), st.integers(1, 9_000))
def test_every_file_comes_once_and_preferred_ones_before_all_others(
    files: dict[str, int], asked: list[str], bytes_min: int
) -> None:
    order = BuildOrder(files)
    order.prefer(asked)
    rounds = []
    while chosen := order.next_round(bytes_min, 4 * bytes_min):
        rounds.append(chosen)
        assert order.is_pending(chosen)
    wanted = [path for path in dict.fromkeys(asked) if path in files]
    came = [path for chosen in rounds for path in chosen]
    assert came[: len(wanted)] == wanted
    assert sorted(came) == sorted(files)
    assert not order.is_pending(files)
    for chosen in rounds:
        assert sum(max(files[path], FILE_BYTES_MIN) for path in chosen[:-1]) < 4 * bytes_min


def test_rounds_grow_until_a_question_asks_for_files() -> None:
    least, most = 2 * FILE_BYTES_MIN, 8 * FILE_BYTES_MIN
    order = BuildOrder({f"{number:03}": 1 for number in range(100)})
    assert [len(order.next_round(least, most)) for _ in range(4)] == [2, 4, 8, 8]
    order.prefer(["099", "098", "097"])
    assert order.next_round(least, most) == ["099", "098"]
    assert order.next_round(least, most) == ["097"]
    assert len(order.next_round(least, most)) == 4


def test_recent_files_come_before_source_and_source_before_the_rest(tmp_path: Path) -> None:
    root = repository(tree(tmp_path / "w", {"docs/a.md": "a", "src/b.py": "b", "tests/test_c.py": "c", "d.json": "{}"}))
    commit(root, "Begin")
    (root / "docs/old.md").write_text("new")
    commit(root, "Write docs")
    (root / "d.json").write_text("[]")
    recent = list_recent_files(Git(root))
    assert recent[:2] == ["d.json", "docs/old.md"]
    rank = rank_files(recent[:2], Languages.builtin())
    paths = ["docs/a.md", "tests/test_c.py", "src/b.py", "docs/old.md", "d.json"]
    assert sorted(paths, key=rank) == ["d.json", "docs/old.md", "src/b.py", "tests/test_c.py", "docs/a.md"]


def test_a_folder_without_git_has_no_recent_files(tmp_path: Path) -> None:
    assert list_recent_files(Git(tree(tmp_path / "w", {"a.py": "a"}))) == []


def test_a_question_during_a_long_run_finds_its_file_before_the_run_ends(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", MANY | LAST)
    with open_engine(root, workers=0) as engine:
        order: list[str] = []
        run_job = engine.index.builder._run_job
        engine.index.builder._run_job = lambda job, run: order.extend(job.paths) or run_job(job, run)
        engine.index.update_in_background()
        assert engine.search.hurry("where are aardvarks fed?", wait_s=60)
        answer = engine.search.find(Query("where are aardvarks fed?"))
        assert answer.hits[0].chunk.path == "zoo/aardvark_keeper.py"
        until(engine.index.is_complete)
    assert order.index("zoo/aardvark_keeper.py") <= ORDERED_FILES_MIN
    assert sorted(order) == sorted(MANY | LAST)


def test_a_command_answers_before_a_long_run_ends_and_the_next_run_completes_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(progress, "EARLY_S", 0.0)
    root = tree(tmp_path / "w", MANY | LAST)
    with open_engine(root, workers=0) as engine:
        assert progress.ensure_index(engine, "searched", "feed aardvarks")
        snapshot = snapshot_of(engine)
        assert "zoo/aardvark_keeper.py" in snapshot.by_path
    with open_engine(root, workers=0) as engine:
        assert engine.index.update().files == len(MANY | LAST)
        assert engine.index.is_complete()


# -- what changed, by names, sizes and times alone -------------------------------------------------------------------

facts = st.tuples(st.integers(0, 1), st.integers(0, 1))
listings = st.dictionaries(st.sampled_from("abcd"), facts, max_size=4)


@given(listings, listings, listings)
def test_every_file_is_counted_once_and_for_what_it_is(indexed: dict, present: dict, kept_out: dict) -> None:
    kept_out = {path: seen for path, seen in kept_out.items() if path not in indexed}
    changes = compare_files({path: FileState(*seen, b"") for path, seen in indexed.items()}, present, kept_out)
    fate = {}
    for path in {*indexed, *present, *kept_out}:
        if path not in present:
            fate[path] = "removed"
        elif path in indexed:
            fate[path] = "unchanged" if indexed[path] == present[path] else "suspect"
        else:
            fate[path] = "kept out" if kept_out.get(path) == present[path] else "added"
    assert list(changes.added) == sorted(path for path in fate if fate[path] == "added")
    assert list(changes.suspect) == sorted(path for path in fate if fate[path] == "suspect")
    assert list(changes.removed) == sorted(path for path in fate if fate[path] == "removed")
    assert changes.unchanged == list(fate.values()).count("unchanged")
    assert changes.is_empty == (not {"added", "suspect", "removed"} & set(fate.values()))
