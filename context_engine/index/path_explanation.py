"""Why a file or folder is in the index or not: the rule, limit or format that keeps it out, or what the index has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Literal

from context_engine.errors import AccessDenied, FileNotFound, InvalidPath
from context_engine.index.embedded_store import EmbeddedStore
from context_engine.index.file_roles import ROLES
from context_engine.index.live_index import LiveIndex
from context_engine.index.snapshot import Snapshot
from context_engine.languages import Languages
from context_engine.model import Skipped
from context_engine.repo import LoadedFile, Root, Walk, is_under, load_for_index, walk

PathState = Literal["indexed", "edited", "waiting", "excluded", "folder", "missing", "outside"]
"""`edited`: it has changed since. `waiting`: it will be in the index. `outside`: not in the workspace."""

INDEX_STATES = ("indexed", "edited", "folder")
"""The states of what is in the index."""
WORD_FILES_MAX = 200
WORD_BYTES_MAX = 20_000_000
"""Files that are not indexed, and their bytes, in which a name is searched."""
FOLDER_EXAMPLES_MAX = 3
ROLE_NOTES = {
    "test": "a test",
    "docs": "documentation",
    "example": "an example",
    "bench": "a benchmark",
    "compat": "code for older versions",
    "vendor": "vendored code",
    "generated": "generated",
    "data": "data",
}
"""The roles that ranking may place lower."""


@dataclass(frozen=True, slots=True)
class PathExplanation:
    """Why a path is in the index or not.

    `reason` is one word where the path is excluded (as in `Skipped`), `detail` names the rule or the limit, `cause` the
    folder that the rule excludes, where that is not the path itself.
    """

    path: str
    state: PathState
    reason: str = ""
    detail: str = ""
    cause: str = ""
    notes: tuple[str, ...] = ()

    @property
    def is_indexed(self) -> bool:
        """Whether the index has it."""
        return self.state in INDEX_STATES


class PathExplainer:
    """Explains paths of one workspace by the rules that the index itself uses."""

    def __init__(
        self,
        root: Root,
        live: LiveIndex,
        store: EmbeddedStore,
        languages: Languages,
        *,
        bytes_max: int,
        excludes_file: str | None,
    ) -> None:
        self._root = root
        self._live = live
        self._store = store
        self._languages = languages
        self._bytes_max = bytes_max
        self._excludes_file = excludes_file

    def explain(self, path: str) -> PathExplanation:
        """Return why a file or folder is in the index or not."""
        try:
            rel = str(self._root.rel(path))
        except AccessDenied as error:
            return PathExplanation(path, "excluded", "sensitive", error.message)
        except FileNotFound as error:
            return PathExplanation(path, "missing", notes=(error.format_suggestion(str),))
        except InvalidPath as error:
            return PathExplanation(path, "outside", "", error.message)
        rel = "" if rel == "." else rel
        seen = self._walk(rel)
        excluded = self._find_excluded(seen, rel)
        if excluded is not None:
            cause = excluded.path if excluded.path != rel else ""
            return PathExplanation(rel, "excluded", excluded.reason, excluded.detail, cause)
        if any(entry.path == rel for entry in seen.entries):
            return self._explain_file(rel)
        return self._explain_folder(rel, seen)

    def find_word(self, name: str) -> list[tuple[str, str]]:
        """Return files outside of the index that contain a word, each with the reason why it is not indexed.

        Only single files are read, up to a limit; never folders that are ignored as a whole, nor secret-like files.
        """
        found: list[tuple[str, str]] = []
        left = WORD_BYTES_MAX
        for skipped in islice(self._unindexed_files(), WORD_FILES_MAX):
            loaded = load_for_index(self._root.confined, skipped.path, bytes_max=max(0, left))
            if isinstance(loaded, LoadedFile):
                left -= loaded.size
                if name.encode("utf-8", "replace") in loaded.data:
                    found.append((skipped.path, " ".join(filter(None, (skipped.reason, skipped.detail)))))
        return found

    def _unindexed_files(self) -> Iterator[Skipped]:
        for skipped in self._walk("").skipped:
            if skipped.reason in ("ignored", "too_large"):  # reading a folder fails, which does no harm
                yield skipped

    def _walk(self, rel: str) -> Walk:
        return walk(self._root.path, [rel], bytes_max=self._bytes_max, excludes_file=self._excludes_file)

    def _find_excluded(self, seen: Walk, rel: str) -> Skipped | None:
        """Return why the walk left out a path, or a folder above it."""
        found = next((row for row in seen.skipped if is_under(rel, row.path)), None)
        if found is not None or seen.entries or rel in seen.folders or not rel:
            return found
        return Skipped(rel, "internal", "files of version control and of this program are never indexed")

    def _explain_file(self, rel: str) -> PathExplanation:
        snapshot = self._live.snapshot()
        loaded = load_for_index(self._root.confined, rel, bytes_max=self._bytes_max)
        if isinstance(loaded, Skipped):
            return PathExplanation(rel, "excluded", loaded.reason, loaded.detail)
        if snapshot is None or rel not in snapshot.by_path:
            return PathExplanation(rel, "waiting", detail=self._describe_wait(snapshot))
        notes = self._describe(snapshot, snapshot.by_path[rel])
        if rel in self._live.stale_files():
            return PathExplanation(rel, "edited", detail="it is edited since; the next search updates it", notes=notes)
        return PathExplanation(rel, "indexed", notes=notes)

    def _describe_wait(self, snapshot: Snapshot | None) -> str:
        if self._live.is_building:
            return f"{self._live.describe_freshness()}: it waits for its turn"
        if snapshot is None:
            return "this workspace has no index yet: index it"
        return "it is new: the next search or index run adds it"

    def _describe(self, snapshot: Snapshot, number: int) -> tuple[str, ...]:
        """Return notes on an indexed file: language, chunks, and the role that ranking sees."""
        name = snapshot.languages[int(snapshot.file_column("language")[number])]
        language = self._languages.get(name)
        chunks = int((snapshot.chunk_file[:] == number).sum())
        notes = [f"{name}, {chunks:,} {'chunk' if chunks == 1 else 'chunks'}"]
        if language is None or not language.grammar:
            notes.append("its language has no grammar: it is read by lines, and its symbols are not known")
        role = ROLES[int(snapshot.file_column("role")[number])]
        if role in ROLE_NOTES:
            notes.append(f"its role is {ROLE_NOTES[role]}: ranking may place it lower")
        return tuple(notes)

    def _explain_folder(self, rel: str, seen: Walk) -> PathExplanation:
        snapshot = self._live.snapshot()
        indexed = set()
        if snapshot is not None:
            indexed = set(snapshot.by_path)
        present = [entry.path for entry in seen.entries]
        count = sum(path in indexed for path in present)
        by_content = (Skipped(*row[:3]) for row in self._store.skipped_files() if is_under(row[0], rel))
        skipped = [*seen.skipped, *by_content]
        reasons = Counter(row.reason.replace("_", " ") for row in skipped)
        left_out = ", ".join(f"{number:,} {reason}" for reason, number in reasons.most_common())
        notes = (*([f"left out: {left_out}"] if left_out else []), *self._examples(skipped))
        if not present:
            return PathExplanation(
                rel or ".", "excluded", "nothing_to_index", "no file in it can be indexed", notes=notes
            )
        state: PathState = "folder" if count else "waiting"
        return PathExplanation(
            rel or ".", state, detail=f"{count:,} of {len(present):,} files are indexed", notes=notes
        )

    def _examples(self, skipped: Sequence[Skipped]) -> list[str]:
        chosen = sorted(skipped, key=attrgetter("order"))[:FOLDER_EXAMPLES_MAX]
        return [f"{row.path}: {row.reason.replace('_', ' ')} ({row.detail})" for row in chosen]
