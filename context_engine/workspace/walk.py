"""Which files the workspace consists of: one walk under its ignore rules, with the reasons for everything left out.

The walker lists and stats; it opens nothing but ignore files and git's pointer files. Whether a file's content is text
is said by `files.load_for_index`, which reads it exactly once. docs/decisions/0004 tells the rules and their reasons.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from context_engine.errors import AccessFailed, FileNotFound
from context_engine.model import RelPath, Skipped
from context_engine.workspace.git import common_dir_of, enclosing_work_tree
from context_engine.workspace.ignore import IGNORE_FILES, NO_RULE, Placed, Rules, Stack
from context_engine.workspace.paths import is_sensitive, is_sensitive_name, listed, plain_name

BYTES_MAX = 1_000_000
"""Files above are listed as skipped: machine-made nearly always, and the parser needs thirty times their size."""
SKIPPED_ROWS_MAX = 5_000
"""Rows of `Walk.skipped`; beyond it only counted."""
IGNORE_FILE_BYTES_MAX = 1_000_000
"""A larger ignore file is a mistake and would cost seconds to compile; it is reported, not read."""
DEPTH_MAX = 200
"""Folders below one another; deeper is a loop that a mount makes, or an attack."""

NEVER = frozenset({".git", ".hg", ".svn", ".jj", ".context-engine"})
"""Names that are neither walked nor reported: version control's and our own state."""

BUILT_IN = """\
node_modules/
bower_components/
__pycache__/
.tox/
.nox/
.eggs/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.hypothesis/
.ipynb_checkpoints/
.next/
.nuxt/
.svelte-kit/
.turbo/
.parcel-cache/
.gradle/
.terraform/
.yarn/cache/
.DS_Store
"""
"""Ignored even where no file says so; `.contextignore` can take any of them back with `!`."""

CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"
"""First bytes of a CACHEDIR.TAG, by which a tool marks a folder as its cache (bford.info/cachedir)."""

BINARY_SUFFIXES = frozenset(
    f".{suffix}"
    for suffix in (
        "png jpg jpeg gif bmp ico icns webp avif heic tif tiff psd xcf ai eps sketch fig "
        "mp3 mp4 m4a m4v mov avi mkv webm wav flac ogg oga ogv opus aac wma wmv "
        "zip gz tgz bz2 xz zst lz4 br 7z rar tar jar war ear aar apk ipa whl egg nupkg deb rpm dmg iso cab msi crx "
        "exe dll so dylib a o obj lib pdb class pyc pyo pyd wasm beam bin dat elc rlib rmeta node "
        "ttf otf woff woff2 eot pdf doc docx xls xlsx ppt pptx odt ods odp "
        "db sqlite sqlite3 mdb parquet arrow feather orc avro npy npz h5 hdf5 pkl pickle pt pth onnx safetensors gguf "
        "tflite pb mo gmo glb fbx blend dex keystore snap swp swo"
    ).split()
)
"""Lower-case endings of files that hold no text, so that nobody opens them to find out."""


class Entry(NamedTuple):
    """A file of the workspace as the walk saw it."""

    path: RelPath
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Walk:
    """What one walk found. `entries` and `skipped` are sorted by path.

    `skipped` holds at most SKIPPED_ROWS_MAX rows, `counts` every one by reason; an ignored folder is one row.
    `folders` maps each folder that was listed ("" for the root) to its mtime_ns from just before: see `sweep`.
    """

    entries: tuple[Entry, ...]
    skipped: tuple[Skipped, ...]
    counts: Mapping[str, int]
    folders: Mapping[str, int]

    def files(self) -> dict[str, tuple[int, int]]:
        """Path -> (size, mtime_ns): the manifest that `sweep` takes."""
        return {path: (size, mtime_ns) for path, size, mtime_ns in self.entries}


def walk(
    root: str | os.PathLike[str],
    *,
    under: str = "",
    bytes_max: int = BYTES_MAX,
    excludes_file: str | None = None,
    check: Callable[[], None] | None = None,
) -> Walk:
    """Walk the files of `root`, or those below its folder `under` (a file counts too), by the rules that hold there.

    `excludes_file` is git's core.excludesFile (`Git.excludes_file`), the weakest of all rules. `check` is called once a
    folder and stops the walk by raising.
    Raises: FileNotFound when there is no such folder, AccessFailed when it cannot be listed.
    """
    walker = _Walker(os.path.realpath(root), bytes_max, check)
    walker.start(under.strip("/").removeprefix("./") if under != "." else "", excludes_file)
    return walker.seen()


