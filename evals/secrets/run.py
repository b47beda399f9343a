"""How many secrets are found and how much of them leaks, how often code is taken for one, and how fast: beside detect-secrets.

    python evals/secrets/run.py --mirrors DIR                      everything; DIR holds git directories, for their lock files
    python evals/secrets/run.py --mirrors DIR --packages DIR       three packages that lie there unpacked, instead of fetching them
    python evals/secrets/run.py --without-peer --show              our alarms alone, each with its line

Secrets are drawn anew from the notation of our rules and from `writings.py`. Everything in CPython's library, the packages and
the lock files is taken for an alarm that is false. Times are those of the processor, on one core.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.text.secrets import How, builtin, find, scrub
from evals.secrets.writings import written
from tests.secret_examples import drawn

PACKAGES = ("Django==5.2", "botocore==1.40.0", "sympy==1.14.0")
LOCK_FILES = frozenset(
    (
        *("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock", "Gemfile.lock", "poetry.lock", "go.sum"),
        *("composer.lock", "uv.lock", "Pipfile.lock", "packages.lock.json", "Podfile.lock", "flake.lock", "mix.lock"),
        *("npm-shrinkwrap.json", "gradle.lockfile", "Package.resolved"),
    )
)
LOCK_FILES_MAX = 20
LOCK_BYTES_MIN = 2_000
DRAWS = 20
PEER_EVERY = 25
"""The peer reads some kilobytes a millisecond less than we do: of the code it gets one file in so many."""
PEER_CASES_EVERY = 10
HALVED_CHARS_MIN = 8
"""Half of a shorter secret stands in a label by chance."""
Find = Callable[[str], Sequence[str]]
"""The secrets of a text, as they stand in it."""


@dataclass
class Tally:
    """What came of reading some files."""

    files: int = 0
    size: int = 0
    took_s: float = 0.0
    alarms: list[str] = field(default_factory=list)

    def row(self, name: str, reader: str) -> str:
        """A row of the table."""
        megabytes = self.size / 1e6
        speed = f"{megabytes / self.took_s:.1f}" if self.took_s else "-"
        return f"| {name} | {reader} | {self.files} | {megabytes:.1f} | {len(self.alarms)} | {len(self.alarms) / megabytes:.2f} | {speed} |"


def main() -> None:
    """Parse, run, print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirrors", type=Path, help="git directories whose lock files are read")
    parser.add_argument("--packages", type=Path, help="unpacked packages; else they are fetched")
    parser.add_argument("--without-peer", action="store_true")
    parser.add_argument("--show", action="store_true", help="every alarm of ours")
    chosen = parser.parse_args()
    peer = None if chosen.without_peer else peer_reader()
    print("| secrets | reader | cases | found | leaked |\n| --- | --- | --- | --- | --- |")
    for name, cases in (("the rules' own examples", list(examples())), ("whatever is written down", list(written()))):
        print(told(name, "ours, broad", cases, in_broad))
        print(told(name, "ours, strict", cases, in_strict))
        if peer:
            print(told(name, "detect-secrets", cases[::PEER_CASES_EVERY], peer))
    print("\n| code | reader | files | MB | alarms | a MB | MB/s |\n| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        for name, files in corpora(chosen, Path(scratch)):
            alarms(name, files, peer, show=chosen.show)


def alarms(name: str, files: Sequence[Path], peer: Find | None, *, show: bool) -> None:
    """Rows for one body of code, read in both modes and by the peer."""
    readers: list[tuple[str, Find, Sequence[Path]]] = [
        ("ours, broad", in_broad, files),
        ("ours, strict", in_strict, files),
    ]
    if peer:
        readers.append(("detect-secrets", peer, files[:: PEER_EVERY if len(files) > LOCK_FILES_MAX else 1]))
    for reader, look, some in readers:
        tally = read(some, look)
        print(tally.row(name, reader), flush=True)
        if show and look is not peer:
            print("\n".join(f"    {alarm}" for alarm in tally.alarms), file=sys.stderr)


def read(files: Iterable[Path], look: Find) -> Tally:
    """Every alarm in some files, and the time of the processor that it took."""
    tally = Tally()
    for path in files:
        text = path.read_text(encoding="utf-8", errors="replace")
        began = time.process_time()
        found = look(text)
        tally.took_s += time.process_time() - began
        tally.files += 1
        tally.size += len(text.encode("utf-8", "replace"))
        tally.alarms += [f"{path.name}: {secret[:80]}" for secret in found]
    return tally


# -- what reads -------------------------------------------------------------------------------------------------------


def in_broad(text: str) -> list[str]:
    """What we take out of texts that are kept or sent."""
    return [text[each.start : each.stop] for each in find(text)]


def in_strict(text: str) -> list[str]:
    """What we mask in replies."""
    return [text[each.start : each.stop] for each in find(text, "strict")]


def peer_reader() -> Find:
    """detect-secrets with the settings it comes with, network checks off."""
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings

    def look(text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder, default_settings() as settings:
            settings.disable_filters("detect_secrets.filters.common.is_ignored_due_to_verification_policies")
            path = Path(folder) / "read.txt"
            path.write_text(text, encoding="utf-8")
            return [each.secret_value or "" for each in scan_file(str(path))]

    return look


# -- what is read -----------------------------------------------------------------------------------------------------


def examples() -> Iterator[tuple[str, str]]:
    """The examples of our rules, drawn anew, and what of each must go."""
    for rule in builtin().rules:
        for example in rule.examples:
            for draw in range(DRAWS):
                told = drawn(example, f"eval {draw}")
                yield told.text, max(told.parts, key=len)


def told(name: str, reader: str, cases: Sequence[tuple[str, str]], look: Find) -> str:
    """A row: the share of cases in which something is found, and in which half of the secret or more is left."""
    found = leaked = 0
    for text, secret in cases:
        secrets = look(text)
        found += bool(secrets)
        left = without(text, secrets) if look is not in_broad else scrub(text, b"eval", How()).text
        half = len(secret) // 2 if len(secret) >= HALVED_CHARS_MIN else len(secret)
        leaked += secret[:half] in left or secret[-half:] in left
    return f"| {name} | {reader} | {len(cases)} | {found / len(cases):.3f} | {leaked / len(cases):.3f} |"


def without(text: str, secrets: Sequence[str]) -> str:
    """The text with what was found taken out."""
    for secret in secrets:
        text = text.replace(secret, "") if secret else text
    return text


def corpora(chosen: argparse.Namespace, scratch: Path) -> Iterator[tuple[str, list[Path]]]:
    """Bodies of code without secrets: their names and files."""
    library = Path(sysconfig.get_paths()["stdlib"])
    yield "CPython's library", [path for path in sources(library) if "site-packages" not in path.parts]
    yield ", ".join(each.partition("==")[0] for each in PACKAGES), list(sources(chosen.packages or fetched(scratch)))
    if chosen.mirrors:
        yield "lock files", lock_files(chosen.mirrors, scratch)


def sources(folder: Path) -> Iterator[Path]:
    """Python files, in order."""
    yield from sorted(folder.rglob("*.py"))


def fetched(scratch: Path) -> Path:
    """The packages, fetched and unpacked."""
    folder = scratch / "packages"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PACKAGES]
    subprocess.run(command, check=True)
    return folder


def lock_files(mirrors: Path, scratch: Path) -> list[Path]:
    """The largest lock files at the heads of some repositories."""
    found: list[tuple[int, bytes, str]] = []
    for folder, folders, names in os.walk(mirrors):
        if "HEAD" in names and "objects" in folders:
            folders.clear()
            found += locks_of(Path(folder))
    kept = []
    for number, (_, data, name) in enumerate(sorted(found, reverse=True)[:LOCK_FILES_MAX]):
        kept.append(scratch / f"{number:02}-{name}")
        kept[-1].write_bytes(data)
    return kept


def locks_of(repository: Path) -> Iterator[tuple[int, bytes, str]]:
    """The lock files of one repository: size, content, name."""
    git = ["git", "--git-dir", str(repository)]
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "-z", "--name-only", "HEAD"], capture_output=True, check=False
    ).stdout
    for path in listed.decode("utf-8", "replace").split("\0"):
        name = path.rpartition("/")[2]
        if name in LOCK_FILES:
            data = subprocess.run([*git, "cat-file", "blob", f"HEAD:{path}"], capture_output=True, check=False).stdout
            if len(data) >= LOCK_BYTES_MIN:
                yield len(data), data, name


if __name__ == "__main__":
    main()
