"""Every promise of the five design documents this product grew out of, as docs/promises.md lists them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "promises.md"

ISSUES = {
    2: "The house, and finding the right code",
    3: "File tools, and a server at home in every client",
    4: "Embeddings and chunk files",
    5: "Edits that never damage a file",
    6: "Memories, discoveries, context bundles",
    7: "Plans that survive",
    8: "Review, secrets, validation",
    9: "Many repositories, one shared index",
}


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that was promised, below the heading of its document, with what holds it as the page says it."""

    id: str
    document: str
    held_by: str

    @property
    def kept(self) -> tuple[str, ...]:
        """The tests that prove it."""
        return tuple(re.findall(r"`(tests/[^`]+)`", self.held_by))

    @property
    def pending(self) -> int | None:
        """The issue that will keep it."""
        found = re.fullmatch(r"pending: issue (\d+)", self.held_by)
        return int(found[1]) if found else None


def read_page(text: str) -> tuple[dict[str, str], tuple[Promise, ...]]:
    """The documents, by their short names, and the promises, one for each row of a table below `### ...`."""
    documents: dict[str, str] = {}
    promises: list[Promise] = []
    document = ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"## (S\d): (.+)", line):
            document = heading[1]
            documents[document] = heading[2]
        elif row := re.fullmatch(r"\| `(.+?)` \| .+? \| (.+) \|", line):
            promises.append(Promise(row[1], document, row[2]))
    return documents, tuple(promises)


DOCUMENTS, PROMISES = read_page(PAGE.read_text(encoding="utf-8"))


def kept(promises: tuple[Promise, ...] = PROMISES) -> tuple[Promise, ...]:
    """The promises that a test proves today."""
    return tuple(promise for promise in promises if promise.kept)


def open_by_issue(promises: tuple[Promise, ...] = PROMISES) -> Counter[int]:
    """How many promises each issue still has to keep."""
    return Counter(promise.pending for promise in promises if promise.pending is not None)
