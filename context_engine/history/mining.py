"""Keeps the mined history true to what is checked out: only commits that were never read are asked of git.

Because commits never change, a rewritten branch, another branch and a clone that was deepened are no cases of their
own: the head has a list of commits, and those that are not known yet are read.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np

from context_engine.errors import AccessFailed, DiskFull
from context_engine.history.commit_facts import CommitTable, HeadCommits, HistoryFile
from context_engine.history.git_log import COMMITS_MAX, READ_S, CommitListing, list_commits, read_commits
from context_engine.model import Commit
from context_engine.repo.git import Git
from context_engine.secrets import redact_file


@dataclass(frozen=True, slots=True)
class MinedHistory:
    """The facts, the head they are asked for, and what is the matter with them in a sentence; empty: nothing."""

    facts: CommitTable
    head: str = ""
    problem: str = ""


class HistoryMiner:
    """The history of one repository. Asked again it starts no process, unless the head has moved."""

    def __init__(self, git: Git, file: HistoryFile, *, most: int = COMMITS_MAX, seconds: float = READ_S) -> None:
        """Nothing is read yet."""
        self._git = git
        self._file = file
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._facts = CommitTable.empty()

    def mine(self, *, cancel: threading.Event | None = None) -> MinedHistory:
        """The facts about what is checked out now, newly read where they are not known. May take some seconds.

        Raises: Cancelled (what was read is kept).
        """
        with self._lock:
            head = self._git.head()
            name = head.commit if head and head.commit else ""
            if not _is_settled(self._facts, name):
                self._facts = self._file.load()  # another process may have read more since
            if _is_settled(self._facts, name):
                return MinedHistory(self._facts, name)
            return self._updated(list_commits(self._git, most=self._most), cancel)

    def _updated(self, listed: CommitListing, cancel: threading.Event | None) -> MinedHistory:
        """Read what the facts lack. A listing that brought nothing new leaves them, and the file, as they are."""
        facts = self._facts
        known = set(facts.hashes)
        unknown = [each for each in listed.hashes if each not in known]
        if listed.reason or (not unknown and listed.head in facts.heads):
            return MinedHistory(facts, listed.head, listed.reason)
        read: list[Commit] = []
        problem = ""
        try:
            for batch in read_commits(self._git, unknown, seconds=self._seconds, cancel=cancel):
                read += _without_secrets(batch)
        except AccessFailed as error:
            problem = error.message
        finally:
            self._facts = _of_head(facts.with_commits(read), listed)
            problem = self._saved(self._facts) or problem
        return MinedHistory(self._facts, listed.head, problem)

    def _saved(self, facts: CommitTable) -> str:
        """Keep the facts; what is wrong when they cannot be kept, which is no reason not to use them."""
        try:
            self._file.save(facts)
        except DiskFull as error:
            return error.message
        return ""


def _without_secrets(batch: list[Commit]) -> list[Commit]:
    """The commits with the secrets of their subjects masked, as they are kept; none goes over several subjects."""
    subjects = redact_file("\n".join(each.subject.replace("\n", " ") for each in batch)).split("\n")
    return [replace(each, subject=subject) for each, subject in zip(batch, subjects, strict=True)]


def _is_settled(facts: CommitTable, head: str) -> bool:
    """Whether nothing can be added to what is known of a head; a shallow clone may have been deepened."""
    listed = facts.heads.get(head)
    return listed is not None and not listed.missing and not listed.is_shallow


def _of_head(facts: CommitTable, listed: CommitListing) -> CommitTable:
    """The facts with the list of the head in them, less what is not read yet."""
    row = {name: at for at, name in enumerate(facts.hashes)}
    rows = np.array([row[each] for each in listed.hashes if each in row], np.int32)
    missing = len(listed.hashes) - len(rows)
    return facts.with_head(listed.head, HeadCommits(rows, missing, listed.has_older, listed.is_shallow))
