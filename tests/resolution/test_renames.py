"""A rename of a member changes its uses by their types, and waits while a use may be meant."""

from __future__ import annotations

from pathlib import Path

from tests.support.engines import indexed
from tests.support.trees import tree

PROJECT = {
    "zoo.py": (
        "import re\n\nWORDS = re.compile('a')\n\n\n"
        "class Engine:\n    def search(self, text): ...\n\n\n"
        "class Fast(Engine):\n    def search(self, text):\n        return super().search(text)\n\n\n"
        "class Other:\n    def search(self): ...\n\n\n"
        "def use(fast: Fast, other: Other):\n    fast.search('a')\n    other.search()\n    WORDS.search('b')\n\n\n"
        "def guess(thing):\n    thing.search('c')\n"
    )
}


def test_overrides_and_typed_uses_are_renamed_and_others_are_not(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PROJECT)) as engine:
        found = engine.edits.rename_symbol("Engine.search", "find")
        assert [place.line for place in found.certain] == [7, 11, 12, 20]
        assert [(place.line, place.is_open) for place in found.uncertain] == [(26, True)]


def test_accepted_places_are_renamed_as_well(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PROJECT)) as engine:
        for accept in (["zoo.py:26"], ["all"]):
            found = engine.edits.rename_symbol("Engine.search", "find", accept=accept)
            assert [place.line for place in found.certain] == [7, 11, 12, 20, 26]
            assert not found.uncertain
