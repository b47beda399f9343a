"""A folder of records that a team shares: the files that our code reads and people edit, synchronized with a database.

    <home>/<kind>/...                      the files; a conflict is kept next to them, on this machine only
    <cache>/commons-<kind>-<mark>.seen      what both sides agreed on; without it every file is compared again

Before a read the folder is synchronized, at most once a second. While the database does not answer, the files serve as
they are. A writer acquires the lease of the kind, synchronizes, and writes each change to the database before it
becomes a file. So no one reads what the team might never get, and the next synchronization repairs what a kill left.
A file that vanished is restored: only a deletion through us is a deletion for all.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from context_engine.errors import ContextEngineError, InvalidArgument, StorageBusy, StoreUnavailable, StoreUnusable
from context_engine.settings import Settings
from context_engine.storage import (
    UNSETTLED_NS,
    FileStamp,
    MergePolicy,
    MergePolicyOf,
    SharedRecords,
    StateFolder,
    SyncedRecords,
    head_path,
    hold_private_lock,
    prepare_type,
    records,
    replace_private,
    translate_os_errors,
)
from context_engine.team.remote_store import RETRY_DELAY_S, name_repository, open_backend, serves
from context_engine.text import join_first

if TYPE_CHECKING:  # its library is optional
    from context_engine.team.postgres_records import PostgresRecords, RecordLease, RecordMeta

REST_S = 1.0
"""An answer may use team records that were synchronized this long ago, as it may use scanned files (`staleness_ms`)."""
WAIT_S = 10.0
"""A write takes some hundredths of a second, and a hundred people do not write at once."""
REST_FACTOR = 20
"""A synchronization of thousands of files takes some hundredths of a second, and may use at most 5 % of the time."""
BYTES_MAX = 64_000_000
"""A log of two hundred thousand events. A larger file stays on its machine, and is reported."""
FOLDERS = 2
"""A record is in a folder of its own, or in that of its category; in the trash there is one more level."""
FETCHED_AT_ONCE = 100
"""Plans have some thousand bytes each, logs seldom a million."""
CONFLICT = "_conflict-"
"""In the name of a local file that differed from the team's. It is never shared: its writer decides what to do."""
NO_STAMP = (0, 0, 0)
"""The stamp of no file: the file is read again."""
INODE_BITS = (1 << 63) - 1
"""Some systems have longer numbers of files than msgpack stores."""
TRASH = records.TRASH_FOLDER

MergeAction = Literal["same", "pull", "push", "conflict"]
"""Do nothing; replace ours by the team's; replace the team's by ours; keep ours next to the team's."""
Action = MergeAction | Literal["delete"]


class MergeInput(NamedTuple):
    """The two sides of a record. Hashes are empty where there is no content.

    `theirs` is the last content where the team's record `is_deleted`. `agreed` is what both sides had when they last
    agreed. `is_known`: the team's record once had our content. `extends`: our content begins with all of theirs.
    `is_restored`: the file was taken out of the trash here.
    """

    ours: str
    theirs: str
    is_deleted: bool = False
    agreed: str = ""
    is_known: bool = False
    extends: bool = False
    is_restored: bool = False


def decide(policy: MergePolicy, record: MergeInput) -> MergeAction:
    """Return what to do.

    >>> decide("edited", MergeInput(ours="new", theirs="old", agreed="old"))
    'push'
    >>> decide("edited", MergeInput(ours="new", theirs="other", agreed="old"))
    'conflict'
    >>> decide("fixed", MergeInput(ours="by hand", theirs="made", agreed="made"))
    'conflict'
    """
    if record.ours == ("" if record.is_deleted else record.theirs):
        return "same"
    if not record.theirs or record.is_restored:
        return "push"
    if not record.ours or record.ours == record.agreed or record.is_known or policy == "derived":
        return "pull"  # ours is missing or older
    if record.is_deleted:
        return "push"  # it was edited here, so the deletion does not apply to this content
    if policy == "grows":
        if record.extends:
            return "push"
        return "conflict"
    is_edit_of_theirs = policy == "edited" and record.theirs == record.agreed
    if is_edit_of_theirs:
        return "push"
    return "conflict"


