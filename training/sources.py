"""The packages that are trained on: an explicit list, fetched by the registries' own clients, pinned by hash.

    python training/sources.py          fetch what is missing, and check the hash of everything
    python training/sources.py --lock   write the hashes of what is new to packages.lock.json

An archive is opened only after its hash was checked, and nothing in it is ever run or written to disk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIST, LOCK = HERE / "packages.toml", HERE / "packages.lock.json"
BUILD = HERE.parent / "build" / "training"
ARCHIVES = BUILD / "archives"
REGISTRIES = ("pypi", "npm", "debian")

PERMISSIVE = frozenset({"MIT", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "ISC", "PSF-2.0"})
"""The licences a package may have; of `A OR B` one is enough."""

ARCHIVE_SUFFIXES = (".whl", ".tgz", ".tar.gz", ".tar.xz", ".tar.bz2")
FILE_BYTES = range(200, 200_000)
"""Smaller files hold no function, larger ones are generated."""

FETCH_SECONDS = 600
APT_SOURCE = ("source", "--download-only", "--only-source")
DEBIAN = (
    "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main\n"
)
SKIPPED_FOLDERS = frozenset(
    "vendor vendored _vendor third_party thirdparty node_modules deps extern external externals test tests testing testdata "
    "__tests__ spec specs examples example samples demo fixtures doc docs locale locales i18n migrations generated gen "
    "benchmark benchmarks bench fuzz dist umd cjs esm esm5 _cjs _esm".split()
)
"""Other people's code (whose licence we did not read), what a build made, and what is no program text worth learning
from."""


@dataclass(frozen=True, slots=True)
class Package:
    """One release. `held_out` packages are never trained on."""

    registry: str
    name: str
    version: str
    licence: str
    held_out: bool = False

    @property
    def title(self) -> str:
        """How the lock file and the report call it."""
        return f"{self.registry}:{self.name}"

    @property
    def is_permissive(self) -> bool:
        """Whether one of the licences it is offered under is on our list."""
        return any(each in PERMISSIVE for each in self.licence.split(" OR "))


class NotFetchedError(Exception):
    """A registry client did not deliver."""


class WrongHashError(Exception):
    """An archive is not the one that was pinned; it was not opened."""


def listed(path: Path = LIST) -> list[Package]:
    """The allow-list, in its order: registry by registry, those that are trained on first."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Package(registry, name, version, licence, held_out=part == "held_out")
        for registry in REGISTRIES
        for part in ("train", "held_out")
        for name, version, licence in rows.get(registry, {}).get(part, [])
    ]


def pinned(path: Path = LOCK) -> dict[str, dict[str, str]]:
    """The sha256 of each archive: package title -> file name -> hex digits."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


# -- fetching -----------------------------------------------------------------------------------------------------


def fetch(package: Package, hashes: dict[str, str]) -> list[Path]:
    """The package's checked archives; asks its registry for those that are not here.

    Raises: NotFetchedError, WrongHashError.
    """
    folder = ARCHIVES / package.registry
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in hashes]
    if not paths or not all(path.is_file() for path in paths):
        before = set(folder.iterdir())
        _ask(package, folder)
        paths = paths or sorted(each for each in set(folder.iterdir()) - before if is_source(each.name))
    for path in paths:
        check(path, hashes.get(path.name, ""))
    return paths


def check(path: Path, sha256: str) -> None:
    """Raises: WrongHashError when a pinned archive has other bytes; NotFetchedError when it is not there."""
    if not path.is_file():
        raise NotFetchedError(f"{path.name} did not come")
    if sha256 and hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise WrongHashError(f"{path} does not have its pinned hash; delete it and fetch again")


def is_source(name: str) -> bool:
    """Whether a fetched file is upstream's archive (Debian adds its packaging beside it)."""
    return name.endswith(ARCHIVE_SUFFIXES) and ".debian.tar" not in name


def _ask(package: Package, folder: Path) -> None:
    """Run the registry's client. Wheels rather than sdists: pip runs the build backend of an sdist to look at it."""
    wheel = ["--only-binary=:all:", "--python-version=3.11", "--platform=any"]
    wheel += ["--platform=manylinux2014_x86_64", "--platform=manylinux_2_28_x86_64"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *wheel]
    commands = {
        "pypi": [*pip, f"{package.name}=={package.version}"],
        "npm": ["npm", "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"],
        "debian": ["apt-get", *_apt_options(), *APT_SOURCE, f"{package.name}={package.version}"],
    }
    _run(commands[package.registry], folder)


def _apt_options() -> list[str]:
    """The options that give apt lists of its own, so that the machine's sources stay as they are; fetches the lists once."""
    home = BUILD / "apt"
    options = [
        f"-oDir::Etc::sourcelist={home / 'sources.list'}",
        "-oDir::Etc::sourceparts=-",
        f"-oDir::State::lists={home / 'lists'}",
        f"-oDir::Cache={home / 'cache'}",
    ]
    if not home.exists():
        for folder in ("lists/partial", "cache/archives/partial"):
            (home / folder).mkdir(parents=True)
        (home / "sources.list").write_text(DEBIAN, encoding="utf-8")
        _run(["apt-get", *options, "update"], home)
    return options


def _run(command: list[str], folder: Path) -> None:
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetchedError(f"{command[0]}: {error}") from error
    if ran.returncode:
        raise NotFetchedError((ran.stderr.strip() or f"{command[0]} failed").splitlines()[-1][:200])


# -- reading ------------------------------------------------------------------------------------------------------


def files(archives: Iterable[Path], suffixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of the source files of a package, paths without the archive's own top folder."""
    for archive in archives:
        reading = _zipped if archive.suffix == ".whl" else _tarred
        yield from reading(archive, suffixes)


def is_wanted(path: str, size: int, suffixes: tuple[str, ...]) -> bool:
    """Whether a member is source text of the package itself.

    >>> [is_wanted(path, 999, (".py",)) for path in ("a/b.py", "a/_vendor/b.py", "a/test_b.py", "a/b.txt")]
    [True, False, False, False]
    """
    *folders, name = path.lower().split("/")
    is_test = name.startswith("test_") or any(mark in name for mark in ("_test.", ".test.", ".spec.", ".min."))
    return name.endswith(suffixes) and size in FILE_BYTES and not is_test and SKIPPED_FOLDERS.isdisjoint(folders)


def _zipped(archive: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            if is_wanted(member.filename, member.file_size, suffixes):
                yield member.filename, opened.read(member)


def _tarred(archive: Path, suffixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            path = member.name.partition("/")[2]
            if member.isfile() and is_wanted(path, member.size, suffixes):
                held = opened.extractfile(member)
                if held is not None:
                    yield path, held.read()


def main(argv: list[str]) -> int:
    """Fetch and check everything; the exit code says whether all of it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lock", action="store_true", help="pin what is not pinned yet")
    locking = parser.parse_args(argv).lock
    lock, missing = pinned(), 0
    for package in listed():
        try:
            archives = fetch(package, lock.get(package.title, {}))
        except (NotFetchedError, WrongHashError) as error:
            print(f"{package.title}: {error}")
            missing += 1
            continue
        if locking:
            found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives}
            lock.setdefault(package.title, found)
    if locking:
        LOCK.write_text(json.dumps(lock, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
