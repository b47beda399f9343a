"""An append-only log of events, one JSON line each, in which every line contains the hash of the one before it.

An incomplete line of a killed writer at the end does not count, and the next writer cuts it off. A line changed or lost
before the end breaks the chain: nothing is read or appended until the file is repaired. How far the log was
written here is in a file next to it (`events.head`); a shorter log says so (`LogContent.doubt`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from context_engine.errors import DiskFull, StorageBusy, StorageCorrupt, TooLarge, WriteFailed
from context_engine.storage.confined_folder import write_all
from context_engine.storage.state_folder import PublishFiles, StateFolder
from context_engine.storage.typed_values import prepare_type

LINE_BYTES_MAX = 65_536
"""An event describes what happened; longer content belongs into a file."""
BYTES_MAX = 256_000_000
"""A million events."""
SHA_CHARS = 32
"""128 bits: enough to notice any accident."""


@dataclass(frozen=True, slots=True)
class LogContent:
    """The content of a log.

    `size` are the bytes of its complete lines, `sha` is the hash of the last one, `torn` bytes follow.

    `doubt` says why it is not the log that was written here; empty when it is.
    """

    events: tuple[Mapping[str, Any], ...] = ()
    size: int = 0
    sha: str = ""
    torn: int = 0
    doubt: str = ""


class _LogHead(msgspec.Struct):
    """How far a log was written here: the number of its last line, and the hash of that."""

    seq: int
    sha: str


def head_path(log: str) -> str:
    """Return the path of the file that says how far this machine wrote a log.

    >>> head_path("plans/plan_1/events.jsonl")
    'plans/plan_1/events.head'
    """
    return f"{log.removesuffix('.jsonl')}.head"


class EventLog:
    """One log. Only one process may append; readers may come at any time.

    `flush=False` gives up surviving a power cut; `share` is set where a team shares the log.

    """

    def __init__(self, files: StateFolder, name: str, *, flush: bool = True, share: PublishFiles | None = None) -> None:
        """Create nothing until something is appended. `files`: the folder that contains it."""
        self.path = files.path / name
        self._files = files
        self._name = name
        self._head_name = head_path(name)
        self._flush = flush
        self._share = share

    def read(self) -> LogContent:
        """Return all events; none when there is no file. Raises: StorageCorrupt with the line that breaks the chain."""
        head = self._head()  # read before the log, so that a new line raises no doubt
        log = parse_log(self._bytes(), self.path)
        return replace(log, doubt=_find_doubt(log, head)) if head else log

    def append(self, log: LogContent, bodies: Sequence[Mapping[str, Any]]) -> LogContent:
        """Append events to a log that was just read; return its new content. After a crash all or the first ones count.

        Raises: TooLarge, StorageBusy (another process wrote meanwhile), WriteFailed, DiskFull, StorageCorrupt.

        """
        lines, after = _encode_events(log, bodies)
        if self._share:
            self._share({self.path: self._bytes()[: log.size] + lines})
        self._files.make()
        is_new = not self._files.exists(self._name)
        with self._files.open_descriptor(self._name, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
            if os.fstat(descriptor).st_size != log.size + log.torn:
                raise StorageBusy(
                    f"{self.path.name} of {self.path.parent.name} was written by another process meanwhile",
                    suggestion="Call again.",
                    details={"path": str(self.path)},
                )
            self._write(descriptor, log, lines)
        if is_new and self._flush:
            self._files.flush()
        if log.doubt and (head := self._head()):
            return replace(after, doubt=_find_doubt(after, head))
        with suppress(WriteFailed, DiskFull, StorageCorrupt):  # the last one stays, valid for the part before
            head = _LogHead(len(after.events), after.sha)
            self._files.replace(self._head_name, msgspec.json.encode(head), flush=False)
        return after

    def _head(self) -> _LogHead | None:
        data = self._files.read(self._head_name, bytes_max=LINE_BYTES_MAX)
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(data, type=prepare_type(_LogHead)) if isinstance(data, bytes) else None
        return None

    def _bytes(self) -> bytes:
        data = self._files.read(self._name, bytes_max=BYTES_MAX)
        if isinstance(data, str):
            raise StorageCorrupt(
                f"{self.path.name} of {self.path.parent.name} cannot be read: {data}",
                suggestion="Make it a file that this user may read.",
                details={"path": str(self.path)},
            )
        return data or b""

    def _write(self, descriptor: int, log: LogContent, lines: bytes) -> None:
        """Append lines to the complete ones; on failure, as on a full disk, none of them stays."""
        try:
            if log.torn:
                os.ftruncate(descriptor, log.size)
            write_all(descriptor, lines)
            if self._flush:
                os.fsync(descriptor)
        except OSError:
            with suppress(OSError):  # what is left of them is torn, and cut off by the next one
                os.ftruncate(descriptor, log.size)
            raise


def parse_log(data: bytes, path: Path) -> LogContent:
    r"""Parse the bytes of a log. Raises: StorageCorrupt.

    >>> log = parse_log(b'{"seq":1,"prev_sha":"","kind":"created"}\n{"seq":2,"pre', Path("events.jsonl"))
    >>> log.events, log.size, log.torn
    (({'seq': 1, 'prev_sha': '', 'kind': 'created'},), 41, 13)
    """
    events: list[Mapping[str, Any]] = []
    size, sha = 0, ""
    *lines, rest = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        event = _event(line)
        if event is None and number == len(lines) and not rest:
            rest = line + b"\n"  # blocks of the last line reached the disk in another order
            break
        if event is None:
            raise _corrupt_error(path, number, "it is not a JSON object")
        if event.get("seq") != number or event.get("prev_sha") != sha:
            why = f"it does not follow on line {number - 1}" if number > 1 else "it is not the first"
            raise _corrupt_error(path, number, why)
        events.append(event)
        size, sha = size + len(line) + 1, _sha(line.rstrip(b"\r"))  # git may write other line ends
    return LogContent(tuple(events), size, sha, len(rest))


def _corrupt_error(path: Path, line: int, why: str) -> StorageCorrupt:
    return StorageCorrupt(
        f"{path.name} of {path.parent.name} is damaged at line {line}: {why}; until it is repaired"
        " it is not read and nothing is written to it",
        suggestion=f"Restore {path.name} from git or a backup, or cut it off before line {line}: the events"
        " from that line on are lost then.",
        details={"path": str(path), "line": line},
    )


def _find_doubt(log: LogContent, head: _LogHead) -> str:
    """Return why a log is not the one that was written here; empty when it is, however much longer."""
    if head.seq > len(log.events):
        return f"{head.seq} events were written here and {len(log.events)} are left"
    following = [str(event["prev_sha"]) for event in log.events[head.seq : head.seq + 1]]
    if head.seq > 0 and (following or [log.sha])[0] != head.sha:
        return f"line {head.seq} is not the one that was written here"
    return ""


def _encode_events(log: LogContent, bodies: Sequence[Mapping[str, Any]]) -> tuple[bytes, LogContent]:
    """Return the lines of new events, and the log with them. Raises: TooLarge."""
    lines, events, sha = [], list(log.events), log.sha
    for body in bodies:
        event = {"seq": len(events) + 1, "prev_sha": sha, **body}
        line = msgspec.json.encode(event)
        if len(line) > LINE_BYTES_MAX:
            raise TooLarge(
                f"an event of {len(line):,} bytes, at most {LINE_BYTES_MAX:,} are kept",
                suggestion="Shorten notes, evidence and errors; name the file that contains the rest.",
                details={"bytes": len(line), "limit": LINE_BYTES_MAX},
            )
        sha = _sha(line)
        lines.append(line + b"\n")
        events.append(event)
    data = b"".join(lines)
    return data, LogContent(tuple(events), log.size + len(data), sha)


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return event if isinstance(event, dict) else None


def _sha(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:SHA_CHARS]
