"""Resolve an import as written to the workspace files that it may mean. Pure: it sees paths only, never a file.

Best effort by design: search paths are unknown without a build. So a target is matched by the longest path suffix,
nearest to the importer first. More than five candidates count as none, since ten wrong answers are worse.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from posixpath import dirname, normpath

from context_engine.languages.language import Imports, Language

CANDIDATES_MAX = 5  # a suffix that more files have does not identify one
FOLDER_FILES_MAX = 200


class PathIndex:
    """The paths of a workspace, for look-ups by exact path, path suffix and folder. Built once, then read.

    >>> paths = PathIndex(["src/zoo/cat.py", "docs/cat.md"])
    >>> paths.by_suffix("zoo/cat.py"), "docs/cat.md" in paths
    (['src/zoo/cat.py'], True)
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        self._folders: dict[str, list[str]] = {}
        self._folders_by_name: dict[str, list[str]] = {}
        self._folders_by_word: dict[str, list[str]] = {}
        for path in sorted(self._paths):
            folder, _, name = path.rpartition("/")
            self._by_name.setdefault(name.lower(), []).append(path)
            self._folders.setdefault(folder, []).append(path)
        for folder in self._folders:
            self._folders_by_name.setdefault(folder.rpartition("/")[2], []).append(folder)
            self._folders_by_word.setdefault(re.split(r"[/.]", folder)[-1], []).append(folder)
        self._answers: dict[tuple[object, ...], list[str]] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def __len__(self) -> int:
        return len(self._paths)

    def by_suffix(self, suffix: str, *, near: str = "") -> list[str]:
        """Return the paths that end with these whole components, those that share most folders with `near` first."""
        name = suffix.rpartition("/")[2].lower()
        end = "/" + suffix
        found = [path for path in self._by_name.get(name, ()) if path == suffix or path.endswith(end)]
        return _nearest(found, near)

    def in_folder(self, folder: str) -> list[str]:
        """Return the files directly in a folder."""
        return self._folders.get(folder, [])

    def folders_by_suffix(self, suffix: str) -> list[str]:
        """Return the folders that contain files and whose path ends with these components."""
        end = "/" + suffix
        named = self._folders_by_name.get(suffix.rpartition("/")[2], ())
        return [folder for folder in named if folder == suffix or folder.endswith(end)]

    def folders_by_dotted(self, dotted: str) -> list[str]:
        """Return the folders whose path, with dots for slashes, ends with this."""
        end = "." + dotted
        named = self._folders_by_word.get(dotted.rpartition(".")[2], ())
        return [folder for folder in named if ("." + folder.replace("/", ".")).endswith(end)]


def _nearest_folder(folders: list[str], near: str) -> str:
    return _nearest([folder + "/" for folder in folders], near)[0][:-1]


def _nearest(found: list[str], near: str) -> list[str]:
    if len(found) < 2 or not near:
        return found
    here = near.split("/")[:-1]

    def distance(path: str) -> tuple[int, str]:
        there = path.split("/")[:-1]
        shared = 0
        for left, right in zip(here, there, strict=False):
            if left != right:
                break
            shared += 1
        return len(here) + len(there) - 2 * shared, path

    return sorted(found, key=distance)


def resolve_import(
    language: Language, importer_path: str, target: str, paths: PathIndex, names: Sequence[str] = ()
) -> list[str]:
    """Return the files that an import may mean, best first; none if it leads out of the workspace.

    `names` are those of `Import.names`: `from package import module` may mean the module's own file.
    """
    resolve = STYLES.get(language.imports.style)
    target = target.strip()
    if resolve is None or not target or len(target) > 300:
        return []
    key = (language.name, dirname(importer_path), target, tuple(names))
    if language.imports.style == "rust":
        key = (*key, importer_path)
    answer = paths._answers.get(key)
    if answer is None:
        found = resolve(language.imports, importer_path, target, paths, names)
        answer = paths._answers[key] = [path for path in dict.fromkeys(found) if path != importer_path]
    return answer


def _few(found: list[str]) -> list[str]:
    """Return what a suffix found, or nothing if it found too much."""
    return found if len(found) <= CANDIDATES_MAX else []


def _join(folder: str, target: str) -> str:
    path = normpath(f"{folder}/{target}" if folder else target)
    return "" if path == "." else path


def _exact(imports: Imports, base: str, paths: PathIndex) -> list[str]:
    """Return the path as written, with one of the suffixes, or as a folder with an index file."""
    if base in paths:
        return [base]
    for suffix in imports.suffixes:
        if base + suffix in paths:
            return [base + suffix]
    for index in imports.index:
        path = f"{base}/{index}" if base else index
        if path in paths:
            return [path]
    return []


def _by_suffix(imports: Imports, base: str, importer: str, paths: PathIndex) -> list[str]:
    for tail in (*imports.suffixes, *("/" + index for index in imports.index)):
        found = _few(paths.by_suffix(base + tail, near=importer))
        if found:
            return found
    return []


