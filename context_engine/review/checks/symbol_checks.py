"""Names: imported from missing files, removed while in use, called with an old signature."""

from __future__ import annotations

import ast
import re
from ast import walk
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from context_engine.languages import resolve_import
from context_engine.review.checks.check import SCRIPT, check, on_line

if TYPE_CHECKING:
    from context_engine.languages import Import
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile

NAME_CHARS_MIN = 3
"""Shorter names are too common to be followed."""
FILES_MAX = 200
"""A name in more files is too common to be followed."""
EVIDENCE_MAX = 5


# -- imports ------------------------------------------------------------------------------------------------------


@check("unresolved-import")
def unresolved_import(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report an added relative import of a file that the tree does not have."""
    if not surroundings.is_known:
        return
    for file in files:
        new = file.new
        if new is None or new.language is None or not file.is_whole:
            continue
        for imported in new.outline.imports:
            if imported.line not in file.added or not _is_relative(new, imported.target):
                continue
            if not _is_guarded(new, imported.line) and not _can_be_resolved(new, imported, surroundings):
                body = f"There is no file for {imported.target!r} in this tree."
                yield on_line(imported.line, body, path=file.path)


def _is_relative(source: FileVersion, target: str) -> bool:
    """Whether an import must mean a file of this tree that is not generated."""
    if source.language_name == "python":
        return target.startswith(".")
    return source.language_name in SCRIPT and target.startswith(("./", "../")) and not re.search(r"[?*{$!]", target)


def _can_be_resolved(source: FileVersion, imported: Import, surroundings: ReviewContext) -> bool:
    target, paths = imported.target, surroundings.paths
    if source.language is None or resolve_import(source.language, source.path, target, paths, imported.names):
        return True
    if source.language_name == "python" and not target.strip("."):  # the package itself
        return True
    if _is_below_module(source, target, surroundings):
        return True
    # A build creates files that no tree contains, perhaps in a folder of the target's name.
    stem = target.rstrip("/").rpartition("/")[2].rpartition(".")[2] or target
    is_built = re.search(r"(?:^|/)(?:dist|build|generated|lib|out|pkg)(?:/|$)|_version$|version$|_pb2", target)
    return bool(is_built) or any(stem in path for path in paths.in_folder(source.path.rpartition("/")[0]))


def _is_below_module(source: FileVersion, target: str, surroundings: ReviewContext) -> bool:
    """Whether a part of the path is a module, not a package: it creates its content (`six.moves`)."""
    dots = target[: len(target) - len(target.lstrip("."))]
    parts = target.lstrip(".").split(".") if source.language_name == "python" else []
    for count in range(len(parts) - 1, 0, -1):
        assert source.language  # `_can_be_resolved` has checked it
        above = dots + ".".join(parts[:count])
        if found := resolve_import(source.language, source.path, above, surroundings.paths):
            return not found[0].endswith(("/__init__.py", "/__init__.pyi"))
    return False


def _is_guarded(source: FileVersion, line: int) -> bool:
    """Whether an import may fail on purpose: inside `try`, or for type checkers only."""
    above = "\n".join(source.lines[max(0, line - 4) : line])
    return bool(re.search(r"\btry\b|TYPE_CHECKING|@ts-(?:ignore|expect-error)|(?:jest|vi)\.mock|type:\s*ignore", above))


# -- removed names that are still used ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NameUse:
    """A place that uses a name."""

    path: str
    line: int
    text: str

    @property
    def evidence(self) -> str:
        """The place as evidence."""
        return f"{self.path}:{self.line}: {self.text.strip()[:100]}"


@check("removed-symbol")
def removed_symbol(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a top-level name that a change removes or renames while its file calls it or other files import it."""
    defined = {symbol.name for file in files if file.new for symbol in file.new.outline.symbols}
    for file in files:
        yield from _report_own_calls(file, defined)
    removed = {file.path: names for file in files if (names := _removed_names(file))}
    if not removed:
        return
    everywhere = sorted({name for names in removed.values() for name in names})
    files_with = surroundings.files_with_words(everywhere) if surroundings.is_known else {}
    for file in files:
        for name in removed.get(file.path, ()):
            paths = files_with.get(name, ())
            if len(paths) > FILES_MAX or _has_successor(name, file, surroundings):
                continue
            surroundings.fetch(paths)
            uses = [use for path in paths for use in _find_uses(name, file, path, surroundings)]
            if uses:
                yield _report_uses(file, name, uses)


def _report_own_calls(file: ReviewedFile, defined: Collection[str]) -> Iterator[Finding]:
    """Report functions that their file still calls and no file of the change defines any more.

    In Python the check of undefined names reports them.
    """
    if file.old is None or file.new is None or not file.is_whole or file.new.language_name not in _CALLING_LANGUAGES:
        return
    functions = [symbol for symbol in file.old.outline.symbols if symbol.parent < 0 and symbol.kind == "function"]
    for name in dict.fromkeys(symbol.name for symbol in functions):
        if len(name) >= NAME_CHARS_MIN and name not in defined and name in file.new.words:
            uses = _find_plain_calls(name, file.new)
            if uses:
                yield _report_uses(file, name, uses)


_CALLING_LANGUAGES = frozenset({"go", "rust", "c", "cpp", "php", *SCRIPT})
_NO_PLAIN_CALL = frozenset({".", "?.", "->", "::", "function", "func", "fn", "new"})


def _find_plain_calls(name: str, source: FileVersion) -> list[NameUse]:
    """Return the lines that call a function by its bare name; none if it occurs otherwise, as in an import."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    numbers = {number for number, line in enumerate(source.lines, 1) if word.search(line)}
    uses = []
    for number, tokens in sorted(source.leaf_tokens(numbers).items()):
        texts = ["", *(token.text for token in tokens), ""]
        for at, token in enumerate(tokens, 1):
            if token.text != name:
                continue
            if texts[at + 1] != "(" or texts[at - 1] in _NO_PLAIN_CALL:
                return []
            uses.append(NameUse(source.path, number, source.line(number)))
    return uses


def _has_successor(name: str, file: ReviewedFile, surroundings: ReviewContext) -> bool:
    """Whether the former path of a moved file has another file now, which has the name."""
    if file.old_path in ("", file.path) or file.old_path not in surroundings.paths:
        return False
    successor = surroundings.source(file.old_path)
    return successor is not None and name in successor.words


def _report_uses(file: ReviewedFile, name: str, uses: Sequence[NameUse]) -> Finding:
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


def _removed_names(file: ReviewedFile) -> list[str]:
    """Return the top-level names of a file that its new version does not even contain as a word."""
    if file.old is None or not file.is_whole or file.kind == "copied":
        return []
    if file.old.language_name not in ("python", *SCRIPT):
        return []
    words = file.new.words if file.new and file.kind != "renamed" else frozenset()
    names = [symbol.name for symbol in file.old.outline.symbols if symbol.parent < 0]
    return [name for name in names if len(name) >= NAME_CHARS_MIN and name not in words]


def _find_uses(name: str, file: ReviewedFile, path: str, surroundings: ReviewContext) -> list[NameUse]:
    """Return the lines of another file that import a name from this one."""
    other = surroundings.source(path)
    was = file.old_path or file.path
    if other is None or path in (file.path, was) or other.language is None or _re_exports(file.new):
        return []
    uses = []
    for target, line in _list_imports(other, name):
        if _imports_module(target, other, was, surroundings) and not _is_guarded(other, line):
            uses.append(NameUse(path, line, other.line(line)))
    return uses


def _list_imports(source: FileVersion, name: str) -> list[tuple[str, int]]:
    """Return target and line of the imports of a name."""
    if source.language_name in SCRIPT:
        matches = [*source.matches(_NAMED_IMPORT), *source.matches(_NAMED_EXPORT)]
        named = [match for match in matches if match["name"].text == name]
        return [(match["source"].text.strip("'\""), match["name"].first) for match in named]
    imports = [imported for imported in source.outline.imports if name in imported.names]
    return [(imported.target, _find_line(source, name, imported.line)) for imported in imports]


_NAMED_IMPORT = """
(import_statement
  (import_clause (named_imports (import_specifier name: (identifier) @name))) source: (string) @source)
"""
_NAMED_EXPORT = """
(export_statement (export_clause (export_specifier name: (identifier) @name)) source: (string) @source)
"""


def _re_exports(source: FileVersion | None) -> bool:
    """Whether a module may export names that it does not contain."""
    return source is not None and bool(
        re.search(r"import \*|__getattr__|export \*|module\.exports|globals\(\)", source.text)
    )


def _imports_module(target: str, other: FileVersion, was: str, surroundings: ReviewContext) -> bool:
    """Whether an import means the file that had the name; for a renamed or deleted one, whether it is unresolved."""
    assert other.language  # `_find_uses` has checked it
    found = resolve_import(other.language, other.path, target, surroundings.paths)
    if found or was in surroundings.paths:
        return found[:1] == [was]
    module = re.sub(r"(?:/__init__|/index)?\.\w+$", "", was)
    plain = target.strip("./").replace(".", "/") if other.language_name == "python" else target.lstrip("./")
    suffix = was.rpartition(".")[2]
    if not target.startswith(".") and any(
        surroundings.paths.by_suffix(f"{plain}{end}.{suffix}") for end in ("", "/__init__", "/index")
    ):
        return False  # it may mean that file: the program decides where its imports begin
    return bool(plain) and f"/{module}".endswith(f"/{plain}")


def _find_line(source: FileVersion, name: str, first: int) -> int:
    """Return the line of an import that contains the name: a long one has several lines."""
    for line in range(first, min(first + 60, len(source.lines)) + 1):
        if re.search(rf"\b{re.escape(name)}\b", source.line(line)):
            return line
    return first


# -- calls that no longer fit -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallSignature:
    """The parameters of a Python function. `places` are the names of those that may be passed by position."""

    places: tuple[str, ...]
    required: frozenset[str]
    names: frozenset[str]
    takes_more: bool
    takes_any_name: bool

    def refuses(self, call: ast.Call) -> str:
        """Return why a call does not fit; empty when it does, or when that is unknown."""
        has_star = any(isinstance(argument, ast.Starred) for argument in call.args)
        if has_star or any(keyword.arg is None for keyword in call.keywords):
            return ""
        given = len(call.args)
        if given > len(self.places) and not self.takes_more:
            return f"it passes {given} arguments by position, {len(self.places)} are accepted"
        named = {keyword.arg for keyword in call.keywords if keyword.arg}
        unknown = sorted(named - self.names)
        if unknown and not self.takes_any_name:
            return f"it passes {unknown[0]}, which is not a parameter"
        missing = sorted(self.required - named - set(self.places[:given]))
        return f"it does not pass {missing[0]}" if missing else ""


@check("call-mismatch")
def call_mismatch(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report calls of a Python function that fit its old signature and do not fit the new one."""
    changed = {file.path: pairs for file in files if (pairs := _changed_signatures(file))}
    names = sorted({name for pairs in changed.values() for name in pairs})
    files_with = surroundings.files_with_words(names) if names and surroundings.is_known else {}
    for file in files:
        for name, (old, new, line) in changed.get(file.path, {}).items():
            paths = [path for path in files_with.get(name, ()) if path.endswith((".py", ".pyi"))]
            if len(paths) > FILES_MAX:
                continue
            surroundings.fetch(paths)
            wrong = list(_find_misfits(name, old, new, file, sorted({*paths, file.path}), surroundings))
            if wrong:
                why, use = wrong[0]
                more = f" ({len(wrong)} such calls)" if len(wrong) > 1 else ""
                yield on_line(
                    line,
                    f"{use.path}:{use.line} calls {name} with its old signature: {why}{more}.",
                    path=file.path,
                    evidence=tuple(use.evidence for _, use in wrong[:EVIDENCE_MAX]),
                )


def _changed_signatures(file: ReviewedFile) -> dict[str, tuple[CallSignature, CallSignature, int]]:
    """Return the old and the new signature of top-level functions where these differ, with the line."""
    if file.old is None or file.new is None or file.new.language_name != "python" or not file.is_whole:
        return {}
    before, now = _signatures(file.old), _signatures(file.new)
    return {
        name: (before[name][0], signature, line)
        for name, (signature, line) in now.items()
        if name in before and before[name][0] != signature and len(name) >= NAME_CHARS_MIN
    }


def _signatures(source: FileVersion) -> dict[str, tuple[CallSignature, int]]:
    """Return the undecorated top-level functions of a module, except those defined twice."""
    tree = source.python
    statements = tree.body if tree else []
    functions = [node for node in statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    counts = Counter(function.name for function in functions)
    plain = [function for function in functions if not function.decorator_list and counts[function.name] == 1]
    return {function.name: (_signature(function.args), function.lineno) for function in plain}


def _signature(given: ast.arguments) -> CallSignature:
    places = [parameter.arg for parameter in (*given.posonlyargs, *given.args)]
    required = places[: len(places) - len(given.defaults)]
    keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    required += [parameter.arg for parameter, default in keywords if default is None]
    names = {parameter.arg for parameter in (*given.args, *given.kwonlyargs)}
    return CallSignature(
        tuple(places), frozenset(required), frozenset(names), given.vararg is not None, given.kwarg is not None
    )


def _find_misfits(
    name: str,
    old: CallSignature,
    new: CallSignature,
    file: ReviewedFile,
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
    language = source.language
    if language is None:
        return False
    targets = [imported.target for imported in source.outline.imports if name in imported.names]
    return any(module in resolve_import(language, source.path, target, surroundings.paths)[:1] for target in targets)


def _calls(source: FileVersion, name: str) -> Iterator[ast.Call]:
    """Yield the calls of a plain name, in a file that does not define it otherwise."""
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
    """Whether a syntax node defines a name."""
    match node:
        case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
            return bound == name
        case ast.Name(id=bound, ctx=ast.Store()) | ast.arg(arg=bound):
            return bound == name
    return False


# -- public interfaces -----------------------------------------------------------------------------------------


@check("api-break")
def api_break(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report names that a package exports and that are removed, or whose old calls no longer fit."""
    for file in files:
        if file.new is None or file.old is None or not re.search(r"\.pyi?$", file.path) or not file.is_whole:
            continue
        offered = _public_names(file.path, surroundings)
        for name, (old, new, line) in _changed_signatures(file).items():
            if name in offered and (why := _explain_break(old, new)):
                yield on_line(line, f"{name} is exported by its package, and {why}.", path=file.path)
        if file.path.endswith("/__init__.py"):
            gone = sorted(_names_in_all(file.old) - _names_in_all(file.new))
            for name in gone if _names_in_all(file.new) else ():
                yield on_line(min(file.added, default=1), f"{name} is no longer in __all__.", path=file.path)


def _public_names(path: str, surroundings: ReviewContext) -> set[str]:
    """Return the names in the `__all__` of the package around a module."""
    folder = path.rpartition("/")[0]
    package = surroundings.source(f"{folder}/__init__.py") if folder else None
    return _names_in_all(package) if package else set()


def _names_in_all(source: FileVersion) -> set[str]:
    """Return the names of a module's `__all__`."""
    found = re.search(r"^__all__\s*(?::[^=]+)?=\s*[\[(]([^\])]*)[\])]", source.text, re.MULTILINE)
    return set(re.findall(r"['\"](\w+)['\"]", found[1])) if found else set()


def _explain_break(old: CallSignature, new: CallSignature) -> str:
    """Return why calls of the old signature may fail; empty when all of them still fit."""
    gone = sorted(old.names - new.names)
    if gone and not new.takes_any_name:
        return f"no longer takes {gone[0]}"
    wanted = sorted(new.required - old.required)
    if wanted:
        return f"now needs {wanted[0]}"
    if old.places != new.places[: len(old.places)] and not new.takes_more:
        return "takes its arguments in another order"
    return ""
