"""A rename changes what surely means the definition, tells what may, and leaves every other byte alone.

`specs/renaming.md` is run here: files, what to `rename`, which files it `becomes` (all others stay), and the places it
is `unsure` of with the reason; or `refused CODE` with words of the refusal.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.edit import Renaming
from context_engine.engine import Engine
from context_engine.errors import CallError, InvalidArgument
from tests.project.test_specs import SPECS, Case, cases
from tests.support.engines import indexed

SPEC = cases(SPECS / "renaming.md")


@contextmanager
def project(files: dict[str, bytes]) -> Generator[Engine]:
    """An indexed project with these files."""
    with TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        for path, data in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        with indexed(root) as engine:
            yield engine


def renaming(files: dict[str, bytes], name: str, new_name: str, under: str = "") -> Renaming:
    with project(files) as engine:
        return engine.edits.rename_symbol(name, new_name, path=under)


def written(files: dict[str, bytes], found: Renaming) -> dict[str, bytes]:
    """The files with all sure places renamed."""
    new = {change.path: change.plan(files.get(change.path)).new_data for change in found.changes}
    return {path: data for path, data in (files | new).items() if data is not None}


@pytest.mark.parametrize("case", SPEC, ids=[case.name for case in SPEC])
def test_the_specification_of_renaming_holds(case: Case) -> None:
    files = case.files()
    asked, refused = case.one("rename"), case.one("refused")
    assert asked is not None
    name, new_name, under = asked.options["name"], asked.options["to"], asked.options.get("path", "")
    if refused:
        with pytest.raises(CallError) as caught:
            renaming(files, name, new_name, under)
        told = json.dumps(caught.value.as_dict(), ensure_ascii=False)
        assert {caught.value.code} == set(refused.options), told
        assert [words for words in refused.text.splitlines() if words not in told] == [], told
        assert caught.value.suggestion
        return
    found, unsure = renaming(files, name, new_name, under), case.one("unsure")
    become = case.files("becomes")
    assert unsure is not None
    gone = {each.options.get("from", "") for each in case.blocks if each.kind == "becomes"}
    assert written(files, found) == {path: data for path, data in files.items() if path not in gone} | become
    assert [f"{place.path}:{place.line} {place.why}" for place in found.uncertain] == unsure.text.splitlines()


WORLD = {case.name: case.files() for case in SPEC if not case.one("refused")}
NAMES = st.from_regex(r"[a-z]{3,9}_fresh[A-Z]?", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))


def test_a_rename_there_and_back_restores_every_byte() -> None:
    """Not of a Java class: its file would have to be renamed as well, so that imports lead to it.

    The way back is refused where a block has the old name.
    """

    @settings(max_examples=20)
    @given(
        st.sampled_from(
            [case for case in SPEC if case.name in WORLD and not case.name.startswith(("Java:", "JavaScript: a block"))]
        ),
        NAMES,
    )
    def holds(case: Case, fresh: str) -> None:
        asked = case.one("rename")
        assert asked is not None
        files, name, under = WORLD[case.name], asked.options["name"], asked.options.get("path", "")
        there = renaming(files, name, fresh, under)
        new = written(files, there)
        owner = name.rpartition(".")[0]
        back = written(
            new,
            renaming(new, f"{owner}.{fresh}" if owner or name.startswith(".") else fresh, there.name, there.path),
        )
        assert {path: data.replace(b"{ add: add,", b"{ add,") for path, data in back.items()} == files

    holds()


def test_outside_of_its_places_no_byte_changes() -> None:
    @settings(max_examples=20)
    @given(st.sampled_from(sorted(WORLD)), NAMES)
    def holds(name: str, fresh: str) -> None:
        case, files = next(case for case in SPEC if case.name == name), WORLD[name]
        asked = case.one("rename")
        assert asked is not None
        found = renaming(files, asked.options["name"], fresh, asked.options.get("path", ""))
        new = written(files, found)
        for path, data in files.items():
            places = [place for place in found.certain if place.path == path]
            now = path if path in new else path.replace(f"/{found.name}.java", f"/{fresh}.java")
            assert new[now].count(fresh.encode()) == len(places)
            labelled = b"{ %b: %b," % (found.name.encode(), fresh.encode())
            plain = new[now].replace(labelled, b"{ %b," % fresh.encode())
            assert plain.replace(fresh.encode(), found.name.encode()) == data

    holds()


def test_what_cannot_be_a_name_is_refused_before_anything_is_read() -> None:
    with project({"a.py": b"def feed(): ...\n"}) as engine:
        for name in ("", "a b", "1a", "a.b", "a-b", "feed", "a\n"):
            with pytest.raises(InvalidArgument):
                engine.edits.rename_symbol("feed", name)
