"""Nothing that a repository names or brings along is started: no filter, hook, helper, module or program of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.cli import doctor
from context_engine.cli.clients import client_config
from context_engine.cli.clients.launch_command import find_own_launch_command
from context_engine.cli.doctor import DoctorContext
from context_engine.errors import AccessFailed
from context_engine.repo import cloning, subprocess_runner
from context_engine.repo.executables import find_program, safe_path
from context_engine.repo.git import Git
from context_engine.repo.walker import walk
from tests.security.traps import CODE, PLANTED_PROGRAMS, Traps, embedded_repository, hostile_repository, springs
from tests.support.trees import NOBODY, commit, git, repository, tree

pytestmark = [pytest.mark.hostile, pytest.mark.skipif(os.name != "posix", reason="the traps are shell scripts")]


def ctx(traps: Traps, *words: str) -> subprocess.CompletedProcess[str]:
    """The real program, started in the hostile repository."""
    script = Path(sys.executable).with_name("ctx")
    env = traps.environment() | {"XDG_CACHE_HOME": str(traps.marks.with_name("cache")), "CTX_WORKERS": "1"}
    return subprocess.run([script, *words], cwd=traps.root, env=env, capture_output=True, text=True, timeout=120)


FIRES = {
    "diff": [
        *("core.fsmonitor", "diff.external", "diff.evil.command", "pager.diff", "hooksPath post-index-change"),
        *("filter evil clean", "filter odd=name clean", "filter included clean", "filter tree clean"),
        *("filter long process", "submodule core.fsmonitor", "submodule filter evil clean"),
    ],
    "blame src/app.py": ["diff.evil.textconv", "pager.blame"],
    "log -p": ["gpg.program", "pager.log"],
    "show HEAD": ["pager.show"],
    "grep alpha": ["pager.grep"],
    "fetch origin": ["ext remote"],
    "ls-remote ssh://localhost:1/x": ["core.sshCommand"],
    "ls-remote git://localhost:1/x": ["core.gitProxy"],
    "add -A": ["filter Üm.laut clean"],
    "commit -am x": ["hooksPath pre-commit", "hooksPath post-commit", "hooksPath reference-transaction"],
    "interpret-trailers --trailer evil": ["trailer.evil.cmd"],
    "rebase -i HEAD~1": ["sequence.editor"],
}
"""What a git without any protection starts, with the command that does it: the control of every test over these traps."""


@pytest.mark.slow
def test_the_traps_fire_in_plain_git_a_plain_shell_and_a_plain_python(
    tmp_path: Path, tried: Callable[..., None]
) -> None:
    tried(0)  # it shows that the others prove something
    hostile, embedded = hostile_repository(tmp_path / "a"), embedded_repository(tmp_path / "b")
    for command, expected in FIRES.items():
        assert set(expected) <= set(springs(hostile, *command.split())), command
    assert "embedded clean" in springs(embedded, "blame", "src/app.py")
    for program in PLANTED_PROGRAMS:
        start = ["/bin/sh", "-c", f"{program} </dev/null"]
        subprocess.run(start, cwd=hostile.root, env=hostile.environment(), capture_output=True, check=False)
    assert set(hostile.sprung()) == {f".-{program}" for program in PLANTED_PROGRAMS}
    for module in ("sitecustomize", "msgspec", "subprocess"):
        start = [sys.executable, "-c", f"import {module}"]
        subprocess.run(start, cwd=hostile.root, capture_output=True, check=False)
        assert f"module {module}" in hostile.sprung()


def test_the_program_starts_nothing_that_lies_in_the_repository(tmp_path: Path) -> None:
    traps = hostile_repository(tmp_path)
    for words in (["index"], ["context", "alpha"]):  # `index` starts workers
        done = ctx(traps, *words)
        assert (words, traps.sprung()) == (words, []), done.stderr
        assert "Traceback" not in done.stderr


# -- programs on the PATH ----------------------------------------------------------------------------------------------


def test_no_program_of_the_workspace_or_of_the_current_folder_is_found(tmp_path: Path) -> None:
    traps = Traps(tmp_path / "repo", tmp_path / "marks")
    for place in ("git", "tools/git", "elsewhere/git"):
        traps.plant(traps.root / place, place)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(traps.root / "git")  # a link of the user's that leads there
    traps.plant(tmp_path / "real" / "git", "real")
    folders = [".", "", "tools", str(traps.root / "tools"), str(tmp_path / "bin"), f"{tmp_path}/real/../repo", ""]
    with traps.armed():
        assert find_program("git", path=os.pathsep.join(folders), outside=traps.root) == ""
        folders.append(str(tmp_path / "real"))
        path = os.pathsep.join(folders)
        assert find_program("git", path=path, outside=traps.root) == str(tmp_path / "real" / "git")
        assert safe_path(path, outside=traps.root) == os.pathsep.join([str(tmp_path / "bin"), str(tmp_path / "real")])
        for name in ("./git", "tools/git", "../repo/git", ""):
            assert find_program(name, path=path) == ""


def test_beside_the_python_that_runs_us_programs_count_even_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps = Traps(tmp_path, tmp_path / "marks")
    place = traps.plant(tmp_path / ".venv" / "bin" / "ruff", "ruff")
    assert find_program("ruff", path=str(place.parent), outside=tmp_path) == ""
    monkeypatch.setattr("sys.executable", str(place.with_name("python")))
    assert find_program("ruff", path=str(place.parent), outside=tmp_path) == str(place)


def test_a_program_that_we_start_finds_none_of_its_own_in_the_folder_it_runs_in(tmp_path: Path) -> None:
    Traps(tmp_path, tmp_path).plant(tmp_path / "helper", "helper")
    script = "import os, shutil; print(shutil.which('helper'), os.environ['PATH'])"
    path = os.pathsep.join([".", "", "/usr/bin"])
    ran = subprocess_runner.run_program(
        [sys.executable, "-c", script], tmp_path, limit_s=30, environment={"PATH": path}
    )
    assert ran.out.decode().split() == ["None", "/usr/bin"]


@pytest.mark.parametrize("shape", ["program", "shell"])
def test_doctor_starts_nothing_that_a_settings_file_of_the_project_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    traps = Traps(repository(tmp_path / "repo", CODE), tmp_path / "marks")
    traps.marks.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    program = traps.program("named by .mcp.json")
    command, words = (program, ["ctx"]) if shape == "program" else ("/bin/sh", ["-c", f"{program} #", "ctx"])
    entry = {"mcpServers": {"ctx": {"command": command, "args": [*words, "serve"]}}}
    tree(traps.root, {".mcp.json": json.dumps(entry), ".cursor/mcp.json": json.dumps(entry)})
    case = DoctorContext(
        client_config.this_machine(),
        os.environ,
        traps.root,
        traps.root,
        find_own_launch_command(),
        ("claude", "cursor"),
    )
    with traps.armed():
        found = list(doctor.clients(case))
    assert [each.verdict for each in found] == ["ok", "ok"], "the entries are there, and that is all that is looked at"
    assert traps.sprung() == []


# -- whose repository it is --------------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A repository of the user's that nobody opens here."""
    return repository(tmp_path / "secret", {"plan.txt": "what nobody here may know\n"})


