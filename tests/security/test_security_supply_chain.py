"""What is installed from others is pinned: packages by SHA-256, images by digest, and all pins are those of uv.lock."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
LOCKED = ROOT / "packaging" / "locked"
DOCKERFILE = (ROOT / "packaging" / "Dockerfile").read_text(encoding="utf-8")
DIGEST = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")


def locked_releases() -> dict[tuple[str, str], set[str]]:
    """The SHA-256 of every file of every release in uv.lock."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    return {
        (package["name"], package.get("version", "")): {
            file["hash"] for file in [*package.get("wheels", ()), *filter(None, [package.get("sdist")])]
        }
        for package in packages
    }


def requirements(text: str) -> list[tuple[str, str, set[str]]]:
    """Name, version and hashes of each requirement of a file."""
    blocks = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    found = []
    for block in blocks:
        [(name, version)] = re.findall(r"\A([\w.-]+)==([\w.]+)", block)
        found.append((name, version, set(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block))))
    return found


@pytest.mark.parametrize("name", ["base", "build", "postgres"])
def test_every_locked_requirement_has_the_version_and_the_hashes_of_the_lock_file(name: str) -> None:
    known = locked_releases()
    listed = requirements((LOCKED / f"{name}.txt").read_text(encoding="utf-8"))
    assert listed
    for package, version, hashes in listed:
        assert hashes, package
        assert hashes == known[package, version], f"{package}: run `make lock`"


def test_the_locked_base_holds_every_dependency_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[^\w.-]", one, maxsplit=1)[0].lower() for one in project["dependencies"]}
    listed = {name for name, _, _ in requirements((LOCKED / "base.txt").read_text(encoding="utf-8"))}
    assert wanted <= listed


def test_the_checks_install_releases_of_the_lock_file_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {re.split(r"[^\w.-]", one, maxsplit=1)[0].lower() for one in project["optional-dependencies"]["dev"]}
    listed = requirements((LOCKED / "dev.txt").read_text(encoding="utf-8"))
    assert {(package, version) for package, version, _ in listed} <= set(locked_releases()), "run `make lock`"
    assert wanted <= {package for package, _, _ in listed}


def test_the_image_installs_only_files_with_a_known_hash() -> None:
    commands = [line for line in DOCKERFILE.splitlines() if " install " in line and "pip" in line]
    assert commands
    for command in commands:
        assert "--require-hashes" in command or "--no-index" in command, command
    assert "--no-build-isolation" in DOCKERFILE, "else the build tool is fetched without a hash"


def test_every_image_is_named_by_its_digest() -> None:
    bases = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    services = yaml.safe_load((ROOT / "deploy" / "compose.yml").read_text(encoding="utf-8"))["services"]
    fetched = [service["image"] for service in services.values() if "build" not in service]
    assert len(bases) == 2
    assert len(fetched) == 2
    for image in [*bases, *fetched]:
        assert DIGEST.fullmatch(image), image
