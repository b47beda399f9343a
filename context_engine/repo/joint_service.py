"""A service of several repositories: it has the class of the services that it asks, and joins their answers.

A path begins with the name of its repository, `api:src/auth.py`; one without a name means that path in each of them.
One repository is the case of a single member without a name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self, TypeVar

from context_engine.errors import CallError, FileNotFound, InvalidPath, NotIndexed, SymbolNotFound
from context_engine.repo.paths import path_of_listing

REPOSITORY_SEPARATOR = ":"
Outcome = TypeVar("Outcome")
Located = TypeVar("Located", bound=Any)
"""A path, or a value with one, as `path`."""


class JointService:
    """A service of one repository, or of those in `joined`, by name, in the order that breaks ties.

    A joint one answers about all of them; it neither writes nor closes anything.
    """

    joined: Mapping[str, Self] = MappingProxyType({})
    _absent: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def join(cls, services: Mapping[str, Self], absent: Mapping[str, str]) -> Self:
        """Return the service of several repositories. `absent` are others that are unavailable, and why."""
        joint = cls.__new__(cls)
        joint.joined, joint._absent = services, absent
        return joint

    @property
    def members(self) -> Mapping[str, Self]:
        """The services of the repositories by name: of one alone, this one."""
        return self.joined or {"": self}

    def find_owner(self, path: str) -> tuple[str, Self, str]:
        """Return the repository of a path, its service, and the path in it. Raises: InvalidPath if it names none."""
        name, rest = self._split(path)
        if name not in self.members:
            raise InvalidPath(
                f"{path[:200]!r} does not say which repository",
                suggestion=f"write {qualify(next(iter(self.joined)), path[:200])}",
            )
        return name, self.members[name], rest

    def ask_owners(
        self, wanted: Collection[Located], ask: Callable[[Self, list[Located]], Outcome]
    ) -> dict[str, Outcome]:
        """Return the answer of each repository about those of some paths that it may have, as they are in it.

        `wanted` are paths, or have one. Repositories that lack the file, the symbol or an index are left out. Raises:
        what the first one says if all do.
        """
        answers: dict[str, Outcome] = {}
        refusals: list[CallError] = []
        for name, service in self.members.items():
            try:
                if own := self.select_own(name, wanted):
                    answers[name] = ask(service, own)
            except (FileNotFound, NotIndexed, SymbolNotFound) as error:  # another one may have it
                refusals.append(error)
        if refusals and not answers:
            raise refusals[0]
        return answers

    def select_own(self, name: str, wanted: Iterable[Located]) -> list[Located]:
        """Return those of some paths that one repository may have, as they are in it."""
        split = ((one, *self._split(one if isinstance(one, str) else one.path)) for one in wanted)
        return [_move(one, path) for one, owner, path in split if owner in ("", name)]

    def join_freshness(self, freshness: Mapping[str, str]) -> str:
        """Return how fresh the answers of the repositories are, and which of them are unavailable.

        Those that are fresh are named in one word: `api: 2 files edited since index; others fresh`.
        """
        known = {**freshness, **self._absent}
        stale = name_each({name: text for name, text in known.items() if text != "fresh"})
        if stale and len(stale) < len(known):
            stale.append("others fresh")
        return "; ".join(stale) or "fresh"

    def _split(self, path: str) -> tuple[str, str]:
        """Return the repository that a path names, empty if it names none, and the path in it."""
        name, _, rest = path.partition(REPOSITORY_SEPARATOR)
        return (name, rest) if name in self.joined else ("", path)


def qualify(name: str, found: Located) -> Located:
    """Return a path, or what has one, as it is called among all repositories.

    >>> qualify("web", "src/app.py"), qualify("", "app.py")
    ('web:src/app.py', 'app.py')
    """
    path = found if isinstance(found, str) else found.path
    return _move(found, f"{name}{REPOSITORY_SEPARATOR}{path}" if name else path)


def qualify_rows(found: Mapping[str, Iterable[Located]]) -> list[Located]:
    """Return what repositories found, by name, one after the other, as it is called among all of them."""
    return [qualify(name, row) for name, rows in found.items() for row in rows]


def _move(found: Located, path: str) -> Located:
    """Return a path in place of another one, or something at that path."""
    checked: Any = path_of_listing(path)
    if isinstance(found, str):
        return checked
    return found._replace(path=checked) if isinstance(found, tuple) else replace(found, path=checked)


def name_each(texts: Mapping[str, str]) -> list[str]:
    """Return texts about repositories, each after the name of its own, if it has one."""
    return [f"{name}: {text}" if name else text for name, text in texts.items()]
