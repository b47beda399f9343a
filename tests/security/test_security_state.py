"""State that a stranger brought along: whatever is in the place of a file or folder of ours, nothing outside is touched.

Each trap is put in the place of each name below `.context-engine/`; then every kind of tool that uses it is called.
Nothing outside the workspace may change or be shown, nothing may hang, each error is one line with a next step, and
reading goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest

from context_engine.edit.delta import ByteChange
from context_engine.edit.journal import Journal, Op
from context_engine.errors import ContextEngineError, InvalidArgument, StorageCorrupt
from context_engine.review.review_store import ReviewStore
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.storage import database
from context_engine.storage.locks import LivenessLock
from context_engine.storage.records import RecordFolder
from context_engine.storage.state_folder import STATE_FOLDER
from tests.security.every_tool import through
from tests.support.engines import open_engine
from tests.support.trees import commit, repository

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has neither pipes nor devices in folders")

SECRET = b"of-somebody-else-0123456789"
HANGS_S = 120.0
"""A session takes two seconds on a busy machine."""
HUGE_BYTES = 50_000_000
PLAN = {"goal": "Round", "steps": [{"step_number": 1, "title": "Round", "description": "Round the total."}]}

FILES = (
    *("journal.db", "journal.db-wal", "journal.db-shm", "journal.db-journal", "state.db", "state.db-wal"),
    *("secrets.key", "config.yml", ".gitignore", "languages/own.toml", "plans/index.json"),
    *("memories/decisions/one.md", "locks/00.lock", "plans/plan_0/events.jsonl", "plans/plan_0/v0001.json"),
)
FOLDERS = ("locks", "plans", "memories", "memories/decisions", "languages", "plans/plan_0", "plans/.trash", "")
OF_ONE_SERVICE = ("journal", "state", "memories", "plans")
"""How names begin that one service alone opens: a session calls the tools of that service, else all."""


@dataclass
class Outside:
    """A folder of somebody else."""

    folder: Path

    def make(self) -> Outside:
        self.folder.mkdir()
        (self.folder / "file").write_bytes(SECRET)
        (self.folder / "inner").mkdir()
        (self.folder / "inner" / "file").write_bytes(SECRET)
        db = apsw.Connection(str(self.folder / "foreign.db"))
        db.execute(
            "CREATE TABLE users(name); INSERT INTO users VALUES ('somebody else'); PRAGMA user_version = 7"
        ).fetchall()
        db.close()
        return self

    def everything(self) -> dict[str, tuple[int, int, bytes]]:
        found = sorted(self.folder.rglob("*"))
        return {
            str(path): (path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
            for path in found
        }


Trap = Callable[[Path, Outside], object]


def huge(place: Path, _: Outside) -> None:
    with place.open("wb") as file:
        file.truncate(HUGE_BYTES)


TRAPS: dict[str, tuple[tuple[str, ...], Trap]] = {
    "link to a file": (FILES, lambda place, outside: place.symlink_to(outside.folder / "file")),
    "link to nothing": ((*FILES, *FOLDERS), lambda place, outside: place.symlink_to(outside.folder / "absent")),
    "link to a database": (FILES, lambda place, outside: place.symlink_to(outside.folder / "foreign.db")),
    "link to a folder": (FOLDERS, lambda place, outside: place.symlink_to(outside.folder / "inner")),
    "link to zeros without end": (FILES, lambda place, _: place.symlink_to("/dev/zero")),
    "pipe": ((*FILES, *FOLDERS), lambda place, _: os.mkfifo(place)),
    "second name of a file": (FILES, lambda place, outside: os.link(outside.folder / "file", place)),
    "second name of a database": (
        ("journal.db", "state.db"),
        lambda place, outside: os.link(outside.folder / "foreign.db", place),
    ),
    "folder": (FILES, lambda place, _: place.mkdir()),
    "file": (FOLDERS, lambda place, _: place.write_bytes(b"in the way")),
    "huge file": (FILES, huge),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = repository(tmp_path / "shop", {"a.py": "def total():\n    return 1\n"})
    (made / "a.py").write_text("def total():\n    return 2\n")
    commit(made, "second")
    return made


@dataclass
class Session:
    """What tools that use state answered: tool -> error code and message, or nothing."""

    root: Path
    name: str

    def run(self) -> dict[str, tuple[str, str, str]]:
        told: dict[str, tuple[str, str, str]] = {}
        with open_engine(self.root, flush=False) as engine:
            caller = through(ToolDispatcher(single_engine(engine)))

            def call(tool: str, **arguments: Any) -> str:
                text, is_error = caller(tool, arguments)
                error = json.loads(text)["error"] if is_error else {"code": "", "message": text, "suggestion": ""}
                told[tool] = error["code"], error["message"], error["suggestion"]
                return text

            edit = {"old_string": "return 2", "new_string": "return 3"}
            call("read_file", path="a.py")
            only = next((part for part in OF_ONE_SERVICE if self.name.startswith(part)), "")
            if not only:
                call("search_files", query="total")
                call("scrub_secrets", content='token = "ghp_0123456789abcdefghijABCDEFGHIJ012345"')
            if only in ("", "journal"):
                call("edit_file", path="a.py", edits=[edit])
                call("undo_edit", steps=1)
            if only in ("", "memories"):
                call("add_memory", content="Totals are rounded to cents.", category="decisions")
                call("list_memories")
            if only in ("", "plans"):
                call("save_plan", plan=PLAN, name="rounding", allow_invalid=True)
                call("list_plans")
                call("load_plan", plan_id="plan_0")
                call("delete_plan", plan_id="rounding", confirm=True)
            if only == "state" or self.name in ("", "locks", "locks/00.lock"):
                call("reactive_review_pr", commit_hash="HEAD", base_ref="HEAD~1", wait_s=10)
        return told


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What a function returns or raises; a failure when it takes too long."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - handed on
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert outcome, "it hangs"
    return outcome[0]


def check_plain_errors(told: dict[str, tuple[str, str, str]]) -> None:
    for tool, (code, message, suggestion) in told.items():
        assert code != "INTERNAL", f"{tool}: {message}"
        if code:
            assert "\n" not in message and suggestion, f"{tool}: {message!r} {suggestion!r}"
        assert SECRET.decode() not in message, f"{tool} shows what is outside"


@pytest.mark.parametrize("kind", TRAPS)
def test_a_trap_in_the_place_of_state_reaches_nothing_outside(root: Path, tmp_path: Path, kind: str) -> None:
    outside = Outside(tmp_path / "outside").make()
    before = outside.everything()
    names, trap = TRAPS[kind]
    for name in names:
        shutil.rmtree(root / STATE_FOLDER, ignore_errors=True)
        (root / STATE_FOLDER).unlink(missing_ok=True)
        place = root / STATE_FOLDER / name if name else root / STATE_FOLDER
        place.parent.mkdir(parents=True, exist_ok=True)
        trap(place, outside)
        told = within(HANGS_S, Session(root, name).run)
        assert outside.everything() == before, f"{kind} as {name} changes what is outside"
        assert isinstance(told, dict), f"{kind} as {name}: {told!r}"
        check_plain_errors(told)
        assert not told["read_file"][0], f"{kind} as {name} stops reading: {told}"
        assert "search_files" not in told or not told["search_files"][0], f"{kind} as {name} stops searching: {told}"


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("journal.db", ["edit_file"]),
        ("journal.db-wal", ["edit_file"]),
        ("state.db", ["reactive_review_pr"]),
        ("locks", ["edit_file", "add_memory", "save_plan", "reactive_review_pr"]),
        ("plans", ["save_plan"]),
        ("memories", ["add_memory"]),
        ("memories/decisions", ["add_memory"]),
        ("", ["edit_file", "add_memory", "save_plan", "reactive_review_pr"]),
    ],
)
def test_the_tools_that_need_what_is_a_link_say_which_and_what_to_do(
    root: Path, tmp_path: Path, name: str, tools: list[str]
) -> None:
    outside = Outside(tmp_path / "outside").make()
    place = root / STATE_FOLDER / name if name else root / STATE_FOLDER
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside.folder / "inner")
    told = Session(root, name).run()
    refused = {tool for tool, (code, *_) in told.items() if code == "STORAGE_CORRUPT"}
    assert refused.issuperset(tools), told
    for tool in tools:
        _, message, suggestion = told[tool]
        assert f"{STATE_FOLDER}/{name}".rstrip("/") in message and "symbolic link" in message, message
        assert "remove it" in suggestion, suggestion


# -- databases --------------------------------------------------------------------------------------------------------


def change(path: str = "a.py") -> Op:
    return Op(path, "", "1" * 64, (), None)


@pytest.mark.parametrize("log", ["DELETE", "WAL"])
@pytest.mark.parametrize("name", ["journal.db", "state.db"])
def test_a_database_of_somebody_else_is_not_written_to(tmp_path: Path, name: str, log: str) -> None:
    (tmp_path / STATE_FOLDER).mkdir()
    db = apsw.Connection(str(tmp_path / STATE_FOLDER / name))
    db.execute(f"PRAGMA journal_mode = {log}; CREATE TABLE users(name); INSERT INTO users VALUES ('me')").fetchall()
    db.close()
    before = (tmp_path / STATE_FOLDER / name).read_bytes()
    journal, reviews = Journal(tmp_path / STATE_FOLDER), ReviewStore(tmp_path / STATE_FOLDER)
    use = reviews.sessions if name == "state.db" else lambda: journal.begin([change()], at=0.0)
    with pytest.raises(StorageCorrupt, match=r"other tables \(users\)"):
        use()
    assert (tmp_path / STATE_FOLDER / name).read_bytes() == before


def hot_journal(path: Path, victim: Path) -> None:
    """A rollback journal that says: this transaction also belongs to another file.

    SQLite looks for it, and deletes it.
    """
    named, magic = os.fsencode(victim), bytes.fromhex("d9d505f920a163d7")
    pages = path.stat().st_size // 4096
    head = (magic + struct.pack(">IIIII", 0, 0, pages, 512, 4096)).ljust(512, b"\0")
    tail = struct.pack(">I", 0x40000000 // 4096 + 1) + named
    tail += struct.pack(">II", len(named), sum(named) & 0xFFFFFFFF) + magic
    path.with_name(f"{path.name}-journal").write_bytes(head + tail)


def test_a_rollback_journal_cannot_name_a_file_to_delete(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(SECRET)
    journal = Journal(tmp_path / STATE_FOLDER)
    journal.finish(journal.begin([change()], at=0.0))
    journal.close()
    hot_journal(tmp_path / STATE_FOLDER / "journal.db", tmp_path / "victim")
    with pytest.raises(StorageCorrupt, match="another database"):
        Journal(tmp_path / STATE_FOLDER).entries(9)
    assert (tmp_path / "victim").read_bytes() == SECRET


def test_a_journal_that_a_killed_writer_left_is_played_back(tmp_path: Path) -> None:
    """It names no other file, as none of ours does."""
    journal = Journal(tmp_path / STATE_FOLDER)
    journal.finish(journal.begin([change()], at=0.0))
    journal.close()
    path = tmp_path / STATE_FOLDER / "journal.db"
    pages = path.stat().st_size // 4096
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">IIIII", 0, 0, pages, 512, 4096)
    path.with_name("journal.db-journal").write_bytes(head.ljust(512, b"\0"))
    assert [entry.id for entry in Journal(tmp_path / STATE_FOLDER).entries(9)] == [1]


@pytest.mark.parametrize("kind", ["view", "trigger"])
def test_a_view_or_a_trigger_of_a_database_never_runs(tmp_path: Path, kind: str) -> None:
    forever = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
    journal = Journal(tmp_path / STATE_FOLDER)
    journal.finish(journal.begin([change()], at=0.0))
    journal.close()
    db = apsw.Connection(str(tmp_path / STATE_FOLDER / "journal.db"))
    if kind == "view":
        columns = "x AS id, 0.0 AS at, '' AS session, 'done' AS state, 0 AS turns, 0 AS turned"
        db.execute(f"DROP TABLE entry; CREATE VIEW entry AS {forever} {columns} FROM n WHERE x < 0")
    else:
        db.execute(f"CREATE TRIGGER t AFTER INSERT ON entry BEGIN SELECT ({forever} max(x) FROM n); END")
    db.close()

    def use() -> list[int]:
        used = Journal(tmp_path / STATE_FOLDER)
        used.finish(used.begin([change()], at=1.0))
        return [entry.id for entry in used.entries(9)]

    outcome = within(HANGS_S, use)
    assert outcome == [2, 1] if kind == "trigger" else isinstance(outcome, StorageCorrupt), outcome


LARGE = "hex(zeroblob(400000000))"


@pytest.mark.parametrize(
    "change_table",
    [
        ("session TEXT NOT NULL", f"session TEXT AS ({LARGE})"),
        ("session TEXT NOT NULL", f"session TEXT DEFAULT ({LARGE})"),
        ("turned INTEGER NOT NULL", f"turned INTEGER NOT NULL, CHECK(length({LARGE}) > 1)"),
        ("CREATE INDEX op_of_entry ON op(entry)", f"CREATE INDEX op_of_entry ON op(length({LARGE}))"),
        ("CREATE INDEX op_of_entry ON op(entry)", f"CREATE INDEX op_of_entry ON op(entry) WHERE length({LARGE}) > 1"),
    ],
)
def test_a_table_that_computes_what_it_holds_is_refused(tmp_path: Path, change_table: tuple[str, str]) -> None:
    """SQLite runs such an expression with each row, for seconds and gigabytes, whatever is switched off."""
    journal = Journal(tmp_path / STATE_FOLDER)
    journal.finish(journal.begin([change()], at=0.0))
    journal.close()
    db = apsw.Connection(str(tmp_path / STATE_FOLDER / "journal.db"))
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET sql = replace(sql, ?, ?)", change_table)
    db.close()
    with pytest.raises(StorageCorrupt, match="computes its content"):
        Journal(tmp_path / STATE_FOLDER).entries(9)


def test_an_entry_of_many_packed_zeros_cannot_fill_the_memory(tmp_path: Path) -> None:
    """Lists and the look for broken edits unpack nothing; who wants its contents back is refused."""
    zeros = (ByteChange(0, bytes(40_000_000), b""),)
    journal = Journal(tmp_path / STATE_FOLDER)
    number = journal.begin([Op(f"{place}.py", "1" * 64, "2" * 64, zeros, None) for place in range(8)], at=0.0)
    tracemalloc.start()
    try:
        broken = journal.find_unfinished()
        journal.finish(number)
        listed = journal.entries(9)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < 1_000_000
    for found in (broken, listed):
        assert [op.path for op in found[0].ops] == [f"{place}.py" for place in range(8)]
    with pytest.raises(StorageCorrupt):
        journal.entry(number)


def test_a_packed_body_cannot_fill_the_memory(tmp_path: Path) -> None:
    import zlib

    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(20)) + packer.flush()
    with pytest.raises(zlib.error, match="more than"):
        database.decompress(bomb, 1 << 20)
    assert database.decompress(zlib.compress(b"body"), 1 << 20) == b"body"


def test_the_name_of_a_process_leads_to_no_file(tmp_path: Path) -> None:
    """It is read out of a database that a stranger may have written; the lock of a dead process is deleted."""
    (tmp_path / "victim.lock").write_bytes(SECRET)
    (tmp_path / STATE_FOLDER / "locks" / "alive-x").mkdir(parents=True)
    presence = LivenessLock(tmp_path / STATE_FOLDER, "me")
    assert not presence.is_alive("x/../../../victim")
    assert (tmp_path / "victim.lock").read_bytes() == SECRET


# -- the folder itself ------------------------------------------------------------------------------------------------


def test_settings_and_languages_behind_a_linked_state_folder_are_not_used(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "languages").mkdir(parents=True)
    (elsewhere / "config.yml").write_text("plan_retries_max: 77\n")
    (elsewhere / "languages" / "own.toml").write_text("name = 'own'\nsuffixes = ['.own']\n")
    (root / STATE_FOLDER).symlink_to(elsewhere)
    from context_engine.engine import Engine

    with Engine.open(root) as engine:
        assert engine.settings.plan_retries_max != 77
        assert engine.languages.detect("a.own") is None
    assert sorted(path.name for path in elsewhere.iterdir()) == ["config.yml", "languages"]


@pytest.mark.parametrize("name", ["cache_folder", "data_folder"])
@pytest.mark.parametrize("through_link", [False, True])
def test_no_repository_can_bring_the_cache_or_the_memories_of_its_user(
    root: Path, tmp_path: Path, name: str, through_link: bool
) -> None:
    folder = root / "brought"
    if through_link:
        folder = tmp_path / "link"
        folder.symlink_to(root)
    with pytest.raises(InvalidArgument, match="inside the workspace") as refused:
        open_engine(root, **{name: folder})
    assert f"CTX_{name.upper()}" in refused.value.suggestion


def test_a_file_of_ours_that_is_replaced_by_a_link_later_is_refused_as_well(tmp_path: Path) -> None:
    """A process that has used its state for hours trusts it no more than at its start."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "journal.db").write_bytes(b"")
    records, journal = RecordFolder(tmp_path / STATE_FOLDER, "memories"), Journal(tmp_path / STATE_FOLDER)
    with records.writing():
        assert records.create("decisions/one.md", b"one")
    journal.finish(journal.begin([change()], at=0.0))
    shutil.move(tmp_path / STATE_FOLDER, tmp_path / "kept")
    (tmp_path / STATE_FOLDER).symlink_to(tmp_path / "outside")
    for use in (
        lambda: records.create("decisions/two.md", b"two"),
        lambda: records.remove("decisions/one.md"),
        lambda: journal.begin([change()], at=1.0),
    ):
        with contextlib.suppress(FileNotFoundError), pytest.raises(ContextEngineError, match="symbolic link"):
            use()
    assert [(path.name, path.read_bytes()) for path in (tmp_path / "outside").iterdir()] == [("journal.db", b"")]
