"""Definitions without a use are listed if nothing could hide one."""

from __future__ import annotations

import pytest

from context_engine.engine import Engine
from tests.support.engines import indexed
from tests.support.trees import tree

PROJECT = {
    "zoo/cage.py": (
        "from zoo import registry\n"
        "def open_cage():\n    return _unlock()\n"
        "def _unlock():\n    return 1\n"
        "def _forgotten():\n    return _forgotten()\n"
        "@registry.add\ndef _registered():\n    return 2\n"
        "def _by_string():\n    return 3\n"
        "NAMES = ['_by_string']\n"
        "def public_without_use():\n    return 4\n"
        "class _Old:\n    pass\n"
        "# _Old was used before\n"
    ),
    "zoo/registry.py": "def add(function):\n    return function\n",
    "zoo/handlers.py": (
        "import json\nclass Handler(json.JSONEncoder):\n    def _hook(self):\n        return 1\n"
        "class Plain:\n    def _lost(self):\n        return 1\n"
    ),
    "tests/test_cage.py": "def _helper_of_a_test():\n    return 1\n",
    "web/app.ts": (
        "import { x } from './other';\nfunction gone() { return 1; }\nfunction kept() { return x; }\nexport const y = kept();\n"
        "export default { setup() { return 1; } };\n"
    ),
    "web/other.ts": "export const x = 1;\nexport function shared() {}\n",
    "go/a.go": "package a\n\nfunc lonely() {}\n\nfunc Public() { busy() }\n\nfunc busy() {}\n",
}


def unused(engine: Engine, under: str = "") -> set[str]:
    return {f"{edge.path}:{edge.source}" for edge in engine.symbols.trace(under, "unused").edges}


def test_definitions_that_nothing_uses_are_listed(engine: Engine) -> None:
    assert unused(engine) == {
        "zoo/cage.py:_forgotten", "zoo/cage.py:_Old", "zoo/handlers.py:Plain._lost",
        "web/app.ts:gone", "go/a.go:lonely",
    }  # fmt: skip


def test_a_folder_or_a_file_narrows_the_list(engine: Engine) -> None:
    assert unused(engine, "go") == {"go/a.go:lonely"}
    assert unused(engine, "zoo/registry.py") == set()


def test_the_answer_says_what_is_left_out_and_how_many_are_uncertain(engine: Engine) -> None:
    notes = engine.symbols.trace("zoo", "unused").notes
    assert "public ones" in notes[0]
    assert notes[1].startswith("2 more have no use that is certain")  # a string, a base of a library


def test_a_limit_is_kept_and_said(engine: Engine) -> None:
    traced = engine.symbols.trace("", "unused", limit=2)
    assert (len(traced.edges), traced.truncated) == (2, True)


def test_methods_are_left_out_where_names_are_computed(tmp_path_factory: pytest.TempPathFactory) -> None:
    text = "class A:\n    def _on_x(self):\n        return 1\ndef run(a, name):\n    return getattr(a, '_on_' + name)\n"
    project = {"a.py": text}
    with indexed(tree(tmp_path_factory.mktemp("computed") / "project", project)) as engine:
        assert unused(engine) == set()
