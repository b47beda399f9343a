"""Named workspaces of one user: repositories in folders of the user and clones of remote ones, kept up to date.

The list is a small JSON file in the user's config folder. It is read for every question, written whole under a lock,
and may be edited by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from context_engine.errors import (
    AccessFailed,
    Conflict,
    ContextEngineError,
    FileNotFound,
    InvalidArgument,
    StorageBusy,
)
from context_engine.repo import cloning, workspace_roots
from context_engine.repo.cloning import ReportProgress, repository_name
from context_engine.storage import hold_private_lock, prepare_type, replace_private

FILE = "workspaces.json"
DEFAULT = "default"
"""The workspace of calls that name none."""
VERSION = 1
WAIT_S = 10.0
"""Writing takes a millisecond: a process that keeps the lock longer has been stopped."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""What is before the colon of `web:src/app.py`. It cannot be confused with a path, a glob or an option."""


@dataclass(frozen=True, slots=True)
class WorkspaceMember:
    """One repository of a workspace. `address` is where it was cloned from, empty for a folder of the user.

    `branch` and `depth` are the part that is cloned: empty for the remote's own branch, 0 for the whole history.
    """

    name: str
    root: str
    address: str = ""
    branch: str = ""
    depth: int = 0

    @property
    def source(self) -> tuple[str, str, int]:
        """What is cloned: address, branch and depth."""
        return self.address, self.branch, self.depth


@dataclass(frozen=True, slots=True)
class RepositoryUpdate:
    """The commits of a repository before and after an update, equal when nothing is new; or why it failed."""

    before: str = ""
    after: str = ""
    problem: str = ""


