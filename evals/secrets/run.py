"""How many secrets are found and how much of them leaks, how often code is taken for one, and how fast: beside detect-secrets.

    python evals/secrets/run.py --mirrors DIR                      everything; DIR holds git directories: lock files, repositories
    python evals/secrets/run.py --mirrors DIR --packages DIR       three packages that lie there unpacked, instead of fetching them
    python evals/secrets/run.py --without-peer --show              our alarms alone, each with its line

Secrets are drawn anew from the notation of our rules, from `writings.py` and from `tests/support/secret_formats.py`.
Everything in CPython's library, the packages and the lock files is taken for an alarm that is false, and so is
everything in the repositories but private keys, which are counted apart: their tests hold real ones. Times are those of
the processor, on one core.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.secrets import RedactionOptions
from context_engine.secrets.redacted_text import redact_keyed
from context_engine.secrets.secret_finder import find_secrets
from context_engine.secrets.secret_rules import builtin_rules
from context_engine.secrets.verifiers import kind_of
from evals.secrets.writings import written
from tests.support.secret_examples import drawn
from tests.support.secret_formats import PLACE_FORMATS, TOKEN_FORMATS, SecretFormat

PACKAGES = ("Django==5.2", "botocore==1.40.0", "sympy==1.14.0")
LOCK_FILES = frozenset(
    (
        *("package-lock.json", "yarn.lock", "pnpm-lock.yaml", "Cargo.lock", "Gemfile.lock", "poetry.lock", "go.sum"),
        *("composer.lock", "uv.lock", "Pipfile.lock", "packages.lock.json", "Podfile.lock", "flake.lock", "mix.lock"),
        *("npm-shrinkwrap.json", "gradle.lockfile", "Package.resolved"),
    )
)
TUNED = (
    *(
        "traefik+traefik",
        "laravel+framework",
        "expressjs+express",
        "celery+celery",
        "dotnet+eShop",
        "gin-gonic+gin",
        "sidekiq+sidekiq",
    ),
    *(
        "fastapi+full-stack-fastapi-template",
        "minio+minio",
        "ansible+ansible",
        "pallets+flask",
        "docker+awesome-compose",
    ),
    *("jekyll+jekyll", "redis+redis", "trpc+trpc", "streamlink+streamlink", "cli+cli", "FasterXML+jackson-databind"),
    *("nats-io+nats-server", "beetbox+beets", "honojs+hono", "aio-libs+aiohttp", "composer+composer"),
)
"""Repositories whose alarms were looked at when the rules of replies were written."""
KEPT_APART = (
    *(
        "spring-projects+spring-boot",
        "apache+kafka",
        "helm+helm",
        "tokio-rs+tokio",
        "vuejs+core",
        "pypa+pip",
    ),
    *("hashicorp+consul-template", "symfony+demo", "encode+httpx", "psf+requests"),
    *("pallets+click", "rails+thor", "pypa+pipx", "pre-commit+pre-commit", "spf13+cobra", "guzzle+psr7"),
    *("go-task+task", "locustio+locust", "mikefarah+yq", "phoenixframework+phoenix", "koajs+koa"),
)
"""Repositories whose alarms were only counted."""
FILE_BYTES_MAX = 2_000_000
BINARY_BYTES = 8_000
"""A file with a zero in its first bytes is no text, as git has it."""
KEYS = frozenset(("private-key", "putty-private-key"))
LOCK_FILES_MAX = 20
LOCK_BYTES_MIN = 2_000
DRAWS = 20
PEER_EVERY = 25
"""The peer reads some kilobytes a millisecond less than we do: of the code it gets one file in so many."""
PEER_CASES_EVERY = 10
HALVED_CHARS_MIN = 8
"""Half of a shorter secret stands in a label by chance."""
Find = Callable[[str, str], Sequence[str]]
"""The secrets of a text, as they stand in it, by its text and its path."""
Case = tuple[str, str, str]
"""A text, the secret in it, the path of its file."""
File = tuple[str, str]
"""A path and a text."""


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


@dataclass
class Repository:
    """What replies mask in the files of a repository, and in those that are code."""

    size: int = 0
    alarms: int = 0
    keys: int = 0
    code_size: int = 0
    code_alarms: int = 0

    def add(self, other: Repository) -> None:
        """Add what came of other files."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self, name: str) -> str:
        """A row of the table."""
        megabytes, of_code = self.size / 1e6, max(1, self.code_size) / 1e6
        rate, code_rate = self.alarms / megabytes, self.code_alarms / of_code
        return f"| {name} | {megabytes:.1f} | {self.alarms} | {rate:.2f} | {self.keys} | {self.code_alarms} | {code_rate:.2f} |"


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
    sets = {
        "the rules' own examples": list(examples()),
        "whatever is written down": [(text, secret, "") for text, secret in written()],
        "tokens with a prefix": list(formats(TOKEN_FORMATS)),
        "files of settings and others": list(formats(PLACE_FORMATS)),
        "the same, path unknown": [(text, secret, "") for text, secret, _ in formats(PLACE_FORMATS)],
    }
    for name, cases in sets.items():
        for reader, look in OURS.items():
            print(told(name, reader, cases, look))
        if peer:
            print(told(name, "detect-secrets", cases[::PEER_CASES_EVERY], peer))
    print("\n| code | reader | files | MB | alarms | a MB | MB/s |\n| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as scratch:
        for name, files in corpora(chosen, Path(scratch)):
            alarms(name, files, peer, show=chosen.show)
    if chosen.mirrors:
        print(
            "\n| repositories | MB | alarms | a MB | private keys | of code | a MB of code |\n| --- | --- | --- | --- | --- | --- | --- |"
        )
        for name, folders in (("rules were tuned on these", TUNED), ("kept apart", KEPT_APART)):
            repositories(name, [chosen.mirrors / folder for folder in folders], show=chosen.show)


def repositories(name: str, folders: Sequence[Path], *, show: bool) -> None:
    """Rows for the replies of some repositories, and one for all of them."""
    total = Repository()
    for folder in folders:
        one = Repository()
        for path, text in texts_of(folder):
            size = len(text.encode("utf-8", "replace"))
            found = find_secrets(text, "reply", path=path)
            alarms = [each for each in found if each.rule not in KEYS]
            is_code = kind_of(path) == "code"
            one.add(Repository(size, len(alarms), len(found) - len(alarms), size * is_code, len(alarms) * is_code))
            if show:
                for each in alarms:
                    print(
                        f"    {folder.name}/{path}:{each.line}: {each.rule}: {text[each.start : each.stop][:80]!r}",
                        file=sys.stderr,
                    )
        if one.size:
            print(one.row(folder.name), flush=True)
            total.add(one)
    if total.size:
        print(total.row(f"**{name}**"))


def alarms(name: str, files: Sequence[File], peer: Find | None, *, show: bool) -> None:
    """Rows for one body of code, read in both modes and by the peer."""
    readers: list[tuple[str, Find, Sequence[File]]] = [(reader, look, files) for reader, look in OURS.items()]
    if peer:
        readers.append(("detect-secrets", peer, files[:: PEER_EVERY if len(files) > LOCK_FILES_MAX else 1]))
    for reader, look, some in readers:
        tally = read(some, look)
        print(tally.row(name, reader), flush=True)
        if show and look is not peer:
            print("\n".join(f"    {alarm}" for alarm in tally.alarms), file=sys.stderr)


def read(files: Iterable[File], look: Find) -> Tally:
    """Every alarm in some files, and the time of the processor that it took."""
    tally = Tally()
    for path, text in files:
        began = time.process_time()
        found = look(text, path)
        tally.took_s += time.process_time() - began
        tally.files += 1
        tally.size += len(text.encode("utf-8", "replace"))
        tally.alarms += [f"{path}: {secret[:80]}" for secret in found]
    return tally


# -- what reads -------------------------------------------------------------------------------------------------------


def in_broad(text: str, path: str) -> list[str]:
    """What we take out of texts that are kept or sent."""
    return [text[each.start : each.stop] for each in find_secrets(text, path=path)]


def in_replies(text: str, path: str) -> list[str]:
    """What we mask in replies."""
    return [text[start:stop] for each in find_secrets(text, "reply", path=path) for start, stop in each.parts]


def in_strict(text: str, path: str) -> list[str]:
    """What a shape of its own gives away: all that replies were masked by up to version 0.1."""
    return [text[each.start : each.stop] for each in find_secrets(text, "strict", path=path)]


OURS = {"ours, broad": in_broad, "ours, replies": in_replies, "ours, strict": in_strict}


def peer_reader() -> Find:
    """detect-secrets with the settings it comes with, network checks off."""
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings

    def look(text: str, path: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder, default_settings() as settings:
            settings.disable_filters("detect_secrets.filters.common.is_ignored_due_to_verification_policies")
            file = Path(folder) / (Path(path).name or "read.txt")
            file.write_text(text, encoding="utf-8")
            return [each.secret_value or "" for each in scan_file(str(file))]

    return look


# -- what is read -----------------------------------------------------------------------------------------------------


def formats(each: Mapping[str, SecretFormat]) -> Iterator[Case]:
    """Formats of secrets in files of their kind, drawn anew."""
    for one in each.values():
        for draw in range(DRAWS):
            text, secret = one.draw(f"eval {draw}")
            yield text, secret, one.path


def examples() -> Iterator[Case]:
    """The examples of our rules, drawn anew, and what of each must go."""
    for rule in builtin_rules().rules:
        for example in rule.examples:
            for draw in range(DRAWS):
                told = drawn(example, f"eval {draw}")
                yield told.text, max(told.parts, key=len), rule.words[0] if rule.place == "file" else ""


def told(name: str, reader: str, cases: Sequence[Case], look: Find) -> str:
    """A row: the share of cases in which something is found, and in which half of the secret or more is left."""
    found = leaked = 0
    for text, secret, path in cases:
        secrets = look(text, path)
        found += bool(secrets)
        left = (
            without(text, secrets)
            if look is not in_broad
            else redact_keyed(text, b"eval", RedactionOptions(), path=path).text
        )
        half = len(secret) // 2 if len(secret) >= HALVED_CHARS_MIN else len(secret)
        leaked += secret[:half] in left or secret[-half:] in left
    return f"| {name} | {reader} | {len(cases)} | {found / len(cases):.3f} | {leaked / len(cases):.3f} |"


def without(text: str, secrets: Sequence[str]) -> str:
    """The text with what was found taken out."""
    for secret in secrets:
        text = text.replace(secret, "") if secret else text
    return text


def corpora(chosen: argparse.Namespace, scratch: Path) -> Iterator[tuple[str, list[File]]]:
    """Bodies of code without secrets: their names and files."""
    library = Path(sysconfig.get_paths()["stdlib"])
    yield "CPython's library", [as_file(path) for path in sources(library) if "site-packages" not in path.parts]
    packages = sources(chosen.packages or fetched(scratch))
    yield ", ".join(each.partition("==")[0] for each in PACKAGES), [as_file(path) for path in packages]
    if chosen.mirrors:
        yield "lock files", [as_file(path) for path in lock_files(chosen.mirrors, scratch)]


def as_file(path: Path) -> File:
    """A file with its text."""
    return path.name, path.read_text(encoding="utf-8", errors="replace")


def texts_of(repository: Path) -> Iterator[File]:
    """The text files at the head of a repository; none where there is no such repository."""
    folder = next((path for path in (repository, repository / "repo") if (path / "HEAD").is_file()), None)
    if folder is None:
        return
    git = ["git", "--git-dir", str(folder)]
    listed = subprocess.run([*git, "ls-tree", "-r", "-z", "HEAD"], capture_output=True, check=True).stdout
    rows = [row.partition("\t") for row in listed.decode("utf-8", "replace").split("\0") if " blob " in row]
    asked = "".join(f"{row[0].split()[2]}\n" for row in rows if not row[0].startswith("120000")).encode()
    paths = [path for row, _, path in rows if not row.startswith("120000")]
    answer = io.BytesIO(
        subprocess.run([*git, "cat-file", "--batch"], input=asked, capture_output=True, check=False).stdout
    )
    for path in paths:
        _, _, size = answer.readline().decode().partition(" blob ")
        # A snapshot may lack its largest files.
        data = answer.read(int(size) + 1)[:-1] if size else b"\0"
        if len(data) <= FILE_BYTES_MAX and b"\0" not in data[:BINARY_BYTES]:
            yield path, data.decode("utf-8", "replace")


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
