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
from context_engine.server.bootstrap import BootstrapResponder
from context_engine.server.parent_process import ParentWatcher
from context_engine.server.serve_options import ServeOptions, parse_options
from context_engine.server.shutdown import ShutdownCoordinator, wait_forever
from context_engine.server.stdio_session import StdioSession

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.errors import ContextEngineError
    from context_engine.server.chunk_server import ChunkFolderLoader
    from context_engine.server.dispatcher import ToolDispatcher
    from context_engine.server.projects import Projects

QUIET_S = 0.05
"""A client that says nothing this long after the start is not waiting for us: the imports need not wait for it."""
TURN_S = 0.000_5
"""A thread that was woken, by the client or with an answer, waits this long for the interpreter, not ten times that."""
LOG_S = 0.1
"""The last lines of the log get this long to be read."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Serve as the command line says; the exit code, where the process does not end by itself."""
    options = parse_options(argv, env)
    if options.workspace:
        options, trouble = add_workspace(options)
        if trouble:
            sys.stderr.write(trouble)
            return 1
    if options.chunks_dir and (trouble := find_chunks_problem(options.chunks_dir)):
        sys.stderr.write(trouble)
        return 1
    if options.http:
        return _serve_http(options, env)
    StdioServer(options, env).serve()
    return 0


class StdioServer:
    """One client over stdin and stdout."""

    def __init__(self, options: ServeOptions, env: Mapping[str, str]) -> None:
        self._options = options._replace(shown=options.shown._replace(projects=project_names(options, env)))
        self._env = env
        self._projects: Projects | None = None
        self._chunks: ChunkFolderLoader | None = None
        front = BootstrapResponder(
            protocol_catalogue.read_catalogue(), self._options.shown, private=os.urandom(8).hex()
        )
        self.shutdown = ShutdownCoordinator(self._close, finish=lambda seconds: self.session.finish(seconds))
        self.session = StdioSession(stdio_streams.claim_stdio(), front, gone=self.shutdown.shut_down_in_thread)

    def serve(self) -> None:
        """Until the client leaves, or whoever started us; ends the process."""
        self.shutdown.shut_down_on_signals()
        ParentWatcher(self.shutdown.shut_down).start()
        threading.Thread(target=self._listen, name="listening", daemon=True).start()
        threading.Thread(target=self._run, name="serving", daemon=True).start()
        wait_forever()

    def _listen(self) -> None:
        self.session.read_messages()
        self.shutdown.shut_down()

    def _run(self) -> None:
        """Everything that needs more than the standard library, behind the first reply."""
        self.session.has_replied.wait(QUIET_S)
        sys.setswitchinterval(TURN_S)
        try:
            self._converse()
        except BaseException:  # noqa: BLE001 - whatever it was, nobody would be left to answer
            import traceback

            traceback.print_exc()
            self.shutdown.shut_down(1)

    def _converse(self) -> None:
        import anyio

        from context_engine.server import logging_bridge, mcp_server

        projects, dispatcher, chunks = open_projects(self._options, self._env, failed=self._refuse)
        logging_bridge.install_bridge(dispatcher.log)
        self._projects, self._chunks = projects, chunks
        if chunks:
            chunks.start()
        server = mcp_server.build_server(
            dispatcher, selection=self._options.shown, projects=projects, shutdown=self.shutdown
        )

        async def converse() -> None:
            await self.session.run(server, began=projects.start)

        anyio.run(converse)

    def _refuse(self, error: ContextEngineError) -> None:
        """End, because what the command line asks for cannot be served."""
        sys.stderr.write(_format_error(error))
        self.shutdown.shut_down_in_thread(1)

    def _close(self) -> None:
        for each in (self._projects, self._chunks):
            if each is not None:
                each.close()
        self.session.close()
        if isinstance(sys.stderr, stdio_streams.LogStream):
            sys.stderr.end(LOG_S)


