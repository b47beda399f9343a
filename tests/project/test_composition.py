"""The Engine composes services, and no package below asks for it back through a Protocol."""

from __future__ import annotations

import ast

from tests.support.source_trees import PACKAGE, ROOT, nodes, trees

ENGINE_LINES_MAX = 350
METHODS_MAX = 2
"""A Protocol of more methods that only a class above implements is that class under another name."""
ABOVE = frozenset({"tools", "server", "cli"})
"""Packages that may describe what they are called with."""
BUILT_IN_PARTS = frozenset({"__init__", "__call__"})
ALLOWED: frozenset[str] = frozenset()
"""Protocols that an own class of a higher package implements, each with its reason. This list only shrinks."""


def test_the_engine_is_short() -> None:
    lines = (PACKAGE / "engine.py").read_text().count("\n")
    assert lines < ENGINE_LINES_MAX, "move what the Engine does itself into the service it belongs to"


def test_no_package_describes_a_class_above_it_by_a_protocol() -> None:
    layer = {name: number for number, row in enumerate(_layers()) for name in row}
    classes = [
        (module.partition("/")[0].removesuffix(".py"), node)
        for module, tree in trees().items()
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
    ]
    mirrors = []
    for package, protocol in classes:
        wanted = _methods(protocol)
        if package in ABOVE or not _is_protocol(protocol) or len(wanted) <= METHODS_MAX:
            continue
        for other, candidate in classes:
            is_above = layer.get(other, 0) < layer.get(package, 0)
            if is_above and not _is_protocol(candidate) and wanted <= _methods(candidate):
                mirrors.append(f"{package}.{protocol.name} mirrors {other}.{candidate.name}")
    assert sorted(set(mirrors) - ALLOWED) == []
    assert sorted(ALLOWED - set(mirrors)) == [], "take these off the list"


def _layers() -> list[list[str]]:
    """The layers of `.importlinter`, the highest first."""
    text = (ROOT / ".importlinter").read_text()
    rows = text.partition("layers =\n")[2].partition("\nignore_imports")[0].split("\n")
    return [[name.strip(" ()") for name in row.split("|")] for row in rows if row.strip()]


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)


def _methods(node: ast.ClassDef) -> frozenset[str]:
    names = {part.name for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)}
    return frozenset(names - BUILT_IN_PARTS)
