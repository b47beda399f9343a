"""Run programs of other vendors: linters, compilers, a project's own tests.

They get no shell, no tokens and a time limit; all that they started ends with them. Analyzers run over copies of files.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

from context_engine.repo.executables import safe_path, supervise
from context_engine.storage import ConfinedFolder

OUTPUT_BYTES_MAX = 16_000_000
"""The output of a linter for a few hundred files; of a longer one the end is kept."""
COMPLAINT_BYTES_MAX = 4_000
WRITTEN_BYTES_MAX = 256_000_000
"""No test run prints so much; a program that prints in a loop fills the disk otherwise."""
KEPT = (
    *("PATH", "HOME", "TMPDIR", "TEMP", "TMP", "LANG", "LC_ALL"),
    *("SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA"),
    *("GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"),
    *("NVM_DIR", "VIRTUAL_ENV"),
)
"""Variables that say where programs and their own caches are."""
SECRET = re.compile(
    r"^CTX_|PASSW|PASSPHRASE|(^|_)(TOKENS?|SECRETS?|PWD|CREDENTIALS?|(API|ACCESS|PRIVATE|AUTH)_?KEY)(_|$)"
)
"""Names of variables that usually contain secrets; and ours, which other programs do not need."""

NO_LINKS: Mapping[str, str] = MappingProxyType({})


class ProgramResult(NamedTuple):
    """The output of a program. `exit` is None when it could not be started or had to be ended; `problem` says why."""

    out: bytes = b""
    err: str = ""
    exit: int | None = None
    problem: str = ""


def program_identity(program: str) -> str:
    """Return a text that changes with a program: its path, size and time. Nothing is started."""
    try:
        facts = os.stat(os.path.realpath(program))
    except OSError:  # it went in this moment
        return f"{program} is gone"
    return f"{program} {facts.st_size} {facts.st_mtime_ns}"


@contextmanager
def temporary_files(scratch: Path, files: Mapping[str, bytes], links: Mapping[str, str] = NO_LINKS) -> Generator[Path]:
    """Make a folder in `scratch` with these files that is deleted afterwards. Paths that lead out of it are left out.

    `links` are names in it that lead to other folders, which may be read. Raises: OSError.
    """
    with ConfinedFolder(scratch).temporary_folder() as top:
        for path, data in files.items():
            place = top.joinpath(*path.split("/"))
            if path.startswith("/") or ".." in path.split("/") or "\0" in path or not place.is_relative_to(top):
                continue
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            except OSError as error:  # a file where another path wants a folder, a name that this system cannot have
                if error.errno in (errno.ENOSPC, errno.EDQUOT):  # a cut file would have faults of its own
                    raise
        for name, target in links.items():
            if os.path.isdir(target) and not (top / name).exists():
                with suppress(OSError):  # Windows wants a right for it that few people have
                    (top / name).symlink_to(target, target_is_directory=True)
        yield top


def minimal_environment(environment: Mapping[str, str], more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of an analyzer, which may run a stranger's code: what it needs to start.

    >>> minimal_environment({"PATH": "/bin", "EDITOR": "vi"}, {"GOPROXY": "off"})
    {'PATH': '/bin', 'NO_COLOR': '1', 'CI': '1', 'GOPROXY': 'off'}
    """
    kept = {name: environment[name] for name in KEPT if name in environment}
    return kept | {"NO_COLOR": "1", "CI": "1"} | dict(more or {})


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command that the user allowed: without variables that are named like secrets.

    >>> without_secrets({"DATABASE": "test.db", "GITHUB_TOKEN": "ghp_...", "PGPASSWORD": "...", "PWD": "/src"})
    {'DATABASE': 'test.db', 'PWD': '/src'}
    """
    return {name: value for name, value in environment.items() if name == "PWD" or not SECRET.search(name.upper())}


def run_program(
    words: Sequence[str],
    folder: Path,
    *,
    limit_s: float,
    environment: Mapping[str, str],
    merged: bool = False,
    cancel: threading.Event | None = None,
) -> ProgramResult:
    """Run a program in a folder and wait for it; soon after `cancel` is set it is ended. A failure is a value.

    `merged`: its complaints are part of its output, where it printed them.
    """
    environment = {**environment, "NoDefaultCurrentDirectoryInExePath": "1"}
    if "PATH" in environment:  # one that finds no program of the current folder
        environment["PATH"] = safe_path(environment["PATH"])
    with ExitStack() as opened:
        try:
            said, complained = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            process = subprocess.Popen(
                list(words),
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT if merged else complained,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return ProgramResult(problem=f"cannot be started: {getattr(error, 'strerror', None) or error}")

        def check(_spent_s: float) -> str:
            if sum(os.fstat(file.fileno()).st_size for file in (said, complained)) > WRITTEN_BYTES_MAX:
                return f"said more than {WRITTEN_BYTES_MAX // 1_000_000} MB"
            return "was cancelled" if cancel is not None and cancel.is_set() else ""

        with supervise(process, limit_s, check) as problems:
            pass
        err = _end_of(complained, COMPLAINT_BYTES_MAX).decode("utf-8", "replace")
        code = None if problems else process.returncode
        return ProgramResult(_end_of(said, OUTPUT_BYTES_MAX), err, code, "".join(problems))


def _end_of(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most))
    return file.read()
