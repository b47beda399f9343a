"""The habits of this code base, checked by reading the source; nothing heavy is imported and no rule is skipped.

What imports can show, `.importlinter` holds. What they cannot - who opens a file, who mints a path, whether a file has
a door - stands here. Every exception is a row with its reason, and a row that is no longer needed is a failure.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from context_engine import errors
from tests.support.source_trees import PACKAGE, ROOT, modules, nodes, parsed, text_of

# Who but `workspace` may touch the file system, and what for. A key is a file or a folder of the package.
TOUCHES_FILES = {
    "storage/confined_folder.py": "opens files beneath a folder for those who may, without following links out of it",
    "repo/executables.py": "asks which programs there are; opens nothing",
    "references/scip/scip_edges.py": "the SCIP index, opened through a confined folder, where its owner put it",
    "settings.py": "the settings file of the workspace, `.context-engine/config.yml`, and that of the user",
    "cli/hook_command.py": "asks whether a workspace has a folder in the cache; opens nothing",
    "cli/query_commands.py": "asks whether a word typed at the terminal is a path; opens nothing",
    "cli/tool_commands.py": "`place.open` opens the Engine",
    "cli/common_options.py": "reads the help pages, which are a file of the package",
    "cli/command_runner.py": "/dev/null, in place of a pipe that is not read any more",
    "daemon/": "its runtime folder: socket, lock and log; and asks when settings, languages and this program last changed",
    "cli/ui_command.py": "opens a browser, and asks where registered folders really are; opens no file",
    "ui/local_page.py": "the scripts and styles of this package",
    "server/resources.py": "the scripts and styles of this package",
    "cli/clients/": "the settings files of clients, where `ctx setup` and `ctx doctor` look, and the installed `ctx` script",
    "cli/doctor.py": "tries whether the cache can be written, makes a folder of its own to try the server in, asks whether roots exist",
    "server/authentication.py": "the bearer token of the HTTP server, in the user's config folder or where its owner put it",
    "server/stdio_streams.py": "the standard streams, moved aside so that no print can spoil the protocol, and /dev/null",
    "server/shutdown.py": "a pipe to itself, which every signal wakes it with, and the data of the system on parent processes",
    "storage/": "files of our own, in the user's cache and in `.context-engine/`",
    "history/commit_facts.py": "the mined history, in the user's cache",
    "index/embedded_store.py": "its own index files, in the user's cache",
    "index/embedded_writer.py": "its own index files, in the user's cache",
    "index/index_seeding.py": "its own index files, in the user's cache",
    "index/segment.py": "its own index files, in the user's cache",
    "embedding/library_embedder.py": "the folder of a model, which the user named",
    "team/": "copies of what a team shares, in the cache and in `.context-engine/`; its file of tokens and its audit log",
    "search/chunk_files.py": "asks whether a folder of chunk files is there, makes the one to export to; reads and writes through `workspace`",
    "embedding/table_file.py": "maps the table that this package brings along",
    "index/worker.py": "the pipes to the process that started it, no file",
    "secrets/": "its own rules, a file of this package",
    "review/checks/check.py": "its declarations, files of this package",
    "languages/language.py": "the language files of this package, and those the user adds",
    "languages/grammars.py": "the parsers of an installed package, unpacked into the user's cache",
}

# Functions that close a descriptor which they did not open, each with the reason why nothing else can use its number
# later.
CLOSES_FOR_OTHERS = {
    "server/stdio_streams.py:_run": "a thread that owns the duplicate made for it; nothing else knows its number",
}

# What a module that knows the folder `.context-engine/` may ask the system for by a path of its own. Whatever is in
# that folder is opened by `confined.ConfinedFolder`, mostly through `store.state.StateFolder`: a repository may have
# brought it.
OPENS_BESIDE_STATE = {
    "languages/language.py": {
        "folder.read_bytes": "of a ConfinedFolder",
        "(folder / f'{name}.toml').read_text": "the language files of this package",
    },
    "settings.py": {"path.open": "the user's own settings, in the user's config folder"},
    "storage/database.py": {
        "os.stat": "whether it is still the file that was opened; follows no link",
        "os.path.realpath": "where the workspace is: SQLite follows no link on the way to the file",
        "Path(f'{self.path}{suffix}').unlink": "a database in the cache, which can be made again",
        "shutil.disk_usage": "whether the disk is full, which SQLite does not distinguish from a broken one",
    },
    "storage/locks.py": {"os.path.realpath": "a name for the workspace among machines"},
    "storage/state_folder.py": {
        "mmap.mmap": "of the descriptor of an open file",
        "entry.is_dir": "of an open folder",
        "entry.is_file": "of an open folder",
        "entry.stat": "of an open folder",
        "os.stat": "who owns the workspace",
        "self.open": "of this StateFolder",
    },
}
THROUGH_A_HANDLE = ("self._files.", "self._folder.", "home._files.", "ConfinedFolder(", "os.read", "os.write")
"""How a call begins that asks such a folder, or what is open already."""

# Functions that may be longer than LINES_MAX, each with the reason why it reads better whole.
LONG_FUNCTIONS: dict[str, str] = {}
LINES_MAX = 60  # what the longest function has in the code bases this one takes for a model

PATH_METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob", "walk"),
    *("exists", "is_file", "is_dir", "is_symlink", "stat", "lstat", "resolve", "readlink", "samefile"),
    *("mkdir", "rmdir", "unlink", "touch", "chmod", "rename", "symlink_to", "hardlink_to"),
}
OS_FUNCTIONS = {
    *("open", "scandir", "listdir", "walk", "fwalk", "stat", "lstat", "access", "readlink", "replace", "rename"),
    *("renames", "remove", "unlink", "rmdir", "removedirs", "mkdir", "makedirs", "link", "symlink", "chmod", "chown"),
    *("truncate", "utime", "mkfifo", "read", "write", "pread", "pwrite", "fdopen", "posix_fallocate"),
}
OS_WRITERS = set(
    "write pwrite replace rename renames remove unlink rmdir removedirs mkdir makedirs link symlink chmod chown truncate"
    " utime mkfifo posix_fallocate".split()
)
OPENERS = {"bz2", "codecs", "gzip", "io", "lzma", "tarfile", "zipfile"}  # modules whose `open` opens a file
WHOLE_MODULES = {"mmap", "shutil", "tempfile"}  # any call into them touches files
FILE_CALLS = {"open", "NamedTemporaryFile", "TemporaryDirectory", "mkstemp", "mkdtemp"}

MUTABLE_CALLS = {"list", "dict", "set", "defaultdict", "OrderedDict", "Counter", "deque", "WeakValueDictionary"}
MUTATING_METHODS = {
    *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "appendleft", "popleft"),
    *("add", "discard", "update", "setdefault", "popitem", "difference_update", "intersection_update"),
}

# -- reading the tree ---------------------------------------------------------------------------------------------


def file_touches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every call that reads, writes or looks at files: its line and how it is spelled."""
    for node in nodes(tree):
        if isinstance(node, ast.Call) and touches_files(node.func):
            yield node.lineno, ast.unparse(node.func)


