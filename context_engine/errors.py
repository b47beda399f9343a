"""Every error this product raises on purpose, as one tree, by who must act.

`CallError`: the caller asked for something that cannot be done as asked; another call can.
`HostError`: the machine is in the way (disk full, permission, a broken cache); a person can mend it.
`BugError`: we are wrong; there is nothing the caller can do but report it.

One place (`server/dispatcher.py`, or `ctx` for the terminal) turns them into replies. Nothing below it prints.

>>> error = FileNotFound("no file src/mian.py", suggestion="did you mean src/main.py?", details={"path": "src/mian.py"})
>>> error.code, error.retryable, isinstance(error, CallError)
('FILE_NOT_FOUND', False, True)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class ContextEngineError(Exception):
    """What all our errors share: a stable `code`, a sentence, the next step, and facts for a program.

    `code` is what goes over the wire; `retryable` says whether the same call may succeed later, unchanged.
    """

    code: ClassVar[str] = "ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, suggestion: str = "", details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion
        self.details = dict(details or {})

    def as_dict(self) -> dict[str, Any]:
        """The error object of the tool contract: `{code, message, suggestion, retryable, details}`."""
        return {
            "code": self.code,
            "message": self.message,
            "suggestion": self.suggestion,
            "retryable": self.retryable,
            "details": self.details,
        }


# -- the caller can mend it ---------------------------------------------------------------------------------------


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
    """Must not be done here: reading out secrets, keys or git internals, or calling a tool that is switched off."""

    code = "ACCESS_DENIED"


class FileNotFound(CallError):
    """No such file or folder."""

    code = "FILE_NOT_FOUND"


class BinaryFile(CallError):
    """The file holds no text."""

    code = "BINARY_FILE"


class TooLarge(CallError):
    """The file or the answer is over its limit; a part of it can be asked for."""

    code = "TOO_LARGE"


class StaleFile(CallError):
    """The file is no longer what the caller takes it for: it changed since it was read, planned on or written."""

    code = "STALE_FILE"


class InvalidEdit(CallError):
    """The edit cannot be meant as it is: an empty target, a placeholder for code, characters that no file holds."""

    code = "INVALID_EDIT"


class NoChange(CallError):
    """The edit would leave the file as it is."""

    code = "NO_CHANGE"


class NoMatch(CallError):
    """The target of an edit is not in the file."""

    code = "NO_MATCH"


class MultipleMatches(CallError):
    """The target of an edit stands in several places that fit equally well."""

    code = "MULTIPLE_MATCHES"


class AnchorFailed(CallError):
    """The target is there, but not where the anchor says."""

    code = "ANCHOR_FAILED"


class FuzzyUnsafe(CallError):
    """A place comes near, but what would have to be written there is not certain."""

    code = "FUZZY_UNSAFE"


class Conflict(CallError):
    """Two things exclude each other: edits of the same lines, or a call and what somebody else did before it."""

    code = "CONFLICT"


class WrongEncoding(CallError):
    """The file is in an encoding that the edit cannot be written in, or in none that can be kept byte for byte."""

    code = "ENCODING"


class InvalidLineRange(CallError):
    """The line range is empty, reversed or past the end of the file."""

    code = "INVALID_LINE_RANGE"


class SymbolNotFound(CallError):
    """No definition of that name is indexed."""

    code = "SYMBOL_NOT_FOUND"


class MemoryNotFound(CallError):
    """No memory has that id."""

    code = "MEMORY_NOT_FOUND"


class PlanNotFound(CallError):
    """No plan has that id or name, or it has no such version."""

    code = "PLAN_NOT_FOUND"


class ApprovalNotFound(CallError):
    """No request for approval has that id."""

    code = "APPROVAL_NOT_FOUND"


class NeedsApproval(CallError):
    """It may only be done once somebody has approved of it, or a person must be the one to say so."""

    code = "NEEDS_APPROVAL"


class ReviewNotFound(CallError):
    """No review, and no session of one, has that id; or it is so old that it is gone."""

    code = "REVIEW_NOT_FOUND"


class ReviewBusy(CallError):
    """As many reviews are running as one process takes on at once."""

    code = "REVIEW_BUSY"
    retryable = True


class UnknownTool(CallError):
    """No tool has that name."""

    code = "UNKNOWN_TOOL"


class NotConfirmed(CallError):
    """A destructive call lacks its explicit confirmation."""

    code = "NOT_CONFIRMED"


class PreconditionFailed(CallError):
    """The call makes sense, but not in the state that things are in: nothing is staged, a step waits for another one."""

    code = "PRECONDITION_FAILED"


class InvalidPlan(CallError):
    """The plan contradicts itself or the workspace: a uid given twice, a file to change that is not there."""

    code = "INVALID_PLAN"


class Cycle(CallError):
    """Steps of a plan wait for each other in a circle, which the details name."""

    code = "CYCLE"


class DanglingDependency(CallError):
    """A step waits for one that the plan does not have."""

    code = "DANGLING_DEPENDENCY"


class NotIndexed(CallError):
    """The workspace has no index yet."""

    code = "NOT_INDEXED"
    retryable = True


class UnsuitableRoot(CallError):
    """The folder must not be taken for a workspace: `/`, the home folder, or a folder with no project in it."""

    code = "UNSUITABLE_ROOT"


class RateLimited(CallError):
    """A tool was called more often than its rate allows; `retry_after_s` in the details says how long to wait."""

    code = "RATE_LIMITED"
    retryable = True


class SearchTimeout(CallError):
    """A text search took too long and was stopped; a narrower one may not."""

    code = "SEARCH_TIMEOUT"


class DiffInvalid(CallError):
    """The text is no unified diff, or contradicts itself."""

    code = "DIFF_INVALID"


class DiffTruncated(CallError):
    """The diff ends, or goes on with something else, before a hunk has all the lines that its header announces."""

    code = "DIFF_TRUNCATED"


class DiffCombinedUnsupported(CallError):
    """A combined diff (`diff --cc`, `@@@`) compares with several parents at once, and says not which line is new to whom."""

    code = "DIFF_COMBINED_UNSUPPORTED"


class RefNotFound(CallError):
    """No branch, tag or commit of the repository has that name."""

    code = "REF_NOT_FOUND"


class Cancelled(CallError):
    """The caller cancelled the work; what was committed before stays."""

    code = "CANCELLED"
    retryable = True


# -- a person at the machine can mend it --------------------------------------------------------------------------


class HostError(ContextEngineError):
    """The machine is in the way."""

    code = "HOST_ERROR"
    retryable = True


class AccessFailed(HostError):
    """The operating system refuses to read or list something inside the workspace."""

    code = "ACCESS_FAILED"


class DiskFull(HostError):
    """No room left where the index or a record is written."""

    code = "DISK_FULL"


class WriteFailed(HostError):
    """A file could not be written: closed, read-only, or no room on the disk. It is as it was."""

    code = "WRITE_FAILED"


class StorageCorrupt(HostError):
    """A file of ours is damaged, or something else is in its place: a link, a pipe, a database of others."""

    code = "STORAGE_CORRUPT"
    retryable = False


class StorageBusy(HostError):
    """Another process holds the writer's lock."""

    code = "STORAGE_BUSY"


