"""Rename random definitions of pinned repositories with the product, and let compilers and checkers judge.

    python evals/renames/renames.py --mirrors DIR [--language go] [--only spf13/cobra] [--count 25] [--seed 1]

Each definition is renamed only if the product is sure. All renames of a repository are applied one after the other, the
checker of the language compares its messages with those before, and everything is renamed back: the bytes must be the
same. Nothing of the repository is run. Checkers are used where they are installed (`--tools`).
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from context_engine.engine import Engine
from context_engine.errors import CallError
from context_engine.settings import Settings
from evals.references.golden import check_out

REPOSITORIES = Path(__file__).parents[1] / "references" / "repositories.toml"
HELD_OUT = Path(__file__).with_name("repositories.toml")
KINDS = frozenset(
    {"function", "method", "class", "interface", "struct", "trait", "enum", "field", "property", "constant"}
)
SUFFIXES = {
    "python": (".py",), "go": (".go",), "java": (".java",), "kotlin": (".kt",), "php": (".php",), "rust": (".rs",),
    "typescript": (".ts", ".tsx", ".js", ".jsx", ".mjs"),
}  # fmt: skip
MARK = re.compile(r"(?:Qz\d+Qz|QZ\d+QZ|qz\d+qz)")
"""What a new name ends with, so that messages can be compared with those before."""
CHECK_S = 900


class Outcome(NamedTuple):
    """What became of one rename."""

    repository: str
    language: str
    path: str
    line: int
    name: str
    kind: str
    outcome: str
    detail: str = ""


def new_name(name: str, number: int) -> str:
    """Return a name that is spelled as the old one, so that its case still means the same."""
    return f"{name}QZ{number}QZ" if name.isupper() else f"{name}Qz{number}Qz"


def definitions(engine: Engine, root: Path, language: str, under: str) -> Iterator[tuple[str, int, str, str]]:
    """Yield (path, line, qualified name, kind) of every definition that is asked about."""
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        if (
            file.is_symlink()
            or not file.is_file()
            or not path.startswith(under)
            or file.suffix not in SUFFIXES[language]
        ):
            continue
        try:
            outline = engine.symbols.outline(path)
        except CallError:
            continue
        for _, symbol in outline.symbols:
            if symbol.kind in KINDS and re.fullmatch(r"[A-Za-z_]\w*", symbol.qualified.rpartition(".")[2]):
                yield path, symbol.span.first, symbol.qualified, symbol.kind


def shorten(data: bytes | None) -> bytes:
    """Return a content where `{ name: name }` is written as `{ name }`: a rename writes out what it takes apart."""
    return re.sub(rb"\b(\w+): \1\b", rb"\1", data or b"")


def contents(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file."""
    files = (file for file in root.rglob("*") if file.is_file() and ".context-engine" not in file.parts)
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in files}


def run(command: list[str], root: Path, **more: str) -> str:
    """Run a checker and return what it prints."""
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=CHECK_S, check=False, env=os.environ | more
    )
    return done.stdout + done.stderr


def check_python(root: Path, tools: Path, row: dict[str, Any]) -> list[str]:
    """Run compileall and basedpyright."""
    compiled = run([sys.executable, "-m", "compileall", "-q", "."], root, PYTHONPYCACHEPREFIX=tempfile.mkdtemp())
    said = run([str(tools / "v/bin/basedpyright"), "--outputjson", "."], root)
    found = [line for line in compiled.splitlines() if "Error" in line]
    for one in json.loads(said[said.index("{") :])["generalDiagnostics"]:
        if one["severity"] == "error":
            place = f"{Path(one['file']).relative_to(root.resolve())}:{one.get('range', {}).get('start', {}).get('line', 0)}"
            found.append(f"{place} {one.get('rule', '')} {one['message'].splitlines()[0]}")
    return found


def check_go(root: Path, tools: Path, row: dict[str, Any]) -> list[str]:
    """Run go vet, which checks the types of tests as well."""
    said = run([str(tools / "v/bin/go"), "vet", "./..."], root, GOFLAGS="-mod=mod", GOTOOLCHAIN="local")
    return [line for line in said.splitlines() if re.search(r"\.go:\d+", line)] or [said[-300:]] * ("FAIL" in said)


