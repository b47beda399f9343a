"""Build the wider tuning set from bare mirrors, by rule: one tree and up to 45 questions for each repository.

    python evals/wide/build.py --mirrors DIR --out DIR                    every repository of repositories.toml
    python evals/wide/build.py --mirrors DIR --out DIR --only OWNER/NAME

Mirrors are DIR/owner+name/repo. Each repository becomes OUT/trees/NAME and OUT/tasks/NAME.json, and one that has both is
left alone, so a run can be stopped and repeated. The last line joins them in OUT/tasks.json, a tasks file for
`evals/retrieval`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.languages import Grammars, Languages
from context_engine.model import Commit, CommitFileChange
from evals.wide.questions import (
    DocQuestion,
    changed_sources,
    draw,
    find_doc_questions,
    is_asked,
    is_source,
    letters,
    plain_body,
    plain_subject,
)
from training import mine

LIST = Path(__file__).resolve().parent / "repositories.toml"
PER_KIND = 15
STEPS_BACK = (40, 80, 160, 320)
"""How far before the newest commit the tree is: as near as gives enough commits that can be asked."""
FILE_BYTES_MAX = 1_000_000
GIT_SECONDS = 600


def listed() -> dict[str, str]:
    """Return the language of each repository in the list."""
    groups = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {name: language for language, names in groups.items() for name in names}


def build(
    name: str, language: str, mirror: Path, out: Path, languages: Languages, grammars: Grammars
) -> dict[str, Any]:
    """Check out one tree, take its questions and remove from it the comments that are asked for."""
    short = name.replace("/", "+")
    tree, tasks = out / "trees" / short, out / "tasks" / f"{short}.json"
    if tasks.is_file():
        return json.loads(tasks.read_text(encoding="utf-8"))
    shutil.rmtree(tree, ignore_errors=True)
    base, asked = choose_tree(mirror, languages)
    check_out(mirror, base, tree)
    sources = read_sources(tree, languages)
    docs = choose_doc_questions(sources, languages, grammars)
    for question in docs:
        (tree / question.path).write_bytes(question.bare)
    task = {
        "name": short,
        "github": name,
        "language": language,
        "commit": base,
        "root": "",
        "queries": [
            {"query": each.sentence, "relevant": [{"path": each.path, "start_line": each.first, "end_line": each.last}]}
            for each in docs
        ],
        "commit_queries": [
            {"query": plain_subject(commit.subject), "sha": commit.hash, "relevant": files}
            for commit, _, files in asked[:PER_KIND]
        ],
        "message_queries": [
            {"query": f"{plain_subject(commit.subject)}\n\n{body}", "sha": commit.hash, "relevant": files}
            for commit, body, files in asked[:PER_KIND]
            if body
        ],
    }
    tasks.parent.mkdir(parents=True, exist_ok=True)
    tasks.write_text(json.dumps(task, indent=1), encoding="utf-8")
    return task


# -- commits ----------------------------------------------------------------------------------------------------------


def choose_tree(mirror: Path, languages: Languages) -> tuple[str, list[tuple[Commit, str, list[str]]]]:
    """Return the commit whose tree is asked, and commits after it, next ones first: with body and changed sources."""
    base, asked = "", []
    for steps in STEPS_BACK:
        found = _git(mirror, "rev-list", "--first-parent", "--max-count=1", f"--skip={steps}", "HEAD").strip()
        if not found:
            break
        base = found
        paths = _git(mirror, "ls-tree", "-r", "--name-only", "-z", base).split("\0")
        sources = {path for path in paths if is_source(path, languages.detect(path))}
        telling = ((commit, body) for commit, body in read_commits(mirror, base) if is_asked(commit))
        asked = [(commit, body, files) for commit, body in telling if (files := changed_sources(commit, sources))]
        if len(asked) >= PER_KIND:
            break
    return base, asked


def read_commits(mirror: Path, base: str) -> Iterator[tuple[Commit, str]]:
    """Yield the commits after `base` with their bodies, the oldest first."""
    told = _git(
        mirror, "log", "--reverse", "--topo-order", "--no-merges", "--no-renames", "--name-only",
        "--format=%x01%H%x00%ct%x00%an%x00%s%x00%b%x00", f"{base}..HEAD",
    )  # fmt: skip
    for record in told.split("\x01")[1:]:
        sha, at, author, subject, body, files = record.split("\0", 5)
        changes = tuple(CommitFileChange(path) for path in files.strip().split("\n") if path)
        yield Commit(sha, int(at), author, subject, changes), plain_body(body)


def check_out(mirror: Path, commit: str, tree: Path) -> None:
    """Write the files of a commit without any history; a mirror may lack its largest files."""
    tree.mkdir(parents=True)
    scratch = tree.parent / f"{tree.name}.index"
    index = {"GIT_INDEX_FILE": str(scratch), "GIT_WORK_TREE": str(tree)}
    _git(mirror, "read-tree", commit, env=index)
    _git(mirror, "checkout-index", "--all", "--force", "--quiet", env=index, check=False)
    scratch.unlink()


def _git(mirror: Path, *words: str, env: Mapping[str, str] | None = None, check: bool = True) -> str:
    command = ["git", "-c", "core.quotePath=false", f"--git-dir={mirror}", *words]
    environment = {**os.environ, **(env or {})}
    ran = subprocess.run(command, capture_output=True, timeout=GIT_SECONDS, check=check, env=environment)
    return ran.stdout.decode("utf-8", "replace")


# -- doc comments -----------------------------------------------------------------------------------------------------


def read_sources(tree: Path, languages: Languages) -> dict[str, bytes]:
    """Return the source files of a tree by their paths."""
    paths = (path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink())
    named = {path.relative_to(tree).as_posix(): path for path in paths}
    return {
        name: path.read_bytes()
        for name, path in named.items()
        if is_source(name, languages.detect(name)) and path.stat().st_size <= FILE_BYTES_MAX
    }


def choose_doc_questions(sources: Mapping[str, bytes], languages: Languages, grammars: Grammars) -> list[DocQuestion]:
    """Return at most one question for each file, in an order that no alphabet decides; each sentence is there once."""
    chosen: list[DocQuestion] = []
    spelled = {path: letters(data) for path, data in sources.items()}
    for path in sorted(sources, key=draw):
        language = languages.detect(path, sources[path])
        for question in find_doc_questions(path, sources[path], language, grammars) if language else ():
            asked = letters(question.sentence)
            if sum(text.count(asked) for text in spelled.values()) == 1:
                chosen.append(question)
                break
        if len(chosen) == PER_KIND:
            break
    return chosen


# -- all of them ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Build what is missing, print one line for each repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="append", help="only this repository; may be repeated")
    chosen = parser.parse_args()
    languages, grammars = Languages.builtin(), mine.grammars()
    tasks, totals = [], Counter[str]()
    for name, language in listed().items():
        mirror = chosen.mirrors / name.replace("/", "+") / "repo"
        if chosen.only and name not in chosen.only:
            continue
        if not mirror.is_dir():
            print(f"SKIPPED {name}: no mirror at {mirror}")
            continue
        tasks.append(build(name, language, mirror, chosen.out, languages, grammars))
        counts = {kind: len(tasks[-1][kind]) for kind in ("commit_queries", "message_queries", "queries")}
        totals.update(counts)
        print(f"{name:32s} {language:12s} {counts}", flush=True)
    (chosen.out / "tasks.json").write_text(json.dumps(tasks, indent=1), encoding="utf-8")
    print(f"{len(tasks)} repositories in {len({task['language'] for task in tasks})} languages: {dict(totals)}")


if __name__ == "__main__":
    main()
