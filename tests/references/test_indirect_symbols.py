"""Names that no outline has - inherited members, keys, constructors - can be asked for all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.errors import SymbolNotFound
from tests.support.engines import indexed
from tests.support.trees import tree

PYTHON = {
    "base.py": (
        "class Base:\n    def __init__(self, size):\n        self.size = size\n\n    def close(self):\n        return 1\n\n\n"
        "class Pool(Base):\n    def __init__(self, size):\n        super().__init__(size)\n\n\n"
        "class Pond(Base):\n    pass\n"
    ),
    "use.py": (
        "from base import Base, Pool, Pond\n\n\n"
        "def run():\n    pool = Pool(3)\n    pool.close()\n    pond = Pond(2)\n    return Base(1), pond\n"
    ),
}
SCRIPTS = {
    "a.js": (
        "class Base { constructor(x) { this.x = x } }\n"
        "class Pool extends Base { constructor(x) { super(x) } }\n"
        "const api = { stop: function () { return 2 }, limit: 3 }\n"
        "module.exports = { helper: (x) => x, size: 3 }\n"
        "exports.config = { timeout: 5 }\n"
        "function main() { return api.stop(api.limit) }\n"
    ),
    "b.js": "const a = require('./a')\na.helper(1)\nconsole.log(a.size, a.config.timeout)\n",
}
JAVA = {
    "Base.java": "class Base {\n    Base(int x) { }\n}\n",
    "Pool.java": "class Pool extends Base {\n    Pool(int x) {\n        super(x);\n    }\n}\n",
}


def lines(engine: Engine, name: str, **more: Any) -> list[tuple[str, int]]:
    return [(str(edge.path), edge.line) for edge in engine.symbols.trace(name, **more).edges]


def test_an_inherited_method_is_found_and_traced_under_the_name_of_the_subclass(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PYTHON)) as engine:
        assert [one.qualified for one in engine.symbols.find("Pool.close").definitions] == ["Base.close"]
        found = engine.symbols.trace("Pool.close")
        assert [edge.line for edge in found.edges] == [6]
        assert any("Pool.close is inherited" in note and "Base.close (base.py:5)" in note for note in found.notes)


def test_a_member_that_no_base_has_is_still_not_defined(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PYTHON)) as engine, pytest.raises(SymbolNotFound):
        engine.symbols.trace("Pool.open")


def test_callers_of_a_constructor_are_calls_of_its_class_of_super_and_of_heirs(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PYTHON)) as engine:
        assert lines(engine, "Base.__init__") == [("base.py", 11), ("use.py", 7), ("use.py", 8)]
        targets = {edge.via for edge in engine.symbols.trace("Base.__init__").edges}
        assert targets == {"", "Base", "Pond"}
        assert ("base.py", 11) in lines(engine, "Base")


def test_super_calls_a_constructor_where_it_is_not_a_name(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "js", SCRIPTS)) as engine:
        assert lines(engine, "Base.constructor") == [("a.js", 2)]
        assert ("a.js", 2) in lines(engine, "Base")
    with indexed(tree(tmp_path / "java", JAVA)) as engine:
        assert ("Pool.java", 3) in lines(engine, "Base")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("helper", [("b.js", 2)]),
        ("size", [("b.js", 3)]),
        ("config.timeout", [("b.js", 3)]),
        ("api.stop", [("a.js", 6)]),
        ("api.limit", [("a.js", 6)]),
    ],
)
def test_a_key_of_an_object_is_traced(name: str, found: list[tuple[str, int]], tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", SCRIPTS)) as engine:
        assert lines(engine, name) == found


def test_a_key_of_another_object_is_not_meant(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", SCRIPTS)) as engine, pytest.raises(SymbolNotFound):
        engine.symbols.trace("other.timeout")


def test_uses_that_an_edit_names_are_not_imports(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PYTHON)) as engine:
        assert engine.symbols.list_uses("base.py", "Pool", 9, files_max=10) == [("use.py", 5)]
