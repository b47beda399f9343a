"""Memories are files: whatever people, git and other processes do to them, nothing is lost and nothing is said twice."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from context_engine.errors import (
    AccessDenied,
    FileNotFound,
    InvalidArgument,
    InvalidPath,
    StaleFile,
)
from context_engine.memory.memory_index import TextEmbedder
from context_engine.memory.memory_requests import MemoryDraft, MemoryQuery
from tests.support.children import child, wait_for_all
from tests.support.remembering import FOLDER, Remembering

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"  # shaped like one, and never one
CENTS = MemoryDraft("decisions", "Money is counted in cents, never in floats.", title="Cents")


@pytest.fixture
def here(tmp_path: Path) -> Remembering:
    (tmp_path / "work").mkdir()
    return Remembering(tmp_path / "work")


def statuses(here: Remembering) -> dict[str, tuple[str, str]]:
    """Every memory with its standing, by the name of its file without its id."""
    rows = here.memories.list_page(MemoryQuery(status="all")).rows
    return {row.name.split("/")[1].split("--")[0]: (row.status, row.why) for row in rows}


def names(here: Remembering, **wanted: object) -> list[str]:
    rows = here.memories.list_page(replace(MemoryQuery(), **wanted)).rows
    return [row.memory.title if row.memory else row.name for row in rows]


# -- adding ------------------------------------------------------------------------------------------------------------


def test_a_memory_becomes_a_markdown_file_that_a_person_can_read(here: Remembering) -> None:
    added = here.memories.add(CENTS)
    assert (added.action, added.indexed) == ("created", True)
    text = (here.folder / added.path).read_text()
    assert added.path.startswith(f"{FOLDER}/decisions/cents--")
    assert text.startswith(f"---\nid: {added.id}\ntitle: Cents\n")
    assert text.endswith("---\n\nMoney is counted in cents, never in floats.\n")
    assert "created_at: '2026-11-21T12:00:00.000Z'" in text


@pytest.mark.parametrize("title", ["../../x", "..", "/etc/passwd", "a\\b", "x\0y", "C:\\x", "." * 50, "é" * 200])
def test_a_title_never_leads_out_of_the_folder(here: Remembering, title: str) -> None:
    here.memories.add(replace(CENTS, title=title))
    assert len(here.files()) == 1
    assert [path for path in here.folder.parent.rglob("*.md") if path not in here.files()] == []
    assert here.memories.list_page(MemoryQuery()).total == 1


@pytest.mark.parametrize(
    ("draft", "argument"),
    [
        (replace(CENTS, content="x" * 5_001), "content"),
        (replace(CENTS, content="  \n"), "content"),
        (replace(CENTS, title="x" * 201), "title"),
        (replace(CENTS, category="secrets"), "category"),
        (replace(CENTS, category="../x"), "category"),
        (replace(CENTS, priority="urgent"), "priority"),
        (replace(CENTS, tags=tuple(map(str, range(21)))), "tags"),
        (replace(CENTS, tags=("x" * 51,)), "tag"),
        (replace(CENTS, expires_at="soon"), "expires_at"),
        (replace(CENTS, scope="world"), "scope"),
        (replace(CENTS, content="<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs"), "conflict markers"),
        (replace(CENTS, content="half \ud800"), "surrogate"),
    ],
)
def test_what_is_out_of_bounds_is_refused_before_anything_is_written(
    here: Remembering, draft: MemoryDraft, argument: str
) -> None:
    with pytest.raises(InvalidArgument, match=argument) as refused:
        here.memories.add(draft)
    assert refused.value.suggestion
    assert here.files() == []


def test_linked_files_must_be_files_of_the_workspace(here: Remembering) -> None:
    here.write(".env", "A=1")
    for path, error in (("src/no.py", FileNotFound), ("../x", InvalidPath), (".env", AccessDenied)):
        with pytest.raises(error):
            here.memories.add(replace(CENTS, linked_files=(path,)))
    assert here.files() == []


# -- what is there already ---------------------------------------------------------------------------------------------

NEARLY = replace(CENTS, content="Money is counted in cents, never in any floats.", title="Again", tags=("billing",))


@pytest.mark.parametrize(
    ("on_similar", "action", "files"),
    [
        ("warn", "created", 2),
        ("allow", "created", 2),
        ("reject", "rejected", 1),
        ("supersede", "superseded", 2),
    ],
)
def test_what_is_similar_is_handled_as_asked(here: Remembering, on_similar: str, action: str, files: int) -> None:
    first = here.memories.add(CENTS)
    second = here.memories.add(NEARLY, on_similar=on_similar)
    assert second.action == action
    assert [each.memory.id for each in second.similar if each.memory] == [first.id]
    assert (second.similar[0].score or 0.0) >= 0.8
    assert len(here.files()) == files
    assert bool(second.warnings) == (on_similar == "warn")
    assert (second.id == first.id) == (action == "rejected")


def test_meaning_finds_what_other_words_say(tmp_path: Path) -> None:
    def same(texts: Sequence[str]) -> np.ndarray:
        return np.array([[1.0, "money" in text.lower() or "euro" in text.lower()] for text in texts], np.float32)

    (tmp_path / "work").mkdir()
    here = Remembering(tmp_path / "work", embed=TextEmbedder("toy", same))
    here.memories.add(CENTS)
    similar = here.memories.add(replace(CENTS, content="Every euro is an integer of a hundred.")).similar
    assert (similar[0].score or 0.0) > 0.99


def test_what_is_superseded_says_by_whom_and_holds_again_when_that_is_deleted(here: Remembering) -> None:
    first = here.memories.add(CENTS)
    second = here.memories.add(MemoryDraft("decisions", "Money is a Decimal.", title="Decimal", supersedes=(first.id,)))
    assert second.action == "superseded"
    assert f"superseded_by: {second.id}\n" in (here.folder / first.path).read_text()
    assert statuses(here)["cents"] == ("superseded", f"by {second.id}")
    assert names(here) == ["Decimal"]
    here.memories.delete(second.id)
    assert statuses(here) == {"cents": ("active", "")}


# -- standing ----------------------------------------------------------------------------------------------------------


MONEY = """CENT = 1


