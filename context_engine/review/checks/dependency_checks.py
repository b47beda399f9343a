"""Manifests and their lock files, and what belongs together by the history: one changed, the other forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from context_engine.review.checks.check import CheckRule, on_line
from context_engine.text import read_json, read_toml

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.review_context import ReviewContext
    from context_engine.review.source_versions import ChangedFile, FileVersion

PAIRS: Mapping[str, tuple[str, ...]] = {
    "package.json": (
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "bun.lock",
        "bun.lockb",
    ),
    "pyproject.toml": ("uv.lock", "poetry.lock", "pdm.lock"),
    "Pipfile": ("Pipfile.lock",),
    "Cargo.toml": ("Cargo.lock",),
    "go.mod": ("go.sum",),
    "Gemfile": ("Gemfile.lock",),
    "composer.json": ("composer.lock",),
}
"""A manifest and the files that pin what it asks for."""
LOCKS = frozenset(
    {"flake.lock", "Package.resolved", "packages.lock.json", "mix.lock", "pubspec.lock", "Podfile.lock"}
).union(*PAIRS.values())
TOGETHER_FACTOR = 0.6
"""What usually changes together need not this time: the confidence of the rule counts for so much."""


@CheckRule(
    "lock-behind",
    "Dependency changed, lock file not",
    "Whoever installs from the lock file gets something else, or an error.",
    priority=2,
    confidence=0.75,
    category="correctness",
).change
def lock_behind(files: Sequence[ChangedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """A manifest whose dependencies change while a lock file beside it (or at the top) stays."""
    changed = {file.path for file in files}
    for file in files:
        name = file.path.rpartition("/")[2]
        if name not in PAIRS or file.old is None or file.new is None or not file.is_whole:
            continue
        lock = _lock_of(file.path, surroundings)
        if not lock or lock in changed:
            continue
        before, after = dependencies(file.old), dependencies(file.new)
        differing = sorted(
            each
            for each in before.keys() | after.keys()
            if before.get(each) != after.get(each) and not _is_elsewhere(each, after.get(each, ""), lock, surroundings)
        )
        if before and differing:
            line = _line_of(file, differing)
            yield on_line(line, f"{', '.join(differing[:3])} changed, {lock} did not.", path=file.path)


def _is_elsewhere(name: str, wanted: str, lock: str, surroundings: ReviewContext) -> bool:
    """Whether the lock file need not change with this: a part of the same tree, or overridden for all of it."""
    if re.match(r"(?:workspace|file|link|portal|catalog):", wanted) or "path" in wanted:
        return True
    folder = lock.rpartition("/")[0]
    beside = [f"{folder}/{each}" if folder else each for each in ("package.json", "pnpm-workspace.yaml")]
    surroundings.fetch((lock, *beside))
    locked = surroundings.source(lock)
    word = re.escape(name)
    own = rf'name = "{word}"\n(?:version = .*\n)?source = {{ (?:editable|virtual|directory)'
    if locked is not None and re.search(own, locked.text):
        return True
    texts = [source.text for path in beside if (source := surroundings.source(path))]
    return any(re.search(rf"(?:overrides|resolutions)\b[\s\S]*?[\"'\s]{word}[\"']?\s*:", text) for text in texts)


def _lock_of(manifest: str, surroundings: ReviewContext) -> str:
    """The lock file that is nearest to a manifest; empty when there is none."""
    folder, _, name = manifest.rpartition("/")
    while True:
        for lock in PAIRS[name]:
            path = f"{folder}/{lock}" if folder else lock
            if path in surroundings.paths:
                return path
        if not folder:
            return ""
        folder = folder.rpartition("/")[0]


def dependencies(source: FileVersion) -> Mapping[str, str]:
    """What a manifest asks for; of one that cannot be read nothing."""
    name = source.path.rpartition("/")[2]
    try:
        if name in ("package.json", "composer.json"):
            return _of_json(read_json(source.text))
        if name in ("pyproject.toml", "Pipfile", "Cargo.toml"):
            return _of_toml(read_toml(source.text))
    except (ValueError, AttributeError, TypeError):
        return {}
    pattern = (
        r"^\s*(?:require\s+)?([\w./-]+\.[\w./-]+)\s+(v\S+)" if name == "go.mod" else r"^\s*gem\s+['\"]([\w-]+)['\"](.*)"
    )
    return dict(re.findall(pattern, source.text, re.MULTILINE))


def _of_json(read: Any) -> dict[str, str]:
    groups = ("dependencies", "devDependencies", "optionalDependencies", "require", "require-dev")
    return {name: str(wanted) for group in groups for name, wanted in (read.get(group) or {}).items()}


def _of_toml(read: Any) -> dict[str, str]:
    project, poetry = read.get("project", {}), read.get("tool", {}).get("poetry", {})
    listed = [*project.get("dependencies", ())]
    for extra in (project.get("optional-dependencies") or {}).values():
        listed += extra
    for group in (read.get("dependency-groups") or {}).values():
        listed += [each for each in group if isinstance(each, str)]
    found = {re.split(r"[\s<>=!~;\[]", each, maxsplit=1)[0]: each for each in listed}
    tables = [poetry.get("dependencies"), *(group.get("dependencies") for group in poetry.get("group", {}).values())]
    tables += [
        read.get(name)
        for name in ("dependencies", "dev-dependencies", "build-dependencies", "packages", "dev-packages")
    ]
    for table in tables:
        found |= {name: str(wanted) for name, wanted in (table or {}).items()}
    return found


def _line_of(file: ChangedFile, names: Sequence[str]) -> int:
    """The first added line that says one of the names, else the first added line."""
    new = file.new
    added = sorted(file.added) or [1]
    return next((line for line in added if new and any(name in new.line(line) for name in names)), added[0])


@CheckRule(
    "usually-together",
    "Usually changed together",
    "The history says so: at least five commits, and eight of ten.",
    priority=3,
    confidence=TOGETHER_FACTOR,
    category="maintainability",
    in_tests=False,
).change
def usually_together(files: Sequence[ChangedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """A file that belongs to a changed one by the history, and is not in the change."""
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
                    confidence=round(partner.confidence * TOGETHER_FACTOR, 2),
                )


ALL = (lock_behind, usually_together)
