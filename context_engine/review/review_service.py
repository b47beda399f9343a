"""What one Engine knows of reviewing: checks, analysers, a team's own rules, and the trees a change stands between, put together.

    reviewed = engine.reviews.review_diff(text, Options())
    taken, reviewed = engine.reviews.review_git(Asked("staged"), Options())

Every text of a reviewed file comes from git's objects or from what the caller handed in; the work tree is read where it is the
version under review, and written never.
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
from context_engine.review.analyzers.analyzer_runner import Analysed, Bench, Tree
from context_engine.review.analyzers.code_shapes import unseen
from context_engine.review.finding import Scrub
from context_engine.review.invariants import Rulebook
from context_engine.review.review_context import Surroundings
from context_engine.review.review_job import opened
from context_engine.review.review_options import Options
from context_engine.review.review_run import Change, Round
from context_engine.review.review_sessions import Sessions
from context_engine.review.review_store import ReviewStore
from context_engine.review.review_units import Tie
from context_engine.review.reviewer import Reviewer
from context_engine.review.rules_file import NAMES, globs, rulebook
from context_engine.review.second_pass import SecondLooks, first_look, what_is_wrong
from context_engine.review.session_runner import Pace
from context_engine.review.source_versions import ChangedFile, Parsers, changed, versions_of
from context_engine.review.submitted_diff import Texts
from context_engine.review.verdict import Reviewed
from context_engine.secrets.redactor import Redactor
from context_engine.storage.liveness import LivenessLock, home_id
from context_engine.storage.state_folder import FOLDER
from context_engine.storage.timestamps import Now
from context_engine.text.diff import GIT_DIFF_BYTES_MAX, parsed

if TYPE_CHECKING:
    from context_engine.history.file_history import History
    from context_engine.index.symbol_service import SymbolService
    from context_engine.languages import Grammars, Languages
    from context_engine.memory.knowledge_service import KnowledgeService
    from context_engine.repo.git import Git
    from context_engine.repo.workspace_files import WorkspaceFiles
    from context_engine.sharing.shared_records import Commons

HOT_SHARE = 0.1
"""The tenth of the files that change most."""
IMPORT_WEIGHT = 0.6
"""A file that is changed with another in more than six of ten commits belongs to it more than one that it imports."""
TIED_FILES_MAX = 500
"""To ask for the importers of so many takes a second; larger changes are cut along the tree and the history."""


@dataclass(frozen=True, slots=True)
class ReviewDependencies:
    """What it stands on: the workspace, its files, symbols and history, and what takes secrets out.

    `programs` are analyzers that the user allowed to run code of the project. `commons` is where a team has its reviews in
    common.
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
    commons: Commons | None = None


