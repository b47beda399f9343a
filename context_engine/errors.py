"""All errors that this product raises on purpose, as one tree grouped by who must act.

`CallError`: the call cannot be answered as it is; a different call can.
`HostError`: the machine is in the way (disk full, permission, a broken cache); a person can repair it.
`BugError`: the product is wrong; the caller can only report it.

`server/dispatcher.py` and the command line turn errors into replies. Nothing below them prints.

An error names the calls that help as `NextStep` values, and each surface writes them in its own words: an MCP reply
names the tool, the terminal names the command.

>>> error = PlanNotFound("there is no plan 'retry'", next_steps=NextStep("list_plans", "to see all plans"))
>>> error.code, error.retryable, isinstance(error, CallError)
('PLAN_NOT_FOUND', False, True)
>>> error.suggestion
'Call list_plans to see all plans.'
>>> error.format_suggestion(lambda step: f"Run ctx plan list {step.purpose}.")
'Run ctx plan list to see all plans.'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


class NextStep(NamedTuple):
    """A tool call that helps after an error.

    `purpose` completes the sentence "Call TOOL ...". `arguments` are those that the step depends on.
    """

    tool: str
    purpose: str = ""
    arguments: Mapping[str, Any] = NO_ARGUMENTS

    def format_for_agent(self) -> str:
        """Return the step as a sentence for an MCP client.

        >>> NextStep("undo_edit", "to see what can be undone", {"list": True}).format_for_agent()
        'Call undo_edit with list=true to see what can be undone.'
        """
        pairs = ", ".join(f"{name}={_format_value(value)}" for name, value in self.arguments.items())
        words = ("Call", self.tool, f"with {pairs}" if pairs else "", self.purpose)
        return " ".join(filter(None, words)) + "."


class ContextEngineError(Exception):
    """The base of all errors: a stable `code`, a message, the next step, and details for programs.

    `code` is sent to clients: the name of the class in capitals, FILE_NOT_FOUND for `FileNotFound`, unless a class
    states another one. `retryable` says whether the same call may succeed later, unchanged.
    """

    code: ClassVar[str] = "ERROR"
    retryable: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        if "code" not in cls.__dict__:
            cls.code = "".join(f"_{letter}" if letter.isupper() else letter for letter in cls.__name__)[1:].upper()

    def __init__(
        self,
        message: str,
        *,
        suggestion: str = "",
        next_steps: NextStep | Sequence[NextStep] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep the parts. `suggestion` is advice that reads the same on every surface; `next_steps` are calls."""
        super().__init__(message)
        self.message = message
        self.advice = suggestion
        self.next_steps = (next_steps,) if isinstance(next_steps, NextStep) else tuple(next_steps)
        self.details = dict(details or {})

    @property
    def suggestion(self) -> str:
        """What to do next, in the words of an MCP client."""
        return self.format_suggestion(NextStep.format_for_agent)

    def format_suggestion(self, format_step: Callable[[NextStep], str]) -> str:
        """Return the advice and each next step, in the words that `format_step` gives it."""
        return " ".join(filter(None, [self.advice, *map(format_step, self.next_steps)]))

    def as_dict(self) -> dict[str, Any]:
        """Return the error object of the tool contract: `{code, message, suggestion, retryable, details}`."""
        return {
            "code": self.code,
            "message": self.message,
            "suggestion": self.suggestion,
            "retryable": self.retryable,
            "details": self.details,
        }


