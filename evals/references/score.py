"""Compare the references that the resolver finds with those of a language server, and with a search by name.

python evals/references/score.py --mirrors /work/.mirror [--only pallets/flask] [--misses 20]
    --scip DIR: with the SCIP index DIR/owner+name.scip of each repository
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from context_engine.languages import Grammars, Languages, PathIndex, SyntaxFile, outline_file, read_syntax
from context_engine.references import ExternalEdges
from context_engine.references.project_files import ProjectFiles
from context_engine.references.reference_finder import ReferenceFinder
from context_engine.references.scip.scip_edges import EdgeProject
from context_engine.repo import Root
from evals.references.golden import check_out

HERE = Path(__file__).parent


class Counts(NamedTuple):
    """Right and wrong places, and those that were missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sum."""
        return Counts(self.right + other.right, self.wrong + other.wrong, self.missed + other.missed)

    def __str__(self) -> str:
        precision = self.right / max(1, self.right + self.wrong)
        recall = self.right / max(1, self.right + self.missed)
        return f"{precision:.3f} {recall:.3f}"


class Checkout:
    """The files of a repository, parsed when they are asked for."""

    def __init__(self, root: Path, files: set[str], grammars: Grammars) -> None:
        self._languages = Languages.builtin()
        self._grammars = grammars
        self._root = root
        self._parsed: dict[str, SyntaxFile | None] = {}
        self.texts: dict[str, bytes] = {}
        self.defined: dict[str, list[str]] = defaultdict(list)
        listed = [str(file.relative_to(root)) for file in sorted(root.rglob("*")) if file.is_file()]
        for path in listed:
            data = (root / path).read_bytes() if not (root / path).is_symlink() else b""
            language = self._languages.detect(path, data[:65536])
            if language is None or language.content != "code":
                continue
            if language.name in files:
                self.texts[path] = data
            for name in {symbol.name for symbol in outline_file(language, data, grammars).symbols}:
                self.defined[name].append(path)
        self.project = ProjectFiles(
            self.read, lambda name: self.defined.get(name, ()), PathIndex(listed), self.load, self.find_holding
        )

    def find_holding(self, name: str) -> list[str]:
        """Return the files whose text has a name."""
        return [path for path, data in self.texts.items() if name.encode() in data]

    def load(self, path: str) -> bytes:
        """Return the bytes of a file."""
        return (self._root / path).read_bytes() if (self._root / path).is_file() else b""

    def read(self, path: str) -> SyntaxFile | None:
        """Return a parsed file."""
        if path not in self._parsed:
            file = self._root / path
            data = file.read_bytes() if file.is_file() else b""
            language = self._languages.detect(path, data[:65536])
            self._parsed[path] = read_syntax(path, language, data, self._grammars) if language else None
        return self._parsed[path]


def join_overloads(golden: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return overloads, and a definition in JavaScript with its declaration next to it, as one definition.

    So are those of one name in a package of Go: only one of them is built on each platform.
    """
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in golden:
        stem = entry["path"].replace(".d.ts", ".js").replace(".d.mts", ".mjs")
        stem = str(Path(stem).parent) if stem.endswith(".go") else stem
        before = joined.setdefault((stem, entry["qualified"]), entry | {"own": [], "uses": []})
        before["own"].append((entry["path"], entry["line"], entry["column"]))
        before["uses"] = before["uses"] + entry["uses"]
    return [*joined.values()]


def has_name(checkout: Checkout, place: list[Any], name: str) -> bool:
    """Return whether a place has the name; a server also counts `new Cat()` as a use of `constructor`."""
    line = checkout.texts[place[0]].decode("utf-8", "replace").split("\n")[place[1] - 1]
    return line.startswith(name, place[2] - 1)


class OtherTools:
    """The edges of a SCIP index, asked for one definition at a time."""

    def __init__(self, checkout: Checkout, root: Path, scip: Path) -> None:
        (root / "index.scip").write_bytes(scip.read_bytes())  # it is newer than the files
        self.edges = ExternalEdges(Root(root))
        self._checkout = checkout
        self._root = root
        checkout.project = replace(checkout.project, edges=self.edges)

    def begin(self) -> None:
        """Begin a question."""
        self.edges.begin(
            EdgeProject(
                self._checkout.load,
                lambda path: (self._root / path).stat().st_mtime_ns,
                lambda name: self._checkout.defined.get(name, ()),
                lambda *_: (),
            )
        )


