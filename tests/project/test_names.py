"""Names and interfaces, checked by reading the source: the rules of ARCHITECTURE.md about them.

What does not keep a rule yet is a line of `tests/project/exceptions.txt`. The list may only shrink: a line that is no
longer needed is a failure, and so is a new violation. `python -m tests.project.test_names` writes the list.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.source_trees import PACKAGE, nodes, trees

EXCEPTIONS = Path(__file__).with_name("exceptions.txt")

PARTICIPLE = re.compile(
    r"^_*(told|said|held|taken|seen|sought|kept|made|given|found|meant|worn|shown|drawn|known|written|sent|left|chosen"
    r"|broken|begun|done|gone|built|brought|caught|heard|hidden|laid|led|lost|met|paid|spent|spoken|thought|understood"
    r"|[a-z]{2,}[a-z]ed)$"
)
"""A past participle alone: it names neither what a function does nor what a value is."""
VERBS = {"embed", "feed", "need", "seed", "exceed", "proceed", "shed", "speed"}
"""Words that end like participles and are not."""


def package_of(module: str) -> str:
    return module.split("/")[0].removesuffix(".py")


def namesakes() -> Iterator[str]:
    """Top-level classes whose name another module uses for a class of its own."""
    modules = defaultdict(list)
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(module)
    for name, places in modules.items():
        if len(places) > 1:
            yield from (f"namesake {module} {name}" for module in places)


def same_stems() -> Iterator[str]:
    """Modules that share their file name with another one."""
    modules = defaultdict(list)
    for module in trees():
        modules[Path(module).stem].append(module)
    for stem, places in modules.items():
        if len(places) > 1 and stem not in {"__init__", "model"}:
            yield from (f"same-stem {module}" for module in places)


def bare_participles() -> Iterator[str]:
    """Functions and classes that are named by a participle and nothing else; properties may be."""
    for module, tree in trees().items():
        for node in nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                is_property = any("property" in ast.unparse(mark) for mark in node.decorator_list)
                if is_participle(node.name) and not is_property:
                    yield f"participle {module} {node.name}"
            elif isinstance(node, ast.ClassDef) and is_participle(node.name.lower()):
                yield f"participle {module} {node.name}"


def is_participle(name: str) -> bool:
    """Check whether a name is a past participle and nothing else.

    >>> [name for name in ("told", "parsed", "parse", "embed", "Asked".lower(), "parsed_plan") if is_participle(name)]
    ['told', 'parsed', 'asked']
    """
    return bool(PARTICIPLE.match(name)) and name.lstrip("_") not in VERBS


def each_loops() -> Iterator[str]:
    """Loops whose variable is called `each`, whatever it contains."""
    for module, tree in trees().items():
        loops = (node for node in nodes(tree) if isinstance(node, ast.For | ast.comprehension))
        targets = (name for loop in loops for name in ast.walk(loop.target))
        if any(isinstance(name, ast.Name) and name.id == "each" for name in targets):
            yield f"each {module}"


def imports_past_an_interface() -> Iterator[str]:
    """Imports of a module inside another package instead of a name that the package exports."""
    for module, tree in trees().items():
        for node in nodes(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("context_engine."):
                yield from (f"past-interface {module} {name}" for name in past(package_of(module), node))


def past(package: str, node: ast.ImportFrom) -> list[str]:
    """What this import takes out of another package past its interface."""
    _, target, *inside = (node.module or "").split(".")
    if target == package or package == "team" or not (PACKAGE / target).is_dir():
        return []  # a team's parts are second implementations of interfaces below: they share their insides
    if inside:
        return [".".join([target, *inside])]
    return [f"{target}.{alias.name}" for alias in node.names if (PACKAGE / target / f"{alias.name}.py").exists()]


RULES = (namesakes, same_stems, bare_participles, each_loops, imports_past_an_interface)


@cache
def violations() -> list[str]:
    return sorted({line for rule in RULES for line in rule()})


@pytest.mark.parametrize("kind", ["namesake", "same-stem", "participle", "each", "past-interface"])
def test_a_rule_of_names_is_kept_but_for_the_listed_exceptions(kind: str) -> None:
    listed = {line for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines() if line.split()[0] == kind}
    found = {line for line in violations() if line.split()[0] == kind}
    assert sorted(found - listed) == [], "rename it, or import what the package exports"
    assert sorted(listed - found) == [], "no longer needed: python -m tests.project.test_names"


if __name__ == "__main__":
    EXCEPTIONS.write_text("".join(f"{line}\n" for line in violations()), encoding="utf-8")
