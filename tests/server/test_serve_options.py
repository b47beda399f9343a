"""The options of `ctx serve`: one table, environment variables, and errors that name the nearest right word."""

from __future__ import annotations

import os

import pytest

from context_engine import CLIENT_VARIABLES
from context_engine.server.profiles import ToolSelection
from context_engine.server.serve_options import OPTIONS, TOKEN_VARIABLE, ServeOptions, parse_options

SAID = {
    "root": (["--root", "/a", "--root=/b"], f"/a{os.pathsep}/b", lambda asked: asked.roots, ("/a", "/b")),
    "workspace": (["--workspace", "team"], "team", lambda asked: asked.workspace, "team"),
    "profile": (
        ["--profile", "core,plan", "--profile", "review"],
        "core, plan,review",
        lambda asked: asked.selection.profiles,
        ("core", "plan", "review"),
    ),
    "tools": (["--tools", "trace"], "trace,", lambda asked: asked.selection.tools, ("trace",)),
    "exclude-tools": (
        ["--exclude-tools", "write_file,edit_file"],
        "write_file, edit_file",
        lambda asked: asked.selection.exclude,
        ("write_file", "edit_file"),
    ),
    "structured": (["--structured"], "1", lambda asked: asked.selection.structured, True),
    "read-only": (["--read-only"], "yes", lambda asked: asked.selection.read_only, True),
    "chunks-dir": (["--chunks-dir", "/c"], "/c", lambda asked: asked.chunks_dir, "/c"),
    "http": (["--http", "127.0.0.1:8000"], "127.0.0.1:8000", lambda asked: asked.http, "127.0.0.1:8000"),
    "token-file": (["--token-file", "/t"], "/t", lambda asked: asked.token_file, "/t"),
    "no-token": (["--no-token"], "1", lambda asked: asked.no_token, True),
    "tokens": (["--tokens", "/k"], "/k", lambda asked: asked.tokens, "/k"),
    "audit-log": (["--audit-log", "/l"], "/l", lambda asked: asked.audit_log, "/l"),
    "stateless": (["--stateless"], "on", lambda asked: asked.stateless, True),
    "shutdown-timeout": (["--shutdown-timeout", "20"], "20", lambda asked: asked.shutdown_timeout, 20.0),
    "shutdown-delay": (["--shutdown-delay", "6"], "6", lambda asked: asked.shutdown_delay, 6.0),
    "http-host": (["--http-host", "a.example,b"], "a.example, b", lambda asked: asked.http_hosts, ("a.example", "b")),
}


def test_nothing_said_is_the_core_profile_over_stdio() -> None:
    assert parse_options([], {}) == ServeOptions((), ToolSelection())


@pytest.mark.parametrize("name", [option.name for option in OPTIONS])
def test_an_option_and_its_variable_say_the_same(name: str) -> None:
    argv, twin, asked, value = SAID[name]
    (variable,) = [option.variable for option in OPTIONS if option.name == name]
    assert asked(parse_options(argv, {})) == value
    assert asked(parse_options([], {variable: twin})) == value
    assert asked(parse_options([], {variable: " "})) == asked(parse_options([], {}))


def test_an_option_wins_over_its_variable() -> None:
    env = {"CTX_ROOT": "/elsewhere", "CTX_PROFILE": "all", "CTX_HTTP": "1"}
    asked = parse_options(["--root", "/here", "--profile", "edit", "--http", "2"], env)
    assert (asked.roots, asked.selection.profiles, asked.http) == (("/here",), ("edit",), "2")


def test_tools_alone_are_the_only_ones_and_add_to_a_profile_that_is_named() -> None:
    assert parse_options(["--tools", "trace"], {}).selection == ToolSelection((), ("trace",))
    assert parse_options(["--tools", "trace", "--profile", "core"], {}).selection == ToolSelection(
        ("core",), ("trace",)
    )


def test_the_token_itself_is_never_an_option() -> None:
    assert parse_options([], {"CTX_HTTP_TOKEN": "s3cret"}).http_token == "s3cret"
    assert "token" not in {option.name for option in OPTIONS}


@pytest.mark.parametrize(
    ("argv", "env", "words"),
    [
        (["--rooot", "x"], {}, ["--rooot", "did you mean --root?"]),
        (["--read-onyl"], {}, ["did you mean --read-only?"]),
        (["--zzz"], {}, ["there is no option --zzz", "--root", "--http"]),
        (["/src"], {}, ["did you mean --root /src?"]),
        (["--root"], {}, ["--root", "needs a value"]),
        (["--pro", "core"], {}, ["there is no option --pro"]),
        (["--profile", "coer"], {}, ["did you mean core?"]),
        (["--tools", "raed_file"], {}, ["did you mean read_file?"]),
        (["--exclude-tools", "writefile"], {}, ["did you mean write_file?"]),
        ([], {"CTX_PROFILE": "plans"}, ["did you mean plan?"]),
        ([], {"CTX_READ_ONLY": "maybe"}, ["CTX_READ_ONLY", "maybe"]),
        *((["--shutdown-timeout", text], {}, ["is not a duration"]) for text in ("soon", "-1", "nan", "inf", "1e9")),
    ],
)
def test_what_is_not_understood_is_one_line_and_exit_code_2(
    argv: list[str], env: dict[str, str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        parse_options(argv, env)
    told = capsys.readouterr()
    assert leaving.value.code == 2
    assert told.out == ""
    assert told.err.startswith("ctx serve: ")
    assert told.err.count("\n") == 1
    assert [word for word in words if word not in told.err] == []


def test_the_variables_of_the_options_are_those_of_a_client() -> None:
    variables = {option.variable for option in OPTIONS}
    assert CLIENT_VARIABLES - {"CTX_DAEMON", "CTX_QUIET", "CTX_VERBOSE"} == variables | {TOKEN_VARIABLE}
