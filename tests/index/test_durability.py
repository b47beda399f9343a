"""Killed at any moment, or read by many while one writes: the index stays whole and every answer is a true one.

`CTX_TEST_KILLS=80 CTX_TEST_CROWD_S=60 pytest tests/index/test_durability.py` is the full length (`make kills`).
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.engine import Engine
from tests.support.children import child, killed, wait_for_all
from tests.support.engines import answers, open_engine
from tests.support.trees import tree

KILLS = int(os.environ.get("CTX_TEST_KILLS", "5"))
CROWD_S = float(os.environ.get("CTX_TEST_CROWD_S", "4"))
FILES = 300
ASKED = ("part_7", "how is part_12 called", "page 3", "zebra", "version")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")


def content(number: int, version: int) -> str:
    return (
        f'"""Part {number}."""\n\nfrom part_{number - 1} import part_{number - 1}\n\n\n'
        f"def part_{number}(zebra):\n    version = {version}\n    return part_{number - 1}(zebra)\n\n\n"
        + f"def helper_{number}_{version}():\n    return {number}\n\n\n"
        * 12
    )


def repository(root: Path, version: int) -> Path:
    """300 files; with another version, other content, and some files come and go."""
    files = {f"src/part_{n}.py": content(n, version) for n in range(FILES - 20)}
    files |= {f"docs/page_{n}_{version % 2}.md": f"# Page {n}\n\nAbout part_{n}.\n" for n in range(20)}
    for gone in (root / "docs").glob(f"*_{1 - version % 2}.md") if (root / "docs").exists() else ():
        gone.unlink()
    return tree(root, files)


INDEXER = """
    import sys
    from pathlib import Path
    from tests.support.engines import open_engine
    root, mode, workers = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    with open_engine(root, workers=workers) as engine:
        if workers:
            engine.index.pool.ready(60.0)
        print("go", flush=True)
        engine.index.update(force=mode == "rebuild")
        print("done", flush=True)
"""


def told(engine: Engine) -> dict[str, list[tuple[str, int, str]]]:
    return answers(engine, ASKED, limit=40)


def built_anew(root: Path) -> dict[str, list[tuple[str, int, str]]]:
    with open_engine(root, cache_folder=root.parent / "anew") as engine:
        engine.index.update(force=True)
        return told(engine)


@pytest.mark.slow
@pytest.mark.kills
def test_an_indexer_killed_at_any_moment_leaves_a_sound_index(tmp_path: Path, tried: Callable[..., None]) -> None:
    chance = random.Random(20_240_607)
    root = repository(tmp_path / "w", 0)
    began = time.monotonic()
    with open_engine(root) as engine:
        engine.index.update()
        engine.clear_index()
    whole_s = time.monotonic() - began
    in_time = 0
    for trial in range(KILLS):
        tried()
        mode = ("first", "update", "rebuild")[trial % 3]
        if mode == "first":
            with open_engine(root) as engine:
                engine.clear_index()
        else:
            repository(root, trial)
        after_s = chance.uniform(0, 1.1) * whole_s
        if "done" not in killed(INDEXER, str(root), mode, str(trial % 2), after_s=after_s):
            in_time += 1
        else:
            whole_s /= 2  # a run takes less now than the first one, which met cold files or a busier machine
        with open_engine(root) as engine:
            assert engine.index.store.check() == [], f"trial {trial} ({mode})"
            report = engine.index.update()
            assert report.files == FILES, f"trial {trial} ({mode})"
            assert engine.index.store.check() == []
            updated = told(engine)
            assert len(list(engine.cache_folder.glob("g-*"))) == 1
        assert updated == built_anew(root), f"trial {trial} ({mode})"
    assert in_time >= KILLS // 3, "most were killed too late to prove anything"


READER = """
    import json, sys, time
    from pathlib import Path
    from context_engine.model import Query
    from tests.support.engines import open_engine
    root, until = Path(sys.argv[1]), time.time() + float(sys.argv[2])
    asked, wrong = 0, []
    with open_engine(root, staleness_ms=600_000) as engine:
        engine.index.live.refresh = lambda: "fresh"  # this one only reads
        engine.index.live.index_shown = lambda paths: False
        while time.time() < until:
            answer = engine.search.find(Query("zebra part", limit=400, chunks_per_file=1))
            paths = [str(hit.chunk.path) for hit in answer.hits]
            if len(set(paths)) != len(paths) or len(paths) != 40:
                wrong.append(len(paths))
            if answer.total < 40:
                wrong.append(f"{answer.total} match")
            status = engine.status()
            if status.files != 40:
                wrong.append(f"{status.files} files")
            asked += 1
    print(json.dumps({"asked": asked, "wrong": wrong[:5]}))
"""

WRITER = """
    import json, sys, time
    from pathlib import Path
    from tests.support.engines import open_engine
    root, until = Path(sys.argv[1]), time.time() + float(sys.argv[2])
    commits = 0
    with open_engine(root) as engine:
        while time.time() < until:
            for number in range(commits % 7, 40, 7):
                place = root / f"part_{number}.py"
                part = root.parent / "part"
                part.write_text(f"def part_{number}(zebra):\\n    return {commits}\\n" * (1 + commits % 3))
                part.replace(place)
            engine.index.update(force=commits % 9 == 8)
            commits += 1
    print(json.dumps({"commits": commits}))
"""


@pytest.mark.slow
def test_three_readers_and_a_writer_do_not_disturb_each_other(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {f"part_{n}.py": f"def part_{n}(zebra):\n    return 0\n" for n in range(40)})
    with open_engine(root) as engine:
        engine.index.update()
    writer = child(WRITER, str(root), str(CROWD_S))
    readers = [child(READER, str(root), str(CROWD_S)) for _ in range(3)]
    told_by = [json.loads(out) for out in wait_for_all([*readers, writer])]
    assert [each["wrong"] for each in told_by[:3]] == [[], [], []]
    assert all(each["asked"] > 3 for each in told_by[:3])
    assert told_by[3]["commits"] > 3
    with open_engine(root) as engine:
        assert engine.index.store.check() == []
        assert engine.index.update().files == 40
