"""What an analyser is: a program, the files it reads, and how its words become findings.

runs nothing of the project   ruff, typos, ast-grep: always asked where they are installed runs code of the project
eslint (its configuration), tsc, go vet, cargo (build scripts): asked only when the user said so
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
    """What a program says of a line. `path` is relative to the folder it ran in."""

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
    """A program said something that is not what it should say; the message is what it said."""


Command = Callable[[str, Sequence[str]], Sequence[str]]
"""(where the program is, paths of the files) -> what to start."""
Read = Callable[[bytes, str, Path], Sequence[AnalyzerMessage]]
"""(what it wrote, its complaints, the folder it ran in) -> what it reports. Raises: UnreadableError."""


@dataclass(frozen=True, slots=True)
class Analyzer:
    """One program.

    `suffixes` are its files; `wants_all` that it must see the whole tree; `needs` a file that says it is used here.

    `runs_project_code`: starting it runs what the repository wrote. `offline` keeps it from reaching another machine.
    """

    name: str
    program: str
    suffixes: tuple[str, ...]
    command: Command
    read: Read
    version: tuple[str, ...] = ("--version",)
    runs_project_code: bool = False
    needs_whole_tree: bool = False
    required_files: tuple[str, ...] = ()
    good_exits: tuple[int, ...] = (0,)
    offline: Mapping[str, str] | None = None

    def accepts(self, path: str) -> bool:
        """Whether it reads this file."""
        return not self.suffixes or path.endswith(self.suffixes)


def relative_path(path: str, folder: Path) -> str:
    """A path as a program names it, relative to its folder.

    >>> relative_path("/tmp/x/src/a.py", Path("/tmp/x")), relative_path("./a.py", Path("/tmp/x"))
    ('src/a.py', 'a.py')
    """
    return path.replace("\\", "/").removeprefix(f"{folder.as_posix()}/").removeprefix("./")