def leads_to(secret: Path, folder: Path, way: str) -> Path:
    """A folder whose `.git` leads to the repository of another, in one of the ways there are."""
    git_dir = secret / ".git"
    if way in ("file", "linked file"):
        tree(folder, {".git": f"gitdir: {git_dir}\n"})
        if way == "linked file":
            git(secret, "worktree", "add", "--quiet", "--detach", str(folder.with_name("genuine")))
            tree(folder, {".git": f"gitdir: {git_dir}/worktrees/genuine\n"})
    elif way == "link":
        folder.mkdir()
        (folder / ".git").symlink_to(git_dir)
    else:
        repository(folder, {"a.txt": "a\n"})
        if way == "commondir":
            tree(folder, {".git/commondir": f"{git_dir}\n"})
        elif way == "linked commondir":
            (folder / ".git" / "commondir").symlink_to(tree(folder.with_name("x"), {"y": f"{git_dir}\n"}) / "y")
        elif way == "refs":
            shutil.rmtree(folder / ".git" / "refs")
            (folder / ".git" / "refs").symlink_to(git_dir / "refs")
            (folder / ".git" / "objects" / "info" / "alternates").write_text(f"{git_dir}/objects\n")
    return folder


@pytest.mark.parametrize("way", ["file", "linked file", "link", "commondir", "linked commondir", "refs"])
def test_a_folder_does_not_show_the_history_of_another_repository(tmp_path: Path, secret: Path, way: str) -> None:
    folder = leads_to(secret, tmp_path / "hostile", way)
    told = git(secret, "rev-parse", "HEAD")
    here = Git(folder)
    assert getattr(here.head(), "commit", None) != told
    for command in (("log", "-p"), ("rev-parse", "HEAD"), ("cat-file", "-p", "HEAD")):
        try:
            said = here.run(*command)
        except AccessFailed:
            continue
        assert b"nobody here may know" not in said
        assert told.encode() not in said


