"""Several repositories as workspaces of one user: folders of their own and clones of others, put together and kept up to date.

    repositories = Repositories(user_config_folder(), user_cache_folder())
    repositories.add("https://example.org/team/web.git", workspace="team")
    roots = {member.name: member.root for member in repositories.members("team")}

What lies in them is read by an Engine each; nothing here knows of an index.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from context_engine.errors import ContextEngineError, FileNotFound
from context_engine.model import Progress
from context_engine.repo import cloning, workspace_roots
from context_engine.repo.clone_folders import Clones
from context_engine.repo.repository_registry import (
    DEFAULT,
    Registry,
    WorkspaceMember,
    add_member,
    checked_name,
    name_for,
    remove_member,
)

FILE = "workspaces.json"

Tell = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class RepositoryUpdate:
    """What became of a repository: the commits before and after, the same where nothing is new, or why it could not be."""

    member: WorkspaceMember
    before: str = ""
    after: str = ""
    problem: str = ""


class Repositories:
    """The workspaces of one user. Any number of processes may hold one."""

    def __init__(self, config: Path, cache: Path) -> None:
        """`config` is the folder of what the user has set up, `cache` that of what can be fetched again."""
        self._registry = Registry(config / FILE)
        self._clones = Clones(cache)

    def workspaces(self) -> dict[str, tuple[WorkspaceMember, ...]]:
        """All of them. Raises: AccessFailed, InvalidArgument (a list that cannot be read)."""
        return self._registry.workspaces()

    def members(self, workspace: str = DEFAULT) -> tuple[WorkspaceMember, ...]:
        """The repositories of one. Raises: as `workspaces`, and InvalidArgument for one that is not there."""
        return self._registry.members(workspace)

    def add(
        self,
        place: str,
        *,
        workspace: str = DEFAULT,
        name: str = "",
        branch: str = "",
        depth: int = 0,
        tell: Tell = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> WorkspaceMember:
        """Take a folder, or clone an address, into a workspace; a clone that is there already is taken as it is.

        Raises: InvalidArgument, FileNotFound, InvalidPath, UnsuitableRoot, Conflict (name or folder is taken),
        AccessFailed (git could not fetch it), UnsupportedHost (no git), StorageBusy, Cancelled.
        """
        is_foreign = cloning.is_address(place)
        if is_foreign:
            address = cloning.check_address(place)
            root = self._clones.place(address, branch)
            member = WorkspaceMember(checked_name(name or name_for(address)), str(root), address, branch, depth)
        else:
            member = WorkspaceMember(
                checked_name(name or name_for(workspace_roots.real(place))), str(workspace_roots.choose(place))
            )
        add_member(self._registry.workspaces().get(workspace, ()), member)  # before anything is fetched for nothing
        if is_foreign and not self.is_there(member):
            self._clones.make(Path(member.root), lambda part: self._clone(member, part, tell, cancel))
        self._registry.change(workspace, lambda members: add_member(members, member))
        return member

    def remove(self, named: str, *, workspace: str = DEFAULT) -> bool:
        """Take one out of a workspace; whether a clone went with it, which nobody else has. Folders of the user's stay.

        Raises: InvalidArgument, AccessFailed, StorageBusy.
        """
        before = self.members(workspace)
        kept = self._registry.change(workspace, lambda members: remove_member(members, named))
        gone = next(each for each in before if each not in kept)
        others = {each.root for members in self.workspaces().values() for each in members}
        if not gone.address or gone.root in others:
            return False
        self._clones.drop(Path(gone.root))
        return True

    def update(
        self, member: WorkspaceMember, *, tell: Tell = lambda _: None, cancel: threading.Event | None = None
    ) -> RepositoryUpdate:
        """Make a clone what its remote is now, or fetch it anew when it is gone; a folder of the user's is left alone.

        Trouble with one is told, so that the others can go on. Raises: Cancelled.
        """
        if not member.address:
            return RepositoryUpdate(
                member, problem="" if self.is_there(member) else f"there is no folder {member.root}"
            )
        place = Path(member.root)
        try:
            if not self.is_there(member):
                self._clones.make(place, lambda part: self._clone(member, part, tell, cancel))
                return RepositoryUpdate(member, "", cloning.commit_of(place))
            with self._clones.lock(place):
                before, after = cloning.update(
                    place, member.address, branch=member.branch, depth=member.depth, tell=tell, cancel=cancel
                )
        except ContextEngineError as error:
            if cancel is not None and cancel.is_set():
                raise
            return RepositoryUpdate(member, problem=error.message)
        return RepositoryUpdate(member, before, after)

    def is_there(self, member: WorkspaceMember) -> bool:
        """Whether its folder can be entered."""
        try:
            workspace_roots.choose(member.root)
        except ContextEngineError:
            return False
        return True

    def roots(self, workspace: str) -> dict[str, str]:
        """Name -> folder of the repositories that are there.

        Raises: FileNotFound when none of them is; as `members`.
        """
        members = self.members(workspace)
        found = {each.name: each.root for each in members if self.is_there(each)}
        if not found:
            missing = ", ".join(each.name for each in members)
            raise FileNotFound(
                f"workspace {workspace} has no repository that is there{f': {missing} are gone' if missing else ''}",
                suggestion=f"ctx workspace add PATH --workspace {workspace}, or ctx workspace update",
            )
        return found

    def _clone(self, member: WorkspaceMember, part: Path, tell: Tell, cancel: threading.Event | None) -> None:
        cloning.clone(member.address, part, branch=member.branch, depth=member.depth, tell=tell, cancel=cancel)
