"""The standard streams of a stdio server, taken away from everybody else before anything heavy is imported.

Stdlib only.

From here on descriptor 0 reads nothing and descriptor 1 writes to stderr, so neither a print of some library nor a
child process can reach the client. What is written goes through an `Outlet`: nobody waits for a client that does not
read.
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections import deque, namedtuple
from collections.abc import Callable, Iterator

StdioPipes = namedtuple("StdioPipes", "incoming outgoing")  # noqa: PYI024 - annotations need `typing`, slow to import
"""The descriptors on which the client is heard and answered."""
READ_BYTES = 65_536
"""The capacity of a pipe on Linux: a read never returns more."""
LOG_BYTES_MAX = 1_000_000
"""The unread log lines that are kept; further ones are dropped."""
JOIN_S = 0.1
"""How long a closed outlet waits for its thread: a write that the other side does not take cannot be interrupted."""


def claim_stdio() -> StdioPipes:
    """Take stdin and stdout for the protocol. Call once, first."""
    incoming, outgoing = _duplicate(0), _duplicate(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # the client gave us no stderr
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
    os.close(nothing)
    sys.stdin = io.StringIO()
    sys.stdout = sys.stderr = LogStream(StreamWriter(2, bytes_max=LOG_BYTES_MAX))
    return StdioPipes(incoming, outgoing)


def read_chunks(descriptor: int) -> Iterator[bytes]:
    """Yield the input as it arrives, until the other side closes or ends."""
    while True:
        try:
            chunk = os.read(descriptor, READ_BYTES)
        except OSError:  # a reset connection, where the pipe is a socket
            return
        if not chunk:
            return
        yield chunk


def has_hung_up(descriptor: int) -> bool:
    """Return whether the other side has closed, even with unread input; False where the system cannot tell."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0))
    return any(event & ~select.POLLNVAL for _, event in poll.poll(0))


class StreamWriter:
    """The only thread that writes to a pipe, terminal or file: a message is one write. Thread-safe.

    The thread writes through its own duplicate of the descriptor. No other code knows its number, and the thread closes
    it as its last act. So no byte can reach a file that was given the same number later, whoever closes what and when.
    """

    def __init__(self, descriptor: int, *, bytes_max: int, gone: Callable[[], None] = lambda: None) -> None:
        """The caller keeps `descriptor` and may close it.

        `gone` is called when the other side does not exist any more.
        """
        self._bytes_max = bytes_max
        self._gone = gone
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._is_over = False
        self.has_written = threading.Event()
        """Set when the first message is out."""
        self._thread = threading.Thread(target=self._run, args=(_duplicate(descriptor),), name="writing", daemon=True)
        self._thread.start()

    def put(self, message: bytes) -> None:
        """Send it, some time. Never waits; see `is_full`. Dropped when the outlet is closed, or the other side gone."""
        with self._changed:
            if self._is_over:
                return
            self._queue.append(message)
            self._bytes += len(message)
            self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        """Whether more than `bytes_max` wait to be read by the other side."""
        return self._bytes > self._bytes_max

    def wait_for_room(self) -> None:
        """Until it is not full."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_full)

    def drain(self, seconds: float) -> None:
        """Until everything is written, or the other side is gone, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes, seconds)

    def close(self, seconds: float = 0.0) -> bool:
        """Give the other side so long to take what waits, drop the rest, end the thread. May be called twice.

        Return whether the thread has ended. One that is blocked in a write ends when the other side reads or goes; its
        duplicate stays open, and its number taken, until then.
        """
        self.drain(seconds)
        self._end()
        if self._thread is not threading.current_thread():  # `gone` may be what closes it
            self._thread.join(JOIN_S)
        return not self._thread.is_alive()

    def _run(self, descriptor: int) -> None:
        try:
            while (message := self._next()) is not None:
                _write_whole(descriptor, message)
                self.has_written.set()
                self._count_out(message)
        except OSError:
            self._end()
            self._gone()
        finally:
            os.close(descriptor)

    def _next(self) -> bytes | None:
        """Wait for the next message; None when the outlet is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_over)
            return None if self._is_over else self._queue.popleft()

    def _count_out(self, message: bytes) -> None:
        with self._changed:
            self._bytes = max(0, self._bytes - len(message))  # closing has set it to 0 already
            self._changed.notify_all()

    def _end(self) -> None:
        """Drop what waits, and wake every waiting thread."""
        with self._changed:
            self._is_over = True
            self._queue.clear()
            self._bytes = 0
            self._changed.notify_all()


def _write_whole(descriptor: int, message: bytes) -> None:
    """Write all of it: a signal may cut a write short."""
    rest = memoryview(message)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class LogStream(io.TextIOBase):
    """The replacement of stderr: lines go to a stream writer, which drops them when the reader does not keep up.

    ``print`` writes a line and its end apart. Each thread's text is held until its line ends, or until it is flushed,
    so that lines are handed over, or dropped, whole.
    """

    def __init__(self, outlet: StreamWriter) -> None:
        self._outlet = outlet
        self._begun = threading.local()

    def write(self, text: str) -> int:
        """Take it, and hand over all that is held once a line ends."""
        self._begun.text = getattr(self._begun, "text", "") + text
        if "\n" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Hand over what this thread has written, unless too much waits already."""
        text = getattr(self._begun, "text", "")
        self._begun.text = ""
        if text and not self._outlet.is_full:
            self._outlet.put(text.encode("utf-8", "backslashreplace"))

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the real stderr, for code below Python."""
        return 2

    def end(self, seconds: float) -> None:
        """Give the reader that long to take the last lines; further lines are dropped."""
        self._outlet.close(seconds)


def _duplicate(descriptor: int) -> int:
    """A copy that children do not inherit, above the three standard ones, on which reading and writing wait."""
    copy = os.dup(descriptor)
    os.set_inheritable(copy, False)
    if os.name == "posix":
        os.set_blocking(copy, True)
    return copy
