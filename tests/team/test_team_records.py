"""What a team knows, on one real PostgreSQL: each machine has files of its own, and all of them have the same."""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.errors import (
    Conflict,
    InvalidArgument,
    PlanNotFound,
    StorageBusy,
    StoreUnavailable,
    StoreUnusable,
)
from context_engine.memory.memory_requests import MemoryDraft, MemoryQuery
from context_engine.plans.plan_events import DECIDED
from context_engine.plans.plan_repository import PlanQuery as Planned
from context_engine.settings import Settings
from context_engine.storage.confined_folder import is_temporary
from context_engine.storage.records import RecordFolder
from context_engine.team import synced_folder
from context_engine.team.postgres_records import PostgresRecords
from context_engine.team.synced_folder import TeamRecords, open_team_records
from tests.support.children import killed
from tests.support.databases import common_database, forbid, new_database, reader_of, sever, sql
from tests.support.desks import Desks, change_goal, plan, step
from tests.support.engines import open_engine
from tests.support.remembering import Remembering
from tests.support.trees import repository
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[2]
WRITES = int(os.environ.get("CTX_TEST_TEAM_WRITES", "4"))
"""Of each of two machines: as many versions of one plan, moves of a step, and memories."""
KILLS = int(os.environ.get("CTX_TEST_TEAM_KILLS", "2"))

EXAMPLES = int(os.environ.get("CTX_TEST_TEAM_EXAMPLES", "10"))


def shared_records(folder: Path, address: str, repository: str) -> TeamRecords:
    return TeamRecords(PostgresRecords(address), repository, folder / "cache", rest_s=0.0)


class Machine:
    """One machine of a team: its own work tree, its own cache, the team's database."""

    def __init__(self, folder: Path, address: str, repository: str) -> None:
        self.folder = folder / "app"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.shared_records = shared_records(folder, address, repository)
        self.desks = Desks(self.folder, shared_records=self.shared_records)
        self.desk, self.steps, self.approvals = (
            self.desks.plans.repository,
            self.desks.plans.steps,
            self.desks.plans.approvals,
        )
        self.memories = Remembering(self.folder, shared_records=self.shared_records).memories

    def remembered(self) -> dict[str, str]:
        return {entry.name: entry.memory.content for entry in self.memories.entries() if entry.memory}

    def files(self) -> dict[str, bytes]:
        """All that is there and is the team's; how far this machine wrote a log is its own."""
        self.memories.entries()
        self.desks.plans.repository.list_page(Planned())
        home = self.folder / ".context-engine"
        found = (path for kind in ("plans", "memories") for path in (home / kind).rglob("*") if path.is_file())
        return {
            path.relative_to(home).as_posix(): path.read_bytes()
            for path in found
            if path.name not in ("index.json", "events.head")
            and synced_folder.CONFLICT not in path.name
            and not is_temporary(path.name)
        }

    def lie(self, path: str) -> Path:
        return self.folder / ".context-engine" / path

    def aside(self) -> list[Path]:
        return sorted(self.folder.rglob(f"*{synced_folder.CONFLICT}*"))


OpenMachine = Callable[[str], Machine]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[OpenMachine]:
    made: list[Machine] = []

    def open_one(name: str) -> Machine:
        made.append(Machine(tmp_path / name, common_database(), str(tmp_path)))
        return made[-1]

    yield open_one
    for each in made:
        each.shared_records.close()


# -- what one machine does, another one has ----------------------------------------------------------------------------


