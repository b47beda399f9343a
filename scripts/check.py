"""Run every check of this repository: format, lint, types, imports, docs, then the tests, whose summary comes last.

    python3 scripts/check.py                  make .venv, install into it, run everything
    python3 scripts/check.py lint types       the same, but only these
    python3 scripts/check.py --here tests     with the Python that runs this script; nothing is installed
    python3 scripts/check.py tests -- -k gitignore

It needs Python 3.11+ and git, nothing else. Whatever stands after `--` goes to pytest. The exit code is 0 only when
every check passed and at least one test ran.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
RELEASES = ROOT / "packaging" / "locked" / "dev.txt"
"""The releases of all development tools, so that a new one of somebody else's cannot fail these checks overnight."""
PYTHON_MIN = (3, 11)

# The checks in the order they run; `{bin}` is the folder of the environment's programs, `{prefix}` its root.
CHECKS: dict[str, list[list[str]]] = {
    "format": [["{bin}/ruff", "format", "--check", "--output-format", "concise", "."]],
    "lint": [["{bin}/ruff", "check", "--output-format", "concise", "."]],
    "types": [["{bin}/ty", "check", "--output-format", "concise", "--python", "{prefix}"]],
    "imports": [["{bin}/lint-imports", "--no-logo"]],
    "docs": [["{python}", "scripts/docs.py", "--check"]],
    "tests": [["{python}", "-m", "pytest", "-n", "auto", "--maxprocesses", "4"]],
}


def main(argv: list[str]) -> int:
    """Parse, prepare the environment, run what was asked for; the exit code."""
    own, to_pytest = split_at_dashes(argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"any of: {', '.join(CHECKS)} (default: all)")
    parser.add_argument("--here", action="store_true", help="use the Python that runs this script, install nothing")
    parser.add_argument("--setup", action="store_true", help="only make .venv and install into it")
    asked = parser.parse_args(own)
    if unknown := [name for name in asked.checks if name not in CHECKS]:
        parser.error(f"no check called {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    if sys.version_info < PYTHON_MIN:
        parser.error(f"Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer is needed; this is {sys.version.split()[0]}")
    os.chdir(ROOT)
    python = Path(sys.executable) if asked.here else prepared_venv()
    if asked.setup:
        return 0
    return run([name for name in CHECKS if name in asked.checks or not asked.checks], python, to_pytest)


def split_at_dashes(argv: list[str]) -> tuple[list[str], list[str]]:
    """What is ours, and what goes to pytest."""
    if "--" not in argv:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def prepared_venv() -> Path:
    """The Python of `.venv`, made if missing, with this package and its tools installed in it.

    Installing is skipped while `pyproject.toml` and the locked releases are those that were installed last.
    """
    python = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        say("making .venv")
        venv.create(VENV, with_pip=True)
    stamp = VENV / ".installed"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + RELEASES.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        say("installing this package and its tools into .venv")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--constraint", str(RELEASES), "--editable", ".[dev]"], check=True)
        stamp.write_text(wanted)
    return python


def run(names: list[str], python: Path, to_pytest: list[str]) -> int:
    """Run the named checks, the tests last and after a list of what failed before them; 0 when all is well."""
    failed: list[str] = []
    for name in names:
        if name == "tests" and failed:
            say(f"failed so far: {', '.join(failed)}; the exit code will say so whatever the tests do")
        say(name)
        extra = to_pytest if name == "tests" else []
        if any(subprocess.run(filled(command, python) + extra, check=False).returncode for command in CHECKS[name]):
            failed.append(name)
    if failed and names[-1] != "tests":
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def filled(command: list[str], python: Path) -> list[str]:
    """The command with the environment's folders in place."""
    places = {"python": str(python), "bin": str(python.parent), "prefix": str(python.parent.parent)}
    return [word.format(**places) for word in command]


def say(line: str) -> None:
    """One heading on stdout, in order with what the checks print."""
    print(f"== {line}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