class MergeBase(NamedTuple):
    """A file as it was when both sides agreed: the hash of its content, and a stamp that changes with it."""

    sha: str
    stamp: FileStamp


class _SeenRecords(msgspec.Struct, array_like=True):
    """What this machine has seen: everything up to a revision, and each file that both sides agreed on."""

    revision: int = 0
    files: dict[str, MergeBase] = {}

    def note(self, path: str, file: MergeBase | None) -> None:
        """Note that both sides have the same content in a file; None: that neither side has the file."""
        self.files.pop(path, None)
        if file is not None:
            self.files[path] = file


class SyncedFolder(SyncedRecords):
    """One kind of records in one folder. Thread-safe; several processes may use one folder."""

    def __init__(
        self,
        remote: PostgresRecords,
        repository: str,
        folder: Path,
        seen_file: Path,
        policy_of: MergePolicyOf,
        *,
        rest_s: float,
        flush: bool,
    ) -> None:
        """Nothing is connected or created until it is needed. The folder's name is the kind.

        `seen_file` says what both sides agreed on.
        """
        self.folder = folder
        self.problem = ""
        """Why the team's records may be newer, or which file is in conflict with them; empty without a problem."""
        self._files = StateFolder(folder.parent).folder(folder.name)
        self._remote = remote
        self._key = repository, folder.name
        self._seen_file = seen_file
        self._seen = _SeenRecords()
        self._policy_of = policy_of
        self._rest_s = rest_s
        self._flush = flush
        self._next_sync_s = 0.0
        self._next_push_s = 0.0
        self._refusal = ""
        self._lease: RecordLease | None = None

    # -- reading --

    def sync(self) -> None:
        """Synchronize the folder, unless that was done a moment ago. Never fails: see `problem`."""
        start_s = time.monotonic()
        if start_s < self._next_sync_s:
            return
        rest_s = self._rest_s
        try:
            with self._lock_seen(0.0):
                self._sync_as_reader()
            if rest_s:
                rest_s = max(rest_s, REST_FACTOR * (time.monotonic() - start_s))
        except StorageBusy:  # another process of this machine does it
            pass
        except ContextEngineError as error:
            self.problem = f"the {self._key[1]} of the team may be newer: {error.message}"
            if isinstance(error, StoreUnavailable):
                rest_s = RETRY_DELAY_S
        self._next_sync_s = time.monotonic() + rest_s

    def _sync_as_reader(self) -> None:
        """Pull what is new; push our changes if we may write."""
        difference = self._compare()
        if difference.paths("push") and time.monotonic() >= self._next_push_s:
            try:
                with self._remote.acquire_lease(*self._key, 0.0) as lease:
                    self._apply(self._compare(), lease)
                return
            except (StorageBusy, StoreUnusable) as error:
                self._refusal = error.message
                if isinstance(
                    error, StoreUnusable
                ):  # without the right to write there is no point in a try each second
                    self._next_push_s = time.monotonic() + RETRY_DELAY_S
                difference = self._compare()
        self._apply(difference, None)

    # -- writing --

    @contextmanager
    def acquire_lease(self) -> Generator[None]:
        """Be the only writer on all machines until the block ends, on the team's present state.

        Raises: StorageBusy, StoreUnavailable, StoreUnusable, WriteFailed, DiskFull.
        """
        with self._lock_seen(WAIT_S), self._remote.acquire_lease(*self._key, WAIT_S) as lease:
            self._apply(self._compare(), lease)
            self._lease = lease
            try:
                yield
            finally:
                self._lease = None

    def publish(self, files: Mapping[Path, bytes | None]) -> None:
        """Write to the database what the files of the folder are about to contain; None deletes. Needs the lease.

        Raises: StoreUnavailable, StoreUnusable, DiskFull.
        """
        assert self._lease is not None, "only with the lease"
        named = {target.relative_to(self.folder).as_posix(): content for target, content in files.items()}
        shared = {path: content for path, content in named.items() if self._policy_of(path) and CONFLICT not in path}
        if shared:
            self._lease.put(shared)

    @contextmanager
    def _lock_seen(self, wait_s: float) -> Generator[None]:
        """Be the only process of this machine that compares; store what the block has seen together, or not at all.

        Raises: StorageBusy, WriteFailed, DiskFull.
        """
        busy = StorageBusy(
            "another process of this machine is writing the records of the team right now",
            suggestion="Call again in a moment; nothing was written.",
        )
        with (
            translate_os_errors(self._seen_file),
            hold_private_lock(f"{self._seen_file}.lock", wait_s=wait_s, busy=busy),
        ):
            self._seen, stored = _SeenRecords(), b""
            with suppress(FileNotFoundError, msgspec.DecodeError):
                stored = self._seen_file.read_bytes()
                self._seen = msgspec.msgpack.decode(stored, type=prepare_type(_SeenRecords))
            yield
            if (content := msgspec.msgpack.encode(self._seen)) != stored:
                replace_private(self._seen_file, content)

    # -- both sides --

    def _compare(self) -> _Difference:
        """Compare the folder with the team's records, and decide what to do about each difference."""
        revision = self._remote.revision(*self._key)
        if revision < self._seen.revision:  # it is another database
            self._seen = _SeenRecords()
        agreed = self._seen.files
        files, conflicts, unreadable = self._list_files(agreed)
        theirs: dict[str, RecordMeta] = {}
        if revision != self._seen.revision:
            changes = self._remote.list_changes(*self._key, self._seen.revision)
            theirs = {meta.path: meta for meta in changes if is_plain(meta.path) and self._policy_of(meta.path)}
        changed = [path for path in {**agreed, **files} if path not in theirs and files.get(path) != agreed.get(path)]
        if changed:
            theirs |= {meta.path: meta for meta in self._remote.list_records(*self._key, changed)}
        shas = {path: files[path].sha for path in (*theirs, *changed) if path in files}
        known = self._remote.find_earlier_contents(*self._key, shas) if shas else set()
        moves = _find_moves(agreed, shas, theirs)
        actions: dict[str, Action] = {}
        for path in (theirs.keys() | set(changed)) - unreadable:
            record, base = theirs.get(path), agreed.get(path)
            sides = MergeInput(
                ours=shas.get(path, ""),
                theirs=record.sha if record else "",
                is_deleted=record is not None and record.is_deleted,
                agreed=base.sha if base else "",
                is_known=path in known,
                is_restored=path in moves,
            )
            actions[path] = self._decide(path, sides)
        actions |= dict.fromkeys(moves.values(), "delete")
        return _Difference(revision, theirs, files, actions, conflicts, unreadable)

    def _decide(self, path: str, sides: MergeInput) -> MergeAction:
        """Decide about a record. A log in conflict is read, to find out whether it begins with all of the team's."""
        policy = self._policy_of(path) or "fixed"
        action = decide(policy, sides)
        if (action, policy) != ("conflict", "grows"):
            return action
        theirs = self._remote.read_contents(*self._key, [path]).get(path)
        extends = theirs is not None and self._content(path).startswith(theirs)
        return decide(policy, sides._replace(extends=extends))

    def _apply(self, difference: _Difference, lease: RecordLease | None) -> None:
        """Carry out the actions; without a lease only those that change nothing for others."""
        conflicts = [*difference.conflicts, *map(self._set_aside, difference.paths("conflict"))]
        self._pull(difference, difference.paths("pull", "conflict"))
        pushed = difference.paths("push")
        if lease is not None and pushed:
            changes: dict[str, bytes | None] = {path: self._content(path) for path in pushed}
            lease.put(changes | dict.fromkeys(difference.paths("delete")))
        for path in difference.paths("same"):
            self._seen.note(path, difference.files.get(path))
        self._seen.revision = difference.revision
        self.problem = ""
        if pushed and lease is None:
            self.problem = f"{self._key[1]} that were changed here are not the team's yet: {self._refusal}"
        elif conflicts:
            self.problem = (
                "what was written here differs from what the team has, and is kept in "
                f"{join_first(sorted(conflicts), 3)}: copy what is missing into the record, then delete it"
            )
        elif difference.unreadable:
            self.problem = (
                f"{join_first(sorted(difference.unreadable), 3)} cannot be read, or not within {BYTES_MAX:,} bytes"
            )

    def _pull(self, difference: _Difference, paths: list[str]) -> None:
        """Write the team's records to files: in the order of their revisions, and versions before the logs."""
        theirs = difference.theirs
        ordered = sorted(paths, key=lambda path: (theirs[path].revision, self._policy_of(path) == "grows", path))
        for start in range(0, len(ordered), FETCHED_AT_ONCE):
            portion = ordered[start : start + FETCHED_AT_ONCE]
            contents = self._remote.read_contents(*self._key, portion)
            for path in portion:
                now, before = self._read_state(path), difference.files.get(path)
                if (now and now.sha) != (before and before.sha):
                    continue  # it is being edited at this moment; the next synchronization decides again
                if path not in contents and not theirs[path].is_deleted:
                    continue
                if self._policy_of(path) == "grows":  # from now on the team decides what is in this log
                    self._files.remove(head_path(path))
                if path in contents:
                    self._files.replace(path, contents[path], flush=self._flush)
                    self._seen.note(path, self._read_state(path))
                else:
                    self._files.remove(path)
                    self._files.remove_empty(path.rpartition("/")[0])
                    self._seen.note(path, None)

    # -- the files of this machine --

    def _list_files(self, agreed: Mapping[str, MergeBase]) -> tuple[dict[str, MergeBase], list[str], set[str]]:
        """Return the records, the files in conflict, and those that cannot be read.

        A record is read only if its stamp is not the agreed one.
        """
        found, conflicts, unreadable = {}, [], set()
        trash = _list_stamps(self._files.folder(TRASH))
        for path, stamp in (_list_stamps(self._files) | {f"{TRASH}/{path}": trash[path] for path in trash}).items():
            if self._policy_of(path) is None:
                continue
            if CONFLICT in path:
                conflicts.append(path)
                continue
            known = agreed.get(path)
            state = known if known and known.stamp == stamp else self._read_state(path)
            if state is not None:
                found[path] = state
            elif self._files.exists(path):
                unreadable.add(path)
        return found, conflicts, unreadable

    def _read_state(self, path: str) -> MergeBase | None:
        """Return the present state of a file; None when it has just vanished, or cannot be read."""
        folder, _, name = path.rpartition("/")
        facts = self._files.statuses(folder, [name])[-1:]
        data = self._files.read(path, bytes_max=BYTES_MAX)
        if not facts or not isinstance(data, bytes):
            return None
        is_settled = time.time_ns() - facts[0].st_mtime_ns > UNSETTLED_NS
        stamp = facts[0].st_ino & INODE_BITS, facts[0].st_size, facts[0].st_mtime_ns
        return MergeBase(_sha(data), stamp if is_settled else NO_STAMP)

    def _content(self, path: str) -> bytes:
        data = self._files.read(path, bytes_max=BYTES_MAX)
        return data if isinstance(data, bytes) else b""

    def _set_aside(self, path: str) -> str:
        """Copy a file next to itself, under a name that marks it as a conflict; return that name."""
        folder, _, name = path.rpartition("/")
        stem, _, suffix = name.partition(".")
        data = self._content(path)
        copy = f"{folder}/{stem}{CONFLICT}{_sha(data)[:8]}.{suffix}"
        self._files.create(copy, data, flush=self._flush)
        return copy


