"""`ctx doctor`: check every part of the installation, and say what to do about each problem.

A check is a small function from a `DoctorContext` to results; `CHECKS` has them in report order.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import packages_distributions, requires
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from context_engine import __version__, repo
from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.client_config import ClientConfigState
from context_engine.cli.clients.client_table import Machine
from context_engine.cli.clients.launch_command import PACKAGE, LaunchCommand, find_own_launch_command
from context_engine.cli.hook_command import is_trusted
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import ROOT_VARIABLE, resolve_root
from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from context_engine.repo import VERSION_MIN, Watcher, check_workspace_root, find_program, find_ripgrep, nearest_project
from context_engine.search import WITH_NEXT_RUN
from context_engine.settings import Settings
from context_engine.storage import (
    ConfinedFolder,
    close_to_others,
    find_network_drive,
    make_private_folder,
    user_cache_folder,
    user_data_folder,
)
from context_engine.text import format_count

NAME_A_ROOT = "Name a project's folder: --root PATH, or the variable CTX_ROOT."
REINSTALL = f"Install ctx again. In a clone of its repository: {repo.pip_install()} --force-reinstall ."
FREE_BYTES_LOW = 1_000_000_000
"""The index of a large repository has about 100 MB, and a rebuild needs twice that."""
RUN_S_MAX = 10.0
CACHE_FOLDERS = ("workspaces", "clones", "grammars", "histories", "vectors", "scratch")
"""What is ours in a cache folder that the user named: there may be other things in it."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of the report: the checked part, its state, and the next step if there is one."""

    verdict: Literal["ok", "warning", "problem"]
    part: str
    found: str
    step: str = ""


ok, warning, problem = (partial(CheckResult, verdict) for verdict in ("ok", "warning", "problem"))


@dataclass(frozen=True, slots=True)
class DoctorContext:
    """The things to check: this machine, one workspace, and the named clients (none: all)."""

    machine: Machine
    env: Mapping[str, str]
    here: Path
    root: Path | None
    launch: LaunchCommand
    clients: tuple[str, ...] = ()


# -- the machine ------------------------------------------------------------------------------------------------------


def packages(case: DoctorContext) -> Iterator[CheckResult]:  # noqa: ARG001 - all checks are called alike
    """Check that all dependencies can be imported, with their compiled parts."""
    needed = {re.split(r"[^\w.-]", line)[0].lower() for line in requires(PACKAGE) or () if "extra ==" not in line}
    broken = {}
    for module, owners in packages_distributions().items():
        if module.startswith("_") or not needed & {owner.lower() for owner in owners}:
            continue
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - compiled parts may raise any error
            broken[module] = f"cannot be imported: {type(error).__name__}: {error}"
    for module, why in broken.items():
        yield problem(f"package {module}", why, REINSTALL)
    if not broken:
        yield ok("packages", f"{len(needed)} packages can be imported")


