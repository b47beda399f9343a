"""Laws of changing one table of a TOML text: it says what was wanted, and everything else is untouched."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.cli.clients.toml_editor import get_value, remove_entry, set_entry
from context_engine.errors import InvalidArgument

PATH = ("servers", "ctx")
ENTRY = {"command": "C:\\bin\\ctx.exe", "args": ["serve", "--root", "ü \" '"], "timeout": 20}

LINES = st.sampled_from(
    ["a = 1", "b='x' # why", "# alone", "", "  c = [ 1, # one\n   2 ]", 'd = """\n[servers.ctx]\n"""']
)
HEADERS = st.sampled_from(["[x]", "[x.y] # deep", "[[list]]", "[servers.other]", "[ 'servers' . \"b c\" ]", "[y]"])
BODIES = st.lists(LINES, max_size=3, unique=True)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A TOML text as somebody may have written it, without our table."""
    parts = [*draw(BODIES)]
    for header in draw(st.lists(HEADERS, max_size=4, unique=True)):
        parts += [header, *draw(BODIES)]
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = newline.join("\n".join([*parts, ""]).split("\n"))
    tomllib.loads(text)  # a text that says nothing proves nothing
    return text


@given(texts())
def test_the_table_is_added_at_the_end_and_the_rest_is_a_prefix(text: str) -> None:
    after = set_entry(text, PATH, ENTRY)
    assert after.startswith(text)
    meant = tomllib.loads(text)
    assert tomllib.loads(after) == {**meant, "servers": {**meant.get("servers", {}), "ctx": ENTRY}}
    assert get_value(after, PATH) == ENTRY
    assert after.count("\n") == after.count("\r\n") or "\r" not in text


@given(texts())
def test_merging_twice_is_merging_once(text: str) -> None:
    once = set_entry(text, PATH, ENTRY)
    assert set_entry(once, PATH, ENTRY) == once


@given(texts())
def test_taking_away_what_was_added_gives_the_text_back(text: str) -> None:
    back = remove_entry(set_entry(text, PATH, ENTRY), PATH)
    assert back == text
    assert remove_entry(text, PATH) == text


@given(texts(), texts())
def test_the_table_is_found_wherever_it_stands(before: str, after: str) -> None:
    with_ours = f"{before}\n[servers.ctx] # mine\ntimeout = 1 # keep\n[servers.ctx.env]\nA = '1'\n# next\n[z]\n{after}"
    try:
        meant = tomllib.loads(with_ours)
    except tomllib.TOMLDecodeError:
        return  # both halves define the same table
    changed = set_entry(with_ours, PATH, ENTRY)
    meant["servers"]["ctx"].update(ENTRY)
    assert tomllib.loads(changed) == meant
    assert "# mine" in changed
    assert "# keep" in changed
    gone = remove_entry(with_ours, PATH)
    del meant["servers"]["ctx"]
    assert {"servers": {}} | tomllib.loads(gone) == meant
    assert "# next" in gone


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("servers = {}\n", 'servers = {ctx = {command = "ctx"}}\n'),
        ("servers = { a = 1 } # c\n", 'servers = { a = 1, ctx = {command = "ctx"} } # c\n'),
        ("[servers]\nctx = {command='old', on=1} # c\n", "[servers]\nctx = {command=\"ctx\", on=1} # c\n"),
        ("servers.ctx.command = 'old' # c\n", 'servers.ctx.command = "ctx" # c\n'),
        ("servers.other.command = 'x'\n", 'servers.other.command = \'x\'\n\n[servers.ctx]\ncommand = "ctx"\n'),
    ],
)  # fmt: skip
def test_other_forms_of_the_table_are_changed_in_their_place(before: str, after: str) -> None:
    assert tomllib.loads(set_entry(before, PATH, {"command": "ctx"})) == tomllib.loads(after)
    assert set_entry(before, PATH, {"command": "ctx"}).count("#") == before.count("#")


@pytest.mark.parametrize(("text", "line"), [("a = 1\nb = = 2\n", 2), ("[x]\n\n[x]\n", 3), ("a = 1 b = 2", 1)])
def test_a_broken_text_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(InvalidArgument) as refused:
        set_entry(text, PATH, ENTRY)
    assert refused.value.details["line"] == line


def test_a_layout_that_the_library_would_put_into_another_order_is_refused() -> None:
    text = "[servers]\nctx = {command='old'}\n[[list]]\na = 1\n[servers.other]\nb = 1\n[[list]]\na = 2\n"
    with pytest.raises(InvalidArgument, match="without touching the rest"):
        set_entry(text, PATH, ENTRY)
