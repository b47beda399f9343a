"""When may a plan be called ready? The features of drafted plans next to what their commits changed, and the bar fitted on them.

    python evals/planning/readiness.py collect --mirrors DIR --out rows.jsonl [--only caddy,flask] [--count 24]
    python evals/planning/readiness.py report rows.jsonl [more.jsonl]

`collect` drafts a plan for each commit, once from the subject and once with the first paragraph of the message, and keeps all
raw features, one line of JSON each: the expensive half. `report` reads the lines and says how many plans are called ready, and
in how many of those the first two steps name a changed file or a changed place.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.context import BestHit
from context_engine.errors import CallError
from context_engine.history import predict_changes
from context_engine.model import Query
from context_engine.plans.change_probability import find_bar
from context_engine.plans.changeset import SURE_KINDS, AffectedFile, ChangeSet, PlanRequest, parse_intent
from context_engine.plans.plan_draft import PlanDraft, draft_plan
from context_engine.plans.readiness import (
    FIRST_STEPS,
    LIKELY_TITLE,
    NAMED,
    READY_MIN,
    ReadinessFacts,
    ask_about_places,
    combine_chances,
    estimate_readiness,
)
from evals.localisation.replay import Question, questions
from evals.localisation.score import mirrors
from evals.planning.score import sources

HITS = 12
BODY_WORDS_MIN, BODY_CHARS_MAX = 8, 700
_TRAILER = re.compile(r"^(?:[A-Z][\w-]+: |Co-authored-by|Signed-off-by|\(cherry)", re.IGNORECASE)
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? ", re.MULTILINE)
_CHECKABLE = re.compile(
    r"^`[^`]+` (?:passes|is defined|lists|has a new test)|^nothing is defined as `|^the test of step \d+ passes"
)
Row = dict[str, Any]


def main() -> None:
    """Parse; collect or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("--mirrors", type=Path, required=True)
    collecting.add_argument("--only", default="")
    collecting.add_argument("--count", type=int, default=24)
    collecting.add_argument("--out", type=Path, required=True)
    reporting = commands.add_parser("report")
    reporting.add_argument("rows", type=Path, nargs="+")
    chosen = parser.parse_args()
    if chosen.command == "report":
        lines = (line for path in chosen.rows for line in path.read_text(encoding="utf-8").splitlines())
        print(report([json.loads(line) for line in lines]))
        return
    for name, mirror in mirrors(chosen.mirrors, chosen.only):
        began = time.perf_counter()
        try:
            rows = list(collect(name, mirror, chosen.count))
        except subprocess.CalledProcessError as error:  # a mirror from which something is missing
            print(f"{name}: left out, {error.stderr.decode('utf-8', 'replace').strip()[:200]}", file=sys.stderr)
            continue
        with chosen.out.open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def collect(name: str, mirror: Path, count: int) -> Iterator[Row]:
    """Yield a row for each task of a repository, and one more where the message says more than the subject."""
    with tempfile.TemporaryDirectory(prefix="ctx-readiness-") as scratch:
        for question in questions(mirror, Path(scratch), count):
            changed = read_changed_lines(mirror, question.commit.hash)
            texts = [question.commit.subject]
            if body := first_paragraph(mirror, question.commit.hash):
                texts.append(f"{question.commit.subject}\n\n{body}")
            for text in texts:
                row = {"repository": name, "commit": question.commit.hash, "task": text, "is_long": text != texts[0]}
                yield (
                    row
                    | {"files": sorted(question.files), "source": sorted(question.source)}
                    | features(question, text, changed)
                )


def first_paragraph(mirror: Path, commit: str) -> str:
    """Return the first paragraph of a message's body; empty if it says little."""
    body = _git(mirror, "show", "-s", "--format=%b", commit)
    for paragraph in re.split(r"\n\s*\n", body):
        lines = [line for line in paragraph.splitlines() if not _TRAILER.match(line)]
        text = " ".join(" ".join(lines).split())
        if len(text.split()) >= BODY_WORDS_MIN:
            return text[:BODY_CHARS_MAX]
    return ""


def read_changed_lines(mirror: Path, commit: str) -> dict[str, list[tuple[int, int]]]:
    """Return the old lines that a commit changed, by path; an insertion counts as the line before it."""
    found: dict[str, list[tuple[int, int]]] = {}
    diff = _git(mirror, "diff", "-U0", "--no-color", "--no-ext-diff", "--no-renames", f"{commit}^", commit)
    for part in diff.split("\ndiff --git "):
        path = re.search(r"^--- a/(.+?)\t?$", part, re.MULTILINE)
        if path:
            spans = [(int(hunk[1]), int(hunk[1]) + max(int(hunk[2] or 1), 1) - 1) for hunk in _HUNK.finditer(part)]
            found[path[1]] = spans
    return found