def check_rust(root: Path, tools: Path, row: dict[str, Any]) -> list[str]:
    """Run rustc on each crate, and on its unit tests, in the order of the row: no registry of crates is needed."""
    made = root.parent / "target"
    made.mkdir(exist_ok=True)
    found: list[str] = []
    known: list[str] = []
    for spec in row["module"].split(";"):
        name, path, features = re.fullmatch(r"(\w+)=([^:]+):?(.*)", spec).groups()
        folder = (root / path).parent.parent
        edition = re.search(r'edition\s*=\s*"(\d+)"', (folder / "Cargo.toml").read_text())
        words = [f'--cfg=feature="{one}"' for one in features.split(",") if one]
        words += [word for one in known for word in ("--extern", f"{one}={made}/lib{one}.rmeta")]
        for more in (
            ["--crate-type=lib", "--emit=metadata", "-o", f"{made}/lib{name}.rmeta"],
            ["--test", "--emit=metadata", "-o", f"{made}/test"],
        ):
            said = run(["rustc", "--crate-name", name, f"--edition={edition[1] if edition else 2015}", "--cap-lints=allow",
                        "--error-format=short", *words, *more, path], root)  # fmt: skip
            found += [line for line in said.splitlines() if re.search(r": error", line)]
        known.append(name)
    return found


def check_java(root: Path, tools: Path, row: dict[str, Any]) -> list[str]:
    """Run javac on all files together, without libraries."""
    files = [str(file) for file in sorted(root.rglob("*.java")) if file.stem not in ("module-info", "package-info")]
    (root.parent / "files").write_text("\n".join(files))
    said = run(["javac", "-proc:none", "-nowarn", "-Xmaxerrs", "100000", "-implicit:none", "-XDshould-stop.ifError=FLOW",
                "-XDrawDiagnostics", "-d", str(root.parent / "classes"), f"@{root.parent / 'files'}"], root)  # fmt: skip
    return [line for line in said.splitlines() if re.search(r"\.java:\d+:\d+: compiler\.err", line)]


def check_kotlin(root: Path, tools: Path, row: dict[str, Any]) -> list[str]:
    """Run the Kotlin compiler on the sources of the module, without libraries."""
    jars = next(tools.glob("v/lib/python3*/site-packages/run_kotlin_kernel/jars"))
    given = (row.get("module") or row.get("under") or ".").split(",")
    said = run(["java", "-Xmx3g", "-cp", f"{jars}/*", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-nowarn", "-no-stdlib",
                "-no-reflect", "-cp", str(next(jars.glob("kotlin-stdlib-*.jar"))), "-Xmulti-platform",
                "-d", str(root.parent / "classes"), *[str(root / one) for one in given]], root)  # fmt: skip
    return [line for line in said.splitlines() if re.search(r"error:", line)]


def check_typescript(root: Path, tools: Path, row: dict[str, Any]) -> list[str]:
    """Run tsc on all files, JavaScript as well, without libraries."""
    files = [str(file.relative_to(root)) for file in sorted(root.rglob("*"))
             if file.suffix in SUFFIXES["typescript"] and file.is_file()]  # fmt: skip
    (root.parent / "files").write_text("\n".join(files))
    said = run(["node", str(tools / "node_modules/typescript/bin/tsc"), "--noEmit", "--allowJs", "--checkJs", "--jsx", "preserve",
                "--target", "esnext", "--module", "nodenext", "--moduleResolution", "nodenext", "--skipLibCheck",
                "--experimentalDecorators", "--pretty", "false", f"@{root.parent / 'files'}"], root)  # fmt: skip
    return [line for line in said.splitlines() if ": error TS" in line]


def check_php(root: Path, tools: Path, row: dict[str, Any]) -> list[str]:
    """Return the messages of intelephense: names that are not defined."""
    said = run(["node", str(Path(__file__).parent / "php_messages.js"), str(tools), str(root)], root)
    return said.splitlines()


CHECKS: dict[str, Callable[[Path, Path, dict[str, Any]], list[str]]] = {
    "python": check_python, "go": check_go, "rust": check_rust, "java": check_java, "kotlin": check_kotlin,
    "typescript": check_typescript, "php": check_php,
}  # fmt: skip


def normalize(messages: list[str], root: Path) -> Counter[str]:
    """Return messages without new names, columns and the order of the program."""
    plain = (MARK.sub("", one.replace(f"{root}/", "")) for one in messages)
    return Counter(re.sub(r"\((\d+),\d+\)", r"(\1)", re.sub(r":(\d+):\d+", r":\1", one)) for one in plain)


class Applied(NamedTuple):
    """A rename that was written: the definition under its new name, and the files before."""

    number: int
    path: str
    full: str
    changed: str
    undo_id: int
    before: dict[str, bytes | None]
    outcome: Outcome


