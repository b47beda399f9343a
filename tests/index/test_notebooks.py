"""A notebook is indexed by its cells, in their lines of the file and without outputs; text with odd names is text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from context_engine.text import read_notebook_cells
from tests.support.engines import indexed
from tests.support.tool_calls import text, told
from tests.support.trees import tree

CELLS = [
    {"cell_type": "markdown", "metadata": {}, "source": ["# Weights of parcels\n", "def written_in_prose(): ..."]},
    {
        "cell_type": "code",
        "execution_count": 1,
        "metadata": {},
        "outputs": [
            {"name": "stdout", "output_type": "stream", "text": ["def printed_by_output(): ...\n"]},
            {"data": {"image/png": "iVBORw0KGgo" * 2_000}, "metadata": {}, "output_type": "display_data"},
        ],
        "source": ["%matplotlib inline\n", "def load_parcels(path):\n", '    return open(path, "é")\n'],
    },
    {"cell_type": "code", "execution_count": 2, "metadata": {}, "outputs": [], "source": ["load_parcels('x.csv')"]},
]
NOTEBOOK = json.dumps({"cells": CELLS, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def line_of(part: str) -> int:
    return next(number for number, line in enumerate(NOTEBOOK.split("\n"), 1) if part in line)


def test_cells_are_found_in_their_lines_and_outputs_are_not(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", {"n.ipynb": NOTEBOOK})) as engine:
        place = line_of("def load_parcels")
        assert f"n.ipynb:{place}-{place + 1}" in text(engine, "symbols", name="load_parcels")
        assert "printed_by_output" not in text(engine, "search_code", query="printed_by_output")
        found = text(engine, "search_code", query="load parcels from a path")
        assert "outputs" not in found
        assert 'return open(path, "é")' in found
        assert f"n.ipynb:{line_of('x.csv')}" in text(engine, "symbols", name="load_parcels", relation="callers")
        status = told(engine, "index_status")
        assert (status["chunks"], status["symbols"]) == (3, 1)  # prose defines nothing
        shown = text(engine, "read", items=["n.ipynb#load_parcels"])  # as in the file, so that an edit can quote it
        assert '"def load_parcels(path):\\n",' in shown
        assert "\n# %matplotlib inline\n" in read_notebook_cells(NOTEBOOK)  # no Python


@pytest.mark.parametrize("broken", ["", "{}", '"source": [\n1x\n]', NOTEBOOK.replace("\n", ""), NOTEBOOK[:700]])
def test_a_notebook_in_another_form_keeps_its_lines(broken: str) -> None:
    assert read_notebook_cells(broken).count("\n") == broken.count("\n")


def test_what_is_text_is_indexed_whatever_its_ending(tmp_path: Path) -> None:
    snapshot = "// Jest Snapshot v1\n\nexports[`a button`] = `<button />`;\n"
    icon = '<svg xmlns="http://www.w3.org/2000/svg">\n  <title>Parcel</title>\n</svg>\n'
    files = {"s/b.test.js.snap": snapshot, "i.svg": icon, "t.dat": "1 2\n", "c.obj": "v 0 0 1\n", "p.snap": b"hsqs\0"}
    with indexed(tree(tmp_path / "w", files)) as engine:
        assert "its role is generated" in text(engine, "explain", target="s/b.test.js.snap")
        assert "its role is data" in text(engine, "explain", target="i.svg")
        assert engine.status().skipped == {"binary": 1}
