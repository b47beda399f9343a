"""Two releases on one PostgreSQL at once: each indexes and answers from its own index, and the new one adds its tables."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest

from tests.support import preloaded
from tests.support.databases import new_database
from tests.support.trees import tree

ROOT = Path(__file__).resolve().parents[2]
OLDER = "3f75143e4565"
"""A commit whose indexes have schema 5, before databases searched."""
FILES = {f"src/part{number}.py": f"def part{number}():\n    return 'lion'\n" for number in range(20)}


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it was at the older commit."""
    archive = subprocess.run(["git", "-C", ROOT, "archive", OLDER, "context_engine"], capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"no commit {OLDER} here: this is not a whole clone")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def run(package: Path, root: Path, *arguments: str, shares: bool = False, address: str) -> str:
    """Run a command of one release, with a cache of its own."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CTX_", "XDG_"))}
    env |= {
        "PYTHONPATH": str(package),
        "CTX_CACHE_FOLDER": str(root.parent / f"cache-{package.name}-{shares}"),
        "CTX_STORE_URL": address,
        "CTX_STORE_REPOSITORY": "team/app",
        "CTX_WORKERS": "0",
        "CTX_DAEMON": "0",
    }
    if shares:
        env |= {"CTX_STORE_SHARES": "1", "CTX_STORE_SEARCH": "1"}
    start = preloaded.run if package == ROOT else subprocess.run
    command = [sys.executable, "-m", "context_engine", *arguments]
    done = start(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_two_releases_index_and_answer_side_by_side(older: Path, tmp_path: Path) -> None:
    address, root = new_database(), tree(tmp_path / "app", FILES)
    releases = (older, ROOT)
    run(older, root, "index", address=address, shares=True)
    for word in ("tiger", "lynx"):
        (root / "src/new.py").write_text(f"def {word}_cage():\n    return '{word}'\n")
        with ThreadPoolExecutor() as pool:
            jobs = [pool.submit(run, one, root, "index", address=address, shares=True) for one in releases]
            assert all(job.result() for job in jobs)
        for one in releases:
            assert "src/new.py" in run(one, root, "search", f"{word}_cage", "-n", "1", address=address)
    listed = run(ROOT, root, "store", "list", address=address)
    assert listed.count("team/app") == 2
    run(ROOT, root, "store", "remove", "team/app", "--schema", "5", "--yes", address=address)
    assert "src/new.py" in run(ROOT, root, "search", "lynx_cage", "-n", "1", address=address)
    assert run(ROOT, root, "store", "list", address=address).count("team/app") == 1
