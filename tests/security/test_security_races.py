"""A local process exchanges a folder or a file of the workspace with a link to an outside place while every tool is called.

No tool shows a word of the outside, none writes there, and no temporary file is left anywhere.
`CTX_TEST_RACES=5000 pytest -s tests/security/test_security_races.py` is the full length; it prints what happened.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.repo import re2_search
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.profiles import ToolSelection
from context_engine.storage import is_temporary
from context_engine.tools import Call
from tests.support.engines import open_engine
from tests.support.trees import tree

ROUNDS = int(os.environ.get("CTX_TEST_RACES", "150"))
OUTSIDE = "zqoutsidetext"
"""Contained in every outside file; no tool is ever asked for it, so a reply with it has read outside."""
OUTSIDE_NAME = "zqoutsidename"
NEEDLE = "needle"
TOOLS = ("read_file", "read_fragment", "edit_file", "write_file", "safe_replace", "undo_edit", "list_directory")
"""Refused when the path leads outside in the moment they look."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can exchange two names in one step")

EXCHANGING = """
# From far less than a read takes to more than an edit does: so it happens in the middle of every call.
PAUSES_S = (0, 0, 0, 0, 0.0001, 0.0005, 0.002, 0.008)
import ctypes, os, random, signal, sys, time
name, link = map(os.fsencode, sys.argv[1:3])
call, going = ctypes.CDLL(None, use_errno=True).syscall, [True]
signal.signal(signal.SIGTERM, lambda *_: going.clear())
number = {"x86_64": 316, "aarch64": 276, "riscv64": 276}[os.uname().machine]
times = 0
print("ready", flush=True)
while going:
    if call(number, -100, name, -100, link, 2):
        raise OSError(ctypes.get_errno())
    times += 1
    time.sleep(random.choice(PAUSES_S))
if os.path.islink(name):
    call(number, -100, name, -100, link, 2)
print(times, flush=True)
"""


@contextmanager
def exchanging(name: Path, link: Path) -> Generator[Callable[[], int]]:
    """Exchange a name of the workspace with a link, as fast as the machine can; gives how often, once it has ended."""
    command = [sys.executable, "-I", "-S", "-c", textwrap.dedent(EXCHANGING), str(name), str(link)]
    times = [0]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield lambda: times[0]
        finally:
            process.terminate()
            times[0] = int(process.stdout.readline())


def world(folder: Path) -> Path:
    """A workspace, an outside place with the same names in it, and links that lead there."""
    inside = f"def app():\n    return '{NEEDLE}'\n\n\ndef other():\n    return 2\n"
    names = ("pkg/app.py", "pkg/deep/leaf.py", "single.py")
    tree(folder / "ws", dict.fromkeys([*names, "calm.py"], inside))
    outside = f"def app():\n    return '{NEEDLE}'\n\n\ndef {OUTSIDE}():\n    return '{NEEDLE} {OUTSIDE}'\n"
    tree(folder / "out", dict.fromkeys([*names, f"pkg/{OUTSIDE_NAME}.py", f"pkg/deep/{OUTSIDE_NAME}.py"], outside))
    for number, name in enumerate(("pkg", "pkg/deep", "single.py")):
        (folder / f"link{number}").symlink_to(folder / "out" / name)
    return folder / "ws"


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below a folder, with its mode and content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, b"" if path.is_dir() else path.read_bytes())
        for path in sorted(folder.rglob("*"))
    }


def calls(path: str, folder: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """One round of every way to read and to write a file that is exchanged, or whose folder is; without an end."""
    for number in range(1 << 40):
        yield "read_file", {"path": path}
        yield "read_fragment", {"path": path, "keywords": [NEEDLE]}
        yield "search_files", {"query": NEEDLE, "context": 3}
        yield "edit_file", {"path": path, "edits": [{"target": "def app", "replace": f"def app_{number}"}]}
        yield "scout", {"keywords": [NEEDLE, "return"]}
        yield "grep_codebase", {"pattern": NEEDLE}
        yield "undo_edit", {}
        yield "list_directory", {"path": folder, "depth": 3}
        yield "write_file", {"path": path, "content": f"def app():\n    return '{NEEDLE} {number}'\n"}
        yield "codebase_retrieval", {"query": "app", "profile": "rich"}
        yield "write_file", {"path": f"{folder}/made/new_{number}.py".removeprefix("./"), "content": f"{NEEDLE}\n"}
        yield "get_context_for_prompt", {"query": "what does app return"}
        yield "safe_replace", {"file_path": path, "old_content": f"'{NEEDLE}", "new_content": f"'{NEEDLE} "}
        yield "index_workspace", {}
        yield "undo_edit", {}


def race(engine: Engine, asked: Iterator[tuple[str, dict[str, Any]]]) -> tuple[Counter[str], list[str]]:
    """Make the calls.

    Returns how many were answered and refused by tool, and replies that show the outside, or a crash.
    """
    gate, racer = (
        ToolDispatcher(single_engine(engine), selection=ToolSelection(profiles=("all", "seeds"))),
        Call(session="racer"),
    )
    counts: Counter[str] = Counter()
    shown = []
    for tool, arguments in asked:
        reply = gate.call(tool, arguments, racer).reply
        counts[f"{tool} {'refused' if reply.is_error else 'answered'}"] += 1
        if any(word in reply.text for word in (OUTSIDE, OUTSIDE_NAME, "INTERNAL")):
            shown.append(f"{tool}: {reply.text[:300]}")
    return counts, shown


def both_happened(counts: Counter[str]) -> bool:
    """Whether some calls were answered and some refused."""
    return min(sum(counts[f"{tool} {verb}"] for tool in TOOLS) for verb in ("answered", "refused")) > 0


@pytest.mark.parametrize(
    ("exchanged", "means", "share"),
    [
        ("pkg", "all", 0.3),
        ("pkg/deep", "all", 0.3),
        ("single.py", "all", 0.2),
        ("pkg", "no ripgrep", 0.1),
    ],
)
def test_whatever_is_exchanged_meanwhile_nothing_outside_is_shown_or_written_and_no_temporary_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanged: str, means: str, share: float
) -> None:
    if means == "no ripgrep":
        monkeypatch.setattr(re2_search, "find_ripgrep", lambda *_, **__: None)
    root = world(tmp_path)
    path, folder, link = {
        "pkg": ("pkg/app.py", "pkg", "link0"),
        "pkg/deep": ("pkg/deep/leaf.py", "pkg", "link1"),
        "single.py": ("single.py", ".", "link2"),
    }[exchanged]
    before, began = snapshot(tmp_path / "out"), time.monotonic()
    with open_engine(root, flush=False) as engine:
        engine.index.update()
        with exchanging(root / exchanged, tmp_path / link) as times:
            counts, shown = race(engine, islice(calls(path, folder), round(ROUNDS * share)))
            for _ in range(10):  # on a busy machine the exchanges of a short race may all come at once
                if both_happened(counts):
                    break
                more, leaked = race(engine, islice(calls(path, folder), round(ROUNDS * share)))
                counts.update(more)
                shown += leaked
    kept = [path for place in ("ws", "out", "link0", "link1") for path in (tmp_path / place).rglob("*")]
    print(
        f"\n{exchanged}, {means}: {times():,} exchanges in {time.monotonic() - began:.0f} s; {dict(sorted(counts.items()))}"
    )
    assert shown == []
    assert snapshot(tmp_path / "out") == before
    assert [path.name for path in kept if is_temporary(path.name)] == []
    assert both_happened(counts), "it was no race"
