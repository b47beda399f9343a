"""Names that a package exports without importing its modules before one of them is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from itertools import takewhile

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any


def lazy_exports(package: str) -> Callable[[str], Any]:
    """Return a module `__getattr__` (PEP 562) that imports an exported name from its module on first use.

    `package` is the `__name__` of the package. Its names are those that its `__init__.py` imports from its own modules
    under `TYPE_CHECKING`, where type checkers see them: there is no second list.

    Raises AttributeError for a name that is not exported.
    """
    modules: dict[str, str] = {}

    def import_name(name: str) -> Any:
        if not modules:
            module: Any = sys.modules[package]
            modules.update(parse_exports(package, module.__loader__.get_data(module.__file__).decode()))
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name


def parse_exports(package: str, source: str) -> dict[str, str]:
    r"""Return the module of each name that a source imports from a package.

    >>> parse_exports("shop", "if TYPE_CHECKING:\n    from shop.till import (\n        Till,\n    )\n")
    {'Till': 'till'}
    """
    modules = {}
    block = takewhile(lambda line: line[:1] in ("", " "), source.partition("if TYPE_CHECKING:\n")[2].split("\n"))
    for statement in "\n".join(block).split(f"    from {package}.")[1:]:
        module, _, names = statement.partition(" import ")
        names = names[1:].partition(")")[0] if names.startswith("(") else names.partition("\n")[0]
        modules |= dict.fromkeys(names.replace(",", " ").split(), module)
    return modules
