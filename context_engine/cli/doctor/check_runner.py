"""The examination: the list of checks, run in order, told as a table or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from context_engine import __version__
from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.launch_command import find_own_launch_command
from context_engine.cli.console import err, escape_text, out
from context_engine.cli.doctor import client_checks, host_checks, server_checks, workspace_checks
from context_engine.cli.doctor.check_results import CheckResult, DoctorContext, ok, problem
from context_engine.errors import ContextEngineError

Check = Callable[[DoctorContext], Iterator[CheckResult]]

CHECKS: tuple[Check, ...] = (
    host_checks.python,
    host_checks.command,
    host_checks.packages,
    workspace_checks.parsers,
    host_checks.text_search,
    host_checks.git,
    host_checks.cache,
    workspace_checks.settings,
    workspace_checks.index,
    workspace_checks.meaning,
    workspace_checks.watcher,
    server_checks.round_trip,
    client_checks.clients,
)
"""In the order of the report. They run side by side: most of each is waiting for a disk or another process."""

COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


def doctor(root: Path | None, names: Sequence[str], *, as_json: bool) -> int:
    """Examine and tell; 1 when something does not work. Raises: InvalidArgument for a client that is not known."""
    for name in names:
        client_table.find_client(name)
    if as_json or not err.is_terminal:
        findings = run_checks(root, tuple(names))
    else:
        with err.status("looking at every part ..."):
            findings = run_checks(root, tuple(names))
    ill = any(finding.verdict == "problem" for finding in findings)
    _tell_json(findings, ill) if as_json else _tell(findings)
    return int(ill)


def run_checks(root: Path | None, names: tuple[str, ...] = (), checks: Sequence[Check] = CHECKS) -> list[CheckResult]:
    """What all checks find."""
    here = Path.cwd()
    env = dict(os.environ)
    meant, why = workspace_checks.chosen_root(root, env, here)
    case = DoctorContext(client_config.this_machine(), env, here, _usable(meant), find_own_launch_command(), names)
    with ThreadPoolExecutor(len(checks)) as pool:
        parts = list(pool.map(lambda check: _safely(check, case), checks))
    return [*_root_finding(meant, why), *(finding for part in parts for finding in part)]


def _safely(check: Check, case: DoctorContext) -> list[CheckResult]:
    """The findings of one check; that it failed itself is one too."""
    name = getattr(check, "__name__", "check").replace("_", " ")
    try:
        return list(check(case))
    except ContextEngineError as error:
        return [problem(name, error.message, error.suggestion)]
    except Exception as error:  # noqa: BLE001 - a check that fails must not hide what the others find
        return [problem(name, f"the check itself failed: {type(error).__name__}: {error}", "Please report this.")]


def _usable(root: Path | None) -> Path | None:
    """The folder if it may be opened; the report says why when not."""
    try:
        return workspace_checks.workspace_roots.choose(root) if root else None
    except ContextEngineError:
        return None


def _root_finding(root: Path | None, why: str) -> Iterator[CheckResult]:
    if root is None:
        yield ok("workspace", f"no project around {Path.cwd()}", f"To look at one: {workspace_checks.NAME_A_ROOT}")
        return
    try:
        yield ok("workspace", f"{workspace_checks.workspace_roots.choose(root)}, {why}")
    except ContextEngineError as error:
        yield problem("workspace", error.message, workspace_checks.NAME_A_ROOT)


def _tell(findings: Sequence[CheckResult]) -> None:
    """A line each, its next step below it, and the sum."""
    width = max(len(finding.part) for finding in findings)
    for finding in findings:
        colour = COLOURS[finding.verdict]
        out.print(
            f"[{colour}]{finding.verdict:<7}[/{colour}]  {escape_text(f'{finding.part:<{width}}  {finding.found}')}"
        )
        if finding.step:
            out.print(f"{'':<{width + 11}}[cyan]-> {escape_text(finding.step)}[/cyan]")
    counted = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in COLOURS}
    told = [f"{count} {verdict}{'s' * (count > 1)}" for verdict, count in counted.items() if count and verdict != "ok"]
    out.print(f"\n{', '.join(told) or 'Everything works.'}", markup=False)


def _tell_json(findings: Sequence[CheckResult], ill: bool) -> None:
    told = {"ok": not ill, "version": __version__, "findings": [finding.as_dict() for finding in findings]}
    json.dump(told, sys.stdout, ensure_ascii=False, indent=2)
    print()
