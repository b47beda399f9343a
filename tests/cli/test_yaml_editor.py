"""Laws of changing one mapping of a YAML text: it says what was wanted, and everything else is untouched."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from context_engine.cli.clients.yaml_editor import get_value, remove_entry, set_entry
from context_engine.errors import InvalidArgument

PATH = ("extensions", "ctx")
ENTRY = {"type": "stdio", "cmd": "/bin/ctx", "args": ["serve", "--root", 'ü \\ "'], "enabled": True, "envs": {}}

KEYS = st.sampled_from(["a", "b", "extensions", "other", "ü", "with space"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["", "x: y", "#no", "two\nlines\n", "- ", "'", '"'])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
OTHERS = st.dictionaries(KEYS.filter(lambda key: key != "extensions"), VALUES, max_size=3)
EXTENSIONS = st.dictionaries(KEYS.filter(lambda key: key != "ctx"), VALUES, max_size=3)
COMMENT = st.sampled_from(["", "# mine\n", "\n# a: b\n\n"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A YAML file as a person or a program may have written it, with comments before, between and after."""
    parts = [yaml.safe_dump(other, allow_unicode=True) for other in [draw(OTHERS)] if other]
    if draw(st.booleans()):
        written = yaml.safe_dump(
            {"extensions": draw(EXTENSIONS)}, allow_unicode=True, indent=draw(st.sampled_from([2, 4]))
        )
        parts.insert(draw(st.integers(0, len(parts))), written)
    text = draw(COMMENT) + "".join(part + draw(COMMENT) for part in parts)
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


def read(text: str) -> dict[str, Any]:
    return yaml.safe_load(text) or {}


@given(texts())
def test_the_text_says_what_it_said_and_the_entry(text: str) -> None:
    expected = read(text)
    expected["extensions"] = {**(expected.get("extensions") or {}), "ctx": ENTRY}
    assert read(set_entry(text, PATH, ENTRY)) == expected


@given(texts())
def test_every_line_stays_and_twice_is_once(text: str) -> None:
    after = set_entry(text, PATH, ENTRY)
    kept = [line for line in text.splitlines() if line.strip() and not line.startswith("extensions:")]
    rest = iter(after.splitlines())
    assert all(line in rest for line in kept), "in their order"
    assert set_entry(after, PATH, ENTRY) == after


@given(texts())
def test_removing_what_was_added_gives_the_text_back(text: str) -> None:
    has_extensions = bool(read(text).get("extensions"))
    back = remove_entry(set_entry(text, PATH, ENTRY), PATH)
    assert "ctx" not in (read(back).get("extensions") or {})
    if has_extensions:
        assert back == text


def test_what_a_person_changed_in_the_entry_stays() -> None:
    text = "extensions:\n  ctx:\n    cmd: old # mine\n    timeout: 9\n  other:\n    enabled: false\n"
    assert set_entry(text, PATH, {"cmd": "new", "args": ["serve"]}) == (
        'extensions:\n  ctx:\n    cmd: "new"\n    timeout: 9\n    args: ["serve"]\n  other:\n    enabled: false\n'
    )


def test_a_mapping_on_one_line_is_refused_unless_it_is_empty() -> None:
    assert read(set_entry("extensions: {} # none yet\n", PATH, ENTRY)) == {"extensions": {"ctx": ENTRY}}
    with pytest.raises(InvalidArgument, match="cannot be changed"):
        set_entry("extensions: {other: {enabled: true}}\n", PATH, ENTRY)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1\n", "not YAML"),
        ("- a\n", "not a mapping"),
        ("extensions: 7\n", "extensions is not a mapping"),
        ("a: 1\n---\nb: 2\n", "document"),
        ("a: 1\na: 2\n", "twice"),
        ("a: &x [1]\nb: *y\n", "anchor"),
        ("a: " + "[" * 500, "deep"),
        ("a: x\n" * 100_000, "bytes"),
    ],
)
def test_a_text_that_cannot_be_changed_is_refused_with_the_line(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        set_entry(text, PATH, ENTRY)


def test_an_alias_is_not_changed_where_it_points_to() -> None:
    with pytest.raises(InvalidArgument, match="cannot be changed"):
        set_entry("base: &x\n  other: 1\nextensions: *x\n", PATH, ENTRY)


def test_a_value_is_found_by_its_path() -> None:
    assert get_value("extensions:\n  ctx:\n    cmd: ctx\n", (*PATH, "cmd")) == "ctx"
    assert get_value("", PATH) is None
