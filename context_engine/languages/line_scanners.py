"""Line scanners for the formats where reading lines is as exact as a grammar and several times faster.

A scanner takes the bytes of a file and returns what it found, in any order. It never raises, whatever the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from context_engine.languages.outline_types import FoundSymbol, Import

Scan = Callable[[bytes], tuple[list[FoundSymbol], list[Import]]]
NAME_CHARS_MAX = 200
LINE_BYTES_MAX = 2_000  # no heading or key is longer, and the patterns need time quadratic in a line's length


def _lines(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield (number from 1, start offset, the line without its newline, cut at LINE_BYTES_MAX) for each line."""
    start = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        yield number, start, line[:LINE_BYTES_MAX]
        start += len(line) + 1


class Heading:
    """A heading that will become a section: its start, its level and its name."""

    __slots__ = ("level", "line", "name", "number", "start")

    def __init__(self, start: int, number: int, level: int, name: bytes, line: int = 0) -> None:
        self.start, self.number, self.level = start, number, level
        self.name = " ".join(name.decode("utf-8", "replace").split())[:NAME_CHARS_MAX]
        self.line = line or number


def _sections(headings: list[Heading], data: bytes, kind: str = "section") -> list[FoundSymbol]:
    """Return a section for each heading, up to the next heading of its level or a higher one."""
    found: list[FoundSymbol] = []
    end_line = data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)
    open_: list[Heading] = []

    def close(level: int, start: int, number: int) -> None:
        while open_ and open_[-1].level >= level:
            top = open_.pop()
            found.append(
                FoundSymbol(top.start, -start, top.start, top.name, kind, top.number, max(top.number, number), top.line)
            )

    for heading in headings:
        close(heading.level, heading.start, heading.number - 1)
        open_.append(heading)
    close(0, len(data), end_line)
    return found


# -- Markdown -----------------------------------------------------------------------------------------------------

FENCE = re.compile(rb" {0,3}(`{3,}|~{3,})(.*)")
ATX = re.compile(rb" {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*\r?$")
SETEXT = re.compile(rb" {0,3}(=+|-+)[ \t]*\r?$")
NO_PARAGRAPH = re.compile(rb"\s*$| {0,3}(?:[>#|]|[-*+][ \t]|\d+[.)][ \t]|<)| {4}|\t")
FRONT_MATTER = re.compile(rb"\A(?:\xef\xbb\xbf)?(---|\+\+\+)[ \t]*\r?\n(?:.*?\n)?\1[ \t]*\r?(?:\n|\Z)", re.DOTALL)
FILE = re.compile(rb".+\.\w+")
LINK = re.compile(rb"\[[^\[\]\n]*\]\(<?([^)\s>#:]{1,1000}+)[^)\n]{0,500}+\)")


def scan_markdown(data: bytes) -> tuple[list[FoundSymbol], list[Import]]:
    """Find sections by heading (ATX and setext), outside front matter and fences, and links to files as imports."""
    front = FRONT_MATTER.match(data)
    skip = front.end() if front else 0
    headings: list[Heading] = []
    imports: list[Import] = []
    fence, paragraph = b"", None
    for number, start, line in _lines(data):
        if start < skip:
            continue
        if fence:
            mark = FENCE.match(line)
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = b""
            continue
        mark = FENCE.match(line) if b"```" in line or b"~~~" in line else None
        if mark and not (b"`" in mark[1] and b"`" in mark[2]):
            fence, paragraph = mark[1], None
            continue
        if b"](" in line:
            files = filter(None, map(FILE.match, LINK.findall(line)))
            imports += [Import(file[0].decode("utf-8", "replace"), number) for file in files]
        paragraph = _markdown_line(headings, paragraph, number, start, line)
    return _sections(headings, data), imports


def _markdown_line(
    headings: list[Heading], paragraph: Heading | None, number: int, start: int, line: bytes
) -> Heading | None:
    """Read one line outside fences; return the paragraph that is open after it, as the heading that it may become."""
    if b"#" in line[:4]:
        heading = ATX.match(line)
        if heading:
            headings.append(Heading(start, number, len(heading[1]), heading[2] or b""))
            return None
    if paragraph is not None:
        underline = SETEXT.match(line)
        if underline:
            paragraph.level = 1 if underline[1][:1] == b"=" else 2
            headings.append(paragraph)
            return None
    return None if NO_PARAGRAPH.match(line) else paragraph or Heading(start, number, 1, line)


# -- reStructuredText ---------------------------------------------------------------------------------------------

ADORNMENT = re.compile(rb"([!-/:-@\[-`{-~])\1*[ \t]*\r?$")
RST_LINK = re.compile(rb"^\.\. (?:include|literalinclude|automodule|toctree)::[ \t]*(\S+)", re.MULTILINE)


