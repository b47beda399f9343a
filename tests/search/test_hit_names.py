"""A hit is named by the definition whose lines it shows, not by the first one of its chunk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from context_engine.model import Chunk, Query, RelPath
from context_engine.text import LineSpan
from tests.support.engines import indexed
from tests.support.trees import tree

CODE = "class Limiter:\n    def wait(self):\n        return 2\n\n    def stop(self):\n        return 3\n"
DEFINITIONS = (
    (LineSpan(1, 3), "Bucket"),
    (LineSpan(2, 3), "Bucket.take"),
    (LineSpan(6, 9), "Limiter"),
    (LineSpan(7, 9), "Limiter.wait"),
)


def test_an_excerpt_has_the_name_of_the_innermost_definition_around_it_else_of_the_first_that_starts_in_it() -> None:
    chunk = Chunk("c", RelPath("a.py"), LineSpan(1, 9), "definitions", "python", "Bucket", "", definitions=DEFINITIONS)
    spans = [(1, 9), (2, 5), (3, 8), (3, 5), (4, 8), (6, 9), (9, 9), (4, 5)]
    names = [chunk.name_at(LineSpan(*span)) for span in spans]
    wanted = ["Bucket", "Bucket.take", "Limiter", "Bucket.take", "Limiter", "Limiter", "Limiter.wait", "Bucket"]
    assert names == wanted
    named_below = replace(chunk, title="Limiter.wait")
    assert [named_below.name_at(LineSpan(*span)) for span in ((4, 6), (4, 8))] == ["Limiter", "Limiter.wait"]


def test_a_hit_knows_the_definitions_in_its_lines(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", {"limits.py": CODE})) as engine:
        chunk = engine.search.find(Query("limiter wait")).hits[0].chunk
    assert [name for _, name in chunk.definitions] == ["Limiter", "Limiter.wait", "Limiter.stop"]
    assert chunk.name_at(LineSpan(5, 6)) == "Limiter.stop"
