"""Repositories full of traps: every way we know in which a repository can name a program, each with a program that leaves a mark.

    traps = hostile_repository(tmp_path)
    with traps.armed():                     # the current folder is the repository, and PATH leads into it
        ... run any tool on traps.root ...
    assert traps.sprung() == []             # the names of the programs that were started

A trap is a shell script with a name of its own in `marks/`; starting it writes a file of that name. `springs` runs the
git of the user without any protection, to prove that the traps work.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.trees import ALONE, commit, git, repository, tree

PROGRAM_KEYS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.sshCommand", "core.gitProxy"),
    *("core.alternateRefsCommand", "sequence.editor", "diff.external", "diff.evil.textconv", "diff.evil.command"),
    *("diff.tool", "difftool.evil.cmd", "difftool.evil.path", "merge.evil.driver", "merge.tool", "mergetool.evil.cmd"),
    *("gpg.program", "gpg.ssh.program", "gpg.x509.program", "gpg.ssh.defaultKeyCommand", "interactive.diffFilter"),
    *("credential.helper", "pager.blame", "pager.diff", "pager.log", "pager.config", "pager.show", "pager.grep"),
    *("trailer.evil.command", "trailer.evil.cmd", "uploadpack.packObjectsHook", "sendemail.smtpServer", "web.browser"),
    *("remote.origin.uploadpack", "remote.origin.receivepack", "help.browser", "instaweb.httpd", "guitool.evil.cmd"),
)
"""Keys of git's configuration that name a program."""
ALIASED = ("diff", "blame", "log", "ls-files", "grep", "status", "config", "rev-parse", "cat-file", "show")
HOOKS = (
    *("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout", "pre-auto-gc"),
    *("pre-commit", "post-commit", "post-merge", "post-rewrite", "proc-receive", "update", "pre-push"),
)
PLANTED_PROGRAMS = (
    *("git", "rg", "sh", "cat", "ps", "ssh", "gpg", "less", "env", "python", "python3", "uv", "uvx", "pip", "pipx"),
    *("node", "npx", "npm", "ruff", "mypy", "pyright", "bandit", "eslint", "tsc", "go", "gofmt", "gopls", "cargo"),
    *("rustc", "javac", "ast-grep", "sg", "semgrep", "shellcheck", "hadolint", "golangci-lint", "gitleaks", "git-lfs"),
    *("ctx", "make"),
)
"""Programs that the product or a program started by it might look for on the PATH."""
PLANTED_MODULES = (
    *("context_engine/__init__", "sitecustomize", "usercustomize", "msgspec", "numpy/__init__", "queue", "subprocess"),
    *("threading", "json/__init__", "tree_sitter", "pip", "encodings/__init__", "typing"),
)
"""Python modules that a process with the repository first on its path would import."""
CODE = {
    "src/app.py": "import os\n\n\ndef alpha(name: str) -> str:\n    # TODO: escape the name\n    return beta(name)\n\n\n"
    "def beta(name: str) -> str:\n    return os.path.join('a', name)\n",
    "src/web.js": "// FIXME: no limit here\nexport function alpha(name) {\n  return beta(name);\n}\n",
    "src/notes.md": "# Alpha\n\nalpha calls beta. TODO: say why.\n",
    "src/data.txt": "alpha\nbeta\n",
    "tests/test_app.py": "from src.app import alpha\n\n\ndef test_alpha() -> None:\n    assert alpha('x')\n",
    "README.md": "# A project\n\nIt has alpha and beta.\n",
    "AGENTS.md": "- Always run alpha before beta.\n",
}
"""What every trapped repository holds beside its traps: code with markers, so that tools look at history and blame."""


