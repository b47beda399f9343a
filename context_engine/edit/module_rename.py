"""Plan a new name for a file that others import: the imports that certainly mean it, and the places that may.

Python and JavaScript with TypeScript alone: other languages find files in another way. The file stays in its folder.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from posixpath import basename, dirname, join, splitext

from context_engine.edit.file_content import content_of
from context_engine.edit.file_edit import FileEdit, FileReplacement, edit_file, rename_file
from context_engine.edit.rename import Renaming
from context_engine.edit.rename_sources import FAMILIES, NameOccurrence
from context_engine.errors import InvalidArgument
from context_engine.languages import Grammars, Language, Languages, PathIndex, find_occurrences, resolve_import
from context_engine.references import ModuleUse, SymbolService

SUFFIXES = {
    "python": (".py", ".pyi"),
    "javascript": (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".d.ts", ".vue", ".svelte", ".json"),
}
"""By family, the suffixes of files that an import may mean by one name."""
FOUND_BY_NAME = {
    "python": frozenset({"__init__", "__main__", "conftest", "setup", "manage", "settings", "wsgi", "asgi"}),
    "javascript": frozenset({"index"}),
}
"""Files that programs look for under this name."""
PROSE = (".md", ".rst", ".txt", ".adoc")
OPEN = "it may mean the file"


class ModuleRenamer:
    """Plans new names of files in one workspace."""

    def __init__(
        self,
        symbols: SymbolService,
        read: Callable[[str], bytes | None],
        languages: Languages,
        grammars: Grammars,
    ) -> None:
        self._symbols = symbols
        self._read = read
        self._languages = languages
        self._grammars = grammars

    def plan_renaming(self, path: str, new_name: str, holding: Collection[str], accept: Sequence[str] = ()) -> Renaming:
        """Plan what a new name for a file changes in the files `holding` its present one. Raises: InvalidArgument."""
        raw = self._read(path) or b""
        language = self._languages.detect(path, raw[:65536])
        family = FAMILIES.get(language.name, language.name) if language is not None else ""
        stem, suffix = splitext(basename(path))
        new_stem = new_name.removesuffix(suffix)
        paths = self._symbols.paths()
        _check_names(path, stem, new_stem, family, paths)
        uses = self._symbols.find_module_uses(path, family)
        self._check_free(uses, path, new_stem, family)
        places = {(use.path, use.start): "" if use.is_sure else OPEN for use in uses}
        for other in holding:
            for start, why in self._find_mentions(path, other, family, paths):
                places.setdefault((other, start), why)
        sure: dict[str, list[int]] = {}
        certain: list[NameOccurrence] = []
        uncertain: list[NameOccurrence] = []
        for (other, start), why in sorted(places.items()):
            place = self._place(other, start, why)
            if why == "" or _is_accepted(place, accept):
                sure.setdefault(other, []).append(start)
                certain.append(place)
            else:
                uncertain.append(place)
        new_path = join(dirname(path), f"{new_stem}{suffix}")
        changes = [self._change(other, starts, stem, new_stem) for other, starts in sure.items() if other != path]
        own = _splice(raw, sure.get(path, []), stem, new_stem)
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
            changes=(*changes, *rename_file(path, new_path, raw, new=own)),
        )

    def _check_free(self, uses: Sequence[ModuleUse], path: str, new_stem: str, family: str) -> None:
        """Refuse a name that a file which imports this one has already. Raises: InvalidArgument."""
        naming = {use.path for use in uses if use.is_name and use.path != path}
        package = join(dirname(path), "__init__.py")
        for other in sorted({*naming, package}) if family == "python" else ():
            data = self._read(other)
            language = self._languages.detect(other, (data or b"")[:65536])
            found = find_occurrences(language, data, new_stem, self._grammars) if data and language else ()
            roles = ("binding", "unknown", "import", "read")
            taken = [] if isinstance(found, str) else [at.line for at in found if at.role in roles]
            if isinstance(found, str) or taken:
                line = taken[0] if taken else 1
                raise InvalidArgument(
                    f"{new_stem!r} has a meaning already at {other}:{line}; nothing was written",
                    suggestion="Choose another name.",
                    details={"name": new_stem, "places": [f"{other}:{line}"]},
                )

    def _find_mentions(self, path: str, other: str, family: str, paths: PathIndex) -> Iterator[tuple[int, str]]:
        """Yield where a file names the path, or the module by its dotted name, and why this is not sure."""
        stem, name = splitext(basename(path))[0], basename(path)
        data = self._read(other)
        if data is None or b"\0" in data[:1000]:
            return
        language = self._languages.detect(other, data[:65536])
        is_code = language is not None and FAMILIES.get(language.name, language.name) == family
        patterns = [rf"(?<![\w-]){re.escape(name)}(?!\w)"]
        if family == "python":
            package = basename(dirname(path))
            patterns += [rf"(?<!\w){re.escape(package)}[./]({re.escape(stem)})(?!\w)"] if package else []
        else:
            patterns += [rf"/({re.escape(stem)})(?:\.\w+)?(?=['\"`?])"]
        for pattern in patterns:
            for found in re.finditer(pattern.encode(), data):
                start = found.start(1) if found.re.groups else found.start()
                if is_code and family == "javascript" and self._means_other(path, other, language, data, start, paths):
                    continue
                yield start, self._why_unsure(other, language, data, stem, start)

    def _means_other(
        self, path: str, other: str, language: Language | None, data: bytes, start: int, paths: PathIndex
    ) -> bool:
        """Return whether a string of JavaScript is the path of another file, or the name of a package."""
        begin = max(data.rfind(quote, 0, start) for quote in (b'"', b"'", b"`"))
        written = re.match(rb"[^'\"`\n]*", data[begin + 1 :])
        target = written[0].decode("utf-8", "replace") if written and begin >= 0 else ""
        if language is None or b"\n" in data[begin:start]:
            return False
        found = resolve_import(language, other, target, paths)
        return bool(found) and path not in found

    def _why_unsure(self, other: str, language: Language | None, data: bytes, stem: str, start: int) -> str:
        found = find_occurrences(language, data, stem, self._grammars) if language is not None else ()
        roles = [at.role for at in found if at.start == start] if not isinstance(found, str) else []
        return "in a comment" if "comment" in roles else "in text" if other.endswith(PROSE) else OPEN

    def _place(self, path: str, start: int, why: str) -> NameOccurrence:
        data = self._read(path) or b""
        line = data.count(b"\n", 0, start) + 1
        column = len(data[data.rfind(b"\n", 0, start) + 1 : start].decode("utf-8", "replace")) + 1
        lines = content_of(data).shown_lines
        text = lines[line - 1] if line <= len(lines) else ""
        return NameOccurrence(path, line, column, text, why, is_open=why == OPEN)

    def _change(self, path: str, starts: Sequence[int], stem: str, new_stem: str) -> FileEdit:
        raw = self._read(path) or b""
        new = FileReplacement(_splice(raw, starts, stem, new_stem))
        return edit_file(path, lambda _: new, expected_hash=sha256(raw).hexdigest())


def _is_accepted(place: NameOccurrence, accept: Sequence[str]) -> bool:
    named = {f"{place.path}:{place.line}", f"{place.path}:{place.line}:{place.column}"}
    return bool(named & {*accept}) or ("all" in accept and place.is_open)


def _splice(raw: bytes, starts: Sequence[int], stem: str, new_stem: str) -> bytes:
    """Return a content with another name at some offsets, where it has the old one."""
    old, new = stem.encode(), new_stem.encode()
    for start in sorted(starts, reverse=True):
        if raw.startswith(old, start):
            raw = raw[:start] + new + raw[start + len(old) :]
    return raw


def _check_names(path: str, stem: str, new_stem: str, family: str, paths: PathIndex) -> None:
    """Refuse a file that has to keep its name, and a name that is taken or not possible. Raises: InvalidArgument."""
    problem, advice = "", "Give a name for the file in its folder."
    listed = [basename(other) for other in paths.in_folder(dirname(path))]
    suffixes = SUFFIXES.get(family, ())
    namesakes = {
        name: [other for other in listed if other in {f"{name}{one}" for one in suffixes}] for name in (stem, new_stem)
    }
    is_name = new_stem.isidentifier() and not keyword.iskeyword(new_stem)
    is_possible = is_name if family == "python" else re.fullmatch(r"[\w.-]+", new_stem) is not None
    is_shadowing = family == "python" and "__init__.py" not in listed and new_stem in sys.stdlib_module_names
    if family not in SUFFIXES:
        problem, advice = f"imports of {path} cannot be followed", "Rename its class, or move it by hand."
    elif stem in FOUND_BY_NAME[family] or path.endswith(".d.ts"):
        problem, advice = f"{path} is found by its name", "Move its content by hand."
    elif len(namesakes[stem]) > 1:
        problem, advice = f"{' and '.join(sorted(namesakes[stem]))} have one name", "Rename them by hand."
    elif new_stem == stem or not is_possible:
        problem = f"{new_stem!r} is not a new name for {path}"
    elif namesakes[new_stem] or paths.in_folder(join(dirname(path), new_stem)) or is_shadowing:
        problem, advice = (
            f"{new_stem!r} is taken: a file, a folder or the standard library has it",
            "Choose another name.",
        )
    if problem:
        raise InvalidArgument(problem, suggestion=advice, details={"path": path, "name": new_stem})
