"""What a check is told, and what it has to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from context_engine.cli.clients.config_paths import Machine
from context_engine.cli.clients.launch_command import Launch

Verdict = Literal["ok", "warning", "problem"]
"""`warning`: it works, but not as well as it could. `problem`: something does not work."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: what was looked at, what was found, and the next step unless all is well."""

    part: str
    verdict: Verdict
    found: str
    step: str = ""

    def as_dict(self) -> dict[str, str]:
        """For `--json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Case:
    """What is examined: this machine, one workspace, and the clients somebody named (none: all)."""

    machine: Machine
    env: Mapping[str, str]
    here: Path
    root: Path | None
    launch: Launch
    clients: tuple[str, ...] = ()


def ok(part: str, found: str, step: str = "") -> Finding:
    """All is well; a step may still be worth knowing."""
    return Finding(part, "ok", found, step)


def warning(part: str, found: str, step: str) -> Finding:
    """It works, but."""
    return Finding(part, "warning", found, step)


def problem(part: str, found: str, step: str) -> Finding:
    """It does not work."""
    return Finding(part, "problem", found, step)
