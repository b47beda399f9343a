"""The daemon as a process: commands get the same answers with it, without it and while it is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from context_engine.daemon import DaemonClient, RuntimeFolder, ask_daemon, process_key
from context_engine.daemon.daemon_client import receive_message
from context_engine.engine import Engine
from context_engine.settings import Settings
from tests.support import preloaded
from tests.support.daemons import HERE, DaemonHome, is_running
from tests.support.trees import tree
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests look at processes in /proc")
KILLS = int(os.environ.get("CTX_TEST_KILLS", "3"))
FILES = {
    "pyproject.toml": "[project]\nname = 'till'\n",
    "shop/till.py": "def add_up(prices):\n\treturn sum(prices)\n\n\ndef receipt(prices):\n    return f'{add_up(prices)} é'\n",
    "shop/stock.py": "from shop.till import add_up\n\nclass Stock:\n    def worth(self):\n        return add_up(self.prices)\n",
    "README.md": "# Till\n\nPrices are added up.\n",
}
COMMANDS = [
    ["search", "add up prices"],
    ["search", "add up", "--json", "--lang", "python"],
    ["search", "add", "up", "prices", "--lang", "python,markdown", "--include", "*.{py,md},shop/**"],
    ["search", "-C", ".", "prices", "--format", "lines", "--color", "never"],
    ["search", "zyxwvut", "--json"],
    ["symbol", "add_up", "--json"],
    ["trace", "add_up", "--json"],
    ["read", "README.md", "--json"],
    ["search", "prices", "--kind", "no such kind"],
    ["symbol", "add_up"],
    ["context", "how are prices added up", "--budget", "900"],
    ["read", "shop/till.py:1-2", "shop/stock.py#Stock"],
    ["read", "../outside.py"],
    ["call", "find_symbol", '{"name": "receipt"}'],
    ["call", "find_symbol", '{"nam": "receipt"}'],
    ["call", "no_such_tool"],
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tree(tmp_path_factory.mktemp("work") / "till", FILES)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, shop: Path) -> Iterator[DaemonHome]:
    """A home with an index of the shop and a daemon."""
    with DaemonHome(tmp_path_factory.mktemp("warm")) as home:
        assert home.ctx("index", cwd=shop).returncode == 0
        home.start()
        yield home


@pytest.fixture
def home(tmp_path: Path) -> Iterator[DaemonHome]:
    with DaemonHome(tmp_path) as home:
        yield home


def test_what_follows_a_message_stays_in_the_socket() -> None:
    """A session of a client may log before the client has read that it is ready."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b'{"state":"ready"}\n# a line of the log\n')
        assert receive_message(here, time.monotonic() + 60) == {"state": "ready"}
        assert here.recv(100) == b"# a line of the log\n"


def queries_answered(home: DaemonHome) -> int:
    status = home.ask(kind="status")
    assert status
    return status["queries"]


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_writes_the_same_with_and_without_the_daemon(warm: DaemonHome, shop: Path, words: list[str]) -> None:
    before = queries_answered(warm)
    with_it = warm.ctx(*words, cwd=shop / "shop" if words[0] == "search" else shop)
    assert queries_answered(warm) == before + 1
    without = warm.ctx(*words, cwd=shop, CTX_DAEMON="0")
    assert queries_answered(warm) == before + 1
    assert without_times(with_it) == without_times(without)
    assert with_it.stdout or with_it.stderr


