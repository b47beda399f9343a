"""The listing of files to search is kept while it is true, and is true whenever it is asked for."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.errors import Cancelled
from context_engine.repo import searchable_files as module
from context_engine.repo.searchable_files import FileLister, Walk
from context_engine.repo.watch import Watcher
from tests.support.trees import repository, tree

ZOO = {
    "a.py": "a\n",
    "src/b.py": "b\n",
    ".gitignore": "*.log\nout/\n",
    "x.log": "x\n",
    "out/c.py": "c\n",
    ".env": "S=1\n",
}


class Ear(Watcher):
    """A watcher that hears only what a test notes."""

    is_running = is_exact = property(lambda _: True)
    pending = property(lambda _: frozenset())

    def __init__(self) -> None:
        super().__init__(".", lambda _: None)


class Counted:
    """Counts how often the workspace is walked and swept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.walks: list[list[str]] = []
        self.sweeps = 0
        look, sweep = module.walk, module.scan

        def counting_look(root, paths, **more):
            self.walks.append(sorted(paths))
            return look(root, paths, **more)

        def counting_sweep(*args):
            self.sweeps += 1
            return sweep(*args)

        monkeypatch.setattr(module, "walk", counting_look)
        monkeypatch.setattr(module, "scan", counting_sweep)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    return Counted(monkeypatch)


def names(listing: Walk) -> list[str]:
    return [str(each.path) for each in listing.entries]


def test_text_files_that_no_rule_leaves_out_are_listed_whatever_their_size(tmp_path: Path) -> None:
    root = repository(tmp_path / "w")
    tree(root, ZOO | {"big.txt": "x" * 3_000_000, "min.js": "a=b;" * 9_000, "blob.txt": b"a\0b", "wide.txt": "ä".encode("utf-16"), "wider.txt": "ä".encode("utf-32")})  # fmt: skip
    listing = FileLister(root, stale_s=0).listing()
    assert names(listing) == [".gitignore", "a.py", "big.txt", "min.js", "src/b.py", "wide.txt", "wider.txt"]
    assert Counter(row.reason for row in listing.skipped) == {"ignored": 2, "sensitive": 1, "binary": 1}
    assert {row.path: row.reason for row in listing.skipped}["blob.txt"] == "binary"


def test_without_a_watcher_every_change_shows_as_soon_as_the_listing_may_not_be_older(tmp_path: Path) -> None:
    root = tree(tmp_path, ZOO)
    lister = FileLister(root, stale_s=0)
    assert "new.py" not in names(lister.listing())
    tree(root, {"new.py": "n\n"})
    assert "new.py" in names(lister.listing())
    (root / "new.py").unlink()
    assert "new.py" not in names(lister.listing())
    tree(root, {"a.py": b"a\0\0"})
    assert "a.py" not in names(lister.listing())
    tree(root, {".ignore": "src/\n"})
    assert "src/b.py" not in names(lister.listing())


def test_what_a_watcher_hears_is_looked_at_again_and_nothing_else(tmp_path: Path, counted: Counted) -> None:
    root = tree(tmp_path, ZOO)
    lister, ear = FileLister(root, stale_s=0), Ear()
    lister.listing()
    lister.follow(ear)
    lister.listing()  # sweeps once: what changed before the watcher heard anything
    assert counted.sweeps == 1
    tree(root, {"src/new.py": "n\n", "out/ignored.py": "i\n", "more/deep/d.py": "d\n"})
    (root / "src/b.py").unlink()
    lister.note(["src/new.py", "src/b.py", "out/ignored.py", "more"])
    assert names(lister.listing()) == [".gitignore", "a.py", "more/deep/d.py", "src/new.py"]
    assert names(lister.listing()) == names(FileLister(root, stale_s=0).listing())
    assert counted.walks[1] == ["more", "out/ignored.py", "src/b.py", "src/new.py"]
    assert counted.sweeps == 1


