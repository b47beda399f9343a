"""Analyzers see both versions in folders of their own; one that hangs, crashes or babbles is a row of the coverage."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from context_engine.model import Finding
from context_engine.repo.executables import find_program
from context_engine.review.analyzers import (
    ALL,
    OUTPUT_ERRORS,
    RUFF,
    Analyzer,
    AnalyzerReport,
    AnalyzerRunner,
    Read,
    read_cargo,
    read_eslint,
    read_tsc,
    read_typos,
    read_vet,
    report,
)
from context_engine.review.finding import ReviewOptions
from context_engine.review.invariants import read_invariants_file
from tests.support.changes import SCRATCH, changed_file, whole
from tests.support.children import HANGS


def reported(out: bytes, complaint: str, folder: Path) -> Sequence[Finding]:
    """A finding for each line that says BAD, as the program below prints it."""
    return [report(path, (line, line), "bad", "It is bad.", (1, "correctness", 0.9)) for path, line in json.loads(out)]


SPEAKS = """
import json, sys
rows = [(p, n) for p in sys.argv[1:] for n, line in enumerate(open(p), 1) if "BAD" in line]
print(json.dumps(rows))
"""


def program(script: str, **fields: object) -> Analyzer:
    """A small program as an analyzer."""
    shown = {"name": "small", "program": sys.executable, "suffixes": (".py",), "read": reported} | fields
    return Analyzer(args=("-c", script, "{files}"), **shown)  # ty: ignore[invalid-argument-type]


def analysed(
    analyzer: Analyzer, old: str | None, new: str, *, bench: AnalyzerRunner | None = None, s: float = 30.0
) -> AnalyzerReport:
    change = changed_file("src/a.py", old, new)
    options = ReviewOptions(analyzers=(analyzer.name,))
    return (bench or AnalyzerRunner((analyzer,), SCRATCH)).run(whole(change), options, deadline=time.monotonic() + s)


def test_what_only_the_new_version_has_is_new_and_the_work_tree_is_never_looked_at() -> None:
    told = analysed(program(SPEAKS), "BAD\nx\n", "BAD\nx\ny BAD\n")
    assert [(each.span.first, each.is_new, each.is_on_changed_line) for each in told.findings] == [
        (1, False, False),
        (3, True, True),
    ]
    (ran,) = told.runs
    assert (ran.ran, ran.findings, ran.why_not) == (True, 2, "")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("raise SystemExit(3)", "exit code 3"),
        ("import os; os.abort()", "exit code"),
        ("print('hello')", "cannot be read"),
        ("import sys; sys.stdin.read(); sys.exit('cannot find module x')", "exit code 1 (cannot find module)"),
    ],
)
def test_a_program_that_fails_is_a_warning_and_no_end_of_a_review(script: str, said: str) -> None:
    told = analysed(program(script), "x\n", "y\n")
    assert told.findings == ()
    assert said in told.warnings[0]
    assert said in told.runs[0].why_not


def test_a_program_that_hangs_is_ended_with_what_it_started() -> None:
    slow = program(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HANGS!r}])")
    told = analysed(slow, "x\n", "y\n", bench=AnalyzerRunner((slow,), SCRATCH, analyzer_s=0.5))
    assert "took longer than" in told.runs[0].why_not


def test_a_program_that_nobody_waits_for_any_more_is_ended() -> None:
    cancel = threading.Event()
    cancel.set()
    change, slow = changed_file("src/a.py", "x\n", "y\n"), program(HANGS)
    told = AnalyzerRunner((slow,), SCRATCH).run(
        whole(change), ReviewOptions(), deadline=time.monotonic() + 300, cancel=cancel
    )
    assert told.runs[0].why_not == "was cancelled"


def test_what_runs_code_of_the_project_runs_only_where_the_user_said_so() -> None:
    builds = program(SPEAKS, runs_project_code=True)
    refused = analysed(builds, "x\n", "BAD\n")
    assert (refused.runs[0].ran, refused.findings) == (False, ())
    assert "CTX_REVIEW_PROGRAMS" in refused.runs[0].why_not
    assert analysed(
        builds, "x\n", "BAD\n", bench=AnalyzerRunner((builds,), SCRATCH, allowed=frozenset({"small"}))
    ).findings


def test_a_name_in_the_settings_that_no_analyzer_has_is_reported() -> None:
    runner = AnalyzerRunner((program(SPEAKS),), SCRATCH, allowed=frozenset({"", "small", "esslint"}))
    (run,) = runner.run(whole(), ReviewOptions(), deadline=time.monotonic() + 9).runs
    assert (run.name, run.ran) == ("esslint", False)
    assert "CTX_REVIEW_PROGRAMS" in run.why_not


def test_an_analyser_that_is_not_there_or_not_wanted_says_why() -> None:
    missing = program(SPEAKS, program="no-such-program-anywhere")
    assert analysed(missing, "x\n", "BAD\n").runs[0].why_not == "not installed"
    change = changed_file("src/a.py", "x\n", "BAD\n")
    for wanted in ("none", ("other",)):
        told = AnalyzerRunner((program(SPEAKS),), SCRATCH).run(
            whole(change), ReviewOptions(analyzers=wanted), deadline=time.monotonic() + 9
        )
        assert told.runs[0].why_not == "not asked for"
    assert analysed(program(SPEAKS), "x\n", "BAD\n", s=-1.0).runs[0].why_not == "no time was left"


def test_a_file_that_it_does_not_read_is_not_given_to_it() -> None:
    other = changed_file("src/a.txt", "x\n", "BAD\n")
    assert (
        AnalyzerRunner((program(SPEAKS),), SCRATCH)
        .run(whole(other), ReviewOptions(), deadline=time.monotonic() + 9)
        .runs
        == ()
    )


def test_a_program_of_the_project_runs_only_where_the_user_gave_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eslint = next(one for one in ALL if one.name == "eslint")
    for folder in (tmp_path / "work" / "node_modules" / ".bin", tmp_path / "bin"):
        folder.mkdir(parents=True)
        (folder / "eslint").write_text("#!/bin/sh\n")
        (folder / "eslint").chmod(0o755)
    planted, own = tmp_path / "work/node_modules/.bin/eslint", tmp_path / "bin/eslint"
    monkeypatch.setenv("PATH", f"{planted.parent}{os.pathsep}{own.parent}")

    def program_for(*allowed: str) -> str:
        return AnalyzerRunner((eslint,), SCRATCH, frozenset(allowed), outside=str(tmp_path / "work")).find_program(
            eslint
        )

    assert program_for("eslint") == str(own)
    assert program_for("node_modules/.bin/eslint") == str(planted)
    assert program_for(str(own)) == str(own)
    own.unlink()
    assert program_for("eslint") == ""


@pytest.mark.skipif(not find_program("ruff"), reason="ruff is in the extra `dev`, not in the product")
def test_ruff_reports_what_is_new() -> None:
    old = "import os\n\n\ndef f():\n    return undefined_before\n"
    told = analysed(RUFF, old, old + "\n\ndef g():\n    return undefined_now\n")
    assert [(each.rule, each.span.first, each.is_new, each.source) for each in told.findings] == [
        ("F401", 1, False, "ruff"),
        ("F821", 5, False, "ruff"),
        ("F821", 9, True, "ruff"),
    ]


@pytest.mark.skipif(not find_program("ruff"), reason="ruff is in the extra `dev`, not in the product")
def test_ruff_does_not_hear_of_the_settings_of_the_project() -> None:
    quiet = changed_file("pyproject.toml", None, "[tool.ruff]\nlint.ignore = ['F821']\n")
    code = changed_file("a.py", None, "print(undefined)\n")
    told = AnalyzerRunner((RUFF,), SCRATCH).run(whole(quiet, code), ReviewOptions(), deadline=time.monotonic() + 30)
    assert [each.rule for each in told.findings] == ["F821"]


@pytest.mark.skipif(not find_program("ruff"), reason="ruff is in the extra `dev`, not in the product")
def test_what_ruff_only_guesses_is_not_told() -> None:
    assert analysed(RUFF, "x = 1\n", "try:\n    x = 1\nexcept ValueError, e:\n    print e\n").findings == ()
    assert analysed(RUFF, "x = 1\n", "try:\n    x = 1\nexcept ValueError, e:\n    print(e)\n").findings == ()
    assert analysed(RUFF, "x = 1\n", "x = unicode('a')\nreveal_type(x)\n").findings == ()


# -- what each program says, as it said it to us --

ESLINT_SAYS = b"""[{"filePath":"/t/src/a.js","messages":[
{"ruleId":"no-undef","severity":2,"message":"'bar' is not defined.","line":3,"column":1,"endLine":3,"endColumn":4},
{"ruleId":null,"fatal":true,"severity":2,"message":"Parsing error: Unexpected token","line":4,"column":9},
{"ruleId":null,"fatal":false,"severity":1,"message":"File ignored because of a matching ignore pattern."}]}]"""
TSC_SAYS = b"src/a.ts(2,7): error TS2322: Type 'string' is not assignable to type 'number'.\n  A detail.\n"
VET_SAYS = (
    "# example.com/a\n./a.go:7:2: fmt.Printf format %d has arg s of wrong type string\nvet: b/b.go:3:1: undefined: x\n"
)
CARGO_SAYS = b"""{"reason":"compiler-artifact","target":{}}
{"reason":"compiler-message","message":{"level":"error","message":"mismatched types","code":{"code":"E0308"},"spans":[{"is_primary":true,"file_name":"src/lib.rs","line_start":2,"line_end":2}]}}
{"reason":"compiler-message","message":{"level":"error","message":"mismatched types","code":{"code":"E0308"},"spans":[{"is_primary":true,"file_name":"src/lib.rs","line_start":2,"line_end":2}]}}
{"reason":"compiler-message","message":{"level":"error","message":"aborting due to 1 previous error","code":null,"spans":[]}}
"""
TYPOS_SAYS = b"""{"type":"typo","path":"./a.md","line_num":4,"byte_offset":2,"typo":"recieve","corrections":["receive"]}
{"type":"binary_file","path":"./a.bin"}
"""


@pytest.mark.parametrize(
    ("read", "out", "complaint", "said"),
    [
        (read_eslint, ESLINT_SAYS, "", [("src/a.js", 3, "no-undef", 2), ("src/a.js", 4, "syntax-error", 0)]),
        (read_tsc, TSC_SAYS, "", [("src/a.ts", 2, "TS2322", 1)]),
        (read_vet, b"", VET_SAYS, [("a.go", 7, "vet", 1), ("b/b.go", 3, "vet", 1)]),
        (read_cargo, CARGO_SAYS, "", [("src/lib.rs", 2, "E0308", 0)]),
        (read_typos, TYPOS_SAYS, "", [("a.md", 4, "typo", 3)]),
    ],
    ids=["eslint", "tsc", "go vet", "cargo check", "typos"],
)
def test_what_a_program_says_is_understood(
    read: Read, out: bytes, complaint: str, said: list[tuple[str, int, str, int]]
) -> None:
    found = read(out, complaint, Path("/t"))
    assert [(each.path, each.line, each.rule, each.priority) for each in found] == said


@pytest.mark.parametrize("read", [each.read for each in ALL], ids=[each.name for each in ALL])
def test_babble_is_never_taken_for_silence(read: Read) -> None:
    with pytest.raises(OUTPUT_ERRORS):
        read(b"panic: runtime error", "panic: runtime error", Path("/t"))


def test_a_shape_that_is_not_a_query_is_named() -> None:
    book = read_invariants_file("rules.yml", b"[{id: SHAPE, ast: 'eval($TEXT)'}, {id: QUERY, ast: '(call) @it'}]")
    assert [each.id for each in book.invariants] == ["QUERY"]
    wrong = "invariant SHAPE: ast is a tree-sitter query, which begins with a bracket; it is left out"
    assert book.warnings == (wrong,)
