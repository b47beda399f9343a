"""How many of the same bugs ruff, ESLint and semgrep find, how many of their fixes they flag, and what they report on clean commits.

    python evals/reviews/peers.py MIRRORS --part fresh [--eslint DIR] [--semgrep BINARY --rules DIR]

The changes are those of measure.py. The files of each change are written twice, before and after it. A tool has found a
change if it reports something in the new version, within the lines of a hunk or its three lines of context, that it does
not report in the old version; a fix is the change back. DIR of ESLint is a folder in which `eslint`, `@eslint/js` and `typescript-eslint` are installed;
DIR of semgrep holds its public rules (without a registry they come from a clone of semgrep/semgrep-rules).
A change counts for a tool only if it has a file in a language of the tool.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent))

from measure import CODE, PARTS, Case, clean_commits, draw_pairs, is_counted, review

from context_engine.languages import Grammars, Languages
from context_engine.review.source_versions import Parsers
from context_engine.storage import user_cache_folder
from context_engine.text import parse_diff

RUFF_RULES = "F,E7,E9,B,ASYNC,PLE,PLW,RET,TRY,S,SIM,RUF"
"""The rules of ruff that look for bugs; its rules about layout, names and documentation cannot find one."""
SEMGREP_FOLDERS = ("python", "javascript", "typescript", "go", "java", "ruby", "php", "csharp", "kotlin", "rust", "c")
ESLINT_CONFIG = """
import js from "@eslint/js";
import typescript from "typescript-eslint";
export default [
  { linterOptions: { reportUnusedDisableDirectives: "off" } },
  js.configs.recommended,
  ...typescript.configs.recommended,
  { files: ["**/*.{js,cjs,mjs,jsx,ts,tsx}"], rules: { "no-undef": "off" } },
];
"""


class Report(NamedTuple):
    """One report of a tool: the file, the line (counted from 1) and the rule."""

    path: str
    line: int
    rule: str


Tool = Callable[[Path], Iterable[Report]]


def run_json(words: list[str], folder: Path) -> object:
    """Return what a tool prints as JSON; it may end with another status than 0 when it finds something."""
    printed = subprocess.run(words, cwd=folder, capture_output=True, check=False).stdout
    return json.loads(printed or b"null")


def run_ruff(folder: Path) -> Iterable[Report]:
    """Yield the reports of ruff on all files of a folder."""
    words = ["check", "--isolated", "--exit-zero", "--no-cache", "--output-format=json", f"--select={RUFF_RULES}", "."]
    for row in run_json([sys.executable, "-m", "ruff", *words], folder) or []:
        yield Report(str(Path(row["filename"]).relative_to(folder)), row["location"]["row"], row["code"] or "syntax")


def eslint_at(install: Path) -> Tool:
    """Return ESLint with its recommended rules and those of typescript-eslint."""

    def run_eslint(folder: Path) -> Iterable[Report]:
        config = install / "review-peers.config.mjs"
        config.write_text(ESLINT_CONFIG)
        # ESLint ignores files outside its base folder, so the files are next to its configuration.
        words = ["--no-inline-config", "--no-error-on-unmatched-pattern", "--format=json", "--config", str(config)]
        command = ["node", "--max-old-space-size=8192", str(install / "node_modules/eslint/bin/eslint.js"), *words]
        for file in run_json([*command, str(folder)], install) or []:
            for row in file["messages"]:
                path = str(Path(file["filePath"]).relative_to(folder))
                yield Report(path, row.get("line", 1), row["ruleId"] or "syntax")

    return run_eslint


def semgrep_at(binary: Path, rules: Path) -> Tool:
    """Return semgrep with its public rules for languages, without its registry."""

    def run_semgrep(folder: Path) -> Iterable[Report]:
        words = ["scan", "--metrics=off", "--disable-version-check", "--json", "--quiet", "--no-git-ignore", "--jobs=2"]
        for name in SEMGREP_FOLDERS:
            words += ["--config", str(rules / name)] if (rules / name).is_dir() else []
        found = run_json([str(binary), *words, "."], folder)
        assert isinstance(found, dict)
        for row in found["results"]:
            yield Report(row["path"].removeprefix("./"), row["start"]["line"], row["check_id"])

    return run_semgrep


SUFFIXES = {
    "ruff": (".py",),
    "ESLint": (".js", ".ts", ".tsx"),
    "semgrep": (".py", ".js", ".ts", ".tsx", ".go", ".java", ".rb", ".php", ".cs", ".kt", ".rs", ".c", ".h"),
}


def write_sides(cases: list[Case], folder: Path) -> None:
    """Write the code files of every change: FOLDER/NUMBER/old/PATH and FOLDER/NUMBER/new/PATH."""
    for number, case in enumerate(cases):
        for path, sides in case.texts.items():
            for side, data in zip(("old", "new"), sides, strict=True):
                if data is not None and CODE.search(path):
                    target = folder / str(number) / side / path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data)


def find_new(cases: list[Case], folder: Path, tool: Tool) -> dict[int, tuple[int, int]]:
    """Return for every change how many reports it brings in and next to its lines, and how many the change back."""
    sides: dict[tuple[int, str], Counter[tuple[str, str, str]]] = defaultdict(Counter)
    places: dict[tuple[int, str, str, str, str], int] = {}
    for report in tool(folder):
        number, side, path = report.path.split("/", 2)
        lines = (folder / report.path).read_text("utf-8", "replace").split("\n")
        text = lines[report.line - 1].strip() if report.line <= len(lines) else ""
        sides[int(number), side][path, report.rule, text] += 1
        places[int(number), side, path, report.rule, text] = report.line

    def count(number: int, side: str, other: str) -> int:
        near = list_near_lines(cases[number], side)
        more = sides[number, side] - sides[number, other]
        return sum((path, places[number, side, path, rule, text]) in near for path, rule, text in more)

    return {number: (count(number, "new", "old"), count(number, "old", "new")) for number in range(len(cases))}


def list_near_lines(case: Case, side: str) -> set[tuple[str, int]]:
    """Return the lines of a version within three lines of each change."""
    return {
        (file.path, getattr(line, side))
        for file in parse_diff(case.diff)
        for hunk in file.hunks
        for line in hunk.lines
        if getattr(line, side)
    }


def print_row(title: str, cases: list[Case], counts: dict[int, tuple[int, int]], suffixes: tuple[str, ...]) -> None:
    """Print the shares of bugs found and of fixes flagged, and reports per clean commit, in these languages."""
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, case in enumerate(cases):
        if any(path.endswith(suffixes) for path in case.texts):
            groups[case.kind.partition(":")[0]].append(counts[number])
    cells = []
    for kind in ("reversed fix", "planted"):
        rows = groups[kind]
        found, flagged = (sum(bool(row[side]) for row in rows) / max(1, len(rows)) for side in (0, 1))
        cells.append(f"{found:.2f} / {flagged:.2f} of {len(rows)}")
    clean = groups["clean"]
    cells.append(f"{sum(count for count, _ in clean) / max(1, len(clean)):.2f} in {len(clean)}")
    print(f"| {title} | {' | '.join(cells)} |", flush=True)


def main() -> int:
    """Draw the changes, run the tools, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("--part", choices=tuple(PARTS), default="dev")
    parser.add_argument("--fixes", type=int, default=25)
    parser.add_argument("--planted", type=int, default=30)
    parser.add_argument("--clean", type=int, default=25)
    parser.add_argument("--eslint", type=Path)
    parser.add_argument("--semgrep", type=Path)
    parser.add_argument("--rules", type=Path)
    asked = parser.parse_args()
    parsers = Parsers(Languages.builtin(), Grammars(user_cache_folder() / "grammars"))
    cases: list[Case] = []
    own: dict[int, tuple[int, int]] = {}
    for repository in (asked.mirrors / name / "repo" for name in PARTS[asked.part]):
        pairs: list[tuple[Case, ...]] = list(draw_pairs(repository, asked.fixes, asked.planted, parsers))
        for sides in pairs + [(case,) for case in clean_commits(repository, asked.clean)]:
            counts = [sum(map(is_counted, review(case, parsers)[0])) for case in sides]
            own[len(cases)] = (counts[0], counts[-1])
            cases.append(sides[0])
    tools: dict[str, Tool] = {"ruff": run_ruff}
    if asked.eslint:
        tools["ESLint"] = eslint_at(asked.eslint.resolve())
    if asked.semgrep and asked.rules:
        tools["semgrep"] = semgrep_at(asked.semgrep.absolute(), asked.rules.resolve())
    print("| tool | fixes: found / flagged | planted: found / flagged | reports per clean commit |")
    print("| --- | --- | --- | --- |")
    print_row(
        "this review", cases, own, tuple({f".{path.rpartition('.')[2]}" for case in cases for path in case.texts})
    )
    base = asked.eslint.resolve() if asked.eslint else None
    with tempfile.TemporaryDirectory(dir=base) as name:
        folder = Path(name)
        write_sides(cases, folder)
        for title, tool in tools.items():
            print_row(title, cases, find_new(cases, folder, tool), SUFFIXES[title])
            print_row(f"this review, the same changes as {title}", cases, own, SUFFIXES[title])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
