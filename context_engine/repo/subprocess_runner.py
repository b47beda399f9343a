"""Run programs of other vendors: linters, compilers, a project's own tests.

No shell reads their command. They get no tokens and a time limit, and everything that they have started ends with them.
Analyzers run over copies of files in a folder of their own (`temporary_files`), never over the work tree.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

from context_engine.repo.executables import end_process, kill_children, kill_process, safe_path

OUTPUT_BYTES_MAX = 16_000_000
"""The output of a linter for a few hundred files; of a longer one the end is kept."""
COMPLAINT_BYTES_MAX = 4_000
WRITTEN_BYTES_MAX = 256_000_000
"""No test run prints so much; a program that prints in a loop fills the disk otherwise."""
LOOK_S = 0.25
"""How often the size of the output is checked."""
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
def temporary_files(files: Mapping[str, bytes], links: Mapping[str, str] = NO_LINKS) -> Generator[Path]:
    """Make a folder with these files that is deleted afterwards. Paths that lead out of it are left out.

    `links` are names in it that lead to other folders, which may be read.
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
    given: bytes = b"",
    merged: bool = False,
    cancel: threading.Event | None = None,
) -> ProgramResult:
    """Run a program in a folder and wait for it; soon after `cancel` is set it is ended. A failure is a value.

    `given` is its input. `merged`: its complaints are part of its output, where it printed them.
    """
    with ExitStack() as opened:
        try:
            heard, said, complained = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            heard.write(given)
            heard.seek(0)
            process = subprocess.Popen(
                list(words),
                cwd=folder,
                env=_environment(environment),
                stdin=heard,
                stdout=said,
                stderr=subprocess.STDOUT if merged else complained,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return ProgramResult(problem=f"cannot be started: {getattr(error, 'strerror', None) or error}")
        problem = _wait(process, limit_s, (said, complained), cancel)
        err = _end_of(complained, COMPLAINT_BYTES_MAX).decode("utf-8", "replace")
        return ProgramResult(_end_of(said, OUTPUT_BYTES_MAX), err, None if problem else process.returncode, problem)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with a PATH that finds no program of the current folder."""
    path = {}
    if "PATH" in environment:
        path = {"PATH": safe_path(environment["PATH"])}
    return {**environment, **path, "NoDefaultCurrentDirectoryInExePath": "1"}


def _wait(
    process: subprocess.Popen[bytes], limit_s: float, written: Sequence[IO[bytes]], cancel: threading.Event | None
) -> str:
    """Wait for a program and end its children; return why it had to be ended, empty when it ended by itself."""
    began, ended, why = time.monotonic(), threading.Event(), []

    def watch() -> None:
        while not why and not ended.wait(min(LOOK_S, max(0.0, began + limit_s - time.monotonic()))):
            size = sum(os.fstat(file.fileno()).st_size for file in written)
            why.extend(_excess(time.monotonic() - began, limit_s, size))
            why.extend(["was cancelled"] * (not why and cancel is not None and cancel.is_set()))
        if why:
            end_process(process, ended)

    watcher = threading.Thread(target=watch, name="ctx-program", daemon=True)
    watcher.start()
    try:
        process.wait()  # without a limit, for so its end is noticed at once
    except BaseException:  # an interrupt in between must not leave it behind
        kill_process(process)
        process.wait()
        raise
    finally:
        ended.set()
        kill_children(process)
        watcher.join()
    return "".join(why)


def _excess(spent_s: float, limit_s: float, size: int) -> Iterator[str]:
    """Yield the limit that a program has exceeded."""
    if spent_s >= limit_s:
        yield f"took longer than {max(limit_s, 0.0):.1f} s"
    elif size > WRITTEN_BYTES_MAX:
        yield f"said more than {WRITTEN_BYTES_MAX // 1_000_000} MB"


def _end_of(file: IO[bytes], most: int) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - most))
    return file.read()
