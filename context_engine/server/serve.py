"""`ctx serve`: serve projects over stdio until the client leaves, or over HTTP.

Over stdio the client is handed over to the daemon, or else answered here, by the protocol library. The order of imports
matters: clients wait for the first reply, some for at most a second. A server with a daemon imports a small part of the
standard library; one that is alone imports the library first, and the Engine once it answers.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from context_engine.server.serve_options import ServeOptions, parse_options
from context_engine.server.shutdown import ShutdownCoordinator, wait_forever, watch_client
from context_engine.server.stdio_session import StdioSession
from context_engine.server.stdio_streams import LogStream, claim_stdio

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.context import ShownLines
    from context_engine.errors import ContextEngineError
    from context_engine.server.dispatcher import ToolDispatcher
    from context_engine.server.projects import Lease, Projects
    from context_engine.server.shutdown import RunningCalls

TURN_S = 0.000_5
"""The switch interval: a thread waits this long for the interpreter; the default is ten times as long."""
LOG_S = 0.1
"""The client has this long to read the last lines of the log."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Serve as the command line says. Return the exit code, unless the process ends by itself."""
    options = parse_options(argv, env)
    if options.workspace or options.chunks_dir or options.http:
        from context_engine.errors import ContextEngineError

        try:
            options = _check_options(options)
            if options.http:
                _serve_http(options, env)
        except ContextEngineError as error:
            sys.stderr.write(_format_error(error))
            return 1
    StdioServer(options, env).serve()
    return 0


def _check_options(options: ServeOptions) -> ServeOptions:
    """Return the options with the repositories of the workspace among the roots, and the path of the chunk files.

    Raises: ContextEngineError where there is no such workspace, or no such folder of chunk files.
    """
    from context_engine.repo import check_workspace_root
    from context_engine.server.projects import workspace_folders

    if options.workspace:
        names = workspace_folders(options.workspace)
        options = options._replace(roots=(*options.roots, *names), given_names=tuple(names.items()))
    if options.chunks_dir:
        options = options._replace(chunks_dir=check_workspace_root(options.chunks_dir, allow_any=True))
    return options


class StdioServer:
    """The server of one client over stdin and stdout."""

    def __init__(self, options: ServeOptions, env: Mapping[str, str]) -> None:
        self._options = options
        self._env = env
        self._projects: Projects | None = None
        self.shutdown = ShutdownCoordinator(self._close, finish=lambda seconds: self.session.finish(seconds))
        self.session = StdioSession(claim_stdio(), gone=self.shutdown.shut_down_in_thread)

    def serve(self) -> None:
        """Serve until the client or its parent process leaves, then end the process."""
        self.shutdown.shut_down_on_signals()
        watch_client(self.shutdown.shut_down)
        threading.Thread(target=self._listen, name="listening", daemon=True).start()
        threading.Thread(target=self._run, name="serving", daemon=True).start()
        wait_forever()

    def _listen(self) -> None:
        self.session.read_messages()
        self.shutdown.shut_down()

    def _run(self) -> None:
        """Pass the client on to the daemon, and serve alone where there is none, or not any more."""
        from context_engine.server.daemon_relay import open_link

        sys.setswitchinterval(TURN_S)
        try:
            link = open_link(self._options, self._env)
            if link is not None:
                link.relay(self.session)
            self._serve_alone()
        except BaseException:  # noqa: BLE001 - no other thread could answer the client
            import traceback

            traceback.print_exc()
            self.shutdown.shut_down(1)

    def _serve_alone(self) -> None:
        """Serve with the Engines in this process."""
        from context_engine.server.server_log import install_bridge

        self._projects, dispatcher = open_projects(self._options, self._env, failed=self._refuse)
        install_bridge(dispatcher.log)
        serve_session(self.session, self._projects, dispatcher, running=self.shutdown)

    def _refuse(self, error: ContextEngineError) -> None:
        """End the process: what the command line asks for cannot be served."""
        sys.stderr.write(_format_error(error))
        self.shutdown.shut_down_in_thread(1)

    def _close(self) -> None:
        if self._projects:
            self._projects.close()
        self.session.close()
        if isinstance(sys.stderr, LogStream):
            sys.stderr.end(LOG_S)


