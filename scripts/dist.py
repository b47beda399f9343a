"""Build what is given away, and prove that it installs and works on a machine without a compiler.

    python scripts/dist.py                  every step, in order; the results lie in dist/, the work in build/dist/
    python scripts/dist.py build wheel      only these steps; each needs what those before it made

It needs the extra `dist`, git, and the network for packages; two steps need npm and are left out without it, which the
last lines say. The exit code is 0 when no step failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import venv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from scripts import packages  # noqa: E402 - a script finds its neighbors only now
from scripts.packages import facts  # noqa: E402

PACKAGING = ROOT / "packaging"
DIST = ROOT / "dist"
WORK = ROOT / "build" / "dist"
HERE = Path(sys.executable).parent

PLATFORMS = (
    *("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin", "x86_64-apple-darwin"),
    "x86_64-pc-windows-msvc",
)
"""The systems that docs/guides/install.md names."""
PYTHONS = ("3.11", "3.14")  # the oldest we take and the newest there is
MCPB = "@anthropic-ai/mcpb@2.1.2"  # the first series with a schema for manifest 0.4 and its `uv` servers
PATIENCE_S = 120.0  # a cold first import on a busy machine of two cores takes some ten seconds
LEAVES_WITHIN_S = 5.0  # the server promises two; a busy machine may take longer to notice

PROJECT = {
    "pyproject.toml": '[project]\nname = "till"\nversion = "1"\n',
    "till/retry.py": '"""When a failed payment is tried again."""\n\n\ndef delay_s(attempt: int) -> float:\n'
    '    """Seconds to wait before the next attempt: doubled each time."""\n    return 2.0**attempt\n',
    "till/receipt.py": 'def render(lines: list[str]) -> str:\n    return "\\n".join(lines)\n',
}
"""The small repository on which an installed `ctx` has to do its main job."""


class StepError(Exception):
    """A step did not prove what it is there for."""


class MissingProgramError(Exception):
    """A step needs a program that is not on this machine."""


def main(argv: Sequence[str]) -> int:
    """Sync, or run the steps asked for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"any of: {', '.join(STEPS)} (default: all)")
    asked = parser.parse_args(argv)
    if unknown := [name for name in asked.steps if name not in STEPS]:
        parser.error(f"no step called {', '.join(unknown)}; there are {', '.join(STEPS)}")
    return run([name for name in STEPS if name in asked.steps or not asked.steps])


def run(names: Iterable[str]) -> int:
    """Run the steps one after the other and say what each has shown; 0 when none failed."""
    outcome: dict[str, str] = {}
    failed = False
    for name in names:
        print(f"== {name}", flush=True)
        try:
            outcome[name] = STEPS[name]()
        except MissingProgramError as reason:
            outcome[name] = f"LEFT OUT: {reason}"
        except (StepError, OSError, subprocess.SubprocessError) as error:
            failed = True
            outcome[name] = f"FAILED: {error}"
    for name, line in outcome.items():
        print(f"{name:10} {line}")
    return 1 if failed else 0


# -- the steps ----------------------------------------------------------------------------------------------------


def documents() -> str:
    """Nothing in packaging/ or in the lock file is older than what it repeats."""
    if old := packages.find_stale():
        raise StepError(f"out of date: {', '.join(old)}; run `make packages`")
    tool("uv", "lock", "--check", "--quiet")
    command([sys.executable, str(ROOT / "scripts" / "supply.py"), "export", "--check"])
    return "packaging/ and uv.lock say what pyproject.toml says"


def sbom() -> str:
    """Write the list of all components of a release, with the hashes of their files."""
    return command([sys.executable, str(ROOT / "scripts" / "supply.py"), "sbom"]).strip()


