"""An index as one file: taken elsewhere it answers alike; damaged, foreign or broken off it changes nothing, and goes on."""

from __future__ import annotations

import json
import os
import shutil
import threading
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.errors import (
    Cancelled,
    FileNotFound,
    InvalidArgument,
    NotIndexed,
    PreconditionFailed,
    StorageBusy,
    StorageCorrupt,
)
from context_engine.index import index_archive, segment
from context_engine.model import Progress
from tests.support.databases import new_database, qdrant_over_http
from tests.support.engines import answers, indexed, open_engine
from tests.support.trees import tree

FILES = {f"src/part{number}.py": f"def part_{number}(value):\n    return value + {number}\n" for number in range(12)}
QUESTIONS = ("part_3", "return value", "def part")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return tree(tmp_path / "here", FILES)


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """Another machine's copy: one file differs."""
    return tree(tmp_path / "there", FILES | {"src/part5.py": "def part_five():\n    return 5\n"})


@pytest.fixture
def file(here: Path, tmp_path: Path) -> Path:
    with indexed(here) as engine:
        engine.index.export_archive(tmp_path / "here.index")
    return tmp_path / "here.index"


def changed(file: Path, become: Callable[[str, bytes], bytes | None]) -> Path:
    """The archive with other members; None leaves one out."""
    other = file.with_suffix(".changed")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            if (content := become(name, old.read(name))) is not None:
                new.writestr(name, content)
    return other


def told(file: Path, **other: Any) -> Path:
    """The archive with a manifest that says something else."""
    return changed(
        file,
        lambda name, content: (
            json.dumps(json.loads(content) | other).encode() if name == index_archive.MANIFEST else content
        ),
    )


def left(engine: Engine) -> list[str]:
    """What lies beside the index."""
    return sorted(
        path.name for path in engine.cache_folder.iterdir() if path.name.startswith(("import-", "export-", "g-"))
    )


def test_an_index_taken_elsewhere_is_compared_with_the_files_there(file: Path, there: Path) -> None:
    with open_engine(there) as engine:
        said = engine.index.import_archive(file)
        assert (said.name, said.files) == ("here", 12)
        report = engine.index.update()
        assert (report.added, report.changed, report.unchanged) == (0, 1, 11)
        ours = answers(engine, QUESTIONS)
        assert engine.index.find_problems() == []
    with indexed(there) as alone:
        assert answers(alone, QUESTIONS) == ours


