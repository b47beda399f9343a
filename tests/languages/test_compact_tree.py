"""A compact tree answers as the tree of the parser does, before and after it is packed."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.languages.compact_tree import CompactTree, SyntaxNode, flatten_tree
from context_engine.languages.language import ORDER
from context_engine.languages.syntax_trees import read_tree
from tests.support.engines import GRAMMARS, LANGUAGES

RESOLVED = [name for name in ORDER if LANGUAGES[name].resolution.style]
FACTS = ("type", "start_byte", "end_byte", "is_named", "is_missing", "is_error", "has_error", "child_count")
NEIGHBORS = ("parent", "next_sibling", "prev_sibling", "next_named_sibling", "prev_named_sibling")


def sources(name: str) -> list[bytes]:
    """The examples in the file of a language."""
    text = (resources.files("context_engine.languages") / f"{name}.toml").read_text("utf-8")
    return [example["source"].encode() for example in tomllib.loads(text)["examples"]]


def place(node: Any) -> tuple[str, int, int] | None:
    return None if node is None else (node.type, node.start_byte, node.end_byte)


def facts(node: Any, fields: list[str], root: Any) -> list[object]:
    """What a node says of itself and of the nodes around it."""
    found: list[object] = [getattr(node, name) for name in FACTS]
    found += [tuple(node.start_point), tuple(node.end_point), node.named_child_count]
    if all(one.start_byte < one.end_byte for one in (node.parent.children if node.parent else ())):
        # The parser's own node steps over siblings without a byte, which it added.
        found += [place(getattr(node, name)) for name in NEIGHBORS]
    found += [[place(child) for child in node.children], [place(child) for child in node.named_children]]
    found += [place(node.named_child(0)) for _ in node.named_children[:1]]
    for field in fields:
        found += [place(node.child_by_field_name(field)), [place(one) for one in node.children_by_field_name(field)]]
    for start, stop in ((node.start_byte, node.end_byte), (node.start_byte, node.start_byte + 1)):
        if start < stop <= root.end_byte:
            found.append(place(root.descendant_for_byte_range(start, stop)))
    return found


def compare(name: str, data: bytes) -> None:
    """Compare all nodes of the parser's tree with those of its compact form, packed and unpacked."""
    language = LANGUAGES[name]
    names = GRAMMARS.names(language.grammar or "")
    assert names is not None
    data, tree = read_tree(language, data, GRAMMARS)
    if isinstance(tree, str):
        return
    flat = flatten_tree(tree, names, data)
    stored = CompactTree.unpack(flat.pack(), names, data)
    waiting: list[tuple[Any, SyntaxNode, SyntaxNode]] = [(tree.root_node, flat.node(0), stored.node(0))]
    while waiting:
        parsed, one, other = waiting.pop()
        expected = facts(parsed, list(names.fields), tree.root_node)
        assert facts(one, list(names.fields), flat.node(0)) == expected
        assert facts(other, list(names.fields), stored.node(0)) == expected
        waiting += zip(parsed.children, one.children, other.children, strict=True)


@pytest.mark.parametrize("name", RESOLVED)
def test_every_node_of_the_examples_of_a_language_is_as_the_parser_has_it(name: str) -> None:
    for source in sources(name):
        compare(name, source)


@given(st.data())
def test_every_node_of_a_broken_text_is_as_the_parser_has_it(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(RESOLVED))
    text = data.draw(st.sampled_from(sources(name)))[:250]
    start = data.draw(st.integers(0, len(text)))
    added = data.draw(st.sampled_from([b"", b"(", b"}", b"def ", b'"', b"= 1 +", b"\xff\x00", b"\n\n", b"=>", b"<"]))
    compare(name, text[:start] + added + text[data.draw(st.integers(start, len(text))) :])


@given(st.data())
def test_a_damaged_tree_or_one_of_another_text_is_refused(data: st.DataObject) -> None:
    language = LANGUAGES["python"]
    names = GRAMMARS.names("python")
    assert names is not None
    text, tree = read_tree(language, sources("python")[0], GRAMMARS)
    assert not isinstance(tree, str)
    packed = flatten_tree(tree, names, text).pack()
    at = data.draw(st.integers(0, len(packed) - 1))
    change = data.draw(st.integers(1, 255))
    for damaged in (packed[:at], packed[:at] + bytes([packed[at] ^ change]) + packed[at + 1 :]):
        with pytest.raises(ValueError, match="damaged"):
            CompactTree.unpack(damaged, names, text)
    with pytest.raises(ValueError, match="another text"):
        CompactTree.unpack(packed, names, text[: len(text) // 2])


def test_two_nodes_are_equal_only_if_they_are_the_same_node_of_one_tree() -> None:
    names = GRAMMARS.names("python")
    assert names is not None
    text, tree = read_tree(LANGUAGES["python"], b"a = a\n", GRAMMARS)
    assert not isinstance(tree, str)
    one, other = (flatten_tree(tree, names, text) for _ in range(2))
    nodes = [one.node(number) for number in range(4)]
    assert nodes == [one.node(number) for number in range(4)]
    assert len({node.id for node in (*nodes, *(other.node(number) for number in range(4)))}) == 8
    assert other.node(1) not in nodes