def project_names(options: ServeOptions, env: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the projects, where more than one was named: they stand in the tools' schemas."""
    if len(options.roots) < 2:
        return ()
    from context_engine.server.projects import initial_folders, name_folders

    return tuple(name_folders(initial_folders(options.roots, env), dict(options.called)))


def add_workspace(options: ServeOptions) -> tuple[ServeOptions, str]:
    """With the repositories of the workspace among the roots, under the names they have there; or why not, in a line."""
    from context_engine.errors import ContextEngineError
    from context_engine.server.projects import workspace_folders

    try:
        called = workspace_folders(options.workspace)
    except ContextEngineError as error:
        return options, _format_error(error)
    return options._replace(roots=(*options.roots, *called), called=tuple(called.items())), ""


def find_chunks_problem(named: str) -> str:
    """Why a folder of chunk files cannot be served, in a line; empty when it is there."""
    from context_engine.errors import ContextEngineError
    from context_engine.server.chunk_server import choose_folder

    try:
        choose_folder(named)
    except ContextEngineError as error:
        return _format_error(error)
    return ""


def open_projects(
    options: ServeOptions,
    env: Mapping[str, str],
    *,
    failed: Callable[[ContextEngineError], None] = lambda _: None,
    isolated: bool = False,
) -> tuple[Projects, ToolDispatcher, ChunkFolderLoader | None]:
    """The projects and the chunk files, not yet open, and the dispatcher before them.

    `failed` hears why chunks cannot be served; `apart` as `Projects` takes it.
    """
    from context_engine.errors import ContextEngineError
    from context_engine.server.dispatcher import LOGS, ToolDispatcher
    from context_engine.server.projects import Projects, initial_folders
    from context_engine.settings import Settings

    named = initial_folders(options.roots, env)
    try:
        settings = Settings.load(named[0] if named else os.getcwd(), env)
    except ContextEngineError:
        settings = Settings()  # opening the workspace meets the same error, and tells it to the client with each call
    log = LOGS[settings.log_level]
    if options.otel:
        from context_engine.server.otel_spans import add_span_attributes

        log = add_span_attributes(log)
    projects = Projects(named, here=os.getcwd(), log=log, given_names=dict(options.called), isolated=isolated)
    chunks = None
    if options.chunks_dir:
        from context_engine.server.chunk_server import ChunkFolderLoader, choose_folder

        chunks = ChunkFolderLoader(choose_folder(options.chunks_dir), settings, env, log=log, failed=failed)
    served = chunks.wait if chunks else None
    dispatcher = ToolDispatcher(
        projects.engine, selection=options.shown, log=log, chunks=served, project_names=lambda: projects.names
    )
    return projects, dispatcher, chunks


def _serve_http(options: ServeOptions, env: Mapping[str, str]) -> int:
    """Any number of clients, until a signal."""
    from context_engine.errors import ContextEngineError

    try:
        _listen(options, env)
    except ContextEngineError as error:
        sys.stderr.write(_format_error(error))
        return 1
    return 0


def _listen(options: ServeOptions, env: Mapping[str, str]) -> None:
    """Serve over HTTP until a signal ends the process. Raises: whatever keeps it from starting, with the next step."""
    from context_engine.server import http_server
    from context_engine.server.otel_spans import TraceExporter
    from context_engine.server.shared_server import create_shared_server, is_shared

    shared = is_shared(options)
    spans = TraceExporter() if options.otel else None
    projects, dispatcher, chunks = open_projects(options, env, isolated=shared)

    def close() -> None:
        for each in (projects, chunks, spans):
            if each:
                each.close()

    shutdown = ShutdownCoordinator(close)
    shutdown.shut_down_on_signals()
    if chunks:
        chunks.start()
        chunks.wait()
    http_server.serve_http(
        options,
        projects,
        dispatcher,
        shutdown,
        shared=create_shared_server(options, dispatcher, projects) if shared else None,
    )


def _format_error(error: ContextEngineError) -> str:
    from context_engine.text.visible_text import escape_line

    return f"ctx serve: {escape_line(error.message)}. {escape_line(error.suggestion)}\n"
