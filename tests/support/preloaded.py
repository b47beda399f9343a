"""`ctx` as a process of its own that need not import anything: forked from one that has imported it all.

A fresh `ctx` spends about a second of processor time on imports, and the tests start hundreds of them. `Popen` and
`run` here are those of `subprocess`; on Linux, `python -m context_engine ...` and `python -c ...` are forked from a
preloaded process instead. The fork is a child of this process like any other: it has its own pipes, environment and
folder, and it is waited for and killed the same way. Tests of imports and of starting take `subprocess` itself.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import runpy
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    *("apsw", "numpy", "uvicorn", "starlette.applications", "mcp.server.streamable_http_manager", "prometheus_client"),
    *("context_engine.engine", "context_engine.references.symbol_service", "context_engine.search.search_service"),
    *("context_engine.memory.knowledge_service", "context_engine.index.embedded_writer", "context_engine.tools"),
    *("context_engine.cli.app", "context_engine.server.mcp_server", "context_engine.server.http_server"),
    *("context_engine.cli.daemon_queries", "context_engine.cli.index_commands"),
    *("ahocorasick_rs", "rich._emoji_codes", "typer._adapters", "numpy.ma"),
)
SAME_VARIABLES = ("PYTHON", "LC_", "LANG", "TZ", "LD_", "MALLOC_", "OPENBLAS_", "OMP_", "RICH_", "TYPER_")
"""Beginnings of variables that count when Python starts or while it imports."""
ALLOWED_VARIABLES = (("PYTHONPATH", str(ROOT)), ("PYTHONWARNINGS", "error"))
PR_SET_CHILD_SUBREAPER = 36


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, but what is `python -m context_engine` is forked where that makes no difference."""

    def _execute_child(self, *arguments: Any) -> None:
        start = super()._execute_child  # ty: ignore[missing-attribute]
        asked = inspect.signature(start).bind(*arguments).arguments
        env = os.environ if asked["env"] is None else asked["env"]
        if not _can_be_forked(asked, env):
            start(*arguments)
            return
        pipes = [asked[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        own = [given if given >= 0 else number for number, given in enumerate(pipes)]
        request = {
            "words": _words(asked["args"]),
            "env": dict(env),
            "folder": str(asked["cwd"] or Path.cwd()),
            "is_strict": "-W" in asked["args"][:2] or env.get("PYTHONWARNINGS") == "error",
        }
        try:
            self.pid = _parent().fork(request, own)
            self._child_created = True
        finally:
            self._close_pipe_fds(  # ty: ignore[missing-attribute]
                *(asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"))
            )


run: Callable[..., subprocess.CompletedProcess[Any]] = FunctionType(
    subprocess.run.__code__, vars(subprocess) | {"Popen": Popen}, "run"
)
run.__kwdefaults__ = subprocess.run.__kwdefaults__


def _can_be_forked(asked: dict[str, Any], env: Any) -> bool:
    is_plain = not (asked["preexec_fn"] or asked["pass_fds"] or asked["shell"] or asked["start_new_session"])
    return (
        sys.platform == "linux" and is_plain and bool(_words(asked["args"])) and _counting(env) == _counting(os.environ)
    )


def _words(command: Any) -> list[str]:
    """What comes after the interpreter and its options, or nothing when this is no command that can be forked."""
    words = [os.fspath(word) for word in command] if isinstance(command, list) else [""]
    words = words[3:] if words[1:3] == ["-W", "error"] else words[1:]
    is_ours = command[0] == sys.executable and (words[:2] == ["-m", "context_engine"] or words[:1] == ["-c"])
    return words if is_ours else []


def _counting(env: Any) -> dict[str, str]:
    counting = {name: value for name, value in env.items() if name.startswith(SAME_VARIABLES)}
    return {name: value for name, value in counting.items() if (name, value) not in ALLOWED_VARIABLES}


# -- this side ----------------------------------------------------------------------------------------------------


class _Parent:
    """The preloaded process, and the socket on which it is asked for forks."""

    def __init__(self) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._owner = os.getpid()
        with other:
            code = f"from tests.support.preloaded import serve; serve({other.fileno()})"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                pass_fds=[other.fileno()],
            )
        atexit.register(self.end)

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """The number of a new process, which is a child of this one."""
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            pid = int(self._socket.recv(64))
            assert self._socket.recv(64) == b"orphaned"  # and so it has become ours
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        return pid

    def end(self) -> None:
        if os.getpid() == self._owner:
            self._socket.close()
            self._process.wait()


_parents: dict[int, _Parent] = {}


def _parent() -> _Parent:
    if os.getpid() not in _parents:
        _parents[os.getpid()] = _Parent()
    return _parents[os.getpid()]


# -- the other side -----------------------------------------------------------------------------------------------


def serve(number: int) -> None:
    """Import, then fork once per request; in a fork, run `ctx`."""
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=number) as asked:
        while True:
            content, descriptors, _, _ = socket.recv_fds(asked, 1_000_000, 3)
            if not content:
                return
            if _is_the_fork(asked):
                break
            for descriptor in descriptors:
                os.close(descriptor)
            asked.send(b"orphaned")
    _become(json.loads(content), descriptors)


def _is_the_fork(asked: socket.socket) -> bool:
    """Fork twice, so that the second is adopted by whoever asked for it."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return False
    between = os.getpid()
    fork = os.fork()
    if fork:
        asked.send(b"%d" % fork)
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.001)
    return True


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Run `ctx` as if this process had been started for it."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["folder"])
    if request["is_strict"]:
        warnings.simplefilter("error")
    sys.path[0] = request["folder"]
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(open(0, "rb", closefd=False), "utf-8")  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _writer(1, "strict")
    sys.stderr = sys.__stderr__ = _writer(2, "backslashreplace")
    how, what, *words = request["words"]
    sys.argv = ["-c" if how == "-c" else str(ROOT / "context_engine" / "__main__.py"), *words]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        space = vars(sys.modules["__main__"])
        for name in [name for name in space if not name.startswith("__")]:
            del space[name]
        exec(compile(what, "<string>", "exec"), space)


def _writer(number: int, errors: str) -> io.TextIOWrapper:
    binary = open(number, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=number == 2 or os.isatty(number))
