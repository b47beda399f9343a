"""One change between two commits, as a session reviews it: what is looked at, what is known already, what all of it comes to.

A file is known by its two blobs, its names and modes, the rules and the options; what was found in it once is found in it
again without a look. What depends on the whole change is asked at the end, when every unit has ended.
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
from context_engine.repo.git_diffs import DiffRequest, Diffs, TakenDiff, TouchedFile
from context_engine.review.classification import summary
from context_engine.review.finding import Finding, Scrub, identified, plain, scrubbed
from context_engine.review.review_coverage import AnalyzerRun, Coverage, FileCoverage, because, together
from context_engine.review.review_replies import reply
from context_engine.review.review_request import Request
from context_engine.review.review_store import Checkpoint, ReviewStore, Unit
from context_engine.review.review_units import Part, Tie
from context_engine.review.reviewer import Reviewer, parts_of
from context_engine.review.second_pass import first_look, packed
from context_engine.review.session_runner import Conclusion
from context_engine.review.source_versions import ChangedFile, Parsers, changed
from context_engine.review.telemetry import Figures
from context_engine.review.verdict import judged, why_not
from context_engine.text.diff import GIT_DIFF_BYTES_MAX, Diff, FileDiff, parsed

if TYPE_CHECKING:
    from context_engine.review.review_context import Surroundings
    from context_engine.review.review_options import Options

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

    def reviewer(self, options: Options) -> tuple[Reviewer, Sequence[str]]:
        """The checks with this workspace's rules, and what is wrong with those."""
        ...

    def analysed(self, files: Sequence[ChangedFile], options: Options, taken: TakenDiff) -> Analysed:
        """What external analysers say of some files."""
        ...

    def analysers(self, options: Options, taken: TakenDiff) -> str:
        """Which of them would be asked: another text when one of them is another one, or may say something else."""
        ...

    def surroundings(self, commit: str) -> Surroundings:
        """The tree of a commit."""
        ...

    def ties(self, paths: Sequence[str]) -> Iterable[Tie]:
        """Which files belong together."""
        ...

    def excludes(self, options: Options) -> Callable[[str], bool]:
        """Whether a path is not to be reviewed."""
        ...

    def scrub(self, text: str) -> str:
        """A text without secrets."""
        ...

    def scrub_parts(self, files: Iterable[ChangedFile]) -> Scrub:
        """What takes secrets out of parts of these files."""
        ...


@dataclass(frozen=True, slots=True)
class Body:
    """What is kept of one file."""

    findings: tuple[Finding, ...]
    coverage: FileCoverage
    runs: tuple[AnalyzerRun, ...] = ()


def opened(request: Request, means: Means, store: ReviewStore) -> GitChange:
    """The change that was asked for, with the hashes of both its commits.

    Raises: RefNotFound, GitUnavailable, PreconditionFailed (nothing changed, or nothing of what was named), TooLarge.
    """
    began = time.perf_counter()
    taken = means.diffs.take(DiffRequest(f"{request.base}...{request.commit}"))
    whole = parsed(taken.text, bytes_max=GIT_DIFF_BYTES_MAX)
    named = whole.only(set(request.paths).__contains__) if request.paths else whole
    excludes = means.excludes(request.options)
    excluded = frozenset(file.path for file in named.files if excludes(file.path))
    diff = named.only(lambda path: path not in excluded)
    if not diff.files:
        raise PreconditionFailed(
            "none of the files that were named, and not excluded, differs between the two commits",
            suggestion="Leave changed_files and exclude_patterns out: git knows which files changed.",
            details={"changed_files": request.paths[:MISSING_MAX], "excluded": sorted(excluded)[:MISSING_MAX]},
        )
    ms = (time.perf_counter() - began) * 1_000
    full = _in_full(request, taken, means.scrub)
    return GitChange(full, taken, diff, means, store, excluded=tuple(sorted(excluded)), diff_ms=ms)


def _in_full(request: Request, taken: TakenDiff, scrub: Callable[[str], str]) -> Request:
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
class GitChange:
    """What changed between two commits; `diff_ms` is what it took to know."""

    request: Request
    taken: TakenDiff
    diff: Diff
    means: Means
    store: ReviewStore
    excluded: tuple[str, ...] = ()
    diff_ms: float = 0.0

    @cached_property
    def parts(self) -> list[Part]:
        """Its files with their changed lines."""
        return [Part(file.path, len(file.added) + len(file.removed)) for file in self.diff.files]

    @cached_property
    def keys(self) -> dict[str, str]:
        """What each file is known by."""
        options = self.request.options
        rules = self.means.reviewer(options)[0].ruleset
        always = (rules, self.means.analysers(options, self.taken), options.key)
        touched = {each.path: each for each in self.taken.files}
        return {file.path: _key((*touched[file.path], *always)) for file in self.diff.files if file.path in touched}

    def ties(self) -> Iterable[Tie]:
        """Which of them import one another, or usually change together."""
        return self.means.ties([part.path for part in self.parts])

    def known(self) -> int:
        """How many of them were looked at before."""
        return len(self.store.cached(self.keys.values()))

    def job(self) -> ReviewJob:
        """Its review."""
        return ReviewJob(self)


