"""Is the right function found? A sentence about a function, asked of all functions of its package, by each system.

    python evals/functions/score.py                                doc comments of the packages in packages.toml
    python evals/functions/score.py --only jsoup,luxon             some of them
    python evals/functions/score.py --lock                         pin the archives of new packages
    python evals/functions/score.py --tasks dev.json --corpus DIR --mirrors DIR      commit subjects instead

Packages are fetched by the registries' own clients and checked against their pinned hash; nothing of them is run.
Vectors are kept in `--cache`. `--pairs FILE` leaves out what the static table was trained on (`training/mine.py` writes
that file).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from context_engine.embedding import Embedder, StaticEmbedder
from context_engine.languages import Languages
from evals.functions import commits, systems
from evals.functions.bodies import Case, Known, case_of, functions_of
from training import mine, sources

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIST, LOCK = HERE / "packages.toml", HERE / "packages.lock.json"
SUFFIXES = tuple(f".{each}" for each in "py js mjs ts tsx go rs java c h cc cpp hpp rb php".split())
BUILT = frozenset({"build", "lib"})
"""Folders in which npm packages keep what a build made of their `src`."""
COMMITS_MIN = 5
"""A repository with fewer commit subjects would count as much as one with thirty."""
BASE = "BM25"
FUSED = "+ .5 static"
DESIGN = {
    "functions": {BASE: 0.525, "static": 0.591, FUSED: 0.582},
    "commits": {BASE: 0.530, "static": 0.387, FUSED: 0.540},
}
"""MRR@10 of the same systems in the study that the design reports, on nine other repositories."""


# -- the cases ----------------------------------------------------------------------------------------------------


def packages(only: Sequence[str], known: Known) -> Iterator[Case]:
    """A case a package, one after the other; tells what was left out."""
    languages, grammars, lock = Languages.builtin(), mine.grammars(), sources.pinned(LOCK)
    for package in sources.listed(LIST):
        if only and package.name not in only:
            continue
        try:
            archives = sources.fetch(package, lock[package.title])
        except sources.NotFetchedError as error:
            print(f"SKIPPED {package.title}: {error}")
            continue
        found = []
        for path, data in sorted(sources.files(archives, SUFFIXES)):
            language = languages.detect(path)
            if language is not None and language.content == "code" and not is_made(path, package.registry):
                found += functions_of(path, data, language, grammars)
        case, left_out = case_of(f"{package.name} {package.version}", found, known)
        told = "".join(f"; left out, {reason}: {count}" for reason, count in left_out.items())
        print(f"{case.title}: {len(case.questions)} questions, {len(found)} functions{told}", flush=True)
        yield case


def is_made(path: str, registry: str) -> bool:
    """Whether a file holds no function somebody wrote: what a build made, or declarations only.

    >>> [is_made(path, "npm") for path in ("src/a.js", "src/a.d.ts", "build/node/a.js")], is_made("lib/a.c", "debian")
    ([False, True, True], False)
    """
    return path.endswith(".d.ts") or (registry == "npm" and not BUILT.isdisjoint(path.split("/")[:-1]))


def histories(tasks: Path, corpus: Path, mirrors: Path, only: Sequence[str]) -> Iterator[Case]:
    """A case a repository of a tasks file."""
    languages, grammars = Languages.builtin(), mine.grammars()
    for task in json.loads(tasks.read_text(encoding="utf-8")):
        mirror = mirrors / task["github"].replace("/", "+") / "repo"
        if (only and task["name"] not in only) or len(task["commit_queries"]) < COMMITS_MIN:
            continue
        case = commits.case_of(task, corpus / task["name"] / (task["root"] or ""), mirror, languages, grammars)
        counted = f"{len(case.questions)} of {len(task['commit_queries'])} commits, {len(case.documents)} functions"
        print(f"{case.title}: {counted}", flush=True)
        if len(case.questions) >= COMMITS_MIN:
            yield case


def trained_on(pairs: Path | None) -> Known:
    """What the table has seen, by the pairs it was trained on."""
    if pairs is None:
        return Known()
    seen = [pair for pair in mine.read(pairs) if not pair.held_out]
    codes = {mine.sketch(pair.code) for pair in seen if pair.kind == "doc"}
    return Known({mine.plain(pair.query) for pair in seen}, codes)


def lock() -> None:
    """Fetch all packages and pin the archives that are not pinned yet."""
    pinned = sources.pinned(LOCK)
    for package in sources.listed(LIST):
        archives = sources.fetch(package, pinned.get(package.title, {}))
        if not archives:
            raise SystemExit(
                f"{package.title}: an earlier run left its archive in {sources.ARCHIVES}; delete that first"
            )
        found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives}
        pinned.setdefault(package.title, found)
    LOCK.write_text(json.dumps(pinned, indent=1, sort_keys=True) + "\n", encoding="utf-8")


# -- the systems --------------------------------------------------------------------------------------------------


def ranked(case: Case, static: Embedder, cache: Path) -> dict[str, np.ndarray]:
    """The rank of the right function for each question, by system."""
    lexical = systems.by_words(case.questions, [each.text() for each in case.documents])
    quick = cosines(static, case, cache, heads=2)
    first = systems.first_stage(lexical, quick)
    scores = {BASE: lexical, "static": quick, FUSED: first}
    return {name: systems.places(each, case.right) for name, each in scores.items()}


def cosines(embedder: Embedder, case: Case, cache: Path, *, heads: int) -> systems.Scores:
    """Questions against documents."""
    questions = embedder.embed(case.questions, "query")
    return questions @ passages(embedder, [each.text(heads) for each in case.documents], cache).T


def passages(embedder: Embedder, texts: Sequence[str], cache: Path) -> np.ndarray:
    """The vectors of texts, made once for each embedder."""
    digest = hashlib.sha256("\0".join([embedder.fingerprint, *texts]).encode("utf-8", "replace")).hexdigest()
    path = cache / f"{digest[:32]}.npy"
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        np.save(path, embedder.embed(texts, "passage"))
    return np.load(path)


# -- the report ---------------------------------------------------------------------------------------------------


def report(found: dict[str, dict[str, np.ndarray]], kind: str) -> str:
    """Two Markdown tables, MRR@10 and hit@1 by package with their means beside the design's, and who fell below BM25."""
    names = list(next(iter(found.values())))
    counts = {title: len(ranks[BASE]) for title, ranks in found.items()}
    measured = {title: {name: systems.figures(each) for name, each in ranks.items()} for title, ranks in found.items()}
    told = []
    for metric, of in (("MRR@10", attrgetter("mrr")), ("hit@1", attrgetter("hit1"))):
        values = {title: {name: of(each) for name, each in figures.items()} for title, figures in measured.items()}
        means = {name: statistics.mean(each[name] for each in values.values()) for name in names}
        rows = [[title, str(counts[title]), *_told(each.values())] for title, each in values.items()]
        rows.append(["**macro mean**", str(sum(counts.values())), *_told(means.values())])
        if metric == "MRR@10":
            rows += _beside_the_design(means, DESIGN[kind])
            told.append("MRR@10 below BM25: " + (", ".join(_below(values)) or "nobody, anywhere") + ".")
        told.append(_table([metric, "questions", *names], rows))
    return "\n\n".join(told)