class RepositoryRegistry:
    """The workspaces of one user. Any number of processes may use the same folders."""

    def __init__(self, config: Path, cache: Path) -> None:
        """Keep the list in the folder `config` and the clones in `cache`; nothing is read or made yet."""
        self.file = config / FILE
        self._clones = cache / workspace_roots.CLONES_FOLDER

    def workspaces(self) -> dict[str, tuple[WorkspaceMember, ...]]:
        """Return every workspace with its repositories, both in the order they were added.

        Raises: AccessFailed, InvalidArgument (a list that cannot be read).
        """

        def unreadable(why: str) -> InvalidArgument:
            return InvalidArgument(
                f"the list of workspaces {self.file} cannot be read: {why}",
                suggestion="repair it by hand, or move it away and add the repositories again",
            )

        try:
            document = json.loads(self.file.read_text("utf-8"))
            if document["version"] != VERSION:
                raise unreadable(f"it has version {document['version']}, this program writes {VERSION}")
            rows = msgspec.convert(document["workspaces"], prepare_type(dict[str, tuple[WorkspaceMember, ...]]))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise AccessFailed(
                f"{self.file} cannot be read: {error.strerror}", suggestion="make it readable"
            ) from error
        except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
            raise unreadable(str(error)) from None
        for name, members in rows.items():
            check_name(name, "workspace")
            for member in members:
                check_name(member.name)
        return rows

    def members(self, workspace: str = DEFAULT, *, names: Iterable[str] = ()) -> tuple[WorkspaceMember, ...]:
        """Return the repositories of a workspace: all of them, or those with these names or folders.

        Raises: InvalidArgument for an unknown workspace or repository; as `workspaces`.
        """
        known = self.workspaces()
        if workspace not in known and workspace != DEFAULT:
            suggestion = "Make one: `ctx workspace add PATH --workspace NAME`."
            if known:
                are = "is" if len(known) == 1 else "are"
                suggestion = f"there {are} {', '.join(known)}; ctx workspace list shows them"
            raise InvalidArgument(
                f"no workspace is called {workspace[:64]!r}",
                suggestion=suggestion,
                details={"argument": "workspace", "valid": list(known)},
            )
        members = known.get(workspace, ())
        chosen = set(names)
        for name in chosen:
            remove_member(members, name)  # refuses an unknown name
        return tuple(member for member in members if not chosen or chosen & {member.name, member.root})

    def add(
        self,
        place: str,
        *,
        workspace: str = DEFAULT,
        name: str = "",
        branch: str = "",
        depth: int = 0,
        on_progress: ReportProgress = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> WorkspaceMember:
        """Add a folder, or clone an address, to a workspace; an existing clone is used as it is.

        Raises: InvalidArgument, FileNotFound, InvalidPath, UnsuitableRoot, Conflict (name or folder is taken),
        AccessFailed (git could not fetch it), UnsupportedHost (no git), StorageBusy, Cancelled.
        """
        member = self.describe(place, name=name, branch=branch, depth=depth)
        add_member(self.workspaces().get(workspace, ()), member)  # a conflict is reported before anything is fetched
        if member.address and not self.is_there(member):
            self._fetch(member, on_progress, cancel)
        self.change(workspace, lambda members: add_member(members, member))
        return member

    def describe(self, place: str, *, name: str = "", branch: str = "", depth: int = 0) -> WorkspaceMember:
        """Return a folder, or an address with the folder of its clone, as a member that is in no workspace yet.

        Raises: InvalidArgument, FileNotFound, InvalidPath, UnsuitableRoot.
        """
        if cloning.is_address(place):
            address = cloning.check_address(place)
            digest = hashlib.blake2b(f"{address}\0{branch}".encode(), digest_size=6).hexdigest()
            root = self._clones / f"{repository_name(address)}-{digest}"
            return WorkspaceMember(check_name(name or repository_name(address)), str(root), address, branch, depth)
        checked = check_name(name or repository_name(workspace_roots.resolve_path(place)))
        return WorkspaceMember(checked, str(workspace_roots.check_workspace_root(place)))

    def remove(self, name_or_folder: str, *, workspace: str = DEFAULT) -> bool:
        """Remove a repository from a workspace; return whether a clone that no other workspace uses was deleted.

        Folders of the user are never deleted. Raises: InvalidArgument, AccessFailed, StorageBusy.
        """
        before = self.members(workspace)
        kept = self.change(workspace, lambda members: remove_member(members, name_or_folder))
        removed = next(member for member in before if member not in kept)
        others = {member.root for members in self.workspaces().values() for member in members}
        if not removed.address or removed.root in others:
            return False
        place = Path(removed.root)
        if place.parent == self._clones:
            with self._lock_clone(place):
                _delete(place)
        return True

    def update(
        self,
        member: WorkspaceMember,
        *,
        on_progress: ReportProgress = lambda _: None,
        cancel: threading.Event | None = None,
    ) -> RepositoryUpdate:
        """Make a clone equal to its remote, or clone it again when it is gone; a folder of the user is left alone.

        A failure is returned as a value, so that the others can be updated. Raises: Cancelled.
        """
        if not member.address:
            return RepositoryUpdate(problem="" if self.is_there(member) else f"there is no folder {member.root}")
        place = Path(member.root)
        try:
            if not self.is_there(member):
                self._fetch(member, on_progress, cancel)
                return RepositoryUpdate("", cloning.commit_of(place))
            with self._lock_clone(place):
                before, after = cloning.update(place, *member.source, on_progress=on_progress, cancel=cancel)
        except ContextEngineError as error:
            if cancel is not None and cancel.is_set():
                raise
            return RepositoryUpdate(problem=error.message)
        return RepositoryUpdate(before, after)

    def is_there(self, member: WorkspaceMember) -> bool:
        """Return whether the folder of a repository can be entered."""
        try:
            workspace_roots.check_workspace_root(member.root)
        except ContextEngineError:
            return False
        return True

    def roots(self, workspace: str) -> dict[str, str]:
        """Return name -> folder of the repositories whose folders exist.

        Raises: FileNotFound when none of them does; as `members`.
        """
        members = self.members(workspace)
        found = {member.name: member.root for member in members if self.is_there(member)}
        if not found:
            missing = ", ".join(member.name for member in members)
            raise FileNotFound(
                f"workspace {workspace} has no repository that is there{f': {missing} are gone' if missing else ''}",
                suggestion=f"`ctx workspace update -w {workspace}` fetches clones; `ctx workspace add PATH` adds one.",
            )
        return found

    def _fetch(self, member: WorkspaceMember, on_progress: ReportProgress, cancel: threading.Event | None) -> None:
        """Clone beside the folder and rename: a process that dies leaves nothing that looks like a clone."""
        place = Path(member.root)
        with self._lock_clone(place):
            part = place.with_name(f"{place.name}.part")
            _delete(part)  # a process may have died here
            try:
                cloning.clone(part, *member.source, on_progress=on_progress, cancel=cancel)
                os.replace(part, place)
            finally:
                _delete(part)

    def _lock_clone(self, place: Path) -> AbstractContextManager[None]:
        """Keep other processes from working on a clone. Raises: StorageBusy."""
        busy = StorageBusy(
            f"another process is fetching {place.name}", suggestion="wait until it is done, then call again"
        )
        return hold_private_lock(f"{place}.lock", wait_s=0, busy=busy)

    # -- the list --

    def change(
        self, workspace: str, change: Callable[[tuple[WorkspaceMember, ...]], Sequence[WorkspaceMember]]
    ) -> tuple[WorkspaceMember, ...]:
        """Replace the repositories of a workspace by what `change` makes of them; an empty workspace is removed.

        Raises: InvalidArgument, AccessFailed, and whatever `change` raises; nothing is written then.
        """
        check_name(workspace, "workspace")
        try:
            with hold_private_lock(
                f"{self.file}.lock", wait_s=WAIT_S, busy=OSError(0, "another process holds its lock")
            ):
                known = self.workspaces()
                members = tuple(change(known.get(workspace, ())))
                known[workspace] = members
                self._write(known)
        except OSError as error:
            why = f"{self.file} cannot be written: {error.strerror}"
            raise AccessFailed(why, suggestion="make it writable") from error
        return members

    def _write(self, workspaces: dict[str, tuple[WorkspaceMember, ...]]) -> None:
        rows = {name: [asdict(member) for member in members] for name, members in workspaces.items() if members}
        text = json.dumps({"version": VERSION, "workspaces": rows}, indent=2) + "\n"
        replace_private(self.file, text.encode())


def _delete(folder: Path) -> None:
    """Delete a folder. Git makes its objects read-only, which on Windows protects them from deletion."""

    def make_writable(remove: Callable[[str], object], path: str, _: object) -> None:
        with suppress(OSError):
            os.chmod(path, stat.S_IWRITE)
            remove(path)

    if folder.exists():
        shutil.rmtree(folder, onerror=make_writable)


def add_member(members: Iterable[WorkspaceMember], new: WorkspaceMember) -> tuple[WorkspaceMember, ...]:
    """Return the repositories with one more; adding the same one again changes nothing.

    Raises: Conflict when its name or folder is taken.

    >>> add_member([WorkspaceMember("web", "/src/web")], WorkspaceMember("web", "/old/web"))
    Traceback (most recent call last):
    context_engine.errors.Conflict: web is /src/web already
    """
    known = tuple(members)
    for member in known:
        if member.name == new.name and member.root != new.root:
            raise Conflict(f"{member.name} is {member.root} already", suggestion="give it another name: --name NAME")
        if member.root == new.root and member.name != new.name:
            raise Conflict(
                f"{member.root} is here already, as {member.name}", suggestion="remove that first, or leave it"
            )
    return (*(member for member in known if member.name != new.name), new)


def remove_member(members: Iterable[WorkspaceMember], name_or_folder: str) -> tuple[WorkspaceMember, ...]:
    """Return the repositories without the one of this name or folder. Raises: InvalidArgument when there is none."""
    known = tuple(members)
    kept = tuple(member for member in known if name_or_folder not in (member.name, member.root))
    if len(kept) == len(known):
        names = [member.name for member in known]
        raise InvalidArgument(
            f"no repository here is called {name_or_folder[:64]!r}",
            suggestion=f"there are: {', '.join(names)}" if names else "`ctx workspace add PATH` adds one.",
            details={"argument": "name", "valid": names},
        )
    return kept


def check_name(name: str, what: str = "repository") -> str:
    """Return a name if it can be used before a colon and after an option. Raises: InvalidArgument."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{str(name)[:64]!r} cannot name a {what}",
            suggestion="use letters, digits, dots, dashes and underscores, 64 at most: --name NAME",
        )
    return name
