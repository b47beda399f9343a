#!/usr/bin/env python3
"""Print what the SCIP snapshots of a repository say: use and definition, as path, line and column.

    python evals/references/golden.py --mirrors DIR --language csharp --table --server evals/references/scip_snapshots.py

`snapshots/output*` repeats the lines of `snapshots/input`, each followed by comments with carets below the names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_MARK = re.compile(r"//\s+(\^+) (definition|reference) (\S.*)$")
_CONSTRUCTOR = re.compile(r"`\.ctor`\([^)]*\)\.$")


class Mark(NamedTuple):
    """A name at a place, and the symbol that it defines or uses."""

    path: str
    line: int
    column: int
    role: str
    symbol: str


def read_marks(path: str, text: str) -> Iterator[Mark]:
    """Yield the marks of one snapshot; the names of local symbols hold in one file."""
    line = 0
    for written in text.splitlines():
        found = _MARK.match(written)
        if found is None:
            line += not re.match(r"//\s+(documentation|relationship|override_doc|display_name|signature)", written)
            continue
        symbol = found[3] if not found[3].startswith("local ") else f"{path} {found[3]}"
        yield Mark(path, line, found.start(1) - 1, found[2], symbol)


def main() -> None:
    """Print the table of the newest snapshots below a folder."""
    root = Path(sys.argv[1])
    outputs = sorted((root / "snapshots").glob("output*"), key=lambda one: (len(one.name), one.name))
    marks: list[Mark] = []
    for file in sorted(outputs[-1].rglob("*.cs")) if outputs else ():
        path = str(Path("snapshots/input") / file.relative_to(outputs[-1]))
        marks += read_marks(path, file.read_text("utf-8-sig"))
    defined = {mark.symbol: mark for mark in marks if mark.role == "definition"}
    for mark in marks:
        # `new Cat()` uses the constructor and names the class.
        symbols = {mark.symbol}
        if mark.role == "reference":
            symbols.add(_CONSTRUCTOR.sub("", mark.symbol))
        targets = [defined[symbol] for symbol in symbols if symbol in defined]
        rows = [(one.path, one.line, one.column) for one in targets] or [("", 0, 0)]
        for row in rows:
            print(mark.path, mark.line, mark.column, *row, sep="\t")


if __name__ == "__main__":
    main()
