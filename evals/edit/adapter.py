"""The edit engine behind the JSON-lines protocol of an edit bench: one request a line in, one answer a line out.

    {"id", "path", "edits": [{"oldContent", "newContent", "anchor"?}], "options": {"fuzzyMatch"?, "expectedMatches"?}}
        -> {"ok": true} or {"ok": false, "code": "...", "message": "..."}

The file at `path` is edited in place, through the same writer and the same journal as by `edit_file`. The folder it
lies in is taken for the workspace; what the writer keeps of it lies elsewhere, since a bench counts what is left beside
the file. Nothing but answers is ever written to stdout.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if (ROOT / "context_engine").is_dir():  # a checkout answers for itself, whatever else is installed
    sys.path.insert(0, str(ROOT))

from context_engine.edit import Edit, Fuzzy  # noqa: E402
from context_engine.edit.apply import Editor  # noqa: E402 - the path had to be set first
from context_engine.edit.file_edit import edit_file  # noqa: E402
from context_engine.edit.patch import plan  # noqa: E402
from context_engine.errors import ContextEngineError  # noqa: E402
from context_engine.repo import Root  # noqa: E402
from context_engine.text import LineSpan  # noqa: E402

STATE = Path(tempfile.gettempdir()) / "ctx-edit-bench"


@cache
def editor(folder: Path) -> Editor:
    """The writer of a folder; those of several processes share its locks."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return Editor(Root(folder), STATE / name)


def edit_of(row: dict[str, Any], options: dict[str, Any]) -> Edit:
    """An edit in its canonical form."""
    anchor, fuzzy = row.get("anchor") or {}, options.get("fuzzyMatch") or {}
    lines = anchor.get("lineRange")
    return Edit(
        target=row["oldContent"],
        replacement=row["newContent"],
        before=anchor.get("beforeContext") or "",
        after=anchor.get("afterContext") or "",
        line_range=LineSpan(lines["start"], lines["end"]) if lines else None,
        expected_matches=options.get("expectedMatches", 1),
        fuzzy=Fuzzy(
            enabled=fuzzy.get("enabled", True),
            distance_max=fuzzy.get("maxDistance", 5),
            whitespace_only=fuzzy.get("whitespaceOnly", True),
        ),
    )


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Edit one file. Raises: whatever the engine refuses."""
    edits = [edit_of(row, request.get("options") or {}) for row in request["edits"]]
    path = Path(request["path"])
    editor(path.parent).apply([edit_file(path.name, partial(plan, edits=edits))])
    return {"ok": True}


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except ContextEngineError as error:
            reply = {"ok": False, "code": error.code, "message": error.message}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
