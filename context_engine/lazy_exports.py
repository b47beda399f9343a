"""Names that a package exports without importing its modules before one of them is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any


def lazy_exports(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module `__getattr__` (PEP 562) that imports an exported name from its module on first use.

    `package` is the `__name__` of the package; `modules` maps each exported name to the module of the package that
    defines it. The package lists the same names under `TYPE_CHECKING`, so that type checkers see them.

    Raises AttributeError for a name that is not exported.
    """

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name
