"""What moving an index costs: into a database at once, and broken off three times; as an archive; looked at, and mended.

python bench/moving.py REPOSITORY [--store URL]     a copy of it is indexed; without URL a PostgreSQL is started on a
socket
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from context_engine.engine import Engine
from context_engine.errors import Cancelled
from context_engine.index.embedded_store import SCHEMA_VERSION
from context_engine.index.store_factory import open_remote_store
from context_engine.model import Progress
from context_engine.settings import Settings
from tests.support.databases import new_database

SHARES = (0.25, 0.5, 0.75)
"""Where a move is broken off, one after another."""


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def engine(root: Path, cache: Path, **knobs: Any) -> Engine:
    return Engine.open(root, settings=Settings(cache_folder=cache, staleness_ms=600_000, embedder="static", **knobs))


def broken_off(held: Engine, address: str, share: float) -> None:
    """Cancel a move once this share of the bytes has arrived."""
    cancel = threading.Event()

    def watch(step: Progress) -> None:
        if step.stage == "sending" and step.done >= share * step.total:
            cancel.set()

    try:
        held.index.move_to(address, progress=watch, cancel=cancel)
    except Cancelled:
        return
    raise SystemExit(f"the move was over before {share:.0%} of it")


def moves(root: Path, place: Path, address: str, name: str) -> None:
    """At once, and in four tries."""
    shared = open_remote_store(address)
    with engine(root, place / "cache", store_repository=name) as held:
        whole_s, stats = timed(lambda: held.index.move_to(address))
        taken = shared.taken(f"{SCHEMA_VERSION}/{name}")
        print(f"{stats.files:,} files, {stats.chunks:,} chunks, {taken / 1e6:.1f} MB: moved in {whole_s:.1f} s")
    name += "-broken"
    with engine(root, place / "cache", store_repository=name) as held:
        arrived = [0]
        for share in SHARES:
            broken_off(held, address, share)
            arrived.append(shared.taken(f"{SCHEMA_VERSION}/{name}"))
        last_s, _ = timed(lambda: held.index.move_to(address))
        sent = [after - before for before, after in zip(arrived, [*arrived[1:], taken], strict=True)]
        told = " + ".join(f"{each / 1e6:.1f}" for each in sent)
        print(f"broken off at 25, 50 and 75 %: {told} MB sent, the last try {last_s:.1f} s")


def archives_and_repair(root: Path, place: Path, address: str, name: str) -> None:
    """The same index as the machine sees it that shares it."""
    archive = place / "index"
    with engine(root, place / "cache", store_url=address, store_repository=name, store_shares=True) as held:
        held.index.update()
        export_s, _ = timed(lambda: held.index.export_archive(archive))
        import_s, _ = timed(lambda: held.index.import_archive(archive))
        index_s, _ = timed(held.index.update)
        print(f"exported in {export_s:.1f} s ({archive.stat().st_size / 1e6:.1f} MB), taken in for all in {import_s:.1f} s, "
              f"compared with the files in {index_s:.1f} s")  # fmt: skip
        check_s, problems = timed(held.index.find_problems)
        store: Any = held.index.store
        damaged = max(store.segment_refs(), key=lambda part: part.size)
        store.path(damaged.name).unlink()
        store.path(damaged.name).write_bytes(b"damaged")
        mend_s, mended = timed(held.index.repair)
        print(f"every byte looked at, here and there: {check_s:.1f} s, {len(problems)} problems; one segment of "
              f"{damaged.size / 1e6:.1f} MB mended: {mend_s:.1f} s, {mended.fetched} fetched")  # fmt: skip
        store.clear()


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("repository", type=Path)
    asked.add_argument("--store", default="", help="the address of a database")
    options = asked.parse_args()
    address, name = options.store or new_database(), f"bench-{time.time_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        root = shutil.copytree(options.repository, place / "tree", symlinks=True)
        with engine(root, place / "cache") as alone:
            alone.index.update()
        moves(root, place, address, name)
        archives_and_repair(root, place, address, name)


if __name__ == "__main__":
    main()