class StoreUnavailable(HostError):
    """The shared store does not answer now."""

    code = "STORE_UNAVAILABLE"


class StoreUnusable(HostError):
    """The shared store cannot serve as it is: laid out by another version, no right to write, an address of no kind we know."""

    code = "STORE_UNUSABLE"
    retryable = False


class EmbedderFailed(HostError):
    """An embedding endpoint does not deliver now: no answer in time, too many requests, an error of its own."""

    code = "EMBEDDER_FAILED"


class EmbedderUnusable(HostError):
    """An embedder cannot serve as it is configured: unknown, key refused, no such model, vectors of another size."""

    code = "EMBEDDER_UNUSABLE"
    retryable = False


class InvalidVectors(HostError):
    """Vectors do not fit where they are to be kept or compared: another size, another model, or not finite."""

    code = "INVALID_VECTORS"
    retryable = False


class GitUnavailable(HostError):
    """What was asked needs git and a repository, and one of them is not there."""

    code = "GIT_UNAVAILABLE"
    retryable = False


class UnsupportedHost(HostError):
    """Something that must be installed is not there, or too old."""

    code = "UNSUPPORTED_HOST"
    retryable = False


# -- we must mend it ----------------------------------------------------------------------------------------------


class BugError(ContextEngineError):
    """We are wrong; please report it."""

    code = "INTERNAL"
