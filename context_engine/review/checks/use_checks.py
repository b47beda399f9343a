"""The check of uses that no longer fit: the tree before and after a change, as the resolver of names sees them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from context_engine.languages import PathIndex
from context_engine.references import BrokenUse, ChangedSource, ProjectFiles, UseComparison
from context_engine.review.checks.change_checks import is_guarded
from context_engine.review.checks.check import check, on_line

if TYPE_CHECKING:
    from context_engine.languages import SyntaxFile
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile

EVIDENCE_MAX = 5


@check("broken-use")
def broken_use(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report what a change removes or gives other arguments while it is used, and new uses of what does not exist."""
    if not surroundings.is_known:
        return
    code = [file for file in files if file.is_code and file.is_whole and file.kind != "copied"]
    before = _Tree(
        surroundings,
        {**{file.path: None for file in code if file.new}, **{file.old_path: file.old for file in code if file.old}},
    )
    after = _Tree(surroundings, {file.path: file.new for file in code})
    surroundings.search_words({name.rpartition(".")[2] for file in code for name in _gone_names(file)})
    comparison = UseComparison(before.files, after.files, {file.path: _as_source(file) for file in code})
    by_cause: dict[tuple[str, str], list[BrokenUse]] = defaultdict(list)
    for use in comparison.find():
        source = after.source(use.path)
        if source is not None and not (use.changed_path and is_guarded(source, use.line)):
            by_cause[use.changed_path or f"{use.path}:{use.line}", use.name].append(use)
    by_path = {file.path: file for file in code}
    for (_, name), uses in by_cause.items():
        use = uses[0]
        places = tuple(f"{one.path}:{one.line}: {after.line(one).strip()[:100]}" for one in uses[:EVIDENCE_MAX])
        more = f", and {len(uses) - 1} more" if len(uses) > 1 else ""
        if not use.changed_path:
            yield on_line(use.line, f"{name}: {use.reason}.", path=use.path)
        elif not use.changed_line:
            was = by_path[use.changed_path].old_path or use.changed_path
            body = f"{name} is gone from {was}, but {use.path}:{use.line} still uses it{more}."
            title = f"{name} was removed, but is still used"
            yield on_line(
                by_path[use.changed_path].first_added, body, title=title, path=use.changed_path, evidence=places
            )
        else:
            body = f"{use.path}:{use.line} calls {name} with its old signature: {use.reason}{more}."
            yield on_line(use.changed_line, body, path=use.changed_path, evidence=places)


def _gone_names(file: ReviewedFile) -> set[str]:
    old = file.old.definitions.keys() if file.old else set()
    new = file.new.definitions.keys() if file.new and file.kind != "renamed" else set()
    return old - new


def _as_source(file: ReviewedFile) -> ChangedSource:
    """Return what a comparison of uses needs to know of a changed file."""
    old, new = file.old, file.new
    unchanged: dict[int, int] = {}
    before = 0
    for line in range(1, len(new.lines) + 1) if old and new else ():
        if line not in file.added:
            before += 1
            while before in file.removed:
                before += 1
            unchanged[line] = before
    names = [dict(version.definitions) if version else {} for version in (old, new)]
    return ChangedSource(file.old_path or file.path, unchanged, file.added, *names)


class _Tree:
    """The files of one side of a change: those of the new tree, some of them replaced."""

    def __init__(self, surroundings: ReviewContext, replaced: Mapping[str, FileVersion | None]) -> None:
        self._surroundings = surroundings
        self._replaced = replaced
        there = {path for path in surroundings.list_paths() if replaced.get(path, path) is not None}
        paths = PathIndex(sorted(there.union(path for path, source in replaced.items() if source)))
        self.files = ProjectFiles(self._read, self._defining, paths, self._load, self._holding)

    def line(self, use: BrokenUse) -> str:
        """Return the line of a use."""
        source = self.source(use.path)
        return source.line(use.line) if source else ""

    def source(self, path: str) -> FileVersion | None:
        return self._replaced[path] if path in self._replaced else self._surroundings.source(path)

    def _read(self, path: str) -> SyntaxFile | None:
        source = self.source(path)
        return source.syntax if source else None

    def _load(self, path: str) -> bytes:
        source = self.source(path)
        return source.data if source else b""

    def _holding(self, name: str) -> Sequence[str]:
        there = (path for path in self._surroundings.paths_with_word(name) if path not in self._replaced)
        own = (path for path, source in self._replaced.items() if source and name.lstrip("#") in source.words)
        return sorted({*there, *own})

    def _defining(self, name: str) -> Sequence[str]:
        sources = ((path, self.source(path)) for path in self._holding(name))
        return [path for path, source in sources if source and any(name == one.name for one in source.outline.symbols)]
