"""The fixture that all tests of references share: an index of the project that a module writes down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from context_engine.engine import Engine
from tests.support.engines import indexed
from tests.support.trees import tree


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Yield an index of the `PROJECT` of the test module."""
    root = tmp_path_factory.mktemp(request.module.__name__.rpartition(".")[2]) / "project"
    with indexed(tree(root, request.module.PROJECT)) as engine:
        yield engine
