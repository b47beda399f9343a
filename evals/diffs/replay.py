"""Real commits, read as diffs: the lines that we count must equal git's own count, and rebuild the new file.

    python evals/diffs/replay.py REPOSITORY ... [--commits 40]

Each commit is asked for as `git show` writes it, as a mail, without context, with mnemonic prefixes, without prefixes,
and with all names quoted. `git diff --numstat` and `git apply --numstat` are the judges of the counts, the blobs of the
commit those of the lines.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.errors import ContextEngineError
from context_engine.text import GIT_DIFF_BYTES_MAX, FileDiff, parse_diff

STYLES = {
    "plain": ("diff-tree", "-p", "-M", "--root", "--no-commit-id", "--full-index"),
    "mail": ("format-patch", "-1", "--stdout", "-M", "--root", "--full-index", "--no-signature"),
    "no context": ("diff-tree", "-p", "-M", "-U0", "--root", "--no-commit-id", "--full-index"),
    "mnemonic": ("-c", "diff.mnemonicPrefix=true", "show", "--format=", "-M", "--first-parent"),
    "no prefix": ("diff-tree", "-p", "-M", "--no-prefix", "--root", "--no-commit-id"),
    "quoted": ("-c", "core.quotepath=on", "diff-tree", "-p", "-M", "--root", "--no-commit-id", "--patch-with-stat"),
}
Counts = dict[str, tuple[int, int]]


def main() -> int:
    """Replay, print, and fail on the first difference found anywhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--commits", type=int, default=40)
    asked = parser.parse_args()
    wrong: list[str] = []
    total = files = lines = size = 0
    spent = 0.0
    for repository in asked.repositories:
        for commit in commits(repository, asked.commits):
            total += 1
            for style, args in STYLES.items():
                text = git(repository, *args, commit).decode("utf-8", "replace")
                if not text.strip():
                    continue
                begun = time.perf_counter()
                try:
                    diff = parse_diff(text, bytes_max=GIT_DIFF_BYTES_MAX)
                except ContextEngineError as error:
                    wrong.append(f"{repository} {commit} {style}: {error.code} {error.message}")
                    continue
                spent += time.perf_counter() - begun
                size += len(text)
                files += len(diff)
                lines += sum(len(file.added_lines) + len(file.removed_lines) for file in diff)
                wrong += [
                    f"{repository} {commit} {style}: {each}" for each in judged(repository, commit, style, diff, text)
                ]
    print(f"{total} commits in {len(STYLES)} styles: {files:,} files, {lines:,} changed lines, {size / 1e6:.1f} MB")
    print(f"{size / 1e6 / spent:.2f} MB/s; {len(wrong)} differences")
    print(*wrong[:20], sep="\n")
    return 1 if wrong else 0


def judged(repository: Path, commit: str, style: str, diff: Sequence[FileDiff], text: str) -> Iterator[str]:
    """Where the counts differ from git's, or the lines do not make the new file of the old one."""
    ours = {each.path: (len(each.added_lines), len(each.removed_lines)) for each in diff}
    said = numstat(git(repository, "diff-tree", "--numstat", "-z", "-M", "-r", "--root", "--no-commit-id", commit))
    if ours != said and style != "no context":  # without context git itself may show a change in other lines
        yield f"numstat: {set(ours.items()) ^ set(said.items())}"
    if style in ("plain", "mail"):
        applied = numstat(
            subprocess.run(["git", "apply", "--numstat", "-z"], input=text.encode(), capture_output=True).stdout
        )
        if applied and {path: counts for path, counts in ours.items() if path in applied} != applied:
            yield f"apply: {set(ours.items()) ^ set(applied.items())}"
    if "--full-index" in STYLES[style]:
        yield from (f"{each.path} is not rebuilt" for each in diff if not is_rebuilt(repository, each))


def is_rebuilt(repository: Path, change: FileDiff) -> bool:
    """Whether the hunks, put into the old blob, give the new one, byte for byte as far as it is UTF-8."""
    if change.is_binary or change.is_submodule or change.old_blob == change.new_blob:
        return True
    old, new = (
        git(repository, "cat-file", "blob", blob) if blob else b"" for blob in (change.old_blob, change.new_blob)
    )
    return applied(change, old.decode("utf-8", "replace")) == new.decode("utf-8", "replace")


def applied(change: FileDiff, old: str) -> str:
    """The old text with the hunks put into it."""
    before = old.removesuffix("\n").split("\n") if old else []
    after: list[str] = []
    done = 0
    for hunk in change.hunks:
        start = hunk.old.first - 1 if hunk.old else done + (hunk.new.first - 1 if hunk.new else 0) - len(after)
        after += before[done:start]
        after += [line.text for line in hunk.lines if line.mark != "-"]
        done = hunk.old.last if hunk.old else start
    ends = change.new_has_newline if done == len(before) else old.endswith("\n")
    after += before[done:]
    return "\n".join(after) + ("\n" if ends and after else "")


def numstat(said: bytes) -> Counts:
    """`added TAB removed TAB path NUL`; of a rename the path is empty and two names follow. Binary files count 0."""
    found: Counts = {}
    words = iter(said.decode("utf-8", "replace").split("\0"))
    for word in words:
        if word:
            added, removed, path = word.split("\t", 2)
            path = path or (next(words), next(words))[1]
            found[path] = (int(added.replace("-", "0")), int(removed.replace("-", "0")))
    return found


def commits(repository: Path, count: int) -> list[str]:
    """Commits spread over the history, without merges."""
    listed = git(repository, "rev-list", "--no-merges", "HEAD").decode().split()
    return listed[:: max(1, len(listed) // count)][:count]


def git(repository: Path, *args: str) -> bytes:
    """What git says, apart from anybody's own settings."""
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "LC_ALL": "C"}
    return subprocess.run(["git", *args], cwd=repository, env=env, check=True, capture_output=True).stdout


if __name__ == "__main__":
    sys.exit(main())
