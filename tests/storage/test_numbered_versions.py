"""A version is made once, by whoever comes first, and can be read for good."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from context_engine.errors import StorageCorrupt
from context_engine.storage import records
from context_engine.storage.records import NumberedVersions
from context_engine.storage.state_folder import StateFolder


@pytest.fixture
def versions(tmp_path: Path) -> NumberedVersions:
    return NumberedVersions(StateFolder(tmp_path / "home").folder("plans/one"))


def test_a_damaged_file_is_named_and_the_others_are_read(
    versions: NumberedVersions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "VERSION_BYTES_MAX", 1_000)
    versions.add(1, b"x" * 1_001)
    versions.add(2, b"sound")
    with pytest.raises(StorageCorrupt, match=r"v0001\.json of one") as caught:
        versions.read(1)
    assert caught.value.details["file"] == "v0001.json"
    assert versions.read(2) == b"sound"


def test_other_files_are_no_versions(versions: NumberedVersions) -> None:
    versions.add(3, b"third")
    for name in ("v3.json", "v0004.json.tmp", "w0005.json", "v0006.txt", "PLAN.md", "v0007.JSON"):
        (versions.folder / name).write_bytes(b"?")
    assert versions.numbers() == (3,)


def _adding(home: Path, worker: int, count: int) -> None:
    made = NumberedVersions(StateFolder(home).folder("one"), flush=False)
    for _ in range(count):
        number = 1
        while not made.add(number, f"{worker}".encode()):
            number = max(made.numbers(), default=0) + 1


def test_four_processes_that_add_as_fast_as_they_can_lose_none_and_overwrite_none(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_adding, args=(tmp_path, worker, 25)) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    made = NumberedVersions(StateFolder(tmp_path).folder("one"))
    assert made.numbers() == tuple(range(1, 101))
    by_worker = [made.read(number) for number in made.numbers()]
    assert all(by_worker.count(f"{worker}".encode()) == 25 for worker in range(4))
