"""What one Engine knows of reviewing: checks, analysers, a team's own rules, and the trees a change stands between, put together.

    reviewed = engine.reviews.review_diff(text, ReviewOptions())
    taken, reviewed = engine.reviews.review_git(DiffRequest("staged"), ReviewOptions())

Every text of a reviewed file comes from git's objects or from what the caller handed in; the work tree is read where it
is the version under review, and written never.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from context_engine.errors import ContextEngineError, InvalidArgument, PreconditionFailed
from context_engine.repo.git_diffs import DiffRequest, Diffs, FileVersions, TakenDiff
from context_engine.repo.paths import Root, is_sensitive
from context_engine.repo.revision_files import STAGE, WORK_TREE, Version, below
from context_engine.review.analyzers.analyzer_registry import ALL as ANALYZERS
from context_engine.review.analyzers.analyzer_runner import AnalyzerReport, AnalyzerRunner, TreeReader
from context_engine.review.analyzers.code_shapes import missing_program_warnings
from context_engine.review.finding import Scrub
from context_engine.review.invariants import InvariantSet
from context_engine.review.review_context import ReviewContext
from context_engine.review.review_job import open_change
from context_engine.review.review_options import ReviewOptions
from context_engine.review.review_run import ReviewedChange, ReviewRun
from context_engine.review.review_sessions import ReviewSessions
from context_engine.review.review_store import ReviewStore
from context_engine.review.review_units import FileTie
from context_engine.review.reviewer import Reviewer
from context_engine.review.rules_file import NAMES, compile_globs, read_invariants_file
from context_engine.review.second_pass import PendingReviews, explain_rejections, make_pending
from context_engine.review.session_runner import SessionTiming
from context_engine.review.source_versions import ChangedFile, Parsers, iterate_versions, make_changed_file
from context_engine.review.submitted_diff import DiffVersions
from context_engine.review.verdict import ReviewResult
from context_engine.secrets.redactor import Redactor
from context_engine.storage.liveness import LivenessLock, home_id
from context_engine.storage.state_folder import FOLDER
from context_engine.storage.timestamps import Now
from context_engine.text import GIT_DIFF_BYTES_MAX, parse_diff

if TYPE_CHECKING:
    from context_engine.history import FileHistory
    from context_engine.index import SymbolService
    from context_engine.languages import Grammars, Languages
    from context_engine.memory import KnowledgeService
    from context_engine.repo.git import Git
    from context_engine.repo.workspace_files import WorkspaceFiles
    from context_engine.sharing.shared_records import SharedRecords

HOT_SHARE = 0.1
"""The tenth of the files that change most."""
IMPORT_WEIGHT = 0.6
"""A file that is changed with another in more than six of ten commits belongs to it more than one that it imports."""
TIED_FILES_MAX = 500
"""To ask for the importers of so many takes a second; larger changes are cut along the tree and the history."""


@dataclass(frozen=True, slots=True)
class ReviewDependencies:
    """What it stands on: the workspace, its files, symbols and history, and what takes secrets out.

    `programs` are analyzers that the user allowed to run code of the project. `shared_records` is where a team has its
    reviews in common.
    """

    root: Root
    git: Git
    languages: Languages
    grammars: Grammars
    files: WorkspaceFiles
    symbols: SymbolService
    knowledge: KnowledgeService
    scrubber: Redactor
    programs: tuple[str, ...] = ()
    now: Now = time.time
    shared_records: SharedRecords | None = None


class ReviewService:
    """The reviews of one Engine. Thread-safe; nothing is opened before it is needed."""

    def __init__(self, parts: ReviewDependencies) -> None:
        self._parts = parts
        self.diffs = Diffs(parts.git, parts.root)
        modules = parts.root.path / "node_modules"
        self.analyzers = AnalyzerRunner(
            ANALYZERS,
            frozenset(parts.programs),
            tools=(str(modules / ".bin"),),
            outside=str(parts.root.path),
            linked={modules.name: str(modules)},
        )
        self._heat: tuple[FileHistory | None, frozenset[str]] = (None, frozenset())
        folder = parts.root.path / FOLDER
        self.store = ReviewStore(folder, parts.shared_records.open_reviews() if parts.shared_records else None)
        self.scrubber = parts.scrubber
        self.parsers = Parsers(parts.languages, parts.grammars, self.scrubber.find)
        presence = LivenessLock(folder, uuid.uuid4().hex + (f"@{home_id(folder)}" if parts.shared_records else ""))
        self.second_passes = PendingReviews(self.store, parts.now)
        self.sessions = ReviewSessions(
            self.store, presence, lambda request: open_change(request, self, self.store), SessionTiming(parts.now)
        )

    def close(self) -> None:
        """End sessions that run here in good order: they wait for whoever resumes them."""
        self.sessions.close()

    # -- what can be asked for --

    def review_diff(
        self,
        text: str,
        options: ReviewOptions,
        *,
        contexts: Mapping[str, str] | None = None,
        base_ref: str = "",
        cancel: threading.Event | None = None,
    ) -> ReviewResult:
        """Review a diff. Raises: as `diff_change`, and Cancelled."""
        return self.review(self.read_diff(text, contexts=contexts, base_ref=base_ref), options, cancel=cancel)

    def review_git(
        self,
        asked: DiffRequest,
        options: ReviewOptions,
        *,
        include_patterns: Sequence[str] = (),
        cancel: threading.Event | None = None,
    ) -> tuple[TakenDiff, ReviewResult]:
        """Review what git says has changed. Raises: as `git_change`, and Cancelled."""
        taken, change = self.read_git_change(asked, include_patterns=include_patterns)
        return taken, self.review(change, options, cancel=cancel)

    def review(
        self, change: ReviewedChange, options: ReviewOptions, *, cancel: threading.Event | None = None
    ) -> ReviewResult:
        """Review a change. Raises: InvalidArgument (patterns, the file of rules), Cancelled."""
        reviewer, warnings = self.make_reviewer(options)
        who = ReviewRun(
            reviewer, self.analyzers, options, self.make_exclude_filter(options), self.scrub_parts, tuple(warnings)
        )
        return who.review(change, cancel)

    def read_diff(self, text: str, *, contexts: Mapping[str, str] | None = None, base_ref: str = "") -> ReviewedChange:
        """The change that a diff tells of.

        `contexts` are new versions of its files; else the work tree is looked at, and `base_ref`.

        Raises: DiffInvalid, DiffCombinedUnsupported, DiffTruncated, TooLarge, InvalidArgument (no such ref).
        """
        began = time.monotonic()
        diff = parse_diff(text)
        base = self._version(self._parts.git.commit(base_ref)) if base_ref else None
        texts = DiffVersions(contexts or {}, self._in_work_tree, lambda path: _text_of(base, path))
        files = tuple(texts.find_versions(each, self.parsers) for each in diff.files)
        is_here = not contexts and all(file.new is None or self._is_here(file) for file in files)
        around = self.open_context(WORK_TREE) if is_here else ReviewContext(self.parsers)
        return ReviewedChange(files, around, began, _tree(base))

    def read_git_change(
        self, asked: DiffRequest, *, include_patterns: Sequence[str] = ()
    ) -> tuple[TakenDiff, ReviewedChange]:
        """What git says has changed.

        Raises: GitUnavailable, RefNotFound, InvalidArgument, PreconditionFailed (there is no change, or the patterns
        leave none of it).
        """
        began = time.monotonic()
        taken = self.diffs.take(asked)
        fits = compile_globs(include_patterns) if include_patterns else _any
        touched = [each for each in taken.files if fits(each.path)]
        if not touched:
            raise PreconditionFailed(
                f"there is no change left: the patterns leave none of {len(taken.files)} changed files",
                suggestion=f"Leave include_patterns out, or let it match one of: {', '.join(f.path for f in taken.files[:3])}",
                details={"reason": "filtered out"},
            )
        versions = self.diffs.versions(touched)
        files = tuple(self.read_changed_files(taken, versions, {each.path for each in touched}))
        around = self.open_context(taken.commit or (STAGE if asked.target == "staged" else WORK_TREE))
        before = _tree(self._version(taken.base_commit))
        return taken, ReviewedChange(files, around, began, before, (*versions.left_out, *taken.left_out))

    # -- a second look --

    def keep_for_second_pass(self, reviewed: ReviewResult, options: ReviewOptions, change: ReviewedChange) -> str:
        """Keep a review until an agent or a model comes back to it; its id."""
        reviewer, _ = self.make_reviewer(options)
        scrub = self.scrub_parts(change.files)
        return self.second_passes.keep(make_pending(reviewed, options, change.files, scrub, reviewer.rules))

    def wrong_with(self, review_id: str) -> Callable[[Any], str]:
        """What says of a draft of findings what does not stand."""
        kept = self.second_passes.load(review_id)
        return lambda draft: explain_rejections(kept, draft)

    # -- what others build on --

    def read_changed_files(self, taken: TakenDiff, versions: FileVersions, paths: Iterable[str]) -> list[ChangedFile]:
        """The files of a diff that git wrote, with their versions."""
        wanted = set(paths)
        found = []
        for diff in parse_diff(taken.text, bytes_max=GIT_DIFF_BYTES_MAX).files:
            if diff.path not in wanted:
                continue
            old = versions.old.get(diff.old_path) if diff.old_path else None
            new = versions.new.get(diff.new_path) if diff.new_path else None
            found.append(make_changed_file(diff, old, new, self.parsers))
        return found

    def open_context(self, commit: str) -> ReviewContext:
        """The tree of a commit, of the stage (`:`) or of the work tree (empty)."""
        version = Version(self._parts.git, commit, below(self._parts.git), self._parts.files.read_once)
        history = self._parts.knowledge.history()
        return ReviewContext(
            self.parsers,
            is_known=True,
            list_paths=version.paths,
            read=version.read,
            files_with_words=version.holding,
            partners_of=history.list_usual_cochanges if history else lambda _path: (),
            hot_paths=lambda: self._hot(history),
        )

    def _hot(self, history: FileHistory | None) -> frozenset[str]:
        """The files that change most; counted once for a history."""
        if history is None:
            return frozenset()
        known, found = self._heat
        if known is not history:
            count = max(1, int(len(history.paths) * HOT_SHARE))
            found = frozenset(each.path for each in history.list_hot_files(count))
            self._heat = history, found
        return found

    def make_reviewer(self, options: ReviewOptions) -> tuple[Reviewer, tuple[str, ...]]:
        """The reviewer with this workspace's rules, and what is wrong with those."""
        book = self._rulebook(options.invariants_path)
        return Reviewer(book.invariants, outside=self.analyzers.outside), (
            *book.warnings,
            *missing_program_warnings(book, self.analyzers.outside),
        )

    # -- what sessions ask for --

    def run_analyzers(self, files: Sequence[ChangedFile], options: ReviewOptions, taken: TakenDiff) -> AnalyzerReport:
        """What external analysers say of some files of a change between two commits."""
        deadline = time.monotonic() + options.time_budget_s
        before, after = self._version(taken.merge_base or taken.base_commit), self._version(taken.commit)
        return self.analyzers.run(files, options, deadline=deadline, before=_tree(before), after=_tree(after))

    def fingerprint_analyzers(self, options: ReviewOptions, taken: TakenDiff) -> str:
        """Which of them would be asked, and of which tree."""
        return self.analyzers.fingerprint(options, taken.commit)

    def find_ties(self, paths: Sequence[str]) -> Iterator[FileTie]:
        """Which of these files import one another, or are usually changed together."""
        among, history = set(paths), self._parts.knowledge.history()
        for path in paths if len(paths) <= TIED_FILES_MAX else ():
            yield from (FileTie(path, other, IMPORT_WEIGHT) for other in self._importers(path) if other in among)
        for path in paths if history else ():
            assert history
            partners = history.list_cochanged(path)
            yield from (FileTie(path, each.path, each.confidence) for each in partners if each.path in among)

    def make_exclude_filter(self, options: ReviewOptions) -> Callable[[str], bool]:
        """Whether a path is not to be reviewed."""
        return compile_globs(options.exclude_patterns)

    def scrub(self, text: str) -> str:
        """A text without secrets, as it is kept and shown to others."""
        return self.scrubber.redact(text).text

    def scrub_parts(self, files: Iterable[ChangedFile]) -> Scrub:
        """What takes secrets out of parts of these files, the lines of a key too."""
        return self.scrubber.redact_parts(iterate_versions(files))

    def _importers(self, path: str) -> Sequence[str]:
        try:
            return self._parts.symbols.importers(path)
        except ContextEngineError:  # there is no index, or the work tree has no such file
            return ()

    def _version(self, commit: str) -> Version | None:
        return Version(self._parts.git, commit, below(self._parts.git)) if commit else None

    # -- what lies in the workspace --

    def _in_work_tree(self, path: str) -> str | None:
        if is_sensitive(path) or path.startswith("/") or ".." in path.split("/"):
            return None
        data = self._parts.files.read_once(path)
        return None if data is None else data.decode("utf-8", "replace")

    def _is_here(self, file: ChangedFile) -> bool:
        """Whether the work tree has the new version: then it is the tree that the change leads to."""
        return file.is_whole and file.new is not None and self._in_work_tree(file.path) == file.new.text

    # -- the rules of a team --

    def _rulebook(self, path: str) -> InvariantSet:
        """The rules of the file that was named, else of the first that is there. Raises: InvalidArgument."""
        for name in (path,) if path else NAMES:
            data = self._parts.files.read_once(name)
            if data is not None:
                return read_invariants_file(name, data)
        if path:
            raise InvalidArgument(
                f"no invariants file {path!r}", suggestion="leave invariants_path out, or name a file of the workspace"
            )
        return InvariantSet()


def _any(_path: str) -> bool:
    return True


def _tree(version: Version | None) -> TreeReader:
    """All files of a version; none of none."""
    return dict if version is None else lambda: version.read(version.paths())


def _text_of(version: Version | None, path: str) -> str | None:
    data = version.read([path]).get(path) if version else None
    return None if data is None else data.decode("utf-8", "replace")
