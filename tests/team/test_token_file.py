"""The tokens of a shared server: what is kept of them, who is recognized, and what happens to the file."""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import AccessFailed, Conflict, HostError, InvalidArgument, StorageCorrupt
from context_engine.server.authentication import HttpRefusal, default_token_file
from context_engine.team.shared_server import Authenticator
from context_engine.team.token_file import ROLES, Grant, TokenFile, forbids
from context_engine.tools import ALL

NOW_S = 1_800_000_000.0
READING = ("ci", "read", ["web"])


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "config" / "tokens.json", now=lambda: NOW_S)


def other(tokens: TokenFile) -> TokenFile:
    """The same file, as another process has it open."""
    return TokenFile(tokens.path, now=lambda: NOW_S)


# -- what is kept -----------------------------------------------------------------------------------------------------


def test_a_token_is_recognised_and_nothing_in_the_file_can_be_shown_in_its_place(tokens: TokenFile) -> None:
    grant, token = tokens.create(*READING)
    assert tokens.find_grant(token) == grant
    assert (grant.name, grant.role, grant.projects) == ("ci", "read", ("web",))
    text = tokens.path.read_text()
    assert token not in text
    assert token.split("_", 2)[2] not in text
    row = json.loads(text)["tokens"][0]
    for kept in (row["digest"], f"ctx_{row['id']}_{row['digest']}", f"ctx_{row['id']}_{row['digest'][:43]}"):
        assert tokens.find_grant(kept) is None


def test_only_its_user_can_read_the_file(tokens: TokenFile) -> None:
    tokens.create(*READING)
    assert tokens.path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tokens.path.parent.iterdir() if each.name.startswith(".")] == []


@pytest.mark.skipif(os.name != "posix", reason="no owners and modes")
def test_a_file_that_the_server_was_allowed_to_read_stays_readable_to_it_when_tokens_change(tokens: TokenFile) -> None:
    tokens.create("first", "read", ["web"])
    tokens.path.chmod(0o640)
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(tokens.path, 1000, 1000)
    tokens.create("second", "read", ["web"])
    facts = tokens.path.stat()
    assert facts.st_mode & 0o777 == 0o640
    assert facts.st_uid == (1000 if is_root else os.geteuid())


@given(st.data())
def test_what_differs_from_a_token_in_anything_is_none(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tokens = TokenFile(tmp_path_factory.mktemp("tokens") / "t", now=lambda: NOW_S)
    _, token = tokens.create(*READING)
    place = data.draw(st.integers(0, 10_000)) % len(token)
    # What is drawn must not depend on the token, which differs each time.
    one, another = data.draw(st.lists(st.sampled_from("0aA_-é "), min_size=2, max_size=2, unique=True))
    if one != token[place]:
        letter = one
    else:
        letter = another
    assert tokens.find_grant(token[:place] + letter + token[place + 1 :]) is None
    assert tokens.find_grant(token[:place]) is None
    assert tokens.find_grant(token + letter) is None
    assert tokens.find_grant(token) is not None


def test_servers_with_one_file_have_one_sealing_key_and_others_another(tokens: TokenFile, tmp_path: Path) -> None:
    key = tokens.sealing_key()
    assert key == other(tokens).sealing_key()
    assert len(key) == 32
    assert key.hex() not in tokens.path.read_text(), "what seals is derived from what is kept, and is not it"
    assert key != TokenFile(tmp_path / "else", now=lambda: NOW_S).sealing_key()


# -- changes ----------------------------------------------------------------------------------------------------------


def test_tokens_made_at_once_are_all_kept(tokens: TokenFile) -> None:
    made = [threading.Thread(target=other(tokens).create, args=(f"t{number}", "read", ["web"])) for number in range(8)]
    for each in made:
        each.start()
    for each in made:
        each.join()
    assert sorted(each.name for each in tokens.page().tokens) == sorted(f"t{number}" for number in range(8))


def test_a_name_is_given_once_and_one_that_is_not_there_cannot_be_revoked(tokens: TokenFile) -> None:
    tokens.create(*READING)
    with pytest.raises(Conflict, match="called ci already"):
        tokens.create(*READING)
    with pytest.raises(InvalidArgument, match="no token is called ann"):
        tokens.revoke("ann")
    assert len(tokens.page().tokens) == 1


@pytest.mark.parametrize(
    ("name", "projects", "expires_s"),
    [
        ("", ["web"], None),
        ("two words", ["web"], None),
        ('"}', ["web"], None),
        ("n" * 65, ["web"], None),
        ("ci", [], None),
        ("ci", [" "], None),
        ("ci", ["web"], NOW_S),
    ],
)
def test_what_no_token_can_be_is_refused_with_the_next_step(
    tokens: TokenFile, name: str, projects: list[str], expires_s: float | None
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        tokens.create(name, "read", projects, expires_s=expires_s)
    assert caught.value.suggestion
    assert not tokens.page().tokens


# -- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text.replace('"read"', '"root"'),
        lambda text: text.replace('"key": "', '"key": "x'),
        lambda text: text.replace('"name"', '"nmae"'),
        lambda text: re.sub('"digest": "[^"]*",', "", text),
        lambda text: "[]",
        lambda text: "",
    ],
)
def test_a_damaged_file_lets_nobody_in_until_it_is_mended(tokens: TokenFile, damage) -> None:
    _, token = tokens.create(*READING)
    sound = tokens.path.read_text()
    assert tokens.find_grant(token) is not None
    tokens.path.write_text(damage(sound))
    with pytest.raises(StorageCorrupt) as caught:
        tokens.find_grant(token)
    assert "create the tokens again" in caught.value.suggestion
    with pytest.raises(StorageCorrupt):
        tokens.create("ann", "read", ["web"])
    assert tokens.path.read_text() == damage(sound), "what cannot be read is not written over"
    tokens.path.write_text(sound)
    assert tokens.find_grant(token) is not None