class _Difference(NamedTuple):
    """What differs between both sides up to a `revision`, and what to do about it.

    `theirs` and `files` are the records of both sides. `conflicts` are files that were set aside earlier. Files that
    are `unreadable` here are left alone.
    """

    revision: int
    theirs: Mapping[str, RecordMeta]
    files: Mapping[str, MergeBase]
    actions: Mapping[str, Action]
    conflicts: list[str]
    unreadable: set[str]

    def paths(self, *wanted: Action) -> list[str]:
        """Return the paths with one of these actions."""
        return [path for path, action in self.actions.items() if action in wanted]


def _find_moves(
    agreed: Mapping[str, MergeBase], shas: Mapping[str, str], theirs: Mapping[str, RecordMeta]
) -> dict[str, str]:
    """Return the files that were moved here by hand, out of the trash or to a new name, each with its old path."""
    moves = {}
    for old, file in agreed.items():
        if old not in theirs or old in shas or theirs[old].sha != file.sha:
            continue
        is_trash = old.startswith(TRASH)
        for path in [path for path, sha in shas.items() if sha == file.sha]:
            if records.is_copy_of(old, path) if is_trash else path not in theirs:
                moves[path] = old
    return moves


def is_plain(path: str) -> bool:
    r"""Whether a path from the database may become a file below a folder, on any system.

    >>> is_plain("decisions/use-tabs.md"), is_plain(".trash/plan_1/v0001.json")
    (True, True)
    >>> is_plain("../../.bashrc"), is_plain("a/.git/b"), is_plain("a/..\\b")
    (False, False, False)
    """
    parts = path.removeprefix(f"{TRASH}/").split("/")
    is_safe = not set(path) & set("\\:\0") and all(part[:1] not in ("", ".") for part in parts)
    return is_safe and len(parts) == FOLDERS


