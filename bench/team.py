"""What a team's records cost: memories and moves of a plan, written alone and on a PostgreSQL, looked at, and had by a new machine.

python bench/team.py [--memories 300] [--plans 100] [--store URL]     without URL a PostgreSQL is started on a socket
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from context_engine.memory import MemoryDraft
from context_engine.plans import PlanQuery
from context_engine.team.shared_records import SharedRecords, open_shared_records
from tests.support.databases import new_database
from tests.support.desks import Desks, plan
from tests.support.remembering import Remembering

MOVES = 30
LOOKS = 30


class Machine:
    """A work tree and a cache; `address` empty: it is alone."""

    def __init__(self, folder: Path, address: str) -> None:
        (folder / "app").mkdir(parents=True)
        self.shared_records: SharedRecords | None = (
            open_shared_records(address, "bench", folder / "cache") if address else None
        )
        self.desks = Desks(folder / "app", shared_records=self.shared_records)
        self.memories = Remembering(folder / "app", shared_records=self.shared_records).memories

    def move(self) -> None:
        """Two events of one plan: a step begun and given back."""
        self.desks.plans.steps.start("plan 0", 1)
        self.desks.plans.steps.fail("plan 0", 1, release=True)

    def remember(self, number: int) -> None:
        self.memories.add(
            MemoryDraft("facts", f"Number {number} of the things that somebody has to know is {number * 7919}.")
        )

    def look(self) -> None:
        """All that a list of plans and one of memories read, and a look at the database as if the last were long ago."""
        for folder in self.shared_records._folders if self.shared_records else ():
            folder._next_sync_s = 0.0
        self.desks.plans.repository.list_page(PlanQuery())
        self.memories.entries()


def ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1_000 * (time.perf_counter() - began)


def told(name: str, machine: Machine, asked: argparse.Namespace) -> None:
    for number in range(asked.plans):
        machine.desks.plans.repository.save(plan(goal=f"plan {number}"), name=f"plan {number}")
    moves = statistics.median(ms(machine.move) for _ in range(MOVES)) / 2
    remembered = [ms(lambda number=number: machine.remember(number)) for number in range(asked.memories)]
    looks = statistics.median(ms(machine.look) for _ in range(LOOKS))
    print(
        f"{name:18} an event {moves:6.1f} ms, a memory {statistics.median(remembered):6.1f} ms, a look {looks:6.1f} ms"
    )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--memories", type=int, default=300)
    asked.add_argument("--plans", type=int, default=100)
    asked.add_argument("--store", default="")
    given = asked.parse_args()
    address = given.store or new_database()
    with tempfile.TemporaryDirectory() as folder:
        told("alone", Machine(Path(folder) / "alone", ""), given)
        told("on PostgreSQL", Machine(Path(folder) / "here", address), given)
        there = Machine(Path(folder) / "there", address)
        took = ms(there.look)
        count = sum(path.is_file() for path in (Path(folder) / "there/app/.context-engine").rglob("*.[mj]*"))
        print(f"{'a new machine':18} has {count} files after {took:.0f} ms, and a look takes {ms(there.look):.1f} ms")


if __name__ == "__main__":
    main()