def programs(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that ripgrep and git are there."""
    path, outside = case.env.get("PATH", ""), case.root or ""
    rg = find_ripgrep(path, outside=outside)
    found = f"no version {'.'.join(map(str, VERSION_MIN))} or newer: a slower engine gives the same answers"
    step = "Install it: https://github.com/BurntSushi/ripgrep#installation."
    yield ok("ripgrep", str(rg)) if rg else warning("ripgrep", found, step)
    git = find_program("git", path=path, outside=outside)
    why = "none on PATH: no history, no reviews of changes"
    if git:
        done = subprocess.run(  # noqa: S603 - found on PATH, outside of the workspace
            [git, "--version"], capture_output=True, text=True, timeout=RUN_S_MAX, check=False
        )
        is_git = done.stdout.startswith("git version")
        why = "" if is_git else f"{git} does not run: {done.stderr.strip() or done.stdout}"
    step = "Install git, or put it on the PATH of the program that starts ctx."
    yield warning("git", why, step) if why else ok("git", str(git))


def parsers(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that every parser of the engine loads."""
    folder = case.root or Path(__file__).parent  # any folder: none of its files is read
    with Engine.open(folder, settings=Settings(cache_folder=_cache_folder(case))) as engine:
        broken = engine.index.broken_parsers()
    for name, why in broken.items():
        yield problem(f"parser {name}", why, "Delete the folder `grammars` in the cache; it is unpacked again.")
    if not broken:
        yield ok("parsers", "all load")


def cache(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the index folder is writable and has free space."""
    folder = _cache_folder(case)
    try:
        make_private_folder(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"1")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        step = "Give this user a folder to write to: CTX_CACHE_FOLDER=PATH, or cache_folder in the settings."
        yield problem("cache", f"{folder} cannot be written: {error.strerror or error}", step)
        return
    if find_network_drive(folder):
        step = "Set CTX_CACHE_FOLDER to a folder of this machine."
        yield warning("cache", f"{folder} is on a network drive, where an index may be damaged", step)
    step = "Free some space, or set CTX_CACHE_FOLDER to another disk." if free < FREE_BYTES_LOW else ""
    yield CheckResult("warning" if step else "ok", "cache", f"{folder}, {free / 1e9:,.1f} GB free", step)


def privacy(case: DoctorContext) -> Iterator[CheckResult]:
    """Close what earlier releases left open to other users of this machine."""
    folders = [_cache_folder(case) / name for name in CACHE_FOLDERS] + [user_cache_folder(), user_data_folder()]
    closed = [path for folder in folders if os.name == "posix" for path in close_to_others(folder)]
    found = "other users cannot read the index, memories and counts"
    if closed:
        found = f"other users could read {format_count(len(closed), 'path')}, closed now: {closed[0]}"
    yield ok("privacy", found)


def _cache_folder(case: DoctorContext) -> Path:
    """Return the cache folder of the settings, or the default if they cannot be read."""
    try:
        return Settings.load(case.root or case.here, case.env).cache_folder or user_cache_folder()
    except ContextEngineError:
        return user_cache_folder()


# -- the workspace ----------------------------------------------------------------------------------------------------


def settings(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the settings are readable."""
    try:
        Settings.load(case.root or case.here, case.env)
    except ContextEngineError as error:
        yield problem("settings", error.message.removeprefix("settings: "), error.suggestion)
    else:
        yield ok("settings", "can be read")


def index(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the index is intact and current, the store of a team, and the static vectors."""
    if case.root is None:
        return
    with Engine.open(case.root, settings=Settings.load(case.root, case.env)) as engine:
        notes = engine.notes()
        found = engine.index.store.check()
        store, step = engine.index.store_problem, engine.index.STORE_STEP
        damage = [what for what in found if what != store]
        state = None if damage else engine.status()
    for what, step in notes:
        yield warning("settings", what, step)
    if store:
        yield warning("store", f"{store}; answers come from the index of this machine", step)
    if state is None:
        more = f", and {len(damage) - 1:,} more" if len(damage) > 1 else ""
        yield problem("index", f"{damage[0]}{more}", "Rebuild it: ctx index --force.")
        return
    contents = f"{format_count(state.files, 'file')}, {format_count(state.chunks, 'chunk')}, of {state.indexed_at}"
    if state.state == "absent":
        yield warning("index", "none yet: the first question has to wait", "Build it: ctx index.")
    elif state.last_error and state.last_error != store:
        step = "Run ctx index and read what it says."
        yield warning("index", f"{contents}; the last run failed: {state.last_error}", step)
    elif state.stale:
        step = "A server follows edits by itself; ctx index does it now."
        yield ok("index", f"{contents}; {len(state.stale):,} edited since: {state.stale[0]}", step)
    else:
        yield ok("index", f"{contents}, current")
    if state.embeddings.static not in ("ready", "off", WITH_NEXT_RUN):
        yield problem("static vectors", state.embeddings.static, REINSTALL)


def watcher(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the system reports edits, by starting and stopping a watcher."""
    if case.root is None:
        return
    started = Watcher(case.root, lambda _: None)
    started.start()
    trouble = started.problem
    started.stop()
    step = "Searches check the files themselves instead. On Linux: sudo sysctl fs.inotify.max_user_watches=524288"
    yield warning("watcher", trouble, step) if trouble else ok("watcher", "edits are followed")


# -- the clients ------------------------------------------------------------------------------------------------------


def clients(case: DoctorContext) -> Iterator[CheckResult]:
    """Yield a result for each client that has our entry, cannot be read, or is named."""
    for client in map(client_table.find_client, case.clients) if case.clients else client_table.ALL:
        known = client_config.list_config_states(case.machine, case.root, (client,))
        results = [_check_entry(state) for state in known if state.problem or state.entry is not None]
        yield from results
        step = f"ctx setup {client.name}"
        if not results and case.clients:
            yield problem(client.name, f"ctx is not set up in {client.title}", step)


def hooks(case: DoctorContext) -> Iterator[CheckResult]:
    """Report that hooks may quote this project, if its user trusts it."""
    if case.root is not None and is_trusted(case.root):
        yield ok("hooks", "may quote this project")


def _check_entry(state: ClientConfigState) -> CheckResult:
    """Return the result about one settings file that is broken or has our entry. Nothing that it names is run."""
    client, path = state.client, state.path
    if state.entry is None:
        step = f"Fix it; {client.title} cannot read it either, or ignores the rest."
        return problem(client.name, f"{path}: {state.problem}", step)
    words = client_config.command_line_of(state.entry)
    named = [value for option, value in pairwise(words) if option == "--root" and not value.startswith("${")]
    gone = [value for value in named if not Path(value).is_dir()]  # only the client knows the value of ${...}
    found = f"set up for {state.scope} in {path}"
    if find_program(words[0]) and not gone:
        return ok(client.name, found)
    missing = f"there is no folder {gone[0]}" if gone else f"there is no program {words[0]}"
    options = " --project" if state.scope == client_config.PROJECT else ""
    options += " --root PATH" if client.needs_root else ""
    return problem(client.name, f"{found}, but {missing}", f"Rewrite the entry: ctx setup {client.name}{options}")


# -- the server -------------------------------------------------------------------------------------------------------

PATIENCE_S = 30.0
"""The conversation takes 1 s, or 20 times that on a very busy machine."""
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "ctx doctor", "version": "0"}}
MESSAGES: Sequence[dict[str, Any]] = (
    {"id": 0, "method": "initialize", "params": HELLO},
    {"method": "notifications/initialized"},
    {"id": 1, "method": "tools/list", "params": {}},
    {"id": 2, "method": "tools/call", "params": {"name": "list_directory", "arguments": {}}},
)
REQUESTS = ("initialize", "tools/list", "a call")


def server(case: DoctorContext) -> Iterator[CheckResult]:
    """Start the server as a client does, send three requests, and end it by closing its input.

    It runs in a temporary folder: no file of yours is indexed.
    """
    scratch = ConfinedFolder(_cache_folder(case) / "scratch")
    try:
        with scratch.temporary_folder() as folder, tempfile.TemporaryFile() as log:
            project = folder / "project"
            project.mkdir()
            words = [*case.launch.command_line, "serve", "--root", str(project)]
            own = {"CTX_CACHE_FOLDER": str(folder / "cache"), "CTX_WORKERS": "0", "CTX_DAEMON": "0"}
            own["PATH"] = repo.safe_path(case.env.get("PATH", ""), outside=case.root or "")  # project is another one
            began_s = time.monotonic()
            with subprocess.Popen(  # noqa: S603 - the words of our own entry
                words, env={**case.env, **own}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=os.sep
            ) as process:
                wrong = _converse(process)
            log.seek(0)
            said = [line for line in log.read().decode("utf-8", "replace").splitlines() if not line.startswith("{")]
    except OSError as error:
        yield problem("server", f"does not start: {error}", REINSTALL)
        return
    if wrong:
        last_words = f"; its last message: {said[-1][:300]}" if said else ""
        yield problem("server", f"{wrong}{last_words}", "Run ctx serve --root . </dev/null to see its output.")
    else:
        yield ok("server", f"starts, answers and ends in {time.monotonic() - began_s:.1f} s")


def _converse(process: subprocess.Popen[bytes]) -> str:
    """Send all messages, wait for the answers and end the server; return what is wrong, empty for nothing."""
    assert process.stdin
    assert process.stdout
    timer = threading.Timer(PATIENCE_S, process.kill)
    timer.start()
    answers: dict[Any, dict[str, Any]] = {}
    noise = ""
    with suppress(BrokenPipeError):
        process.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in MESSAGES).encode())
        process.stdin.flush()
    while not answers.keys() >= {*range(len(REQUESTS))} and (line := process.stdout.readline()):
        try:
            answer = json.loads(line)
            answers[answer.get("id")] = answer
        except (ValueError, AttributeError):
            noise = f"stdout has a line that is not JSON: {line[:300].decode('utf-8', 'replace').strip()!r}"
    with suppress(BrokenPipeError):
        process.stdin.close()
    code = process.wait()
    is_late = timer.finished.is_set()
    timer.cancel()
    if is_late:
        return f"does not answer and end within {PATIENCE_S:g} s"
    for number, name in reversed([*enumerate(REQUESTS)]):
        answer = answers.get(number)
        if answer is None:
            return f"no answer to {name}"
        if answer.get("result", {"isError": True}).get("isError"):
            error = answer.get("error", {}).get("message") or answer["result"].get("content")
            return f"{name} failed: {error}"
    return noise or (f"ends with exit code {code}" if code else "")


