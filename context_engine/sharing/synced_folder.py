"""A folder of records that a team has in common: the files that the code reads and people edit, and the database where they meet.

    <home>/<kind>/...                      the files; a conflict is kept beside them, here alone
    <cache>/commons-<kind>-<mark>.db       what both sides agreed on, see `seen`

Before something is read the folder is brought to what the team has, at most once a second; while the database does not
answer, the files serve as they are. Whoever writes holds the right to write among all machines, looks first, and puts
each change into the database before it becomes a file: nobody ever reads what the team might not get, and a death in
between is mended by the next look. A file that vanished comes back: only what is deleted through us is deleted for all.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from context_engine.errors import ContextEngineError, StorageBusy, StoreUnavailable, StoreUnusable
from context_engine.sharing.merge_rules import MergeAction, MergeInput, MergePolicy, decide
from context_engine.sharing.remote_records import RecordMeta, RemoteRecordStore, WriteLease
from context_engine.sharing.remote_store import RETRY_DELAY_S
from context_engine.sharing.sync_state import MergeBase, SyncState
from context_engine.storage import UNSETTLED_NS, FileStamp, StateFolder, head_path, trash

WAIT_S = 10.0
"""A write takes some hundredths of a second, and a hundred people do not write at once."""
REST_FACTOR = 20
"""A look at thousands of files takes some hundredths of a second, and may cost no more than one call in twenty."""
BYTES_MAX = 64_000_000
"""A log of two hundred thousand events. What is larger stays on its machine, and is told of."""
FOLDERS = 2
"""A record lies in a folder of its own, or in that of its category; the trash is one more above it."""
FETCHED_AT_ONCE = 100
"""Plans are some thousand bytes each, logs seldom a million."""
CONFLICT = "_conflict-"
"""In the name of what stood here when the team had something else. It is never shared: whoever wrote it looks what to
make of it."""

NO_STAMP = (0, 0, 0)
"""That of no file: it is read again."""

MergePolicyOf = Callable[[str], MergePolicy | None]
"""How the record of a path changes; None for a file that is no record."""


class SyncedFolder:
    """One kind of records in one folder. Thread-safe; any number of processes may hold one on the same folder."""

    def __init__(
        self,
        remote: RemoteRecordStore,
        repository: str,
        folder: Path,
        seen: SyncState,
        natures: MergePolicyOf,
        *,
        rest_s: float,
        flush: bool,
    ) -> None:
        """Nothing is asked or created until it is needed. The folder's name is the kind."""
        self.folder = folder
        self._files = StateFolder(folder.parent).folder(folder.name)
        self.problem = ""
        """Why the team's records were not seen the last time, or what lies here in conflict with them; empty when all
        is well."""
        self._remote = remote
        self._of = repository, folder.name
        self._seen = seen
        self._natures = natures
        self._rest_s = rest_s
        self._flush = flush
        self._look_at = 0.0
        self._give_at = 0.0
        self._refusal = ""
        self._hand: WriteLease | None = None

    # -- reading --

    def sync(self) -> None:
        """Bring the folder to what the team has, unless that was done a moment ago. Never fails: see `problem`."""
        began = time.monotonic()
        if began < self._look_at:
            return
        try:
            with self._seen.lock(0.0):
                self._settle_as_reader()
            self._rest(began)
        except StorageBusy:  # somebody of this machine is at it
            self._look_at = began + self._rest_s
        except ContextEngineError as error:
            self.problem = f"the {self._of[1]} of the team may be newer: {error.message}"
            self._look_at = time.monotonic() + (RETRY_DELAY_S if isinstance(error, StoreUnavailable) else self._rest_s)

    def _settle_as_reader(self) -> None:
        """Take what is the team's; what is ours becomes theirs if we may write."""
        difference = self._difference()
        if not difference.paths("give") or time.monotonic() < self._give_at:
            self._apply(difference, None)
            return
        try:
            with self._remote.acquire_lease(*self._of, 0.0) as lease:
                self._apply(self._difference(), lease)
        except (StorageBusy, StoreUnusable) as error:
            self._refusal = error.message
            if isinstance(error, StoreUnusable):  # who may only read keeps what he wrote, and does not try each second
                self._give_at = time.monotonic() + RETRY_DELAY_S
            self._apply(self._difference(), None)

    def _rest(self, began: float) -> None:
        now = time.monotonic()
        self._look_at = now + max(self._rest_s, REST_FACTOR * (now - began) if self._rest_s else 0.0)

    # -- writing --

    @contextmanager
    def acquire_lease(self) -> Generator[None]:
        """Be the only writer among all machines until the block ends, on what the team has now.

        Raises: StorageBusy, StoreUnavailable, StoreUnusable, WriteFailed, DiskFull.
        """
        with self._seen.lock(WAIT_S), self._remote.acquire_lease(*self._of, WAIT_S) as lease:
            self._apply(self._difference(), lease)
            self._hand = lease
            try:
                yield
            finally:
                self._hand = None

    def publish(self, changes: Mapping[Path, bytes | None]) -> None:
        """Put down what is about to become of files of the folder; None deletes. Only for who is writing.

        Raises: StoreUnavailable, StoreUnusable, DiskFull.
        """
        assert self._hand is not None, "only for who is writing"
        named = {target.relative_to(self.folder).as_posix(): content for target, content in changes.items()}
        shared = {path: content for path, content in named.items() if self._natures(path) and CONFLICT not in path}
        if shared:
            self._hand.put(shared)

    # -- both sides --

    def _difference(self) -> _Difference:
        """What differs between the folder and what the team has, and what is to become of it."""
        revision = self._remote.revision(*self._of)
        if revision < self._seen.revision:
            self._seen.reset()
        agreed = self._seen.files()
        files, aside, closed = self._listed(agreed)
        theirs = self._moved(revision)
        changed = [path for path in {**agreed, **files} if path not in theirs and files.get(path) != agreed.get(path)]
        theirs |= {held.path: held for held in self._remote.list_records(*self._of, changed)} if changed else {}
        shas = {path: files[path].sha for path in (*theirs, *changed) if path in files}
        known = self._remote.find_earlier_contents(*self._of, shas) if shas else set()
        brought = _brought(agreed, shas, theirs)
        verdicts: dict[str, MergeAction | Literal["drop"]] = {}
        for path in {**theirs, **dict.fromkeys(changed)}.keys() - closed:
            held, seen = theirs.get(path, RecordMeta(path, 0, "")), agreed[path].sha if path in agreed else ""
            sides = MergeInput(
                shas.get(path, ""), held.sha, held.is_gone, seen, path in known, came_back=path in brought
            )
            verdicts[path] = self._verdict(path, sides)
        verdicts |= dict.fromkeys(brought.values(), "drop")
        return _Difference(revision, theirs, files, verdicts, aside, closed)

    def _moved(self, revision: int) -> dict[str, RecordMeta]:
        """What changed among the team since it was seen here."""
        if revision == self._seen.revision:
            return {}
        listed = self._remote.list_changes(*self._of, self._seen.revision)
        return {held.path: held for held in listed if is_plain(held.path) and self._natures(held.path)}

    def _verdict(self, path: str, sides: MergeInput) -> MergeAction:
        """What is to be done; a log that is in question is read to know whether it begins with all that the team has of it."""
        nature = self._natures(path) or "fixed"
        said = decide(nature, sides)
        if (said, nature) != ("part", "grows"):
            return said
        theirs = self._remote.read_contents(*self._of, [path]).get(path)
        goes_on = theirs is not None and self._content(path).startswith(theirs)
        return decide(nature, sides._replace(goes_on=goes_on))

    def _apply(self, difference: _Difference, lease: WriteLease | None) -> None:
        """Do what the verdicts say; without a lease only what changes nothing for others."""
        aside = [*difference.aside, *map(self._set_aside, difference.paths("part"))]
        self._take(difference, difference.paths("take", "part"))
        given = difference.paths("give")
        if lease is not None and given:
            dropped = difference.paths("drop")
            lease.put({**{path: self._content(path) for path in given}, **dict.fromkeys(dropped)})
        for path in difference.paths("same"):
            self._agree(path, difference.files.get(path))
        self._seen.advance(difference.revision)
        self.problem = _told_aside(aside) or _told_closed(difference.closed)
        if given and lease is None:
            self.problem = f"{self._of[1]} that were changed here are not the team's yet: {self._refusal}"

    def _take(self, difference: _Difference, paths: list[str]) -> None:
        """Make files what the team has: versions before the logs that speak of them, what came first before what followed."""
        theirs = difference.theirs

        def turn(path: str) -> tuple[int, bool, str]:
            return theirs[path].revision, self._natures(path) == "grows", path

        in_turn = sorted(paths, key=turn)
        for start in range(0, len(in_turn), FETCHED_AT_ONCE):
            some = in_turn[start : start + FETCHED_AT_ONCE]
            contents = self._remote.read_contents(*self._of, some)
            for path in some:
                if self._has_changed(path, difference):
                    continue  # somebody is editing it in this moment: the next look judges anew
                if path in contents:
                    self._forget_head(path)
                    self._files.replace(path, contents[path], flush=self._flush)
                    self._agree(path, self._here(path))
                elif theirs[path].is_gone:
                    self._remove(path)

    def _has_changed(self, path: str, difference: _Difference) -> bool:
        """Whether a file is not what it was when it was judged."""
        here, was = self._here(path), difference.files.get(path)
        return (here and here.sha) != (was and was.sha)

    def _agree(self, path: str, here: MergeBase | None) -> None:
        """Both sides have the same in a file, or neither has it."""
        if here is None:
            self._seen.forget([path])
        else:
            self._seen.record_base(path, here)

    # -- this side --

    def _listed(self, agreed: Mapping[str, MergeBase]) -> tuple[dict[str, MergeBase], list[str], set[str]]:
        """Every record that lies here, read where its stamp is not the one that was agreed on; what lies aside; what cannot be read."""
        found, aside, closed = {}, [], set()
        for path, stamp in (*list_nested_files(self._files), *_below_trash(self._files)):
            if self._natures(path) is None:
                continue
            if CONFLICT in path:
                aside.append(path)
                continue
            known = agreed.get(path)
            here = known if known and known.stamp == stamp else self._here(path)
            if here is not None:
                found[path] = here
            elif self._files.exists(path):
                closed.add(path)
        return found, aside, closed

    def _here(self, path: str) -> MergeBase | None:
        """A file as it is now; None when it went in this moment, or cannot be read."""
        folder, _, name = path.rpartition("/")
        facts = self._files.statuses(folder, [name])[-1:]
        data = self._files.read(path, bytes_max=BYTES_MAX)
        if not facts or not isinstance(data, bytes):
            return None
        is_settled = time.time_ns() - facts[0].st_mtime_ns > UNSETTLED_NS
        return MergeBase(_sha(data), file_stamp(facts[0]) if is_settled else NO_STAMP)

    def _content(self, path: str) -> bytes:
        data = self._files.read(path, bytes_max=BYTES_MAX)
        return data if isinstance(data, bytes) else b""

    def _set_aside(self, path: str) -> str:
        """Keep what stands in a file beside it, under a name that says why; where it lies then."""
        folder, _, name = path.rpartition("/")
        stem, _, suffix = name.partition(".")
        data = self._content(path)
        kept = f"{folder}/{stem}{CONFLICT}{_sha(data)[:8]}.{suffix}"
        self._files.create(kept, data, flush=self._flush)
        return kept

    def _remove(self, path: str) -> None:
        """Delete a file, and its folder when that was the last one."""
        self._forget_head(path)
        self._files.remove(path)
        self._files.remove_empty(path.rpartition("/")[0])
        self._seen.forget([path])

    def _forget_head(self, path: str) -> None:
        """Forget how far this machine wrote a log: from now on the team says what is in it."""
        if self._natures(path) == "grows":
            self._files.remove(head_path(path))


