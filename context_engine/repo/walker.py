"""Which files the workspace consists of: one walk under its ignore rules, with the reasons for everything left out.

The walker opens nothing but ignore files and git's pointer files. Reasons: docs/decisions/archive/0004.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from context_engine.errors import AccessFailed, FileNotFound
from context_engine.model import RelPath, Skipped
from context_engine.repo.git_files import common_dir_of, repository_of
from context_engine.repo.ignore_rules import IGNORE_FILES, NO_RULE, IgnoreRules, PlacedRules, RuleStack
from context_engine.repo.paths import (
    SENSITIVE_NAMES,
    SENSITIVE_PAIRS,
    SENSITIVE_SUFFIXES,
    is_sensitive,
    is_sensitive_name,
    listed_all,
    plain_name,
    real_path,
)
from context_engine.storage import ConfinedFolder, OpenFolder

BYTES_MAX = 1_000_000
"""Larger files are skipped: nearly all are machine-made, and the parser needs thirty times their size."""
IGNORE_FILE_BYTES_MAX = 1_000_000
"""A larger ignore file is a mistake and would cost seconds to compile; it is reported, not read."""
DEPTH_MAX = 200
"""Nested folders; a deeper one is a loop that a mount makes, or an attack."""
LEVELS_ALL = DEPTH_MAX + 1
"""One level more than a walk goes, so that what lies too deep is reported."""

NEVER = frozenset({".git", ".hg", ".svn", ".jj", ".context-engine"})
"""Names that are neither walked nor reported: version control and our own state."""

BUILT_IN = "\n".join(
    (
        "node_modules/ bower_components/ __pycache__/ .tox/ .nox/ .eggs/ .mypy_cache/ .pytest_cache/ .ruff_cache/ "
        ".hypothesis/ .ipynb_checkpoints/ .next/ .nuxt/ .svelte-kit/ .turbo/ .parcel-cache/ .gradle/ .terraform/ "
        ".yarn/cache/ .DS_Store .ctx-*.tmp"
    ).split()
)
"""Ignored even without a rule in any file; `.contextignore` can include any of them again with `!`."""

CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"
"""First bytes of a CACHEDIR.TAG, by which a tool marks a folder as its cache (bford.info/cachedir)."""

BINARY_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        "png jpg jpeg gif bmp ico icns webp avif heic tif tiff psd xcf ai sketch "
        "mp3 mp4 m4a m4v mov avi mkv webm wav flac ogg oga ogv opus aac wma wmv "
        "zip gz tgz bz2 xz zst lz4 br 7z rar tar jar war ear aar apk ipa whl egg nupkg deb rpm dmg iso cab msi crx "
        "exe dll so dylib a o pdb class pyc pyo pyd wasm beam bin elc rlib rmeta "
        "ttf otf woff woff2 eot pdf doc docx xls xlsx ppt pptx odt ods odp "
        "db sqlite sqlite3 mdb parquet arrow feather orc avro npy npz h5 hdf5 pkl pickle pt pth onnx safetensors gguf "
        "tflite pb mo gmo glb fbx blend dex keystore swp swo"
    ).split()
)
"""Lower-case endings of files that are not text, so that no file is opened to find out."""

_BY_DESCRIPTOR = os.scandir in os.supports_fd
_FOLDER_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_SUSPECT_SUFFIXES = BINARY_SUFFIXES | SENSITIVE_SUFFIXES.keys()


class WalkedFile(NamedTuple):
    """A file of the workspace as the walk saw it."""

    path: RelPath
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Walk:
    """The result of one walk. `entries` and `skipped` are sorted by path.

    An ignored folder is one row of `skipped`.
    `folders` maps each listed folder ("" for the root) to its mtime_ns from just before: see `scan`. `is_settled`:
    every change since must show in a file's time or size.
    """

    entries: tuple[WalkedFile, ...]
    skipped: tuple[Skipped, ...]
    folders: Mapping[str, int]
    is_settled: bool = False

    def files(self) -> dict[str, tuple[int, int]]:
        """Return path -> (size, mtime_ns) with plain strings: the manifest that `scan` takes."""
        return {str(path): (size, mtime_ns) for path, size, mtime_ns in self.entries}


def walk(
    root: str | os.PathLike[str],
    paths: Iterable[str] = ("",),
    *,
    bytes_max: int = BYTES_MAX,
    excludes_file: str | None = None,
    check: Callable[[], None] | None = None,
    levels: int = LEVELS_ALL,
) -> Walk:
    """Walk the files of `root`, or those of these files and folders in it, by the rules that apply there.

    Going down to a file lists no folder on the way, so it costs the same in a large tree; paths that do not exist are
    left out. `levels` ends the walk so many folders below each path. `excludes_file` is git's core.excludesFile
    (`Git.excludes_file`), the weakest of all rules. `check` is called once a folder and stops the walk by raising.
    Raises: FileNotFound when there is no such root, AccessFailed when it cannot be listed.
    """
    real = os.path.realpath(root)
    with _enter(real) as top:
        walker = _Walker(real, top, bytes_max, check or (lambda: None), levels)
        walker.begin(excludes_file)
        walked: set[str] = set()
        for path in sorted({"/".join([part for part in path.split("/") if part not in {"", "."}]) for path in paths}):
            if ".." not in path.split("/") and walked.isdisjoint(_with_above(path)):
                walked.add(path)
                walker.walk(path)
        return walker.result()


def _enter(root: str) -> OpenFolder:
    try:
        os.scandir(root).close()
        return ConfinedFolder(root).open_folder()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFound(f"there is no folder {root}", suggestion="Check the workspace root.") from error
    except OSError as error:
        raise AccessFailed(
            f"the folder {root} cannot be listed: {error.strerror}", suggestion="Give this user permission to read it."
        ) from error


def _with_above(path: str) -> list[str]:
    """Return a path and all folders above it, "" for the root.

    >>> _with_above("a/b")
    ['', 'a', 'a/b']
    """
    parts = path.split("/") if path else []
    return ["/".join(parts[:number]) for number in range(len(parts) + 1)]


class _PendingFolder(NamedTuple):
    """A folder that is still to be listed.

    `insisted`: a negation included it, so nothing in it may exclude it again.
    """

    rel: str
    absolute: str
    stack: RuleStack
    depth: int
    mtime_ns: int
    place: tuple[int, int]  # device and inode
    insisted: bool = False


class _NamedEntry:
    """One name of a folder, examined without listing the folder, with the interface of `os.DirEntry`."""

    def __init__(self, folder: OpenFolder, name: str) -> None:
        self.name = name
        self._status = folder.stat(name)

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a folder; links are never followed."""
        assert not follow_symlinks
        return stat.S_ISDIR(self._status.st_mode)

    def is_file(self, *, follow_symlinks: bool) -> bool:
        """Return whether it is a plain file; links are never followed."""
        assert not follow_symlinks
        return stat.S_ISREG(self._status.st_mode)

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        """Return its status; links are never followed."""
        assert not follow_symlinks
        return self._status