def build() -> str:
    """The sdist, and the wheel from the sdist, so that a file missing there is noticed here."""
    fresh(DIST)
    tool("pyproject-build", "--outdir", str(DIST))
    tool("twine", "check", "--strict", str(made("*.whl")), str(made("*.tar.gz")))
    tool("check-wheel-contents", "--package", "context_engine", str(made("*.whl")))
    return f"{made('*.whl').name} and {made('*.tar.gz').name}; their metadata and contents are sound"


def platforms() -> str:
    """Every dependency has a wheel on every system that we name."""
    for platform in PLATFORMS:
        for python in PYTHONS:
            target = ("--python-platform", platform, "--python-version", python)
            tool("uv", "pip", "compile", "--quiet", "--only-binary", ":all:", *target, "--no-header", "pyproject.toml")
    return f"wheels for all dependencies on {', '.join(PLATFORMS)}, Python {' and '.join(PYTHONS)}"


def wheel() -> str:
    """Fetched once, installed without a network, used without a compiler."""
    store = fresh(WORK / "wheelhouse")
    python = environment("wheel")
    pip(python, "download", "--only-binary", ":all:", "--dest", str(store), str(made("*.whl")))
    pip(python, "install", "--no-index", "--find-links", str(store), facts().package)
    works([str(python.with_name("ctx"))], bare("wheel"))
    works([str(python.with_name(facts().package))], bare("wheel"))  # the same under the name that uvx runs
    return (
        "installed offline from wheels alone; index, search, read and serve work, and the server leaves with its client"
    )


def sdist() -> str:
    """Installed without a compiler, used; and the tests that come along pass."""
    python = environment("sdist")
    pip(python, "install", "--only-binary", ":all:", str(made("*.tar.gz")))
    works([str(python.with_name("ctx"))], bare("sdist"))
    return "installed from source without a compiler; index, search, read and serve work"


def tests() -> str:
    """The quick tests of the sdist, in the sdist, on its own code."""
    folder = unpacked(WORK / "source")
    quick = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider"]
    command(quick, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)})
    return "the tests in the sdist pass from there"


def registry() -> str:
    """server.json against the registry's schema, the plugins and their skill against the rules of their formats."""
    built = packages.build(fresh(WORK / "registry"))[1].parent
    for folder in (
        built,
        PACKAGING,
        *((PACKAGING / "clients" / name) for name in ("claude", "codex", "cursor", "gemini")),
    ):
        tool("skillsaw", "lint", "--strict", "--no-progress", str(folder))
    return "server.json keeps to schema 2025-12-11; plugins and skill are well-formed"


def plugin() -> str:
    """Claude Code finds the plugin valid, installs it, and reaches the server that it starts."""
    claude = str(npm(claude_code()) / "claude")
    home = fresh(WORK / "plugin")
    env = bare("plugin") | {"PATH": f"{WORK / 'wheel' / 'bin'}:{bare('plugin')['PATH']}", "DISABLE_AUTOUPDATER": "1"}
    env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
    project = small_repository(home / "project")
    for asked in (
        ("plugin", "validate", "--strict", str(ROOT)),
        ("plugin", "validate", "--profile", "directory", str(PACKAGING / "clients" / "claude")),
        ("plugin", "marketplace", "add", str(ROOT)),
        ("plugin", "install", "ctx@context-engine"),
    ):
        command([claude, *asked], cwd=project, env=env)
    told = command([claude, "mcp", "list"], cwd=project, env=env)
    if not any("plugin:ctx:ctx" in line and "Connected" in line for line in told.splitlines()):
        raise StepError(f"claude mcp list does not show the server as connected: {told}")
    return "claude plugin validate, marketplace add and install pass, and claude mcp list shows the server connected"


def extension() -> str:
    """The desktop extension: built twice alike, read by the tool of its format, started as its manifest says."""
    mcpb = str(npm(MCPB) / "mcpb")
    home = fresh(WORK / "extension")
    packed, entry = packages.build(DIST)
    if packed.read_bytes() != packages.pack_bundle(facts()):
        raise StepError(f"{packed.name} is not the same when it is built again")
    command([mcpb, "unpack", str(packed), str(home / "unpacked")])
    command([mcpb, "validate", str(home / "unpacked" / "manifest.json")])
    converse(*as_the_host_starts_it(home))
    return f"mcpb unpack and validate pass; {packed.name} serves through uv, and {entry.name} has its hash"


