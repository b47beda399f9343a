"""Killed inside a transaction, or many writing at once: no file is torn, no call half done, no edit lost.

`CTX_TEST_KILLS=80 CTX_TEST_EDITORS=16 pytest tests/edit/test_durability.py` is the full length (`make kills`).
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.children import child, killed
from tests.support.edits import contents, editing, version
from tests.support.trees import tree

KILLS = int(os.environ.get("CTX_TEST_KILLS", "6"))
EDITORS = int(os.environ.get("CTX_TEST_EDITORS", "4"))
FILES = ("a.py", "b.py", "linked.py", "sub/c.py")
COMES_AND_GOES = "sub/deep/new.py"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")


WRITER = """
    import sys
    from pathlib import Path
    from context_engine.edit.file_edit import delete_file, write_file
    from tests.support.edits import editing, version
    root, number, flush = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "flush"
    comes_and_goes, *files = sys.argv[4:]
    with editing(root, flush=flush) as one:
        one.recover()
        print("go", flush=True)
        while True:
            number += 1
            there = (root / comes_and_goes).exists()
            other = [delete_file(comes_and_goes)] if there else [write_file(comes_and_goes, version(number).decode())]
            one.apply([write_file(path, version(number).decode()) for path in files] + other)
"""


def shown(root: Path) -> int:
    """The version that all files are, whole."""
    found = contents(root)
    assert set(found) - {COMES_AND_GOES} == {*FILES, "other.py"}
    number = int(found["a.py"].split()[4])
    assert {path for path in (*FILES, "other.py") if found[path] != version(number)} == set()
    assert COMES_AND_GOES not in found or found[COMES_AND_GOES] == version(number)
    return number


@pytest.mark.slow
@pytest.mark.kills
def test_a_writer_killed_inside_a_transaction_leaves_all_files_of_one_version(
    tmp_path: Path, tried: Callable[..., None]
) -> None:
    chance = random.Random(20_261_121)
    root = tree(tmp_path / "w", {path: version(0) for path in FILES})
    (root / "other.py").hardlink_to(root / "linked.py")
    number = broken = trial = 0
    while trial < KILLS or (broken < KILLS // 4 and trial < 20 * KILLS):  # a kill may come between two transactions
        trial += 1
        tried()
        how = "flush" if trial % 2 else "quick"
        killed(WRITER, str(root), str(number), how, COMES_AND_GOES, *FILES, after_s=chance.uniform(0.002, 0.08))
        for path in (
            *FILES[:2],
            FILES[3],
        ):  # whole even before anybody mends anything; what is written over need not be
            data = (root / path).read_bytes()
            assert data == version(int(data.split()[4])), f"trial {trial}: {path} is torn"
        with editing(root) as one:
            broken += len(one.recover())
            assert [path.name for path in root.rglob(".ctx-*")] == [], f"trial {trial}"
            before, number = number, shown(root)
            assert number >= before
            if number > before:
                one.undo()
                assert shown(root) == number - 1, f"trial {trial}: the journal does not fit the files"
                one.redo()
                assert shown(root) == number
            assert one.recover() == ()
    assert broken >= KILLS // 4, "most were killed between two transactions, which proves nothing"


LINKER = """
    import errno, os, signal, sys
    from pathlib import Path
    from context_engine.edit.file_edit import write_file
    from context_engine.storage import confined_folder
    from tests.support.edits import editing
    link = os.link
    def link_and_die(*names, **folders):
        link(*names, **folders)
        if "new.py" in names:
            os.kill(os.getpid(), signal.SIGKILL)
    confined_folder._rename_call = lambda: lambda *names: errno.ENOSYS  # a file system that needs two names
    os.link = link_and_die
    with editing(Path(sys.argv[1])) as one:
        one.apply([write_file("new.py", "new")])
"""


def test_a_writer_killed_when_a_new_file_has_two_names_leaves_one(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"old.py": "old"})
    with child(LINKER, str(root)) as process:
        assert process.wait() == -signal.SIGKILL
    assert len(list(root.rglob(".ctx-*.tmp"))) == 1
    with editing(root) as one:
        assert len(one.recover()) == 1
        assert list(root.rglob(".ctx-*")) == []
        assert contents(root) == {"old.py": b"old", "new.py": b"new"}
        one.undo()
        assert contents(root) == {"old.py": b"old"}


EDITOR = """
    import json, sys
    from pathlib import Path
    from context_engine.errors import ContextEngineError
    from tests.support.edits import editing, swap
    root, number, editors = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print("ready", flush=True)
    sys.stdin.readline()
    done, refused = [], []
    with editing(root) as one:
        for line in range(number, 60, editors):
            pair = (f"line {line}\\n", f"edited by {number}\\n" * (1 + line % 3))
            files = ("both.py", "one.py")[:: 1 if number % 2 else -1][: 1 + line % 2]
            try:
                one.apply([swap(path, pair) for path in files])
                done.append([line, files])
            except ContextEngineError as error:
                refused.append(str(error))
    print(json.dumps({"done": done, "refused": refused}))
"""


@pytest.mark.slow
def test_many_processes_edit_the_same_files_and_no_edit_is_lost(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(60)]
    root = tree(tmp_path / "w", {name: "".join(lines) for name in ("both.py", "one.py")})
    processes = [child(EDITOR, str(root), str(number), str(EDITORS)) for number in range(EDITORS)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:  # all at once
        assert process.stdin is not None
        process.stdin.write("now\n")
        process.stdin.flush()
    told = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    assert [each["refused"] for each in told] == [[]] * EDITORS
    expected = {"both.py": list(lines), "one.py": list(lines)}
    for number, each in enumerate(told):
        for line, files in each["done"]:
            for name in files:
                expected[name][line] = f"edited by {number}\n" * (1 + line % 3)
    assert contents(root) == {name: "".join(text).encode() for name, text in expected.items()}
    with editing(root) as one:
        assert len(one.history(100)) == sum(len(each["done"]) for each in told) == 60
        for _ in range(60):
            one.undo()
    assert set(contents(root).values()) == {"".join(lines).encode()}