def test_work_trees_and_submodules_that_lead_back_are_what_they_were(tmp_path: Path, secret: Path) -> None:
    git(secret, "worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    git(secret, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(secret), "sub")
    git(secret / "sub", "worktree", "add", "--quiet", "--detach", str(tmp_path / "of-sub"))
    for folder in (secret, tmp_path / "linked", secret / "sub", tmp_path / "of-sub"):
        assert Git(folder).run("rev-parse", "HEAD").decode().strip() == git(folder, "rev-parse", "HEAD")
        assert getattr(Git(folder).repository, "top", None) == str(folder)


def test_a_separate_git_folder_counts_once_its_settings_name_the_work_tree(tmp_path: Path) -> None:
    repository(tmp_path / "apart", {"a.txt": "a\n"})
    git(tmp_path, "init", "--quiet", f"--separate-git-dir={tmp_path / 'stored'}", "apart")
    assert Git(tmp_path / "apart").head() is None
    assert f"git config core.worktree {tmp_path / 'apart'}" in Git(tmp_path / "apart").how_to_link()
    git(tmp_path / "apart", "config", "core.worktree", str(tmp_path / "apart"))
    assert Git(tmp_path / "apart").head() is not None
    assert Git(tmp_path / "apart").how_to_link() == Git(tmp_path).how_to_link() == ""


def test_settings_cannot_move_the_work_tree_elsewhere(tmp_path: Path, secret: Path) -> None:
    hostile = repository(tmp_path / "hostile", {"a.txt": "a\n"})
    git(hostile, "config", "core.worktree", str(secret))
    assert "plan.txt" not in Git(hostile).untracked_paths()
    git(hostile, "config", "core.bare", "true")
    assert Git(hostile).run("ls-files").split() == [b"a.txt"]


def test_a_repository_of_another_user_is_refused_until_git_is_told_to_trust_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = repository(tmp_path / "theirs", {"a.txt": "a\n"})
    if os.geteuid():
        pytest.skip("only the superuser can give files away")
    monkeypatch.delenv("SUDO_UID", raising=False)
    settings = tree(tmp_path, {"gitconfig": ""}) / "gitconfig"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    os.chown(theirs / ".git", NOBODY, NOBODY)
    with pytest.raises(AccessFailed, match="does not trust") as refused:
        Git(theirs).run("ls-files")
    assert f"safe.directory {theirs}" in refused.value.suggestion
    settings.write_text(f"[safe]\n\tdirectory = {theirs}\n")
    assert Git(theirs).run("ls-files").split() == [b"a.txt"]


# -- what would hold or mislead git ------------------------------------------------------------------------------------

HANGS_S = 60.0
"""Opening a pipe waits for ever, so that any limit will do."""
PIPES = (
    *(".git/HEAD", ".git/index", ".git/config", ".git/packed-refs", ".git/info/exclude", ".git/info/attributes"),
    *(".git/shallow", ".git/commondir", ".git/objects/info/alternates", ".gitattributes", ".gitignore", ".mailmap"),
)


@pytest.mark.parametrize("place", [*PIPES, ".git"])
def test_a_pipe_in_place_of_a_file_of_git_holds_nobody(tmp_path: Path, place: str) -> None:
    repo = repository(tmp_path / "repo", {**CODE, "AGENTS.md": ""})
    if place == ".git":
        shutil.rmtree(repo / ".git")
    (repo / place).unlink(missing_ok=True)
    os.mkfifo(repo / place)
    began = time.monotonic()
    Git(repo).head()
    assert {entry.path for entry in walk(str(repo)).entries} >= {"src/app.py"}
    with pytest.raises(AccessFailed):
        Git(repo).untracked_paths()
    with pytest.raises(AccessFailed):
        Git(repo).run("blame", "--", "src/app.py")
    assert time.monotonic() - began < HANGS_S


@pytest.mark.parametrize("place", [".git/HEAD", ".git/packed-refs", ".git/info/exclude", ".git/commondir"])
def test_a_link_to_what_never_ends_is_not_read(tmp_path: Path, place: str) -> None:
    repo = repository(tmp_path / "repo", {"a.txt": "a\n"})
    git(repo, "pack-refs", "--all")
    (repo / place).unlink(missing_ok=True)
    (repo / place).symlink_to("/dev/zero")
    began = time.monotonic()
    Git(repo).head()
    walk(str(repo))
    assert time.monotonic() - began < HANGS_S


@pytest.mark.parametrize(
    "key", ["blame.ignoreRevsFile", "core.attributesFile", "diff.orderFile", "mailmap.file", "core.excludesFile"]
)
def test_settings_that_name_a_file_anywhere_neither_hold_git_nor_show_that_file(tmp_path: Path, key: str) -> None:
    repo = repository(tmp_path / "repo", CODE)
    os.mkfifo(tmp_path / "pipe")
    git(repo, "config", key, str(tmp_path / "pipe"))
    began = time.monotonic()
    here = Git(repo)
    here.excludes_file()
    here.untracked_paths()
    here.run("blame", "--", "src/app.py")
    here.run("diff", "HEAD")
    here.run("log", "-1", "--format=%aN")
    assert time.monotonic() - began < HANGS_S


def test_files_that_the_user_ignores_everywhere_stay_ignored_whatever_a_repository_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tree(tmp_path, {"mine": "*.log\n", "gitconfig": f"[core]\n\texcludesFile = {tmp_path}/mine\n"})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine / "gitconfig"))
    repo = repository(tmp_path / "repo", {"a.txt": "a\n"})
    tree(repo, {"x.log": "", "new.txt": "", "theirs": "*\n"})
    git(repo, "config", "core.excludesFile", "theirs")
    assert Git(repo).untracked_paths() == ["new.txt", "theirs"]
    assert Git(repo).excludes_file() == str(tmp_path / "mine")


