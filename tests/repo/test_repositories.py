"""Repositories put together: what was added is there for everybody, clones follow their remotes, and nothing is run or asked."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import AccessFailed, Conflict, FileNotFound, InvalidArgument
from context_engine.repo import cloning
from context_engine.repo.cloning import repository_name
from context_engine.repo.repositories import RepositoryRegistry, WorkspaceMember, add_member, check_name, remove_member
from tests.support.trees import commit, git, repository, tree


@pytest.fixture
def kept(tmp_path: Path) -> RepositoryRegistry:
    return RepositoryRegistry(tmp_path / "config", tmp_path / "cache")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    return repository(tmp_path / "origin", {"a.py": "first = 1\n"})


def address(folder: Path) -> str:
    return folder.as_uri()


# -- addresses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "ext::sh -c touch% /tmp/x", "git://example.org/a", "http://example.org/a", "ftp://example.org/a", "https://[::1/a", "--upload-pack=touch",
        "-oProxyCommand=x@h:p", "ssh://-oProxyCommand=x/a", "https://a b", "file:///a\nb", "fd::3",
    ],
)  # fmt: skip
def test_an_address_that_could_run_something_or_is_not_safe_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be fetched"):
        cloning.check_address(text)


def test_a_password_is_never_written_down(kept: RepositoryRegistry, tmp_path: Path) -> None:
    for text in ("https://me:secret@example.org/a", "https://token@example.org/a", "ssh://me:secret@example.org/a"):
        with pytest.raises(InvalidArgument, match="name or password"):
            kept.add(text)
    assert not (tmp_path / "config").exists()


# -- clones -----------------------------------------------------------------------------------------------------------


def test_a_repository_by_address_is_cloned_and_follows_its_remote(kept: RepositoryRegistry, origin: Path) -> None:
    member = kept.add(address(origin), name="lib")
    place = Path(member.root)
    assert (place / "a.py").read_text() == "first = 1\n"
    assert place.is_relative_to(origin.parent / "cache" / "clones")
    tree(origin, {"a.py": "second = 2\n", "b.py": "new = 3\n"})
    newest = commit(origin, "second")
    (place / "a.py").write_text("somebody was here\n")
    updated = kept.update(member)
    assert (updated.problem, updated.after) == ("", newest)
    assert updated.before != newest
    assert (place / "a.py").read_text() == "second = 2\n"
    assert (place / "b.py").exists()
    again = kept.update(member)
    assert again.before == again.after == newest


def test_a_branch_and_a_depth_are_kept(kept: RepositoryRegistry, origin: Path) -> None:
    for number in range(3):
        tree(origin, {"a.py": f"n = {number}\n"})
        commit(origin, str(number))
    git(origin, "branch", "old", "HEAD~1")
    member = kept.add(address(origin), branch="old", depth=1)
    place = Path(member.root)
    assert (place / "a.py").read_text() == "n = 1\n"
    assert git(place, "rev-list", "--count", "HEAD") == "1"
    assert kept.update(member).problem == ""
    assert git(place, "rev-list", "--count", "HEAD") == "1"
    other = kept.add(address(origin), name="newest")
    assert other.root != member.root, "each branch has a clone of its own"


@pytest.mark.parametrize("branch", ["-x", "--upload-pack=x", "a..b", "a b", "x.lock"])
def test_a_branch_that_git_could_take_for_something_else_is_refused(
    kept: RepositoryRegistry, origin: Path, branch: str
) -> None:
    with pytest.raises(InvalidArgument, match="cannot name a branch"):
        kept.add(address(origin), branch=branch)


@pytest.mark.skipif(os.name == "nt", reason="hooks are shell scripts")
def test_neither_hooks_nor_filters_of_anybody_are_run(
    kept: RepositoryRegistry, origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    template = tmp_path / "template" / "hooks"
    template.mkdir(parents=True)
    for hook in ("post-checkout", "post-merge", "reference-transaction"):
        (template / hook).write_text(f"#!/bin/sh\necho {hook} >> '{trace}'\n")
        (template / hook).chmod(0o755 | stat.S_IXUSR)
    settings = tmp_path / "gitconfig"
    settings.write_text(
        f"[init]\ntemplateDir = {template.parent}\n[core]\nhooksPath = {template}\naskPass = touch\n"
        f'[filter "lfs"]\nsmudge = sh -c "echo lfs >> {trace}; cat"\nrequired = true\n[safe]\ndirectory = *\n'
    )
    tree(origin, {".gitattributes": "*.bin filter=lfs\n", "x.bin": "pointer"})
    commit(origin, "large")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    member = kept.add(address(origin))
    assert kept.update(member).problem == ""
    assert not trace.exists()
    assert not (Path(member.root) / ".git" / "hooks").exists(), "nor are any put there for the next git"


def test_what_cannot_be_fetched_leaves_nothing_behind(kept: RepositoryRegistry, tmp_path: Path) -> None:
    with pytest.raises(AccessFailed, match="does not appear to be a git repository") as refused:
        kept.add(address(tmp_path / "nowhere"))
    assert "address" in refused.value.suggestion
    assert kept.members() == ()
    assert [path for path in (tmp_path / "cache" / "clones").iterdir() if path.is_dir()] == []


def test_trouble_with_one_is_told_and_stops_nobody(kept: RepositoryRegistry, origin: Path) -> None:
    member = kept.add(address(origin))
    origin.rename(origin.with_name("moved"))
    assert "git fetch failed" in kept.update(member).problem
    assert (Path(member.root) / "a.py").exists(), "what was there stays"


# -- folders ----------------------------------------------------------------------------------------------------------


def test_a_folder_of_the_users_own_is_taken_and_never_touched(kept: RepositoryRegistry, origin: Path) -> None:
    member = kept.add(str(origin), workspace="team")
    assert kept.roots("team") == {"origin": str(origin)}
    assert not kept.update(member).problem
    assert kept.remove("origin", workspace="team") is False
    assert (origin / "a.py").exists()


def test_a_name_or_folder_that_is_taken_is_refused_before_anything_is_fetched(
    kept: RepositoryRegistry, origin: Path
) -> None:
    kept.add(str(origin), name="web")
    with pytest.raises(Conflict, match="already"):
        kept.add(address(origin), name="web")
    with pytest.raises(Conflict, match="already"):
        kept.add(str(origin), name="other")
    assert not (origin.parent / "cache").exists()


def test_a_clone_in_two_workspaces_is_deleted_with_the_last(kept: RepositoryRegistry, origin: Path) -> None:
    one = kept.add(address(origin), workspace="one")
    assert kept.add(address(origin), workspace="two").root == one.root
    assert kept.remove("origin", workspace="one") is False
    assert Path(one.root).exists()
    assert kept.remove("origin", workspace="two") is True
    assert not Path(one.root).exists()


MEMBERS = st.lists(
    st.builds(WorkspaceMember, st.sampled_from(["web", "api", "lib"]), st.sampled_from(["/a", "/b", "/c"])), max_size=6
)


def registry_in(folder: Path) -> RepositoryRegistry:
    """The workspaces of a user whose files are in a folder."""
    return RepositoryRegistry(folder, folder / "cache")


def grown(new: list[WorkspaceMember]) -> tuple[WorkspaceMember, ...]:
    """Those of them that can be added, one after the other."""
    members: tuple[WorkspaceMember, ...] = ()
    for each in new:
        try:
            members = add_member(members, each)
        except Conflict:
            continue
    return members


@given(MEMBERS)
def test_no_two_repositories_share_a_name_or_a_folder(new: list[WorkspaceMember]) -> None:
    members = grown(new)
    assert len({each.name for each in members}) == len({each.root for each in members}) == len(members)


@given(MEMBERS)
def test_what_was_added_can_be_removed_by_name_or_folder(new: list[WorkspaceMember]) -> None:
    members = grown(new)
    for each in members:
        for named in (each.name, each.root):
            assert set(remove_member(members, named)) == set(members) - {each}
    with pytest.raises(InvalidArgument, match="no repository here"):
        remove_member(members, "other")


@given(st.text())
def test_every_place_gives_a_name_that_may_be_one(place: str) -> None:
    assert check_name(repository_name(place))


def test_what_one_process_writes_another_reads(tmp_path: Path) -> None:
    members = registry_in(tmp_path).change(
        "team", lambda known: add_member(known, WorkspaceMember("web", "/src/web", "https://x.org/w", "main", 3))
    )
    assert registry_in(tmp_path).members("team") == members
    assert registry_in(tmp_path).members() == ()
    registry_in(tmp_path).change("team", lambda known: remove_member(known, "web"))
    assert registry_in(tmp_path).workspaces() == {}, "a workspace without a repository is forgotten"


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"version": 9, "workspaces": {}}', '{"version": 1, "workspaces": {"a": [{"name": "w"}]}}'],
)
def test_a_spoilt_list_is_told_and_never_overwritten(tmp_path: Path, content: str) -> None:
    file = registry_in(tmp_path).file
    file.write_text(content)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        registry_in(tmp_path).change("team", lambda known: add_member(known, WorkspaceMember("web", "/src/web")))
    assert file.read_text() == content


def test_several_who_add_at_once_lose_nothing(tmp_path: Path) -> None:

    def add(number: int) -> None:
        registry_in(tmp_path).change(
            "team", lambda known: add_member(known, WorkspaceMember(f"r{number}", f"/src/{number}"))
        )

    threads = [threading.Thread(target=add, args=[number]) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert {each.name for each in registry_in(tmp_path).members("team")} == {f"r{number}" for number in range(8)}


def test_a_clone_that_was_deleted_is_fetched_anew(kept: RepositoryRegistry, origin: Path) -> None:
    member = kept.add(address(origin))
    kept.remove(member.name)
    assert not Path(member.root).exists()
    assert kept.update(member).after == git(origin, "rev-parse", "HEAD")


def test_a_workspace_of_folders_that_are_gone_says_how_to_go_on(kept: RepositoryRegistry, origin: Path) -> None:
    kept.add(str(origin))
    origin.rename(origin.with_name("moved"))
    with pytest.raises(FileNotFound, match="origin are gone"):
        kept.roots("default")


def test_a_workspace_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    registry = registry_in(tmp_path)
    registry.change("team", lambda known: add_member(known, WorkspaceMember("web", "/src/web")))
    with pytest.raises(InvalidArgument, match="'taem'") as refused:
        registry.members("taem")
    assert refused.value.details["valid"] == ["team"]
