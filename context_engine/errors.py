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

    `code` is sent to clients. `retryable` says whether the same call may succeed later, unchanged.
    """

    code: ClassVar[str] = "ERROR"
    retryable: ClassVar[bool] = False

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

    code = "CALL_ERROR"


class InvalidArgument(CallError):
    """An argument is missing, unknown, of the wrong type or out of range."""

    code = "INVALID_ARGUMENT"


class InvalidPath(CallError):
    """The path cannot name a file of the workspace: outside every root, malformed, or a device."""

    code = "INVALID_PATH"


class AccessDenied(CallError):
    """Not allowed here: reading secrets, keys or git internals, or calling a tool that is switched off."""

    code = "ACCESS_DENIED"


class FileNotFound(CallError):
    """The file or folder does not exist."""

    code = "FILE_NOT_FOUND"


class BinaryFile(CallError):
    """The file is binary."""

    code = "BINARY_FILE"


class TooLarge(CallError):
    """The file or the answer exceeds its limit; the caller can ask for a part of it."""

    code = "TOO_LARGE"


class StaleFile(CallError):
    """The file changed since it was read, planned on or written."""

    code = "STALE_FILE"


class InvalidEdit(CallError):
    """The edit is malformed: an empty target, a placeholder for code, characters that a file cannot contain."""

    code = "INVALID_EDIT"


class NoChange(CallError):
    """The edit would leave the file as it is."""

    code = "NO_CHANGE"


class NoMatch(CallError):
    """The target of an edit is not in the file."""

    code = "NO_MATCH"


class MultipleMatches(CallError):
    """The target of an edit occurs in several places that match equally well."""

    code = "MULTIPLE_MATCHES"


class AnchorFailed(CallError):
    """The target is there, but not where the anchor says."""

    code = "ANCHOR_FAILED"


class FuzzyUnsafe(CallError):
    """A similar place exists, but the edit that it would need is not certain."""

    code = "FUZZY_UNSAFE"


class Conflict(CallError):
    """Two changes exclude each other: edits of the same lines, or a call and an earlier change by someone else."""

    code = "CONFLICT"


class WrongEncoding(CallError):
    """The encoding of the file is unknown, or cannot represent the edit."""

    code = "ENCODING"


class InvalidLineRange(CallError):
    """The line range is empty, reversed or past the end of the file."""

    code = "INVALID_LINE_RANGE"


class SymbolNotFound(CallError):
    """The index has no definition of that name."""

    code = "SYMBOL_NOT_FOUND"


class MemoryNotFound(CallError):
    """No memory has that id."""

    code = "MEMORY_NOT_FOUND"


class PlanNotFound(CallError):
    """No plan has that id or name, or the plan has no such version."""

    code = "PLAN_NOT_FOUND"


class ApprovalNotFound(CallError):
    """No request for approval has that id."""

    code = "APPROVAL_NOT_FOUND"


class NeedsApproval(CallError):
    """The action needs an approval first, or the confirmation of a person."""

    code = "NEEDS_APPROVAL"


class ReviewNotFound(CallError):
    """No review session has that id, or it was old and has been removed."""

    code = "REVIEW_NOT_FOUND"


class ReviewBusy(CallError):
    """The process already runs its maximum number of reviews."""

    code = "REVIEW_BUSY"
    retryable = True


class UnknownTool(CallError):
    """No tool has that name."""

    code = "UNKNOWN_TOOL"


class NotConfirmed(CallError):
    """A destructive call lacks its explicit confirmation."""

    code = "NOT_CONFIRMED"


class PreconditionFailed(CallError):
    """The call is valid, but not in the present state: nothing is staged, a step waits for another one."""

    code = "PRECONDITION_FAILED"


class InvalidPlan(CallError):
    """The plan contradicts itself or the workspace: a duplicate uid, a file to change that does not exist."""

    code = "INVALID_PLAN"


class Cycle(CallError):
    """Steps of a plan depend on each other in a cycle, which the details name."""

    code = "CYCLE"


class DanglingDependency(CallError):
    """A step depends on one that the plan does not have."""

    code = "DANGLING_DEPENDENCY"


class NotIndexed(CallError):
    """The workspace has no index yet."""

    code = "NOT_INDEXED"
    retryable = True


class UnsuitableRoot(CallError):
    """The folder cannot be a workspace: `/`, the home folder, or a folder without a project."""

    code = "UNSUITABLE_ROOT"


class RateLimited(CallError):
    """A tool was called more often than its rate allows; `retry_after_s` in the details is the time to wait."""

    code = "RATE_LIMITED"
    retryable = True


class SearchTimeout(CallError):
    """A text search took too long and was stopped; a narrower search may finish."""

    code = "SEARCH_TIMEOUT"


class DiffInvalid(CallError):
    """The text is not a unified diff, or contradicts itself."""

    code = "DIFF_INVALID"


class DiffTruncated(CallError):
    """A hunk of the diff has fewer lines than its header announces."""

    code = "DIFF_TRUNCATED"


class DiffCombinedUnsupported(CallError):
    """The diff is a combined one (`diff --cc`, `@@@`), which compares a file with several parents at once."""

    code = "DIFF_COMBINED_UNSUPPORTED"


class RefNotFound(CallError):
    """No branch, tag or commit of the repository has that name."""

    code = "REF_NOT_FOUND"


class Cancelled(CallError):
    """The caller canceled the work; what was committed before stays."""

    code = "CANCELLED"
    retryable = True


# -- errors that a person at the machine can repair ----------------------------------------------------------------


class HostError(ContextEngineError):
    """The machine is in the way."""

    code = "HOST_ERROR"
    retryable = True


class AccessFailed(HostError):
    """The operating system refuses to read or list something inside the workspace."""

    code = "ACCESS_FAILED"


class TimedOut(AccessFailed):
    """Git did not end in its time; the same call would take as long again."""

    code = "TIMED_OUT"
    retryable = False


class DiskFull(HostError):
    """The disk with the index or the records is full."""

    code = "DISK_FULL"


class WriteFailed(HostError):
    """A file could not be written (locked, read-only, disk full) and is unchanged."""

    code = "WRITE_FAILED"


class StorageCorrupt(HostError):
    """A file of the product is damaged, or something else is in its place: a link, a pipe, another database."""

    code = "STORAGE_CORRUPT"
    retryable = False


class StorageBusy(HostError):
    """Another process holds the writer's lock."""

    code = "STORAGE_BUSY"


