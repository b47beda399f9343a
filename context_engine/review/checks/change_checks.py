"""Checks of a whole change: names removed while in use, old signatures, forgotten lock files, partners and tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from context_engine.languages import Import, resolve_import
from context_engine.review.checks.check import SCRIPT, check, on_line
from context_engine.review.source_versions import is_test
from context_engine.text import LineSpan, read_json, read_toml

if TYPE_CHECKING:
    from context_engine.model import Finding
    from context_engine.review.source_versions import FileVersion, ReviewContext, ReviewedFile

NAME_CHARS_MIN = 3
"""Shorter names are too common to be followed."""
FILES_MAX = 200
"""A name in more files is too common to be followed."""
EVIDENCE_MAX = 5
IMPORT_LINES_MAX = 60
"""The names of a long import are looked for in so many lines from its first one."""

# -- imports ----------------------------------------------------------------------------------------------------------


@check("unresolved-import")
def unresolved_import(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report an added relative import of a file that the tree does not have."""
    for file in files if surroundings.is_known else ():
        new = file.new
        if new is None or new.language is None or not file.is_whole:
            continue
        for imported in new.outline.imports:
            is_checked = imported.line in file.added and _is_relative(new, imported.target)
            if is_checked and not (_is_guarded(new, imported.line) or _can_be_resolved(new, imported, surroundings)):
                yield on_line(imported.line, f"There is no file for {imported.target!r} in this tree.", path=file.path)


def _is_relative(source: FileVersion, target: str) -> bool:
    """Whether an import must mean a file of this tree that is not generated."""
    if source.language and source.language.renames.dotted_modules:
        return target.startswith(".")
    return source.language_name in SCRIPT and target.startswith(("./", "../")) and not re.search(r"[?*{$!]", target)


