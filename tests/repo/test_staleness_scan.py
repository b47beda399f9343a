"""The sweep: what a look at sizes and times tells, and when only a walk can tell more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.repo.walker import ScanResult, scan, walk
from tests.support.trees import tree

FILES = {"a.py": "1", "src/b.py": "22", "src/deep/c.py": "333", ".gitignore": "*.log\n"}


def swept(root: Path, change: object = None) -> ScanResult:
    """What a sweep says after a change."""
    before = walk(root)
    if callable(change):
        change()
    return scan(root, before.files(), before.folders)


def test_an_edit_whose_time_was_put_back_shows_by_its_size(tmp_path: Path) -> None:
    root = tree(tmp_path, FILES)
    status = (root / "a.py").stat()

    def edit() -> None:
        (root / "a.py").write_text("12")
        os.utime(root / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns))

    assert swept(root, edit).changed == {"a.py"}


def test_a_changed_ignore_file_asks_for_a_walk(tmp_path: Path) -> None:
    root = tree(tmp_path, FILES)
    found = swept(root, lambda: (root / ".gitignore").write_text("*.py\n"))
    assert found.changed == {".gitignore"}
    assert found.needs_walk


def test_a_file_that_became_a_folder_is_a_change(tmp_path: Path) -> None:
    root = tree(tmp_path, FILES)

    def swap() -> None:
        (root / "a.py").unlink()
        (root / "a.py").mkdir()

    found = swept(root, swap)
    assert "a.py" in found.changed | found.removed
    assert found.needs_walk


def test_a_root_that_is_gone_has_lost_everything(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", FILES)
    before = walk(root)
    root.rename(tmp_path / "elsewhere")
    found = scan(root, before.files(), before.folders)
    assert (found.removed, found.needs_walk) == (set(FILES), True)


names = st.sampled_from(["a", "b/c", "b/d", "e/f/g"])


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(names, st.binary(max_size=3)), st.dictionaries(names, st.binary(max_size=3)))
def test_a_sweep_is_clean_exactly_when_a_walk_finds_the_same(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, bytes], then: dict[str, bytes]
) -> None:
    """The law. Files are only ever written anew, so that a time never stays the same over an edit."""
    root = tree(tmp_path_factory.mktemp("law"), first)
    before = walk(root)
    for number, (path, content) in enumerate(sorted(then.items())):
        tree(root, {path: content})
        os.utime(root / path, ns=(0, number + 1))
    after = walk(root)
    found = scan(root, before.files(), before.folders)
    changed = {path for path in before.files() if after.files()[path] != before.files()[path]}
    assert found.changed == changed
    assert found.removed == frozenset()
    assert found.needs_walk or set(after.files()) == set(before.files())
