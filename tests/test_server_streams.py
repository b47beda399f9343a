"""The pipes: whoever writes never waits for whoever reads, and who has gone is noticed."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from context_engine.server.streams import Log, Outlet, chunks, has_hung_up

PATIENCE_S = 20.0
PIPE_BYTES = 1 << 20
"""More than any pipe holds."""


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    for descriptor in (reading, writing):
        try:
            os.close(descriptor)
        except OSError:
            continue  # a test has closed it


def test_messages_come_out_whole_and_in_order(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], bytes_max=10)
    messages = [b"%d " % number * number for number in range(300)]
    threading.Thread(target=lambda: [outlet.put(each) for each in messages], daemon=True).start()
    wanted, got = b"".join(messages), b""
    while len(got) < len(wanted):
        got += os.read(pipe[0], 65_536)
    assert got == wanted
    assert outlet.began.is_set()


def test_nobody_waits_to_put_and_who_asks_for_room_waits_until_it_is_read(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], bytes_max=100)
    outlet.put(b"x" * PIPE_BYTES)
    outlet.put(b"y" * PIPE_BYTES)
    assert outlet.is_full
    waited = threading.Event()
    threading.Thread(target=lambda: (outlet.wait_for_room(), waited.set()), daemon=True).start()
    assert not waited.wait(0.05)
    left = 2 * PIPE_BYTES
    while left:
        left -= len(os.read(pipe[0], 65_536))
    assert waited.wait(PATIENCE_S)
    assert not outlet.is_full


def test_draining_ends_when_all_is_out_or_the_time_is_over(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], bytes_max=100)
    outlet.put(b"short")
    outlet.drain(PATIENCE_S)
    assert os.read(pipe[0], 100) == b"short"
    outlet.put(b"x" * PIPE_BYTES)
    outlet.drain(0.01)


def test_a_reader_that_has_gone_is_told_once_and_nobody_waits_for_it(pipe: tuple[int, int]) -> None:
    told = threading.Event()
    outlet = Outlet(pipe[1], bytes_max=100, gone=told.set)
    os.close(pipe[0])
    outlet.put(b"x" * 1_000)
    assert told.wait(PATIENCE_S)
    outlet.put(b"y" * 1_000)
    assert not outlet.is_full
    outlet.wait_for_room()
    outlet.drain(PATIENCE_S)


def test_log_lines_that_nobody_reads_are_dropped_and_the_writer_goes_on(pipe: tuple[int, int]) -> None:
    outlet = Outlet(pipe[1], bytes_max=1_000)
    log = Log(outlet)
    for _ in range(5_000):
        print("a line of the log with half a pair \udce9 in it", file=log, flush=True)
    assert outlet.is_full
    assert outlet._bytes < 2_000
    assert os.read(pipe[0], 60).decode().startswith("a line of the log with half a pair \\udce9 in it\n")


@pytest.mark.parametrize("pair", ["pipe", "socket"])
def test_who_has_hung_up_is_seen_also_behind_what_is_still_to_be_read(pair: str, pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    if pair == "socket":  # what Node gives its children
        here, there = socket.socketpair()
        reading, writing = here.detach(), there.detach()
    os.write(writing, b"not read yet")
    assert not has_hung_up(reading)
    os.close(writing)
    assert has_hung_up(reading)
    assert list(chunks(reading)) == [b"not read yet"]
    if pair == "socket":
        os.close(reading)