def features(question: Question, text: str, changed: Mapping[str, list[tuple[int, int]]]) -> Row:
    """Return everything that could say how sure a plan is, and what came true of it."""
    began = time.perf_counter()
    plan_sources = sources(question)
    draft = draft_plan(PlanRequest(text), plan_sources)
    seconds = time.perf_counter() - began
    answer = question.engine.search.find(Query(text, HITS, chunks_per_file=2))
    hits = [
        {
            "path": hit.chunk.path,
            "title": hit.chunk.title,
            "score": hit.score,
            "chance": hit.chance,
            "why": dict(hit.why),
        }
        for hit in answer.hits
    ]
    steps = [step_row(question, step, changed) for step in draft.plan.steps]
    best = draft.change.best
    return {
        "seconds": round(seconds, 3),
        "status": draft.status,
        "best": [best.path, best.score],
        "leader": draft.change.leader,
        "kind": parse_intent(text).kind,
        "confidence": draft.plan.confidence_score,
        "questions": [[each.text, list(each.candidates)] for each in draft.plan.questions],
        "curve": list(draft.change.curve[:10]),
        "weakness": answer.weakness,
        "hits": hits,
        "predicted": [
            [each.path, each.score, dict(each.why)]
            for each in predict_changes(question.searcher, Query(text, HITS, chunks_per_file=1), question.history)
        ],
        "alive": question.searcher.snapshot.files,
        "references": references(draft),
        "change": [
            {
                "path": file.path,
                "part": file.part,
                "score": file.score,
                "kinds": [[e.kind, e.line, e.symbol, e.score] for e in file.evidence],
            }
            for file in draft.change.files
        ],
        "steps": steps,
        "commands": len(draft.commands),
        "text": draft.plan.goal,
    }


def references(draft: PlanDraft) -> list[Row]:
    """Return what the names of the task were found to be."""
    return [
        {
            "text": each.text,
            "kind": each.kind,
            "places": [[str(place.path), place.line, place.symbol] for place in each.places],
            "more": each.more,
            "near": list(each.near),
            "missing": each.is_missing,
        }
        for each in draft.change.references
    ]


def step_row(question: Question, step: Any, changed: Mapping[str, list[tuple[int, int]]]) -> Row:
    """Return a step as it was drafted, with the places of its evidence and which of them changed."""
    places = []
    for proof in step.evidence:
        if proof.line:
            span = enclosing_span(question, proof.path, proof.line)
            places.append([proof.path, proof.line, proof.symbol, *span, touches(changed.get(proof.path, []), span)])
    return {
        "title": step.title,
        "files": [*step.files_to_modify],
        "creates": [*step.files_to_create],
        "criteria": [*step.acceptance_criteria],
        "checks": [*step.checks],
        "places": places,
    }


def enclosing_span(question: Question, path: str, line: int) -> tuple[int, int]:
    """Return the lines of the innermost definition around a line."""
    try:
        symbols = question.engine.symbols.outline(path).symbols
    except CallError:
        return (line, line)
    around = [each.span for _, each in symbols if each.span.first <= line <= each.span.last]
    best = min(around, key=lambda span: span.last - span.first, default=None)
    return (best.first, best.last) if best else (line, line)


def touches(spans: list[tuple[int, int]], place: tuple[int, int]) -> bool:
    """Whether any of the spans shares a line with a place.

    >>> touches([(3, 5)], (5, 9)), touches([(3, 5)], (6, 9))
    (True, False)
    """
    return any(first <= place[1] and place[0] <= last for first, last in spans)


# -- report ---------------------------------------------------------------------------------------------------------


def report(rows: Sequence[Row]) -> str:
    """Return the figures of the product's own bar, and those of a bar that is fitted without each repository."""
    own = np.array([estimate_readiness(facts_of(row)) for row in rows])
    ready = own >= READY_MIN
    folds = fit_folds(rows)
    hit, place = (
        np.array([names_changed_file(row) for row in rows]),
        np.array([names_changed_place(row) for row in rows]),
    )
    lines = ["| plans | share | a changed file in two steps | a changed place |", "| --- | --- | --- | --- |"]
    for name, chosen in (
        ("all", own >= 0),
        ("ready", ready),
        ("not ready", ~ready),
        ("ready in folds", folds >= READY_MIN),
    ):
        share = f"{chosen.mean():.2f}"
        lines.append(f"| {name} | {share} | {hit[chosen].mean():.2f} | {place[chosen].mean():.2f} |")
    steps = [step for row in rows for step in row["steps"]]
    checkable = np.mean([bool(step["criteria"]) and all(map(is_checkable, step["criteria"])) for step in steps])
    asked = [row for row, chance in zip(rows, own, strict=True) if chance < READY_MIN]
    offered = np.mean([not offered_files(row).isdisjoint(row["files"]) for row in asked]) if asked else 0.0
    lines += ["", f"steps whose criteria can be checked: {checkable:.2f} of {len(steps)}"]
    lines += [f"asked which place is meant: {len(asked)}, a candidate was changed in {offered:.2f}"]
    lines += ["", "| files | of a plan | precision | recall |", "| --- | --- | --- | --- |"]
    for name, listed in (("the plan insists on", must_files), ("search, as many", search_files)):
        named = [listed(row) for row in rows]
        shares = [
            (len(set(files) & set(row["files"])), len(files), len(row["files"]))
            for files, row in zip(named, rows, strict=True)
        ]
        precision = np.mean([right / count for right, count, _ in shares if count])
        recalled = np.mean([right / changed for right, _, changed in shares])
        lines.append(f"| {name} | {np.mean([len(files) for files in named]):.1f} | {precision:.2f} | {recalled:.2f} |")
    return "\n".join(lines)


