"""Watch the client process that started this server: its input does not always end when the client is killed.

Watched is the nearest ancestor that is no wrapper: `sh -c`, `env`, `uv run`, `npx` and their like may outlive the
client or leave before it. A process is known by its number and its start time, since numbers are given out again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

ProcessInfo = namedtuple("ProcessInfo", "pid parent started arguments")  # noqa: PYI024 - annotations need `typing`
"""`started` is whatever the system says, only to be compared; `arguments` its command line."""

EVERY_S = 1.0
"""Half of the two seconds in which a server has to be gone after its client."""
ANCESTORS_MAX = 20
"""Nobody nests wrappers deeper; a loop in what the system says ends here."""
SHELLS = ("sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "cmd", "powershell", "pwsh")
LAUNCHERS = (
    *("env", "nice", "nohup", "setsid", "stdbuf", "timeout", "time", "xargs", "sudo", "doas", "tini", "dumb-init"),
    *("uv", "uvx", "pipx", "poetry", "hatch", "pdm", "conda", "mamba", "micromamba", "mise", "asdf", "direnv", "nix"),
    *("npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "npx-cli.js", "npm-cli.js", "pnpm.cjs", "yarn.js"),
)
INTERPRETERS = ("node", "bun", "python", "python3", "pythonw")
"""Whether one of these is a wrapper is said by the script that it runs."""
HINT = "SIGURG"
"""Ignored by default, and sent only for sockets with urgent data, which the server does not have."""
PR_SET_PDEATHSIG = 1
"""Of prctl(2)."""
DEAD = (b"Z", b"X")
"""States of a process that has ended, and whose parent has not noticed yet."""
PS_WORDS_MIN = 8
"""State, parent, a date of five words, and a command."""


def find_client(ancestors: Iterable[ProcessInfo]) -> ProcessInfo | None:
    """Return the first ancestor that is not a wrapper; None when there is none below process 1."""
    return next((one for one in ancestors if one.pid > 1 and not is_wrapper(one.arguments)), None)


def is_wrapper(arguments: Sequence[str]) -> bool:
    """Whether a command line only starts another one.

    >>> is_wrapper(["/bin/sh", "-c", "ctx serve"]), is_wrapper(["node", "/usr/bin/npx", "x"]), is_wrapper(["claude"])
    (True, True, False)
    >>> is_wrapper(["python3.12", "-m", "pipx", "run"]), is_wrapper(["python3", "agent.py"])
    (True, False)
    """
    words = [_program_name(word) for word in arguments]
    if not words or words[0].lstrip("-") in (*SHELLS, *LAUNCHERS):
        return True
    if words[0] not in INTERPRETERS and not words[0].startswith("python3."):
        return False
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    return script in LAUNCHERS


def list_ancestors(pid: int) -> Iterator[ProcessInfo]:
    """The parent of a process, its parent, and so on, as far as this user may look."""
    one = read_process(pid)
    for _ in range(ANCESTORS_MAX):
        if one is None or one.parent < 1:
            return
        one = read_process(one.parent)
        if one is not None:
            yield one


def read_process(pid: int) -> ProcessInfo | None:
    """A process as it is now; None when there is none, or when the system does not say."""
    if os.path.isdir("/proc/self"):
        return _read_proc(pid)
    return _read_ps(pid) if os.name == "posix" else None


class ParentWatcher:
    """Calls `gone` once, when the process that started this one has ended."""

    def __init__(self, gone: Callable[[], None]) -> None:
        self._gone = gone
        self._woken = threading.Event()

    def start(self) -> None:
        """Begin, in the main thread: only there a signal can be listened to."""
        if hint := getattr(signal, HINT, None):
            signal.signal(hint, lambda *_: self._woken.set())
        threading.Thread(target=self._watch, name="parent", daemon=True).start()

    def _watch(self) -> None:
        watched = find_client(list_ancestors(os.getpid()))
        if watched is None:
            return
        self._woken.wait(EVERY_S)  # what follows imports something, and the first reply comes before
        _request_death_signal()
        while (now := read_process(watched.pid)) is not None and now.started == watched.started:
            self._woken.wait(EVERY_S)
            self._woken.clear()
        self._gone()


def _request_death_signal() -> None:
    """Let Linux send a signal when our parent ends. It also sends it when only the thread that started us does.

    So the signal says no more than "look now", and it is ignored where no handler is set.
    """
    if sys.platform != "linux":
        return
    import ctypes  # some milliseconds

    with suppress(OSError, AttributeError):  # another C library, or a sandbox: then we look every second
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(getattr(signal, HINT)))


def _read_proc(pid: int) -> ProcessInfo | None:
    """From the files of Linux."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            status = file.read().rpartition(b")")[2].split()  # the name before it may hold anything
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = tuple(word.decode(errors="replace") for word in file.read().split(b"\0") if word)
    except OSError:
        return None
    state, parent, started = status[0], int(status[1]), status[19].decode()
    return None if state in DEAD else ProcessInfo(pid, parent, started, arguments)


def _read_ps(pid: int) -> ProcessInfo | None:
    """From the command that every Unix has."""
    import subprocess  # some milliseconds, and only where there is no /proc

    from context_engine.repo.executables import find_program

    program = find_program("ps", beside=("/bin", "/usr/bin"), path="")
    command = [program, "-o", "stat=,ppid=,lstart=,command=", "-p", str(pid)]
    try:
        told = subprocess.run(  # noqa: S603 - a fixed command and a number
            command, stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, "LC_ALL": "C"}, check=False
        ).stdout.decode(errors="replace")
    except OSError:
        return None
    words = told.split()
    if len(words) < PS_WORDS_MIN or words[0][:1].encode() in DEAD:
        return None
    return ProcessInfo(pid, int(words[1]), " ".join(words[2:7]), tuple(words[7:]))


def _program_name(word: str) -> str:
    r"""The name of a program without folder and suffix.

    >>> _program_name("/usr/bin/env"), _program_name(r"C:\x\UVX.EXE")
    ('env', 'uvx')
    """
    return word.replace("\\", "/").rpartition("/")[2].lower().removesuffix(".exe")