class _Folder(NamedTuple):
    """A folder still to be listed. `insisted`: a negation took it back, so nothing in it may close it again."""

    rel: str
    absolute: str
    stack: Stack
    depth: int
    mtime_ns: int
    insisted: bool = False


@dataclass(slots=True)
class _Listing:
    """What one folder holds, before it is known that the folder counts at all."""

    files: list[tuple[str, int, int]] = field(default_factory=list)
    folders: list[_Folder] = field(default_factory=list)
    skipped: list[tuple[str, str, str]] = field(default_factory=list)


class _Walker:
    """One walk: a stack of folders, and what was found so far."""

    def __init__(self, root: str, bytes_max: int, check: Callable[[], None] | None) -> None:
        self._root = root
        self._bytes_max = bytes_max
        self._check = check or (lambda: None)
        self._files: list[tuple[str, int, int]] = []
        self._skipped: list[tuple[str, str, str]] = []
        self._folders: dict[str, int] = {}
        self._seen_folders: set[tuple[int, int]] = set()
        self._seen_repositories: set[str] = set()
        self._kept_out: dict[str, tuple[str, str] | None] = {}

    def seen(self) -> Walk:
        self._files.sort()
        self._skipped.sort()
        return Walk(
            entries=tuple([Entry(listed(path), size, mtime_ns) for path, size, mtime_ns in self._files]),
            skipped=tuple([Skipped(*row) for row in self._skipped[:SKIPPED_ROWS_MAX]]),
            counts=dict(Counter([row[1] for row in self._skipped])),
            folders=self._folders,
        )

    # -- where to begin --

    def start(self, under: str, excludes_file: str | None) -> None:
        """Walk from the root, or down to `under` and from there, so that every rule on the way holds."""
        stack = self._outer_rules(excludes_file)
        parts = under.split("/") if under else []
        folder = self._first("", self._root, stack)
        for depth, part in enumerate(parts, start=1):
            listing = self._list(folder, only=part)
            if listing.files or listing.skipped or not listing.folders:
                self._files, self._skipped = listing.files, listing.skipped
                return
            folder = listing.folders[0]._replace(depth=depth)
        self._walk_from(folder)

    def _first(self, rel: str, absolute: str, stack: Stack) -> _Folder:
        try:
            status = os.stat(absolute)
            os.scandir(absolute).close()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFound(f"There is no folder {absolute}.", suggestion="Check the root.") from error
        except OSError as error:
            raise AccessFailed(
                f"The folder {absolute} cannot be listed: {error.strerror}.",
                suggestion="Give this user permission to read it.",
            ) from error
        return _Folder(rel, absolute, stack, 0, status.st_mtime_ns, insisted=True)

    def _outer_rules(self, excludes_file: str | None) -> Stack:
        """The rules that hold before the root is listed: built in, git's own, and those of the folders above it."""
        stack = Stack().with_rules(Placed(Rules("built-in", BUILT_IN, name="built in")))
        if excludes_file and (text := self._text(excludes_file, "", report=False)):
            stack = stack.with_rules(Placed(Rules("global", text, name=excludes_file), depth=-DEPTH_MAX))
        top = enclosing_work_tree(self._root)
        if top is None:
            return stack
        lead = "" if top == self._root else os.path.relpath(self._root, top).replace(os.sep, "/")
        stack = self._with_exclude(stack, top, "", lead)
        parts = lead.split("/") if lead else []
        for number in range(len(parts)):
            folder = os.path.join(top, *parts[:number])
            rest = "/".join(parts[number:])
            stack = self._with_ignore_files(stack, folder, "", os.listdir(folder), number - len(parts), rest)
        return stack

    # -- from folder to folder --

    def _walk_from(self, first: _Folder) -> None:
        waiting = [first]
        while waiting:
            self._check()
            folder = waiting.pop()
            listing = self._list(folder)
            self._files += listing.files
            self._skipped += listing.skipped
            waiting += listing.folders

    def _list(self, folder: _Folder, *, only: str | None = None) -> _Listing:
        """List one folder, judge what is in it; `only` looks at one name, on the way down to where the walk begins."""
        listing = _Listing()
        try:
            with os.scandir(folder.absolute) as found:
                entries = {entry.name: entry for entry in found}
        except OSError as error:
            listing.skipped.append((folder.rel, *_trouble(error)))
            return listing
        if reason := self._closed(folder, entries):
            listing.skipped.append((folder.rel, *reason))
            return listing
        self._folders[folder.rel] = folder.mtime_ns
        folder = folder._replace(stack=self._rules_inside(folder, entries))
        if only is not None:
            entries = {only: entries[only]} if only in entries else {}
        self._judge(folder, entries, listing)
        return listing

    def _closed(self, folder: _Folder, entries: Mapping[str, os.DirEntry[str]]) -> tuple[str, str] | None:
        """Why a folder is not entered, told by what lies in it."""
        if folder.depth > DEPTH_MAX:
            return "loop", f"more than {DEPTH_MAX} folders deep"
        if ".git" in entries and (owner := common_dir_of(folder.absolute)):
            if owner in self._seen_repositories:
                return "nested_worktree", "another work tree of a repository that is walked already"
            self._seen_repositories.add(owner)
        if folder.insisted:
            return None
        if "pyvenv.cfg" in entries:
            return "ignored", "a Python virtual environment"
        if "CACHEDIR.TAG" in entries and self._is_cache(folder.absolute):
            return "ignored", "marked as a cache by CACHEDIR.TAG"
        return None

    def _is_cache(self, absolute: str) -> bool:
        try:
            with open(os.path.join(absolute, "CACHEDIR.TAG"), "rb") as tag:
                return tag.read(len(CACHE_TAG)) == CACHE_TAG
        except OSError:  # a tag that cannot be read marks nothing
            return False

    def _judge(self, folder: _Folder, entries: Mapping[str, os.DirEntry[str]], listing: _Listing) -> None:
        """Sort the entries of one folder into files, folders and skipped. The hot loop of the walk."""
        prefix = f"{folder.rel}/" if folder.rel else ""
        view = folder.stack.at(folder.rel)
        known_files, known_folders = folder.stack.known
        files, kept_out, bytes_max = listing.files, self._kept_out, self._bytes_max
        for name, entry in entries.items():
            if name in NEVER:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            value = (known_folders if is_folder else known_files).get(name) if view.simple else None
            if value is None:
                value = view.value(name, is_folder)
            if value & 1:
                listing.skipped.append((prefix + name, "ignored", folder.stack.words(value)))
                continue
            reason = kept_out[name] if name in kept_out else self._name_verdict(name)
            if reason and not (is_folder and reason[0] == "binary"):
                listing.skipped.append((prefix + name, *reason))
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                listing.skipped.append((prefix + name, *_trouble(error)))
                continue
            if is_folder:
                self._folder(folder, prefix + name, entry, status, value != NO_RULE, listing)
            elif status.st_mode & 0o170000 != stat.S_IFREG:
                listing.skipped.append((prefix + name, *self._special(entry, status)))
            elif status.st_size > bytes_max:
                detail = f"{status.st_size:,} bytes; the limit is {bytes_max:,}"
                listing.skipped.append((prefix + name, "too_large", detail))
            else:
                files.append((prefix + name, status.st_size, status.st_mtime_ns))

    def _folder(
        self,
        parent: _Folder,
        path: str,
        entry: os.DirEntry[str],
        status: os.stat_result,
        insisted: bool,
        listing: _Listing,
    ) -> None:
        place = (status.st_dev, status.st_ino)
        if status.st_ino and place in self._seen_folders:  # a bind mount; Windows gives no inode here
            listing.skipped.append((path, "loop", "the same folder is walked elsewhere"))
            return
        self._seen_folders.add(place)
        listing.folders.append(
            _Folder(path, entry.path, parent.stack, parent.depth + 1, status.st_mtime_ns, insisted)
        )

    def _name_verdict(self, name: str) -> tuple[str, str] | None:
        """What a name alone tells: secrets, formats without text, names that no reply can hold."""
        plain = name.lower() if name.isascii() and name[-1] not in ". " else plain_name(name)
        dot = plain.rfind(".")
        suffix = plain[dot:] if dot > 0 else ""
        verdict = None
        if reason := is_sensitive_name(plain):
            verdict = ("sensitive", reason)
        elif suffix in BINARY_SUFFIXES:
            verdict = ("binary", f"a {suffix} file")
        elif not name.isascii() and any("\ud800" <= char <= "\udfff" for char in name):
            verdict = ("unreadable", "its name is not UTF-8")
        self._kept_out[name] = verdict
        return verdict

    def _special(self, entry: os.DirEntry[str], status: os.stat_result) -> tuple[str, str]:
        """Why something that is neither folder nor plain file is left out. Links are never followed: see decision 0004."""
        if not stat.S_ISLNK(status.st_mode):
            return "special", "a pipe, socket or device"
        real = os.path.realpath(entry.path)
        if real != self._root and not real.startswith(self._root.rstrip(os.sep) + os.sep):
            return "outside", "a link that leads out of the workspace"
        target = os.path.relpath(real, self._root).replace(os.sep, "/")
        if reason := is_sensitive(target):
            return "sensitive", reason
        if os.path.isdir(real):
            above = os.path.dirname(entry.path)
            return ("loop" if f"{above}{os.sep}".startswith(f"{real}{os.sep}") else "linked"), f"a link to {target}"
        if os.path.islink(real) or not os.path.exists(real):
            return "unreadable", "a broken link"
        return "linked", f"a link to {target}, which counts once"

    # -- rules --

    def _rules_inside(self, folder: _Folder, entries: Mapping[str, os.DirEntry[str]]) -> Stack:
        """The rules for what lies in a folder: those from above, without git's where another repository begins."""
        stack = folder.stack
        if ".git" in entries and folder.rel and common_dir_of(folder.absolute):
            stack = self._with_exclude(stack.without_git(), folder.absolute, folder.rel, "")
        names = [name for name in IGNORE_FILES if name in entries and entries[name].is_file(follow_symlinks=False)]
        return self._with_ignore_files(stack, folder.absolute, folder.rel, names, folder.depth) if names else stack

    def _with_ignore_files(
        self, stack: Stack, absolute: str, base: str, names: list[str], depth: int, lead: str = ""
    ) -> Stack:
        texts: dict[str, list[str]] = {}
        sources: dict[str, str] = {}
        for name, level in IGNORE_FILES.items():
            if name in names and (text := self._text(os.path.join(absolute, name), f"{base}/{name}" if base else name)):
                texts.setdefault(level, []).append(text)
                sources.setdefault(level, f"{base}/{name}" if base else name)
        placed = [
            Placed(Rules(level, "\n".join(each), name=sources[level]), base, lead, depth)
            for level, each in texts.items()
        ]
        return stack.with_rules(*placed) if placed else stack

    def _with_exclude(self, stack: Stack, top: str, base: str, lead: str) -> Stack:
        """The rules of `.git/info/exclude`, which hold for one repository on one machine."""
        owner = common_dir_of(top)
        text = self._text(os.path.join(owner, "info", "exclude"), "", report=False) if owner else ""
        if not text:
            return stack
        return stack.with_rules(Placed(Rules("exclude", text, name=".git/info/exclude"), base, lead))

    def _text(self, absolute: str, rel: str, *, report: bool = True) -> str:
        """An ignore file's text; what cannot be read is no rule, and reported where it lies in the workspace."""
        try:
            with open(absolute, "rb") as file:
                raw = file.read(IGNORE_FILE_BYTES_MAX + 1)
        except OSError as error:
            if report:
                self._skipped.append((rel, "unreadable", f"its rules do not hold: {error.strerror}"))
            return ""
        if len(raw) > IGNORE_FILE_BYTES_MAX:
            self._skipped.append((rel, "too_large", "its rules do not hold: too long for an ignore file"))
            return ""
        return raw.decode("utf-8", "surrogateescape")


def _trouble(error: OSError) -> tuple[str, str]:
    """What the system's refusal means for a walk: gone meanwhile, or closed to us."""
    gone = isinstance(error, FileNotFoundError | NotADirectoryError)
    return "vanished" if gone else "unreadable", error.strerror or str(error)
