"""`ctx serve`: serve projects over stdio until the client leaves, or over HTTP.

The order of imports matters here. Clients wait for the first reply, some for at most a second. So only a small part of
the standard library is loaded before it. A thread imports the protocol library, the tools and the Engine afterwards.
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
"""The imports start after this time even if the client has not sent anything yet."""
TURN_S = 0.000_5
"""The switch interval: a thread that wakes up waits this long for the interpreter; the default is ten times as long."""
LOG_S = 0.1
"""The client has this long to read the last lines of the log."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Serve as the command line says. Return the exit code, unless the process ends by itself."""
    options = parse_options(argv, env)
    if options.workspace:
        options, problem = add_workspace(options)
        if problem:
            sys.stderr.write(problem)
            return 1
    if options.chunks_dir and (problem := find_chunks_problem(options.chunks_dir)):
        sys.stderr.write(problem)
        return 1
    if options.http:
        return _serve_http(options, env)
    StdioServer(options, env).serve()
    return 0


class StdioServer:
    """The server of one client over stdin and stdout."""

    def __init__(self, options: ServeOptions, env: Mapping[str, str]) -> None:
        self._options = options._replace(selection=options.selection._replace(projects=project_names(options, env)))
        self._env = env
        self._projects: Projects | None = None
        self._chunks: ChunkFolderLoader | None = None
        front = BootstrapResponder(
            protocol_catalogue.read_catalogue(), self._options.selection, private=os.urandom(8).hex()
        )
        self.shutdown = ShutdownCoordinator(self._close, finish=lambda seconds: self.session.finish(seconds))
        self.session = StdioSession(stdio_streams.claim_stdio(), front, gone=self.shutdown.shut_down_in_thread)

    def serve(self) -> None:
        """Serve until the client or its parent process leaves, then end the process."""
        self.shutdown.shut_down_on_signals()
        ParentWatcher(self.shutdown.shut_down).start()
        threading.Thread(target=self._listen, name="listening", daemon=True).start()
        threading.Thread(target=self._run, name="serving", daemon=True).start()
        wait_forever()

    def _listen(self) -> None:
        self.session.read_messages()
        self.shutdown.shut_down()

    def _run(self) -> None:
        """Import the libraries after the first reply, and serve with them."""
        self.session.has_replied.wait(QUIET_S)
        sys.setswitchinterval(TURN_S)
        try:
            self._converse()
        except BaseException:  # noqa: BLE001 - no other thread could answer the client
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
            dispatcher, selection=self._options.selection, projects=projects, shutdown=self.shutdown
        )

        async def converse() -> None:
            await self.session.run(server, began=projects.start)

        anyio.run(converse)

    def _refuse(self, error: ContextEngineError) -> None:
        """End the process: what the command line asks for cannot be served."""
        sys.stderr.write(_format_error(error))
        self.shutdown.shut_down_in_thread(1)

    def _close(self) -> None:
        for resource in (self._projects, self._chunks):
            if resource is not None:
                resource.close()
        self.session.close()
        if isinstance(sys.stderr, stdio_streams.LogStream):
            sys.stderr.end(LOG_S)


def project_names(options: ServeOptions, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the projects when there are several; the schemas of the tools list them."""
    if len(options.roots) < 2:
        return ()
    from context_engine.server.projects import initial_folders, name_folders

    return tuple(name_folders(initial_folders(options.roots, env), dict(options.given_names)))


def add_workspace(options: ServeOptions) -> tuple[ServeOptions, str]:
    """Add the repositories of the workspace to the roots, with their names there; or return the problem in one line."""
    from context_engine.errors import ContextEngineError
    from context_engine.server.projects import workspace_folders

    try:
        names = workspace_folders(options.workspace)
    except ContextEngineError as error:
        return options, _format_error(error)
    return options._replace(roots=(*options.roots, *names), given_names=tuple(names.items())), ""


def find_chunks_problem(named: str) -> str:
    """Return why a folder of chunk files cannot be served, in one line; empty when it can."""
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
        settings = Settings()  # opening the workspace raises the same error, and each call reports it
    log = LOGS[settings.log_level]
    if options.otel:
        from context_engine.server.otel_spans import add_span_attributes

        log = add_span_attributes(log)
    projects = Projects(named, here=os.getcwd(), log=log, given_names=dict(options.given_names), isolated=isolated)
    chunks = None
    if options.chunks_dir:
        from context_engine.server.chunk_server import ChunkFolderLoader, choose_folder

        chunks = ChunkFolderLoader(choose_folder(options.chunks_dir), settings, env, log=log, failed=failed)
    served = chunks.wait if chunks else None
    dispatcher = ToolDispatcher(
        projects.engine, selection=options.selection, log=log, chunks=served, project_names=lambda: projects.names
    )
    return projects, dispatcher, chunks


def _serve_http(options: ServeOptions, env: Mapping[str, str]) -> int:
    """Serve any number of clients over HTTP; return the exit code if the server cannot start."""
    from context_engine.errors import ContextEngineError

    try:
        _listen(options, env)
    except ContextEngineError as error:
        sys.stderr.write(_format_error(error))
        return 1
    return 0


def _listen(options: ServeOptions, env: Mapping[str, str]) -> None:
    """Serve over HTTP until a signal ends the process. Raises: ContextEngineError when the server cannot start."""
    from context_engine.server import http_server
    from context_engine.server.otel_spans import TraceExporter
    from context_engine.server.shared_server import create_shared_server, is_shared

    shared = is_shared(options)
    spans = TraceExporter() if options.otel else None
    projects, dispatcher, chunks = open_projects(options, env, isolated=shared)

    def close() -> None:
        for resource in (projects, chunks, spans):
            if resource:
                resource.close()

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
    from context_engine.text import escape_line

    return f"ctx serve: {escape_line(error.message)}. {escape_line(error.suggestion)}\n"
