"""`ctx doctor`: each part is broken once, and must be named with a way to mend it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from context_engine.cli import doctor
from context_engine.cli.app import app
from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.launch_command import LaunchCommand, find_own_launch_command
from context_engine.cli.doctor import CheckResult, DoctorContext, ok
from context_engine.engine import Engine
from context_engine.errors import HostError
from context_engine.settings import Settings

PATH = os.environ["PATH"]


@pytest.fixture(autouse=True)
def project(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file in the project, a cache of its own, and the programs of this machine."""
    (home / "work" / "a.py").write_text("def pay(): ...\n")
    monkeypatch.setenv("PATH", PATH)
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(tmp_path / "cache"))
    monkeypatch.setenv("CTX_WORKERS", "0")


@pytest.fixture
def case(home: Path) -> Callable[..., DoctorContext]:
    """A case as of this machine, with something changed."""

    def make(root: Path | None = home / "work", launch: LaunchCommand | None = None, names: tuple[str, ...] = (), **env: str) -> DoctorContext:  # fmt: skip
        return DoctorContext(
            client_config.this_machine(),
            {**os.environ, **env},
            Path.cwd(),
            root,
            launch or find_own_launch_command(),
            names,
        )

    return make


def only(findings: Iterator[CheckResult]) -> CheckResult:
    (finding,) = findings
    assert finding.verdict == "ok" or finding.step, "what is ill says what to do"
    return finding


# -- all is well ------------------------------------------------------------------------------------------------------


