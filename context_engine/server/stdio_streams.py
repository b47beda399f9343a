"""The pipes of a server: bytes in, whole messages out by a thread that alone waits for the reader.

The standard streams are claimed before anything else is imported. After that descriptor 0 reads nothing and descriptor
1 writes to stderr, so neither a print of a library nor a child process can reach the client.
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
"""The descriptors to read from the client and to write to it."""
READ_BYTES = 65_536
"""The capacity of a pipe on Linux: a read never returns more."""
LOG_BYTES_MAX = 1_000_000
"""The unread log lines that are kept; further ones are dropped."""
READER_CHECK_S, READER_CHECK_S_MAX = 1.0, 60.0
"""How soon an idle writer checks whether the other side still reads, since no write fails to say so. Each check doubles
the wait for the next one."""
JOIN_S = 0.1
"""How long `close` waits for the thread, since a blocked write cannot be interrupted."""


def claim_stdio() -> StdioPipes:
    """Claim stdin and stdout for the protocol. Call once, first."""
    incoming, outgoing = _duplicate(0), _duplicate(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # the client gave no stderr
        os.dup2(null, 1)
        os.dup2(null, 2)
    os.close(null)
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


def has_hung_up(descriptor: int, *, reading: bool = True) -> bool:
    """Return whether the other side has closed, even with unread input; False where the system cannot report it.

    `reading`: it is enough that the other side of a socket writes no more.
    """
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0) if reading else 0)
    return any(event & ~select.POLLNVAL for _, event in poll.poll(0))


class StreamWriter:
    """The only thread that writes to a pipe, terminal or file: a message is one write. Thread-safe.

    The thread writes through its own duplicate of the descriptor. No other code knows its number, and the thread closes
    it as its last act. So no byte can reach a file that was given the same number later, whoever closes what and when.
    """

    def __init__(self, descriptor: int, *, bytes_max: int, gone: Callable[[], None] = lambda: None) -> None:
        """Start the thread. The caller keeps `descriptor` and may close it.

        `gone` is called when the other side does not exist any more.
        """
        self._bytes_max = bytes_max
        self._gone = gone
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, args=(_duplicate(descriptor),), name="writing", daemon=True)
        self._thread.start()

    def put(self, message: bytes) -> None:
        """Queue a message; never waits, see `is_full`. It is dropped after `close`, or when the other side is gone."""
        with self._changed:
            if self._is_over:
                return
            self._queue.append(message)
            self._bytes += len(message)
            self._changed.notify_all()

    @property
    def is_full(self) -> bool:
        """Whether more than `bytes_max` are unread by the other side."""
        return self._bytes > self._bytes_max

    def wait_for_room(self) -> None:
        """Wait until it is not full."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_full)

    def drain(self, seconds: float) -> None:
        """Wait until everything is written, the other side is gone, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes, seconds)

    def close(self, seconds: float = 0.0) -> bool:
        """Wait for the other side to read the queue, drop the rest, end the thread. May be called twice.

        Return whether the thread has ended. A thread that is blocked in a write ends when the other side reads or
        closes. Until then its duplicate stays open.
        """
        self.drain(seconds)
        self._end()
        if self._thread is not threading.current_thread():  # `gone` may have called this
            self._thread.join(JOIN_S)
        return not self._thread.is_alive()

    def _run(self, descriptor: int) -> None:
        try:
            while (message := self._next(descriptor)) is not None:
                rest = memoryview(message)
                while rest:  # a signal may interrupt a write
                    rest = rest[os.write(descriptor, rest) :]
                with self._changed:
                    self._bytes = max(0, self._bytes - len(message))  # closing may have set it to 0
                    self._changed.notify_all()
        except OSError:
            self._end()
            self._gone()
        finally:
            os.close(descriptor)

    def _next(self, descriptor: int) -> bytes | None:
        """Wait for the next message; None when the writer is closed. Raises: BrokenPipeError without a reader."""
        wait_s = READER_CHECK_S
        with self._changed:
            while not self._changed.wait_for(lambda: self._queue or self._is_over, wait_s):
                if has_hung_up(descriptor, reading=False):
                    raise BrokenPipeError
                wait_s = min(2 * wait_s, READER_CHECK_S_MAX)
            return None if self._is_over else self._queue.popleft()

    def _end(self) -> None:
        """Drop the queue, and wake every waiting thread."""
        with self._changed:
            self._is_over = True
            self._queue.clear()
            self._bytes = 0
            self._changed.notify_all()


class LogStream(io.TextIOBase):
    """The replacement of stderr: lines go to a stream writer, which drops them when the reader does not keep up.

    ``print`` writes a line and its end separately. So the text of each thread is kept until its line ends or is
    flushed. Lines are written, or dropped, as a whole.
    """

    def __init__(self, writer: StreamWriter) -> None:
        self._writer = writer
        self._partial = threading.local()

    def write(self, text: str) -> int:
        """Keep the text until a line ends, then write it."""
        self._partial.text = getattr(self._partial, "text", "") + text
        if "\n" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Pass on the text of this thread, or drop it where too much is unread."""
        text = getattr(self._partial, "text", "")
        self._partial.text = ""
        if text and not self._writer.is_full:
            self._writer.put(text.encode("utf-8", "backslashreplace"))

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the real stderr, for code below Python."""
        return 2

    def end(self, seconds: float) -> None:
        """Wait for the last lines to be read; further lines are dropped."""
        self._writer.close(seconds)


def _duplicate(descriptor: int) -> int:
    """Return a blocking copy that children do not inherit, above the three standard descriptors."""
    copy = os.dup(descriptor)
    os.set_inheritable(copy, False)
    if os.name == "posix":
        os.set_blocking(copy, True)
    return copy
