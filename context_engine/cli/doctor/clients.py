"""The clients: whether the settings of each can be read, hold our entry, and start something that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from context_engine.cli.clients import config, table
from context_engine.cli.clients.config import Standing
from context_engine.cli.doctor.findings import Case, Finding, ok, problem

RUN_S_MAX = 10.0
"""`ctx --version` takes 20 ms; the first start after an installation compiles every file once."""
RUNNERS = ("uvx", "uv", "pipx")
"""May install before they run, which is not for a check to do."""


def clients(case: Case) -> Iterator[Finding]:
    """A line for each client that is here, or that was named."""
    for client in map(table.client, case.clients) if case.clients else table.ALL:
        known = list(config.standings(case.machine, case.root, (client,)))
        told = [finding for each in known for finding in _examined(each)]
        if not told and case.clients:
            told = [problem(client.name, f"{client.title} does not know ctx", f"ctx setup {client.name}")]
        elif not told and config.is_installed(client, case.machine):
            told = [ok(client.name, f"{client.title} is here and does not know ctx", f"ctx setup {client.name}")]
        yield from told


def _examined(standing: Standing) -> Iterator[Finding]:
    """What one settings file is worth; nothing when it does not speak of us."""
    client, path = standing.client, standing.path
    if standing.problem:
        step = f"Mend it; {client.title} cannot read it either, or drops what follows."
        yield problem(client.name, f"{path}: {standing.problem}", step)
    elif standing.entry is not None:
        words = config.words_of(standing.entry)
        why = not_runnable(words) or _missing_root(words)
        again = f"Write the entry anew: ctx setup {client.name}{_options(standing)}"
        untried = f", through {Path(words[0]).stem}, which was not tried" if _is_runner(words) else ""
        found = f"set up for {standing.scope} in {path}{untried}"
        yield problem(client.name, f"{found}, but {why}", again) if why else ok(client.name, found)


def not_runnable(words: Sequence[str]) -> str:
    """Why a command line does not start `ctx`; empty when it does."""
    command = words[0] if words else ""
    found = shutil.which(command)
    if found is None:
        return f"there is no program {command}" if Path(command).is_absolute() else f"{command} is not on the PATH"
    if _is_runner(words):
        return ""
    before = words[: words.index("serve")] if "serve" in words else words[:1]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own entry, which the client runs all day
            [found, *before[1:], "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_S_MAX,
            check=False,
            env=dict(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command} does not run: {error}"
    said = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
    return "" if said.startswith("ctx ") else f"{command} is no ctx: {said[-200:] or f'exit code {done.returncode}'}"


def _is_runner(words: Sequence[str]) -> bool:
    return bool(words) and Path(words[0]).stem in RUNNERS


def _missing_root(words: Sequence[str]) -> str:
    """A folder that is named and does not exist. What a client puts in place of `${...}` only it knows."""
    named = [value for option, value in pairwise(words) if option == "--root" and not value.startswith("${")]
    gone = [value for value in named if not Path(value).is_dir()]
    return f"there is no folder {gone[0]}" if gone else ""


def _options(standing: Standing) -> str:
    """What `ctx setup` must be told to write the same file."""
    named = " --root PATH" if standing.client.needs_root else ""
    return f" --project{named}" if standing.scope == config.PROJECT else named
