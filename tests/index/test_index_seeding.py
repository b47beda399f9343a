"""A second work tree begins with the index of the first: much is copied, nothing is believed, and it answers as if built anew."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.index import describe
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.index_seeding import copy_index, seed
from context_engine.model import Query
from context_engine.repo.git import Git
from context_engine.settings import Settings
from tests.support.engines import answers, cache_for, indexed
from tests.support.trees import git, repository, tree

FILES = {f"src/part{number}.py": f"def part_{number}(value):\n    return value + {number}\n" for number in range(12)}
QUESTIONS = ("part_3", "return value", "def part", "part seven value")


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return repository(tmp_path / "first", FILES)


@pytest.fixture
def second(first: Path) -> Path:
    """A linked work tree with one file changed, one gone and one new."""
    place = first.with_name("second")
    git(first, "worktree", "add", "--quiet", "--detach", str(place))
    (place / "src" / "part5.py").write_text("def part_five_anew(value):\n    return value\n")
    (place / "src" / "part6.py").unlink()
    return tree(place, {"src/new.py": "def quite_new():\n    return 0\n"})


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are parsed, in the order they are."""
    paths: list[str] = []

    def watched(path: str, *args: Any, **kwargs: Any) -> Any:
        paths.append(path)
        return describe_file(path, *args, **kwargs)

    describe_file = describe.describe_file
    monkeypatch.setattr(describe, "describe_file", watched)
    return paths


def opened(root: Path, beside: Path) -> Engine:
    """An engine whose cache is that of the first work tree."""
    return Engine.open(root, settings=Settings(cache_folder=cache_for(beside), workers=0, staleness_ms=0))


def test_only_what_differs_is_parsed(first: Path, second: Path, described: list[str]) -> None:
    with indexed(first):
        assert sorted(described) == sorted(FILES)
    described.clear()
    with opened(second, first) as engine:
        report = engine.index.update()
        assert sorted(described) == ["src/new.py", "src/part5.py"]
        assert (report.added, report.changed, report.removed, report.files) == (1, 1, 1, 12)
        assert engine.index.store.check() == []
        assert engine.index.update().unchanged == 12


def test_it_answers_as_an_index_that_was_built_from_nothing(first: Path, second: Path) -> None:
    with indexed(first), opened(second, first) as seeded:
        seeded.index.update()
        ours = answers(seeded, QUESTIONS)
        assert not any(hit.stale for hit in seeded.search.find(Query("def part")).hits)
    with indexed(second) as alone:
        assert answers(alone, QUESTIONS) == ours


def test_nothing_is_believed_of_a_file_that_looks_the_same(first: Path, second: Path) -> None:
    """Same size, same time, other content."""
    twin = second / "src" / "part7.py"
    twin.write_text(FILES["src/part7.py"].replace("part_7", "gone_7"))
    facts = (first / "src" / "part7.py").stat()
    os.utime(twin, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with indexed(first), opened(second, first) as engine:
        engine.index.update()
        assert engine.symbols.find("gone_7").total == 1
        assert engine.symbols.find("part_7").total == 0


def test_segments_are_one_file_on_the_disk(first: Path, second: Path) -> None:
    with indexed(first) as one, opened(second, first) as other:
        other.index.update()
        here, there = ({path.stat().st_ino for path in each.cache_folder.glob("g-*/*.seg")} for each in (one, other))
        assert here & there


def test_another_schema_or_a_damaged_index_is_no_beginning(first: Path, tmp_path: Path) -> None:
    with indexed(first) as engine:
        source = engine.cache_folder
        standing = engine.search.state()
        static = standing.searcher.snapshot.static() if standing else None
        identity = static.identity if static else ""
    assert not seed(EmbeddedStore(tmp_path / "a"), [source], "other vectors")
    assert not seed(EmbeddedStore(tmp_path / "b"), [tmp_path / "nothing"], identity)
    for each in source.glob("g-*/*.seg"):
        each.write_bytes(each.read_bytes()[:100])
    assert not seed(EmbeddedStore(tmp_path / "c"), [source], identity)
    assert not (tmp_path / "c" / "CURRENT").exists()


def test_languages_of_their_own_keep_work_trees_apart(first: Path, second: Path, described: list[str]) -> None:
    tree(second, {".context-engine/languages/": ""})
    with indexed(first), opened(second, first) as engine:
        described.clear()
        engine.index.update()
        assert len(described) == 12


def test_a_copy_is_consistent_while_somebody_writes(first: Path, tmp_path: Path) -> None:
    over = threading.Event()
    with indexed(first) as engine:

        def edit() -> None:
            number = 0
            while not over.is_set():
                number += 1
                (first / "src" / "part0.py").write_text(f"def edited_{number}():\n    return {number}\n")
                engine.index.update()

        writer = threading.Thread(target=edit)
        writer.start()
        try:
            for number in range(12):
                source, copy = EmbeddedStore(engine.cache_folder), EmbeddedStore(tmp_path / f"copy{number}")
                with closing(source), closing(copy):
                    snapshot = source.snapshot()
                    assert snapshot is not None
                    with copy.writer(rebuild=True) as target:
                        copy_index(snapshot, target)
                        target.publish()
                    assert copy.check() == []
                    assert len(copy.files()) == len(FILES)
        finally:
            over.set()
            writer.join()


# -- which work trees there are ----------------------------------------------------------------------------------------


def test_siblings_are_the_same_folder_in_the_other_work_trees(first: Path, second: Path) -> None:
    assert Git(first).other_work_trees() == (str(second),)
    assert Git(second).other_work_trees() == (str(first),)
    assert Git(first / "src").other_work_trees() == (str(second / "src"),)
    assert Git(first).other_work_trees(unless="src/new.py") == ()
    assert Git(second).other_work_trees(unless="src/new.py") == ()
