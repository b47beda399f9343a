"""`ctx token` at the terminal: the token on stdout and nothing else, everything about it on stderr, never the token again."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from context_engine.cli.app import app
from context_engine.errors import InvalidArgument
from context_engine.team.token_commands import parse_expiry
from context_engine.team.token_file import TokenFile
from context_engine.timestamps import parse_timestamp


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.json"


def ctx(file: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["token", *words, "--tokens", str(file)])


def test_a_token_is_printed_once_and_works(file: Path) -> None:
    made = ctx(file, "create", "ann", "--role", "write", "--project", "web", "--project", "api", "--per-minute", "60")
    assert made.exit_code == 0
    token = made.stdout.strip()
    assert made.stdout == f"{token}\n"
    assert "ann may write in web, api until " in made.stderr
    grant = TokenFile(file, now=time.time).find_grant(token)
    assert grant is not None
    assert (grant.name, grant.role, grant.projects, grant.per_minute) == ("ann", "write", ("web", "api"), 60)
    assert parse_timestamp(grant.expires or "") == pytest.approx(time.time() + 90 * 86_400, abs=60), (
        "no token is for ever unless somebody says so"
    )
    for shown in (ctx(file, "list"), ctx(file, "list", "--json")):
        assert "ann" in shown.stdout
        assert token.split("_", 2)[2] not in shown.stdout


def test_the_list_says_which_tokens_are_over(file: Path) -> None:
    assert "no tokens" in ctx(file, "list").stderr
    ctx(file, "create", "ops", "--role", "admin", "--project", "*", "--expires", "never")
    assert ctx(file, "list").stdout.split("\n")[1].split() == ["ops", "admin", "every", "project", "any", "never"]
    (row,) = json.loads(ctx(file, "list", "--json").stdout)["tokens"]
    assert set(row) == {"name", "role", "projects", "per_minute", "made", "expires", "expired"}
    assert (row["expires"], row["expired"]) == (None, False)


def test_a_revoked_token_is_gone(file: Path) -> None:
    token = ctx(file, "create", "ci", "--project", "web").stdout.strip()
    assert ctx(file, "revoke", "ci").stdout == "ci is revoked\n"
    assert TokenFile(file, now=time.time).find_grant(token) is None
    assert isinstance(ctx(file, "revoke", "ci").exception, InvalidArgument)


def test_a_folder_is_kept_as_the_server_will_know_it(file: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ctx(file, "create", "ci", "--project", str(tmp_path / "link"))
    assert TokenFile(file, now=time.time).page().tokens[0].projects == (str((tmp_path / "real").resolve()),)


@pytest.mark.parametrize("words", [["--expires", "soon"], ["--expires", "2001-01-01"], ["--expires", "0d"], []])
def test_what_cannot_be_is_refused_with_an_example(file: Path, words: list[str]) -> None:
    project = ["--project", "web"] if words else []
    refused = ctx(file, "create", "ci", *project, *words)
    assert isinstance(refused.exception, InvalidArgument)
    assert "90d" in refused.exception.suggestion or "--project" in refused.exception.suggestion
    assert not file.exists()


def test_spans_and_dates_are_moments() -> None:
    assert parse_expiry("12h", 0.0) == 12 * 3_600
    assert parse_expiry("1w", 0.0) == parse_expiry("7d", 0.0) == 7 * 86_400
    assert parse_expiry("2030-01-01", 0.0) == parse_expiry("2030-01-01T00:00:00Z", 5.0)


def test_every_command_teaches_by_examples() -> None:
    for command in ("create", "list", "revoke"):
        assert "Examples" in CliRunner().invoke(app, ["token", command, "--help"]).stdout