def _below(values: dict[str, dict[str, float]]) -> Iterator[str]:
    """The fused systems that are worse than words alone on a package."""
    for title, each in values.items():
        if each[FUSED] < each[BASE]:
            yield f"{FUSED} on {title}"


def _beside_the_design(means: dict[str, float], design: dict[str, float]) -> list[list[str]]:
    """The ratio to BM25, here and there: the packages differ, what a system adds is what compares."""
    there = {name: design[name] for name in means}
    return [
        ["ratio to BM25", "", *_told(mean / means[BASE] for mean in means.values())],
        ["design, nine others", "", *_told(there.values())],
        ["ratio to BM25 there", "", *_told(mean / there[BASE] for mean in there.values())],
    ]


def _told(values: Iterable[float]) -> list[str]:
    return [f"{value:.3f}" for value in values]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def options(argv: list[str]) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--lock", action="store_true")
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--mirrors", type=Path)
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "functions")
    chosen = parser.parse_args(argv)
    if chosen.tasks and not (chosen.corpus and chosen.mirrors):
        parser.error("--tasks needs --corpus, the trees, and --mirrors, their histories")
    return chosen


def main(argv: list[str]) -> int:
    """Fetch, ask, print."""
    chosen = options(argv)
    if chosen.lock:
        lock()
        return 0
    only = [name for name in chosen.only.split(",") if name]
    static = StaticEmbedder()
    if chosen.tasks:
        kind, cases = "commits", histories(chosen.tasks, chosen.corpus, chosen.mirrors, only)
    else:
        kind, cases = "functions", packages(only, trained_on(chosen.pairs))
    found = {case.title: ranked(case, static, chosen.cache) for case in cases}
    if not found:
        raise SystemExit("there is nothing to ask: no package could be had, or none has such a name")
    print("\n" + report(found, kind))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
