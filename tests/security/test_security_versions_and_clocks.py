"""State that a newer release wrote is left as it is and said; a clock that jumps by years loses nothing and breaks nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.security.every_tool import CODE, CODE_TEXT, FILES
from tests.security.test_security_damage import Workspace, made
from tests.support import preloaded
from tests.support.engines import cache_for, open_engine
from tests.support.trees import commit, repository

HERE = Path(__file__).resolve().parents[2]
NEWER = 99


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return made(tmp_path_factory.mktemp("versions") / "w")


@pytest.fixture
def space(original: Workspace, tmp_path: Path) -> Workspace:
    for each in (original.root, cache_for(original.root)):
        shutil.copytree(each, tmp_path / each.name, symlinks=True)
    return Workspace(tmp_path / original.root.name, original.plan, original.review)


def raised(path: Path, statement: str) -> bytes:
    """Give a database the format of a newer release; its bytes then."""
    db = apsw.Connection(str(path))
    db.execute(statement)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.close()
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "tool", "arguments"),
    [
        ("journal.db", "undo_edit", {"list": True}),
        ("journal.db", "undo_edit", {}),
        ("journal.db", "write_file", {"path": "new.py", "content": "x = 1\n"}),
        ("state.db", "get_review_status", {}),
        ("state.db", "reactive_review_pr", {"commit_hash": "HEAD", "base_ref": "HEAD~1"}),
    ],
)
def test_a_database_of_a_newer_release_is_refused_and_not_touched(
    name: str, tool: str, arguments: dict[str, Any], space: Workspace
) -> None:
    before = raised(space.state / name, f"PRAGMA user_version = {NEWER}")
    if tool == "get_review_status":
        arguments = {"session_id": space.review}
    error = json.loads(space.ask(tool, **arguments))["error"]
    assert error["code"] == "STORAGE_CORRUPT"
    assert "newer release" in error["message"]
    assert "Update ctx" in error["suggestion"]
    assert (space.state / name).read_bytes() == before
    assert space.bugs == []


def test_what_is_derived_is_made_again_when_a_newer_release_left_it(space: Workspace) -> None:
    cache = cache_for(space.root)
    for path in (*cache.rglob("recall.db"), *cache.rglob("access.db")):
        raised(path, f"PRAGMA user_version = {NEWER}")
    for path in cache.rglob("index.db"):
        raised(path, f"UPDATE fact SET value = {NEWER} WHERE name = 'schema'")
    with open_engine(space.root) as engine:
        assert "NOT_INDEXED" in space.call(engine, "find_symbol", name="total")
        engine.index.update()
        assert "shop/orders.py" in space.call(engine, "find_symbol", name="total")
        assert "rounded to cents" in space.call(engine, "context_search", query="rounded totals")
    assert space.bugs == []


JUMPS = r"""
import json, random, sys, time
from pathlib import Path
real, real_ns, years = time.time, time.time_ns, [0]
YEAR_S = 365 * 86_400
time.time = lambda: real() + years[0] * YEAR_S
time.time_ns = lambda: real_ns() + years[0] * YEAR_S * 10**9

from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.profiles import ToolSelection
from tests.support.engines import open_engine
from tests.security.every_tool import EveryTool, through

chance = random.Random(int(sys.argv[2])) if sys.argv[2] != "steady" else None
bugs = []

def log(line):
    if "traceback" in line or line.get("code") == "INTERNAL":
        bugs.append(str(line))

with open_engine(Path(sys.argv[1])) as engine:
    call = through(ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds")), log=log))

    def jumping(tool, arguments):
        if chance:
            years[0] = chance.choice((-30, -3, -1, 0, 0, 1, 3, 30))
        return call(tool, arguments)

    session = EveryTool(jumping)
    session.call("index_workspace", force=True)
    for part in (session.read, session.edit, session.remember, session.plan, session.review):
        part()
    session.call("add_memory", content="Orders belong to users.", category="facts")
    session.call("undo_edit", list=True)
with open_engine(Path(sys.argv[1])) as engine:
    call = through(ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds")), log=log))
    kept = EveryTool(jumping)
    listed = json.loads(kept.call("list_memories", status="all"))
    plans = json.loads(kept.call("list_plans"))
    edits = kept.call("undo_edit", list=True)
print("@@" + json.dumps({
    "codes": [(each.tool, each.error) for each in session.replies], "bugs": bugs, "memories": len(listed["memories"]),
    "plans": len(plans["plans"]), "edits": [line.split(" · ")[0] for line in edits.splitlines()],
}))
"""


def session_of(root: Path, how: str) -> dict[str, Any]:
    repository(root, FILES)
    commit(root, "second", {CODE: CODE_TEXT.replace("max(0,", "max(1,")})
    done = preloaded.run(
        [sys.executable, "-c", JUMPS, str(root), how], env=os.environ | {"PYTHONPATH": str(HERE)},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert "@@" in done.stdout, done.stderr[-3_000:]
    return json.loads(done.stdout.partition("@@")[2])


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a session answers whose clock goes on as it should."""
    return session_of(tmp_path_factory.mktemp("clock") / "steady", "steady")


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_clock_that_jumps_by_years_between_calls_changes_no_answer_and_loses_nothing(
    seed: str, steady: dict[str, Any], tmp_path: Path
) -> None:
    jumping = session_of(tmp_path / seed, seed)
    assert jumping["bugs"] == []
    assert steady["memories"] >= 1
    assert len(steady["edits"]) > 3
    assert jumping["codes"] == steady["codes"]
    assert (jumping["memories"], jumping["plans"]) == (steady["memories"], steady["plans"])
    assert jumping["edits"] == steady["edits"]
