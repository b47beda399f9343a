"""What a text search decides: globs, keywords on lines, the order of files, pages and their cursors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.model import RelPath, TextFile
from context_engine.search.text_search import (
    GlobSet,
    definition_pattern,
    limit_matches,
    rank_files,
)


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


ODD = st.lists(
    st.text("ab[]{}*?!#, \\-^", min_size=1, max_size=6).filter(lambda part: part.strip() == part),
    min_size=1,
    max_size=3,
).map("/".join)


@given(st.lists(ODD, min_size=1, max_size=6, unique=True), st.data())
def test_the_path_of_a_file_means_that_file_whatever_brackets_it_has(paths: list[str], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path in paths if "\\" not in path] or ["a"]))
    chosen = GlobSet([f"./{path}"], paths)
    named = [one for one in [*paths, f"{path}/x"] if chosen.matches(one)]
    assert {path, f"{path}/x"} & {*paths, f"{path}/x"} <= set(named)
    if "/" in path:
        assert all(one == path or one.startswith(f"{path}/") for one in named)


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
