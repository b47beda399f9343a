"""What the tests with real clients share: a small indexed repository, homes of their own, and a place for what was seen."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.programs import Place, ctx
from tests.e2e.conftest import planted

FINDINGS = "CTX_CLIENTS_FINDINGS"
"""The variable that names the file of which scripts/clients.py makes its report."""

Tell = Callable[[str, Any], None]


@pytest.fixture(scope="session", autouse=True)
def asked_for() -> None:
    """These tests take minutes and start other people's programs: they run when somebody asks for them."""
    if FINDINGS not in os.environ:
        pytest.skip("real clients are tried by `make clients`")


@pytest.fixture(scope="session")
def tell() -> Iterator[Tell]:
    """Keep what a test saw under a name, for the report; what other tests told before stays."""
    told: dict[str, Any] = {}
    yield told.__setitem__
    if told:
        kept = Path(os.environ[FINDINGS])
        before = json.loads(kept.read_text()) if kept.exists() else {}
        kept.write_text(json.dumps(before | told, indent=1, ensure_ascii=False))


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small shop of the journeys, in git, and two files as long as a reply may be: one in characters, one in bytes."""
    root = planted(tmp_path_factory.mktemp("clients") / "till")
    (root / "docs").mkdir()
    entries = "".join(f"- entry {n:04}: {n * 7 % 100} cents\n" for n in range(1400))
    (root / "docs" / "ledger.md").write_text(f"# Ledger\n\n{entries}")
    (root / "docs" / "zh.md").write_text(
        "# 账本\n\n" + "".join(f"- 第{n:04}笔：收入{n * 7 % 100}分\n" for n in range(2100))
    )
    return root


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Place:
    """The same for all tests of a module that change no settings: a home in which the index is ready."""
    return index(Place(tmp_path_factory.mktemp("home"), repository))


@pytest.fixture
def fresh(tmp_path: Path, repository: Path) -> Place:
    """A new home, and the repository: nothing is indexed yet."""
    home = tmp_path / "home"
    home.mkdir()
    return Place(home, repository)


@pytest.fixture
def place(fresh: Place) -> Place:
    """A new home in which the index of the repository is ready: what a person has who tried `ctx` once."""
    return index(fresh)


def index(place: Place) -> Place:
    """Index the repository as a person would."""
    done = place.run(str(ctx()), "index", "--root", str(place.folder))
    assert done.status == 0, done.err
    return place