_Entry = os.DirEntry[str] | _NamedEntry


class _NameVerdicts(dict[str, "tuple[str, str] | None"]):
    """Verdicts by name alone, computed on first use: secrets, formats without text, names that no reply can contain."""

    __slots__ = ()

    def __missing__(self, name: str) -> tuple[str, str] | None:
        plain = name.lower()
        suspect = (
            plain[plain.rfind(".") :] in _SUSPECT_SUFFIXES
            or plain in SENSITIVE_NAMES
            or plain.startswith(".env.")
            or plain[-1] in ". "
            or not plain.isascii()
        )
        verdict = self[name] = _name_verdict(name) if suspect else None
        return verdict


def _name_verdict(name: str) -> tuple[str, str] | None:
    plain = plain_name(name)
    if reason := is_sensitive_name(plain):
        return "sensitive", reason
    suffix = os.path.splitext(plain)[1]
    if suffix in BINARY_SUFFIXES:
        return "binary", f"a {suffix} file"
    if any("\ud800" <= char <= "\udfff" for char in name):
        return "unreadable", "its name is not UTF-8"
    return None


class _Walker:
    """The state of one walk: folders that wait to be listed, and what was found so far."""

    def __init__(self, root: str, top: OpenFolder, bytes_max: int, check: Callable[[], None], levels: int) -> None:
        self._root = root
        self._top = top
        self._bytes_max = bytes_max
        self._check = check
        self._levels = levels
        self._deepest = LEVELS_ALL
        self._files: list[tuple[str, int, int]] = []
        self._skipped: list[tuple[str, str, str]] = []
        self._listed: dict[str, int] = {}
        self._waiting: list[_PendingFolder] = []
        self._entered: dict[str, _PendingFolder | None] = {}  # folders on the way down; None: not entered
        self._folders_seen: set[tuple[int, int]] = set()
        self._repositories_seen: set[str] = set()
        self._by_name = _NameVerdicts()
        self._ignore_files: Mapping[str, str] = IGNORE_FILES
        self._built_in = [PlacedRules(IgnoreRules("built-in", BUILT_IN, name="built in"))]

    def result(self) -> Walk:
        """Return what was found, in order."""
        self._files.sort(key=itemgetter(0))
        paths, sizes, times = zip(*self._files, strict=True) if self._files else ((), (), ())
        return Walk(
            entries=tuple(map(WalkedFile, listed_all(paths), sizes, times)),
            skipped=tuple([Skipped(*row) for row in sorted(self._skipped)]),
            folders=self._listed,
        )

    # -- where to begin --

    def begin(self, excludes_file: str | None) -> None:
        """Look at the root and the rules that come from above it."""
        status = self._top.stat(".")
        if owner := common_dir_of(self._root):
            self._repositories_seen.add(owner)
        stack = self._outer_rules(excludes_file)
        place = (status.st_dev, status.st_ino)
        self._folders_seen.add(place)
        self._entered[""] = _PendingFolder("", self._root, stack, 0, status.st_mtime_ns, place, insisted=True)

    def walk(self, path: str) -> None:
        """Go down to a file or folder, so that every rule on the way holds, and walk what is there."""
        folder = self._entered[""]
        for rel in _with_above(path)[1:]:
            if folder is not None and rel not in self._entered:
                self._entered[rel] = self._step(folder, rel.rpartition("/")[2], may_be_file=rel == path)
            folder = self._entered.get(rel)
        if folder is None:
            return
        self._waiting.append(folder)
        self._deepest = folder.depth + self._levels
        while self._waiting:
            self._check()
            self._list(self._waiting.pop())
        self._deepest = LEVELS_ALL

    def _step(self, folder: _PendingFolder, name: str, *, may_be_file: bool) -> _PendingFolder | None:
        """Go one name down without listing the folder; return None where a walk would not go, or without a folder."""
        try:
            opened = self._open(folder)
        except OSError:  # gone by now, or another folder has its place
            return None
        with opened:
            entries: dict[str, _Entry] = {}
            for marker in (*IGNORE_FILES, ".git", "pyvenv.cfg", "CACHEDIR.TAG", name):
                with suppress(OSError, ValueError):  # not there, closed, or no name at all: there is nothing to judge
                    entries[marker] = _NamedEntry(opened, marker)
            if reason := self._why_closed(folder, opened, entries):
                self._skipped.append((folder.rel, *reason))
                return None
            if name not in entries:
                return None
            if not may_be_file and not entries[name].is_dir(follow_symlinks=False):
                return None
            self._judge(folder, self._rules_inside(folder, opened, entries), {name: entries[name]})
            return self._waiting.pop() if self._waiting else None

    def _outer_rules(self, excludes_file: str | None) -> RuleStack:
        """Return the rules before the root is listed: built in, git's own, and those of the folders above it."""
        inner = self._built_in
        repository = repository_of(self._root)
        top = repository.top if repository else self._root
        way = [] if top == self._root else os.path.relpath(self._root, top).split(os.sep)
        outer = [(0, rules) for rules in self._rules_of_git(top, excludes_file)]
        for number in range(len(way)):
            folder = os.path.join(top, *way[:number])
            names = [name for name in self._ignore_files if _is_plain_file(os.path.join(folder, name))]
            outer += [(number, rules) for rules in self._rules_of(OpenFolder(folder, None), names, report=False)]
        for number, name in enumerate(way):
            above = RuleStack(_placed_above(outer, way[:number]))
            if above.at("").value(name, is_folder=True) & 1:  # the root is not part of that repository
                return RuleStack(inner)
        return RuleStack([*inner, *_placed_above(outer, way)])

    def _rules_of_git(self, top: str, excludes_file: str | None) -> Iterator[IgnoreRules]:
        """Yield the rules outside the work tree: of the user (core.excludesFile), and of this clone (info/exclude)."""
        if excludes_file and (text := self._text(excludes_file)):
            yield IgnoreRules("global", text, name=excludes_file)
        owner = common_dir_of(top)
        if owner and (text := self._text(os.path.join(owner, "info", "exclude"))):
            yield IgnoreRules("exclude", text, name=".git/info/exclude")

    # -- from folder to folder --

    def _list(self, folder: _PendingFolder) -> None:
        """Judge the names in a folder, if it is still the one that was found and none of them excludes it."""
        try:
            with self._open(folder) as opened:
                with os.scandir(opened.path if opened.descriptor is None else opened.descriptor) as found:
                    entries = {entry.name: entry for entry in found}
                if reason := self._why_closed(folder, opened, entries):
                    self._skipped.append((folder.rel, *reason))
                    return
                self._listed[folder.rel] = folder.mtime_ns
                self._judge(folder, self._rules_inside(folder, opened, entries), entries)
        except OSError as error:
            self._skipped.append((folder.rel, *_trouble(error)))

    def _open(self, folder: _PendingFolder) -> OpenFolder:
        """Open the very folder that was found: by now a link out of the workspace may have its name.

        Raises: OSError.
        """
        if not _BY_DESCRIPTOR:
            return OpenFolder(folder.absolute, None)
        opened = OpenFolder(folder.absolute, self._top.open(folder.rel, _FOLDER_FLAGS))
        if opened.identity() != folder.place:
            opened.close()
            raise FileNotFoundError(errno.ENOENT, "another folder has its place by now")
        return opened

    def _why_closed(
        self, folder: _PendingFolder, opened: OpenFolder, entries: Mapping[str, _Entry]
    ) -> tuple[str, str] | None:
        if folder.depth > DEPTH_MAX:
            return "loop", f"more than {DEPTH_MAX} folders deep"
        if ".git" in entries and folder.rel and self._is_second_work_tree(folder):
            return "nested_worktree", "another work tree of a repository that is walked already"
        if folder.insisted:
            return None
        if "pyvenv.cfg" in entries:
            return "ignored", "a Python virtual environment"
        if "CACHEDIR.TAG" in entries and _is_cache(opened):
            return "ignored", "marked as a cache by CACHEDIR.TAG"
        return None

    def _is_second_work_tree(self, folder: _PendingFolder) -> bool:
        """Return whether the walk has another work tree of the same repository."""
        owner = common_dir_of(folder.absolute)
        if owner is None or folder.rel in self._entered:  # on the way down every folder is looked at twice
            return False
        main = os.path.dirname(owner)
        if os.path.basename(owner) == ".git" and main != folder.absolute and self._contains(main):
            return True
        seen = owner in self._repositories_seen
        self._repositories_seen.add(owner)
        return seen

    def _contains(self, real: str) -> bool:
        return f"{real}{os.sep}".startswith(self._root.rstrip(os.sep) + os.sep)

    def _judge(self, folder: _PendingFolder, stack: RuleStack, entries: Mapping[str, _Entry]) -> None:
        """Sort the entries of one folder into files, folders and skipped. The hot loop of the walk."""
        prefix = f"{folder.rel}/" if folder.rel else ""
        view = stack.at(folder.rel)
        tables = stack.names if view.simple else None
        private = plain_name(folder.rel.rpartition("/")[2]) in SENSITIVE_PAIRS
        by_name, skipped = self._by_name, self._skipped
        folders: list[tuple[str, _Entry, bool]] = []
        for name, entry in entries.items():
            if name in NEVER:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            value = tables[is_folder][name] if tables else view.value(name, is_folder)
            if value & 1:
                skipped.append((prefix + name, "ignored", stack.words(value)))
            elif (verdict := by_name[name]) and not (is_folder and verdict[0] == "binary"):
                skipped.append((prefix + name, *verdict))
            elif private and (reason := is_sensitive(prefix + name)):
                skipped.append((prefix + name, "sensitive", reason))
            elif is_folder:
                folders.append((prefix + name, entry, value != NO_RULE))
            else:
                self._file(folder, prefix + name, entry)
        if folder.depth >= self._deepest:
            return
        folders.sort(key=itemgetter(0), reverse=True)  # the last is listed next
        self._waiting += [each for row in folders if (each := self._folder(folder, stack, *row))]

    def _file(self, folder: _PendingFolder, path: str, entry: _Entry) -> None:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._skipped.append((path, *_trouble(error)))
            return
        if status.st_mode & 0o170000 != stat.S_IFREG:
            self._skipped.append((path, *self._special(os.path.join(folder.absolute, entry.name), status.st_mode)))
        elif status.st_size > self._bytes_max:
            detail = f"{status.st_size:,} bytes; the limit is {self._bytes_max:,}"
            self._skipped.append((path, "too_large", detail))
        else:
            self._files.append((path, status.st_size, status.st_mtime_ns))

    def _folder(
        self, parent: _PendingFolder, stack: RuleStack, path: str, entry: _Entry, insisted: bool
    ) -> _PendingFolder | None:
        """Return a folder to be listed, unless it was listed before: a bind mount can lead back."""
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            self._skipped.append((path, *_trouble(error)))
            return None
        place = (status.st_dev, status.st_ino)
        if status.st_ino and place in self._folders_seen:  # a listing on Windows gives no number
            self._skipped.append((path, "loop", "the same folder is walked elsewhere"))
            return None
        self._folders_seen.add(place)
        absolute = os.path.join(parent.absolute, entry.name)
        return _PendingFolder(path, absolute, stack, parent.depth + 1, status.st_mtime_ns, place, insisted)

    def _special(self, absolute: str, mode: int) -> tuple[str, str]:
        """Return why a name that is neither folder nor plain file is left out.

        Links are never followed: decision record index.
        """
        if not stat.S_ISLNK(mode):
            return "special", "a pipe, socket or device"
        try:
            real = real_path(absolute)
        except OSError:
            return "vanished", "a link that is being exchanged"
        if not self._contains(real):
            return "outside", "a link that leads out of the workspace"
        target = os.path.relpath(real, self._root).replace(os.sep, "/")
        if reason := is_sensitive(target):
            return "sensitive", reason
        if not os.path.lexists(real) or os.path.islink(real):
            return "unreadable", "a link that leads nowhere"
        if f"{os.path.dirname(absolute)}{os.sep}".startswith(real.rstrip(os.sep) + os.sep):
            return "loop", f"a link back to {target}"
        return "linked", f"a link to {target}, which counts once"

    # -- rules --

    def _rules_inside(self, folder: _PendingFolder, opened: OpenFolder, entries: Mapping[str, _Entry]) -> RuleStack:
        """Return the rules for the content of a folder: without the outer git rules where another repository begins."""
        stack = folder.stack
        more: list[IgnoreRules] = []
        if ".git" in entries and folder.rel and common_dir_of(folder.absolute):
            stack = stack.without_git()
            more += self._rules_of_git(folder.absolute, None)
        found = [name for name in self._ignore_files if name in entries]
        names = [name for name in found if entries[name].is_file(follow_symlinks=False)]
        if names:
            more += self._rules_of(opened, names, folder.rel)
        placed = [PlacedRules(rules, folder.rel, depth=folder.depth) for rules in more]
        return stack.with_rules(*placed) if placed else stack

    def _rules_of(
        self, folder: OpenFolder, names: list[str], base: str = "", *, report: bool = True
    ) -> list[IgnoreRules]:
        """Return the ignore files of one folder, those of one level as one."""
        texts: dict[str, str] = {}
        parts: dict[str, list[tuple[int, str]]] = {}
        for name in names:
            rel, level = f"{base}/{name}" if base else name, IGNORE_FILES[name]
            if text := self._text(name, folder, rel if report else None):
                before = f"{texts[level]}\n" if level in texts else ""
                texts[level] = before + text
                parts.setdefault(level, []).append((before.count("\n") + 1, rel))
        return [IgnoreRules(level, text, parts=parts[level]) for level, text in texts.items()]

    def _text(self, name: str, folder: OpenFolder | None = None, rel: str | None = None) -> str:
        """Return an ignore file's text; one that cannot be read has no rules, and is reported inside the workspace."""
        why = ("too_large", "its rules do not hold: too long for an ignore file")
        try:
            raw = _beginning(folder, name, IGNORE_FILE_BYTES_MAX + 1)
        except OSError as error:
            why, raw = ("unreadable", f"its rules do not hold: {error.strerror}"), None
        if raw is not None and len(raw) <= IGNORE_FILE_BYTES_MAX:
            return raw.decode("utf-8", "surrogateescape")
        if rel is not None:
            self._skipped.append((rel, *why))
        return ""


