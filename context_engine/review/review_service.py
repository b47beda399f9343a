"""The reviews of one Engine: of diffs, of what git reports, in the background, and with a second pass.

result = engine.reviews.review_diff(text, ReviewOptions())
taken, result = engine.reviews.review_git(DiffRequest("staged"), ReviewOptions())
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from context_engine.errors import Cancelled, PreconditionFailed
from context_engine.model import ChangeObjections
from context_engine.repo import DiffRequest, GitDiff, GitRevision
from context_engine.review.analyzer_runner import TreeReader
from context_engine.review.analyzers import RUFF
from context_engine.review.classification import summarize_change
from context_engine.review.finding import redact_finding
from context_engine.review.invariants import compile_globs
from context_engine.review.review_job import open_review_job
from context_engine.review.review_options import ReviewOptions
from context_engine.review.review_sessions import ReviewSessions
from context_engine.review.review_store import ReviewStore
from context_engine.review.review_workspace import ReviewWorkspace, read_tree
from context_engine.review.reviewer import FileFindings, count_lines
from context_engine.review.second_pass import PendingReviews, explain_rejections, make_pending
from context_engine.review.source_versions import DiffVersions, ReviewContext, ReviewedFile
from context_engine.review.verdict import NO_TIME, Coverage, FileCoverage, ReviewResult, make_result
from context_engine.storage import STATE_FOLDER, LivenessLock, home_id
from context_engine.team_parts import load_team_part
from context_engine.text import parse_diff
from context_engine.timestamps import Now

if TYPE_CHECKING:
    from context_engine.model import Skipped
    from context_engine.storage import SharedRecords


WHOLE_CHANGE_SHARE = 0.8
"""When so much of the time is over, the checks that read the whole tree are not begun any more."""


@dataclass(frozen=True, slots=True)
class ReviewedChange:
    """A change under review: its files, the tree they lead to, and the whole tree they come from, for compilers.

    `left_out` are files whose text is unavailable, with the reasons; `began` is a moment of `time.monotonic`.
    """

    files: tuple[ReviewedFile, ...]
    context: ReviewContext
    began: float
    before: TreeReader = dict
    left_out: tuple[Skipped, ...] = ()


class ReviewService:
    """The reviews of one Engine. Thread-safe; nothing is opened before it is needed."""

    def __init__(
        self, workspace: ReviewWorkspace, *, now: Now = time.time, shared_records: SharedRecords | None = None
    ) -> None:
        """Create the service. `shared_records` is where a team shares its reviews."""
        self.workspace = workspace
        folder = workspace.root.path / STATE_FOLDER
        self.store = ReviewStore(folder, load_team_part("reviews")(shared_records) if shared_records else None)
        name = uuid.uuid4().hex + (f"@{home_id(folder)}" if shared_records else "")
        self.second_passes = PendingReviews(self.store, now)
        self.sessions = ReviewSessions(
            self.store,
            LivenessLock(folder, name),
            lambda request: open_review_job(request, workspace, self.store),
            now,
        )

    def close(self) -> None:
        """Stop the sessions that run here in good order: any process can resume them."""
        self.sessions.close()

    # -- reviews --

    def review_diff(self, text: str, options: ReviewOptions) -> ReviewResult:
        """Review a diff against the work tree. Raises: as `read_diff` and `review`."""
        return self.review(self.read_diff(text), options)

    def find_objections(self, text: str) -> ChangeObjections:
        """Return what speaks against a diff of the present files. Raises: as `read_diff` and `review`."""
        change = self.read_diff(text)
        options = ReviewOptions(analyzers=(RUFF.name,), fail_on="P1")
        report = self.workspace.analyzers.run(change.files, options, deadline=change.began + options.time_budget_s)
        redact = self.workspace.redact_parts(change.files)
        found = [redact_finding(finding, redact) for finding in report.findings if finding.is_new]
        result = self.review(change, replace(options, analyzers="none"))
        return ChangeObjections(
            objections=result.fail_reasons,
            linter=", ".join(run.name for run in report.runs if run.name == RUFF.name),
            lint=[f"{finding.rule} {finding.title} at {finding.path}:{finding.line}" for finding in found],
            problem="; ".join(
                f"{run.name}: {run.why_not}" for run in report.runs if run.name == RUFF.name and run.why_not
            ),
        )

    def review_git(
        self, request: DiffRequest, options: ReviewOptions, *, cancel: threading.Event | None = None
    ) -> tuple[GitDiff, ReviewResult]:
        """Review what git says has changed. Raises: as `read_git_change` and `review`."""
        taken, change = self.read_git_change(request)
        return taken, self.review(change, options, cancel=cancel)

    def review(
        self, change: ReviewedChange, options: ReviewOptions, *, cancel: threading.Event | None = None
    ) -> ReviewResult:
        """Review a change. Raises: InvalidArgument (patterns, the file of rules), Cancelled."""
        return _review_change(change, options, self.workspace, cancel)

    def read_diff(self, text: str, *, contexts: Mapping[str, str] | None = None, base_ref: str = "") -> ReviewedChange:
        """Return the change that a diff describes.

        `contexts` are new versions of its files; others come from the work tree, or from `base_ref`.

        Raises: DiffInvalid, DiffCombinedUnsupported, DiffTruncated, TooLarge, InvalidArgument (no such ref).
        """
        began = time.monotonic()
        diff = parse_diff(text)
        workspace = self.workspace
        base = workspace.version(workspace.git.commit(base_ref)) if base_ref else None

        def read_base(path: str) -> str | None:
            data = base.read([path]).get(path) if base else None
            return None if data is None else data.decode("utf-8", "replace")

        versions = DiffVersions(contexts or {}, workspace.read_work_tree, read_base)
        files = tuple(versions.find_versions(file, workspace.parsers) for file in diff.files)
        is_applied = not contexts and all(file.new is None or self._is_in_work_tree(file) for file in files)
        context = workspace.open_context(GitRevision.WORK_TREE) if is_applied else ReviewContext(workspace.parsers)
        return ReviewedChange(files, context, began, read_tree(base))

    def read_git_change(
        self, request: DiffRequest, *, include_patterns: Sequence[str] = ()
    ) -> tuple[GitDiff, ReviewedChange]:
        """Return what git says has changed.

        Raises: GitUnavailable, RefNotFound, InvalidArgument, PreconditionFailed (there is no change, or the patterns
        leave none of it).
        """
        began = time.monotonic()
        workspace = self.workspace
        taken = workspace.diffs.read_diff(request)
        is_included = compile_globs(include_patterns) if include_patterns else lambda _path: True
        touched = [file for file in taken.files if is_included(file.path)]
        if not touched:
            paths = ", ".join(file.path for file in taken.files[:3])
            raise PreconditionFailed(
                f"there is no change left: the patterns leave none of {len(taken.files)} changed files",
                suggestion=f"Leave include_patterns out, or let it match one of: {paths}",
                details={"reason": "filtered out"},
            )
        versions = workspace.diffs.versions(touched)
        files = workspace.read_changed_files(taken, versions, {file.path for file in touched})
        context = workspace.open_context(
            taken.commit or (GitRevision.STAGE if request.target == "staged" else GitRevision.WORK_TREE)
        )
        before = read_tree(workspace.version(taken.base_commit))
        return taken, ReviewedChange(tuple(files), context, began, before, (*versions.left_out, *taken.left_out))

    def _is_in_work_tree(self, file: ReviewedFile) -> bool:
        """Whether the work tree has the new version: then it is the tree that the change leads to."""
        return file.is_whole and file.new is not None and self.workspace.read_work_tree(file.path) == file.new.text

    # -- second passes --

    def keep_for_second_pass(self, result: ReviewResult, options: ReviewOptions, change: ReviewedChange) -> str:
        """Keep a review until an agent or a model comes back to it, and return its id."""
        reviewer, _ = self.workspace.make_reviewer(options)
        redact = self.workspace.redact_parts(change.files)
        return self.second_passes.keep(make_pending(result, options, change.files, redact, reviewer.rules))

    def make_draft_check(self, review_id: str) -> Callable[[Any], str]:
        """Return a function that explains what is wrong with a draft of findings. Raises: ReviewNotFound."""
        pending = self.second_passes.load(review_id)
        return lambda draft: explain_rejections(pending, draft)


# -- one review in one go ----------------------------------------------------------------------------------------------


def _review_change(
    change: ReviewedChange,
    options: ReviewOptions,
    workspace: ReviewWorkspace,
    cancel: threading.Event | None = None,
) -> ReviewResult:
    """Review each file, the change as a whole, and run the analyzers.

    Only the time budget ends it early, and the result says so: files that were not reviewed are in the coverage.

    Raises: InvalidArgument (patterns, the file of rules), Cancelled.
    """
    reviewer, warnings = workspace.make_reviewer(options)
    is_excluded = workspace.make_exclude_filter(options)
    files = [file for file in change.files if not is_excluded(file.path)]
    deadline = change.began + options.time_budget_s
    reviewed: dict[str, FileFindings] = {}
    for file in files:
        _check_cancelled(cancel)
        if time.monotonic() > deadline:
            break
        reviewed[file.path] = reviewer.review_file(file)
    findings = [finding for result in reviewed.values() for finding in result.findings]
    files_end = time.monotonic()
    is_late = files_end > change.began + WHOLE_CHANGE_SHARE * options.time_budget_s
    is_partial = is_late or len(reviewed) < len(files)
    if not is_partial:
        findings += reviewer.review_change(files, change.context)
    change_end = time.monotonic()
    report = workspace.analyzers.run(
        files,
        options,
        deadline=deadline,
        before=change.before,
        after=lambda: change.context.read(change.context.list_paths()),
        cancel=cancel,
    )
    _check_cancelled(cancel)
    ms = Counter({"across": (change_end - files_end) * 1_000, "analyzers": (time.monotonic() - change_end) * 1_000})
    for result in reviewed.values():
        ms.update(dict(result.ms))
    redact = workspace.redact_parts(files)  # what is shown repeats no secret; ids were computed before
    return make_result(
        [redact_finding(finding, redact) for finding in (*findings, *report.findings)],
        options,
        Coverage(_cover_files(change, reviewed, is_excluded), report.runs),
        summarize_change(count_lines(files), change.context.hot_paths()),
        warnings=(*warnings, *report.warnings),
        is_partial=is_partial,
        ms=tuple(ms.items()),
    )


def _cover_files(
    change: ReviewedChange, reviewed: Mapping[str, FileFindings], is_excluded: Callable[[str], bool]
) -> tuple[FileCoverage, ...]:
    """Return every file that the diff or git names: reviewed, or why not."""
    reasons = {skipped.path: skipped.detail or skipped.reason for skipped in change.left_out}
    covered = {path: FileCoverage(path, why) for path, why in reasons.items()}
    for file in change.files:
        why = "excluded by a pattern" if is_excluded(file.path) else NO_TIME
        covered[file.path] = FileCoverage(file.path, why)
    for path, result in reviewed.items():
        covered[path] = result.coverage.with_reason(reasons.get(path, ""))
    return tuple(covered[path] for path in sorted(covered))


def _check_cancelled(cancel: threading.Event | None) -> None:
    """Do nothing unless the review was canceled. Raises: Cancelled."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the review was cancelled", suggestion="Call again.")
