"""`ctx serve`: one workspace over stdio until the client leaves. Each step is where it is for the sake of the first reply."""

from __future__ import annotations

from pathlib import Path

from context_engine.server import streams
from context_engine.server.gate import LOGS, Gate
from context_engine.server.life import Life, wait_forever
from context_engine.server.opening import Opening


def stdio(root: Path, *, log_level: str = "info", follow: bool = True) -> None:
    """Serve until end of input or a signal; ends the process."""
    pipes = streams.claim()
    log = LOGS[log_level]
    opening = Opening(root, log=log, follow=follow)
    life = Life(opening.close)
    life.leave_on_signals()
    gate = Gate(opening.engine, log=log)
    try:
        _converse(pipes, gate, life, opening)
    except (OSError, ExceptionGroup) as error:
        log({"event": "gone", "ok": False, "why": repr(error)})  # the client vanished in the middle of a reply
    life.leave()
    wait_forever()  # a signal came first and is ending the process


def _converse(pipes: streams.Pipes, gate: Gate, life: Life, opening: Opening) -> None:
    """Speak the protocol until the client closes its end."""
    import anyio  # the protocol library takes most of the start: nothing above needs it
    from mcp.server.stdio import stdio_server

    from context_engine.server import mcp

    server = mcp.build(gate, life=life, after_first_reply=opening.start)

    async def converse() -> None:
        async with stdio_server(anyio.wrap_file(pipes.incoming), anyio.wrap_file(pipes.outgoing)) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(converse)
