"""The process of the daemon: one lock, one socket, a thread for each connection, an end when it is not used any more.

    server = DaemonServer(folder, key, load_services, log=log.write)
    server.run()        # False: another process is the daemon of this key

The lock is a file that the system unlocks when its process ends, however it ends. The process that has it may replace
the socket, so nothing that a killed daemon leaves hinders the next one. The socket listens before the Engine is
imported: clients that find a daemon which is not ready do not start another.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from context_engine import __version__
from context_engine.daemon.daemon_client import LOADING, check_peer, receive_message, send_message
from context_engine.daemon.engine_pool import keep_one_arena
from context_engine.daemon.runtime_folder import RuntimeFolder
from context_engine.timestamps import Now, format_timestamp

REQUEST_S = 5.0
"""A client sends its request at once; the rest of a half one is not awaited for longer."""
CONNECTIONS_MAX = 256
"""Open connections, each with a thread; further ones are closed, and their clients do the work themselves."""
BACKLOG = 128
END_CHECK_S = 30.0
"""How often an idle daemon checks whether it should end: each check wakes the processor."""
CODE_CHECK_S = 1.0
"""For how long the files of the program are known to be those that run."""
CLOSE_S = 2.0
"""The time for the Engines to close; their files survive any end."""
PACKAGE = __name__.split(".")[0]
REPLY_S = 30.0
"""A client that does not read its answer for so long gets none."""
LOG_FILE, FORMER_LOG_FILE = "daemon.log", "daemon.log.1"
LOG_BYTES_MAX = 1_000_000
"""Then the file becomes the former one, which replaces the one before: two megabytes at most."""

Request = Mapping[str, Any]
Handler = Callable[[Request, "DaemonConnection"], Mapping[str, Any] | None]
"""Answers one kind of request. None: it has taken over the connection, and is done with it when it returns."""


class DaemonServices(NamedTuple):
    """The abilities of a daemon whose libraries are loaded.

    `handlers` answer kinds of requests; `idle_s` is after how many seconds without a connection the daemon ends;
    `describe` returns what `ctx daemon status` shows besides the process itself.
    """

    handlers: Mapping[str, Handler]
    idle_s: float
    describe: Callable[[], Mapping[str, Any]]
    close: Callable[[], None]


@dataclass(eq=False, slots=True)
class DaemonConnection:
    """One client. `hung_up` is set when it has closed its end while its request is being answered."""

    socket: socket.socket
    hung_up: threading.Event = field(default_factory=threading.Event)

    def send(self, answer: Mapping[str, Any]) -> None:
        """Send an answer. Raises: OSError."""
        self.socket.settimeout(REPLY_S)
        send_message(self.socket, answer)


class DaemonServer:
    """The daemon of one key, until `run` returns."""

    def __init__(
        self,
        folder: RuntimeFolder,
        key: str,
        load: Callable[[], DaemonServices],
        *,
        log: Callable[[Mapping[str, Any]], None],
    ) -> None:
        """`load` imports what answers requests; it is called in a thread, once the socket listens."""
        self._folder = folder
        self._key = key
        self._load = load
        self._log = log
        self._services: DaemonServices | None = None
        self._loaded = threading.Event()
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._connections: set[DaemonConnection] = set()
        self._started_s = self._last_used_s = time.monotonic()
        self._reason = ""
        self._started = time.time()
        self._code_checked_s = 0.0
        self._woken, self._waker = socket.socketpair()  # a byte interrupts the wait for a client

    def run(self) -> bool:
        """Serve until it is stopped, or unused for a while; return False where another process is the daemon."""
        lock = take_lock(self._folder, f"{self._key}.lock")
        if lock is None:
            return False
        keep_one_arena()
        try:
            remove_leftovers(self._folder)
            with self._listen() as listener:
                for name in ("SIGTERM", "SIGINT", "SIGHUP"):
                    signal.signal(getattr(signal, name), lambda *_: self.stop("a signal"))
                self._log({"event": "start", "version": __version__, "key": self._key})
                threading.Thread(target=self._load_services, name="loading", daemon=True).start()
                self._accept(listener)
        finally:
            _remove_files(self._folder, self._key)
            self._log({"event": "end", "why": self._reason})
            os.close(lock)
        self._close_services()
        return True

    def stop(self, reason: str) -> None:
        """End `run` soon; clients that are being answered do their work themselves."""
        self._reason = self._reason or reason
        self._ending.set()
        self._waker.send(b"!")

    # -- the socket --

    def _listen(self) -> socket.socket:
        self._folder.remove(f"{self._key}.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(self._folder.address(self._key))
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
        return listener

    def _accept(self, listener: socket.socket) -> None:
        own = self._socket_state()
        while not self._ending.is_set():
            wait_s = min(END_CHECK_S, self._services.idle_s) if self._services else END_CHECK_S
            readable, _, _ = select.select([listener, self._woken], [], [], wait_s)
            if self._woken in readable:
                self._woken.recv(1)
            if listener not in readable:
                self._end_if_unneeded(own)
                continue
            accepted, _ = listener.accept()
            now_s = time.monotonic()
            if now_s - self._code_checked_s >= CODE_CHECK_S:
                self._code_checked_s = now_s
                if _is_code_newer(self._started):  # by an update or a pull: no process mixes two versions
                    self.stop("the program was replaced by another one")
            connection = DaemonConnection(accepted)
            with self._lock:
                is_admitted = len(self._connections) < CONNECTIONS_MAX and not self._ending.is_set()
                if is_admitted:
                    self._connections.add(connection)
            if is_admitted:
                threading.Thread(target=self._converse, args=(connection,), name="client", daemon=True).start()
            else:
                self._leave(connection)

    def _leave(self, connection: DaemonConnection) -> None:
        connection.hung_up.set()
        with suppress(OSError):
            connection.socket.close()
        with self._lock:
            self._connections.discard(connection)
            self._last_used_s = time.monotonic()

    def _end_if_unneeded(self, own: tuple[int, int] | None) -> None:
        """End where this process is not needed any more, or cannot be reached."""
        services = self._services
        with self._lock:
            idle_s = 0.0 if self._connections else time.monotonic() - self._last_used_s
        if services is not None and idle_s > services.idle_s:
            self.stop("it was not used")
        elif self._socket_state() != own:
            self.stop("its socket was removed")

    def _socket_state(self) -> tuple[int, int] | None:
        try:
            status = os.stat(f"{self._key}.sock", dir_fd=self._folder.descriptor, follow_symlinks=False)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    # -- one client --

    def _converse(self, connection: DaemonConnection) -> None:
        kind = ""
        try:
            check_peer(connection.socket)
            request = receive_message(connection.socket, time.monotonic() + REQUEST_S)
            if request is None:
                return
            kind = str(dict(request).get("kind", ""))
            answer = self._answer(kind, request, connection)
            if answer is not None:
                connection.send(answer)
        except (OSError, ValueError, RecursionError, TypeError) as error:
            self._log({"event": "refused", "kind": kind[:20], "error": type(error).__name__})
        except Exception as error:  # noqa: BLE001 - one request must not end the daemon; its client works without it
            self._log_bug(kind, error)
        finally:
            self._leave(connection)
            if kind == "stop":
                self.stop("ctx daemon stop")

    def _answer(self, kind: str, request: Request, connection: DaemonConnection) -> Mapping[str, Any] | None:
        if kind == "status":
            return self._describe()
        if kind == "stop":
            return {"pid": os.getpid()}  # it ends when this is sent, since the end closes every connection
        if not self._loaded.is_set() and not request.get("patient"):
            return {"state": LOADING}
        self._loaded.wait()
        if self._services is None or kind not in self._services.handlers:
            return {"state": "unknown", "kind": kind[:20]}
        return self._services.handlers[kind](request, connection)

    def _describe(self) -> Mapping[str, Any]:
        services = self._services
        return {
            "pid": os.getpid(),
            "key": self._key,
            "version": __version__,
            "program": str(Path(__file__).parents[1]),
            "python": sys.executable,
            "seconds": round(time.monotonic() - self._started_s),
            "state": "ready" if services else LOADING,
            "connections": len(self._connections) - 1,
        } | dict(services.describe() if services else {})

    # -- the services --

    def _load_services(self) -> None:
        try:
            self._services = self._load()
            self._log({"event": "ready", "ms": round((time.monotonic() - self._started_s) * 1000)})
        except Exception as error:  # noqa: BLE001 - a thread has no caller; the log has the reason
            self._log_bug("loading", error)
            self.stop("it could not load its libraries")
        self._loaded.set()
        self._waker.send(b"!")

    def _log_bug(self, kind: str, error: Exception) -> None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{last.filename}:{last.lineno} in {last.name}"
        self._log({"event": "bug", "kind": kind[:20], "error": type(error).__name__, "where": place})

    def _close_services(self) -> None:
        for connection in list(self._connections):
            connection.hung_up.set()
            with suppress(OSError):
                connection.socket.shutdown(socket.SHUT_RDWR)
        if self._services is not None:
            closing = threading.Thread(target=self._services.close, name="closing", daemon=True)
            closing.start()
            closing.join(CLOSE_S)


def take_lock(folder: RuntimeFolder, name: str) -> int | None:
    """Lock a file of the folder and return its descriptor; None while another process has it."""
    while True:
        descriptor = folder.open_file(name, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):  # its former owner removed it between the two calls
                there = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
                if there.st_ino == os.fstat(descriptor).st_ino:
                    return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        os.close(descriptor)


def remove_leftovers(folder: RuntimeFolder) -> None:
    """Remove what killed daemons of other keys left."""
    for key in folder.list_keys():
        lock = take_lock(folder, f"{key}.lock")
        if lock is not None:
            _remove_files(folder, key)
            os.close(lock)


def _remove_files(folder: RuntimeFolder, key: str) -> None:
    for suffix in ("sock", "start", "lock"):
        folder.remove(f"{key}.{suffix}")


def _is_code_newer(started: float) -> bool:
    """Return whether a module of the product that runs here was written since (seconds since 1970), or removed."""
    files = [module.__file__ for name, module in [*sys.modules.items()] if name.split(".")[0] == PACKAGE]
    try:
        return any(os.stat(file).st_mtime > started for file in files if file)
    except OSError:
        return True


class DaemonLog:
    """The log of the daemons: a JSON line for each event, in a file of bounded size that only its user can read.

    Thread-safe; a line that cannot be written is dropped.
    """

    def __init__(self, folder: RuntimeFolder, *, now: Now, bytes_max: int = LOG_BYTES_MAX) -> None:
        self._folder = folder
        self._now = now
        self._bytes_max = bytes_max
        self._lock = threading.Lock()

    def write(self, line: Mapping[str, Any]) -> None:
        """Write one event with its time and this process."""
        stamped = {"at": format_timestamp(self._now()), "pid": os.getpid(), **line}
        data = json.dumps(stamped, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with self._lock, suppress(OSError):
            self._append(data[: self._bytes_max])

    def _append(self, data: bytes) -> None:
        place, flags = self._folder.descriptor, os.O_WRONLY | os.O_APPEND | os.O_CREAT
        with suppress(FileNotFoundError):
            if os.stat(LOG_FILE, dir_fd=place).st_size + len(data) > self._bytes_max:
                os.rename(LOG_FILE, FORMER_LOG_FILE, src_dir_fd=place, dst_dir_fd=place)
        descriptor = self._folder.open_file(LOG_FILE, flags)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
