r"""PURE. The part of a chunk worth showing first: as it is when short, else the run of lines that answers best.

>>> cut_excerpt("def a():\n    pass\n\ndef login():\n    return 1", "login", lines_max=2, chars_max=200)
(3, 'def login():\n    return 1')
>>> first_line("    \n@cached\ndef login(user):\n    ...")
'@cached def login(user):'
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from context_engine.text.lines import shorten_line

COMMENT_MARKS = ("#", "//", "/*", "*", "--", '"""')
DEFINING_WORTH = 3.0
"""Above what a few words of the query in a comment are worth."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
WORD_CHARS_MIN = 2
STEM_CHARS_MIN = 4
"""Two letters off a longer word make most of its forms meet: hashed, hashes, hashing."""
TOLERANCE = 1.25
"""A chunk this little over the limit is shown whole: a cut would save less than it costs to explain."""


def cut_excerpt(text: str, query: str, *, lines_max: int, chars_max: int, defines: str = "") -> tuple[int, str]:
    """(how many lines precede it, the excerpt): whole lines, about `lines_max` of them and `chars_max` characters.

    `defines` names what the query asked for and the text defines: the line that does is wanted above others. A single
    line longer than `chars_max` stays whole: cutting inside a line is for whoever shows it.
    """
    if len(text) <= chars_max * TOLERANCE and text.count("\n") < lines_max * TOLERANCE:
        return 0, text
    lines = text.split("\n")
    worth = _worth(text, query)
    if defines and (line := _defining(lines, defines)) is not None:
        worth[line] += DEFINING_WORTH
    value = [0.0, *accumulate(worth)]
    chars = [0, *accumulate(len(line) + 1 for line in lines)]

    def stop(start: int) -> int:
        fits = bisect_right(chars, chars[start] + chars_max + 1) - 1
        return max(start + 1, min(fits, start + lines_max))

    def gain(start: int) -> float:
        # The head of a chunk holds its signature, and a telling line starts well.
        return value[stop(start)] - value[start] + (0.5 if start == 0 else 0.25 * min(1.0, worth[start]))

    # A run that starts with a line of no worth is never better than the one that starts at its first line of worth.
    starts = [0, *(number for number, each in enumerate(worth) if each and number)]
    best = max(starts, key=lambda start: (round(gain(start), 6), -start))
    return best, "\n".join(lines[best : stop(best)])


def _defining(lines: list[str], name: str) -> int | None:
    """The first line that spells the name and is no comment."""
    spelled = re.compile(rf"\b{re.escape(name)}\b")
    code = (n for n, line in enumerate(lines) if not line.lstrip().startswith(COMMENT_MARKS) and spelled.search(line))
    return next(code, None)


def first_line(text: str) -> str:
    """The line that names what the text holds; decorators and attributes keep the line after them."""
    taken: list[str] = []
    for line in text.split("\n"):
        if stripped := line.strip():
            taken.append(stripped)
            if not stripped.startswith(("@", "#[", "[")) or len(taken) == 3:
                break
    return " ".join(taken)


def clip_line(line: str, chars_max: int, query: str = "") -> str:
    """A long line cut around the first word of the query; dots say where it went on."""
    if len(line) <= chars_max:
        return line
    lowered = line.lower()
    at = min((found for stem in _stems(query) if (found := lowered.find(stem)) >= 0), default=0)
    return shorten_line(line, at, chars_max)


def _worth(text: str, query: str) -> list[float]:
    """What each line holds of the query; a word that many lines hold tells little of any."""
    lowered = text.lower()
    lines = lowered.split("\n")
    worth = [0.0] * len(lines)
    for stem in _stems(query):
        if stem in lowered:
            holding = [number for number, line in enumerate(lines) if stem in line]
            for number in holding:
                worth[number] += 1 / len(holding)
    return worth


def _stems(query: str) -> list[str]:
    """The beginnings of the query's words, lower case, each once."""
    parts = (part.lower() for part in _WORD.findall(query) if len(part) >= WORD_CHARS_MIN)
    return list(dict.fromkeys(part[: max(STEM_CHARS_MIN, len(part) - 2)] for part in parts))
