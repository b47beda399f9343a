"""The pipes: whoever writes never waits for whoever reads, and who has gone is noticed."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from context_engine.server.stdio_streams import LogStream, StreamWriter, has_hung_up, read_chunks

PATIENCE_S = 120.0
PIPE_BYTES = 1 << 20
"""More than any pipe holds."""


class Pipe:
    """A pipe of one test. Each end is closed once: a number that was closed may be another test's by now."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._open = {self.reading, self.writing}

    def close(self, *descriptors: int) -> None:
        """Close these ends, or both; those that are closed already stay so."""
        for descriptor in set(descriptors or self._open) & self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


@pytest.fixture
def pipe() -> Generator[Pipe]:
    made = Pipe()
    yield made
    made.close()


@contextmanager
def writing_to(
    descriptor: int, *, bytes_max: int = 100, gone: Callable[[], None] = lambda: None
) -> Generator[StreamWriter]:
    """An outlet that is closed with its block."""
    outlet = StreamWriter(descriptor, bytes_max=bytes_max, gone=gone)
    try:
        yield outlet
    finally:
        outlet.close()


def test_messages_come_out_whole_and_in_order(pipe: Pipe) -> None:
    messages = [b"%d " % number * number for number in range(300)]
    wanted, got = b"".join(messages), b""
    with writing_to(pipe.writing, bytes_max=10) as outlet:
        putting = threading.Thread(target=lambda: [outlet.put(each) for each in messages])
        putting.start()
        while len(got) < len(wanted):
            got += os.read(pipe.reading, 65_536)
        putting.join()
        assert got == wanted


def test_nobody_waits_to_put_and_who_asks_for_room_waits_until_it_is_read(pipe: Pipe) -> None:
    with writing_to(pipe.writing) as outlet:
        outlet.put(b"x" * PIPE_BYTES)
        outlet.put(b"y" * PIPE_BYTES)
        assert outlet.is_full
        waited = threading.Event()
        waiting = threading.Thread(target=lambda: (outlet.wait_for_room(), waited.set()))
        waiting.start()
        assert not waited.wait(0.05)
        _take(pipe.reading, 2 * PIPE_BYTES)
        assert waited.wait(PATIENCE_S)
        waiting.join()
        assert not outlet.is_full


def test_draining_ends_when_all_is_out_or_the_time_is_over(pipe: Pipe) -> None:
    with writing_to(pipe.writing) as outlet:
        outlet.put(b"short")
        outlet.drain(PATIENCE_S)
        assert os.read(pipe.reading, 100) == b"short"
        outlet.put(b"x" * PIPE_BYTES)
        outlet.drain(0.01)
        pipe.close(pipe.reading)


def test_a_reader_that_has_gone_is_told_once_and_nobody_waits_for_it(pipe: Pipe) -> None:
    gone: list[bool] = []
    noticed = threading.Event()

    def notice() -> None:
        gone.append(True)
        noticed.set()

    with writing_to(pipe.writing, gone=notice) as outlet:
        pipe.close(pipe.reading)
        outlet.put(b"x" * 1_000)
        assert noticed.wait(PATIENCE_S)
        outlet.put(b"y" * 1_000)
        assert not outlet.is_full
        outlet.wait_for_room()
        outlet.drain(PATIENCE_S)
        assert gone == [True]


def test_log_lines_that_nobody_reads_are_dropped_and_the_writer_goes_on(pipe: Pipe) -> None:
    with writing_to(pipe.writing, bytes_max=1_000) as outlet:
        log = LogStream(outlet)
        for _ in range(5_000):
            print("a line of the log with half a pair \udce9 in it", file=log, flush=True)
        assert outlet.is_full
        assert outlet._bytes < 2_000
        assert os.read(pipe.reading, 60).decode().startswith("a line of the log with half a pair \\udce9 in it\n")
        pipe.close(pipe.reading)


# -- whose number it is -------------------------------------------------------------------------------------------


def test_nothing_is_written_to_a_number_that_was_closed_and_given_to_another_pipe(pipe: Pipe) -> None:
    with writing_to(pipe.writing) as outlet:
        outlet.put(b"x" * PIPE_BYTES)  # the thread is blocked in the middle of it
        outlet.put(b"the next message")
        there, other = os.pipe()
        os.dup2(other, pipe.writing)  # closes the number and gives it to another pipe, in one step
        try:
            got = _take(pipe.reading, PIPE_BYTES + len(b"the next message"))
            assert got.endswith(b"the next message")
            outlet.put(b"one more")
            assert _take(pipe.reading, 8) == b"one more"
            os.set_blocking(there, False)
            with pytest.raises(BlockingIOError):
                os.read(there, 1)
        finally:
            os.close(there)
            os.close(other)


def test_a_closed_outlet_has_ended_its_thread_and_given_its_duplicate_back(pipe: Pipe) -> None:
    outlet = StreamWriter(pipe.writing, bytes_max=100)
    outlet.put(b"said")
    assert outlet.close(PATIENCE_S)
    assert outlet.close()
    outlet.put(b"too late")
    assert not outlet.is_full
    pipe.close(pipe.writing)
    assert list(read_chunks(pipe.reading)) == [b"said"]  # and then the end: no duplicate is open any more


def test_a_writer_that_is_blocked_keeps_its_own_number_until_the_reader_takes_what_is_left(pipe: Pipe) -> None:
    outlet = StreamWriter(pipe.writing, bytes_max=100)
    outlet.put(b"x" * PIPE_BYTES)
    outlet.put(b"dropped when it is closed")
    assert _has_bytes(pipe.reading)
    assert not outlet.close()
    pipe.close(pipe.writing)
    assert b"".join(read_chunks(pipe.reading)) == b"x" * PIPE_BYTES
    assert outlet.close()


@pytest.mark.parametrize("pair", ["pipe", "socket"])
def test_who_has_hung_up_is_seen_also_behind_what_is_still_to_be_read(pair: str) -> None:
    if pair == "socket":  # what Node gives its children
        here, there = socket.socketpair()
        reading, writing = here.detach(), there.detach()
    else:
        reading, writing = os.pipe()
    os.write(writing, b"not read yet")
    assert not has_hung_up(reading)
    os.close(writing)
    assert has_hung_up(reading)
    assert list(read_chunks(reading)) == [b"not read yet"]
    os.close(reading)


def _has_bytes(descriptor: int) -> bool:
    """Wait until something can be read there. `select.select` refuses numbers above 1,023; a selector does not."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(PATIENCE_S))


def _take(descriptor: int, size: int) -> bytes:
    """So many bytes of a pipe."""
    got = b""
    while len(got) < size:
        assert _has_bytes(descriptor), f"{size - len(got)} bytes never came"
        more = os.read(descriptor, size - len(got))
        assert more, f"the other side ended, {size - len(got)} bytes before it should"
        got += more
    return got