def to_cents(euros):
    return round(euros * 100)


def from_cents(cents):
    return cents / 100
"""


def test_a_memory_that_mentions_names_is_stale_only_when_their_lines_change(here: Remembering) -> None:
    here.write("src/money.py", MONEY)
    said = replace(CENTS, content="Only `to_cents` rounds.", linked_files=("src/money.py",))
    here.memories.add(said)
    assert statuses(here)["cents"] == ("active", "")
    here.write("src/money.py", "# amounts\n" + MONEY.replace("cents / 100", "cents / CENT / 100"))
    assert statuses(here)["cents"] == ("active", ""), "a comment and another function"
    here.write("src/money.py", MONEY.replace("    return round", "        return round"))
    assert statuses(here)["cents"] == ("active", ""), "indents"
    here.write("src/money.py", MONEY.replace("round(euros * 100)", "int(euros * 100)"))
    assert statuses(here)["cents"] == ("stale", "src/money.py changed where it has to_cents"), "its body"
    here.write("src/money.py", MONEY.replace("to_cents", "as_cents"))
    assert statuses(here)["cents"][0] == "stale"
    assert names(here, status="stale") == ["Cents"]
    memory = here.memories.list_page(MemoryQuery(status="stale")).rows[0].memory
    assert memory is not None
    here.memories.update(memory.id, {}, still_true=True)
    assert statuses(here)["cents"] == ("active", "")


def test_a_changed_linked_file_makes_a_memory_stale_and_is_named(here: Remembering) -> None:
    here.write("src/money.py", "CENT = 1\n")
    added = here.memories.add(replace(CENTS, linked_files=("src/money.py",)))
    assert statuses(here)["cents"] == ("active", "")
    here.write("src/money.py", "CENT = 100\n")
    assert statuses(here)["cents"] == ("stale", "src/money.py changed")
    assert names(here, status="stale", linked_file="src/money.py") == ["Cents"]
    (here.folder / "src/money.py").unlink()
    assert statuses(here)["cents"] == ("stale", "src/money.py is gone")
    here.write("src/money.py", "CENT = 1\r\n")  # as another checkout has it
    assert statuses(here)["cents"] == ("active", "")
    here.write("src/money.py", "CENT = 2\n")
    here.memories.update(added.id, {}, still_true=True)
    assert statuses(here)["cents"] == ("active", "")


def test_a_memory_expires(here: Remembering) -> None:
    here.memories.add(replace(CENTS, expires_at="2026-12-01"))
    assert statuses(here)["cents"][0] == "active"
    here.at("2026-12-01T00:00:00Z")
    assert statuses(here)["cents"] == ("expired", "on 2026-12-01T00:00:00.000Z")
    assert here.memories.add(CENTS).action == "created"  # it is said anew


def test_a_path_that_a_person_wrote_into_a_file_reads_nothing_outside(here: Remembering) -> None:
    here.write(f"{FOLDER}/facts/a.md", "---\nlinked_files:\n  ../../../etc/passwd: 00\n---\nHi there.\n")
    assert statuses(here)["a.md"] == ("stale", "../../../etc/passwd is gone")


# -- hands -------------------------------------------------------------------------------------------------------------


def test_what_a_person_edits_adds_and_deletes_is_there_with_the_next_call(here: Remembering) -> None:
    added = here.memories.add(CENTS)
    path = here.folder / added.path
    path.write_bytes(path.read_bytes().replace(b"title: Cents", b"title: Dimes"))  # as long as before
    assert names(here) == ["Dimes"]
    here.write(f"{FOLDER}/facts/by-hand.md", "# By hand\n\nThe build needs Go 1.22.\n")
    assert sorted(names(here)) == ["By hand", "Dimes"]
    assert names(here, query="golang build go") == ["By hand"]
    path.unlink()
    assert names(here) == ["By hand"]


def test_a_file_that_was_read_in_the_moment_of_its_change_is_read_again(here: Remembering) -> None:
    path = here.write(f"{FOLDER}/facts/a.md", "# One\n\nSentence.\n")
    soon = time.time_ns() + 10_000_000_000  # as if its clock had not ticked since
    os.utime(path, ns=(soon, soon))
    assert names(here) == ["One"]
    path.write_text("# Two\n\nSentence.\n")
    os.utime(path, ns=(soon, soon))
    assert names(here) == ["Two"]


def test_a_file_written_by_hand_is_changed_without_losing_who_it_is(here: Remembering) -> None:
    here.write(f"{FOLDER}/facts/go.md", "The build needs Go 1.22.\n")
    entry = here.memories.entries()[0]
    assert entry.memory
    here.memories.update(entry.memory.id, {"tags": ("build",), "category": "decisions"})
    moved = here.memories.get(entry.memory.id)
    assert moved.memory
    assert (moved.name, moved.memory.created_at) == ("decisions/go.md", entry.memory.created_at)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"---\nid: [\n---\nBody", "cannot be read"),
        (b"\xff\xfe\x00", "UTF-8"),
        (b"", "no content"),
        (b"x" * 300_000, "262,144"),
        (b"<<<<<<< HEAD\nUse tabs.\n=======\nUse spaces.\n>>>>>>> theirs\n", "conflict markers"),
    ],
)
def test_a_file_that_cannot_be_understood_is_listed_with_the_reason_and_stops_nobody(
    here: Remembering, data: bytes, why: str
) -> None:
    here.memories.add(CENTS)
    here.write(f"{FOLDER}/facts/broken.md", "").write_bytes(data)
    listed = here.memories.list_page(MemoryQuery(status="all"))
    assert listed.total == len(here.files()) == 2
    assert listed.by_status == {"active": 1, "invalid": 1}
    assert why in statuses(here)["broken.md"][1]
    assert here.memories.add(replace(CENTS, content="Something else.", title="New")).action == "created"


def test_a_copied_file_does_not_take_the_place_of_the_first(here: Remembering) -> None:
    added = here.memories.add(CENTS)
    here.write(f"{FOLDER}/facts/copy.md", (here.folder / added.path).read_text())
    assert statuses(here)["copy.md"] == (
        "invalid",
        f"it has the id of {added.path}; remove the line `id`, or one of the two",
    )
    assert here.memories.get(added.id).path == added.path


def test_links_and_odd_things_in_the_folder_are_passed_over(here: Remembering) -> None:
    secret = here.write("secret.txt", "Not to be read.\n")
    here.memories.add(CENTS)
    (here.folder / FOLDER / "decisions/link.md").symlink_to(secret)
    (here.folder / FOLDER / "linked").symlink_to(here.folder / FOLDER / "decisions")
    (here.folder / FOLDER / "decisions/folder.md").mkdir()
    here.write(f"{FOLDER}/README.md", "What this is.\n")
    here.write(f"{FOLDER}/decisions/.hidden.md", "Hidden.\n")
    assert names(here, status="all") == ["Cents"]


def test_two_who_change_one_memory_do_not_lose_what_the_other_did(here: Remembering) -> None:
    added = here.memories.add(CENTS)
    seen = here.memories.get(added.id).version
    here.memories.update(added.id, {"tags": ("mine",)}, expected_version=seen)
    with pytest.raises(StaleFile):
        here.memories.update(added.id, {"tags": ("yours",)}, expected_version=seen)
    with pytest.raises(StaleFile):
        here.memories.delete(added.id, expected_version=seen)
    other = Remembering(here.folder)
    assert names(other, tags=("MINE",)) == ["Cents"]


def test_an_update_changes_what_it_names_and_keeps_the_rest_byte_for_byte(here: Remembering) -> None:
    added = here.memories.add(CENTS)
    path = here.folder / added.path
    path.write_bytes(
        path.read_bytes()
        .replace(b"---\nid", b"---\nreviewers: [ann, bob]  # in turns\nid", 1)
        .replace(b"never", b"**never**")
    )
    here.at("2026-11-22T00:00:00Z")
    updated = here.memories.update(added.id, {"priority": "critical"})
    assert updated.changed == ("priority",)
    text = path.read_text()
    assert "reviewers: [ann, bob]  # in turns\n" in text
    assert "**never**" in text
    assert "priority: critical\n" in text
    assert "updated_at: '2026-11-22T00:00:00.000Z'" in text
    assert here.memories.update(added.id, {"priority": "critical"}).changed == ()
    assert path.read_text() == text


# -- listing -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(here: Remembering) -> Remembering:
    for number, priority in enumerate(("archive", "critical", "helpful")):
        here.at(f"2026-11-2{number}T00:00:00Z")
        kind = ("facts", "decisions")[number % 2]
        here.memories.add(
            MemoryDraft(
                kind,
                f"Number {number} is about {'otters ' * (number + 1)}",
                title=f"{number}",
                priority=priority,
                tags=("zoo", f"n{number}"),
            )
        )
    return here


def test_lists_are_filtered_sorted_and_counted(many: Remembering) -> None:
    assert names(many) == ["2", "1", "0"]
    assert names(many, sort="priority") == ["1", "2", "0"]
    assert names(many, category="facts") == ["2", "0"]
    assert names(many, tags=("zoo", "n1")) == ["1"]
    assert sorted(names(many, query="otter")) == ["0", "1", "2"]
    assert names(many, query="n2") == ["2"]
    listed = many.memories.list_page(MemoryQuery(limit=1))
    assert (listed.total, listed.by_category) == (3, {"decisions": 1, "facts": 2})


# -- many processes, and a cache that goes -----------------------------------------------------------------------------


def test_who_says_the_same_at_the_same_moment_is_told_so(here: Remembering) -> None:
    both = [Remembering(here.folder) for _ in range(4)]
    for number in range(5):
        ready, said = threading.Barrier(len(both)), []

        def add(one: Remembering, number: int = number, ready: threading.Barrier = ready, said: list = said) -> None:
            ready.wait()
            said.append(one.memories.add(MemoryDraft("facts", f"Sentence number {number}")).action)

        threads = [threading.Thread(target=add, args=(one,)) for one in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(said) == ["created", "duplicate", "duplicate", "duplicate"]
    assert len(here.files()) == 5


ADDER = """
    import sys
    from dataclasses import replace
    from pathlib import Path
    from context_engine.memory.memory_requests import MemoryDraft
    from tests.support.remembering import Remembering

    here, number = Remembering(Path(sys.argv[1])), int(sys.argv[2])
    for each in range(50):
        added = here.memories.add(MemoryDraft("facts", f"Process {number} says the word{number}x{each} once", title="Same title"))
        assert added.action == "created", added
"""


@pytest.mark.slow
def test_four_processes_add_fifty_each_and_all_are_found(here: Remembering) -> None:
    wait_for_all([child(ADDER, str(here.folder), str(number)) for number in range(4)])
    assert len(here.files()) == 200
    assert here.memories.list_page(MemoryQuery(limit=200)).total == 200
    for number in range(4):
        for each in (0, 49):
            best = here.memories.list_page(MemoryQuery(query=f"word{number}x{each}")).rows[0].memory
            assert best is not None
            assert f"word{number}x{each} " in best.content
    assert list((here.folder / FOLDER).rglob("*.tmp")) == []


def test_memories_survive_a_restart_and_the_loss_of_the_whole_cache(here: Remembering) -> None:
    here.memories.add(CENTS)
    again = Remembering(here.folder)
    assert names(again, query="money") == ["Cents"]
    for path in here.recall.path.parent.iterdir():
        path.unlink()
    assert names(again, query="money") == ["Cents"]
    here.recall.path.write_bytes(b"no database" * 100)
    assert names(here, query="money") == ["Cents"]
    assert names(Remembering(here.folder), query="money") == ["Cents"]