# -- one function a style -----------------------------------------------------------------------------------------


STDLIB = frozenset(sys.stdlib_module_names)


def _python(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    dots = len(target) - len(target.lstrip("."))
    module = target[dots:].replace(".", "/")
    if dots:
        folder = dirname(importer)
        for _ in range(dots - 1):
            folder = dirname(folder)
        bases = [_join(folder, module)]
    else:
        bases = [module, *(f"{root}/{module}" for root in imports.roots)]
        if "/" not in module and module not in STDLIB and _join(dirname(importer), "__init__.py") not in paths:
            bases.append(_join(dirname(importer), module))  # a file next to a script; inside a package it takes a dot
    for base in bases:
        found = [path for name in names for path in _exact(imports, f"{base}/{name}" if base else name, paths)]
        own = _exact(imports, base, paths)
        if found or own:
            return found + own
    if dots or "/" not in module:
        return []
    found = [path for name in names for path in _by_suffix(imports, f"{module}/{name}", importer, paths)]
    return found + _by_suffix(imports, module, importer, paths)


SCRIPT_SUFFIX = re.compile(r"\.[mc]?jsx?$")


def _relative(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    target = target.partition("?")[0]
    if target.startswith((".", "/")):
        # A leading slash means the root of the site, which is the workspace or one of its source folders.
        folder = "" if target.startswith("/") else dirname(importer)
        bases = [_join(folder, target.lstrip("/"))]
        if target.startswith("/"):
            bases += [f"{root}{target}" for root in (*imports.roots, "public", "static")]
    elif target[:2] in ("@/", "~/", "#/"):
        parents = _parents(importer)
        bases = [_join(parent, f"{root}/{target[2:]}") for parent in parents for root in (*imports.roots, ".")]
    else:
        return _workspace_package(imports, target, paths)
    for base in bases:
        found = _exact(imports, base, paths)
        if not found and SCRIPT_SUFFIX.search(base):  # TypeScript writes `./a.js` and means `./a.ts`
            found = _exact(imports, SCRIPT_SUFFIX.sub("", base), paths)
        if found:
            return found
    return []


def _parents(path: str) -> list[str]:
    folders = []
    while path:
        path = dirname(path)
        folders.append(path)
    return folders


def _workspace_package(imports: Imports, target: str, paths: PathIndex) -> list[str]:
    """`@scope/name/sub` in a monorepo: a folder `packages/name`, its index or the file below it."""
    parts = target.split("/")
    (name, rest) = (parts[1], parts[2:]) if target.startswith("@") and len(parts) > 1 else (parts[0], parts[1:])
    folder = f"packages/{name}"
    for base in ("/".join([folder, *rest]), "/".join([folder, "src", *rest])):
        found = _exact(imports, base, paths)
        if found:
            return found
    return []


def _folder(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    """Go: the longest suffix of the package path that is a folder here."""
    if target.startswith("."):
        return _sources(imports, _join(dirname(importer), target), paths)
    parts = target.split("/")
    if "." not in parts[0] and len(parts) < 2:
        return []
    for first in range(len(parts)):
        folders = paths.folders_by_suffix("/".join(parts[first:]))
        if len(folders) == 1 or (folders and len(parts) - first > 1):
            return _sources(imports, _nearest_folder(folders, importer), paths)
        if "." not in parts[0]:
            break  # the standard library: only its whole path counts
    # The module's own root package: github.com/go-chi/chi/v5 imported from a folder below the root.
    if len(parts) in (3, 4) and "." in parts[0] and _is_own_root(parts, paths):
        return _sources(imports, "", paths)
    return []


def _is_own_root(parts: list[str], paths: PathIndex) -> bool:
    return "go.mod" in paths and any(path.startswith(parts[2]) for path in paths.in_folder(""))


def _sources(imports: Imports, folder: str, paths: PathIndex) -> list[str]:
    files = [path for path in paths.in_folder(folder) if path.endswith(imports.suffixes)]
    own = [path for path in files if not path.endswith("_test.go")]
    return own if len(own) <= FOLDER_FILES_MAX else []


def _resolve_dotted(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    """Java, Kotlin, Scala, PHP, Haskell, Lua ...: the path is a file's path, or that of something inside the file."""
    parts = [part for part in target.strip(imports.separator).split(imports.separator) if part]
    if parts and parts[-1] in ("*", "_"):
        return _package(imports, parts[:-1], importer, paths)
    if len(parts) == 1:  # one component is too short for a search: only in source folders, or next to the importer
        folders = ("", *imports.roots, dirname(importer))
        return next(filter(None, (_exact(imports, _join(folder, parts[0]), paths) for folder in folders)), [])
    for stop in (len(parts), len(parts) - 1, len(parts) - 2):
        if stop < 2:
            break
        found = _shorter(imports, parts[:stop], importer, paths)
        if found:
            return found
    return []


def _shorter(imports: Imports, parts: list[str], importer: str, paths: PathIndex) -> list[str]:
    """Find the path by suffix; then without its first components, as PSR-4 and Go-like prefixes are not folders."""
    for first in range(max(1, len(parts) - 1)):
        found = _by_suffix(imports, "/".join(parts[first:]), importer, paths)
        if found:
            return found
        if not imports.shortens:
            break
    return []


def _package(imports: Imports, parts: list[str], importer: str, paths: PathIndex) -> list[str]:
    folders = paths.folders_by_suffix("/".join(parts)) if parts else []
    return _sources(imports, _nearest_folder(folders, importer), paths) if folders else []


def _include(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    """C, Protobuf, shell ...: next to the importer, else by suffix."""
    here = _join(dirname(importer), target)
    found = _exact(imports, here, paths)
    if found:
        return found
    if target.startswith(".."):
        target = target.lstrip("./")
    found = _few(paths.by_suffix(target, near=importer))
    return found or _by_suffix(imports, target, importer, paths)


def _namespace(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    """C#: a namespace is, by custom, a folder, and a dot in it may be one in a folder's name."""
    folders = paths.folders_by_dotted(target)
    if 0 < len(folders) <= CANDIDATES_MAX:
        return _sources(imports, _nearest_folder(folders, importer), paths)
    return []


def _rust(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    parts = target.split("::")
    folder, _, name = importer.rpartition("/")
    own = folder if name in ("mod.rs", "lib.rs", "main.rs") else f"{folder}/{name[:-3]}".lstrip("/")
    if parts[0] == "crate":
        root = _crate_root(importer, paths)
        return _rust_path(root, parts[1:], paths)
    if parts[0] in ("self", "super"):
        while parts and parts[0] in ("self", "super"):
            own = dirname(own) if parts.pop(0) == "super" else own
        return _rust_path(own, parts, paths)
    if len(parts) == 1:  # `mod x;`
        return _rust_path(own, parts, paths)
    crate = parts[0]
    for folder_name in (crate.replace("_", "-"), crate):
        for folder in paths.folders_by_suffix(f"{folder_name}/src"):
            return _rust_path(folder, parts[1:], paths)
    return _rust_path(own, parts, paths)


def _crate_root(importer: str, paths: PathIndex) -> str:
    for folder in _parents(importer):
        prefix = f"{folder}/" if folder else ""
        if prefix + "lib.rs" in paths or prefix + "main.rs" in paths:
            return folder
    return importer.partition("/src/")[0] + "/src" if "/src/" in importer else "src"


def _rust_path(root: str, parts: list[str], paths: PathIndex) -> list[str]:
    """Return the module file of the longest part of a path: its end may be an item inside the module."""
    for stop in range(len(parts), 0, -1):
        base = _join(root, "/".join(parts[:stop]))
        for path in (f"{base}.rs", f"{base}/mod.rs", f"{base}/lib.rs"):
            if path in paths:
                return [path]
    for name in ("lib.rs", "mod.rs", "main.rs"):
        if parts and _join(root, name) in paths:
            return [_join(root, name)]
    return [root + ".rs"] if parts and root + ".rs" in paths else []


SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _snake(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    """Elixir: `MyApp.UserAuth` is `my_app/user_auth.ex`, or that file without the application's folder."""
    parts = [SNAKE.sub("_", part).lower() for part in target.split(".")]
    for first in range(min(2, len(parts))):
        found = _by_suffix(imports, "/".join(parts[first:]), importer, paths)
        if found:
            return found
    return []


def _ruby(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    found = _exact(imports, _join(dirname(importer), target), paths)
    for root in imports.roots:
        found = found or _exact(imports, f"{root}/{target}", paths)
    return found or ([] if target.startswith(".") else _by_suffix(imports, target, importer, paths))


def _dart(imports: Imports, importer: str, target: str, paths: PathIndex, names: Sequence[str]) -> list[str]:
    if target.startswith("package:"):
        package, _, rest = target[8:].partition("/")
        for suffix in (f"{package}/lib/{rest}", f"lib/{rest}"):
            found = _few(paths.by_suffix(suffix, near=importer))
            if found:
                return found
        return []
    return [] if ":" in target else _exact(imports, _join(dirname(importer), target), paths)


STYLES: dict[str, Callable[[Imports, str, str, PathIndex, Sequence[str]], list[str]]] = {
    "python": _python,
    "relative": _relative,
    "folder": _folder,
    "dotted": _resolve_dotted,
    "include": _include,
    "namespace": _namespace,
    "rust": _rust,
    "snake": _snake,
    "ruby": _ruby,
    "dart": _dart,
}
"""The resolvers a language file may name in `imports.style`."""
