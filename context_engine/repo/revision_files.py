"""Files of one revision - a commit, the stage or the work tree: their paths, bytes, and which of them contain a word.

Nothing is checked out. Paths are relative to the folder in which git runs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from context_engine.errors import AccessFailed, ContextEngineError, TooLarge, UnsupportedHost
from context_engine.repo.git import TIMEOUT_S, Git
from context_engine.repo.git_diffs import UNTRACKED_MAX, VERSION_BYTES_MAX
from context_engine.repo.paths import is_sensitive

WORDS_MAX = 200
"""A question about a change has fewer words; git compares each line with all of them."""
GREP_S_MAX = 5.0
"""Searching a large repository takes about a second; what takes longer is not worth a reviewer's time."""
_WORD = re.compile(r"\w+")
_NO_ANSWER = (AccessFailed, UnsupportedHost, TooLarge)


@dataclass(frozen=True, slots=True)
class GitRevision:
    """The files of a commit (its hash), of the `STAGE`, or of the `WORK_TREE`, which `on_disk` reads."""

    WORK_TREE: ClassVar[str] = ""
    STAGE: ClassVar[str] = ":"

    git: Git
    commit: str
    on_disk: Callable[[str], bytes | None] = lambda _path: None

    def paths(self) -> Sequence[str]:
        """Return every path, sorted; none where git fails."""
        if self.commit == self.WORK_TREE:
            return sorted({*self._stored_paths(self.STAGE), *self._untracked_paths()})
        return self._stored_paths(self.commit)

    def _stored_paths(self, commit: str) -> Sequence[str]:
        if commit == self.STAGE:
            output = self._git_output("ls-files", "-z", "--cached")
        else:
            output = self._git_output("ls-tree", "-r", "-z", "--name-only", commit)
        return sorted(set(filter(None, output.decode("utf-8", "replace").split("\0"))))

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        """Return the bytes of these files; files that do not exist, are too large or contain secrets are left out."""
        wanted = [path for path in dict.fromkeys(paths) if path and not is_sensitive(path)]
        if self.commit == self.WORK_TREE:
            return {path: data for path in wanted if (data := self.on_disk(path)) is not None}
        below = self.git.below()
        prefix = (":" if self.commit == self.STAGE else f"{self.commit}:") + (f"{below}/" if below else "")
        try:
            blobs = self.git.read_blobs([f"{prefix}{path}" for path in wanted], bytes_max=VERSION_BYTES_MAX)
        except _NO_ANSWER:
            return {}
        return {name.removeprefix(prefix): data for name, data in blobs.items()}

    def files_with_words(self, words: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Return the files that contain each of these as a whole word; none where git fails or takes too long."""
        wanted = [word for word in dict.fromkeys(words) if word and "\n" not in word][:WORDS_MAX]
        if not wanted:
            return {}
        patterns = [part for word in wanted for part in ("-e", word)]
        options = ("-I", "-F", "-w", "-o", "-z", "--no-color", "--no-recurse-submodules")
        before = ("--cached",) if self.commit == self.STAGE else ()
        after = (self.commit,) if self.commit not in (self.STAGE, self.WORK_TREE) else ()
        output = self._git_output("grep", *options, *before, *patterns, *after, timeout_s=GREP_S_MAX)
        found: dict[str, set[str]] = {word: set() for word in wanted}
        for row in output.decode("utf-8", "replace").split("\n"):
            place, _, word = row.partition("\0")
            path = place.partition(":")[2] if after else place
            if word in found and path and not is_sensitive(path):
                found[word].add(path)
        if self.commit == self.WORK_TREE:
            self._search_untracked(found)
        return {word: sorted(paths) for word, paths in found.items()}

    def _untracked_paths(self) -> list[str]:
        try:
            paths = self.git.untracked_paths()
        except ContextEngineError:
            return []
        return [os.fsencode(path).decode("utf-8", "replace") for path in paths]

    def _search_untracked(self, found: Mapping[str, set[str]]) -> None:
        """Add the files that git does not track, which `git grep` would find by rules of the repository."""
        for path, data in self.read(self._untracked_paths()[:UNTRACKED_MAX]).items():
            text = data.decode("utf-8", "replace")
            whole = set(_WORD.findall(text))
            for word in filter(text.__contains__, found):
                if whole.issuperset(_WORD.findall(word)):
                    found[word].add(path)

    def _git_output(self, *args: str, timeout_s: float = TIMEOUT_S) -> bytes:
        """Return what git prints; nothing when it refuses, is not installed, or finds nothing (`grep` exits with 1)."""
        try:
            return self.git.run(*args, timeout_s=timeout_s)
        except _NO_ANSWER:
            return b""