def without_times(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, re.sub(r'_ms":\d+', '_ms":0', done.stdout), done.stderr


def test_a_call_that_writes_runs_in_its_own_process(warm: DaemonHome, tmp_path: Path) -> None:
    root = tree(tmp_path / "mine", FILES)
    before = queries_answered(warm)
    done = warm.ctx("call", "write_file", '{"path": "new.py", "content": "x = 1\\n"}', cwd=root)
    assert done.returncode == 0, done.stdout
    assert (root / "new.py").read_text() == "x = 1\n"
    assert queries_answered(warm) == before


def test_the_first_search_of_a_work_tree_builds_its_index_at_the_terminal(warm: DaemonHome, tmp_path: Path) -> None:
    root = tree(tmp_path / "new", FILES)
    done = warm.ctx("search", "receipt", cwd=root)
    assert done.returncode == 0
    assert "building it once" in done.stderr
    before = queries_answered(warm)
    assert warm.ctx("search", "receipt", cwd=root).stdout == done.stdout
    assert queries_answered(warm) == before + 1


def test_an_edit_is_found_by_the_next_command(warm: DaemonHome, tmp_path: Path) -> None:
    root = tree(tmp_path / "edited", FILES)
    warm.ctx("index", cwd=root)
    for number in range(3):
        (root / "shop" / "till.py").write_text(f"def counted_{number}():\n    return {number}\n")
        assert f"counted_{number}" in warm.ctx("symbol", f"counted_{number}", cwd=root).stdout


def test_settings_of_the_repository_that_change_count_at_once(warm: DaemonHome, tmp_path: Path) -> None:
    root = tree(tmp_path / "set", FILES)
    warm.ctx("index", cwd=root)
    assert warm.ctx("symbol", "add_up", cwd=root).returncode == 0
    (root / ".context-engine").mkdir(exist_ok=True)
    (root / ".context-engine" / "config.yml").write_text("plan_retries_max: soon\n")
    done = warm.ctx("symbol", "add_up", cwd=root)
    assert done.returncode == 2
    assert "plan_retries_max" in done.stderr


def test_a_terminal_gets_colors_of_its_own_width_from_the_daemon(warm: DaemonHome, shop: Path) -> None:
    shown = [ask_terminal(warm, shop, switch, COLUMNS="70", LINES="20") for switch in ("1", "0")]
    assert shown[0] == shown[1]
    assert "\x1b[" in shown[0]


def test_a_terminal_without_a_size_gets_the_whole_answer_from_the_daemon(warm: DaemonHome, shop: Path) -> None:
    assert "def add_up" in ask_terminal(warm, shop, "1")


def ask_terminal(home: DaemonHome, root: Path, switch: str, **size: str) -> str:
    """What `ctx search` writes to a terminal; a new one has 0 columns."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "context_engine", "search", "add up prices", "-n", "2"]
    env = home.env | {"CTX_DAEMON": switch, "TERM": "xterm-256color" if size else "dumb"} | size
    with subprocess.Popen(command, cwd=root, env=env, stdout=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 65_536):
                text += chunk
        except OSError:  # the terminal is closed
            pass
        process.wait()
    os.close(ours)
    return text.decode()


# -- life and death ---------------------------------------------------------------------------------------------------


def test_ten_commands_at_once_start_one_daemon_and_none_outlives_its_stop(home: DaemonHome, shop: Path) -> None:
    home.ctx("index", cwd=shop)
    with ThreadPoolExecutor(10) as pool:
        done = list(pool.map(lambda _: home.ctx("symbol", "add_up", cwd=shop), range(10)))
    assert [each.returncode for each in done] == [0] * 10
    assert len({each.stdout for each in done}) == 1
    pid = home.wait_ready()
    until(lambda: home.pids() == {pid})
    assert home.ctx("daemon", "stop").stdout == f"stopped {pid}\n"
    until(lambda: not home.pids())
    assert home.files() == {"daemon.log"}
    assert home.ctx("daemon", "stop").returncode == 1


@pytest.mark.kills
def test_a_killed_daemon_loses_no_answer_and_hinders_no_start(
    home: DaemonHome, shop: Path, tried: Callable[..., None]
) -> None:
    home.ctx("index", cwd=shop)
    wanted = home.ctx("search", "add up prices", cwd=shop, CTX_DAEMON="0").stdout
    for round_number in range(KILLS):
        tried()
        pid = home.start()
        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(home.ctx, "search", "add up prices", cwd=shop) for _ in range(3)]
            time.sleep(0.005 * (round_number % 40))
            os.kill(pid, signal.SIGKILL)
            done = [each.result() for each in asked]
        assert [(each.returncode, each.stdout) for each in done] == [(0, wanted)] * 3
        home.end()
        until(lambda: not home.pids())


def test_a_stopped_process_keeps_a_client_waiting_only_for_its_deadline(home: DaemonHome) -> None:
    pid = home.start()
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with closing(DaemonClient.connect(home.env)) as client:
            client.send({"kind": "status"})
            with pytest.raises(OSError, match="timed out"):
                client.receive(time.monotonic() + 0.3)
        assert time.monotonic() - began < 5
    finally:
        os.kill(pid, signal.SIGCONT)


def test_other_settings_have_a_daemon_of_their_own(home: DaemonHome) -> None:
    first = home.start()
    other = home.env | {"CTX_RESULT_CHARS_MAX": "5000"}
    assert process_key(other) != process_key(home.env)
    assert process_key(home.env | {"CTX_ROOT": "/elsewhere", "CTX_HTTP_TOKEN": "x"}) == process_key(home.env)
    assert process_key(home.env | {"CTX_ASSIST_KEY_VARIABLE": "A", "A": "1"}) != process_key(
        home.env | {"CTX_ASSIST_KEY_VARIABLE": "A", "A": "2"}
    )
    until(lambda: is_running(first))
    home.env = other
    assert home.ask(kind="status") is None


OWN_DAEMON = """
import os, time
from context_engine.daemon import DaemonServer, DaemonServices, RuntimeFolder, process_key

class Prompt(DaemonServer):
    def stop(self, reason):
        super().stop(reason)
        time.sleep({rests_s})

services = lambda: DaemonServices({{'echo': lambda r, c: r}}, {idle_s}, dict, lambda: None)
folder = RuntimeFolder.open(os.environ, create=True)
print(Prompt(folder, {key} or process_key(os.environ), services, log=lambda _: None).run(), flush=True)
"""


def own_daemon(*, idle_s: float = 60.0, rests_s: float = 0.0, key: str = "") -> list[str]:
    """The command of a daemon that echoes, ends when it was idle for so long, and rests a while once it was stopped."""
    return [sys.executable, "-P", "-c", OWN_DAEMON.format(idle_s=idle_s, rests_s=rests_s, key=repr(key))]


def test_an_unused_daemon_ends_by_itself(home: DaemonHome) -> None:
    with preloaded.Popen(own_daemon(idle_s=0.3), env=home.env, stdout=subprocess.PIPE) as process:
        answer = until(lambda: home.ask(kind="echo", text="é"))
        assert answer == {"kind": "echo", "text": "é"}
        assert home.ask(kind="other") == {"state": "unknown", "kind": "other"}
        assert process.stdout
        assert process.stdout.read() == b"True\n"
    assert home.files() == set()


def test_a_stop_is_answered_however_soon_the_daemon_ends(home: DaemonHome) -> None:
    with preloaded.Popen(own_daemon(rests_s=5), env=home.env, stdout=subprocess.DEVNULL) as process:
        pid = until(lambda: home.ask(kind="status", ready=True))["pid"]
        assert home.ctx("daemon", "stop").stdout == f"stopped {pid}\n"
        assert home.ask(kind="status") is None
        assert process.wait() == 0
    assert home.files() == set()


def test_a_daemon_whose_program_is_replaced_ends_at_the_next_request(home: DaemonHome, tmp_path: Path) -> None:
    program = tmp_path / "installed" / "context_engine"
    shutil.copytree(HERE / "context_engine", program, ignore=shutil.ignore_patterns("__pycache__"))
    env = home.env | {"PYTHONPATH": str(program.parent)}
    with preloaded.Popen(own_daemon(key="replaced"), env=env, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        try:
            until(lambda: ask_daemon({"kind": "echo"}, 5.0, env=env, key="replaced"))
            (program / "daemon" / "runtime_folder.py").touch()
            until(lambda: ask_daemon({"kind": "echo"}, 5.0, env=env, key="replaced") is None)
            assert process.stdout
            assert process.stdout.read() == b"True\n"
        finally:
            process.kill()


def test_status_names_the_daemon_and_its_work_trees(warm: DaemonHome, shop: Path) -> None:
    warm.ctx("symbol", "add_up", cwd=shop)
    [row] = json.loads(warm.ctx("daemon", "status", "--json").stdout)
    assert str(shop) in row["roots"]
    assert str(row["pid"]) in warm.ctx("daemon", "status").stdout


def test_the_daemon_goes_on_with_an_index_that_a_command_began(warm: DaemonHome, tmp_path: Path) -> None:
    root = tree(tmp_path / "begun", FILES)
    assert warm.ask(kind="index", root=str(root)) == {"root": str(root)}
    with Engine.open(root, settings=Settings(cache_folder=Path(warm.env["CTX_CACHE_FOLDER"]))) as engine:
        until(engine.index.is_complete)
    assert "shop/till.py" in warm.ctx("symbol", "add_up", cwd=root).stdout


# -- hostile neighbours -----------------------------------------------------------------------------------------------


@pytest.mark.abuse
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        b"\xff\x00garbage\n",
        b"[" * 100_000 + b"\n",
        b'{"kind": 7}\n',
        b'"text"\n',
        b'{"kind":"query"}\n',
        b"\n",
    ],
    ids=["nothing", "half", "garbage", "deep", "no-kind", "no-object", "no-fields", "blank"],
)
def test_what_is_no_request_gets_no_work_done_and_stops_no_other(warm: DaemonHome, sent: bytes) -> None:
    with RuntimeFolder.open(warm.env) as folder, socket.socket(socket.AF_UNIX) as raw:
        raw.connect(folder.address(process_key(warm.env)))
        raw.sendall(sent)
        assert warm.ask(kind="status"), "another client waits for this one"
        if sent.endswith(b"\n"):
            raw.settimeout(10)
            received = raw.recv(1_000)
            assert received == b"" or json.loads(received)["state"] == "unknown"


@pytest.mark.abuse
def test_a_request_without_an_end_is_cut_off(warm: DaemonHome) -> None:
    with RuntimeFolder.open(warm.env) as folder, socket.socket(socket.AF_UNIX) as raw:
        raw.connect(folder.address(process_key(warm.env)))
        raw.settimeout(30)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            raw.sendall(b"x" * 100_000_000)
    assert warm.ask(kind="status")


def test_two_daemons_never_share_a_lock_however_often_it_is_removed(tmp_path: Path) -> None:
    from context_engine.daemon.daemon_server import take_lock

    (tmp_path / "run").mkdir()
    owners: list[int] = []
    most = 0
    lock = threading.Lock()

    def race() -> None:
        nonlocal most
        with RuntimeFolder.open({"XDG_RUNTIME_DIR": str(tmp_path / "run")}, create=True) as folder:
            for _ in range(60):
                descriptor = take_lock(folder, "k.lock")
                if descriptor is None:
                    continue
                with lock:
                    owners.append(descriptor)
                    most = max(most, len(owners))
                time.sleep(0.0005)
                with lock:
                    owners.remove(descriptor)
                folder.remove("k.lock")
                os.close(descriptor)

    with ThreadPoolExecutor(4) as pool:
        for each in [pool.submit(race) for _ in range(4)]:
            each.result()
    assert most == 1
