r"""PURE. Keep a reply inside its limits: whole items only, notes on what was left out, the best part of a text.

>>> count_fitting(["aaaa", "bbbb", "cccc"], chars_max=10)
2
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Annotated, Any, NamedTuple

from context_engine.context import ShownLines
from context_engine.text import (
    COMMENT_MARKS,
    compact_json,
    drop_empty,
    escape_line,
    estimate_tokens,
    format_count,
    join_first,
    score_lines,
    shorten_line,
)
from context_engine.tools.arguments import TextListArg
from context_engine.tools.text_form import format_field
from context_engine.tools.tool import Call, Reply

NOTE_CHARS = 600
"""Reserved for the notes that say what was left out and how to get it."""

SHA_CHARS = 12
"""As much of a file's hash as a reply shows."""
CHARS_OF_BYTES = (36_000, 47_000)
"""The limit in characters, and the bytes they may take: two clients cut replies over about 48,000 bytes
(docs/clients-report.md)."""


def reply_size(text: str) -> int:
    """Return how much of a reply's limit a text uses: its characters, or more if its UTF-8 has many bytes.

    >>> reply_size("code"), reply_size("代码")
    (4, 5)
    """
    if text.isascii():
        return len(text)
    return max(len(text), -(-len(text.encode("utf-8", "replace")) * CHARS_OF_BYTES[0] // CHARS_OF_BYTES[1]))


def cut_to_size(text: str, room: int) -> str:
    """Return the longest prefix of a text that fits the room."""
    room = max(0, room)
    bytes_max = room * CHARS_OF_BYTES[1] // CHARS_OF_BYTES[0]
    return text.encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore")[:room]


def cut_to_json(text: str, room: int) -> str:
    """Return a prefix of a text whose JSON fits the room."""
    shown = text[: max(0, room)]
    while shown and reply_size(compact_json(shown)) > room:  # escapes take more room than characters
        shown = shown[: len(shown) // 2]
    return shown


def count_fitting(items: Iterable[str], *, chars_max: int, tokens_max: int = 0, between: int = 1) -> int:
    """Count the first items that fit, each with `between` characters after it; `tokens_max` 0 means no limit."""
    chars = tokens = count = 0
    for item in items:
        chars += reply_size(item) + between
        tokens += estimate_tokens(item) if tokens_max else 0
        if chars > chars_max or (tokens_max and tokens > tokens_max):
            break
        count += 1
    return count


def take_fitting_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    chars_max: int,
    tokens_max: int = 0,
    least: int = 0,
    write: Callable[[Any], str] = compact_json,
) -> list[Mapping[str, Any]]:
    """Return the first rows that fit as they are written, at least `least` of them if they fit the characters."""
    written = [write(row) for row in rows]
    room = chars_max - NOTE_CHARS
    count = count_fitting(written, chars_max=room, tokens_max=tokens_max)
    if count < least:
        count = min(least, count_fitting(written, chars_max=room))
    return list(rows[:count])


def add_rows(
    fields: Mapping[str, Any], name: str, rows: Sequence[Mapping[str, Any]], chars_max: int, *, least: int = 0
) -> dict[str, Any]:
    """Return the fields of a reply with the rows that fit next to them; `NAME_left_out` counts the others."""
    shown = take_fitting_rows(rows, chars_max=chars_max - reply_size(compact_json(fields)), least=least)
    left = {f"{name}_left_out": len(rows) - len(shown)} if len(shown) < len(rows) else {}
    return {**fields, name: shown, **left}


def add_text(fields: Mapping[str, Any], name: str, lines: Sequence[str], chars_max: int) -> dict[str, Any]:
    """Return the fields of a reply with one text of the lines that fit; `lines_left_out` counts the others."""
    room = chars_max - NOTE_CHARS - reply_size(compact_json(fields))
    count = count_fitting(map(compact_json, lines), chars_max=room)  # quotes count for the line feeds between them
    return {**fields, name: "\n".join(lines[:count])} | drop_empty({"lines_left_out": len(lines) - count or None})


def keep_fitting(lines: Sequence[str], chars_max: int, advice: str = "", noun: str = "line") -> list[str]:
    """Return the lines that fit, and a last one that counts the others and says how to see them."""
    count = count_fitting(lines, chars_max=chars_max)
    return [*lines[:count], *count_rest(len(lines) - count, advice, noun)]


def count_rest(left: int, advice: str = "", noun: str = "") -> list[str]:
    """Return the line that says what a text leaves out and how to see it; none if everything is shown.

    >>> count_rest(3, ": raise `limit`", "line"), count_rest(1_200), count_rest(0)
    (['… 3 more lines: raise `limit`'], ['… 1,200 more'], [])
    """
    what = format_count(left, f"more {noun}") if noun else f"{left:,} more"
    return [f"… {what}{advice}"] if left > 0 else []


class Listing(NamedTuple):
    """Rows under a headline, with notes below: one value with a text form and a JSON form.

    `lines` are the rows as text, `rows` as JSON; only those of the form that is used are made. `notes` are fields of
    the JSON, and a line each in the text. `more` says how to see the rows that have no room.
    """

    head: str
    fields: Mapping[str, Any]
    name: str
    lines: Iterable[str]
    rows: Iterable[Mapping[str, Any]]
    notes: Mapping[str, Any]
    more: str = ""

    def write(self, chars_max: int, *, as_json: bool) -> Reply:
        """Return the reply in one of its forms."""
        notes = drop_empty(self.notes)
        if as_json:
            return Reply(compact_json(add_rows({**self.fields, **notes}, self.name, list(self.rows), chars_max)))
        lines = keep_fitting(list(self.lines), chars_max - NOTE_CHARS, self.more, noun="")
        return Reply("\n".join([self.head, *lines, *note_lines(notes)]))


def note_lines(notes: Mapping[str, Any]) -> list[str]:
    """Return the lines of the notes of a reply.

    >>> note_lines({"near_tags": ["go", "rust"], "next": "use one"})
    ['near tags: go, rust', 'next: use one']
    """
    return [line for name, value in notes.items() for line in format_field(name.replace("_", " "), value)]


def describe_empty_list(by_status: Mapping[str, int], status: str, everything: str, none: str) -> str:
    """Return what to try when a list of records is empty; `everything` is the status that filters nothing.

    >>> describe_empty_list({"stale": 2}, "active", "all", "memories yet")
    'There are 2 stale: `status: all` shows them.'
    """
    others = [f"{count} {name}" for name, count in by_status.items() if name != status]
    if others and status != everything:
        how = f"`status: {everything}` shows them" if everything else "leave `status` out to see them"
        return f"There are {', '.join(others)}: {how}."
    return "Use other words, or none." if by_status else f"There are no {none}."


def pick_fields(source: Any, names: str) -> dict[str, Any]:
    """Return some attributes of an object as the fields of a row.

    >>> pick_fields(3 + 4j, "real imag")
    {'real': 3.0, 'imag': 4.0}
    """
    return {name: getattr(source, name) for name in names.split()}


def join_headline(*parts: str) -> str:
    """Join the parts of a headline that are not empty, and do not say that the index is as it should be.

    >>> join_headline("2 places", "hybrid", "fresh"), join_headline("2 places", "lexical", "1 file edited since")
    ('2 places', '2 places · lexical · 1 file edited since')
    """
    return " · ".join(escape_line(part) for part in parts if part not in ("", "hybrid", "fresh"))


DEFINING_WORTH = 3.0
"""More than a few words of the query in a comment are worth."""
_QUERY_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
STEM_CHARS_MIN = 4
"""Two letters off a longer word make most of its forms meet: hashed, hashes, hashing."""
TOLERANCE = 1.25
"""A chunk only this much over the limit is shown whole: a cut would save less than its note costs."""


def cut_excerpt(
    text: str,
    query: str,
    *,
    lines_max: int,
    chars_max: int,
    defines: Iterable[tuple[str, range]] = (),
    heads: Sequence[int] = (),
) -> tuple[int, str]:
    """Return the number of lines before it, and the excerpt of about `lines_max` lines, `chars_max` characters.

    `defines` are the names that the query asks for and the text defines, each with the lines of its definition, counted
    from 0: the excerpt starts at the first line of one, or at its name if the comment above that is long.
    `heads` are the lines, counted from 0, at which definitions start, below 0 for one that started before the text: an
    excerpt does not start inside a definition that fits, and does not go on to one that has nothing of the query. A
    single line longer than `chars_max` stays whole; the caller cuts inside lines.
    """
    lines = text.split("\n")
    is_short = len(text) <= chars_max * TOLERANCE and len(lines) - 1 < lines_max * TOLERANCE
    starts_inside = bool(heads) and heads[0] < 0
    if is_short and not starts_inside:
        return 0, text
    worth = score_lines(text, _stems(query))
    if is_short:  # without the end of another definition, if that has nothing of the question
        own = next((head for head in heads if head > 0), 0)
        start, stop = 0 if any(worth[:own]) else own, len(lines)
    else:
        starts = []
        for name, own in defines:
            line = _defining_line(lines, name, own)
            worth[line] += DEFINING_WORTH
            is_near = line - own[0] < lines_max / 2 and len("".join(lines[own[0] : line])) < chars_max / 2
            starts.append(own[0] if is_near else line)
        start, stop = _find_best_run(lines, worth, heads, starts, lines_max, chars_max)
    return start, "\n".join(lines[start:stop])


def _find_best_run(
    lines: Sequence[str],
    worth: Sequence[float],
    heads: Sequence[int],
    starts: Sequence[int],
    lines_max: int,
    chars_max: int,
) -> tuple[int, int]:
    """Return the first line and the end of the run with the most of the question, the earliest of equal ones.

    It begins at one of `starts`, if there are any.
    """
    # Sums of what is before each line, so that the worth and the size of a run are differences.
    worth_before = [0.0, *accumulate(worth)]
    chars_before = [0, *accumulate(len(line) + 1 for line in lines)]
    definitions = [(max(0, first), stop) for first, stop in pairwise([*heads, len(lines)]) if stop > 0]
    starts_inside = bool(heads) and heads[0] < 0

    def stop_of(start: int) -> int:
        """Return the end of the run from a line on: one line at least, else as many as the limits allow."""
        fitting = bisect_right(chars_before, chars_before[start] + chars_max + 1) - 1
        return max(start + 1, min(fitting, start + lines_max))

    def rate(start: int) -> tuple[float, int]:
        """Return the worth of a run: the first line of a definition, its signature, and a relevant one count more."""
        is_head = start in heads or (start == 0 and not starts_inside)
        bonus = 0.5 if is_head else 0.25 * min(1.0, worth[start])
        return round(worth_before[stop_of(start)] - worth_before[start] + bonus, 6), -start

    # A run that starts with a line of no worth is never better than the one that starts at its first line of worth.
    short = [(first, stop) for first, stop in definitions if stop - first <= lines_max]
    head_of = {line: first for first, stop in short for line in range(first, stop)}
    relevant = [0, *(number for number, score in enumerate(worth) if score)]
    start = max(starts or {head_of.get(number, number) for number in relevant}, key=rate)
    stop = stop_of(start)
    later = [first for first, _ in definitions if start < first < stop]
    while later and worth_before[stop] == worth_before[later[-1]]:  # a definition that has nothing of the question
        stop = later.pop()
        while stop > start + 1 and not lines[stop - 1].strip():
            stop -= 1
    return start, stop


def _defining_line(lines: Sequence[str], name: str, own: range) -> int:
    """Return the first of some lines that has the name and is not a comment; the first one if there is none."""
    spelled = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    code = (number for number in own if not lines[number].lstrip().startswith(COMMENT_MARKS))
    return next((number for number in code if spelled.search(lines[number])), own[0])


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


def find_matches(line: str, query: str) -> Iterator[re.Match[str]]:
    """Yield the words of a line that begin like words of the query.

    >>> [found[0] for found in find_matches("def renewed(cert): cat(is_a)", "where is a cert renewed")]
    ['renewed', 'cert']
    """
    stems = [re.escape(stem) for stem in _stems(query) if len(stem) >= STEM_CHARS_MIN]
    return re.finditer(rf"(?i)(?:{'|'.join(stems)})[^\W_]*", line) if stems else iter(())


@lru_cache(16)
def _stems(query: str) -> tuple[str, ...]:
    """Return the beginnings of the query's words in lower case, each once; of a long query of its telling part."""
    from context_engine.search import Question

    parts = (part.lower() for part in _QUERY_WORD.findall(Question.of(query).focus) if len(part) >= 2)
    return tuple(dict.fromkeys(part[: max(STEM_CHARS_MIN, len(part) - 2)] for part in parts))


# -- earlier replies ---------------------------------------------------------------------------------------------------

# Leave out of a reply the code that the client was shown before.
#
#     known = find_shown(call, query, max_files)       # empty for a question that is asked again
#     if known.includes(path, first, text): ...                # name the place in `list_shown` and leave the text out
#     call.shown.add(path, first, text)                        # for every text that the reply does show
#
# A tool that reads a place by its path only adds: its caller wants to see it.

Includes = Annotated[tuple[str, ...], TextListArg("Only paths like src/** or *.py.")]
Excludes = Annotated[tuple[str, ...], TextListArg("Globs to leave out.")]


def find_shown(call: Call, *question: object) -> ShownLines:
    """Return the lines that a reply may leave out: none if the caller asks the same question again."""
    return ShownLines() if call.shown.note_question(*question) else call.shown


def list_shown(places: Sequence[str]) -> str:
    """Name the places that a reply leaves out, and how to get them; empty if there are none.

    >>> list_shown(["a.py:10-40", "b.py:7-21"])
    'a.py:10-40, b.py:7-21 (repeat the call to see them)'
    """
    return f"{join_first(places, 12)} (repeat the call to see them)" if places else ""
