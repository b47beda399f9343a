"""`ctx setup CLIENT --guidance`: a section between two markers in the project's file for agents, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.cli.clients import client_config
from context_engine.cli.clients.client_config import BEGIN, END, add_section, remove_section
from context_engine.errors import InvalidArgument
from tests.support.terminal import setup

pytestmark = pytest.mark.usefixtures("home")

GUIDANCE = client_config.read_guidance()
TEXTS = st.lists(
    st.sampled_from(["", "# Rules", "- one", "<!-- other: begin -->", "\t", "ü", "```"]), max_size=6
).flatmap(lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda newline: newline.join(lines)))


@given(TEXTS)
def test_removing_the_section_gives_every_byte_back(text: str) -> None:
    after = add_section(text, GUIDANCE)
    assert after.startswith(text)
    assert remove_section(after) == text


@given(TEXTS)
def test_twice_is_once_and_new_guidance_replaces_the_old(text: str) -> None:
    old = add_section(text, "old\n")
    assert add_section(old, "old\n") == old
    assert add_section(old, GUIDANCE) == add_section(text, GUIDANCE)
    assert remove_section(text) == text


def test_what_is_written_below_the_section_stays() -> None:
    assert remove_section(add_section("# Rules\n", GUIDANCE) + "\n## More\n") == "# Rules\n\n## More\n"


@pytest.mark.parametrize("text", [BEGIN, END, f"{END}\n{BEGIN}\n", f"{BEGIN}\n{END}\n{BEGIN}\n{END}\n"])
def test_markers_that_are_not_a_pair_are_refused(text: str) -> None:
    for change in (remove_section, lambda text: add_section(text, GUIDANCE)):
        with pytest.raises(InvalidArgument, match="not a pair"):
            change(text)


def test_each_client_gets_it_in_the_file_that_it_reads(home: Path) -> None:
    (home / "work" / "AGENTS.md").write_text("# Rules")
    shown = setup("claude", "codex", "cursor", "--guidance").output
    assert f"+++ {home / 'work' / 'CLAUDE.md'}" in shown, "the change is shown"
    assert shown.count(f"+++ {home / 'work' / 'AGENTS.md'}") == 1
    assert (home / "work" / "AGENTS.md").read_text() == add_section("# Rules", GUIDANCE)
    assert not (home / "work" / ".mcp.json").exists()
    assert "nothing to do" in setup("codex", "--guidance").output
    setup("codex", "claude", "--guidance", "--remove")
    assert (home / "work" / "AGENTS.md").read_text() == "# Rules"
    assert not (home / "work" / "CLAUDE.md").exists()


def test_a_file_behind_a_link_out_of_the_project_is_refused(home: Path) -> None:
    (home / "secret.md").write_text("mine")
    (home / "work" / "AGENTS.md").symlink_to(home / "secret.md")
    setup("codex", "--guidance", code=2)
    assert (home / "secret.md").read_text() == "mine"


def test_a_client_without_such_a_file_says_so(home: Path) -> None:
    assert "names no file for guidance" in setup("claude-desktop", "--guidance", code=2).output
