"""What a hit shows of its file: the code that answers, under the name of the definition whose lines it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.model import Chunk, Filter, Hit, Query, RelPath
from context_engine.search.hit_reading import is_comment
from context_engine.text import LineSpan
from tests.support.engines import indexed
from tests.support.trees import tree

Open = Callable[[Mapping[str, str]], Engine]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Open an indexed tree of some files."""
    with ExitStack() as stack:
        yield lambda files: stack.enter_context(indexed(tree(tmp_path / "w", files)))


def find(engine: Engine, question: str, limit: int = 10, path: str = "") -> list[Hit]:
    return list(engine.search.find(Query(question, limit, Filter(include_paths=(path,) if path else ()))).hits)


# -- a comment leads to the definition below it -------------------------------------------------------------------------

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
NOTES = "# Vans\n\n" + "- perishable goods leave first\n" * 3


def test_the_words_of_a_comment_lead_to_the_code_below_it(opened: Open) -> None:
    depot = opened({"src/routes.js": ROUTES, "notes.md": NOTES})
    hits = find(depot, "where are perishable goods put into the van that leaves first")
    routes = [hit.chunk for hit in hits if hit.chunk.path == "src/routes.js"]
    assert routes[0].text.startswith("export function loadVan")
    assert len({chunk.span for chunk in routes}) == len(routes)


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("what does src/routes.js:4 mean", "src/routes.js"),
        ("fix the JSDoc of perishable goods put into the van", "src/routes.js"),
        ("notes: perishable goods leave first", "notes.md"),
    ],
    ids=["a named line", "about comments", "a document"],
)
def test_a_comment_or_section_that_is_asked_for_itself_is_shown(opened: Open, question: str, path: str) -> None:
    hits = find(opened({"src/routes.js": ROUTES, "notes.md": NOTES}), question)
    assert any("perishable goods" in hit.chunk.text for hit in hits if hit.chunk.path == path)


@pytest.mark.parametrize(
    ("text", "only_comments"),
    [
        ("/**\n * Opens a file.\n */\n", True),
        ("/* Opens\n   a file", True),
        ("/// <summary>Opens a file.</summary>\n[Obsolete]\n", True),
        ("# Opens a file.\n@cached\n", True),
        ("-- | Opens a file.\n", True),
        ("\n", True),
        ("/* a */ open();", False),
        ("// Opens a file.\nopen();\n", False),
        ("x = 1  # one\n", False),
        ("return *p;\n", False),
    ],
)
def test_comments_and_attributes_are_no_code(text: str, only_comments: bool) -> None:
    assert is_comment(text) == only_comments


# -- imports, licenses and tests come after the code --------------------------------------------------------------------

LICENSE = "".join(f"# Parcels and couriers of the depot, part {n}: copyright of the depot.\n" for n in range(20))
IMPORTS = "".join(f"from depot.couriers import parcel_{n}, courier_{n}\n" for n in range(20))
ROUTE = '''
class Route:
    def load(self, van):
        """Put the parcels of a courier into a van."""
        return [parcel for parcel in van if parcel.courier == self]
'''
HEADS = {"src/route.py": f"{LICENSE}{IMPORTS}\n{ROUTE}", "src/only.py": LICENSE + IMPORTS}


@pytest.mark.parametrize(("path", "shown"), [("src/route.py", "class Route"), ("src/only.py", "depot")])
def test_imports_and_license_are_shown_only_where_there_is_nothing_else(opened: Open, path: str, shown: str) -> None:
    hits = find(opened(HEADS), "which parcels of the depot do couriers have", 1, f"/{path}")
    assert shown in hits[0].chunk.text


def test_a_line_of_the_imports_that_a_question_names_is_shown(opened: Open) -> None:
    depot = opened(HEADS)
    for count in (1, 9):
        chunk = depot.search.find(Query("why does src/route.py:25 fail", count, chunks_per_file=count)).hits[0].chunk
        assert chunk.path == "src/route.py" and chunk.span.first <= 25 <= chunk.span.last


STEPS = "    step(values);\n" * 30
DETECT = f"/// Finds values far from the others.\npub fn detect(values: &[f64]) -> usize {{\n{STEPS}}}\n"
CHECKS = "    // outliers are detected among outliers\n" + "    assert_eq!(1, detect(&OUTLIERS));\n" * 30
MODULE = f"#[cfg(test)]\nmod tests {{\n    use super::*;\n\n    #[test]\n    fn outliers() {{\n{CHECKS}    }}\n}}\n"
FUNCTION = f"#[test]\nfn test_outliers() {{\n{CHECKS}}}\n"


@pytest.mark.parametrize("tests", [MODULE, FUNCTION], ids=["module", "function"])
def test_tests_inside_a_source_file_come_after_its_code_unless_they_are_asked_for(opened: Open, tests: str) -> None:
    engine = opened({"src/outlier.rs": f"{DETECT}\n{tests}"})
    assert "pub fn detect" in find(engine, "how are outliers detected", 1)[0].chunk.text
    assert "assert_eq!" in find(engine, "where are the tests of outliers detected", 1)[0].chunk.text


# -- the name of a hit --------------------------------------------------------------------------------------------------

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


def test_a_hit_knows_the_definitions_in_its_lines(opened: Open) -> None:
    code = "class Limiter:\n    def wait(self):\n        return 2\n\n    def stop(self):\n        return 3\n"
    chunk = find(opened({"limits.py": code}), "limiter wait")[0].chunk
    assert [name for _, name in chunk.definitions] == ["Limiter", "Limiter.wait", "Limiter.stop"]
    assert chunk.name_at(LineSpan(5, 6)) == "Limiter.stop"
