from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from context_engine.lazy_exports import parse_exports


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    folder = tmp_path / "shop_under_test"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from context_engine.lazy_exports import lazy_exports\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n"
        "    from shop_under_test.till import Till\n__getattr__ = lazy_exports(__name__)\n"
    )
    (folder / "till.py").write_text("class Till: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import shop_under_test  # ty: ignore[import-not-found]

    yield shop_under_test
    for name in [name for name in sys.modules if name.startswith("shop_under_test")]:
        del sys.modules[name]


def test_a_module_is_imported_when_its_name_is_used_and_not_before(package: types.ModuleType) -> None:
    assert "shop_under_test.till" not in sys.modules
    assert package.Till.__name__ == "Till"
    assert "shop_under_test.till" in sys.modules
    assert package.__dict__["Till"] is package.Till


PACKAGES = sorted((Path(__file__).resolve().parents[2] / "context_engine").rglob("__init__.py"))


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_a_package_exports_what_type_checkers_see(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    package = f"context_engine.{path.parent.name}." if path.parent.name != "context_engine" else "context_engine."
    typed = {
        alias.name: (node.module or "").removeprefix(package)
        for node in imports
        if (node.module or "").startswith(package)
        for alias in node.names
    }
    if any(isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_exports" for node in ast.walk(tree)):
        assert parse_exports(package.removesuffix("."), path.read_text(encoding="utf-8")) == typed
