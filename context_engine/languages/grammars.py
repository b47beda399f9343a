"""The compiled parsers: unpacked from an installed wheel into a folder of ours, loaded once, one parser a thread.

Nothing is downloaded. The wheel (`semble-grammars`) has one archive for each platform. Every access reads the archive
from its start, so `prepare` unpacks all the parsers that are needed in one pass.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import sys
import tarfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, thread_time
from typing import Any

import numpy as np
from tree_sitter import Language as TreeSitterLanguage
from tree_sitter import Parser, Query, QueryCursor, Range, Tree

from context_engine.storage import make_private_folder, replace_private

SYSTEMS = {"darwin": "macos", "linux": "linux", "windows": "windows"}
MACHINES = {"arm64": "arm64", "aarch64": "arm64", "x86_64": "x86_64", "amd64": "x86_64"}
WATCHED_BYTES = 20_000
DEPTH_MAX = 5_000  # brackets open at once; written code stays below 50, generated tables below 500
UNTIMED_BYTES = 400
"""A smaller file never takes a grammar longer than the timer allows."""
PARSE_S, PARSE_S_PER_BYTE = 0.25, 5e-6
"""Processor time of one parse: thirty times that of a sound file on two slow cores, 0.2 microseconds a byte."""
READ_BYTES = 65_536
UNPACKING_FAILS = (OSError, EOFError, KeyError, ValueError, tarfile.TarError)


class Grammars:
    """Parsers and queries by grammar name. Thread-safe; a grammar that cannot load stays unloaded.

    `cache_dir` contains the shared libraries, a few MB a language. They can be deleted while no process runs.
    """

    def __init__(self, cache_dir: str | Path) -> None:
        self.folder = Path(cache_dir)
        self._lock = threading.Lock()
        self._threads = threading.local()
        self._language = cache(self._load)
        self._query = cache(self._compile)

    def prepare(self, names: Iterable[str]) -> None:
        """Unpack these grammars in one pass. A failure is not an error here: `problem` reports it for each grammar."""
        with self._lock, suppress(*UNPACKING_FAILS):
            self._unpack(set(names))

    def problem(self, name: str, query: str = "") -> str:
        """Return why this grammar (and query) cannot be used; empty if it can."""
        language = self._language(name)
        if isinstance(language, str):
            return language
        compiled = self._query(name, query) if query else ""
        return compiled if isinstance(compiled, str) else ""

    def parser(self, name: str) -> Parser | None:
        """Return this thread's parser for a grammar; None if the grammar cannot be loaded (see `problem`)."""
        parsers: dict[str, Parser] = self._threads.__dict__
        language = self._language(name)
        if name not in parsers and not isinstance(language, str):
            parsers[name] = Parser(language)
        return parsers.get(name)

    def parse(self, name: str, data: bytes, ranges: Sequence[Range] = ()) -> Tree | None:
        """Parse a file, or ranges of it; None if the grammar cannot be loaded, or takes longer than for a sound file.

        Grammars need quadratic time to recover from some errors: 100 kB of `-->` take Python's ten minutes.
        """
        parser = self.parser(name)
        if parser is None or (not ranges and len(data) > WATCHED_BYTES and _depth(data) > DEPTH_MAX):
            return None
        parser.included_ranges = list(ranges)
        size = sum(part.end_byte - part.start_byte for part in ranges) or len(data)
        try:
            return parser.parse(data) if size <= UNTIMED_BYTES else _parsed_in_time(parser, data)
        finally:
            parser.included_ranges = []

    def cursor(self, name: str, query: str) -> QueryCursor | None:
        """Return a new cursor for a query; None if the query does not fit the grammar (see `problem`)."""
        compiled = self._query(name, query)
        return None if isinstance(compiled, str) else QueryCursor(compiled)

    def _compile(self, name: str, query: str) -> Query | str:
        language = self._language(name)
        try:
            return language if isinstance(language, str) else _compile_query(language, query)
        except ValueError as error:
            return f"query for {name}: {error}"

    def _load(self, name: str) -> TreeSitterLanguage | str:
        bundle = _bundle()
        entry = bundle.get("languages", {}).get(name)
        if entry is None:
            return f"no parser for {name} on this platform"
        try:
            with self._lock:
                self._unpack({name})
                path = self._path(bundle, entry)
                if hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
                    path.unlink()  # damaged or not ours: never run it
                    self._unpack({name})
                return _shared_library(path, entry["symbol"])
        except (*UNPACKING_FAILS, AttributeError) as error:
            return f"the parser for {name} cannot be loaded: {error}"

    def _path(self, bundle: dict[str, Any], entry: dict[str, str]) -> Path:
        # The checksum's first digits keep two versions of one grammar apart in a shared folder.
        return self.folder / bundle["platform"] / f"{entry['sha256'][:8]}-{entry['file']}"

    def _unpack(self, names: set[str]) -> None:
        bundle = _bundle()
        entries = [bundle["languages"][name] for name in names if name in bundle.get("languages", {})]
        missing = {entry["file"]: entry for entry in entries if not self._path(bundle, entry).exists()}
        if not missing:
            return
        with tarfile.open(bundle["path"], "r:gz") as archive:
            for member in archive:
                entry = missing.pop(member.name.removeprefix("./"), None)
                if entry is not None:
                    content = archive.extractfile(member)
                    if content is not None:
                        _write_checked(self._path(bundle, entry), content.read(), entry["sha256"])
                if not missing:
                    return


