"""Traces go step by step along the graph, each step with its evidence, and end in circles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from context_engine.engine import Engine
from context_engine.errors import CallError, SymbolNotFound
from context_engine.model import Trace
from tests.support.engines import indexed
from tests.support.trees import tree

PROJECT = {
    "app/api.py": "from app.service import serve\n\n\ndef handle():\n    return serve()\n",
    "app/service.py": "from app.store import load\n\n\ndef serve():\n    return load()\n",
    "app/store.py": "from app import service\n\n\ndef load():\n    return read_row()\n\n\ndef read_row():\n    return load()\n",
    "app/jobs.py": "from app.service import serve\n\nserve()\n",
    "app/same.py": "def load(): ...\n",
    "app/alone.py": "def alone(): ...\n",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("tracing") / "project", PROJECT)) as engine:
        yield engine


def steps(trace: Trace) -> list[tuple[str, str, int, int]]:
    return [(edge.source, edge.path, edge.line, edge.depth) for edge in trace.edges]


def test_callers_are_those_who_call_with_the_line_that_does(engine: Engine) -> None:
    trace = engine.symbols.trace("serve")
    assert ("handle", "app/api.py", 5, 1) in steps(trace)
    assert ("app/jobs.py", "app/jobs.py", 3, 1) in steps(trace)
    assert all("serve" in edge.evidence for edge in trace.edges)
    assert {edge.depth for edge in trace.edges} == {1}


def test_depth_goes_on_to_the_callers_of_callers(engine: Engine) -> None:
    assert ("handle", "app/api.py", 5, 2) not in steps(engine.symbols.trace("load", depth=1))
    assert ("handle", "app/api.py", 5, 2) in steps(engine.symbols.trace("load", depth=2))


def test_a_circle_of_calls_ends(engine: Engine) -> None:
    deep = engine.symbols.trace("read_row", depth=50)
    assert steps(deep) == steps(engine.symbols.trace("read_row", depth=4))
    assert len(set(deep.edges)) == len(deep.edges)


def test_callees_name_what_is_meant_and_where(engine: Engine) -> None:
    trace = engine.symbols.trace("serve", "callees")
    assert [(edge.source, edge.target, edge.line) for edge in trace.edges] == [("serve", "load (app/store.py:4)", 5)]


def test_callees_of_callees_end_in_a_circle_too(engine: Engine) -> None:
    trace = engine.symbols.trace("handle", "callees", depth=50)
    assert [edge.target.split(" ")[0] for edge in trace.edges] == ["serve", "load", "read_row", "load"]


def test_imports_and_importers_of_a_file(engine: Engine) -> None:
    assert [(edge.source, edge.target) for edge in engine.symbols.trace("app/service.py", "imports").edges] == [
        ("app/service.py", "app/store.py")
    ]
    importers = engine.symbols.trace("app/service.py", "importers")
    assert [edge.source for edge in importers.edges] == ["app/api.py", "app/jobs.py", "app/store.py"]
    assert all("import" in edge.evidence for edge in importers.edges)


def test_a_circle_of_imports_ends(engine: Engine) -> None:
    trace = engine.symbols.trace("app/api.py", "imports", depth=50)
    assert {(edge.source, edge.target) for edge in trace.edges} == {
        ("app/api.py", "app/service.py"),
        ("app/service.py", "app/store.py"),
        ("app/store.py", "app/service.py"),
    }


def test_the_impact_of_a_symbol_is_its_callers_and_who_imports_its_file(engine: Engine) -> None:
    trace = engine.symbols.trace("read_row", "impact")
    assert ("load", "app/store.py", 5, 1) in steps(trace)
    assert ("app/service.py", "app/service.py", 1, 1) in steps(trace)


def test_the_impact_of_a_file_is_who_imports_it(engine: Engine) -> None:
    assert steps(engine.symbols.trace("app/store.py", "impact")) == steps(
        engine.symbols.trace("app/store.py", "importers")
    )


def test_a_name_with_several_definitions_says_so(engine: Engine) -> None:
    assert any("2 definitions" in note for note in engine.symbols.trace("load").notes)


def test_a_symbol_stands_for_its_file_where_files_are_traced(engine: Engine) -> None:
    assert steps(engine.symbols.trace("handle", "imports")) == steps(engine.symbols.trace("app/api.py", "imports"))


def test_a_limit_cuts_and_says_so(engine: Engine) -> None:
    whole = engine.symbols.trace("serve")
    assert not whole.truncated
    cut = engine.symbols.trace("serve", limit=1)
    assert cut.truncated and cut.edges == whole.edges[:1]


def test_edges_are_in_order_of_depth_path_and_line(engine: Engine) -> None:
    edges = engine.symbols.trace("load", depth=3).edges
    assert list(edges) == sorted(edges, key=lambda edge: (edge.depth, edge.path, edge.line))


def test_what_nobody_uses_has_no_edges(engine: Engine) -> None:
    assert engine.symbols.trace("alone").edges == ()


def test_an_unknown_symbol_names_its_neighbours(engine: Engine) -> None:
    with pytest.raises(SymbolNotFound) as refused:
        engine.symbols.trace("read_rows")
    assert "read_row" in refused.value.details["near"]


def test_a_path_that_is_not_there_is_refused(engine: Engine) -> None:
    with pytest.raises(CallError):
        engine.symbols.trace("app/nothing.py", "imports")
