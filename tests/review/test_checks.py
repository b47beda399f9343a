"""Each check finds what its examples mark and nothing else: the examples beside it are its tests."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from context_engine.model import Finding
from context_engine.review.checks import CHECKS, Check, change_checks, file_checks, use_checks
from context_engine.review.finding import CATEGORIES
from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile
from context_engine.text.diff_reader import parse_diff
from tests.support.changes import PARSERS, CheckExample, changed_file, list_examples, of_example, surroundings

BY_RULE = {check.rule: check for check in CHECKS}
TEXT = [(check, example) for check in CHECKS if check.kind == "text" for example in list_examples(check)]
FILE = [(check, example) for check in CHECKS if check.kind == "file" for example in list_examples(check)]
SCRIPTS = [
    (check, example) for check, example in TEXT if "javascript" in check.languages and example.path.endswith(".js")
]


def lines_of(check: Check, path: str, text: str) -> list[int]:
    source = FileVersion(path, text.encode(), PARSERS)
    return sorted({note.span.first for note in check.run(source)}) if check.reads(source) else []


def named(each: tuple[Check, CheckExample]) -> str:
    return f"{each[0].rule}: {each[1].new.splitlines()[0][:40]}"


@pytest.mark.parametrize(("check", "example"), TEXT, ids=map(named, TEXT))
def test_a_check_of_a_text_finds_what_its_examples_mark(check: Check, example: CheckExample) -> None:
    assert lines_of(check, example.path, example.text) == list(example.marked_lines)


@pytest.mark.parametrize("suffix", [".ts", ".tsx"])
@pytest.mark.parametrize(("check", "example"), SCRIPTS, ids=map(named, SCRIPTS))
def test_what_is_wrong_in_javascript_is_wrong_in_typescript(check: Check, example: CheckExample, suffix: str) -> None:
    assert lines_of(check, example.path.replace(".js", suffix), example.text) == list(example.marked_lines)


@pytest.mark.parametrize(("check", "example"), FILE, ids=map(named, FILE))
def test_a_check_of_two_versions_finds_what_its_examples_mark(check: Check, example: CheckExample) -> None:
    assert sorted({note.span.first for note in check.run(of_example(example))}) == list(example.marked_lines)


def test_every_check_has_a_name_of_its_own_and_constants_that_mean_something() -> None:
    assert len({check.rule for check in CHECKS}) == len(CHECKS)
    wrong = [
        check.rule
        for check in CHECKS
        if not 0 <= check.priority <= 3 or not 0.5 <= check.confidence < 1 or check.category not in CATEGORIES
    ]
    assert wrong == []


def test_every_check_of_a_text_shows_what_it_finds_and_what_not() -> None:
    elsewhere = {"secret"}  # an example of a secret would be one: tests/review/test_reviewer.py makes them
    lacking = {
        check.rule
        for check in CHECKS
        if check.kind == "text" and {bool(example.marked_lines) for example in list_examples(check)} != {True, False}
    }
    assert lacking == elsewhere


# -- what a change does to a file beside its text --


def found(check: Check, diff: str, new: bytes | None = b"", old: bytes | None = b"") -> list[Finding]:
    return list(check.run(ReviewedFile.of(parse_diff(diff)[0], old, new, PARSERS)))


@pytest.mark.parametrize("path", ["../outside.py", "a/../../b.py", "sub/.git/hooks/post-checkout", "/etc/cron.d/job"])
def test_a_path_that_leads_out_is_found(path: str) -> None:
    diff = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-x\n+y\n"
    assert found(file_checks.path_escape, diff)
    assert not found(file_checks.path_escape, diff.replace(path, "a/b..c/.github/d.py"))


@pytest.mark.parametrize(
    ("target", "leads_out"), [("/etc/passwd", True), ("../../x", True), ("../b", False), ("c", False)]
)
def test_a_link_that_leads_out_is_found(target: str, *, leads_out: bool) -> None:
    head = "diff --git a/a/l b/a/l\nnew file mode 120000\nindex 0000000..1111111\n--- /dev/null\n+++ b/a/l\n"
    diff = f"{head}@@ -0,0 +1 @@\n+{target}\n\\ No newline at end of file\n"
    assert bool(found(file_checks.symlink_escape, diff, target.encode(), None)) is leads_out


@pytest.mark.parametrize(("text", "is_wrong"), [(b"hello\n", True), (b"#!/bin/sh\n", False), (b"\x00\x01", False)])
def test_a_text_that_is_made_executable_needs_an_interpreter(text: bytes, *, is_wrong: bool) -> None:
    diff = "diff --git a/run b/run\nold mode 100644\nnew mode 100755\n"
    assert bool(found(file_checks.executable_text, diff, text, text)) is is_wrong


def test_a_binary_of_more_than_a_megabyte_is_found() -> None:
    diff = "diff --git a/x.bin b/x.bin\nnew file mode 100644\nindex 0000000..1111111\nBinary files /dev/null and b/x.bin differ\n"
    assert found(file_checks.large_binary, diff, b"\0" * 1_000_001, None)
    assert not found(file_checks.large_binary, diff, b"\0" * 1_000, None)


# -- what a change shows as a whole --


def across(
    check: Check, changes: Mapping[str, tuple[str | None, str | None]], rest: Mapping[str, str]
) -> list[Finding]:
    files = [changed_file(path, *versions) for path, versions in changes.items()]
    tree = {**rest, **{path: new for path, (_, new) in changes.items() if new is not None}}
    return list(check.run(files, surroundings(tree)))


def test_a_function_that_is_gone_and_still_imported_is_found() -> None:
    gone = {"shop/prices.py": ("def total(x):\n    return x\n\ndef keep(): pass\n", "def keep(): pass\n")}
    user = {"shop/__init__.py": "", "shop/cart.py": "from shop.prices import (\n    keep,\n    total,\n)\n"}
    (note,) = across(use_checks.broken_use, gone, user)
    assert note.path == "shop/prices.py"
    assert note.evidence == ("shop/cart.py:3: total,",)
    assert across(use_checks.broken_use, gone, user | {"shop/cart.py": "from shop.prices import keep\n"}) == []
    assert across(use_checks.broken_use, gone, user | {"shop/cart.py": "from other.prices import total\n"}) == []


def test_a_name_that_the_module_still_hands_on_is_not_gone() -> None:
    moved = {"shop/prices.py": ("def total(x): return x\n", "from shop.sums import total\n")}
    user = {"shop/cart.py": "from shop.prices import total\n", "shop/__init__.py": ""}
    assert across(use_checks.broken_use, moved, user) == []
    star = {"shop/prices.py": ("def total(x): return x\n", "from shop.sums import *\n")}
    assert across(use_checks.broken_use, star, user) == []


def test_an_export_that_is_gone_and_still_imported_is_found() -> None:
    gone = {"src/prices.ts": ("export function total() {}\nexport const keep = 1;\n", "export const keep = 1;\n")}
    assert across(use_checks.broken_use, gone, {"src/cart.ts": "import { total } from './prices';\n"})
    assert not across(use_checks.broken_use, gone, {"src/cart.ts": "import { total } from './others';\n"})


@pytest.mark.parametrize(
    ("path", "old", "new", "line"),
    [
        ("a.go", "package a\n\nfunc load() {}\n\nfunc f() {\n\tload()\n}\n", "package a\n\nfunc read() {}\n\nfunc f() {\n\tload()\n}\n", 6),
        ("a.ts", "function load() {}\nexport const a = load();\n", "function read() {}\nexport const a = load();\n", 2),
        ("a.rs", "fn load() {}\nfn f() {\n    load();\n}\n", "fn read() {}\nfn f() {\n    load();\n}\n", 3),
    ],
)  # fmt: skip
def test_a_function_that_is_renamed_and_still_called_in_its_file_is_found(
    path: str, old: str, new: str, line: int
) -> None:
    (note,) = across(use_checks.broken_use, {path: (old, new)}, {})
    assert note.evidence[0].startswith(f"{path}:{line}:")
    elsewhere = {path: (old, new), f"b{path}": ("", old)}
    assert across(use_checks.broken_use, elsewhere, {}) == []


def test_a_type_of_other_parameters_is_another_type() -> None:
    gone = {"a.cs": ("delegate void Act();\nclass Keep {}\n", "class Keep {}\n")}
    user = "class User {\n    void Use(Act<string> act) {}\n}\n"
    assert across(use_checks.broken_use, gone, {"b.cs": user}) == []
    assert across(use_checks.broken_use, gone, {"b.cs": user.replace("<string>", "")})


def test_a_function_that_is_imported_now_is_not_gone() -> None:
    moved = {"a.ts": ("function load() {}\nload();\n", "import { load } from './b';\nload();\n")}
    assert across(use_checks.broken_use, moved, {}) == []


def test_files_that_moved_together_still_find_each_other() -> None:
    moved = "diff --git a/old/a.ts b/new/a.ts\nsimilarity index 100%\nrename from old/a.ts\nrename to new/a.ts\n"
    text = "export function total() {}\n"
    file = ReviewedFile.of(parse_diff(moved)[0], text.encode(), text.encode(), PARSERS)
    beside = {"new/a.ts": text, "new/b.ts": "import { total } from './a';\n"}
    assert list(use_checks.broken_use.run([file], surroundings(beside))) == []
    behind = {"new/a.ts": text, "old/b.ts": "import { total } from './a';\n"}
    (note,) = use_checks.broken_use.run([file], surroundings(behind))
    assert note.evidence == ("old/b.ts:1: import { total } from './a';",)


def test_a_call_that_no_longer_fits_is_found() -> None:
    resigned = {"shop/prices.py": ("def total(items, tax=0): ...\n", "def total(items, rate): ...\n")}
    calls = {"shop/__init__.py": "", "shop/cart.py": "from shop.prices import total\n\nbill = total([1])\n"}
    (note,) = across(use_checks.broken_use, resigned, calls)
    assert "it does not pass rate" in note.body
    assert note.evidence == ("shop/cart.py:3: bill = total([1])",)
    for fine in ("total([1], 2)", "total([1], rate=2)", "total(*both)", "total([1], **more)"):
        calls["shop/cart.py"] = f"from shop.prices import total\n\nbill = {fine}\n"
        assert across(use_checks.broken_use, resigned, calls) == []


def test_a_macro_of_c_has_no_arguments_to_compare() -> None:
    limit = "#define LIMIT 100\nint f(void) { return LIMIT; }\n"
    assert across(use_checks.broken_use, {"a.c": (limit, limit.replace("LIMIT;", "LIMIT - 1;"))}, {}) == []


def test_a_call_that_was_wrong_before_is_nobodys_news() -> None:
    resigned = {"shop/prices.py": ("def total(items, tax=0): ...\n", "def total(items, rate=0): ...\n")}
    calls = {"shop/__init__.py": "", "shop/cart.py": "from shop.prices import total\n\nbill = total()\n"}
    assert across(use_checks.broken_use, resigned, calls) == []


def test_an_import_of_a_file_that_is_not_there_is_found() -> None:
    imports = (
        "import { a } from './prices';\nimport { b } from './sums';\nimport c from 'react';\nimport d from '../..';\n"
    )
    added = {"src/cart.ts": ("", imports)}
    (note,) = across(change_checks.unresolved_import, added, {"src/sums.ts": "export const b = 1;\n"})
    assert (note.path, note.span.first) == ("src/cart.ts", 1)
    python = {"shop/cart.py": ("", "from .prices import a\nfrom .sums import b\nimport os\n")}
    (note,) = across(change_checks.unresolved_import, python, {"shop/sums.py": "b = 1\n", "shop/__init__.py": ""})
    assert note.span.first == 1


def test_what_a_module_makes_as_it_runs_lies_in_no_file() -> None:
    added = {"shop/cart.py": ("", "from .six.moves.queue import Queue\nfrom .gone.moves import Queue\n")}
    (note,) = across(change_checks.unresolved_import, added, {"shop/six.py": "moves = 1\n", "shop/__init__.py": ""})
    assert note.span.first == 2


def test_a_package_that_moved_as_a_whole_is_found_wherever_its_program_begins() -> None:
    moved = "diff --git a/old/app/__init__.py b/new/app/__init__.py\nsimilarity index 100%\nrename from old/app/__init__.py\nrename to new/app/__init__.py\n"
    text = "total = 1\n"
    file = ReviewedFile.of(parse_diff(moved)[0], text.encode(), text.encode(), PARSERS)
    tree = {"new/app/__init__.py": text, "new/run.py": "from app import total\n"}
    assert list(use_checks.broken_use.run([file], surroundings(tree))) == []


def test_a_file_that_stands_again_where_another_left_has_its_names() -> None:
    moved = "diff --git a/shop/app.py b/shop/base/app.py\nsimilarity index 90%\nrename from shop/app.py\nrename to shop/base/app.py\n"
    text = "class App: ...\n"
    file = ReviewedFile.of(parse_diff(moved)[0], text.encode(), text.encode(), PARSERS)
    tree = {"shop/__init__.py": "from .app import App\n", "shop/base/app.py": text, "shop/app.py": "class App: ...\n"}
    assert list(use_checks.broken_use.run([file], surroundings(tree))) == []
    assert list(use_checks.broken_use.run([file], surroundings(tree | {"shop/app.py": "class Other: ...\n"})))


def test_a_dependency_without_its_lock_file_is_found() -> None:
    manifest = {"package.json": ('{"dependencies": {"a": "1"}}\n', '{"dependencies": {"a": "1", "b": "2"}}\n')}
    (note,) = across(change_checks.lock_behind, manifest, {"package-lock.json": "{}"})
    assert "b changed, package-lock.json did not" in note.body
    assert across(change_checks.lock_behind, manifest, {}) == []
    assert across(change_checks.lock_behind, manifest | {"package-lock.json": ("{}", '{"b": 2}')}, {}) == []
    version = {
        "package.json": (
            '{"version": "1", "dependencies": {"a": "1"}}\n',
            '{"version": "2", "dependencies": {"a": "1"}}\n',
        )
    }
    assert across(change_checks.lock_behind, version, {"package-lock.json": "{}"}) == []


def test_a_dependency_that_is_a_part_of_the_same_tree_has_no_lock() -> None:
    manifest = {
        "pyproject.toml": ("[project]\ndependencies = ['core==1']\n", "[project]\ndependencies = ['core==2']\n")
    }
    lock = '[[package]]\nname = "core"\nversion = "2"\nsource = { editable = "core" }\n'
    assert across(change_checks.lock_behind, manifest, {"uv.lock": lock}) == []
    assert across(change_checks.lock_behind, manifest, {"uv.lock": lock.replace("editable", "registry")})


def test_without_a_tree_nothing_is_said_of_it() -> None:
    files = [changed_file("src/cart.ts", "", "import { a } from './prices';\n")]
    assert [
        note for check in CHECKS if check.kind == "change" for note in check.run(files, ReviewContext(PARSERS))
    ] == []


def test_every_marked_example_mentions_what_its_check_looks_for() -> None:
    blind = {
        check.rule
        for check, example in TEXT
        if example.marked_lines and check.mentions and not any(each in example.text for each in check.mentions)
    }
    assert blind == set()
