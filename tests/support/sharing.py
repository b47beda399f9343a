"""A server that a team shares, as processes over real HTTP: three projects, one of which nobody but the admin may see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from context_engine.team.token_file import TokenFile
from tests.e2e.conftest import planted
from tests.support import preloaded
from tests.support.waiting import until

HERE = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
OLDER = "2025-06-18"
MARK = "quokka"
"""Stands in every text of the hidden project, and nowhere else."""
HIDDEN = "vault"
SECRET_FILES = {
    "ledger.py": f'"""What the {MARK} owes."""\n\n\ndef {MARK}_balance(account: str) -> int:\n    """The {MARK} balance of a login."""\n    return len(account)\n',
    "auth.py": f'"""Logging in to the {MARK}."""\n\nfrom ledger import {MARK}_balance\n\n\ndef login(user: str) -> int:\n    return {MARK}_balance(user)\n',
    "docs/adr/0001-use.md": f"# Use the {MARK}\n\n## Decision\n\nWe use the {MARK} for orders.\n",
    "pyproject.toml": f'[project]\nname = "{MARK}"\n',
}
NAMES = ("till", "web", HIDDEN)


@dataclass(frozen=True, slots=True)
class Place:
    """Where it all lies, and the tokens by their names."""

    folder: Path
    tokens: Mapping[str, str]

    @property
    def token_file(self) -> TokenFile:
        return TokenFile(self.folder / "tokens.json", now=time.time)

    @property
    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "audit.log").read_text().splitlines()]


def place(folder: Path) -> Place:
    """Three projects and a token for each kind of visitor."""
    planted(folder / "till")
    planted(folder / "web")
    planted(folder / HIDDEN, SECRET_FILES)
    (folder / "till" / "link.py").symlink_to(folder / HIDDEN / "ledger.py")
    (folder / "till" / "linked").symlink_to(folder / HIDDEN)
    tokens = TokenFile(folder / "tokens.json", now=time.time)
    made = (
        tokens.create("reader", "read", ["till"]),
        tokens.create("writer", "write", ["till", "web"]),
        tokens.create("admin", "admin", ["*"]),
        tokens.create("slow", "read", ["till"], per_minute=2),
    )
    return Place(folder, {grant.name: token for grant, token in made})


class Worker:
    """One process of the server."""

    def __init__(self, place: Place, process: subprocess.Popen[str]) -> None:
        assert process.stderr
        self.place = place
        self.process = process
        line = process.stderr.readline()
        assert line.startswith("ctx: serving"), line + process.stderr.read()
        self.base = line.split()[2].removesuffix("/mcp")
        self.log: list[str] = [line]
        threading.Thread(target=lambda: self.log.extend(process.stderr or ()), daemon=True).start()

    def ask(self, token: str, method: str, params: Mapping[str, Any] | None = None, **headers: str) -> httpx2.Response:
        """One request of the older era, without a session."""
        return httpx2.post(
            f"{self.base}/mcp", json=request(method, params), headers=self.headers(token) | headers, timeout=PATIENCE_S
        )

    def headers(self, token: str) -> dict[str, str]:
        known = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        shown = {"authorization": f"Bearer {self.place.tokens.get(token, token)}"} if token else {}
        return known | shown | {"mcp-protocol-version": OLDER}

    def call(self, token: str, tool: str, **arguments: Any) -> str:
        """The text of a call, refused or not."""
        (block,) = message(self.ask(token, "tools/call", {"name": tool, "arguments": arguments}))["result"]["content"]
        return block["text"]

    def get(self, path: str, token: str = "") -> httpx2.Response:
        return httpx2.get(self.base + path, headers=self.headers(token), timeout=PATIENCE_S)

    def wait_until_indexed(self) -> None:
        for name in NAMES:
            until(lambda name=name: json.loads(self.call("admin", "index_status", project=name))["state"] == "ready")


@contextmanager
def worker(place: Place, *options: str, **variables: str) -> Generator[Worker]:
    """A process that serves the three projects to whoever shows a token; `variables` of its environment."""
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("CTX_", "CLAUDE_", "XDG_", "OTEL_"))
    }
    env |= {"HOME": str(place.folder), "CTX_CACHE_FOLDER": str(place.folder / "cache"), "CTX_WORKERS": "0"}
    env |= {
        "PYTHONPATH": str(HERE),
        "PYTHONWARNINGS": "error",
        "CTX_RATE_LIMITS_PER_MINUTE": "read_file=0,grep_codebase=0,context_search=0",
    }
    env |= variables
    roots = [option for name in NAMES for option in ("--root", str(place.folder / name))]
    shared = ["--tokens", str(place.token_file.path), "--audit-log", str(place.folder / "audit.log"), "--stateless"]
    command = [sys.executable, "-m", "context_engine", "serve", "--http", ":0", "--profile", "all,seeds"]
    command += [*shared, *roots, *options]
    with preloaded.Popen(command, env=env, text=True, stdin=-3, stdout=-3, stderr=-1) as process:
        try:
            yield Worker(place, process)
        finally:
            process.kill()


def request(method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params or {})}


def message(reply: httpx2.Response) -> dict[str, Any]:
    """The response in a body, which may be a stream of events."""
    if not reply.headers["content-type"].startswith("text/event-stream"):
        return reply.json()
    told = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: ")]
    return next(each for each in told if "id" in each)