class Trial:
    """The renames of one repository."""

    def __init__(self, row: dict[str, Any], root: Path, engine: Engine, tools: Path) -> None:
        self._row = row
        self._root = root
        self._engine = engine
        self._tools = tools
        self._now: dict[tuple[str, str], str] = {}
        self.outcomes: list[Outcome] = []

    def run(self, count: int, seed: int) -> None:
        """Draw definitions, rename the sure ones, check, and rename back."""
        language = self._row["language"]
        every = list(definitions(self._engine, self._root, language, self._row.get("under", "")))
        drawn = random.Random(f"{seed} {self._row['name']}").sample(every, min(count, len(every)))
        before = contents(self._root)
        messages = normalize(CHECKS[language](self._root, self._tools, self._row), self._root)
        applied = [done for number, one in enumerate(drawn, 1) if (done := self._rename(number, *one)) is not None]
        after = CHECKS[language](self._root, self._tools, self._row)
        new = [one for one in after if normalize([one], self._root) - messages]
        print(f"# {self._row['name']}: {sum(messages.values())} messages before, {len(new)} new, "
              f"{len(applied)} of {len(drawn)} applied", flush=True)  # fmt: skip
        for one in new:
            print("  new:", one.replace(f"{self._root}/", "")[:250], flush=True)
        blamed = {one.number for message in new for one in self._find_blamed(applied, message)}
        for one in reversed(applied):
            outcome = "wrong" if one.number in blamed else self._rename_back(one)
            if outcome != "same bytes":
                print("  ", outcome, one.outcome.path, one.full, flush=True)
            if outcome not in ("same bytes", "other bytes"):
                self._engine.edits.undo(one.undo_id)
            self.outcomes.append(one.outcome._replace(outcome=outcome))
        now = contents(self._root)
        for path in sorted(path for path in {*before, *now} if shorten(before.get(path)) != shorten(now.get(path))):
            rows = difflib.unified_diff(
                *(some.get(path, b"").decode("utf-8", "replace").split("\n") for some in (before, now)), path, "", n=0
            )
            print("  the repository is not as it was:", *list(rows)[:12], sep="\n    ", flush=True)

    def run_files(self, count: int, seed: int) -> None:
        """Draw files, give the sure ones another name with their imports, check, and rename back."""
        row, language = self._row, self._row["language"]
        every = sorted({path for path, *_ in definitions(self._engine, self._root, language, row.get("under", ""))})
        drawn = random.Random(f"{seed} {row['name']}").sample(every, min(count, len(every)))
        before = contents(self._root)
        messages = normalize(CHECKS[language](self._root, self._tools, row), self._root)
        applied: list[tuple[str, str, str]] = []
        for number, path in enumerate(drawn, 1):
            folder, _, name = path.rpartition("/")
            stem, _, suffix = name.rpartition(".")
            changed = f"{stem}Qz{number}Qz"
            start = Outcome(row["name"], language, path, 1, path, "file", "")
            try:
                found = self._engine.edits.rename_symbol(path, changed)
                if places := [place for place in found.uncertain if place.is_open]:
                    self.outcomes.append(start._replace(outcome="waits", detail=f"{places[0].path}:{places[0].line}"))
                    continue
                self._engine.edits.apply(found.changes)
            except CallError as error:
                self.outcomes.append(start._replace(outcome="refused", detail=error.message))
                continue
            applied.append((path, f"{folder}/{changed}.{suffix}".lstrip("/"), stem))
        after = CHECKS[language](self._root, self._tools, row)
        new = [one for one in after if normalize([one], self._root) - messages]
        print(f"# {row['name']}: {sum(messages.values())} messages before, {len(new)} new, "
              f"{len(applied)} of {len(drawn)} files applied", flush=True)  # fmt: skip
        for one in new:
            print("  new:", one.replace(f"{self._root}/", "")[:250], flush=True)
        for path, now, stem in reversed(applied):
            is_blamed = any(
                re.search(rf"\b{re.escape(stem)}\b|{re.escape(now.rpartition('/')[2])}", one) for one in new
            )
            outcome = "wrong" if is_blamed else "same bytes"
            try:
                self._engine.edits.apply(self._engine.edits.rename_symbol(now, stem).changes)
            except CallError as error:
                outcome = "back refused"
                print("  ", now, error.message, flush=True)
            self.outcomes.append(Outcome(row["name"], language, path, 1, path, "file", outcome))
        if contents(self._root) != before:
            print("  the repository is not as it was", flush=True)

    def _find_blamed(self, applied: list[Applied], message: str) -> list[Applied]:
        """Return the renames that a message is about: by their new names, else by their old ones."""
        words = set(re.findall(r"\w+", message.partition(" ")[2]))
        by_new = [one for one in applied if one.changed in words]
        return by_new or [one for one in applied if one.full.rpartition(".")[2] in words]

    def _rename(self, number: int, path: str, line: int, qualified: str, kind: str) -> Applied | None:
        row, last = self._row, qualified.rpartition(".")[2]
        changed = new_name(last, number)
        start = Outcome(row["name"], row["language"], path, line, qualified, kind, "")
        if not (self._root / path).exists():
            self.outcomes.append(start._replace(outcome="skipped", detail="its file was renamed with a class"))
            return None
        owner = qualified.rpartition(".")[0]
        full = ".".join(part for part in (self._now.get((path, owner), owner), last) if part)
        try:
            found = self._engine.edits.rename_symbol(f".{full}", changed, path=path)
            places = [f"{place.path}:{place.line} {place.why}" for place in found.uncertain if place.is_open]
            if places:
                self.outcomes.append(start._replace(outcome="waits", detail=f"{len(places)}: {places[0]}"))
                return None
            result = self._engine.edits.apply(found.changes, check_syntax=True)
        except CallError as error:
            self.outcomes.append(start._replace(outcome="refused", detail=f"{type(error).__name__}: {error.message}"))
            return None
        self._now[path, qualified] = f"{full.rpartition('.')[0]}.{changed}".lstrip(".")
        moved = re.search(r"becomes (\S+),", " ".join(found.notes))
        before = {file.path: file.old_data for file in result.files}
        return Applied(number, moved[1] if moved else path, full, changed, result.undo_id, before,
                       start._replace(detail=str(len(found.certain))))  # fmt: skip

    def _rename_back(self, one: Applied) -> str:
        owner, _, last = one.full.rpartition(".")
        name = f"{owner}.{one.changed}" if owner else one.changed
        try:
            found = self._engine.edits.rename_symbol(f".{name}", last, path=one.path)
            if waiting := [place for place in found.uncertain if place.is_open]:
                print("  ", *[f"{place.path}:{place.line} {place.why}" for place in waiting[:3]], sep="; ", flush=True)
                return "back waits"
            self._engine.edits.apply(found.changes)
        except CallError as error:
            print("  ", error.message, flush=True)
            return "back refused"
        now = {path: (self._root / path).read_bytes() if (self._root / path).exists() else None for path in one.before}
        is_same = {path: shorten(data) for path, data in now.items()} == {
            path: shorten(data) for path, data in one.before.items()
        }
        return "same bytes" if is_same else "other bytes"