class Reviewing:
    """The reviews of one Engine. Thread-safe; nothing is opened before it is needed."""

    def __init__(self, parts: ReviewDependencies) -> None:
        self._parts = parts
        self.diffs = Diffs(parts.git, parts.root)
        modules = parts.root.path / "node_modules"
        self.bench = Bench(
            ANALYZERS,
            frozenset(parts.programs),
            tools=(str(modules / ".bin"),),
            outside=str(parts.root.path),
            linked={modules.name: str(modules)},
        )
        self._heat: tuple[History | None, frozenset[str]] = (None, frozenset())
        folder = parts.root.path / FOLDER
        self.store = ReviewStore(folder, parts.commons.reviews() if parts.commons else None)
        self.scrubber = parts.scrubber
        self.parsers = Parsers(parts.languages, parts.grammars, self.scrubber.find)
        presence = LivenessLock(folder, uuid.uuid4().hex + (f"@{home_id(folder)}" if parts.commons else ""))
        self.second = SecondLooks(self.store, parts.now)
        self.sessions = Sessions(
            self.store, presence, lambda request: opened(request, self, self.store), Pace(parts.now)
        )

    def close(self) -> None:
        """End sessions that run here in good order: they wait for whoever resumes them."""
        self.sessions.close()

    # -- what can be asked for --

    def review_diff(
        self,
        text: str,
        options: Options,
        *,
        contexts: Mapping[str, str] | None = None,
        base_ref: str = "",
        cancel: threading.Event | None = None,
    ) -> Reviewed:
        """Review a diff. Raises: as `diff_change`, and Cancelled."""
        return self.review(self.diff_change(text, contexts=contexts, base_ref=base_ref), options, cancel=cancel)

    def review_git(
        self,
        asked: DiffRequest,
        options: Options,
        *,
        include_patterns: Sequence[str] = (),
        cancel: threading.Event | None = None,
    ) -> tuple[TakenDiff, Reviewed]:
        """Review what git says has changed. Raises: as `git_change`, and Cancelled."""
        taken, change = self.git_change(asked, include_patterns=include_patterns)
        return taken, self.review(change, options, cancel=cancel)

    def review(self, change: Change, options: Options, *, cancel: threading.Event | None = None) -> Reviewed:
        """Review a change. Raises: InvalidArgument (patterns, the file of rules), Cancelled."""
        reviewer, warnings = self.reviewer(options)
        who = Round(reviewer, self.bench, options, self.excludes(options), self.scrub_parts, tuple(warnings))
        return who.review(change, cancel)

    def diff_change(self, text: str, *, contexts: Mapping[str, str] | None = None, base_ref: str = "") -> Change:
        """The change that a diff tells of. `contexts` are new versions of its files; else the work tree is looked at, and `base_ref`.

        Raises: DiffInvalid, DiffCombinedUnsupported, DiffTruncated, TooLarge, InvalidArgument (no such ref).
        """
        began = time.monotonic()
        diff = parsed(text)
        base = self._version(self._parts.git.commit(base_ref)) if base_ref else None
        texts = Texts(contexts or {}, self._in_work_tree, lambda path: _text_of(base, path))
        files = tuple(texts.of(each, self.parsers) for each in diff.files)
        is_here = not contexts and all(file.new is None or self._is_here(file) for file in files)
        around = self.surroundings(WORK_TREE) if is_here else Surroundings(self.parsers)
        return Change(files, around, began, _tree(base))

    def git_change(self, asked: DiffRequest, *, include_patterns: Sequence[str] = ()) -> tuple[TakenDiff, Change]:
        """What git says has changed.

        Raises: GitUnavailable, RefNotFound, InvalidArgument, PreconditionFailed (there is no change, or the patterns leave none of it).
        """
        began = time.monotonic()
        taken = self.diffs.take(asked)
        fits = globs(include_patterns) if include_patterns else _any
        touched = [each for each in taken.files if fits(each.path)]
        if not touched:
            raise PreconditionFailed(
                f"there is no change left: the patterns leave none of {len(taken.files)} changed files",
                suggestion=f"Leave include_patterns out, or let it match one of: {', '.join(f.path for f in taken.files[:3])}",
                details={"reason": "filtered out"},
            )
        versions = self.diffs.versions(touched)
        files = tuple(self.changed_files(taken, versions, {each.path for each in touched}))
        around = self.surroundings(taken.commit or (STAGE if asked.target == "staged" else WORK_TREE))
        before = _tree(self._version(taken.base_commit))
        return taken, Change(files, around, began, before, (*versions.left_out, *taken.left_out))

    # -- a second look --

    def keep(self, reviewed: Reviewed, options: Options, change: Change) -> str:
        """Keep a review until an agent or a model comes back to it; its id."""
        reviewer, _ = self.reviewer(options)
        scrub = self.scrub_parts(change.files)
        return self.second.keep(first_look(reviewed, options, change.files, scrub, reviewer.rules))

    def wrong_with(self, review_id: str) -> Callable[[Any], str]:
        """What says of a draft of findings what does not stand."""
        kept = self.second.kept(review_id)
        return lambda draft: what_is_wrong(kept, draft)

    # -- what others build on --

    def changed_files(self, taken: TakenDiff, versions: FileVersions, paths: Iterable[str]) -> list[ChangedFile]:
        """The files of a diff that git wrote, with their versions."""
        wanted = set(paths)
        found = []
        for diff in parsed(taken.text, bytes_max=GIT_DIFF_BYTES_MAX).files:
            if diff.path not in wanted:
                continue
            old = versions.old.get(diff.old_path) if diff.old_path else None
            new = versions.new.get(diff.new_path) if diff.new_path else None
            found.append(changed(diff, old, new, self.parsers))
        return found

    def surroundings(self, commit: str) -> Surroundings:
        """The tree of a commit, of the stage (`:`) or of the work tree (empty)."""
        version = Version(self._parts.git, commit, below(self._parts.git), self._parts.files.read_once)
        history = self._parts.knowledge.history()
        return Surroundings(
            self.parsers,
            is_known=True,
            listed=version.paths,
            read=version.read,
            holding=version.holding,
            usually_with=history.usually_with if history else lambda _path: (),
            hot=lambda: self._hot(history),
        )

    def _hot(self, history: History | None) -> frozenset[str]:
        """The files that change most; counted once for a history."""
        if history is None:
            return frozenset()
        known, found = self._heat
        if known is not history:
            count = max(1, int(len(history.paths) * HOT_SHARE))
            found = frozenset(each.path for each in history.hot(count))
            self._heat = history, found
        return found

    def reviewer(self, options: Options) -> tuple[Reviewer, tuple[str, ...]]:
        """The reviewer with this workspace's rules, and what is wrong with those."""
        book = self._rulebook(options.invariants_path)
        return Reviewer(book.invariants, outside=self.bench.outside), (
            *book.warnings,
            *unseen(book, self.bench.outside),
        )

    # -- what sessions ask for --

    def analysed(self, files: Sequence[ChangedFile], options: Options, taken: TakenDiff) -> Analysed:
        """What external analysers say of some files of a change between two commits."""
        deadline = time.monotonic() + options.time_budget_s
        before, after = self._version(taken.merge_base or taken.base_commit), self._version(taken.commit)
        return self.bench.analyse(files, options, deadline=deadline, before=_tree(before), after=_tree(after))

    def analysers(self, options: Options, taken: TakenDiff) -> str:
        """Which of them would be asked, and of which tree."""
        return self.bench.identity(options, taken.commit)

    def ties(self, paths: Sequence[str]) -> Iterator[Tie]:
        """Which of these files import one another, or are usually changed together."""
        among, history = set(paths), self._parts.knowledge.history()
        for path in paths if len(paths) <= TIED_FILES_MAX else ():
            yield from (Tie(path, other, IMPORT_WEIGHT) for other in self._importers(path) if other in among)
        for path in paths if history else ():
            assert history
            partners = history.partners(path)
            yield from (Tie(path, each.path, each.confidence) for each in partners if each.path in among)

    def excludes(self, options: Options) -> Callable[[str], bool]:
        """Whether a path is not to be reviewed."""
        return globs(options.exclude_patterns)

    def scrub(self, text: str) -> str:
        """A text without secrets, as it is kept and shown to others."""
        return self.scrubber.redact(text).text

    def scrub_parts(self, files: Iterable[ChangedFile]) -> Scrub:
        """What takes secrets out of parts of these files, the lines of a key too."""
        return self.scrubber.redact_parts(versions_of(files))

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

    def _rulebook(self, path: str) -> Rulebook:
        """The rules of the file that was named, else of the first that is there. Raises: InvalidArgument."""
        for name in (path,) if path else NAMES:
            data = self._parts.files.read_once(name)
            if data is not None:
                return rulebook(name, data)
        if path:
            raise InvalidArgument(
                f"no invariants file {path!r}", suggestion="leave invariants_path out, or name a file of the workspace"
            )
        return Rulebook()


def _any(_path: str) -> bool:
    return True


def _tree(version: Version | None) -> Tree:
    """All files of a version; none of none."""
    return dict if version is None else lambda: version.read(version.paths())


def _text_of(version: Version | None, path: str) -> str | None:
    data = version.read([path]).get(path) if version else None
    return None if data is None else data.decode("utf-8", "replace")
