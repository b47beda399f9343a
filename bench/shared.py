"""What a remote costs: an index built, shared, fetched by another machine; one edit; the question whether anything is new.

python bench/shared.py REPOSITORY [--store URL]     a copy of it is indexed; without URL a PostgreSQL is started on a
socket
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from context_engine.engine import Engine
from context_engine.index import SCHEMA_VERSION
from context_engine.model import Query
from context_engine.settings import Settings
from context_engine.team.remote_store import open_remote_store
from tests.support.databases import new_database

EDITS = 15
ASKED = ("where are errors handled", "configuration file", "parse request headers", "test")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def middle(work: Callable[[], Any], times: int) -> float:
    """The median of some runs, in milliseconds."""
    return 1_000 * statistics.median(timed(work)[0] for _ in range(times))


def engine(root: Path, cache: Path, **knobs: Any) -> Engine:
    return Engine.open(root, settings=Settings(cache_folder=cache, staleness_ms=600_000, embedder="static", **knobs))


def edits(held: Engine, root: Path) -> float:
    """Median time in which a changed file is found, in milliseconds."""
    path = next(path for path in sorted(root.rglob("*.py")) + sorted(root.rglob("*.go")) + sorted(root.rglob("*.php")))
    took = []
    for number in range(EDITS):
        path.write_text(f"# edit {number}\n" + path.read_text("utf-8"), "utf-8")
        took.append(timed(lambda: held.index.builder.index_paths([path.relative_to(root).as_posix()]))[0])
    return 1_000 * statistics.median(took)


def told(held: Engine) -> list[list[tuple[str, int]]]:
    return [[(str(h.chunk.path), h.chunk.span.first) for h in held.search.find(Query(text)).hits] for text in ASKED]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("repository", type=Path)
    asked.add_argument("--store", default="", help="the address of a database")
    options = asked.parse_args()
    address = options.store or new_database()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        roots = [
            shutil.copytree(options.repository, place / name / "tree", symlinks=True)
            for name in ("alone", "ci", "other")
        ]
        for path in roots[2].rglob("*"):  # as a checkout of its own has them
            os.utime(path, follow_symlinks=False)
        shared: dict[str, Any] = {"store_url": address, "store_repository": f"bench-{time.time_ns()}"}
        with engine(roots[0], place / "alone-cache") as alone:
            build_s, report = timed(alone.index.update)
            answers, alone_ms = told(alone), edits(alone, roots[0])
            query_ms = middle(lambda: told(alone), 20) / len(ASKED)
        with engine(roots[1], place / "ci-cache", store_shares=True, **shared) as ci:
            share_s, _ = timed(ci.index.update)
            name = f"{SCHEMA_VERSION}/{shared['store_repository']}"
            sizes = open_remote_store(address).list_segment_sizes(name)
            with engine(roots[2], place / "other-cache", **shared) as other:
                store: Any = other.index.store
                fetch_s, _ = timed(store.snapshot)
                compare_s, again = timed(other.index.update)
                first = told(other)
                shared_query_ms = middle(lambda: told(other), 20) / len(ASKED)
                news_ms = middle(lambda: store.remote.revision(name), 50)
            share_ms = edits(ci, roots[1])
            ci.index.clear()
    print(f"{report.files:,} files, {report.chunks:,} chunks; {sum(sizes.values()) / 1e6:.1f} MB in the remote")
    print(f"index: here alone {build_s:.1f} s, shared {share_s:.1f} s")
    print(
        f"another machine: fetched in {fetch_s:.2f} s, compared with its files {compare_s:.1f} s, of which {again.changed} differ"
    )
    print(f"an edit: here alone {alone_ms:.0f} ms, shared {share_ms:.0f} ms; is anything new: {news_ms:.2f} ms")
    print(
        f"a query: here alone {query_ms:.1f} ms, over the remote {shared_query_ms:.1f} ms; same answers: {first == answers}"
    )


if __name__ == "__main__":
    main()
