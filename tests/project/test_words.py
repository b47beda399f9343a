"""Plain English, held by a ratchet: how often the code and the documents use a word that style.md advises against.

`tests/project/words.toml` has the count of each marker; a count may fall and never rise.
`python -m tests.project.test_words` writes the counts of today.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMITS = Path(__file__).with_name("words.toml")

MARKERS = {
    "headless relative clause": r"(?m)(?:^|[.:;>] |\"\"\"|# )(?:Who|What|Whatever|Whoever) [a-z]+(?![^\n]*\?)",
    "stands": r"\b[Ss](?:tands?|tood)\b",
    "somebody, nobody, anybody": r"\b(?:[Ss]ome|[Nn]o|[Aa]ny)body\b",
    "told, tell": r"\b[Tt](?:old|ells?)\b",
    "is no": r"(?<![Tt]here )\bis no\b(?! (?:longer|more|such)\b)",
    "beside": r"\b[Bb]eside\b",
    "lies": r"\b(?:lies|lie|lay)\b",
    "anew": r"\banew\b",
    "whoever": r"\b[Ww]hoever\b",
    "British spelling": r"\b(?:neighbour|colour|behaviour|honour|analyser|normalis|serialis|recognis|optimis|organis)[a-z]*\b",
    "mend": r"\b[Mm]end(?:s|ed|ing)?\b",
}
"""The marker, and the pattern that finds it; the advice is in style.md, rules 1 to 6."""


@cache
def uses() -> dict[str, list[str]]:
    """The file and line of each use of a marker in the files that git tracks: the package and all Markdown."""
    listing = subprocess.run(
        ["git", "ls-files", "context_engine", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found: dict[str, list[str]] = {marker: [] for marker in MARKERS}
    for name in listing.stdout.splitlines():
        if name.endswith((".py", ".md")):
            text = (ROOT / name).read_text(encoding="utf-8")
            for marker, pattern in MARKERS.items():
                found[marker] += [
                    f"{name}:{text.count(chr(10), 0, hit.end()) + 1}" for hit in re.finditer(pattern, text)
                ]
    return found


@pytest.mark.parametrize("marker", MARKERS)
def test_a_word_to_avoid_is_not_used_more_often_than_before(marker: str) -> None:
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))
    assert len(uses()[marker]) <= limits[marker], f"say it in plain English, or lower one of: {uses()[marker]}"


if __name__ == "__main__":
    LIMITS.write_text("".join(f'"{marker}" = {len(places)}\n' for marker, places in uses().items()), encoding="utf-8")
