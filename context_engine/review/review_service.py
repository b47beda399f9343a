"""The reviews of one Engine: of diffs, of what git reports, in the background, and with a second pass.

    result = engine.reviews.review(engine.reviews.read_diff(text), ReviewOptions())
    taken, result = engine.reviews.review_git(DiffRequest("staged"), ReviewOptions())

Every text of a reviewed file comes from git's objects or from the caller. The work tree is read where it is the version
under review, and never written.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from context_engine.errors import InvalidArgument, PreconditionFailed
from context_engine.model import ChangeObjections
from context_engine.repo import DiffReader, DiffRequest, GitDiff, GitRevision, Root, is_sensitive
from context_engine.review.analyzers import ALL as ANALYZERS
from context_engine.review.analyzers import RUFF, AnalyzerRunner
from context_engine.review.finding import Redact, ReviewOptions, redact_finding
from context_engine.review.invariants import FILE_NAMES, InvariantSet, read_invariants_file
from context_engine.review.review_job import EXCLUDED, check_cancelled, merge_reviews, open_review_job, review_files
from context_engine.review.review_sessions import ReviewSessions
from context_engine.review.review_store import ReviewStore
from context_engine.review.reviewer import Reviewer
from context_engine.review.second_pass import PendingReviews, explain_rejections, make_pending
from context_engine.review.source_versions import (
    Parsers,
    ReviewContext,
    ReviewedChange,
    ReviewedFile,
    TreeReader,
    find_versions,
    iterate_versions,
)
from context_engine.review.verdict import NO_TIME, ReviewResult
from context_engine.search import GlobSet
from context_engine.storage import STATE_FOLDER, LivenessLock, home_id
from context_engine.team_parts import load_team_part
from context_engine.text import parse_diff
from context_engine.timestamps import Now

if TYPE_CHECKING:
    from pathlib import Path

    from context_engine.history import FileHistory
    from context_engine.languages import Grammars, Languages
    from context_engine.memory import KnowledgeService
    from context_engine.repo import Git, WorkspaceFiles
    from context_engine.secrets import Redactor
    from context_engine.storage import SharedRecords

HOT_SHARE = 0.1
"""The tenth of the files that change most."""
WHOLE_CHANGE_SHARE = 0.8
"""When so much of the time is over, the checks that read the whole tree are not begun any more."""


@dataclass
class ReviewWorkspace:
    """The sources of the reviews of one workspace. Thread-safe; nothing is opened before it is needed.

    `programs` are the analyzers that the user allowed to run code of the project; `scratch` is the folder for copies.
    """

    root: Root
    git: Git
    languages: Languages
    grammars: Grammars
    files: WorkspaceFiles
    knowledge: KnowledgeService
    redactor: Redactor
    scratch: Path
    programs: tuple[str, ...] = ()
    _heat: tuple[FileHistory | None, frozenset[str]] = field(default=(None, frozenset()), init=False)

    @cached_property
    def parsers(self) -> Parsers:
        """The parsers of changed files, and the rules for secrets."""
        return Parsers(self.languages, self.grammars, self.redactor.find)

    @cached_property
    def diffs(self) -> DiffReader:
        """The changes that git reports."""
        return DiffReader(self.git, self.root)

    @cached_property
    def analyzers(self) -> AnalyzerRunner:
        """The external analyzers, with the modules of the project for those that the user allowed."""
        modules = self.root.path / "node_modules"
        return AnalyzerRunner(
            ANALYZERS,
            self.scratch,
            frozenset(self.programs),
            outside=str(self.root.path),
            linked={modules.name: str(modules)},
        )

    def read_tree(self, commit: str) -> TreeReader:
        """Return a reader of all files of a commit; it reads nothing without one."""
        version = GitRevision(self.git, commit)
        return (lambda: version.read(version.paths())) if commit else dict

    def read_work_tree(self, path: str) -> str | None:
        """Return the text of a file of the work tree; None when it is absent or must not be read."""
        if is_sensitive(path) or path.startswith("/") or ".." in path.split("/"):
            return None
        data = self.files.read_once(path)
        return None if data is None else data.decode("utf-8", "replace")

    def open_context(self, commit: str) -> ReviewContext:
        """Return the tree of a commit, of the stage (`:`) or of the work tree (empty)."""
        version = GitRevision(self.git, commit, self.files.read_once)
        history = self.knowledge.history()
        return ReviewContext(
            self.parsers,
            is_known=True,
            list_paths=version.paths,
            read=version.read,
            files_with_words=version.files_with_words,
            hot_paths=lambda: self._list_hot_paths(history),
        )

    def _list_hot_paths(self, history: FileHistory | None) -> frozenset[str]:
        """Return the files that change most; counted once for a history."""
        if history is not None and self._heat[0] is not history:
            count = max(1, int(len(history.paths) * HOT_SHARE))
            self._heat = history, frozenset(history.list_hot_files(count))
        return self._heat[1] if history else frozenset()

    def make_reviewer(self, options: ReviewOptions) -> tuple[Reviewer, tuple[str, ...]]:
        """Return the reviewer with this workspace's rules, and warnings about these. Raises: InvalidArgument."""
        path, rules = options.invariants_path, InvariantSet()
        for name in (path,) if path else FILE_NAMES:
            data = self.files.read_once(name)
            if data is not None:
                rules = read_invariants_file(name, data)
                break
        else:
            if path:
                raise InvalidArgument(
                    f"there is no invariants file {path!r}",
                    suggestion="Name a file of the workspace, or none.",
                )
        return Reviewer(rules.invariants), rules.warnings

    def read_change(self, taken: GitDiff, *, began: float = 0.0) -> ReviewedChange:
        """Return what git says has changed, with the texts of its files. Raises: AccessFailed."""
        versions = self.diffs.versions(taken)
        files = tuple(
            ReviewedFile.of(diff, versions.old.get(diff.old_path), versions.new.get(diff.new_path), self.parsers)
            for diff in taken.files
        )
        tree = GitRevision.STAGE if taken.target == "staged" else GitRevision.WORK_TREE
        before = self.read_tree(taken.merge_base or taken.base_commit)
        left_out = {skipped.path: skipped.detail or skipped.reason for skipped in (*versions.left_out, *taken.left_out)}
        return ReviewedChange(files, self.open_context(taken.commit or tree), before, left_out, began)

    def redact(self, text: str) -> str:
        """Return a text without secrets, as it is stored and sent to others."""
        return self.redactor.redact(text).text

    def redact_parts(self, files: Iterable[ReviewedFile]) -> Redact:
        """Return a function that takes secrets out of parts of these files, single lines of a key too."""
        return self.redactor.redact_parts(iterate_versions(files))


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
            self.store, LivenessLock(folder, name), lambda request: open_review_job(request, workspace, self.store), now
        )

    def close(self) -> None:
        """Stop the sessions that run here in good order: any process can resume them."""
        self.sessions.close()

    # -- reviews --

    def find_objections(self, text: str) -> ChangeObjections:
        """Return what speaks against a diff of the present files. Raises: as `read_diff` and `review`."""
        change = self.read_diff(text)
        options = ReviewOptions(analyzers=(RUFF.name,), fail_on="P1")
        report = self.workspace.analyzers.run(change, options, deadline=change.began + options.time_budget_s)
        redact = self.workspace.redact_parts(change.files)
        found = [redact_finding(finding, redact) for finding in report.findings if finding.is_new]
        result = self.review(change, replace(options, analyzers="none"))
        runs = [run for run in report.runs if run.name == RUFF.name]
        return ChangeObjections(
            objections=result.fail_reasons,
            linter=", ".join(run.name for run in runs),
            lint=[f"{finding.rule} {finding.title} at {finding.path}:{finding.line}" for finding in found],
            problem="; ".join(f"{run.name}: {run.why_not}" for run in runs if run.why_not),
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
        """Review each file, the change as a whole, and run the analyzers.

        Only the time budget ends it early, and the result says so: files that were not reviewed are in the coverage.

        Raises: InvalidArgument (patterns, the file of rules), Cancelled.
        """
        workspace = self.workspace
        reviewer, warnings = workspace.make_reviewer(options)
        is_excluded = GlobSet(options.exclude_patterns, (str(file.path) for file in change.files)).matches
        lost = {file.path: EXCLUDED if is_excluded(file.path) else NO_TIME for file in change.files}
        change = replace(change, files=tuple(file for file in change.files if lost[file.path] == NO_TIME))
        deadline = change.began + options.time_budget_s
        reviews = list(review_files(reviewer, change.files, cancel, deadline=deadline))
        files_end = time.monotonic()
        is_late = files_end > change.began + WHOLE_CHANGE_SHARE * options.time_budget_s
        is_partial = is_late or len(reviews) < len(change.files)
        found = () if is_partial else reviewer.review_change(change.files, change.context)
        change_end = time.monotonic()
        report = workspace.analyzers.run(change, options, deadline=deadline, cancel=cancel)
        check_cancelled(cancel)
        ms = Counter({"across": (change_end - files_end) * 1_000, "analyzers": (time.monotonic() - change_end) * 1_000})
        for review in reviews:
            ms.update(dict(review.ms))
        return merge_reviews(
            change,
            reviews,
            (*found, *report.findings),
            options,
            workspace.redact_parts(change.files),  # what is shown repeats no secret; ids were computed before
            lost=lost,
            runs=report.runs,
            warnings=(*warnings, *report.warnings),
            is_partial=is_partial,
            ms=tuple(ms.items()),
        )

    def read_diff(self, text: str, *, contexts: Mapping[str, str] | None = None, base_ref: str = "") -> ReviewedChange:
        """Return the change that a diff describes.

        `contexts` are new versions of its files; others come from the work tree, or from `base_ref`.

        Raises: DiffInvalid, DiffCombinedUnsupported, DiffTruncated, TooLarge, InvalidArgument (no such ref).
        """
        began = time.monotonic()
        diff = parse_diff(text)
        workspace, sent = self.workspace, contexts or {}
        commit = workspace.git.commit(base_ref) if base_ref else ""
        base = GitRevision(workspace.git, commit)

        def read_base(path: str) -> str | None:
            data = base.read([path]).get(path) if commit else None
            return None if data is None else data.decode("utf-8", "replace")

        files = tuple(
            find_versions(file, sent, workspace.read_work_tree, read_base, workspace.parsers) for file in diff
        )
        # where the work tree has the new versions, it is the tree that the change leads to
        is_applied = not sent and all(
            file.new is None or (file.is_whole and workspace.read_work_tree(file.path) == file.new.text)
            for file in files
        )
        context = workspace.open_context(GitRevision.WORK_TREE) if is_applied else ReviewContext(workspace.parsers)
        return ReviewedChange(files, context, workspace.read_tree(commit), began=began)

    def read_git_change(
        self, request: DiffRequest, *, include_patterns: Sequence[str] = ()
    ) -> tuple[GitDiff, ReviewedChange]:
        """Return what git says has changed.

        Raises: GitUnavailable, RefNotFound, InvalidArgument, PreconditionFailed (there is no change, or the patterns
        leave none of it).
        """
        began = time.monotonic()
        taken = self.workspace.diffs.read_diff(request)
        chosen = GlobSet(include_patterns, (file.path for file in taken.files))
        diffs = [file for file in taken.files if not include_patterns or chosen.matches(file.path)]
        if not diffs:
            paths = ", ".join(file.path for file in taken.files[:3])
            raise PreconditionFailed(
                f"there is no change left: the patterns leave none of {len(taken.files)} changed files",
                suggestion=f"Leave include_patterns out, or let it match one of: {paths}",
                details={"reason": "filtered out"},
            )
        return taken, self.workspace.read_change(replace(taken, files=tuple(diffs)), began=began)

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
