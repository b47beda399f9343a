"""The temporary file of a killed writer goes when the workspace is opened again, and nothing that may be a user's does."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from context_engine.repo import file_writer, write_atomic
from context_engine.storage import STATE_FOLDER, ConfinedFolder, temporary_name
from context_engine.storage.confined_folder import ABANDONED_AFTER_S, FOLDER_DEPTH
from tests.support.children import child
from tests.support.edits import contents
from tests.support.engines import open_engine
from tests.support.trees import commit, repository

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")

KILLED_AT_RENAME = """
    import os, signal, sys
    from pathlib import Path
    from context_engine.cli import doctor
    from context_engine.edit.file_edit import delete_file
    from context_engine.memory import MemoryDraft
    from context_engine.repo import RepositoryRegistry, write_atomic
    from context_engine.review import analyzers, review_service
    from context_engine.server.authentication import _create_bearer_file, default_bearer_file
    from context_engine.server.dispatcher import ToolDispatcher, single_engine
    from context_engine.storage import confined_folder, user_config_folder
    from tests.security.every_tool import through
    from tests.support.edits import swap
    from tests.support.engines import open_engine
    root, ending = Path(sys.argv[1]), sys.argv[2]
    def or_die(rename):
        def renamed(*names, **folders):
            if os.fspath(names[-1]).endswith(ending):
                os.kill(os.getpid(), signal.SIGKILL)
            return rename(*names, **folders)
        return renamed
    os.replace = or_die(os.replace)
    opened = confined_folder.OpenFolder
    opened.rename_new = or_die(opened.rename_new)
    def die(*words, **more):
        os.kill(os.getpid(), signal.SIGKILL)
    def review():
        analyzers.run_program = die
        review_service.ANALYZERS = (analyzers.Analyzer("linter", sys.executable, ("{files}",), read=None),)
        (root / "a.py").write_text("new = undefined\\n")
        through(ToolDispatcher(single_engine(engine)))("review_git_diff", {"target": "unstaged"})
    def check_installation():
        os.environ["CTX_CACHE_FOLDER"] = str(root.parent / "cache")
        doctor.subprocess.Popen = die
        doctor.run_checks(root, checks=[doctor.server])
    def remember(scope):
        engine.memory.memories.add(MemoryDraft("facts", "Tabs.", title="Tabs", scope=scope), on_similar="allow")
    def save_plan():
        plan = {"goal": "Round", "steps": [{"step_number": 1, "title": "Round", "description": "Round."}]}
        through(ToolDispatcher(single_engine(engine)))("save_plan", {"name": "plan", "plan": plan})
    with open_engine(root, cache_folder=root.parent / "cache", data_folder=root.parent / "data") as engine:
        exec(sys.argv[3])
