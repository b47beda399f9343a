"""The size of the package, held by a ratchet: lines, files, exported names and the other counts of architecture rules.

`tests/project/size.toml` has each count; it may fall and never rise. `python -m tests.project.test_size` writes the
counts of today. A package that must grow says why in the message of the commit that raises its number.
"""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.support.source_trees import PACKAGE, ROOT, nodes, parsed

LIMITS = Path(__file__).with_name("size.toml")
LANGUAGES = frozenset({"c", "cpp", "csharp", "go", "java", "javascript", "kotlin", "php", "python", "ruby", "rust", "typescript"})  # fmt: skip


def texts(folder: str) -> dict[Path, str]:
    """The text of each Python file below a folder that git tracks or has not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    paths = [ROOT / name for name in names if name.endswith(".py") and (ROOT / name).is_file()]
    return {path: path.read_text(encoding="utf-8") for path in paths}


def package_of(path: Path) -> str:
    """The package of a file; `root` for a module of `context_engine` itself."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "root"


def exported_names(path: Path, tree: ast.Module) -> int:
    """How many names a package exports: those that its `__init__` imports for type checkers."""
    if path.name != "__init__.py" or path.parent.parent != PACKAGE:
        return 0
    return sum(len(node.names) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "context_engine." in (node.module or "") and not (node.module or "").endswith("lazy_exports"))  # fmt: skip


def local_imports(tree: ast.Module) -> int:
    """How many imports are inside of functions."""
    if not any(isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset for node in nodes(tree)):
        return 0
    functions = [node for node in nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return len({id(node) for function in functions for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)})  # fmt: skip


def is_value_class(node: ast.AST) -> bool:
    """Whether a class is a dataclass, a named tuple or a struct."""
    if not isinstance(node, ast.ClassDef):
        return False
    written = [ast.unparse(part) for part in (*node.decorator_list, *node.bases)]
    return any(re.match(r"(dataclass|NamedTuple|TypedDict|(msgspec\.)?Struct)\b", part) for part in written)


def asks_for_a_language(node: ast.AST) -> bool:
    """Whether a node compares the name of a language, or its rules, with something, or looks it up in a table.

    >>> [asks_for_a_language(ast.parse(text).body[0].value) for text in (
    ...     "a == 'go'", "file.language.name in KNOWN", "TABLE.get(language.name)", "rules.style", "a == 'cat'")]
    [True, True, True, False, False]
    """
    parts: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        given = [node.left, *node.comparators]
        parts = [
            *given,
            *(one for part in given if isinstance(part, ast.Tuple | ast.Set | ast.List) for one in part.elts),
        ]
        if any(isinstance(part, ast.Constant) and part.value in LANGUAGES for part in parts):
            return True
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        parts = node.args
    elif isinstance(node, ast.Match | ast.Subscript):
        parts = [node.subject if isinstance(node, ast.Match) else node.slice]
    return any(re.search(r"\blanguage(_name|\.name)$|\b(rules|resolution)\.style$", ast.unparse(part)) for part in parts)  # fmt: skip


@cache
def counts() -> dict[str, dict[str, int]]:
    """Every count, by group: of each package, and of all."""
    lines: Counter[str] = Counter()
    exports: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for path, text in texts("context_engine").items():
        tree = parsed(path.relative_to(PACKAGE).as_posix())
        package = package_of(path)
        lines[package] += text.count("\n")
        exports[package] += exported_names(path, tree)
        patterns = text.count("re.compile(")
        whole["files"] += 1
        whole["re.compile"] += patterns
        whole["re.compile in one file, most"] = max(whole["re.compile in one file, most"], patterns)
        whole["value classes"] += sum(map(is_value_class, nodes(tree)))
        whole["imports inside functions"] += local_imports(tree)
        if package != "languages":
            place = " in review" if package == "review" else ""
            whole[f"comparisons with a language{place}"] += sum(map(asks_for_a_language, nodes(tree)))
    whole["lines"] = lines.total()
    tests = texts("tests")
    whole["lines of tests"] = sum(text.count("\n") for text in tests.values())
    whole["sleep( in tests"] = sum(text.count("sleep(") for path, text in tests.items() if path.name != Path(__file__).name)  # fmt: skip
    named = {package: count for package, count in exports.items() if count}
    return {"all": dict(whole), "exported names": named, "lines": dict(lines)}


@pytest.mark.parametrize("group", ["all", "exported names", "lines"])
def test_no_count_of_the_size_of_the_package_rises(group: str) -> None:
    limits = tomllib.loads(LIMITS.read_text(encoding="utf-8"))[group]
    risen = {name: (count, limits.get(name, 0)) for name, count in counts()[group].items() if count > limits.get(name, 0)}  # fmt: skip
    assert risen == {}, "make something smaller; or run `python -m tests.project.test_size`, and say why in the commit"


def main() -> None:
    """Write the counts of today."""
    groups = [
        f'["{group}"]\n' + "".join(f'"{name}" = {count}\n' for name, count in sorted(rows.items()))
        for group, rows in counts().items()
    ]
    LIMITS.write_text("\n".join(groups), encoding="utf-8")


if __name__ == "__main__":
    main()