def test_nothing_is_believed_of_a_file_that_looks_the_same(file: Path, here: Path, there: Path) -> None:
    """Same size, same time, other content."""
    twin, facts = there / "src" / "part7.py", (here / "src" / "part7.py").stat()
    twin.write_text(FILES["src/part7.py"].replace("part_7", "gone_7"))
    os.utime(twin, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with open_engine(there) as engine:
        engine.index.import_archive(file)
        engine.index.update()
        assert (engine.symbols.find("gone_7").total, engine.symbols.find("part_7").total) == (1, 0)


def test_it_takes_the_place_of_an_index_that_is_there(file: Path, there: Path) -> None:
    with indexed(there) as engine:
        before = answers(engine, QUESTIONS)
        engine.index.import_archive(file)
        engine.index.update()
        assert answers(engine, QUESTIONS) == before
        assert left(engine) == ["g-000002"]


def test_the_manifest_tells_what_an_archive_holds(file: Path) -> None:
    said = index_archive.read_manifest(file)
    with zipfile.ZipFile(file) as opened:
        assert opened.namelist()[0] == index_archive.MANIFEST
        for member in said.members:
            assert len(opened.read(member.name)) == member.size
    assert said.size_bytes == sum(member.size for member in said.members)


def test_an_archive_of_another_schema_is_refused_with_the_way_on(file: Path, there: Path) -> None:
    for other in ({"schema": 4}, {"format": 2}):
        with open_engine(there) as engine, pytest.raises(InvalidArgument, match="schema") as refused:
            engine.index.import_archive(told(file, **other))
        assert "ctx index" in refused.value.suggestion


@pytest.mark.parametrize("name", ["../../evil.seg", "/etc/passwd", "index.db/../x", "CURRENT", "000001.seg.part"])
def test_a_member_that_no_index_holds_is_refused(file: Path, there: Path, name: str) -> None:
    with open_engine(there) as engine, pytest.raises(InvalidArgument, match="is not an exported index"):
        engine.index.import_archive(told(file, members=[{"name": name, "size": 1, "sha256": "0"}]))


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all" * 100])
def test_what_is_no_archive_is_told(tmp_path: Path, there: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with open_engine(there) as engine:
        with pytest.raises(InvalidArgument, match="is not an exported index"):
            engine.index.import_archive(tmp_path / "x")
        with pytest.raises(FileNotFound):
            engine.index.import_archive(tmp_path / "nowhere")


def test_a_damaged_member_changes_nothing_and_what_was_whole_is_kept(file: Path, there: Path) -> None:
    def spoilt(name: str, content: bytes) -> bytes | None:
        return bytes([content[0] ^ 1]) + content[1:] if name.endswith(".seg") else content

    with indexed(there) as engine:
        before = answers(engine, QUESTIONS)
        for each in (spoilt, lambda name, content: content[:-1] if name.endswith(".seg") else content,
                     lambda name, content: content + b"!" if name.endswith(".seg") else content,
                     lambda name, content: None if name.endswith(".seg") else content):  # fmt: skip
            with pytest.raises(StorageCorrupt, match=r"damaged at 0\d+\.seg"):
                engine.index.import_archive(changed(file, each))
        assert answers(engine, QUESTIONS) == before
        assert [path.name for path in engine.cache_folder.glob("import-*/g-*/*")] == ["index.db"]
        engine.index.import_archive(file)
        assert left(engine) == ["g-000002"]


def test_a_broken_import_goes_on_where_it_stopped(here: Path, there: Path, tmp_path: Path) -> None:
    with indexed(here) as engine:
        for number in range(3):  # more segments than one
            (here / f"more{number}.py").write_text(f"def more_{number}():\n    return {number}\n")
            engine.index.update(path=f"more{number}.py")
        said = engine.index.export_archive(tmp_path / "big")
    assert len(said.members) > 3
    cancel, steps = threading.Event(), []

    def stop_after_two(step: Progress) -> None:
        if step.done > sum(each.size for each in said.members[:2]):
            cancel.set()

    with open_engine(there) as engine:
        with pytest.raises(Cancelled):
            engine.index.import_archive(tmp_path / "big", progress=stop_after_two, cancel=cancel)
        aside = next(engine.cache_folder.glob("import-*/g-*"))
        kept = {path.name: path.stat().st_mtime_ns for path in aside.iterdir() if path.suffix != ".part"}
        assert set(kept) >= {each.name for each in said.members[:2]}
        assert not (engine.cache_folder / "CURRENT").exists()
        opened = []
        original = zipfile.ZipFile.open
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                zipfile.ZipFile, "open", lambda self, name, *args: (opened.append(name), original(self, name, *args))[1]
            )
            engine.index.import_archive(tmp_path / "big", progress=steps.append)
        assert set(opened) == {each.name for each in said.members} - set(kept) | {index_archive.MANIFEST}
        unpacking = [step for step in steps if step.stage == "importing"]
        assert [step.done for step in unpacking] == sorted(step.done for step in unpacking)
        assert (unpacking[-1].done, unpacking[-1].total) == (said.size_bytes, said.size_bytes)
        engine.index.update()
        assert engine.index.find_problems() == []


def test_while_somebody_indexes_nothing_is_taken_in(file: Path, there: Path) -> None:
    with indexed(there) as engine, indexed(there) as other, other.index.store.writer(), pytest.raises(StorageBusy):
        engine.index.import_archive(file)


def test_an_export_that_fails_leaves_the_old_file_and_nothing_else(file: Path, here: Path) -> None:
    before = file.read_bytes()
    cancel = threading.Event()
    cancel.set()
    with indexed(here) as engine:
        with pytest.raises(Cancelled):
            engine.index.export_archive(file, cancel=cancel)
        assert left(engine) == ["g-000001"]
    assert file.read_bytes() == before
    assert not file.with_name("here.index.part").exists()


def test_without_an_index_there_is_nothing_to_export(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "new", FILES)) as engine, pytest.raises(NotIndexed):
        engine.index.export_archive(tmp_path / "x")
    assert not (tmp_path / "x").exists()


