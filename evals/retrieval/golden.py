"""The golden ranks: questions to small pinned packages, and where each answer ranks, as a file whose diff can be read.

    python evals/retrieval/golden.py              compare with ranks.txt; a difference is printed and exits with 1
    python evals/retrieval/golden.py --update     write ranks.txt anew, to be reviewed like code
    python evals/retrieval/golden.py --tiny       the same for the committed corpus, which needs no network

Packages are fetched once into `evals/corpora/` through pip and npm as they are set up here, and checked against their
pinned hash before anything of them is unpacked; nothing of them is run. What cannot be fetched is skipped out loud and
exits with 2; `--allow-missing` makes that 0.
"""

from __future__ import annotations

import argparse
import base64
import difflib
import hashlib
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evals.retrieval.adapter import Bench
from evals.retrieval.metrics import Target, ndcg, ranks, recall, reciprocal

HERE = Path(__file__).resolve().parent
CORPORA = HERE.parent / "corpora"
PACKAGES, RANKS = HERE / "packages.toml", HERE / "ranks.txt"
TINY, TINY_RANKS = HERE / "tiny" / "questions.toml", HERE / "tiny" / "ranks.txt"
HEAD = "# Rank of each expected file among the first ten, `-` when it is not there. See README.md."
DEPTH = 10
FETCH_SECONDS = 300
SAME, DIFFERS, MISSING = 0, 1, 2


class NotFetchedError(Exception):
    """A package that is not on disk and could not be brought here."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A tree and the questions to it. An archive is its registry, version and hash; a committed tree has none."""

    name: str
    language: str
    questions: tuple[tuple[str, ...], ...]
    registry: str = ""
    version: str = ""
    sha256: str = ""
    sha512: str = ""
    root: str = ""
    drop: tuple[str, ...] = ()

    @classmethod
    def all_of(cls, path: Path) -> list[Corpus]:
        """Those a questions file lists, in its order."""
        listed = tomllib.loads(path.read_text(encoding="utf-8"))["corpus"]
        return [cls(**each | {"questions": tuple(map(tuple, each["questions"]))}) for each in listed]

    @property
    def title(self) -> str:
        """Its name and version."""
        return f"{self.name} {self.version}".strip()

    def folder(self) -> Path:
        """The tree on disk, fetched when it is not there yet. Raises: NotFetchedError."""
        if not self.registry:
            return HERE / self.root
        place = CORPORA / f"{self.name.replace('/', '+')}-{self.version}"
        if not place.is_dir():
            fetch(self, place)
        return place / self.root


# -- fetching -----------------------------------------------------------------------------------------------------


def fetch(corpus: Corpus, place: Path) -> None:
    """Bring the package here, check its hash, unpack it in one step. Raises: NotFetchedError."""
    CORPORA.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CORPORA, prefix=".fetch-") as name:
        scratch = Path(name)
        archive = downloaded(corpus, scratch)
        check_hash(corpus, archive.read_bytes())
        with tarfile.open(archive) as opened:
            opened.extractall(scratch / "tree", filter="data")
        (top,) = (scratch / "tree").iterdir()
        for each in corpus.drop:
            shutil.rmtree(top / each)
        top.rename(place)


