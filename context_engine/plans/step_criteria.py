"""PURE. The criteria of drafted steps: each names a command, a file or a name, so that it can be checked.

>>> criteria_of_commands(("make lint",)), criteria_of_paths(("src/a b.py",))
(('`make lint` passes',), ("`git diff --stat HEAD -- 'src/a b.py'` lists the change",))
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

PATHS_MAX = 3
"""Paths in the command of a criterion; of more, their first ones have to do."""


def criteria_of_commands(commands: Iterable[str]) -> tuple[str, ...]:
    """Return a criterion for each command: it passes."""
    return tuple(f"`{command}` passes" for command in commands)


def criteria_of_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the criterion that files were changed, for steps that no command and no name can judge."""
    if not paths:
        return ()
    return (f"`git diff --stat HEAD -- {shlex.join(paths[:PATHS_MAX])}` lists the change",)


def criteria_of_names(*, gone: Iterable[str] = (), new: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the criteria that names are not defined any more, or are defined.

    >>> criteria_of_names(gone=["old"], new=["Store.read"])
    ('nothing is defined as `old` any more', '`Store.read` is defined')
    """
    absent = (f"nothing is defined as `{name}` any more" for name in gone)
    return (*absent, *(f"`{name}` is defined" for name in new))


def criteria_without_word(word: str) -> tuple[str, ...]:
    """Return the criterion that the files of a step do not contain a word any more.

    >>> criteria_without_word("lock_gate")
    ('`git grep -lwF lock_gate` lists none of these files',)
    """
    return (f"`git grep -lwF {shlex.quote(word)}` lists none of these files",)