class _UntrackedWalker(_Walker):
    """Finds the files that git neither tracks nor ignores: only git's ignore files count, and only by name."""

    def __init__(self, root: str, top: OpenFolder, tracked: Collection[str]) -> None:
        super().__init__(root, top, BYTES_MAX, lambda: None, LEVELS_ALL)
        self._tracked = tracked
        self._ignore_files = {".gitignore": "gitignore"}
        self._built_in = []
        self.untracked: list[str] = []

    def _why_closed(
        self, folder: _PendingFolder, opened: OpenFolder, entries: Mapping[str, _Entry]
    ) -> tuple[str, str] | None:
        """Return why a folder is not entered: too deep, or another repository, which git does not look into."""
        if ".git" in entries and folder.rel and common_dir_of(folder.absolute):
            return "nested_worktree", "another repository"
        return super()._why_closed(folder._replace(insisted=True), opened, {})

    def _judge(self, folder: _PendingFolder, stack: RuleStack, entries: Mapping[str, _Entry]) -> None:
        prefix = f"{folder.rel}/" if folder.rel else ""
        view, tracked = stack.at(folder.rel), self._tracked
        for name, entry in entries.items():
            path = prefix + name
            if path in tracked or name == ".git":  # a folder that git tracks is a submodule
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if view.value(name, is_folder) & 1:
                continue
            if is_folder:
                self._waiting += filter(None, [self._folder(folder, stack, path, entry, insisted=True)])
            elif stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode) in (stat.S_IFREG, stat.S_IFLNK):
                self.untracked.append(path)


