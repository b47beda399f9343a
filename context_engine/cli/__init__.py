"""`ctx` at the terminal. This file stays almost empty so that `ctx --version` and `ctx serve` answer at once."""

from __future__ import annotations

import os
import sys

from context_engine import __version__


def main() -> None:
    """The console script: run the command line, leave with its exit code."""
    if sys.argv[1:] in (["--version"], ["version"]):
        print(f"ctx {__version__}")
        return
    if sys.argv[1:2] == ["serve"]:
        from context_engine.server.serve import main as serve

        raise SystemExit(serve(sys.argv[2:], os.environ))
    from context_engine.cli.app import run  # typer and rich take a tenth of a second

    raise SystemExit(run())
