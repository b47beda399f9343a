"""Ours and the peers that need no download are asked in one protocol, so that a table of them compares the same thing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evals.edit.side_by_side import verdicts, wrongs

EVAL = Path(__file__).resolve().parents[2] / "evals" / "edit"
SCRIPTS = pytest.mark.parametrize("script", ["adapter.py", "peers/exact_only.py"])


def asked(script: str, path: Path, *edits: tuple[str, str]) -> list[dict[str, object]]:
    """The answers to one request for each edit, all to one process."""
    requests = [
        json.dumps({"id": str(number), "path": str(path), "edits": [{"oldContent": old, "newContent": new}]})
        for number, (old, new) in enumerate(edits)
    ]
    command = [sys.executable, str(EVAL / script)]
    env = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(path.parent))
    done = subprocess.run(
        command, input="\n".join(requests), env=env, capture_output=True, encoding="utf-8", check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@SCRIPTS
def test_an_edit_changes_the_file_in_place_and_is_answered(script: str, tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    assert asked(script, path, ("two", "three")) == [{"ok": True}]
    assert path.read_bytes() == b"one\r\nthree\r\n"


@SCRIPTS
def test_what_stands_twice_is_refused_and_the_next_request_is_answered(script: str, tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\none\ntwo\n")
    twice, once = asked(script, path, ("one\n", "x\n"), ("two\n", "three\n"))
    assert twice["ok"] is False
    assert twice["code"]
    assert once == {"ok": True}
    assert path.read_bytes() == b"one\none\nthree\n"


def test_the_tables_count_every_verdict_of_the_bench():
    rows = {
        "ours": [{"out": "applied_ok", "ms": 1.0}, {"out": "refused_ok", "ms": 3.0}],
        "peer": [{"out": "WRONG", "cls": "content", "ms": 2.0}, {"out": "refused_wrongly", "ms": 2.0}, {"out": "n/a"}],
    }
    assert verdicts("all", rows).splitlines()[2:] == [
        "| ours | 1 | 0 | 1 | 0 | 0 | 2.0 | 3.0 |",
        "| peer | 0 | 1 | 0 | 1 | 1 | 2.0 | 2.0 |",
    ]
    assert wrongs(rows).splitlines()[2:] == ["| content | 0 | 1 |"]