def image() -> str:
    """The Dockerfile, read by its linter; building it needs a docker daemon."""
    tool("hadolint", str(PACKAGING / "Dockerfile"))
    return "hadolint finds nothing (the image itself is not built here)"


STEPS: dict[str, Callable[[], str]] = {
    each.__name__: each
    for each in (documents, build, sbom, platforms, wheel, sdist, tests, registry, plugin, extension, image)
}


# -- the main job -------------------------------------------------------------------------------------------------


def works(ctx: Sequence[str], env: Mapping[str, str]) -> None:
    """An installed `ctx` says its version, indexes, finds, reads and serves. Raises: StepError."""
    project = small_repository(Path(env["HOME"]) / "project")
    at = ("--root", str(project))
    reads = ("call", "read_file", '{"path": "till/retry.py"}')
    for asked, expected in (
        (("--version",), f"ctx {facts().version}"),
        (("index", str(project)), ""),
        (("search", "how long to wait before a payment is tried again", *at), "till/retry.py"),
        ((*reads, *at), "2.0**attempt"),
    ):
        told = command([*ctx, *asked], env=env, cwd=project)
        if expected not in told:
            raise StepError(f"{' '.join([Path(ctx[0]).name, *asked])} does not say {expected!r}: {told}")
    converse([*ctx, "serve", *at], env, project)


def converse(server: Sequence[str], env: Mapping[str, str], project: Path) -> None:
    """What a client does: greet, list, call, hang up; the server must leave by itself. Raises: StepError."""
    log = WORK / "server.log"
    with log.open("w", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=dict(env), cwd=project
        )
    patience = threading.Timer(PATIENCE_S, process.kill)
    patience.start()
    with process:
        try:
            tools, answer = session(process)
            code = process.wait(LEAVES_WITHIN_S)
        except (StepError, subprocess.TimeoutExpired) as error:
            raise StepError(f"{error}; its log: {log.read_text(encoding='utf-8')}") from error
        finally:
            patience.cancel()
            process.kill()
    if missing := {name for name, _ in facts().tools} - tools:
        raise StepError(f"tools/list does not name {', '.join(sorted(missing))}")
    if "2.0**attempt" not in answer or code:
        raise StepError(f"exit code {code} after {answer!r}")


def session(server: subprocess.Popen[bytes]) -> tuple[set[str], str]:
    """The names of the tools it lists, and the text of one answer; ends with the end of its input."""
    assert server.stdin
    assert server.stdout
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "dist", "version": "0"}}
    ask(server.stdin, server.stdout, 1, "initialize", client)
    tell(server.stdin, {"method": "notifications/initialized"})
    tools = ask(server.stdin, server.stdout, 2, "tools/list", {})["tools"]
    call = {"name": "read_file", "arguments": {"path": "till/retry.py"}}
    answer = ask(server.stdin, server.stdout, 3, "tools/call", call)
    server.stdin.close()
    return {tool["name"] for tool in tools}, answer["content"][0]["text"]


