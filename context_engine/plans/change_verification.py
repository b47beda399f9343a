"""Whether changes hold: does every file still parse, do a linter and a review object to what is new, do the commands pass.

What cannot be looked at is said to be unknown and never counts as passed. Only commands that the user allowed are ever run:
neither a plan nor a repository can add one.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Literal, NamedTuple

from context_engine.edit.align import by_lines
from context_engine.edit.file_content import content_of
from context_engine.errors import CallError, ContextEngineError
from context_engine.repo import ruff_program
from context_engine.repo.executables import find_program
from context_engine.repo.subprocess_runner import bare, run, spared, tail
from context_engine.secrets.masked_text import MaskedText

Level = Literal["none", "syntax", "lint", "tests"]
"""Each level looks at what those before it look at, too."""
LINT_S = 20.0
"""One file; a linter takes a tenth of a second for it."""
COMMAND_S = 600.0
"""A test suite that takes longer is not run between two edits; its owner can allow a part of it."""
TAIL_CHARS_MAX = 4_000
"""Of what a command says: the summary of a test run stands at its end."""
FINDINGS_MAX = 20
NOT_ALLOWED = "no command is allowed here: the user can allow some, as CTX_VERIFY_COMMANDS='pytest -q; npm test'"

REVIEWED_BYTES_MAX = 500_000
"""Of a larger file nobody waits for a difference line by line."""

Review = Callable[[str], Sequence[str]]
"""What a review objects to in a diff of the files as they are now, a sentence each."""
Syntax = Callable[[str, bytes | None, bytes | None], str]
"""What is to be said of a file's syntax: path, bytes before and after."""


class VerificationCheck(NamedTuple):
    """One thing that was looked at. `passed` is None when nobody could look, and `says` why."""

    kind: str
    name: str
    passed: bool | None
    says: str = ""


class FileVersions(NamedTuple):
    """A file that was changed; None: it was not there, or is gone."""

    path: str
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """All checks. It passed when none failed, and is whole when somebody could look at each."""

    checks: tuple[VerificationCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(each.passed is not False for each in self.checks)

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left unlooked at that was asked for."""
        return all(each.passed is not None or each.kind == "syntax" for each in self.checks)


class ChangeVerifier:
    """Looks at changes in one workspace. `commands` are those that the user allowed."""

    def __init__(self, root: Path, syntax: Syntax, commands: Sequence[str], review: Review | None = None) -> None:
        self._root = root
        self._syntax = syntax
        self._commands = tuple(commands)
        self._review = review

    def verify(
        self, files: Sequence[FileVersions], level: Level, cancel: threading.Event | None = None
    ) -> VerificationResult:
        """Look as far as the level goes; commands are run only when everything before them passed, and until `cancel` is set."""
        checks: list[VerificationCheck] = []
        if level != "none":
            checks += [self._check_syntax(each) for each in files if each.after is not None]
        if level in ("lint", "tests"):
            checks += [*self._lint(files), *self._review_changes(files)]
        if level == "tests" and VerificationResult(tuple(checks)).passed:
            checks += [self._run_command(command, cancel) for command in self._commands] or [
                VerificationCheck("tests", "", None, NOT_ALLOWED)
            ]
        return VerificationResult(tuple(checks))

    def _check_syntax(self, file: FileVersions) -> VerificationCheck:
        """The parser's word. New errors fail; what no parser knows is passed over."""
        said = self._syntax(file.path, file.before, file.after)
        if said.startswith("new syntax error"):
            return VerificationCheck("syntax", file.path, False, said)
        return VerificationCheck("syntax", file.path, None if said.startswith("syntax not checked") else True, said)

    def _lint(self, files: Sequence[FileVersions]) -> list[VerificationCheck]:
        """What ruff finds in Python files now and did not find before, under the settings of this workspace."""
        python = [each for each in files if each.path.endswith(ruff_program.SUFFIXES) and each.after is not None]
        program = find_program(ruff_program.NAME, outside=self._root)
        if not program or not python:
            return [VerificationCheck("lint", ruff_program.NAME, None, "ruff is not installed")] if python else []
        return [self._lint_file(program, each) for each in python]

    def _lint_file(self, program: str, file: FileVersions) -> VerificationCheck:
        try:
            before, after = (self._findings(program, file.path, data) for data in (file.before, file.after))
        except ValueError as error:
            return VerificationCheck("lint", file.path, None, f"ruff could not look: {error}")
        new = list((Counter(after) - Counter(before)).elements())
        told = "; ".join(f"{code} {message}" for code, message in new[:FINDINGS_MAX])
        return VerificationCheck("lint", file.path, not new, told)

    def _findings(self, program: str, path: str, data: bytes | None) -> list[tuple[str, str]]:
        """(rule, message) of each finding; where it stands does not count, lines move. Raises: ValueError."""
        if data is None:
            return []
        words, environment = ruff_program.of_text(program, path), bare(os.environ)
        ran = run(words, self._root, limit_s=LINT_S, environment=environment, given=data)
        if ran.exit not in ruff_program.EXITS:
            raise ValueError(ran.problem or ran.err.strip()[-200:] or f"it ended with {ran.exit}")
        return [(row.rule, row.message) for row in ruff_program.rows(ran.out)]

    def _review_changes(self, files: Sequence[FileVersions]) -> list[VerificationCheck]:
        """What a review finds pressing in the changes: a secret, a name that is gone and still used..."""
        diff = "".join(map(diff_file, files))
        if self._review is None or not diff:
            return []
        try:
            reasons = self._review(diff)
        except ContextEngineError as error:
            return [VerificationCheck("review", "", None, f"it could not look: {error.message}")]
        return [VerificationCheck("review", "", not reasons, "; ".join(reasons[:FINDINGS_MAX]))]

    def _run_command(self, command: str, cancel: threading.Event | None) -> VerificationCheck:
        try:
            words = shlex.split(command)  # as a shell would part them; nothing in them is expanded
        except ValueError as error:
            return VerificationCheck("tests", command, None, f"it cannot be read: {error}")
        environment = spared(os.environ)
        ran = run(words, self._root, limit_s=COMMAND_S, environment=environment, merged=True, cancel=cancel)
        ended = f"it {ran.problem}" if ran.problem else f"it ended with {ran.exit}"
        said = tail(MaskedText.of(ran.out).text, TAIL_CHARS_MAX).strip()
        return VerificationCheck("tests", command, ran.exit == 0, f"{ended}\n{said}".strip())


def diff_file(file: FileVersions) -> str:
    r"""A unified diff of a file, as programs read it; nothing for what is no text, or too large.

    >>> print(diff_file(FileVersions("a.py", None, b"x = 1\n")), end="")
    --- /dev/null
    +++ b/a.py
    @@ -0,0 +1 @@
    +x = 1
    """
    if max(len(file.before or b""), len(file.after or b"")) > REVIEWED_BYTES_MAX:
        return ""
    try:
        old, new = (by_lines(content_of(data or b"").norm) for data in (file.before, file.after))
    except CallError:
        return ""
    names = (
        "/dev/null" if file.before is None else f"a/{file.path}",
        "/dev/null" if file.after is None else f"b/{file.path}",
    )
    lines = unified_diff(old, new, *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def parse_commands(setting: str) -> tuple[str, ...]:
    """The commands of the setting, which parts them by semicolons.

    >>> parse_commands("pytest -q; npm test;")
    ('pytest -q', 'npm test')
    """
    return tuple(each.strip() for each in setting.split(";") if each.strip())