PATHS = st.sampled_from(["a", "a/b", "a/b/c", "a!", "a0", "a/b.py", "b.log", ".gitignored", "z"])
CONTENTS = st.sampled_from([None, b"text\n", b"more text\n", b"bin\0ary"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.tuples(PATHS, CONTENTS), min_size=1, max_size=3), min_size=1, max_size=5))
def test_after_any_changes_that_a_watcher_hears_the_listing_is_that_of_a_walk(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[str, bytes | None]]]
) -> None:
    root = tree(tmp_path_factory.mktemp("heard"), ZOO)
    lister = FileLister(root, stale_s=3_600.0)
    lister.follow(Ear())
    lister.listing()
    for changes in rounds:
        for path, content in changes:
            remove(root / path)
            if content is not None and not any(
                (root / path).relative_to(root).is_relative_to(at) for at in files(root)
            ):
                tree(root, {path: content})
        lister.note([path for path, _ in changes] + [""] * (len(rounds) % 2))
        heard, walked = lister.listing(), FileLister(root, stale_s=0).listing()
        assert heard.entries == walked.entries
        assert sorted(map(repr, heard.skipped)) == sorted(map(repr, walked.skipped))


def remove(path: Path) -> None:
    """Delete a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def files(root: Path) -> list[Path]:
    return [path.relative_to(root) for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize("heard", [".ignore", ".git/HEAD", *[[f"f{number}" for number in range(300)]]])
def test_other_rules_another_branch_or_very_much_is_walked_anew(
    tmp_path: Path, counted: Counted, heard: str | list[str]
) -> None:
    root = tree(tmp_path, ZOO)
    lister, ear = FileLister(root, stale_s=0), Ear()
    lister.follow(ear)
    lister.listing()
    lister.listing()
    tree(root, {".ignore": "src/\n"})
    lister.note([heard] if isinstance(heard, str) else heard)
    assert "src/b.py" not in names(lister.listing())
    assert counted.walks == [[""], [""]]


def test_files_are_unchanged_while_their_times_and_names_are(tmp_path: Path) -> None:
    root = tree(tmp_path, ZOO | {"src/deep/d.py": "d\n"})
    for path in [root, *root.rglob("*")]:
        os.utime(path, (1_000_000_000, 1_000_000_000))
    lister = FileLister(root, stale_s=0)
    listing = lister.listing()
    inside = [each for each in listing.entries if each.path.startswith("src/")]
    assert lister.is_unchanged(listing, inside)
    tree(root, {"a.py": "changed\n"})
    assert lister.is_unchanged(listing, inside)
    tree(root, {"src/deep/d.py": "changed\n"})
    assert not lister.is_unchanged(listing, inside)
    tree(root, {"src/deep/d.py": "d\n"})
    os.utime(root / "src/deep/d.py", (1_000_000_000, 1_000_000_000))
    assert lister.is_unchanged(listing, inside)
    (root / "src/deep/d.py").unlink()
    assert not lister.is_unchanged(listing, inside)


def test_a_listing_with_a_file_of_this_very_moment_vouches_for_nothing(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a": "a\n"})
    lister = FileLister(root, stale_s=0)
    listing = lister.listing()
    assert not lister.is_unchanged(listing, listing.entries)
    os.utime(root / "a", (time.time() - 10, time.time() - 10))
    settled = lister.listing()
    assert lister.is_unchanged(settled, settled.entries)


def test_a_listing_that_was_stopped_begins_again(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", ZOO)
    lister = FileLister(root, stale_s=60.0)

    def stop() -> None:
        raise Cancelled("enough")

    with pytest.raises(Cancelled):
        lister.listing(stop)
    assert names(lister.listing()) == [".gitignore", "a.py", "src/b.py"]
    (root / "new.py").write_text("n\n", encoding="utf-8")
    lister.note(["new.py"])
    with pytest.raises(Cancelled):
        lister.listing(stop)
    assert "new.py" in names(lister.listing()), "what was heard is not lost"
