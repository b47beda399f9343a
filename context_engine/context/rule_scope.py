"""PURE. The files that a rule of the repository applies to.

A rule file governs the folder that it is in, and may narrow that by globs (`globs: *.mdx`). Agents read some rule files
only when they are asked for; those apply to no file by themselves. The words of the task and of its files say whether
the condition of a rule is met ("When you add a queue, ...").

>>> scope = RuleScope("docs", ("**/*.mdx",))
>>> scope.applies_to("docs/guides/start.mdx"), scope.applies_to("docs/conf.py"), scope.applies_to("src/a.mdx")
(True, False, False)
>>> str(scope), str(RuleScope("packages/ai")), str(RuleScope())
('docs/**/*.mdx', 'packages/ai/**', '')
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from context_engine.index import role_of
from context_engine.repo import compile_path_glob
from context_engine.text import split_identifier, split_words, stem_all

ON_REQUEST = "on request"
ADDITION = "add"
"""The topic of a rule for new parts."""
_ADDITIONS = ("add", "create", "implement", "introduce", "new", "support")
"""Tasks with one of these words add something."""
DOCUMENT_SUFFIXES = (".md", ".mdx", ".rst", ".adoc", ".txt")
LANGUAGES = {
    "py": "python", "pyi": "python", "rs": "rust", "js": "javascript", "ts": "typescript", "tsx": "typescript react",
    "jsx": "javascript react", "rb": "ruby", "kt": "kotlin", "cs": "csharp", "sh": "shell bash",
}  # fmt: skip
"""The name of the language of a suffix in guides; the others are named like their suffix."""


@dataclass(frozen=True, slots=True)
class RuleScope:
    """The files that a rule applies to: those below `folder` that match one of `globs`; all of them without globs.

    Globs are relative to the folder, and each matches whole paths. `is_for_code`: it says nothing of documents.
    `topics` are groups of words, and a task has to be about each of them.
    """

    folder: str = ""
    globs: tuple[str, ...] = ()
    is_on_request: bool = False
    is_for_code: bool = False
    topics: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        """Return the scope as globs; empty for the whole repository."""
        if self.is_on_request:
            return ON_REQUEST
        if not self.globs and not self.folder:
            return ""
        prefix = f"{self.folder}/" if self.folder else ""
        return ", ".join(f"{prefix}{glob}" for glob in self.globs or ("**",))

    @property
    def is_everywhere(self) -> bool:
        """Whether it applies to every file of the repository."""
        return not str(self)

    def applies_to(self, path: str) -> bool:
        """Return whether the rule applies to a file."""
        below = f"{self.folder}/" if self.folder else ""
        if self.is_on_request or not path.startswith(below):
            return False
        if self.is_for_code and (role_of(path, "code") == "docs" or path.endswith(DOCUMENT_SUFFIXES)):
            return False
        rest = path[len(below) :]
        return not self.globs or any(_compile(glob).fullmatch(rest) for glob in self.globs)

    def applies_to_any(self, paths: Iterable[str]) -> bool:
        """Return whether the rule applies to at least one of these files."""
        return any(map(self.applies_to, paths))

    def is_met(self, text: str, paths: Iterable[str] = ()) -> bool:
        """Return whether a task with this text and these files has at least half of the words of each topic.

        >>> scope = RuleScope(topics=(("queue", "processors"),))
        >>> scope.is_met("Retry the mail queue"), scope.is_met("Fix it", ["src/processor.py"]), scope.is_met("Fix it")
        (True, True, False)
        """
        if not self.topics:
            return True
        files = list(paths)
        languages = (LANGUAGES.get(path.rpartition(".")[2], "") for path in files)
        stems = _stems([text, *files, *languages]) - {ADDITION}
        if _stems(_ADDITIONS) & _stems([text]):
            stems.add(ADDITION)
        return all(2 * len(_stems(topic) & stems) >= len(_stems(topic)) for topic in self.topics)


def _stems(texts: Iterable[str]) -> set[str]:
    parts = (part for text in texts for word in split_words(text) for part in split_identifier(word))
    return set(stem_all([part.lower() for part in parts]))


EVERYWHERE = RuleScope()
_compile = lru_cache(maxsize=1_024)(compile_path_glob)
