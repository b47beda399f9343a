"""A question of any length is taken apart: what identifies weighs most, templates and numbers weigh nothing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.index import PathEnd, term_hashes
from context_engine.model import QUESTION_CHARS_MAX
from context_engine.search.named_places import FOUND_MAX, find_paths, find_places
from context_engine.search.question import FOCUS_CHARS_MAX, NAMES_MAX, WORDS_MAX, Question
from context_engine.text import query_terms


def weights_of(text: str) -> dict[str, float]:
    return dict(Question.of(text).words)


# -- words and weights --


@given(st.text(st.characters(exclude_characters="\n\r#[]"), max_size=100))
@example("$")
def test_all_terms_of_a_short_question_weigh_one(text: str) -> None:
    question = Question.of(text)
    assert question.hashes.tolist() == term_hashes(query_terms(text.strip())).tolist()
    assert set(question.weights.tolist()) <= {1.0} and set(question.words.values()) <= {1.0}


@given(
    st.lists(
        st.sampled_from(
            ["a pool leaks", "`drain_all`", "```", "## Steps", "- [ ] x", "KeyError: 1", "a.py:3", "", "\t"]
        ),
        max_size=40,
    )
)
def test_every_term_has_a_weight_between_zero_and_one(lines: list[str]) -> None:
    question = Question.of("\n".join(lines))
    assert len(question.hashes) == len(question.weights)
    assert all(0 < weight <= 1 for weight in [*question.weights.tolist(), *question.words.values()])


ISSUE = """\
Pool leaks a connection

### Describe the bug
- [x] I have searched the existing issues
The `drain_all` method of the pool forgets one. It was seen by https://tracker.example.org/zebra since 2.11.4.

2024-05-01T12:00:01Z INFO [worker] heartbeat 550e8400-e29b-41d4-a716-446655440000
ValueError: no idle connection

### Environment
OS: Ubuntu, Kernel giraffe

