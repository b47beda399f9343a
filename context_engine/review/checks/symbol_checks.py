"""Names: defined twice, taken from a file that has no such, removed while others still use them, called in the old way."""

from __future__ import annotations

import ast
import re
from ast import walk
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.languages import resolve_import
from context_engine.review.checks.check import PYTHON, SCRIPT, CheckRule, js, on_line, py

if TYPE_CHECKING:
    from context_engine.languages import Capture, Import
    from context_engine.model import Finding
    from context_engine.review.source_versions import ChangedFile, FileVersion, ReviewContext

NAME_CHARS_MIN = 3
"""Shorter names stand everywhere and mean everything."""
HOLDERS_MAX = 200
"""A name in more files is too common to follow: nothing is said of it."""
EVIDENCE_MAX = 5


@CheckRule(
    "duplicate-definition",
    "Defined twice",
    "The second definition replaces the first, which nobody can call any more.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=(*PYTHON, *SCRIPT),
    examples=(
        py("def test_a():\n    one()\n\ndef test_a(): «\n    two()", "def test_a():\n    one()"),
        py(
            "class A:\n    def run(self):\n        one()\n\n    def run(self): «\n        two()",
            "class A:\n    def run(self):\n        two()",
        ),
        py("if a:\n    def f(): pass\nelse:\n    def f(): pass"),
        py("@overload\ndef f(a: int): ...\n@overload\ndef f(a: str): ...\ndef f(a): return a"),
        py("def f(): pass\nf = wrap(f)\ndef f(): return 1"),
        py("class A:\n    @property\n    def x(self): return 1\n    @x.setter\n    def x(self, v): pass"),
        js("class A {\n  run() {}\n  run() {} «\n}", "class A {\n  run() {}\n}"),
        js("class A {\n  get x() { return 1; }\n  set x(v) {}\n  static x() {}\n}"),
    ),
).file
def duplicate_definition(file: ChangedFile) -> Iterator[Finding]:
    """Two functions, methods or classes of one name directly in one block; told of the one that was added."""
    if file.new is None:
        return
    now = {key: found for key, found in _definitions(file.new).items() if len(found) > 1}
    before = {key[1:] for key, found in _definitions(file.old if now else None).items() if len(found) > 1}
    for key, found in now.items():
        if key[1:] in before or _is_rebound(file.new, key[2], found):
            continue
        added = [each.first for each in found if each.first in file.added]
        if added:
            others = ", ".join(str(each.first) for each in found if each.first != added[-1])
            yield on_line(added[-1], f"{key[2]} is defined on line {others}, too: the last one replaces the others.")


def _definitions(source: FileVersion | None) -> Mapping[tuple[int, str, str], list[Capture]]:
    """The definitions directly in each block, by block, kind (a getter is another one than a setter) and name."""
    by_place: dict[tuple[int, str, str], list[Capture]] = {}
    query = _DEFINED.get(source.language_name) if source else None
    for found in source.matches(query) if source and query else ():
        definition, name = found["it"], found["name"].text
        how = definition.text.partition(name)[0] if definition.kind == "method_definition" else ""
        if name != "_":
            by_place.setdefault((found["block"].start, definition.kind + " ".join(how.split()), name), []).append(
                definition
            )
    return by_place


def _is_rebound(source: FileVersion, name: str, found: Sequence[Capture]) -> bool:
    """Whether the name is used between its definitions: then both of them live."""
    between = "\n".join(source.lines[found[0].last : found[-1].first - 1])
    return bool(re.search(rf"\b{re.escape(name)}\b(?!\s*\(self)", between))


_DEFINED_PYTHON = """
(module (function_definition name: (identifier) @name) @it) @block
(module (class_definition name: (identifier) @name) @it) @block
(block (function_definition name: (identifier) @name) @it) @block
"""
_DEFINED_SCRIPT = """
(program (function_declaration name: (identifier) @name) @it) @block
(class_body (method_definition name: (property_identifier) @name) @it) @block
"""
_DEFINED = {"python": _DEFINED_PYTHON, **dict.fromkeys(SCRIPT, _DEFINED_SCRIPT)}


