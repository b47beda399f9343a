#!/usr/bin/env python3
"""Print what the names of Rust crates mean, as the compiler knows it: path, line, column of a use and its definition.

    rust_uses.py ROOT "name=src/lib.rs:feature,feature;other=other/src/lib.rs:"

The source pages of nightly rustdoc link each name to its definition (`--generate-link-to-definition`). Crates are
compiled in the given order, each with those before it, and without any other dependency; build scripts are not run.
Names inside of macros have no link and are left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

_SPAN = re.compile(r"(?:(.*)\.html)?#(\d+)(?:-(\d+))?$")
_WORD = re.compile(r"[A-Za-z_]\w*")


class Link(NamedTuple):
    """A link of a source page: where its text is, and where it leads."""

    line: int
    column: int
    text: str
    target: str


class SourcePage(HTMLParser):
    """Collects the links of one page of source, with their place in the source."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[Link] = []
        self._line = 0
        self._column = 1
        self._target = ""
        self._is_number = False
        self._is_code = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note line numbers and links."""
        given = dict(attributes)
        self._is_code = self._is_code or tag == "code"
        if tag == "a" and "data-nosnippet" in given:
            self._line, self._column, self._is_number = int(given.get("id") or 0), 1, True
        elif tag == "a":
            self._target = given.get("href") or ""

    def handle_endtag(self, tag: str) -> None:
        """End a link."""
        if tag == "a":
            self._target, self._is_number = "", False
        self._is_code = self._is_code and tag != "code"

    def handle_data(self, data: str) -> None:
        """Follow the columns, and collect the last name of a link."""
        if self._is_number or not self._line or not self._is_code:
            return
        if self._target:
            words = list(_WORD.finditer(data))
            self.links += [Link(self._line, self._column + words[-1].start(), words[-1][0], self._target)] * bool(words)
        self._column += len(data)


def compile_crate(name: str, source: Path, features: str, known: list[tuple[str, Path]], out: Path) -> Path:
    """Write the pages and the metadata of a crate; return where its metadata is. Raises: CalledProcessError."""
    options = ["--crate-name", name, "--edition", "2021", str(source), "--cap-lints", "allow", "-L", str(out)]
    options += [part for feature in features.split(",") if feature for part in ("--cfg", f'feature="{feature}"')]
    options += [part for other, file in known for part in ("--extern", f"{other}={file}")]
    metadata = out / f"lib{name}.rmeta"
    built = ["rustc", "+nightly", *options, "--crate-type", "lib", "--emit=metadata", "-o", str(metadata)]
    linked = ["-Zunstable-options", "--generate-link-to-definition", "--document-private-items", "-o", str(out)]
    subprocess.run(built, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rustdoc", "+nightly", *options, *linked], check=True, stdout=subprocess.DEVNULL)
    return metadata


def read_uses(root: Path, pages: Path, sources: dict[str, Path]) -> Iterator[tuple[str, int, int, str, int, int]]:
    """Yield each use with its definition; one outside of the project has the path `-`."""
    for page in sorted((pages / "src").rglob("*.rs.html")):
        path = find_source(page, pages, sources)
        parser = SourcePage()
        parser.feed(page.read_text())
        for link in parser.links:
            found = _SPAN.match(link.target)
            if link.target.startswith("http"):
                yield str(path.relative_to(root)), link.line, link.column, "-", 0, 0
                continue
            if found is None:  # another crate of the project: its page does not say the line
                continue
            other = page if not found[1] else (page.parent / f"{found[1]}.html").resolve()
            is_module = found[2] == "1"
            if is_module or not other.is_relative_to(pages / "src") or not other.exists():
                continue
            target = find_source(other, pages, sources)
            place = find_name(target, int(found[2]), int(found[3] or found[2]), link.text)
            if place:
                yield str(path.relative_to(root)), link.line, link.column, str(target.relative_to(root)), *place


def find_source(page: Path, pages: Path, sources: dict[str, Path]) -> Path:
    """Return the file that a page shows."""
    name, *rest = page.relative_to(pages / "src").parts
    return sources[name].joinpath(*rest[:-1], rest[-1].removesuffix(".html"))


def find_name(path: Path, first: int, last: int, name: str) -> tuple[int, int] | None:
    """Return line and column of a name in the head of a definition; comments and attributes are passed over."""
    word = re.compile(rf"\b(?:fn|struct|enum|trait|type|union|const|static|mod|macro_rules!)\s+(?:mut\s+)?({name})\b")
    lines = path.read_text().split("\n")[first - 1 : last]
    for pattern in (word, re.compile(rf"\b({name})\b")):
        for number, line in enumerate(lines):
            found = pattern.search(line) if not line.lstrip().startswith(("//", "#")) else None
            if found:
                return first + number, found.start(1) + 1
    return None


def main() -> None:
    """Print the table."""
    root, crates = Path(sys.argv[1]).resolve(), sys.argv[2]
    known: list[tuple[str, Path]] = []
    sources: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder).resolve()
        for crate in crates.split(";"):
            name, _, rest = crate.partition("=")
            file, _, features = rest.partition(":")
            sources[name] = (root / file).parent
            known.append((name, compile_crate(name, root / file, features, known, out)))
        for row in read_uses(root, out, sources):
            print(*row, sep="\t")


if __name__ == "__main__":
    main()