def test_on_a_machine_where_all_is_well_nothing_is_a_problem(home: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--json"], prog_name="ctx")
    told = json.loads(result.stdout)
    assert [each for each in told["findings"] if each["verdict"] == "problem"] == []
    assert told["ok"] is True
    assert result.exit_code == 0
    parts = [each["part"] for each in told["findings"]]
    expected = [
        "workspace",
        "packages",
        "ripgrep",
        "git",
        "parsers",
        "cache",
        "privacy",
        "settings",
        "index",
        "watcher",
        "server",
    ]
    assert parts[: len(expected)] == expected
    assert sorted(each.name for each in (home / "work").iterdir()) == [".git", "a.py"], "nothing is left behind"


def test_a_check_that_fails_itself_hides_no_other(home: Path) -> None:
    def raises(_: DoctorContext) -> Iterator[CheckResult]:
        raise ZeroDivisionError("oh")

    def refuses(_: DoctorContext) -> Iterator[CheckResult]:
        yield ok("half", "done")
        raise HostError("no room", suggestion="Make some.")

    def works(_: DoctorContext) -> Iterator[CheckResult]:
        yield ok("works", "yes")

    found = doctor.run_checks(None, checks=(raises, refuses, works))
    assert [(each.part, each.verdict) for each in found] == [
        ("workspace", "ok"), ("raises", "problem"), ("refuses", "problem"), ("works", "ok"),
    ]  # fmt: skip
    assert "ZeroDivisionError" in found[1].found
    assert found[2].step == "Make some."


# -- the machine ------------------------------------------------------------------------------------------------------


def test_a_package_that_cannot_be_imported_is_named(
    case: Callable[..., DoctorContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "packages_distributions", lambda: {"no_such_module": ["xxhash"], "json": ["other"]})
    finding = only(doctor.packages(case()))
    assert (finding.part, finding.verdict) == ("package no_such_module", "problem")


def test_git_is_missed(case: Callable[..., DoctorContext], tmp_path: Path) -> None:
    assert list(doctor.programs(case(PATH=str(tmp_path))))[-1].verdict == "warning"
    broken = tmp_path / "git"
    broken.write_text("#!/bin/sh\necho 'no license agreed' >&2\nexit 69\n")
    broken.chmod(0o755)
    assert "no license agreed" in list(doctor.programs(case(PATH=str(tmp_path))))[-1].found


def test_a_cache_that_cannot_be_written_is_a_problem(case: Callable[..., DoctorContext], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = only(doctor.cache(case(CTX_CACHE_FOLDER=str(tmp_path / "file"))))
    assert finding.verdict == "problem"
    assert "CTX_CACHE_FOLDER" in finding.step


@pytest.mark.parametrize(("free", "verdict"), [(999_999_999, "warning"), (1_000_000_000, "ok")])
def test_little_room_on_the_disk_is_told(
    free: int, verdict: str, case: Callable[..., DoctorContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert only(doctor.cache(case())).verdict == verdict


# -- the workspace -----------------------------------------------------------------------------------------------------


def test_a_root_that_is_not_there_is_a_problem_and_the_rest_is_still_looked_at() -> None:
    found = doctor.run_checks(Path("/no/such"), checks=(doctor.parsers, doctor.index))
    assert [(each.part, each.verdict) for each in found] == [("workspace", "problem"), ("parsers", "ok")]


def test_settings_that_cannot_be_read_are_a_problem(case: Callable[..., DoctorContext], home: Path) -> None:
    assert only(doctor.settings(case())).verdict == "ok"
    assert "quiet_ms" in only(doctor.settings(case(CTX_QUIET_MS="soon"))).found
    (home / "work" / ".context-engine").mkdir()
    (home / "work" / ".context-engine" / "config.yml").write_text("quiet: 3")
    finding = only(doctor.settings(case()))
    assert finding.verdict == "problem"
    assert "quiet_ms" in finding.step


def indexed(case: DoctorContext) -> Path:
    assert case.root
    with Engine.open(case.root, settings=Settings.load(case.root, case.env)) as engine:
        engine.index.update()
        return engine.cache_folder


def test_an_index_is_missing_then_current_then_behind(case: Callable[..., DoctorContext], home: Path) -> None:
    assert only(doctor.index(case())).found.startswith("none yet")
    indexed(case())
    assert only(doctor.index(case())).found.endswith("current")
    (home / "work" / "b.py").write_text("x = 1\n")
    assert "1 edited since: b.py" in only(doctor.index(case())).found


@pytest.mark.parametrize("damaged", ["index.db", "*.seg"])
def test_a_damaged_index_is_a_problem(damaged: str, case: Callable[..., DoctorContext]) -> None:
    (file,) = indexed(case()).rglob(damaged)
    file.write_bytes(file.read_bytes()[:2_000] + b"\xff" * 2_000)
    finding = only(doctor.index(case()))
    assert (finding.part, finding.verdict) == ("index", "problem")
    assert "ctx index --force" in finding.step


# -- the server --------------------------------------------------------------------------------------------------------

STAND_IN = """
import json, sys, time
ill = sys.argv[1]
if ill == "dies":
    sys.exit("no license")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if ill == "prints":
        print("hello from a library", flush=True)
    if ill == "silent":
        continue
    if ill == "refuses" and asked["method"] == "tools/call":
        answer = {"result": {"isError": True, "content": "no such tool"}}
    elif ill == "fails" and asked["method"] == "tools/list":
        answer = {"error": {"code": 1, "message": "out of order"}}
    else:
        answer = {"result": {}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
if ill == "stays":
    time.sleep(60)
if ill == "ends badly":
    sys.exit(3)
"""


@pytest.mark.parametrize(
    ("ill", "told"),
    [
        ("dies", "no answer to a call; its last message: no license"),
        ("silent", "does not answer and end within"),
        ("fails", "tools/list failed: out of order"),
        ("refuses", "a call failed: no such tool"),
        ("prints", "not JSON: 'hello from a library'"),
        ("stays", "does not answer and end within"),
        ("ends badly", "ends with exit code 3"),
    ],
)
def test_a_server_that_is_ill_is_found_out(
    ill: str, told: str, case: Callable[..., DoctorContext], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ill in ("silent", "stays"):
        monkeypatch.setattr(doctor, "PATIENCE_S", 0.5)
    script = tmp_path / "server.py"
    script.write_text(STAND_IN)
    found = list(doctor.server(case(launch=LaunchCommand(sys.executable, (str(script), ill)))))
    (problem,) = [each for each in found if each.verdict == "problem"]
    assert told in problem.found
    assert problem.step


def test_the_server_that_is_tried_starts_no_process_that_stays(
    case: Callable[..., DoctorContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables: dict[str, str] = {}

    def refuse(_: list[str], env: dict[str, str], **__: object) -> None:
        variables.update(env)
        raise FileNotFoundError(2, "no such file")

    monkeypatch.setattr(doctor.subprocess, "Popen", refuse)
    assert only(doctor.server(case(launch=LaunchCommand("/no/such/ctx")))).verdict == "problem"
    assert variables["CTX_DAEMON"] == "0"


# -- the clients -------------------------------------------------------------------------------------------------------


def settle(name: str, *words: str) -> Path:
    """Write an entry with a command line of its own."""
    client = client_table.find_client(name)
    path = client_config.find_config_path(client, client_config.this_machine(), None)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(client.format_entry(client.build_entry(LaunchCommand(words[0], words[1:]))))
    return path


@pytest.mark.parametrize("name", [client.name for client in client_table.ALL])
def test_an_entry_that_works_is_well(name: str, case: Callable[..., DoctorContext], home: Path) -> None:
    path = settle(name, find_own_launch_command().command, "serve", "--root", str(home))
    finding = only(doctor.clients(case(names=(name,))))
    assert (finding.verdict, finding.found) == ("ok", f"set up for you in {path}")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("/gone/bin/ctx", "serve"), "there is no program /gone/bin/ctx"),
        (("ctx-that-is-nowhere/ctx", "serve"), "there is no program"),
        ((find_own_launch_command().command, "serve", "--root", "/gone"), "there is no folder /gone"),
    ],
)
def test_an_entry_that_starts_nothing_is_a_problem(
    words: tuple[str, ...], told: str, case: Callable[..., DoctorContext]
) -> None:
    settle("codex", *words)
    finding = only(doctor.clients(case(names=("codex",))))
    assert finding.verdict == "problem"
    assert told in finding.found
    assert "ctx setup codex" in finding.step


def test_a_client_that_does_not_know_us_is_a_problem_only_when_it_was_named(
    case: Callable[..., DoctorContext], home: Path
) -> None:
    (home / ".gemini").mkdir()
    assert not list(doctor.clients(case(PATH="")))
    assert only(doctor.clients(case(names=("gemini",)))).verdict == "problem"
