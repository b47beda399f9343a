"""A language server of the user adds exact edges; whatever goes wrong with it, the answer is our own and says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from context_engine import tools
from context_engine.engine import Engine
from context_engine.external_edges import EditedText, edge_collection, language_server, server_edges
from context_engine.external_edges.server_specs import FoundServer, find_server
from context_engine.model import Trace
from context_engine.settings import Settings
from tests.support.engines import indexed
from tests.support.trees import tree

FILES = {
    "cart.py": "class Cart:\n    def add(self, item):\n        return item\n\n\nclass Bag:\n    def add(self, item):\n        return item\n",
    "use.py": 'def fill(box, other):\n    "😀"; box.add(1)\n    other.add(2)\n',
}
REFERENCES = "textDocument/references"
USES = {REFERENCES: [["use.py", 1, 14, 17]]}


@contextmanager
def served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str = "", answers: Any = USES, **knobs: Any
) -> Generator[Engine]:
    """An engine whose only language server is the scripted one."""
    programs = tree(tmp_path / "programs", {"how.txt": how, "answers.json": json.dumps(answers)})
    code = Path(__file__).with_name("scripted_server.py").read_text()
    (programs / "basedpyright-langserver").write_text(f"#!{sys.executable}\n{code}")
    (programs / "basedpyright-langserver").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_" + "a" * 36)
    wait_s = 3 if how == "hang" else 100  # a busy machine takes long to start a program
    with indexed(tree(tmp_path / "shop", FILES), language_server_wait_s=wait_s, **knobs) as engine:
        yield engine


def asked(tmp_path: Path) -> list[str]:
    log = tmp_path / "programs/asked.jsonl"
    return [json.loads(line)["method"] for line in log.read_text().splitlines()] if log.exists() else []


def trace(engine: Engine, name: str = "Cart.add", direction: Any = "callers") -> Trace:
    return engine.symbols.trace(name, direction, asks_servers=True)


def origins(found: Trace) -> list[tuple[int, str]]:
    return [(edge.line, edge.origin) for edge in found.edges]


def test_uses_that_only_the_server_knows_are_exact_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch) as engine:
        found = trace(engine)
        assert origins(found) == [(2, "lsp")] and found.edges[0].certainty == "exact"
        assert found.possible == 1


def test_a_question_that_does_not_ask_for_a_server_starts_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch) as engine:
        assert engine.symbols.trace("Cart.add").edges == () and asked(tmp_path) == []


def test_always_asks_in_every_trace_and_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch, language_servers="always") as engine:
        assert origins(engine.symbols.trace("Cart.add")) == [(2, "lsp")]
        plan = engine.edits.rename_symbol("Cart.add", "put")
        assert ("use.py", 2) in {(place.path, place.line) for place in plan.certain}
        assert [(place.path, place.line) for place in plan.uncertain if place.is_open] == [("use.py", 3)]


def test_never_asks_even_when_asked_to_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch, language_servers="never") as engine:
        assert any("turned off" in note for note in trace(engine).notes) and asked(tmp_path) == []


def test_a_repository_cannot_turn_servers_on(tmp_path: Path) -> None:
    root = tree(tmp_path / "shop", FILES | {".context-engine/config.yml": "language_servers: always\n"})
    assert "language_servers" in Settings.load(root, env={}).ignored


def test_callees_and_implementations_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "textDocument/definition": [["cart.py", 6, 8, 11]],
        "textDocument/implementation": [["cart.py", 5, 6, 9]],
    }
    with served(tmp_path, monkeypatch, answers=answers) as engine:
        rows = trace(engine, "fill", "callees").edges
        assert {(edge.target.split(" ")[0], edge.origin) for edge in rows} == {("Bag.add", "lsp")}
        assert [edge.source for edge in trace(engine, "Cart", "implementations").edges] == ["Bag"]


def test_uses_of_what_a_member_overrides_are_not_its_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = USES | {"textDocument/definition": [["cart.py", 6, 8, 11]]}
    with served(tmp_path, monkeypatch, answers=answers) as engine:
        server = found_server(monkeypatch)
        assert trace(engine).edges == () and server.spec.joins_overrides
    with served(tmp_path, monkeypatch, answers=USES | {"textDocument/definition": [["cart.py", 1, 8, 11]]}) as engine:
        assert origins(trace(engine)) == [(2, "lsp")]


def test_one_server_serves_many_questions_and_ends_with_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, monkeypatch) as engine:
        for _ in range(3):
            assert trace(engine).edges
        assert asked(tmp_path).count("initialize") == 1
        group = server_of(engine)._program._process.pid
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_it_is_told_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch) as engine:
        trace(engine)
        (tmp_path / "shop/more.py").write_text("x = 1\n")
        trace(engine)
        assert "workspace/didChangeWatchedFiles" in asked(tmp_path)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("hang", "has not answered yet"),
        ("garbage", "did not write a message"),
        ("no-json", "did not write JSON"),
        ("huge", "wrote a message of more than"),
        ("crash", "has ended by itself"),
    ],
)
def test_a_broken_server_is_named_and_the_answer_is_our_own(
    how: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, monkeypatch, how) as engine:
        found = trace(engine)
        assert found.edges == () and found.possible == 2
        assert any(words in note for note in found.notes), found.notes


def test_a_server_that_never_starts_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_server, "START_S", 1.0)
    with served(tmp_path, monkeypatch, "never-starts") as engine:
        assert any("has not answered yet" in note for note in trace(engine).notes)


def test_a_flood_of_messages_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language_server, "CHATTER_BYTES_MAX", 20_000_000)
    with served(tmp_path, monkeypatch, "flood") as engine:
        assert any("without an answer" in note for note in trace(engine).notes)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc says how much memory others take")
def test_a_server_that_takes_too_much_memory_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch, "memory", language_server_mb=100) as engine:
        assert any("took more than 100 MB" in note for note in trace(engine).notes)


def test_what_is_no_location_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch, "odd") as engine:
        assert trace(engine).edges == ()
    outside = [
        ["file:///etc/passwd", 0, 0, 4],
        ["../shop/../x.py", 0, 0, 1],
        ["use.py", 900, 0, 4],
        ["use.py", 1, 5, 900],
    ]
    with served(tmp_path, monkeypatch, answers={REFERENCES: outside + USES[REFERENCES]}) as engine:
        assert origins(trace(engine)) == [(2, "lsp")]


def test_requests_and_progress_of_the_server_do_not_disturb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch, "chatty") as engine:
        assert origins(trace(engine)) == [(2, "lsp")]


def test_it_gets_no_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch) as engine:
        trace(engine)
    variables = json.loads((tmp_path / "programs/asked.jsonl").read_text().splitlines()[0])["environment"]
    assert "PATH" in variables and "GITHUB_TOKEN" not in variables


def test_a_server_is_ended_when_it_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch) as engine:
        trace(engine)
        server = server_of(engine)
        server._idle_s = 0.0
        until = time.monotonic() + 100
        while server.is_running and time.monotonic() < until:
            time.sleep(0.05)
        assert not server.is_running
        assert origins(trace(engine)) == [(2, "lsp")] and asked(tmp_path).count("initialize") == 2


def test_a_program_of_the_workspace_is_never_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path / "shop", {"node_modules/.bin/pyright-langserver": "#!/bin/sh\n"})
    (root / "node_modules/.bin/pyright-langserver").chmod(0o755)
    monkeypatch.setenv("PATH", str(root / "node_modules/.bin"))
    assert find_server("python", str(root)) is None
    assert find_server("python", str(tmp_path / "other")) is not None


def test_typescript_is_compiled_by_the_compiler_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = tree(tmp_path / "modules", {"typescript-language-server/lib/cli.mjs": "", "bin/": ""})
    cli = modules / "typescript-language-server/lib/cli.mjs"
    cli.chmod(0o755)
    (modules / "bin/typescript-language-server").symlink_to(cli)
    monkeypatch.setenv("PATH", str(modules / "bin"))
    found = find_server("typescript", str(tmp_path / "shop"))
    assert found is not None and "no TypeScript of its own" in found.problem
    tree(modules, {"typescript/lib/tsserver.js": ""})
    found = find_server("typescript", str(tmp_path / "shop"))
    assert found is not None and found.options["tsserver"] == {"path": str(modules / "typescript/lib/tsserver.js")}


def test_python_is_analyzed_for_the_interpreter_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tree(tmp_path / "programs", {"pyright-langserver": "#!/bin/sh\n"})
    root = tree(tmp_path / "shop", {".venv/bin/python3": "#!/bin/sh\n"})
    for program in (programs / "pyright-langserver", root / ".venv/bin/python3"):
        program.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(root / ".venv/bin"), str(programs)]))
    found = find_server("python", str(root))
    assert found is not None and found.spec.settings["python"]["pythonPath"] == sys.executable


# -- errors after an edit ---------------------------------------------------------------------------------------------

WITH_ERROR = {"path": "cart.py", "target": "class Bag:", "replace": "BAD\n\n\nclass Bag:"}


def edit(engine: Engine, tool: str = "edit_file", **arguments: Any) -> str:
    return tools.call(engine, tool, arguments).text


def test_an_edit_reports_the_errors_that_it_added_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, monkeypatch, language_servers="always") as engine:
        trace(engine)
        first = edit(engine, **WITH_ERROR)
        assert "new error at cart.py:6 (basedpyright-langserver): BAD is not defined" in first
        assert first.count("new error") == 1 and "warning" not in first
        second = edit(engine, path="cart.py", target="BAD\n\n\n", replace="\n\n\nBAD\n\n\n")
        assert "new error" not in second
        third = edit(engine, "write_file", path="cart.py", content="BAD\nBAD\n")
        assert third.count("new error") == 1
        assert edit(engine, "edit_file", path="cart.py", target="BAD\nBAD\n", replace="x = 1\n").count("error") == 0


def test_an_edit_asks_no_server_unless_all_questions_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch) as engine:
        trace(engine)
        before = asked(tmp_path)
        assert "new error" not in edit(engine, **WITH_ERROR) and asked(tmp_path) == before


def test_an_edit_starts_no_server_for_its_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch, language_servers="always") as engine:
        change = EditedText("cart.py", b"", b"BAD\n")
        assert engine.symbols.find_new_problems([change]) == ([], []) and asked(tmp_path) == []


def test_a_server_that_does_not_check_an_edit_in_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_collection, "CHECK_WAIT_S", 0.5)
    with served(tmp_path, monkeypatch, "silent", language_servers="always") as engine:
        trace(engine)
        assert "note: basedpyright-langserver has not checked the change yet" in edit(engine, **WITH_ERROR)


def test_what_is_no_error_of_the_workspace_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(tmp_path, monkeypatch, "odd-problems", language_servers="always") as engine:
        trace(engine)
        found = edit(engine, **WITH_ERROR)
        assert found.count("new error") == 1 and "passwd" not in found and "no range" not in found


def server_of(engine: Engine) -> language_server.LanguageServer:
    return engine.symbols._edges._servers._servers["python"]


def found_server(monkeypatch: pytest.MonkeyPatch) -> FoundServer:
    """Have the scripted server counted as one that joins the uses of overrides."""
    found = find_server("python", "/nowhere")
    assert found is not None
    joining = found._replace(spec=found.spec._replace(joins_overrides=True))
    monkeypatch.setattr(server_edges, "find_server", lambda *_: joining)
    return joining


# -- real servers -----------------------------------------------------------------------------------------------------

TYPED = {
    "zoo.py": "class Cat:\n    def feed(self) -> int:\n        return 1\n\n\ndef make():\n    return [Cat()]\n",
    "use.py": "from zoo import make\n\n\ndef run():\n    for one in sorted(make(), key=id)[:1]:\n        one.feed()\n",
}
SCRIPTED = {
    "zoo.ts": "export class Cat { feed() { return 1 } }\nexport const cats = [new Cat()]\n",
    "use.ts": 'import { cats } from "./zoo"\nexport const n = cats.map(x => x).filter(Boolean).reduce((a, c) => a + c.feed(), 0)\n',
    "tsconfig.json": '{"compilerOptions": {"strict": true}, "include": ["*.ts"]}',
}
GO = {
    "go.mod": "module zoo\n\ngo 1.19\n",
    "zoo.go": "package zoo\n\ntype Cat struct{}\n\nfunc (Cat) Feed() int { return 1 }\n",
    "use.go": "package zoo\n\nfunc Run() int {\n\tf := Cat{}.Feed\n\treturn f()\n}\n",
}
C = {
    "compile_flags.txt": "-I.\n",
    "zoo.h": "int feed(int cat);\n",
    "zoo.c": '#include "zoo.h"\nint feed(int cat) { return cat; }\nint run(void) { return feed(1); }\n',
}
REAL = [
    ("basedpyright-langserver", TYPED, "Cat.feed", "use.py"),
    ("typescript-language-server", SCRIPTED, "Cat.feed", "use.ts"),
    ("gopls", GO, "Cat.Feed", "use.go"),
    ("clangd", C, "feed", "zoo.c"),
]


@pytest.mark.parametrize(("program", "files", "name", "path"), REAL, ids=[row[0] for row in REAL])
def test_a_real_server_answers(program: str, files: dict[str, str], name: str, path: str, tmp_path: Path) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    with indexed(tree(tmp_path / "zoo", files), language_server_wait_s=120) as engine:
        found = trace(engine, name)
        assert (path, "lsp") in {(str(edge.path), edge.origin) for edge in found.edges}, found


BREAKING = {
    "basedpyright-langserver": ("use.py", "sorted(make(), key=id)", "sorted(makes(), key=id)", "makes"),
    "typescript-language-server": ("use.ts", "c.feed()", "c.feeds()", "feeds"),
    "gopls": ("use.go", "return f()", "return g()", "g"),
    "clangd": ("zoo.c", "return feed(1)", "return dog", "dog"),
}
"""An edit of a file that breaks it, and a word of the error."""


@pytest.mark.parametrize(("program", "files", "name", "path"), REAL, ids=[row[0] for row in REAL])
def test_a_real_server_reports_the_errors_of_an_edit(
    program: str, files: dict[str, str], name: str, path: str, tmp_path: Path
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    options = {"language_server_wait_s": 120, "language_servers": "always"}
    with indexed(tree(tmp_path / "zoo", files), **options) as engine:
        trace(engine, name)
        file, old, new, word = BREAKING[program]
        told = edit(engine, path=file, target=old, replace=new)
        assert f"new error at {file}:" in told and word in told.partition("new error")[2], told
        assert "new error" not in edit(engine, path=file, target=new, replace=old)


TRAPS = {
    "basedpyright-langserver": {
        ".venv/bin/python": "MARK",
        ".venv/pyvenv.cfg": "home = /usr/bin\nversion = 3.11.7\n",
        ".venv/lib/python3.11/site-packages/": "",
        "pyproject.toml": '[tool.basedpyright]\nvenvPath = "."\nvenv = ".venv"\n',
    },
    "typescript-language-server": {
        "node_modules/typescript/lib/tsserver.js": "NODE",
        "node_modules/typescript/package.json": '{"name": "typescript", "version": "5.9.0"}',
        "node_modules/trap/index.js": "NODE",
        "tsconfig.json": '{"compilerOptions": {"plugins": [{"name": "trap"}]}, "include": ["*.ts"]}',
    },
    "gopls": {
        "monitor": "MARK",
        "native/native.go": 'package native\n\n// #cgo pkg-config: trap\nimport "C"\n\nfunc One() int { return int(C.one()) }\n',
        "native/trap.pc": "Name: trap\nDescription: t\nVersion: 1\nLibs: -B../..\n",
    },
    "clangd": {
        "compiler": "MARK",
        ".clangd": "CompileFlags:\n  Compiler: ./compiler\n",
        "compile_commands.json": '[{"directory": ".", "command": "./compiler -c zoo.c", "file": "zoo.c"}]',
    },
}
"""What of a repository a server might run, by its program."""


@pytest.mark.parametrize(("program", "files", "name", "path"), REAL, ids=[row[0] for row in REAL])
def test_a_real_server_runs_nothing_that_the_repository_brings(
    program: str, files: dict[str, str], name: str, path: str, tmp_path: Path
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    mark = tmp_path / "mark"
    written = {"MARK": f"#!/bin/sh\ntouch {mark}\n", "NODE": f"require('fs').writeFileSync('{mark}', '')\n"}
    traps = {trap: written.get(text, text) for trap, text in TRAPS[program].items()}
    root = tree(tmp_path / "zoo", {**files, **traps})
    for trap, text in TRAPS[program].items():
        if text == "MARK":
            (root / trap).chmod(0o755)
    for words in (["init"], ["config", "core.fsmonitor", str(root / "monitor")]):
        subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True)
    with indexed(root, language_server_wait_s=120) as engine:
        found = trace(engine, name)
        assert (path, "lsp") in {(str(edge.path), edge.origin) for edge in found.edges}, found
    assert not mark.exists()
