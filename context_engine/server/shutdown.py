"""How the server ends: at the end of input, on a signal or without its client, and within two seconds in any case.

The input does not always end when the client is killed, so the client process is watched. It is the nearest ancestor
that is not a wrapper: `sh -c`, `env`, `uv run`, `npx` and similar programs may outlive the client or exit before it. A
process is identified by its number and start time, because numbers are reused.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

FINISH_S = 1.0
"""The time for open calls to be answered: `printf '...' | ctx serve` closes its end at once."""
CANCEL_S = 0.2
"""The time for canceled calls to end."""
CLOSE_S = 0.5
"""The time for the Engine to close; its files survive any end, and its processes end with ours."""
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
"""The signals that end a process; no system has all of them."""
EVERY_S = 1.0
"""How often to look for the client where the system cannot say when it ends: a server must end two seconds after it."""
ANCESTORS_MAX = 20
"""Wrappers are not nested deeper; a loop in the data of the system ends here."""
SHELLS = ("sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "cmd", "powershell", "pwsh")
LAUNCHERS = (
    *("env", "nice", "nohup", "setsid", "stdbuf", "timeout", "time", "xargs", "sudo", "doas", "tini", "dumb-init"),
    *("uv", "uvx", "pipx", "poetry", "hatch", "pdm", "conda", "mamba", "micromamba", "mise", "asdf", "direnv", "nix"),
    *("npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "npx-cli.js", "npm-cli.js", "pnpm.cjs", "yarn.js"),
)
INTERPRETERS = ("node", "bun", "python", "python3", "pythonw")
"""Programs that are a wrapper if their script is one."""
DEAD = (b"Z", b"X")
"""The states of a process that has ended without notice by its parent."""
PS_WORDS_MIN = 8
"""State, parent, a date of five words, and a command."""

ProcessInfo = namedtuple("ProcessInfo", "pid parent started arguments")  # noqa: PYI024 - annotations need `typing`
"""`started` is a text of the system, only to be compared; `arguments` is the command line."""


class RunningCalls:
    """The running calls of one server. Thread-safe."""

    def __init__(self) -> None:
        self._running: set[threading.Event] = set()
        self._changed = threading.Condition()
        self._is_canceled = False

    @property
    def are_any(self) -> bool:
        """Whether a call is running."""
        return bool(self._running)

    @contextmanager
    def track(self, cancel: threading.Event) -> Generator[None]:
        """Track a call until the block ends: the shutdown waits for it, then cancels it."""
        with self._changed:
            self._running.add(cancel)
        if self._is_canceled:
            cancel.set()
        try:
            yield
        finally:
            with self._changed:
                self._running.discard(cancel)
                self._changed.notify_all()

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until no call is running; return False when the time is over before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def cancel_all(self) -> None:
        """Cancel the running calls, and those that begin later."""
        with self._changed:
            self._is_canceled = True
            for cancel in self._running:
                cancel.set()


class ShutdownCoordinator(RunningCalls):
    """The running calls, and the shutdown of the process. Thread-safe.

    `finish(seconds)` waits until all requests are answered; `close` closes what is open. `is_ending` is whether the end
    has been announced: the server still answers, but load balancers should not send requests.
    """

    def __init__(self, close: Callable[[], None], *, finish: Callable[[float], None] = lambda _: None) -> None:
        super().__init__()
        self._close = close
        self._finish = finish
        self._has_begun = False
        self.is_ending = False

    def shut_down_on_signals(self) -> None:
        """Make SIGINT, SIGTERM and similar signals end the process cleanly, also while it is idle."""
        for name in SIGNALS:
            if number := getattr(signal, name, None):
                signal.signal(number, lambda *_: self.shut_down_in_thread())

    def shut_down_in_thread(self, status: int = 0) -> None:
        """Shut down in a thread: a signal handler must not wait, since it may have interrupted the holder of a lock."""
        threading.Thread(target=self.shut_down, args=(status,), name="leaving", daemon=True).start()

    def shut_down(self, status: int = 0) -> None:
        """Finish, cancel, close, exit, each for a bounded time. Returns at once when the shutdown has begun already."""
        with self._changed:
            if self._has_begun:
                return
            self._has_begun = True
        self._finish(FINISH_S)
        self.cancel_all()
        self.wait_until_idle(CANCEL_S)
        closing = threading.Thread(target=self._close, name="closing", daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        sys.stderr.flush()
        os._exit(status)  # not sys.exit: threads that read a pipe cannot be joined


def wait_forever() -> None:
    """Wait until another thread ends the process.

    A signal may reach any thread, but only the main thread acts on it: it waits where every signal wakes it.
    """
    reading, writing = os.pipe()
    if os.name == "posix":  # other systems cannot, and need not
        os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    while True:
        os.read(reading, 1)


def watch_client(gone: Callable[[], None]) -> None:
    """Call `gone` once, in a thread, when the process of the client has ended."""

    def watch() -> None:
        watched = find_client(list_ancestors(os.getpid()))
        if watched is not None:
            _wait_for_end(watched)
            gone()

    threading.Thread(target=watch, name="parent", daemon=True).start()


def _wait_for_end(watched: ProcessInfo) -> None:
    with suppress(AttributeError, OSError):  # another system, an older kernel, a sandbox: it is looked for instead
        ended = os.pidfd_open(watched.pid)
        try:
            if _is_running(watched):  # no process can take its number any more unnoticed
                select.select([ended], [], [])
        finally:
            os.close(ended)
    while _is_running(watched):
        time.sleep(EVERY_S)


def _is_running(watched: ProcessInfo) -> bool:
    now = read_process(watched.pid)
    return now is not None and now.started == watched.started


def find_client(ancestors: Iterable[ProcessInfo]) -> ProcessInfo | None:
    """Return the first ancestor that is not a wrapper; None when there is none below process 1."""
    return next((process for process in ancestors if process.pid > 1 and not is_wrapper(process.arguments)), None)


def is_wrapper(arguments: Sequence[str]) -> bool:
    """Return whether a command line only starts another one.

    >>> is_wrapper(["/bin/sh", "-c", "ctx serve"]), is_wrapper(["node", "/usr/bin/npx", "x"]), is_wrapper(["claude"])
    (True, True, False)
    >>> is_wrapper(["python3.12", "-m", "pipx", "run"]), is_wrapper(["python3", "agent.py"])
    (True, False)
    """
    words = [word.replace("\\", "/").rpartition("/")[2].lower().removesuffix(".exe") for word in arguments]
    if not words or words[0].lstrip("-") in (*SHELLS, *LAUNCHERS):
        return True
    if words[0] not in INTERPRETERS and not words[0].startswith("python3."):
        return False
    script = next((word for word in words[1:] if not word.startswith("-")), "")
    return script in LAUNCHERS


def list_ancestors(pid: int) -> Iterator[ProcessInfo]:
    """Yield the parent of a process, its parent, and so on, as far as this user may read."""
    process = read_process(pid)
    for _ in range(ANCESTORS_MAX):
        if process is None or process.parent < 1:
            return
        process = read_process(process.parent)
        if process is not None:
            yield process


def read_process(pid: int) -> ProcessInfo | None:
    """Return a process as it is now; None if it does not exist, or cannot be read."""
    if os.path.isdir("/proc/self"):
        return _read_proc(pid)
    return _read_ps(pid) if os.name == "posix" else None


def _read_proc(pid: int) -> ProcessInfo | None:
    """Read a process from the files of Linux."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            status = file.read().rpartition(b")")[2].split()  # the name before it may contain anything
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = tuple(word.decode(errors="replace") for word in file.read().split(b"\0") if word)
    except OSError:
        return None
    if status[0] in DEAD:
        return None
    return ProcessInfo(pid, int(status[1]), status[19].decode(), arguments)


def _read_ps(pid: int) -> ProcessInfo | None:
    """Read a process from the command that every Unix has."""
    import subprocess  # some milliseconds, and only where there is no /proc

    from context_engine.repo import find_program

    program = find_program("ps", beside=("/bin", "/usr/bin"), path="")
    command = [program, "-o", "stat=,ppid=,lstart=,command=", "-p", str(pid)]
    try:
        output = subprocess.run(  # noqa: S603 - a fixed command and a number
            command, stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, "LC_ALL": "C"}, check=False
        ).stdout.decode(errors="replace")
    except OSError:
        return None
    words = output.split()
    if len(words) < PS_WORDS_MIN or words[0][:1].encode() in DEAD:
        return None
    return ProcessInfo(pid, int(words[1]), " ".join(words[2:7]), tuple(words[7:]))
