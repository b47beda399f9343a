"""Check the workspace: which one it is and why, its settings, its index and its watcher."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from context_engine.cli.doctor.check_results import CheckResult, DoctorContext, ok, problem, warning
from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from context_engine.model import Status
from context_engine.repo import Watcher, nearest_project
from context_engine.semantic import WITH_NEXT_RUN
from context_engine.server import CLIENT_VARIABLE
from context_engine.settings import CONFIG_FILE, Settings, knobs, user_file

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
    variables = [f"CTX_{name.upper()}" for name in knobs() if case.env.get(f"CTX_{name.upper()}")]
    files = [str(file) for file in (user_file(), root / CONFIG_FILE) if file.is_file()]
    yield ok("settings", " and ".join([*files, *variables]) or "the defaults")


def parsers(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that every parser of the engine loads."""
    with Engine.open(_some_folder(case), settings=Settings(cache_folder=_cache(case))) as engine:
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
        damage = engine.index.find_problems(thorough=False)
        state = None if damage else engine.status()
        folder = engine.cache_folder
    if state:
        yield _index_state(state)
    else:
        more = f", and {len(damage) - 1:,} more" if len(damage) > 1 else ""
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
        yield ok("meaning", f"static vectors {state.static}; {state.model} {state.state}", state.suggestion)


def watcher(case: DoctorContext) -> Iterator[CheckResult]:
    """Check that the system reports edits, by starting and stopping a watcher."""
    if case.root is None:
        return
    looking = Watcher(case.root, lambda _: None)
    looking.start()
    running, trouble = looking.is_running, looking.problem
    looking.stop()
    limits = _inotify_limits()
    if trouble:
        step = "Searches check the files themselves instead; ctx index updates the index."
        if limits:
            step = f"Raise the limits ({limits}): sudo sysctl fs.inotify.max_user_watches=524288. {step}"
        yield warning("watcher", trouble, step)
    else:
        state = "edits are followed" if running else "still reading the folders of a large workspace"
        yield ok("watcher", f"{state}{f' ({limits})' if limits else ''}")


def _index_state(state: Status) -> CheckResult:
    if state.state == "absent":
        return warning("index", "none yet: the first question has to wait", "Build it: ctx index.")
    holds = f"{state.files:,} files, {state.chunks:,} chunks, of {state.indexed_at}"
    if state.last_error:
        return warning(
            "index", f"{holds}; the last run failed: {state.last_error}", "Run ctx index and read what it says."
        )
    if state.stale:
        named = ", ".join(state.stale[:STALE_MAX]) + (", ..." if len(state.stale) > STALE_MAX else "")
        step = "A server follows edits by itself; ctx index does it now."
        return ok("index", f"{holds}; {len(state.stale):,} edited since: {named}", step)
    return ok("index", f"{holds}, current")


def _writer(folder: Path) -> Iterator[CheckResult]:
    """Check whether another process has the writer's lock.

    The file alone is no sign of it: the system frees the lock.
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


def _cache(case: DoctorContext) -> Path | None:
    try:
        return Settings.load(case.root or case.here, case.env).cache_folder
    except ContextEngineError:
        return None


def _some_folder(case: DoctorContext) -> Path:
    """Return a folder that may be opened; none of its files is read."""
    return case.root or Path(__file__).parent