def downloaded(corpus: Corpus, scratch: Path) -> Path:
    """The archive, by the registry's own client. Raises: NotFetchedError."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", "."]
    commands = {
        "pypi": [*pip, "--no-binary", corpus.name, f"{corpus.name}=={corpus.version}"],
        "npm": ["npm", "pack", "--silent", "--ignore-scripts", f"{corpus.name}@{corpus.version}"],
    }
    command = commands[corpus.registry]
    try:
        ran = subprocess.run(command, cwd=scratch, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetchedError(f"{command[0]}: {error}") from error
    archives = sorted([*scratch.glob("*.tar.gz"), *scratch.glob("*.tgz")])
    if ran.returncode or len(archives) != 1:
        told = (ran.stderr.strip() or "no archive came").splitlines()[-1]
        raise NotFetchedError(f"{corpus.registry} client: {told[:200]}")
    return archives[0]


def check_hash(corpus: Corpus, data: bytes) -> None:
    """Raises: SystemExit when these are not the pinned bytes; a changed release is never scored."""
    if corpus.sha256:
        right = hashlib.sha256(data).hexdigest() == corpus.sha256
    else:
        right = base64.b64encode(hashlib.sha512(data).digest()).decode() == corpus.sha512
    if not right:
        raise SystemExit(f"{corpus.title}: the archive does not have the pinned hash; nothing was unpacked")


# -- ranking ------------------------------------------------------------------------------------------------------


def report(corpus: Corpus, bench: Bench, folder: Path) -> list[str]:
    """One corpus as lines: its figures, then the rank of the first expected file of each question."""
    bench.answer({"op": "index", "dir": str(folder)})
    lines, figures = [], []
    for question, *paths in corpus.questions:
        rows = bench.answer({"op": "search", "query": question, "top_k": DEPTH})["results"]
        found, wanted = ranks(rows, [Target(path) for path in paths]), len(paths)
        figures.append(
            (*(recall(found, wanted=wanted, k=k) for k in (1, 5, 10)), reciprocal(found), ndcg(found, wanted=wanted))
        )
        lines.append(f"  {' '.join(f'{rank:2d}' for rank in found) or ' -'}  {question}" + instead(rows, found, wanted))
    means = [statistics.mean(column) for column in zip(*figures, strict=True)]
    names = ("recall@1", "recall@5", "recall@10", "mrr", "ndcg@10")
    told = "  ".join(f"{name} {mean:.3f}" for name, mean in zip(names, means, strict=True))
    return [f"{corpus.title} ({corpus.language}): {len(lines)} questions", f"  {told}", *lines, ""]


def instead(rows: list[dict[str, Any]], found: list[int], wanted: int) -> str:
    """What came first where the expected file did not, so that a diff tells what took its place."""
    if found[:1] == [1] or not rows:
        return "" if rows else "  <- nothing"
    return f"  <- {rows[0]['path']}"


def golden(corpora: list[Corpus]) -> tuple[str, dict[str, str]]:
    """The whole report, and why a corpus is not in it."""
    lines, missing = [HEAD, ""], {}
    for corpus in corpora:
        try:
            folder = corpus.folder()
        except NotFetchedError as error:
            missing[corpus.title] = str(error)
            continue
        with closing(Bench(whole_chunks=False)) as bench:
            lines += report(corpus, bench, folder)
    return "\n".join(lines), missing


def without(text: str, titles: set[str]) -> str:
    """The golden text less the corpora that could not be had, so that the others can still be compared."""
    blocks = text.split("\n\n")
    return "\n\n".join(block for block in blocks if not any(block.startswith(f"{title} (") for title in titles))


def compare(now: str, path: Path, missing: set[str]) -> str:
    """The difference to the golden file, empty when there is none."""
    golden_text = without(path.read_text(encoding="utf-8") if path.is_file() else "", missing)
    lines = difflib.unified_diff(golden_text.splitlines(), now.splitlines(), path.name, "now", lineterm="", n=2)
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Parse, rank, compare or write; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the golden file (the default)")
    parser.add_argument("--update", action="store_true", help="write the golden file anew")
    parser.add_argument("--tiny", action="store_true", help="the committed corpus instead of the packages")
    parser.add_argument("--allow-missing", action="store_true", help="packages that cannot be fetched are no failure")
    chosen = parser.parse_args(argv)
    source, path = (TINY, TINY_RANKS) if chosen.tiny else (PACKAGES, RANKS)
    now, missing = golden(Corpus.all_of(source))
    for title, reason in missing.items():
        print(f"SKIPPED {title}: not on disk and not fetched ({reason})")
    if chosen.update:
        if missing:
            print(f"{path.name} stays as it is: it would lose {', '.join(missing)}")
            return MISSING
        path.write_text(now, encoding="utf-8")
        print(now)
        return SAME
    if difference := compare(now, path, set(missing)):
        print(f"{difference}\n\nThe ranks differ. When they are meant to: golden.py --update, and review the diff.")
        return DIFFERS
    print(
        f"{path.name}: {now.count(' questions')} corpora rank as they did" + f", {len(missing)} skipped" * bool(missing)
    )
    return MISSING if missing and not chosen.allow_missing else SAME


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
