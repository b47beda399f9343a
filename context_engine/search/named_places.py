r"""PURE. The files and lines that a text names: paths, stack frames of any language, hunks of a diff.

A path is what ends like a file name; its line comes behind it in one of a few forms, which languages share.

>>> trace = 'File "/srv/zoo/app.py", line 7, in main\n  File "/srv/zoo/cats.py", line 9, in purr\nKeyError: 1'
>>> [(place.path, place.line, place.weight) for place in find_places(trace)]
[('/srv/zoo/cats.py', 9, 1.0), ('/srv/zoo/app.py', 7, 0.6)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from context_engine.index import PathEnd
from context_engine.languages import Languages

FOUND_MAX = 200
"""Paths that are read at the beginning of a text, and at its end, where a log has its failure."""
PATH_CHARS_MAX = 300
FRAME_FACTOR = 0.6
"""Of each frame, relative to the frame that it called."""
SAME_TRACE_CHARS = 600
"""Frames that are further apart are of two traces: between two frames are source lines and values."""
NEXT_TRACE = 3
"""The innermost frame of a trace comes after so many frames of the trace before it."""
PATH_WEIGHT, BARE_NAME_WEIGHT = 0.5, 0.3
"""Of a path without a line, which may be mentioned in passing, and of a file name alone: `Node.js` is none."""
_OTHER_ENDINGS = frozenset("erb fs gradle groovy j2 less lock nim twig vb".split())
"""Of files whose language is not known here."""
_MEMBER_NAMES = frozenset("desktop env log make properties props rest sc service t targets text".split())
"""Endings of files that are names of members more often: `console.log`, `self.props`, `os.env`."""


@lru_cache(maxsize=1)
def path_endings() -> frozenset[str]:
    """Return what a path of a source file ends with, after the last dot.

    >>> sorted(_OTHER_ENDINGS & Languages.builtin().file_endings())  # a language that is known now
    []
    """
    return Languages.builtin().file_endings() - _MEMBER_NAMES | _OTHER_ENDINGS


class NamedPlace(NamedTuple):
    """A path that a text names, its line (0: none), and how near that is to what the text is about, 0 to 1.

    `function`: the name of the function that the line was in, if a frame says so.
    """

    path: str
    line: int
    weight: float
    function: str = ""


MentionKind = Literal["path", "symbol", "error"]


class Mention(NamedTuple):
    """Something that a text names, as it is written from `start` on: the `name` it means, and its line (0: none).

    `certain`: it is surely a name of this code; a name that only its capitals mark ("GitHub") and one in a code fence,
    which may be from anywhere, are not. `is_dotted`: nothing but dots marks it as code. `frame`: it is of a stack trace
    that begins or ends with its innermost frame; `function`: the name of its function, where it is known.
    """

    start: int
    text: str
    kind: MentionKind
    name: str
    line: int = 0
    certain: bool = True
    is_dotted: bool = False
    frame: Literal["", "inner first", "inner last"] = ""
    function: str = ""


def find_places(text: str) -> list[NamedPlace]:
    """Return the places that a text names, each once: frames, the innermost first, then hunks, then other paths."""
    mentions = find_paths(text)
    frames = _rank_frames([mention for mention in mentions if mention.frame])
    others = []
    for mention in mentions:
        if not mention.frame:
            unsure = PATH_WEIGHT if "/" in mention.name else BARE_NAME_WEIGHT
            others.append(NamedPlace(mention.name, mention.line, 1.0 if mention.line else unsure))
    places = [*frames, *_find_hunks(text), *others]
    return list({(place.path, place.line): place for place in reversed(places)}.values())[::-1]


# -- paths ------------------------------------------------------------------------------------------------------------

_ENDING = re.compile(
    r"\.(?P<suffix>[A-Za-z]\w{0,9})(?![\w/\\-]|\.\w|\((?!\d))"
    r"(?::(?:line )?(?P<line>\d{1,7})(?::\d{1,5})?|\((?P<bracket>\d{1,7})(?:,\d{1,5})?\)"
    r"|#L(?P<anchor>\d{1,7})(?:-L?\d+)?|[\"']?,? (?:on )?line (?P<word>\d{1,7}))?"
)
"""The end of a path with its line: `a.go:7`, `a.rs:7:13`, `a.cs:line 7`, `a.php(7)`, `a.py", line 7`, `#L7-L9`."""
_BACKWARDS = re.compile(r"[\w.@+~\[\]/\\-]*")
"""The characters of a path, from its end to its beginning."""
_OWNER_BACKWARDS = re.compile(r"\(([\w$.<>]+)")
"""The name before the file in a frame of Java or Kotlin: `at com.zoo.Cat.purr(`."""
_FRAME_BEFORE = re.compile(
    r"(?:^|[\s(])(?:at|from|in|File|#\d{1,4}|\d{1,4}:|-->|panicked)[\s(\"']|^[\s(\"'>|]*$|^\s*\(\w+ [\w.-]+\) $"
)
_FRAME_BEHIND = re.compile(r"[\"']?,? in |:in |: in |: \w+(?:Error|Exception|Failure)\b| \+0x")
_BEFORE_CHARS = 120
_FUNCTION_BEFORE = re.compile(r"([\w$]+)(?: \[as [\w$]+\])? ?\((?:[A-Za-z-]+:)?$")
"""The function in front of the file: `at com.zoo.Cat.purr(`, `at Cat.purr [as meow] (file:`."""
_CALL_BEFORE = re.compile(r"^\s*(?:at|#\d+)\s[^()]*?([\w$]+) ?\([^()]*\) (?:in|at) (?:[A-Za-z]:)?$")
"""The function with its arguments in front of the file: `at Zoo.Cat.Purr(Cat cat) in `, `#1  0x4f in purr (x=1) at `"""
_FUNCTION_BEHIND = re.compile(r"(?:[`'](?:[a-z ]+ in )?)?(?:[\w:]+[#.])?([A-Za-z_]\w*)")
"""The function after the `in` behind the file: `purr`, `'Cat#purr'`, `'block in Cat#purr'`."""
_FUNCTION_ABOVE = re.compile(r"(?:^|[.:])(\w+)(?:\([^()\n]*\)|(?:::h[0-9a-f]{16})?)$")
"""The function on the line above the file: `main.(*Cat).purr(0x1)`, ` 3: zoo::cat::purr`."""
_ONLY_FILE_BEFORE = re.compile(r"\s+(?:at )?$")


def find_paths(text: str) -> list[Mention]:
    """Return the paths of a text, of very many the first and the last; a bare `Node.js` may be something else."""
    known = path_endings()
    endings = [match for match in _ENDING.finditer(text) if match["suffix"].lower() in known]
    if len(endings) > 2 * FOUND_MAX:
        endings[FOUND_MAX:-FOUND_MAX] = []
    return list(_read_paths(text, endings))


def _read_paths(text: str, endings: Sequence[re.Match[str]]) -> Iterator[Mention]:
    done = 0
    for match in endings:
        name_stop = match.end("suffix")
        least = max(done, match.start() - PATH_CHARS_MAX)
        backwards = _BACKWARDS.match(text[least : match.start()][::-1])
        start = match.start() - len(backwards[0] if backwards else "")
        path = _normalize(text[start:name_stop])
        name = path.rpartition("/")[2]
        if not any(map(str.isalpha, name.rpartition(".")[0])):
            continue
        done = match.end()
        before = text[max(0, start - _BEFORE_CHARS) : start].rpartition("\n")[2]
        if match["suffix"] in PathEnd.PACKAGE_SUFFIXES and "/" not in path:
            path = _qualify(path, before)
        line = int(match["line"] or match["bracket"] or match["anchor"] or match["word"] or 0)
        behind = _FRAME_BEHIND.match(text, match.end())
        is_frame = bool(line and (behind or _FRAME_BEFORE.search(before)))
        is_inner_last = before.endswith('File "') or (behind and match["suffix"] in ("py", "pyx"))
        frame = "" if not is_frame else "inner last" if is_inner_last else "inner first"
        function = _read_function(text, start, before, behind) if is_frame else ""
        spelled = text[start : match.end()]
        is_code = text[start - 1 : match.end() + 1] == f"`{spelled}`"
        certain = bool(line) or is_code or "/" in path or "_" in path
        yield Mention(start, spelled, "path", path, line, certain, frame=frame, function=function)


def _read_function(text: str, start: int, before: str, behind: re.Match[str] | None) -> str:
    """Return the name of the function of a frame, "" if it has none: it is before, behind or above the file."""
    if behind and behind[0].endswith("in "):
        found = _FUNCTION_BEHIND.match(text, behind.end())
    elif _ONLY_FILE_BEFORE.fullmatch(before):
        above = text[max(0, start - PATH_CHARS_MAX) : start - len(before) - 1].rpartition("\n")[2]
        found = _FUNCTION_ABOVE.search(above.rstrip())
    else:
        found = _FUNCTION_BEFORE.search(before) or _CALL_BEFORE.search(before)
    return found[1] if found else ""


def _normalize(path: str) -> str:
    r"""Return a path with slashes and without the dots before it.

    >>> _normalize(".\\src\\zoo.c"), _normalize("///./src/a.js"), _normalize("../a.py")
    ('src/zoo.c', '/src/a.js', 'a.py')
    """
    parts = path.replace("\\", "/").split("/")
    kept = [part for part in parts if part not in ("", ".", "..")]
    return "/" * (not parts[0]) + "/".join(kept)


def _qualify(name: str, before: str) -> str:
    """Return a file name with the folders of its package, if a frame says which.

    >>> _qualify("Cat.java", "  at app//com.zoo.Cat$Paw.purr("), _qualify("Cat.java", "see ")
    ('com/zoo/Cat.java', 'Cat.java')
    """
    owner = _OWNER_BACKWARDS.match(before[::-1])
    if not owner:
        return name
    parts = owner[1][::-1].split(".")
    package = [part for part in parts[:-2] if part[:1].islower()]
    return "/".join([*package, name])


# -- stack traces -----------------------------------------------------------------------------------------------------


def _rank_frames(frames: Sequence[Mention]) -> Iterator[NamedPlace]:
    """Yield the frames of all traces in the order of their distance from the failure."""
    ranked = []
    for number, trace in enumerate(_split_traces(frames)):
        inner_first = trace[::-1] if trace[0].frame == "inner last" else trace
        ranked += [(depth + number * NEXT_TRACE, number, frame) for depth, frame in enumerate(inner_first)]
    for distance, _, frame in sorted(ranked, key=lambda row: row[:2]):
        yield NamedPlace(frame.name, frame.line, FRAME_FACTOR**distance, frame.function)


def _split_traces(frames: Sequence[Mention]) -> list[list[Mention]]:
    traces: list[list[Mention]] = []
    for frame in frames:
        last = traces[-1][-1] if traces else None
        if last and frame.start - last.start - len(last.text) <= SAME_TRACE_CHARS and last.frame == frame.frame:
            traces[-1].append(frame)
        else:
            traces.append([frame])
    return traces


# -- diffs ------------------------------------------------------------------------------------------------------------

_DIFF_LINE = re.compile(
    r"^(?:\+\+\+ (?P<path>[^\t\n\r]{1,300})|@@ -(?P<line>\d{1,7})[^\n]*\n(?P<same>(?: [^\n]*\n)*))", re.MULTILINE
)


def _find_hunks(text: str) -> Iterator[NamedPlace]:
    """Yield the first changed line of each hunk of a diff, by its number before the change."""
    if "\n@@ -" not in text:
        return
    path = ""
    for match in islice(_DIFF_LINE.finditer(text), FOUND_MAX):
        if match["path"]:
            path = match["path"].strip().strip('"')
            if path[:2] in ("a/", "b/", "c/", "i/", "w/", "o/"):
                path = path[2:]
        elif path and path != "/dev/null":
            yield NamedPlace(path, int(match["line"]) + match["same"].count("\n"), 1.0)
