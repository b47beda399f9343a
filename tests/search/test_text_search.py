"""What a text search decides: globs, keywords on lines, the order of files, pages and their cursors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import InvalidArgument
from context_engine.model import RelPath, TextFile, TextQuery
from context_engine.search.text_search import (
    GlobSet,
    definition_pattern,
    expand_braces,
    hash_search,
    limit_matches,
    rank_files,
    select_page,
    sort_by_keywords,
)
from context_engine.text import format_cursor, parse_cursor


def file(path: str, lines: int = 1, *, by: tuple[int, ...] = (), size: int = 100, defines: bool = False) -> TextFile:
    return TextFile(RelPath(path), size, lines, by or (lines,), defines)


# -- globs --


@pytest.mark.parametrize(
    ("globs", "named", "not_named"),
    [
        (["*.py"], ["a.py", "src/a.py"], ["a.pyc", "py/a"]),
        (["**/*.ts"], ["a.ts", "src/x/a.ts"], ["a.tsx"]),
        (["src/**"], ["src/a", "src/b/c"], ["lib/src/a", "srcs/a"]),
        (["src/*.py"], ["src/a.py"], ["src/b/a.py"]),
        (["docs/"], ["docs/a", "x/docs/b/c"], ["docs", "mydocs/a"]),
        (["./src/a.py"], ["src/a.py"], ["a.py"]),
        (["src\\*.py"], ["src/a.py"], ["a.py"]),
        (["*.{ts,tsx}", "!*.d.ts"], ["a.ts", "a.tsx"], ["a.d.ts", "a.js"]),
        (["**/*"], ["a", "a/b.c"], []),
        ([], [], ["a"]),
    ],
)
def test_globs_name_paths_as_in_an_ignore_file(globs: list[str], named: list[str], not_named: list[str]) -> None:
    chosen = GlobSet(globs)
    assert [path for path in named if not chosen.matches(path)] == []
    assert [path for path in not_named if chosen.matches(path)] == []


def test_braces_that_stand_for_too_much_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="more than 100"):
        expand_braces("{a,b}" * 7)


# -- keywords --


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2)), unique=True, max_size=12), st.integers(1, 12))
def test_the_rows_that_are_shown_hold_every_keyword_that_there_is_room_for(
    places: list[tuple[int, int]], most: int
) -> None:
    rows = sorted((line, 1, keyword) for line, keyword in places)
    shown = limit_matches(rows, most)
    assert shown == sorted(shown)
    assert len(shown) == min(most, len(rows))
    assert len({row[2] for row in shown}) == min(most, len({row[2] for row in rows}))


# -- order --


def test_files_come_by_queries_then_definition_then_path_then_density() -> None:
    files = [
        file("z/often.py", 9),
        file("z/seldom.py", 1, size=9_000_000),
        file("a/login.py", 1),
        file("z/defines.py", 1, defines=True),
        file("z/both.py", 2, by=(1, 1)),
    ]
    order = [each.path for each in rank_files(files, ["login"])]
    assert order == ["z/both.py", "z/defines.py", "a/login.py", "z/often.py", "z/seldom.py"]


def test_scout_puts_most_distinct_keywords_first_then_matches_then_the_path() -> None:
    files = [file("c", by=(9, 0)), file("b", by=(1, 1)), file("a", by=(9, 0)), file("d", by=(2, 1))]
    assert [each.path for each in sort_by_keywords(files)] == ["d", "b", "a", "c"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("def login(user):", "login"),
        ("    async def login(self):", "login"),
        ("class Login(Base):", "Login"),
        ("export const login = () => 1", "login"),
        ("func (s *Server) Login(w http.ResponseWriter) {", "Login"),
        ("pub fn login() -> bool {", "login"),
        ("public interface Login {", "Login"),
        ("def self.login", "login"),
    ],
)
def test_a_line_that_defines_a_name_is_known(line: str, name: str) -> None:
    import re

    assert re.search(definition_pattern([name]), line)
    assert not re.search(definition_pattern([name]), f"return {name}(user)")
    assert not re.search(definition_pattern([name]), line.replace(name, f"{name}Other"))


# -- pages --

FILES = st.lists(st.integers(1, 9), max_size=6).map(
    lambda counts: [file(f"f{number}", count) for number, count in enumerate(counts)]
)


@given(FILES, st.integers(1, 7))
def test_the_pages_one_after_the_other_are_the_whole_answer(files: list[TextFile], limit: int) -> None:
    every = [(each.path, number) for each in files for number in range(each.lines)]
    shown, start = [], 0
    while parts := select_page(files, start, limit):
        taken = [(part.path, number) for part in parts for number in range(part.skip, part.skip + part.take)]
        assert len(taken) == min(limit, len(every) - start)
        shown += taken
        start = parse_cursor(format_cursor(start + len(taken), "01234567"), "01234567")
    assert shown == every


def test_a_cursor_is_refused_when_question_or_answer_changed() -> None:
    query, files = TextQuery(("x",)), [file("a", 2), file("b", 1)]
    sent = format_cursor(1, hash_search(query, files))
    assert parse_cursor(sent, hash_search(query, files)) == 1
    for other in (
        hash_search(TextQuery(("y",)), files),
        hash_search(query, [file("a", 2)]),
        hash_search(query, [file("a", 3), file("b", 1)]),
        hash_search(query, files[::-1]),
    ):
        with pytest.raises(InvalidArgument, match="changed since"):
            parse_cursor(sent, other)
