"""What a prompt names is found as it is written: paths, frames of any language, symbols; prose and addresses name nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.mentions import MENTIONS_MAX, extract_items, extract_objective, parse_mentions


def named(prompt: str) -> list[tuple[str, str, int]]:
    return [(each.kind, each.name, each.line) for each in parse_mentions(prompt)]


@pytest.mark.parametrize(
    ("prompt", "found"),
    [
        ("look at src/auth.py", [("path", "src/auth.py", 0)]),
        ("src/auth.py:12:4 fails.", [("path", "src/auth.py", 12)]),
        ("see ./lib/x.ts#L10-L20", [("path", "lib/x.ts", 10)]),
        ("in src\\zoo\\Cat.cs", [("path", "src/zoo/Cat.cs", 0)]),
        ("pages/[id].tsx and a-b/c_d.go", [("path", "pages/[id].tsx", 0), ("path", "a-b/c_d.go", 0)]),
        ('  File "/srv/zoo/cats.py", line 7, in purr', [("path", "/srv/zoo/cats.py", 7)]),
        ("    at purr (/srv/zoo/cats.js:7:19)", [("path", "/srv/zoo/cats.js", 7)]),
        ("    at purr (file:///srv/zoo/cats.mjs:7:19)", [("path", "/srv/zoo/cats.mjs", 7)]),
        ("at zoo.Cat.purr(Cat.java:7)", [("path", "zoo/Cat.java", 7)]),
        ("   at Zoo.Cat.Purr() in C:\\Zoo\\Cat.cs:line 7", [("symbol", "Zoo.Cat.Purr", 0), ("path", "/Zoo/Cat.cs", 7)]),
        ("#0 /srv/zoo/Cat.php(7): purr()", [("path", "/srv/zoo/Cat.php", 7), ("symbol", "purr", 0)]),
        ("in /srv/zoo/Cat.php on line 7", [("path", "/srv/zoo/Cat.php", 7)]),
        ("  --> src/cat.rs:7:13", [("path", "src/cat.rs", 7)]),
        ("\t/srv/zoo/cat.go:7 +0x1d", [("path", "/srv/zoo/cat.go", 7)]),
        ("/srv/zoo/cat.rb:7:in `purr'", [("path", "/srv/zoo/cat.rb", 7)]),
        ("rename `login` to sign_in", [("symbol", "login", 0), ("symbol", "sign_in", 0)]),
        ("call drain() or Pool.drain or Pool::drain", [("symbol", "drain", 0), ("symbol", "Pool::drain", 0)]),
        ("an IOError and zoo.CatError", [("error", "IOError", 0), ("symbol", "zoo.CatError", 0)]),
        ("a KeyError and a PoolEmptyException", [("error", "KeyError", 0), ("error", "PoolEmptyException", 0)]),
        ("https://a.example/x_y/z.py).", []),
        ("run `pytest -q tests/test_a.py`", [("path", "tests/test_a.py", 0)]),
        ("$ make lint", []),
        ("`useState` and useState again", [("symbol", "useState", 0)]),
    ],
)
def test_what_is_named_is_found(prompt: str, found: list[tuple[str, str, int]]) -> None:
    assert named(prompt) == found


@pytest.mark.parametrize(
    "prose",
    [
        "make it better",
        "and/or, i.e. the I/O of TCP/IP, e.g. 24/7, version 1.2.3, 50 %",
        "Login fails when the password is empty. Why?",
        "a well-known state-of-the-art end-to-end test",
        "$5 is too much, and user@example.org agrees",
        "Error: an Exception was raised",
    ],
)
def test_prose_names_nothing(prose: str) -> None:
    assert named(prose) == []


def test_what_only_looks_like_a_name_is_not_certain() -> None:
    doubted = {
        each.text
        for each in parse_mentions("GitHub, Node.js, print() and a ValueError; `sure`, so_sure, a/b.py")
        if not each.certain
    }
    assert doubted == {"GitHub", "Node.js", "print()", "ValueError"}


def test_names_in_a_code_fence_may_be_anybodys() -> None:
    prompt = "Why?\n```\nnp.zeros_like(x)\n```\nand `here`"
    assert [(each.name, each.certain) for each in parse_mentions(prompt)] == [("np.zeros_like", False), ("here", True)]


@given(st.text(max_size=300))
def test_every_mention_stands_in_the_prompt_as_it_is_told(prompt: str) -> None:
    found = parse_mentions(prompt)
    assert all(each.text in prompt for each in found) and len(found) <= MENTIONS_MAX


@pytest.mark.parametrize(
    "text", ["a/" * 5_000, "a." * 5_000, "`a" * 5_000, 'File "' * 1_600, " in /a." * 1_400, "/" * 10_000, "a::" * 3_300]
)
def test_no_prompt_of_the_longest_kind_is_slow(text: str) -> None:
    assert len(parse_mentions(text)) <= MENTIONS_MAX  # seconds, were it quadratic: the suite's own limit would show it


# -- what is asked to be done --


@pytest.mark.parametrize(
    ("prompt", "items"),
    [
        (
            "1. Rename foo to bar\n- [ ] Add tests\n* drop Python 3.8",
            ["Rename foo to bar", "Add tests", "drop Python 3.8"],
        ),
        ("```\n- remove this line\n```\nLogin fails.", []),
        ("Login fails - sometimes.\n-1 is returned", []),
    ],
)
def test_the_items_of_a_list_are_what_has_to_be_done(prompt: str, items: list[str]) -> None:
    assert extract_items(prompt) == items


@given(st.text(max_size=200))
def test_an_item_and_the_objective_are_words_of_the_prompt(prompt: str) -> None:
    assert all(item.removesuffix("…") in prompt for item in extract_items(prompt))
    assert extract_objective(prompt).removesuffix("…") in prompt
