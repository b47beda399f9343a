"""Do the steps of a plan name the files that the task changed? Commit subjects as tasks, planned before each commit, no model.

    python evals/planning/score.py --mirrors DIR --only caddy,flask          25 commits of each repository
    python evals/planning/score.py --mirrors DIR --only flask --count 3 --show    and the plans themselves, to be read

DIR is laid out as evals/localisation wants it, whose questions these are: the tree and the history before each commit. Prints
recall@10 (the share of changed files among the first ten of the plan), beside whole-file BM25, and what the steps are worth.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.context import ProjectKnowledge
from context_engine.history import predict_changes
from context_engine.index import role_of
from context_engine.plans.changeset import PlanRequest, PlanSources, is_changelog
from context_engine.plans.plan_draft import FIRST_STEPS, LIKELY_TITLE, PlanDraft, draft_plan
from evals.localisation.replay import Question, questions
from evals.localisation.score import FILE, K, by_words, mirrors, ranked, recall

COUNT = 25
DEFAULT = PlanRequest("").files_max
Row = dict[str, Any]


def main() -> None:
    """Parse, plan repository after repository, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--count", type=int, default=COUNT, help="commits of a repository")
    parser.add_argument("--show", action="store_true", help="print every plan beside what its commit changed")
    parser.add_argument("--answers", type=Path, help="a file to add every answer to, one line of JSON each")
    chosen = parser.parse_args()
    rows: list[Row] = []
    for name, mirror in mirrors(chosen.mirrors, chosen.only):
        began = time.perf_counter()
        try:
            rows += planned(name, mirror, chosen.count, show=chosen.show)
        except subprocess.CalledProcessError as error:  # a mirror from which something is missing
            print(f"{name}: left out, {error.stderr.decode('utf-8', 'replace').strip()[:200]}", file=sys.stderr)
            continue
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    if not rows:
        raise SystemExit(f"{chosen.mirrors} holds no history that tasks could be taken from")
    if chosen.answers:
        chosen.answers.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(table(rows))


def planned(name: str, mirror: Path, count: int, *, show: bool = False) -> list[Row]:
    """One row for each task of a repository."""
    with tempfile.TemporaryDirectory(prefix="ctx-planning-") as scratch:
        rows = []
        for question in questions(mirror, Path(scratch), count):
            if all(map(is_changelog, question.files)):  # the task was done in another commit
                continue
            rows.append(row_of(name, question))
            if show:
                print(shown(question, rows[-1]), flush=True)
        return rows


def row_of(name: str, question: Question) -> Row:
    """What a plan names for one task, and what words alone find."""
    began = time.perf_counter()
    wide = draft_plan(PlanRequest(question.commit.subject, files_max=K), sources(question))
    seconds = time.perf_counter() - began
    usual = draft_plan(PlanRequest(question.commit.subject), sources(question))
    sure = [each for each in usual.change.files if usual.change.insists_on(each)]
    first = [step for step in usual.plan.steps[:FIRST_STEPS] if step.title != LIKELY_TITLE]
    return {
        "repository": name,
        "commit": question.commit.hash,
        "subject": question.commit.subject,
        "files": sorted(question.files),
        "plan": in_order(wide),
        "usual": in_order(usual),
        "sure": [each.path for each in sure],
        "must": sorted(each.path for each in sure if each.part != "test"),
        "must tests": sorted(each.path for each in sure if each.part == "test"),
        "tests": sorted(path for path in question.files if role_of(path, "code") == "test"),
        "titles": [step.title for step in usual.plan.steps],
        "first": sorted({path for step in first for path in step.files_to_modify}),
        "BM25": ranked(question, by_words(question, FILE)),
        "status": usual.status,
        "steps": len(usual.plan.steps),
        "confidence": usual.plan.confidence_score,
        "seconds": round(seconds, 3),
    }


