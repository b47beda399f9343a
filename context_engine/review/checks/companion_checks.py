"""Files that should change together with others: lock files, files that usually change together, tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from context_engine.review.checks.check import SCRIPT, check, on_line
from context_engine.text import LineSpan, read_json, read_toml

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile

LOCKS_OF: Mapping[str, tuple[str, ...]] = {
    "package.json": tuple("package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb".split()),
    "pyproject.toml": ("uv.lock", "poetry.lock", "pdm.lock"),
    "Pipfile": ("Pipfile.lock",),
    "Cargo.toml": ("Cargo.lock",),
    "go.mod": ("go.sum",),
    "Gemfile": ("Gemfile.lock",),
    "composer.json": ("composer.lock",),
}
"""The files that pin what a manifest requires."""
LOCKS = frozenset(
    {"flake.lock", "Package.resolved", "packages.lock.json", "mix.lock", "pubspec.lock", "Podfile.lock"}
).union(*LOCKS_OF.values())
COCHANGE_FACTOR = 0.6
"""Files that usually change together need not this time, so only this share of the confidence counts."""
FUNCTIONS_MAX = 40
"""In a change of more functions a list of untested ones is of no use."""
FUNCTION_LINES_MIN = 5
"""A shorter function hardly needs a test of its own."""
UNTESTED_CONFIDENCE_MAX = 0.65
"""Below the usual threshold: of the three findings in a hundred commits none was useful (evals/noise)."""
TOML_TABLES = ("dependencies", "dev-dependencies", "build-dependencies", "packages", "dev-packages")
JSON_TABLES = ("dependencies", "devDependencies", "optionalDependencies", "require", "require-dev")

# -- lock files --------------------------------------------------------------------------------------------------------


@check("lock-behind")
def lock_behind(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a manifest whose dependencies change while a lock file next to it, or at the top, does not."""
    changed = {file.path for file in files}
    for file in files:
        name = file.path.rpartition("/")[2]
        if name not in LOCKS_OF or file.old is None or file.new is None or not file.is_whole:
            continue
        lock = _find_lock(file.path, surroundings)
        if not lock or lock in changed:
            continue
        before, after = dependencies(file.old), dependencies(file.new)
        names = sorted(before.keys() | after.keys())
        differing = [name for name in names if before.get(name) != after.get(name)]
        locked = [name for name in differing if not _needs_no_lock(name, after.get(name, ""), lock, surroundings)]
        if before and locked:
            line = _find_line(file, locked)
            yield on_line(line, f"{', '.join(locked[:3])} changed, {lock} did not.", path=file.path)


def _needs_no_lock(name: str, wanted: str, lock: str, surroundings: ReviewContext) -> bool:
    """Whether a lock file need not change with a dependency: it is part of this tree, or overridden everywhere."""
    if re.match(r"(?:workspace|file|link|portal|catalog):", wanted) or "path" in wanted:
        return True
    folder = lock.rpartition("/")[0]
    manifests = [f"{folder}/{file}" if folder else file for file in ("package.json", "pnpm-workspace.yaml")]
    surroundings.fetch((lock, *manifests))
    locked = surroundings.source(lock)
    word = re.escape(name)
    local_package = rf'name = "{word}"\n(?:version = .*\n)?source = {{ (?:editable|virtual|directory)'
    if locked is not None and re.search(local_package, locked.text):
        return True
    texts = [source.text for path in manifests if (source := surroundings.source(path))]
    return any(re.search(rf"(?:overrides|resolutions)\b[\s\S]*?[\"'\s]{word}[\"']?\s*:", text) for text in texts)


def _find_lock(manifest: str, surroundings: ReviewContext) -> str:
    """Return the lock file nearest to a manifest; empty when there is none."""
    folder, _, name = manifest.rpartition("/")
    while True:
        for lock in LOCKS_OF[name]:
            path = f"{folder}/{lock}" if folder else lock
            if path in surroundings.paths:
                return path
        if not folder:
            return ""
        folder = folder.rpartition("/")[0]


def dependencies(source: FileVersion) -> Mapping[str, str]:
    """Return what a manifest requires; nothing when it cannot be read."""
    name = source.path.rpartition("/")[2]
    try:
        if name in ("package.json", "composer.json"):
            manifest = read_json(source.text)
            return _merge_tables(manifest.get(table) for table in JSON_TABLES)
        if name in ("pyproject.toml", "Pipfile", "Cargo.toml"):
            return _read_toml_dependencies(read_toml(source.text))
    except (ValueError, AttributeError, TypeError):
        return {}
    if name == "go.mod":
        return dict(re.findall(r"^\s*(?:require\s+)?([\w./-]+\.[\w./-]+)\s+(v\S+)", source.text, re.MULTILINE))
    return dict(re.findall(r"^\s*gem\s+['\"]([\w-]+)['\"](.*)", source.text, re.MULTILINE))