def walk_untracked(root: str, tracked: Collection[str], excludes_file: str | None) -> list[str]:
    """Return the files below `root` that git would call untracked, sorted; `tracked` are those of its index.

    Git's own matcher can take for ever (30 bytes of .gitignore and a long name, before git 2.41); ours cannot. A
    repository inside is left out. Raises: as `walk`.
    """
    real = os.path.realpath(root)
    with _enter(real) as top:
        walker = _UntrackedWalker(real, top, tracked)
        walker.begin(excludes_file)
        walker.walk("")
        return sorted(walker.untracked)


def _placed_above(outer: Iterable[tuple[int, IgnoreRules]], way: Sequence[str]) -> list[PlacedRules]:
    """Return rules of folders above, as they apply at the end of a path; each has the number of steps to its folder."""
    return [
        PlacedRules(rules, lead="/".join(way[number:]), depth=number - len(way))
        for number, rules in outer
        if number <= len(way)
    ]


def _is_plain_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path, follow_symlinks=False).st_mode)
    except OSError:  # not there, or closed to us: no rules either way
        return False


def _is_cache(folder: OpenFolder) -> bool:
    try:
        return _beginning(folder, "CACHEDIR.TAG", len(CACHE_TAG)) == CACHE_TAG
    except OSError:  # a tag that cannot be read marks nothing
        return False