def _can_be_resolved(source: FileVersion, imported: Import, surroundings: ReviewContext) -> bool:
    target, paths, language = imported.target, surroundings.paths, source.language
    names_folder = not target.strip("./")  # the package itself, or what a package.json says
    if language is None or names_folder or resolve_import(language, source.path, target, paths, imported.names):
        return True
    if language.renames.dotted_modules:
        # A part of the path that is a module, not a package, creates its content (`six.moves`).
        dots = target[: len(target) - len(target.lstrip("."))]
        parts = target.lstrip(".").split(".")
        above = (dots + ".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1))
        found = next(filter(None, (resolve_import(language, source.path, part, paths) for part in above)), ())
        if found and not found[0].endswith(("/__init__.py", "/__init__.pyi")):
            return True
    # A build creates files that no tree contains, perhaps in a folder of the target's name.
    stem = target.rstrip("/").rpartition("/")[2].rpartition(".")[2] or target
    is_built = re.search(r"(?:^|/)(?:dist|build|generated|lib|out|pkg)(?:/|$)|_version$|version$|_pb2", target)
    return bool(is_built) or any(stem in path for path in paths.in_folder(source.path.rpartition("/")[0]))


def _is_guarded(source: FileVersion, line: int) -> bool:
    """Whether an import may fail on purpose: inside `try`, or for type checkers only."""
    above = "\n".join(source.lines[max(0, line - 4) : line])
    return bool(re.search(r"\btry\b|TYPE_CHECKING|@ts-(?:ignore|expect-error)|(?:jest|vi)\.mock|type:\s*ignore", above))


# -- removed names that are still used ---------------------------------------------------------------------------------


class NameUse(NamedTuple):
    """A place that uses a name."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        """Return the place as evidence."""
        return f"{self.path}:{self.line}: {self.text.strip()[:100]}"


@check("removed-symbol")
def removed_symbol(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a top-level name that a change removes or renames while its file calls it or other files import it."""
    defined = {symbol.name for file in files if file.new for symbol in file.new.outline.symbols}
    for file in files:
        yield from _report_own_calls(file, defined)
    removed = {file.path: names for file in files if (names := _removed_names(file))}
    everywhere = sorted({name for names in removed.values() for name in names})
    files_with = surroundings.files_with_words(everywhere) if everywhere and surroundings.is_known else {}
    for file in files:
        for name in removed.get(file.path, ()):
            paths = files_with.get(name, ())
            if len(paths) <= FILES_MAX and not _has_successor(name, file, surroundings):
                surroundings.fetch(paths)
                uses = [use for path in paths for use in _find_uses(name, file, path, surroundings)]
                yield from _report_uses(file, name, uses)


def _report_uses(file: ReviewedFile, name: str, uses: Sequence[NameUse]) -> Iterator[Finding]:
    if uses:
        more = f" and in {len(uses) - 1} more places" if len(uses) > 1 else ""
        where = f"{uses[0].path}:{uses[0].line}"
        yield on_line(
            file.first_added,
            f"{name} is gone from {file.old_path or file.path}, but {where} still uses it{more}.",
            title=f"{name} was removed, but is still used",
            path=file.path,
            evidence=tuple(map(str, uses[:EVIDENCE_MAX])),
        )


_CALLING_LANGUAGES = frozenset({"go", "rust", "c", "cpp", "php", *SCRIPT})
_NO_PLAIN_CALL = frozenset({".", "?.", "->", "::", "function", "func", "fn", "new"})


def _report_own_calls(file: ReviewedFile, defined: Collection[str]) -> Iterator[Finding]:
    """Report functions that their file still calls and no file of the change defines any more.

    In Python the check of undefined names reports them.
    """
    if not file.versions or file.versions[1].language_name not in _CALLING_LANGUAGES:
        return
    old, new = file.versions
    functions = [symbol for symbol in old.outline.symbols if symbol.parent < 0 and symbol.kind == "function"]
    for name in dict.fromkeys(symbol.name for symbol in functions):
        if len(name) >= NAME_CHARS_MIN and name not in defined and name in new.words:
            yield from _report_uses(file, name, _find_plain_calls(name, new))


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


def _removed_names(file: ReviewedFile) -> list[str]:
    """Return the top-level names of a file that its new version does not even contain as a word."""
    if file.old is None or not file.is_whole or file.kind == "copied":
        return []
    if file.old.language_name not in removed_symbol.languages:
        return []
    words = file.new.words if file.new and file.kind != "renamed" else frozenset()
    names = [symbol.name for symbol in file.old.outline.symbols if symbol.parent < 0]
    return [name for name in names if len(name) >= NAME_CHARS_MIN and name not in words]


_RE_EXPORTS = re.compile(r"import \*|__getattr__|export \*|module\.exports|globals\(\)")
"""A module with one of these may export names that it does not contain."""


def _find_uses(name: str, file: ReviewedFile, path: str, surroundings: ReviewContext) -> Iterator[NameUse]:
    other = surroundings.source(path)
    was = file.old_path or file.path
    if other is None or path in (file.path, was) or (file.new and _RE_EXPORTS.search(file.new.text)):
        return
    word = re.compile(rf"\b{re.escape(name)}\b")
    for imported in list_named_imports(other):
        if name in imported.names and _imports_module(imported.target, other, was, surroundings):
            lines = range(imported.line, imported.line + IMPORT_LINES_MAX)
            line = next((number for number in lines if word.search(other.line(number))), imported.line)
            if not _is_guarded(other, line):
                yield NameUse(path, line, other.line(line))


def list_named_imports(source: FileVersion) -> list[Import]:
    """Return what a file imports, with the names; an import of JavaScript is repeated for each of its names."""
    queries = removed_symbol.queries.values() if source.language_name in SCRIPT else ()
    matches = [match for query in queries for match in source.matches(query)]
    named = (Import(match["source"].text.strip("'\""), match["name"].first, (match["name"].text,)) for match in matches)
    return [*source.outline.imports, *named]


def _imports_module(target: str, other: FileVersion, was: str, surroundings: ReviewContext) -> bool:
    """Whether an import means the file that had the name; for a renamed or deleted one, whether it is unresolved."""
    if other.language is None:
        return False
    found = resolve_import(other.language, other.path, target, surroundings.paths)
    if found or was in surroundings.paths:
        return found[:1] == [was]
    module = re.sub(r"(?:/__init__|/index)?\.\w+$", "", was)
    plain = target.strip("./").replace(".", "/") if other.language.renames.dotted_modules else target.lstrip("./")
    suffix = was.rpartition(".")[2]
    candidates = (f"{plain}{end}.{suffix}" for end in ("", "/__init__", "/index"))
    if not target.startswith(".") and any(map(surroundings.paths.by_suffix, candidates)):
        return False  # it may mean that file: the program decides where its imports begin
    return bool(plain) and f"/{module}".endswith(f"/{plain}")


# -- calls that no longer fit -----------------------------------------------------------------------------------------


class CallSignature(NamedTuple):
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

    def breaks(self, old: CallSignature) -> str:
        """Return why calls of an older signature may fail; empty when all of them still fit."""
        gone, wanted = sorted(old.names - self.names), sorted(self.required - old.required)
        if gone and not self.takes_any_name:
            return f"no longer takes {gone[0]}"
        if wanted:
            return f"now needs {wanted[0]}"
        is_reordered = old.places != self.places[: len(old.places)] and not self.takes_more
        return "takes its arguments in another order" if is_reordered else ""


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
            calls = _find_calls(name, file, sorted({*paths, file.path}), surroundings)
            wrong = [(why, use) for call, use in calls if (why := new.refuses(call)) and not old.refuses(call)]
            if wrong:
                why, use = wrong[0]
                more = f" ({len(wrong)} such calls)" if len(wrong) > 1 else ""
                body = f"{use.path}:{use.line} calls {name} with its old signature: {why}{more}."
                evidence = tuple(str(use) for _, use in wrong[:EVIDENCE_MAX])
                yield on_line(line, body, path=file.path, evidence=evidence)


def _changed_signatures(file: ReviewedFile) -> dict[str, tuple[CallSignature, CallSignature, int]]:
    """Return the old and the new signature of top-level functions where these differ, with the line."""
    if not file.versions or file.versions[1].language_name not in call_mismatch.languages:
        return {}
    before, now = map(_signatures, file.versions)
    return {
        name: (before[name][0], signature, line)
        for name, (signature, line) in now.items()
        if name in before and before[name][0] != signature and len(name) >= NAME_CHARS_MIN
    }


def _signatures(source: FileVersion) -> dict[str, tuple[CallSignature, int]]:
    """Return the undecorated top-level functions of a module, except those defined twice."""
    statements = source.python.body if source.python else []
    functions = [node for node in statements if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    counts = Counter(function.name for function in functions)
    plain = [function for function in functions if not function.decorator_list and counts[function.name] == 1]
    return {function.name: (_signature(function.args), function.lineno) for function in plain}


def _signature(given: ast.arguments) -> CallSignature:
    places = [parameter.arg for parameter in (*given.posonlyargs, *given.args)]
    keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    required = places[: len(places) - len(given.defaults)]
    required += [parameter.arg for parameter, default in keywords if default is None]
    names = frozenset(parameter.arg for parameter in (*given.args, *given.kwonlyargs))
    return CallSignature(tuple(places), frozenset(required), names, given.vararg is not None, given.kwarg is not None)


def _find_calls(
    name: str, file: ReviewedFile, paths: Iterable[str], surroundings: ReviewContext
) -> Iterator[tuple[ast.Call, NameUse]]:
    for path in paths:
        source = file.new if path == file.path else surroundings.source(path)
        if source is None or (path != file.path and not _imports_name(source, name, file.path, surroundings)):
            continue
        nodes = list(ast.walk(source.python)) if source.python else []
        if sum(_binds(node, name) for node in nodes) <= 1:
            for node in nodes:
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                    yield node, NameUse(path, node.lineno, source.line(node.lineno))


def _imports_name(source: FileVersion, name: str, module: str, surroundings: ReviewContext) -> bool:
    targets = [imported.target for imported in source.outline.imports if name in imported.names]
    return any(_imports_module(target, source, module, surroundings) for target in targets)


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound) | ast.ClassDef(name=bound):
            return bound == name
        case ast.Name(id=bound, ctx=ast.Store()) | ast.arg(arg=bound):
            return bound == name
    return False


@check("api-break")
def api_break(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report names that a package exports and that are removed, or whose old calls no longer fit."""
    for file in files:
        if not file.versions or not file.path.endswith((".py", ".pyi")):
            continue
        folder = file.path.rpartition("/")[0]
        offered = _names_in_all(surroundings.source(f"{folder}/__init__.py") if folder else None)
        for name, (old, new, line) in _changed_signatures(file).items():
            if name in offered and (why := new.breaks(old)):
                yield on_line(line, f"{name} is exported by its package, and {why}.", path=file.path)
        if file.path.endswith("/__init__.py"):
            before, now = map(_names_in_all, file.versions)
            for name in sorted(before - now) if now else ():
                yield on_line(file.first_added, f"{name} is no longer in __all__.", path=file.path)


def _names_in_all(source: FileVersion | None) -> set[str]:
    pattern = r"^__all__\s*(?::[^=]+)?=\s*[\[(]([^\])]*)[\])]"
    found = re.search(pattern, source.text, re.MULTILINE) if source else None
    return set(re.findall(r"['\"](\w+)['\"]", found[1])) if found else set()


# -- lock files --------------------------------------------------------------------------------------------------------

LOCKS_OF: Mapping[str, tuple[str, ...]] = {
    "package.json": tuple("package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb".split()),
    "pyproject.toml": ("uv.lock", "poetry.lock", "pdm.lock"),
    "Pipfile": ("Pipfile.lock",),
    "Cargo.toml": ("Cargo.lock",),
    "go.mod": ("go.sum",),
    "Gemfile": ("Gemfile.lock",),
    "composer.json": ("composer.lock",),
}
"""The files that pin what a manifest requires."""
LOCKS = frozenset(
    {"flake.lock", "Package.resolved", "packages.lock.json", "mix.lock", "pubspec.lock", "Podfile.lock"}
).union(*LOCKS_OF.values())
TOML_TABLES = ("dependencies", "dev-dependencies", "build-dependencies", "packages", "dev-packages")
JSON_TABLES = ("dependencies", "devDependencies", "optionalDependencies", "require", "require-dev")


@check("lock-behind")
def lock_behind(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a manifest whose dependencies change while a lock file next to it, or at the top, does not."""
    changed = {file.path for file in files}
    for file in files:
        is_manifest = file.path.rpartition("/")[2] in LOCKS_OF
        lock = _find_lock(file.path, surroundings) if is_manifest and file.versions else ""
        if not lock or lock in changed or not file.versions:
            continue
        before, after = map(dependencies, file.versions)
        differing = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
        locked = [name for name in differing if not _needs_no_lock(name, after.get(name, ""), lock, surroundings)]
        if before and locked:
            added, new = sorted(file.added), file.versions[1]
            named = (line for line in added if any(name in new.line(line) for name in locked))
            line = next(named, file.first_added)
            yield on_line(line, f"{', '.join(locked[:3])} changed, {lock} did not.", path=file.path)


def _needs_no_lock(name: str, wanted: str, lock: str, surroundings: ReviewContext) -> bool:
    """Whether a lock file need not change with a dependency: it is part of this tree, or overridden everywhere."""
    if re.match(r"(?:workspace|file|link|portal|catalog):", wanted) or "path" in wanted:
        return True
    folder = lock.rpartition("/")[0]
    manifests = [f"{folder}/{file}" if folder else file for file in ("package.json", "pnpm-workspace.yaml")]
    surroundings.fetch((lock, *manifests))
    locked = surroundings.source(lock)
    word = re.escape(name)
    local_package = rf'name = "{word}"\n(?:version = .*\n)?source = {{ (?:editable|virtual|directory)'
    if locked is not None and re.search(local_package, locked.text):
        return True
    texts = [source.text for path in manifests if (source := surroundings.source(path))]
    return any(re.search(rf"(?:overrides|resolutions)\b[\s\S]*?[\"'\s]{word}[\"']?\s*:", text) for text in texts)


def _find_lock(manifest: str, surroundings: ReviewContext) -> str:
    folder, _, name = manifest.rpartition("/")
    while True:
        for lock in LOCKS_OF[name]:
            path = f"{folder}/{lock}" if folder else lock
            if path in surroundings.paths:
                return path
        if not folder:
            return ""
        folder = folder.rpartition("/")[0]


def dependencies(source: FileVersion) -> Mapping[str, str]:
    """Return what a manifest requires; nothing when it cannot be read."""
    try:
        match source.path.rpartition("/")[2]:
            case "package.json" | "composer.json":
                manifest = read_json(source.text)
                return _merge_tables(manifest.get(table) for table in JSON_TABLES)
            case "pyproject.toml" | "Pipfile" | "Cargo.toml":
                return _read_toml_dependencies(read_toml(source.text))
            case "go.mod":
                pattern = r"^\s*(?:require\s+)?([\w./-]+\.[\w./-]+)\s+(v\S+)"
            case _:
                pattern = r"^\s*gem\s+['\"]([\w-]+)['\"](.*)"
    except (ValueError, AttributeError, TypeError):
        return {}
    return dict(re.findall(pattern, source.text, re.MULTILINE))


def _read_toml_dependencies(manifest: Any) -> dict[str, str]:
    project, poetry = manifest.get("project", {}), manifest.get("tool", {}).get("poetry", {})
    listed = [*project.get("dependencies", ())]
    for extra in (project.get("optional-dependencies") or {}).values():
        listed += extra
    for group in (manifest.get("dependency-groups") or {}).values():
        listed += [entry for entry in group if isinstance(entry, str)]
    by_name = {re.split(r"[\s<>=!~;\[]", entry, maxsplit=1)[0]: entry for entry in listed}
    groups = poetry.get("group", {}).values()
    tables = [poetry.get("dependencies"), *(group.get("dependencies") for group in groups)]
    return by_name | _merge_tables([*tables, *(manifest.get(name) for name in TOML_TABLES)])


def _merge_tables(tables: Any) -> dict[str, str]:
    return {name: str(wanted) for table in tables for name, wanted in (table or {}).items()}


# -- files that change together, and tests -----------------------------------------------------------------------------

COCHANGE_FACTOR = 0.6
"""Files that usually change together need not this time, so only this share of the confidence counts."""
FUNCTIONS_MAX = 40
"""In a change of more functions a list of untested ones is of no use."""
FUNCTION_LINES_MIN = 5
"""A shorter function hardly needs a test of its own."""
UNTESTED_CONFIDENCE_MAX = 0.65
"""Below the usual threshold: of the three findings in a hundred commits none was useful (evals/noise)."""


@check("usually-together")
def usually_together(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a file that usually changes with a changed one, and is not in the change."""
    changed = {file.path for file in files}
    for file in files:
        for partner in surroundings.partners_of(file.path) if file.kind == "modified" else ():
            is_lock = partner.path.rpartition("/")[2] in LOCKS
            if not is_lock and partner.path not in changed and partner.path in surroundings.paths:
                share, confidence = partner.confidence, round(partner.confidence * COCHANGE_FACTOR, 2)
                body = f"Of the commits that changed {file.path}, {share:.0%} changed {partner.path} as well"
                body += f" ({partner.together} times)."
                yield on_line(file.first_added, body, path=file.path, confidence=confidence)


@check("untested")
def untested_function(files: Sequence[ReviewedFile], surroundings: ReviewContext) -> Iterator[Finding]:
    """Report a new public function that no test names, in a file whose other functions mostly are in tests.

    The confidence is the share of the file's older public functions that tests name.
    """
    for file in files if surroundings.is_known else ():
        new, old = (_public_functions(file, of_new=of_new) for of_new in (True, False))
        if not new or not old or len(new) + len(old) > FUNCTIONS_MAX:
            continue
        files_with = surroundings.files_with_words(sorted({*new, *old}))
        tested = {name for name, paths in files_with.items() if any(map(is_test, paths))}
        share = len(tested & old.keys()) / len(old)
        for name, line in new.items():
            if name not in tested and share > 0:
                confidence = round(UNTESTED_CONFIDENCE_MAX * share, 2)
                body = f"No test names {name}; {share:.0%} of the other functions of the file are named in one."
                yield on_line(line, body, path=file.path, confidence=confidence)


def _public_functions(file: ReviewedFile, *, of_new: bool) -> dict[str, int]:
    """Return the public functions that the change adds to a file, or the older ones, with their lines."""
    lines: dict[str, int] = {}
    if not file.versions:
        return lines
    old, source = file.versions
    for qualified_name, function in source.functions.items():
        is_new = qualified_name not in old.functions and file.touches(LineSpan(function.line, function.line))
        is_long = function.last - function.first + 1 >= FUNCTION_LINES_MIN
        text = source.line(function.line)
        is_local = source.language_name in SCRIPT and not text.startswith((" ", "\t", "export"))
        is_private = is_local or re.match(r"\s*(?:private|protected)\b", text)
        is_hidden = function.name.startswith(("_", "#")) or is_private
        if is_new == of_new and is_long and not is_hidden and len(function.name) > 2:
            lines[function.name] = function.line
    return lines
