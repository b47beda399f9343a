"""Watching: one burst of edits is one batch, told in paths of the workspace; what cannot be watched says why."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.repo import watch as watching
from context_engine.repo.watch import Batch, Inotify, Watcher
from tests.support.trees import commit, git, repository, tree
from tests.support.waiting import until

QUIET_MS = 150
PATIENCE_S = 60.0
"""How long a test waits for what must come; what must not come is shown by a later edit that does."""


class Receiver:
    """Keeps the batches, and lets a test wait for one."""

    def __init__(self) -> None:
        self.batches: list[frozenset[str]] = []
        self._came = threading.Condition()

    def __call__(self, batch: frozenset[str]) -> None:
        with self._came:
            self.batches.append(batch)
            self._came.notify_all()

    def next(self) -> frozenset[str]:
        """The oldest batch that was not looked at."""
        with self._came:
            assert self._came.wait_for(lambda: self.batches, PATIENCE_S), "no batch came"
            return self.batches.pop(0)

    def until(self, *wanted: str) -> set[str]:
        """All paths up to the batch in which the last wanted one comes."""
        heard: set[str] = set()
        while not heard.issuperset(wanted):
            heard |= self.next()
        return heard


Watched = Callable[..., Receiver]


@pytest.fixture
def watched() -> Iterator[Watched]:
    """Starts a watcher on a folder; ends it after the test."""
    started: list[Watcher] = []

    def start(root: Path, quiet_ms: int = QUIET_MS) -> Receiver:
        receiver = Receiver()
        watcher = Watcher(root, receiver, quiet_ms=quiet_ms)
        watcher.start()
        started.append(watcher)
        assert (watcher.is_running, watcher.problem) == (True, "")
        return receiver

    yield start
    for watcher in started:
        watcher.stop()
        assert watcher.problem == ""


# -- what makes a batch, without a clock ------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 2), st.sampled_from("abc")), max_size=30))
def test_every_path_is_handed_over_once_and_never_later_than_the_longest_burst(gaps: list[tuple[float, str]]) -> None:
    batch, now, waiting = Batch(quiet_s=1, longest_s=5), 0.0, {}
    for gap, path in [*gaps, (9.0, "end")]:
        now += gap
        if batch.is_due(now):
            assert batch.take() == frozenset(waiting)
            waiting.clear()
        assert all(now - since < 5 for since in waiting.values())
        batch.add({path}, now)
        waiting.setdefault(path, now)
    assert batch.take() == {"end"}


# -- what is heard ----------------------------------------------------------------------------------------------------


def test_a_new_a_changed_and_a_deleted_file_are_heard(tmp_path: Path, watched: Watched) -> None:
    root = tree(tmp_path, {"changed.py": "1", "deleted.py": "1", "src/same.py": "1"})
    receiver = watched(root)
    tree(root, {"changed.py": "2", "src/new.py": "1"})
    (root / "deleted.py").unlink()
    assert receiver.next() == {"changed.py", "deleted.py", "src/new.py"}


def test_a_renamed_folder_is_heard_with_its_old_name_and_what_lies_in_the_new(tmp_path: Path, watched: Watched) -> None:
    root = tree(tmp_path, {"old/deep/a.py": "1", "old/b.py": "1"})
    receiver = watched(root)
    (root / "old").rename(root / "new")
    assert receiver.until("old", "new") >= {"old", "new", "new/b.py", "new/deep/a.py"}
    tree(root, {"new/deep/a.py": "2"})
    assert receiver.next() == {"new/deep/a.py"}


def test_what_happens_while_new_folders_are_being_registered_is_heard(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path, {"a.py": "1"})
    receiver = watched(root)
    watch = Inotify.add

    def watch_late(self: Inotify, folder: str) -> None:
        if folder.endswith("new") and not (root / "new" / "deep").exists():
            tree(root, {"new/deep/b.py": "1", "a.py": "2"})
        watch(self, folder)

    monkeypatch.setattr(Inotify, "add", watch_late)
    tree(root, {"new/": ""})
    receiver.until("new", "new/deep/b.py", "a.py")
    tree(root, {"new/deep/b.py": "2"})
    assert receiver.next() == {"new/deep/b.py"}


# -- what is not heard ------------------------------------------------------------------------------------------------


def test_ignored_folders_and_our_own_state_are_not_heard(tmp_path: Path, watched: Watched) -> None:
    quiet = ("node_modules/x/y.js", "build/out.o", ".context-engine/state.db", "src/__pycache__/a.pyc", ".git/config")
    root = repository(tmp_path / "root", {".gitignore": "build/\n", "src/a.py": "1"})
    tree(root, dict.fromkeys(quiet[:4], "1"))
    receiver = watched(root)
    tree(root, dict.fromkeys(quiet, "2"))
    tree(root, {"src/a.py": "2"})
    assert receiver.next() == {"src/a.py"}


def test_when_the_rules_change_the_folders_they_open_are_heard(tmp_path: Path, watched: Watched) -> None:
    root = repository(tmp_path / "root", {".gitignore": "build/\n"})
    tree(root, {"build/a.py": "1"})
    receiver = watched(root)
    tree(root, {".gitignore": "\n"})
    assert receiver.next() == {".gitignore"}
    tree(root, {"build/a.py": "2"})
    assert receiver.next() == {"build/a.py"}


# -- an answer right after a change -----------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a change is reported some 0.1 s later")
@given(st.lists(st.sampled_from(("a.py", "src/b.py", "src/new/c.py", "lib/d/e/f.py")), min_size=1, max_size=6))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_is_pending_at_once(tmp_path: Path, paths: list[str]) -> None:
    root = tree(Path(tempfile.mkdtemp(dir=tmp_path)), {"a.py": "1", "src/b.py": "1"})
    watcher = Watcher(root, Receiver(), quiet_ms=60_000)
    watcher.start()
    for path in paths:
        tree(root, {path: "2"})
        assert path in watcher.pending
    watcher.stop()


def test_when_the_system_drops_changes_all_is_looked_at_again(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = watched(tree(tmp_path, {"a.py": "1"}))
    monkeypatch.setattr(Inotify, "_take_event", lambda *_: {""})
    tree(tmp_path, {"a.py": "2"})
    assert receiver.next() == {".git/HEAD"}


def test_a_watcher_of_whole_trees_hears_edits_in_the_folders_of_the_walk(
    tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS and Windows."""
    monkeypatch.setattr(watching.sys, "platform", "darwin")
    root = tree(tmp_path, {"a.py": "1", ".gitignore": "out/\n", "out/b.py": "1"})
    receiver = watched(root)
    tree(root, {"out/b.py": "2", "a.py": "2", "src/c.py": "1"})
    assert receiver.until("a.py", "src/c.py").isdisjoint({"out/b.py"})