def _beginning(folder: OpenFolder | None, name: str, size: int) -> bytes:
    """Return the first bytes of a plain file in a folder, or of one that the user named by its absolute path.

    Raises: OSError.
    """
    if folder is None:  # a link to it may well be the user's
        above, name = os.path.split(os.path.realpath(name))
        folder = OpenFolder(above, None)
    with os.fdopen(folder.open_file(name)[0], "rb") as file:
        return file.read(size)


def _trouble(error: OSError) -> tuple[str, str]:
    """Return what an error of the system means for a walk: deleted meanwhile, or not readable."""
    gone = isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno == errno.ELOOP  # a link by now
    return "vanished" if gone else "unreadable", error.strerror or str(error)


# -- is the walk still true --------------------------------------------------------------------------------------------

# A look at sizes and times alone: no file is opened, no ignore rule is read. Known files are checked one by one, which
# finds edits and deletions. A new file changes the time of its folder; then only a walk can decide whether it counts.
# This costs a third of a walk (decision record index).


class ScanResult(NamedTuple):
    """What differs from the manifest. `needs_walk`: names came or went, or rules changed, so there may be new files."""

    changed: frozenset[str]
    removed: frozenset[str]
    needs_walk: bool

    @property
    def is_clean(self) -> bool:
        """Whether everything is as it was."""
        return not any(self)


