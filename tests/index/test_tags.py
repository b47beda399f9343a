"""Documents carry tags in front matter and as `#hashtags`; what only looks like one is none."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.index.chunking import CHUNK_CHARS_MAX
from context_engine.index.file_roles import front_matter_tags, inline_tag_places
from tests.support.engines import described


@pytest.mark.parametrize(
    ("matter", "tags"),
    [
        ("tags: [Auth, web api]", ["auth", "web api"]),
        ("tags: Auth, web api", ["auth", "web api"]),
        ("tags:\n- b\n- A\n- b", ["a", "b"]),
        ("tags: 2024", []),
        ("tags: [2024, 1.5, 2024-02-03]", ["1.5", "2024", "2024-02-03"]),
        ("tags: [x, null, '', ' ']", ["x"]),
        ("tags: [x, {a: b}, [c]]", ["x"]),
        ("tags:", []),
        ("title: tags", []),
        ("- tags", []),
        ("tags: [unclosed", []),
        ("tags: [x]\ndate: 2024-99-99", ["x"]),
        ("tags: [x]\nnumber: " + "9" * 5_000, []),
        ("tags: " + "[" * 1_000, []),
        ("tags: [x]\n? [a, {b: c}]\n: d", []),
    ],
)
def test_front_matter_names_its_tags_and_never_fails(matter: str, tags: list[str]) -> None:
    assert front_matter_tags(f"---\n{matter}\n---\n# Title\n") == tags


def test_a_bomb_of_aliases_is_no_tag() -> None:
    steps = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))
    assert front_matter_tags(f"---\na0: &a0 [x]\n{steps}\ntags: [*a11, ok]\n---\n") == []


@given(st.text("-: []{}tags\n&*!|>'\"#0z", max_size=30))
def test_front_matter_of_any_kind_is_survived(matter: str) -> None:
    front_matter_tags(f"---\ntags: {matter}\n---\n")


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#auth first", ["auth"]),
        ("see #Auth, (#user-model) and #area/login;", ["area/login", "auth", "user-model"]),
        ("issue #12 and #v2", ["v2"]),
        ("# Heading\n## Second", []),
        ("colours #fff #ffcc00 #FFCC00AA #abcd", []),
        ("#defaced is a word of seven letters", ["defaced"]),
        ("#include <stdio.h>\n#define X\n#pragma once\n#endif", []),
        ("#error-handling and #if-then-else", ["error-handling", "if-then-else"]),
        ("`#code` and `a #b c`", []),
        ("C#sharp and a#b", []),
        ("```\n#fenced\n```\n#after", ["after"]),
        ("~~~\n```\n#fenced\n~~~\n#after", ["after"]),
        ("```sh\n#fenced never closed", []),
        ("    #indented code", []),
        ("#tag#other", []),
        ("", []),
    ],
)
def test_hashtags_are_told_from_headings_code_colours_and_numbers(text: str, tags: list[str]) -> None:
    assert sorted({tag for _, tag in inline_tag_places(text)}) == tags


@given(
    st.lists(st.sampled_from(["#auth", "`#no`", "#12", "word", "```", "\n", "    ", "#x-y"]), max_size=12).map(" ".join)
)
@example("`a` #auth `b`")
def test_a_tag_stands_where_it_is_said_to(text: str) -> None:
    for offset, tag in inline_tag_places(text):
        assert text[offset + 1 : offset + 1 + len(tag)].lower() == tag


def test_a_tag_belongs_to_the_piece_it_stands_in() -> None:
    text = f"# One\n\nAbout #auth. {'word ' * 30}\n\n# Two\n\nAbout #billing. {'word ' * 30}\n"
    assert tags_by_piece(text) == [["auth"], ["billing"]]


def test_a_code_fence_longer_than_a_piece_holds_no_tags() -> None:
    code = "\n\n".join(f"line {n} #tagged" for n in range(CHUNK_CHARS_MAX // 4))
    text = f"# One\n\n#before\n\n```\n{code}\n```\n\n#after\n"
    held = tags_by_piece(text)
    assert len(held) > 2
    assert [tag for tags in held for tag in tags] == ["before", "after"]


def tags_by_piece(text: str) -> list[list[str]]:
    """The inline tags of each piece of a Markdown document."""
    file = described("a.md", text)
    return [list(file.chunk_tags.get(number, ())) for number in range(len(file.chunks))]
