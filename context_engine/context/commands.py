r"""PURE. The commands that test and check a repository, as files at its top define them.

>>> files = {"Makefile": "test:\n\tpytest\n", "go.mod": "module x"}
>>> [str(command) for command in detect_commands(files, files.__getitem__)]
['make test (Makefile)', 'go test ./... (go.mod)', 'go vet ./... (go.mod)']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from context_engine.text import ParseError, read_json

CommandKind = Literal["test", "lint", "types", "format", "build"]


class Command(NamedTuple):
    """A command at the top of the workspace, its purpose, and the file that defines it."""

    kind: CommandKind
    text: str
    source: str

    def __str__(self) -> str:
        """Format the command with its file."""
        return f"{self.text} ({self.source})"


KINDS: Mapping[str, CommandKind] = {
    **dict.fromkeys(("test", "tests", "check", "unit", "test:unit", "test-unit", "spec"), "test"),
    **dict.fromkeys(("lint", "eslint", "lint:check", "cs", "phpcs", "cs-check", "stylecheck", "vet", "clippy"), "lint"),
    **dict.fromkeys(
        ("types", "typecheck", "type-check", "typing", "tsc", "mypy", "phpstan", "stan", "analyse"), "types"
    ),
    **dict.fromkeys(("format", "fmt", "format:check", "fmt-check"), "format"),
    **dict.fromkeys(("build", "compile"), "build"),
}
"""Usual names of scripts and targets, and their purpose."""


def detect_commands(names: Collection[str], read: Callable[[str], str]) -> list[Command]:
    """Return the commands, the repository's own wrappers first: they pass what the bare tools need.

    `names` are the files at its top, `read` returns the text of one. A file that cannot be parsed is ignored.
    """

    @cache
    def text(name: str) -> str:
        return read(name) if name in names else ""

    found = (_read_targets(text), _read_scripts(names, text), _read_python(names, text), _read_others(names))
    return list(dict.fromkeys(command for commands in found for command in commands))


ReadText = Callable[[str], str]
"""Returns the text of a file at the top; empty if it is not there."""
_TARGETS = (
    ("make", ("GNUmakefile", "Makefile", "makefile"), "", r"^([A-Za-z][\w:.-]*)\s*:(?!=)"),
    ("just", ("justfile", "Justfile", ".justfile"), "", r"^@?([a-z][\w-]*)(?:[ \t]+[^:\n]*)?:(?!=)"),
    ("task", ("Taskfile.yml", "Taskfile.yaml"), "\ntasks:", r"^  ['\"]?([a-z][\w:-]*?)['\"]?:"),
)
"""Program, its files, the line that its targets are below, and how one is written."""


def _read_targets(text: ReadText) -> Iterator[Command]:
    for program, names, above, target in _TARGETS:
        for name in names:
            stated = text(name).partition(above)[2] if above else text(name)
            targets = re.findall(target, stated, re.MULTILINE)
            yield from (Command(KINDS[found], f"{program} {found}", name) for found in targets if found in KINDS)


_RUNNERS = (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun run"), ("bun.lockb", "bun run"))
_NO_TEST = "no test specified"


def _read_scripts(names: Collection[str], text: ReadText) -> Iterator[Command]:
    runner = next((runner for lock, runner in _RUNNERS if lock in names), "npm")
    manifests = (
        ("package.json", "scripts", f"{runner.removesuffix(' run')} run"),
        *((name, "tasks", "deno task") for name in ("deno.json", "deno.jsonc")),
        ("composer.json", "scripts", "composer"),
    )
    for name, key, program in manifests:
        for script, command in _parse_object(_parse_object(text(name)).get(key)).items():
            if script in KINDS and _NO_TEST not in str(command):
                is_short = name == "package.json" and script == "test"
                yield Command(KINDS[script], f"{runner if is_short else program} {script}", name)


def _parse_object(given: Any) -> Mapping[str, Any]:
    """Return an object, given as a value or as JSON; an empty one for anything else."""
    try:
        found = read_json(given) if isinstance(given, str) and given else given
    except ParseError:
        found = {}
    return found if isinstance(found, dict) else {}


_PYTEST = (
    ("pytest.ini", ""),
    ("pyproject.toml", "[tool.pytest"),
    ("setup.cfg", "[tool:pytest]"),
    ("tox.ini", "[pytest]"),
    ("conftest.py", ""),
)
"""Files that configure pytest, and the section with which they do."""
_PYTHON_TOOLS: tuple[tuple[str, CommandKind, str], ...] = (
    ("ruff", "lint", "ruff check"),
    ("flake8", "lint", "flake8"),
    ("mypy", "types", "mypy ."),
    ("pyright", "types", "pyright"),
    ("black", "format", "black --check ."),
)


def _read_python(names: Collection[str], text: ReadText) -> Iterator[Command]:
    """Yield tox and nox if they are configured, then the tools that the project configures."""
    project = text("pyproject.toml")
    if "[testenv" in text("tox.ini") or "[tool.tox" in project:
        yield Command("test", "tox", "tox.ini" if "tox.ini" in names else "pyproject.toml")
    if "noxfile.py" in names:
        yield Command("test", "nox", "noxfile.py")
    for name, section in _PYTEST:
        if name in names and section in text(name):
            yield Command("test", "pytest", name)
    for tool, kind, command in _PYTHON_TOOLS:
        own = next((name for name in (f"{tool}.toml", f".{tool}.toml", f"{tool}.ini", f".{tool}") if name in names), "")
        if own or f"[tool.{tool}" in project:
            yield Command(kind, command, own or "pyproject.toml")


BY_FILE: tuple[tuple[str, CommandKind, str], ...] = (
    (r"Cargo\.toml", "test", "cargo test"),
    (r"Cargo\.toml", "lint", "cargo clippy"),
    (r"go\.mod", "test", "go test ./..."),
    (r"go\.mod", "lint", "go vet ./..."),
    (r"\.golangci\.(?:ya?ml|toml|json)", "lint", "golangci-lint run"),
    (r"phpunit", "test", "./phpunit"),
    (r"phpunit(?:\.dist)?\.xml(?:\.dist)?", "test", "vendor/bin/phpunit"),
    (r"phpstan(?:\.dist)?\.neon(?:\.dist)?", "types", "vendor/bin/phpstan analyse"),
    (r"\.php-cs-fixer(?:\.dist)?\.php", "lint", "vendor/bin/php-cs-fixer check"),
    (r"\.rspec", "test", "bundle exec rspec"),
    (r"\.rubocop\.yml", "lint", "bundle exec rubocop"),
    (r"Rakefile", "test", "bundle exec rake test"),
    (r"mix\.exs", "test", "mix test"),
    (r"build\.sbt", "test", "sbt test"),
    (r"Package\.swift", "test", "swift test"),
    (r"pubspec\.yaml", "test", "dart test"),
    (r"stack\.yaml", "test", "stack test"),
    (r"cabal\.project|.+\.cabal", "test", "cabal test"),
    (r"build\.zig", "test", "zig build test"),
    (r".+\.sln|.+\.slnx|.+\.csproj", "test", "dotnet test"),
    (r"tsconfig\.json", "types", "npx tsc --noEmit"),
    (r"\.pre-commit-config\.yaml", "lint", "pre-commit run --all-files"),
)
"""Tools with one way to be called. A Rakefile may lack the task, so it comes after .rspec."""
_BUILDS = (("build.gradle.kts", "gradle"), ("build.gradle", "gradle"), ("pom.xml", "mvn"))


def _read_others(names: Collection[str]) -> Iterator[Command]:
    for name, program in _BUILDS:
        if name in names:
            yield Command("test", f"./{program}w test" if f"{program}w" in names else f"{program} test", name)
    for pattern, kind, command in BY_FILE:
        name = next((name for name in sorted(names) if re.fullmatch(pattern, name)), "")
        if name:
            yield Command(kind, command, name)
