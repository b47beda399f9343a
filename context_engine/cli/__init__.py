"""`ctx` at the terminal. This file stays almost empty so that `ctx --version` and `ctx serve` answer at once."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from context_engine import __version__

COLLECTION_THRESHOLDS = (20_000, 20, 50)
"""Imports and an open index are 300,000 objects that stay. By default Python visits them so often that a tenth of a
start is spent on it; these thresholds are for new objects in each generation."""


def main() -> None:
    """Run the command line and exit with its code: the entry point of the console script."""
    if sys.argv[1:] == ["--version"]:
        print(f"ctx {__version__}")
        return
    from context_engine.cli.global_options import GlobalOptionError, apply_global_options

    try:
        sys.argv[1:] = apply_global_options(sys.argv[1:], os.environ)
    except GlobalOptionError as error:
        sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
        raise SystemExit(2) from None
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    atexit.register(gc.freeze)  # else the end of the process visits them again, for 15 ms
    if sys.argv[1:2] == ["serve"] and not {"-h", "--help"}.intersection(sys.argv):
        from context_engine.server import main as serve

        raise SystemExit(serve(sys.argv[2:], os.environ))
    if sys.argv[1:] == ["daemon", "run", "--background"]:
        from context_engine.daemon import leave_client

        leave_client()  # before the imports, which the client need not wait for
        from context_engine.cli.daemon_commands import run_daemon

        raise SystemExit(run_daemon(background=True))
    if sys.argv[1:2] == ["hook"]:
        from context_engine.cli.hook_command import run_hook

        code = run_hook(sys.argv[2:], os.environ)
        if code is not None:
            raise SystemExit(code)
    from context_engine.cli.quick_commands import run_quickly

    raise SystemExit(run_quickly(sys.argv[1:], os.environ, _run_here))


def _run_here() -> int:
    if sys.argv[1:] == ["index"]:  # without options no parser is needed, which takes 0.1 s to import
        from context_engine.cli.command_runner import run_to_exit_code
        from context_engine.cli.index_commands import index

        return run_to_exit_code(index)
    from context_engine.cli.app import run

    return run()
