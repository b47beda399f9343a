"""A repository's settings file: what it may set, and that nothing in it harms the user or stops the product."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest
from typer.testing import CliRunner

from context_engine.cli.app import app
from context_engine.cli.clients.client_config import this_machine
from context_engine.cli.clients.launch_command import find_own_launch_command
from context_engine.cli.doctor import DoctorContext
from context_engine.cli.doctor import index as examine_index
from context_engine.cli.index_commands import index
from context_engine.engine import Engine
from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.model import Query
from context_engine.server.projects import Projects
from context_engine.settings import Settings, list_settings
from tests.security.test_security_untrusted import ALIAS_BOMB
from tests.support.trees import tree

BRIEF = 'name = "brief"\ncontent = "code"\nsuffixes = [".brief"]\n'
HOSTILE_VALUES = {
    "cache_folder": "/tmp/elsewhere",
    "data_folder": "~/elsewhere",
    "rate_burst_minutes": "0",
    "rate_limits_per_minute": "read_file=0",
    "result_chars_max": "1000000",
    "index_bytes_max": "1000000000000",
    "workers": "256",
    "flush": "false",
    "log_level": "off",
    "store_url": "postgresql://attacker/db",
    "verify_commands": "touch /tmp/x",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    (root / ".context-engine").mkdir(parents=True)
    (root / "a.py").write_text("def alpha(): ...\n")
    return root


@pytest.fixture
def user_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platformdirs, "user_config_dir", lambda *_, **__: str(tmp_path / "config"))
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: str(tmp_path / "cache"))
    (tmp_path / "config").mkdir()
    return tmp_path / "config" / "config.yml"


def write(root: Path, text: str) -> None:
    (root / ".context-engine" / "config.yml").write_text(text)


@pytest.mark.parametrize("name", sorted(name for name, (_, field) in list_settings().items() if not field.repository))
def test_what_only_the_user_may_set_is_ignored_in_a_repository_and_listed(
    root: Path, user_config: Path, name: str
) -> None:
    write(root, f"{name}: {HOSTILE_VALUES.get(name, '20_000_000')}\nplan_retries_max: 7\n")
    loaded = Settings.load(root, {})
    assert getattr(loaded, name) == list_settings()[name][0]
    assert loaded.plan_retries_max == 7
    ((what, step),) = loaded.notes()
    assert f"config.yml sets {name}, which only the user may set" in what
    assert f"CTX_{name.upper()}" in step
    assert str(user_config) in step


def test_the_file_of_the_user_sets_everything_and_wins_over_the_repository(root: Path, user_config: Path) -> None:
    cache = user_config.parent / "cache"
    user_config.write_text(f"cache_folder: {cache}\nquiet_ms: 5\napprovals_mode: required\n")
    write(root, "access_scoring: no\napprovals_mode: optional\n")
    loaded = Settings.load(root, {"CTX_PLAN_RETRIES_MAX": "4"})
    assert (loaded.cache_folder, loaded.quiet_ms, loaded.access_scoring) == (cache, 5, False)
    assert (loaded.approvals_mode, loaded.plan_retries_max, loaded.ignored) == ("required", 4, ())
    assert Settings.load(root, {"CTX_QUIET_MS": "8"}).quiet_ms == 8


def test_a_repository_makes_approvals_stricter_and_never_laxer(root: Path, user_config: Path) -> None:
    write(root, "approvals_mode: required\napprovals_require_human: true\nplan_evidence_required: true\n")
    stricter = Settings.load(root, {})
    assert (stricter.approvals_mode, stricter.approvals_require_human) == ("required", True)
    write(root, "approvals_mode: optional\napprovals_require_human: false\nplan_evidence_required: false\n")
    user = {"CTX_APPROVALS_MODE": "required", "CTX_APPROVALS_REQUIRE_HUMAN": "1", "CTX_PLAN_EVIDENCE_REQUIRED": "1"}
    assert Settings.load(root, user) == Settings(
        approvals_mode="required", approvals_require_human=True, plan_evidence_required=True
    )


def test_a_repository_names_no_folder_that_is_written_to(root: Path, user_config: Path, tmp_path: Path) -> None:
    write(root, f"cache_folder: {tmp_path / 'elsewhere'}\n")
    with Engine.open(root) as engine:
        engine.index.update()
        assert engine.settings.ignored == ("cache_folder",)
    assert not (tmp_path / "elsewhere").exists()


def test_ignored_settings_are_shown_by_index_status_doctor_and_the_log(
    root: Path, user_config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    write(root, "flush: false\n")
    said = "config.yml sets flush, which only the user may set"
    index(None, root)
    assert said in "".join(capsys.readouterr())
    assert "config.yml sets flush" in CliRunner().invoke(app, ["status", "--root", str(root)]).output
    found = [
        one
        for one in examine_index(DoctorContext(this_machine(), {}, root, root, find_own_launch_command()))
        if said in str(one)
    ]
    assert len(found) == 1
    logged: list[dict[str, object]] = []
    opening = Projects([str(root)], log=lambda row: logged.append(dict(row)), follow=False)
    opening.engine()
    opening.close()
    assert [row.get("ignored_settings") for row in logged if row["event"] == "open"] == [["flush"]]


HOSTILE_FILES = {
    "aliases of aliases": f"workers: 1\n{ALIAS_BOMB}",
    "a date that is none": "plan_retries_max: 9999-99-99",
    "a number that is not one": "plan_retries_max: .nan",
    "a list for a name": "? [quiet_ms]\n: 1",
    "a long name": "q" * 90_000 + ": 1",
    "a long value": "approvals_mode: " + "q" * 90_000,
    "control characters": "quiet_ms: \x1b[2J",
    "no text": "\0\0\0",
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_hostile_settings_file_is_one_short_sentence_with_the_next_step(root: Path, name: str) -> None:
    write(root, HOSTILE_FILES[name])
    started = time.process_time()
    with pytest.raises(InvalidArgument) as caught:
        Engine.open(root)
    assert time.process_time() - started < 5
    assert len(caught.value.message) < 700
    assert "\n" not in caught.value.message
    assert caught.value.suggestion


@pytest.mark.skipif(os.name == "nt", reason="needs named pipes")
def test_settings_and_languages_that_are_no_plain_files_are_not_used_and_stop_nothing(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "own.toml").write_text('name = "own"\ncontent = "code"\nsuffixes = [".own"]\n')
    (tmp_path / "outside" / "config.yml").write_text("plan_retries_max: 7\n")
    state = root / ".context-engine"
    ways = {
        "is a symbolic link": lambda place: place.symlink_to("/dev/zero"),
        "is a named pipe": os.mkfifo,
        "is a folder": Path.mkdir,
        "has a second name": lambda place: os.link(tmp_path / "outside" / place.name, place),
        "the limit is": lambda place: place.write_text("#" * 300_000),
    }
    for name in ("config.yml", "languages/own.toml"):
        for reason, make in ways.items():
            (state / name).parent.mkdir(exist_ok=True)
            make(state / name)
            with Engine.open(root) as engine:
                engine.index.update()
                assert engine.settings == replace(Settings(), unusable=engine.settings.unusable)
                assert reason in str(engine.notes())
                assert engine.languages.detect("a.own") is None
                assert engine.search.find(Query("alpha", 1)).hits
            (state / name).rmdir() if (state / name).is_dir() else (state / name).unlink()
    (state / "languages").rmdir()
    for target in (tmp_path / "outside", Path("/dev/zero")):
        (state / "languages").symlink_to(target)
        with Engine.open(root) as engine:
            assert engine.languages.detect("a.own") is None
            assert "languages is a symbolic link: not used" in str(engine.notes())
        (state / "languages").unlink()
    state.rename(tmp_path / "real")
    state.symlink_to(tmp_path / "outside")
    loaded = Settings.load(root, {})
    assert (loaded.plan_retries_max, loaded.unusable.split(":")[0]) == (3, ".context-engine is a symbolic link")


def test_one_note_names_language_files_that_are_not_used_in_status_and_doctor(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root)
    tree(root / ".context-engine" / "languages", {"b.toml": BRIEF, ".hidden": "x", **dict.fromkeys("123456", "x")})
    notes = "5 is not a .toml file; and 1 more: not used"
    for command in ("status", "doctor"):
        shown = CliRunner().invoke(app, [command]).output
        assert notes in " ".join(shown.split()), command
    with Engine.open(root) as engine:
        assert engine.languages.detect("a.brief") is not None


@pytest.mark.skipif(os.name == "nt", reason="there is no /proc")
def test_a_cache_folder_that_cannot_be_made_is_an_error_of_this_machine(root: Path) -> None:
    unusable = Settings(cache_folder=Path("/proc/context-engine"))
    with pytest.raises(ContextEngineError) as caught, Engine.open(root, settings=unusable) as engine:
        engine.index.update()
    assert caught.value.code != "INTERNAL"
    assert "/proc/context-engine" in caught.value.message