@dataclass
class ReviewJob:
    """The review of one change. Used by several threads; what they share does not change."""

    change: GitChange
    _files: Mapping[str, FileDiff] = field(init=False)
    _touched: Mapping[str, TouchedFile] = field(init=False)

    def __post_init__(self) -> None:
        """Files are asked for by path, thousands of times."""
        self._files = {file.path: file for file in self.change.diff.files}
        self._touched = {each.path: each for each in self.change.taken.files}

    def look(self, paths: Sequence[str], cancel: threading.Event) -> Checkpoint:
        """Review some files; those that are known are not read. Raises: Cancelled, AccessFailed."""
        keys = {path: self.change.keys[path] for path in paths if path in self.change.keys}
        known = self.change.store.cached(keys.values())
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
        figures = Figures(stages, len(paths) - len(fresh), len(fresh), read, sorted(failures))
        options = self.change.request.options
        told = [each for path in paths for each in found[path].findings if not why_not(each, options)]
        return Checkpoint(
            bodies=bodies,
            findings=[msgspec.json.encode(plain(each)) for each in told],
            cache={keys[path]: bodies[path] for path in fresh if path in keys and not failures},
            used=tuple(known),
            figures=msgspec.json.encode(figures),
        )

    def conclude(self, bodies: Mapping[str, bytes], failed: Sequence[Unit], cancel: threading.Event) -> Conclusion:
        """The whole review: what is told of all findings, and of the change as one. Raises: Cancelled."""
        means, request = self.change.means, self.change.request
        stages: Stages = {"diff": [self.change.diff_ms]}
        with _timed(stages, "blobs"):
            files, _ = self._changed(sorted(self._files))
        _check(cancel)
        around = means.surroundings(self.change.taken.commit)
        reviewer, warnings = means.reviewer(request.options)
        with _timed(stages, "history"):
            wide = reviewer.across(files, around)
        _check(cancel)
        with _timed(stages, "merge"):
            looked = [_body(bodies[path]) for path in sorted(bodies)]
            findings = [each for body in looked for each in body.findings]
            scrub = means.scrub_parts(files)
            findings += [scrubbed(each, scrub) for each in wide]
            coverage = self._coverage(looked, failed)
            about = summary(parts_of(files), around.hot())
            told = judged(
                findings, request.options, coverage, about,
                warnings=(*request.warnings, *warnings), is_partial=bool(failed),
            )  # fmt: skip
        kept = first_look(told, request.options, files, scrub, reviewer.rules)
        outcome = reply(told) | {"figures": asdict(Figures(stages))}
        return Conclusion(msgspec.json.encode(outcome), packed(kept))

    def _bodies(
        self, files: Sequence[ChangedFile], whys: Mapping[str, str], stages: Stages, cancel: threading.Event
    ) -> dict[str, Body]:
        """What is found in each of these files."""
        means, options = self.change.means, self.change.request.options
        reviewer, _ = means.reviewer(options)
        looked = {}
        for file in files:
            _check(cancel)
            looked[file.path] = reviewer.look(file)
            for stage, ms in looked[file.path].ms:
                stages.setdefault(stage, []).append(ms)
        _check(cancel)
        with _timed(stages, "lint"):
            more = means.analysed(files, options, self.change.taken)
        bodies: dict[str, Body] = {}
        scrub = means.scrub_parts(files)
        for path, each in looked.items():
            found = identified((*each.findings, *(one for one in more.findings if one.path == path)))
            kept = tuple(scrubbed(one, scrub) for one in found)
            runs = tuple(_of_file(run, found, is_first=not bodies) for run in more.runs)
            bodies[path] = Body(kept, because(each.coverage, whys.get(path, "")), runs)
        return bodies

    def _changed(self, paths: Sequence[str]) -> tuple[list[ChangedFile], dict[str, str]]:
        """Files with both their versions, and why some of those are not there."""
        means = self.change.means
        versions = means.diffs.versions(self._touched[path] for path in paths if path in self._touched)
        files = [
            changed(file, versions.old.get(file.old_path), versions.new.get(file.new_path), means.parsers)
            for file in (self._files[path] for path in paths)
        ]
        return files, {each.path: each.detail or each.reason for each in versions.left_out}

    def _coverage(self, looked: Iterable[Body], failed: Iterable[Unit]) -> Coverage:
        """What was looked at, the files of units that went wrong, and those that nobody wanted."""
        parts = [Coverage((body.coverage,), body.runs) for body in looked]
        lost = [FileCoverage(path, f"its review failed: {unit.error}") for unit in failed for path in unit.paths]
        unwanted = [FileCoverage(path, "excluded by a pattern") for path in self.change.excluded]
        return together((*parts, Coverage((*lost, *unwanted))))


def _of_file(run: AnalyzerRun, found: Iterable[Finding], *, is_first: bool) -> AnalyzerRun:
    """The run of an analyser over several files, as one of them keeps it; the first keeps the time that it took."""
    return replace(run, ms=run.ms if is_first else 0, findings=sum(each.source == run.name for each in found))


def _of_old(body: Body) -> Body:
    """What was found another time: nothing took any time now."""
    return replace(body, runs=tuple(replace(run, ms=0) for run in body.runs))


def _body(stored: bytes) -> Body:
    return msgspec.json.decode(stored, type=Body)


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
