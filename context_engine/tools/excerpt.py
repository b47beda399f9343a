r"""PURE. The part of a chunk worth showing first: as it is when short, else the run of lines that answers best.

>>> excerpt("def a():\n    pass\n\ndef login():\n    return 1", "login", lines_max=2, chars_max=200)
(3, 'def login():\n    return 1')
>>> first_line("    \n@cached\ndef login(user):\n    ...")
'@cached def login(user):'
"""

from __future__ import annotations

import re
from collections import Counter

_WORD = re.compile(r"[A-Za-z]{2,}|\d+")


def excerpt(text: str, query: str, *, lines_max: int, chars_max: int) -> tuple[int, str]:
    """(how many lines precede it, the excerpt): at most `lines_max` whole lines and about `chars_max` characters.

    A single line longer than `chars_max` stays whole: cutting inside a line is for whoever shows it.
    """
    lines = text.split("\n")
    if len(lines) <= lines_max and len(text) <= chars_max:
        return 0, text
    worth = _worth(lines, query)
    runs = [_run(lines[start : start + lines_max], chars_max) for start in range(len(lines))]
    best = max(range(len(lines)), key=lambda start: (_value(worth, start, len(runs[start])), -start))
    return best, "\n".join(runs[best])


def first_line(text: str) -> str:
    """The line that names what the text holds; decorators and attributes keep the line after them."""
    taken: list[str] = []
    for line in text.split("\n"):
        if stripped := line.strip():
            taken.append(stripped)
            if not stripped.startswith(("@", "#[", "[")) or len(taken) == 3:
                break
    return " ".join(taken)


def clipped(line: str, chars_max: int, query: str = "") -> str:
    """A long line cut around the first word of the query; dots say where it went on."""
    if len(line) <= chars_max:
        return line
    lowered = line.lower()
    at = min((found for word in _words(query) if (found := lowered.find(word)) >= 0), default=0)
    start = max(0, min(at - chars_max // 4, len(line) - chars_max))
    before, after = "…" if start else "", "…" if start + chars_max < len(line) else ""
    return f"{before}{line[start : start + chars_max]}{after}"


def _worth(lines: list[str], query: str) -> list[float]:
    """What each line holds of the query; a word that many lines hold tells little of any."""
    asked = _words(query)
    found = [asked & _words(line) for line in lines]
    often = Counter(word for words in found for word in words)
    return [sum(1 / often[word] for word in words) for words in found]


def _value(worth: list[float], start: int, count: int) -> float:
    """The worth of a run of lines. The head of a chunk holds its signature, and a telling line starts well."""
    return sum(worth[start : start + count]) + (0.5 if start == 0 else 0.25 * min(1.0, worth[start]))


def _run(lines: list[str], chars_max: int) -> list[str]:
    kept, chars = lines[:1], len(lines[0]) if lines else 0
    for line in lines[1:]:
        chars += len(line) + 1
        if chars > chars_max:
            break
        kept.append(line)
    return kept


def _words(text: str) -> set[str]:
    """Lower-case word parts: `loginUser` and `login_user` both hold login and user."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return {word.lower() for word in _WORD.findall(parted)}
