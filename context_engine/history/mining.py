"""Keeps the stored history up to date with what is checked out: only unknown commits are read from git.

Because commits never change, a rewritten branch, another branch and a deepened clone are not special cases: the head
has a list of commits, and the unknown ones are read.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np

from context_engine.errors import AccessFailed, DiskFull
from context_engine.history.commit_facts import CommitTable, HeadCommits, HistoryFile
from context_engine.history.git_log import COMMITS_MAX, READ_S, CommitListing, list_commits, read_commits
from context_engine.model import Commit
from context_engine.repo import Git
from context_engine.secrets import redact_file
from context_engine.text import format_count


@dataclass(frozen=True, slots=True)
class MinedHistory:
    """The facts, the head they were requested for, and what is wrong with them; empty if nothing is."""

    facts: CommitTable
    head: str = ""
    problem: str = ""


class HistoryMiner:
    """The history of one repository. It starts no process unless the head has moved."""

    def __init__(self, git: Git, file: HistoryFile, *, most: int = COMMITS_MAX, seconds: float = READ_S) -> None:
        """Read nothing yet."""
        self._git = git
        self._file = file
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._facts = CommitTable.empty()

    def mine(self, *, cancel: threading.Event | None = None) -> MinedHistory:
        """Return the facts about what is checked out now; unknown commits are read, which may take some seconds.

        Raises: Cancelled (what was read is kept).
        """
        with self._lock:
            head = self._git.head()
            name = head.commit if head and head.commit else ""
            if not _is_settled(self._facts, name):
                self._facts = self._file.load()  # another process may have read more since
            if _is_settled(self._facts, name):
                return MinedHistory(self._facts, name, self._describe_limit(name))
            return self._update(list_commits(self._git, most=self._most), cancel)

    def _update(self, listed: CommitListing, cancel: threading.Event | None) -> MinedHistory:
        """Read missing commits. A listing without new commits leaves facts and file unchanged."""
        facts = self._facts
        known = set(facts.hashes)
        unknown = [name for name in listed.hashes if name not in known]
        if listed.reason or (not unknown and listed.head in facts.heads):
            return MinedHistory(facts, listed.head, listed.reason or self._describe_limit(listed.head))
        read: list[Commit] = []
        problem = ""
        try:
            for batch in read_commits(self._git, unknown, seconds=self._seconds, cancel=cancel):
                read += _without_secrets(batch)
        except AccessFailed as error:
            problem = error.message
        finally:
            self._facts = _add_head(facts.with_commits(read), listed)
            problem = self._save(self._facts) or problem
        return MinedHistory(self._facts, listed.head, problem or self._describe_limit(listed.head))

    def _describe_limit(self, head: str) -> str:
        """Return that older commits are not in the facts, because of a limit of time or number, or a shallow clone."""
        known = self._facts.heads[head]
        is_whole = known.is_complete and len(known.rows) < self._most
        return "" if is_whole else f"only the newest {format_count(len(known.rows), 'commit')} are read"

    def _save(self, facts: CommitTable) -> str:
        """Save the facts; return the problem if that fails, which does not prevent their use."""
        try:
            self._file.save(facts)
        except DiskFull as error:
            return error.message
        return ""


def _without_secrets(batch: list[Commit]) -> list[Commit]:
    """Return the commits with secrets in their subjects redacted; no secret spans several subjects."""
    subjects = redact_file("\n".join(commit.subject.replace("\n", " ") for commit in batch)).split("\n")
    return [replace(commit, subject=subject) for commit, subject in zip(batch, subjects, strict=True)]


def _is_settled(facts: CommitTable, head: str) -> bool:
    """Return whether nothing can be added to what is known of a head."""
    return head in facts.heads and facts.heads[head].is_complete


def _add_head(facts: CommitTable, listed: CommitListing) -> CommitTable:
    """Return the facts with the list of the head, without commits that are not read yet; a clone may be deepened."""
    row = {name: number for number, name in enumerate(facts.hashes)}
    rows = np.array([row[name] for name in listed.hashes if name in row], np.int32)
    is_complete = len(rows) == len(listed.hashes) and not listed.is_shallow
    return facts.with_head(listed.head, HeadCommits(rows, is_complete))
