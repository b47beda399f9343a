"""Changes that somebody made for a step: looked at, tried, written all or none, and held against what must be true.

    outcome = executing.tried(plan, step, changes)         nothing is written, nothing is marked
    outcome = executing.applied(plan_id, step, changes)    written, verified; the step goes on

No code is made here. What is written goes through the editing engine: its journal is the backup, and taking an edit back by its
id is the rollback. A step is completed only when everything it declares was touched and everything that was looked at holds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from context_engine.edit.apply import Receipt
from context_engine.edit.diff_preview import unified
from context_engine.edit.file_content import content_of
from context_engine.edit.file_edit import Change, Outcome
from context_engine.edit.model import Patch
from context_engine.errors import CallError, ContextEngineError, InvalidArgument
from context_engine.plans.change_verification import ChangeVerifier, FileVersions, Level, VerificationResult
from context_engine.plans.model import Plan, PlanStep, step_numbers
from context_engine.plans.plan_progress import Execution
from context_engine.plans.step_tracking import CompletionReport, StepCaller, StepTracker
from context_engine.secrets.masked_text import masked

if TYPE_CHECKING:
    from context_engine.edit.edit_request import Want

ChangeType = Literal["create", "modify", "delete", "rename"]
DIFF_LINES_MAX = 400
"""Of one file; who made more of them knows what he made."""
ALL_LINES = 1 << 40


@dataclass(frozen=True, slots=True)
class FileChange:
    """What is to become of a file: its whole content, a diff of it, or edits; `base_sha` is the file it was made for."""

    path: str
    change_type: ChangeType = "modify"
    content: str | None = None
    diff: str = ""
    wants: tuple[Want, ...] = ()
    new_path: str = ""
    base_sha: str = ""


class Files(Protocol):
    """What an Engine does with files; its docstrings say what is raised."""

    def change(self, path: str, wants: Sequence[Want], *, expected_hash: str = "") -> Change:
        """Some edits of a file."""
        ...

    def patch(self, path: str, diff: str, *, expected_hash: str = "") -> Change:
        """A diff of a file."""
        ...

    def rewrite(self, path: str, text: str, *, overwrite: bool = True, expected_hash: str = "") -> Change:
        """A whole file."""
        ...

    def removal(self, path: str, *, expected_hash: str = "") -> Change:
        """A file goes."""
        ...

    def move(self, path: str, new_path: str, change: Change | None = None) -> tuple[Change, Change]:
        """A file goes by another name."""
        ...

    def edit(self, changes: Sequence[Change], *, dry_run: bool = False, session: str = "") -> Receipt:
        """All of them, or none."""
        ...


class AppliedChange(NamedTuple):
    """One file: its SHA-256 before and after (empty: no file), lines added and removed, and the difference, secrets masked."""

    path: str
    before_sha: str
    after_sha: str
    added: int
    removed: int
    diff: str


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """What came of it. `backup_id` takes it back; `remaining` are files of the step that were not touched."""

    step: PlanStep
    applied: tuple[AppliedChange, ...]
    verified: VerificationResult = field(default_factory=lambda: VerificationResult(()))
    backup_id: str = ""
    completed: bool = False
    remaining: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def prepare_change(change: FileChange, files: Files) -> tuple[Change, ...]:
    """The change as the editing engine wants it. Raises: InvalidArgument, and for a rename what reading the file raises."""
    _check(change)
    expected = change.base_sha
    match change.change_type:
        case "create":
            return (files.rewrite(change.path, change.content or "", overwrite=False),)
        case "delete":
            return (files.removal(change.path, expected_hash=expected),)
        case "rename":
            gone, made = files.move(change.path, change.new_path, _content(change, files))
            return replace(gone, expected_hash=expected or gone.expected_hash), made
    inner = _content(change, files)
    return (inner,) if inner else ()


def _content(change: FileChange, files: Files) -> Change | None:
    """What becomes of the text of a file that is there."""
    if change.content is not None:
        return replace(files.rewrite(change.path, change.content, expected_hash=change.base_sha), creates=False)
    if change.diff:
        return files.patch(change.path, change.diff, expected_hash=change.base_sha)
    return files.change(change.path, change.wants, expected_hash=change.base_sha) if change.wants else None


_NEEDS = {
    "create": ("content",),
    "modify": ("content", "diff", "edits"),
    "delete": (),
    "rename": ("", "content", "diff", "edits"),
}
"""What says the new text of a file, by the type of the change; "" where nothing has to."""


def _check(change: FileChange) -> None:
    """Refuse a change that says too little or two things at once. Raises: InvalidArgument."""
    given = {"content": change.content is not None, "diff": bool(change.diff), "edits": bool(change.wants)}
    said = [name for name, is_given in given.items() if is_given] or [""]
    needs = _NEEDS[change.change_type] or ("",)
    if len(said) > 1 or said[0] not in needs:
        wants = " or ".join(name or "nothing" for name in needs)
        raise _invalid_change(
            change, f"it has {' and '.join(filter(None, said)) or 'nothing'} to say of the text", f"Send {wants}."
        )
    if bool(change.new_path) != (change.change_type == "rename"):
        raise _invalid_change(
            change, "new_path and rename go together", 'Send {"change_type": "rename", "new_path": "..."} or neither.'
        )


def _invalid_change(change: FileChange, why: str, suggestion: str) -> InvalidArgument:
    return InvalidArgument(
        f"the {change.change_type} of {change.path} cannot be meant: {why}; nothing was written",
        suggestion=suggestion,
        details={"path": change.path, "change_type": change.change_type},
    )


class PlanExecutor:
    """Carries out what others have made. Thread-safe."""

    def __init__(self, files: Files, tracking: StepTracker, verifier: ChangeVerifier) -> None:
        self._files = files
        self._tracking = tracking
        self._verifier = verifier

    def preview(self, step: PlanStep, changes: Sequence[FileChange], *, strict: bool = False) -> ExecutionResult:
        """What the changes would make of the files; nothing is written. Raises: as `Engine.edit`, and InvalidArgument."""
        old, planned = self._plan_edits(changes)
        receipt = self._files.edit(planned, dry_run=True)
        warnings = _check_declared(step, receipt, strict=strict)
        return ExecutionResult(
            step, _applied_changes(receipt, old), remaining=_remaining(step, receipt), warnings=warnings
        )

    def apply(
        self,
        plan: Plan,
        execution: Execution,
        step: PlanStep,
        changes: Sequence[FileChange],
        *,
        level: Level = "syntax",
        strict: bool = False,
        session: str = "",
        cancel: threading.Event | None = None,
    ) -> ExecutionResult:
        """Write the changes, all or none, and look whether they hold, until `cancel` is set.

        Raises: as `tried`, and before anything is written NeedsApproval, PreconditionFailed and Conflict as a start does.
        """
        before = self.preview(step, changes, strict=strict)
        is_started = self._start(plan, execution, step, session)
        actor = "" if is_started else execution.steps[step.uid].actor
        others = (f"the step was begun by {actor}",) if actor not in ("", session) else ()
        try:
            old, planned = self._plan_edits(changes)
            receipt = self._files.edit(planned, session=session)
        except ContextEngineError:
            if is_started:
                with suppress(ContextEngineError):
                    self._tracking.fail(plan.id, step.uid, release=True, caller=StepCaller(actor=session))
            raise
        files = [FileVersions(str(each.path), old[at], each.planned.data) for at, each in enumerate(receipt.files)]
        verified = self._verifier.verify(files, level, cancel)
        made = replace(
            before,
            applied=_applied_changes(receipt, old),
            verified=verified,
            backup_id=receipt.undo_id,
            remaining=_remaining(step, receipt),
            warnings=(*before.warnings, *others),
        )
        return self._complete(plan, made, session)

    def _plan_edits(self, changes: Sequence[FileChange]) -> tuple[dict[int, bytes | None], list[Change]]:
        """The changes, which remember what each file was, by their place; the memory is filled when they are planned."""
        old: dict[int, bytes | None] = {}
        listed = [made for change in changes for made in prepare_change(change, self._files)]
        return old, [_remembering(each, at, old) for at, each in enumerate(listed)]

    def _start(self, plan: Plan, execution: Execution, step: PlanStep, session: str) -> bool:
        """Start a step that is not in progress yet; whether that was needed."""
        if execution.steps[step.uid].status == "in_progress":
            return False
        self._tracking.start(plan.id, step.uid, caller=StepCaller(actor=session))
        return True

    def _complete(self, plan: Plan, made: ExecutionResult, session: str) -> ExecutionResult:
        """Complete the step, if nothing is left of it and nothing is in doubt."""
        if made.remaining or not (made.verified.passed and made.verified.is_whole):
            return made
        evidence = tuple(
            {"command": f"{each.kind} {each.name}", "exit_code": 0, "output": each.says}
            for each in made.verified.checks
        )
        report = CompletionReport(
            notes=f"applied by execute_plan, backup {made.backup_id}",
            files_modified=tuple(each.path for each in made.applied),
            evidence=evidence,
        )
        try:
            self._tracking.complete(plan.id, made.step.uid, report, caller=StepCaller(actor=session))
        except CallError as error:
            return replace(made, warnings=(*made.warnings, f"the step stays in progress: {error.message}"))
        return replace(made, completed=True)


def _remembering(change: Change, at: int, old: dict[int, bytes | None]) -> Change:
    def plan(data: bytes | None) -> Outcome:
        old[at] = data
        return change.plan(data)

    return replace(change, plan=plan)


def _check_declared(step: PlanStep, receipt: Receipt, *, strict: bool) -> tuple[str, ...]:
    """What is to be said of files that the step does not name. Raises: InvalidArgument when that is not allowed."""
    strange = [str(each.path) for each in receipt.files if each.path not in step.files]
    if strange and strict:
        raise InvalidArgument(
            f"the step does not name {', '.join(strange)}; nothing was written",
            suggestion="Add the files to the step with refine_plan (op set_files), or leave strict out.",
            details={"paths": strange, "declared": sorted(step.files)},
        )
    return tuple(f"the step does not name {path}" for path in strange)


def _remaining(step: PlanStep, receipt: Receipt) -> tuple[str, ...]:
    return tuple(sorted(step.files - {str(each.path) for each in receipt.files}))


def _applied_changes(receipt: Receipt, old: Mapping[int, bytes | None]) -> tuple[AppliedChange, ...]:
    return tuple(
        _applied_change(str(each.path), each.before, each.after, old[at], each.planned.data)
        for at, each in enumerate(receipt.files)
    )


def _applied_change(path: str, before: str, after: str, old: bytes | None, new: bytes | None) -> AppliedChange:
    diff = masked_diff(path, old or b"", new or b"")
    lines = diff.split("\n")[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    shown = lines[:DIFF_LINES_MAX]
    more = [f"... {len(lines) - len(shown)} more lines"] if len(lines) > len(shown) else []
    return AppliedChange(path, before, after, added, removed, "\n".join([*diff.split("\n")[:2], *shown, *more]))


def masked_diff(path: str, old: bytes, new: bytes) -> str:
    """A unified diff of two versions of a file, the secrets of both masked as a whole: a part of one tells nothing."""
    try:
        before, after = content_of(old), content_of(new)
    except CallError:
        return f"--- a/{path}\n+++ b/{path}\n(no text)"
    content = content_of(masked(before.norm, path).encode("utf-8", "replace"))
    return unified(path, content, [Patch(0, len(content.text), masked(after.norm, path))], ALL_LINES)


def ready_numbers(plan: Plan, execution: Execution) -> tuple[int, ...]:
    """The numbers of the steps that can be begun."""
    number = step_numbers(plan)
    return tuple(sorted(number[uid] for uid in execution.ready))
