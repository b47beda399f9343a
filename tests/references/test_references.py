"""Uses of definitions are found by what each language says of scopes, imports and types; `specs/references.md` has them.

Its cases are projects: `file`s, and then who uses what. A line of `callers` names a definition and the definitions that
certainly use it; `name~` is a likely use, `name?` a possible one, which count only behind `callers possible`. A line of
`uses` says where a definition is, its name, and the places that certainly mean it; behind `uses likely`, those that
are likely to; `uses in=a.rb` looks in that file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import InvalidArgument, SymbolNotFound
from tests.project.test_specs import SPECS, Block, cases
from tests.support.engines import indexed
from tests.support.trees import tree

SPEC = {case.name: case for case in cases(SPECS / "references.md")}
MARKS = {"~": "likely", "?": "possible"}
Open = Callable[[str], Engine]


def rows(block: Block) -> Iterator[tuple[list[str], list[str]]]:
    """What is before the last colon of each line that has one, and what is behind it, in words."""
    for line in block.text.splitlines():
        asked, _, found = f"{line} ".partition(": ")
        yield asked.split(), found.split()


def callers(engine: Engine, name: str, *, with_possible: bool = False) -> dict[str, str]:
    """The definitions that use a symbol, by their last name, each with its certainty."""
    edges = engine.symbols.trace(name, with_possible=with_possible).edges
    return {edge.source.rpartition(".")[2]: edge.certainty for edge in edges}


def uses(engine: Engine, paths: Iterable[str], at: str, name: str, certainty: str) -> set[str]:
    """The uses of a definition `at` path:line that are so certain, as `file:line`."""
    path, _, line = at.rpartition(":")
    with engine.symbols.renames() as renames:
        found = renames.find_definition_uses(path, name, int(line), sorted(paths))
    assert found is not None
    return {f"{place[0].rpartition('/')[2]}:{place[1]}" for place, kind in found.items() if kind == certainty}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """An engine on the project of a case, the first whose name begins so; each is indexed once."""
    opened: dict[str, Engine] = {}
    with ExitStack() as stack:

        def open_one(beginning: str) -> Engine:
            name = next(name for name in SPEC if name.startswith(beginning))
            if name not in opened:
                root = tree(tmp_path_factory.mktemp("references") / "project", SPEC[name].files())
                opened[name] = stack.enter_context(indexed(root))
            return opened[name]

        yield open_one


@pytest.mark.parametrize("name", SPEC)
def test_the_specification_of_references_holds(project: Open, name: str) -> None:
    engine, case = project(name), SPEC[name]
    asked = [block for block in case.blocks if block.kind != "file"]
    assert asked, "a case says who uses what"
    for block in asked:
        for words, found in rows(block):
            if block.kind == "callers":
                is_whole = "possible" in block.options
                expected = {each.rstrip("~?"): MARKS.get(each[-1], "exact") for each in found}
                assert callers(engine, words[0], with_possible=is_whole) == expected, words
                if is_whole:
                    sure = {source: certainty for source, certainty in expected.items() if certainty != "possible"}
                    assert callers(engine, words[0]) == sure
                    assert engine.symbols.trace(words[0]).possible == len(expected) - len(sure)
            elif block.kind == "traces":
                places = [f"{edge.path}:{edge.line}" for edge in engine.symbols.trace(words[0]).edges]
                assert places == found, words
            elif block.kind == "unknown":
                with pytest.raises(SymbolNotFound):
                    engine.symbols.trace(words[0])
            elif block.kind == "unused":
                edges = engine.symbols.trace(words[0].removeprefix("."), "unused").edges
                assert {f"{edge.path}:{edge.source}" for edge in edges} == set(found), words
            elif block.kind == "implementations":
                assert {edge.source for edge in engine.symbols.trace(words[0], "implementations").edges} == set(found)
            else:
                assert block.kind == "uses"
                paths = block.options.get("in", " ".join(case.files())).split()
                certainty = "likely" if "likely" in block.options else "exact"
                assert uses(engine, paths, words[0], words[1], certainty) == set(found), words


# -- what else a language says ----------------------------------------------------------------------------------------


def test_references_include_imports_under_other_names(project: Open) -> None:
    engine = project("Python")
    found = engine.symbols.trace("Engine", "references").edges
    assert {(edge.path, edge.kind) for edge in found} >= {("zoo/users.py", "import"), ("zoo/users.py", "type")}


def test_implementations_are_the_overriding_methods_and_the_subclasses(project: Open) -> None:
    engine = project("Python")
    assert [edge.source for edge in engine.symbols.trace("Engine.search", "implementations").edges] == ["Fast.search"]
    assert [edge.source for edge in engine.symbols.trace("Engine", "implementations").edges] == ["Fast"]


def test_impact_follows_the_users_of_the_symbol_and_names_the_tests(project: Open) -> None:
    engine = project("Python")
    trace = engine.symbols.trace("Cage.lock_door", "impact")
    assert [(edge.source, edge.depth) for edge in trace.edges] == [
        ("by_property", 1), ("by_loop", 1), ("of_something", 1),
    ]  # fmt: skip
    assert trace.tests == ("tests/test_users.py",)


def test_the_hierarchy_lists_bases_and_what_is_below(project: Open) -> None:
    engine = project("Python")
    assert [edge.source for edge in engine.symbols.trace("Fast", "hierarchy").edges] == ["Engine"]
    assert [edge.source for edge in engine.symbols.trace("Fast.search", "hierarchy").edges] == ["Engine.search"]
    assert [edge.source for edge in engine.symbols.trace("Engine", "hierarchy").edges] == ["Fast"]


def test_a_part_of_require_is_the_function_of_the_module(project: Open) -> None:
    engine = project("TypeScript")
    edges = engine.symbols.trace("open", under="lib/old.js").edges
    assert [(edge.source, edge.kind, edge.certainty) for edge in edges] == [
        ("lib/old.js", "read", "exact"), ("useIt", "call", "exact"),
    ]  # fmt: skip


def test_a_method_that_a_class_only_declares_has_callers(project: Open) -> None:
    engine = project("TypeScript")
    assert [edge.source for edge in engine.symbols.trace("Box_.open").edges] == ["ofDefault"]


def test_what_is_assigned_to_exports_belongs_to_the_module_only(project: Open) -> None:
    engine = project("TypeScript")
    edges = engine.symbols.trace("clean").edges
    assert {edge.source: edge.certainty for edge in edges if edge.kind == "call"} == {"all": "exact"}


def test_a_default_import_takes_the_default_that_a_namespace_has(project: Open) -> None:
    engine = project("TypeScript")
    edges = engine.symbols.trace("Box", with_possible=True).edges
    assert "types/user.ts" not in {edge.path for edge in edges}


def test_a_field_and_a_method_of_one_name_are_two_things(project: Open) -> None:
    engine = project("Rust")
    with engine.symbols.renames() as renames:
        places_of = renames.find_definition_uses("src/cage/mod.rs", "open", 9, ["src/cage/mod.rs", "src/main.rs"])
    assert places_of is not None
    places = sorted((path, line) for (path, line, _), certainty in places_of.items() if certainty != "other")
    assert places == [("src/cage/mod.rs", 9), ("src/main.rs", 12), ("src/main.rs", 13)]


def test_a_reexport_leads_to_the_type(project: Open) -> None:
    engine = project("Rust")
    paths = {edge.path for edge in engine.symbols.trace("Cage", "references").edges}
    assert {"src/lib.rs", "src/main.rs"} <= paths


def test_a_class_is_found_through_its_package_and_a_star_import(project: Open) -> None:
    engine = project("Java")
    edges = engine.symbols.trace("Gate").edges
    assert [(edge.path, edge.line, edge.certainty) for edge in edges] == [("src/org/park/Keeper.java", 7, "exact")]


def test_a_function_and_a_variable_of_one_name_are_two_things(project: Open) -> None:
    engine = project("PHP")
    edges = engine.symbols.trace("byNew").edges
    assert [(edge.source, edge.certainty, edge.evidence.count("byNew")) for edge in edges] == [("calls", "exact", 3)]


def test_calls_through_an_interface_are_calls_of_a_method_that_implements_it(project: Open) -> None:
    engine = project("Go: types implement")
    edges = engine.symbols.trace("Cat.Feed").edges
    assert {(edge.source, edge.via) for edge in edges} == {("care", "Animal.Feed"), ("Tiger.Feed", "Animal.Feed")}


@pytest.mark.parametrize("name", ["Cat.Feed", "Animal.Feed", "Tiger.Feed", "Mouth.Feed"])
def test_a_rename_takes_the_interface_and_all_that_implement_it_along(project: Open, name: str) -> None:
    engine = project("Go: types implement")
    found = engine.edits.rename_symbol(name, "Nourish")
    assert {place.path for place in found.certain} == {
        *("api/api.go", "cats/cat.go", "cats/tiger.go", "parts/parts.go", "main.go")
    }
    assert not [place for place in found.uncertain if place.is_open]


def test_a_name_that_the_type_has_in_another_file_of_the_package_is_refused(project: Open) -> None:
    engine = project("Go: types implement")
    for name, new_name in (("Cat.Feed", "Purr"), ("Cat.Purr", "weight"), ("Cat.Purr", "Feed")):
        with pytest.raises(InvalidArgument, match="has a meaning already"):
            engine.edits.rename_symbol(name, new_name)


def test_a_method_that_a_well_known_interface_requires_waits(project: Open) -> None:
    engine = project("Go: types implement")
    waiting = engine.edits.rename_symbol("Name.String", "Text")
    assert [place.why for place in waiting.uncertain if place.is_open] == [
        "an interface that is not in the workspace may require it"
    ]
    free = engine.edits.rename_symbol("Name.Write", "Put")
    assert not [place for place in free.uncertain if place.is_open]


def test_a_method_waits_where_a_type_of_a_library_may_have_the_rest_of_an_interface(tmp_path: Path) -> None:
    files = {
        "go.mod": "module example.org/zoo\n",
        "zoo.go": (
            'package zoo\n\nimport "example.com/library"\n\n'
            "type Animal interface {\n\tFeed()\n\tGrow()\n}\n\n"
            "type Cat struct{ library.Base }\n\nfunc (c Cat) Feed() {}\n"
        ),
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        found = engine.edits.rename_symbol("Animal.Feed", "Nourish")
        assert [(place.line, place.is_open) for place in found.uncertain] == [(12, True)]


def test_modules_that_import_each_other_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    circle = {
        "src/lib.rs": "mod a;\nmod b;\n",
        "src/a.rs": "pub use crate::b::*;\npub use crate::b::lost;\n",
        "src/b.rs": "pub use crate::a::*;\npub use crate::a::lost;\npub fn known() { lost(); missing() }\n",
    }
    with indexed(tree(tmp_path_factory.mktemp("rust") / "circle", circle)) as engine:
        assert callers(engine, "known") == {}


def test_an_inherited_method_is_found_and_traced_under_the_name_of_the_subclass(project: Open) -> None:
    engine = project("Python: members")
    assert [one.qualified for one in engine.symbols.find("Pool.close").definitions] == ["Base.close"]
    found = engine.symbols.trace("Pool.close")
    assert any("Pool.close is inherited" in note and "Base.close (base.py:5)" in note for note in found.notes)


def test_callers_of_a_constructor_are_calls_of_its_class_of_super_and_of_heirs(project: Open) -> None:
    engine = project("Python: members")
    targets = {edge.via for edge in engine.symbols.trace("Base.__init__").edges}
    assert targets == {"", "Base", "Pond"}
    assert ("base.py", 11) in [(edge.path, edge.line) for edge in engine.symbols.trace("Base").edges]


def test_an_answer_on_unused_definitions_says_what_is_left_out_and_how_many_are_uncertain(project: Open) -> None:
    engine = project("Definitions that nothing uses")
    notes = engine.symbols.trace("zoo", "unused").notes
    assert "public ones" in notes[0]
    assert notes[1].startswith("2 more have no use that is certain")  # a string, a base of a library


def test_what_is_exported_under_another_name_is_certainly_used(project: Open) -> None:
    notes = project("Definitions that are exported").symbols.trace("", "unused").notes
    assert not any("no use that is certain" in note for note in notes)


def test_a_limit_on_unused_definitions_is_kept_and_said(project: Open) -> None:
    engine = project("Definitions that nothing uses")
    traced = engine.symbols.trace("", "unused", limit=2)
    assert (len(traced.edges), traced.truncated) == (2, True)


def test_an_outline_without_details_is_that_of_the_file_of_today(tmp_path: Path) -> None:
    root = tree(tmp_path / "project", {"a.py": "import re\n\n\nclass Pool:\n    def drain(self): ...\n"})
    with indexed(root) as engine:

        def definitions(*, details: bool) -> list[tuple[object, ...]]:
            outline = engine.symbols.outline("a.py", details=details)
            symbols = [(depth, one.qualified, one.kind, one.span) for depth, one in outline.symbols]
            return [*symbols, *outline.imports]

        assert definitions(details=False) == definitions(details=True) != []
        (root / "a.py").write_text("\n\nimport os\n\n\ndef drain(): ...\n\n\nclass Pool: ...\n")
        assert definitions(details=False) == definitions(details=True) != []
