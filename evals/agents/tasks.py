"""Read the tasks, and know the folders and the environment of a run: one task, done in one arm by one agent.

Two variables say where things are: `AGENTS_HOME` (environments and runs; a folder `agents` among the temporary files) and
`AGENTS_MIRRORS` (bare git repositories, `owner+name` or `owner+name/repo`).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HOME = Path(os.environ.get("AGENTS_HOME") or Path(tempfile.gettempdir()) / "agents").absolute()
TASKS = Path(__file__).with_name("tasks.toml")
ARM = re.compile(r"(plain|ctx)(-[a-z]+)?(-\d+)?")
"""What the agent has, a label for a variant of it (`ctx-new`), and the number of a repetition (`plain-2`)."""
OFFLINE = {"PIP_NO_INDEX": "1", "npm_config_offline": "true", "GOPROXY": "off", "GOTOOLCHAIN": "local"}


@dataclass(frozen=True)
class Task:
    """A fix commit, described as a user would report it."""

    name: str
    repository: str
    language: str
    setup: str
    """Shell commands that fill the folder of the environment, run in it; they may need a package registry."""
    environment: str
    python_path: str
    parent: str
    fix: str
    kind: str
    """`names` the symbol, `behavior` only, or `several` places to change."""
    issue: str
    gold: tuple[str, ...]
    """What has to be read to make the change, as `path:first-last` of the parent."""
    tests: tuple[str, ...]
    """The files of the fix commit that are hidden from the agent."""
    command: str
    """The test command, run in the tree."""

    @property
    def mirror(self) -> Path:
        """Return the git directory with the whole history."""
        folder = Path(os.environ["AGENTS_MIRRORS"]).absolute() / self.repository.replace("/", "+")
        return folder / "repo" if (folder / "repo").is_dir() else folder


@dataclass(frozen=True)
class Run:
    """The folder of a task in an arm."""

    task: Task
    arm: str

    def __post_init__(self) -> None:
        """Refuse an arm that the report would not understand."""
        if not ARM.fullmatch(self.arm):
            raise SystemExit(f"{self.arm}: an arm is plain or ctx, with a label (ctx-new) or a number (ctx-2)")

    @property
    def folder(self) -> Path:
        """Return where all of the run is."""
        return HOME / "runs" / self.task.name / self.arm

    @property
    def tree(self) -> Path:
        """Return the work tree."""
        return self.folder / "tree"

    @property
    def log(self) -> Path:
        """Return the file with one row for each call."""
        return self.folder / "log.jsonl"

    def output(self, number: int) -> Path:
        """Return the file with the text that a call showed."""
        return self.folder / "shown" / f"{number:03}.txt"

    @property
    def has_ctx(self) -> bool:
        """Return whether the product is there."""
        return self.arm.startswith("ctx")


def read_tasks(path: Path = TASKS) -> Iterator[Task]:
    """Yield the tasks of the file."""
    for repository in tomllib.loads(path.read_text(encoding="utf-8"))["repository"]:
        for row in repository["task"]:
            yield Task(
                name=row["name"],
                repository=repository["name"],
                language=repository["language"],
                setup=repository.get("setup", ""),
                environment=repository["name"].split("/")[1],
                python_path=repository.get("python_path", ""),
                parent=row["parent"],
                fix=row["fix"],
                kind=row["kind"],
                issue=row["issue"].strip(),
                gold=tuple(row["gold"]),
                tests=tuple(row["tests"]),
                command=row["command"],
            )


def find_task(name: str) -> Task:
    """Return a task by its name."""
    for task in read_tasks():
        if task.name == name:
            return task
    raise SystemExit(f"{name}: no task of this name in {TASKS}")


def environment_folder(task: Task) -> Path:
    """Return what all runs of a repository share: its interpreter and packages."""
    return HOME / "envs" / task.environment


def environment_of(task: Task, tree: Path, state: Path, *more_programs: Path) -> dict[str, str]:
    """Return the variables of a command in a tree: a home of its own, the repository's packages, no registry."""
    shared = environment_folder(task)
    programs = [*more_programs, shared / "bin", shared / "node_modules" / ".bin"]
    variables = {
        "PATH": ":".join([*map(str, programs), "/usr/local/bin", "/usr/bin", "/bin"]),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "CI": "1",
        "PAGER": "cat",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ENVIRONMENT": str(shared),
        "GOCACHE": str(shared / "go-cache"),
        **OFFLINE,
    }
    folders = {
        "HOME": "home",
        "XDG_CACHE_HOME": "cache",
        "XDG_STATE_HOME": "state",
        "XDG_RUNTIME_DIR": "run",
        "TMPDIR": "tmp",
    }
    for variable, name in folders.items():
        (state / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        variables[variable] = str(state / name)
    if task.python_path:
        variables["PYTHONPATH"] = str((tree / task.python_path).resolve())
    return variables


def git(folder: Path, *words: str) -> str:
    """Return what git prints in a folder."""
    command = ["git", "-c", "core.quotePath=false", "-c", "safe.directory=*", "-C", str(folder), *words]
    unlocked = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    return subprocess.run(command, check=True, capture_output=True, env=unlocked).stdout.decode("utf-8", "replace")
