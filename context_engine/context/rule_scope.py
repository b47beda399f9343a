"""PURE. The files that a rule of the repository applies to.

A rule file governs the folder that it is in, and may narrow that by globs (`globs: *.mdx`). Agents read some rule files
only when they are asked for; those apply to no file by themselves.

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

from context_engine.repo import compile_path_glob

ON_REQUEST = "on request"


@dataclass(frozen=True, slots=True)
class RuleScope:
    """The files that a rule applies to: those below `folder` that match one of `globs`; all of them without globs.

    Globs are relative to the folder, and each matches whole paths.
    """

    folder: str = ""
    globs: tuple[str, ...] = ()
    is_on_request: bool = False

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
        rest = path[len(below) :]
        return not self.globs or any(_compile(glob).fullmatch(rest) for glob in self.globs)

    def applies_to_any(self, paths: Iterable[str]) -> bool:
        """Return whether the rule applies to at least one of these files."""
        return any(map(self.applies_to, paths))


EVERYWHERE = RuleScope()
_compile = lru_cache(maxsize=1_024)(compile_path_glob)