def touches_files(called: ast.expr) -> bool:
    match called:
        case ast.Name(id=name):
            return name in FILE_CALLS
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in OS_FUNCTIONS
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="os"), attr="path"), attr=name):
            return name in {"exists", "lexists", "isfile", "isdir", "islink", "getsize", "getmtime", "realpath"}
        case ast.Attribute(value=ast.Name(id=module), attr="open"):
            return module in OPENERS or module[:1].islower()  # `path.open()`, but not `Engine.open()`
        case ast.Attribute(value=ast.Name(id=module)) if module in WHOLE_MODULES:
            return True
        case ast.Attribute(value=ast.Name(id="ast") | ast.Attribute(attr="root_node"), attr="walk"):
            return False  # over a syntax tree
        case ast.Attribute(attr=name):
            return name in PATH_METHODS
    return False


def allowed(module: str, rows: dict[str, str]) -> str | None:
    """The row that covers a module: itself, or the folder it lies in."""
    return next((row for row in rows if module == row or (row.endswith("/") and module.startswith(row))), None)


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Every function, nested ones too, by qualified name, with its length in lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, (node.end_lineno or node.lineno) - node.lineno + 1
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif not isinstance(node, ast.expr):
            yield from functions(node, prefix)


def module_state(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a function changes something that lives in the module: `global`, or a mutation of a module-level container."""
    containers = {name for node in tree.body for name in mutable_names(node)}
    for function in nodes(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        shadowed = local_names(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield node.lineno, f"global {', '.join(node.names)}"
            elif (name := mutated(node)) in containers - shadowed:
                yield function.lineno, f"{name} is changed in {function.name}()"


def mutable_names(node: ast.stmt) -> Iterator[str]:
    """Names that a module-level statement binds to a list, dict or set."""
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign) and node.value:
        targets, value = [node.target], node.value
    else:
        return
    literal = isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
    called = isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in MUTABLE_CALLS
    if literal or called:
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def local_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names that a function binds itself, which hide those of the module."""
    arguments = function.args
    named = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return named | {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def mutated(node: ast.AST) -> str | None:
    """The plain name whose content this node changes, if it does."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in MUTATING_METHODS:
            return name
        case ast.AugAssign(target=ast.Name(id=name)):
            return name
    return None


def foreign_closes(tree: ast.AST) -> Iterator[str]:
    """Functions that close a descriptor which is not a variable of theirs, or keep a bare number in an attribute."""
    for function in nodes(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        inside = nodes(function)
        stored = {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        if any(_closes_foreign(node, stored) or _keeps_number(node) for node in inside):
            yield function.name


def _closes_foreign(node: ast.AST, own: set[str]) -> bool:
    is_close = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "close"
    if not is_close or ast.unparse(node.func) != "os.close":
        return False
    closed = ast.unparse(node.args[0])
    is_given_up = closed.endswith(".pop()")  # nothing has the number any more
    return closed not in own and not closed.startswith("os.open(") and not is_given_up


def _keeps_number(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    goals = [one for goal in node.targets for one in ast.walk(goal)]
    keeps = any(isinstance(one, ast.Attribute) for one in goals)
    return keeps and ast.unparse(node.value.func) in {"os.open", "os.dup", "os.pipe"}


def contract(name: str, key: str) -> set[str]:
    """The modules that an import contract of `.importlinter` lists under a key."""
    file = configparser.ConfigParser()
    file.read(ROOT / ".importlinter", encoding="utf-8")
    return set(file[f"importlinter:contract:{name}"][key].split())


def imported(tree: ast.AST) -> set[str]:
    """The top-level names of everything a file imports, inside functions too."""
    names = {alias.name for node in nodes(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes(tree) if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in names}


def error_classes() -> list[type[errors.ContextEngineError]]:
    """Every error that `errors.py` defines, the root left out."""

    def below(kind: type[errors.ContextEngineError]) -> Iterator[type[errors.ContextEngineError]]:
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    return [one for one in below(errors.ContextEngineError) if one.__module__ == errors.__name__]


def docs() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


# -- doors and names ----------------------------------------------------------------------------------------------


def test_every_leave_to_touch_files_is_still_needed() -> None:
    needed = {allowed(module, TOUCHES_FILES) for module in modules() if any(file_touches(parsed(module)))}
    assert [row for row in TOUCHES_FILES if row not in needed] == []


def test_every_file_opens_with_a_sentence() -> None:
    doorless = []
    for module in modules():
        door = (ast.get_docstring(parsed(module)) or "").split("\n\n")[0]
        if not re.search(r"[.?!:]$", door) or len(door.split()) < 3:
            doorless.append(module)
    assert doorless == []


def test_functions_are_paragraphs() -> None:
    lengths = {f"{module}::{name}": lines for module in modules() for name, lines in functions(parsed(module))}
    long = {name: lines for name, lines in lengths.items() if lines > LINES_MAX}
    assert {name: lines for name, lines in long.items() if name not in LONG_FUNCTIONS} == {}
    assert [name for name in LONG_FUNCTIONS if name not in long] == [], "the exception is no longer needed"


# -- who touches what ---------------------------------------------------------------------------------------------


def test_only_the_workspace_opens_files_of_the_user() -> None:
    elsewhere = [
        module for module in modules() if not module.startswith("repo/") and not allowed(module, TOUCHES_FILES)
    ]
    assert [f"{module}:{line} {call}" for module in elsewhere for line, call in file_touches(parsed(module))] == []


def test_one_file_of_the_workspace_writes() -> None:
    own_files = {
        "repo/file_writer.py",
        "repo/cloning.py",
        "repo/repositories.py",
    }  # the last two write to the cache
    elsewhere = [module for module in modules() if module.startswith("repo/") and module not in own_files]
    writes = {f"os.{name}" for name in OS_WRITERS}
    found = [
        f"{module}:{line} {call}"
        for module in elsewhere
        for line, call in file_touches(parsed(module))
        if call in writes
    ]
    assert found == []
    assert {call for _, call in file_touches(parsed("storage/confined_folder.py"))} >= {"os.replace", "os.write"}


def test_only_a_confined_folder_opens_state() -> None:
    found = {
        module: {call for _, call in file_touches(parsed(module)) if not call.startswith(THROUGH_A_HANDLE)}
        for module in modules()
        if knows_state(parsed(module)) and not module.startswith("repo/")  # which only knows the folder's name
    }
    assert {module: calls for module, calls in found.items() if calls} == {
        module: set(rows) for module, rows in OPENS_BESIDE_STATE.items()
    }


def test_a_database_of_the_state_folder_is_opened_in_one_place() -> None:
    opened = [
        f"{module}:{node.lineno}"
        for module in modules()
        if module != "storage/database.py" and knows_state(parsed(module))
        for node in nodes(parsed(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"apsw.Connection", "FileLock"}
    ]
    assert opened == []


def knows_state(tree: ast.Module) -> bool:
    """Whether a module names the state folder, or imports what is in it by its name or through a handle."""
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "context_engine.storage.state_folder":
            if {alias.name for alias in node.names} & {"FOLDER", "StateFolder", "GIT_IGNORE"}:
                return True
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if ".context-engine" in text and " " not in text:  # a path, not a sentence
                return True
    return False


def test_paths_are_minted_in_one_place() -> None:
    minted = [
        f"{module}:{node.lineno}"
        for module in modules()
        if module != "repo/paths.py"
        for node in nodes(parsed(module))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "RelPath"
    ]
    assert minted == []


def test_a_file_that_calls_itself_pure_is_held_to_it() -> None:
    worldly = contract("pure-packages", "forbidden_modules")
    pure = [module for module in modules() if (ast.get_docstring(parsed(module)) or "").startswith("PURE")]
    assert pure
    assert [f"{module}: {name}" for module in pure for name in sorted(imported(parsed(module)) & worldly)] == []


def test_nothing_lives_in_a_module() -> None:
    assert [f"{module}:{line} {what}" for module in modules() for line, what in module_state(parsed(module))] == []


def test_who_opens_a_descriptor_closes_it_in_the_same_function() -> None:
    """A number that one function opens and another closes can be used after its close, when it is another file's."""
    found = {f"{module}:{name}" for module in modules() for name in foreign_closes(parsed(module))}
    assert found == set(CLOSES_FOR_OTHERS)


def test_only_the_server_is_async() -> None:
    found = [
        f"{module}:{node.lineno}"
        for module in modules()
        if not module.startswith(("server/", "server."))
        for node in nodes(parsed(module))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncWith | ast.AsyncFor)
    ]
    assert found == []


# -- errors and documents -----------------------------------------------------------------------------------------


def test_every_error_has_a_code_of_its_own() -> None:
    assert [one.__name__ for one in error_classes() if "code" not in vars(one)] == []
    assert [code for code, count in Counter(one.code for one in error_classes()).items() if count > 1] == []
    assert [one.__name__ for one in error_classes() if not one.__doc__] == []


def test_errors_are_only_defined_in_their_tree() -> None:
    names = {one.__name__ for one in error_classes()} | {"ContextEngineError"}
    elsewhere = [
        f"{module}: {node.name}"
        for module in modules()
        if module != "errors.py"
        for node in nodes(parsed(module))
        if isinstance(node, ast.ClassDef) and names & {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    ]
    assert elsewhere == []


def test_the_architecture_is_short_and_lists_every_package() -> None:
    packages = {module.split("/")[0] for module in modules()} - {"__init__.py", "__main__.py"}
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert [name for name in sorted(packages) if f"`{name}`" not in text and f"`{name}/`" not in text] == []
    assert text.count("\n") <= 250


def test_what_the_page_of_decisions_names_exists() -> None:
    """Each name after a Python file in backticks is defined in that file; for `a.b`, both are."""
    missing, names, file = [], set[str](), ""
    for written in re.findall(r"`([^`]+)`", (ROOT / "docs" / "where.md").read_text("utf-8")):
        if re.fullmatch(r"[\w/]+\.(py|md|toml)", written):
            file, names = written, defined_names(written) if written in modules() else set()
            missing += [] if (PACKAGE / file).exists() else [file]
        elif re.fullmatch(r"[\w.]+", written) and not names.issuperset(written.split(".")):
            missing.append(f"{file}: {written}")
    assert missing == []


def defined_names(module: str) -> set[str]:
    """The names of the functions, classes, fields and constants of a module."""
    targets = {
        node.id for node in nodes(parsed(module)) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return targets | {node.name for node in nodes(parsed(module)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}  # fmt: skip


def test_records_that_the_code_names_exist() -> None:
    named = {found for module in modules() for found in re.findall(r"docs/(decisions/[\w/-]+)", text_of(module))}
    assert [name for name in sorted(named) if not list((ROOT / "docs").glob(f"{name}*"))] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for page in docs():
        links = re.findall(
            r"\]\((?!https?:|mailto:|cursor:|vscode:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")
        )
        for target, anchor in links:
            file = page.parent / target if target else page
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []
    assert not [page for page in docs() if page.name == "index.md" and page.with_name("README.md").exists()], (
        "one of the two is the page of the folder on the site"
    )


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and the site make them."""
    titles = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


RECORDS_MAX, RECORD_LINES_MAX, RECORD_WORDS_MAX = 12, 150, 12_000


def test_there_are_few_short_decision_records_and_the_index_has_them() -> None:
    folder = ROOT / "docs" / "decisions"
    records = [page for page in sorted(folder.glob("*.md")) if page.name != "README.md"]
    texts = [page.read_text(encoding="utf-8") for page in records]
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in records if f"({page.name})" not in index] == []
    assert len(records) <= RECORDS_MAX
    assert max(text.count("\n") for text in texts) <= RECORD_LINES_MAX
    assert sum(len(text.split()) for text in texts) <= RECORD_WORDS_MAX


# -- the checks themselves can see ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        *("open('x')", "os.open('x', 0)", "os.scandir('.')", "os.path.exists('x')", "io.open('x')", "path.open()"),
        *("Path('x').read_text()", "folder.iterdir()", "shutil.rmtree('x')", "tempfile.mkdtemp()", "mmap.mmap(0, 0)"),
        *("def f():\n    with a.b.write_bytes(b''): pass", "class C:\n    x = [p.unlink() for p in y]"),
    ],
)
def test_a_file_is_not_opened_unseen(source: str) -> None:
    assert len(list(file_touches(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "cache = {}\ndef f(): cache['a'] = 1",
        "seen: set[str] = set()\ndef f(): seen.add('a')",
        "stack = list()\nclass C:\n    def f(self): stack.append(1)",
        "count = 0\ndef f():\n    global count\n    count += 1",
        "known = defaultdict(list)\ndef f():\n    del known['a']",
    ],
)
def test_state_in_a_module_is_seen(source: str) -> None:
    assert len(list(module_state(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def f(number): os.close(number)",
        "class C:\n    def f(self): os.close(self.number)",
        "class C:\n    def f(self): self.number = os.dup(2)",
        "class C:\n    def f(self): self.reading, self.writing = os.pipe()",
    ],
)
def test_a_number_that_may_outlive_its_close_is_seen(source: str) -> None:
    assert list(foreign_closes(ast.parse(source))) == ["f"]
