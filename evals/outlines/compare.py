"""Compare the definitions of an outline, by name and first line, with those that the language's own tool names.

    python evals/outlines/compare.py LANGUAGE [FOLDER ...] [--files 200] [--misses 20]

Without a folder the constructs of tests/languages are compared.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from context_engine.languages import Grammars, Languages, outline_file  # noqa: E402
from tests.languages.test_constructs import read_constructs  # noqa: E402

LANGUAGES = Languages.builtin()
NODE = ["node", HERE / "definitions.js"]
C = [os.environ.get("CLANG_PYTHON", sys.executable), HERE / "c.py"]
COMMANDS: dict[str, list[str | Path]] = {
    "typescript": [*NODE, "typescript"],
    "javascript": [*NODE, "typescript"],
    "php": [*NODE, "php"],
    "ruby": [*NODE, "ruby"],
    "java": ["java", HERE / "Java.java"],
    "kotlin": ["java", "-cp", os.environ.get("KOTLIN_JARS", ""), HERE / "Kotlin.java"],
    "go": ["go", "run", HERE / "definitions.go"],
    "rust": [sys.executable, HERE / "rust.py"],
    "c": C,
    "cpp": C,
}
Definitions = set[tuple[str, int]]
HEADERS = (".h", ".hpp", ".hh", ".hxx")


def main() -> None:
    """Print a row of the table, and what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=["python", *COMMANDS])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--misses", type=int, default=0)
    chosen = parser.parse_args()
    with TemporaryDirectory() as folder:
        folders = chosen.folders or [write_constructs(chosen.language, Path(folder))]
        files = sorted(path for folder in folders for path in list_files(chosen.language, folder))
        files = random.Random(40).sample(files, min(chosen.files if chosen.folders else len(files), len(files)))
        named = ask(chosen.language, files, folders)
        grammars = Grammars(Path(folder))
        sums: Counter[str] = Counter()
        for path in files:
            tool = named[str(path)]
            if ("", 0) in tool:
                sums["refused"] += 1
                continue
            outline = outline_file(LANGUAGES[chosen.language], path.read_bytes(), grammars)
            ours = {(symbol.name, symbol.first) for symbol in outline.symbols}
            missed, extra = tool - ours, ours - tool
            sums.update(files=1, tool=len(tool), found=len(tool & ours), extra=len(extra))
            for label, differing in (("missed", missed), ("extra", extra)):
                for name, line in sorted(differing, key=lambda one: one[1])[: chosen.misses]:
                    print(f"  {label} {name} {path}:{line} {read_line(path, line)}")
        print(
            f"| {chosen.language} | "
            + " | ".join(str(sums[key]) for key in ("files", "refused", "tool", "found", "extra"))
            + " |"
        )


def list_files(language: str, folder: Path) -> Iterator[Path]:
    """Yield the files of a language below a folder."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and "vendor" not in path.parts:
            data = path.read_bytes()
            found = LANGUAGES.detect(str(path.relative_to(folder)), data[:65536])
            is_minified = max(map(len, data.split(b"\n"))) > 2000
            if found is not None and found.name == language and not is_minified:
                yield path


def write_constructs(language: str, folder: Path) -> Path:
    """Write each construct of a language into a file of its own."""
    start = {"php": "<?php\n", "go": "package p\n"}.get(language, "")
    for number, (_, text) in enumerate(read_constructs(language)):
        (folder / f"{number:03}{LANGUAGES[language].suffixes[0]}").write_text(f"{start}{text}\n", "utf-8")
    return folder


def ask(language: str, files: list[Path], folders: list[Path]) -> dict[str, Definitions]:
    """Return what the tool of a language says that each file defines."""
    named: dict[str, Definitions] = defaultdict(set)
    if language == "python":
        for path in files:
            named[str(path)].update(read_python(path.read_bytes()))
        return named
    paths = "".join(f"{path}\n" for path in files)
    headers = {str(path.parent) for folder in folders for path in folder.rglob("*") if path.suffix in HEADERS}
    command = [*COMMANDS[language], *(sorted(headers) if language in ("c", "cpp") else ())]
    answer = subprocess.run(command, input=paths, capture_output=True, text=True, check=True).stdout
    for row in answer.splitlines():
        path, line, name = row.split("\t")
        named[path].add((name, int(line)))
    return named


def read_python(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield what `ast` says that a file defines: functions, classes, and names assigned in a module or a class."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):
        yield "", 0
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                targets = (
                    statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
                )
                is_assignment = isinstance(statement, ast.Assign | ast.AnnAssign)
                inner = (
                    [one for target in targets for one in getattr(target, "elts", [target])] if is_assignment else []
                )
                yield from ((name.id, statement.lineno) for name in inner if isinstance(name, ast.Name))


def read_line(path: Path, line: int) -> str:
    """Return the start of a line of a file."""
    return path.read_bytes().decode("utf-8", "replace").split("\n")[line - 1].strip()[:100]


if __name__ == "__main__":
    main()