def test_a_filter_that_appears_later_is_off_too(tmp_path: Path) -> None:
    traps = Traps(repository(tmp_path / "repo", CODE), tmp_path / "marks")
    traps.marks.mkdir()
    here = Git(traps.root)
    assert here.run("diff") == b""
    tree(traps.root, {".git/info/attributes": "* filter=late\n"})
    git(traps.root, "config", "filter.late.clean", traps.program("late"))
    traps.touch()
    here.run("diff")
    git(traps.root, "config", "include.path", str(traps.root / "later.inc"))
    here.run("diff")
    git(traps.root, "config", "--file", str(traps.root / "later.inc"), "filter.later.clean", traps.program("later"))
    tree(traps.root, {".git/info/attributes": "* filter=later\n"})
    traps.touch()
    here.run("diff")
    assert traps.sprung() == []
    assert springs(traps, "diff") == ["later"]


# -- clones ------------------------------------------------------------------------------------------------------------


def test_a_clone_starts_no_filter_of_the_users_and_no_program_that_it_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps = Traps(tmp_path / "clone", tmp_path / "marks")
    traps.marks.mkdir()
    origin = repository(tmp_path / "origin", {**CODE, ".gitattributes": "* filter=mine\n"})
    traps.plant(origin / "ssh", "./ssh")
    commit(origin, "a program with the name of a known one")
    settings = tmp_path / "gitconfig"
    settings.write_text(f'[filter "mine"]\n\tsmudge = {traps.program("mine")}\n\tclean = {traps.program("mine")}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("PATH", traps.path())
    cloning.clone(traps.root, f"file://{origin}")
    commit(origin, "more")
    cloning.update(traps.root, f"file://{origin}")
    with pytest.raises(AccessFailed):
        cloning.update(traps.root, "ssh://localhost:1/nothing")
    assert traps.sprung() == []
    assert (traps.root / "src" / "app.py").read_text() == CODE["src/app.py"]


def test_a_broken_clone_below_a_repository_of_the_user_leaves_that_one_alone(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", CODE)
    mine = repository(tmp_path / "mine", {"a.txt": "a\n"})
    cloning.clone(mine / "clone", f"file://{origin}")
    shutil.rmtree(mine / "clone" / ".git")
    tree(mine, {"a.txt": "not committed\n"})
    with pytest.raises(AccessFailed, match="not the top of a repository"):
        cloning.update(mine / "clone", f"file://{origin}")
    assert (mine / "a.txt").read_text() == "not committed\n"
