"""Trains the static table, from the allow-list to the file that ships, and writes the report beside itself.

    python training/sources.py                                  fetch the packages (some 450 MB, once)
    python training/run.py --minilm FOLDER --tasks dev.json      mine, check, train, measure, write: minutes on one core

The same packages, weights and seed give the same table on the same kind of processor (sums of floats may differ
elsewhere). `--keep-pairs` uses the pairs of the last run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported; one thread adds in one order

import argparse
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from context_engine.embedding import SHIPPED
from context_engine.embedding.static_embedder import unpack_table
from context_engine.embedding.wordpiece import WordPieces
from context_engine.languages import Languages
from training import begin, evaluate, mine, overlap
from training.mine import Pair
from training.pack import pack_table
from training.sources import HERE, Package, listed
from training.train import Bags, Plan, train

REPORT = HERE / "report.md"
PIECES_MAX = 256
"""Pieces of one text that are trained on: what comes later in a chunk says little more, and costs as much."""
TABLE_BYTES_MAX = 7_000_000


@dataclass(frozen=True, slots=True)
class Measured:
    """MRR@10 on one held-out package."""

    package: str
    questions: int
    figures: dict[str, float]


def text_of(pair: Pair) -> str:
    """The code as the engine embeds it: the prefix counts twice."""
    head, _, body = pair.code.partition("\n")
    return f"{head}\n{head}\n{body}"


def encoded(pairs: Sequence[Pair], cut: Callable[[str], np.ndarray]) -> tuple[Bags, Bags, list[str]]:
    """Questions, codes and files of the pairs that have pieces on both sides."""
    asked, answered, files = [], [], []
    for pair in pairs:
        question, code = cut(pair.query), cut(text_of(pair))[:PIECES_MAX]
        if len(question) and len(code):
            asked.append(question)
            answered.append(code)
            files.append(f"{pair.package} {pair.path}")
    return Bags.of(asked), Bags.of(answered), files


def measure(
    cases: Sequence[evaluate.Case], tables: dict[str, np.ndarray], cut: Callable[[str], np.ndarray]
) -> list[Measured]:
    """Each table alone and beside BM25, on each held-out package."""
    found = []
    for case in cases:
        by_words = evaluate.by_words(case)
        scores = {"BM25": by_words}
        for name, rows in tables.items():
            scores[name] = evaluate.by_rows(case, rows, cut)
            scores[f"BM25 + .5 {name}"] = evaluate.fused(by_words, scores[name])
        figures = {name: float(evaluate.reciprocal_ranks(each).mean()) for name, each in scores.items()}
        found.append(Measured(case.package, len(case.questions), figures))
    return found


def piece_shares(codes: Bags, count: int) -> np.ndarray:
    """How common each piece is among all."""
    uses = np.bincount(codes.pieces, minlength=count)
    return uses / uses.sum()


# -- the report ---------------------------------------------------------------------------------------------------


def table_of(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [
        "| " + " | ".join(f"{cell:.3f}" if isinstance(cell, float) else str(cell) for cell in line) + " |"
        for line in lines
    ]


def report(
    packages: Sequence[Package],
    pairs: Sequence[Pair],
    told: dict[str, int],
    evaluated: overlap.Asked,
    losses: Sequence[float],
    measured: Sequence[Measured],
    facts: dict[str, object],
) -> str:
    """What was trained on, what was checked, and how good it is."""
    counts = Counter((pair.language, pair.kind) for pair in pairs if not pair.held_out)
    by_package = Counter(pair.package for pair in pairs)
    languages = sorted({language for language, _ in counts}, key=lambda name: -sum(counts[name, k] for k in KINDS))
    names, means = list(measured[0].figures), list(means_of(measured).values())
    lines = ["# The static table: what it was trained on, and how good it is", "", "Written by `training/run.py`."]
    lines += ["", *table_of(["fact", "value"], list(facts.items()))]
    lines += ["", "## Pairs that were trained on", ""]
    lines += table_of(["language", *KINDS], [[name, *(counts[name, kind] for kind in KINDS)] for name in languages])
    lines += ["", "## Overlap with the evaluations", ""]
    alike = overlap.named_alike(packages, evaluated) or ["none"]
    compared = (
        f"{len(evaluated.names)} names of repositories and packages, {len(evaluated.questions)} questions and commit"
    )
    compared += f" subjects, {len(evaluated.codes)} documented functions in {evaluated.files} files were compared."
    removed = ", ".join(f"{count} by {reason}" for reason, count in told.items())
    lines += [compared, "", f"Packages with the name of an evaluated one: {', '.join(alike)}."]
    lines += [f"Pairs taken out before training: {removed}."]
    lines += ["", "## Loss", "", *table_of(["epoch", "mean loss"], list(enumerate(losses, 1)))]
    lines += ["", "## Held-out packages: first sentence of the doc comment -> function without it, MRR@10", ""]
    lines += table_of(
        ["package", "questions", *names], [[e.package, e.questions, *e.figures.values()] for e in measured]
    )
    lines += table_of(["**mean over packages**", sum(e.questions for e in measured), *means], [])[:1]
    lines += ["", "## Packages", ""]
    rows = [
        [each.title, each.version, each.licence, by_package[each.title], "held out" if each.held_out else ""]
        for each in packages
    ]
    lines += table_of(["package", "version", "licence", "pairs", ""], rows)
    return "\n".join([*lines, "", "## More of it", "", MORE]) + "\n"


KINDS = ("doc", "inline", "file")
MORE = """\
Add a row to `packages.toml` (registry, name, version, licence), run `python training/sources.py --lock`, then
`python training/run.py --minilm FOLDER --tasks dev.json`. A language with few pairs gains most from packages of its own."""


# -- everything ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Learned:
    """What training gave: the rows before and after, the loss of each epoch, and the CPU seconds it took."""

    pieces: list[str]
    first: np.ndarray
    rows: np.ndarray
    losses: list[float]
    seconds: float


def learn(trained: Sequence[Pair], cases: Sequence[evaluate.Case], minilm: Path, plan: Plan) -> Learned:
    """The rows for these pairs; tells after each epoch how good they are on the held-out packages."""
    pieces = begin.vocabulary(begin.read_tokenizer(minilm), trained)
    cut = WordPieces(pieces).of
    asked, answered, files = encoded(trained, cut)
    print(f"{len(trained)} pairs, {len(pieces)} pieces", flush=True)
    rows = first = begin.passed_rows(minilm, pieces, piece_shares(answered, len(pieces)))
    losses: list[float] = []
    started, seconds = time.process_time(), 0.0
    for rows, loss in train(first, asked, answered, files, plan):
        losses.append(loss)
        seconds = time.process_time() - started
        print(f"loss {loss:.3f} after {seconds:.0f} s: {means_of(measure(cases, {'static': rows}, cut))}", flush=True)
    return Learned(pieces, first, rows, losses, seconds)


def means_of(measured: Sequence[Measured]) -> dict[str, float]:
    """The mean over packages of each figure."""
    return {name: sum(each.figures[name] for each in measured) / len(measured) for name in measured[0].figures}


def options(argv: list[str]) -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--minilm", type=Path, required=True, help="the folder of all-MiniLM-L6-v2, for sentence-transformers"
    )
    parser.add_argument("--tasks", type=Path, help="dev.json: its names and questions are kept out of training")
    parser.add_argument("--keep-pairs", action="store_true", help="do not mine again")
    parser.add_argument("--rate", type=float, default=Plan().rate)
    parser.add_argument("--epochs", type=int, default=Plan().epochs)
    parser.add_argument("--dry", action="store_true", help="measure, write neither table nor report")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """From packages to table and report."""
    chosen = options(argv)
    packages, languages, grammars = listed(), Languages.builtin(), mine.grammars()
    if not chosen.keep_pairs:
        mine.write(mine.mine_all(packages, languages, grammars))
    evaluated = overlap.with_codes(overlap.asked(chosen.tasks), languages, grammars)
    pairs, told = overlap.cleaned(mine.read(), evaluated)
    trained, cases = [pair for pair in pairs if not pair.held_out], evaluate.cases(pairs)
    plan = Plan(rate=chosen.rate, epochs=chosen.epochs)
    learned = learn(trained, cases, chosen.minilm, plan)

    facts = {"seed": plan.seed, "epochs": plan.epochs, "pairs": len(trained), "batch": plan.batch, "rate": plan.rate}
    data = pack_table(
        learned.pieces, learned.rows, facts | {"began": "MiniLM vocabulary pass", "licence": "Apache-2.0"}
    )
    final = unpack_table(data).rows(np.arange(len(learned.pieces)))  # what is measured is what ships, in four bits
    tables = {"untrained": learned.first, "static": final, "static, 128 wide": np.ascontiguousarray(final[:, :128])}
    measured = measure(cases, tables, WordPieces(learned.pieces).of)
    facts |= {
        "table bytes": f"{len(data):,}",
        "table sha256": hashlib.sha256(data).hexdigest(),
        "pieces": len(learned.pieces),
    }
    facts |= {"CPU seconds of training": f"{learned.seconds:.0f}", "numpy": np.__version__}
    text = report(packages, pairs, told, evaluated, learned.losses, measured, facts)
    print(text[: text.index("## Packages")])
    if len(data) > TABLE_BYTES_MAX:
        raise SystemExit(f"the table has {len(data):,} bytes, at most {TABLE_BYTES_MAX:,} may ship; fewer code words")
    if not chosen.dry:
        SHIPPED.write_bytes(data)
        REPORT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