"""

STORES = {
    "a memory of the project": (".md", "remember('project')"),
    "a memory of the user": (".md", "remember('user')"),
    "a version of a plan": ("v0001.json", "save_plan()"),
    "the index of plans": ("index.json", "save_plan()"),
    "the ignore file of our folder": (".gitignore", "remember('project')"),
    "the index": ("CURRENT", "engine.index.update()"),
    "a file of the index": (".seg", "engine.index.update()"),
    "a parser": (".so", "engine.index.update()"),
    "the history": ("", "engine.memory.run_to_end()"),
    "the list of repositories": (
        ".json",
        "RepositoryRegistry(user_config_folder(), root.parent / 'cache').add(str(root))",
    ),
    "the copies for a linter": ("no rename", "review()"),
    "the trial of a server": ("no rename", "check_installation()"),
    "the token of a server": ("http-token", "_create_bearer_file(default_bearer_file())"),
}


def kill(root: Path, ending: str, code: str) -> list[Path]:
    """Run code in a process that kills itself before it renames a temporary file to such a name; those that are left."""
    with child(KILLED_AT_RENAME, str(root), ending, code) as process:
        _, said = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, said
    left = [*root.parent.rglob(".ctx-*.tmp")]
    for path in left:
        make_old(path)
    return left


def make_old(path: Path) -> None:
    before = time.time() - ABANDONED_AFTER_S - 1
    os.utime(path, (before, before), follow_symlinks=False)


def open_again(root: Path) -> None:
    open_engine(root, cache_folder=root.parent / "cache", data_folder=root.parent / "data").close()


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    work = repository(tmp_path / "work", {"a.py": "old = 1\n", "b.py": "old = 1\n"})
    commit(work, "first")
    return work


@pytest.mark.parametrize("store", STORES)
def test_what_a_killed_writer_left_in_a_store_goes_with_the_next_process(root: Path, store: str) -> None:
    (left,) = kill(root, *STORES[store])
    assert left.exists()
    open_again(root)
    assert not left.exists()


@pytest.mark.parametrize("edit", ["swap('a.py', ('old', 'new'))", "delete_file('a.py')"])
def test_a_killed_repair_of_an_edit_leaves_nothing_next_to_the_users_files(root: Path, edit: str) -> None:
    code = f"engine.edits.apply([{edit}, swap('b.py', ('old', 'new'))])"
    kill(root, "b.py", code)
    assert kill(root, "a.py", ""), "the repair was killed as well"
    open_again(root)
    assert [*root.rglob(".ctx-*.tmp")] == []
    assert {name: data for name, data in contents(root).items() if name.endswith(".py")} == {
        "a.py": b"old = 1\n",
        "b.py": b"old = 1\n",
    }


def test_a_file_of_a_client_is_swept_in_the_users_folder_but_not_in_a_work_tree(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # whatever is above the folder of the tests
    monkeypatch.setattr(file_writer, "_enclosing_workspace", lambda folder: folder if folder == str(root) else "")
    for folder, is_swept in ((tmp_path / "home" / ".client", True), (root, False)):
        folder.mkdir(parents=True, exist_ok=True)
        (left,) = kill(root, "settings.json", f"write_atomic({str(folder / 'settings.json')!r}, b'x')")
        write_atomic(folder / "settings.json", b"x")
        assert left.exists() != is_swept
        left.unlink(missing_ok=True)


def test_only_old_files_and_folders_of_our_naming_are_swept(root: Path) -> None:
    ours = root / STATE_FOLDER / "memories" / "facts"
    deep = ours.joinpath(*"d" * FOLDER_DEPTH)
    deep.mkdir(parents=True)
    victim = root.parent / "victim"
    victim.write_text("not ours")
    names = ("notes.tmp", ".ctx-notes.tmp", ".ctx-0123456789ag.tmp", "x.ctx-0123456789ab.tmp", ".ctx-0123456789ab.tmp2")
    kept = [ours / name for name in names]
    kept += [ours / temporary_name(), deep / temporary_name(), root / temporary_name()]
    for path in kept:
        path.write_text("half")
    link, young = ours / temporary_name(), ours / temporary_name() / "inner"
    link.symlink_to(victim)
    young.mkdir(parents=True)
    for path in (*kept[:5], *kept[6:], link):
        make_old(path)
    open_again(root)
    assert [path for path in (*kept, victim, young) if not path.exists()] == []
    assert link.is_symlink()


def test_a_swept_folder_takes_no_file_with_it_that_a_link_in_it_leads_to(root: Path) -> None:
    folder, victim = root / STATE_FOLDER / temporary_name(), root.parent / "victim"
    (folder / "deep").mkdir(parents=True)
    victim.mkdir()
    (victim / "a.txt").write_text("not ours")
    (folder / "deep" / "link").symlink_to(victim, target_is_directory=True)
    make_old(folder)
    open_again(root)
    assert not folder.exists()
    assert (victim / "a.txt").read_text() == "not ours"


def test_a_folder_of_ours_that_is_a_link_is_not_swept(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    theirs = tmp_path / "elsewhere" / temporary_name()
    theirs.write_text("not ours")
    make_old(theirs)
    (tmp_path / "work" / STATE_FOLDER).mkdir(parents=True)
    (tmp_path / "work" / STATE_FOLDER / "memories").symlink_to(tmp_path / "elsewhere")
    ConfinedFolder(tmp_path / "work").folder(STATE_FOLDER).sweep()
    assert theirs.exists()
