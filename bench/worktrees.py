"""What a second work tree of a repository costs: its index begun with that of the first, beside one built from nothing.

    python bench/worktrees.py REPOSITORY ...              git repositories; a work tree of each is added and removed again
    python bench/worktrees.py REPOSITORY --back 50        the other work tree stands that many commits back

Seconds of wall time, one run each since the caches of the disk are warm by then; the index of the first work tree is
built before. Bytes are what the second index adds on the disk: segments that both have are one file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import ms, table
from context_engine.engine import Engine
from context_engine.settings import Settings


def main() -> None:
    """Measure every repository."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", type=Path, nargs="+")
    parser.add_argument("--back", type=int, default=0)
    chosen = parser.parse_args()
    rows = []
    for repository in chosen.repositories:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(repository.resolve(), Path(folder), chosen.back))
    print(
        table(
            (
                "repository",
                "files",
                "from nothing",
                "from the other tree",
                "changed files",
                "MB from nothing",
                "MB added",
            ),
            rows,
        )
    )


def measured(repository: Path, folder: Path, back: int) -> tuple[str, ...]:
    """One row: a clone, a work tree of it, and the index of that, built in both ways."""
    first, second = folder / "first", folder / "second"
    run("git", "clone", "--quiet", "--local", "--no-checkout", str(repository), str(first))
    run("git", "-C", str(first), "checkout", "--quiet", "HEAD")
    run("git", "-C", str(first), "worktree", "add", "--quiet", "--detach", str(second), f"HEAD~{back}")
    alone, shared = folder / "alone", folder / "shared"
    from_nothing, files, _ = indexed(second, alone)
    indexed(first, shared)
    before = on_disk(shared)
    seeded, _, changed = indexed(second, shared)
    return (
        repository.name,
        f"{files:,}",
        f"{from_nothing / 1e3:.2f}",
        f"{seeded / 1e3:.2f}",
        f"{changed:,}",
        f"{on_disk(alone) / 1e6:.1f}",
        f"{(on_disk(shared) - before) / 1e6:.1f}",
    )


def indexed(root: Path, cache: Path) -> tuple[float, int, int]:
    """Milliseconds of an index in a process whose parsers are warm, its files, and how many of them were parsed."""
    settings = replace(Settings.load(root, {}), cache_folder=cache)
    with Engine.open(root, settings=settings) as engine:
        reports = []
        took = ms(lambda: reports.append(engine.index.update()))
    return took, reports[0].files, reports[0].added + reports[0].changed


def on_disk(folder: Path) -> int:
    """Bytes of all files below, each once however many names it has."""
    facts = (path.stat() for path in (folder / "workspaces").rglob("*") if path.is_file())
    return sum({(each.st_dev, each.st_ino): each.st_size for each in facts}.values())


def run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