def compare(
    checkout: Checkout, golden: list[dict[str, Any]], misses: int, tools: OtherTools | None = None
) -> tuple[dict[str, Counts], list[float]]:
    """Return the counts of each way to find references, and the seconds of each question.

    They are seconds of the processor, or of the clock where other tools are asked.
    """
    finder = ReferenceFinder(checkout.project)
    clock = time.process_time if tools is None else time.monotonic
    sums: dict[str, Counts] = defaultdict(Counts)
    seconds = []
    for entry in join_overloads(golden):
        name = entry["name"]
        unknown = {tuple(place) for place in entry["unknown"]}
        wanted = {tuple(place) for place in entry["uses"] if has_name(checkout, place, name)} - set(entry["own"])
        start = clock()
        holding = [path for path, data in checkout.texts.items() if name.encode() in data]
        own = [finder.place_of(path, name, line) for path, line, _ in entry["own"]]
        places = [place for place in own if place is not None]
        if tools is not None:
            tools.begin()
        found = finder.find(name, places, holding)
        seconds.append(clock() - start)
        by_name = {
            (path, *file.position(node))
            for path in holding
            if (file := checkout.read(path)) is not None
            for node in file.find(name)
        } - set(entry["own"])
        levels: dict[str, set[tuple[str, int, int]]] = {"exact": set(), "likely": set(), "possible": set()}
        for reference in found:
            if (reference.path, reference.line, reference.column) not in by_name:
                continue  # in the body of a macro: no tool was asked about it
            if checkout.texts[reference.path][reference.start : reference.stop].decode() != name:
                continue  # another name that an import gives: the server was not asked about it
            levels[reference.certainty].add((reference.path, reference.line, reference.column))
        ways = {
            "exact": levels["exact"],
            "exact+likely": levels["exact"] | levels["likely"],
            "all": levels["exact"] | levels["likely"] | levels["possible"],
            "name": by_name,
        }
        for way, places in ways.items():
            judged = places - unknown
            sums[way] = sums[way].plus(Counts(len(judged & wanted), len(judged - wanted), len(wanted - places)))
        shown = levels["exact"] | levels["likely"]
        for label, places in (("wrong", shown - wanted - unknown), ("missed", wanted - shown)):
            for path, line, column in sorted(places)[:3] if misses else ():
                level = next((one for one, held in levels.items() if (path, line, column) in held), "-")
                text = checkout.texts[path].decode("utf-8", "replace").split("\n")[line - 1].strip()
                print(f"  {label} [{level}] {entry['qualified']} ({entry['path']}:{entry['line']}) "
                      f"{path}:{line}:{column} {text[:110]}")  # fmt: skip
    return sums, seconds


def main() -> None:
    """Print a row for each repository and language."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--language", default="")
    parser.add_argument("--misses", type=int, default=0)
    parser.add_argument("--scip", type=Path)
    chosen = parser.parse_args()
    listed = tomllib.loads((HERE / "repositories.toml").read_text())["repositories"]
    totals: dict[str, dict[str, Counts]] = defaultdict(lambda: defaultdict(Counts))
    with tempfile.TemporaryDirectory() as folder:
        grammars = Grammars(Path(folder))
        for entry in listed:
            golden = HERE / "golden" / f"{entry['name'].replace('/', '+')}.jsonl"
            if (
                not golden.exists()
                or chosen.only not in entry["name"]
                or chosen.language not in ("", entry["language"])
            ):
                continue
            rows = [json.loads(line) for line in golden.read_text().splitlines()]
            if not rows:
                continue
            with tempfile.TemporaryDirectory() as checked_out:
                root = Path(checked_out).resolve()
                check_out(chosen.mirrors, entry["name"], entry["commit"], root, entry.get("under", ""))
                checkout = Checkout(root, set(entry["files"].split(",")), grammars)
                scip = chosen.scip / f"{entry['name'].replace('/', '+')}.scip" if chosen.scip else None
                tools = OtherTools(checkout, root, scip) if scip else None
                sums, seconds = compare(checkout, rows, chosen.misses, tools)
                if tools is not None:
                    print("\n".join(tools.edges.notes()), f"all questions {sum(seconds):.1f} s")
                    tools.edges.close()
            group = entry["language"] + (" (held out)" if entry.get("held_out") else "")
            for way, counts in sums.items():
                totals[group][way] = totals[group][way].plus(counts)
            seconds.sort()
            ms = [1000 * seconds[int(share * (len(seconds) - 1))] for share in (0.5, 0.95, 1)]
            ways = "  ".join(f"{way} {counts}" for way, counts in sums.items())
            print(f"{entry['name']:22} {ways}  ms p50/p95/max {ms[0]:.1f}/{ms[1]:.1f}/{ms[2]:.0f}")
    for language, sums in totals.items():
        print(f"{language:22} " + "  ".join(f"{way} {counts} ({counts.right})" for way, counts in sums.items()))


if __name__ == "__main__":
    main()
