"""Another user of the machine reads nothing of ours: folders are 0700 and files 0600, whatever the umask."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import HostError
from context_engine.storage import close_to_others, index_folders
from tests.support import preloaded
from tests.support.daemons import DaemonHome
from tests.support.trees import commit, repository, tree

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
FILES = {
    "shop/till.py": "def add_up(prices):\n    return sum(prices)\n",
    "shop/stock.py": "from shop.till import add_up\n\n\ndef worth(prices):\n    return add_up(prices)\n",
    "README.md": "# Till\n\nPrices are added up.\n",
}
COMMANDS = [
    ["index"],
    ["search", "add up prices"],
    ["call", "search_text", {"query": "add_up"}],
    ["call", "add_memory", {"category": "facts", "content": "Prices are whole cents."}],
    ["call", "add_memory", {"category": "preferences", "content": "Answer briefly.", "scope": "user"}],
    ["call", "search_memory", {"query": "cents"}],
    ["call", "create_plan", {"task": "rename add_up to total in shop/till.py"}],
    ["call", "edit_file", {"path": "shop/till.py", "edits": [{"old": "sum(prices)", "new": "sum(prices, 0)"}]}],
    ["call", "review_git_diff", {"target": "unstaged"}],
    ["call", "reactive_review_pr", {"base_ref": "HEAD~1", "commit_hash": "HEAD"}],
    ["token", "create", "ann", "--project", "*"],
]
WITHOUT_UMASK = """
import os, runpy
os.umask(0)
runpy.run_module("context_engine", run_name="__main__", alter_sys=True)
"""
PRIVATE_STATE = ("journal.db", "state.db", "secrets.key", "locks")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DaemonHome]:
    """A user with a daemon, whose folders are all in `tmp_path`."""
    home = DaemonHome(tmp_path / "daemon")
    for name in ("cache", "config", "data", "state"):
        home.env[f"XDG_{name.upper()}_HOME"] = str(tmp_path / "user" / name)
    home.env["HOME"] = str(tmp_path / "user")
    for name in ("CTX_CACHE_FOLDER", "CTX_DATA_FOLDER"):
        del home.env[name]
    try:
        yield home
    finally:
        home.end()


def run(home: DaemonHome, root: Path, *words: Any, stdin: str = "") -> str:
    """What a command prints, in a process without a umask."""
    given = [json.dumps(word) if isinstance(word, Mapping) else word for word in words]
    command = [sys.executable, "-c", WITHOUT_UMASK, *given]
    done = preloaded.run(command, cwd=root, env=home.env, input=stdin, text=True, capture_output=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


def serve_over_http(home: DaemonHome, root: Path) -> None:
    """Start a server over HTTP, and end it when it listens."""
    command = [sys.executable, "-m", "context_engine", "serve", "--http", "0", "--root", str(root)]
    with subprocess.Popen(command, env=home.env, stderr=subprocess.PIPE, text=True, umask=0) as process:
        assert process.stderr
        assert "serving" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)


def paths_open_to_others(top: Path) -> list[str]:
    """Each file and folder that others may read, write or enter, with its mode."""
    found = []
    for path in (top, *top.rglob("*")):
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o077:
            found.append(f"{stat.filemode(status.st_mode)} {path.relative_to(top.parent)}")
    return found


def test_after_a_tour_of_the_product_no_file_of_ours_is_open_to_others(home: DaemonHome, tmp_path: Path) -> None:
    root = repository(tmp_path / "work", FILES)
    commit(root, "change", {"shop/more.py": "def more(): ...\n"})
    home.start()
    serve_over_http(home, root)
    for words in COMMANDS:
        run(home, root, *words)
    run(home, root, "setup", "--trust")
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": str(root), "prompt": "where is add_up?"}
    assert "till.py" in run(home, root, "hook", "UserPromptSubmit", "--client", "claude", stdin=json.dumps(prompt))
    run(home, root, "workspace", "add", root.as_uri(), "--name", "copy")
    user = tmp_path / "user"
    names = {path.name for path in user.rglob("*")}
    assert names > {"index.db", "recall.db", "access.db", "gain.db", "http-token", "workspaces.json", "clones"}
    assert paths_open_to_others(user) == []
    assert paths_open_to_others(home.folder) == []
    state = root / ".context-engine"
    private = [
        path
        for path in state.rglob("*")
        if path.is_file() and path.relative_to(state).parts[0].startswith(PRIVATE_STATE)
    ]
    assert {path.name for path in private} > {"journal.db", "state.db", "secrets.key"}
    assert [path.name for path in private if path.stat().st_mode & 0o077] == []
    shared = [path for name in ("memories", "plans") for path in (state / name).rglob("*.md")]
    assert {path.stat().st_mode & 0o777 for path in shared} == {0o666}  # git shares them: the user's umask decides


def test_the_doctor_closes_what_earlier_releases_left_open(home: DaemonHome, tmp_path: Path) -> None:
    root = tree(tmp_path / "work", FILES)
    run(home, root, "index")
    user = tmp_path / "user" / "cache" / "context-engine"
    for path in (user, *user.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert paths_open_to_others(user)
    assert "closed now" in run(home, root, "doctor")
    assert paths_open_to_others(user) == []


def test_closing_a_folder_touches_no_target_of_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("x")
    outside.chmod(0o644)
    folder = tmp_path / "ours"
    folder.mkdir(0o755)
    (folder / "link").symlink_to(outside)
    assert close_to_others(folder) == [str(folder)]
    assert outside.stat().st_mode & 0o777 == 0o644


def test_a_cache_among_the_folders_of_all_users_is_refused_where_another_was_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_folders, "find_network_drive", lambda _: "nfs")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    folder = index_folders.user_cache_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert index_folders.user_cache_folder() == folder
    folder.chmod(0o777)
    with pytest.raises(HostError, match="not a folder of yours alone"):
        index_folders.user_cache_folder()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(HostError, match="not a folder of yours alone"):
        index_folders.user_cache_folder()
