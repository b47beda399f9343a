"""The clients: whether the settings of each can be read, hold our entry, and start something that is there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.client_config import ClientConfigState
from context_engine.cli.doctor.check_results import CheckResult, DoctorContext, ok, problem
from context_engine.repo.executables import find_program

RUN_S_MAX = 10.0
"""`ctx --version` takes 20 ms; the first start after an installation compiles every file once."""
RUNNERS = ("uvx", "uv", "pipx")
"""May install before they run, which is not for a check to do."""


def clients(case: DoctorContext) -> Iterator[CheckResult]:
    """A line for each client that is here, or that was named."""
    for client in map(client_table.find_client, case.clients) if case.clients else client_table.ALL:
        known = list(client_config.list_config_states(case.machine, case.root, (client,)))
        told = [finding for state in known for finding in _examined(state, case)]
        if not told and case.clients:
            told = [problem(client.name, f"{client.title} does not know ctx", f"ctx setup {client.name}")]
        elif not told and client_config.is_installed(client, case.machine):
            told = [ok(client.name, f"{client.title} is here and does not know ctx", f"ctx setup {client.name}")]
        yield from told


def _examined(standing: ClientConfigState, case: DoctorContext) -> Iterator[CheckResult]:
    """What one settings file is worth; nothing when it does not speak of us."""
    client, path = standing.client, standing.path
    if standing.problem:
        step = f"Mend it; {client.title} cannot read it either, or drops what follows."
        yield problem(client.name, f"{path}: {standing.problem}", step)
    elif standing.entry is not None:
        words = client_config.command_line_of(standing.entry)
        is_tried = not _is_runner(words) and (standing.scope != client_config.PROJECT or _is_this_program(words, case))
        why = not_runnable(words, is_tried=is_tried) or _missing_root(words)
        again = f"Write the entry anew: ctx setup {client.name}{_options(standing)}"
        untried = "" if is_tried else f", through {Path(words[0]).stem}, which was not tried"
        found = f"set up for {standing.scope} in {path}{untried}"
        yield problem(client.name, f"{found}, but {why}", again) if why else ok(client.name, found)


def not_runnable(words: Sequence[str], *, is_tried: bool = True) -> str:
    """Why a command line does not start `ctx`; empty when it does, or is there and not to be tried."""
    command = words[0] if words else ""
    found = find_program(command)
    if not found:
        return f"there is no program {command}" if Path(command).is_absolute() else f"{command} is not on the PATH"
    if not is_tried:
        return ""
    before = _before_serve(words)
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


def _is_this_program(words: Sequence[str], case: DoctorContext) -> bool:
    """Whether a command line starts the very program that examines it: anybody may have written a file of a project."""
    before = _before_serve(words)
    alone = Path(find_program(before[0], outside=case.root or "")).resolve() if len(before) == 1 else None
    return tuple(before) == case.launch.command_line or (
        not case.launch.args and alone == Path(case.launch.command).resolve()
    )


def _before_serve(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index("serve")] if "serve" in words else words[:1]


def _is_runner(words: Sequence[str]) -> bool:
    return bool(words) and Path(words[0]).stem in RUNNERS


def _missing_root(words: Sequence[str]) -> str:
    """A folder that is named and does not exist. What a client puts in place of `${...}` only it knows."""
    named = [value for option, value in pairwise(words) if option == "--root" and not value.startswith("${")]
    gone = [value for value in named if not Path(value).is_dir()]
    return f"there is no folder {gone[0]}" if gone else ""


def _options(standing: ClientConfigState) -> str:
    """What `ctx setup` must be told to write the same file."""
    named = " --root PATH" if standing.client.needs_root else ""
    return f" --project{named}" if standing.scope == client_config.PROJECT else named
