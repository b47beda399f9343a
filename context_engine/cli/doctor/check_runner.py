"""Run the checks of `ctx doctor` and print their results as a table or as JSON."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from context_engine import __version__
from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.launch_command import find_own_launch_command
from context_engine.cli.console import confirm, err, escape_text, out
from context_engine.cli.doctor import local_checks, server_checks
from context_engine.cli.doctor.local_checks import CheckResult, DoctorContext, ok, problem
from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.repo import check_workspace_root

Check = Callable[[DoctorContext], Iterator[CheckResult]]

CHECKS: tuple[Check, ...] = (
    local_checks.python,
    local_checks.command,
    local_checks.packages,
    local_checks.parsers,
    local_checks.text_search,
    local_checks.git,
    local_checks.cache,
    local_checks.settings,
    local_checks.index,
    local_checks.meaning,
    local_checks.watcher,
    server_checks.round_trip,
    local_checks.clients,
)
"""In the order of the report. They run in parallel, since each mostly waits for a disk or another process."""

REPAIRS = (["index"], ["index", "--force"])
"""Commands that --fix offers, and `ctx setup CLIENT`. Nothing that needs a network or installs programs is one."""
COLORS = {"ok": "green", "warning": "yellow", "problem": "red"}


def doctor(
    root: Path | None, names: Sequence[str], *, as_json: bool, fix: bool = False, is_confirmed: bool = False
) -> int:
    """Run the checks and print the results; return 1 if something does not work. Raises: InvalidArgument.

    With `fix` the commands that repair something are offered, and the checks run again after them.
    """
    if fix and as_json:
        raise InvalidArgument("--fix asks, so it does not print JSON", suggestion="Run `ctx doctor --fix` without it.")
    for name in names:
        client_table.find_client(name)
    if as_json or not err.is_terminal:
        findings = run_checks(root, tuple(names))
    else:
        with err.status("checking every part ..."):
            findings = run_checks(root, tuple(names))
    has_problem = any(finding.verdict == "problem" for finding in findings)
    if as_json:
        report = {
            "ok": not has_problem,
            "version": __version__,
            "findings": [finding.as_dict() for finding in findings],
        }
        json.dump(report, sys.stdout, ensure_ascii=False, indent=2)
        print()
    else:
        _print_results(findings)
    if fix and repair(findings, root, is_confirmed=is_confirmed):
        out.print("\nAfter the repairs:\n", markup=False)
        return doctor(root, names, as_json=False)
    return int(has_problem)


def find_repair(result: CheckResult) -> list[str]:
    """Return the words of the command that repairs what a check found; none where only a person can.

    >>> find_repair(CheckResult("index", "warning", "none yet", "Build it: ctx index."))
    ['index']
    >>> find_repair(CheckResult("git", "problem", "not found", "Install git."))
    []
    """
    _, is_there, command = result.step.partition("ctx ")
    words = shlex.split(command.removesuffix(".")) if is_there and result.verdict != "ok" else []
    if words in REPAIRS or words[:1] == ["setup"]:
        return words
    return []


def repair(results: Sequence[CheckResult], root: Path | None, *, is_confirmed: bool) -> int:
    """Offer the command of each problem, and run those that the user agrees to; return how many ran.

    Raises: InvalidArgument where no one can be asked.
    """
    from context_engine.cli.app import app
    from context_engine.cli.command_runner import run_to_exit_code

    commands = [list(words) for words in dict.fromkeys(tuple(find_repair(result)) for result in results) if words]
    if commands and not (is_confirmed or sys.stdin.isatty()):
        raise InvalidArgument(
            "stdin is not a terminal, so you cannot be asked",
            suggestion="Run `ctx doctor --fix --yes` to run every command that it suggests.",
        )
    count = 0
    for words in commands:
        if is_confirmed or confirm(f"Run ctx {shlex.join(words)}?"):
            place = ["--root", str(root)] if root and words[0] == "index" else []
            run_to_exit_code(partial(app, [*words, *place], prog_name="ctx", standalone_mode=False))
            count += 1
    return count


def run_checks(root: Path | None, names: tuple[str, ...] = (), checks: Sequence[Check] = CHECKS) -> list[CheckResult]:
    """Return the results of all checks."""
    here = Path.cwd()
    env = dict(os.environ)
    chosen, why = local_checks.chosen_root(root, env, here)
    case = DoctorContext(client_config.this_machine(), env, here, _usable(chosen), find_own_launch_command(), names)
    with ThreadPoolExecutor(len(checks)) as pool:
        parts = list(pool.map(lambda check: _safely(check, case), checks))
    return [*_root_finding(chosen, why), *(finding for part in parts for finding in part)]


def _safely(check: Check, case: DoctorContext) -> list[CheckResult]:
    """Return the results of one check, or a result that says that the check failed."""
    name = getattr(check, "__name__", "check").replace("_", " ")
    try:
        return list(check(case))
    except ContextEngineError as error:
        return [problem(name, error.message, error.suggestion)]
    except Exception as error:  # noqa: BLE001 - a failed check must not hide the results of the others
        return [problem(name, f"the check itself failed: {type(error).__name__}: {error}", "Please report this.")]


def _usable(root: Path | None) -> Path | None:
    """Return the folder if it may be opened; else the report says why not."""
    try:
        if root:
            return check_workspace_root(root)
        return None
    except ContextEngineError:
        return None


def _root_finding(root: Path | None, why: str) -> Iterator[CheckResult]:
    if root is None:
        yield ok("workspace", f"no project around {Path.cwd()}", f"To check one: {local_checks.NAME_A_ROOT}")
        return
    try:
        yield ok("workspace", f"{check_workspace_root(root)}, {why}")
    except ContextEngineError as error:
        yield problem("workspace", error.message, local_checks.NAME_A_ROOT)


def _print_results(findings: Sequence[CheckResult]) -> None:
    """Print a line for each result, its next step below it, and a summary."""
    width = max(len(finding.part) for finding in findings)
    for finding in findings:
        color = COLORS[finding.verdict]
        out.print(
            f"[{color}]{finding.verdict:<7}[/{color}]  {escape_text(f'{finding.part:<{width}}  {finding.found}')}"
        )
        if finding.step:
            out.print(f"{'':<{width + 11}}[cyan]-> {escape_text(finding.step)}[/cyan]")
    counted = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in COLORS}
    summary = [
        f"{count} {verdict}{'s' * (count > 1)}" for verdict, count in counted.items() if count and verdict != "ok"
    ]
    out.print(f"\n{', '.join(summary) or 'Everything works.'}", markup=False)
