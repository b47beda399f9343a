from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from context_engine.lazy_exports import lazy_exports


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[types.ModuleType]:
    folder = tmp_path / "shop_under_test"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from context_engine.lazy_exports import lazy_exports\n__getattr__ = lazy_exports(__name__, {'Till': 'till'})\n"
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


def test_a_name_that_is_not_exported_is_an_attribute_error(package: types.ModuleType) -> None:
    with pytest.raises(AttributeError, match="'shop_under_test' has no attribute 'Safe'"):
        package.Safe  # noqa: B018
    assert callable(lazy_exports("any", {}))
