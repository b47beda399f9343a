"""One change between two commits, as a session reviews it: what is looked at, what is known already, what all of it comes to.

A file is known by its two blobs, its names and modes, the rules and the options; what was found in it once is found in
it again without a look. What depends on the whole change is asked at the end, when every unit has ended.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import msgspec

from context_engine.errors import Cancelled, NextStep, PreconditionFailed
from context_engine.model import Finding
from context_engine.repo.git_diffs import DiffRequest, Diffs, TakenDiff, TouchedFile
from context_engine.review.classification import summarize_change
from context_engine.review.finding import Scrub, assign_ids, finding_to_json, scrub_finding
from context_engine.review.review_coverage import AnalyzerRun, Coverage, FileCoverage, add_reason, merge_coverage
from context_engine.review.review_replies import review_to_json
from context_engine.review.review_request import ReviewRequest
from context_engine.review.review_store import ReviewStore, ReviewUnit, UnitCheckpoint
from context_engine.review.review_units import FileTie, UnitFile
from context_engine.review.reviewer import Reviewer, count_lines
from context_engine.review.second_pass import encode_pending, make_pending
from context_engine.review.session_runner import SessionOutcome
from context_engine.review.source_versions import ChangedFile, Parsers, make_changed_file
from context_engine.review.telemetry import UnitMetrics
from context_engine.review.verdict import make_result, suppression_reason
from context_engine.text import GIT_DIFF_BYTES_MAX, FileDiff, UnifiedDiff, parse_diff

if TYPE_CHECKING:
    from context_engine.review.review_context import ReviewContext
    from context_engine.review.review_options import ReviewOptions

Stages = dict[str, list[float]]
"""Milliseconds, by what took them."""
MISSING_MAX = 20
"""So many named files that did not change are told of by name."""


class Analysed(Protocol):
    """What external analysers found in some files."""

    @property
    def findings(self) -> Sequence[Finding]:
        """In the new versions."""
        ...

    @property
    def runs(self) -> Sequence[AnalyzerRun]:
        """Each program, whether it ran, and why not."""
        ...


class Means(Protocol):
    """What a workspace has to review with."""

    @property
    def diffs(self) -> Diffs:
        """What git says has changed."""
        ...

    @property
    def parsers(self) -> Parsers:
        """What turns bytes into trees."""
        ...

    def make_reviewer(self, options: ReviewOptions) -> tuple[Reviewer, Sequence[str]]:
        """The checks with this workspace's rules, and what is wrong with those."""
        ...

    def run_analyzers(self, files: Sequence[ChangedFile], options: ReviewOptions, taken: TakenDiff) -> Analysed:
        """What external analysers say of some files."""
        ...

    def fingerprint_analyzers(self, options: ReviewOptions, taken: TakenDiff) -> str:
        """Which of them would be asked: another text when one of them is another one, or may say something else."""
        ...

    def open_context(self, commit: str) -> ReviewContext:
        """The tree of a commit."""
        ...

    def find_ties(self, paths: Sequence[str]) -> Iterable[FileTie]:
        """Which files belong together."""
        ...

    def make_exclude_filter(self, options: ReviewOptions) -> Callable[[str], bool]:
        """Whether a path is not to be reviewed."""
        ...

    def scrub(self, text: str) -> str:
        """A text without secrets."""
        ...

    def scrub_parts(self, files: Iterable[ChangedFile]) -> Scrub:
        """What takes secrets out of parts of these files."""
        ...


@dataclass(frozen=True, slots=True)
class FileReview:
    """What is kept of one file."""

    findings: tuple[Finding, ...]
    coverage: FileCoverage
    runs: tuple[AnalyzerRun, ...] = ()


def open_change(request: ReviewRequest, means: Means, store: ReviewStore) -> CommitChange:
    """The change that was asked for, with the hashes of both its commits.

    Raises: RefNotFound, GitUnavailable, PreconditionFailed (nothing changed, or nothing of what was named), TooLarge.
    """
    began = time.perf_counter()
    taken = means.diffs.take(DiffRequest(f"{request.base}...{request.commit}"))
    whole = parse_diff(taken.text, bytes_max=GIT_DIFF_BYTES_MAX)
    named = whole.filter_paths(set(request.paths).__contains__) if request.paths else whole
    excludes = means.make_exclude_filter(request.options)
    excluded = frozenset(file.path for file in named.files if excludes(file.path))
    diff = named.filter_paths(lambda path: path not in excluded)
    if not diff.files:
        raise PreconditionFailed(
            "none of the files that were named, and not excluded, differs between the two commits",
            suggestion="Leave changed_files and exclude_patterns out: git knows which files changed.",
            details={"changed_files": request.paths[:MISSING_MAX], "excluded": sorted(excluded)[:MISSING_MAX]},
        )
    ms = (time.perf_counter() - began) * 1_000
    full = _in_full(request, taken, means.scrub)
    return CommitChange(full, taken, diff, means, store, excluded=tuple(sorted(excluded)), diff_ms=ms)


