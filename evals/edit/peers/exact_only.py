"""The least that an editor can do: replace a text that stands in the file exactly once.

Line ends are left as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from evals.edit.peers.protocol import Pair, Refused, serve


def edit(path: Path, pairs: Sequence[Pair]) -> None:
    """One edit after the other, each on what the one before left; written in place, when all went well."""
    text = path.read_bytes().decode()
    for old, new in pairs:
        if (found := text.count(old)) != 1:
            raise Refused(f"found {found} times")
        text = text.replace(old, new)
    path.write_bytes(text.encode())


if __name__ == "__main__":
    serve(edit)
