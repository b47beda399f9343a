"""Everything that reviews read of a workspace: git, files, history, analyzers, the rules of the team.

Every text of a reviewed file comes from git's objects or from the caller. The work tree is read where it is the version
under review, and never written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from context_engine.errors import InvalidArgument
from context_engine.repo import ChangeContents, DiffReader, GitDiff, GitRevision, Root, is_sensitive
from context_engine.review.analyzer_runner import AnalyzerReport, AnalyzerRunner, TreeReader
from context_engine.review.analyzers import ALL as ANALYZERS
from context_engine.review.finding import Redact
from context_engine.review.invariants import (
    FILE_NAMES,
    InvariantSet,
    compile_globs,
    read_invariants_file,
)
from context_engine.review.reviewer import Reviewer
from context_engine.review.source_versions import Parsers, ReviewContext, ReviewedFile, iterate_versions
from context_engine.text import GIT_DIFF_BYTES_MAX, parse_diff

if TYPE_CHECKING:
    from context_engine.history import FileHistory
    from context_engine.languages import Grammars, Languages
    from context_engine.memory import KnowledgeService
    from context_engine.repo import Git, WorkspaceFiles
    from context_engine.review.review_options import ReviewOptions
    from context_engine.secrets import Redactor

HOT_SHARE = 0.1
"""The tenth of the files that change most."""


@dataclass
class ReviewWorkspace:
    """The sources of the reviews of one workspace. Thread-safe; nothing is opened before it is needed.

    `programs` are the analyzers that the user allowed to run code of the project.
    """

    root: Root
    git: Git
    languages: Languages
    grammars: Grammars
    files: WorkspaceFiles
    knowledge: KnowledgeService
    redactor: Redactor
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
        """The external analyzers, those of the project's own `node_modules` too if the user allowed them."""
        modules = self.root.path / "node_modules"
        return AnalyzerRunner(
            ANALYZERS,
            frozenset(self.programs),
            tools=(str(modules / ".bin"),),
            outside=str(self.root.path),
            linked={modules.name: str(modules)},
        )

    # -- versions of files --

    def version(self, commit: str) -> GitRevision | None:
        """Return the tree of a commit; None without one."""
        return GitRevision(self.git, commit) if commit else None

    def read_changed_files(self, taken: GitDiff, versions: ChangeContents, paths: Iterable[str]) -> list[ReviewedFile]:
        """Return files of a diff that git wrote, with their versions."""
        wanted = set(paths)
        files = []
        for diff in parse_diff(taken.text, bytes_max=GIT_DIFF_BYTES_MAX).files:
            if diff.path in wanted:
                old, new = versions.old.get(diff.old_path), versions.new.get(diff.new_path)
                files.append(ReviewedFile.of(diff, old, new, self.parsers))
        return files

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
            partners_of=history.list_usual_cochanges if history else lambda _path: (),
            hot_paths=lambda: self._list_hot_paths(history),
        )

    def _list_hot_paths(self, history: FileHistory | None) -> frozenset[str]:
        """Return the files that change most; counted once for a history."""
        if history is None:
            return frozenset()
        known, paths = self._heat
        if known is not history:
            count = max(1, int(len(history.paths) * HOT_SHARE))
            paths = frozenset(file.path for file in history.list_hot_files(count))
            self._heat = history, paths
        return paths

    # -- rules and programs --

    def make_reviewer(self, options: ReviewOptions) -> tuple[Reviewer, tuple[str, ...]]:
        """Return the reviewer with this workspace's rules, and warnings about these. Raises: InvalidArgument."""
        rules = self._read_invariants(options.invariants_path)
        return Reviewer(rules.invariants), rules.warnings

    def _read_invariants(self, path: str) -> InvariantSet:
        """Return the rules of the named file, else of the first that exists. Raises: InvalidArgument."""
        for name in (path,) if path else FILE_NAMES:
            data = self.files.read_once(name)
            if data is not None:
                return read_invariants_file(name, data)
        if path:
            raise InvalidArgument(
                f"there is no invariants file {path!r}",
                suggestion="Leave invariants_path out, or name a file of the workspace.",
            )
        return InvariantSet()

    def make_exclude_filter(self, options: ReviewOptions) -> Callable[[str], bool]:
        """Return a filter of the paths that are not reviewed. Raises: InvalidArgument."""
        return compile_globs(options.exclude_patterns)

    def run_analyzers(self, files: Sequence[ReviewedFile], options: ReviewOptions, taken: GitDiff) -> AnalyzerReport:
        """Run the analyzers over some files of a change between two commits."""
        deadline = time.monotonic() + options.time_budget_s
        before = read_tree(self.version(taken.merge_base or taken.base_commit))
        return self.analyzers.run(
            files, options, deadline=deadline, before=before, after=read_tree(self.version(taken.commit))
        )

    def fingerprint_analyzers(self, options: ReviewOptions, taken: GitDiff) -> str:
        """Return a text that changes when other analyzers would run, or see another tree."""
        return self.analyzers.fingerprint(options, taken.commit)

    # -- secrets --

    def redact(self, text: str) -> str:
        """Return a text without secrets, as it is stored and sent to others."""
        return self.redactor.redact(text).text

    def redact_parts(self, files: Iterable[ReviewedFile]) -> Redact:
        """Return a function that takes secrets out of parts of these files, single lines of a key too."""
        return self.redactor.redact_parts(iterate_versions(files))


def read_tree(version: GitRevision | None) -> TreeReader:
    """Return a reader of all files of a version; it reads nothing without one."""
    return dict if version is None else lambda: version.read(version.paths())