# -- imports ------------------------------------------------------------------------------------------------------


@CheckRule(
    "unresolved-import",
    "Import of a file that is not there",
    "Whoever loads this file gets an error.",
    priority=1,
    confidence=0.85,
    category="correctness",
).change
def unresolved_import(files: Sequence[ChangedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """An added relative import that leads to no file of the tree."""
    if not surroundings.is_known:
        return
    for file in files:
        new = file.new
        if new is None or new.language is None or not file.is_whole:
            continue
        for each in new.outline.imports:
            is_ours = each.line in file.added and _is_relative(new, each.target) and not _is_guarded(new, each.line)
            if is_ours and not _leads_somewhere(new, each, surroundings):
                said = f"There is no file for {each.target!r} in this tree."
                yield on_line(each.line, said, path=file.path)


def _is_relative(source: FileVersion, target: str) -> bool:
    """Whether an import can only mean a file of this tree that a person wrote."""
    if source.language_name == "python":
        return target.startswith(".")
    return source.language_name in SCRIPT and target.startswith(("./", "../")) and not re.search(r"[?*{$!]", target)


def _leads_somewhere(source: FileVersion, each: Import, surroundings: ReviewContext) -> bool:
    if source.language is None or resolve_import(
        source.language, source.path, each.target, surroundings.paths, each.names
    ):
        return True
    if source.language_name == "python" and not each.target.strip("."):  # the package itself
        return True
    if _hands_on_what_it_likes(source, each, surroundings):
        return True
    # What a build makes lies in no tree; a folder of the target's name may hold it.
    stem = each.target.rstrip("/").rpartition("/")[2].rpartition(".")[2] or each.target
    made = re.search(r"(?:^|/)(?:dist|build|generated|lib|out|pkg)(?:/|$)|_version$|version$|_pb2", each.target)
    return bool(made) or any(stem in path for path in surroundings.paths.in_folder(source.path.rpartition("/")[0]))


def _hands_on_what_it_likes(source: FileVersion, each: Import, surroundings: ReviewContext) -> bool:
    """Whether a part of the path is a module, not a package: it makes what is below it as it runs (`six.moves`)."""
    dots = each.target[: len(each.target) - len(each.target.lstrip("."))]
    parts = each.target.lstrip(".").split(".") if source.language_name == "python" else []
    for count in range(len(parts) - 1, 0, -1):
        assert source.language  # `_leads_somewhere` has looked
        above = dots + ".".join(parts[:count])
        if found := resolve_import(source.language, source.path, above, surroundings.paths):
            return not found[0].endswith(("/__init__.py", "/__init__.pyi"))
    return False


def _is_guarded(source: FileVersion, line: int) -> bool:
    """Whether an import may fail on purpose: inside of `try`, or of a block that asks for types only."""
    above = "\n".join(source.lines[max(0, line - 4) : line])
    return bool(re.search(r"\btry\b|TYPE_CHECKING|@ts-(?:ignore|expect-error)|(?:jest|vi)\.mock|type:\s*ignore", above))


# -- what is gone and still used ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameUse:
    """A place that uses a name."""

    path: str
    line: int
    text: str

    @property
    def evidence(self) -> str:
        """As evidence."""
        return f"{self.path}:{self.line}: {self.text.strip()[:100]}"


@CheckRule(
    "removed-symbol",
    "Removed, but still used",
    "What uses it breaks when it is loaded or called.",
    priority=1,
    confidence=0.88,
    category="correctness",
).change
def removed_symbol(files: Sequence[ChangedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """A top-level name that a change takes away or renames while other files still import it."""
    removed = {file.path: names for file in files if (names := _removed_names(file))}
    if not removed:
        return
    everywhere = sorted({name for names in removed.values() for name in names})
    holding = surroundings.files_with_words(everywhere) if surroundings.is_known else {}
    for file in files:
        for name in removed.get(file.path, ()):
            holders = holding.get(name, ())
            if len(holders) > HOLDERS_MAX or _is_there_again(name, file, surroundings):
                continue
            surroundings.fetch(holders)
            uses = [use for path in holders for use in _uses(name, file, path, surroundings)]
            if uses:
                yield _still_used(file, name, uses)


def _is_there_again(name: str, file: ChangedFile, surroundings: ReviewContext) -> bool:
    """Whether the path that a file was moved from has another file now, which has the name."""
    if file.old_path in ("", file.path) or file.old_path not in surroundings.paths:
        return False
    successor = surroundings.source(file.old_path)
    return successor is not None and name in successor.words


def _still_used(file: ChangedFile, name: str, uses: Sequence[NameUse]) -> Finding:
    first = uses[0]
    more = f" and in {len(uses) - 1} more places" if len(uses) > 1 else ""
    line = min(file.added, default=1)
    return on_line(
        line,
        f"{name} is gone from {file.old_path or file.path}, but {first.path}:{first.line} still uses it{more}.",
        title=f"{name} was removed, but is still used",
        path=file.path,
        evidence=tuple(use.evidence for use in uses[:EVIDENCE_MAX]),
    )


def _removed_names(file: ChangedFile) -> list[str]:
    """The names that a file had at its top and that are gone from its path: not even a text there says them."""
    if file.old is None or not file.is_whole or file.kind == "copied":
        return []
    if file.old.language_name not in (*PYTHON, *SCRIPT):
        return []
    words = file.new.words if file.new and file.kind != "renamed" else frozenset()
    names = [each.name for each in file.old.outline.symbols if each.parent < 0]
    return [name for name in names if len(name) >= NAME_CHARS_MIN and name not in words]


def _uses(name: str, file: ChangedFile, path: str, surroundings: ReviewContext) -> list[NameUse]:
    """The lines of another file that take a name from this one."""
    other = surroundings.source(path)
    was = file.old_path or file.path
    if other is None or path in (file.path, was) or other.language is None or _re_exports(file.new):
        return []
    return [
        NameUse(path, each.line, other.line(each.line))
        for each in _imports_of(other, name)
        if _imports_module(each.target, other, was, surroundings) and not _is_guarded(other, each.line)
    ]


@dataclass(frozen=True, slots=True)
class NamedImport:
    """An import that takes one name from a target, and the line that says the name."""

    target: str
    line: int


def _imports_of(source: FileVersion, name: str) -> list[NamedImport]:
    """The imports of a file that take a name."""
    if source.language_name in SCRIPT:
        found = [*source.matches(_NAMED_IMPORT), *source.matches(_NAMED_EXPORT)]
        named = [each for each in found if each["name"].text == name]
        return [NamedImport(each["source"].text.strip("'\""), each["name"].first) for each in named]
    named_too = [each for each in source.outline.imports if name in each.names]
    return [NamedImport(each.target, _line_with(source, name, each.line)) for each in named_too]


_NAMED_IMPORT = """
(import_statement
  (import_clause (named_imports (import_specifier name: (identifier) @name))) source: (string) @source)
"""
_NAMED_EXPORT = """
(export_statement (export_clause (export_specifier name: (identifier) @name)) source: (string) @source)
"""


def _re_exports(source: FileVersion | None) -> bool:
    """Whether a module hands on names that do not stand in it."""
    return source is not None and bool(
        re.search(r"import \*|__getattr__|export \*|module\.exports|globals\(\)", source.text)
    )


def _imports_module(target: str, other: FileVersion, was: str, surroundings: ReviewContext) -> bool:
    """Whether an import means the file a name was taken from; of a renamed or deleted file, where it leads nowhere now."""
    assert other.language  # `_uses` has looked
    found = resolve_import(other.language, other.path, target, surroundings.paths)
    if found or was in surroundings.paths:
        return found[:1] == [was]
    module = re.sub(r"(?:/__init__|/index)?\.\w+$", "", was)
    plain = target.strip("./").replace(".", "/") if other.language_name == "python" else target.lstrip("./")
    suffix = was.rpartition(".")[2]
    if not target.startswith(".") and any(
        surroundings.paths.by_suffix(f"{plain}{end}.{suffix}") for end in ("", "/__init__", "/index")
    ):
        return False  # it may mean that one: whoever runs it chooses where its imports begin
    return bool(plain) and f"/{module}".endswith(f"/{plain}")


def _line_with(source: FileVersion, name: str, first: int) -> int:
    """The line of an import that says the name: a long one goes over several."""
    for line in range(first, min(first + 60, len(source.lines)) + 1):
        if re.search(rf"\b{re.escape(name)}\b", source.line(line)):
            return line
    return first


# -- calls that no longer fit -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallSignature:
    """What a Python function takes. `places` are the names of what may be given by position."""

    places: tuple[str, ...]
    required: frozenset[str]
    names: frozenset[str]
    takes_more: bool
    takes_any_name: bool

    def refuses(self, call: ast.Call) -> str:
        """Why a call does not fit; empty when it does, or when nobody can tell."""
        if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
            return ""
        given = len(call.args)
        if given > len(self.places) and not self.takes_more:
            return f"it gives {given} arguments by position, {len(self.places)} are taken"
        named = {each.arg for each in call.keywords if each.arg}
        unknown = sorted(named - self.names)
        if unknown and not self.takes_any_name:
            return f"it gives {unknown[0]}, which is no parameter"
        missing = sorted(self.required - named - set(self.places[:given]))
        return f"it does not give {missing[0]}" if missing else ""


@CheckRule(
    "call-mismatch",
    "Call does not fit the new signature",
    "It raises a TypeError.",
    priority=1,
    confidence=0.85,
    category="correctness",
    languages=PYTHON,
).change
def call_mismatch(files: Sequence[ChangedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """A call of a Python function whose signature changes here, that fitted the old one and does not fit the new one."""
    changed = {file.path: pairs for file in files if (pairs := _changed_signatures(file))}
    names = sorted({name for pairs in changed.values() for name in pairs})
    holding = surroundings.files_with_words(names) if names and surroundings.is_known else {}
    for file in files:
        for name, (old, new, line) in changed.get(file.path, {}).items():
            holders = [path for path in holding.get(name, ()) if path.endswith((".py", ".pyi"))]
            if len(holders) > HOLDERS_MAX:
                continue
            surroundings.fetch(holders)
            wrong = list(_find_misfits(name, old, new, file, sorted({*holders, file.path}), surroundings))
            if wrong:
                why, use = wrong[0]
                more = f" ({len(wrong)} such calls)" if len(wrong) > 1 else ""
                yield on_line(
                    line,
                    f"{use.path}:{use.line} calls {name} in the old way: {why}{more}.",
                    path=file.path,
                    evidence=tuple(each.evidence for _, each in wrong[:EVIDENCE_MAX]),
                )


def _changed_signatures(file: ChangedFile) -> dict[str, tuple[CallSignature, CallSignature, int]]:
    """The top-level functions whose signature changed: before, now, and the line they are on."""
    if file.old is None or file.new is None or file.new.language_name != "python" or not file.is_whole:
        return {}
    written = _written_parameters(file.old)
    differing = {name for name, text in _written_parameters(file.new).items() if written.get(name, text) != text}
    if not differing:
        return {}
    before, now = _signatures(file.old), _signatures(file.new)
    return {
        name: (before[name][0], signature, line)
        for name, (signature, line) in now.items()
        if name in differing and name in before and before[name][0] != signature and len(name) >= NAME_CHARS_MIN
    }


def _written_parameters(source: FileVersion) -> dict[str, str]:
    """The parameters of the top-level functions as they are written: where these are the same nobody need look closer."""
    found = source.matches("(module (function_definition name: (identifier) @name parameters: (parameters) @given))")
    return {each["name"].text: each["given"].text for each in found}


def _signatures(source: FileVersion) -> dict[str, tuple[CallSignature, int]]:
    """The undecorated top-level functions of a module; those defined twice are left out."""
    tree = source.python
    listed = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)] if tree else []
    counts = Counter(node.name for node in listed)
    return {
        node.name: (_signature(node.args), node.lineno)
        for node in listed
        if not node.decorator_list and counts[node.name] == 1
    }


def _signature(given: ast.arguments) -> CallSignature:
    places = [each.arg for each in (*given.posonlyargs, *given.args)]
    required = places[: len(places) - len(given.defaults)]
    required += [each.arg for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is None]
    names = {each.arg for each in (*given.args, *given.kwonlyargs)}
    return CallSignature(
        tuple(places), frozenset(required), frozenset(names), given.vararg is not None, given.kwarg is not None
    )


def _find_misfits(
    name: str,
    old: CallSignature,
    new: CallSignature,
    file: ChangedFile,
    paths: Iterable[str],
    surroundings: ReviewContext,
) -> Iterator[tuple[str, NameUse]]:
    for path in paths:
        source = file.new if path == file.path else surroundings.source(path)
        if source is None or (path != file.path and not _imports_name(source, name, file.path, surroundings)):
            continue
        for call in _calls(source, name):
            why = new.refuses(call)
            if why and not old.refuses(call):
                yield why, NameUse(path, call.lineno, source.line(call.lineno))


def _imports_name(source: FileVersion, name: str, module: str, surroundings: ReviewContext) -> bool:
    """Whether a file imports the name from the module, under that name."""
    return source.language is not None and any(
        name in each.names
        and module in resolve_import(source.language, source.path, each.target, surroundings.paths)[:1]
        for each in source.outline.imports
    )


def _calls(source: FileVersion, name: str) -> Iterator[ast.Call]:
    """The calls of a plain name, in a file that gives it no other meaning."""
    tree = source.python
    if tree is None:
        return
    defined = [node for node in walk(tree) if _binds(node, name)]
    if len(defined) > 1:
        return
    for node in walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a piece of code gives a name a meaning."""
    match node:
        case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
            return bound == name
        case ast.Name(id=bound, ctx=ast.Store()) | ast.arg(arg=bound):
            return bound == name
    return False


# -- what others build on -----------------------------------------------------------------------------------------


@CheckRule(
    "api-break",
    "Public interface changed",
    "Whoever uses this package has to change their calls: it wants a deprecation, or a major version.",
    priority=1,
    confidence=0.75,
    category="correctness",
    in_tests=False,
).change
def api_break(files: Sequence[ChangedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """A function that a package offers in its `__init__` and whose old calls no longer fit, or that is gone from there."""
    for file in files:
        if file.new is None or file.old is None or not re.search(r"\.pyi?$", file.path) or not file.is_whole:
            continue
        offered = _public_names(file.path, surroundings)
        for name, (old, new, line) in _changed_signatures(file).items():
            if name in offered and (why := _explain_break(old, new)):
                yield on_line(line, f"{name} is offered by its package, and {why}.", path=file.path)
        if file.path.endswith("/__init__.py"):
            gone = sorted(_names_in_all(file.old) - _names_in_all(file.new))
            for name in gone if _names_in_all(file.new) else ():
                yield on_line(min(file.added, default=1), f"{name} is not in __all__ any more.", path=file.path)


def _public_names(path: str, surroundings: ReviewContext) -> set[str]:
    """The names that the package around a module lists in its `__all__`."""
    folder = path.rpartition("/")[0]
    package = surroundings.source(f"{folder}/__init__.py") if folder else None
    return _names_in_all(package) if package else set()


def _names_in_all(source: FileVersion) -> set[str]:
    """The names of a module's `__all__`."""
    found = re.search(r"^__all__\s*(?::[^=]+)?=\s*[\[(]([^\])]*)[\])]", source.text, re.MULTILINE)
    return set(re.findall(r"['\"](\w+)['\"]", found[1])) if found else set()


def _explain_break(old: CallSignature, new: CallSignature) -> str:
    """What calls of the old signature may break on; empty when all of them still fit."""
    gone = sorted(old.names - new.names)
    if gone and not new.takes_any_name:
        return f"takes no {gone[0]} any more"
    wanted = sorted(new.required - old.required)
    if wanted:
        return f"now needs {wanted[0]}"
    if old.places != new.places[: len(old.places)] and not new.takes_more:
        return "takes its arguments in another order"
    return ""


FILE = (duplicate_definition,)
CHANGE = (unresolved_import, removed_symbol, call_mismatch, api_break)
