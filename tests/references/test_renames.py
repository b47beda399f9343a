"""A rename changes what certainly means the definition, and waits while other uses may be meant.

`specs/renamed-places.md` is run here: `file`s, and what becomes of renames. A line of `renamed` names a definition, the
places that are renamed, and behind `|` those in code that wait; a line of `waits` says why one must, a line of `refused`
which new name is not taken. Behind a name may stand the path of its file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.edit import Renaming
from context_engine.errors import InvalidArgument, NotIndexed, SymbolNotFound
from tests.project.test_specs import SPECS, cases
from tests.support.edits import contents
from tests.support.engines import indexed, open_engine
from tests.support.trees import tree

SPEC = {case.name: case for case in cases(SPECS / "renamed-places.md")}


def files_of(beginning: str) -> dict[str, bytes]:
    """The files of a case, the first whose name begins so."""
    return next(case for name, case in SPEC.items() if name.startswith(beginning)).files()


PROJECT = files_of("Python: overrides")
PARAMETERS = files_of("Python: parameters")
KOTLIN = files_of("Kotlin: receivers")
PHP = {path: data.decode() for path, data in files_of("PHP: properties").items()}


def shown(found: Renaming) -> tuple[str, str]:
    """The places that are renamed, and the ones in code that wait, as `path:line`."""
    waiting = [place for place in found.uncertain if place.is_open]
    certain, waits = (" ".join(f"{one.path}:{one.line}" for one in places) for places in (found.certain, waiting))
    return certain, waits


def waiting(found: Renaming) -> list[str]:
    return [f"{place.path}:{place.line} {place.why}" for place in found.uncertain if place.is_open]


@pytest.mark.parametrize("case", SPEC)
def test_the_specification_of_renamed_places_holds(tmp_path: Path, case: str) -> None:
    with indexed(tree(tmp_path / "w", SPEC[case].files())) as engine:
        for block in SPEC[case].blocks:
            for line in block.text.splitlines() if block.kind != "file" else ():
                asked, _, told = line.partition(":")
                name, _, path = asked.partition(" ")
                if block.kind == "refused":
                    with pytest.raises(InvalidArgument):
                        engine.edits.rename_symbol(name, told.strip())
                    continue
                found = engine.edits.rename_symbol(name, "fresh", path=path)
                if block.kind == "renamed":
                    assert shown(found) == tuple(part.strip() for part in f"{told}|".split("|")[:2]), line
                else:
                    assert block.kind == "waits"
                    assert any(told.strip() in one for one in waiting(found)), line


def test_accepted_places_are_renamed_as_well(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PROJECT)) as engine:
        for accept in (["zoo.py:26"], ["all"]):
            found = engine.edits.rename_symbol("Engine.search", "find", accept=accept)
            assert [place.line for place in found.certain] == [7, 11, 12, 20, 26]
            assert not found.uncertain


def test_the_text_of_a_renamed_parameter_is_that_of_its_keyword_and_not_of_the_field(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PARAMETERS)) as engine:
        for name, new_name in (("Cat.feed.size", "amount"), ("Cat.__init__.age", "years"), ("make.age", "months")):
            engine.edits.apply(engine.edits.rename_symbol(name, new_name).changes)
        users, cats = engine.files.read("users.py").text, engine.files.read("cats.py").text
    assert "feed('fish', amount=size)" in users and "dict(size=6)" in users
    assert "self.age = years" in cats
    assert "def make(name, months=lambda age: age):" in cats and "return Cat(name, years=months), grow" in cats


@pytest.mark.parametrize(
    "use",
    [
        "options = {}\nmake(**options)\n",
        "run = print\nrun(make)\n",
        "def call(thing):\n    thing(age=4)\n",
        "from functools import partial\npartial(make, age=4)\n",
    ],
)
def test_a_parameter_waits_while_a_caller_may_name_it(tmp_path: Path, use: str) -> None:
    with indexed(tree(tmp_path / "w", {**PARAMETERS, "more.py": "from cats import make\n\n" + use})) as engine:
        found = engine.edits.rename_symbol("make.age", "years")
        assert any(place.is_open for place in found.uncertain)
        every = engine.edits.rename_symbol("make.age", "years", accept=["all"])
        assert not any(place.is_open for place in every.uncertain)


def test_a_parameter_does_not_take_a_name_that_its_function_uses(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PARAMETERS)) as engine:
        with pytest.raises(InvalidArgument, match="'food' has a meaning already"):
            engine.edits.rename_symbol("Cat.feed.size", "food")
        with pytest.raises(SymbolNotFound):
            engine.edits.rename_symbol("Cat.feed.weight", "amount")


def test_a_java_class_takes_its_file_along(tmp_path: Path) -> None:
    files = {
        "zoo/Cat.java": "package zoo;\n\npublic class Cat {\n    public Cat() {}\n    class Paw {}\n}\n",
        "zoo/Zoo.java": "package zoo;\n\nclass Zoo {\n    Cat cat = new Cat();\n}\n",
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        found = engine.edits.rename_symbol("Cat", "Tiger")
        assert any("zoo/Cat.java becomes zoo/Tiger.java" in note for note in found.notes)
        engine.edits.apply(found.changes)
        assert engine.files.read("zoo/Tiger.java").text == files["zoo/Cat.java"].replace("Cat", "Tiger")
        assert not (engine.root / "zoo" / "Cat.java").exists()
        paw = engine.edits.rename_symbol("Paw", "Claw")
        assert {change.path for change in paw.changes} == {"zoo/Tiger.java"}
        (engine.root / "zoo" / "Lion.java").write_text("package zoo;\n")
        with pytest.raises(InvalidArgument, match="exists already"):
            engine.edits.apply(engine.edits.rename_symbol("Tiger", "Lion").changes)
        assert (engine.root / "zoo" / "Tiger.java").exists()


def test_a_fixture_of_a_test_waits(tmp_path: Path) -> None:
    text = "import pytest\n\n\n@pytest.fixture(\n    scope='module'\n)\ndef cat(): ...\n\n\ndef test_it(cat): ...\n"
    with indexed(tree(tmp_path / "w", {"test_a.py": text})) as engine:
        assert any(place.is_open for place in engine.edits.rename_symbol("cat", "lion").uncertain)
        assert not any(place.is_open for place in engine.edits.rename_symbol("test_it", "test_cat").uncertain)


def test_a_field_of_a_struct_without_a_name_is_not_taken_for_a_variable(tmp_path: Path) -> None:
    text = (
        'package a\n\nfunc f() string {\n\tcases := []struct{ name string }{{name: "x"}}\n'
        '\tfor _, c := range cases {\n\t\treturn c.name\n\t}\n\treturn ""\n}\n'
    )
    with indexed(tree(tmp_path / "w", {"go.mod": "module a\n", "a.go": text})) as engine:
        found = engine.edits.rename_symbol("f.name", "title")
        assert {4, 6} <= {place.line for place in (*found.certain, *found.uncertain)}


GO_KEYS = {
    "go.mod": "module m\n",
    "a.go": (
        "package a\n\n"
        "const (\n\tlow = 1 << iota\n\thigh\n)\n\n"
        "type table map[int]string\n"
        "type point struct{ low, high int }\n\n"
        'var names = map[int]string{low: "low", high: "high"}\n'
        'var named = table{high: "high"}\n'
        'var nested = []map[int]string{{high: "high"}, {low: "low"}}\n'
        "var points = []point{{high: high}}\n"
        "var unnamed = []struct{ high int }{{high: high}}\n"
        "var one = point{low: 1, high: high}\n"
    ),
}


def test_a_key_of_a_map_in_go_is_a_use_and_a_key_of_a_struct_is_a_field(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", GO_KEYS)) as engine:
        found = engine.edits.rename_symbol(".high", "top", path="a.go", accept=["none"])
        assert [(place.line, place.column) for place in found.certain] == [
            (5, 2), (11, 40), (12, 19), (13, 32), (14, 29), (15, 43), (16, 31)]  # fmt: skip
        field = engine.edits.rename_symbol("point.high", "top", path="a.go", accept=["none"])
        assert [(place.line, place.column) for place in field.certain] == [(9, 25), (14, 23), (16, 25)]


GO_EMBEDDING = {
    "go.mod": "module m\n",
    "a.go": (
        "package a\n\n"
        "type Animal struct{ age int }\n"
        "type Cat struct{ Animal }\n"
        "type Dog struct{ *Animal }\n"
        "type Farm struct{ Animal string }\n\n"
        "func use(cat Cat, farm Farm) (int, string) {\n"
        "\tcat = Cat{Animal: Animal{age: 1}}\n"
        "\tdog := Dog{Animal: &cat.Animal}\n"
        "\treturn dog.Animal.age, farm.Animal\n"
        "}\n"
    ),
}


def test_a_type_of_go_is_renamed_where_the_field_that_embeds_it_has_its_name(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", GO_EMBEDDING)) as engine:
        found = engine.edits.rename_symbol(".Animal", "Beast", path="a.go", accept=["none"])
        assert not [place for place in found.uncertain if place.is_open]
        assert [(place.line, place.column) for place in found.certain] == [
            (3, 6), (4, 18), (5, 19), (9, 12), (9, 20), (10, 13), (10, 26), (11, 13)]  # fmt: skip


SHORTHANDS = {
    "a.ts": (
        "export interface Options { same: boolean; other: number }\n"
        "export function use(options: Options) {\n  const { same } = options\n  return same\n}\n"
        "export function make(same: boolean): Options {\n  return { same, other: 1 }\n}\n"
        "export function deep({ same = true }: Options) {\n  return same\n}\n"
        "export function named({ same: mine }: Options) {\n  return mine\n}\n"
        "export const limit = 1\nexport const both = { limit }\n"
    ),
    "a.rs": (
        "pub struct Options { pub same: bool }\n"
        "fn make(same: bool) -> Options { Options { same } }\n"
        "fn used(options: Options) -> bool { let Options { same } = options; same }\n"
    ),
}


@pytest.mark.parametrize(
    ("name", "path", "lines"),
    [
        ("Options.same", "a.ts", {1: "export interface Options { equal: boolean; other: number }", 3: "  const { equal: same } = options",
            4: "  return same", 7: "  return { equal: same, other: 1 }", 9: "export function deep({ equal: same = true }: Options) {",
            12: "export function named({ equal: mine }: Options) {"}),
        ("limit", "a.ts", {15: "export const equal = 1", 16: "export const both = { limit: equal }"}),
        ("Options.same", "a.rs", {1: "pub struct Options { pub equal: bool }", 2: "fn make(same: bool) -> Options { Options { equal: same } }",
            3: "fn used(options: Options) -> bool { let Options { equal: same } = options; same }"}),
    ],
)  # fmt: skip
def test_a_shorthand_keeps_the_one_of_its_two_names_that_is_not_renamed(
    tmp_path: Path, name: str, path: str, lines: dict[int, str]
) -> None:
    with indexed(tree(tmp_path / "w", SHORTHANDS)) as engine:
        found = engine.edits.rename_symbol(name, "equal", path=path, accept=["none"])
        engine.edits.apply(found.changes)
    now = (tmp_path / "w" / path).read_text().splitlines()
    assert {number: now[number - 1] for number in lines} == lines


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("const { bake } = oven()\nbake()\n", "const { heat: bake } = oven()\nbake()\n"),
        (
            "const made = oven()\nconst bake = made.bake\nbake()\n",
            "const made = oven()\nconst bake = made.heat\nbake()\n",
        ),
        ("const { bake: own } = oven()\nown()\n", "const { heat: own } = oven()\nown()\n"),
    ],
)
def test_a_call_of_a_variable_calls_what_it_has_and_keeps_its_name(tmp_path: Path, text: str, renamed: str) -> None:
    oven = "export function oven() {\n  return { bake() { return 1 } }\n}\n"
    files = {"oven.ts": oven, "use.ts": f"import {{ oven }} from './oven'\n{text}"}
    with indexed(tree(tmp_path / "w", files)) as engine:
        calls = [edge.line for edge in engine.symbols.trace("bake", under="oven.ts").edges if edge.kind == "call"]
        assert calls == [files["use.ts"].count("\n")]
        engine.edits.apply(engine.edits.rename_symbol("bake", "heat", path="oven.ts", accept=["none"]).changes)
    assert (tmp_path / "w/use.ts").read_text() == f"import {{ oven }} from './oven'\n{renamed}"


def test_a_keyword_of_a_call_names_the_parameter_of_a_constructor_and_not_the_field(tmp_path: Path) -> None:
    text = (
        "from dataclasses import dataclass\n\n\nclass Cat:\n    def __init__(self, name):\n        self.name: str = name\n\n\n"
        "@dataclass\nclass Dog:\n    name: str\n\n\nCat(name='Tom').name\nDog(name='Rex').name\n"
    )
    with indexed(tree(tmp_path / "w", {"zoo.py": text})) as engine:
        assert [place.line for place in engine.edits.rename_symbol("Dog.name", "title").certain] == [11, 15, 15]
        with engine.symbols.renames() as renames:
            uses = renames.find_definition_uses("zoo.py", "name", 6, ["zoo.py"])
    assert uses is not None
    assert sorted(place for place, kind in uses.items() if kind in ("definition", "exact")) == [
        ("zoo.py", 6, 14), ("zoo.py", 14, 17)]  # fmt: skip


def test_a_field_of_an_element_of_a_struct_without_a_name_is_not_taken_for_one_of_a_library(tmp_path: Path) -> None:
    text = (
        "package a\n\ntype conf struct{ open int }\ntype other struct{ open int }\n\nfunc f() int {\n"
        "\ttests := []struct{ want conf }{{conf{open: 1}}}\n\tfor _, test := range tests {\n"
        "\t\treturn test.want.open\n\t}\n\treturn 0\n}\n"
    )
    with indexed(tree(tmp_path / "w", {"go.mod": "module a\n", "a.go": text})) as engine:
        found = engine.edits.rename_symbol("conf.open", "wide")
        assert 9 in {place.line for place in found.uncertain if place.is_open} | {place.line for place in found.certain}


def test_a_class_of_kotlin_is_renamed_with_its_imports_types_and_labels(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", KOTLIN)) as engine:
        found = engine.edits.rename_symbol("Cat", "Lion")
        assert waiting(found) == []
        engine.edits.apply(found.changes)
        text = "".join(engine.files.read(path).text for path in KOTLIN)
        assert "Cat" not in text
        assert "${this@Lion.name}" in text and "fun Lion.extra()" in text and "import zoo.Lion" in text


def test_a_property_of_kotlin_is_renamed_in_templates_and_as_a_label_of_the_constructor(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", KOTLIN)) as engine:
        found = engine.edits.rename_symbol("Cat.name", "title")
        assert waiting(found) == []
        engine.edits.apply(found.changes)
        own, use = (engine.files.read(path).text for path in KOTLIN)
        assert '"$food for $title, ${this@Cat.title}, \\$name"' in own
        assert "Cat(title = title + other.title)" in own
        assert 'val name = cat.title\n    println("$name ${cat.title}")' in use


def test_uses_in_java_of_kotlin_and_in_kotlin_of_java_wait(tmp_path: Path) -> None:
    java = {
        "zoo/Keeper.java": (
            "package zoo;\n\nclass Keeper {\n    int getLevel() { return 1; }\n"
            "    void work(Cat cat) {\n        cat.feed(cat.getName());\n    }\n}\n"
        ),
        "park/Level.kt": "package park\n\nfun level(keeper: zoo.Keeper) = keeper.level\n",
    }
    with indexed(tree(tmp_path / "w", KOTLIN | java)) as engine:
        assert "zoo/Keeper.java:6 in java" in waiting(engine.edits.rename_symbol("Cat.feed", "serve"))
        assert "zoo/Keeper.java:5 in java" in waiting(engine.edits.rename_symbol("Cat", "Lion"))
        of_property = waiting(engine.edits.rename_symbol("Cat.name", "title"))
        assert of_property == ["zoo/Keeper.java:6 may use name under this name, and is to be changed by hand"]
        of_getter = waiting(engine.edits.rename_symbol("Keeper.getLevel", "getRank"))
        assert of_getter == ["park/Level.kt:3 may use getLevel under this name, and is to be changed by hand"]
        assert waiting(engine.edits.rename_symbol("Keeper", "Guard")) == ["park/Level.kt:3 in kotlin"]


def test_members_of_php_are_renamed_with_their_dollar_sign_and_in_strings_that_use_them(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PHP)) as engine:
        count = engine.edits.rename_symbol("Cat.count", "total")
        assert [(place.line, place.column) for place in count.certain] == [(6, 21), (7, 63)]
        engine.edits.apply(
            engine.edits.rename_symbol("Cat.__construct.name", "title", accept=["src/use.php:7"]).changes
        )
        own, use = engine.files.read("src/Cat.php").text, engine.files.read("src/use.php").text
        assert "public string $title) { self::$count += strlen($title); }" in own
        assert '"$food for {$this->title} and $this->title"' in own
        assert "$cat->title" in use and "new Cat(title: $feed)" in use


def test_a_class_of_php_takes_its_file_along(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PHP)) as engine:
        found = engine.edits.rename_symbol("Cat", "Lion")
        assert waiting(found) == []
        engine.edits.apply(found.changes)
        assert engine.files.read("src/Lion.php").text == PHP["src/Cat.php"].replace("class Cat", "class Lion")
        use = (
            PHP["src/use.php"]
            .replace("App\\Cat", "App\\Lion")
            .replace("(Cat", "(Lion")
            .replace("m Cat", "m Lion")
            .replace("new Cat", "new Lion")
        )
        assert engine.files.read("src/use.php").text == use


def test_a_member_is_not_given_the_name_of_one_that_a_base_or_a_subclass_has(tmp_path: Path) -> None:
    text = "class A:\n    def one(self): ...\n\n\nclass B(A):\n    def two(self): ...\n\n\nclass C:\n    def six(self): ...\n"
    with indexed(tree(tmp_path / "w", {"a.py": text})) as engine:
        for name, new_name in (("A.one", "two"), ("B.two", "one")):
            with pytest.raises(InvalidArgument, match="has a meaning already"):
                engine.edits.rename_symbol(name, new_name)
        assert engine.edits.rename_symbol("A.one", "six").changes


def test_without_an_index_nothing_is_renamed(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "w", KOTLIN)) as engine, pytest.raises(NotIndexed):
        engine.edits.rename_symbol("Cat", "Lion")


@pytest.mark.parametrize("files", [KOTLIN, PHP])
def test_a_rename_there_and_back_gives_the_same_bytes(tmp_path: Path, files: dict[str, str]) -> None:
    with indexed(tree(tmp_path / "w", files)) as engine:
        before = contents(engine.root)
        renamed = 0
        for path in files:
            for _, symbol in engine.symbols.outline(path).symbols:
                found = engine.edits.rename_symbol(f".{symbol.qualified}", "entirely_fresh", path=path, accept=["all"])
                engine.edits.apply(found.changes)
                new = f"{symbol.qualified.rpartition('.')[0]}.entirely_fresh"
                last = symbol.qualified.rpartition(".")[2]
                back = engine.edits.rename_symbol(f".{new.lstrip('.')}", last, accept=["all"])
                engine.edits.apply(back.changes)
                assert contents(engine.root) == before, symbol.qualified
                renamed += 1
        assert renamed > 8
