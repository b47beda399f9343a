"""Files of ours are made by one module, which closes them to other users: `storage/private_files.py`."""

from __future__ import annotations

import ast

from tests.support.source_trees import nodes, trees

MAKERS = ("os.mkdir", "os.makedirs", ".mkdir", "FileLock", ".write_text")
MADE_ELSEWHERE = {
    "cli/clients/client_config.py": "settings of other programs",
    "cli/doctor.py": "a project in a temporary folder, which is 0700",
    "daemon/runtime_folder.py": "makes its folder 0700 without imports, and refuses any other",
    "repo/file_writer.py": "files of the user's work tree",
    "repo/git.py": "the null device",
    "repo/subprocess_runner.py": "copies in a temporary folder, which is 0700",
    "search/chunk_files.py": "a folder that the user named",
}


def test_outside_of_storage_nothing_makes_folders_files_locks_or_databases() -> None:
    makers = {
        module
        for module, tree in trees().items()
        for node in nodes(tree)
        if isinstance(node, ast.Call) and may_make(node)
    }
    assert {module for module in makers if not module.startswith("storage/")} <= MADE_ELSEWHERE.keys()


def may_make(call: ast.Call) -> bool:
    """Whether a call makes a folder, a lock, a database, or a file other than by `open_private`."""
    name = ast.unparse(call.func)
    if name == "apsw.Connection":
        text = ast.unparse(call)
        return ":memory:" not in text and ("flags=" not in text or "CREATE" in text)
    if name.endswith("open") and not name.startswith("os."):
        modes = [arg.value for arg in call.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        return any(
            set(mode) & set("wax") and len(mode) < 4 for mode in modes
        ) and "opener=open_private" not in ast.unparse(call)
    return name.endswith(MAKERS)
