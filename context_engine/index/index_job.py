"""One job: read, outline and cut some files and write the segment of them. The same here and in another process."""

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
from context_engine.repo.file_reader import LoadedFile, load_for_index
from context_engine.storage.confined_folder import ConfinedFolder


@dataclass(slots=True)
class JobResult:
    """What became of some files: how many are in the written segment, which kept out, which only touched."""

    written: int = 0
    skipped: list[tuple[str, str, str, int, int]] = field(default_factory=list)
    touched: list[tuple[str, int, int]] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IndexJob:
    """Some files to be described into one segment file.

    `facts` maps each path to the (size, mtime_ns) of the walk, `known` suspect ones to the hash they were indexed with.
    `static` is the identity of the static vectors that are wanted; empty: none.
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
    """Read and describe every file of a job and write its segment; the same in this process and in another.

    `encoder` makes the vectors that the job wants, if it wants any.
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