def _in_full(request: ReviewRequest, taken: TakenDiff, scrub: Callable[[str], str]) -> ReviewRequest:
    """A request as it is kept: with the hashes of both commits, the named files that did change, and no secrets."""
    there = {file.path for file in taken.files}
    missing = sorted(set(request.paths) - there)
    warnings = [f"not changed between the two commits: {', '.join(missing[:MISSING_MAX])}"] if missing else []
    return replace(
        request,
        commit=taken.commit,
        base=taken.merge_base or taken.base_commit,
        paths=tuple(sorted(there.intersection(request.paths))),
        warnings=(*request.warnings, *warnings),
        title=scrub(request.title),
        author=scrub(request.author),
        options=replace(request.options, custom_instructions=scrub(request.options.custom_instructions)),
    )


@dataclass(frozen=True)
class CommitChange:
    """What changed between two commits; `diff_ms` is what it took to know."""

    request: ReviewRequest
    taken: TakenDiff
    diff: UnifiedDiff
    means: Means
    store: ReviewStore
    excluded: tuple[str, ...] = ()
    diff_ms: float = 0.0

    @cached_property
    def parts(self) -> list[UnitFile]:
        """Its files with their changed lines."""
        return [UnitFile(file.path, len(file.added_lines) + len(file.removed_lines)) for file in self.diff.files]

    @cached_property
    def keys(self) -> dict[str, str]:
        """What each file is known by."""
        options = self.request.options
        rules = self.means.make_reviewer(options)[0].ruleset
        always = (rules, self.means.fingerprint_analyzers(options, self.taken), options.key)
        touched = {each.path: each for each in self.taken.files}
        return {file.path: _key((*touched[file.path], *always)) for file in self.diff.files if file.path in touched}

    def ties(self) -> Iterable[FileTie]:
        """Which of them import one another, or usually change together."""
        return self.means.find_ties([part.path for part in self.parts])

    def known(self) -> int:
        """How many of them were looked at before."""
        return len(self.store.read_cached(self.keys.values()))

    def job(self) -> ReviewJob:
        """Its review."""
        return ReviewJob(self)