def test_a_file_that_is_gone_lets_nobody_in(tokens: TokenFile) -> None:
    _, token = tokens.create(*READING)
    tokens.path.unlink()
    assert tokens.find_grant(token) is None


def test_a_file_that_others_could_change_is_not_believed(tokens: TokenFile) -> None:
    _, token = tokens.create(*READING)
    tokens.path.chmod(0o644)
    assert tokens.find_grant(token) is not None, "a named file is its owner's business: it holds hashes only"
    tokens.path.chmod(0o666)
    with pytest.raises(HostError, match="other users can change"):
        other(tokens).find_grant(token)


def test_our_own_file_is_not_believed_once_others_can_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    tokens = TokenFile(default_token_file(), now=lambda: NOW_S)
    _, token = tokens.create(*READING)
    tokens.path.chmod(0o640)
    with pytest.raises(HostError, match="other users can read") as caught:
        tokens.find_grant(token)
    assert "chmod 600" in caught.value.suggestion


def test_a_folder_in_the_place_of_the_file_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(AccessFailed, match="cannot be read"):
        TokenFile(tmp_path, now=lambda: NOW_S).page()


# -- the doorman ------------------------------------------------------------------------------------------------------


def door(tokens: TokenFile, now_s: float = NOW_S) -> tuple[Authenticator, list[dict], list[float]]:
    lines: list[dict] = []
    time_s = [0.0]
    return Authenticator(tokens, log=lines.append, now=lambda: now_s, clock=lambda: time_s[0]), lines, time_s


def shown(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_who_shows_a_token_is_known_and_who_shows_none_is_told_how(tokens: TokenFile) -> None:
    grant, token = tokens.create(*READING)
    doorman, lines, _ = door(tokens)
    assert doorman.authenticate("/mcp", shown(token)) == grant
    assert doorman.authenticate("/mcp", {"authorization": f"bearer  {token} "}) == grant
    assert lines == []
    for headers in ({}, shown("x"), {"authorization": token}, {"authorization": f"Basic {token}"}):
        refused = doorman.authenticate("/metrics", headers)
        assert isinstance(refused, HttpRefusal)
        assert refused.status == 401
        assert ("invalid_token" in refused.headers["www-authenticate"]) == bool(headers)
    assert {line["event"] for line in lines} == {"refused"}
    assert doorman.authenticate("/health", {}) is None


def test_an_expired_token_is_told_so_to_its_holder_and_to_nobody_else(tokens: TokenFile) -> None:
    grant, token = tokens.create("ci", "read", ["web"], expires_s=NOW_S + 60)
    assert door(tokens, NOW_S + 59)[0].authenticate("/mcp", shown(token)) == grant
    doorman, lines, _ = door(tokens, NOW_S + 60)
    refused = doorman.authenticate("/mcp", shown(token))
    assert isinstance(refused, HttpRefusal)
    assert (refused.status, "expired" in refused.text) == (401, True)
    assert lines[-1]["token"] == "ci"
    guessed = doorman.authenticate("/mcp", shown(token[:-1] + ("A" if token[-1] != "A" else "B")))
    assert isinstance(guessed, HttpRefusal)
    assert "expired" not in guessed.text


def test_tokens_that_cannot_be_read_are_no_open_door(tokens: TokenFile) -> None:
    _, token = tokens.create(*READING)
    doorman, lines, _ = door(tokens)
    tokens.path.write_text("{")
    refused = doorman.authenticate("/mcp", shown(token))
    assert isinstance(refused, HttpRefusal)
    assert refused.status == 503
    assert str(tokens.path) not in refused.text, "who is not let in learns nothing of the machine"
    assert lines[0]["error"]["code"] == "STORAGE_CORRUPT"


# -- roles ------------------------------------------------------------------------------------------------------------


def test_each_role_may_do_what_the_ones_before_it_may() -> None:
    allowed = [
        {tool.name for tool in ALL if not forbids(role, tool.touches, destructive=tool.hints.destructive)}
        for role in ROLES
    ]
    assert allowed[0] < allowed[1] < allowed[2]
    assert {tool.name for tool in ALL} == allowed[2]
    assert allowed[0] == {tool.name for tool in ALL if tool.touches in ("nothing", "anything")}
    assert allowed[2] - allowed[1] == {"clear_index"}


def test_no_grant_sees_a_project_by_a_part_of_its_name_or_a_folder_above_it() -> None:
    grant = Grant("1", "ci", "read", ("web", "/src/api"), "", "")
    for name, path in (("we", "/src/we"), ("webs", "/src/webs"), ("WEB", "/src/WEB"), ("v2", "/src/api/v2"), ("", "/")):
        assert not grant.sees(name, path)
    assert Grant("1", "ci", "read", ("*",), "", "").sees("anything", "/at/all")
