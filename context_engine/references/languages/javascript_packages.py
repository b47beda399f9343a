"""The modules of JavaScript that a path does not name: packages of a workspace, and the `paths` of a tsconfig."""

from __future__ import annotations

from posixpath import dirname, normpath
from typing import TYPE_CHECKING, Any

from context_engine.languages import SyntaxFile, resolve_import
from context_engine.text import ParseError, read_json

if TYPE_CHECKING:
    from context_engine.references.resolver import Resolver

PACKAGES_MAX = 400
"""Packages of one workspace that are read."""
CONFIG_BYTES_MAX = 200_000
BUILT_FOLDERS = frozenset(("lib", "dist", "build", "out", "esm", "cjs", "es", "types"))
"""Folders of a package that its build writes; the sources are in `src`."""
CONFIGS = ("tsconfig.json", "tsconfig.base.json", "jsconfig.json")


def find_module(resolver: Resolver, file: SyntaxFile, source: str) -> str:
    """Return the file of a module; empty if it is not in this project."""
    if source.startswith((".", "/")):
        return _first(resolver, file, file.path, source)
    for name, folder in _packages(resolver).items():
        if source == name or source.startswith(name + "/"):
            found = _in_package(resolver, file, folder, source[len(name) + 1 :])
            if found:
                return found
    for pattern, targets in _paths(resolver):
        head, star, tail = pattern.partition("*")
        if source != pattern and not (star and source.startswith(head) and source.endswith(tail)):
            continue
        middle = source[len(head) : len(source) - len(tail)] if star else ""
        for target in targets:
            found = _first(resolver, file, "_", "./" + target.replace("*", middle, 1))
            if found:
                return found
    return _first(resolver, file, file.path, source)


def is_workspace_package(resolver: Resolver, source: str) -> bool:
    """Whether a module belongs to a package of the workspace."""
    return any(source == name or source.startswith(name + "/") for name in _packages(resolver))


def _first(resolver: Resolver, file: SyntaxFile, importer: str, source: str) -> str:
    found = resolve_import(file.language, importer, source, resolver.project.paths)
    return found[0] if found else ""


def _in_package(resolver: Resolver, file: SyntaxFile, folder: str, rest: str) -> str:
    if rest:
        written = [rest, f"src/{rest}"]
    else:
        written = [*_entries(resolver, folder), "src/index", "src/main", "index", "lib"]
    for part in written:
        parts = part.split("/")
        from_source = ["src", *parts[1:]] if parts[0] in BUILT_FOLDERS else parts
        for candidate in (from_source, from_source[:1] + from_source[2:], parts):
            found = _first(resolver, file, f"{folder}/_" if folder else "_", "./" + "/".join(candidate))
            if found and found != file.path:
                return found
    return ""


def _entries(resolver: Resolver, folder: str) -> list[str]:
    """Return what the description of a package names as its main file, without the ends of file names."""
    described = _read(resolver, f"{folder}/package.json" if folder else "package.json")
    named = [described.get(key) for key in ("source", "types", "typings", "module", "main")]
    return [_without_suffix(normpath(one)) for one in named if isinstance(one, str) and 0 < len(one) < 300]


def _without_suffix(path: str) -> str:
    for suffix in (".d.ts", ".d.mts", ".d.cts", ".js", ".mjs", ".cjs", ".ts", ".tsx"):
        if path.endswith(suffix):
            return path.removesuffix(suffix)
    return path


def _packages(resolver: Resolver) -> dict[str, str]:
    """Return the folders of the packages of the workspace by their names, the longest names first."""
    known = resolver.kept.get("javascript packages")
    if isinstance(known, dict):
        return known
    found: dict[str, str] = {}
    for path in resolver.project.paths.by_suffix("package.json")[:PACKAGES_MAX]:
        name = _read(resolver, path).get("name")
        if isinstance(name, str) and name:
            found.setdefault(name, dirname(path))
    resolver.kept["javascript packages"] = found = dict(sorted(found.items(), key=lambda item: -len(item[0])))
    return found


def _paths(resolver: Resolver) -> list[tuple[str, list[str]]]:
    """Return the patterns of modules in the tsconfig files, with the places they mean from the root of the project."""
    known = resolver.kept.get("javascript paths")
    if isinstance(known, list):
        return known
    found: list[tuple[str, list[str]]] = []
    for config in (path for name in CONFIGS for path in resolver.project.paths.by_suffix(name)[:PACKAGES_MAX]):
        options = _read(resolver, config).get("compilerOptions")
        patterns = options.get("paths") if isinstance(options, dict) else None
        if not isinstance(options, dict) or not isinstance(patterns, dict):
            continue
        base = options.get("baseUrl")
        start = f"{dirname(config)}/{base if isinstance(base, str) else '.'}"
        for pattern, targets in list(patterns.items())[:PACKAGES_MAX]:
            written = [one for one in targets if isinstance(one, str)] if isinstance(targets, list) else []
            found.append((pattern, [normpath(f"{start}/{one}").lstrip("/") for one in written[:10]]))
    resolver.kept["javascript paths"] = found
    return found


def _read(resolver: Resolver, path: str) -> dict[str, Any]:
    """Return the object of a JSON file that may have comments; empty if it is none."""
    if path not in resolver.project.paths:
        return {}
    data = resolver.project.load(path)
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
    kept: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        stop = at + 1
        if char == '"':
            while stop < len(text) and text[stop] != '"':
                stop += 2 if text[stop] == "\\" else 1
            stop += 1
            kept.append(text[at:stop])
        elif text.startswith("//", at):
            stop = text.find("\n", at)
        elif text.startswith("/*", at):
            stop = text.find("*/", at) + 2
            stop = 0 if stop == 1 else stop
        else:
            if char in "]}":
                _drop_comma(kept)
            kept.append(char)
        at = stop if stop > 0 else len(text)
    return "".join(kept)


def _drop_comma(kept: list[str]) -> None:
    last = len(kept) - 1
    while last >= 0 and kept[last].isspace():
        last -= 1
    if last >= 0 and kept[last] == ",":
        del kept[last]
