r"""PURE. The commands that test and check a repository, as its own files define them.

>>> [str(command) for command in detect_commands({"Makefile": "test:\n\tpytest\n", "go.mod": "module x"})]
['make test (Makefile)', 'go test ./... (go.mod)', 'go vet ./... (go.mod)']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from context_engine.text import ParseError, read_json, read_toml

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

Files = Mapping[str, str]
_NO_TEST = "no test specified"


def detect_commands(files: Files) -> list[Command]:
    """Return the commands, the repository's own wrappers first. `files` are the files at its top and their texts.

    A file that cannot be parsed is ignored.
    """
    return list(dict.fromkeys(command for read in READERS for command in read(files)))


_WRAPPERS = (
    ("make", ("GNUmakefile", "Makefile", "makefile"), "", r"^([A-Za-z][\w:.-]*)\s*:(?!=)"),
    ("just", ("justfile", "Justfile", ".justfile"), "", r"^@?([a-z][\w-]*)(?:[ \t]+[^:\n]*)?:(?!=)"),
    ("task", ("Taskfile.yml", "Taskfile.yaml"), "\ntasks:", r"^  ['\"]?([a-z][\w:-]*?)['\"]?:"),
)
"""Program, its files, the line that its targets are below, and how one is written."""
_RUNNERS = (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun run"), ("bun.lockb", "bun run"))


def _wrappers(files: Files) -> Iterator[Command]:
    for program, names, above, target in _WRAPPERS:
        for name in names:
            text = files.get(name, "")
            targets = re.findall(target, text.partition(above)[2] if above else text, re.MULTILINE)
            yield from (Command(KINDS[found], f"{program} {found}", name) for found in targets if found in KINDS)


def _scripts(files: Files) -> Iterator[Command]:
    runner = next((runner for lock, runner in _RUNNERS if lock in files), "npm")
    package = f"{runner.removesuffix(' run')} run"
    manifests = (("package.json", "scripts", package), ("deno.json", "tasks", "deno task"))
    manifests += (("deno.jsonc", "tasks", "deno task"), ("composer.json", "scripts", "composer"))
    for name, key, program in manifests:
        scripts = _parse_object(files.get(name, "")).get(key)
        for script, text in scripts.items() if isinstance(scripts, dict) else ():
            if script in KINDS and _NO_TEST not in str(text):
                is_short = name == "package.json" and script == "test"
                yield Command(KINDS[script], f"{runner if is_short else program} {script}", name)


def _python(files: Files) -> Iterator[Command]:
    """Yield tox and nox if they are configured, then the tools that the project configures."""
    project = files.get("pyproject.toml", "")
    tools = _parse_toml(project).get("tool")
    tools = tools if isinstance(tools, dict) else {}
    tox = files.get("tox.ini", "")
    if "[testenv" in tox or "tox" in tools:
        yield Command("test", "tox", "tox.ini" if tox else "pyproject.toml")
    if "noxfile.py" in files:
        yield Command("test", "nox", "noxfile.py")
    pytest_files = {
        "pytest.ini": "pytest.ini" in files,
        "pyproject.toml": "pytest" in tools,
        "setup.cfg": "[tool:pytest]" in files.get("setup.cfg", ""),
        "tox.ini": "[pytest]" in tox,
        "conftest.py": "conftest.py" in files,
    }
    yield from (Command("test", "pytest", name) for name, is_configured in pytest_files.items() if is_configured)
    for tool, kind, text in _PYTHON_TOOLS:
        own = next((name for name in (f"{tool}.toml", f".{tool}.toml", f"{tool}.ini", f".{tool}") if name in files), "")
        if tool in tools or own:
            yield Command(kind, text, own or "pyproject.toml")


_PYTHON_TOOLS: tuple[tuple[str, CommandKind, str], ...] = (
    ("ruff", "lint", "ruff check"),
    ("flake8", "lint", "flake8"),
    ("mypy", "types", "mypy ."),
    ("pyright", "types", "pyright"),
    ("black", "format", "black --check ."),
)


def _wrapped_builds(files: Files) -> Iterator[Command]:
    gradle = next((name for name in ("build.gradle.kts", "build.gradle") if name in files), "")
    if gradle:
        yield Command("test", f"{'./gradlew' if 'gradlew' in files else 'gradle'} test", gradle)
    if "pom.xml" in files:
        yield Command("test", f"{'./mvnw' if 'mvnw' in files else 'mvn'} test", "pom.xml")


def _by_file(files: Files) -> Iterator[Command]:
    for pattern, kind, text in BY_FILE:
        name = next((name for name in sorted(files) if re.fullmatch(pattern, name)), "")
        if name:
            yield Command(kind, text, name)


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

READERS: tuple[Callable[[Files], Iterator[Command]], ...] = (_wrappers, _scripts, _python, _wrapped_builds, _by_file)
"""The repository's own wrappers come first: they pass what the bare tools need."""

NAMES = re.compile(
    r"(?i:gnumakefile|makefile|\.?justfile)|Taskfile\.ya?ml|package\.json|pnpm-lock\.yaml|yarn\.lock|bun\.lockb?|deno\.jsonc?"
    r"|composer\.json|pyproject\.toml|setup\.cfg|tox\.ini|noxfile\.py|pytest\.ini|conftest\.py|\.?(?:ruff|mypy|flake8|black)"
    r"(?:\.toml|\.ini)?|pyrightconfig\.json|build\.gradle(?:\.kts)?|gradlew|pom\.xml|mvnw|"
    + "|".join(dict.fromkeys(pattern for pattern, _, _ in BY_FILE))
)
"""Files that are examined; for most of them the name is enough."""
READ = re.compile(
    r"(?i:gnumakefile|makefile|\.?justfile)|Taskfile\.ya?ml|.+\.json|pyproject\.toml|setup\.cfg|tox\.ini|deno\.jsonc"
)
"""Files that are read, too."""


def _parse_object(text: str) -> Mapping[str, Any]:
    try:
        found = read_json(text) if text else {}
    except ParseError:
        return {}
    if isinstance(found, dict):
        return found
    return {}


def _parse_toml(text: str) -> Mapping[str, Any]:
    try:
        return read_toml(text)
    except ParseError:
        return {}
