"""A page over a small repository with names and texts that try to become HTML, served for real."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.ui import LocalPage
from tests.support.trees import tree

WAIT_S = 60.0
XSS = "<img src=x onerror=alert(1)>"
FILES = {
    "till/auth.py": f'def login(user):\n    """{XSS}"""\n    return check(user)\n\n\ndef check(user):\n    return user\n',
    "till/<b>bold.py": "def bold():\n    return login('x')\n",
    "till/.env": "PASSWORD=hunter2hunter2\n",
    "notes.bin": "\0\0\0",
}


@dataclass(frozen=True)
class Answer:
    """A response: status, headers in lower case, text."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Browser:
    """A client of one page; `base` is the address with the token."""

    page: LocalPage
    base: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return self.base[: self.base.index("/", 8)]

    @property
    def token(self) -> str:
        return self.base.rstrip("/").rpartition("/")[2]

    def get(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return self._send(urllib.request.Request(path, headers=headers, method=method))

    def read(self, name: str, **arguments: Any) -> Answer:
        return self.post(f"{self.base}api/{name}", arguments)

    def write(self, name: str, **arguments: Any) -> Answer:
        own = {"Origin": self.origin, "X-Ctx-Token": self.token}
        return self.post(f"{self.base}write/{name}", arguments, own)

    def post(self, path: str, arguments: Any, headers: dict[str, str] | None = None) -> Answer:
        kind = {"Content-Type": "application/json"}
        body = json.dumps(arguments).encode()
        return self._send(urllib.request.Request(path, body, kind | (headers or {}), method="POST"))

    def _send(self, request: urllib.request.Request) -> Answer:
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=WAIT_S) as reply:
                status, raw, kept = reply.status, reply.read(), reply.headers
        except urllib.error.HTTPError as error:
            status, raw, kept = error.code, error.read(), error.headers
        return Answer(status, {name.lower(): value for name, value in kept.items()}, raw.decode())


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


@contextmanager
def serve(root: Path, *, may_write: bool = False, is_person: bool = True) -> Generator[Browser]:
    page = LocalPage({str(root): root.name}, may_write=may_write, is_person=is_person)
    page.bind(0)
    thread = threading.Thread(target=page.run, daemon=True)
    thread.start()
    try:
        yield Browser(page, page.address)
    finally:
        page.stop()
        thread.join(WAIT_S)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """Folders of the user for all pages of these tests."""
    folder = tmp_path_factory.mktemp("ui")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTX_CACHE_FOLDER", str(folder / "cache"))
        patch.setenv("CTX_DATA_FOLDER", str(folder / "data"))
        patch.setenv("CTX_WORKERS", "0")
        yield folder


@pytest.fixture(scope="session")
def root(places: Path) -> Path:
    root = tree(places / "till", FILES)
    with Engine.open(root) as engine:
        engine.index.update()
    return root


@pytest.fixture(scope="session")
def reading(root: Path) -> Generator[Browser]:
    """A page that only reads."""
    with serve(root) as browser:
        yield browser


@pytest.fixture(scope="session")
def writing(root: Path) -> Generator[Browser]:
    """A page that may write."""
    with serve(root, may_write=True) as browser:
        yield browser