Check = Callable[[DoctorContext], Iterator[CheckResult]]
CHECKS: tuple[Check, ...] = (
    packages,
    programs,
    parsers,
    cache,
    privacy,
    settings,
    index,
    watcher,
    server,
    clients,
    hooks,
)


# -- the report -------------------------------------------------------------------------------------------------------

COLORS = {"ok": "green", "warning": "yellow", "problem": "red"}


def doctor(root: Path | None, names: Sequence[str], *, as_json: bool) -> int:
    """Run the checks and print the results; return 1 if something does not work. Raises: InvalidArgument."""
    for name in names:
        client_table.find_client(name)
    findings = run_checks(root, tuple(names))
    has_problem = any(finding.verdict == "problem" for finding in findings)
    if as_json:
        report = {"ok": not has_problem, "version": __version__, "findings": [asdict(finding) for finding in findings]}
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        _print_results(findings)
    return int(has_problem)


def run_checks(root: Path | None, names: tuple[str, ...] = (), checks: Sequence[Check] = CHECKS) -> list[CheckResult]:
    """Return the results of all checks. They run in parallel, since each mostly waits for a disk or a process."""
    here = Path.cwd()
    is_named = root or os.environ.get(ROOT_VARIABLE, "").strip() or nearest_project(here)
    chosen = resolve_root(root) if is_named else None
    workspace = ok("workspace", "no project around this folder", NAME_A_ROOT)
    if chosen:
        try:
            workspace = ok("workspace", str(check_workspace_root(chosen)))
        except ContextEngineError as error:
            workspace, chosen = problem("workspace", error.message, NAME_A_ROOT), None
    machine, launch = client_config.this_machine(), find_own_launch_command()
    case = DoctorContext(machine, dict(os.environ), here, chosen, launch, names)
    with ThreadPoolExecutor(len(checks)) as pool:
        parts = list(pool.map(lambda check: _run_safely(check, case), checks))
    return [workspace, *(finding for part in parts for finding in part)]


def _run_safely(check: Check, case: DoctorContext) -> list[CheckResult]:
    """Return the results of one check, or a result that says that the check failed."""
    name = getattr(check, "__name__", "check").replace("_", " ")
    try:
        return list(check(case))
    except ContextEngineError as error:
        return [problem(name, error.message, error.suggestion)]
    except Exception as error:  # noqa: BLE001 - a failed check must not hide the results of the others
        return [problem(name, f"the check itself failed: {type(error).__name__}: {error}", "Please report this.")]


def _print_results(findings: Sequence[CheckResult]) -> None:
    """Print a line for each result, its next step below it, and a summary."""
    width, out = max(len(finding.part) for finding in findings), process_screen().out
    for finding in findings:
        head = (f"{finding.verdict:<7}", COLORS[finding.verdict])
        out.show(head, f"  {finding.part:<{width}}  {finding.found}")
        if finding.step:
            out.show((f"{'':<{width + 11}}-> {finding.step}", "cyan"))
    counted = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in ("warning", "problem")}
    summary = [f"{count} {verdict}{'s' * (count > 1)}" for verdict, count in counted.items() if count]
    out.write(f"\n{', '.join(summary) or 'Everything works.'}")
