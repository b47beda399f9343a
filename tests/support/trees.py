"""Real folders and repositories for tests, made from a table of paths and contents."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

ALONE = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "LC_ALL": "C",
}
"""What keeps the git of a test apart from the settings of whoever runs it."""


def git(folder: Path, *args: str, date: str = "") -> str:
    """The output of a git command, without the last newline; what it commits is of this date."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | ALONE
    env |= {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date} if date else {}
    done = subprocess.run(["git", *args], cwd=folder, env=env, check=True, capture_output=True)
    return os.fsdecode(done.stdout).removesuffix("\n")


def tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below `root`; a path that ends in a slash is an empty folder."""
    root.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        place = root / path
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return root


def repository(root: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """A repository on branch `main`; with one commit when there are files."""
    root.mkdir(parents=True, exist_ok=True)
    git(root, "init", "--quiet", "--initial-branch=main")
    if files:
        tree(root, files)
        commit(root, "first")
    return root


def commit(root: Path, message: str, files: Mapping[str, str | bytes] | None = None, *, date: str = "") -> str:
    """Commit everything, with these files written before; the hash."""
    tree(root, files or {})
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--allow-empty", "-m", message, date=date)
    return git(root, "rev-parse", "HEAD")


NOBODY = 65_534
"""The user that owns nothing, on every POSIX system."""


@contextmanager
def ordinary_user() -> Generator[Path]:
    """A folder in which what is closed is closed: the superuser gives up its rights for the time being."""
    place = Path(os.path.realpath(tempfile.mkdtemp()))
    is_superuser = os.geteuid() == 0
    if is_superuser:
        os.chown(place, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield place
    finally:
        if is_superuser:
            os.seteuid(0)
        for folder, _, _ in os.walk(place):  # top down, so that each opens before it is entered
            for entry in Path(folder).iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    entry.chmod(0o700)
        shutil.rmtree(place)
