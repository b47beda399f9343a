"""Imports and license headers never stand for a file that has something else to show."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.model import Filter, Query
from tests.support.engines import indexed
from tests.support.trees import tree

LICENSE = "".join(
    f"# Parcels and couriers of the depot, part {number}: copyright of the depot.\n" for number in range(20)
)
IMPORTS = "".join(f"from depot.couriers import parcel_{number}, courier_{number}\n" for number in range(20))
CODE = '''
class Route:
    def load(self, van):
        """Put the parcels of a courier into a van."""
        return [parcel for parcel in van if parcel.courier == self]
'''
QUESTION = "which parcels of the depot do couriers have"


@pytest.fixture
def depot(tmp_path: Path) -> Generator[Engine]:
    files = {"src/route.py": LICENSE + IMPORTS + "\n" + CODE, "src/only.py": LICENSE + IMPORTS, "notes.md": "# Vans\n"}
    with indexed(tree(tmp_path, files)) as engine:
        yield engine


def first_place(engine: Engine, path: str) -> str:
    return (
        engine.search.find(Query(QUESTION, 1, Filter(include_paths=(f"/{path}",)), chunks_per_file=1))
        .hits[0]
        .chunk.text
    )


def test_a_file_shows_its_code_instead_of_its_imports_and_license(depot: Engine) -> None:
    assert "class Route" in first_place(depot, "src/route.py")


def test_a_file_without_definitions_shows_what_it_has(depot: Engine) -> None:
    assert "depot" in first_place(depot, "src/only.py")


def test_a_line_of_the_imports_that_a_question_names_is_shown(depot: Engine) -> None:
    for count in (1, 9):
        hits = depot.search.find(Query("why does src/route.py:25 fail", count, chunks_per_file=count)).hits
        assert hits[0].chunk.path == "src/route.py" and hits[0].chunk.span.first <= 25 <= hits[0].chunk.span.last
