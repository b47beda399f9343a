"""PURE. Hints beside a bundle: facts about its files that the code itself does not show. Never advice, never a guess.

>>> commits("src/auth.py", 14, "2026-10-03"), importers("src/auth.py", 1)
('src/auth.py: 14 commits, the last on 2026-10-03', 'src/auth.py: imported by 1 file')
>>> together("a.py", "b.py", 9, 0.9)
'a.py: changed together with b.py in 9 of 10 commits'
"""

from __future__ import annotations


def commits(path: str, number: int, last_on: str) -> str:
    """How often a file was changed, and when last."""
    return f"{path}: {_counted(number, 'commit')}, the last on {last_on}"


def together(path: str, partner: str, number: int, confidence: float) -> str:
    """What is changed with it. `confidence` is the share of the file's commits in which the partner is, too."""
    return f"{path}: changed together with {partner} in {number} of {_counted(round(number / confidence), 'commit')}"


def importers(path: str, number: int) -> str:
    """How many files lean on it."""
    return f"{path}: imported by {_counted(number, 'file')}"


def stale(path: str) -> str:
    """That the index is behind."""
    return f"{path}: edited since it was indexed; lines are those of today"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
