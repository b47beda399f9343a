"""The key that labels are made with: made once, kept for its owner alone, the same for every process; never a reason to fail."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from context_engine.secrets.redactor import KEY_BYTES, NAME, load_label_key


def test_a_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / ".context-engine"
    key = load_label_key(folder)
    assert len(key) == KEY_BYTES
    assert load_label_key(folder) == key
    assert load_label_key(tmp_path / "other") != key


def test_whoever_asks_at_the_same_moment_gets_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: load_label_key(tmp_path / ".context-engine"), range(16)))) == 1
    assert sorted(path.name for path in (tmp_path / ".context-engine").iterdir()) == [".gitignore", NAME]


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    load_label_key(tmp_path / "state")
    assert (tmp_path / "state" / NAME).stat().st_mode & 0o077 == 0


def test_git_does_not_see_it(tmp_path: Path) -> None:
    load_label_key(tmp_path / ".context-engine")
    assert f"/{NAME}" in (tmp_path / ".context-engine" / ".gitignore").read_text().splitlines()


def test_a_damaged_key_is_made_anew(tmp_path: Path) -> None:
    load_label_key(tmp_path)
    (tmp_path / NAME).write_bytes(b"short")
    assert len(load_label_key(tmp_path)) == KEY_BYTES
    assert (tmp_path / NAME).read_bytes() == load_label_key(tmp_path)


def test_where_nothing_can_be_written_there_is_a_key_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert len(load_label_key(tmp_path / "file" / "state")) == KEY_BYTES
