"""The checks of `ctx doctor` that need no server: the machine, the workspace and the clients."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from context_engine import __version__
from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.client_config import ClientConfigState
from context_engine.cli.clients.config_paths import Machine
from context_engine.cli.clients.launch_command import PACKAGE, LaunchCommand
from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from context_engine.model import Status
from context_engine.repo import VERSION_MIN, Watcher, find_program, find_ripgrep, nearest_project
from context_engine.semantic import WITH_NEXT_RUN
from context_engine.server import CLIENT_VARIABLE
from context_engine.settings import CONFIG_FILE, Settings, list_settings, user_file
from context_engine.storage import is_network_drive, user_cache_folder
from context_engine.text import format_count

# -- check results -----------------------------------------------------------------------------------------------------

# The context that a check gets, and the results that it returns.

Verdict = Literal["ok", "warning", "problem"]
"""`warning`: it works, but not as well as it could. `problem`: something does not work."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report: the checked part, its state, and the next step if there is one."""

    part: str
    verdict: Verdict
    found: str
    step: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the fields for `--json`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """What to check: this machine, one workspace, and the named clients (none: all)."""

    machine: Machine
    env: Mapping[str, str]
    here: Path
    root: Path | None
    launch: LaunchCommand
    clients: tuple[str, ...] = ()


def ok(part: str, found: str, step: str = "") -> CheckResult:
    """Return a result for a part that works; it may have a step."""
    return CheckResult(part, "ok", found, step)


def warning(part: str, found: str, step: str) -> CheckResult:
    """Return a result for a part that works, but not well."""
    return CheckResult(part, "warning", found, step)


def problem(part: str, found: str, step: str) -> CheckResult:
    """Return a result for a part that does not work."""
    return CheckResult(part, "problem", found, step)


# -- local checks ------------------------------------------------------------------------------------------------------

# -- the machine ------------------------------------------------------------------------------------------------------

PACKAGES = {
    "apsw": "apsw",
    "filelock": "filelock",
    "httpx2": "httpx2",
    "jsonschema": "jsonschema",
    "mcp": "mcp",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "pathspec": "pathspec",
    "platformdirs": "platformdirs",
    "PyStemmer": "Stemmer",
    "PyYAML": "yaml",
    "rapidfuzz": "rapidfuzz",
    "rich": "rich",
    "semble-grammars": "semble_grammars",
    "tomlkit": "tomlkit",
    "tree-sitter": "tree_sitter",
    "typer": "typer",
    "watchfiles": "watchfiles",
    "xxhash": "xxhash",
}
"""The dependencies: package -> module."""
QUICKER = {"ahocorasick-rs": "ahocorasick_rs", "google-re2": "re2"}
"""Optional packages, which have no wheel on some systems."""
REINSTALL = f"Reinstall it: uv tool install --force {PACKAGE} (or pip install --force-reinstall {PACKAGE})."
TOOL_S_MAX = 5.0
"""`--version` takes milliseconds; a network drive that sleeps may take seconds."""
FREE_BYTES_LOW = 1_000_000_000
"""The index of a large repository has about 100 MB, and a rebuild needs twice that."""
FREE_BYTES_NONE = 100_000_000


def python(case: DoctorContext) -> Iterator[CheckResult]:  # noqa: ARG001 - all checks are called alike
    """Report the version, the interpreter and the system."""
    bits = "" if sys.maxsize > 2**32 else ", 32 bit"
    system = f"{platform.system()} {platform.release()} {platform.machine()}{bits}"
    yield ok("version", f"ctx {__version__}, Python {platform.python_version()} at {sys.executable}, {system}")


def command(case: DoctorContext) -> Iterator[CheckResult]:
    """Report how a client starts this `ctx`."""
    words, note = " ".join(case.launch.command_line), case.launch.note
    yield warning("command", words, f"{note[:1].upper()}{note[1:]}") if note else ok("command", words)


def packages(case: DoctorContext) -> Iterator[CheckResult]:  # noqa: ARG001 - all checks are called alike
    """Check that all dependencies can be imported, with their compiled parts."""
    broken = {name: why for name, module in PACKAGES.items() if (why := _not_imported(module))}
    for name, why in broken.items():
        yield problem(f"package {name}", why, REINSTALL)
    for name, module in QUICKER.items():
        if why := _not_imported(module):
            yield warning(f"package {name}", f"{why}; a slower search finds the same secrets", REINSTALL)
    if not broken:
        versions = ", ".join(f"{name} {_version(name)}" for name in ("apsw", "mcp", "numpy", "tree-sitter"))
        sqlite = importlib.import_module("apsw").sqlite_lib_version()
        yield ok("packages", f"all {len(PACKAGES)} can be imported: {versions}; SQLite {sqlite}")


