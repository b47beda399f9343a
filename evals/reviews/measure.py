"""Which bugs a review finds, and which of their fixes it flags: pairs from commits, planted pairs, and clean commits.

    python evals/reviews/measure.py MIRRORS [--part dev|held|used|fresh] [--fixes 40] [--planted 30] [--clean 25] [--show]

Every change is reviewed in the whole tree of its commit, as the product does it.

A reversed fix is a commit whose subject says that it fixes something, that changes at most two files of code and at most
12 lines of them, reviewed from the commit to its parent. A planted bug is one change of one file by a rule of the kinds
below, at a place that the parser shows. A clean commit is a refactoring, a feature or a documentation change by its
subject. Files are drawn by a hash of their name, so a run is repeatable. Every bug is reviewed in both directions: as it
is made and as it is repaired. A rule that flags a repair as often as a bug has no direction. Half of the repositories
(HELD) are measured once, at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches, unified_diff
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.languages import Grammars, Languages
from context_engine.model import Finding
from context_engine.review.finding import ReviewOptions
from context_engine.review.reviewer import Reviewer
from context_engine.review.source_versions import FileVersion, Parsers, ReviewContext, ReviewedFile, is_test
from context_engine.review.verdict import ask_about_suspicions
from context_engine.storage import user_cache_folder
from context_engine.text import FileDiff, parse_diff

DEV = (
    *("aio-libs+aiohttp", "benoitc+gunicorn", "spf13+cobra", "go-chi+chi", "apache+commons-lang", "square+moshi"),
    *("Seldaek+monolog", "rack+rack", "vitest-dev+vitest", "honojs+hono", "JamesNK+Newtonsoft.Json", "tokio-rs+tokio"),
)
HELD = (
    *("getpelican+pelican", "tqdm+tqdm", "javalin+javalin", "square+kotlinpoet", "reduxjs+react-redux", "google+gson"),
    *("typestack+class-validator", "caddyserver+caddy", "MessagePack-CSharp+MessagePack-CSharp", "casey+just"),
    *("puma+puma", "serilog+serilog"),
)
"""Repositories whose commits were not read while the rules were written; gson, just, puma and serilog were scored before."""
USED = ("Textualize+textual", "nodejs+undici", "docker+compose", "jesseduffield+lazygit")
"""Repositories in which an agent worked with the reviews, and found false alarms."""
FRESH = (
    *("beetbox+beets", "agronholm+anyio", "nats-io+nats.go", "labstack+echo", "apache+commons-io", "mybatis+mybatis-3"),
    *("thephpleague+flysystem", "sinatra+sinatra", "koajs+koa", "immerjs+immer", "Humanizr+Humanizer"),
    *("hyperium+hyper", "ktorio+ktor", "redis+hiredis"),
)
"""Repositories that no rule saw before 2026-11-29."""
PARTS = {"dev": DEV, "held": HELD, "used": USED, "fresh": FRESH}
FIX = re.compile(r"(?i)\b(?:fix(?:e[sd])?|bug|regression|crash|leak|deadlock|race|off[- ]by[- ]one|panic)\b")
NOISE = re.compile(
    r"(?i)\b(?:typo|doc|docs|lint|test|tests|ci|build|changelog|readme|format|warning|type hint|mypy|comment|dep)\b"
)
CLEAN = re.compile(
    r"(?i)\b(?:refactor|clean ?up|rename|move|extract|simplif\w+|add(?:s|ed)?|support|implement|docs?|style|format)\b"
)
CODE = re.compile(r"\.(?:py|js|ts|tsx|go|rs|java|cs|kt|c|h|cc|cpp|rb|php)$")
LANGUAGES = {
    "py": "Python",
    "go": "Go",
    "rs": "Rust",
    "java": "Java",
    "cs": "C#",
    "kt": "Kotlin",
    "rb": "Ruby",
    "php": "PHP",
    **dict.fromkeys(("js", "ts", "tsx"), "JS/TS"),
    **dict.fromkeys(("c", "h", "cc", "cpp"), "C/C++"),
}
FIX_LINES_MAX = 12
THRESHOLD = 0.7
OPTIONS = ReviewOptions(confidence_threshold=THRESHOLD)
CHANGE_BYTES_MAX = 400_000


class Case(NamedTuple):
    """A change to review: its kind, the repository and the commit around it, its diff, the files before and after it."""

    kind: str
    repository: Path
    commit: str
    diff: str
    texts: dict[str, tuple[bytes | None, bytes | None]]

    @property
    def name(self) -> str:
        """The repository, and the commit or the changed file."""
        return f"{self.repository.parent.name}@{self.commit[:10] if self.commit != 'HEAD' else next(iter(self.texts))}"

    @property
    def language(self) -> str:
        """The language of the first file of code."""
        path = next(filter(CODE.search, (*(path for path in self.texts if not is_test(path)), *self.texts)), "")
        return LANGUAGES.get(path.rpartition(".")[2], "other")


def git(repository: Path, *words: str) -> bytes:
    """Return what git prints; nothing when it fails."""
    return subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=False).stdout


def log_rows(repository: Path) -> list[tuple[str, str]]:
    """Return hash and subject of the newest commits without merges."""
    said = git(repository, "log", "--no-merges", "--min-parents=1", "--max-count=3000", "--format=%H%x09%s", "HEAD")
    rows = (line.partition("\t") for line in said.decode("utf-8", "replace").splitlines())
    return [(commit, subject) for commit, _, subject in rows]


def order(name: str) -> str:
    """Return a number by which things are drawn, always the same."""
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()


def commit_case(
    repository: Path, kind: str, commit: str, is_wanted: Callable[[Sequence[FileDiff]], bool] = any, *, reverse: bool
) -> Case | None:
    """Return a commit as a change to review; None when it is too large or unwanted."""
    sides = (commit, f"{commit}^") if reverse else (f"{commit}^", commit)
    diff = git(repository, "diff", "--no-renames", "--no-color", "--no-ext-diff", *sides).decode("utf-8", "replace")
    if not diff or len(diff) > CHANGE_BYTES_MAX:
        return None
    try:
        files = parse_diff(diff)
    except Exception:  # noqa: BLE001 - a diff that we cannot read is not a case
        return None
    if len(files) > 50 or not is_wanted(files):
        return None
    texts = {}
    for file in files:
        old = git(repository, "show", f"{sides[0]}:{file.old_path}") if file.old_path else None
        new = git(repository, "show", f"{sides[1]}:{file.new_path}") if file.new_path else None
        texts[file.path] = (old, new)
    return Case(kind, repository, sides[1], diff, texts)


def is_local_fix(change: Sequence[FileDiff]) -> bool:
    """Whether a change is of at most two files of code and a few lines of them."""
    files = [file for file in change if CODE.search(file.path) and not is_test(file.path)]
    changed = sum(len(file.added_numbers) + len(list(file.removed_lines)) for file in files)
    return 0 < len(files) <= 2 and 0 < changed <= FIX_LINES_MAX and all(f.old_path and f.new_path for f in files)


def reversed_fixes(repository: Path, count: int) -> Iterator[tuple[Case, Case]]:
    """Yield fixes with a local cause, each reversed and as it was made."""
    rows = [commit for commit, subject in log_rows(repository) if FIX.search(subject) and not NOISE.search(subject)]
    found = 0
    for commit in sorted(rows, key=order)[: count * 6]:
        bug = commit_case(repository, "reversed fix", commit, is_local_fix, reverse=True)
        fix = bug and commit_case(repository, "fix as it was made", commit, reverse=False)
        if bug is not None and fix is not None:
            yield bug, fix
            found += 1
        if found >= count:
            return


def clean_commits(repository: Path, count: int) -> Iterator[Case]:
    """Yield refactorings, features and documentation."""
    rows = [commit for commit, subject in log_rows(repository) if CLEAN.search(subject) and not FIX.search(subject)]
    found = 0
    for commit in sorted(rows, key=order):
        case = commit_case(repository, "clean", commit, reverse=False)
        if case is not None and any(CODE.search(path) for path in case.texts):
            yield case
            found += 1
        if found >= count:
            return


# -- planted bugs ------------------------------------------------------------------------------------------------------

Plant = tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]]
"""The kind of a bug, where it can be planted, and what the place becomes; an empty match is no place."""


def _drop(_found: re.Match[str]) -> str:
    return ""


PLANTS: tuple[Plant, ...] = (
    (
        "comparison turned",
        re.compile(r" (<=|>=|<|>) (?=\w)"),
        lambda m: f" { {'<': '<=', '<=': '<', '>': '>=', '>=': '>'}[m[1]] } ",
    ),
    (
        "equality turned",
        re.compile(r" (==|!=|===|!==) "),
        lambda m: f" { {'==': '!=', '!=': '==', '===': '!==', '!==': '==='}[m[1]] } ",
    ),
    (
        "boolean turned",
        re.compile(r" (and|or|&&|\|\|) "),
        lambda m: f" { {'and': 'or', 'or': 'and', '&&': '||', '||': '&&'}[m[1]] } ",
    ),
    (
        "negation removed",
        re.compile(r"(?<=if )not |(?<=if )\(!(?=\w)|(?<=if )!(?=\w)"),
        lambda m: "(" if "(" in m[0] else "",
    ),
    ("off by one", re.compile(r" [-+] 1(?=[\s)\];:,])"), _drop),
    (
        "arithmetic turned",
        re.compile(r"(?<=\w) ([-+*]) (?=[a-z])"),
        lambda m: f" { {'-': '+', '+': '-', '*': '+'}[m[1]] } ",
    ),
    ("arguments swapped", re.compile(r"(?<=\w\()([a-z_]\w*), ([a-z_]\w*)(?=\))"), lambda m: f"{m[2]}, {m[1]}"),
    ("await removed", re.compile(r"\bawait (?=\w)"), _drop),
    (
        "default changed",
        re.compile(r"(?<=[\w ])= ?(True|False|true|false)(?=[,)])"),
        lambda m: m[0].replace(m[1], {"True": "False", "False": "True", "true": "false", "false": "true"}[m[1]]),
    ),
    (
        "guard removed",
        re.compile(
            r"(?m)^([ \t]+)if [^\n]{3,120}(?:[:{])\n\1[ \t]+(?:return|raise|throw|continue|break)\b[^\n]*\n(?:\1\}\n)?(?!\1(?:else|elif|\}))"
        ),
        _drop,
    ),
    ("error check removed", re.compile(r"(?m)^([ \t]+)if err != nil \{\n\1\t[^\n]*\n\1\}\n"), _drop),
    ("lock removed", re.compile(r"(?m)^[ \t]+(?:defer )?[\w.]+\.(?:[Ll]ock|[Uu]nlock)\(\);?\n"), _drop),
    ("close removed", re.compile(r"(?m)^[ \t]+(?:defer |await )?[\w.]+\.(?:[Cc]lose|dispose|Dispose)\(\);?\n"), _drop),
    ("break removed", re.compile(r"(?m)^[ \t]+break;?\n"), _drop),
    (
        "super removed",
        re.compile(r"(?m)^[ \t]+(?:super\(\)\.\w+|super|base\.\w+|super\.\w+|parent::\w+)\([^\n]*\);?\n"),
        _drop,
    ),
)
"""Fifteen kinds that the rules were written for; each is planted where its pattern fits code, not text."""


def _similar_name(found: re.Match[str]) -> str:
    """Return a place with its name replaced by one of the twelve lines before that has most of its letters."""
    before = "\n".join(found.string[: found.start()].split("\n")[-12:])
    near = get_close_matches(found[0], sorted(set(re.findall(r"\b[a-z_]\w{3,}", before))), 4, 0.6)
    return next((name for name in sorted(near) if name != found[0]), found[0])


_FURTHER_INDENT = re.compile(r"\n([ \t]+)(?=return \w+$)")
FURTHER_PLANTS: tuple[Plant, ...] = (
    (
        "error swallowed",
        re.compile(r"(?m)(?<=return )err$|(?<=, )err$|(?<=^)[ \t]+throw (?:e|err|error|ex);\n|(?<=[ \t])raise$"),
        lambda m: {"err": "nil", "raise": "pass"}.get(m[0], ""),
    ),
    ("unused result", re.compile(r"(?m)(?<=[ \t])(\w+) = (?=\1\.\w+\([^\n]*\);?$)"), _drop),
    ("missing value not handled", re.compile(r" \?\? [\w.'\"]+| or (?:None|\[\]|\{\}|\"\"|'')|\?(?=\.\w)"), _drop),
    ("similar name used", re.compile(r"\b[a-z_]\w{3,}(?=[),\]])(?<!\.)"), _similar_name),
    (
        "copied line not adapted",
        re.compile(r"(?m)^([ \t]+)([\w.]{0,60}?)(\w{1,40}) = ([\w.]{0,60}?)\3(;?\n)\1\2(\w+) = \4\6(?=;?$)"),
        lambda m: f"{m[1]}{m[2]}{m[3]} = {m[4]}{m[3]}{m[5]}{m[1]}{m[2]}{m[6]} = {m[4]}{m[3]}",
    ),
    (
        "return moved into the loop",
        re.compile(r"(?m)^([ \t]+)for [^\n]{1,120}:\n(?:\1[ \t][^\n]*\n){1,20}\1return \w+$"),
        lambda m: _FURTHER_INDENT.sub(lambda line: f"\n{line[1]}    ", m[0]),
    ),
    ("name with a letter missing", re.compile(r"(?m)(?<=return )[a-z_]\w{4,}(?=;?$)"), lambda m: m[0][:-1]),
    (
        "renamed without its callers",
        re.compile(r"(?m)(?<=^def )\w{4,}(?=\()|(?<=^func )\w{4,}(?=\()|(?<=^function )\w{4,}(?=\()"),
        lambda m: m[0] + "_of" if len(re.findall(rf"\b{m[0]}\(", m.string)) > 1 else m[0],
    ),
    (
        "boundary moved",
        re.compile(r"(?<=range\()\w+(?=\))|(?<=\.length)(?=; )|(?<=\.size\(\))(?=; )|(?<=len\()\w+\)(?=; )"),
        lambda m: f"{m[0]} - 1",
    ),
    (
        "debug output left",
        re.compile(r"(?m)^([ \t]+)(?:return (?=\w+;?$)|\w[\w.]* = (?=\w+\())"),
        lambda m: m[1] + _print_of(m.string) + "\n" + m[0],
    ),
    ("number changed", re.compile(r"(?<== )[1-9]\d(?=;?\n)|(?<=, )[1-9]\d(?=\))"), lambda m: str(int(m[0]) * 10)),
)
"""Kinds of bugs that no rule was written from: they show what a review does not see."""


def _print_of(text: str) -> str:
    """Return the statement by which somebody looks at values, in the language that a text is in."""
    signs = (
        ("<?php", 'var_dump("debug");'),
        ("package main\n", 'fmt.Println("debug")'),
        ("\nfunc ", 'fmt.Println("debug")'),
        ("fn ", 'println!("debug");'),
        ("using System", 'Console.WriteLine("debug");'),
        ("import java", 'System.out.println("debug");'),
        ("#include", 'printf("debug\\n");'),
        ("fun ", 'println("debug")'),
        ("\nend", 'puts "debug"'),
        ("const ", 'console.log("debug");'),
    )
    return next((statement for sign, statement in signs if sign in text), 'print("debug")')


PLANT_SUFFIXES = (".py", ".go", ".ts", ".js", ".java", ".rs", ".cs", ".rb", ".php", ".kt", ".c")


def planted(repository: Path, count: int, parsers: Parsers) -> Iterator[tuple[Case, Case]]:
    """Yield planted bugs and their repairs, the same number of each kind as far as the files allow."""
    names = git(repository, "ls-tree", "-r", "--name-only", "HEAD").decode("utf-8", "replace").splitlines()
    paths = sorted((name for name in names if name.endswith(PLANT_SUFFIXES) and not is_test(name)), key=order)
    plants = (*PLANTS, *FURTHER_PLANTS)
    left = Counter({kind: -(-count // len(PLANTS)) for kind, _, _ in plants})
    for path in paths[:150]:
        data = git(repository, "show", f"HEAD:{path}")
        if not 500 < len(data) < 150_000:
            continue
        version, text = FileVersion(path, data, parsers), data.decode("utf-8", "replace")
        for kind, pattern, change in plants:
            if left[kind] <= 0:
                continue
            places = [found for found in pattern.finditer(text) if _is_code(version, text, found)]
            if not places:
                continue
            found = min(places, key=lambda place: order(f"{path}{place.start()}"))
            new = text[: found.start()] + change(found) + text[found.end() :]
            if new == text:
                continue
            if FileVersion(path, new.encode(), parsers).errors:
                continue
            left[kind] -= 1
            yield (
                _planted_case(repository, f"planted: {kind}", path, text, new),
                _planted_case(repository, "planted bug repaired", path, new, text),
            )


def _is_code(version: FileVersion, text: str, found: re.Match[str]) -> bool:
    """Whether a place is in a function, not in a string or a comment."""
    line = text.count("\n", 0, found.start() + len(found[0]) - len(found[0].lstrip())) + 1
    tokens = version.leaf_tokens({line}).get(line, [])
    needed = found[0].split()[0] if found[0].split() else ""
    inner = any(needed.strip("();,") in token.text and "string" not in token.kind for token in tokens)
    return inner and any(
        "function" in kind or "method" in kind or "def" in kind
        for kind in ["function" if version.enclosing(line) is not None else ""]
    )


def _planted_case(repository: Path, kind: str, path: str, old: str, new: str) -> Case:
    lines = unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=3)
    return Case(kind, repository, "HEAD", "".join(lines), {path: (old.encode(), new.encode())})


# -- planted bugs that only the rest of the tree shows ------------------------------------------------------------------

USE_KINDS = ("required parameter added", "renamed, users left", "member misspelt", "name misspelt")
USE_SUFFIXES = (".py", ".go", ".ts", ".js", ".java")
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


def misspell(word: str) -> str:
    """Leave out a letter in the middle."""
    return word[: len(word) // 2] + word[len(word) // 2 + 1 :]


def _break_uses(repository: Path, path: str, text: str, version: FileVersion) -> Iterator[tuple[str, str]]:
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


def planted_uses(repository: Path, count: int, parsers: Parsers) -> Iterator[tuple[Case, Case]]:
    """Yield planted bugs that only the rest of the tree shows, so many of each kind, and their repairs."""
    left = Counter(dict.fromkeys(USE_KINDS, count))
    paths = [path for path in paths_of(repository, "HEAD") if path.endswith(USE_SUFFIXES) and not is_test(path)]
    for path in sorted(paths, key=order)[:150]:
        data = git(repository, "show", f"HEAD:{path}")
        if (
            not 500 < len(data) < 150_000
            or path.endswith(".d.ts")
            or re.search(r"(?:^|/)(?:docs?|examples?|_examples)/", path)
        ):
            continue
        version, text = FileVersion(path, data, parsers), data.decode("utf-8", "replace")
        for kind, new in _break_uses(repository, path, text, version):
            if left[kind] > 0 and new != text and not FileVersion(path, new.encode(), parsers).errors:
                left[kind] -= 1
                yield (
                    _planted_case(repository, f"planted: {kind}", path, text, new),
                    _planted_case(repository, "planted bug repaired", path, new, text),
                )
        if not any(left.values()):
            return


# -- reviewing ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def paths_of(repository: Path, commit: str) -> tuple[str, ...]:
    """Return the files of a commit."""
    said = git(repository, "ls-tree", "-r", "--name-only", commit).decode("utf-8", "replace")
    return tuple(sorted(said.splitlines()))


@lru_cache(maxsize=20_000)
def blob(repository: Path, commit: str, path: str) -> bytes:
    """Return a file of a commit."""
    return git(repository, "show", f"{commit}:{path}")


def read_tree(case: Case, parsers: Parsers) -> ReviewContext:
    """Return the tree that a change leads to: that of its commit with the new texts of its files."""
    repository, commit, texts = case.repository, case.commit, case.texts
    there = ({*paths_of(repository, commit)} - texts.keys()) | {
        path for path, (_, new) in texts.items() if new is not None
    }

    def read(paths: Sequence[str]) -> dict[str, bytes]:
        new = {path: data for path, (_, data) in texts.items() if data is not None}
        return {path: new.get(path) or blob(repository, commit, path) for path in paths if path in there}

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


def review(case: Case, parsers: Parsers) -> tuple[list[Finding], float]:
    """Return the new findings on changed lines, of every confidence, and the processor seconds of this process."""
    start = time.process_time()
    reviewer, tree = Reviewer(), read_tree(case, parsers)
    files = [ReviewedFile.of(diff, *case.texts.get(diff.path, (None, None)), parsers) for diff in parse_diff(case.diff)]
    found: list[Finding] = [item for file in files for item in reviewer.review_file(file).findings]
    found += reviewer.review_change(files, tree)
    shown = [item for item in found if item.is_new and item.is_on_changed_line]
    return shown, time.process_time() - start


def is_counted(finding: Finding) -> bool:
    """Whether a reader sees a finding as one, not as a question."""
    return finding.confidence >= THRESHOLD and finding.priority <= 2


def is_shown(findings: Sequence[Finding]) -> bool:
    """Whether a reader sees a finding or a question."""
    return any(map(is_counted, findings)) or bool(ask_about_suspicions(findings, OPTIONS))


Reviewed = tuple[Case, list[Finding]]
GROUPS = {
    "turned round": "comparison equality boolean negation off arithmetic default boundary number arguments",
    "taken away": "await guard error lock close break super unused missing",
    "wrong name": "similar copied name",
    "uses left broken": "required renamed member",
    "something else": "return debug",
}
"""Kinds of planted bugs by their first word."""


def group_of(case: Case) -> str:
    """Return the group of a bug."""
    word = case.kind.removeprefix("planted: ").split()[0].strip(",")
    return next((group for group, words in GROUPS.items() if word in words.split()), "commits")


def draw_pairs(repository: Path, fixes: int, plants: int, parsers: Parsers) -> Iterator[tuple[Case, Case]]:
    """Yield the bugs of a repository, each with its repair."""
    uses = planted_uses(repository, -(-plants // len(PLANTS)), parsers)
    return chain(reversed_fixes(repository, fixes), planted(repository, plants, parsers), uses)


def main() -> int:
    """Measure, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("--part", choices=tuple(PARTS), default="dev")
    parser.add_argument("--fixes", type=int, default=40)
    parser.add_argument("--planted", type=int, default=30)
    parser.add_argument("--clean", type=int, default=25)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--only", nargs="*", default=(), help="only these repositories of the part")
    asked = parser.parse_args()
    parsers = Parsers(Languages.builtin(), Grammars(user_cache_folder() / "grammars"))
    pairs: list[tuple[Reviewed, Reviewed]] = []
    clean: list[Reviewed] = []
    seconds: list[float] = []

    def measure(case: Case) -> Reviewed:
        found, took = review(case, parsers)
        seconds.append(took)
        for item in found if asked.show else ():
            what = f"P{item.priority} {item.rule} {item.title} {item.confidence}"
            print(
                f"{case.kind} | {case.name} | {item.path}:{item.line} | {what} | {item.quote[:90]} | {item.body[-90:]}"
            )
        return case, found

    for name in asked.only or PARTS[asked.part]:
        repository = asked.mirrors / name / "repo"
        if not repository.exists():
            print(f"{name} is not here", file=sys.stderr)
            continue
        for bug, fix in draw_pairs(repository, asked.fixes, asked.planted, parsers):
            pairs.append((measure(bug), measure(fix)))
        clean += map(measure, clean_commits(repository, asked.clean))
    for title, key in (("kind", lambda bug: bug.kind), ("group", group_of), ("language", lambda bug: bug.language)):
        print_pairs(title, pairs, key)
    of_code = [pair for pair in pairs if group_of(pair[0][0]) == "commits" and changes_code(pair[0][0], parsers)]
    print_pairs("commits whose code changes", of_code, lambda _: "all")
    print_matrix(pairs)
    print_rules(pairs, clean)
    seconds.sort()
    print(f"processor seconds: sum {sum(seconds):.0f}, p50 {seconds[len(seconds) // 2]:.3f}, most {seconds[-1]:.3f}")
    return 0


