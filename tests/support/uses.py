"""What the tests of references ask: who uses a symbol, and how certain that is."""

from __future__ import annotations

from collections.abc import Iterable

from context_engine.engine import Engine


def callers(engine: Engine, name: str, *, with_possible: bool = False) -> dict[str, str]:
    """The definitions that use a symbol, by their last name, each with its certainty."""
    edges = engine.symbols.trace(name, with_possible=with_possible).edges
    return {edge.source.rpartition(".")[2]: edge.certainty for edge in edges}


def exact(names: str) -> dict[str, str]:
    """Definitions that certainly use a symbol."""
    return dict.fromkeys(names.split(), "exact")


def uses(engine: Engine, paths: Iterable[str], at: str, name: str, certainty: str = "exact") -> set[str]:
    """The uses of a definition `at` path:line that are so certain, as `file:line`."""
    path, _, line = at.rpartition(":")
    with engine.symbols.renames() as renames:
        found = renames.find_definition_uses(path, name, int(line), sorted(paths))
    assert found is not None
    return {f"{place[0].rpartition('/')[2]}:{place[1]}" for place, kind in found.items() if kind == certainty}
