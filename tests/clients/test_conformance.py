"""The conformance suite of the protocol, both revisions that clients speak, over HTTP against our server and its fixtures."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.conftest import Tell
from tests.clients.programs import INSTALLED, ROOT, Place, client
from tests.e2e.conftest import planted

REVISIONS = ("2025-11-25", "2026-07-28")
EXPECTED = tomllib.loads((Path(__file__).parent / "conformance.toml").read_text())


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scenario: how many of its checks passed, and the names of those that warned or failed."""

    passed: int
    warned: tuple[str, ...]
    failed: tuple[str, ...]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running fixture server."""
    client("conformance")
    root = planted(tmp_path_factory.mktemp("conformance") / "till")
    command = [sys.executable, "-m", "tests.clients.fixture_server", str(root)]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.communicate(timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_scenario_ends_as_expected(revision: str, address: str, fresh: Place, tmp_path: Path, tell: Tell) -> None:
    results = tmp_path / "results"
    run = fresh.run(*client("conformance"), "server", "--url", address, "--requirements", revision, "-o", str(results))
    seen = outcomes(results)
    tell(f"conformance {revision}", rows(revision, seen))
    assert scored(revision) <= seen.keys(), run.out[-2000:]
    assert unexpected(seen) == {}
    assert better(seen) == [], "remove it from conformance.toml"


def test_nothing_that_a_revision_requires_may_fail() -> None:
    client("conformance")
    required = {name for revision in REVISIONS for name in scored(revision)}
    assert required & EXPECTED["fails"].keys() == set()


def outcomes(results: Path) -> dict[str, Outcome]:
    """What the suite wrote, by scenario."""
    return dict(sorted(outcome(file) for file in results.glob("server-*/checks.json")))


def outcome(file: Path) -> tuple[str, Outcome]:
    """The scenario of one file of checks; its folder is named server-SCENARIO-DATE."""
    checks = json.loads(file.read_text())
    name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*", "", file.parent.name)
    of = {
        status: tuple(sorted({one["id"] for one in checks if one["status"] == status}))
        for status in ("WARNING", "FAILURE")
    }
    passed = sum(1 for one in checks if one["status"] == "SUCCESS")
    return name, Outcome(passed, of["WARNING"], of["FAILURE"])


def scored(revision: str) -> set[str]:
    """The scenarios which that revision requires of a server, as the suite has frozen them."""
    package = INSTALLED / "protocol" / "node_modules" / "@modelcontextprotocol" / "conformance"
    return set(yaml.safe_load((package / "requirements" / f"{revision}.yaml").read_text())["server"])


def unexpected(seen: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """What fails or warns without being listed."""
    fails, warns = EXPECTED["fails"], EXPECTED["warns"]
    return {
        name: one
        for name, one in seen.items()
        if (one.failed and name not in fails) or (one.warned and name not in fails | warns)
    }


def better(seen: Mapping[str, Outcome]) -> list[str]:
    """What is listed and does neither."""
    listed = EXPECTED["fails"].keys() | EXPECTED["warns"].keys()
    return [name for name in listed & seen.keys() if not seen[name].failed and not seen[name].warned]


def rows(revision: str, seen: Mapping[str, Outcome]) -> list[dict[str, Any]]:
    """The table of the report."""
    required = scored(revision)
    reasons = EXPECTED["fails"] | EXPECTED["warns"]
    return [
        {
            "scenario": name,
            "required": name in required,
            "passed": one.passed,
            "failed": len(one.failed),
            "warned": len(one.warned),
            "why": reasons.get(name, "") if one.failed or one.warned else "",
        }
        for name, one in seen.items()
    ]