def _read_toml_dependencies(manifest: Any) -> dict[str, str]:
    project, poetry = manifest.get("project", {}), manifest.get("tool", {}).get("poetry", {})
    listed = [*project.get("dependencies", ())]
    for extra in (project.get("optional-dependencies") or {}).values():
        listed += extra
    for group in (manifest.get("dependency-groups") or {}).values():
        listed += [entry for entry in group if isinstance(entry, str)]
    by_name = {re.split(r"[\s<>=!~;\[]", entry, maxsplit=1)[0]: entry for entry in listed}
    groups = poetry.get("group", {}).values()
    tables = [poetry.get("dependencies"), *(group.get("dependencies") for group in groups)]
    return by_name | _merge_tables([*tables, *(manifest.get(name) for name in TOML_TABLES)])


def _merge_tables(tables: Any) -> dict[str, str]:
    merged: dict[str, str] = {}
    for table in tables:
        merged |= {name: str(wanted) for name, wanted in (table or {}).items()}
    return merged


def _find_line(file: ReviewedFile, names: Sequence[str]) -> int:
    """Return the first added line that contains one of the names, else the first added line."""
    new = file.new
    added = sorted(file.added) or [1]
    return next((line for line in added if new and any(name in new.line(line) for name in names)), added[0])


# -- files that change together ----------------------------------------------------------------------------------------


@check("usually-together")
def usually_together(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a file that usually changes with a changed one, and is not in the change."""
    changed = {file.path for file in files}
    for file in files:
        for partner in surroundings.partners_of(file.path) if file.kind == "modified" else ():
            is_lock = partner.path.rpartition("/")[2] in LOCKS
            if not is_lock and partner.path not in changed and partner.path in surroundings.paths:
                yield on_line(
                    min(file.added, default=1),
                    f"Of the commits that changed {file.path}, {partner.confidence:.0%} changed {partner.path} as well"
                    f" ({partner.together} times).",
                    path=file.path,
                    confidence=round(partner.confidence * COCHANGE_FACTOR, 2),
                )


# -- tests -------------------------------------------------------------------------------------------------------------


@check("untested")
def untested_function(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a new public function that no test names, in a file whose other functions mostly are in tests.

    The confidence is the share of the file's older public functions that tests name.
    """
    if not surroundings.is_known:
        return
    for file in files:
        new = _public_functions(file, of_new=True)
        old = _public_functions(file, of_new=False)
        if not new or not old or len(new) + len(old) > FUNCTIONS_MAX:
            continue
        files_with = surroundings.files_with_words(sorted({*new, *old}))
        tested = {name for name, paths in files_with.items() if any(map(_TEST_PATH.search, paths))}
        share = len(tested & old.keys()) / len(old)
        for name, line in new.items():
            if name not in tested and share > 0:
                confidence = round(UNTESTED_CONFIDENCE_MAX * share, 2)
                body = f"No test names {name}; {share:.0%} of the other functions of the file are named in one."
                yield on_line(line, body, path=file.path, confidence=confidence)


def _public_functions(file: ReviewedFile, *, of_new: bool) -> dict[str, int]:
    """Return the public functions that the change adds to a file, or the older ones, with their lines."""
    if file.new is None or file.old is None or not file.is_whole:
        return {}
    before = file.old.functions
    lines = {}
    for qualified_name, function in file.new.functions.items():
        is_new = qualified_name not in before and file.touches(LineSpan(function.line, function.line))
        is_long = function.last - function.first + 1 >= FUNCTION_LINES_MIN
        is_hidden = function.name.startswith(("_", "#")) or _is_private(file.new, function.line)
        if is_new == of_new and is_long and not is_hidden and len(function.name) > 2:
            lines[function.name] = function.line
    return lines


def _is_private(source: FileVersion, line: int) -> bool:
    """Whether only its own file or class can call what is defined on a line."""
    text = source.line(line)
    is_local = source.language_name in SCRIPT and not text.startswith((" ", "\t", "export"))
    return is_local or bool(re.match(r"\s*(?:private|protected)\b", text))


_TEST_PATH = re.compile(
    r"(?:^|/)(?:tests?|specs?|__tests__)/|(?:^|/)test_|[._-](?:test|spec)\.|_test(?:_\w{1,80})?\.|Tests?\.\w+$"
)
