"""The workspaces of a user: what was added is there for everybody, a refusal changes nothing, a spoilt file is no empty one."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import Conflict, InvalidArgument
from context_engine.repo.cloning import repository_name
from context_engine.repo.repositories import RepositoryRegistry, WorkspaceMember, add_member, check_name, remove_member

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


@pytest.mark.parametrize("name", ["", "*", "a:b", "a/b", "-x", ".git", "a b", "x" * 65, "ä"])
def test_a_name_that_a_path_or_an_option_could_be_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot name"):
        check_name(name)


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
