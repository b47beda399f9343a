"""Every form of repository that git makes works in every feature, or a reply gives the reason in one sentence.

The table is in docs/guides/repositories.md.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import ContextEngineError
from tests.support.engines import indexed
from tests.support.tool_calls import text, told
from tests.support.trees import commit, git, repository, tree

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "repositories.md"
SUBJECT = "Charge for heavy parcels"
BEFORE = "def shipping_cost(weight):\n    return 5\n"
AFTER = "def shipping_cost(weight):\n    return 5 + weight\n"
SHOP = "from app import shipping_cost\n\n\ndef total(weight):\n    return shipping_cost(weight)\n"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a1" * 32 + "\nsize 123456\n"


def commit_twice(root: Path) -> Path:
    """Make two commits of `app.py`, the second with the subject."""
    commit(root, "Start", {"app.py": BEFORE, "shop.py": SHOP, "lib/util.py": "def pack(box):\n    return box\n"})
    commit(root, SUBJECT, {"app.py": AFTER})
    return root


def init(root: Path, *options: str) -> Path:
    git(root.parent, "init", "--quiet", "--initial-branch=main", *options, str(root))
    return commit_twice(root)


def clone(root: Path, *options: str) -> Path:
    origin = init(root.parent / "origin")
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(root.parent, "clone", "--quiet", *options, f"file://{origin}", str(root))
    return root


def sparse(root: Path) -> Path:
    git(init(root), "sparse-checkout", "set", "--no-cone", "/*", "!/lib/")
    return root


def outer(root: Path) -> Path:
    repository(root, {"main.py": "import parts.app\n"})
    inner = init(root.parent / "inner")
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "parts")
    commit(root, "Take in the parts")
    return root


def make_linked(root: Path) -> Path:
    git(init(root.parent / "main"), "worktree", "add", "--quiet", "-b", "side", str(root))
    return root


def make_detached(root: Path) -> Path:
    git(init(root), "checkout", "--quiet", "--detach")
    return root


def make_excludes(root: Path) -> Path:
    ignored = root.parent / "ignored"
    tree(root.parent, {"ignored": "private.py\n", "settings": f"[core]\n\texcludesFile = {ignored}\n"})
    return tree(init(root), {"private.py": "def private_matter():\n    pass\n"})


def with_pointer(root: Path) -> Path:
    attributes = "*.bin.txt filter=lfs diff=lfs merge=lfs -text\n"
    return commit_twice(repository(root, {".gitattributes": attributes, "model.bin.txt": POINTER}))


FORMS: dict[str, Callable[[Path], Path]] = {
    "plain": init,
    "SHA-256": lambda root: init(root, "--object-format=sha256"),
    "reftable": lambda root: init(root, "--ref-format=reftable"),
    "partial clone without contents": lambda root: clone(root, "--filter=blob:none"),
    "shallow clone": lambda root: clone(root, "--depth=1"),
    "sparse checkout": sparse,
    "submodule": lambda root: outer(root) / "parts",
    "repository with a submodule": outer,
    "linked work tree": make_linked,
    "detached HEAD": make_detached,
    "core.excludesFile": make_excludes,
    "Git LFS pointer": with_pointer,
}


def place_of(root: Path, name: str = "app.py") -> str:
    """Return where a file is: in the submodule, if the form has one."""
    return f"parts/{name}" if (root / "parts").exists() else name


def index(engine: Engine, root: Path) -> str:
    status = told(engine, "index_status")
    assert status["commit"] == git(root, "rev-parse", "HEAD")
    assert status.get("branch", "") == git(root, "branch", "--show-current")
    files = engine.index.store.files()
    assert place_of(root) in files
    assert not {"private.py", "model.bin.txt"} & files.keys()
    return ", ".join(row.get("detail", "") for row in status.get("skipped_examples", ()))


def search(engine: Engine, root: Path) -> str:
    assert place_of(root) in text(engine, "search_code", query="shipping cost of a heavy parcel")
    assert place_of(root) in text(engine, "search_text", query="weight")
    return ""


def history(engine: Engine, root: Path) -> str:
    found = told(engine, "history", target=place_of(root), format="json")
    assert found["commits"][0]["subject"] == SUBJECT
    assert SUBJECT in text(engine, "history", target=f"{place_of(root)}:2")
    other = text(engine, "history", target=place_of(root, "lib/util.py"))
    assert "Start" in other or SUBJECT in other  # also of a file that is not on the disk
    return str(found.get("shallow", ""))


def review(engine: Engine, root: Path) -> str:
    tree(root, {place_of(root): AFTER.replace("cost", "price")})
    for target, files in (("unstaged", 1), ("HEAD", 1), ("HEAD~1", 3)):  # the last has no parent
        found = told(engine, "review_git_diff", target=target, assist="off", format="json")
        assert found["git_info"]["files_changed"] == files
        assert ("shop.py" in str(found["review"]["findings"])) == (
            target == "unstaged"
        )  # by the version before the change
    return ""


def watch(engine: Engine, root: Path) -> str:
    engine.watch()
    fresh = place_of(root, "fresh.py")
    tree(root, {fresh: "def fresh_delivery():\n    pass\n"})
    commit(root, "Deliver")
    until = time.monotonic() + 20
    while time.monotonic() < until and fresh not in engine.index.store.files():
        time.sleep(0.05)
    assert fresh in engine.index.store.files()  # by the watcher: a call would look for new files itself
    assert fresh in text(engine, "symbols", name="fresh_delivery")
    return index(engine, root)


FEATURES = {"index": index, "search": search, "history": history, "review": review, "watch": watch}
REASONS = {
    ("partial clone without contents", "history"): "The clone is partial",
    ("partial clone without contents", "review"): "The clone is partial",
    ("shallow clone", "history"): "the clone is shallow",
    ("shallow clone", "review"): "the clone is shallow",
    ("repository with a submodule", "history"): "parts is a repository of its own",
    ("repository with a submodule", "review"): "Changes inside a submodule",
    ("core.excludesFile", "index"): "ignored:1: private.py",
    ("core.excludesFile", "watch"): "ignored:1: private.py",
    ("Git LFS pointer", "index"): "git lfs pull",
    ("Git LFS pointer", "watch"): "git lfs pull",
}
"""What a caller reads where something is left out or cannot be told."""


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_repository_works_or_the_reason_is_said(
    form: str, feature: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        root = FORMS[form](tmp_path / "w")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this git cannot make it: {error.stderr.decode()[:80]}")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "settings"))
    with indexed(root) as engine:
        try:
            said = FEATURES[feature](engine, root)
        except ContextEngineError as error:
            said = f"{error.message}. {error.suggestion}"
    expected = REASONS.get((form, feature), "")
    assert expected in said if expected else not said
    row = next(line for line in GUIDE.read_text("utf-8").split("\n") if line.startswith(f"| {form} |"))
    cell = row.split("|")[2 + list(FEATURES).index(feature)].strip()
    assert (cell == "right") == (not expected)
