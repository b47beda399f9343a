"""Check the clients: whether their settings are readable and contain an entry that starts ctx."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.client_config import ClientConfigState
from context_engine.cli.doctor.check_results import CheckResult, DoctorContext, ok, problem
from context_engine.repo import find_program

RUN_S_MAX = 10.0
"""`ctx --version` takes 20 ms, but the first start after an installation compiles all files."""
RUNNERS = ("uvx", "uv", "pipx")
"""These may install packages before they run, which a check must not do."""


def clients(case: DoctorContext) -> Iterator[CheckResult]:
    """Yield a result for each client that is installed or named."""
    for client in map(client_table.find_client, case.clients) if case.clients else client_table.ALL:
        known = list(client_config.list_config_states(case.machine, case.root, (client,)))
        told = [finding for state in known for finding in _examined(state, case)]
        if not told and case.clients:
            told = [problem(client.name, f"ctx is not set up in {client.title}", f"ctx setup {client.name}")]
        elif not told and client_config.is_installed(client, case.machine):
            told = [
                ok(client.name, f"{client.title} is installed, and ctx is not set up in it", f"ctx setup {client.name}")
            ]
        yield from told


def _examined(standing: ClientConfigState, case: DoctorContext) -> Iterator[CheckResult]:
    """Yield the results about one settings file; none if it does not mention ctx."""
    client, path = standing.client, standing.path
    if standing.problem:
        step = f"Fix it; {client.title} cannot read it either, or ignores the rest."
        yield problem(client.name, f"{path}: {standing.problem}", step)
    elif standing.entry is not None:
        words = client_config.command_line_of(standing.entry)
        is_tried = not _is_runner(words) and (standing.scope != client_config.PROJECT or _is_this_program(words, case))
        why = not_runnable(words, is_tried=is_tried) or _missing_root(words)
        again = f"Rewrite the entry: ctx setup {client.name}{_options(standing)}"
        untried = "" if is_tried else f", through {Path(words[0]).stem}, which was not tried"
        found = f"set up for {standing.scope} in {path}{untried}"
        yield problem(client.name, f"{found}, but {why}", again) if why else ok(client.name, found)


def not_runnable(words: Sequence[str], *, is_tried: bool = True) -> str:
    """Return why a command line does not start `ctx`; empty if it does, or if it exists and must not be tried."""
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
    return "" if said.startswith("ctx ") else f"{command} is not ctx: {said[-200:] or f'exit code {done.returncode}'}"


def _is_this_program(words: Sequence[str], case: DoctorContext) -> bool:
    """Whether a command line starts this very program: a project's file may come from anyone, so others are not run."""
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
    """Return which named folder does not exist. Only the client knows the value of `${...}`."""
    named = [value for option, value in pairwise(words) if option == "--root" and not value.startswith("${")]
    gone = [value for value in named if not Path(value).is_dir()]
    return f"there is no folder {gone[0]}" if gone else ""


def _options(standing: ClientConfigState) -> str:
    """Return the options of `ctx setup` that write the same file."""
    named = " --root PATH" if standing.client.needs_root else ""
    return f" --project{named}" if standing.scope == client_config.PROJECT else named
