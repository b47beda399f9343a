"""Checks of a whole change: missing imports, forgotten lock files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, Any

from context_engine.languages import Import, resolve_import
from context_engine.review.checks.check import check, on_line
from context_engine.text import read_json, read_toml

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile

# -- imports ----------------------------------------------------------------------------------------------------------


@check("unresolved-import")
def unresolved_import(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report an added relative import of a file that the tree does not have."""
    for file in files if surroundings.is_known else ():
        new = file.new
        if new is None or new.language is None or not file.is_whole:
            continue
        for imported in new.outline.imports:
            is_checked = imported.line in file.added and _is_relative(new, imported.target)
            if is_checked and not (is_guarded(new, imported.line) or _can_be_resolved(new, imported, surroundings)):
                yield on_line(imported.line, f"There is no file for {imported.target!r} in this tree.", path=file.path)


def _is_relative(source: FileVersion, target: str) -> bool:
    """Whether an import must mean a file of this tree that is not generated."""
    if source.language and source.language.renames.dotted_modules:
        return target.startswith(".")
    return target.startswith(("./", "../")) and not re.search(r"[?*{$!]", target)


def _can_be_resolved(source: FileVersion, imported: Import, surroundings: ReviewContext) -> bool:
    target, paths, language = imported.target, surroundings.paths, source.language
    if language is None or resolve_import(language, source.path, target, paths, imported.names):
        return True
    if not target.strip("./"):
        return True
    if not language.renames.dotted_modules and paths.in_folder(normpath(join(dirname(source.path), target))):
        return True  # its package.json says what
    if language.renames.dotted_modules:
        # A part of the path that is a module, not a package, creates its content (`six.moves`).
        dots = target[: len(target) - len(target.lstrip("."))]
        parts = target.lstrip(".").split(".")
        above = (dots + ".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
        found = next(filter(None, (resolve_import(language, source.path, part, paths) for part in above)), ())
        if found and not found[0].endswith(("/__init__.py", "/__init__.pyi")):
            return True
    # A build creates files that no tree contains, perhaps in a folder of the target's name.
    stem = target.rstrip("/").rpartition("/")[2].rpartition(".")[2] or target
    is_built = re.search(r"(?:^|/)(?:dist|build|generated|lib|out|pkg)(?:/|$)|_version$|version$|_pb2", target)
    return bool(is_built) or any(stem in path for path in paths.in_folder(source.path.rpartition("/")[0]))


def is_guarded(source: FileVersion, line: int) -> bool:
    """Whether an import may fail on purpose: inside `try`, or for type checkers only."""
    above = "\n".join(source.lines[max(0, line - 4) : line])
    return bool(re.search(r"\btry\b|TYPE_CHECKING|@ts-(?:ignore|expect-error)|(?:jest|vi)\.mock|type:\s*ignore", above))


def list_named_imports(source: FileVersion) -> list[Import]:
    """Return what a file imports, with the names; an import of JavaScript is repeated for each of its names."""
    matches = unresolved_import.matches(source)
    named = (Import(match["source"].text.strip("'\""), match["name"].first, (match["name"].text,)) for match in matches)
    return [*source.outline.imports, *named]


# -- lock files --------------------------------------------------------------------------------------------------------

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
TOML_TABLES = ("dependencies", "dev-dependencies", "build-dependencies", "packages", "dev-packages")
JSON_TABLES = ("dependencies", "devDependencies", "optionalDependencies", "require", "require-dev")


@check("lock-behind")
def lock_behind(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a manifest whose dependencies change while a lock file next to it, or at the top, does not."""
    changed = {file.path for file in files}
    for file in files:
        is_manifest = file.path.rpartition("/")[2] in LOCKS_OF
        lock = _find_lock(file.path, surroundings) if is_manifest and file.versions else ""
        if not lock or lock in changed or not file.versions:
            continue
        before, after = map(dependencies, file.versions)
        differing = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
        locked = [name for name in differing if not _needs_no_lock(name, after.get(name, ""), lock, surroundings)]
        if before and locked:
            added, new = sorted(file.added), file.versions[1]
            named = (line for line in added if any(name in new.line(line) for name in locked))
            line = next(named, file.first_added)
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
    try:
        match source.path.rpartition("/")[2]:
            case "package.json" | "composer.json":
                manifest = read_json(source.text)
                return _merge_tables(manifest.get(table) for table in JSON_TABLES)
            case "pyproject.toml" | "Pipfile" | "Cargo.toml":
                return _read_toml_dependencies(read_toml(source.text))
            case "go.mod":
                pattern = r"^\s*(?:require\s+)?([\w./-]+\.[\w./-]+)\s+(v\S+)"
            case _:
                pattern = r"^\s*gem\s+['\"]([\w-]+)['\"](.*)"
    except (ValueError, AttributeError, TypeError):
        return {}
    return dict(re.findall(pattern, source.text, re.MULTILINE))


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
    return {name: str(wanted) for table in tables for name, wanted in (table or {}).items()}
