"""Laws of changing one member of a JSON text: it parses to what was wanted, and everything else is untouched."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.cli.clients.jsonc_editor import get_value, remove_entry, set_entry
from context_engine.errors import InvalidArgument

PATH = ("servers", "ctx")
ENTRY = {"command": "/bin/ctx", "args": ["serve", "--root", 'ü \\ "'], "alwaysLoad": True}

# -- a small world of JSON texts ------------------------------------------------------------------------------------

BLANKS = st.sampled_from(["", " ", "\n", "\n  ", "\t", "\r\n", "\n\n    "])
COMMENTS = st.sampled_from(['// a } " note\n', "/* { , */", "/* on\n two lines */", "//\n", "/**/", '// "ctx": 1,\n'])
GAPS = st.lists(st.one_of(BLANKS, COMMENTS), max_size=2).map("".join)
KEYS = st.sampled_from(["a", "b", "servers", "ctx", "other", 'q"{', "ü"])
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([0.5, 1e9, "", "//no", '"\\', "/*", ",}", "é\n"])
)


objects = st.recursive(
    st.dictionaries(KEYS, PLAIN, max_size=3),
    lambda inner: st.dictionaries(KEYS, st.one_of(inner, st.lists(inner, max_size=2), PLAIN), max_size=3),
    max_leaves=6,
)
without_servers = objects.map(lambda value: {key: each for key, each in value.items() if key != "servers"})
with_servers = st.tuples(objects, objects).map(lambda pair: {**pair[0], "servers": pair[1]})
usable = st.one_of(without_servers, with_servers)
without_ours = with_servers.map(lambda value: {**value, "servers": less(value["servers"], "ctx")})


def less(value: Any, key: str) -> dict[str, Any]:
    return {each: value[each] for each in value if each != key}


@st.composite
def texts(draw: st.DrawFn, values: st.SearchStrategy[dict[str, Any]]) -> tuple[str, Any]:
    """A JSON text as somebody may have written it, and what it says. The outermost value is an object."""
    value = draw(values)
    return f"{draw(GAPS)}{draw(written(value))}{draw(GAPS)}", value


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value with blanks and comments wherever JSON allows them, now and then with a comma at the end."""
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}{draw(GAPS)}:{draw(GAPS)}{draw(written(v))}" for k, v in value.items()]
    elif isinstance(value, list):
        parts = [draw(written(each)) for each in value]
    else:
        return json.dumps(value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inside = ",".join(f"{draw(GAPS)}{part}{draw(GAPS)}" for part in parts)
    end = ("," if parts and draw(st.booleans()) else "") + draw(GAPS)
    return f"{opening}{inside}{end}{closing}"


STRING_OR_TRIVIA = re.compile(r'("(?:\\.|[^"\\])*")|//[^\r\n]*|/\*.*?\*/', re.DOTALL)


def said(text: str) -> Any:
    """What a text says, found out in another way: comments struck out, then commas at the end, then Python's parser."""
    bare = STRING_OR_TRIVIA.sub(lambda match: match[1] or " ", text)
    return json.loads(re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda match: match[1] or "", bare))


def comments(text: str) -> list[str]:
    return [match[0] for match in STRING_OR_TRIVIA.finditer(text) if not match[1]]


