"""`ctx token`: create, list and revoke the tokens of a shared server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from context_engine.cli.common_options import AsJson, command_group
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import print_json
from context_engine.errors import InvalidArgument
from context_engine.repo import resolve_path
from context_engine.team.token_file import Role, TokenFile
from context_engine.timestamps import parse_timestamp

NEVER = "never"
UNITS_S = {"h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_TIME_SPAN = re.compile(r"(\d{1,5})([hdw])")

app = command_group("token", "Manage the tokens of a shared server: roles and projects per user.")

Tokens = Annotated[
    Path | None,
    typer.Option("--tokens", envvar="CTX_HTTP_TOKENS", help="Token file; default: one in your config folder."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user, as it appears in the audit log.")]


@app.command("create")
def token_create(
    name: Name,
    role: Annotated[
        Role,
        typer.Option(
            "--role", help="write: also edits, records and indexing; admin: also clears indexes and sees all metrics."
        ),
    ] = "read",
    project: Annotated[
        list[str] | None,
        typer.Option("--project", help="Grant this project, by name or path; repeatable. '*': every project."),
    ] = None,
    expires: Annotated[str, typer.Option("--expires", help="90d, 12h, a date, or never.")] = "90d",
    per_minute: Annotated[int, typer.Option("--per-minute", min=0, help="Calls per minute; 0: unlimited.")] = 0,
    tokens: Tokens = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it. It is shown only this once: the file stores a hash."""
    # a name stays, a path is stored as the server will see it
    projects = [resolve_path(value) if value.startswith(("/", "~", ".")) else value for value in project or []]
    expires_s = parse_expiry(expires, time.time())
    grant, token = _open_tokens(tokens).create(name, role, projects, expires_s=expires_s, per_minute=per_minute)
    if as_json:
        limits = {"role": role, "projects": list(grant.projects), "expires_s": expires_s}
        print(json.dumps({"name": name, "token": token, **limits}))
        return
    print(token)  # the only line on stdout, so that a script can read it
    until = "without an end" if grant.expires is None else f"until {grant.expires}"
    process_screen().note(
        f"{name} may {role} in {_format_projects(grant.projects)} {until}. The token is not shown again."
    )


@app.command("list")
def token_list(tokens: Tokens = None, as_json: AsJson = False) -> None:
    """List the tokens with name, role, projects and expiry date, never the tokens themselves."""
    file, now_s = _open_tokens(tokens), time.time()
    stored = file.page().tokens
    if as_json:
        fields = ("name", "role", "projects", "per_minute", "made", "expires")
        rows = [
            {field: getattr(token, field) for field in fields} | {"expired": token.is_expired(now_s)}
            for token in stored
        ]
        print(json.dumps({"ok": True, "file": str(file.path), "tokens": rows}))
        return
    screen = process_screen()
    if not stored:
        screen.warn("no tokens", "ctx token create NAME --project PROJECT creates one")
        return
    cells = []
    for token in stored:
        is_expired = token.is_expired(now_s)
        until = (f"{token.expires} (expired)", "red") if is_expired else token.expires or NEVER
        limits = (_format_projects(token.projects), str(token.per_minute or "any"))
        cells.append((token.name, token.role, *limits, until))
    screen.out.show_table(("name", "role", "projects", "a minute", "until"), cells)


@app.command("revoke")
def token_revoke(name: Name, tokens: Tokens = None, as_json: AsJson = False) -> None:
    """Revoke a token. Running servers refuse it from the next request on."""
    _open_tokens(tokens).revoke(name)
    if as_json:
        print_json({"revoked": name})
    else:
        process_screen().out.show(f"{name} is revoked")


def parse_expiry(text: str, now_s: float) -> float | None:
    """Return the moment that a time span or a date means, None for never. Raises: InvalidArgument.

    >>> parse_expiry("2d", 0.0), parse_expiry("1970-01-02", 0.0), parse_expiry("never", 0.0)
    (172800.0, 86400.0, None)
    """
    if text == NEVER:
        return None
    span = _TIME_SPAN.fullmatch(text)
    if span:
        moment_s = now_s + int(span[1]) * UNITS_S[span[2]]
    else:
        moment_s = parse_timestamp(text)
    if moment_s is None:
        raise InvalidArgument(f"--expires {text!r} is not a time", suggestion="Write 90d, 12h, 2027-01-31 or never.")
    return moment_s


def _open_tokens(file: Path | None) -> TokenFile:
    return TokenFile(file.expanduser().absolute() if file else None, now=time.time)


def _format_projects(projects: Sequence[str]) -> str:
    return "every project" if "*" in projects else ", ".join(projects)