def test_what_is_remembered_changed_or_forgotten_here_is_so_there(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    added = here.memories.add(MemoryDraft("decisions", "Money is counted in cents."))
    (row,) = there.memories.list_page(MemoryQuery(query="money")).rows
    assert row.memory and row.memory.id == added.id
    there.memories.update(added.id, {"category": "facts"})
    assert [name.split("/")[0] for name in here.remembered()] == ["facts"]
    assert here.memories.add(MemoryDraft("facts", "Money is counted in cents.")).action == "duplicate"
    here.memories.delete(added.id)
    assert there.remembered() == {}


def test_a_plan_that_is_thrown_away_is_so_everywhere_and_can_be_taken_back_anywhere(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    plan_id = here.desk.save(plan(), name="Cents").plan.id
    before = there.files()
    trashed = there.desk.delete("Cents")[1]
    with pytest.raises(PlanNotFound):
        here.desk.load("Cents")
    assert here.files() == there.files() != before
    (here.folder / trashed).rename(here.lie(f"plans/{plan_id}"))
    assert here.desk.load("Cents").plan.id == there.desk.load("Cents").plan.id == plan_id
    assert here.files() == there.files() == before
    here.desk.delete("Cents", purge=True)
    assert there.files() == {}


def test_memories_of_a_person_and_records_of_another_repository_stay_where_they_are(
    machine: OpenMachine, tmp_path: Path
) -> None:
    here, there = machine("here"), machine("there")
    here.memories.add(MemoryDraft("preferences", "I like tabs.", scope="user"))
    here.memories.add(MemoryDraft("decisions", "Money is counted in cents."))
    other = Machine(tmp_path / "other", common_database(), f"{tmp_path} of somebody else")
    assert (len(here.remembered()), len(there.remembered()), other.remembered()) == (2, 1, {})
    other.shared_records.close()


def test_names_are_unique_among_all_machines(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    assert here.desk.save(plan(), name="Cents").version.name == "Cents"
    assert there.desk.save(plan(), name="cents").version.name == "cents (2)"


# -- people and git ----------------------------------------------------------------------------------------------------


def a_memory(here: Machine, content: str = "Money is counted in cents.") -> str:
    """The name of a new memory."""
    here.memories.add(MemoryDraft("decisions", content))
    (name,) = here.remembered()
    return name


def rewrite(here: Machine, name: str, old: str, new: str) -> None:
    """Edit a memory by lease."""
    file = here.lie(f"memories/{name}")
    file.write_text(file.read_text().replace(old, new))


def test_what_a_person_writes_into_a_file_is_the_teams_with_the_next_look(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    name = a_memory(here)
    rewrite(here, name, "cents", "pence")
    here.desks.write(".context-engine/memories/facts/by-lease.md", "Tests need no network.\n")
    here.remembered()
    assert there.remembered() == here.remembered()
    assert there.remembered()[name] == "Money is counted in pence."
    assert here.shared_records.problem == there.shared_records.problem == ""


def test_a_memory_that_is_moved_by_hand_is_moved_for_all(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    name = a_memory(here)
    there.remembered()
    here.lie("memories/facts").mkdir()
    here.lie(f"memories/{name}").rename(here.lie("memories/facts/cents.md"))
    assert [*here.remembered()] == [*there.remembered()] == ["facts/cents.md"]


def test_where_two_people_wrote_the_teams_counts_and_the_other_is_kept_beside_it(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    name = a_memory(here)
    there.remembered()
    rewrite(here, name, "cents", "pence")
    rewrite(there, name, "cents", "pfennigs")
    here.remembered()
    there.remembered()
    (aside,) = there.aside()
    assert "pfennigs" in aside.read_text() and "pence" in there.lie(f"memories/{name}").read_text()
    assert aside.name in there.shared_records.problem == there.memories.list_page(MemoryQuery()).warnings[0]
    assert (here.aside(), here.shared_records.problem) == ([], "")
    aside.unlink()
    there.remembered()
    assert there.shared_records.problem == ""
    assert here.files() == there.files()


def test_an_older_state_that_git_brings_back_is_no_edit(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    name = a_memory(here)
    old = here.lie(f"memories/{name}").read_bytes()
    (added,) = (entry.memory.id for entry in here.memories.entries() if entry.memory)
    there.memories.update(added, {"content": "Money is counted in pence."})
    here.remembered()
    here.lie(f"memories/{name}").write_bytes(old)
    assert here.remembered() == there.remembered() == {name: "Money is counted in pence."}
    there.memories.delete(added)
    here.remembered()
    here.desks.write(f".context-engine/memories/{name}", old.decode())
    assert here.remembered() == there.remembered() == {}
    assert here.aside() == there.aside() == []


def test_a_file_that_vanished_comes_back(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    name = a_memory(here)
    here.desk.save(plan(), name="Cents")
    before = there.files()
    here.lie(f"memories/{name}").unlink()
    for file in here.lie("plans").glob("*/*"):
        file.unlink()
    assert here.files() == there.files() == before


def test_a_file_that_is_too_large_for_the_team_stays_as_it_is_on_its_machine(
    machine: OpenMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synced_folder, "BYTES_MAX", 1_000)
    here, there = machine("here"), machine("there")
    name = a_memory(here)
    there.remembered()
    rewrite(there, name, "cents", "cents " * 500)
    text = there.lie(f"memories/{name}").read_text()
    there.remembered()
    here.memories.add(MemoryDraft("facts", "Tests need no network."))
    assert len(there.remembered()) == 2
    assert there.lie(f"memories/{name}").read_text() == text
    assert f"{name} cannot be read" in there.shared_records.problem
    assert here.remembered()[name] == "Money is counted in cents."


def test_a_version_or_a_log_that_was_tampered_with_is_the_teams_again_and_kept_aside(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    plan_id = here.desk.save(plan(), name="Cents").plan.id
    here.steps.start("Cents", 1)
    before = there.files()
    for name in ("v0001.json", "events.jsonl"):
        file = here.lie(f"plans/{plan_id}/{name}")
        file.write_bytes(file.read_bytes().replace(b"agent", b"nobody"))
    assert here.files() == there.files() == before
    assert [path.name.partition("_")[0] for path in here.aside()] == ["events", "v0001"]


def test_of_two_plans_that_grew_apart_without_the_database_one_counts_and_nothing_is_lost(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    made = here.desk.save(plan(), name="Cents").plan
    there.files()
    for each in (here, there):  # as with CTX_STORE_RECORDS off
        alone = Desks(each.folder)
        alone.plans.repository.save(msgspec.structs.replace(made, goal=each.folder.parent.name), overwrite=True)
    for each in (here, there):
        assert each.desk.load("Cents").plan.goal == "here"
    assert here.files() == there.files()
    assert {path.name.partition("_")[0] for path in there.aside()} == {"events", "v0002", "PLAN"} - {"PLAN"}
    assert b'"there"' in b"".join(path.read_bytes() for path in there.aside())


WORDS = st.lists(
    st.tuples(st.sampled_from(["edit", "edit", "put", "drop", "vanish", "look"]), st.integers(0, 1), st.integers(0, 1)),
    max_size=10,
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(WORDS)
def test_whatever_people_and_tools_do_all_machines_end_alike_and_no_text_is_lost(
    acts: list[tuple[str, int, int]],
) -> None:
    """In plain words: each text that was still in its file when its machine looked is the team's, was so once, or lies aside."""
    with TemporaryDirectory() as folder:
        chosen = f"laws of {folder}"
        teams = [shared_records(Path(folder, name), common_database(), chosen) for name in ("here", "there")]
        notes = [
            RecordFolder(Path(folder, name), "notes", shared_records=team)
            for name, team in zip(("here", "there"), teams, strict=True)
        ]
        written: list[dict[str, bytes]] = [{}, {}]
        kept: set[tuple[str, bytes]] = set()
        for number, (act, where, which) in enumerate(acts):
            here, path, text = notes[where], f"n/{which}.md", str(number).encode()
            if act == "edit":
                (here.folder / "n").mkdir(parents=True, exist_ok=True)
                (here.folder / path).write_bytes(text)
                written[where][path] = text
            elif act == "vanish":
                (here.folder / path).unlink(missing_ok=True)
                written[where].pop(path, None)
            else:
                kept |= set(written[where].items())
                written[where].clear()
                tool(here, act, path, text)
        for here in (*notes, *notes):
            here.listing()
        kept |= {each for edits in written for each in edits.items()}
        ended = [
            {name: here.read(name) for name in here.listing() if synced_folder.CONFLICT not in name} for here in notes
        ]
        assert ended[0] == ended[1]
        aside = {each.read_bytes() for here in notes for each in here.folder.rglob(f"*{synced_folder.CONFLICT}*")}
        remote = teams[0].remote
        lost = [
            text
            for path, text in kept
            if text not in aside and not remote.find_earlier_contents(chosen, "notes", {path: sha256(text).hexdigest()})
        ]
        assert lost == []
        for team in teams:
            team.close()


def tool(here: RecordFolder, act: str, path: str, text: bytes) -> None:
    """What a tool does; looking is the least of it."""
    if act == "look":
        here.listing()
        return
    with here.writing():
        if act == "put":
            here.replace(path, text)
        else:
            here.remove(path)


# -- trouble -----------------------------------------------------------------------------------------------------------


def test_while_the_database_is_away_everything_can_be_read_and_nothing_is_written(
    machine: OpenMachine, tmp_path: Path
) -> None:
    address = new_database()
    here = Machine(tmp_path / "here", address, "app")
    name = a_memory(here)
    here.desk.save(plan(), name="Cents")
    before = here.files()
    with forbid(address):
        for write in (
            lambda: here.desk.save(plan(), name="Second"),
            lambda: here.steps.start("Cents", 1),
            lambda: here.desk.delete("Cents"),
            lambda: here.memories.add(MemoryDraft("decisions", "Nobody will read this.")),
        ):
            with pytest.raises(StoreUnavailable):
                write()
        assert here.files() == before and [*here.remembered()] == [name]
        assert "does not answer" in here.shared_records.problem
        assert "does not answer" in here.desk.load("Cents").warnings[0]
        assert "does not answer" in here.memories.list_page(MemoryQuery()).warnings[0]
    here.steps.start("Cents", 1)
    here.memories.add(MemoryDraft("decisions", "Everybody reads this."))
    assert here.shared_records.problem == ""
    here.shared_records.close()


def test_when_the_connection_is_lost_while_writing_nothing_is_written(tmp_path: Path) -> None:
    address = new_database()
    here = Machine(tmp_path / "here", address, "app")
    plan_id = here.desk.save(plan(), name="Cents").plan.id
    before = here.files()
    records = here.desks.plans.repository._storage.records
    with records.writing(plan_id):
        sever(address)
        with pytest.raises(StoreUnavailable):
            records.add(plan_id, 2, b"{}")
    assert here.files() == before
    here.steps.start("Cents", 1)
    here.shared_records.close()


def test_who_may_only_read_the_database_reads_and_keeps_what_he_wrote(tmp_path: Path) -> None:
    address = new_database()
    writer = Machine(tmp_path / "writer", address, "app")
    name = a_memory(writer)
    only_reads = reader_of(address)
    reader = Machine(tmp_path / "reader", only_reads, "app")
    assert [*reader.remembered()] == [name]
    with pytest.raises(StoreUnusable):
        reader.memories.add(MemoryDraft("decisions", "Nobody will read this."))
    rewrite(reader, name, "cents", "pence")
    assert reader.remembered()[name].endswith("pence.") and writer.remembered()[name].endswith("cents.")
    assert "not the team's yet" in reader.shared_records.problem
    role = only_reads.partition("//")[2].partition(":")[0]
    tables = ", ".join(f"context_engine.{name}" for name in ("record", "record_kind", "record_known"))
    sql(address, f"GRANT INSERT, UPDATE ON {tables} TO {role}")
    reader.memories.add(MemoryDraft("decisions", "Everybody reads this."))
    assert writer.remembered() == reader.remembered()
    assert len(writer.remembered()) == 2
    for each in (writer, reader):
        each.shared_records.close()


def test_what_was_seen_can_be_forgotten_or_damaged_and_nothing_deleted_comes_back(machine: OpenMachine) -> None:
    here, there = machine("here"), machine("there")
    here.desk.save(plan(), name="Cents")
    here.desk.save(plan(), name="Pence")
    here.steps.start("Cents", 1)
    there.files()
    there.shared_records.close()
    there.desk.delete("Pence", purge=True)
    for damage in (b"", b"no notes"):
        (seen,) = (here.folder.parent / "cache").glob("commons-plans-*.seen")
        seen.write_bytes(damage)
        assert here.files() == there.files()
        assert here.aside() == []


def test_no_name_in_the_database_leads_out_of_the_folder(machine: OpenMachine, tmp_path: Path) -> None:
    here = machine("here")
    name = a_memory(here)
    names = [
        "../escaped.md",
        "/escaped.md",
        "a/../../escaped.md",
        ".git/hooks.md",
        "deep/er/escaped.md",
        "c:/x.md",
        "loose.md",
    ]
    with here.shared_records.remote.acquire_lease(str(tmp_path), "memories", 1.0) as lease:
        lease.put({**dict.fromkeys(names, b"out"), "facts/sound.md": b"Tests need no network."})
    assert {*here.remembered()} == {name, "facts/sound.md"}
    assert here.shared_records.problem == ""
    assert [path for path in tmp_path.rglob("*.md") if path.read_bytes() == b"out"] == []


def test_two_who_write_at_once_take_turns_or_hear_of_each_other(
    machine: OpenMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = machine("here"), machine("there")
    name = a_memory(here)
    monkeypatch.setattr(synced_folder, "WAIT_S", 0.1)
    with (
        here.shared_records.remote.acquire_lease(here.shared_records.repository, "memories", 1.0),
        pytest.raises(StorageBusy),
    ):
        there.memories.add(MemoryDraft("decisions", "Nobody will read this."))
    assert [*there.remembered()] == [name]


def test_into_a_clone_nothing_is_written(tmp_path: Path) -> None:
    address = new_database()
    knobs = {"store_url": address, "store_records": True, "store_repository": "app"}
    clone = repository(tmp_path / "cache" / "clones" / "app", {"a.py": "x = 1\n"})
    with open_engine(repository(tmp_path / "app", {"a.py": "x = 1\n"}), **knobs) as engine:
        engine.memory.memories.add(MemoryDraft("decisions", "Money is counted in cents."))
    with open_engine(clone, **knobs, cache_folder=tmp_path / "cache") as engine:
        assert engine.memory.memories.list_page(MemoryQuery()).rows == ()
    assert not (clone / ".context-engine").exists()


@pytest.mark.parametrize("address", ["", "embedded", "qdrant://host", "https://KEY@host"])
def test_only_a_postgresql_holds_records(address: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="PostgreSQL"):
        open_team_records(tmp_path, Settings(store_url=address, store_repository="app"), tmp_path)


# -- several at once, and killed ---------------------------------------------------------------------------------------


def writing(folder: Path, address: str, repository: str, writer: int) -> None:
    """What one machine of two does, while the other does the same: they decide, one yes and one no, and then write."""
    here = Machine(folder / f"machine {writer}", address, repository)
    (request,) = here.desk.load("shared").approvals
    outcome = "refused"
    with suppress(Conflict):
        again(lambda: here.approvals.respond(request.id, ("approve", "reject")[writer]))
        outcome = "counts"
    (folder / f"{writer}.outcome").write_text(outcome)
    until((folder / f"{1 - writer}.outcome").exists)
    for number in range(WRITES):
        change_goal(here.desk, f"{writer}.{number}")
        again(lambda: here.steps.start("shared", f"s{writer}"))
        again(lambda: here.steps.fail("shared", f"s{writer}", release=True))
        said = f"{('Otters', 'Badgers')[writer]} hold {number} {('stones', 'worms', 'paws', 'tails')[number % 4]} in the cellar {number}."
        again(lambda said=said: here.memories.add(MemoryDraft("facts", said)))
        again(lambda number=number: here.desk.save(plan(goal=f"{writer}.{number}"), name=f"own {writer}.{number}"))
        here.desk.delete(f"own {writer}.{number}") if number % 2 else None
    here.shared_records.close()


def again(write: Callable[[], object]) -> None:
    """A write, until it is this machine's turn."""
    while True:
        with suppress(StorageBusy):
            write()
            return


@pytest.mark.slow
def test_two_machines_that_write_at_once_lose_none_of_their_writes(tmp_path: Path) -> None:
    address = new_database()
    first = Machine(tmp_path / "first", address, "app")
    first.desk.save(plan(step("s0"), step("s1")), name="shared")
    first.approvals.request("shared")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=writing, args=(tmp_path, address, "app", writer)) for writer in range(2)]
    for each in writers:
        each.start()
    for each in writers:
        each.join(300)
    assert [each.exitcode for each in writers] == [0, 0]
    assert sorted((tmp_path / f"{writer}.outcome").read_text() for writer in range(2)) == ["counts", "refused"]
    ended = [first, *(Machine(tmp_path / f"machine {writer}", address, "app") for writer in range(2))]
    files = [each.files() for each in ended]
    assert files[0] == files[1] == files[2]
    shared = first.steps.read_state("shared")
    assert shared.versions == tuple(range(1, 2 * WRITES + 2))
    wanted = {f"{writer}.{number}" for writer in range(2) for number in range(WRITES)}
    assert {first.desk.load("shared", number).plan.goal for number in shared.versions[1:]} == wanted
    assert len([event for event in shared.events if event.step]) == 2 * 2 * WRITES
    assert [event.kind for event in shared.events].count(DECIDED) == 1
    assert len(first.remembered()) == 2 * WRITES
    assert first.desk.list_page(Planned()).total == 1 + 2 * (WRITES - WRITES // 2)
    assert [each.aside() for each in ended] == [[], [], []]
    for each in ended:
        each.shared_records.close()


CHILD = """
import sys
from pathlib import Path
import msgspec
from tests.team.test_team_records import MemoryDraft, Machine
here = Machine(Path(sys.argv[1]), sys.argv[2], "app")
while True:
    loaded = here.desk.load("Cents")
    number = len(loaded.versions) + 1
    here.desk.save(msgspec.structs.replace(loaded.plan, goal=f"goal {number}"), overwrite=True)
    print("saved", number, flush=True)
    here.steps.start("Cents", 1)
    here.steps.fail("Cents", 1, release=True)
    print("seq", len(here.steps.read_state("Cents").events), flush=True)
    here.memories.add(MemoryDraft("facts", f"{here.memories._chance(8).hex()} is number {number}."))
    print("memories", len(here.remembered()), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a signal")
def test_a_machine_that_is_killed_while_it_writes_loses_nothing_that_it_said_and_the_others_see_it_whole(
    tmp_path: Path,
) -> None:
    address, chance = new_database(), random.Random(9)
    there = Machine(tmp_path / "there", address, "app")
    there.desk.save(plan(step("s1")), name="Cents")
    for _ in range(KILLS):
        lines = killed(CHILD, str(tmp_path / "here"), address, after_s=chance.uniform(0.05, 0.6))
        said = {what: int(number) for what, number in map(str.split, lines)}
        seen = there.steps.read_state("Cents")
        assert seen.versions == tuple(range(1, seen.versions[-1] + 1))
        assert seen.versions[-1] >= said.get("saved", 0) and len(seen.events) >= said.get("seq", 0)
        assert seen.plan.goal == f"goal {seen.versions[-1]}"
        assert len(there.remembered()) >= said.get("memories", 0)
        if seen.execution.current:
            there.steps.fail("Cents", 1, release=True)
        back = Machine(tmp_path / "here", address, "app")
        assert back.files() == there.files() and back.aside() == []
        back.shared_records.close()
    there.shared_records.close()
