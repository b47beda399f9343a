"""Settings: environment over file over defaults, and a slip is named with what was meant."""

from __future__ import annotations

import json
from pathlib import Path

import platformdirs
import pytest

from context_engine.daemon.daemon_client import is_switched_off
from context_engine.errors import InvalidArgument
from context_engine.server.rate_limits import CALLS_PER_MINUTE, parse_rates
from context_engine.settings import Settings, list_settings


def written(root: Path, text: str | bytes) -> Path:
    folder = root / ".context-engine"
    folder.mkdir()
    file = folder / "config.yml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """The user's own settings file, in a folder of this test."""
    monkeypatch.setattr(platformdirs, "user_config_dir", lambda *_, **__: str(tmp_path / "config"))
    file = tmp_path / "config" / "config.yml"
    file.parent.mkdir()
    file.write_text(text)
    return file


def test_the_file_wins_over_the_defaults_and_the_environment_over_the_file(tmp_path: Path) -> None:
    written(tmp_path, "plan_retries_max: 100\naccess_scoring: no\n")
    loaded = Settings.load(tmp_path, {"CTX_PLAN_RETRIES_MAX": "200", "CTX_LOG_LEVEL": "OFF"})
    assert (loaded.plan_retries_max, loaded.access_scoring, loaded.log_level) == (200, False, "off")


@pytest.mark.parametrize("name", ["cache_folder", "data_folder"])
def test_a_path_is_a_path_and_absolute(tmp_path: Path, name: str) -> None:
    assert getattr(Settings.load(tmp_path, {f"CTX_{name.upper()}": "~/x"}), name) == Path("~/x").expanduser()
    with pytest.raises(InvalidArgument) as refused:
        Settings.load(tmp_path, {f"CTX_{name.upper()}": "x/y"})
    assert "absolute" in refused.value.suggestion


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
def test_an_empty_file_changes_nothing(tmp_path: Path, text: str) -> None:
    written(tmp_path, text)
    assert Settings.load(tmp_path, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "message", "suggestion"),
    [
        ("quiet_sm: 3", "'quiet_sm', which is not a setting", "Did you mean quiet_ms?"),
        ("zzz: 3", "'zzz', which is not a setting", "There are cache_folder"),
        ("plan_retries_max: soon", "plan_retries_max to 'soon'", "whole number"),
        ("plan_retries_max: -1", "plan_retries_max to -1", "at least 0"),
        ("plan_retries_max: true", "plan_retries_max to True", "whole number"),
        ("plan_retries_max: 1001", "plan_retries_max to 1001", "at most 1,000"),
        ("access_scoring: perhaps", "access_scoring to 'perhaps'", "true or false"),
        ("approvals_mode: requird", "approvals_mode to 'requird'", "Did you mean required?"),
        ("quiet_ms: 1\nquiet_ms: 2", "'quiet_ms' is given twice (line 2)", "name: value"),
        ("- a\n- b", "is not a mapping", "name: value"),
        ("a: [", "not YAML", "name: value"),
        (b"\xff\xfe\x00", "not YAML", "name: value"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_file_and_remedy(
    tmp_path: Path, text: str | bytes, message: str, suggestion: str
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InvalidArgument) as caught:
        Settings.load(tmp_path, {})
    assert str(file) in caught.value.message
    assert message in caught.value.message
    assert suggestion in caught.value.suggestion


def test_a_bad_variable_is_named() -> None:
    with pytest.raises(InvalidArgument, match="CTX_WORKERS sets workers to 'many'"):
        Settings.load("/nowhere", {"CTX_WORKERS": "many"})
    with pytest.raises(InvalidArgument, match="CTX_DAEMON sets daemon to 'maybe'"):
        Settings.load("/nowhere", {"CTX_DAEMON": "maybe"})
    assert is_switched_off({"CTX_DAEMON": "maybe"}), "so that the process itself refuses it"


def test_a_variable_that_looks_like_a_slip_is_refused_and_one_of_somebody_else_is_not() -> None:
    with pytest.raises(InvalidArgument) as caught:
        Settings.load("/nowhere", {"CTX_QUITE_MS": "3"})
    assert caught.value.suggestion == "Did you mean CTX_QUIET_MS?"
    assert Settings.load("/nowhere", {"CTX_LICENCE": "3", "CTX_ROOT": "/", "CTX_FAKE_NOW": "0"}) == Settings()


OWN = {
    "access_scoring",  # how its files are ranked
    *("approvals_mode", "approvals_require_human", "plan_retries_max", "plan_evidence_required"),
}
"""What a repository may say: nothing that names a path, a program or an address, lifts a limit, or hides what happens."""


def test_where_text_is_sent_and_kept_is_private_and_the_environment_sets_it() -> None:
    assert {name for name, (_, field) in list_settings().items() if field.repository} == OWN
    loaded = Settings.load("/nowhere", {"CTX_EMBEDDER": "ollama", "CTX_EMBEDDING_MODEL": " bge-M3 "})
    assert (loaded.embedder, loaded.embedding_model) == ("ollama", "bge-M3")
    assert Settings.load("/nowhere", {"CTX_EMBEDDING_QUERY_PREFIX": "query: "}).embedding_query_prefix == "query: "


@pytest.mark.parametrize(
    "stated", ["read_file=300, trace=0", "read_file=300,trace=0,", {"read_file": 300, "trace": 0}, ""]
)
def test_rate_limits_are_pairs_of_a_tool_and_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: object
) -> None:
    users_own(tmp_path, monkeypatch, json.dumps({"rate_limits_per_minute": stated}))
    loaded = Settings.load(tmp_path, env={}).rate_limits_per_minute
    assert parse_rates(loaded) == {**CALLS_PER_MINUTE, **({"read_file": 300, "trace": 0} if stated else {})}


@pytest.mark.parametrize(
    "stated", ["read_file", "read_file=many", "read_file=-1", "read-file=3", "read_file=3 trace=4", 7]
)
def test_rate_limits_that_are_something_else_are_refused_with_the_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: object
) -> None:
    users_own(tmp_path, monkeypatch, json.dumps({"rate_limits_per_minute": stated}))
    with pytest.raises(InvalidArgument) as caught:
        Settings.load(tmp_path, env={})
    assert "read_file=300" in caught.value.suggestion
