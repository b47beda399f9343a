"""Pin, list and check what is installed from others: locked requirements with hashes, an SBOM, known vulnerabilities.

    python scripts/supply.py export         write packaging/locked/*.txt out of uv.lock, every file with its SHA-256
    python scripts/supply.py export --check compare them only; exit code 1 when one is out of date
    python scripts/supply.py sbom           write dist/context-engine.cdx.json, a CycloneDX 1.5 list of all components
    python scripts/supply.py audit          look the locked releases up in the database of the Python Packaging Authority

It needs the extra `dist` (uv and pip-audit). Exit codes of `audit`: 0 nothing known, 1 something known, 2 not checked.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKED = ROOT / "packaging" / "locked"
SBOM = ROOT / "dist" / "context-engine.cdx.json"
PROGRAMS = Path(sys.executable).parent

EXTRAS = ("postgres",)
"""Those that the image and docs/guides/install.md install; the others bring torch or are for development."""
FILES: dict[str, tuple[str, ...]] = {
    "base.txt": ("--no-dev",),
    "build.txt": ("--only-group", "build"),
    **{f"{extra}.txt": ("--no-dev", "--extra", extra) for extra in EXTRAS},
}
"""Each file, and which part of uv.lock it holds."""
DEVELOPMENT = ("--no-dev", "--extra", "dev", "--no-hashes")
"""What scripts/check.py installs from: exact releases, without hashes, because pip checks hashes of all or none."""
HEADER = "# Written by `make lock` out of uv.lock. Install with: pip install --require-hashes --only-binary :all: -r base.txt\n"

DEVELOPMENT_HEADER = (
    "# Written by `make lock` out of uv.lock. scripts/check.py installs the development tools with these releases.\n"
)

NOTHING_KNOWN, KNOWN, NOT_CHECKED = 0, 1, 2


def main(argv: list[str]) -> int:
    """Run the asked step; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("export", "sbom", "audit"))
    parser.add_argument("--check", action="store_true", help="with export: compare, write nothing")
    asked = parser.parse_args(argv)
    if asked.step == "export":
        return export(check=asked.check)
    return write_sbom() if asked.step == "sbom" else audit()


def export(*, check: bool) -> int:
    """Write the locked requirements, or compare them with uv.lock; 1 when `check` finds an old one."""
    LOCKED.mkdir(exist_ok=True)
    before = {path.name: path.read_text(encoding="utf-8") for path in LOCKED.glob("*.txt")}
    old = {name: text for name, text in exported().items() if before.get(name) != text}
    for name, text in old.items():
        print(f"packaging/locked/{name}{' is out of date: run `make lock`' if check else ''}")
        if not check:
            (LOCKED / name).write_text(text, encoding="utf-8")
    return 1 if check and old else 0


def exported() -> dict[str, str]:
    """Return the text of every file of packaging/locked/ as uv.lock has it; an extra's holds what the base lacks."""
    base = requirements(FILES["base.txt"])
    texts = {"base.txt": base, "build.txt": requirements(FILES["build.txt"])}
    for extra in EXTRAS:
        texts[f"{extra}.txt"] = [one for one in requirements(FILES[f"{extra}.txt"]) if one not in base]
    files = {name: HEADER + "".join(text) for name, text in texts.items()}
    files["dev.txt"] = DEVELOPMENT_HEADER + "".join(requirements(DEVELOPMENT))
    return files


def requirements(part: tuple[str, ...]) -> list[str]:
    """Return the requirements of one part of uv.lock: release, marker and hashes of each as one text."""
    options = ("--locked", "--quiet", "--no-header", "--no-annotate", "--no-emit-project")
    lines = uv("export", *options, "--format", "requirements.txt", *part)
    return [f"{requirement.rstrip()}\n" for requirement in re.split(r"\n(?=\S)", lines)]


def write_sbom() -> int:
    """Write the list of components, each with the hashes of its files. Raises: CalledProcessError."""
    document = json.loads(uv("export", "--locked", "--quiet", "--format", "cyclonedx1.5", "--no-dev", *every_extra()))
    SBOM.parent.mkdir(exist_ok=True)
    SBOM.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"{SBOM.relative_to(ROOT)}: {len(document['components'])} components")
    return 0


def every_extra() -> list[str]:
    """Return the options that name all extras of a release."""
    return [word for extra in EXTRAS for word in ("--extra", extra)]


def audit() -> int:
    """Ask for known vulnerabilities of every locked release, and say how many could be looked up."""
    locked = [word for name in FILES for word in ("-r", str(LOCKED / name))]
    options = ("--require-hashes", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "20")
    run = subprocess.run([str(PROGRAMS / "pip-audit"), *options, *locked], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(run.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        print(f"not checked: the database could not be reached ({last_line(run.stderr)})")
        return NOT_CHECKED
    checked = [package for package in packages if "vulns" in package]
    for package in checked:
        for known in package["vulns"]:
            print(
                f"{package['name']} {package['version']}: {known['id']}, fixed in {known['fix_versions'] or 'no release'}"
            )
    skipped = len(packages) - len(checked)
    print(
        f"{len(checked)} of {len(packages)} releases were looked up"
        + (f", {skipped} are unknown there" if skipped else "")
    )
    if not checked:
        print("not checked: the database could not be reached")
        return NOT_CHECKED
    return KNOWN if any(package["vulns"] for package in checked) else NOTHING_KNOWN


def last_line(text: str) -> str:
    """Return the last line of a program's complaint."""
    return text.strip().splitlines()[-1] if text.strip() else "no reason was given"


def uv(*args: str) -> str:
    """Return what uv prints. Raises: CalledProcessError."""
    return subprocess.run([str(PROGRAMS / "uv"), *args], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
