"""One version of a repository's files - a commit, the stage or the work tree - asked for its paths, their bytes, and who holds a word.

Nothing is checked out, and no program that the repository names is started. Paths are relative to the folder git runs
in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from context_engine.errors import AccessFailed, TooLarge, UnsupportedHost
from context_engine.repo.git import TIMEOUT_S, Git
from context_engine.repo.git_diffs import VERSION_BYTES_MAX, parse_batch
from context_engine.repo.paths import is_sensitive

WORDS_MAX = 200
"""More words are no question about a change; git compares each line with all of them."""
HOLDING_S = 5.0
"""Looking through a large repository takes about a second; what takes longer is not worth a reviewer's time."""
WORK_TREE, STAGE = "", ":"
"""What is asked instead of a commit."""


@dataclass(frozen=True, slots=True)
class Version:
    """The files of a commit (its hash), of `STAGE`, or of the `WORK_TREE`; `on_disk` reads a file of the last.

    `below` is the folder of the repository that paths are relative to, with its slash; `below(git)` knows it.
    """

    git: Git
    commit: str
    below: str = ""
    on_disk: Callable[[str], bytes | None] = lambda _path: None

    def paths(self) -> Sequence[str]:
        """Every path, sorted; none where git fails."""
        if self.commit not in (WORK_TREE, STAGE):
            said = self._git_output("ls-tree", "-r", "-z", "--name-only", self.commit)
        elif self.commit == STAGE:
            said = self._git_output("ls-files", "-z", "--cached")
        else:
            said = self._git_output("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return sorted(set(filter(None, said.decode("utf-8", "replace").split("\0"))))

    def read(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        """The bytes of these files; of those that are not there, too large or nobody's business, nothing."""
        wanted = [path for path in dict.fromkeys(paths) if path and "\n" not in path and not is_sensitive(path)]
        if self.commit == WORK_TREE:
            return {path: data for path in wanted if (data := self.on_disk(path)) is not None}
        prefix = ":" if self.commit == STAGE else f"{self.commit}:"
        named = "".join(f"{prefix}{self.below}{path}\n" for path in wanted).encode("utf-8", "surrogatepass")
        if not wanted:
            return {}
        rows = self._git_output("cat-file", "--batch-check", given=named).split(b"\n")
        hashes = {
            path: words[0].decode()
            for path, row in zip(wanted, rows, strict=False)
            if len(words := row.split()) == 3 and words[1] == b"blob" and int(words[2]) <= VERSION_BYTES_MAX
        }
        given = "".join(f"{name}\n" for name in dict.fromkeys(hashes.values())).encode()
        blobs = parse_batch(self._git_output("cat-file", "--batch", given=given)) if hashes else {}
        return {path: blobs[name] for path, name in hashes.items() if name in blobs}

    def holding(self, words: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """The files in which each of these stands as a whole word; none where git fails or takes too long."""
        wanted = [word for word in dict.fromkeys(words) if word and "\n" not in word][:WORDS_MAX]
        if not wanted:
            return {}
        patterns = [part for word in wanted for part in ("-e", word)]
        where = {WORK_TREE: ("--untracked",), STAGE: ("--cached",)}.get(self.commit, (self.commit,))
        options = ("-I", "-F", "-w", "-o", "-z", "--no-color", "--no-recurse-submodules")
        before = where if self.commit in (WORK_TREE, STAGE) else ()
        said = self._git_output("grep", *options, *before, *patterns, *(() if before else where), timeout_s=HOLDING_S)
        found: dict[str, set[str]] = {word: set() for word in wanted}
        for row in said.decode("utf-8", "replace").split("\n"):
            place, _, word = row.partition("\0")
            path = place if before else place.partition(":")[2]
            if word in found and path and not is_sensitive(path):
                found[word].add(path)
        return {word: sorted(paths) for word, paths in found.items()}

    def _git_output(self, *args: str, given: bytes = b"", timeout_s: float = TIMEOUT_S) -> bytes:
        """What git says; nothing when it refuses, is not there, or has nothing to say (`grep` ends with 1 then)."""
        try:
            return self.git.run(*args, given=given, timeout_s=timeout_s)
        except (AccessFailed, UnsupportedHost, TooLarge):
            return b""


def below(git: Git) -> str:
    """Where in its repository a folder lies, with a slash at the end; empty at its top, and outside of any."""
    try:
        return git.run("rev-parse", "--show-prefix").decode("utf-8", "surrogateescape").rstrip("\n")
    except (AccessFailed, UnsupportedHost):
        return ""
