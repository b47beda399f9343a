"""The context that a check gets, and the results that it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from context_engine.cli.clients.config_paths import Machine
from context_engine.cli.clients.launch_command import LaunchCommand

Verdict = Literal["ok", "warning", "problem"]
"""`warning`: it works, but not as well as it could. `problem`: something does not work."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report: the checked part, its state, and the next step if there is one."""

    part: str
    verdict: Verdict
    found: str
    step: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the fields for `--json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """What to check: this machine, one workspace, and the named clients (none: all)."""

    machine: Machine
    env: Mapping[str, str]
    here: Path
    root: Path | None
    launch: LaunchCommand
    clients: tuple[str, ...] = ()


def ok(part: str, found: str, step: str = "") -> CheckResult:
    """Return a result for a part that works; it may have a step."""
    return CheckResult(part, "ok", found, step)


def warning(part: str, found: str, step: str) -> CheckResult:
    """Return a result for a part that works, but not well."""
    return CheckResult(part, "warning", found, step)


def problem(part: str, found: str, step: str) -> CheckResult:
    """Return a result for a part that does not work."""
    return CheckResult(part, "problem", found, step)