def only_added(before: str, after: str) -> bool:
    """Whether `before` is `after` with at most a comma and one stretch taken away."""
    place = next((i for i, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(before))
    tail = before[place:]
    if after.endswith(tail):
        return True
    return any(
        after[place] == "," and after[place + 1 :].startswith(tail[:kept]) and after.endswith(tail[kept:])
        for kept in range(len(tail) + 1)
    )


# -- laws -----------------------------------------------------------------------------------------------------------


@given(texts(objects))
def test_it_reads_what_stands_there(written_and_meant: tuple[str, Any]) -> None:
    text, meant = written_and_meant
    assert said(text) == meant
    assert get_value(text, ()) == meant
    assert get_value(text, ("a", "b")) == (meant["a"].get("b") if isinstance(meant.get("a"), dict) else None)


@given(texts(usable))
def test_after_merging_the_text_says_the_same_and_the_entry(written_and_meant: tuple[str, Any]) -> None:
    text, meant = written_and_meant
    after = set_entry(text, PATH, ENTRY)
    servers = meant.get("servers", {})
    old = servers.get("ctx")
    entry = {**old, **ENTRY} if isinstance(old, dict) else ENTRY
    assert said(after) == {**meant, "servers": {**servers, "ctx": entry}}
    if "ctx" not in servers or isinstance(old, dict):  # what is no object is replaced, with the notes inside it
        assert set(comments(text)) <= set(comments(after))


@given(texts(usable))
def test_merging_twice_is_merging_once(written_and_meant: tuple[str, Any]) -> None:
    once = set_entry(written_and_meant[0], PATH, ENTRY)
    assert set_entry(once, PATH, ENTRY) == once


@given(texts(st.one_of(without_servers, without_ours)))
def test_adding_touches_nothing_that_was_there(written_and_meant: tuple[str, Any]) -> None:
    text, meant = written_and_meant
    after = set_entry(text, PATH, ENTRY)
    if meant and meant.get("servers", True):  # blanks between empty braces are the one thing that gives way
        assert only_added(text, after)


@given(texts(without_ours))
def test_taking_away_what_was_added_gives_the_text_back(written_and_meant: tuple[str, Any]) -> None:
    text, meant = written_and_meant
    back = remove_entry(set_entry(text, PATH, ENTRY), PATH)
    if meant["servers"]:
        assert back == text
    else:
        assert "".join(back.split()) == "".join(text.split())


@given(texts(st.one_of(objects, with_servers)))
@example(('{"servers":{"a":1, // one\n"ctx":2/* two\n lines */,\n"b":3}}', {"servers": {"a": 1, "ctx": 2, "b": 3}}))
def test_taking_away_leaves_the_rest(written_and_meant: tuple[str, Any]) -> None:
    text, meant = written_and_meant
    after = remove_entry(text, PATH)
    servers = meant.get("servers")
    if isinstance(servers, dict) and "ctx" in servers:
        assert said(after) == {**meant, "servers": less(servers, "ctx")}
    else:
        assert after == text


@given(st.text(alphabet='{}[]:,"/* \n1ae\\', max_size=12))
def test_whatever_the_text_is_it_is_read_or_refused_with_a_place(text: str) -> None:
    try:
        after = set_entry(text, PATH, ENTRY)
    except InvalidArgument as error:
        refused = error
    else:
        assert get_value(after, PATH) == ENTRY
        return
    assert min(refused.details["line"], refused.details["column"]) >= 1


# -- examples a person would look at ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "servers": {\n    "ctx": {\n      "command": "c"\n    }\n  }\n}\n'),
        ("{}", '{\n  "servers": {\n    "ctx": {\n      "command": "c"\n    }\n  }\n}'),
        ("// mine\n", '// mine\n{\n  "servers": {\n    "ctx": {\n      "command": "c"\n    }\n  }\n}\n'),
        ('{"a": 1}', '{"a": 1, "servers": {"ctx": {"command": "c"}}}'),
        ('{ "a": [1], }', '{ "a": [1], "servers": {"ctx": {"command": "c"}}, }'),
        ('{\n\t"a": 1, // one\n}\n', '{\n\t"a": 1, // one\n\t"servers": {\n\t\t"ctx": {\n\t\t\t"command": "c"\n\t\t}\n\t},\n}\n'),
        ('{\r\n    "a": 1\r\n}', '{\r\n    "a": 1,\r\n    "servers": {\r\n        "ctx": {\r\n            "command": "c"\r\n        }\r\n    }\r\n}'),
        ('{\n  "servers": {}\n}', '{\n  "servers": {\n    "ctx": {\n      "command": "c"\n    }\n  }\n}'),
        (
            '{\n  "servers": {\n    "x": {} // keep\n    // "old": {}\n  }\n}',
            '{\n  "servers": {\n    "x": {}, // keep\n    // "old": {}\n    "ctx": {\n      "command": "c"\n    }\n  }\n}',
        ),
    ],
)  # fmt: skip
def test_what_is_added_looks_like_its_surroundings(before: str, after: str) -> None:
    assert set_entry(before, PATH, {"command": "c"}) == after


def test_of_a_key_that_stands_there_twice_the_last_one_counts() -> None:
    text = '{"servers": {"a": 1}, "servers": {"ctx": 1, "b": 2, "ctx": {"command": "c"}}}'
    assert get_value(text, PATH) == {"command": "c"}
    assert json.loads(set_entry(text, PATH, {"on": True}))["servers"] == {"ctx": {"command": "c", "on": True}, "b": 2}
    assert remove_entry(text, PATH) == '{"servers": {"a": 1}, "servers": { "b": 2}}'


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3),
        ('{\n  a: 1\n}', 2, 3),
        ('{"a": 1', 1, 8),
        ('{"a": tru}', 1, 7),
        ('{"a": "tab\tinside"}', 1, 11),
        ('{"a": 1} {}', 1, 10),
        ('{"a": /* never closed', 1, 7),
        ('{"a": 01}', 1, 8),
        ("[" * 100_000, 1, 1),
        ('{,}', 1, 2),
        ('[1,,]', 1, 4),
        ('{\n "servers": [1]}', 2, 13),
        ("[]", 1, 1),
    ],
)  # fmt: skip
def test_a_text_that_cannot_be_changed_is_refused_with_the_place(text: str, line: int, column: int) -> None:
    with pytest.raises(InvalidArgument) as refused:
        set_entry(text, PATH, ENTRY)
    assert refused.value.details == {"line": line, "column": column}


def test_a_comment_does_not_swallow_what_follows_a_removed_member() -> None:
    text = '{"servers": { // note\n "ctx": 1, "b": 2 }}'
    assert said(remove_entry(text, PATH)) == {"servers": {"b": 2}}


@pytest.mark.parametrize("text", ["/*a" * 70_000, '"\\' * 100_000, '{"a": 1} /*/'])
def test_what_does_not_end_is_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(InvalidArgument):
        get_value(text, ["a"])
    assert time.process_time() - began < 1
