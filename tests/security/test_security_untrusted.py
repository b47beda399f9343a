"""The loaders of YAML, TOML and JSON: what a stranger wrote becomes a value or one sentence, in bounded time."""

from __future__ import annotations

import ast
import time
from datetime import date
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from yaml.constructor import ConstructorError

from context_engine.text.json_reader import DEPTH_MAX, ParseError, read_json
from context_engine.text.untrusted_data import NODES_MAX, read_toml, read_yaml
from tests.support.source_trees import modules, nodes, parsed, text_of

SECONDS_MAX = 5
"""Each text here takes less than one on an idle machine; the parsers it replaces took minutes or all memory."""

ALIAS_BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
MERGE_BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}], k{n}: 1}}\n" for n in range(1, 10)
)
HOSTILE_YAML = {
    "aliases of aliases": (ALIAS_BOMB, "expands to more than"),
    "merges of merges": (MERGE_BOMB, "expands to more than"),
    "an alias of itself": ("a: &a [*a]", "no anchor"),
    "many aliases": ("a: &a 1\nb: [" + "*a, " * 1_000 + "]", "aliases"),
    "aliases of a long text": ("a: &a " + "x" * 500_000 + "\nb: [" + "*a, " * 100 + "]", "expands to more than"),
    "deep lists": ("[" * 100_000, "deeper"),
    "deep mappings": ("{a: " * 100_000, "deeper"),
    "deep blocks": ("- " * 100_000, "deeper"),
    "many values": ("- \n" * 600_000, "expands to more than"),
    "a long number": ("a: " + "9" * 5_000, "number has more than"),
    "a long hexadecimal number": ("a: 0x" + "f" * 100_000, "number has more than"),
    "a long sexagesimal number": ("a: 1" + ":1" * 500_000, "number has more than"),
    "a Python object": ("!!python/object/apply:os.system [id]", "tag"),
    "a repeated key": ("a: 1\nb: 2\na: 3", "given twice (line 3)"),
    "a mapping for a key": ("? {a: 1}\n: 2", "a key is"),
    "several documents": ("a: 1\n---\nb: 1", "more than one document (line 2)"),
    "control characters": ("a: \x07", "not YAML"),
    "a lone surrogate": ("a: \ud800", "not UTF-8"),
    "a size beyond reason": ("#" * 2_000_001, "at most"),
}
HOSTILE_TOML = {
    "deep lists": ("a = " + "[" * 50_000, "deeper"),
    "deep inline tables": ("a = " + "{a = " * 50_000, "deeper"),
    "a key of many parts": (".".join("a" * 50_000) + " = 1", "deeper"),
    "a table of many parts": ("[" + ".".join("a" * 50_000) + "]", "deeper"),
    "parts times brackets": ("a = " + "{" + ".".join("b" * 40) + " = {" + ".".join("b" * 40) + " = 1}}", "deeper"),
    "a long number": ("a = " + "9" * 5_000, "number has more than"),
    "a long hexadecimal number": ("a = 0x" + "f" * 50_000, "number has more than"),
    "a date that is none": ("a = 9999-99-99", "not TOML"),
    "a repeated key": ("a = 1\na = 2", "not TOML"),
    "bytes that are no text": (b"a = 1\nb = '\xff'", "not UTF-8 (line 2)"),
}
HOSTILE_JSON = {
    "deep lists": ("[" * 100_000, "deeper"),
    "lists just too deep": ("[" * (DEPTH_MAX + 2) + "]" * (DEPTH_MAX + 2), "deeper"),
    "deep objects": ('{"a":' * 100_000, "deeper"),
    "a long number": ("9" * 5_000, "more than 100 characters"),
    "a repeated key": ('{"a": 1, "a": 2}', "'a' is given twice"),
    "not a number": ('{"a": NaN}', "NaN is not JSON"),
    "a mistake": ('{"a":\n x}', "(line 2)"),
    "bytes that are no text": (b'"\xff"', "not UTF-8"),
}


def refused(read: Any, text: str | bytes) -> str:
    started = time.process_time()
    with pytest.raises(ParseError) as caught:
        read(text)
    assert time.process_time() - started < SECONDS_MAX
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    return str(caught.value)


HOSTILE = {read_yaml: HOSTILE_YAML, read_toml: HOSTILE_TOML, read_json: HOSTILE_JSON}


@pytest.mark.parametrize(
    ("read", "name"),
    [pytest.param(read, name, id=f"{read.__name__}: {name}") for read in HOSTILE for name in HOSTILE[read]],
)
def test_a_hostile_text_is_refused_in_one_line_and_in_bounded_time(read: Any, name: str) -> None:
    text, reason = HOSTILE[read][name]
    assert reason in refused(read, text)


