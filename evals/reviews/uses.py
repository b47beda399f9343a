"""Bugs that only the rest of the tree shows: planted ones, the same reviewed in reverse, and clean commits.

    python evals/reviews/uses.py MIRRORS REPOSITORY... [--planted 10] [--clean 10]

Each kind is planted so many times in each repository: a required parameter added, a definition renamed with its users
left, a member misspelt, a name misspelt. A definition is taken where the tree defines its name once and calls it.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from measure import Case, _planted_case, clean_commits, git, order

from context_engine.languages import Grammars, Languages
from context_engine.model import Finding
from context_engine.review.checks import CHECKS
from context_engine.review.source_versions import FileVersion, Parsers, ReviewContext, ReviewedFile, is_test
from context_engine.storage import user_cache_folder
from context_engine.text import parse_diff

RULE = next(check for check in CHECKS if check.rule == "broken-use")
UNDEFINED = next(check for check in CHECKS if check.rule == "undefined-name")
SUFFIXES = (".py", ".go", ".ts", ".js", ".java")
HEADS = {
    ".py": r"def {}\(",
    ".go": r"func (\([^)]*\) )?{}\(",
    ".ts": r"(function |^ +(async |static |private |public |protected )*){}(<[^(]*>)?\([^;]*\{{$",
    ".js": r"(function |^ +(async |static )*|exports\.|prototype\.){}(\(| = function)",
    ".java": r"^ +[a-z][^=;.]* {}\([^;]*$",
}
PARAMETER = {".py": "extra_flag", ".go": "extraFlag bool", ".ts": "extraFlag: boolean", ".java": "boolean extraFlag"}
MEMBER = {
    ".py": r"(?<=\bself\.)_?[a-z]\w{4,}\b(?! =)",
    ".js": r"(?<=\bthis\.)[a-z]\w{4,}\b(?! =)",
    ".ts": r"(?<=\bthis\.)#?[a-z]\w{4,}\b(?! =)",
    ".java": r"(?<=\bthis\.)[a-z]\w{4,}\b(?! =)",
    ".go": r"(?<=\b[a-z]\.)[a-zA-Z]\w{4,}\b(?! =)",
}
NAME = r"(?<=[(,] )(?<![.\w])[a-z]\w{4,}(?=[),])|(?<=\()[a-z]\w{4,}(?=[),.])|(?<== )[a-z]\w{4,}(?=\.)|(?<=return )[a-z]\w{4,}(?=[\n;.])"
KEYWORDS = frozenset(
    "self this super await async function return class const undefined false true null error typeof".split()
)


@lru_cache(maxsize=8)
def paths_of(repository: Path, commit: str) -> tuple[str, ...]:
    said = git(repository, "ls-tree", "-r", "--name-only", commit).decode("utf-8", "replace")
    return tuple(sorted(said.splitlines()))


@lru_cache(maxsize=20_000)
def blob(repository: Path, commit: str, path: str) -> bytes:
    return git(repository, "show", f"{commit}:{path}")


def context_of(
    repository: Path, commit: str, parsers: Parsers, texts: Mapping[str, tuple[bytes | None, bytes | None]]
) -> ReviewContext:
    """Return the tree of a commit with the new texts of a change."""
    there = ({*paths_of(repository, commit)} - texts.keys()) | {
        path for path, (_, new) in texts.items() if new is not None
    }

    def read(paths: Sequence[str]) -> dict[str, bytes]:
        return {
            path: texts[path][1] if path in texts else blob(repository, commit, path) for path in paths if path in there
        }  # ty: ignore

    def holding(words: Sequence[str]) -> dict[str, list[str]]:
        patterns = [part for word in words for part in ("-e", word)]
        said = git(repository, "grep", "-I", "-F", "-w", "-o", "-z", "--no-color", *patterns, commit)
        found: dict[str, set[str]] = {word: set() for word in words}
        for row in said.decode("utf-8", "replace").split("\n"):
            place, _, word = row.partition("\0")
            if word in found:
                found[word].add(place.partition(":")[2])
        for path, (_, new) in texts.items():
            for word in words:
                found[word].discard(path)
                if new is not None and re.search(rf"\b{re.escape(word)}\b", new.decode("utf-8", "replace")):
                    found[word].add(path)
        return {word: sorted(paths) for word, paths in found.items()}

    return ReviewContext(parsers, is_known=True, list_paths=lambda: sorted(there), read=read, files_with_words=holding)


def review(repository: Path, commit: str, case: Case, parsers: Parsers) -> tuple[list[Finding], float]:
    """Return what the check finds, and the processor seconds."""
    start = time.process_time()
    files = [ReviewedFile.of(diff, *case.texts.get(diff.path, (None, None)), parsers) for diff in parse_diff(case.diff)]
    found = [RULE.complete(item) for item in RULE.run(files, context_of(repository, commit, parsers, case.texts))]
    for file in files:
        if file.new is not None and file.new.family == "python":
            found += [replace(UNDEFINED.complete(item), path=file.path) for item in UNDEFINED.run(file)]
    return found, time.process_time() - start


def misspell(word: str) -> str:
    """Leave out a letter in the middle."""
    return word[: len(word) // 2] + word[len(word) // 2 + 1 :]


def edits(repository: Path, path: str, text: str, version: FileVersion) -> Iterator[tuple[str, str]]:
    """Yield kinds of bugs and the text with one of them."""
    suffix = Path(path).suffix
    lines = text.split("\n")
    functions = [one for one in version.outline.symbols if one.kind in ("function", "method") and len(one.name) > 4]
    for symbol in sorted(functions, key=lambda one: order(path + one.name))[:6]:
        name = symbol.name
        defined = git(repository, "grep", "-hE", HEADS[suffix].format(re.escape(name)), "HEAD", "--", f"*{suffix}")
        used = git(repository, "grep", "-hwF", f"{name}(", "HEAD", "--", f"*{suffix}")
        if name.startswith("__") or len(defined.splitlines()) != 1 or len(used.splitlines()) < 2:
            continue
        line = lines[symbol.line - 1]
        head = re.search(rf"\b{name}\b(?:<\w+>)?\(([^()]*)\)", line)
        if head is None:
            continue
        renamed = re.sub(rf"\b{name}\b", f"{name}Of", line)
        yield "renamed, users left", "\n".join([*lines[: symbol.line - 1], renamed, *lines[symbol.line :]])
        if suffix in PARAMETER and not re.search(r"[=*?]|\.\.\.", head[1].replace("*", "" if suffix == ".go" else "*")):
            more = f"{head[1]}, {PARAMETER[suffix]}" if head[1].strip() else PARAMETER[suffix]
            wider = line[: head.start(1)] + more + line[head.end(1) :]
            yield "required parameter added", "\n".join([*lines[: symbol.line - 1], wider, *lines[symbol.line :]])
    for kind, pattern in (("member misspelt", MEMBER[suffix]), ("name misspelt", NAME)):
        found = [one for one in re.finditer(pattern, text) if one[0] not in KEYWORDS]
        for one in sorted(found, key=lambda one: order(f"{path}{one.start()}"))[:2]:
            number = text.count("\n", 0, one.start()) + 1
            tokens = version.leaf_tokens({number}).get(number, [])
            if any(token.text == one[0] for token in tokens) and version.enclosing(number):
                yield kind, text[: one.start()] + misspell(one[0]) + text[one.end() :]


def planted(repository: Path, count: int, parsers: Parsers) -> Iterator[Case]:
    """Yield planted bugs, so many of each kind, at most two of a kind in a file."""
    left = Counter(
        dict.fromkeys(("required parameter added", "renamed, users left", "member misspelt", "name misspelt"), count)
    )
    paths = [path for path in paths_of(repository, "HEAD") if path.endswith(SUFFIXES) and not is_test(path)]
    for path in sorted(paths, key=order)[:150]:
        data = git(repository, "show", f"HEAD:{path}")
        if (
            not 500 < len(data) < 150_000
            or path.endswith(".d.ts")
            or re.search(r"(?:^|/)(?:docs?|examples?|_examples)/", path)
        ):
            continue
        version, text = FileVersion(path, data, parsers), data.decode("utf-8", "replace")
        for kind, new in edits(repository, path, text, version):
            made = _planted_case(repository, kind, path, text, new) if left[kind] > 0 and new != text else None
            if made is not None and not FileVersion(path, new.encode(), parsers).errors:
                left[kind] -= 1
                yield made
        if not any(left.values()):
            return


def reverse(case: Case) -> Case:
    """Return the change back."""
    ((path, (old, new)),) = case.texts.items()
    made = _planted_case(Path(), case.kind, path, (new or b"").decode(), (old or b"").decode())
    assert made is not None
    return made


def main() -> int:
    """Measure, print what is missed or wrong, and the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("repositories", nargs="+")
    parser.add_argument("--planted", type=int, default=10)
    parser.add_argument("--clean", type=int, default=10)
    asked = parser.parse_args()
    parsers = Parsers(Languages.builtin(), Grammars(user_cache_folder() / "grammars"))
    rows: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    clean, false, seconds = 0, 0, []
    for name in asked.repositories:
        repository = asked.mirrors / name / "repo"
        for case in planted(repository, asked.planted, parsers):
            found, took = review(repository, "HEAD", case, parsers)
            back, _ = review(repository, "HEAD", reverse(case), parsers)
            seconds.append(took)
            row = rows[name, case.kind]
            row[0] += 1
            row[1] += bool(found)
            row[2] += bool(back)
            if not found or back:
                changed = [line for line in case.diff.split("\n") if line[:1] == "+" and line[:3] != "+++"]
                print(
                    f"{'missed' if not found else 'REVERSE'} | {case.kind} | {case.name} | {changed[0].strip() if changed else ''}",
                    flush=True,
                )
        for case in clean_commits(repository, asked.clean):
            commit = case.name.partition("@")[2]
            found, took = review(repository, commit, case, parsers)
            seconds.append(took)
            clean += 1
            false += len(found)
            for item in found:
                print(
                    f"CLEAN | {case.name} | {item.path}:{item.line} | {item.title} | {item.body} | {item.evidence[:2]}",
                    flush=True,
                )
    print("| repository | kind | planted | found | same in reverse |\n| --- | --- | --- | --- | --- |")
    for (name, kind), counts in rows.items():
        print(f"| {name} | {kind} | {counts[0]} | {counts[1]} | {counts[2]} |")
    print(f"\nclean commits: {clean}, findings: {false}")
    seconds.sort()
    if seconds:
        print(
            f"processor seconds: p50 {seconds[len(seconds) // 2]:.2f}, p95 {seconds[int(len(seconds) * 0.95)]:.2f}, max {seconds[-1]:.2f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
