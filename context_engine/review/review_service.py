"""The reviews of one Engine: of diffs, of what git reports, in the background, and with a second pass.

result = engine.reviews.review_diff(text, ReviewOptions())
taken, result = engine.reviews.review_git(DiffRequest("staged"), ReviewOptions())
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from context_engine.errors import PreconditionFailed
from context_engine.repo.git_diffs import DiffRequest, TakenDiff
from context_engine.repo.revision_files import STAGE, WORK_TREE
from context_engine.review.invariants import compile_globs
from context_engine.review.review_context import ReviewContext
from context_engine.review.review_job import open_review_job
from context_engine.review.review_options import ReviewOptions
from context_engine.review.review_run import ReviewedChange, review_change
from context_engine.review.review_sessions import ReviewSessions
from context_engine.review.review_store import ReviewStore
from context_engine.review.review_workspace import ReviewWorkspace, read_tree
from context_engine.review.second_pass import PendingReviews, explain_rejections, make_pending
from context_engine.review.session_runner import SessionTiming
from context_engine.review.source_versions import ChangedFile, DiffVersions
from context_engine.review.synced_reviews import SyncedReviews
from context_engine.review.verdict import ReviewResult
from context_engine.storage import STATE_FOLDER, LivenessLock, home_id
from context_engine.text import parse_diff
from context_engine.timestamps import Now

if TYPE_CHECKING:
    from context_engine.sharing import SharedRecords


class ReviewService:
    """The reviews of one Engine. Thread-safe; nothing is opened before it is needed."""

    def __init__(
        self, workspace: ReviewWorkspace, *, now: Now = time.time, shared_records: SharedRecords | None = None
    ) -> None:
        """Create the service. `shared_records` is where a team shares its reviews."""
        self.workspace = workspace
        folder = workspace.root.path / STATE_FOLDER
        self.store = ReviewStore(folder, SyncedReviews(shared_records) if shared_records else None)
        name = uuid.uuid4().hex + (f"@{home_id(folder)}" if shared_records else "")
        self.second_passes = PendingReviews(self.store, now)
        self.sessions = ReviewSessions(
            self.store,
            LivenessLock(folder, name),
            lambda request: open_review_job(request, workspace, self.store),
            SessionTiming(now),
        )

    def close(self) -> None:
        """Stop the sessions that run here in good order: any process can resume them."""
        self.sessions.close()

    # -- reviews --

    def review_diff(self, text: str, options: ReviewOptions) -> ReviewResult:
        """Review a diff against the work tree. Raises: as `read_diff` and `review`."""
        return self.review(self.read_diff(text), options)

    def review_git(
        self, request: DiffRequest, options: ReviewOptions, *, cancel: threading.Event | None = None
    ) -> tuple[TakenDiff, ReviewResult]:
        """Review what git says has changed. Raises: as `read_git_change` and `review`."""
        taken, change = self.read_git_change(request)
        return taken, self.review(change, options, cancel=cancel)

    def review(
        self, change: ReviewedChange, options: ReviewOptions, *, cancel: threading.Event | None = None
    ) -> ReviewResult:
        """Review a change. Raises: InvalidArgument (patterns, the file of rules), Cancelled."""
        return review_change(change, options, self.workspace, cancel)

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
        context = workspace.open_context(WORK_TREE) if is_applied else ReviewContext(workspace.parsers)
        return ReviewedChange(files, context, began, read_tree(base))

    def read_git_change(
        self, request: DiffRequest, *, include_patterns: Sequence[str] = ()
    ) -> tuple[TakenDiff, ReviewedChange]:
        """Return what git says has changed.

        Raises: GitUnavailable, RefNotFound, InvalidArgument, PreconditionFailed (there is no change, or the patterns
        leave none of it).
        """
        began = time.monotonic()
        workspace = self.workspace
        taken = workspace.diffs.take(request)
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
        context = workspace.open_context(taken.commit or (STAGE if request.target == "staged" else WORK_TREE))
        before = read_tree(workspace.version(taken.base_commit))
        return taken, ReviewedChange(tuple(files), context, began, before, (*versions.left_out, *taken.left_out))

    def _is_in_work_tree(self, file: ChangedFile) -> bool:
        """Whether the work tree has the new version: then it is the tree that the change leads to."""
        return file.is_whole and file.new is not None and self.workspace.read_work_tree(file.path) == file.new.text

    # -- second passes --

    def keep_for_second_pass(self, result: ReviewResult, options: ReviewOptions, change: ReviewedChange) -> str:
        """Keep a review until an agent or a model comes back to it, and return its id."""
        reviewer, _ = self.workspace.make_reviewer(options)
        scrub = self.workspace.scrub_parts(change.files)
        return self.second_passes.keep(make_pending(result, options, change.files, scrub, reviewer.rules))

    def make_draft_check(self, review_id: str) -> Callable[[Any], str]:
        """Return a function that explains what is wrong with a draft of findings. Raises: ReviewNotFound."""
        pending = self.second_passes.load(review_id)
        return lambda draft: explain_rejections(pending, draft)
