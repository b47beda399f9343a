"""A server of ours over real HTTP, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from context_engine.server import connections, http_server


@contextmanager
def in_thread(hosted: Any) -> Generator[str]:
    """Serve on a free port until the block ends, by when the thread must have ended; the base address."""
    listening = connections.bind_socket("127.0.0.1", 0)
    thread = threading.Thread(target=hosted.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield http_server.endpoint_url(listening).removesuffix("/mcp")
    finally:
        hosted.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
