"""A long comment is found by its words, and what is shown is the definition below it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.model import Query
from context_engine.search.hit_reading import is_comment
from tests.support.engines import indexed
from tests.support.trees import tree

PARAMETERS = "".join(
    f" * @param parcel{n} a parcel of the courier whose van is number {n} of the depot\n" for n in range(14)
)
BODY = "".join(f"  const stop{n} = plan(parcel{n}, van.stops[{n}]);\n" for n in range(20))
ROUTES = f"""import {{ plan }} from './plan';

/**
 * Puts perishable goods into the van that leaves first.
 *
{PARAMETERS} */
export function loadVan(van, ...parcels) {{
{BODY}  return van;
}}
"""
LICENSE = "/*\n" + " * Perishable goods of the depot: copyright of the depot.\n" * 25 + " */\n\n"


@pytest.fixture
def depot(tmp_path: Path) -> Generator[Engine]:
    files = {
        "src/routes.js": ROUTES,
        "src/empty.js": LICENSE + "export const depot = 'north';\n",
        "notes.md": "# Vans\n\n" + "- perishable goods leave first\n" * 3,
    }
    with indexed(tree(tmp_path, files)) as engine:
        yield engine


def test_the_words_of_a_comment_lead_to_the_code_below_it(depot: Engine) -> None:
    hits = depot.search.find(Query("where are perishable goods put into the van that leaves first", 10)).hits
    routes = [hit.chunk for hit in hits if hit.chunk.path == "src/routes.js"]
    assert routes[0].text.startswith("export function loadVan")
    assert len({chunk.span for chunk in routes}) == len(routes)


def test_a_line_of_the_comment_that_a_question_names_is_shown(depot: Engine) -> None:
    hits = depot.search.find(Query("what does src/routes.js:4 mean", 1, chunks_per_file=1)).hits
    assert "perishable goods" in hits[0].chunk.text


def test_a_question_about_comments_shows_the_comment(depot: Engine) -> None:
    hits = depot.search.find(Query("fix the JSDoc of perishable goods put into the van", 10)).hits
    assert any("perishable goods" in hit.chunk.text for hit in hits if hit.chunk.path == "src/routes.js")


def test_a_section_of_a_document_is_shown_as_it_is(depot: Engine) -> None:
    hits = depot.search.find(Query("notes: perishable goods leave first", 10)).hits
    assert any("perishable" in hit.chunk.text for hit in hits if hit.chunk.path == "notes.md")


@pytest.mark.parametrize(
    "text",
    [
        "/**\n * Opens a file.\n */\n",
        "/* Opens\n   a file",
        "/// <summary>Opens a file.</summary>\n[Obsolete]\n",
        "# Opens a file.\n@cached\n",
        "-- | Opens a file.\n",
        "\n",
    ],
)
def test_comments_and_attributes_are_no_code(text: str) -> None:
    assert is_comment(text)


@pytest.mark.parametrize("text", ["/* a */ open();", "// Opens a file.\nopen();\n", "x = 1  # one\n", "return *p;\n"])
def test_code_with_a_comment_is_code(text: str) -> None:
    assert not is_comment(text)
