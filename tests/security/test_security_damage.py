"""Damaged state is said in the replies that rest on it, with the next step: never a silent wrong answer, a traceback, a hang.

`CTX_TEST_FLIPS` asks for more damaged bytes of each file than the few of the ordinary run.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.profiles import ToolSelection
from context_engine.storage.event_log import EventLog
from context_engine.storage.state_folder import StateFolder
from context_engine.tools import Call
from tests.security.every_tool import CODE, CODE_TEXT, FILES, PLAN
from tests.support.engines import open_engine
from tests.support.trees import commit, repository

FLIPS = int(os.environ.get("CTX_TEST_FLIPS", "5"))
CALL_S = 60.0
"""Nothing here takes a second on a quiet machine."""


@dataclass
class Workspace:
    """A workspace with an edit, memories, a plan under way and a review, closed again."""

    root: Path
    plan: str = ""
    review: str = ""
    bugs: list[str] = field(default_factory=list)

    def call(self, engine: Engine, tool: str, /, **arguments: Any) -> str:
        """One call; an internal error and one that takes too long are kept as bugs."""
        log: list[dict[str, Any]] = []
        began = time.monotonic()
        reply = (
            ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds")), log=log.append)
            .call(tool, arguments, Call(session="s"))
            .reply
        )
        self.bugs += [f"{tool}: {line}" for line in log if "traceback" in line or line.get("code") == "INTERNAL"]
        if time.monotonic() - began > CALL_S:
            self.bugs.append(f"{tool} took {time.monotonic() - began:.0f} s")
        return reply.text

    def ask(self, tool: str, /, **arguments: Any) -> str:
        """One call of a new process."""
        with open_engine(self.root) as engine:
            return self.call(engine, tool, **arguments)

    @property
    def state(self) -> Path:
        return self.root / ".context-engine"

    @property
    def log(self) -> Path:
        return self.state / "plans" / self.plan / "events.jsonl"


def made(root: Path) -> Workspace:
    repository(root, FILES)
    commit(root, "second", {CODE: CODE_TEXT.replace("max(0,", "max(1,")})
    space = Workspace(root)
    with open_engine(root) as engine:
        engine.index.update()
        space.call(
            engine, "edit_file", path="shop/scratch.py", edits=[{"old_string": "return 1", "new_string": "return 2"}]
        )
        space.call(engine, "add_memory", content="Totals are rounded to cents.", category="decisions")
        space.call(engine, "add_memory", content="Orders belong to users.", category="facts")
        space.call(engine, "context_search", query="rounded totals")
        space.plan = json.loads(space.call(engine, "save_plan", plan=PLAN, name="rounding", allow_invalid=True))[
            "plan_id"
        ]
        space.call(engine, "start_step", plan_id=space.plan, step_number=1)
        space.call(engine, "complete_step", plan_id=space.plan, step_number=1, force=True)
        space.call(engine, "start_step", plan_id=space.plan, step_number=2)
        started = space.call(engine, "reactive_review_pr", commit_hash="HEAD", base_ref="HEAD~1", wait_s=20)
        space.review = json.loads(started).get("session_id", "")
        space.call(engine, "scrub_secrets", content=f"key = '{'ghp_' + 'a1B2' * 9}'")
    assert space.bugs == []
    return space


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return made(tmp_path_factory.mktemp("damage") / "w")


@pytest.fixture
def space(original: Workspace, tmp_path: Path) -> Iterator[Workspace]:
    copied = copy_of(original, tmp_path)
    yield copied
    assert copied.bugs == []


def copy_of(original: Workspace, folder: Path) -> Workspace:
    """Everything again, with its cache, in another folder."""
    for each in (original.root, original.root.parent / f"{original.root.name}-cache"):
        shutil.copytree(each, folder / each.name, symlinks=True)
    return Workspace(folder / original.root.name, original.plan, original.review)


# -- the journal of edits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"list": True}, {}, {"redo": True}])
def test_an_emptied_journal_is_not_taken_for_one_without_edits(space: Workspace, arguments: dict[str, Any]) -> None:
    journal = space.state / "journal.db"
    journal.write_bytes(b"")
    error = json.loads(space.ask("undo_edit", **arguments))["error"]
    assert error["code"] == "STORAGE_CORRUPT"
    assert "it is empty" in error["message"]
    assert error["suggestion"]


def test_after_an_emptied_journal_edits_go_on_and_can_be_undone(space: Workspace) -> None:
    (space.state / "journal.db").write_bytes(b"")
    edit = {"old_string": "return 2", "new_string": "return 3"}
    assert space.ask("edit_file", path="shop/scratch.py", edits=[edit]).startswith("edited")
    assert "edited shop/scratch.py" in space.ask("undo_edit", list=True)


# -- the log of a plan -------------------------------------------------------------------------------------------------


def test_a_log_that_was_cut_off_is_said_in_every_reply_of_its_plan_until_somebody_acts(space: Workspace) -> None:
    whole = space.log.read_bytes()
    space.log.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    for tool, arguments in (
        ("view_progress", {}), ("view_progress", {"include_steps": True, "format": "text"}), ("load_plan", {}), ("load_plan", {"format": "text"}),
        ("list_plans", {}), ("view_history", {}), ("visualize_plan", {}), ("request_approval", {"step_numbers": ["3"]}),
        ("start_step", {"step_number": 2}), ("fail_step", {"step_number": 2, "error": "x"}), ("view_progress", {}),
    ):  # fmt: skip
        named = arguments if tool == "list_plans" else {"plan_id": space.plan} | arguments
        reply = space.ask(tool, **named)
        assert "events were written here and" in reply or "is not the one that was written here" in reply, (
            f"{tool}: {reply}"
        )
        assert "events.head" in reply, tool
    (space.log.parent / "events.head").unlink()
    assert "written here" not in space.ask("view_progress", plan_id=space.plan)


def test_a_log_taken_back_is_sound_again(space: Workspace) -> None:
    whole = space.log.read_bytes()
    space.log.write_bytes(b"")
    assert "written here" in space.ask("view_progress", plan_id=space.plan)
    space.log.write_bytes(whole)
    assert "written here" not in space.ask("view_progress", plan_id=space.plan)


def test_what_a_crash_leaves_of_a_log_is_no_damage(tmp_path: Path) -> None:
    log = EventLog(StateFolder(tmp_path / ".context-engine"), "events.jsonl", flush=False)
    log.append(log.read(), [{"kind": "one"}])
    with log.path.open("ab") as file:
        file.write(b'{"seq":2,"pre')  # a writer was killed before the line and the note about it were there
    assert (log.read().doubt, len(log.read().events)) == ("", 1)
    after = log.append(log.read(), [{"kind": "two"}])
    assert (after.doubt, len(log.read().events)) == ("", 2)
    head = log.path.with_name("events.head")
    head.write_text('{"seq":1,"sha":"' + json.loads(log.path.read_text().splitlines()[1])["prev_sha"] + '"}')
    assert log.read().doubt == "", "a writer was killed between the line and the note about it"
    head.write_text("{")
    assert log.read().doubt == ""


# -- memories ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [b"---\n{{{: [\n---\n", b"---" + bytes(500), b"", b"\xff\xfe"])
def test_a_memory_that_cannot_be_read_is_named_by_a_search(left: bytes, space: Workspace) -> None:
    (damaged,) = (space.state / "memories" / "decisions").glob("*.md")
    damaged.write_bytes(left)
    reply = json.loads(space.ask("context_search", query="rounded totals"))
    (warning,) = [each for each in reply["warnings"] if damaged.name in each]
    assert "cannot be read" in warning


# -- bytes that changed ------------------------------------------------------------------------------------------------


def _files(space: Workspace) -> dict[str, list[Path]]:
    cache = space.root.parent / f"{space.root.name}-cache"
    plan = space.state / "plans" / space.plan
    found = {
        "segment": sorted(cache.rglob("*.seg")),
        "index.db": sorted(cache.rglob("index.db")),
        "journal.db": [space.state / "journal.db"],
        "state.db": [space.state / "state.db"],
        "events.jsonl": [plan / "events.jsonl"],
        "v0001.json": [plan / "v0001.json"],
        "memory": sorted((space.state / "memories").rglob("*.md")),
        "recall.db": sorted(cache.rglob("recall.db")),
        "secrets.key": [space.state / "secrets.key"],
        "access.db": sorted(cache.rglob("access.db")),
        "config.yml": [space.state / "config.yml"],
    }
    return {name: [path for path in paths if path.exists()] for name, paths in found.items()}


KINDS = (
    "segment", "index.db", "journal.db", "state.db", "events.jsonl", "v0001.json", "memory", "recall.db", "secrets.key", "access.db",
    "config.yml",
)  # fmt: skip
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search_files", {"query": "total"}),
    ("codebase_retrieval", {"query": "total of an order"}),
    ("find_symbol", {"name": "total"}),
    ("undo_edit", {"list": True}),
    ("context_search", {"query": "rounded totals"}),
    ("list_memories", {}),
    ("view_progress", {}),
    ("load_plan", {}),
    ("get_review_status", {}),
    ("scrub_secrets", {"content": f"key = '{'ghp_' + 'a1B2' * 9}'"}),
)
"""What can be asked of the state; what each answers on a sound one is the only right answer without a word about
damage."""


def asked(space: Workspace) -> dict[str, str]:
    answers: dict[str, str] = {}
    try:
        with open_engine(space.root) as engine:
            for tool, arguments in QUESTIONS:
                extra = {
                    "view_progress": {"plan_id": space.plan, "include_steps": True},
                    "load_plan": {"plan_id": space.plan},
                }.get(tool, {})
                extra = extra or ({"session_id": space.review} if tool == "get_review_status" else {})
                answers[tool] = space.call(engine, tool, **arguments, **extra)
    except Exception as error:  # noqa: BLE001 - what opening says is an answer as well
        answers["open"] = f"{type(error).__name__}: {error}"
        if not hasattr(error, "suggestion"):
            space.bugs.append(answers["open"])
    return answers


def flipped(data: bytes, chance: random.Random) -> bytes:
    """The data with one accident: a byte changed, a part zeroed, the end cut off, or nothing left."""
    at = chance.randrange(len(data)) if data else 0
    match chance.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes(min(512, len(data) - at)) + data[at + 512 :]
        case 2:
            return b""
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :] if data else b"\0"


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_gives_the_right_answer_or_says_so(kind: str, original: Workspace, tmp_path: Path) -> None:
    """Right is what the sound state answers, or less with a word about the damage, or what a hand edit would give."""
    if kind == "config.yml":
        (original.state / "config.yml").write_text("watch: false\nquiet_ms: 300\n")
    chance = random.Random(f"{kind} {FLIPS}")
    right = asked(copy_of(original, tmp_path / "sound"))
    silent: list[str] = []
    for trial in range(FLIPS):
        space = copy_of(original, tmp_path / str(trial))
        targets = _files(space)[kind]
        assert targets, f"no {kind} was made"
        target = chance.choice(targets)
        target.write_bytes(flipped(target.read_bytes(), chance))
        answers = asked(space)
        assert space.bugs == [], f"trial {trial} of {target.name}"
        silent += [
            f"{trial} {tool}: {answer[:300]}"
            for tool, answer in answers.items()
            if not _is_fair(kind, tool, answer, right)
        ]
        shutil.rmtree(tmp_path / str(trial))
    assert silent == []


def _is_fair(kind: str, tool: str, answer: str, right: dict[str, str]) -> bool:
    if answer.startswith('{"error"') or tool == "open":
        return True
    if "warning" in answer or "damage" in answer or "cannot be read" in answer:
        return True
    said, wanted = _essence(tool, answer), _essence(tool, right[tool])
    if kind == "memory" and tool in (
        "context_search",
        "list_memories",
    ):  # people edit them: another letter is another text
        return len(said) == len(wanted)
    return said == wanted or kind == "config.yml"


def _essence(tool: str, answer: str) -> Any:
    """What an answer says, without what differs from call to call."""
    if not answer.startswith("{"):
        return answer
    row = json.loads(answer)
    match tool:
        case "codebase_retrieval":
            return sorted(each["path"] for each in row["results"])
        case "context_search":
            return sorted(each["content"] for each in row["results"])
        case "list_memories":
            return sorted(str(each.get("title")) for each in row["memories"])
        case "view_progress":
            return [
                (each["step_number"] if "step_number" in each else each.get("number"), each["status"])
                for each in row["steps"]
            ]
        case "load_plan":
            return row["plan"]["goal"], [each["title"] for each in row["plan"]["steps"]]
        case "get_review_status":
            return row.get("status"), row.get("session_id")
    return row
