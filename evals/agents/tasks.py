"""Read the tasks, and know the folders and the variables of a run: a task, done in one arm by one agent."""

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
ARM = re.compile(r"((?:plain|ctx)(?:-[a-z]+)?)(?:-\d+)?")
"""With or without ctx, a label for a variant of it (`ctx-new`), and the number of a repetition (`plain-2`)."""
FOLDERS = {
    "HOME": "home",
    "XDG_CACHE_HOME": "cache",
    "XDG_STATE_HOME": "state",
    "XDG_RUNTIME_DIR": "run",
    "TMPDIR": "tmp",
}
VARIABLES = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "CI": "1",
    "PAGER": "cat",
    "PYTHONDONTWRITEBYTECODE": "1",
}
OFFLINE = {"PIP_NO_INDEX": "1", "npm_config_offline": "true", "GOPROXY": "off", "GOTOOLCHAIN": "local"}


@dataclass(frozen=True)
class Repository:
    """A repository, and the shell commands that fill the folder of its interpreter and packages."""

    name: str
    language: str
    setup: str = ""
    python_path: str = ""

    @property
    def environment(self) -> Path:
        return HOME / "envs" / self.name.split("/")[1]

    @property
    def mirror(self) -> Path:
        folder = Path(os.environ["AGENTS_MIRRORS"]).absolute() / self.name.replace("/", "+")
        return folder / "repo" if (folder / "repo").is_dir() else folder

    def variables(self, tree: Path, state: Path, *programs: Path) -> dict[str, str]:
        """Return the variables of a command in a tree: folders of its own, the repository's packages, no registry."""
        shared = self.environment
        found_in = [*programs, shared / "bin", shared / "node_modules" / ".bin", "/usr/local/bin", "/usr/bin", "/bin"]
        named = {"PATH": ":".join(map(str, found_in)), "ENVIRONMENT": str(shared), "GOCACHE": str(shared / "go-cache")}
        for variable, name in FOLDERS.items():
            (state / name).mkdir(parents=True, exist_ok=True, mode=0o700)
            named[variable] = str(state / name)
        if self.python_path:
            named["PYTHONPATH"] = str((tree / self.python_path).resolve())
        return {**VARIABLES, **OFFLINE, **named}


@dataclass(frozen=True)
class Task:
    """A fix commit: `tests` are files of it, `gold` what has to be read to make it, as `path:first-last` of the parent."""

    repository: Repository
    name: str
    kind: str
    parent: str
    fix: str
    issue: str
    gold: list[str]
    tests: list[str]
    command: str


@dataclass(frozen=True)
class Run:
    """The folder of a task in an arm."""

    task: Task
    arm: str

    @property
    def folder(self) -> Path:
        return HOME / "runs" / self.task.name / self.arm

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @property
    def log(self) -> Path:
        return self.folder / "log.jsonl"

    @property
    def has_ctx(self) -> bool:
        return self.arm.startswith("ctx")

    def shown(self, number: int) -> Path:
        """Return the file with the text of a call."""
        return self.folder / "shown" / f"{number:03}.txt"

    def variables(self) -> dict[str, str]:
        """Return the variables of its commands."""
        return self.task.repository.variables(self.tree, self.folder, self.folder / "bin")


def read_tasks() -> Iterator[Task]:
    """Yield the tasks of the file."""
    for row in tomllib.loads(TASKS.read_text(encoding="utf-8"))["repository"]:
        tasks = row.pop("task")
        repository = Repository(**row)
        yield from (Task(repository=repository, **task) for task in tasks)


def find_run(name: str, arm: str) -> Run:
    """Return a run by the names of its task and its arm."""
    if not ARM.fullmatch(arm):
        raise SystemExit(f"{arm}: an arm is plain or ctx, with a label (ctx-new) or a number (ctx-2)")
    for task in read_tasks():
        if task.name == name:
            return Run(task, arm)
    raise SystemExit(f"{name}: no task of this name in {TASKS}")


def git(folder: Path, *words: str) -> str:
    """Return what git prints in a folder."""
    unlocked = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, env=unlocked)
    return done.stdout.decode("utf-8", "replace")