class _Difference(NamedTuple):
    """What is not the same on both sides: what the team has of it up to a `revision`, what lies here, and what is to be done.

    What was moved by lease is dropped where it lay; what is `closed` to us is left alone.
    """

    revision: int
    theirs: Mapping[str, RecordMeta]
    files: Mapping[str, MergeBase]
    verdicts: Mapping[str, MergeAction | Literal["drop"]]
    aside: list[str]
    closed: set[str]

    def paths(self, *said: MergeAction | Literal["drop"]) -> list[str]:
        """Those of which one of these verdicts was said."""
        return [path for path, each in self.verdicts.items() if each in said]


def _brought(
    agreed: Mapping[str, MergeBase], shas: Mapping[str, str], theirs: Mapping[str, RecordMeta]
) -> dict[str, str]:
    """Which files somebody moved here by lease, out of the trash or to a new name, and where they lay."""
    left = [
        path for path, file in agreed.items() if path in theirs and path not in shas and theirs[path].sha == file.sha
    ]
    return {
        path: was
        for was in left
        for path, sha in shas.items()
        if sha == agreed[was].sha
        and (trash.is_copy_of(was, path) if was.startswith(trash.TRASH_FOLDER) else path not in theirs)
    }


def is_plain(path: str) -> bool:
    """Whether a path that a database gave may become a file below a folder, on any system.

    >>> is_plain("decisions/use-tabs.md"), is_plain(".trash/plan_1/v0001.json"), is_plain("../../.bashrc"), is_plain("a/.git/b")
    (True, True, False, False)
    """
    parts = path.removeprefix(f"{trash.TRASH_FOLDER}/").split("/")
    return len(parts) == FOLDERS and not set(path) & set("\\:\0") and not any(part[:1] in ("", ".") for part in parts)


