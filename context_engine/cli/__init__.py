"""`ctx` at the terminal. This file stays almost empty so that `ctx --version` and `ctx serve` answer at once."""

from __future__ import annotations

import os
import sys

from context_engine import __version__


def main() -> None:
    """Run the command line and exit with its code: the entry point of the console script."""
    if sys.argv[1:] in (["--version"], ["version"]):
        print(f"ctx {__version__}")
        return
    if sys.argv[1:2] == ["serve"]:
        from context_engine.server import main as serve

        raise SystemExit(serve(sys.argv[2:], os.environ))
    from context_engine.cli.app import run  # typer and rich take 0.1 s to import

    raise SystemExit(run())
