"""Whether training saw anything that the evaluations ask: repositories, packages, files, questions, functions.

What is found among the pairs is taken out before training; what was found is told in the report.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from context_engine.languages import Grammars, Languages
from training.mine import Pair, pairs_of, plain, sketch
from training.sources import Package

ROOT = Path(__file__).resolve().parents[1]
EVALS = ROOT / "evals" / "retrieval"
CORPORA = ROOT / "evals" / "corpora"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the evaluations are made of: names of repositories and packages, questions, and sketches of their code."""

    names: frozenset[str]
    questions: frozenset[str]
    codes: frozenset[tuple[int, ...]] = frozenset()
    files: int = 0


def asked(tasks: Path | None) -> Asked:
    """The names and questions of the packages that `make eval` fetches, the tiny corpus, and the repositories of a tasks file (dev.json)."""
    corpora = tomllib.loads((EVALS / "packages.toml").read_text(encoding="utf-8"))["corpus"]
    names = {name_of(each["name"]) for each in corpora}
    questions = {plain(row[0]) for each in corpora for row in each["questions"]}
    for task in json.loads(tasks.read_text(encoding="utf-8")) if tasks else []:
        names |= {name_of(task["name"]), name_of(task["github"])}
        questions |= {plain(each["query"]) for each in task["queries"] + task["commit_queries"]}
    return Asked(frozenset(names), frozenset(questions))


def with_codes(evaluated: Asked, languages: Languages, grammars: Grammars) -> Asked:
    """The same with the sketches of all documented code of the evaluated packages that are on this machine."""
    nobody = Package("", "", "", "")
    codes: set[tuple[int, ...]] = set()
    count = 0
    folders = (CORPORA, EVALS / "tiny" / "corpus")
    for path in sorted(each for folder in folders for each in folder.rglob("*") if each.is_file()):
        language = languages.detect(path.name)
        if language is not None and language.content == "code":
            found = pairs_of(nobody, path.name, path.read_bytes(), language, grammars)
            codes |= {sketch(pair.code) for pair in found if pair.kind == "doc"}
            count += 1
    return replace(evaluated, codes=frozenset(codes), files=count)


def name_of(title: str) -> str:
    """The last part of a name, as packages and repositories share it.

    >>> name_of("pallets/flask"), name_of("JamesNK/Newtonsoft.Json"), name_of("@trpc/server"), name_of("golang-github-spf13-cobra")
    ('flask', 'newtonsoftjson', 'trpcserver', 'cobra')
    """
    scope, _, last = title.lower().rpartition("/")
    last = last.removeprefix("golang-").removeprefix("github-").removeprefix("rust-")
    last = last.removeprefix("spf13-").removeprefix("go-chi-")
    return plain(scope + last if scope.startswith("@") else last)


def named_alike(packages: Iterable[Package], evaluated: Asked) -> list[str]:
    """The packages of the allow-list that share a name with an evaluation; there must be none."""
    return [package.title for package in packages if name_of(package.name) in evaluated.names]


def cleaned(pairs: Sequence[Pair], evaluated: Asked) -> tuple[list[Pair], dict[str, int]]:
    """The pairs less those an evaluation knows, and how many were taken out for which reason."""
    kept, told = [], {"question": 0, "code": 0, "folder": 0}
    for pair in pairs:
        reason = overlap(pair, evaluated)
        if reason:
            told[reason] += 1
        else:
            kept.append(pair)
    return kept, told


def overlap(pair: Pair, evaluated: Asked) -> str:
    """Why a pair may not be trained on; empty when it may. A folder may carry a copy of somebody else's package."""
    if plain(pair.query) in evaluated.questions:
        return "question"
    if pair.kind == "doc" and sketch(pair.code) in evaluated.codes:
        return "code"
    folders = {plain(folder) for folder in pair.path.split("/")[:-1]}
    return "folder" if folders & evaluated.names else ""
