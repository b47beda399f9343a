"""Other processes that index files, because parsing holds the interpreter's lock.

Each is `python -m context_engine.index.worker`, used through its own pipes with length-prefixed msgpack. It is a plain
child rather than a `multiprocessing` spawn, which would run the `__main__` of the embedding program a second time. It
ends when its input ends: when its parent closed it, exited or was killed. It loads the languages of the workspace.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from context_engine.errors import BugError
from context_engine.index.describe import IndexJob, JobResult, run_job
from context_engine.index.encoder import StaticEncoder
from context_engine.languages import OWN_FOLDER, Grammars, Languages
from context_engine.storage import ConfinedFolder, prepare_type, readable_config_folder

_LENGTH_BYTES = 4
STOP_WAIT_S = 1.0
CHECK_S = 0.2
"""How often a wait for a result looks whether the run was cancelled."""
IDLE_S = 60.0
NICENESS = 10
"""On Linux: a tenth of a core that others want. With less it would wait for one while it has the interpreter's lock."""


class WorkerPool:
    """Up to `count` processes, started at their first use and kept. `count` 0: everything happens in this process."""

    def __init__(self, count: int, *, grammars_folder: str, root: str) -> None:
        self.takes_all = False
        """This process answers questions: others index instead of it, and give way to it."""
        self._count = count
        self._hello = [grammars_folder, root]  # the workspace, which may have language files of its own
        self._children: list[WorkerProcess] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def ready(self, wait_s: float = 0.0) -> list[WorkerProcess]:
        """Return those that can take a job, after a wait for each; start them, which takes half a second."""
        with self._lock:
            self._stop_timer()
            for child in self._children:
                if not child.is_alive():
                    child.close()
            self._children = [child for child in self._children if child.is_alive()]
            while len(self._children) < self._count + (self.takes_all and self._count > 0):
                self._children.append(WorkerProcess(self._hello, gives_way=self.takes_all))
        return [child for child in self._children if child.is_ready(wait_s)]

    def close_when_idle(self) -> None:
        """End the processes after a while without jobs: each takes some 60 MB."""
        with self._lock:
            self._stop_timer()
            if self._children:
                self._timer = threading.Timer(IDLE_S, self.close)
                self._timer.daemon = True
                self._timer.start()

    def close(self) -> None:
        """End the processes; they start again at their next use."""
        with self._lock:
            self._stop_timer()
            for child in self._children:
                child.hang_up()
            for child in self._children:
                child.close()
            self._children = []

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class WorkerProcess:
    """One process, and the answer that it owes: first its greeting, then the result of its last job."""

    def __init__(self, hello: list[str], *, gives_way: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "context_engine.index.worker"],  # -P: never from the current folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise BugError("a worker process has no pipes")  # asked for above; this is for the type checker
        if gives_way:
            lower_priority(self._process.pid)
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._answer = self._ask(msgspec.msgpack.encode(hello))

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        return self._process.poll() is None

    def is_ready(self, wait_s: float = 0.0) -> bool:
        """Return whether it can take a job, after a wait at most."""
        wait([self._answer], wait_s)
        return self._answer.done() and self._answer.result() is not None and self.is_alive()

    def start(self, job: IndexJob, check: Callable[[], None] = lambda: None) -> Callable[[], JobResult | None]:
        """Send a job; the returned function waits for the result (None: the process died, or cannot do it).

        `check` may end the wait by raising.
        """
        answer = self._answer = self._ask(msgspec.msgpack.encode(job))

        def receive() -> JobResult | None:
            while not answer.done():
                check()
                wait([answer], CHECK_S)
            frame = answer.result()
            return None if frame is None else msgspec.msgpack.decode(frame, type=prepare_type(JobResult) | None)

        return receive

    def hang_up(self) -> None:
        """Let the process end by itself."""
        with suppress(OSError):  # it has died already
            self._stdin.close()

    def close(self) -> None:
        """End the process: gently, then not."""
        self.hang_up()
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answer.result()  # its reader is done with the pipe
        self._stdout.close()

    def _ask(self, frame: bytes) -> Future[bytes | None]:
        """Send a frame and let a thread wait for its answer, which is None when the process ends."""
        answer: Future[bytes | None] = Future()

        def read() -> None:
            received = None
            with suppress(OSError, ValueError):  # the pool was closed meanwhile
                received = _read_frame(self._stdout)
            answer.set_result(received)

        with suppress(OSError, ValueError):  # it has died, or the pool was closed meanwhile: the reader says so
            _write_frame(self._stdin, frame)
        threading.Thread(target=read, name="ctx-worker-listener", daemon=True).start()
        return answer


def _write_frame(out: IO[bytes], frame: bytes) -> None:
    out.write(len(frame).to_bytes(_LENGTH_BYTES, "little") + frame)
    out.flush()


def _read_frame(source: IO[bytes]) -> bytes | None:
    prefix = source.read(_LENGTH_BYTES)
    if len(prefix) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(prefix, "little")
    frame = source.read(size)
    if len(frame) == size:
        return frame
    return None


def main() -> None:
    """Run the worker: one greeting, then job after job until the input ends."""
    source, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not reach the frames
    hello = _read_frame(source)
    if hello is None:
        return
    grammars_folder, root = msgspec.msgpack.decode(hello)
    languages, grammars, encoder = load_languages(root), Grammars(grammars_folder), StaticEncoder()
    _write_frame(out, b"ready")
    while (frame := _read_frame(source)) is not None:
        job = msgspec.msgpack.decode(frame, type=prepare_type(IndexJob))
        outcome = None
        if not job.static or (encoder.open() and encoder.identity == job.static):
            outcome = run_job(job, languages, grammars, encoder)
        _write_frame(out, msgspec.msgpack.encode(outcome))


USERS_FOLDER = "languages"


def load_languages(root: str | Path) -> Languages:
    """Return the languages for files beneath `root`; the user's replace the repository's, which replace ours.

    Raises: InvalidArgument, naming file and field when one of their files is wrong.
    """
    of_repository = Languages.builtin().with_folder(ConfinedFolder(root).folder(OWN_FOLDER))
    config = readable_config_folder()
    if config is None:
        return of_repository
    users = ConfinedFolder(config, follow_links=True).folder(USERS_FOLDER)
    return of_repository.with_folder(users, is_users=True)


def lower_priority(task: int) -> None:
    """Give a thread, or a process that has just started, a low priority; so do the processes that it starts.

    Only Linux has a priority for each thread: elsewhere all would become slower.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # it is lower already, or has ended
            os.setpriority(os.PRIO_PROCESS, task, NICENESS)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt, BrokenPipeError):
        main()
