"""Score the callers that `ctx` lists against those that were found by reading, in `callers.jsonl`.

python evals/references/callers.py --mirrors DIR [--misses]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from scratch_engine import open_indexed  # noqa: E402


def main() -> None:
    """Print recall and precision of the listed callers, for each repository and for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--misses", action="store_true")
    chosen = parser.parse_args()
    rows = [json.loads(line) for line in (HERE / "callers.jsonl").read_text("utf-8").splitlines()]
    total: Counter[str] = Counter()
    for name, asked in groupby(rows, key=lambda row: row["repository"]):
        names = list(asked)
        with TemporaryDirectory() as folder:
            root = Path(folder) / "tree"
            mirror = chosen.mirrors / name.replace("/", "+") / "repo"
            subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", mirror, root], check=True)
            subprocess.run(["git", "-C", root, "checkout", "--quiet", names[0]["commit"]], check=True)
            with open_indexed(root, Path(folder) / "cache") as engine:
                own = sum((score(engine, row, misses=chosen.misses) for row in names), Counter())
        print(f"{name}: {describe(own)}")
        total += own
    print(f"{len(rows)} names: {describe(total)}")


def score(engine: object, row: dict[str, object], *, misses: bool) -> Counter[str]:
    """Count the callers of one definition that are right, wrong and missed."""
    traced = engine.symbols.trace(row["name"], under=row["path"])  # type: ignore[attr-defined]
    found, right = {f"{edge.path}:{edge.line}" for edge in traced.edges}, set(row["callers"])  # type: ignore[call-overload]
    if misses and found != right:
        print(f"  {row['name']}: missed {sorted(right - found)}, wrong {sorted(found - right)}")
    return Counter(right=len(found & right), wrong=len(found - right), missed=len(right - found))


def describe(counts: Counter[str]) -> str:
    """Return recall and precision in words."""
    right, wrong, missed = counts["right"], counts["wrong"], counts["missed"]
    return f"{right + missed} callers, recall {right / (right + missed):.3f}, precision {right / (right + wrong):.3f}"


if __name__ == "__main__":
    main()