def main() -> None:
    """Run the trials that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mirrors", type=Path, required=True)
    parser.add_argument("--tools", type=Path, required=True, help="folder with v/ (Python wheels) and node_modules/")
    parser.add_argument("--language", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--files", action="store_true", help="rename files of Python and TypeScript")
    parser.add_argument("--held-out", action="store_true", help="the repositories that no rule was written for")
    given = parser.parse_args()
    rows = tomllib.loads((HELD_OUT if given.held_out else REPOSITORIES).read_text())["repositories"]
    outcomes: list[Outcome] = []
    for row in rows:
        if (
            row["language"] not in (("python", "typescript") if given.files else CHECKS)
            or given.language not in ("", row["language"])
            or given.only not in ("", row["name"])
        ):
            continue
        if not (given.mirrors / row["name"].replace("/", "+")).exists():
            continue
        folder = Path(tempfile.mkdtemp(prefix="renames-"))
        root = folder / "w"
        root.mkdir()
        try:
            check_out(given.mirrors, row["name"], row["commit"], root)
        except subprocess.CalledProcessError:
            print(row["name"], "is not whole in the mirror", flush=True)
            continue
        settings = Settings.load(
            root,
            {"CTX_EMBEDDER": "static", "CTX_WORKERS": "0"}
            | dict(os.environ)
            | {"CTX_CACHE_FOLDER": str(folder / "cache"), "CTX_DATA_FOLDER": str(folder / "data")},
        )
        with Engine.open(root, settings=settings) as engine:
            engine.index.update()
            trial = Trial(row, root, engine, given.tools)
            (trial.run_files if given.files else trial.run)(given.count, given.seed)
        outcomes += trial.outcomes
        counted = Counter(one.outcome for one in trial.outcomes)
        print(row["name"], dict(counted), flush=True)
        if given.out:
            with given.out.open("a") as file:
                file.writelines(json.dumps(one._asdict()) + "\n" for one in trial.outcomes)
        shutil.rmtree(folder)
    print(Counter((one.language, one.outcome) for one in outcomes))


if __name__ == "__main__":
    main()
