"""Completion of paths and symbols over a real index, and the landmarks of a repository."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.engine import Engine
from context_engine.search.name_completion import find_best
from tests.support.engines import indexed, open_engine
from tests.support.trees import tree

FILES = {
    "README.md": "# Till\n\n## Logging in\n\nA shop.\n",
    "src/till/__main__.py": "from till.session import Session\n\n\ndef main():\n    Session('a').close()\n",
    "src/till/session.py": "class Session:\n    def __init__(self, user):\n        self.user = user\n\n"
    "    def close(self):\n        pass\n\n    def close_all(self):\n        pass\n\n\ndef request():\n    pass\n\n\ndef look_up():\n    pass\n",
    "src/till/web/Request.py": "class Request:\n    pass\n\n\ndef login_user():\n    pass\n",
    "src/till/web/style.css": ".Login { color: red }\n",
    "tests/test_session.py": "from till.session import Session\n\n\ndef test_it_closes():\n    Session('a').close()\n",
    "tests/app.py": "x = 1\n",
    "docs/manual.md": "# Manual\n",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("completing") / "till", FILES)) as engine:
        yield engine


def test_a_path_is_completed_from_its_beginning_from_a_part_and_from_pieces_of_parts(engine: Engine) -> None:
    assert engine.search.complete_path("src/till/s")[0] == ("src/till/session.py",)
    assert engine.search.complete_path("web/")[0] == ("src/till/web/Request.py", "src/till/web/style.css")
    assert engine.search.complete_path("till/req")[0] == ("src/till/web/Request.py",)
    assert engine.search.complete_path("./SRC\\till\\__m")[0] == ("src/till/__main__.py",)
    assert engine.search.complete_path("no/such")[0] == ()


def test_what_lies_near_the_top_comes_first_and_the_count_is_of_all(engine: Engine) -> None:
    found, total = engine.search.complete_path("", limit=2)
    assert found == ("README.md", "docs/manual.md")
    assert total == len(FILES)
    assert engine.search.complete_path("session") == (("src/till/session.py", "tests/test_session.py"), 2)


def test_a_symbol_is_completed_as_its_author_spells_it_and_as_it_was_typed(engine: Engine) -> None:
    assert engine.search.complete_symbol("clo") == (("close", "close_all"), 2)
    assert engine.search.complete_symbol("loginU") == (("login_user",), 1)
    assert engine.search.complete_symbol("Req")[0] == ("Request",)
    assert engine.search.complete_symbol("req")[0] == ("request",)


def test_after_an_owner_its_members_are_completed(engine: Engine) -> None:
    assert engine.search.complete_symbol("Session.cl") == (("Session.close", "Session.close_all"), 2)
    assert engine.search.complete_symbol("session::__I")[0] == ("Session.__init__",)
    assert engine.search.complete_symbol("Nobody.cl") == ((), 0)


def test_a_deleted_file_and_its_symbols_are_no_longer_offered(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "till", FILES)) as engine:
        (tmp_path / "till" / "src/till/web/Request.py").unlink()
        engine.index.update()
        assert engine.search.complete_symbol("loginU") == ((), 0)
        assert engine.search.complete_symbol("lo", limit=1) == (("look_up",), 1)
        assert engine.search.complete_path("web/Req") == ((), 0)


def test_without_an_index_nothing_is_offered(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "till", FILES)) as engine:
        assert engine.search.complete_path("s") == ((), 0)
        assert engine.search.complete_symbol("s") == ((), 0)


NAMES = st.lists(
    st.text("ab/", min_size=1, max_size=6).map(lambda path: path.strip("/") or "a"), unique=True, max_size=9
)


@given(NAMES, st.text("ab/", max_size=3), st.integers(1, 9))
def test_the_limit_cuts_a_list_that_does_not_depend_on_it(paths: list[str], typed: str, limit: int) -> None:
    known = [(path.lower(), path) for path in paths]
    whole, total = find_best(known, typed, 9)
    assert find_best(known, typed, limit) == (whole[:limit], total)
    assert set(whole) <= set(paths)
    assert {path for path in paths if typed.lstrip("/") in path} <= set(whole)


@given(NAMES, st.text("ab/", max_size=3))
def test_what_begins_as_it_was_typed_comes_before_all_else(paths: list[str], typed: str) -> None:
    whole, _ = find_best([(path, path) for path in paths], typed, 9)
    begins = [path.startswith(typed.lstrip("/")) for path in whole]
    assert begins == sorted(begins, reverse=True)
