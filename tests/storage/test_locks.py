"""Locks of paths: one holder at a time, whoever he is, and none survives its holder."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from context_engine.errors import StorageBusy
from context_engine.storage.locks import PathLocks

HOLDER = """
import sys
from pathlib import Path
from context_engine.storage.locks import PathLocks
with PathLocks(Path(sys.argv[1])).hold(["a.py"]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_threads_never_hold_a_path_at_once(tmp_path: Path) -> None:
    locks = PathLocks(tmp_path / "locks")
    inside: list[int] = []
    overlaps: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            with locks.hold(["a.py", f"other{number}.py"]):
                inside.append(number)
                time.sleep(0.0005)
                overlaps.append(len(inside) - 1)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == [0] * 40


def test_who_wants_the_same_paths_in_another_order_does_not_wait_for_ever(tmp_path: Path) -> None:
    locks = [PathLocks(tmp_path / "locks") for _ in range(2)]
    paths = [f"{number}.py" for number in range(20)]
    done: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            with locks[number].hold(paths[:: 1 - 2 * number]):
                done.append(number)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(done) == [0] * 5 + [1] * 5


def test_a_path_held_elsewhere_is_refused_and_free_again_when_its_holder_dies(tmp_path: Path) -> None:
    locks = PathLocks(tmp_path / "locks")
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "locks")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StorageBusy, match=r"a\.py"), locks.hold(["b.py", "a.py"], wait_s=0):
            pass
        with pytest.raises(StorageBusy), locks.hold(["A.PY"], wait_s=0):  # the same file where case does not count
            pass
        with locks.hold(["something/else.py"], wait_s=0):
            pass
        holder.kill()
    with locks.hold(["a.py", "b.py"], wait_s=1):
        pass
