"""A server with many threads takes memory from one arena of the C library."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest

from tests.support.trees import tree
from tests.support.waiting import until

needs_glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
ALLOCATING_THREADS = """
import ctypes, threading
{before}
barrier = threading.Barrier(8)
def allocate():
    held = [bytes(1_000 + number) for number in range(1_000)]
    barrier.wait()
    return held
threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
ctypes.CDLL(None).malloc_stats()
"""
KEEP_ONE = "from context_engine.daemon import keep_one_arena; keep_one_arena()"


def count_arenas(before: str, **variables: str) -> int:
    """The arenas of a process in which eight threads allocate at once, as the C library prints them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", ALLOCATING_THREADS.format(before=before)],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return len(re.findall(r"^Arena \d+:", done.stderr, re.MULTILINE))


@needs_glibc
def test_threads_share_one_arena_unless_the_environment_says_another_number() -> None:
    assert count_arenas("") > 1
    assert count_arenas(KEEP_ONE) == 1
    assert count_arenas(KEEP_ONE, MALLOC_ARENA_MAX="4") > 1


def count_thread_arenas(pid: int) -> int:
    """The arenas after the first: the memory of each begins at a multiple of 64 MB, and most of it is only reserved."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    starts = [int(fields[0].partition("-")[0], 16) for fields in lines]
    return sum(
        fields[1] == "rw-p" and start % (64 << 20) == 0 and following[1] == "---p"
        for (fields, following), start in zip(pairwise(lines), starts, strict=False)
    )


@pytest.mark.slow
@needs_glibc
@pytest.mark.parametrize(("variables", "is_one"), [({}, True), ({"MALLOC_ARENA_MAX": "8"}, False)])
def test_a_server_over_http_has_no_arena_for_each_thread(
    tmp_path: Path, variables: dict[str, str], *, is_one: bool
) -> None:
    root = tree(tmp_path / "app", {f"m{number}.py": f"def lion_{number}(): ...\n" for number in range(50)})
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CTX_", "MALLOC_"))}
    environment |= {"CTX_CACHE_FOLDER": str(tmp_path / "cache"), "CTX_WORKERS": "0", **variables}
    command = [sys.executable, "-m", "context_engine", "serve", "--root", str(root), "--http", "0", "--no-token"]
    with subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "serving" in line)
            address = re.findall(r"http://\S+:\d+", line)[0]
            until(lambda: httpx2.get(f"{address}/ready").status_code == 200)
            assert (count_thread_arenas(process.pid) == 0) == is_one
        finally:
            process.kill()