# -- an index that a team shares ---------------------------------------------------------------------------------------


@cache
def database() -> str:
    return new_database()


@pytest.fixture(params=["postgres", "qdrant"])
def knobs(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Settings of a machine that shares on a store."""
    address = database() if request.param == "postgres" else qdrant_over_http().name
    return {"store_url": address, "store_repository": str(tmp_path), "store_shares": True, "embedder": "static"}


def shared_parts(engine: Engine) -> int:
    """Of how many segments the shared index is made."""
    store: Any = engine.index.store
    return len(store.segment_refs())


def test_an_archive_goes_from_a_shared_store_to_a_machine_and_back(
    here: Path, tmp_path: Path, knobs: dict[str, Any]
) -> None:
    with indexed(here, **knobs) as engine:
        (here / "more.py").write_text("def more():\n    return 1\n")
        engine.index.update(path="more.py")
        assert shared_parts(engine) == 2
        before = answers(engine, QUESTIONS)
        assert engine.index.export_archive(tmp_path / "shared.index").files == 13
        store: Any = engine.index.store
        assert [path.name for path in store.folder.glob("export-*")] == []
        alone = tree(tmp_path / "alone", FILES | {"more.py": "def more():\n    return 1\n"})
        with open_engine(alone, embedder="static") as own:
            assert own.index.import_archive(tmp_path / "shared.index").files == 13
            report = own.index.update()
            assert (report.added, report.changed, report.removed, report.unchanged) == (0, 0, 0, 13)
            assert answers(own, QUESTIONS) == before
            assert own.index.export_archive(tmp_path / "own.index").chunks == 13
        engine.clear_index()
        engine.index.import_archive(tmp_path / "own.index")
        assert [path.name for path in store.folder.glob("import-*")] == []
        report = engine.index.update()
        assert (report.added, report.changed, report.removed, report.unchanged) == (0, 0, 0, 13)
        assert (answers(engine, QUESTIONS), engine.index.find_problems()) == (before, [])


def test_nothing_is_believed_of_a_file_that_looks_the_same_on_a_shared_store(
    file: Path, here: Path, there: Path, tmp_path: Path
) -> None:
    twin, facts = there / "src" / "part7.py", (here / "src" / "part7.py").stat()
    twin.write_text(FILES["src/part7.py"].replace("part_7", "gone_7"))
    os.utime(twin, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with open_engine(there, store_url=database(), store_repository=str(tmp_path), store_shares=True) as engine:
        engine.index.import_archive(file)
        engine.index.update()
        assert (engine.symbols.find("gone_7").total, engine.symbols.find("part_7").total) == (1, 0)


def test_who_does_not_share_puts_nothing_in_the_place_of_what_others_do(
    file: Path, there: Path, knobs: dict[str, Any]
) -> None:
    with open_engine(there, **knobs | {"store_shares": False}) as engine, pytest.raises(PreconditionFailed) as refused:
        engine.index.import_archive(file)
    assert "CTX_STORE_SHARES=1" in refused.value.suggestion and "CTX_STORE_URL" in refused.value.suggestion


def test_an_import_that_did_not_get_into_the_database_goes_on_with_what_was_unpacked(
    file: Path, there: Path, knobs: dict[str, Any]
) -> None:
    cancel = threading.Event()

    def stop_when_sending(step: Progress) -> None:
        if step.stage == "sending":
            cancel.set()

    with open_engine(there, **knobs) as engine:
        with pytest.raises(Cancelled):
            engine.index.import_archive(file, progress=stop_when_sending, cancel=cancel)
        assert not engine.index.is_available()
        steps: list[str] = []
        engine.index.import_archive(file, progress=lambda step: steps.append(step.stage))
        assert set(steps) == {"copying", "sending"}
        assert engine.index.update().changed == 1


# -- mending -----------------------------------------------------------------------------------------------------------


def segments(engine: Engine) -> list[Path]:
    return sorted(engine.cache_folder.glob("g-*/*.seg"))


def flipped(content: bytes) -> bytes:
    """With one bit in the middle of its arrays the other way round."""
    at = len(content) * 3 // 4
    while not content[at]:  # what lies between two arrays belongs to neither
        at += 1
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.fixture
def pieces(here: Path) -> Path:
    """An index of several segments."""
    with indexed(here) as engine:
        for number in range(3):
            (here / f"more{number}.py").write_text(f"def more_{number}():\n    return {number}\n")
            engine.index.update(path=f"more{number}.py")
        assert len(segments(engine)) == 4
    return here


def test_a_sound_index_is_left_as_it_is(pieces: Path) -> None:
    with open_engine(pieces) as engine:
        before = {path: path.read_bytes() for path in segments(engine)}
        assert engine.index.find_problems() == []
        assert engine.index.repair().problems == ()
        assert {path: path.read_bytes() for path in segments(engine)} == before


@pytest.mark.parametrize("how", ["scribbled", "cut", "gone"])
def test_only_the_files_of_a_damaged_segment_are_read_again(pieces: Path, how: str) -> None:
    with open_engine(pieces) as engine:
        before, victim = answers(engine, QUESTIONS), segments(engine)[2]
        content = victim.read_bytes()
        victim.unlink()  # never write into what is mapped
        if how != "gone":
            victim.write_bytes(content[:-9] if how == "cut" else flipped(content))
    with open_engine(pieces) as engine:
        assert engine.index.find_problems()
        mended = engine.index.repair()
        assert (mended.files_lost, mended.is_rebuilt) == (1, False)
        report = engine.index.update()
        assert (report.added, report.unchanged) == (1, 14)
        assert engine.index.find_problems() == []
        assert answers(engine, QUESTIONS) == before


def test_every_byte_of_a_large_segment_is_compared_too(pieces: Path) -> None:
    """When one is opened only its header is: a flip in the middle would rank wrongly for ever."""
    with open_engine(pieces) as engine:
        victim = segments(engine)[0]
        content = victim.read_bytes()
    victim.unlink()
    victim.write_bytes(flipped(content))
    assert segment.load(victim, bytes_checked_max=0).files
    assert "damaged" in segment.find_damage(victim)


def test_a_damaged_list_begins_the_index_anew(pieces: Path) -> None:
    with open_engine(pieces) as engine:
        before, db = answers(engine, QUESTIONS), next(engine.cache_folder.glob("g-*/index.db"))
    db.write_bytes(b"SQLite format 3\0" + bytes(4096))
    for each in db.parent.glob("index.db-*"):
        each.unlink()
    with open_engine(pieces) as engine:
        assert engine.index.find_problems()
        assert engine.index.repair().is_rebuilt
        engine.index.update()
        assert engine.index.find_problems() == []
        assert answers(engine, QUESTIONS) == before


def test_without_an_index_there_is_nothing_to_mend(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "new", FILES)) as engine:
        assert (engine.index.find_problems(), engine.index.repair().problems) == ([], ())
        shutil.rmtree(engine.cache_folder, ignore_errors=True)
