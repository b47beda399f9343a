"""A rename of a member changes its uses by their types, and waits while a use may be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.edit import Renaming
from context_engine.errors import InvalidArgument, SymbolNotFound
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


PARAMETERS = {
    "cats.py": (
        "class Cat:\n"
        "    def __init__(self, name, age=1):\n        self.name = name\n        self.age = age\n\n"
        "    def feed(self, food, *, size=1):\n        return food * size\n\n\n"
        "class Tiger(Cat):\n    def feed(self, food, *, size=2):\n        return [food for _ in range(size)]\n\n\n"
        "def make(name, age=lambda age: age):\n"
        "    def grow():\n        return age + 1\n\n    return Cat(name, age=age), grow\n"
    ),
    "users.py": (
        "from cats import Cat, Tiger, make\n\n"
        "size = 3\n"
        "Cat('Tom', age=2).feed('fish', size=size)\n"
        "Tiger(name='Tim', age=3).feed(food='meat', size=4)\n"
        "make(name='Tom', age=5)\n"
        "print('size', dict(size=6))\n"
    ),
}


def changed(found: Renaming) -> list[str]:
    return [f"{place.path}:{place.line}" for place in found.certain]


def test_a_parameter_is_renamed_in_its_function_its_overrides_and_as_keyword(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PARAMETERS)) as engine:
        found = engine.edits.rename_symbol("Cat.feed.size", "amount")
        assert changed(found) == ["cats.py:6", "cats.py:7", "cats.py:11", "cats.py:12", "users.py:4", "users.py:5"]
        assert not any(place.is_open for place in found.uncertain)
        engine.edits.apply(found.changes)
        text = engine.files.read("users.py").text
        assert "feed('fish', amount=size)" in text
        assert "dict(size=6)" in text


def test_a_parameter_of_a_constructor_is_not_the_field_nor_that_of_another_function(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PARAMETERS)) as engine:
        found = engine.edits.rename_symbol("Cat.__init__.age", "years")
        assert changed(found) == ["cats.py:2", "cats.py:4", "cats.py:19", "users.py:4", "users.py:5"]
        engine.edits.apply(found.changes)
        text = engine.files.read("cats.py").text
        assert "self.age = years" in text
        assert "return Cat(name, years=age), grow" in text
        closure = engine.edits.rename_symbol("make.age", "years")
        assert changed(closure) == ["cats.py:15", "cats.py:17", "cats.py:19", "users.py:6"]
        engine.edits.apply(closure.changes)
        text = engine.files.read("cats.py").text
        assert "def make(name, years=lambda age: age):" in text
        assert "return Cat(name, years=years), grow" in text


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


LIBRARY = (
    "import re\nimport threading\nfrom lib import wrap\n\n\n"
    "class Cat(threading.Thread):\n    def run(self): ...\n\n    def purr(self): ...\n\n    def _hide(self): ...\n\n\n"
    "class Dog:\n    def bark(self): ...\n\n    def __len__(self): ...\n\n\n"
    "wrap(Dog()).bark()\nre.compile('a').bark()\n"
)


def test_a_member_of_what_a_library_gave_waits_but_for_modules_that_give_only_their_own(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", {"a.py": LIBRARY})) as engine:
        found = engine.edits.rename_symbol("Dog.bark", "howl")
        assert [place.line for place in found.uncertain if place.is_open] == [20]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Cat.run", "it may override a member of a base that is not in the workspace"),
        ("Cat._hide", ""),
        ("Dog.__len__", "the language calls it by this name"),
    ],
)
def test_a_name_that_something_outside_may_call_waits(tmp_path: Path, name: str, why: str) -> None:
    with indexed(tree(tmp_path / "w", {"a.py": LIBRARY})) as engine:
        found = engine.edits.rename_symbol(name, "fresh")
        assert [place.why for place in found.uncertain if place.is_open] == ([why] if why else [])


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


def test_elements_of_a_named_list_of_go_have_its_type(tmp_path: Path) -> None:
    text = (
        "package a\n\ntype node struct{ kind int }\ntype nodes []*node\n\nfunc (n nodes) f() int { return n[0].kind }\n"
    )
    with indexed(tree(tmp_path / "w", {"go.mod": "module a\n", "a.go": text})) as engine:
        assert [place.line for place in engine.edits.rename_symbol("node.kind", "sort").certain] == [3, 6]


def test_a_method_of_a_class_without_a_name_is_renamed_with_the_one_it_overrides(tmp_path: Path) -> None:
    files = {
        "a/Task.java": "package a;\n\ninterface Task {\n    void work();\n}\n",
        "a/Use.java": (
            "package a;\n\nclass Use {\n    void use(Task given) {\n        Task task = new Task() {\n"
            "            @Override\n            public void work() {}\n        };\n        task.work();\n"
            "        given.work();\n    }\n}\n"
        ),
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        found = engine.edits.rename_symbol("Use.use.work", "run")
        assert changed(found) == ["a/Task.java:4", "a/Use.java:7", "a/Use.java:9", "a/Use.java:10"]


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


@pytest.mark.parametrize("implementing", ["get open(): number { return 1 }", "open = 1"])
def test_a_property_is_renamed_with_the_one_of_an_interface_whatever_implements_it(
    tmp_path: Path, implementing: str
) -> None:
    text = f"interface Door {{ readonly open: number }}\nclass Gate implements Door {{\n  {implementing}\n}}\n"
    with indexed(tree(tmp_path / "w", {"a.ts": text})) as engine:
        assert changed(engine.edits.rename_symbol("Gate.open", "wide")) == ["a.ts:1", "a.ts:3"]


def test_a_use_whose_receiver_may_be_of_another_class_waits(tmp_path: Path) -> None:
    text = (
        "class Cat:\n    def feed(self): ...\n\n\nclass Dog:\n    def feed(self): ...\n\n\n"
        "def both(one: Cat | Dog, cat: Cat):\n    one.feed()\n    cat.feed()\n"
    )
    with indexed(tree(tmp_path / "w", {"zoo.py": text})) as engine:
        found = engine.edits.rename_symbol("Cat.feed", "serve")
    assert [place.line for place in found.certain] == [2, 11]
    assert [(place.line, place.is_open) for place in found.uncertain] == [(10, True)]


def test_a_definition_of_go_waits_while_an_example_has_its_name(tmp_path: Path) -> None:
    files = {
        "go.mod": "module a\n",
        "a.go": "package a\n\ntype Cat struct{}\n\nfunc (Cat) Feed() {}\n\nfunc (Cat) Walk() {}\n",
        "a_test.go": "package a\n\nfunc ExampleCat_Feed() {}\n\nfunc ExampleCat_Feed_fish() {}\n",
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        found = engine.edits.rename_symbol("Cat.Feed", "Serve")
        assert [(place.path, place.line) for place in found.uncertain if place.is_open] == [
            ("a_test.go", 3),
            ("a_test.go", 5),
        ]
        assert not [place for place in engine.edits.rename_symbol("Cat.Walk", "Run").uncertain if place.is_open]
        example = engine.edits.rename_symbol("ExampleCat_Feed", "ExampleCat_Eat")
        assert any("go vet" in place.why for place in example.uncertain if place.is_open)


RUST = {
    "Cargo.toml": '[package]\nname = "a"\n',
    "src/lib.rs": (
        "mod show;\nuse std::fmt;\n\n"
        "pub struct Version { pub patch: u64, pub major: u64 }\n\n"
        "pub trait Grow { fn grow(&mut self); fn shrink(&mut self); }\n\n"
        "impl Grow for Version { fn grow(&mut self) {} fn shrink(&mut self) {} }\n\n"
        "macro_rules! forward {\n    () => { fn shrink(&mut self) { (**self).shrink() } };\n}\n"
        "macro_rules! make {\n    ($one:expr) => { Version { patch: $one, major: 1 } };\n}\n"
        "pub fn limit() -> u64 { 1 }\n"
        'fn call() { println!("{}", limit()); }\n'
    ),
    "src/show.rs": (
        "use crate::Version;\nuse std::fmt::{self, Display};\n\nimpl Display for Version {\n"
        '    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {\n        write!(f, "{}", self.patch)\n    }\n}\n'
    ),
}


@pytest.mark.parametrize(
    ("name", "certain", "waits"),
    [
        ("Version.patch", ["src/lib.rs:4", "src/show.rs:6"], ["src/lib.rs:14"]),
        ("limit", ["src/lib.rs:16", "src/lib.rs:17"], []),
        ("Grow.grow", ["src/lib.rs:6", "src/lib.rs:8"], []),
        ("Grow.shrink", ["src/lib.rs:6", "src/lib.rs:8"], ["src/lib.rs:11", "src/lib.rs:11"]),
        ("Version.fmt", ["src/show.rs:5"], ["src/show.rs:5"]),
    ],
)
def test_macros_of_rust_are_read_and_methods_of_traits_of_libraries_wait(
    tmp_path: Path, name: str, certain: list[str], waits: list[str]
) -> None:
    with indexed(tree(tmp_path / "w", RUST)) as engine:
        path = "src/show.rs" if name == "Version.fmt" else "src/lib.rs"
        found = engine.edits.rename_symbol(name, "other", path=path)
    assert changed(found) == certain
    assert [f"{place.path}:{place.line}" for place in found.uncertain if place.is_open] == waits


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ("type A = Options['same']", True), ("type B = Pick<Options, 'same'>", True), ("type C = Omit<Options, 'x' | 'same'>", True),
        ("const d = (o: Options) => o['same']", True), ("const e = (o: Options) => 'same' in o", True),
        ("const f = 'same'", False), ("console.log('the same')", False),
    ],
)  # fmt: skip
def test_a_string_that_names_a_property_of_typescript_waits(tmp_path: Path, text: str, is_open: bool) -> None:
    files = {"a.ts": f"export interface Options {{ same: boolean }}\n{text}\n"}
    with indexed(tree(tmp_path / "w", files)) as engine:
        found = engine.edits.rename_symbol("Options.same", "equal")
        assert [place.line for place in found.uncertain if place.is_open] == ([2] if is_open else [])
        assert [place.line for place in found.certain] == [1]


def test_a_keyword_of_a_call_names_the_parameter_of_a_constructor_and_not_the_field(tmp_path: Path) -> None:
    text = (
        "from dataclasses import dataclass\n\n\nclass Cat:\n    def __init__(self, name):\n        self.name: str = name\n\n\n"
        "@dataclass\nclass Dog:\n    name: str\n\n\nCat(name='Tom').name\nDog(name='Rex').name\n"
    )
    with indexed(tree(tmp_path / "w", {"zoo.py": text})) as engine:
        assert [place.line for place in engine.edits.rename_symbol("Dog.name", "title").certain] == [11, 15, 15]
        uses = engine.symbols.find_definition_uses("zoo.py", "name", 6, ["zoo.py"])
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
