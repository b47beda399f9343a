"""Where the names of a prompt lead: each is looked up in the workspace, and what is not there is said to be missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_engine.context.commands import Command
from context_engine.context.references import Mention, MentionKind
from context_engine.context.widen import find_symbol_at
from context_engine.context.workspace import Workspace
from context_engine.errors import CallError
from context_engine.index.file_roles import role_of
from context_engine.model import Definition
from context_engine.text import LineSpan

CANDIDATES_MAX = 5
"""Places behind one name that a question can offer at a glance."""
NEAR_MAX = 3
ASIDE = frozenset(("test", "example", "bench", "docs", "vendor", "generated"))
"""Roles of files whose definitions are meant only when no other file defines the name..."""
ASIDE_MAX = 2
"""...and when they are so few: what ten tests call `base_dir` is nobody's."""


class ReferencePlace(NamedTuple):
    """Where a reference leads; `line` 0 is the file as a whole, `symbol` what stands there."""

    path: str
    line: int = 0
    symbol: str = ""

    def __str__(self) -> str:
        """As people write it.

        >>> str(ReferencePlace("a.py", 3, "f")), str(ReferencePlace("a.py"))
        ('a.py:3 (f)', 'a.py')
        """
        return f"{self.path}{f':{self.line}' if self.line else ''}{f' ({self.symbol})' if self.symbol else ''}"


@dataclass(frozen=True, slots=True)
class PromptReference:
    """Something a prompt names, and where it leads; several places make it ambiguous. `more` counts those not listed.

    Without a place, `near` are names that come close, and `is_missing` says that it should be there.
    """

    text: str
    kind: MentionKind
    places: tuple[ReferencePlace, ...] = ()
    more: int = 0
    near: tuple[str, ...] = ()
    is_missing: bool = False
    note: str = ""

    @property
    def is_ambiguous(self) -> bool:
        """Whether somebody has to say which place is meant."""
        return len(self.places) + self.more > 1


def resolve_mentions(named: Iterable[Mention], workspace: Workspace, known: Sequence[Command]) -> list[PromptReference]:
    """Each mention, looked up. `known` are the commands of the repository."""
    return [_resolved(mention, workspace, known) for mention in named]


def _resolved(mention: Mention, workspace: Workspace, known: Sequence[Command]) -> PromptReference:
    match mention.kind:
        case "path":
            return _path(mention, workspace)
        case "symbol" | "error":
            return _symbol(mention, workspace)
        case "command":
            sources = tuple(ReferencePlace(each.source) for each in known if mention.name.startswith(each.text))
            return PromptReference(mention.text, "command", sources[:1])
    return PromptReference(mention.text, mention.kind)


# -- paths ------------------------------------------------------------------------------------------------------------


def _path(mention: Mention, workspace: Workspace) -> PromptReference:
    found = next(
        (found for tail in list_path_tails(mention.name) if (found := workspace.symbols.files_named(tail))), ()
    )
    if mention.name in found:
        found = (next(path for path in found if path == mention.name),)
    if not found:
        near = _near_paths(mention.name, workspace)
        return PromptReference(mention.text, "path", near=near, is_missing=mention.certain)
    if len(found) > 1:
        places = tuple(ReferencePlace(path, mention.line) for path in found[:CANDIDATES_MAX])
        return PromptReference(mention.text, "path", places, len(found) - len(places))
    place, note = _at_line(found[0], mention.line, workspace)
    return PromptReference(mention.text, "path", (place,), note=note)


def list_path_tails(path: str) -> Iterator[str]:
    """A path, and what it may be called from the top of this workspace: never a bare name of a path that had folders.

    A trace of another machine begins with that machine's folders; a relative path at most with the workspace's own.

    >>> list(list_path_tails("/home/me/zoo/src/a.py")), list(list_path_tails("zoo/src/a.py")), list(list_path_tails("a.py"))
    (['home/me/zoo/src/a.py', 'me/zoo/src/a.py', 'zoo/src/a.py', 'src/a.py'], ['zoo/src/a.py', 'src/a.py'], ['a.py'])
    """
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    is_absolute = path.startswith("/") or path[1:2] == ":"
    dropped_max = len(parts) - 2 if is_absolute else min(1, len(parts) - 2)
    for dropped in range(max(0, dropped_max) + 1):
        yield "/".join(parts[dropped:])


def _near_paths(path: str, workspace: Workspace) -> tuple[str, ...]:
    name = path.rpartition("/")[2]
    for typed in (path.lstrip("/."), name, name.partition(".")[0]):
        if found := workspace.search.complete_path(typed, limit=NEAR_MAX)[0]:
            return found
    return ()


def _at_line(path: str, line: int, workspace: Workspace) -> tuple[ReferencePlace, str]:
    """The place, and what is to be said of its line."""
    try:
        outline = workspace.symbols.outline(path) if line else None
    except CallError:
        outline = None
    if outline is None:
        return ReferencePlace(path), ""
    if line > outline.lines:
        return ReferencePlace(path), f"it has {outline.lines} lines, no line {line}"
    return ReferencePlace(path, line, find_symbol_at(LineSpan(line, line), [each for _, each in outline.symbols])), ""


# -- symbols ----------------------------------------------------------------------------------------------------------


def _symbol(mention: Mention, workspace: Workspace) -> PromptReference:
    try:
        meant, near = _definitions(mention.name, workspace)
    except CallError:  # no index: nobody can say that it is missing
        return PromptReference(mention.text, mention.kind)
    places = tuple(ReferencePlace(each.path, each.span.first, each.qualified) for each in meant[:CANDIDATES_MAX])
    missing = not meant and bool(near) and mention.certain and mention.kind == "symbol"
    return PromptReference(mention.text, mention.kind, places, len(meant) - len(places), near, missing)


def _definitions(name: str, workspace: Workspace) -> tuple[list[Definition], tuple[str, ...]]:
    """What a name means, and what comes close when it means nothing."""
    found = workspace.symbols.find(name, limit=CANDIDATES_MAX * 4)
    listed = list(found.definitions) or find_in_module(name, workspace)
    last = name.replace("::", ".").replace("#", ".").rpartition(".")[2]
    exact = [each for each in listed if each.name == last] or listed
    main = [each for each in exact if role_of(each.path, "code") not in ASIDE]
    return main or (exact if len(exact) <= ASIDE_MAX else []), () if exact else found.near[:NEAR_MAX]


def find_in_module(name: str, workspace: Workspace) -> list[Definition]:
    """`auth.login` where `auth` is no class but a file or folder."""
    owner, _, last = name.replace("::", ".").replace("#", ".").rpartition(".")
    if not owner:
        return []
    module = owner.rpartition(".")[2]
    listed = workspace.symbols.find(last, limit=CANDIDATES_MAX * 4).definitions
    return [
        each for each in listed if module in (*each.path.split("/")[:-1], each.path.split("/")[-1].partition(".")[0])
    ]
