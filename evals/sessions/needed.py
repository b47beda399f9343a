"""Which of the needed lines did an agent see? Read from the text of its conversation alone, in whatever form a client shows it.

A hunk counts as seen when a line in or near it was shown that occurs once in the source files of the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from evals.places.windows import source_files

GRACE_LINES = 3
CHARS_MIN = 12
"""A shorter line says too little to be recognized."""


def telling_lines(root: Path, hunks: Mapping[str, Sequence[Sequence[int]]]) -> list[list[str]]:
    """Return for each hunk the lines that occur only once; hunks without such a line are left out."""
    files = dict(source_files(root))
    counts = Counter(line.strip() for lines in files.values() for line in lines)
    found = []
    for path, spans in hunks.items():
        for first, last in spans:
            near = files.get(path, [])[max(0, first - 1 - GRACE_LINES) : last + GRACE_LINES]
            telling = [line.strip() for line in near if len(line.strip()) >= CHARS_MIN and counts[line.strip()] == 1]
            if telling:
                found.append(telling)
    return found


def count_seen(hunks: Iterable[Sequence[str]], text: str) -> int:
    """Return how many of the hunks were shown in a text; JSON inside of it is read as the model reads it."""
    once = _unescape(text)
    plain = "\n".join([text, once, _unescape(once)])  # some clients show JSON inside of JSON
    return sum(any(line in plain for line in hunk) for hunk in hunks)


def _unescape(text: str) -> str:
    return text.replace('\\"', '"').replace("\\\\", "\\")
