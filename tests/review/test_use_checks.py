"""A use that fitted the tree before a change and does not fit it now is found; where that is not sure, nothing is said."""

from __future__ import annotations

import pytest

from context_engine.model import Finding
from context_engine.review.checks import change_checks, use_checks
from tests.support.changes import changed_file, surroundings

GO_MOD = {"go.mod": "module example.com/shop\n"}
TILL = "class Till:\n    def __init__(self, charge):\n        self.charge = charge\n\n    def total(self, items):\n        return self.charge\n"
PYTHON_USER = "from shop.till import Till\n\n\ndef bill(till: Till):\n    return till.total([1])\n\n\ndef make():\n    return Till(2)\n"
GO_TILL = "package shop\n\ntype Till struct{ charge int }\n\nfunc (t *Till) Total(items int) int { return t.charge }\n"
GO_USER = "package shop\n\nfunc bill(t *Till) int {\n\treturn t.Total(1)\n}\n"
TS_TILL = "export class Till {\n  charge = 1;\n  total(items: number): number {\n    return this.charge;\n  }\n}\n"
TS_USER = "import { Till } from './till';\n\nexport function bill(till: Till) {\n  return till.total(1);\n}\n"
JS_TILL = "class Till {\n  total(items) {\n    return 1;\n  }\n\n  bill() {\n    return this.total(1);\n  }\n}\n"
JAVA_TILL = "package shop;\n\npublic class Till {\n    public int total(int items) {\n        return 1;\n    }\n}\n"
JAVA_USER = "package shop;\n\nclass Bill {\n    int bill(Till till) {\n        return till.total(1);\n    }\n}\n"
PACKAGE = {"shop/__init__.py": ""}

TREES = {
    "python": ("shop/till.py", TILL, PACKAGE | {"shop/bill.py": PYTHON_USER}),
    "go": ("till.go", GO_TILL, GO_MOD | {"bill.go": GO_USER}),
    "typescript": ("src/till.ts", TS_TILL, {"src/bill.ts": TS_USER}),
    "javascript": ("src/till.js", JS_TILL, {}),
    "java": ("shop/Till.java", JAVA_TILL, {"shop/Bill.java": JAVA_USER}),
}


def found(path: str, old: str | None, new: str | None, rest: dict[str, str]) -> list[Finding]:
    tree = rest | ({path: new} if new is not None else {})
    return list(use_checks.broken_use.run([changed_file(path, old, new)], surroundings(tree)))


@pytest.mark.parametrize("language", TREES)
def test_a_renamed_method_with_a_caller_left_is_found_and_its_repair_is_not(language: str) -> None:
    path, text, rest = TREES[language]
    for name in ("total(items", "Total(items"):
        renamed = text.replace(name, f"sum{name}")
        if renamed != text:
            (note,) = found(path, text, renamed, rest)
            assert "is gone" in note.body
            assert found(path, renamed, text, rest) == []
            assert found(path, text, renamed + f"// total and {name[:5]} are elsewhere\n", rest) == []


@pytest.mark.parametrize(
    ("language", "old", "new", "optional"),
    [
        ("python", "total(self, items)", "total(self, items, day)", "total(self, items, day=1)"),
        ("python", "__init__(self, charge)", "__init__(self, charge, day)", "__init__(self, charge, *days)"),
        ("go", "Total(items int)", "Total(items int, day int)", "Total(items int, days ...int)"),
        ("typescript", "total(items: number)", "total(items: number, day: number)", "total(items: number, day?: number)"),
        ("java", "total(int items)", "total(int items, int day)", "total(int items, int... days)"),
    ],
)  # fmt: skip
def test_a_required_parameter_with_a_caller_left_is_found_and_an_optional_one_is_not(
    language: str, old: str, new: str, optional: str
) -> None:
    path, text, rest = TREES[language]
    (note,) = found(path, text, text.replace(old, new), rest)
    assert "does not pass" in note.body
    assert found(path, text.replace(old, new), text, rest) == []
    assert found(path, text, text.replace(old, optional), rest) == []