def test_what_people_write_in_yaml_is_read_as_other_readers_read_it() -> None:
    text = (
        "base: &base {paths: [a, b], severity: P1}\nrule: {<<: *base, severity: P2}\nboth: {<<: [*base, {c: 1}]}\n"
        "n: 1_000\nh: 0xff\nf: 1.5\nyes: no\nnothing: ~\nday: 2024-02-29\nquoted: '12'\nlong: |\n  two\n  lines\n3: three\n"
    )
    assert read_yaml(text) == yaml.safe_load(text)
    assert read_yaml(text)["rule"] == {"paths": ["a", "b"], "severity": "P2"}


def test_a_date_that_is_none_is_text() -> None:
    assert read_yaml("a: 9999-99-99\nb: 2024-02-29\n") == {"a": "9999-99-99", "b": date(2024, 2, 29)}


def test_brackets_and_dots_in_strings_and_comments_of_toml_count_for_nothing() -> None:
    text = f'a = "{"[" * 90}"\nb = \'\'\'{"{" * 90}\'\'\'\nc = [{"1.5, " * 90}] # {"." * 90}\nd = """{"." * 90}\\""""\n'
    assert [len(each) for each in read_toml(text).values()] == [90, 90, 90, 91]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text("ab:#-'\"é \n0", max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_every_value_that_yaml_writes_is_read_back(value: Any) -> None:
    assert read_yaml(yaml.safe_dump(value)) == value


@given(st.text("ab:-&*!<>{}[]|?,'\"#~=0123456789. \n", max_size=60))
def test_what_yaml_reads_is_read_alike_or_refused_and_never_otherwise(text: str) -> None:
    try:
        read = read_yaml(text)
    except ParseError:
        return
    try:
        assert repr(read) == repr(yaml.load(text, Loader=yaml.CSafeLoader))
    except ValueError:
        assert "-" in text  # a date that is none
    except ConstructorError:
        assert "=" in text or "<<" in text  # a plain `=` or `<<` outside a mapping has a meaning of its own


def test_a_text_of_many_values_may_be_read_where_the_caller_expects_one() -> None:
    text = "- 1\n" * (NODES_MAX + 10)
    assert len(read_yaml(text, nodes_max=2 * NODES_MAX)) == NODES_MAX + 10


# -- who else parses --------------------------------------------------------------------------------------------------

PARSERS = {
    ("json", "load"), ("json", "loads"), ("json", "JSONDecoder"), ("tomllib", "load"), ("tomllib", "loads"),
    ("yaml", "load"), ("yaml", "safe_load"), ("yaml", "load_all"), ("yaml", "safe_load_all"), ("yaml", "full_load"),
    ("yaml", "parse"), ("yaml", "compose"), ("yaml", "scan"), ("tomlkit", "parse"),
}  # fmt: skip
OTHERS = {
    "text/untrusted_data.py": "the loaders of YAML and TOML",
    "text/json_reader.py": "the loader of JSON",
    "cli/": "what the user typed, and the settings files of his own clients",
    "server/": "what this package has written or sealed itself",
    "embedding/table_file.py": "the table of this package",
    "languages/grammars.py": "the manifest of an installed package",
    "review/content_parsers.py": "says where a text stops to be JSON, TOML or YAML, and builds nothing of YAML",
    "index/": "our own segments, and the manifest of an archive of at most a megabyte",
    "search/gram_parts.py": "our own files in the cache",
    "context/assist.py": "finds where the JSON of a model's answer ends, which `read_json` reads",
    "repo/repositories.py": "a file of our own in the user's data folder",
    "daemon/daemon_client.py": "messages between processes of the same user, of bounded length",
}
"""Who parses without the loaders, and why; a folder ends in a slash."""


def test_what_a_repository_brings_is_parsed_by_the_loaders_alone() -> None:
    found = set()
    for module in modules():
        if not any(f"import {library}" in text_of(module) for library in ("json", "tomllib", "yaml", "tomlkit")):
            continue
        for node in nodes(parsed(module)):
            match node:
                case ast.Attribute(value=ast.Name(id=library), attr=name) if (library, name) in PARSERS:
                    row = next(
                        (row for row in OTHERS if module == row or (row[-1] == "/" and module.startswith(row))), ""
                    )
                    assert row, f"{module}:{node.lineno} calls {library}.{name}: use text.untrusted, or say why not"
                    found.add(row)
    assert OTHERS.keys() - found == set(), "no longer needed"
