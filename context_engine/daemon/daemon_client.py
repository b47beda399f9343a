"""The client of the daemon: ask it, or find that there is none and do the work in this process.

    answer = ask_daemon({"kind": "status"}, deadline_s=5.0)
    if answer is None: ...       # no daemon, it is starting, it ended, or it took too long

A request is a line of JSON with its `kind`, the answer another line. Nothing here raises because of a daemon. A request
may have been carried out although no answer came, so only requests that change nothing are sent in this way.

Only a small part of the standard library is imported: `ctx search` waits for this module. `_socket` is what `socket`
wraps in enumerations and files, which take longer to import than the daemon takes to answer.
"""

from __future__ import annotations

import _socket
import json
import os
import sys
import time
from contextlib import closing

from context_engine.daemon.runtime_folder import RuntimeFolder, daemon_environment, process_key

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

MESSAGE_BYTES_MAX = 16_000_000
"""A request or an answer, as a line over stdio."""
READ_BYTES = 262_144
CONNECT_S = 0.5
"""A listening daemon accepts at once; a stopped one (SIGSTOP) lets clients wait no longer than this."""
START_EVERY_S = 1.0
"""A daemon is started at most this often, so that one that cannot start costs little."""
ON = ("", "1", "true", "yes", "on")
LOADING = "loading"
"""The `state` of an answer while the daemon imports the Engine."""
PEER_CREDENTIALS = getattr(_socket, "SO_PEERCRED", None)


def ask_daemon(
    request: Mapping[str, Any], deadline_s: float, *, env: Mapping[str, str] = os.environ, key: str = ""
) -> dict[str, Any] | None:
    """Return the daemon's answer, or None: there is no daemon, it is not ready, or it failed in any way.

    `key` is that of another daemon than the one of `env`.
    """
    if is_switched_off(env):
        return None
    until = time.monotonic() + deadline_s
    try:
        with closing(DaemonClient.connect(env, key=key)) as client:
            client.send(request)
            answer = client.receive(until)
    except (OSError, ValueError):
        return None
    if isinstance(answer, dict) and answer.get("state") != LOADING:
        return answer
    return None


def is_switched_off(env: Mapping[str, str]) -> bool:
    """Return whether this process does everything itself: CTX_DAEMON=0, or a system without Unix sockets.

    A value that means nothing is off, too: `Settings.load` of this process then refuses it.
    """
    return env.get("CTX_DAEMON", "").strip().lower() not in ON or not hasattr(_socket, "AF_UNIX")


def start_daemon(env: Mapping[str, str]) -> bool:
    """Start a daemon in the background, unless another client has just done it; return False where it is impossible."""
    if is_switched_off(env):
        return False
    try:
        with RuntimeFolder.open(env, create=True) as folder:
            if _is_listening(env) or not _takes_turn(folder, process_key(env)):
                return True
        null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
        command = [sys.executable, "-P", "-m", "context_engine", "daemon", "run", "--background"]
        child = os.posix_spawn(sys.executable, command, daemon_environment(env), file_actions=null)
        os.waitpid(child, 0)  # it forks at once, so that the daemon is a child of no client
    except OSError:
        return False
    return True


def leave_client() -> None:
    """Become a process of its own, which the client need not wait for: the first act of a daemon in the background."""
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")


def _is_listening(env: Mapping[str, str]) -> bool:
    """Return whether there is a daemon, which may still be loading."""
    try:
        DaemonClient.connect(env).close()
    except OSError:
        return False
    return True


def _takes_turn(folder: RuntimeFolder, key: str) -> bool:
    """Return whether this client may start the daemon: one of several that find none, and not all the time."""
    import fcntl

    descriptor = folder.open_file(f"{key}.start", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        age_s = time.time() - os.fstat(descriptor).st_mtime
        if os.fstat(descriptor).st_size and 0 <= age_s < START_EVERY_S:
            return False
        os.pwrite(descriptor, b"1", 0)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


class DaemonClient:
    """A connection to a daemon, until it is closed."""

    def __init__(self, connection: _socket.socket) -> None:
        """Use `DaemonClient.connect`."""
        self._connection = connection

    @classmethod
    def connect(cls, env: Mapping[str, str], *, key: str = "") -> Self:
        """Connect to the daemon of this environment, or of a key. Raises: OSError (none, or not the user's own)."""
        with RuntimeFolder.open(env) as folder:
            connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            try:
                connection.settimeout(CONNECT_S)
                connection.connect(folder.address(key or process_key(env)))
                check_peer(connection)
            except OSError:
                connection.close()
                raise
        return cls(connection)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises: OSError."""
        send_message(self._connection, message)

    def receive(self, until: float) -> Any:
        """Return the answer, or None when the daemon has closed.

        Raises: OSError, also at a moment of the monotonic clock; ValueError (not JSON, too long).
        """
        return receive_message(self._connection, until)

    def wait_without_limit(self) -> int:
        """Return the descriptor of the connection, which this client closes; from now on its reads and writes wait."""
        self._connection.settimeout(None)
        return self._connection.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def send_message(connection: _socket.socket, message: Mapping[str, Any]) -> None:
    """Send a message as a line. Raises: OSError."""
    connection.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def receive_message(connection: _socket.socket, until: float) -> Any:
    """Return the next message, or None when the other side closes without one. What follows it stays unread.

    Raises: OSError; ValueError (not JSON, too long, later than a moment of the monotonic clock).
    """
    received = bytearray()
    while not received.endswith(b"\n"):
        connection.settimeout(max(0.001, until - time.monotonic()))
        waiting = connection.recv(READ_BYTES, _socket.MSG_PEEK)
        if not waiting:
            return None
        received += connection.recv(waiting.find(b"\n") + 1 or len(waiting))
        if len(received) > MESSAGE_BYTES_MAX or time.monotonic() > until:
            raise ValueError("the message is too long, or too late")
    return json.loads(received)


def check_peer(connection: Any) -> None:
    """Refuse a socket whose other side is another user, where the system can say so. Raises: PermissionError."""
    if PEER_CREDENTIALS is None:
        return
    size = 3 * 4  # pid, uid and gid, four bytes each
    peer = connection.getsockopt(_socket.SOL_SOCKET, PEER_CREDENTIALS, size)
    user = int.from_bytes(peer[4:8], sys.byteorder)
    if user != os.geteuid():
        raise PermissionError(f"the other side of the socket is the user {user}")
