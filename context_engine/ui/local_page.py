"""The page of `ctx ui`: its server, its routes and the projects that it shows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from context_engine.errors import ContextEngineError
from context_engine.server import ActivityReader, PageServer, Projects, gain_file
from context_engine.settings import Settings
from context_engine.ui.page_routes import PageRoutes


class LocalPage:
    """A page about some projects, `folders` as path -> name; the first one is shown first.

    It only reads unless `may_write`. Decisions about plans are recorded as those of a person if `is_person`, else as
    those of an agent.
    """

    def __init__(self, folders: Mapping[str, str], *, may_write: bool = False, is_person: bool = False) -> None:
        # not followed: the page reads the index, and the server next to it keeps the index up to date
        self._projects = Projects(list(folders), log=lambda _line: None, follow=False, given_names=folders)
        self._settings = Settings.load(next(iter(folders), None))
        routes = PageRoutes(self._projects, may_write=may_write, is_person=is_person, is_recording=self._settings.gain)
        self._server = PageServer(routes.answer, open_events=self._open_events, may_write=may_write)

    @property
    def address(self) -> str:
        """The address with the token of the page."""
        return self._server.address

    @property
    def ticket_address(self) -> str:
        """The address for a browser: it leads to the page once."""
        return self._server.ticket_address

    def bind(self, port: int) -> None:
        """Listen on a port of this machine; 0: any that is free. Raises: HostError."""
        self._server.bind(port)

    def run(self) -> None:
        """Serve until a signal or `stop`; then close the projects."""
        threading.Thread(target=self._warm_up, name="warming", daemon=True).start()
        try:
            self._server.run()
        finally:
            self._projects.close()

    def stop(self) -> None:
        """End `run`, from any thread."""
        self._server.stop()

    def _warm_up(self) -> None:
        """Open the first project before the page asks for it."""
        with suppress(ContextEngineError):  # reported when the page asks
            self._projects.engine(self._projects.names[0]).index.is_available()

    def _open_events(self) -> tuple[Callable[[], list[Any]], Callable[[], None]]:
        reader = ActivityReader(gain_file(self._settings))
        return reader.read_new, reader.close
