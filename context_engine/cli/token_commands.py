"""The commands of `ctx token`: what can be typed. What they do stands in `tokens.py`, imported when one of them runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from context_engine.cli.common_options import AsJson

app = typer.Typer(
    name="token",
    help="Tokens of a server that a team shares: who may do what, on which projects.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

Tokens = Annotated[
    Path | None,
    typer.Option("--tokens", envvar="CTX_HTTP_TOKENS", help="The file of tokens; default: one in your config folder."),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, as the audit log will say.")]


@app.command("create")
def token_create(
    name: Name,
    role: Annotated[
        Literal["read", "write", "admin"],
        typer.Option(
            "--role", help="write: edits, records, indexing too; admin: clears indexes, sees all metrics too."
        ),
    ] = "read",
    project: Annotated[
        list[str] | None,
        typer.Option("--project", help="A project it may see, by name or path; repeatable. '*': every project."),
    ] = None,
    expires: Annotated[str, typer.Option("--expires", help="90d, 12h, a date, or never.")] = "90d",
    per_minute: Annotated[int, typer.Option("--per-minute", min=0, help="Calls a minute; 0: any number.")] = 0,
    tokens: Tokens = None,
) -> None:
    """Make a token and print it. It is shown this once: only a hash of it is kept.

    **Examples**

    - `ctx token create ci --project web`
    - `ctx token create ann --role write --project web --project api --per-minute 120`
    - `ctx token create ops --role admin --project '*' --expires never`
    """
    from context_engine.cli.tokens import create_token

    raise typer.Exit(
        create_token(tokens, name, role=role, projects=project or [], expires=expires, per_minute=per_minute)
    )


@app.command("list")
def token_list(tokens: Tokens = None, as_json: AsJson = False) -> None:
    """List the tokens: names, roles, projects, and until when. Never the tokens themselves.

    **Examples**

    - `ctx token list`
    - `ctx token list --json | jq '.tokens[] | select(.expired)'`
    """
    from context_engine.cli.tokens import list_tokens

    raise typer.Exit(list_tokens(tokens, as_json=as_json))


@app.command("revoke")
def token_revoke(name: Name, tokens: Tokens = None) -> None:
    """Forget a token. Running servers refuse it from their next request on.

    **Examples**

    - `ctx token revoke ci`
    """
    from context_engine.cli.tokens import revoke_token

    raise typer.Exit(revoke_token(tokens, name))
