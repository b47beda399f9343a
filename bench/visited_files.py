"""Count the files of the package that run during one operation: how much a reader has to open to follow it.

    python bench/visited_files.py            counts for a copy of this repository's package
    python bench/visited_files.py --list     and the names of the files

A file counts when a function of it runs, in any thread of the process, between the call and its result. Code that runs
while a module is imported does not count: each operation runs twice, and the second run is traced.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from context_engine import Engine  # noqa: E402 - the path is set above
from context_engine.cli.tool_commands import build_dispatcher  # noqa: E402
from context_engine.tools import Call  # noqa: E402

PACKAGE = str(ROOT / "context_engine") + "/"
FILES = ("search", "repo", "text", "model.py", "errors.py")
"""What is copied into the traced workspace: some hundred files."""
TASK = "Give walk() a limit for the number of files"


def main() -> None:
    """Run the operations and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the names of the files")
    names = parser.parse_args().list
    with tempfile.TemporaryDirectory() as folder, Engine.open(make_workspace(Path(folder))) as engine:
        for name, operation in operations(engine, Path(folder)).items():
            operation()
            files = trace(operation)
            print(f"{name:<24}{len(files):>4} files")
            if names:
                print("".join(f"    {file}\n" for file in files), end="")


def make_workspace(folder: Path) -> Path:
    """Copy a part of the package into an empty folder."""
    for name in FILES:
        source = ROOT / "context_engine" / name
        if source.is_dir():
            shutil.copytree(source, folder / "src" / name)
        else:
            shutil.copy(source, folder / "src" / name)
    return folder


def operations(engine: Engine, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the operations by name; each may run more than once and does the same work again."""
    dispatcher = build_dispatcher(engine)
    counter = iter(range(1_000))

    def call(tool: str, arguments: dict[str, Any]) -> None:
        reply = dispatcher.call(tool, arguments, Call()).reply
        assert not reply.is_error, reply.text

    def edit() -> None:
        target = folder / "src" / "errors.py"
        first = target.read_text(encoding="utf-8").splitlines()[0]
        change = {"target": first, "replacement": f'"""Errors, edit {next(counter)}.'}
        call("edit_file", {"path": "src/errors.py", "edits": [change]})

    return {
        "index": lambda: engine.index.update(force=True),
        "codebase_retrieval": lambda: call("codebase_retrieval", {"query": "where are ignore rules applied"}),
        "get_context_for_prompt": lambda: call("get_context_for_prompt", {"query": TASK}),
        "edit_file": edit,
        "create_plan": lambda: call("create_plan", {"task": TASK}),
    }


def trace(operation: Callable[[], object]) -> list[str]:
    """Return the files of the package in which a function runs, in any thread, sorted."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and frame.f_code.co_name != "<module>" and file.startswith(PACKAGE):
            files.add(file.removeprefix(PACKAGE))

    threading.setprofile_all_threads(note) if sys.version_info >= (3, 12) else threading.setprofile(note)
    sys.setprofile(note)
    try:
        operation()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(files)


if __name__ == "__main__":
    main()
