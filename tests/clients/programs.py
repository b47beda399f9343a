"""The installed clients: where each one is, and how it is run - a home of its own, nothing of the user's, a bounded time.

`make clients` installs them into build/clients; a test that needs one that is not there is skipped and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scripts import tokens

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / "build" / "clients"
PATIENCE_S = 180.0
"""The slowest run takes 15 s on two quiet cores; a busy machine gets twelve times that."""
NODE_MIN = 22
"""The Inspector and Gemini CLI need it."""

SCRIPTS = {
    "inspector": "protocol/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js",
    "conformance": "protocol/node_modules/@modelcontextprotocol/conformance/dist/index.js",
    "codex": "agents/node_modules/@openai/codex/bin/codex.js",
    "gemini": "agents/node_modules/@google/gemini-cli/bundle/gemini.js",
}
"""What Node runs."""
BINARIES = {
    "claude": "agents/node_modules/@anthropic-ai/claude-code-*/claude*",
    "opencode": "agents/node_modules/opencode-*/bin/opencode*",
}
"""What the machine runs, in a package for each platform."""
QUIET = {
    "CI": "1",
    "DO_NOT_TRACK": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "NO_COLOR": "1",
}
"""No client looks for updates, sends statistics, or asks whether it may trust a folder."""


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run of a client."""

    status: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client runs: its home, the folder it works in, and what is set beside `QUIET`."""

    home: Path
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the user's but where programs are found; our own come first."""
        path = os.pathsep.join([str(ctx().parent), os.environ["PATH"]])
        return {"PATH": path, "HOME": str(self.home), "USERPROFILE": str(self.home), **QUIET, **self.env}

    def run(self, *command: str, patience_s: float = PATIENCE_S) -> Run:
        """Run to the end; a run that takes too long is ended with all it started, and fails the test."""
        process = self.start(*command, stdin=subprocess.DEVNULL)
        try:
            out, err = process.communicate(timeout=patience_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"{command[:3]} took more than {patience_s:.0f} s\n{out[-2000:]}\n{err[-2000:]}")
        return Run(process.returncode, out, err)

    def start(self, *command: str, stdin: int) -> subprocess.Popen[str]:
        """Start in a process group of its own."""
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, text=True, start_new_session=True,
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


def client(name: str) -> Sequence[str]:
    """The command of an installed client; skips the test when it is not there."""
    if name in BINARIES:
        found = sorted(INSTALLED.glob(BINARIES[name]))
        return [str(found[0])] if found else missing(name)
    script = INSTALLED / SCRIPTS[name]
    return [node(), str(script)] if script.exists() else missing(name)


def node() -> str:
    """The Node that was installed beside the clients, else a new enough one on PATH."""
    if found := sorted(INSTALLED.glob("protocol/node_modules/node-*/bin/node*")):
        return str(found[0])
    if other := shutil.which("node"):
        told = subprocess.run([other, "--version"], capture_output=True, text=True, check=True).stdout
        if int(told.removeprefix("v").split(".")[0]) >= NODE_MIN:
            return other
    pytest.skip(f"no Node {NODE_MIN} or newer: `make clients` installs one")


def count_tokens(texts: Sequence[str]) -> int:
    """How many o200k tokens texts have together; skips where the tokenizer is not installed."""
    protocol = INSTALLED / "protocol"
    if not (protocol / "node_modules" / "gpt-tokenizer").is_dir():
        missing("the tokenizer")
    command, given = [node(), "-e", tokens.COUNT], json.dumps(list(texts))
    done = subprocess.run(command, input=given, cwd=protocol, capture_output=True, text=True, check=True)
    return sum(json.loads(done.stdout))


def missing(name: str) -> Sequence[str]:
    """Skip, with what to do about it."""
    pytest.skip(f"{name} is not installed: `make clients` installs it")


def ctx() -> Path:
    """The installed script of this environment, as a client's settings would name it."""
    return Path(sys.executable).with_name("ctx")