@dataclass(frozen=True)
class Traps:
    """A repository with traps. `root` is what is opened; `marks` holds a file for each program that was started."""

    root: Path
    marks: Path

    def program(self, name: str) -> str:
        """Write a program that leaves a mark when it is started, and hands on what it reads; its path."""
        folder = self.marks.with_name("trap-programs")
        folder.mkdir(parents=True, exist_ok=True)
        return str(self.plant(folder / re.sub(r"[^\w.-]", "-", name), name))

    def plant(self, place: Path, name: str) -> Path:
        """The same as a file at a place of your choice."""
        place.parent.mkdir(parents=True, exist_ok=True)
        mark = self.marks / name.replace("/", "-")
        place.write_text(f'#!/bin/sh\necho "$0 $*" >>"{mark}"\nexec /bin/cat\n', encoding="utf-8")
        place.chmod(place.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        return place

    def module(self, name: str) -> str:
        """The text of a Python module that leaves a mark when it is imported."""
        return f"open({str(self.marks / ('module ' + name.replace('/', '.')))!r}, 'a').write('imported')\n"

    def sprung(self) -> list[str]:
        """The names of the programs that were started so far."""
        return sorted(path.name for path in self.marks.iterdir())

    def reset(self) -> None:
        """Forget what was started."""
        for path in self.marks.iterdir():
            path.unlink()

    def path(self) -> str:
        """A PATH that begins in the repository, by each way there is, and ends in that of this machine."""
        planted = str(self.root / "tools")
        return os.pathsep.join([".", "", "tools", planted, os.environ.get("PATH", os.defpath), ""])

    def environment(self) -> dict[str, str]:
        """The environment of a process that is started in the repository."""
        return os.environ | {"PATH": self.path()}

    @contextmanager
    def armed(self) -> Generator[None]:
        """Make this process one that was started in the repository. Not for tests that run in threads."""
        folder, path = Path.cwd(), os.environ.get("PATH")
        os.chdir(self.root)
        os.environ["PATH"] = self.path()
        try:
            yield
        finally:
            os.chdir(folder)
            if path is None:
                del os.environ["PATH"]
            else:
                os.environ["PATH"] = path

    def touch(self) -> None:
        """Give every file of the code another time, so that git has to read it before it knows that nothing changed.

        Of a time as new as that of its index git would keep none.
        """
        for path in CODE:
            os.utime(self.root / path, (10**9, 10**9))


def hostile_repository(folder: Path) -> Traps:
    """A repository that was handed over with its `.git` folder (archive, shared folder, volume), with every trap in it.

    It has staged, unstaged and untracked changes, a plan-worthy history of three commits, and a dirty submodule.
    """
    traps = _new(folder / "hostile", folder)
    repository(traps.root, {**CODE, ".gitignore": ".context-engine/\n"})
    sub = add_submodule(traps, folder)
    commit(traps.root, "second: a submodule")
    tree(traps.root, {"src/data.txt": "alpha\nbeta\ngamma\n"})
    commit(traps.root, "third: more data")
    sign(traps.root)
    plant_programs(traps)
    plant_modules(traps)
    tree(traps.root, {"src/web.js": CODE["src/web.js"] + "// staged\n"})
    git(traps.root, "add", "src/web.js")
    tree(
        traps.root, {"src/app.py": CODE["src/app.py"] + "# unstaged: alpha\n", "src/new.py": "def gamma():\n    pass\n"}
    )
    name_programs(traps, traps.root)
    add_filters(traps, sub, "submodule ")
    git(sub, "config", "core.fsmonitor", traps.program("submodule core.fsmonitor"))
    tree(sub, {"lib.py": "def alpha():\n    return 2\n"})
    traps.touch()
    traps.reset()
    return traps


def embedded_repository(folder: Path) -> Traps:
    """A plain `git clone` whose sub-folder `pkg`, the root of these traps, is a bare repository with a filter and hooks."""
    traps = _new(folder / "clone" / "pkg", folder)
    origin = repository(folder / "origin", CODE)  # whose files have the paths that the embedded repository looks for
    tree(origin, {f"pkg/{path}": text for path, text in CODE.items()})
    settings = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n"
    settings += f"\tfsmonitor = {traps.program('embedded fsmonitor')}\n"
    settings += f'[filter "evil"]\n\tclean = {traps.program("embedded clean")}\n'
    settings += f'[filter "long"]\n\tprocess = {traps.program("embedded process")}\n'
    tree(
        origin,
        {
            "pkg/HEAD": "ref: refs/heads/main\n",
            "pkg/config": settings,
            "pkg/refs/heads/main": f"{git(origin, 'rev-parse', 'HEAD')}\n",
            "pkg/objects/info/alternates": "../../.git/objects\n",
            "pkg/index": (origin / ".git" / "index").read_bytes(),
            "pkg/.gitattributes": "*.py filter=evil\n*.js filter=long\n",
        },
    )
    commit(origin, "an embedded bare repository")
    git(folder, "clone", "--quiet", str(origin), str(folder / "clone"))
    tree(traps.root, {"src/app.py": CODE["src/app.py"] + "# unstaged: alpha\n"})
    traps.touch()
    return traps


def _new(root: Path, folder: Path) -> Traps:
    marks = folder / "marks"
    marks.mkdir(parents=True)
    return Traps(root, marks)


def name_programs(traps: Traps, root: Path, label: str = "") -> None:
    """Set every key of git's configuration that names a program, its filters and attributes, and put hooks in two places."""
    for key in PROGRAM_KEYS:
        git(root, "config", key, traps.program(f"{label}{key}"))
    for name in ALIASED:
        git(root, "config", f"alias.{name}", f"!{traps.program(f'{label}alias.{name}')}")
    git(root, "config", "log.showSignature", "true")
    git(root, "config", "submodule.recurse", "true")
    git(root, "config", "diff.submodule", "diff")
    git(root, "config", "diff.ignoreSubmodules", "none")
    git(root, "config", "core.untrackedCache", "true")
    add_filters(traps, root, label)
    git_dir = Path(git(root, "rev-parse", "--absolute-git-dir"))
    for hook in HOOKS:
        traps.plant(git_dir / "hooks" / hook, f"{label}hook {hook}")
        traps.plant(root / "hooks" / hook, f"{label}hooksPath {hook}")
    git(root, "config", "core.hooksPath", str(root / "hooks"))
    promise_objects(traps, root, label)


def add_filters(traps: Traps, root: Path, label: str = "") -> None:
    """Filters, named in every place that git reads attributes and settings from."""
    git_dir = Path(git(root, "rev-parse", "--absolute-git-dir"))
    included, by_tree = git_dir / "included", git_dir / "config.worktree"
    places: dict[str, tuple[str, ...]] = {
        **dict.fromkeys(("evil", "odd=name", "Üm.laut", "long"), ()),
        "included": ("--file", str(included)),
        "tree": ("--file", str(by_tree)),
    }
    for name, place in places.items():
        for kind in ("process",) if name == "long" else ("clean", "smudge"):
            git(root, "config", *place, f"filter.{name}.{kind}", traps.program(f"{label}filter {name} {kind}"))
    git(root, "config", "filter.evil.required", "true")
    git(root, "config", "includeIf.onbranch:main.path", str(git_dir / "included"))
    git(root, "config", "extensions.worktreeConfig", "true")
    tree(
        root, {".gitattributes": "*.py filter=evil diff=evil merge=evil\n*.js filter=odd=name\n*.md filter=included\n"}
    )
    more = "src/data.txt filter=long diff=evil\nREADME.md filter=tree\nsrc/new.py filter=Üm.laut\n"
    tree(git_dir, {"info/attributes": more})
    attributes = root / "attributes"
    tree(root, {"attributes": "* filter=evil\n"})
    git(root, "config", "core.attributesFile", str(attributes))


def add_submodule(traps: Traps, folder: Path, name: str = "sub") -> Path:
    """A submodule, and its place; its own settings are up to the caller."""
    other = repository(folder / "of-submodule", {"lib.py": "def alpha():\n    return 1\n"})
    git(traps.root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), name)
    return traps.root / name


