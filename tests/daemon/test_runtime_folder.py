"""The runtime folder belongs to the user alone, and so does everything on the other side of the socket."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from context_engine.daemon import DaemonLog, RuntimeFolder, RuntimeFolderError, ask_daemon, process_key, start_daemon
from context_engine.daemon.daemon_client import check_peer
from context_engine.daemon.daemon_server import FORMER_LOG_FILE, LOG_FILE
from context_engine.settings import list_settings

pytestmark = [
    pytest.mark.abuse,
    pytest.mark.skipif(sys.platform == "win32", reason="there are no Unix sockets"),
]
NOBODY = 65_534


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "session").mkdir()
    return {"XDG_RUNTIME_DIR": str(tmp_path / "session"), "CTX_DAEMON": "1", "HOME": str(tmp_path)}


def test_the_folder_and_its_files_are_the_users_alone(env: dict[str, str]) -> None:
    with RuntimeFolder.open(env, create=True) as folder:
        os.close(folder.open_file("daemon.log", os.O_CREAT | os.O_WRONLY))
        assert stat.S_IMODE(Path(folder.path).stat().st_mode) == 0o700
        assert stat.S_IMODE((Path(folder.path) / "daemon.log").stat().st_mode) == 0o600


def test_a_link_in_its_place_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "session" / "context-engine").symlink_to(tmp_path / "elsewhere")
    refused(env, "is a link")


def test_a_folder_that_others_can_open_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "session" / "context-engine").mkdir()
    (tmp_path / "session" / "context-engine").chmod(0o750)
    refused(env, "chmod 700")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "session" / "context-engine").mkdir(mode=0o700)
    os.chown(tmp_path / "session" / "context-engine", NOBODY, NOBODY)
    refused(env, f"belongs to the user {NOBODY}")


def refused(env: dict[str, str], why: str) -> None:
    with pytest.raises(RuntimeFolderError, match=why):
        RuntimeFolder.open(env, create=True)
    assert ask_daemon({"kind": "status"}, 1.0, env=env) is None
    assert not start_daemon(env)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say who is on the other side")
def test_another_user_on_the_socket_is_refused(tmp_path: Path) -> None:
    address = f"/tmp/ctx-peer-{os.getpid()}"  # where another user may go, unlike pytest's folder
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        Path(address).chmod(0o777)
        listener.listen()
        child = os.fork()
        if child == 0:
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(address)
                raw.recv(1)
            os._exit(0)
        accepted, _ = listener.accept()
        with accepted, pytest.raises(PermissionError, match=str(NOBODY)):
            check_peer(accepted)
        os.waitpid(child, 0)
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(address)
            check_peer(own)
    Path(address).unlink()


def test_every_setting_belongs_to_the_key_of_a_daemon() -> None:
    base = process_key({"HOME": "/home/a"})
    keys = {process_key({"HOME": "/home/a", f"CTX_{name.upper()}": "x"}) for name in list_settings()}
    assert base not in keys
    assert len(keys) == len(list_settings())


def test_the_log_stays_within_its_bounds(env: dict[str, str]) -> None:
    with RuntimeFolder.open(env, create=True) as folder:
        log = DaemonLog(folder, now=lambda: 0.0, bytes_max=2_000)
        for number in range(100):
            log.write({"event": "start", "number": number})
        sizes = {name: (Path(folder.path) / name).stat().st_size for name in (LOG_FILE, FORMER_LOG_FILE)}
        assert all(0 < size <= 2_000 for size in sizes.values())
        assert '"number":99' in (Path(folder.path) / LOG_FILE).read_text()
