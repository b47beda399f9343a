"""The review of one change between two commits, as a session does it: file by file, from the cache where possible.

The cache knows a file by its two blobs, its names and modes, the rules and the options: what was found in it once is
reported again without reading it. The checks of the whole change run at the end, after all units.
"""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from context_engine.errors import Cancelled, PreconditionFailed
from context_engine.repo import DiffRequest, GitDiff
from context_engine.review.finding import assign_ids, redact_finding
from context_engine.review.review_formats import review_to_json
from context_engine.review.review_store import ReviewStore, ReviewUnit
from context_engine.review.reviewer import FileReview
from context_engine.review.second_pass import make_pending
from context_engine.review.verdict import Coverage, FileCoverage, make_result, merge_runs, summarize_change
from context_engine.search import GlobSet
from context_engine.storage import prepare_type

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.finding import Redact, ReviewOptions, ReviewRequest
    from context_engine.review.review_service import ReviewWorkspace
    from context_engine.review.reviewer import Reviewer
    from context_engine.review.source_versions import ReviewedChange, ReviewedFile
    from context_engine.review.verdict import AnalyzerRun, ReviewResult
    from context_engine.text import FileDiff

NAMED_MAX = 20
"""Named files that did not change are listed up to this number."""
EXCLUDED = "excluded by a pattern"
"""Why a file is not reviewed."""
UNIT_FILES_MAX = 10
"""These are reviewed in a few seconds: as much as a pause or a crash may cost."""
UNIT_LINES_MAX = 1_500
"""Changed lines; a file that has more is a unit alone."""
FILE_COST = 20
"""To read and parse a file costs about as much as the checks of 20 changed lines."""
Stages = dict[str, list[float]]
"""Milliseconds by stage."""


class ReviewMetrics(msgspec.Struct, frozen=True):
    """The measurements of one unit, or of the end of a session."""

    stages: Stages = {}
    hits: int = 0
    misses: int = 0
    bytes_read: int = 0
    failures: list[str] = []


class UnitReview(msgspec.Struct, frozen=True):
    """What is stored of a reviewed unit."""

    files: list[FileReview]
    metrics: ReviewMetrics


class SessionOutcome(msgspec.Struct, frozen=True):
    """What is stored of a finished review: its JSON, and what the end of the session took."""

    review: dict[str, Any] = {}
    metrics: ReviewMetrics = ReviewMetrics()


def cut_into_units(files: Iterable[tuple[str, int]]) -> tuple[ReviewUnit, ...]:
    """Cut files, each with its number of changed lines, into units of neighbors in the tree.

    >>> [unit.paths for unit in cut_into_units([("b.py", 2_000), ("a/y.py", 10), ("a/x.py", 10)])]
    [('a/x.py', 'a/y.py'), ('b.py',)]
    """
    groups: list[list[tuple[str, int]]] = []
    room = 0
    for file in sorted(files):
        if not groups or file[1] > room or len(groups[-1]) == UNIT_FILES_MAX:
            groups.append([])
            room = UNIT_LINES_MAX
        groups[-1].append(file)
        room -= file[1]
    return tuple(
        ReviewUnit(tuple(path for path, _ in group), sum(lines + FILE_COST for _, lines in group)) for group in groups
    )