def serve_session(
    session: StdioSession,
    projects: Projects,
    dispatcher: ToolDispatcher,
    *,
    running: RunningCalls,
    ends_with_input: bool = False,
) -> None:
    """Serve a client over a pipe; the projects are opened once the library has its messages.

    `ends_with_input`: return when the client has left, even if it has not read every answer.
    """
    import anyio

    from context_engine.server import mcp_server

    server = mcp_server.build_server(dispatcher, projects=projects, running=running)
    anyio.run(partial(session.run, server, began=projects.start, ends_with_input=ends_with_input))


def open_projects(
    options: ServeOptions,
    env: Mapping[str, str],
    *,
    failed: Callable[[ContextEngineError], None] = lambda _: None,
    isolated: bool = False,
    here: str = "",
    write_log: Callable[[str], object] | None = None,
    lease: Lease | None = None,
    shown: Callable[[str, str], ShownLines] | None = None,
) -> tuple[Projects, ToolDispatcher]:
    """Return the projects with the chunk files, not yet open, and their dispatcher.

    `failed` receives the error if the chunks cannot be served; `isolated` and `lease` are those of `Projects`. `here`
    is the folder of the client, by default that of this process; `write_log` gets the log instead of stderr. `shown` is
    that of the dispatcher.
    """
    from context_engine.errors import ContextEngineError
    from context_engine.server import GainStore, ToolDispatcher
    from context_engine.server.projects import Projects, initial_folders
    from context_engine.server.server_log import create_log, write_to_stderr
    from context_engine.settings import Settings

    here = here or os.getcwd()
    named = initial_folders(options.roots, env)
    try:
        settings = Settings.load(named[0] if named else here, env)
    except ContextEngineError:
        settings = Settings()  # opening the workspace raises the same error, and each call reports it
    gain = GainStore(enabled=not isolated)
    log = create_log(settings.log_level, write_log or write_to_stderr, keep=partial(gain.keep_line, settings))
    names = dict(options.given_names)
    chunks = remote = None
    if options.chunks_dir:
        from context_engine.server.chunk_server import load_chunks

        chunks = load_chunks(options.chunks_dir, settings, env, log=log, failed=failed)
    projects = Projects(named, here=here, log=log, given_names=names, isolated=isolated, lease=lease, chunks=chunks)
    if settings.store_visible:
        from context_engine.team_parts import load_team_part

        remote = load_team_part("projects")(settings)
    dispatcher = ToolDispatcher(
        projects.engine,
        selection=options.selection,
        log=log,
        chunks=chunks.wait if chunks else None,
        project_names=lambda: projects.names,
        gain=gain,
        remote=remote,
        shown=shown,
    )
    return projects, dispatcher


def _serve_http(options: ServeOptions, env: Mapping[str, str]) -> None:
    """Serve over HTTP until a signal ends the process. Raises: ContextEngineError when the server cannot start."""
    from context_engine.daemon import keep_one_arena
    from context_engine.server import http_server
    from context_engine.server.authentication import is_shared
    from context_engine.team_parts import load_team_part

    keep_one_arena()
    shared = is_shared(options)
    projects, dispatcher = open_projects(options, env, isolated=shared)
    shutdown = ShutdownCoordinator(projects.close)
    shutdown.shut_down_on_signals()
    if projects.chunks:
        projects.chunks.wait()
    team = load_team_part("server")(options, dispatcher, projects) if shared else None
    http_server.serve_http(options, projects, dispatcher, shutdown, shared=team)


def _format_error(error: ContextEngineError) -> str:
    from context_engine.text import escape_line

    return f"ctx serve: {escape_line(error.message)}. {escape_line(error.suggestion)}\n"