# -- git --------------------------------------------------------------------------------------------------------------


def test_a_branch_switch_is_one_batch_that_names_head(tmp_path: Path, watched: Watched) -> None:
    root = repository(tmp_path / "root", {"a.py": "1", "both.py": "1"})
    git(root, "checkout", "--quiet", "-b", "side")
    (root / "a.py").unlink()
    tree(root, {f"pack/{n % 7}/f{n}.py": str(n) for n in range(300)} | {"both.py": "2"})
    commit(root, "side")
    git(root, "checkout", "--quiet", "main")
    receiver = watched(root, quiet_ms=400)
    git(root, "checkout", "--quiet", "side")
    batch = receiver.next()
    assert batch >= {".git/HEAD", "a.py", "both.py", "pack/0/f0.py", "pack/6/f6.py"}
    assert not any(path.startswith(".git/") for path in batch - {".git/HEAD"})
    tree(root, {"pack/6/f6.py": "x"})
    assert receiver.next() == {"pack/6/f6.py"}


def test_the_head_of_a_linked_work_tree_is_heard_as_its_own(tmp_path: Path, watched: Watched) -> None:
    repo = repository(tmp_path / "repo", {"a.py": "1"})
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    receiver = watched(tmp_path / "linked")
    git(tmp_path / "linked", "checkout", "--quiet", "-b", "other")
    assert receiver.next() == {".git/HEAD"}


