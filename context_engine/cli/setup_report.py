"""The changes of `ctx setup` to each settings file: printed as they happen, or collected as rows of JSON."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from context_engine.cli.clients.client_config import ClientConfigFile
from context_engine.cli.clients.client_table import Client
from context_engine.cli.console import out, print_error
from context_engine.errors import ContextEngineError
from context_engine.text import drop_empty

State = Literal["unchanged", "planned", "written", "removed", "failed"]


@dataclass(slots=True)
class SetupReport:
    """The rows of all files so far; with `as_json` nothing is printed before the end."""

    as_json: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)

    def show(self, text: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            out.print(text, markup=False)

    def show_diff(self, config: ClientConfigFile, after: str | None) -> None:
        """Print what would change in a file; `after` None deletes it."""
        if not self.as_json:
            for line in diff_lines(config, after):
                print(line)

    def add(
        self, client: Client, part: str, state: State, config: ClientConfigFile, after: str | None, **more: Any
    ) -> None:
        """Add the row of a file; `part` is what of ctx it has: server, hooks or guidance."""
        row = {"client": client.name, "part": part, "path": str(config.path), "state": state}
        self.rows.append({**row, **drop_empty({"diff": "\n".join(diff_lines(config, after)), **more})})

    def fail(self, client: Client, part: str, error: ContextEngineError) -> None:
        """Add the row of a client that could not be set up, or print the error and the entry to add by hand."""
        if self.as_json:
            self.rows.append({"client": client.name, "part": part, "state": "failed", "error": error.as_dict()})
            return
        print_error(error)
        if by_hand := error.details.get("by_hand"):
            print(f"\nThe entry, to add by hand:\n\n{by_hand}")


def diff_lines(config: ClientConfigFile, after: str | None) -> Iterator[str]:
    """Yield the lines of the unified diff from the file as it is to its text after the change."""
    old, new = (text.splitlines(keepends=True) for text in (config.text, after or ""))
    name = str(config.path)
    names = name if config.exists else "/dev/null", "/dev/null" if after is None else name
    return (line.rstrip("\r\n") for line in difflib.unified_diff(old, new, *names))
