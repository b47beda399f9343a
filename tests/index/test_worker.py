"""Other processes take a share of the files; whatever becomes of them, the index is the same."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from context_engine.errors import Cancelled
from context_engine.index import build
from context_engine.index import segment as segments
from context_engine.index.build import SHARE_FILES_MIN
from context_engine.index.describe import IndexJob, run_job
from context_engine.index.encoder import StaticEncoder
from context_engine.index.worker import NICENESS, WorkerPool
from context_engine.model import Progress, Query
from context_engine.server import follow_edits
from tests.support.engines import GRAMMARS, LANGUAGES, answers, grammars_folder, indexed, open_engine
from tests.support.trees import tree
from tests.support.waiting import until

FILES = {
    **{
        f"src/part_{n}.py": f"from src.part_{n - 1} import part_{n - 1}\n\n\ndef part_{n}():\n    part_{n - 1}()\n"
        for n in range(40)
    },
    **{f"docs/page_{n}.md": f"# Page {n}\n\nAbout part_{n} and #topic-{n % 3}.\n" for n in range(SHARE_FILES_MIN)},
}
READY_S = 60.0
ASKED = ("part_7", "page 3", "how does part_12 import", "topic")


def cancelling(cancel: threading.Event) -> Callable[[Progress], None]:
    """Cancels as soon as the first file is being indexed."""

    def tell(step: Progress) -> None:
        if step.stage == "indexing":
            cancel.set()

    return tell


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    pool = WorkerPool(2, grammars_folder=str(grammars_folder()), root=str(tmp_path))
    yield pool
    pool.close()


def job(root: Path, target: Path, paths: list[str], static: str = "") -> IndexJob:
    facts = dict.fromkeys(paths, (1, 1))
    return IndexJob(str(root), paths, facts, {}, 1_000_000, str(target), static)


@pytest.mark.parametrize("encoder", [None, StaticEncoder()], ids=["words", "static vectors"])
def test_another_process_writes_the_same_segment(
    tmp_path: Path, pool: WorkerPool, encoder: StaticEncoder | None
) -> None:
    root = tree(tmp_path / "w", FILES)
    paths, static = sorted(FILES)[:10], encoder.identity if encoder else ""
    assert len(pool.ready(READY_S)) == 2
    there = pool.ready()[0].start(job(root, tmp_path / "there.seg", paths, static))()
    here = run_job(job(root, tmp_path / "here.seg", paths, static), LANGUAGES, GRAMMARS, encoder)
    assert there == here
    assert (tmp_path / "there.seg").read_bytes() == (tmp_path / "here.seg").read_bytes()
    assert (segments.load(tmp_path / "there.seg").static is None) == (encoder is None)


def test_a_process_that_has_another_table_leaves_its_share_to_this_one(tmp_path: Path, pool: WorkerPool) -> None:
    root = tree(tmp_path / "w", FILES)
    pool.ready(READY_S)
    child = pool.ready()[0]
    assert child.start(job(root, tmp_path / "1.seg", ["src/part_1.py"], "of another version"))() is None
    assert not (tmp_path / "1.seg").exists()
    assert child.is_ready(), "it lives and can do the next one"
    outcome = child.start(job(root, tmp_path / "2.seg", ["src/part_1.py"]))()
    assert outcome is not None and outcome.written == 1


def test_what_is_skipped_touched_and_gone_is_told_across_the_pipe(tmp_path: Path, pool: WorkerPool) -> None:
    root = tree(tmp_path / "w", {"a.py": "x = 1\n", "b.bin.txt": b"\0", "c.py": "y = 1\n"})
    pool.ready(READY_S)
    known = run_job(job(root, tmp_path / "1.seg", ["a.py"]), LANGUAGES, GRAMMARS)
    assert known.written == 1
    sha256 = segments.load(tmp_path / "1.seg").heaps["sha256"][0]
    paths, facts = ["a.py", "b.bin.txt", "gone.py"], {"b.bin.txt": (1, 2)}
    asked = IndexJob(str(root), paths, facts, {"a.py": sha256}, 1_000_000, str(tmp_path / "2.seg"))
    outcome = pool.ready()[0].start(asked)()
    assert outcome is not None
    assert outcome.written == 0
    assert [row[0] for row in outcome.touched] == ["a.py"]
    ((path, reason, _, *facts),) = outcome.skipped
    assert (path, reason, facts) == ("b.bin.txt", "binary", [1, 2])
    assert outcome.vanished == ["gone.py"]


def test_the_index_is_the_same_with_helpers_and_without(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", FILES)
    with indexed(root) as engine:
        alone, counts = answers(engine, ASKED), engine.status()
        engine.clear_index()
    with open_engine(root, workers=2) as engine:
        assert len(engine.index.pool.ready(READY_S)) == 2
        report = engine.index.update()
        shared = answers(engine, ASKED)
        assert (report.files, report.chunks, report.symbols) == (counts.files, counts.chunks, counts.symbols)
        assert engine.index.store.check() == []
    assert shared == alone


def test_a_process_that_answers_questions_leaves_every_file_to_others_of_low_priority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path / "w", FILES)
    monkeypatch.setattr(build, "run_job", None)
    with open_engine(root, workers=1) as engine:
        follow_edits(engine)
        assert len(engine.index.pool.ready(READY_S)) == 2, "one more takes the place of this process"
        if sys.platform == "linux":
            pids = [child._process.pid for child in engine.index.pool._children]
            assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in pids} == {NICENESS}
        assert engine.index.update().files == len(FILES)


def test_a_run_that_waits_for_others_can_be_cancelled(tmp_path: Path) -> None:
    root, cancel = tree(tmp_path / "w", FILES), threading.Event()
    with open_engine(root, workers=1) as engine:
        engine.index.pool.takes_all = True
        for child in engine.index.pool.ready(READY_S):
            os.kill(child._process.pid, signal.SIGSTOP)
        threading.Timer(0.3, cancel.set).start()
        with pytest.raises(Cancelled):
            engine.index.update(cancel=cancel)


def test_the_share_of_a_killed_helper_is_done_here(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", FILES)
    with open_engine(root, workers=2) as engine:
        engine.index.pool.ready(READY_S)
        for child in engine.index.pool._children:
            os.kill(child._process.pid, signal.SIGSTOP)  # it takes the job and never answers
        pids = [child._process.pid for child in engine.index.pool._children]
        killer = threading.Timer(0.3, lambda: [os.kill(pid, signal.SIGKILL) for pid in pids])
        killer.start()
        report = engine.index.update()
        killer.join()
        assert report.files == len(FILES)
        assert engine.index.store.check() == []
        assert len(engine.search.find(Query("part_7", limit=5)).hits) >= 1
        assert len(engine.index.pool.ready(READY_S)) == 2, "others take their place"


def test_a_helper_that_outlives_a_run_cannot_write_into_the_next(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", FILES)
    with open_engine(root, workers=1) as engine:
        engine.index.pool.ready(READY_S)
        slow = engine.index.pool._children[0]._process.pid
        os.kill(slow, signal.SIGSTOP)
        cancel = threading.Event()
        with pytest.raises(Cancelled):
            engine.index.update(cancel=cancel, progress=cancelling(cancel))
        with open_engine(root) as other:
            before = other.index.update()
            expected = answers(other, ASKED)
        os.kill(slow, signal.SIGCONT)
        until(lambda: len(engine.index.pool.ready()) == 1)
        with open_engine(root) as other:
            assert other.index.store.check() == []
            assert answers(other, ASKED) == expected
            assert other.index.update().unchanged == before.files
