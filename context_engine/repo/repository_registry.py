"""Which repositories a user has put together: named workspaces, in one small JSON file of the user's own config folder.

    registry = Registry(user_config_folder() / "workspaces.json")
    registry.change("team", lambda members: added(members, Member("web", "/src/web")))
    [member.root for member in registry.members("team")]

The file is read whenever somebody asks, written whole under a lock, and may be edited by hand. Nothing here reads a
repository.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from context_engine.errors import AccessFailed, Conflict, InvalidArgument

DEFAULT = "default"
"""The workspace that is meant when none is named."""
VERSION = 1
WAIT_S = 10.0
"""Writing takes a millisecond: who holds the lock for longer has been stopped."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
"""What stands before the colon of `web:src/app.py` and must be told from a path, a glob and an option."""


@dataclass(frozen=True, slots=True)
class WorkspaceMember:
    """One repository of a workspace. `address` is where it was cloned from, empty for a folder of the user's own.

    `branch` and `depth` say what of it is kept: empty the remote's own branch, 0 all of its history.
    """

    name: str
    root: str
    address: str = ""
    branch: str = ""
    depth: int = 0


class Registry:
    """The workspaces in one file. Any number of processes may hold one."""

    def __init__(self, file: Path) -> None:
        """Nothing is read or made until it is needed."""
        self.file = file

    def workspaces(self) -> dict[str, tuple[WorkspaceMember, ...]]:
        """Every workspace with its repositories, both in the order they were added.

        Raises: AccessFailed, InvalidArgument.
        """
        try:
            written = json.loads(self.file.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise AccessFailed(f"{self.file} is closed: {error.strerror}", suggestion="make it readable") from error
        except ValueError as error:
            raise self._unreadable(str(error)) from None
        return self._read(written)

    def members(self, workspace: str = DEFAULT) -> tuple[WorkspaceMember, ...]:
        """The repositories of one workspace.

        Raises: InvalidArgument when there is none of that name; as `workspaces`.
        """
        known = self.workspaces()
        if workspace not in known and workspace != DEFAULT:
            raise InvalidArgument(
                f"no workspace is called {workspace[:64]!r}",
                suggestion=f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}; ctx workspace list shows them"
                if known
                else "make one: ctx workspace add PATH --workspace NAME",
                details={"argument": "workspace", "valid": list(known)},
            )
        return known.get(workspace, ())

    def change(
        self, workspace: str, become: Callable[[tuple[WorkspaceMember, ...]], Sequence[WorkspaceMember]]
    ) -> tuple[WorkspaceMember, ...]:
        """Put what `become` makes of the repositories of a workspace in their place; one without any is forgotten.

        Raises: InvalidArgument, AccessFailed, and whatever `become` raises; nothing is written then.
        """
        from filelock import FileLock, Timeout  # the fast start only reads

        checked_name(workspace, "workspace")
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(f"{self.file}.lock", timeout=WAIT_S):
                known = self.workspaces()
                members = tuple(become(known.get(workspace, ())))
                kept = known | {workspace: members}
                self._write({name: each for name, each in kept.items() if each})
        except (OSError, Timeout) as error:
            why = getattr(error, "strerror", "") or "another process holds its lock"
            raise AccessFailed(f"{self.file} cannot be written: {why}", suggestion="make it writable") from error
        return members

    def _write(self, workspaces: dict[str, tuple[WorkspaceMember, ...]]) -> None:
        rows = {name: [asdict(each) for each in members] for name, members in workspaces.items()}
        beside = self.file.with_suffix(f".{os.getpid()}.new")
        beside.write_text(json.dumps({"version": VERSION, "workspaces": rows}, indent=2) + "\n", "utf-8")
        os.replace(beside, self.file)

    def _read(self, written: Any) -> dict[str, tuple[WorkspaceMember, ...]]:
        try:
            if written["version"] != VERSION:
                raise self._unreadable(f"it is of version {written['version']}, this program writes {VERSION}")
            rows = msgspec.convert(written["workspaces"], dict[str, tuple[WorkspaceMember, ...]])
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise self._unreadable(str(error)) from None
        for name, members in rows.items():
            checked_name(name, "workspace")
            for each in members:
                checked_name(each.name)
        return rows

    def _unreadable(self, why: str) -> InvalidArgument:
        return InvalidArgument(
            f"the list of workspaces {self.file} cannot be read: {why}",
            suggestion="mend it by hand, or move it away and add the repositories again",
        )


def add_member(members: Iterable[WorkspaceMember], new: WorkspaceMember) -> tuple[WorkspaceMember, ...]:
    """With one more. The same again under its name changes nothing. Raises: Conflict when its name or folder is taken.

    >>> add_member([WorkspaceMember("web", "/src/web")], WorkspaceMember("web", "/old/web"))
    Traceback (most recent call last):
    context_engine.errors.Conflict: web is /src/web already
    """
    known = tuple(members)
    for each in known:
        if each.name == new.name and each.root != new.root:
            raise Conflict(f"{each.name} is {each.root} already", suggestion="give it another name: --name NAME")
        if each.root == new.root and each.name != new.name:
            raise Conflict(f"{each.root} is here already, as {each.name}", suggestion="remove that first, or leave it")
    return (*(each for each in known if each.name != new.name), new)


def remove_member(members: Iterable[WorkspaceMember], named: str) -> tuple[WorkspaceMember, ...]:
    """Without the one of this name, or in this folder. Raises: InvalidArgument when there is none."""
    known = tuple(members)
    kept = tuple(each for each in known if named not in (each.name, each.root))
    if len(kept) == len(known):
        names = ", ".join(each.name for each in known)
        raise InvalidArgument(
            f"no repository here is called {named[:64]!r}",
            suggestion=f"there are: {names}" if names else "the workspace is empty",
            details={"argument": "name", "valid": [each.name for each in known]},
        )
    return kept


def checked_name(name: str, what: str = "repository") -> str:
    """A name that can stand before a colon and after an option. Raises: InvalidArgument."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{str(name)[:64]!r} cannot name a {what}",
            suggestion="use letters, digits, dots, dashes and underscores, 64 at most: --name NAME",
        )
    return name


def name_for(folder_or_address: str) -> str:
    """The name a repository gets when nobody gives it one: the last part of its path, in letters a name may have.

    >>> name_for("https://example.org/team/Web Shop.git"), name_for("/src/--odd--"), name_for("/")
    ('Web-Shop', 'odd', 'repository')
    """
    last = folder_or_address.rstrip("/\\").replace("\\", "/").replace(":", "/").rpartition("/")[2].removesuffix(".git")
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", last).strip("-.")[:64] or "repository"