class StoreUnavailable(HostError):
    """The shared store does not answer at the moment."""

    code = "STORE_UNAVAILABLE"


class StoreUnusable(HostError):
    """The shared store cannot be used: another layout version, no write permission, or an unknown kind of address."""

    code = "STORE_UNUSABLE"
    retryable = False


class EmbedderFailed(HostError):
    """An embedding endpoint failed: it timed out, limited the rate, or reported an error."""

    code = "EMBEDDER_FAILED"


class EmbedderUnusable(HostError):
    """An embedder is misconfigured: an unknown kind, a rejected key, an unknown model, or another vector size."""

    code = "EMBEDDER_UNUSABLE"
    retryable = False


class InvalidVectors(HostError):
    """Vectors cannot be stored or compared: another size, another model, or not finite."""

    code = "INVALID_VECTORS"
    retryable = False


class GitUnavailable(HostError):
    """The call needs git and a repository, and one of them is missing."""

    code = "GIT_UNAVAILABLE"
    retryable = False


class UnsupportedHost(HostError):
    """A required program or package is missing, or too old."""

    code = "UNSUPPORTED_HOST"
    retryable = False


# -- errors of the product ------------------------------------------------------------------------------------------


class BugError(ContextEngineError):
    """The product has a defect; please report it."""

    code = "INTERNAL"
