"""What an analyzer is: a program, the files it reads, and how its output becomes findings.

runs no code of the project   ruff, typos: always run where they are installed
runs code of the project      eslint (its configuration), tsc, go vet, cargo (build scripts): only if the user allows it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from context_engine.model import Suggestion
    from context_engine.review.finding import Category


class AnalyzerMessage(NamedTuple):
    """What a program reports of a line. `path` is relative to the folder it ran in."""

    path: str
    line: int
    last: int
    rule: str
    message: str
    priority: int
    category: Category
    confidence: float
    suggestion: Suggestion | None = None


class AnalyzerOutputError(Exception):
    """The output of a program is not what it should be; the message is that output."""


Command = Callable[[str, Sequence[str]], Sequence[str]]
"""Takes the path of the program and those of the files; returns the command line."""
Read = Callable[[bytes, str, Path], Sequence[AnalyzerMessage]]
"""Takes stdout, stderr and the folder of the run; returns the messages. Raises: AnalyzerOutputError."""


@dataclass(frozen=True, slots=True)
class Analyzer:
    """One program and the files it reads, by `suffixes`; without any it reads every file.

    With `needs_whole_tree` it sees all files of the tree, of which `required_files` show that it is used here.
    `runs_project_code`: to start it is to run what the repository wrote. `offline` keeps it from the network.
    """

    name: str
    program: str
    suffixes: tuple[str, ...]
    command: Command
    read: Read
    runs_project_code: bool = False
    needs_whole_tree: bool = False
    required_files: tuple[str, ...] = ()
    good_exits: tuple[int, ...] = (0,)
    offline: Mapping[str, str] | None = None

    def accepts(self, path: str) -> bool:
        """Whether it reads this file."""
        return not self.suffixes or path.endswith(self.suffixes)


def relative_path(path: str, folder: Path) -> str:
    """Return a path of a program's output, relative to the folder of the run.

    >>> relative_path("/tmp/x/src/a.py", Path("/tmp/x")), relative_path("./a.py", Path("/tmp/x"))
    ('src/a.py', 'a.py')
    """
    return path.replace("\\", "/").removeprefix(f"{folder.as_posix()}/").removeprefix("./")
