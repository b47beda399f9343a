r"""PURE. Cut the most relevant part of a chunk: a short chunk whole, else the run of lines that answers best.

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
"""More than a few words of the query in a comment are worth."""
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
WORD_CHARS_MIN = 2
STEM_CHARS_MIN = 4
"""Two letters off a longer word make most of its forms meet: hashed, hashes, hashing."""
TOLERANCE = 1.25
"""A chunk only this much over the limit is shown whole: a cut would save less than its note costs."""


def cut_excerpt(text: str, query: str, *, lines_max: int, chars_max: int, defines: str = "") -> tuple[int, str]:
    """Return the number of lines before the excerpt, and the excerpt: about `lines_max` lines and `chars_max` characters.

    `defines` is the name that the query asks for and the text defines: the line with the definition is preferred. A
    single line longer than `chars_max` stays whole; the caller cuts inside lines.
    """
    if len(text) <= chars_max * TOLERANCE and text.count("\n") < lines_max * TOLERANCE:
        return 0, text
    lines = text.split("\n")
    worth = _worth(text, query)
    if defines and (line := _defining(lines, defines)) is not None:
        worth[line] += DEFINING_WORTH
    value = [0.0, *accumulate(worth)]  # prefix sums, so that the value of a run is a difference
    chars = [0, *accumulate(len(line) + 1 for line in lines)]

    def stop(start: int) -> int:
        fits = bisect_right(chars, chars[start] + chars_max + 1) - 1
        return max(start + 1, min(fits, start + lines_max))

    def gain(start: int) -> float:
        # The first line of a chunk is its signature, and a relevant line is a good start.
        bonus = 0.5 if start == 0 else 0.25 * min(1.0, worth[start])
        return value[stop(start)] - value[start] + bonus

    # A run that starts with a line of no worth is never better than the one that starts at its first line of worth.
    starts = [0, *(number for number, score in enumerate(worth) if score and number)]
    best = max(starts, key=lambda start: (round(gain(start), 6), -start))
    return best, "\n".join(lines[best : stop(best)])


def _defining(lines: list[str], name: str) -> int | None:
    """Return the first line that contains the name and is not a comment."""
    spelled = re.compile(rf"\b{re.escape(name)}\b")
    code = (n for n, line in enumerate(lines) if not line.lstrip().startswith(COMMENT_MARKS) and spelled.search(line))
    return next(code, None)


def first_line(text: str) -> str:
    """Return the line that names the content of a text, with up to two lines of decorators before it."""
    head: list[str] = []
    for line in text.split("\n"):
        if stripped := line.strip():
            head.append(stripped)
            if not stripped.startswith(("@", "#[", "[")) or len(head) == 3:
                break
    return " ".join(head)


def clip_line(line: str, chars_max: int, query: str = "") -> str:
    """Cut a long line around the first word of the query; dots mark the cuts."""
    if len(line) <= chars_max:
        return line
    lowered = line.lower()
    at = min((found for stem in _stems(query) if (found := lowered.find(stem)) >= 0), default=0)
    return shorten_line(line, at, chars_max)


def _worth(text: str, query: str) -> list[float]:
    """Score the words of the query in each line; a word that many lines contain counts little."""
    lowered = text.lower()
    lines = lowered.split("\n")
    worth = [0.0] * len(lines)
    for stem in _stems(query):
        if stem in lowered:
            matching = [number for number, line in enumerate(lines) if stem in line]
            for number in matching:
                worth[number] += 1 / len(matching)
    return worth


def _stems(query: str) -> list[str]:
    """Return the beginnings of the query's words in lower case, each once."""
    parts = (part.lower() for part in _WORD.findall(query) if len(part) >= WORD_CHARS_MIN)
    return list(dict.fromkeys(part[: max(STEM_CHARS_MIN, len(part) - 2)] for part in parts))
