"""In Kotlin and PHP a rename changes what is resolved without doubt, and waits for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.edit import Renaming
from context_engine.errors import InvalidArgument, NotIndexed
from tests.support.edits import contents
from tests.support.engines import indexed, open_engine
from tests.support.trees import tree

KOTLIN = {
    "zoo/Cat.kt": (
        "package zoo\n\n"
        "interface Purrs { fun purr(): Int }\n"
        "open class Cat(val name: String, private val age: Int = 1) : Purrs {\n"
        "    override fun purr() = age\n"
        "    fun feed(food: String): String {\n"
        "        listOf(1).forEach { return@forEach }\n"
        '        return "$food for $name, ${this@Cat.name}, \\$name"\n'
        "    }\n"
        "    operator fun plus(other: Cat) = Cat(name = name + other.name)\n"
        "    override fun toString() = name\n"
        "}\n"
        "fun Cat.extra() = feed('x')\n"
    ),
    "park/Use.kt": (
        "package park\n\n"
        "import zoo.Cat\nimport zoo.extra\n\n"
        "fun use(cat: Cat) {\n"
        '    val name = cat.name\n    println("$name ${cat.name}")\n'
        "    cat.feed(cat.extra())\n    for (one in many()) one.feed()\n"
        "}\n"
    ),
}
PHP = {
    "src/Cat.php": (
        "<?php\nnamespace App;\n\n"
        "class Cat extends Animal {\n"
        "    const LEGS = 4;\n"
        "    private static $count = 0;\n"
        "    public function __construct(public string $name) { self::$count += strlen($name); }\n"
        '    public function feed(string $food): string { return "$food for {$this->name} and $this->name"; }\n'
        "    public function legs() { return static::LEGS; }\n"
        "    public function all() { return array_map([$this, 'feed'], ['a', 'feed']); }\n"
        "}\n"
    ),
    "src/Animal.php": "<?php\nnamespace App;\n\nabstract class Animal {\n    abstract function legs();\n}\n",
    "src/use.php": (
        "<?php\nuse App\\Cat;\n\n"
        "/** @param Cat $cat */\n"
        "function helper(Cat $cat, $other) {\n"
        "    $feed = $cat->feed('a') . $cat->name . $other->feed();\n"
        "    return new Cat(name: $feed);\n"
        "}\n"
    ),
}


def places(found: Renaming) -> list[str]:
    return [f"{place.path}:{place.line}" for place in found.certain]


def waiting(found: Renaming) -> list[str]:
    return [f"{place.path}:{place.line} {place.why}" for place in found.uncertain if place.is_open]


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


def test_a_use_in_kotlin_whose_receiver_is_not_known_waits(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", KOTLIN)) as engine:
        found = engine.edits.rename_symbol("Cat.feed", "serve")
        assert places(found) == ["park/Use.kt:9", "zoo/Cat.kt:6", "zoo/Cat.kt:13"]
        assert [row.partition(" ")[0] for row in waiting(found)] == ["park/Use.kt:10"]


@pytest.mark.parametrize("name", ["Cat.plus", "Cat.toString"])
def test_a_name_that_signs_or_a_base_outside_call_waits(tmp_path: Path, name: str) -> None:
    with indexed(tree(tmp_path / "w", KOTLIN)) as engine:
        files = {"lib/Dog.kt": "package lib\nclass Dog : Base() {\n    override fun bark() = 1\n    fun run() = 2\n}\n"}
        tree(engine.root, files)
        assert waiting(engine.edits.rename_symbol(name, "fresh"))
        assert waiting(engine.edits.rename_symbol("Dog.bark", "fresh"))
        assert not waiting(engine.edits.rename_symbol("Dog.run", "fresh"))


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


def test_a_method_of_php_that_is_named_in_a_string_or_called_on_something_unknown_waits(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PHP)) as engine:
        found = engine.edits.rename_symbol("Cat.feed", "serve")
        assert places(found) == ["src/Cat.php:8", "src/use.php:6"]
        assert {row.partition(" ")[0] for row in waiting(found)} == {"src/Cat.php:10", "src/use.php:6"}


def test_an_overridden_method_of_php_is_renamed_with_it(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", PHP)) as engine:
        found = engine.edits.rename_symbol("Animal.legs", "paws")
        assert places(found) == ["src/Animal.php:5", "src/Cat.php:9"] and waiting(found) == []


@pytest.mark.parametrize(
    ("files", "name", "new_name"),
    [
        (KOTLIN, "Cat.feed", "purr"),
        (KOTLIN, "Cat.name", "food"),
        (KOTLIN, "Cat", "Purrs"),
        (PHP, "Cat.feed", "legs"),
        (PHP, "Cat", "Animal"),
        (PHP, "Cat.feed", "class-name"),
    ],
)
def test_a_name_that_means_something_already_is_refused(
    tmp_path: Path, files: dict[str, str], name: str, new_name: str
) -> None:
    with indexed(tree(tmp_path / "w", files)) as engine, pytest.raises(InvalidArgument):
        engine.edits.rename_symbol(name, new_name)


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


def test_a_method_that_a_class_inherits_for_an_interface_is_renamed_with_it(tmp_path: Path) -> None:
    files = {
        "a.php": "<?php\ninterface Feeds { function feed(); }\ntrait Feeding { public function feed() {} }\n"
        "class Cat implements Feeds { use Feeding; }\nclass Dog { public function feed() {} }\n"
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        assert places(engine.edits.rename_symbol("Feeds.feed", "serve")) == ["a.php:2", "a.php:3"]
        assert places(engine.edits.rename_symbol("Dog.feed", "serve")) == ["a.php:5"]


def test_a_declaration_for_several_platforms_waits(tmp_path: Path) -> None:
    files = {"common/A.kt": "package a\nexpect fun now(): Int\n", "jvm/A.kt": "package a\nactual fun now(): Int = 1\n"}
    with indexed(tree(tmp_path / "w", files)) as engine:
        assert waiting(engine.edits.rename_symbol("now", "today", path="jvm/A.kt"))


def test_a_function_of_kotlin_in_a_file_that_is_not_understood_waits(tmp_path: Path) -> None:
    files = {
        "zoo/Cat.kt": "package zoo\n\nfun feed() = 1\nfun broken( {\n",
        "zoo/Use.kt": "package zoo\n\nfun use() = feed()\n",
        "zoo/Dog.kt": "package zoo\n\nfun walk() = 1\n",
        "zoo/Misread.kt": "package zoo\n\nclass Lead : Unknown( {\n    fun use() = walk()\n}\n",
    }
    with indexed(tree(tmp_path / "w", files)) as engine:
        assert any("does not understand" in why for why in waiting(engine.edits.rename_symbol(".feed", "serve")))
        assert not any("does not understand" in why for why in waiting(engine.edits.rename_symbol(".walk", "stroll")))
