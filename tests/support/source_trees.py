"""The source of the package, read and parsed once in a process for all tests that look at it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "context_engine"


@cache
def modules() -> tuple[str, ...]:
    """Every Python file of the package, as a path below it."""
    return tuple(sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")))


@cache
def text_of(module: str) -> str:
    """The source of a module."""
    return (PACKAGE / module).read_text(encoding="utf-8")


@cache
def parsed(module: str) -> ast.Module:
    """The syntax tree of a module."""
    return ast.parse(text_of(module), filename=module)


@cache
def trees() -> Mapping[str, ast.Module]:
    """The syntax tree of every module, by its path below the package."""
    return {module: parsed(module) for module in modules()}


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Every node of a tree, walked through once."""
    return tuple(ast.walk(tree))