def text_search(case: DoctorContext) -> Iterator[CheckResult]:
    """Report which engine searches text."""
    rg = find_ripgrep(case.env.get("PATH", ""), outside=case.root or "")
    if rg:
        yield ok("ripgrep", f"{_first_line([rg, '--version'])} at {rg}")
    else:
        needed = ".".join(map(str, VERSION_MIN))
        yield warning(
            "ripgrep",
            f"version {needed} or newer is not installed: a slower engine gives the same answers",
            "Install it: https://github.com/BurntSushi/ripgrep#installation, or pip install ripgrep.",
        )


def git(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that git exists and runs."""
    found = find_program("git", path=case.env.get("PATH", ""), outside=case.root or "")
    output = ""
    if found:
        output = _first_line([found, "--version"])
    if output.startswith("git version"):
        yield ok("git", f"{output} at {found}")
    else:
        why = "none on PATH: no history, no reviews of changes"
        if found:
            why = f"{found} does not run: {output}"
        yield warning("git", why, "Install git, or put it on the PATH of the program that starts ctx.")


def cache(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the index folder is writable and has free space."""
    folder = _cache_folder(case)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        step = "Give this user a folder to write to: CTX_CACHE_FOLDER=PATH, or cache_folder in the settings."
        yield problem("cache", f"{folder} cannot be written: {error.strerror or error}", step)
        return
    if is_network_drive(folder):
        step = "Set CTX_CACHE_FOLDER to a folder of this machine."
        yield warning("cache", f"{folder} is on a network drive, where an index may be damaged", step)
    space = f"{folder}, {free / 1e9:,.1f} GB free"
    if free < FREE_BYTES_NONE:
        yield problem("cache", space, "Free some space, or set CTX_CACHE_FOLDER to another disk.")
    elif free < FREE_BYTES_LOW:
        yield warning("cache", space, "Free some space before you index a large repository.")
    else:
        yield ok("cache", space)


def _cache_folder(case: DoctorContext) -> Path:
    """Return the cache folder of the settings, or the default if they cannot be read."""
    try:
        return Settings.load(case.root or case.here, case.env).cache_folder or user_cache_folder()
    except ContextEngineError:
        return user_cache_folder()


def _not_imported(module: str) -> str:
    """Return why a module cannot be imported; empty if it can. Compiled parts may raise any error."""
    try:
        importlib.import_module(module)
    except Exception as error:  # noqa: BLE001 - the report is what this is for
        return f"cannot be imported: {type(error).__name__}: {error}"
    return ""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"


def _first_line(words: Sequence[str]) -> str:
    """Return the first line that a program prints, or why it prints nothing."""
    try:
        return _run_program(words, TOOL_S_MAX).splitlines()[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"


def _run_program(words: Sequence[str], timeout_s: float) -> str:
    """Return what a program prints, or its exit code. Raises: OSError, TimeoutExpired."""
    done = subprocess.run(  # noqa: S603 - a program that was found on PATH, or the user's own entry
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
        env=dict(os.environ),
    )
    output = (done.stdout or done.stderr).decode("utf-8", "replace").strip()
    return output or f"exit code {done.returncode}"


# -- the workspace ----------------------------------------------------------------------------------------------------

NAME_A_ROOT = "Name a project's folder: --root PATH, or the variable CTX_ROOT."
STALE_MAX = 3
INOTIFY_LIMITS = ("max_user_watches", "max_user_instances")
"""Linux limits the watches (one per folder) and the instances (one per process)."""


def chosen_root(named: Path | None, case_env: dict[str, str], here: Path) -> tuple[Path | None, str]:
    """Return the workspace folder and the reason for it; None if there is none."""
    if named:
        return named.expanduser().absolute(), "named by --root"
    for variable in ("CTX_ROOT", CLIENT_VARIABLE):
        if value := case_env.get(variable, "").strip():
            return Path(value).expanduser().absolute(), f"named by {variable}"
    return nearest_project(here), f"the project around {here}"


def settings(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the settings are readable, and list their sources."""
    root = case.root or case.here
    try:
        loaded = Settings.load(root, case.env)
    except ContextEngineError as error:
        yield problem("settings", error.message.removeprefix("settings: "), error.suggestion)
        return
    for what, step in loaded.notes():
        yield warning("settings", what, step)
    variables = [f"CTX_{name.upper()}" for name in list_settings() if case.env.get(f"CTX_{name.upper()}")]
    files = [str(file) for file in (user_file(), root / CONFIG_FILE) if file.is_file()]
    yield ok("settings", " and ".join([*files, *variables]) or "the defaults")


def parsers(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that every parser of the engine loads."""
    folder = case.root or Path(__file__).parent  # any folder: none of its files is read
    with Engine.open(folder, settings=Settings(cache_folder=_cache_folder(case))) as engine:
        broken = engine.index.broken_parsers()
    for name, why in broken.items():
        yield problem(f"parser {name}", why, "Delete the folder `grammars` in the cache; it is unpacked again.")
    if not broken:
        yield ok("parsers", "all load")


def index(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the index is intact and current, and whether another process writes it."""
    if case.root is None:
        return
    with Engine.open(case.root, settings=Settings.load(case.root, case.env)) as engine:
        found = engine.index.find_problems(thorough=False)
        store, step = engine.index.store_problem, engine.index.store_step
        damage = [what for what in found if what != store]
        state = None if damage else engine.status()
        folder = engine.cache_folder
    if store:
        yield warning("store", f"{store}; answers come from the index of this machine", step)
    if state:
        yield _index_state(state, store)
    else:
        more = ""
        if len(damage) > 1:
            more = f", and {len(damage) - 1:,} more"
        yield problem("index", f"{damage[0]}{more}", "Rebuild it: ctx index --force.")
    yield from _writer(folder)


def meaning(case: DoctorContext) -> Iterator[CheckResult]:
    """Check the static vectors and the chosen embedding model."""
    if case.root is None:
        return
    with Engine.open(case.root, settings=Settings.load(case.root, case.env)) as engine:
        state = engine.status().embeddings
    if state.static not in ("ready", "off") and state.static != WITH_NEXT_RUN:
        yield problem("static vectors", state.static, "Install the package again: pip install --force-reinstall.")
    if not state.model:
        yield ok("meaning", f"static vectors {state.static}, no model chosen")
    elif ":" not in state.state:
        yield ok("meaning", f"static vectors {state.static}, {state.model} can be used")
    elif case.env.get("CTX_EMBEDDER"):
        yield warning("meaning", f"{state.model} {state.state}", state.suggestion)
    else:
        optional = f"{state.model}, a larger model, is optional"
        yield ok("meaning", f"static vectors {state.static}; {optional}", state.suggestion)


def watcher(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the system reports edits, by starting and stopping a watcher."""
    if case.root is None:
        return
    started = Watcher(case.root, lambda _: None)
    started.start()
    running, trouble = started.is_running, started.problem
    started.stop()
    limits = _inotify_limits()
    if trouble:
        step = "Searches check the files themselves instead; ctx index updates the index."
        if limits:
            step = f"Raise the limits ({limits}): sudo sysctl fs.inotify.max_user_watches=524288. {step}"
        yield warning("watcher", trouble, step)
    else:
        if running:
            state = "edits are followed"
        else:
            state = "still reading the folders of a large workspace"
        yield ok("watcher", f"{state}{f' ({limits})' if limits else ''}")


def _index_state(state: Status, store: str) -> CheckResult:
    if state.state == "absent":
        return warning("index", "none yet: the first question has to wait", "Build it: ctx index.")
    contents = f"{format_count(state.files, 'file')}, {format_count(state.chunks, 'chunk')}, of {state.indexed_at}"
    if state.last_error and state.last_error != store:
        step = "Run ctx index and read what it says."
        return warning("index", f"{contents}; the last run failed: {state.last_error}", step)
    if state.stale:
        named = ", ".join(state.stale[:STALE_MAX]) + (", ..." if len(state.stale) > STALE_MAX else "")
        step = "A server follows edits by itself; ctx index does it now."
        return ok("index", f"{contents}; {len(state.stale):,} edited since: {named}", step)
    return ok("index", f"{contents}, current")


def _writer(folder: Path) -> Iterator[CheckResult]:
    """Check whether another process has the writer's lock.

    A file without a lock does not count: the system frees the lock of a process that ends.
    """
    file = folder / "writer.lock"
    if not file.exists():
        return
    try:
        with FileLock(file, timeout=0):
            pass
    except Timeout:
        step = "Searches work meanwhile. If it lasts for minutes, end the other ctx process."
        yield ok("lock", f"another process is indexing ({file})", step)
    except OSError as error:
        yield problem("lock", f"{file}: {error.strerror}", "Check the owner of the index folder.")


def _inotify_limits() -> str:
    """Format the limits of this system; empty if there are none."""
    limits = []
    for name in INOTIFY_LIMITS:
        file = Path("/proc/sys/fs/inotify", name)
        if file.is_file():
            limits.append(f"{name} {int(file.read_text()):,}")
    return ", ".join(limits)


# -- the clients ------------------------------------------------------------------------------------------------------

RUN_S_MAX = 10.0
"""`ctx --version` takes 20 ms, but the first start after an installation compiles all files."""
RUNNERS = ("uvx", "uv", "pipx")
"""These may install packages before they run, which a check must not do."""


def clients(case: DoctorContext) -> Iterator[CheckResult]:
    """Yield a result for each client that is installed or named."""
    for client in map(client_table.find_client, case.clients) if case.clients else client_table.ALL:
        known = list(client_config.list_config_states(case.machine, case.root, (client,)))
        results = [result for state in known for result in _check_entry(state, case)]
        yield from results
        if results:
            continue
        step = f"ctx setup {client.name}"
        if case.clients:
            yield problem(client.name, f"ctx is not set up in {client.title}", step)
        elif client_config.is_installed(client, case.machine):
            yield ok(client.name, f"{client.title} is installed, and ctx is not set up in it", step)


def _check_entry(state: ClientConfigState, case: DoctorContext) -> Iterator[CheckResult]:
    """Yield the results about one settings file; none if it does not mention ctx."""
    client, path = state.client, state.path
    if state.problem:
        step = f"Fix it; {client.title} cannot read it either, or ignores the rest."
        yield problem(client.name, f"{path}: {state.problem}", step)
    elif state.entry is not None:
        words = client_config.command_line_of(state.entry)
        is_tried = not _is_runner(words) and (state.scope != client_config.PROJECT or _is_this_program(words, case))
        why = not_runnable(words, is_tried=is_tried) or _missing_root(words)
        again = f"Rewrite the entry: ctx setup {client.name}{_options(state)}"
        if is_tried:
            untried = ""
        else:
            untried = f", through {Path(words[0]).stem}, which was not tried"
        found = f"set up for {state.scope} in {path}{untried}"
        yield problem(client.name, f"{found}, but {why}", again) if why else ok(client.name, found)


def not_runnable(words: Sequence[str], *, is_tried: bool = True) -> str:
    """Return why a command line does not start `ctx`; empty if it does, or if it exists and must not be tried."""
    command = words[0] if words else ""
    found = find_program(command)
    if not found:
        if Path(command).is_absolute():
            return f"there is no program {command}"
        return f"{command} is not on the PATH"
    if not is_tried:
        return ""
    try:
        output = _run_program([found, *_before_serve(words)[1:], "--version"], RUN_S_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command} does not run: {error}"
    if output.startswith("ctx "):
        return ""
    return f"{command} is not ctx: {output[-200:]}"


def _is_this_program(words: Sequence[str], case: DoctorContext) -> bool:
    """Whether a command line starts this very program: a project's file may come from anyone, so others are not run."""
    before = _before_serve(words)
    alone = None
    if len(before) == 1:
        alone = Path(find_program(before[0], outside=case.root or "")).resolve()
    return tuple(before) == case.launch.command_line or (
        not case.launch.args and alone == Path(case.launch.command).resolve()
    )


def _before_serve(words: Sequence[str]) -> Sequence[str]:
    if "serve" in words:
        return words[: words.index("serve")]
    return words[:1]


def _is_runner(words: Sequence[str]) -> bool:
    return bool(words) and Path(words[0]).stem in RUNNERS


def _missing_root(words: Sequence[str]) -> str:
    """Return which named folder does not exist. Only the client knows the value of `${...}`."""
    named = [value for option, value in pairwise(words) if option == "--root" and not value.startswith("${")]
    gone = [value for value in named if not Path(value).is_dir()]
    if gone:
        return f"there is no folder {gone[0]}"
    return ""


def _options(state: ClientConfigState) -> str:
    """Return the options of `ctx setup` that write the same file."""
    named = " --root PATH" if state.client.needs_root else ""
    if state.scope == client_config.PROJECT:
        return f" --project{named}"
    return named