def _format_value(value: Any) -> str:
    """Return a value as a JSON client writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


# -- errors that the caller can correct ----------------------------------------------------------------------------


class CallError(ContextEngineError):
    """The caller must change the call."""


class InvalidArgument(CallError):
    """An argument is missing, unknown, of the wrong type or out of range."""


class InvalidPath(CallError):
    """The path cannot name a file of the workspace: outside every root, malformed, or a device."""


class AccessDenied(CallError):
    """Not allowed here: reading secrets, keys or git internals, or calling a tool that is switched off."""


class FileNotFound(CallError):
    """The file or folder does not exist."""


class BinaryFile(CallError):
    """The file is binary."""


class TooLarge(CallError):
    """The file or the answer exceeds its limit; the caller can ask for a part of it."""


class StaleFile(CallError):
    """The file changed since it was read, planned on or written."""


class InvalidEdit(CallError):
    """The edit is malformed: an empty target, a placeholder for code, characters that a file cannot contain."""


class NoChange(CallError):
    """The edit would leave the file as it is."""


class NoMatch(CallError):
    """The target of an edit is not in the file."""


class MultipleMatches(CallError):
    """The target of an edit occurs in several places that match equally well."""


class AnchorFailed(CallError):
    """The target is there, but not where the anchor says."""


class FuzzyUnsafe(CallError):
    """A similar place exists, but the edit that it would need is not certain."""


class Conflict(CallError):
    """Two changes exclude each other: edits of the same lines, or a call and an earlier change by someone else."""


class WrongEncoding(CallError):
    """The encoding of the file is unknown, or cannot represent the edit."""

    code = "ENCODING"


class InvalidLineRange(CallError):
    """The line range is empty, reversed or past the end of the file."""


class SymbolNotFound(CallError):
    """The index has no definition of that name."""


class MemoryNotFound(CallError):
    """No memory has that id."""


class PlanNotFound(CallError):
    """No plan has that id or name, or the plan has no such version."""


class ApprovalNotFound(CallError):
    """No request for approval has that id."""


class NeedsApproval(CallError):
    """The action needs an approval first, or the confirmation of a person."""


class ReviewNotFound(CallError):
    """No review session has that id, or it was old and has been removed."""


class ReviewBusy(CallError):
    """The process already runs its maximum number of reviews."""

    retryable = True


class UnknownTool(CallError):
    """No tool has that name."""


class NotConfirmed(CallError):
    """A destructive call lacks its explicit confirmation."""


class PreconditionFailed(CallError):
    """The call is valid, but not in the present state: nothing is staged, a step waits for another one."""


class InvalidPlan(CallError):
    """The plan contradicts itself or the workspace: a duplicate uid, a file to change that does not exist."""


class Cycle(CallError):
    """Steps of a plan depend on each other in a cycle, which the details name."""


class DanglingDependency(CallError):
    """A step depends on one that the plan does not have."""


class NotIndexed(CallError):
    """The workspace has no index yet."""

    retryable = True


class UnsuitableRoot(CallError):
    """The folder cannot be a workspace: `/`, the home folder, or a folder without a project."""


class RateLimited(CallError):
    """A tool was called more often than its rate allows; `retry_after_s` in the details is the time to wait."""

    retryable = True


class SearchTimeout(CallError):
    """A text search took too long and was stopped; a narrower search may finish."""


class DiffInvalid(CallError):
    """The text is not a unified diff, or contradicts itself."""


class DiffTruncated(CallError):
    """A hunk of the diff has fewer lines than its header announces."""


class DiffCombinedUnsupported(CallError):
    """The diff is a combined one (`diff --cc`, `@@@`), which compares a file with several parents at once."""


class RefNotFound(CallError):
    """No branch, tag or commit of the repository has that name."""


class Cancelled(CallError):
    """The caller canceled the work; what was committed before stays."""

    retryable = True


# -- errors that a person at the machine can repair ----------------------------------------------------------------


class HostError(ContextEngineError):
    """The machine is in the way."""

    retryable = True


class AccessFailed(HostError):
    """The operating system refuses to read or list something inside the workspace."""


class TimedOut(AccessFailed):
    """Git did not finish in time; the same call would take as long again."""

    retryable = False


class DiskFull(HostError):
    """The disk with the index or the records is full."""


class WriteFailed(HostError):
    """A file could not be written (locked, read-only, disk full) and is unchanged."""


class StorageCorrupt(HostError):
    """A file of the product is damaged, or something else is in its place: a link, a pipe, another database."""

    retryable = False


class StorageBusy(HostError):
    """Another process holds the writer's lock."""


class StoreUnavailable(HostError):
    """The shared store does not answer at the moment."""


class StoreUnusable(HostError):
    """The shared store cannot be used: another layout version, no write permission, or an unknown kind of address."""

    retryable = False


class EmbedderFailed(HostError):
    """An embedding endpoint failed: it timed out, limited the rate, or reported an error."""


class EmbedderUnusable(HostError):
    """An embedder is misconfigured: an unknown kind, a rejected key, an unknown model, or another vector size."""

    retryable = False


class InvalidVectors(HostError):
    """Vectors cannot be stored or compared: another size, another model, or not finite."""

    retryable = False


class GitUnavailable(HostError):
    """The call needs git and a repository, and one of them is missing."""

    retryable = False


class UnsupportedHost(HostError):
    """A required program or package is missing, or too old."""

    retryable = False


# -- errors of the product ------------------------------------------------------------------------------------------


class BugError(ContextEngineError):
    """The product has a defect; please report it."""

    code = "INTERNAL"


_TYPE_WORDS = {
    "`str`": "a text",
    "`int`": "a whole number",
    "`float`": "a number",
    "`array`": "a list",
    "`object`": "an object",
    "`null`": "nothing",
}


def conversion_error(error: Exception, where: str, advice: str = "") -> InvalidArgument:
    """Return the error for a value that msgspec refuses: the path of its field, what was given, what is allowed.

    >>> wrong = conversion_error(ValueError("Expected `int`, got `str` - at `$.steps[0].hours`"), "plan")
    >>> wrong.message, wrong.suggestion
    ('plan.steps[0].hours is wrong: expected a whole number, got a text', 'Send plan.steps[0].hours as int.')
    """
    text, _, at = str(error).rpartition(" - at `$")
    if not text:
        text, at = at, ""
    wanted = text.removeprefix("Expected ").replace("`", "").split(", got")[0]
    for theirs, ours in _TYPE_WORDS.items():
        text = text.replace(theirs, ours)
    why = f"is wrong: {text[0].lower()}{text[1:]}".replace("`", "")
    return invalid_field(where, at.removesuffix("`").removeprefix("."), why, wanted, advice)


def invalid_field(where: str, path: str, why: str, expected: str, advice: str = "") -> InvalidArgument:
    """Return the error for a wrong field of an argument, with what it should be."""
    name = f"{where}.{path}" if where and path and not path.startswith("[") else f"{where}{path}"
    return InvalidArgument(
        f"{name} {why}",
        suggestion=f"Send {name} as {expected}. {advice}".strip(),
        details={"argument": where or path.partition("[")[0], "path": path, "expected": expected},
    )
