"""The modules of JavaScript that a path does not name: packages of a workspace, and the `paths` of a tsconfig."""

from __future__ import annotations

import re
from functools import cached_property
from posixpath import dirname, join, normpath
from typing import Any

from context_engine.languages import SyntaxFile, resolve_import
from context_engine.references.project_files import ProjectFiles
from context_engine.text import ParseError, read_json

PACKAGES_MAX = 400
"""Packages of one workspace that are read."""
CONFIG_BYTES_MAX = 200_000
BUILT_FOLDERS = frozenset(("lib", "dist", "build", "out", "esm", "cjs", "es", "types"))
"""Folders of a package that its build writes; the sources are in `src`."""
CONFIGS = ("tsconfig.json", "tsconfig.base.json", "jsconfig.json")
_SUFFIX = re.compile(r"\.(?:d\.[mc]?ts|[mc]?js|tsx?)$")
_TOKEN = re.compile(r'("(?:\\.|[^"\\])*"?)|//[^\n]*\n?|/\*.*?(?:\*/|\Z)|,(?=\s*[\]}])', re.DOTALL)


class WorkspaceModules:
    """The modules of a project by the names that its packages and its configuration give them."""

    def __init__(self, project: ProjectFiles) -> None:
        self._project = project

    def find(self, file: SyntaxFile, source: str) -> str:
        """Return the file of a module; empty if it is not in this project."""
        if source.startswith((".", "/")):
            return self._first(file, file.path, source)
        for name, folder in self._packages.items():
            if source == name or source.startswith(name + "/"):
                found = self._in_package(file, folder, source[len(name) + 1 :])
                if found:
                    return found
        for pattern, targets in self._paths:
            head, star, tail = pattern.partition("*")
            if source != pattern and not (star and source.startswith(head) and source.endswith(tail)):
                continue
            middle = source[len(head) : len(source) - len(tail)] if star else ""
            for target in targets:
                found = self._first(file, "_", "./" + target.replace("*", middle, 1))
                if found:
                    return found
        return self._first(file, file.path, source)

    def is_package(self, source: str) -> bool:
        """Whether a module belongs to a package of the workspace."""
        return any(source == name or source.startswith(name + "/") for name in self._packages)

    def _first(self, file: SyntaxFile, importer: str, source: str) -> str:
        return next(iter(resolve_import(file.language, importer, source, self._project.paths)), "")

    def _in_package(self, file: SyntaxFile, folder: str, rest: str) -> str:
        written = [rest, f"src/{rest}"]
        if not rest:  # what the description of the package names as its main file
            described = self._read(join(folder, "package.json"))
            named = [described.get(key) for key in ("source", "types", "typings", "module", "main")]
            entries = [_SUFFIX.sub("", normpath(one)) for one in named if isinstance(one, str) and 0 < len(one) < 300]
            written = [*entries, "src/index", "src/main", "index", "lib"]
        for part in written:
            parts = part.split("/")
            from_source = ["src", *parts[1:]] if parts[0] in BUILT_FOLDERS else parts
            for candidate in (from_source, from_source[:1] + from_source[2:], parts):
                found = self._first(file, join(folder, "_"), "./" + "/".join(candidate))
                if found and found != file.path:
                    return found
        return ""

    @cached_property
    def _packages(self) -> dict[str, str]:
        """The folders of the packages of the workspace by their names, the longest names first."""
        found: dict[str, str] = {}
        for path in self._project.paths.by_suffix("package.json")[:PACKAGES_MAX]:
            name = self._read(path).get("name")
            if isinstance(name, str) and name:
                found.setdefault(name, dirname(path))
        return dict(sorted(found.items(), key=lambda item: -len(item[0])))

    @cached_property
    def _paths(self) -> list[tuple[str, list[str]]]:
        """The patterns of modules in the tsconfig files, with the places they mean from the root of the project."""
        found: list[tuple[str, list[str]]] = []
        for config in (path for name in CONFIGS for path in self._project.paths.by_suffix(name)[:PACKAGES_MAX]):
            options = self._read(config).get("compilerOptions")
            patterns = options.get("paths") if isinstance(options, dict) else None
            if not isinstance(options, dict) or not isinstance(patterns, dict):
                continue
            base = options.get("baseUrl")
            start = f"{dirname(config)}/{base if isinstance(base, str) else '.'}"
            for pattern, targets in list(patterns.items())[:PACKAGES_MAX]:
                written = [one for one in targets if isinstance(one, str)] if isinstance(targets, list) else []
                found.append((pattern, [normpath(f"{start}/{one}").lstrip("/") for one in written[:10]]))
        return found

    def _read(self, path: str) -> dict[str, Any]:
        """Return the object of a JSON file that may have comments; empty if it is none."""
        data = self._project.load(path) if path in self._project.paths else b""
        if len(data) > CONFIG_BYTES_MAX:
            return {}
        try:
            read = read_json(without_comments(data.decode("utf-8", "replace")))
        except ParseError:
            return {}
        return read if isinstance(read, dict) else {}


def without_comments(text: str) -> str:
    """Return a JSON text without comments, and without commas at the end of a list.

    >>> without_comments('{"a": ["//b",], /* c */ } // d')
    '{"a": ["//b"]  } '
    """
    for _ in range(2):  # a comma may be before a comment
        text = _TOKEN.sub(lambda found: found[1] or "", text)
    return text