def open_review_job(request: ReviewRequest, workspace: ReviewWorkspace, store: ReviewStore) -> ReviewJob:
    """Return the review of the requested change, with the hashes of both its commits.

    Raises: RefNotFound, GitUnavailable, PreconditionFailed (nothing changed, or none of the named files), TooLarge.
    """
    start = time.perf_counter()
    taken = workspace.diffs.read_diff(DiffRequest(f"{request.base}...{request.commit}"))
    changed = {file.path for file in taken.files}
    named = changed.intersection(request.paths or changed)
    is_excluded = GlobSet(request.options.exclude_patterns, changed).matches
    excluded = sorted(filter(is_excluded, named))
    files = tuple(file for file in taken.files if file.path in named.difference(excluded))
    if not files:
        raise PreconditionFailed(
            "none of the files that were named, and not excluded, differs between the two commits",
            suggestion="Leave changed_files and exclude_patterns out: git knows which files changed.",
            details={"changed_files": request.paths[:NAMED_MAX], "excluded": excluded[:NAMED_MAX]},
        )
    diff_ms = (time.perf_counter() - start) * 1_000
    unchanged = sorted(set(request.paths) - changed)[:NAMED_MAX]
    warnings = [f"not changed between the two commits: {', '.join(unchanged)}"] if unchanged else []
    instructions = workspace.redact(request.options.custom_instructions)
    stored = replace(  # full hashes, only named files that changed, no secrets
        request,
        commit=taken.commit,
        base=taken.merge_base or taken.base_commit,
        paths=tuple(sorted(changed.intersection(request.paths))),
        warnings=(*request.warnings, *warnings),
        title=workspace.redact(request.title),
        author=workspace.redact(request.author),
        options=replace(request.options, custom_instructions=instructions),
    )
    return ReviewJob(stored, replace(taken, files=files), workspace, store, excluded, diff_ms)


# -- what every review does --------------------------------------------------------------------------------------------


def review_files(
    reviewer: Reviewer, files: Iterable[ReviewedFile], cancel: threading.Event | None, *, deadline: float = math.inf
) -> Iterator[FileReview]:
    """Yield the review of each file, until a moment of `time.monotonic`. Raises: Cancelled."""
    for file in files:
        check_cancelled(cancel)
        if time.monotonic() > deadline:
            return
        yield reviewer.review_file(file)


def merge_reviews(
    change: ReviewedChange,
    reviews: Iterable[FileReview],
    found: Iterable[Finding],
    options: ReviewOptions,
    redact: Redact,
    *,
    lost: Mapping[str, str],
    runs: Sequence[AnalyzerRun] = (),
    **outcome: Any,
) -> ReviewResult:
    """Return the review of a change from those of its files, and from what else was found in it.

    `lost` are files that were not reviewed unless they are among the reviews, with the reasons.
    """
    reviews = sorted(reviews, key=lambda review: review.coverage.path)
    covered = {path: FileCoverage(path, why) for path, why in {**change.left_out, **lost}.items()}
    for review in reviews:
        path = review.coverage.path
        covered[path] = review.coverage.with_reason(change.left_out.get(path, ""))
    runs = (*runs, *merge_runs(run for review in reviews for run in review.runs))
    findings = [*(finding for review in reviews for finding in review.findings), *found]
    return make_result(
        [redact_finding(finding, redact) for finding in findings],
        options,
        Coverage(tuple(covered[path] for path in sorted(covered)), runs),
        summarize_change(change.files, change.context.hot_paths()),
        **outcome,
    )


