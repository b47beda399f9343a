"""Resolve an import as written to the workspace files that it may mean. Pure: it sees paths only, never a file.

Best effort by design: search paths are unknown without a build. So a target is matched by the longest path suffix,
nearest to the importer first. More than five candidates count as none, since ten wrong answers are worse.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
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


def _nearest(found: list[str], near: str) -> list[str]:
    """Return paths ordered by the folders between them and another path."""
    if len(found) < 2 or not near:
        return found
    here = near.split("/")[:-1]

    def distance(path: str) -> tuple[int, str]:
        there = path.split("/")[:-1]
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(here, there, strict=False))
        return len(here) + len(there) - 2 * sum(1 for _ in shared), path

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
    own = importer_path if language.imports.style == "rust" else dirname(importer_path)
    key = (language.name, own, target, tuple(names))
    answer = paths._answers.get(key)
    if answer is None:
        found = resolve(_ImportSearch(language.imports, importer_path, paths, names), target)
        answer = paths._answers[key] = [path for path in dict.fromkeys(found) if path != importer_path]
    return answer


def _join(folder: str, target: str) -> str:
    path = normpath(f"{folder}/{target}" if folder else target)
    return "" if path == "." else path


STDLIB = frozenset(sys.stdlib_module_names)
SCRIPT_SUFFIX = re.compile(r"\.[mc]?jsx?$")
SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _ImportSearch:
    """The search for what one file imports: one method for each style."""

    def __init__(self, imports: Imports, importer: str, paths: PathIndex, names: Sequence[str]) -> None:
        self.imports = imports
        self.importer = importer
        self.folder = dirname(importer)
        self.paths = paths
        self.names = names

    def exact(self, base: str) -> list[str]:
        """Return the path as written, with one of the suffixes, or as a folder with an index file."""
        suffixed = [base + suffix for suffix in ("", *self.imports.suffixes)]
        indexed = [f"{base}/{index}" if base else index for index in self.imports.index]
        return next(([path] for path in (*suffixed, *indexed) if path in self.paths), [])

    def first_exact(self, bases: Iterable[str]) -> list[str]:
        """Return the path of the first base that has one."""
        return next(filter(None, map(self.exact, bases)), [])

    def few(self, suffix: str) -> list[str]:
        """Return the paths with a suffix, or none if they are too many."""
        found = self.paths.by_suffix(suffix, near=self.importer)
        return found if len(found) <= CANDIDATES_MAX else []

    def by_suffix(self, base: str) -> list[str]:
        """Return the few paths that end with a base and one of the suffixes, or with its index file."""
        tails = (*self.imports.suffixes, *("/" + index for index in self.imports.index))
        return next(filter(None, (self.few(base + tail) for tail in tails)), [])

    def sources(self, folder: str) -> list[str]:
        """Return the files of a folder that are in the language, without tests of Go."""
        files = [path for path in self.paths.in_folder(folder) if path.endswith(self.imports.suffixes)]
        own = [path for path in files if not path.endswith("_test.go")]
        return own if len(own) <= FOLDER_FILES_MAX else []

    def nearest_sources(self, folders: list[str]) -> list[str]:
        """Return the files of the folder that is nearest to the importer."""
        return self.sources(_nearest([folder + "/" for folder in folders], self.importer)[0][:-1])

    # -- one method a style --

    def python(self, target: str) -> list[str]:
        dots = len(target) - len(target.lstrip("."))
        module = target[dots:].replace(".", "/")
        if dots:
            folder = self.folder
            for _ in range(dots - 1):
                folder = dirname(folder)
            bases = [_join(folder, module)]
        else:
            bases = [module, *(f"{root}/{module}" for root in self.imports.roots)]
            if "/" not in module and module not in STDLIB and _join(self.folder, "__init__.py") not in self.paths:
                bases.append(_join(self.folder, module))  # a file next to a script; inside a package it takes a dot
        for base in bases:
            found = [path for name in self.names for path in self.exact(f"{base}/{name}" if base else name)]
            found += self.exact(base)
            if found:
                return found
        if dots or "/" not in module:
            return []
        return [
            path for base in (*(f"{module}/{name}" for name in self.names), module) for path in self.by_suffix(base)
        ]

    def relative(self, target: str) -> list[str]:
        target = target.partition("?")[0]
        if target.startswith("/"):  # the root of the site, which is the workspace or one of its source folders
            bases = [_join("", target.lstrip("/"))]
            bases += [f"{root}{target}" for root in (*self.imports.roots, "public", "static")]
        elif target.startswith("."):
            bases = [_join(self.folder, target)]
        elif target[:2] in ("@/", "~/", "#/"):
            roots = (*self.imports.roots, ".")
            bases = [_join(parent, f"{root}/{target[2:]}") for parent in self.parents() for root in roots]
        else:  # `@scope/name/sub` in a monorepo: a folder `packages/name`, its index or the file below it
            name, *rest = target.split("/")[target.startswith("@") and "/" in target :]
            bases = ["/".join([f"packages/{name}", *inner, *rest]) for inner in ((), ("src",))]
            return self.first_exact(bases)
        # TypeScript writes `./a.js` and means `./a.ts`.
        return self.first_exact(one for base in bases for one in (base, SCRIPT_SUFFIX.sub("", base)))

    def parents(self) -> list[str]:
        """Return the folders around the importer, the innermost first."""
        parts = self.importer.split("/")
        return ["/".join(parts[:stop]) for stop in range(len(parts) - 1, -1, -1)]

    def go(self, target: str) -> list[str]:
        """Find the longest suffix of the package path that is a folder here."""
        if target.startswith("."):
            return self.sources(_join(self.folder, target))
        parts = target.split("/")
        is_hosted = "." in parts[0]
        if not is_hosted and len(parts) < 2:
            return []
        for first in range(len(parts) if is_hosted else 1):  # of the standard library only the whole path counts
            folders = self.paths.folders_by_suffix("/".join(parts[first:]))
            if len(folders) == 1 or (folders and len(parts) - first > 1):
                return self.nearest_sources(folders)
        # The module's own root package: github.com/go-chi/chi/v5 imported from a folder below the root.
        is_root = len(parts) in (3, 4) and is_hosted and "go.mod" in self.paths
        if is_root and any(path.startswith(parts[2]) for path in self.paths.in_folder("")):
            return self.sources("")
        return []

    def dotted_path(self, target: str) -> list[str]:
        """Java, Kotlin, Scala, PHP, Haskell, Lua ...: the path of a file, or of something inside the file."""
        parts = [part for part in target.strip(self.imports.separator).split(self.imports.separator) if part]
        if parts and parts[-1] in ("*", "_"):
            folders = self.paths.folders_by_suffix("/".join(parts[:-1])) if len(parts) > 1 else []
            return self.nearest_sources(folders) if folders else []
        if len(parts) == 1:  # too short for a search: only in source folders, or next to the importer
            return self.first_exact(_join(folder, parts[0]) for folder in ("", *self.imports.roots, self.folder))
        for stop in range(len(parts), max(1, len(parts) - 3), -1):
            # As PSR-4 and Go-like prefixes are not folders, the path may do without its first components.
            firsts = range(max(1, stop - 1)) if self.imports.shortens else (0,)
            found = next(filter(None, (self.by_suffix("/".join(parts[first:stop])) for first in firsts)), [])
            if found:
                return found
        return []

    def include(self, target: str) -> list[str]:
        """C, Protobuf, shell ...: next to the importer, else by suffix."""
        found = self.exact(_join(self.folder, target))
        if target.startswith(".."):
            target = target.lstrip("./")
        return found or self.few(target) or self.by_suffix(target)

    def namespace(self, target: str) -> list[str]:
        """C#: a namespace is, by custom, a folder, and a dot in it may be one in a folder's name."""
        folders = self.paths.folders_by_dotted(target)
        return self.nearest_sources(folders) if 0 < len(folders) <= CANDIDATES_MAX else []

    def rust(self, target: str) -> list[str]:
        parts = target.split("::")
        folder, _, name = self.importer.rpartition("/")
        own = folder if name in ("mod.rs", "lib.rs", "main.rs") else f"{folder}/{name[:-3]}".lstrip("/")
        if parts[0] == "crate":
            return self.rust_path(self.crate_root(), parts[1:])
        if parts[0] in ("self", "super"):
            while parts and parts[0] in ("self", "super"):
                own = dirname(own) if parts.pop(0) == "super" else own
        elif len(parts) > 1:  # not `mod x;`
            crates = (parts[0].replace("_", "-"), parts[0])
            folders = [folder for crate in crates for folder in self.paths.folders_by_suffix(f"{crate}/src")]
            if folders:
                return self.rust_path(folders[0], parts[1:])
        return self.rust_path(own, parts)

    def crate_root(self) -> str:
        """Return the folder of the crate that the importer is in."""
        for folder in self.parents():
            if any(_join(folder, name) in self.paths for name in ("lib.rs", "main.rs")):
                return folder
        return self.importer.partition("/src/")[0] + "/src" if "/src/" in self.importer else "src"

    def rust_path(self, root: str, parts: list[str]) -> list[str]:
        """Return the module file of the longest part of a path: its end may be an item inside the module."""
        if not parts:
            return []
        bases = [_join(root, "/".join(parts[:stop])) for stop in range(len(parts), 0, -1)]
        found = [base + end for base in bases for end in (".rs", "/mod.rs", "/lib.rs")]
        found += [_join(root, name) for name in ("lib.rs", "mod.rs", "main.rs")]
        return next(([path] for path in (*found, root + ".rs") if path in self.paths), [])

    def snake(self, target: str) -> list[str]:
        """Elixir: `MyApp.UserAuth` is `my_app/user_auth.ex`, or that file without the application's folder."""
        parts = [SNAKE.sub("_", part).lower() for part in target.split(".")]
        firsts = range(min(2, len(parts)))
        return next(filter(None, (self.by_suffix("/".join(parts[first:])) for first in firsts)), [])

    def ruby(self, target: str) -> list[str]:
        found = self.first_exact([_join(self.folder, target), *(f"{root}/{target}" for root in self.imports.roots)])
        return found or ([] if target.startswith(".") else self.by_suffix(target))

    def dart(self, target: str) -> list[str]:
        if target.startswith("package:"):
            package, _, rest = target[8:].partition("/")
            return self.few(f"{package}/lib/{rest}") or self.few(f"lib/{rest}")
        return [] if ":" in target else self.exact(_join(self.folder, target))


STYLES: dict[str, Callable[[_ImportSearch, str], list[str]]] = {
    "python": _ImportSearch.python,
    "relative": _ImportSearch.relative,
    "folder": _ImportSearch.go,
    "dotted": _ImportSearch.dotted_path,
    "include": _ImportSearch.include,
    "namespace": _ImportSearch.namespace,
    "rust": _ImportSearch.rust,
    "snake": _ImportSearch.snake,
    "ruby": _ImportSearch.ruby,
    "dart": _ImportSearch.dart,
}
"""The resolvers a language file may name in `imports.style`."""
