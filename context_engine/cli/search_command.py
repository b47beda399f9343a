"""`ctx search`: print the answer for people, as plain text in a pipe, or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.cli.common_options import INTERRUPTED, NOTHING_FOUND
from context_engine.cli.console import ensure_index, err, escape_text, out, print_note
from context_engine.cli.workspace_root import resolve_root
from context_engine.engine import Engine
from context_engine.errors import Cancelled
from context_engine.model import Hit
from context_engine.text import escape_controls
from context_engine.tools import excerpt_hit, parse_search_arguments

if TYPE_CHECKING:
    from context_engine.model import Answer


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The options of the command line; `filters` has the argument names of `codebase_retrieval`."""

    query: str
    number: int
    filters: Mapping[str, Sequence[str]]
    as_json: bool = False
    why: bool = False

    @property
    def arguments(self) -> dict[str, object]:
        """The arguments of the tool."""
        return {"query": self.query, "top_k": self.number, **self.filters}


def search_workspace(workspace: str, asked: SearchOptions) -> int:
    """Search all repositories of a workspace, after indexing those without an index; return the exit code."""
    from context_engine.cli.workspace_commands import build_workspace_dispatcher, index_missing, open_workspace
    from context_engine.multi_repo import MultiRepo
    from context_engine.tools import Call

    with open_workspace(workspace) as engines:
        try:
            index_missing(engines)
        except Cancelled:
            err.print("[yellow]interrupted[/yellow]: nothing searched; ctx workspace update goes on from there")
            return INTERRUPTED
        if asked.as_json:
            reply = build_workspace_dispatcher(engines).call("codebase_retrieval", asked.arguments, Call()).reply
            print(reply.text)
            return int(reply.is_error)
        answer = MultiRepo(engines).search.find(parse_search_arguments(asked.arguments))
    _show(answer, asked)
    return 0 if answer.hits else NOTHING_FOUND


def search(root: Path | None, asked: SearchOptions) -> int:
    """Search, after indexing if there is no index; return the exit code."""
    with Engine.open(resolve_root(root)) as engine:
        if not ensure_index(engine, "searched"):
            return INTERRUPTED
        if asked.as_json:
            from context_engine.cli.call_command import print_reply

            return print_reply(engine, "codebase_retrieval", asked.arguments)
        answer = engine.search.find(parse_search_arguments(asked.arguments))
    _show(answer, asked)
    return 0 if answer.hits else NOTHING_FOUND


def _show(answer: Answer, asked: SearchOptions) -> None:
    """Print the hits, best first, and notes about the answer to stderr."""
    for number, hit in enumerate(answer.hits):
        if number:
            out.print()
        _show_hit(hit, asked)
    if not answer.hits:
        near = f" Tags that exist: {', '.join(answer.near_tags)}." if answer.near_tags else ""
        err.print(
            f"[yellow]nothing found[/yellow]: {escape_text(answer.reason)}.{escape_text(near)} Try other words, or ctx symbol."
        )
    elif answer.freshness != "fresh" or len(answer.hits) < answer.total:
        print_note(f"{len(answer.hits)} of {answer.total:,} matches · {answer.freshness}")


def _show_hit(hit: Hit, asked: SearchOptions) -> None:
    """Print a header line `path:first-last  title`, then the code."""
    span, text = excerpt_hit(hit, asked.query)
    title = hit.chunk.title if hit.chunk.title != hit.chunk.path else ""
    stale = " [yellow](edited since indexed)[/yellow]" if hit.stale else ""
    place = f"[bold cyan]{escape_text(hit.chunk.path)}[/bold cyan]:[green]{span.first}-{span.last}[/green]"
    out.print(f"{place}  {escape_text(title)}{stale}".rstrip())
    if asked.why:
        parts = ", ".join(f"{name} {share:g}" for name, share in hit.main_parts().items())
        out.print(f"  [dim]{hit.score:.3f} = {parts}[/dim]")
    _show_code(text, hit.chunk.language, span.first)


def _show_code(code: str, language: str, first: int) -> None:
    text = escape_controls(code)
    if not out.is_terminal:
        out.print(text, markup=False)
        return
    from rich.syntax import Syntax

    out.print(Syntax(text, language, line_numbers=True, start_line=first, theme="ansi_dark", word_wrap=False))