@dataclass
class ReviewJob:
    """The review of one change. Used by several threads; what they share does not change."""

    change: CommitChange
    _files: Mapping[str, FileDiff] = field(init=False)
    _touched: Mapping[str, TouchedFile] = field(init=False)

    def __post_init__(self) -> None:
        """Files are asked for by path, thousands of times."""
        self._files = {file.path: file for file in self.change.diff.files}
        self._touched = {each.path: each for each in self.change.taken.files}

    def review_files(self, paths: Sequence[str], cancel: threading.Event) -> UnitCheckpoint:
        """Review some files; those that are known are not read. Raises: Cancelled, AccessFailed."""
        keys = {path: self.change.keys[path] for path in paths if path in self.change.keys}
        known = self.change.store.read_cached(keys.values())
        fresh = [path for path in paths if keys.get(path) not in known]
        found = {path: _of_old(_body(known[keys[path]])) for path in paths if path not in fresh}
        stages: Stages = {}
        read = 0
        if fresh:
            with _timed(stages, "blobs"):
                files, whys = self._changed(fresh)
            read = sum(len(each.data) for file in files for each in (file.old, file.new) if each)
            found |= self._bodies(files, whys, stages, cancel)
        bodies = {path: msgspec.json.encode(found[path]) for path in paths}
        failures = {f"{run.name}: {run.why_not}" for body in found.values() for run in body.runs if run.is_failure}
        figures = UnitMetrics(stages, len(paths) - len(fresh), len(fresh), read, sorted(failures))
        options = self.change.request.options
        told = [each for path in paths for each in found[path].findings if not suppression_reason(each, options)]
        return UnitCheckpoint(
            bodies=bodies,
            findings=[msgspec.json.encode(finding_to_json(each)) for each in told],
            cache={keys[path]: bodies[path] for path in fresh if path in keys and not failures},
            used=tuple(known),
            figures=msgspec.json.encode(figures),
        )

    def conclude(
        self, bodies: Mapping[str, bytes], failed: Sequence[ReviewUnit], cancel: threading.Event
    ) -> SessionOutcome:
        """The whole review: what is told of all findings, and of the change as one. Raises: Cancelled."""
        means, request = self.change.means, self.change.request
        stages: Stages = {"diff": [self.change.diff_ms]}
        with _timed(stages, "blobs"):
            files, _ = self._changed(sorted(self._files))
        _check(cancel)
        around = means.open_context(self.change.taken.commit)
        reviewer, warnings = means.make_reviewer(request.options)
        with _timed(stages, "history"):
            wide = reviewer.review_change(files, around)
        _check(cancel)
        with _timed(stages, "merge"):
            looked = [_body(bodies[path]) for path in sorted(bodies)]
            findings = [each for body in looked for each in body.findings]
            scrub = means.scrub_parts(files)
            findings += [scrub_finding(each, scrub) for each in wide]
            coverage = self._coverage(looked, failed)
            about = summarize_change(count_lines(files), around.hot_paths())
            told = make_result(
                findings, request.options, coverage, about,
                warnings=(*request.warnings, *warnings), is_partial=bool(failed),
            )  # fmt: skip
        kept = make_pending(told, request.options, files, scrub, reviewer.rules)
        outcome = review_to_json(told) | {"figures": asdict(UnitMetrics(stages))}
        return SessionOutcome(msgspec.json.encode(outcome), encode_pending(kept))

    def _bodies(
        self, files: Sequence[ChangedFile], whys: Mapping[str, str], stages: Stages, cancel: threading.Event
    ) -> dict[str, FileReview]:
        """What is found in each of these files."""
        means, options = self.change.means, self.change.request.options
        reviewer, _ = means.make_reviewer(options)
        looked = {}
        for file in files:
            _check(cancel)
            looked[file.path] = reviewer.review_file(file)
            for stage, ms in looked[file.path].ms:
                stages.setdefault(stage, []).append(ms)
        _check(cancel)
        with _timed(stages, "lint"):
            more = means.run_analyzers(files, options, self.change.taken)
        bodies: dict[str, FileReview] = {}
        scrub = means.scrub_parts(files)
        for path, each in looked.items():
            found = assign_ids((*each.findings, *(one for one in more.findings if one.path == path)))
            kept = tuple(scrub_finding(one, scrub) for one in found)
            runs = tuple(_of_file(run, found, is_first=not bodies) for run in more.runs)
            bodies[path] = FileReview(kept, add_reason(each.coverage, whys.get(path, "")), runs)
        return bodies

    def _changed(self, paths: Sequence[str]) -> tuple[list[ChangedFile], dict[str, str]]:
        """Files with both their versions, and why some of those are not there."""
        means = self.change.means
        versions = means.diffs.versions(self._touched[path] for path in paths if path in self._touched)
        files = [
            make_changed_file(file, versions.old.get(file.old_path), versions.new.get(file.new_path), means.parsers)
            for file in (self._files[path] for path in paths)
        ]
        return files, {each.path: each.detail or each.reason for each in versions.left_out}

    def _coverage(self, looked: Iterable[FileReview], failed: Iterable[ReviewUnit]) -> Coverage:
        """What was looked at, the files of units that went wrong, and those that nobody wanted."""
        parts = [Coverage((body.coverage,), body.runs) for body in looked]
        lost = [FileCoverage(path, f"its review failed: {unit.error}") for unit in failed for path in unit.paths]
        unwanted = [FileCoverage(path, "excluded by a pattern") for path in self.change.excluded]
        return merge_coverage((*parts, Coverage((*lost, *unwanted))))


def _of_file(run: AnalyzerRun, found: Iterable[Finding], *, is_first: bool) -> AnalyzerRun:
    """The run of an analyser over several files, as one of them keeps it; the first keeps the time that it took."""
    return replace(run, ms=run.ms if is_first else 0, findings=sum(each.source == run.name for each in found))


def _of_old(body: FileReview) -> FileReview:
    """What was found another time: nothing took any time now."""
    return replace(body, runs=tuple(replace(run, ms=0) for run in body.runs))


def _body(stored: bytes) -> FileReview:
    return msgspec.json.decode(stored, type=FileReview)


def _key(facts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(facts).encode("utf-8", "surrogatepass")).hexdigest()


def _check(cancel: threading.Event) -> None:
    if cancel.is_set():
        raise Cancelled("the review was stopped", next_steps=NextStep("resume_review", "to continue"))


@contextmanager
def _timed(stages: Stages, stage: str) -> Generator[None]:
    """Add the milliseconds of a block to a stage."""
    began = time.perf_counter()
    yield
    stages.setdefault(stage, []).append((time.perf_counter() - began) * 1_000)
