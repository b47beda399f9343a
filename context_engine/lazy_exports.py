"""Names that a package exports without importing its modules before one of them is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any


def lazy_exports(package: str, table: str) -> Callable[[str], Any]:
    """Return a module `__getattr__` (PEP 562) that imports an exported name from its module on first use.

    `package` is the `__name__` of the package. A row of the table is `module: name name ...`; a word without a colon
    belongs to the module before it. The package lists the same names under `TYPE_CHECKING`, so that type checkers see
    them.

    Raises AttributeError for a name that is not exported.
    """
    modules: dict[str, str] = {}

    def import_name(name: str) -> Any:
        if not modules:
            modules.update(parse_exports(table))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name


def parse_exports(table: str) -> dict[str, str]:
    """Return the module of each exported name.

    >>> parse_exports("model: Plan PlanStep mermaid: draw_gantt")
    {'Plan': 'model', 'PlanStep': 'model', 'draw_gantt': 'mermaid'}
    """
    modules, module = {}, ""
    for word in table.split():
        if word.endswith(":"):
            module = word[:-1]
        else:
            modules[word] = module
    return modules
