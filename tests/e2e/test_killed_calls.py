"""Killed among calls of every kind that writes: what was acknowledged is there, what was not is done whole or not at all.

`CTX_TEST_KILLS=200 pytest tests/e2e/test_killed_calls.py` is the full length (`make kills`).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.memory.memory_requests import MemoryQuery
from context_engine.plans.plan_repository import PlanQuery
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.profiles import ToolSelection
from tests.security.every_tool import PLAN, Caller, through
from tests.support.children import killed
from tests.support.edits import contents
from tests.support.engines import open_engine
from tests.support.trees import tree

KILLS = int(os.environ.get("CTX_TEST_KILLS", "4"))
TEXTS = ("a.py", "b.py", "sub/c.py")
USERS = 12
"""Files that a rename changes, besides that of the definition."""
KINDS = ("edit", "edit", "rename", "undo", "redo", "memory", "plan", "index")

pytestmark = [pytest.mark.kills, pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")]


@dataclass(frozen=True)
class Model:
    """What the files must be: the number in the texts and the number in the name, each time that one was changed."""

    past: tuple[tuple[int, int], ...] = ((0, 0),)
    at: int = 0

    @property
    def now(self) -> tuple[int, int]:
        """The numbers that the files contain."""
        return self.past[self.at]

    def after(self, kind: str) -> Model:
        """What a call of this kind makes of it."""
        text, name = self.now
        changed = {"edit": (text + 1, name), "rename": (text, name + 1)}.get(kind)
        if changed:
            return Model((*self.past[: self.at + 1][-20:], changed), min(self.at, 19) + 1)
        return replace(self, at=self.at + {"undo": -1, "redo": 1}.get(kind, 0))

    def allows(self, kind: str) -> bool:
        """Whether there is something to undo or to redo."""
        return self.at > 0 if kind == "undo" else kind != "redo" or self.at < len(self.past) - 1

    def files(self) -> dict[str, bytes]:
        """Every file of the workspace."""
        text, name = self.now
        files = dict.fromkeys(TEXTS, f"VERSION = {text}\n" + "# more\n" * 400)
        files["core.py"] = f"def price_{name}(amount):\n    return amount\n"
        for user in range(USERS):
            use = f"from core import price_{name}\n\n\ndef total_{user}(amount):\n    return price_{name}(amount)\n"
            files[f"use/part_{user}.py"] = use
        return {path: content.encode() for path, content in files.items()}


def calls_of(model: Model, kind: str, unique: int) -> tuple[str, dict[str, Any]]:
    """The tool and the arguments of a call of this kind."""
    text, name = model.now
    edit = {"target": f"VERSION = {text}", "replace": f"VERSION = {text + 1}"}
    changes = [{"path": path, "edits": [edit]} for path in TEXTS]
    plan = PLAN | {"goal": f"Plan {unique}"}
    return {
        "edit": ("edit_file", {"files": changes}),
        "rename": ("rename_symbol", {"name": f"price_{name}", "new_name": f"price_{name + 1}", "dry_run": False}),
        "undo": ("undo_edit", {"steps": 1}),
        "redo": ("undo_edit", {"steps": 1, "redo": True}),
        "memory": ("add_memory", {"content": f"Fact {unique}.", "category": "facts", "on_similar": "allow"}),
        "plan": ("save_plan", {"plan": plan, "name": f"plan {unique}", "allow_invalid": True}),
        "index": ("index_workspace", {"force": True}),
    }[kind]


def caller(engine: Engine) -> Caller:
    """Calls the tools of an engine, without limits."""
    return through(ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds"))))


WRITER = """
    import json, random, sys
    from pathlib import Path
    from tests.e2e.test_killed_calls import KINDS, Model, caller, calls_of
    from tests.support.engines import open_engine
    root, unique, state = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    chance = random.Random(unique)
    model = Model(tuple(tuple(each) for each in state[0]), state[1])
    with open_engine(root) as engine:
        call = caller(engine)
        print("go", flush=True)
        while True:
            kind = chance.choice([kind for kind in KINDS if model.allows(kind)])
            print("begin", kind, unique, flush=True)
            text, is_error = call(*calls_of(model, kind, unique))
            print("refused" if is_error else "done", kind, unique, text.replace("\\n", " ") if is_error else "", flush=True)
            if is_error:
                break
            model, unique = model.after(kind), unique + 1
"""


@dataclass
class Acknowledged:
    """What the killed processes said to have done, and the call that was under way at the last kill."""

    model: Model = field(default_factory=Model)
    records: set[str] = field(default_factory=set)
    under_way: str = ""
    unique: int = 0

    def hear(self, lines: list[str]) -> None:
        """Follow the lines of one process."""
        self.under_way = ""
        for what, *rest in (line.split(" ", 3) for line in lines):
            assert what != "refused", rest
            if what == "begin":
                self.under_way, self.unique = rest[0], int(rest[1]) + 1
            elif what == "done":
                self.model, self.under_way = self.model.after(rest[0]), ""
                if rest[0] == "memory":
                    self.records.add(f"Fact {rest[1]}.")
                elif rest[0] == "plan":
                    self.records.add(f"Plan {rest[1]}")


@pytest.mark.slow
def test_a_process_killed_among_calls_keeps_what_it_acknowledged_and_the_next_one_works(
    tmp_path: Path, tried: Callable[..., None]
) -> None:
    chance = random.Random(20_261_129)
    said = Acknowledged()
    root = tree(tmp_path / "w", said.model.files())
    with open_engine(root) as engine:
        engine.index.update()
    in_time = 0
    for trial in range(KILLS):
        tried()
        state = json.dumps([said.model.past, said.model.at])
        said.hear(killed(WRITER, str(root), str(said.unique), state, after_s=chance.uniform(0.05, 1.2)))
        in_time += bool(said.under_way)
        with open_engine(root) as engine:
            call = caller(engine)
            text, is_error = call("find_symbol", {"name": "price_*"})
            if said.under_way and contents(root) == said.model.after(said.under_way).files():
                said.model = said.model.after(said.under_way)
            assert contents(root) == said.model.files(), f"trial {trial}: killed in {said.under_way}"
            assert not is_error, f"trial {trial}: {text}"
            name = f"price_{said.model.now[1]}"
            assert name in text or "edited since index" in text, f"trial {trial}: {text}"
            engine.index.update()
            assert name in call("find_symbol", {"name": "price_*"})[0], f"trial {trial}"
            assert engine.index.store.check() == [], f"trial {trial}"
            memories = engine.memory.memories.list_page(MemoryQuery(status="all", limit=10**6)).rows
            assert [row.path for row in memories if row.memory is None] == [], f"trial {trial}: half written"
            kept = {row.memory.content for row in memories if row.memory}
            kept |= {row.goal for row in engine.plans.repository.list_page(PlanQuery(limit=10**6)).rows}
            assert said.records <= kept, f"trial {trial}: lost"
    assert in_time >= KILLS // 2, "most were killed between two calls, which proves nothing"