def check_cancelled(cancel: threading.Event | None) -> None:
    """Raise Cancelled once the event is set."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the review was cancelled", suggestion="Call again.")


# -- the review of a session -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReviewJob:
    """The review of one change. Several threads may use it; `diff_ms` is what its diff took."""

    request: ReviewRequest
    taken: GitDiff
    workspace: ReviewWorkspace
    store: ReviewStore
    excluded: Sequence[str] = ()
    diff_ms: float = 0.0

    def cut(self) -> tuple[ReviewUnit, ...]:
        """Return the units in which the changed files are reviewed."""
        return cut_into_units((file.path, len(file.added_lines) + len(file.removed_lines)) for file in self.taken.files)

    @cached_property
    def keys(self) -> dict[str, str]:
        """The cache key of each file."""
        options = self.request.options
        reviewer, _ = self.workspace.make_reviewer(options)
        analyzers = self.workspace.analyzers.fingerprint(options, self.taken.commit)
        common = (reviewer.ruleset, analyzers, options.key)
        facts = {path: "\0".join((*self._identify(file), *common)) for path, file in self._diffs.items()}
        return {path: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for path, text in facts.items()}

    @cached_property
    def _diffs(self) -> Mapping[str, FileDiff]:
        return {file.path: file for file in self.taken.files}

    def _identify(self, file: FileDiff) -> tuple[str, ...]:
        """Return what tells two versions of a file from any others; git names no blobs where no content changed."""
        blobs = (file.old_blob, file.new_blob)
        versions = blobs if any(blobs) else (self.request.base, self.taken.commit)
        return (file.kind, file.old_path, file.new_path, file.old_mode, file.new_mode, *versions)

    def count_cached(self) -> int:
        """Return how many of the files were reviewed before, in the same versions and by the same rules."""
        return len(self.store.read_cached(self.keys.values()))

    def review_files(self, paths: Sequence[str], cancel: threading.Event) -> tuple[UnitReview, dict[str, bytes | None]]:
        """Review some files, and return what to keep in the cache; files that are in it are not read or written again.

        Raises: Cancelled, AccessFailed.
        """
        keys = {path: self.keys[path] for path in paths if path in self.keys}
        cached = self.store.read_cached(keys.values())
        reviews = {path: _decode_cached(cached[key]) for path, key in keys.items() if key in cached}
        fresh = [path for path in paths if path not in reviews]
        stages: Stages = {}
        bytes_read = 0
        if fresh:
            with _measure_stage(stages, "blobs"):
                files = tuple(self._diffs[path] for path in fresh)
                change = self.workspace.read_change(replace(self.taken, files=files))
            versions = [version for file in change.files for version in (file.old, file.new) if version]
            bytes_read = sum(len(version.data) for version in versions)
            reviews |= self._review_fresh(change, stages, cancel)
        runs = [run for review in reviews.values() for run in review.runs]
        failures = sorted({f"{run.name}: {run.why_not}" for run in runs if run.is_failure})
        kept: dict[str, bytes | None] = dict.fromkeys(cached)
        if not failures:
            kept |= {keys[path]: msgspec.json.encode(reviews[path]) for path in fresh if path in keys}
        metrics = ReviewMetrics(stages, len(paths) - len(fresh), len(fresh), bytes_read, failures)
        return UnitReview([reviews[path] for path in paths], metrics), kept

    def conclude(
        self, reviews: Sequence[FileReview], failed: Mapping[str, str], cancel: threading.Event
    ) -> tuple[SessionOutcome, bytes]:
        """Return the whole review, and what a second pass continues.

        It comes from the reviews of the files and the change as a whole. `failed` are files that could not be reviewed,
        with the reasons. Raises: Cancelled.
        """
        options = self.request.options
        stages: Stages = {"diff": [self.diff_ms]}
        with _measure_stage(stages, "blobs"):
            change = self.workspace.read_change(self.taken)
        check_cancelled(cancel)
        reviewer, warnings = self.workspace.make_reviewer(options)
        with _measure_stage(stages, "history"):
            found = reviewer.review_change(change.files, change.context)
        check_cancelled(cancel)
        with _measure_stage(stages, "merge"):
            redact = self.workspace.redact_parts(change.files)
            result = merge_reviews(
                change,
                reviews,
                found,
                options,
                redact,
                lost={path: f"its review failed: {error}" for path, error in failed.items()}
                | dict.fromkeys(self.excluded, EXCLUDED),
                warnings=(*self.request.warnings, *warnings),
                is_partial=bool(failed),
            )
        pending = make_pending(result, options, change.files, redact, reviewer.rules)
        return SessionOutcome(review_to_json(result), ReviewMetrics(stages)), msgspec.json.encode(pending)

    def _review_fresh(self, change: ReviewedChange, stages: Stages, cancel: threading.Event) -> dict[str, FileReview]:
        options = self.request.options
        reviewer, _ = self.workspace.make_reviewer(options)
        found = list(review_files(reviewer, change.files, cancel))
        for stage, ms in (row for review in found for row in review.ms):
            stages.setdefault(stage, []).append(ms)
        check_cancelled(cancel)
        with _measure_stage(stages, "lint"):
            deadline = time.monotonic() + options.time_budget_s
            report = self.workspace.analyzers.run(change, options, deadline=deadline)
        reviews: dict[str, FileReview] = {}
        redact = self.workspace.redact_parts(change.files)
        for review in found:
            path = review.coverage.path
            findings = assign_ids((*review.findings, *(row for row in report.findings if row.path == path)))
            counts = Counter(finding.source for finding in findings)
            # the first of the files stores the time of a run over all of them
            runs = tuple(replace(run, ms=0 if reviews else run.ms, findings=counts[run.name]) for run in report.runs)
            reviews[path] = FileReview(tuple(redact_finding(one, redact) for one in findings), review.coverage, runs)
        return reviews


def _decode_cached(stored: bytes) -> FileReview:
    """Return a review from the cache, which took no time now."""
    review = msgspec.json.decode(stored, type=prepare_type(FileReview))
    return replace(review, runs=tuple(replace(run, ms=0) for run in review.runs))


@contextmanager
def _measure_stage(stages: Stages, stage: str) -> Generator[None]:
    """Add the milliseconds of a block to a stage."""
    start = time.perf_counter()
    yield
    stages.setdefault(stage, []).append((time.perf_counter() - start) * 1_000)


# -- telemetry: nothing is estimated, what was not measured is left out or None ----------------------------------------


def summarize_metrics(
    metrics: Sequence[ReviewMetrics], units: Sequence[ReviewUnit], findings: Sequence[Mapping[str, Any]], workers: int
) -> dict[str, Any]:
    """Return the figures of a session as replies contain them."""
    samples: Stages = {}
    for part in metrics:
        for stage, ms in part.stages.items():
            samples.setdefault(stage, []).extend(ms)
    ended = [unit for unit in units if unit.ended_at]
    busy = busy_s((unit.began_at, unit.ended_at) for unit in ended)
    worked = sum(unit.ended_at - unit.began_at for unit in ended)
    hits, misses = sum(part.hits for part in metrics), sum(part.misses for part in metrics)
    return {
        "stages": {stage: percentiles(ms) for stage, ms in sorted(samples.items()) if ms},
        "units": {"count": len(ended), "total_ms": round(worked * 1_000, 3), "wall_ms": round(busy * 1_000, 3)},
        "queue_wait": percentiles([round((unit.began_at - unit.queued_at) * 1_000, 3) for unit in ended]),
        "workers": workers,
        "worker_utilisation": round(worked / (busy * workers), 3) if busy else None,
        "cache": {"hits": hits, "misses": misses, "rate": round(hits / (hits + misses), 4) if hits + misses else None},
        "bytes_read": sum(part.bytes_read for part in metrics),
        "findings": {
            f"by_{name}": dict(sorted(Counter(finding[name] for finding in findings).items()))
            for name in ("source", "category")
        },
        "analyzer_failures": sorted({failure for part in metrics for failure in part.failures}),
        "retries": sum(max(0, unit.tries - 1) for unit in units),
        "model": None,  # no model is asked during a session
    }


def percentiles(samples: Sequence[float]) -> dict[str, float] | None:
    """Return the nearest-rank percentiles; None without a sample.

    >>> percentiles([1.0, 2.0, 3.0, 4.0])
    {'p50': 2.0, 'p95': 4.0, 'p99': 4.0, 'max': 4.0, 'count': 4}
    """
    ordered = sorted(samples)
    ranks = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0} if ordered else {}
    found = {name: ordered[max(0, math.ceil(share * len(ordered)) - 1)] for name, share in ranks.items()}
    return {name: round(value, 2) for name, value in found.items()} | {"count": len(ordered)} if found else None


def busy_s(times: Iterable[tuple[float, float]]) -> float:
    """Return the seconds in which at least one unit was running; a pause or a crash does not count.

    >>> busy_s([(0, 2), (1, 3), (10, 11)])
    4.0
    """
    total, reached = 0.0, -math.inf
    for began_at, ended_at in sorted(times):
        total += max(0.0, ended_at - max(began_at, reached))
        reached = max(reached, ended_at)
    return total
