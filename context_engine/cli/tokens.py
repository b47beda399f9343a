"""`ctx token`: who may use a shared server. The one line on stdout of `create` is the token itself."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path

from context_engine.cli.console import Cell, err, out, print_note, print_table
from context_engine.errors import InvalidArgument
from context_engine.repo import workspace_roots
from context_engine.server.token_file import Kept, TokenFile, Wish, own_file
from context_engine.storage.timestamps import DAY_S, iso, seconds

NEVER = "never"
UNITS_S = {"h": 3_600.0, "d": DAY_S, "w": 7 * DAY_S}
_SPAN = re.compile(r"(\d{1,5})([hdw])")


def create_token(
    file: Path | None, name: str, *, role: str, projects: Sequence[str], expires: str, per_minute: int
) -> int:
    """Make a token and print it; the exit code."""
    wish = Wish(name, role, [_named(each) for each in projects], parse_expiry(expires, time.time()), per_minute)
    grant, token = _tokens(file).create(wish)
    print(token)
    until = "for ever" if grant.expires_s is None else f"until {iso(grant.expires_s)}"
    print_note(f"{name} may {role} in {_projects(grant.projects)} {until}. The token above is not shown again.")
    return 0


def list_tokens(file: Path | None, *, as_json: bool) -> int:
    """The tokens as a table or as JSON; the exit code."""
    tokens, now = _tokens(file), time.time()
    kept = tokens.page().tokens
    if as_json:
        print(json.dumps({"ok": True, "file": str(tokens.path), "tokens": [_row_of(each, now) for each in kept]}))
        return 0
    if not kept:
        err.print("[yellow]no tokens[/yellow]: ctx token create NAME --project PROJECT makes one")
        return 0
    print_table(("name", "role", "projects", "a minute", "until"), [_row(each, now) for each in kept])
    return 0


def revoke_token(file: Path | None, name: str) -> int:
    """Forget a token; the exit code."""
    _tokens(file).revoke(name)
    out.print(f"{name} is revoked")
    return 0


def parse_expiry(text: str, now_s: float) -> float | None:
    """The moment that was meant: a span from now, a date, or None for never. Raises: InvalidArgument.

    >>> parse_expiry("2d", 0.0), parse_expiry("1970-01-02", 0.0), parse_expiry("never", 0.0)
    (172800.0, 86400.0, None)
    """
    if text == NEVER:
        return None
    span = _SPAN.fullmatch(text)
    at = now_s + int(span[1]) * UNITS_S[span[2]] if span else seconds(text)
    if at is None:
        raise InvalidArgument(f"--expires {text!r} is no time", suggestion="Write 90d, 12h, 2027-01-31 or never.")
    return at


def _tokens(file: Path | None) -> TokenFile:
    return TokenFile(file.expanduser().absolute() if file else own_file(), now=time.time)


def _named(project: str) -> str:
    """A project as it is kept: a name as it is, a path as the server will know it."""
    return workspace_roots.real(project) if project.startswith(("/", "~", ".")) else project


def _projects(projects: Sequence[str]) -> str:
    return "every project" if "*" in projects else ", ".join(projects)


def _row(kept: Kept, now_s: float) -> list[Cell]:
    over = kept.grant.is_over(now_s)
    until: Cell = (f"{kept.expires} (over)", "red") if over else kept.expires or NEVER
    return [kept.name, kept.role, _projects(kept.projects), str(kept.per_minute or "any"), until]


def _row_of(kept: Kept, now_s: float) -> dict[str, object]:
    """A token as a program reads it, without what is kept of its secret."""
    told = {"name": kept.name, "role": kept.role, "projects": list(kept.projects), "per_minute": kept.per_minute}
    return told | {"made": kept.made, "expires": kept.expires, "expired": kept.grant.is_over(now_s)}
