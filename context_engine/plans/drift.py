"""What became of the files of a plan, as git tells it: since the plan was made, and since a step was begun.

Without git, or without the commit that a plan was made on, the answer says so instead of guessing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from context_engine.errors import AccessFailed, ContextEngineError, InvalidArgument, TooLarge, UnsupportedHost
from context_engine.plans.model import Plan
from context_engine.repo import file_reader
from context_engine.repo.git import Git
from context_engine.repo.paths import Root
from context_engine.storage.state_folder import FOLDER

DIRTY_BYTES_MAX = 40_000
"""Of the paths that had changed before a step began: they stand in the line of an event, which has 64 KiB."""
_NO_GIT = (AccessFailed, UnsupportedHost, InvalidArgument, TooLarge)


@dataclass(frozen=True, slots=True)
class PlanDrift:
    """How far the workspace has moved away from a plan; `commits_since` is None where git cannot tell."""

    files_missing: tuple[str, ...] = ()
    files_changed: tuple[str, ...] = ()
    commits_since: int | None = None
    warnings: tuple[str, ...] = ()


class StepBaseline(msgspec.Struct, frozen=True):
    """The work tree as a step began: the commit, and what had changed by then, each file with its size and time.

    `dirty` is None where that was too much to keep.
    """

    commit: str = ""
    dirty: dict[str, str] | None = {}


@dataclass(frozen=True, slots=True)
class WorkTreeChanges:
    """The files that changed since a step began; None where nobody can tell, and `why` says why."""

    files: frozenset[str] | None
    why: str = ""


class PlanWorkTree:
    """The work tree of one workspace, as far as plans speak of it."""

    def __init__(self, root: Root, git: Git) -> None:
        """Nothing is asked yet."""
        self._root = root
        self._git = git

    def head_commit(self) -> str:
        """The commit that is checked out; empty when there is none."""
        head = self._git.head()
        return (head.commit if head else "") or ""

    def find_drift(self, plan: Plan) -> PlanDrift:
        """What became of the files of a plan since it was made."""
        to_be_there = {path for step in plan.steps for path in (*step.files_to_modify, *step.files_to_delete)}
        made = {path for step in plan.steps for path in step.files_to_create}
        missing = tuple(sorted(path for path in to_be_there - made if not self._exists(path)))
        if not plan.base_commit:
            return PlanDrift(
                missing, warnings=("the plan names no commit it was made on: what changed since is not known",)
            )
        try:
            base = self._git.commit(plan.base_commit)
            changed = self._changed_since(base) & plan.files
            since = int(self._git.run("rev-list", "--count", f"{base}..HEAD"))
        except _NO_GIT as error:
            return PlanDrift(missing, warnings=(f"what changed since the plan was made is not known: {error.message}",))
        return PlanDrift(missing, tuple(sorted(changed)), since)

    def take_baseline(self) -> StepBaseline:
        """The work tree as it is now, to be compared with later. An empty commit says that git knows nothing here."""
        commit = self.head_commit()
        if not commit:
            return StepBaseline()
        try:
            dirty = {path: self._stamp(path) for path in sorted(self._changed_since(commit))}
        except _NO_GIT:
            return StepBaseline()
        return StepBaseline(commit, dirty if len(msgspec.json.encode(dirty)) <= DIRTY_BYTES_MAX else None)

    def find_changes_since(self, base: StepBaseline) -> WorkTreeChanges:
        """What changed since then, by whomever: files that differ from that commit, but not those that did so before."""
        if not base.commit:
            return WorkTreeChanges(None, "there was no git repository, or no commit in it, when the step began")
        if base.dirty is None:
            return WorkTreeChanges(None, "too many files had uncommitted changes when the step began")
        try:
            now = self._changed_since(self._git.commit(base.commit))
        except _NO_GIT as error:
            return WorkTreeChanges(None, error.message)
        before = base.dirty
        taken_back = {path for path in before if path not in now}
        return WorkTreeChanges(frozenset(taken_back | {path for path in now if before.get(path) != self._stamp(path)}))

    def _changed_since(self, commit: str) -> frozenset[str]:
        """Files of the workspace that differ from a commit, committed meanwhile or not, and those git does not know yet."""
        tracked = self._git.run("diff", "--name-only", "--no-renames", "--relative", "-z", commit, "--")
        unknown = self._git.run("ls-files", "--others", "--exclude-standard", "-z")
        return frozenset(_without_state_files(_names(tracked) | _names(unknown)))

    def _exists(self, path: str) -> bool:
        try:
            self._root.rel(path)
        except ContextEngineError:
            return False
        return True

    def _stamp(self, path: str) -> str:
        """Size and time of a file; empty when it is gone."""
        stamp = file_reader.stamp(str(self._root.path / path))
        return "-".join(map(str, stamp)) if stamp else ""


def _names(said: bytes) -> set[str]:
    return {name.decode("utf-8", "replace") for name in said.split(b"\0") if name}


def _without_state_files(paths: Iterable[str]) -> set[str]:
    """Paths without those of our own state."""
    return {path for path in paths if not path.startswith(f"{FOLDER}/")}