def ask(to: IO[bytes], back: IO[bytes], number: int, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """One request, and its result. Raises: StepError, when the server refuses or is gone."""
    tell(to, {"id": number, "method": method, "params": params})
    for line in back:
        message = json.loads(line)
        if message.get("id") == number and "result" in message:
            return message["result"]
        if message.get("id") == number:
            raise StepError(f"{method} is answered with {line!r}")
    raise StepError(f"the server went away before it answered {method}")


def tell(to: IO[bytes], message: Mapping[str, Any]) -> None:
    """One message, on one line."""
    to.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    to.flush()


def as_the_host_starts_it(home: Path) -> tuple[list[str], dict[str, str], Path]:
    """Command line, environment and project for the unpacked extension, filled in as a desktop client does."""
    project, folder = small_repository(home / "project"), home / "unpacked"
    server = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["server"]["mcp_config"]
    values = {"${__dirname}": str(folder), "${user_config.project}": str(project)}
    uv = {"UV_PYTHON": sys.executable, "UV_CACHE_DIR": str(WORK / "uv-cache")}
    network = {name: value for name, value in os.environ.items() if not name.startswith(("CTX_", "PYTHON", "VIRTUAL_"))}
    env = {**network, **bare("extension"), **uv}
    return [str(HERE / server["command"]), *(values.get(word, word) for word in server["args"])], env, project


def small_repository(folder: Path) -> Path:
    """A git work tree of three files."""
    for name, text in PROJECT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    command(["git", "init", "--quiet", str(folder)])
    return folder


# -- machines and programs ----------------------------------------------------------------------------------------


def environment(name: str) -> Path:
    """The Python of a new virtual environment in the work folder."""
    venv.create(fresh(WORK / name), with_pip=True)
    return WORK / name / "bin" / "python"


def bare(name: str) -> dict[str, str]:
    """The environment of a machine with git and nothing else: no compiler, no settings, a home of its own."""
    programs, home = WORK / "programs", WORK / name / "home"
    programs.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    git = shutil.which("git")
    if not git:
        raise MissingProgramError("git is not here")
    if not (programs / "git").exists():
        (programs / "git").symlink_to(git)
    return {"PATH": str(programs), "HOME": str(home), "LANG": "C.UTF-8"}


def pip(python: Path, *asked: str) -> None:
    """Pip of an environment, with the settings of who calls us and a PATH on which there is no compiler."""
    env = {**os.environ, "PATH": f"{python.parent}:{bare(python.parents[1].name)['PATH']}"}
    command([str(python), "-m", "pip", asked[0], "--quiet", "--disable-pip-version-check", *asked[1:]], env=env)


def npm(package: str) -> Path:
    """The folder with the programs of a package from npm, installed into the work folder."""
    program = shutil.which("npm")
    if not program:
        raise MissingProgramError("npm is not here")
    folder = WORK / "npm" / package.rpartition("@")[0].rpartition("/")[2]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    command([program, "install", "--silent", "--no-fund", "--no-audit", package], cwd=folder)
    return folder / "node_modules" / ".bin"


def claude_code() -> str:
    """The release of Claude Code that the tests with real clients use."""
    agents = ROOT / "tests" / "clients" / "npm" / "agents" / "package.json"
    release = json.loads(agents.read_text(encoding="utf-8"))["dependencies"]["@anthropic-ai/claude-code"]
    return f"@anthropic-ai/claude-code@{release}"


def tool(name: str, *asked: str) -> str:
    """A program of the extra `dist`, run at the root of the repository."""
    program = HERE / name
    if not program.exists():
        raise StepError(f"{name} is not installed; run `{sys.executable} -m pip install -e '.[dist]'`")
    return command([str(program), *asked], cwd=ROOT)


def command(words: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run it; what it wrote to stdout. Raises: StepError, with all that it said."""
    done = subprocess.run(
        words, cwd=cwd, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        name = " ".join([Path(words[0]).name, *words[1:]])
        raise StepError(f"{name} (exit code {done.returncode})\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def made(pattern: str) -> Path:
    """The one file in dist/ of that pattern. Raises: StepError."""
    found = sorted(DIST.glob(pattern))
    if len(found) != 1:
        raise StepError(f"dist/ holds {len(found)} files like {pattern}; run the step `build`")
    return found[0]


def unpacked(folder: Path) -> Path:
    """The content of the sdist, in a new folder."""
    with tarfile.open(made("*.tar.gz")) as archive:
        archive.extractall(fresh(folder), filter="data")
    return next(folder.iterdir())


def fresh(folder: Path) -> Path:
    """An empty folder of that name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