def must_files(row: Row) -> list[str]:
    """Return the files that a plan insists on: all but those that are probably not changed."""
    bar = find_bar(file["score"] for file in row["change"])
    return [
        file["path"]
        for file in row["change"]
        if file["score"] >= bar or not SURE_KINDS.isdisjoint(kind for kind, *_ in file["kinds"])
    ]


def search_files(row: Row) -> list[str]:
    """Return as many files of a plain search as the plan insists on."""
    return list(dict.fromkeys(hit["path"] for hit in row["hits"]))[: len(must_files(row))]


def facts_of(row: Row) -> ReadinessFacts:
    """Return the facts by which the product judges a plan."""
    is_named = any(file["part"] in ("definition", "reference") for file in row["change"])
    files = first_files(row)
    chance = combine_chances(file["score"] for file in row["change"] if file["path"] in files)
    return ReadinessFacts(chance, is_named, bool(row["weakness"]))


def first_files(row: Row) -> set[str]:
    """Return the files that the first steps modify."""
    return {path for step in first_steps(row) for path in step["files"]}


def first_steps(row: Row) -> list[Row]:
    """Return the first steps, without one whose files only search and history suggest."""
    return [step for step in row["steps"][:FIRST_STEPS] if not step["title"].startswith(LIKELY_TITLE)]


def names_changed_file(row: Row) -> bool:
    """Whether the first steps name a file that the commit changed."""
    return not first_files(row).isdisjoint(row["files"])


def names_changed_place(row: Row) -> bool:
    """Whether a definition that the first steps name as evidence was changed."""
    return any(place[-1] for step in first_steps(row) for place in step["places"])


def is_checkable(criterion: str) -> bool:
    """Whether a criterion names a command, a test or a symbol that decides it.

    >>> is_checkable("`make test` passes"), is_checkable("nothing is defined as `old` any more"), is_checkable("it works")
    (True, True, False)
    """
    return bool(_CHECKABLE.search(criterion))


def offered_files(row: Row) -> set[str]:
    """Return the files of the places that the question of a plan offers."""
    files = tuple(AffectedFile(file["path"], file["part"], file["score"], ()) for file in row["change"])
    change = ChangeSet(files, (), (), "", leader=row["leader"], best=BestHit(*row["best"][:2]))
    return {candidate for _, candidates in ask_about_places(change) for candidate in candidates}


def fit_folds(rows: Sequence[Row]) -> np.ndarray:
    """Return the probability of each plan by a model of the other repositories."""
    facts = np.array([[fact.chance] for fact in map(facts_of, rows)])
    right = np.array([names_changed_file(row) for row in rows], float)
    repository = np.array([row["repository"] for row in rows])
    found = np.zeros(len(rows))
    for name in np.unique(repository):
        others = repository != name
        weights = fit(facts[others], right[others]) if others.any() else np.zeros(facts.shape[1] + 1)
        found[~others] = 1 / (1 + np.exp(-(np.c_[np.ones((~others).sum()), facts[~others]] @ weights)))
    named = np.array([fact.is_named for fact in map(facts_of, rows)])
    return np.where(named, np.maximum(found, NAMED), found)


def fit(facts: np.ndarray, right: np.ndarray, penalty: float = 3.0) -> np.ndarray:
    """Return the weights of a logistic model, the constant first: Newton's method on standardized facts."""
    mean, spread = facts.mean(0), facts.std(0) + 1e-9
    inputs = np.c_[np.ones(len(facts)), (facts - mean) / spread]
    weights, ridge = np.zeros(inputs.shape[1]), np.eye(inputs.shape[1]) * penalty
    ridge[0, 0] = 0.0
    for _ in range(30):
        chance = 1 / (1 + np.exp(-(inputs @ weights)))
        slope = inputs.T @ (right - chance) - ridge @ weights
        weights += np.linalg.solve((inputs * (chance * (1 - chance))[:, None]).T @ inputs + ridge, slope)
    scaled = weights[1:] / spread
    return np.r_[weights[0] - scaled @ mean, scaled]


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True).stdout.decode(
        "utf-8", "replace"
    )


if __name__ == "__main__":
    main()
