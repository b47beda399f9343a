"""What programs that check a change may quote: nothing of a file of the user, whatever the settings of a repository name.

Each row is a program and a way by which a repository leads it out of the workspace. Linters are the real ones where they
are installed; the others are played by a program that does the worst that the real one could: it prints the file.
"""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.errors import AccessFailed
from context_engine.plans.plan_execution import ChangeVerifier
from context_engine.repo import DiffRequest, Git
from context_engine.repo.executables import find_program
from context_engine.review.analyzers import ALL, Analyzer, AnalyzerRunner
from context_engine.review.finding import ReviewOptions
from context_engine.tools.plan_creation_tools import create_plan
from context_engine.tools.plan_step_tools import execute_plan
from context_engine.tools.tool import Call, Tool
from tests.support.changes import SCRATCH, changed_file, whole
from tests.support.engines import indexed
from tests.support.planned import detailed
from tests.support.trees import commit, git, repository, tree

pytestmark = pytest.mark.hostile
PRIVATE = "db.corp:5432:prod:admin:Xr7!kd93Lm"
"""A line of ~/.pgpass: no secret of a known form, so that no mask hides it."""
PARTS = ("Xr7", "kd93Lm", "admin:", "db.corp")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user, with a password in a file of his own."""
    folder = tree(tmp_path / "home", {".pgpass": f"{PRIVATE}\n", "private.json": json.dumps({PRIVATE: 1})})
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    return folder


def call(tool: Tool, engine: Engine, **arguments: Any) -> dict[str, Any]:
    return json.loads(tool.call(engine, detailed(tool, arguments), Call(session="agent")).text)


def quotes(reply: object) -> list[str]:
    """The parts of the private line that a reply contains."""
    return [part for part in PARTS if part in json.dumps(reply, default=str)]


# -- ruff and typos: they run without being asked for, so they get no settings at all ------------------------------------

RUFF_WAYS = {
    "extend, an absolute path": {"pyproject.toml": '[tool.ruff]\nextend = "{home}/.pgpass"\n'},
    "extend, the home": {"pyproject.toml": '[tool.ruff]\nextend = "~/.pgpass"\n'},
    "extend, a way up": {"pyproject.toml": '[tool.ruff]\nextend = "../home/.pgpass"\n'},
    "extend of ruff.toml": {"ruff.toml": 'extend = "~/.pgpass"\n'},
    "extend of .ruff.toml": {".ruff.toml": 'extend = "~/.pgpass"\n'},
    "extend beside the file": {"lib/ruff.toml": 'extend = "~/.pgpass"\n'},
    "a version that is not this one": {"pyproject.toml": f'[tool.ruff]\nrequired-version = "{PRIVATE}"\n'},
    "a link to the file": {"ruff.toml": "->{home}/.pgpass"},
    "per-file paths": {"ruff.toml": '[lint.per-file-ignores]\n"{home}/.pgpass" = ["F401"]\n'},
    "the folder of a cache": {"ruff.toml": 'cache-dir = "{home}/cache"\n'},
}
TYPOS_WAYS = {
    "its settings are no settings": {"_typos.toml": "->{home}/.pgpass"},
    "its settings in pyproject.toml": {"pyproject.toml": '[tool.typos.files]\nextend-exclude = ["{home}/.pgpass"]\n'},
}
LINTER_WAYS = [("ruff", *row) for row in RUFF_WAYS.items()] + [("typos", *row) for row in TYPOS_WAYS.items()]


def plant(root: Path, files: dict[str, str], home: Path) -> Path:
    for path, content in files.items():
        content = content.format(home=home)
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("->"):
            place.symlink_to(content.removeprefix("->"))
        else:
            place.write_text(content)
    return root


@pytest.mark.parametrize(("program", "way", "files"), LINTER_WAYS, ids=[f"{row[0]}: {row[1]}" for row in LINTER_WAYS])
def test_no_settings_of_a_repository_make_a_linter_quote_a_file_of_the_user(
    home: Path, tmp_path: Path, program: str, way: str, files: dict[str, str]
) -> None:
    if not find_program(program):
        pytest.skip(f"{program} is not installed")
    root = repository(tmp_path / "work", {"lib/p.py": "x = 1\n"})
    plant(root, files, home)
    commit(root, way)
    with indexed(root, watch=False, flush=False) as engine:
        step = {"title": "s", "files_to_modify": ["lib/p.py"], "acceptance_criteria": ["x"]}
        draft = {"goal": "Change p", "steps": [step]}
        plan_id = call(create_plan, engine, task="Change p", draft=draft)["persistence"]["plan_id"]
        change = {"path": "lib/p.py", "change_type": "modify", "content": "import os\nx = 2\n"}
        made = call(execute_plan, engine, plan_id=plan_id, changes=[change], apply_changes=True, verify="lint")
        assert quotes(made) == []
        if program == "ruff":
            assert [row["passed"] for row in made["results"][0]["verification"] if row["kind"] == "lint"] == [False]
        _, reviewed = engine.reviews.review_git(DiffRequest("head"), ReviewOptions(confidence_threshold=0.0))
        assert quotes(reviewed) == []
        assert all(not run.why_not for run in reviewed.coverage.analyzers if run.name == program)
    assert not (home / "cache").exists()


PLAIN = [row for row in RUFF_WAYS if row.startswith("extend")]
"""The ways by which a plain ruff quotes the file, which shows that the test above proves something."""


def test_a_plain_ruff_quotes_the_file(home: Path, tmp_path: Path, tried: Callable[..., None]) -> None:
    tried(0)
    if not (ruff := find_program("ruff")):
        pytest.skip("ruff is not installed")
    for number, way in enumerate(PLAIN):
        root = plant(tree(tmp_path / f"work{number}", {"lib/p.py": "import os\n"}), RUFF_WAYS[way], home)
        said = subprocess.run([ruff, "check", "."], cwd=root, capture_output=True, text=True, check=False)
        assert quotes(said.stderr) == list(PARTS), way


# -- programs that run code of the project: whatever they print, its words are not quoted -------------------------------

SPOILED_OUTPUTS = {
    "eslint": json.dumps(
        [{"filePath": "src/a.ts", "messages": [{"ruleId": "x", "severity": 2, "line": 1, "message": f"No {PRIVATE}"}]}]
    ),
    "tsc": f"src/a.ts(1,1): error TS5023: Unknown compiler option '{PRIVATE}'.",
    "go vet": f"src/a.go:1:1: {PRIVATE} is not defined",
    "cargo check": json.dumps(
        {
            "reason": "compiler-message",
            "message": {
                "level": "error",
                "message": PRIVATE,
                "code": None,
                "spans": [{"is_primary": True, "file_name": "src/a.rs", "line_start": 1, "line_end": 1}],
            },
        }
    ),
}
"""A message about the changed file that quotes the private line, in the format of each program."""
FAMILY = {"eslint": "ts", "tsc": "ts", "go vet": "go", "cargo check": "rs", "ruff": "py", "typos": "py"}
FAILURES = {
    "it ends with the line as its complaint": (f"Cannot read config: {PRIVATE}", 9),
    "it prints the line and ends well": (PRIVATE, 0),
    "it names a class of error, too": (f"SyntaxError: {PRIVATE}", 9),
}


def ran(analyzer: Analyzer, out: str, complaint: str, code: int, folder: Path) -> object:
    """The report of an analyzer whose program prints this."""
    program = folder / analyzer.program
    script = f"import sys\nprint({out!r})\nprint({complaint!r}, file=sys.stderr)\nsys.exit({code})\n"
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    runner = AnalyzerRunner((analyzer,), SCRATCH, frozenset({f"{folder}/{analyzer.program}"}))
    files = dict.fromkeys(analyzer.required_files, b"")
    change = changed_file(f"src/a.{FAMILY[analyzer.name]}", "x\n", "let y: number = 2\n")
    now = {change.path: b"let y: number = 2\n", **files}
    both = whole(change, before=files, after=now)
    report = runner.run(both, ReviewOptions(), deadline=time.monotonic() + 30)
    assert report.runs[0].ran
    return report


@pytest.mark.parametrize("analyzer", [each for each in ALL if each.name in SPOILED_OUTPUTS], ids=lambda each: each.name)
def test_a_finding_of_a_program_of_the_project_does_not_quote_what_is_not_in_the_file(
    home: Path, analyzer: Analyzer
) -> None:
    said = SPOILED_OUTPUTS[analyzer.name]
    report: Any = ran(analyzer, said, said if analyzer.name == "go vet" else "", 0, home)
    (finding,) = report.findings
    assert (finding.path, finding.line) == (f"src/a.{FAMILY[analyzer.name]}", 1)
    assert quotes(report) == []


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("analyzer", ALL, ids=lambda each: each.name)
def test_a_failure_of_an_analyzer_is_a_class_of_error(
    home: Path, monkeypatch: pytest.MonkeyPatch, analyzer: Analyzer, failure: str
) -> None:
    monkeypatch.setenv("PATH", str(home), prepend=":")
    complaint, code = FAILURES[failure]
    for out, err in (("", complaint), (complaint, ""), (complaint, complaint)):
        report: Any = ran(analyzer, out, err, code, home)
        assert quotes(report) == []
        if code:
            assert "exit code 9" in report.runs[0].why_not
        if "SyntaxError" in complaint:
            assert "SyntaxError" in report.runs[0].why_not


# -- commands that the user allowed ------------------------------------------------------------------------------------

RUNNER_WAYS = {
    "pytest reads its options from a file": {"pytest.ini": "[pytest]\naddopts = @{home}/.pgpass\n"},
    "pytest reads its settings from a file": {"pytest.ini": "[pytest]\naddopts = -c {home}/.pgpass\n"},
    "pytest reads the file as a test": {"pytest.ini": "[pytest]\ntestpaths = {home}/.pgpass\n"},
    "the settings are a link": {"pyproject.toml": "->{home}/.pgpass"},
    "a test prints the file": {
        "test_a.py": "print(open('{home}/.pgpass').read())\nassert 0, open('{home}/.pgpass').read()\n"
    },
}


@pytest.mark.parametrize("way", RUNNER_WAYS)
def test_no_settings_of_a_repository_make_a_test_runner_quote_a_file_of_the_user(
    home: Path, tmp_path: Path, way: str
) -> None:
    root = plant(tree(tmp_path / "work", {"test_b.py": "def test_b() -> None:\n    pass\n"}), RUNNER_WAYS[way], home)
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    (check,) = ChangeVerifier(root, (command,)).verify([], "tests").checks
    assert check.says.startswith("it ended with ")
    assert quotes(check) == []


# -- git ---------------------------------------------------------------------------------------------------------------

GIT_WAYS: dict[str, Callable[[Path, Path], object]] = {
    "settings that include the file": lambda root, home: git(root, "config", "include.path", str(home / ".pgpass")),
    "refs are a link to the file": lambda root, home: (root / ".git/packed-refs").symlink_to(home / ".pgpass"),
    "a branch is a link to the file": lambda root, home: replace_by_link(root / ".git/refs/heads/main", home),
    "attributes of the clone": lambda root, home: (root / ".git/info/attributes").symlink_to(home / ".pgpass"),
    "ignore rules of the clone": lambda root, home: replace_by_link(root / ".git/info/exclude", home),
    "a shallow clone": lambda root, home: (root / ".git/shallow").symlink_to(home / ".pgpass"),
    "objects elsewhere": lambda root, home: (root / ".git/objects/info/alternates").symlink_to(home / ".pgpass"),
    "the index": lambda root, home: replace_by_link(root / ".git/index", home),
    "the settings are a link": lambda root, home: replace_by_link(root / ".git/config", home),
    "attributes of the tree": lambda root, home: (root / ".gitattributes").symlink_to(home / ".pgpass"),
    "a mailmap": lambda root, home: (root / ".mailmap").symlink_to(home / ".pgpass"),
    "an order of differences": lambda root, home: git(root, "config", "diff.orderFile", str(home / ".pgpass")),
    "revisions that blame passes over": lambda root, home: git(
        root, "config", "blame.ignoreRevsFile", str(home / ".pgpass")
    ),
}
GIT_CALLS = (
    ("diff", "HEAD", "--"), ("log", "-1", "-p"), ("blame", "--", "a.py"), ("for-each-ref",), ("ls-files",),
    ("rev-parse", "HEAD"), ("config", "--list"), ("cat-file", "-p", "HEAD"), ("grep", "x"), ("hash-object", "none"),
)  # fmt: skip


def replace_by_link(place: Path, home: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(home / ".pgpass")


@pytest.mark.parametrize("way", GIT_WAYS)
def test_git_fails_by_a_class_of_error(home: Path, tmp_path: Path, way: str) -> None:
    root = repository(tmp_path / "work", {"a.py": "x = 1\n"})
    (root / "a.py").write_text("x = 2\n")
    GIT_WAYS[way](root, home)
    for call in GIT_CALLS:
        try:
            said: object = Git(root).run(*call)
        except AccessFailed as error:
            said = error.as_dict()
        if call != ("config", "--list"):  # which nothing of ours calls: it shows that the way is open
            assert quotes(said) == []