def list_nested_files(files: StateFolder) -> Iterator[tuple[str, FileStamp]]:
    """Every plain file two levels below a folder, with its stamp; links are not followed."""
    for folder in files.folders():
        for name, facts in files.files(folder).items():
            if name[0] != ".":
                yield f"{folder}/{name}", file_stamp(facts)


def _below_trash(files: StateFolder) -> Iterator[tuple[str, FileStamp]]:
    return (
        (f"{trash.TRASH_FOLDER}/{path}", stamp) for path, stamp in list_nested_files(files.folder(trash.TRASH_FOLDER))
    )


def file_stamp(facts: os.stat_result) -> FileStamp:
    """What changes when a file does; 63 bits of the inode, SQLite counts no further."""
    return facts.st_ino & ((1 << 63) - 1), facts.st_size, facts.st_mtime_ns


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _told_closed(paths: set[str]) -> str:
    return (
        f"{', '.join(sorted(paths)[:3])} cannot be read, or {'are' if len(paths) > 1 else 'is'} too large for the team"
        if paths
        else ""
    )


def _told_aside(paths: list[str]) -> str:
    if not paths:
        return ""
    return (
        f"what was written here differs from what the team has, and is kept in {', '.join(sorted(paths)[:3])}"
        f"{' and more' * (len(paths) > 3)}: take over what is missing, then delete it"
    )
