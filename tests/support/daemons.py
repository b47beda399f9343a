"""Real daemons for tests: each in a runtime folder of its own, ended by its number when the test ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from context_engine.daemon import RuntimeFolder, ask_daemon
from tests.support import preloaded
from tests.support.waiting import until

HERE = Path(__file__).resolve().parents[2]


class DaemonHome:
    """The environment of one user: a runtime folder, a cache, and every daemon that starts there."""

    def __init__(self, folder: Path) -> None:
        for name in ("run", "cache", "data"):
            (folder / name).mkdir(parents=True)
        self._started: list[subprocess.Popen[Any]] = []
        self._forks = threading.Lock()
        self.folder = folder / "run" / "context-engine"
        self.env = os.environ | {
            "CTX_DAEMON": "1",
            "CTX_CACHE_FOLDER": str(folder / "cache"),
            "CTX_DATA_FOLDER": str(folder / "data"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "PYTHONPATH": str(HERE),
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ctx(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """A command of its own process."""
        command = [sys.executable, "-m", "context_engine", *words]
        pipes: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        with self._forks:  # one at a time; they run side by side
            process = preloaded.Popen(command, cwd=cwd, env=self.env | env, **pipes)
        out, err = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def start(self) -> int:
        """Start a daemon unless one answers, and wait until it answers; return its number.

        A second one ends by itself, but on a busy machine only after the test has killed the first.
        """
        if self.ask(kind="status"):
            return self.wait_ready()
        command = [sys.executable, "-m", "context_engine", "daemon", "run"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._started.append(preloaded.Popen(command, env=self.env, **quiet))
        return self.wait_ready()

    def wait_ready(self) -> int:
        status = until(lambda: self.ask(kind="status", ready=True))
        return int(status["pid"])

    def ask(self, *, ready: bool = False, **request: Any) -> Mapping[str, Any] | None:
        answer = ask_daemon(request, 5.0, env=self.env)
        return None if ready and answer and answer["state"] != "ready" else answer

    def pids(self) -> set[int]:
        """Every process that was started for this folder and still runs."""
        marker = f"XDG_RUNTIME_DIR={self.env['XDG_RUNTIME_DIR']}".encode()
        found = set()
        for process in Path("/proc").iterdir():
            with suppress(OSError):
                is_ours = process.name.isdecimal() and marker in (process / "environ").read_bytes().split(b"\0")
                if is_ours and b"daemon" in (process / "cmdline").read_bytes():
                    found.add(int(process.name))
        return found

    def files(self) -> set[str]:
        return {file.name for file in self.folder.iterdir()} if self.folder.exists() else set()

    def end(self) -> None:
        """End every daemon of this folder, also one that a client has just started."""
        until(self._has_ended)
        while self._started:
            self._started.pop().wait()

    def _has_ended(self) -> bool:
        env = self.env | {"CTX_DAEMON": "1"}
        with suppress(OSError), RuntimeFolder.open(env) as folder:
            answers = [ask_daemon({"kind": "stop"}, 5.0, env=env, key=key) for key in folder.list_keys()]
            for pid in [answer["pid"] for answer in answers if answer is not None]:
                until(lambda pid=pid: not is_running(pid))
        return not self.pids()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")