Signed-off-by: Walter <walter@example.org>
"""


def test_the_title_weighs_more_than_names_and_errors_and_these_more_than_prose() -> None:
    weights = weights_of(ISSUE)
    assert weights["leaks"] > weights["drain"] >= weights["idle"] > weights["forgets"] > weights["heartbeat"] > 0


@pytest.mark.parametrize("noise", ["searched", "zebra", "2024", "11", "giraffe", "walter", "describe", "446655440000"])
def test_templates_hosts_numbers_and_trailers_weigh_nothing(noise: str) -> None:
    assert noise not in weights_of(ISSUE)


@pytest.mark.parametrize("line", ["pool.zebra_all(keys);", "if (zebra_all) {", "}, zebra_all }", "#if zebra_all"])
def test_code_without_a_fence_weighs_less_than_prose(line: str) -> None:
    weights = weights_of(f"Pool leaks\n\nIt forgets zebra_one; giraffe\n{line}\nwhen it is drained.")
    assert 0 < weights["all"] < weights["giraffe"] < weights["one"]


def test_the_prefix_of_a_backport_weighs_nothing_and_a_scope_does() -> None:
    assert Question.of("[PR #13180/ee53d655 backport][3.14] drop headers").words.keys() == {"drop", "headers"}
    assert Question.of("[core] drop headers").words.keys() == {"core", "drop", "headers"}


@pytest.mark.parametrize(
    "line",
    ["Please fix the following issue:", "Change this repository as this commit message says:", "I get this error:"],
)
def test_a_line_that_announces_the_rest_is_no_title(line: str) -> None:
    assert weights_of(f"{line}\n\n{ISSUE}") == weights_of(ISSUE)
    assert Question.of(f"{line}\n\nPool leaks").words.keys() == {"pool", "leaks"}


@pytest.mark.parametrize("line", ["Fix the leak of this pool:", "Pool:", "Fix bug"])
def test_a_line_that_says_something_is_a_title(line: str) -> None:
    title, _, last = line.rpartition(" ")
    assert weights_of(f"{line}\n\nIt forgets one")[last.strip(":").lower()] == 1.0, title


def test_an_issue_in_one_line_has_a_title_too() -> None:
    weights = weights_of("The pool leaks. " + "It is not clear to anybody why that happens at night. " * 6)
    assert weights["leaks"] > weights["night"]


def test_only_the_title_of_a_long_question_asks_for_tests() -> None:
    assert Question.of("Pool leaks\n\nAll tests pass in our documentation.").lifted == frozenset()
    assert Question.of("Tests of the pool leak\n\nIt fails.").lifted == {"test"}


def test_the_focus_is_a_short_question_itself_and_of_a_long_one_what_tells() -> None:
    assert Question.of("where are pools drained").focus == "where are pools drained"
    focus = Question.of(ISSUE * 50).focus
    assert focus.startswith("Pool leaks a connection") and "heartbeat" not in focus and len(focus) <= FOCUS_CHARS_MAX


@given(st.text(max_size=400), st.integers(1, 400))
def test_a_question_of_any_length_counts_a_bounded_number_of_words(text: str, times: int) -> None:
    question = Question.of((f"pool\n{text} " * times)[:QUESTION_CHARS_MAX])
    assert len(question.places) <= 4 * FOUND_MAX
    assert len(question.words) <= WORDS_MAX * 50 and len(question.focus) <= FOCUS_CHARS_MAX


@pytest.mark.parametrize(
    "part",
    [
        *("a", "a ", "a\n", "`a", "[1", "<!--", "a.py:1\n", "a.py ", "a/", "a.", "a::", "É", "```\n", "\x1b[1;"),
        *("@@ -1\n ", "Aa", 'File "', " in /a.", "/", "- a\n"),
    ],
)
def test_the_longest_questions_are_read_in_a_moment(part: str) -> None:
    question = Question((part * QUESTION_CHARS_MAX)[:QUESTION_CHARS_MAX])
    # Minutes, were it quadratic: the limit of the suite would show it.
    assert len(question.names) <= NAMES_MAX and len(question.items) <= 8 and question.is_task in (True, False)
    assert len(question.objective) <= len(question.text)


# -- places --


@pytest.mark.parametrize(
    ("trace", "innermost"),
    [
        (
            '  File "/srv/zoo/app.py", line 3, in main\n    run()\n  File "/srv/zoo/cats.py", line 7, in purr',
            "cats.py:7",
        ),
        ("tests/test_a.py:3: in test_b\n    purr()\nzoo/cats.py:7: KeyError", "zoo/cats.py:7"),
        ("    at purr (/srv/zoo/cats.js:7:19)\n    at main (/srv/zoo/app.js:3:1)", "cats.js:7"),
        ("\tat com.zoo.Cat.purr(Cat.java:7)\n\tat com.zoo.App.main(App.java:3)", "com/zoo/Cat.java:7"),
        ("\tat com.zoo.CatKt.purr(Cat.kt:7)\n\tat com.zoo.AppKt.main(App.kt:3)", "com/zoo/Cat.kt:7"),
        (
            "goroutine 1 [running]:\nmain.purr(...)\n\t/srv/zoo/cat.go:7 +0x1d\nmain.main()\n\t/srv/zoo/main.go:3 +0x2f",
            "cat.go:7",
        ),
        (
            "thread 'main' panicked at src/cat.rs:7:5:\nboom\n   1: zoo::main\n      at ./src/main.rs:3:4",
            "src/cat.rs:7",
        ),
        ("    #0 0x4f in zoo::purr(int) /src/zoo/cat.cc:7:5\n    #1 0x5a in main /src/zoo/main.cc:3", "cat.cc:7"),
        ("#0  purr (x=1) at cat.c:7\n#1  0x0040 in main () at main.c:3", "cat.c:7"),
        ("   at Zoo.Cat.Purr() in C:\\Zoo\\Cat.cs:line 7\n   at Zoo.App.Main() in C:\\Zoo\\App.cs:line 3", "Cat.cs:7"),
        ("/srv/zoo/cat.rb:7:in `purr'\n\tfrom /srv/zoo/app.rb:3:in `<main>'", "cat.rb:7"),
        ("#0 /srv/zoo/Cat.php(7): purr()\n#1 /srv/zoo/app.php(3): main()", "Cat.php:7"),
        (
            "    (zoo 1.2.0) lib/zoo/cat.ex:7: Zoo.Cat.purr/1\n    (zoo 1.2.0) lib/zoo.ex:3: Zoo.main/0",
            "lib/zoo/cat.ex:7",
        ),
    ],
)
def test_the_innermost_frame_of_a_trace_comes_first(trace: str, innermost: str) -> None:
    first, second = find_places(f"It fails:\n{trace}\n")
    assert f"{first.path}:{first.line}".endswith(innermost) and first.weight > second.weight and second.line == 3


@pytest.mark.parametrize(
    ("frame", "function"),
    [
        ('  File "/srv/zoo/cats.py", line 7, in purr\n    run()', "purr"),
        ('  File "/srv/zoo/cats.py", line 7, in <module>', ""),
        ("tests/test_a.py:3: in test_b\n    purr()", "test_b"),
        ("zoo/cats.py:7: KeyError", ""),
        ("    at purr (/srv/zoo/cats.js:7:19)", "purr"),
        ("    at async Cat.purr [as meow] (file:///srv/zoo/cats.mjs:7:19)", "purr"),
        ("    at file:///srv/zoo/cats.mjs:7:19", ""),
        ("    at Object.<anonymous> (/srv/zoo/cats.js:7:19)", ""),
        ("\tat app//com.zoo.Cat$Paw.purr(Cat.java:7)", "purr"),
        ("   at Zoo.Cat.Purr(String a) in C:\\Zoo\\Cat.cs:line 7", "Purr"),
        ("#1  0x4f in cat_purr (x=1) at cat.c:7", "cat_purr"),
        ("main.(*Cat).purr(0x1, {0x2, 0x3})\n\t/srv/zoo/cat.go:7 +0x1d", "purr"),
        ("   1: zoo::Cat::purr\n      at ./src/cat.rs:3:4", "purr"),
        ("   1: zoo::Cat::purr::{{closure}}\n      at ./src/cat.rs:3:4", ""),
        ("/srv/zoo/cat.rb:7:in `purr'", "purr"),
        ("/srv/zoo/cat.rb:7:in 'block in Zoo::Cat#purr'", "purr"),
    ],
)
def test_a_frame_names_its_function(frame: str, function: str) -> None:
    assert [place.function for place in find_places(f"It fails:\n{frame}\n")] == [function]


def test_the_first_trace_of_two_is_nearer_than_the_second() -> None:
    trace = "    at {0}2 (/srv/{0}/two.js:2:1)\n    at {0}1 (/srv/{0}/one.js:1:1)\n"
    places = find_places(trace.format("a") + "and then\n" * 100 + trace.format("b"))
    assert [place.path for place in places] == ["/srv/a/two.js", "/srv/a/one.js", "/srv/b/two.js", "/srv/b/one.js"]


def test_the_hunks_of_a_diff_are_the_first_lines_that_they_change() -> None:
    diff = "--- a/Makefile\n+++ b/Makefile\n@@ -5,3 +5,3 @@ all:\n one\n two\n-old\n+new\n@@ -20 +20 @@\n-x\n+y\n"
    assert [place[:2] for place in find_places(diff)] == [("Makefile", 7), ("Makefile", 20)]


@pytest.mark.parametrize("prose", ["version v1.2.c/x", "and/or, i.e. TCP/IP", "self.run(x)", "at 12:30", ""])
def test_prose_names_no_place(prose: str) -> None:
    assert find_places(prose) == []


@given(st.text(max_size=300))
def test_a_path_is_found_where_the_text_has_it(text: str) -> None:
    for mention in find_paths(text):
        name = mention.name.rpartition("/")[2]
        assert name in mention.text == text[mention.start : mention.start + len(mention.text)]


@given(st.lists(st.sampled_from(["a.py:3", "src/b.go", 'File "c.py", line 9', "\n", " at f (d.js:1:2)"]), max_size=30))
def test_each_place_is_named_once_and_weighs_something(parts: list[str]) -> None:
    places = find_places(" ".join(parts))
    assert len({place[:2] for place in places}) == len(places) and all(0 < place.weight <= 1 for place in places)


@given(st.lists(st.sampled_from(["a", "b", "..", ".", ""]), min_size=1, max_size=6), st.booleans())
def test_a_path_is_cut_from_the_left_and_its_bare_name_is_only_a_file_at_the_top(
    parts: list[str], is_absolute: bool
) -> None:
    path = "/" * is_absolute + "/".join(parts)
    real = [part for part in path.split("/") if part not in ("", ".", "..")]
    for tail in PathEnd.list_of(path):
        assert "/".join(real).endswith(tail.path) and 0 < tail.trust <= 1
        assert tail.path.count("/") or len(real) < 2 or tail.is_whole


# -- names --


def named(prompt: str) -> list[tuple[str, str, int]]:
    return [(each.kind, each.name, each.line) for each in Question.of(prompt).names]


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
        ("an HTTPServer that opens URLs", [("symbol", "HTTPServer", 0)]),
        ("drain it <!-- as in drain_all -->", []),
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
        for each in Question.of("GitHub, Node.js, print() and a ValueError; `sure`, so_sure, a/b.py").names
        if not each.certain
    }
    assert doubted == {"GitHub", "Node.js", "print()", "ValueError"}


def test_names_that_only_dots_mark_are_listed_apart() -> None:
    names = Question.of("call typer.Argument, `typer.Option` and a.py, e.g. in Asp.Net").dotted_names
    assert [each.name for each in names] == ["typer.Argument", "Asp.Net"] and not any(each.certain for each in names)


def test_names_in_a_code_fence_may_be_anybodys() -> None:
    prompt = "Why?\n```\nnp.zeros_like(x)\n```\nand `here`"
    assert [(each.name, each.certain) for each in Question.of(prompt).names] == [
        ("np.zeros_like", False),
        ("here", True),
    ]


@given(st.text(max_size=300))
def test_every_mention_stands_in_the_prompt_as_it_is_told(prompt: str) -> None:
    found = Question.of(prompt).names
    assert all(each.text in prompt for each in found) and len(found) <= NAMES_MAX


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
    assert Question.of(prompt).items == items


@given(st.text(max_size=200))
def test_an_item_and_the_objective_are_words_of_the_prompt(prompt: str) -> None:
    assert all(item.removesuffix("…") in prompt for item in Question.of(prompt).items)
    assert Question.of(prompt).objective.removesuffix("…") in prompt
