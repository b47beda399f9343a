"""/ready of servers whose index is published: whether they can answer without their database, and when it is back."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from context_engine.errors import StoreUnavailable
from context_engine.server.http_server import STORE_AWAY, STORE_KEPT
from context_engine.server.projects import Projects
from tests.server.test_draining import Server, States
from tests.support.databases import forbid, new_database
from tests.support.engines import cache_for
from tests.support.tools_stand_in import StandIn
from tests.support.trees import repository

PATIENCE_S = 120.0


@dataclass(frozen=True)
class Reached:
    """An Engine, as far as /ready asks."""

    store_problem: str
    is_indexed: bool

    @property
    def index(self) -> Reached:
        return self

    def is_available(self) -> bool:
        return self.is_indexed


class Opened(States):
    """Projects that are open, with these Engines."""

    def __init__(self, *engines: Reached) -> None:
        super().__init__({f"till{number}": "open" for number in range(len(engines))})
        self._engines = engines

    def open_engines(self) -> list[Any]:
        return list(self._engines)


@contextmanager
def serving(projects: Any) -> Generator[Callable[[], httpx2.Response]]:
    """A server of these projects; asks it for /ready."""
    server = Server(StandIn(), 0.0, projects)
    try:
        yield lambda: httpx2.get(f"{server.base}/ready", timeout=PATIENCE_S)
    finally:
        server.end()
        server.thread.join(PATIENCE_S)
        assert not server.thread.is_alive()


FINE, NONE_YET = Reached("", is_indexed=True), Reached("", is_indexed=False)
KEPT, LOST = (Reached("postgresql://db.internal/team is away", is_indexed=known) for known in (True, False))


@pytest.mark.parametrize(
    ("engines", "status", "told"),
    [
        ((FINE,), 200, {}),
        ((NONE_YET,), 200, {}),
        ((KEPT,), 200, {"warning": STORE_KEPT}),
        ((LOST,), 503, {"reason": STORE_AWAY}),
        ((LOST, LOST), 503, {"reason": STORE_AWAY}),
        ((LOST, KEPT), 200, {"warning": f"{STORE_AWAY}; {STORE_KEPT}"}),
        ((FINE, LOST), 200, {"warning": STORE_AWAY}),
    ],
)
def test_a_server_is_ready_as_long_as_one_project_can_answer(
    engines: tuple[Reached, ...], status: int, told: dict[str, str]
) -> None:
    with serving(Opened(*engines)) as ask:
        reply = ask()
    counts = {"ready": status == 200, "projects": {"open": len(engines)}}
    assert (reply.status_code, reply.json()) == (status, counts | told)
    assert "internal" not in reply.text, "anybody may ask, so nobody is told where the database is"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[str], Projects]]:
    """Opens the projects of a server that shares its index in the database at an address."""
    made: list[Projects] = []
    root = repository(tmp_path / "app", {"a.py": "def lion(): ...\n"})
    for name, value in {"STORE_SHARES": "1", "EMBEDDER": "none", "WORKERS": "0"}.items():
        monkeypatch.setenv(f"CTX_{name}", value)
    monkeypatch.setenv("CTX_CACHE_FOLDER", str(cache_for(root)))

    def open_all(address: str) -> Projects:
        monkeypatch.setenv("CTX_STORE_URL", address)
        made.append(Projects([str(root)], log=lambda _: None, follow=False))
        made[-1].engine()
        return made[-1]

    yield open_all
    for each in made:
        each.close()


def test_a_server_answers_without_its_database_and_says_so_until_it_has_published(
    opened: Callable[[str], Projects],
) -> None:
    address = new_database()
    projects = opened(address)
    with serving(projects) as ask:
        with forbid(address):
            with pytest.raises(StoreUnavailable):
                projects.engine().index.update()
            assert ask().json() == {"ready": True, "projects": {"open": 1}, "warning": STORE_KEPT}
        projects.engine().index.update()
        assert ask().json() == {"ready": True, "projects": {"open": 1}}