def scan_rst(data: bytes) -> tuple[list[FoundSymbol], list[Import]]:
    """Find sections by adorned title; the level of a style is the order in which styles first appear."""
    lines = list(_lines(data))
    styles: list[bytes] = []
    headings: list[Heading] = []
    for index in range(1, len(lines)):
        number, _, line = lines[index]
        if not ADORNMENT.match(line):
            continue
        title = lines[index - 1][2]
        shown = title.strip()
        width = len(title.rstrip().decode("utf-8", "replace"))
        if not shown or ADORNMENT.match(title) or len(line.rstrip()) < min(width, 4):
            continue
        over = index >= 2 and lines[index - 2][2].rstrip() == line.rstrip()
        if not over and (title[:1].isspace() or (index >= 2 and lines[index - 2][2].strip())):
            continue
        style = line[:1] * (2 if over else 1)
        if style not in styles:
            styles.append(style)
        first = lines[index - 2] if over else lines[index - 1]
        headings.append(Heading(first[1], first[0], styles.index(style) + 1, shown, number - 1))
    imports = [
        Import(match[1].decode("utf-8", "replace"), data.count(b"\n", 0, match.start()) + 1)
        for match in RST_LINK.finditer(data)
    ]
    return _sections(headings, data), imports


# -- AsciiDoc -----------------------------------------------------------------------------------------------------

ADOC_TITLE = re.compile(rb"(={1,6}|#{1,6})[ \t]+(\S.*)")
ADOC_FENCE = re.compile(rb"(-{4,}|={4,}|\.{4,}|\+{4,}|/{4,}|`{3})[^\n]*$")


def scan_asciidoc(data: bytes) -> tuple[list[FoundSymbol], list[Import]]:
    """Find sections by `==` titles outside delimited blocks, and includes as imports."""
    headings: list[Heading] = []
    imports: list[Import] = []
    fence = b""
    for number, start, line in _lines(data):
        delimiter = ADOC_FENCE.match(line)
        if delimiter:
            fence = b"" if fence == delimiter[1] else fence or delimiter[1]
        elif not fence and (title := ADOC_TITLE.match(line)):
            headings.append(Heading(start, number, len(title[1]), title[2].rstrip()))
        elif line.startswith(b"include::"):
            imports.append(Import(line[9:].partition(b"[")[0].decode("utf-8", "replace"), number))
    return _sections(headings, data), imports


# -- YAML ---------------------------------------------------------------------------------------------------------

YAML_KEY = re.compile(
    rb"""[ ]*("(?:[^"\\]|\\.)*"|'[^']*'|[^\s#\-?:,\[\]{}&*!|>'"%@`][^#:]*+(?:[#:][^\s#:]++)*+)[ \t]*+:(?:[ \t]|\r?$)"""
)
YAML_OPENS_TEXT = re.compile(rb"(?:^|[:-])[ \t]+(?:[&!]\S+[ \t]+)*[|>][-+0-9]*[ \t]*(?:#.*)?\r?$")
YAML_INDENT_MAX = 16
"""Spaces before the first key inside a key; more are not searched for."""
UNKNOWN_LEVEL, NO_SECOND_LEVEL = 0, -1
"""Of the keys inside a top-level key: none was seen yet, or there can be none."""


def scan_yaml(data: bytes) -> tuple[list[FoundSymbol], list[Import]]:
    """Find the mapping keys of the first two levels, outside block scalars and lists."""
    headings: list[Heading] = []
    scalar_indent: int | None = None  # of the key whose text continues on the next lines
    second = UNKNOWN_LEVEL  # the indentation of the keys inside the present top-level key
    for number, start, line in _lines(data):
        indent = len(line) - len(line.lstrip(b" "))
        if scalar_indent is not None and (indent > scalar_indent or not line.strip()):
            continue
        scalar_indent = indent if YAML_OPENS_TEXT.search(line) else None
        if line.startswith((b"---", b"...")):  # another document
            headings.append(Heading(start, number, 1, b""))
        elif second == UNKNOWN_LEVEL and line[indent : indent + 1] == b"-":
            second = NO_SECOND_LEVEL  # a list: the keys of its items are not this key's
        elif key := _match_yaml_key(line, indent, second):
            if indent == 0:
                second = UNKNOWN_LEVEL
                headings.append(Heading(start, number, 1, key))
            elif headings and headings[-1].name and second in (UNKNOWN_LEVEL, indent):
                second = indent
                headings.append(Heading(start, number, 2, key))
    return [key for key in _sections(headings, data, "key") if key.name], []


def _match_yaml_key(line: bytes, indent: int, second: int) -> bytes | None:
    """Return the key at the start of a line without its quotes; None without one, or for one of a deeper level."""
    deepest = YAML_INDENT_MAX if second == UNKNOWN_LEVEL else max(second, 0)
    match = YAML_KEY.match(line) if indent <= deepest else None
    return match[1].rstrip().strip(b"\"'") if match is not None else None


# -- Dockerfile ---------------------------------------------------------------------------------------------------

FROM = re.compile(rb"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)


def scan_dockerfile(data: bytes) -> tuple[list[FoundSymbol], list[Import]]:
    """Find build stages up to the next FROM, named by AS or by their image, and the images as imports."""
    headings: list[Heading] = []
    imports: list[Import] = []
    for number, start, line in _lines(data):
        match = FROM.match(line)
        if match:
            headings.append(Heading(start, number, 1, match[2] or match[1]))
            imports.append(Import(match[1].decode("utf-8", "replace"), number))
    return _sections(headings, data, "stage"), imports


SCANNERS: dict[str, Scan] = {
    "markdown": scan_markdown,
    "rst": scan_rst,
    "asciidoc": scan_asciidoc,
    "yaml": scan_yaml,
    "dockerfile": scan_dockerfile,
}
