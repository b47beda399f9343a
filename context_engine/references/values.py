"""The values that expressions may have, as far as the text shows. PURE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar

Certainty = Literal["exact", "likely", "possible"]
"""`exact`: types or scopes lead from the use to the definition. `likely`: the receiver is unknown, and nothing else in
the project has the name. `possible`: the receiver is unknown, and several things have the name."""

SCIP = "scip"
"""The origin of what a SCIP index says."""

ValueKind = Literal["class", "instance", "function", "module", "folder", "external"]


class NamePlace(NamedTuple):
    """Where something is defined: a file and the byte offset of the name."""

    path: str
    start: int = 0


class Value(NamedTuple):
    """A thing that an expression may be.

    `place` is that of a class, of the class of an instance, or of a function; a module has only a path. `external`
    is something that is not defined in this project. `arguments` are those of a generic type. `receiver` is the object
    that a function was looked up in.
    """

    kind: ValueKind
    place: NamePlace = NamePlace("", 0)
    name: str = ""
    arguments: tuple[tuple[Value, ...], ...] = ()
    receiver: NamePlace | None = None


class NameUsage(NamedTuple):
    """How a name is used: as a type, a value or a call with so many arguments; below 0 they are not known."""

    kind: Literal["type", "value", "call"]
    arity: int = -1


Values = tuple[Value, ...]
"""The possible values; empty if nothing is known."""

EXTERNAL = Value("external")


class Meaning(NamedTuple):
    """The definitions that a name at a place means.

    `is_known` without places means that it is certainly not defined in this project by such a name. Places that are
    not sure make a use `likely` at most.
    """

    places: tuple[NamePlace, ...] = ()
    is_known: bool = False
    is_member: bool = False
    is_sure: bool = True
    origin: str = ""
    """`SCIP` if an index said so, and empty if the text shows it."""


class ExternalEdge(NamedTuple):
    """The definitions that the name at `start` to `stop` in bytes means, as a SCIP index says.

    Without any it means something outside of the project.
    """

    start: int
    stop: int
    targets: tuple[NamePlace, ...]


class HiddenUse(NamedTuple):
    """A use at `start` to `stop` in bytes that the syntax tree does not show, as in the body of a macro."""

    start: int
    stop: int
    kind: str
    meaning: Meaning


UNKNOWN = Meaning()
ELSEWHERE = Meaning(is_known=True)

K = TypeVar("K")
V = TypeVar("V")


def remember(compute: Callable[[K], V], inside: V) -> Callable[[K], V]:
    """Return a function that computes each value once; a question that leads to itself gets `inside`.

    >>> ask = remember(lambda number: 1 + ask(number), 0)
    >>> ask(7)
    1
    """
    known: dict[K, V] = {}

    def ask(key: K) -> V:
        if key not in known:
            known[key] = inside
            known[key] = compute(key)
        return known[key]

    return ask
