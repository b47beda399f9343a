"""What a check is told, and what it has to say."""

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
    """One line of the report: what was looked at, what was found, and the next step unless all is well."""

    part: str
    verdict: Verdict
    found: str
    step: str = ""

    def as_dict(self) -> dict[str, str]:
        """For `--json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """What is examined: this machine, one workspace, and the clients somebody named (none: all)."""

    machine: Machine
    env: Mapping[str, str]
    here: Path
    root: Path | None
    launch: LaunchCommand
    clients: tuple[str, ...] = ()


def ok(part: str, found: str, step: str = "") -> CheckResult:
    """All is well; a step may still be worth knowing."""
    return CheckResult(part, "ok", found, step)


def warning(part: str, found: str, step: str) -> CheckResult:
    """It works, but."""
    return CheckResult(part, "warning", found, step)


def problem(part: str, found: str, step: str) -> CheckResult:
    """It does not work."""
    return CheckResult(part, "problem", found, step)
