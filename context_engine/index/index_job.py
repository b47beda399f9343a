"""One job: read, parse and chunk some files, and write their segment. The same in this process and in another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from context_engine.index import segment as segments
from context_engine.index.describe import describe_file
from context_engine.index.encoder import StaticEncoder
from context_engine.index.postings import SegmentBuilder
from context_engine.languages import Grammars, Languages
from context_engine.model import Skipped
from context_engine.repo import LoadedFile, load_for_index
from context_engine.storage import ConfinedFolder


@dataclass(slots=True)
class JobResult:
    """The result for some files: how many are in the written segment, which were skipped, which were only touched."""

    written: int = 0
    skipped: list[tuple[str, str, str, int, int]] = field(default_factory=list)
    touched: list[tuple[str, int, int]] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IndexJob:
    """Some files to be indexed into one segment file.

    `facts` maps each path to the (size, mtime_ns) of the walk; `known` maps suspect paths to the hash they were indexed
    with. `static` is the identity of the static vectors to make; empty: none.
    """

    root: str
    paths: Sequence[str]
    facts: Mapping[str, tuple[int, int]]
    known: Mapping[str, bytes]
    bytes_max: int
    segment_path: str
    static: str = ""


def run_job(
    job: IndexJob,
    languages: Languages,
    grammars: Grammars,
    encoder: StaticEncoder | None = None,
    *,
    on_file: Callable[[], None] = lambda: None,
) -> JobResult:
    """Index every file of a job and write its segment, in whatever process.

    `encoder` makes the static vectors, if the job wants any; `on_file` is called before each file.
    """
    outcome = JobResult()
    builder = SegmentBuilder(encoder if job.static else None)
    root = ConfinedFolder(job.root)
    for path in job.paths:
        on_file()
        loaded = load_for_index(root, path, bytes_max=job.bytes_max)
        if not isinstance(loaded, LoadedFile):
            _record_skipped(outcome, path, loaded, job.facts.get(path, (0, 0)))
        elif loaded.sha256 == job.known.get(path):
            outcome.touched.append((path, loaded.size, loaded.mtime_ns))
        else:
            builder.add(
                describe_file(
                    path,
                    loaded.data,
                    loaded.text,
                    languages,
                    grammars,
                    size=loaded.size,
                    mtime_ns=loaded.mtime_ns,
                    sha256=loaded.sha256,
                )
            )
    outcome.written = builder.files
    if builder.files:
        segments.write(builder.build(), Path(job.segment_path))
    return outcome


def _record_skipped(outcome: JobResult, path: str, skipped: Skipped, facts: tuple[int, int]) -> None:
    if skipped.reason == "vanished":
        outcome.vanished.append(path)
    else:
        outcome.skipped.append((path, skipped.reason, skipped.detail, *facts))