def scan(
    root: str | os.PathLike[str], files: Mapping[str, tuple[int, int]], folders: Mapping[str, int] | None = None
) -> ScanResult:
    """Compare `files`, path -> (size, mtime_ns), and `folders`, path -> mtime_ns (`Walk.folders`), with the disk.

    Without `folders` new files go unseen. A file that may not be looked at counts as changed: reading it shows why.
    """
    base = os.path.join(os.path.realpath(root), "")
    changed, removed = [], []
    look = os.lstat
    for path, known in files.items():
        try:
            status = look(base + path)
        except (FileNotFoundError, NotADirectoryError):
            removed.append(path)
        except OSError:  # closed to us by now
            changed.append(path)
        else:
            if status.st_mtime_ns != known[1] or status.st_size != known[0]:
                changed.append(path)
    rules = any(path.rpartition("/")[2] in IGNORE_FILES for path in changed)
    return ScanResult(frozenset(changed), frozenset(removed), rules or _any_folder_differs(base, folders or {}))


def _any_folder_differs(base: str, folders: Mapping[str, int]) -> bool:
    for path, mtime_ns in folders.items():
        try:
            status = os.lstat(base + path)
        except OSError:  # gone or closed: a walk says which
            return True
        if status.st_mtime_ns != mtime_ns:
            return True
    return False