def _list_stamps(files: StateFolder) -> dict[str, FileStamp]:
    """Return every plain file two levels below a folder with its stamp, which changes with it; no link is followed."""
    return {
        f"{folder}/{name}": (facts.st_ino & INODE_BITS, facts.st_size, facts.st_mtime_ns)
        for folder in files.folders()
        for name, facts in files.files(folder).items()
        if name[0] != "."
    }


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class TeamRecords(SharedRecords):
    """The shared records of one repository. Thread-safe; nothing is connected before a read or write."""

    def __init__(self, remote: PostgresRecords, repository: str, cache: Path, *, rest_s: float = REST_S) -> None:
        """`cache` is the workspace's folder for what this machine has seen."""
        self.remote = remote
        self.repository = repository
        self.rest_s = rest_s
        self.mark = hashlib.blake2b(f"{remote.name}\\n{repository}".encode(), digest_size=6).hexdigest()
        """Distinguishes this team from other teams in the files of this machine."""
        self.problems: dict[str, str] = {}
        """Problems of records that are not files, by kind."""
        self._cache = cache
        self._folders: list[SyncedFolder] = []

    def open_folder(self, folder: Path, policy_of: MergePolicyOf, *, flush: bool = True) -> SyncedFolder:
        """Return a folder whose records all machines share; its name is their kind."""
        seen_file = self._cache / f"commons-{folder.name}-{self.mark}.seen"
        where = self.repository, folder, seen_file
        synced = SyncedFolder(self.remote, *where, policy_of, rest_s=self.rest_s, flush=flush)
        self._folders.append(synced)
        return synced

    @property
    def problem(self) -> str:
        """Why the team's records may be newer, or which file is in conflict with them; empty without a problem."""
        problems = [*(folder.problem for folder in self._folders), *self.problems.values()]
        return next(filter(None, problems), "")

    def close(self) -> None:
        """Close connections; all can be used again afterwards."""
        self.remote.close()


def open_team_records(root: Path, settings: Settings, cache_folder: Path) -> TeamRecords:
    """Return the records of the team of a workspace, without connecting.

    Raises: InvalidArgument for a database that stores no records, UnsupportedHost when its library is missing.
    """
    address = settings.store_url
    if not serves(address, "Records"):
        raise InvalidArgument(
            "only PostgreSQL stores plans, memories and reviews of a team; "
            f"CTX_STORE_URL is {address.partition(':')[0] or 'empty'}",
            suggestion="set CTX_STORE_URL to a PostgreSQL address, "
            "or leave out CTX_STORE_RECORDS: then they stay files of this machine",
        )
    return TeamRecords(open_backend(address, "Records"), name_repository(root, settings), cache_folder)
