"""Plan a new name for a file that others import: the imports that certainly mean it, and the places that may.

The file stays in its folder; its language must say how its files import one another.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from posixpath import basename, dirname, join, splitext

from context_engine.edit.file_content import content_of
from context_engine.edit.file_edit import rename_file, replace_whole, replan
from context_engine.edit.rename import Renaming
from context_engine.edit.rename_uses import NameOccurrence, RenameFiles, refuse_taken
from context_engine.errors import InvalidArgument
from context_engine.languages import Language, PathIndex, RenameRules, occurrence_at, resolve_import
from context_engine.references import SymbolService

PROSE = (".md", ".rst", ".txt", ".adoc")
OPEN = "it may mean the file"


class ModuleRenamer:
    """Plans new names of files in one workspace."""

    def __init__(self, files: RenameFiles, symbols: SymbolService) -> None:
        self._files = files
        self._symbols = symbols

    def plan_renaming(self, path: str, new_name: str, holding: Collection[str], accept: Sequence[str] = ()) -> Renaming:
        """Plan what a new name for a file changes in the files `holding` its present one. Raises: InvalidArgument."""
        raw, language = self._files.open(path)
        rules = language.renames if language is not None else RenameRules()
        stem, suffix = splitext(basename(path))
        new_stem = new_name.removesuffix(suffix)
        _check_names(path, stem, new_stem, rules, self._files.paths)
        uses = self._symbols.find_module_uses(path)
        if rules.dotted_modules:
            naming = {use.path for use in uses if use.is_name and use.path != path}
            refuse_taken(new_stem, self._find_names([*naming, join(dirname(path), "__init__.py")], new_stem))
        places = {(use.path, use.start): "" if use.is_sure else OPEN for use in uses}
        for other in holding:
            for start, why in self._find_mentions(path, other, rules):
                places.setdefault((other, start), why)
        sure: dict[str, list[int]] = {}
        certain: list[NameOccurrence] = []
        uncertain: list[NameOccurrence] = []
        for (other, start), why in sorted(places.items()):
            place = self._place(other, start, why)
            if why == "" or place.is_accepted(accept):
                sure.setdefault(other, []).append(start)
                certain.append(place)
            else:
                uncertain.append(place)
        new_path = join(dirname(path), f"{new_stem}{suffix}")
        new = {other: _splice(self._files.open(other)[0], starts, stem, new_stem) for other, starts in sure.items()}
        own = new.pop(path, raw)
        return Renaming(
            name=stem,
            new_name=new_stem,
            path=path,
            symbol=path,
            kind="file",
            line=1,
            certain=tuple(certain),
            uncertain=tuple(uncertain),
            others=0,
            notes=(
                f"{path} becomes {new_path}",
                "imports outside of this workspace, and those that a program puts together, cannot be seen",
            ),
            changes=(
                *(replan(other, self._files.open(other)[0], replace_whole(data)) for other, data in new.items()),
                *rename_file(path, new_path, raw, new=own),
            ),
        )

    def _find_names(self, paths: Collection[str], name: str) -> Iterator[tuple[str, int]]:
        """Yield the lines of files that use a name on its own."""
        for path in sorted(paths):
            data, language = self._files.open(path)
            for at in self._files.places(language, data, name):
                if at.role == "name" and not data[: at.start].endswith(b"."):
                    yield path, at.line

    def _find_mentions(self, path: str, other: str, rules: RenameRules) -> Iterator[tuple[int, str]]:
        """Yield where a file names the path, or the module by its dotted name, and why this is not sure."""
        stem, name, package = splitext(basename(path))[0], basename(path), basename(dirname(path))
        data, language = self._files.open(other)
        if b"\0" in data[:1000]:
            return
        is_module = language is not None and language.renames.module_suffixes == rules.module_suffixes
        patterns = [rf"(?<![\w-])({re.escape(name)})(?!\w)"]
        if not rules.dotted_modules:
            patterns += [rf"/({re.escape(stem)})(?:\.\w+)?(?=['\"`?])"]
        elif package:
            patterns += [rf"(?<!\w){re.escape(package)}[./]({re.escape(stem)})(?!\w)"]
        for pattern in patterns:
            for found in re.finditer(pattern.encode(), data):
                start = found.start(1)
                if not rules.dotted_modules and is_module and self._means_other(path, other, language, data, start):
                    continue
                roles = [at.role for at in self._files.places(language, data, stem) if at.start == start]
                yield start, "in a comment" if "comment" in roles else "in text" if other.endswith(PROSE) else OPEN

    def _means_other(self, path: str, other: str, language: Language | None, data: bytes, start: int) -> bool:
        """Return whether a string of JavaScript is the path of another file, or the name of a package."""
        begin = max(data.rfind(quote, 0, start) for quote in (b'"', b"'", b"`"))
        written = re.match(rb"[^'\"`\n]*", data[begin + 1 :])
        target = written[0].decode("utf-8", "replace") if written and begin >= 0 else ""
        if language is None or b"\n" in data[begin:start]:
            return False
        found = resolve_import(language, other, target, self._files.paths)
        return bool(found) and path not in found

    def _place(self, path: str, start: int, why: str) -> NameOccurrence:
        data, _ = self._files.open(path)
        at, lines = occurrence_at(data, start, start, "name"), content_of(data).shown_lines
        text = lines[at.line - 1] if at.line <= len(lines) else ""
        return NameOccurrence(path, at.line, at.column, text, why, is_open=why == OPEN)


def _splice(raw: bytes, starts: Sequence[int], stem: str, new_stem: str) -> bytes:
    """Return a content with another name at some offsets, where it has the old one."""
    old, new = stem.encode(), new_stem.encode()
    for start in sorted(starts, reverse=True):
        if raw.startswith(old, start):
            raw = raw[:start] + new + raw[start + len(old) :]
    return raw


def _check_names(path: str, stem: str, new_stem: str, rules: RenameRules, paths: PathIndex) -> None:
    """Refuse a file that has to keep its name, and a name that is taken or not possible. Raises: InvalidArgument."""
    problem, advice = "", "Give a name for the file in its folder."
    listed = [basename(other) for other in paths.in_folder(dirname(path))]
    namesakes = [other for other in listed if other in {f"{stem}{suffix}" for suffix in rules.module_suffixes}]
    taken = {f"{new_stem}{suffix}" for suffix in rules.module_suffixes}.intersection(listed)
    is_possible = re.fullmatch(r"[\w.-]+", new_stem) is not None
    is_shadowing = False
    if rules.dotted_modules:
        is_possible = new_stem.isidentifier() and not keyword.iskeyword(new_stem)
        is_shadowing = "__init__.py" not in listed and new_stem in sys.stdlib_module_names
    if not rules.module_suffixes:
        problem, advice = f"imports of {path} cannot be followed", "Rename its class, or move it by hand."
    elif stem in rules.fixed_modules or path.endswith(".d.ts"):
        problem, advice = f"{path} is found by its name", "Move its content by hand."
    elif len(namesakes) > 1:
        problem, advice = f"{' and '.join(sorted(namesakes))} have one name", "Rename them by hand."
    elif new_stem == stem or not is_possible:
        problem = f"{new_stem!r} is not a new name for {path}"
    elif taken or paths.in_folder(join(dirname(path), new_stem)) or is_shadowing:
        problem = f"{new_stem!r} is taken: a file, a folder or the standard library has it"
        advice = "Choose another name."
    if problem:
        raise InvalidArgument(problem, suggestion=advice, details={"path": path, "name": new_stem})
