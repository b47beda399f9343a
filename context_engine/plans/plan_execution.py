"""Apply the changes of a step: preview them, write all of them or none, and verify the result.

    result = executor.preview(step, changes)                        nothing is written, no step is moved
    result = executor.apply(step, changes, plan.id, state=state)    written and verified; the step continues

The editing engine writes the files; undoing its edit is the rollback. A step is completed only when all its files
were touched and every check passed. What cannot be checked never counts as passed. Only commands that the user
allowed are run: neither a plan nor a repository can add one.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from context_engine.edit import (
    EditedFile,
    EditResult,
    EditService,
    FileEdit,
    diff_versions,
    format_redacted_diff,
)
from context_engine.errors import CallError, ContextEngineError, InvalidArgument, NextStep
from context_engine.model import ChangeObjections
from context_engine.plans.model import PlanStep
from context_engine.plans.plan_events import CompletionReport, StepState
from context_engine.plans.step_tracking import StepTracker
from context_engine.repo import run_program, size_and_mtime, summarize_output, without_secrets
from context_engine.secrets import RedactedDocument

Level = Literal["none", "syntax", "lint", "tests"]
"""Each level includes the checks of those before it."""
COMMAND_S = 600.0
"""A slower test suite is not run between two edits; its owner can allow a part of it."""
FINDINGS_MAX = 20
NOT_ALLOWED = "no command is allowed here: the user can allow some, as CTX_VERIFY_COMMANDS='pytest -q; npm test'"
INTERPRETERS = frozenset("bash sh zsh dash fish python pypy node deno bun ruby perl php java dotnet env make".split())
"""Programs that run what they are given: a line with one of them is allowed only as it is."""
DIFF_LINES_MAX = 400
"""Of one file; the caller knows its own larger changes."""
ALL_LINES = 1 << 40

Review = Callable[[str], ChangeObjections]
"""Reviews a diff of the files as they are now."""


# -- verification ------------------------------------------------------------------------------------------------------


class VerificationCheck(NamedTuple):
    """One check. `passed` is None when it could not be run, and `says` why."""

    kind: str
    name: str
    passed: bool | None
    says: str = ""


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """All checks. It passed when none failed, and is whole when every check could be run."""

    checks: tuple[VerificationCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return all(check.passed is not False for check in self.checks)

    @property
    def is_whole(self) -> bool:
        """Whether every requested check could be run."""
        return all(check.passed is not None or check.kind == "syntax" for check in self.checks)


class ChangeVerifier:
    """Verifies changes in one workspace. `commands` are those that the user allowed."""

    def __init__(self, root: Path, commands: Sequence[str], review: Review | None = None) -> None:
        self._root = root
        self._commands = tuple(commands)
        self._review = review

    def verify(
        self,
        files: Sequence[EditedFile],
        level: Level,
        cancel: threading.Event | None = None,
        named: Sequence[str] = (),
    ) -> VerificationResult:
        """Run the checks of a level; commands run only when all other checks passed, and until `cancel` is set.

        `named` are the commands that a step names; they run instead of the user's own, as far as those allow them.
        """
        checks: list[VerificationCheck] = []
        if level != "none":
            checks += [_check_syntax(file) for file in files if file.new_data is not None]
        if level in ("lint", "tests"):
            checks += self._check_changes(files)
        if level == "tests" and VerificationResult(tuple(checks)).passed:  # a test run may take minutes
            allowed = [command for command in named if is_allowed(command, self._commands, self._root)]
            why = f"the user allows only: {'; '.join(self._commands)}" if self._commands else NOT_ALLOWED
            ran = [self._run_command(command, cancel) for command in allowed or self._commands]
            left_out = [VerificationCheck("tests", other, None, why) for other in named if other not in allowed]
            checks += [*ran, *left_out] or [VerificationCheck("tests", "", None, NOT_ALLOWED)]
        return VerificationResult(tuple(checks))

    def _check_changes(self, files: Sequence[EditedFile]) -> list[VerificationCheck]:
        """Run a linter over copies of both versions, and a review: new lint, a secret, a removed name in use."""
        diff = "".join(diff_versions(file.path, file.old_data, file.new_data) for file in files)
        if self._review is None or not diff:
            return []
        try:
            found = self._review(diff)
        except ContextEngineError as error:
            return [VerificationCheck("review", "", None, f"the review failed: {error.message}")]
        checks = [VerificationCheck("review", "", not found.objections, "; ".join(found.objections[:FINDINGS_MAX]))]
        if found.linter:
            passed = None if found.problem else not found.lint
            says = found.problem or "; ".join(found.lint[:FINDINGS_MAX])
            checks.insert(0, VerificationCheck("lint", found.linter, passed, says))
        return checks

    def _run_command(self, command: str, cancel: threading.Event | None) -> VerificationCheck:
        try:
            words = shlex.split(command)  # as a shell would part them; nothing in them is expanded
        except ValueError as error:
            return VerificationCheck("tests", command, None, f"it cannot be read: {error}")
        environment = without_secrets(os.environ)
        ran = run_program(words, self._root, limit_s=COMMAND_S, environment=environment, merged=True, cancel=cancel)
        ended = f"it {ran.problem}" if ran.problem else f"it ended with {ran.exit}"
        output = summarize_output(RedactedDocument.of(ran.out).text, self._root)
        return VerificationCheck("tests", command, ran.exit == 0, f"{ended}\n{output}".strip())


def _check_syntax(file: EditedFile) -> VerificationCheck:
    """Check what the parser says. New errors fail; files without a parser are passed over."""
    passed = None if file.syntax.startswith("syntax not checked") else not file.syntax.startswith("new syntax error")
    return VerificationCheck("syntax", file.path, passed, file.syntax)


def parse_commands(setting: str) -> tuple[str, ...]:
    """Return the commands of the setting, which are separated by semicolons.

    >>> parse_commands("pytest -q; npm test;")
    ('pytest -q', 'npm test')
    """
    return tuple(command.strip() for command in setting.split(";") if command.strip())


def is_allowed(command: str, allowed: Sequence[str], root: Path) -> bool:
    """Return whether a command is a line that the user allows, perhaps with files of the workspace behind it.

    A plan may come from a repository: it adds no option and no program, and no file to a program that runs files.
    """
    try:
        words = shlex.split(command)
        permitted = [shlex.split(line) for line in allowed]
    except ValueError:
        return False
    for line in filter(None, permitted):
        added = words[len(line) :]
        runs_files = Path(line[0]).name.rstrip("0123456789.") in INTERPRETERS and "-m" not in line
        is_same = words[: len(line)] == line and not (added and runs_files)
        if is_same and all(_is_inside(word, root) for word in added):
            return True
    return False


def _is_inside(word: str, root: Path) -> bool:
    """Return whether a word names a file or folder of the workspace, or a test (`::`) in a file."""
    path = word.split("::", 1)[0]
    if word.startswith("-") or Path(path).is_absolute() or ".." in path.split("/"):
        return False
    return size_and_mtime(str(root / path)) is not None


# -- changes -----------------------------------------------------------------------------------------------------------


class AppliedChange(NamedTuple):
    """One file: its SHA-256 before and after (empty: no file), the lines added and removed, and the redacted diff."""

    path: str
    before_sha: str
    after_sha: str
    added: int
    removed: int
    diff: str


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The result. `backup_id` undoes it; `remaining` are files of the step that were not touched."""

    step: PlanStep
    applied: tuple[AppliedChange, ...]
    verified: VerificationResult = field(default_factory=lambda: VerificationResult(()))
    backup_id: str = ""
    completed: bool = False
    remaining: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class PlanExecutor:
    """Applies changes that an agent or a model has made. Thread-safe."""

    def __init__(self, edits: EditService, tracking: StepTracker, verifier: ChangeVerifier) -> None:
        self._edits = edits
        self._tracking = tracking
        self._verifier = verifier

    def preview(self, step: PlanStep, changes: Sequence[FileEdit], *, strict: bool = False) -> ExecutionResult:
        """Return the effect of the changes on the files; nothing is written.

        Raises: as `EditService.apply`, and InvalidArgument.
        """
        receipt = self._edits.apply(changes, dry_run=True)
        strange = [str(file.path) for file in receipt.files if file.path not in step.files]
        if strange and strict:
            raise InvalidArgument(
                f"the step does not name {', '.join(strange)}; nothing was written",
                suggestion="Leave strict out, or add the files to the step.",
                next_steps=NextStep("refine_plan", "to add the files (op set_files)"),
                details={"paths": strange, "declared": sorted(step.files)},
            )
        warnings = tuple(f"the step does not name {path}" for path in strange)
        return ExecutionResult(step, _applied_changes(receipt), remaining=_remaining(step, receipt), warnings=warnings)

    def apply(
        self,
        step: PlanStep,
        changes: Sequence[FileEdit],
        plan_id: str,
        *,
        state: StepState,
        level: Level = "syntax",
        strict: bool = False,
        session: str = "",
        cancel: threading.Event | None = None,
    ) -> ExecutionResult:
        """Write the changes, all or none, and verify them until `cancel` is set. `state` is what the step is now.

        Raises: as `preview`, and before anything is written NeedsApproval, PreconditionFailed and Conflict as a start
        does.
        """
        before = self.preview(step, changes, strict=strict)
        is_started = state.status != "in_progress"
        if is_started:
            self._tracking.start(plan_id, step.uid, actor=session)
        actor = "" if is_started else state.actor
        others = (f"the step was started by {actor}",) if actor not in ("", session) else ()
        try:
            receipt = self._edits.apply(changes, session=session, check_syntax=level != "none")
        except ContextEngineError:
            if is_started:  # nothing was written, so the step is given back as it was
                with suppress(ContextEngineError):
                    self._tracking.fail(plan_id, step.uid, release=True, actor=session)
            raise
        made = replace(
            before,
            applied=_applied_changes(receipt),
            verified=self._verifier.verify(receipt.files, level, cancel, step.checks),
            backup_id=receipt.undo_id,
            remaining=_remaining(step, receipt),
            warnings=(*before.warnings, *others),
        )
        if made.remaining or not (made.verified.passed and made.verified.is_whole):
            return made
        return self._complete(plan_id, made, session)

    def _complete(self, plan_id: str, made: ExecutionResult, session: str) -> ExecutionResult:
        evidence = []
        for check in made.verified.checks:
            command = check.name if check.kind == "tests" else f"{check.kind} {check.name}".strip()
            evidence.append({"command": command, "exit_code": 0, "output": check.says})
        report = CompletionReport(
            notes=f"applied by execute_plan, backup {made.backup_id}",
            files_modified=tuple(change.path for change in made.applied),
            evidence=tuple(evidence),
        )
        try:
            self._tracking.complete(plan_id, made.step.uid, report, actor=session)
        except CallError as error:
            return replace(made, warnings=(*made.warnings, f"the step stays in progress: {error.message}"))
        return replace(made, completed=True)


def _remaining(step: PlanStep, receipt: EditResult) -> tuple[str, ...]:
    return tuple(sorted(step.files - {str(file.path) for file in receipt.files}))


def _applied_changes(receipt: EditResult) -> tuple[AppliedChange, ...]:
    made = []
    for file in receipt.files:
        diff = format_redacted_diff(file.path, file.old_data, file.new_data, lines_max=ALL_LINES).split("\n")
        head, lines = diff[:2], diff[2:]
        added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        more = [f"... {len(lines) - DIFF_LINES_MAX} more lines"] if len(lines) > DIFF_LINES_MAX else []
        shown = "\n".join([*head, *lines[:DIFF_LINES_MAX], *more])
        made.append(AppliedChange(str(file.path), file.before, file.after, added, removed, shown))
    return tuple(made)