def sources(question: Question) -> PlanSources:
    """What a plan may rest on: the tree before the commit, and the history of that day."""
    history = question.history

    def localise(query: Any) -> list[tuple[str, float]]:
        return [(each.path, each.score) for each in predict_changes(question.searcher, query, history)]

    return PlanSources(question.engine, ProjectKnowledge(history=history, predict_changes=localise))


def in_order(made: PlanDraft) -> list[str]:
    """The files of a plan, as its steps name them."""
    return list(dict.fromkeys(path for step in made.plan.steps for path in step.files_to_modify))


def shown(question: Question, row: Row) -> str:
    """A plan to be read, and what the commit did."""
    plan = draft_plan(PlanRequest(question.commit.subject), sources(question)).plan
    lines = [f"\n## {question.commit.subject}", f"changed: {', '.join(row['files'])}"]
    lines += [f"{row['status']}, confidence {row['confidence']}, {row['seconds']} s"]
    for number, step in enumerate(plan.steps, 1):
        lines += [f"{number}. {step.title} (after {', '.join(step.depends_on) or 'nothing'}; {step.priority})"]
        lines += [f"   {step.description}"]
        lines += [f"   - {each.path}:{each.line} {each.symbol} ({each.kind})" for each in step.evidence]
        lines += [f"   done when: {'; '.join(step.acceptance_criteria)}; checks: {'; '.join(step.checks)}"]
    lines += [f"risk ({risk.likelihood}): {risk.issue}" for risk in plan.risks]
    lines += [f"question: {each.text} {list(each.candidates)}" for each in plan.questions]
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> str:
    """The figures of each repository and of all."""
    names = [*dict.fromkeys(row["repository"] for row in rows)]
    systems = f"BM25 R@{K} | plan R@{K} | plan of {DEFAULT} files | certain steps: recall | precision"
    steps = "must-files: precision | recall | must-tests: precision | recall | ready is right"
    lines = [f"| | tasks | {systems} | {steps} | asks first | median s |", "| --- " * 14 + "|"]
    for name in [*names, "all"]:
        own = [row for row in rows if name in (row["repository"], "all")]
        label = f"**{name}**" if name == "all" else name
        lines.append(f"| {label} | {len(own)} | {' | '.join(figures(own))} |")
    return "\n".join(lines)


def figures(rows: Sequence[Row]) -> list[str]:
    """Recall of words alone, of plans of ten and of the usual number; of certain steps recall and precision."""
    systems = [
        statistics.mean(recall(row[name], row["files"]) for row in rows) for name in ("BM25", "plan", "usual", "sure")
    ]
    precise = [precision(row) for row in rows if row["sure"]]
    asking = sum(row["status"] != "ready" for row in rows) / len(rows)
    seconds = statistics.median(row["seconds"] for row in rows)
    return [
        *(f"{figure:.3f}" for figure in systems),
        f"{statistics.mean(precise):.3f}",
        *pooled([(row["must"], set(row["files"]) - set(row["tests"])) for row in rows]),
        *pooled([(row["must tests"], row["tests"]) for row in rows]),
        share([not set(row["first"]).isdisjoint(row["files"]) for row in rows if row["status"] == "ready"]),
        f"{asking:.0%}",
        f"{seconds:.2f}",
    ]


def pooled(pairs: Sequence[tuple[Collection[str], Collection[str]]]) -> list[str]:
    """Precision and recall of what was named, over all tasks at once.

    >>> pooled([({"a", "b"}, {"b"}), ((), {"c"})])
    ['0.50', '0.50']
    """
    right = sum(len({*named} & {*changed}) for named, changed in pairs)
    return [f"{right / max(1, sum(len(pair[at]) for pair in pairs)):.2f}" for at in (0, 1)]


def share(outcomes: Sequence[bool]) -> str:
    return f"{sum(outcomes)}/{len(outcomes)}"


def precision(row: Mapping[str, Any]) -> float:
    """The share of the files in certain steps that the commit changed.

    >>> precision({"sure": ["a", "b"], "files": ["b", "c"]})
    0.5
    """
    return len(set(row["sure"]) & set(row["files"])) / len(row["sure"])


if __name__ == "__main__":
    main()
