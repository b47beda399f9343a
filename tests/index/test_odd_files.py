"""A file of an odd size, shape or name crashes and stalls nothing, and the status names what was skipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar

import pytest

from context_engine.errors import InvalidArgument
from context_engine.text import escape_line
from tests.support.engines import open_engine
from tests.support.terminal import runner, sit_down
from tests.support.tool_calls import text
from tests.support.trees import repository, tree

SECONDS_MAX = 2.0
"""Processor time of one step, this process and its children together: waiting for others is not a stall."""
NO_UTF_8 = os.fsdecode(b"caf\xe9.py")
ODD = {  # name: content, line of the definition of `last` that is found (0: not indexed), why the status skips it
    "brackets.py": ("a = " + "[\n" * 5_000 + "]" * 5_000 + "\ndef last(): ...\n", 5_002, ""),
    "calls.js": ("f(\n" * 5_000 + ")" * 5_000 + "\nfunction last() {}\n", 5_002, ""),
    "one_line.c": ("int a = " + "(" * 5_000 + "1" + ")" * 5_000 + ";\nint last() { return 1; }\n", 0, "minified"),
    "long.py": (f"def last(): return '{'lion ' * 2_000_000}'\n", 0, "too_large"),
    "n" * 252 + ".py": ("def last(): ...\n", 1, ""),
    NO_UTF_8: ("def last(): ...\n", 0, "unreadable"),
}
Answer = TypeVar("Answer")


def quickly(step: Callable[[], Answer]) -> Answer:
    before = sum(os.times()[:4])
    answer = step()
    assert sum(os.times()[:4]) - before < SECONDS_MAX
    return answer


@pytest.mark.parametrize("name", ODD, ids=lambda name: ascii(name[-12:]))
def test_an_odd_file_crashes_and_stalls_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content, line, reason = ODD[name]
    if name == NO_UTF_8 and sys.platform != "linux":
        pytest.skip("other systems refuse the name")
    root = tree(repository(tmp_path / "w"), {name: content, "plain.py": "def other(): ...\n"})
    place = f"{name}:{line}"
    with open_engine(root) as engine:
        quickly(engine.index.update)
        for tool, query in (("search_code", {"query": "last"}), ("symbols", {"name": "last"})):
            assert (place in quickly(lambda tool=tool, query=query: text(engine, tool, **query))) == (line > 0)
        assert name == NO_UTF_8 or f"{name}\n" in quickly(lambda: text(engine, "search_text", query="last"))
        with pytest.raises(InvalidArgument, match="half a character") if name == NO_UTF_8 else nullcontext():
            for item in (name, f"{name}:1-2", f"{name}#last"):
                assert name in quickly(lambda item=item: text(engine, "read", items=[item]))
    sit_down(root, monkeypatch)
    code, said, trouble = quickly(lambda: runner(monkeypatch, capsys)("status"))
    assert code == 0, trouble
    assert (f"{escape_line(name)} ({reason.replace('_', ' ')}" in said) == bool(reason), said
    assert ("skipped" in said) == bool(reason)
