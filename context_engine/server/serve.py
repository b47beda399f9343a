"""`ctx serve`: projects over stdio until the client leaves, or over HTTP. What is imported when is the whole point here.

Until the first reply is out only the standard library is loaded, and of that little: clients wait for it, some for no more
than a second. The protocol library, the tools and the Engine are imported behind it, in a thread.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from context_engine.server import protocol_catalogue, stdio_streams
from context_engine.server.bootstrap import Front
from context_engine.server.parent_process import Watch
from context_engine.server.serve_options import Options, parse
from context_engine.server.shutdown import Life, wait_forever
from context_engine.server.stdio_session import Conversation

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.errors import ContextEngineError
    from context_engine.server.chunk_server import ChunkFolderLoader
    from context_engine.server.dispatcher import Gate
    from context_engine.server.projects import Projects

QUIET_S = 0.05
"""A client that says nothing this long after the start is not waiting for us: the imports need not wait for it."""
TURN_S = 0.000_5
"""A thread that was woken, by the client or with an answer, waits this long for the interpreter, not ten times that."""
LOG_S = 0.1
"""The last lines of the log get this long to be read."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Serve as the command line says; the exit code, where the process does not end by itself."""
    options = parse(argv, env)
    if options.workspace:
        options, trouble = with_workspace(options)
        if trouble:
            sys.stderr.write(trouble)
            return 1
    if options.chunks_dir and (trouble := chunks_trouble(options.chunks_dir)):
        sys.stderr.write(trouble)
        return 1
    if options.http:
        return _over_http(options, env)
    Stdio(options, env).serve()
    return 0


class Stdio:
    """One client over stdin and stdout."""

    def __init__(self, options: Options, env: Mapping[str, str]) -> None:
        self._options = options._replace(shown=options.shown._replace(projects=project_names(options, env)))
        self._env = env
        self._projects: Projects | None = None
        self._chunks: ChunkFolderLoader | None = None
        front = Front(protocol_catalogue.read(), self._options.shown, private=os.urandom(8).hex())
        self.life = Life(self._close, finish=lambda seconds: self.conversation.finish(seconds))
        self.conversation = Conversation(stdio_streams.claim(), front, gone=self.life.leave_in_thread)

    def serve(self) -> None:
        """Until the client leaves, or whoever started us; ends the process."""
        self.life.leave_on_signals()
        Watch(self.life.leave).start()
        threading.Thread(target=self._listen, name="listening", daemon=True).start()
        threading.Thread(target=self._work, name="serving", daemon=True).start()
        wait_forever()

    def _listen(self) -> None:
        self.conversation.listen()
        self.life.leave()

    def _work(self) -> None:
        """Everything that needs more than the standard library, behind the first reply."""
        self.conversation.began.wait(QUIET_S)
        sys.setswitchinterval(TURN_S)
        try:
            self._converse()
        except BaseException:  # noqa: BLE001 - whatever it was, nobody would be left to answer
            import traceback

            traceback.print_exc()
            self.life.leave(1)

    def _converse(self) -> None:
        import anyio

        from context_engine.server import logging_bridge, mcp_server

        projects, gate, chunks = opened(self._options, self._env, failed=self._refuse)
        logging_bridge.take(gate.log)
        self._projects, self._chunks = projects, chunks
        if chunks:
            chunks.start()
        server = mcp_server.build(gate, shown=self._options.shown, projects=projects, life=self.life)

        async def converse() -> None:
            await self.conversation.converse(server, began=projects.start)

        anyio.run(converse)

    def _refuse(self, error: ContextEngineError) -> None:
        """End, because what the command line asks for cannot be served."""
        sys.stderr.write(_refusal(error))
        self.life.leave_in_thread(1)

    def _close(self) -> None:
        for each in (self._projects, self._chunks):
            if each is not None:
                each.close()
        self.conversation.close()
        if isinstance(sys.stderr, stdio_streams.Log):
            sys.stderr.end(LOG_S)


def project_names(options: Options, env: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the projects, where more than one was named: they stand in the tools' schemas."""
    if len(options.roots) < 2:
        return ()
    from context_engine.server.projects import named_at_start, names_of

    return tuple(names_of(named_at_start(options.roots, env), dict(options.called)))


def with_workspace(options: Options) -> tuple[Options, str]:
    """With the repositories of the workspace among the roots, under the names they have there; or why not, in a line."""
    from context_engine.errors import ContextEngineError
    from context_engine.server.projects import of_workspace

    try:
        called = of_workspace(options.workspace)
    except ContextEngineError as error:
        return options, _refusal(error)
    return options._replace(roots=(*options.roots, *called), called=tuple(called.items())), ""


def chunks_trouble(named: str) -> str:
    """Why a folder of chunk files cannot be served, in a line; empty when it is there."""
    from context_engine.errors import ContextEngineError
    from context_engine.server.chunk_server import choose_folder

    try:
        choose_folder(named)
    except ContextEngineError as error:
        return _refusal(error)
    return ""


def opened(
    options: Options,
    env: Mapping[str, str],
    *,
    failed: Callable[[ContextEngineError], None] = lambda _: None,
    apart: bool = False,
) -> tuple[Projects, Gate, ChunkFolderLoader | None]:
    """The projects and the chunk files, not yet open, and the gate before them.

    `failed` hears why chunks cannot be served; `apart` as `Projects` takes it.
    """
    from context_engine.errors import ContextEngineError
    from context_engine.server.dispatcher import LOGS, Gate
    from context_engine.server.projects import Projects, named_at_start
    from context_engine.settings import Settings

    named = named_at_start(options.roots, env)
    try:
        settings = Settings.load(named[0] if named else os.getcwd(), env)
    except ContextEngineError:
        settings = Settings()  # opening the workspace meets the same error, and tells it to the client with each call
    log = LOGS[settings.log_level]
    if options.otel:
        from context_engine.server.otel_spans import noted

        log = noted(log)
    projects = Projects(named, here=os.getcwd(), log=log, called=dict(options.called), apart=apart)
    chunks = None
    if options.chunks_dir:
        from context_engine.server.chunk_server import ChunkFolderLoader, choose_folder

        chunks = ChunkFolderLoader(choose_folder(options.chunks_dir), settings, env, log=log, failed=failed)
    served = chunks.wait if chunks else None
    gate = Gate(projects.engine, shown=options.shown, log=log, chunks=served, names=lambda: projects.names)
    return projects, gate, chunks


def _over_http(options: Options, env: Mapping[str, str]) -> int:
    """Any number of clients, until a signal."""
    from context_engine.errors import ContextEngineError

    try:
        _listening(options, env)
    except ContextEngineError as error:
        sys.stderr.write(_refusal(error))
        return 1
    return 0


def _listening(options: Options, env: Mapping[str, str]) -> None:
    """Serve over HTTP until a signal ends the process. Raises: whatever keeps it from starting, with the next step."""
    from context_engine.server import http_server
    from context_engine.server.otel_spans import Spans
    from context_engine.server.shared_server import is_shared, team_of

    shared = is_shared(options)
    spans = Spans() if options.otel else None
    projects, gate, chunks = opened(options, env, apart=shared)

    def close() -> None:
        for each in (projects, chunks, spans):
            if each:
                each.close()

    life = Life(close)
    life.leave_on_signals()
    if chunks:
        chunks.start()
        chunks.wait()
    http_server.serve(options, projects, gate, life, team=team_of(options, gate, projects) if shared else None)


def _refusal(error: ContextEngineError) -> str:
    from context_engine.text.visible_text import one_line

    return f"ctx serve: {one_line(error.message)}. {one_line(error.suggestion)}\n"