def _parsed_in_time(parser: Parser, data: bytes) -> Tree | None:
    """Parse a file; None after the processor time that its size allows.

    Only a parse that reads through a callback can be stopped, and the predicates of queries need a tree made of bytes
    (tree-sitter 0.26). So a second parse reuses the first tree. The clock is read first: that takes a tenth as long.
    """
    until, clock_until = (now() + PARSE_S + PARSE_S_PER_BYTE * len(data) for now in (thread_time, monotonic))
    parts = [bytes(2)]

    def read(at: int, _point: object) -> bytes:
        part = bytes(memoryview(data)[at : at + READ_BYTES])  # an object of its own, also when it is the whole file
        if part:
            parts.append(part)
        return part

    try:
        first = parser.parse(read, progress_callback=lambda _, __: monotonic() > clock_until and thread_time() > until)
    except ValueError:  # it was stopped
        parser.reset()
        return None
    finally:
        _release(parts)
    return parser.parse(data, first)


def _release(parts: list[bytes]) -> None:
    """Give back the reference to each part that the parser took and never returns (tree-sitter 0.26).

    Without it a process keeps a copy of all that it has ever parsed. The first part was never given to the parser: it
    shows how many references are ours.
    """
    counts = [sys.getrefcount(part) for part in parts]
    for part, count in zip(parts, counts, strict=True):
        if count > counts[0]:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(part))


_BRACKETS = np.zeros(256, np.int8)
_BRACKETS[list(b"([{")] = 1
_BRACKETS[list(b")]}")] = -1


def _depth(data: bytes) -> int:
    """Return the greatest number of brackets that are open at once, also in strings."""
    return int(np.cumsum(_BRACKETS[np.frombuffer(data, np.uint8)], dtype=np.int32).max(initial=0))


@lru_cache(maxsize=1)
def _bundle() -> dict[str, Any]:
    """Return the installed wheel's manifest for this platform with the archive's `path`; empty if there is none."""
    spec = find_spec("semble_grammars")
    system, machine = SYSTEMS.get(platform.system().lower()), MACHINES.get(platform.machine().lower())
    if spec is None or not spec.submodule_search_locations:
        return {}
    folder = Path(spec.submodule_search_locations[0]) / "grammars" / f"{system}-{machine}"
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return {**manifest, "path": folder / manifest["archive"]}


def _write_checked(path: Path, content: bytes, sha256: str) -> None:
    """Write a library that other processes may be loading: complete under its name, or not at all."""
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path.name} does not have the checksum of its manifest")
    make_private_folder(path.parent)
    try:
        replace_private(path, content)
    except OSError:
        if not path.exists():  # Windows refuses to replace a library that another process has loaded
            raise


@lru_cache(maxsize=256)
def _compile_query(language: TreeSitterLanguage, query: str) -> Query:
    """Compile a query; this takes 5 to 120 ms, and all Engines of the process share the result."""
    return Query(language, query)


@lru_cache(maxsize=256)
def _shared_library(path: Path, symbol: str) -> TreeSitterLanguage:
    """Load a compiled grammar. The library stays loaded until the process ends."""
    library = ctypes.CDLL(str(path))
    entry_point = getattr(library, symbol)
    entry_point.restype = ctypes.c_void_p
    pointer = entry_point()
    if not pointer:
        raise ValueError(f"{path.name} contains no language")
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype = ctypes.py_object
    new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule: object = new_capsule(pointer, CAPSULE_NAME, None)
    return TreeSitterLanguage(capsule)


CAPSULE_NAME = b"tree_sitter.Language"
"""Kept alive here: a capsule stores the pointer to its name, not the name."""
