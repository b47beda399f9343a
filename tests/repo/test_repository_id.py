"""A repository has one name on all machines, wherever it is checked out."""

from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.repo.git import Git, origin_name
from tests.support.trees import git, repository, tree

SAME = [
    "https://github.com/team/app",
    "https://github.com/team/app.git",
    "https://me:secret@GitHub.com/team/app/",
    "git@github.com:team/app.git",
    "ssh://git@github.com:22/team/app",
    "git://github.com/team/app",
]


@pytest.mark.parametrize("address", SAME)
def test_however_its_address_is_written(address: str) -> None:
    assert origin_name(address) == "github.com/team/app"


def test_clones_agree_and_folders_below_the_top_are_told_apart(tmp_path: Path) -> None:
    names = []
    for place in ("one", "two"):
        root = repository(tmp_path / place / "checkout", {"packages/web/a.py": "x"})
        git(root, "remote", "add", "origin", SAME[3])
        names += [Git(root).shared_name(), Git(root / "packages" / "web").shared_name()]
    assert names == ["github.com/team/app", "github.com/team/app/packages/web"] * 2


def test_what_comes_from_nowhere_is_called_like_its_folder(tmp_path: Path) -> None:
    assert Git(repository(tmp_path / "app")).shared_name() == "app"
    assert Git(tree(tmp_path / "loose", {"a.py": "x"})).shared_name() == "loose"