def changes_code(case: Case, parsers: Parsers) -> bool:
    """Whether a change is of more than comments and blank lines."""
    for diff in parse_diff(case.diff):
        if not CODE.search(diff.path) or is_test(diff.path):
            continue
        file = ReviewedFile.of(diff, *case.texts.get(diff.path, (None, None)), parsers)
        sides = ((file.old, file.removed), (file.new, file.added))
        words = [
            [token.text for _, tokens in sorted(side.leaf_tokens(lines).items()) for token in tokens]
            for side, lines in sides
            if side is not None
        ]
        if len(words) < 2 or words[0] != words[1]:
            return True
    return False


def print_pairs(title: str, pairs: Sequence[tuple[Reviewed, Reviewed]], key: Callable[[Case], str]) -> None:
    """Print the shares of bugs found and of fixes flagged, with findings alone and with questions."""
    groups: dict[str, list[tuple[Reviewed, Reviewed]]] = defaultdict(list)
    for pair in pairs:
        groups[key(pair[0][0])].append(pair)
        groups["all"] += [pair] if key(pair[0][0]) != "all" else []
    print(f"\n| {title} | pairs | found | fixes flagged | found or asked about | fixes flagged or asked about |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, rows in sorted(groups.items()):
        sides = [[found for _, found in side] for side in zip(*rows, strict=True)]
        counts = [sum(any(map(is_counted, found)) for found in side) for side in sides]
        counts += [sum(map(is_shown, side)) for side in sides]
        print(f"| {name} | {len(rows)} | {' | '.join(f'{count / len(rows):.2f}' for count in counts)} |")


def print_matrix(pairs: Sequence[tuple[Reviewed, Reviewed]]) -> None:
    """Print bugs found / fixes flagged of pairs by group and language."""
    cells: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (bug, in_bug), (_, in_fix) in pairs:
        cell = cells[group_of(bug), bug.language]
        for number, value in enumerate((any(map(is_counted, in_bug)), any(map(is_counted, in_fix)), True)):
            cell[number] += value
    languages = sorted({language for _, language in cells})
    print(f"\n| found / flagged / pairs | {' | '.join(languages)} |\n| --- |{' --- |' * len(languages)}")
    for group in ("commits", *GROUPS):
        print(f"| {group} | {' | '.join('/'.join(map(str, cells[group, one])) for one in languages)} |")


def print_rules(pairs: Sequence[tuple[Reviewed, Reviewed]], clean: Sequence[Reviewed]) -> None:
    """Print for each rule in how many bugs, repairs and clean commits it has a finding."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    sided = [("bug", bug) for bug, _ in pairs] + [("fix", fix) for _, fix in pairs] + [("clean", row) for row in clean]
    for side, (case, found) in sided:
        source = "planted" if case.kind.startswith("planted") else "commits"
        rules = {item.rule for item in found if is_counted(item)}
        for rule in rules | ({"any rule"} if rules else set()):
            counts[source, rule][side] += 1
    print(f"\n| pairs of | rule | found in bugs | flagged in fixes | in {len(clean)} clean commits |")
    print("| --- | --- | --- | --- | --- |")
    for (source, rule), count in sorted(counts.items()):
        print(f"| {source} | {rule} | {count['bug']} | {count['fix']} | {count['clean']} |")
    print(
        f"findings per clean commit: {sum(sum(map(is_counted, found)) for _, found in clean) / max(1, len(clean)):.3f}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