def promise_objects(traps: Traps, root: Path, label: str = "") -> None:
    """A partial clone whose missing objects would be fetched by a program, or by way of a helper."""
    git(root, "config", "remote.origin.url", f"ext::{traps.program(f'{label}ext remote')}")
    git(root, "config", "remote.origin.promisor", "true")
    git(root, "config", "remote.origin.partialCloneFilter", "blob:none")
    git(root, "config", "protocol.ext.allow", "always")
    git(root, "config", "extensions.partialClone", "origin")


def sign(root: Path) -> None:
    """Put a signature into the newest commit, so that git asks a program whether it is good."""
    signature = "-----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----"
    head, _, message = git(root, "cat-file", "commit", "HEAD").partition("\n\n")
    signed = f"{head}\ngpgsig {signature}\n\n{message}\n".encode()
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"], cwd=root, input=signed, capture_output=True, check=True
    )
    git(root, "reset", "--quiet", "--soft", made.stdout.decode().strip())


def plant_programs(traps: Traps) -> None:
    """Put programs with the names of known ones at the top of the repository, and in its folder `tools`."""
    for name in PLANTED_PROGRAMS:
        traps.plant(traps.root / name, f"./{name}")
        traps.plant(traps.root / "tools" / name, f"tools {name}")


def plant_modules(traps: Traps) -> None:
    """Put Python modules at the top of the repository that leave a mark when they are imported."""
    tree(traps.root, {f"{name}.py": traps.module(name) for name in PLANTED_MODULES})


def springs(traps: Traps, *args: str) -> list[str]:
    """The traps that an unprotected git command springs on a terminal; they are set again afterwards."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | ALONE | {"TERM": "xterm"}
    leader, follower = os.openpty()
    with suppress(subprocess.TimeoutExpired):  # a helper that says nothing holds git
        subprocess.run(
            ["git", *args], cwd=traps.root, env=env, stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, timeout=15
        )  # fmt: skip
    os.close(leader)
    os.close(follower)
    found = traps.sprung()
    traps.reset()
    return found