KOTLIN_WORDS = """object Words : Provider() {
    override fun kind(): String {
    }
    private class Match(val text: Column<*>, val mode: Mode) : Op<Boolean>() {
    }
    override fun <T : String?> Column<T>.match(mode: Mode?): Op<Boolean> =
        Match(this, mode ?: Mode.STRICT)
    override fun <T : String?> like(
    ) {
        return if ((dialect as Mysql).isNew) {
        }
    }
}
 */
open class Mysql : Dialect(Words, Functions.ALL) {
    override fun fill(tables: List<Table>) {
        tr.exec(
                    "   AND $tables"
        ) { rows ->
            while (rows.next()) {
                found.getOrPut(name) { arrayListOf() }.add(
                )
            }
        }
    }
}
"""


def test_a_definition_that_only_the_parser_loses_is_not_gone() -> None:
    update = "    override fun update(\n    ): String = with(Builder(true)) {\n        all.appendTo(this) { (column, value) ->\n        }\n        where?.let {\n        }\n    }\n"
    changed = KOTLIN_WORDS.replace("}\n */", f"{update}}}\n */")
    assert found("src/Words.kt", KOTLIN_WORDS, changed, {}) == []


def test_a_method_that_is_overloaded_takes_the_old_calls() -> None:
    path, text, rest = TREES["java"]
    overloaded = text.replace("total(int items)", "total(int items, int day)").removesuffix("}\n")
    assert (
        found(path, text, overloaded + "    public int total(long items) {\n        return 1;\n    }\n}\n", rest) == []
    )


@pytest.mark.parametrize(
    ("language", "right", "wrong"),
    [
        ("python", "return self.charge", "return self.chrge"),
        ("go", "return t.charge", "return t.charg"),
        ("typescript", "return this.charge", "return this.chrge"),
    ],
)
def test_a_misspelt_member_is_found_where_its_class_is_known(language: str, right: str, wrong: str) -> None:
    path, text, rest = TREES[language]
    misspelt = text.replace(right, wrong)
    (note,) = found(path, text, misspelt, rest)
    assert "charge does" in note.body
    assert found(path, misspelt, text, rest) == []
    assert found(path, text, misspelt, rest | {"notes.md": wrong}) == []


@pytest.mark.parametrize("head", ["class Till(Base):", "def __getattr__(name): ...\n\n\nclass Till:"])
def test_a_member_may_come_from_where_the_text_does_not_show(head: str) -> None:
    text = TILL.replace("class Till:", head)
    assert found("shop/till.py", text, text.replace("return self.charge", "return self.chrge"), PACKAGE) == []


def test_a_misspelt_member_is_found_in_a_try_and_beside_members_that_are_set_on_other_objects() -> None:
    text = TILL.replace("        return self.charge", "        setattr(self.parts[0], 'a', 1)\n        try:\n            return self.charge") + "        finally:\n            pass\n"  # fmt: skip
    (note,) = found("shop/till.py", text, text.replace("return self.charge", "return self.chrge"), PACKAGE)
    assert "charge does" in note.body
    text = text.replace("setattr(self.parts[0],", "setattr(self,")
    assert found("shop/till.py", text, text.replace("return self.charge", "return self.chrge"), PACKAGE) == []


def test_a_misspelt_name_of_a_script_is_found_and_a_global_is_not() -> None:
    text = "export function first(hosts) {\n  return hosts[0];\n}\n"
    (note,) = found("a.js", text, text.replace("return hosts", "return hots"), {})
    assert "hosts does" in note.body
    assert found("a.js", text, text.replace("return hosts", "return performance"), {}) == []
    short = text.replace("hosts", "host")
    assert len(found("a.js", short, short.replace("return host", "return hots"), {})) == 1


@pytest.mark.parametrize("target", ["..", "../..", "../../lib", "./folder", "../other"])
def test_an_import_of_a_folder_is_one_of_its_main_file(target: str) -> None:
    script = f"const made = require('{target}');\n"
    tree = {
        "package.json": '{"main": "source/app.js"}',
        "source/app.js": "",
        "test/index.js": "",
        "lib/index.js": "",
        "test/deep/folder/package.json": '{"main": "lib/start.js"}',
        "test/deep/folder/lib/start.js": "",
        "test/other/package.json": '{"exports": "./begin.js"}',
        "test/other/begin.js": "",
        "test/deep/a.js": script,
    }
    file = changed_file("test/deep/a.js", "", script)
    assert list(change_checks.unresolved_import.run([file], surroundings(tree))) == []
