"""Programs of other people - linters, compilers - run over copies of files in a folder of their own. Never over the work tree.

No shell reads their command; they get no more of the environment than they need, a time limit, and an end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from context_engine.workspace import processes

OUTPUT_BYTES_MAX = 16_000_000
"""What a linter says of a few hundred files; what is longer is cut, and cannot be read then."""
KEPT = (
    *(
        "PATH",
        "HOME",
        "TMPDIR",
        "TEMP",
        "TMP",
        "LANG",
        "LC_ALL",
        "SYSTEMROOT",
        "USERPROFILE",
        "APPDATA",
        "LOCALAPPDATA",
    ),
    *(
        "GOPATH",
        "GOROOT",
        "GOCACHE",
        "GOMODCACHE",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "NVM_DIR",
        "VIRTUAL_ENV",
    ),
)
"""Of the environment: where programs and their own caches lie, and no token of anybody."""


NO_LINKS: Mapping[str, str] = MappingProxyType({})


class Outcome(NamedTuple):
    """What a program said. `problem` is why it could not be started, or that it took too long; then the rest says little."""

    out: bytes
    err: str
    exit: int
    problem: str = ""


def found(name: str, *, beside: Sequence[str] = ()) -> str:
    """Where a program is: in one of the folders `beside`, else on the PATH; empty when nowhere."""
    for folder in beside:
        if here := shutil.which(name, path=folder):
            return here
    there = shutil.which(name)
    # Windows looks into the current folder first, which may be a workspace.
    return there if there and os.path.dirname(os.path.abspath(there)) != os.getcwd() else ""


def identity(program: str) -> str:
    """What changes when a program is another one: where it lies, its size and its time. Nothing is started."""
    try:
        facts = os.stat(os.path.realpath(program))
    except OSError:  # it went in this moment
        return f"{program} is gone"
    return f"{program} {facts.st_size} {facts.st_mtime_ns}"


@contextmanager
def apart(files: Mapping[str, bytes], links: Mapping[str, str] = NO_LINKS) -> Generator[Path]:
    """A folder of its own that holds these files, gone afterwards. Paths that lead out of it are left out.

    `links` are names in it that lead to other folders, which are there for reading.
    """
    with tempfile.TemporaryDirectory(prefix="ctx-review-", ignore_cleanup_errors=True) as made:
        top = Path(made).resolve()
        for path, data in files.items():
            place = top.joinpath(*path.split("/"))
            if path.startswith("/") or ".." in path.split("/") or "\0" in path or not place.is_relative_to(top):
                continue
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            except OSError:  # a file where another path wants a folder, a name that this system cannot have
                continue
        for name, target in links.items():
            if os.path.isdir(target) and not (top / name).exists():
                with suppress(OSError):  # Windows wants a right for it that few people have
                    (top / name).symlink_to(target, target_is_directory=True)
        yield top


def run(
    args: Sequence[str], folder: Path, *, timeout_s: float, given: bytes = b"", offline: Mapping[str, str] | None = None
) -> Outcome:
    """Run a program in a folder, and everything it starts ends with it. Never raises for what it does."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    try:
        process = subprocess.Popen(
            list(args),
            cwd=folder,
            env=kept | {"NO_COLOR": "1", "CI": "1"} | dict(offline or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=os.name == "posix",
        )
    except OSError as error:
        return Outcome(b"", "", -1, f"cannot be started: {error.strerror or error}")
    try:
        out, err = process.communicate(given, timeout=max(timeout_s, 0.0))
    except subprocess.TimeoutExpired:
        _end(process)
        return Outcome(b"", "", -1, f"took longer than {timeout_s:.1f} s")
    except BaseException:
        _end(process)
        raise
    return Outcome(out[:OUTPUT_BYTES_MAX], err[-4_000:].decode("utf-8", "replace"), process.returncode)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program with all it started, and wait for it."""
    processes.kill(process)
    process.communicate()