def test_a_repository_that_is_made_later_is_heard_from_then_on(tmp_path: Path, watched: Watched) -> None:
    root = tree(tmp_path / "root", {"a.py": "1"})
    receiver = watched(root)
    repository(root)
    assert receiver.next() == {".git/HEAD"}
    git(root, "symbolic-ref", "HEAD", "refs/heads/other")
    assert receiver.next() == {".git/HEAD"}


# -- starting and ending ----------------------------------------------------------------------------------------------


def test_stopping_takes_less_than_a_second_and_ends_the_thread(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path, Receiver(), quiet_ms=60_000)
    watcher.start()
    tree(tmp_path, {"a.py": "2"})
    began = time.monotonic()
    watcher.stop()
    assert time.monotonic() - began < PATIENCE_S  # a second, and not the minute until it is quiet
    assert not watcher.is_running
    watcher._thread.join(PATIENCE_S)
    assert not watcher._thread.is_alive()


def test_stopping_does_not_wait_for_a_receiver_at_work(tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(batch: frozenset[str]) -> None:
        entered.set()
        leave.wait(PATIENCE_S)

    watcher = Watcher(tmp_path, slow, quiet_ms=0)
    watcher.start()
    tree(tmp_path, {"a.py": "2"})
    assert entered.wait(PATIENCE_S)
    began = time.monotonic()
    watcher.stop()
    assert time.monotonic() - began < PATIENCE_S / 2  # the receiver waits for twice that
    leave.set()


# -- what cannot be watched -------------------------------------------------------------------------------------------


def wait_for_problem(watcher: Watcher) -> str:
    until(lambda: not watcher.is_running)
    return watcher.problem


@pytest.mark.parametrize("leaves", [shutil.rmtree, lambda root: root.rename(root.parent / "moved")])
def test_a_root_that_goes_away_is_a_problem(tmp_path: Path, leaves: Callable[[Path], object]) -> None:
    root = tree(tmp_path / "root", {"a.py": "1"})
    watcher = Watcher(root, Receiver(), quiet_ms=QUIET_MS)
    watcher.start()
    leaves(root)
    assert "gone" in wait_for_problem(watcher)


def test_a_receiver_that_fails_ends_the_watch_with_its_reason(tmp_path: Path) -> None:
    def broken(batch: frozenset[str]) -> None:
        raise ValueError("the receiver is broken")

    watcher = Watcher(tmp_path, broken, quiet_ms=0)
    watcher.start()
    tree(tmp_path, {"a.py": "1"})
    assert "the receiver is broken" in wait_for_problem(watcher)


def test_a_network_file_system_is_not_trusted_to_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "find_network_drive", lambda path, kinds: "nfs4")
    watcher = Watcher(tmp_path, Receiver())
    watcher.start()
    assert not watcher.is_running
    assert "nfs4" in watcher.problem


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what is mounted there")
def test_the_file_system_of_a_path_is_that_of_its_nearest_mount() -> None:
    assert watching.find_network_drive("/proc/self", {"proc"}) == "proc"
    assert watching.find_network_drive("/processes", {"proc"}) == ""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "max_user_watches"),
        (OSError(errno.EMFILE, "Too many open files"), "max_user_instances"),
        (OSError("something new"), "something new"),
    ],
)
def test_every_failure_is_told_in_a_sentence(said: Exception, told: str) -> None:
    assert told in watching._in_words(said)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set as Linux sets it")
def test_a_system_that_has_no_watch_left_is_a_problem_with_its_cure(tmp_path: Path) -> None:
    program = """
        import os, resource, sys
        from context_engine.repo.watch import Watcher
        watcher = Watcher(sys.argv[1], print)
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
        full = [os.open("/dev/null", 0) for _ in range(8 - len(os.listdir("/proc/self/fd")) + 1)]
        os.close(full.pop())  # a watcher needs two
        watcher.start()
        os.write(1, f"{watcher.is_running} {watcher.problem}".encode())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tree(tmp_path, {"a/b": "1"}))],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
    )
    assert done.stdout.startswith("False Edits are not followed: ")
    assert "max_user_instances" in done.stdout
