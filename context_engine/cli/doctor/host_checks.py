"""Check the machine: Python, packages, ripgrep, git, and space for the index."""

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
from context_engine.repo import VERSION_MIN, find_program, find_ripgrep
from context_engine.settings import Settings
from context_engine.storage import is_network_drive, user_cache_folder

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
    "watchfiles": "watchfiles",
    "xxhash": "xxhash",
}
"""The dependencies: package -> module."""
QUICKER = {"ahocorasick-rs": "ahocorasick_rs", "google-re2": "re2"}
"""Optional packages, which have no wheel on some systems."""
REINSTALL = f"Reinstall it: uv tool install --force {PACKAGE} (or pip install --force-reinstall {PACKAGE})."
TOOL_S_MAX = 5.0
"""`--version` takes milliseconds; a network drive that sleeps may take seconds."""
FREE_BYTES_LOW = 1_000_000_000
"""The index of a large repository has about 100 MB, and a rebuild needs twice that."""
FREE_BYTES_NONE = 100_000_000


def python(case: DoctorContext) -> Iterator[CheckResult]:  # noqa: ARG001 - all checks are called alike
    """Report the version, the interpreter and the system."""
    bits = "" if sys.maxsize > 2**32 else ", 32 bit"
    system = f"{platform.system()} {platform.release()} {platform.machine()}{bits}"
    yield ok("version", f"ctx {__version__}, Python {platform.python_version()} at {sys.executable}, {system}")


def command(case: DoctorContext) -> Iterator[CheckResult]:
    """Report how a client starts this `ctx`."""
    words, note = " ".join(case.launch.command_line), case.launch.note
    yield warning("command", words, f"{note[:1].upper()}{note[1:]}") if note else ok("command", words)


def packages(case: DoctorContext) -> Iterator[CheckResult]:  # noqa: ARG001 - all checks are called alike
    """Check that all dependencies can be imported, with their compiled parts."""
    broken = {name: why for name, module in PACKAGES.items() if (why := _not_imported(module))}
    for name, why in broken.items():
        yield problem(f"package {name}", why, REINSTALL)
    for name, module in QUICKER.items():
        if why := _not_imported(module):
            yield warning(f"package {name}", f"{why}; a slower search finds the same secrets", REINSTALL)
    if not broken:
        versions = ", ".join(f"{name} {_version(name)}" for name in ("apsw", "mcp", "numpy", "tree-sitter"))
        sqlite = importlib.import_module("apsw").sqlite_lib_version()
        yield ok("packages", f"all {len(PACKAGES)} can be imported: {versions}; SQLite {sqlite}")


def text_search(case: DoctorContext) -> Iterator[CheckResult]:
    """Report which engine searches text."""
    rg = find_ripgrep(case.env.get("PATH", ""), outside=case.root or "")
    if rg:
        yield ok("ripgrep", f"{_first_line([rg, '--version'])} at {rg}")
    else:
        least = ".".join(map(str, VERSION_MIN))
        yield warning(
            "ripgrep",
            f"version {least} or newer is not installed: a slower engine gives the same answers",
            "Install it: https://github.com/BurntSushi/ripgrep#installation, or pip install ripgrep.",
        )


def git(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that git exists and runs."""
    found = find_program("git", path=case.env.get("PATH", ""), outside=case.root or "")
    told = _first_line([found, "--version"]) if found else ""
    if told.startswith("git version"):
        yield ok("git", f"{told} at {found}")
    else:
        why = f"{found} does not run: {told}" if found else "none on PATH: no history, no reviews of changes"
        yield warning("git", why, "Install git, or put it on the PATH of the program that starts ctx.")


def cache(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the index folder is writable and has free space."""
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
        yield warning("cache", f"{folder} is on a network drive, where an index may be damaged", step)
    told = f"{folder}, {free / 1e9:,.1f} GB free"
    if free < FREE_BYTES_NONE:
        yield problem("cache", told, "Free some space, or set CTX_CACHE_FOLDER to another disk.")
    elif free < FREE_BYTES_LOW:
        yield warning("cache", told, "Free some space before you index a large repository.")
    else:
        yield ok("cache", told)


def _cache_folder(case: DoctorContext) -> Path:
    """Return the cache folder of the settings, or the default if they cannot be read."""
    try:
        return Settings.load(case.root or case.here, case.env).cache_folder or user_cache_folder()
    except ContextEngineError:
        return user_cache_folder()


def _not_imported(module: str) -> str:
    """Return why a module cannot be imported; empty if it can. Compiled parts may raise any error."""
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
    """Return the first line that a program prints, or why it prints nothing."""
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
