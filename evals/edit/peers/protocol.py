"""The JSON-lines protocol of an edit bench, for editors of other people: what ours speaks in `../adapter.py`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

PEERS = Path(__file__).resolve().parents[3] / "build" / "peers"
"""Where `../side_by_side.py` installs them; git does not see it."""


class Pair(NamedTuple):
    """An edit, as every editor has it.

    Anchors and options are ours alone; the bench folds them in or leaves the task out.
    """

    old: str
    new: str


class Refused(Exception):  # noqa: N818 - `raise Refused(...)` reads as the sentence it is
    """The editor would not."""


def serve(edit: Callable[[Path, Sequence[Pair]], None]) -> None:
    """Answer until stdin ends. Whatever an editor raises is its way to refuse."""
    for line in sys.stdin:
        request = json.loads(line)
        pairs = [Pair(row["oldContent"], row["newContent"]) for row in request["edits"]]
        try:
            edit(Path(request["path"]), pairs)
            reply = {"ok": True}
        except Exception as error:  # noqa: BLE001 - other people's errors have no common class
            reply = {"ok": False, "code": type(error).__name__, "message": str(error)[:500]}
        print(json.dumps(reply), flush=True)
