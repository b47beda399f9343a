"""What the machine must have: Python, our packages, parsers, ripgrep, git, room for the index."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from context_engine import __version__
from context_engine.cli.clients.launch_command import PACKAGE
from context_engine.cli.doctor.check_results import CheckResult, DoctorContext, ok, problem, warning
from context_engine.errors import ContextEngineError
from context_engine.repo.executables import find_program
from context_engine.repo.ripgrep import VERSION_MIN, found_rg
from context_engine.settings import Settings
from context_engine.storage.index_folders import is_network_drive, user_cache_folder

PACKAGES = {
    "apsw": "apsw",
    "filelock": "filelock",
    "httpx2": "httpx2",
    "jsonschema": "jsonschema",
    "mcp": "mcp",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "pathspec": "pathspec",
    "platformdirs": "platformdirs",
    "PyStemmer": "Stemmer",
    "PyYAML": "yaml",
    "rapidfuzz": "rapidfuzz",
    "rich": "rich",
    "semble-grammars": "semble_grammars",
    "tomlkit": "tomlkit",
    "tree-sitter": "tree_sitter",
    "typer": "typer",
    "unidiff": "unidiff",
    "watchfiles": "watchfiles",
    "xxhash": "xxhash",
}
"""Package -> the module it brings, for all that this one is built on."""
QUICKER = {"ahocorasick-rs": "ahocorasick_rs", "google-re2": "re2"}
"""What some systems have no wheel of: there is another way without."""
REINSTALL = f"Install it anew: uv tool install --force {PACKAGE} (or pip install --force-reinstall {PACKAGE})."
TOOL_S_MAX = 5.0
"""`--version` takes milliseconds; a network drive that sleeps may take seconds."""
FREE_BYTES_LOW = 1_000_000_000
"""The index of a large repository is some 100 MB, and a rebuild holds two of them beside other people's files."""
FREE_BYTES_NONE = 100_000_000


def python(case: DoctorContext) -> Iterator[CheckResult]:  # noqa: ARG001 - all checks are called alike
    """This version, the interpreter, the system."""
    bits = "" if sys.maxsize > 2**32 else ", 32 bit"
    system = f"{platform.system()} {platform.release()} {platform.machine()}{bits}"
    yield ok("version", f"ctx {__version__}, Python {platform.python_version()} at {sys.executable}, {system}")


def command(case: DoctorContext) -> Iterator[CheckResult]:
    """How a client starts this very `ctx`."""
    words, note = " ".join(case.launch.command_line), case.launch.note
    yield warning("command", words, f"{note[:1].upper()}{note[1:]}") if note else ok("command", words)


def packages(case: DoctorContext) -> Iterator[CheckResult]:  # noqa: ARG001 - all checks are called alike
    """Whether all that we are built on can be imported, compiled parts too."""
    broken = {name: why for name, module in PACKAGES.items() if (why := _not_imported(module))}
    for name, why in broken.items():
        yield problem(f"package {name}", why, REINSTALL)
    for name, module in QUICKER.items():
        if why := _not_imported(module):
            yield warning(
                f"package {name}", f"{why}; secrets are found by a slower way of our own, the same ones", REINSTALL
            )
    if not broken:
        versions = ", ".join(f"{name} {_version(name)}" for name in ("apsw", "mcp", "numpy", "tree-sitter"))
        sqlite = importlib.import_module("apsw").sqlite_lib_version()
        yield ok("packages", f"all {len(PACKAGES)} can be imported: {versions}; SQLite {sqlite}")


def text_search(case: DoctorContext) -> Iterator[CheckResult]:
    """Which engine finds text."""
    rg = found_rg(case.env.get("PATH", ""), outside=case.root or "")
    if rg:
        yield ok("ripgrep", f"{_first_line([rg, '--version'])} at {rg}")
    else:
        least = ".".join(map(str, VERSION_MIN))
        yield warning(
            "ripgrep",
            f"none of version {least} or newer: text is searched by a slower engine of our own, with the same answers",
            "Install it: https://github.com/BurntSushi/ripgrep#installation, or pip install ripgrep.",
        )


def git(case: DoctorContext) -> Iterator[CheckResult]:
    """Whether git is there and runs."""
    found = find_program("git", path=case.env.get("PATH", ""), outside=case.root or "")
    told = _first_line([found, "--version"]) if found else ""
    if told.startswith("git version"):
        yield ok("git", f"{told} at {found}")
    else:
        why = f"{found} does not run: {told}" if found else "none on PATH: no history, no reviews of changes"
        yield warning("git", why, "Install git, or put it on the PATH of the program that starts ctx.")


def cache(case: DoctorContext) -> Iterator[CheckResult]:
    """Whether the index has a place to be written to, with room in it."""
    folder = _cache_folder(case)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        step = "Give this user a folder to write to: CTX_CACHE_FOLDER=PATH, or cache_folder in the settings."
        yield problem("cache", f"{folder} cannot be written: {error.strerror or error}", step)
        return
    if is_network_drive(folder):
        step = "Set CTX_CACHE_FOLDER to a folder of this machine."
        yield warning("cache", f"{folder} lies on a network drive, where an index may be damaged", step)
    told = f"{folder}, {free / 1e9:,.1f} GB free"
    if free < FREE_BYTES_NONE:
        yield problem("cache", told, "Free some space, or set CTX_CACHE_FOLDER to another disk.")
    elif free < FREE_BYTES_LOW:
        yield warning("cache", told, "Free some space before you index a large repository.")
    else:
        yield ok("cache", told)


def _cache_folder(case: DoctorContext) -> Path:
    """As the settings say, if they can be read; the check of the settings tells when not."""
    try:
        return Settings.load(case.root or case.here, case.env).cache_folder or user_cache_folder()
    except ContextEngineError:
        return user_cache_folder()


def _not_imported(module: str) -> str:
    """Why a module cannot be imported; empty when it can. What compiled parts raise may be anything."""
    try:
        importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - the report is what this is for
        return f"cannot be imported: {type(error).__name__}: {error}"
    return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def _first_line(words: Sequence[str]) -> str:
    """What a program says first, or why it says nothing."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed argument, and a program that was found on PATH
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_S_MAX,
            check=False,
            env=dict(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    said = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
    return said.splitlines()[0] if said else f"exit code {done.returncode}"
