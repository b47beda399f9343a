"""Memories outlive their writers: what a killed process said to have written is there, whole, and nothing is half written.

`CTX_TEST_KILLS=80 pytest tests/memory/test_durability.py` is the full length (`make kills`).
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.memory.memory_requests import MemoryDraft, MemoryQuery
from tests.support.children import killed
from tests.support.remembering import Remembering

KILLS = int(os.environ.get("CTX_TEST_KILLS", "3"))

CHILD = """
import sys
from pathlib import Path
from context_engine.memory.memory_requests import MemoryDraft
from tests.support.remembering import Remembering
here, number = Remembering(Path(sys.argv[1])), int(sys.argv[2])
while True:
    number += 1
    text = f"Fact number {number} is {'word ' * (number % 400)}."
    made = here.memories.add(MemoryDraft("facts", text, title=f"Fact {number}"), on_similar="allow")
    print("added", made.id, number, flush=True)
    if number % 3 == 0:
        here.memories.update(made.id, {"content": text + " Changed."})
        print("changed", made.id, number, flush=True)
    if number % 7 == 0:
        here.memories.delete(made.id)
        print("deleted", made.id, number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.kills
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a signal")
def test_kills_while_memories_are_written_lose_nothing_said_and_leave_nothing_half_written(
    tmp_path: Path, tried: Callable[..., None]
) -> None:
    root = tmp_path / "work"
    root.mkdir()
    chance = random.Random(11)
    state: dict[str, tuple[str, int]] = {}
    last = 0
    for trial in range(KILLS):
        tried()
        for line in killed(CHILD, str(root), str(last), after_s=chance.uniform(0.02, 0.4)):
            what, name, number = line.split()
            state[name], last = (what, int(number)), max(last, int(number))
        last += 1  # the one that nobody was told of may be there
        here = Remembering(root)
        listed = here.memories.list_page(MemoryQuery(status="all", limit=10**6))
        assert [row.path for row in listed.rows if row.memory is None] == [], f"trial {trial}: half written"
        found = {row.memory.id: row.memory for row in listed.rows if row.memory}
        for name, (what, number) in state.items():
            if what == "deleted":
                assert name not in found, f"trial {trial}"
            elif name in found:
                assert what == "added" or found[name].content.endswith("Changed."), f"trial {trial}"
            else:
                assert number % 7 == 0, f"trial {trial}: lost, and not by a deletion that was under way"
        here.memories.add(MemoryDraft("facts", f"Trial {trial} is over.", title=f"Trial {trial}"), on_similar="allow")
    assert last > KILLS
