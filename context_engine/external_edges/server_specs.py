"""The language servers that are asked: the words that start each, its languages, and what keeps it from running code.

A server that starts the build of the repository is not in the list (jdtls, ruby-lsp, rust-analyzer): it would run what
the repository says. Each of these was tried.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from context_engine.repo import find_program

NOTHING: Mapping[str, Any] = MappingProxyType({})


class ServerSpec(NamedTuple):
    """A server. `languages` maps a name of ours to the protocol's; `settings` answers what it asks for by section.

    `ready_words` are part of what it logs when it knows the files; `shows_work`: it shows the progress of that instead.
    `joins_overrides`: uses of a member are also those of the members that it overrides.
    """

    name: str
    words: tuple[str, ...]
    languages: Mapping[str, str]
    environment: Mapping[str, str] = NOTHING
    settings: Mapping[str, Any] = NOTHING
    ready_words: str = ""
    shows_work: bool = False
    joins_overrides: bool = True


PYTHON = {"python": "python"}
ANALYSIS = {"diagnosticMode": "openFilesOnly", "autoSearchPaths": True, "useLibraryCodeForTypes": True}
PYTHON_SETTINGS = {"python": {"analysis": ANALYSIS}, "python.analysis": ANALYSIS, "basedpyright.analysis": ANALYSIS}
SCRIPTS = {"javascript": "javascript", "typescript": "typescript", "tsx": "typescriptreact"}
SERVERS = (
    ServerSpec(
        "basedpyright-langserver",
        ("--stdio",),
        PYTHON,
        settings=PYTHON_SETTINGS,
        ready_words="source file",
        joins_overrides=False,
    ),
    ServerSpec(
        "pyright-langserver",
        ("--stdio",),
        PYTHON,
        settings=PYTHON_SETTINGS,
        ready_words="source file",
        joins_overrides=False,
    ),
    ServerSpec("typescript-language-server", ("--stdio",), SCRIPTS, shows_work=True),
    ServerSpec(
        "gopls",
        ("serve",),
        {"go": "go"},
        # it runs `go list`, which must fetch nothing, take no other toolchain, and start neither git nor a C compiler
        {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false", "CGO_ENABLED": "0"},
        shows_work=True,
    ),
    # a `.clangd` of the repository is not read
    ServerSpec("clangd", ("--enable-config=0", "--background-index", "--log=error"), {"c": "c", "cpp": "cpp"}),
)


class FoundServer(NamedTuple):
    """A server that is installed, with the options of its first message; `problem` says why it cannot be used."""

    spec: ServerSpec
    program: str
    options: Mapping[str, Any] = NOTHING
    problem: str = ""


def find_server(language: str, root: str) -> FoundServer | None:
    """Return the first installed server of a language, never one from inside of the workspace; None without any."""
    for spec in SERVERS:
        program = find_program(spec.name, outside=root) if language in spec.languages else ""
        if program and spec.name == "typescript-language-server":
            return _with_own_compiler(spec, program, root)
        if program and language == "python":
            return _with_own_interpreter(spec, program, root)
        if program:
            return FoundServer(spec, program)
    return None


def name_servers(language: str) -> list[str]:
    """Return the names of the servers that a language has."""
    return [spec.name for spec in SERVERS if language in spec.languages]


def _with_own_compiler(spec: ServerSpec, program: str, root: str) -> FoundServer:
    """Name the compiler of the user: without it the server starts the one in the `node_modules` of the workspace."""
    started = Path(program).resolve()
    other = Path(find_program("tsserver", outside=root) or os.devnull).resolve()
    places = (started.parents[2] / "typescript/lib/tsserver.js", other.parents[1] / "lib/tsserver.js")
    compiler = next((place for place in places if place.is_file()), None) if len(started.parents) > 2 else None
    if compiler is None:
        return FoundServer(spec, program, problem="has no TypeScript of its own: npm install -g typescript")
    options = {"tsserver": {"path": str(compiler)}, "disableAutomaticTypingAcquisition": True, "plugins": []}
    return FoundServer(spec, program, options)


def _with_own_interpreter(spec: ServerSpec, program: str, root: str) -> FoundServer:
    """Name the Python of the user: without it basedpyright runs `.venv/bin/python` of the workspace."""
    python = find_program("python3", outside=root) or find_program("python", outside=root) or sys.executable
    settings = {**spec.settings, "python": {**spec.settings["python"], "pythonPath": python}}
    return FoundServer(spec._replace(settings=settings), program)
