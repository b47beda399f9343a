"""What all tests share: laws are tried on fewer examples than Hypothesis' default, and a busy machine fails none of them.

`HYPOTHESIS_PROFILE=thorough pytest` tries many more.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.hints import NOT_FOLLOWED, watch_hints

settings.register_profile("quick", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Hundreds of tests start `ctx`; without compiled modules each start takes twice as long. And pytest rewrites the
# assertions of 350 files in each of its workers, for nine seconds, unless it may keep them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

watch_hints()

# What the user of this machine remembers and has set is not part of a test.
_HOME = tempfile.TemporaryDirectory(prefix="ctx-tests-", ignore_cleanup_errors=True)
for _variable in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
    os.environ[_variable] = f"{_HOME.name}/{_variable}"
for _variable in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):  # there may be a global ignore file, or signing
    os.environ[_variable] = os.devnull

# No test starts a daemon that outlives it; those of the daemon say so themselves.
os.environ["CTX_DAEMON"] = "0"

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job ignores it; Ctrl-C is tested all the same


@pytest.fixture(autouse=True)
def every_hint_can_be_followed() -> Iterator[None]:
    """Fail a test in which a reply names an argument that a client cannot send."""
    yield
    found, NOT_FOLLOWED[:] = sorted(set(NOT_FOLLOWED)), []
    assert not found


PROOFS = ("hostile", "kills", "abuse", "full_disk", "soak")
"""Marks of the tests whose trials are counted."""


@pytest.fixture
def tried(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Count a trial, or so many, of a test with a mark of PROOFS; a test that counts none is one trial."""
    return lambda count=1: record_property("tried", count)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many trials of each proof were made, and how many tests found something broken."""
    for proof in PROOFS:
        reports = [
            report
            for outcome in ("passed", "failed", "error")
            for report in terminalreporter.stats.get(outcome, ())
            if proof in report.keywords
        ]
        counts = [[count for name, count in report.user_properties if name == "tried"] for report in reports]
        count = sum(sum(made or [1]) for made in counts)
        broken = sum(report.failed for report in reports)
        if reports:
            terminalreporter.write_line(f"{proof}: tried {count}, held {count - broken}, broken {broken}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """What runs asynchronous tests."""
    return "asyncio"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto` is one more than there are processors, because many tests wait for a process or a clock."""
    return (os.cpu_count() or 1) + 1


def pytest_unconfigure() -> None:
    """Stop the databases of this process, if a test started one, and remove what its user has."""
    if "tests.support.databases" in sys.modules:
        sys.modules["tests.support.databases"].stop_servers()
    _HOME.cleanup()
