"""A rename changes what surely means the definition, tells what may, and leaves every other byte alone.

`specs/renaming.md` is run here: files, what to `rename`, which files it `becomes` (all others stay), and the places it
is `unsure` of with the reason; or `refused CODE` with words of the refusal.
"""

from __future__ import annotations

import json
import keyword

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from context_engine.edit.rename import Renamer, Renaming
from context_engine.edit.rename_sources import RenameFiles
from context_engine.errors import CallError, InvalidArgument
from context_engine.languages import Grammars, Languages, PathIndex
from tests.project.test_specs import SPECS, Case, cases, content
from tests.support.engines import GRAMMARS

LANGUAGES = Languages.builtin()
SPEC = cases(SPECS / "renaming.md")


@pytest.fixture
def grammars() -> Grammars:
    """The parsers, unpacked once for all tests."""
    return GRAMMARS


def renaming(files: dict[str, bytes], name: str, new_name: str, grammars: Grammars, under: str = "") -> Renaming:
    return Renamer(RenameFiles(LANGUAGES, grammars, PathIndex(files), files.get)).plan_renaming(
        name, new_name, files, under=under
    )


def written(files: dict[str, bytes], found: Renaming) -> dict[str, bytes]:
    """The files with all sure places renamed."""
    new = {change.path: change.plan(files.get(change.path)).data for change in found.changes}
    return {path: data for path, data in (files | new).items() if data is not None}


@pytest.mark.parametrize("case", SPEC, ids=[case.name for case in SPEC])
def test_the_specification_of_renaming_holds(case: Case, grammars: Grammars) -> None:
    files = {each.options["path"]: content(each) for each in case.blocks if each.kind == "file"}
    asked, refused = case.one("rename"), case.one("refused")
    assert asked is not None
    name, new_name, under = asked.options["name"], asked.options["to"], asked.options.get("path", "")
    if refused:
        with pytest.raises(CallError) as caught:
            renaming(files, name, new_name, grammars, under)
        told = json.dumps(caught.value.as_dict(), ensure_ascii=False)
        assert {caught.value.code} == set(refused.options), told
        assert [words for words in refused.text.splitlines() if words not in told] == [], told
        assert caught.value.suggestion
        return
    found, unsure = renaming(files, name, new_name, grammars, under), case.one("unsure")
    become = {each.options["path"]: content(each) for each in case.blocks if each.kind == "becomes"}
    assert unsure is not None
    gone = {each.options.get("from", "") for each in case.blocks if each.kind == "becomes"}
    assert written(files, found) == {path: data for path, data in files.items() if path not in gone} | become
    assert [f"{place.path}:{place.line} {place.why}" for place in found.uncertain] == unsure.text.splitlines()


WORLD = {
    case.name: {each.options["path"]: content(each) for each in case.blocks if each.kind == "file"}
    for case in SPEC
    if not case.one("refused")
}
NAMES = st.from_regex(r"[a-z]{3,9}_fresh[A-Z]?", fullmatch=True).filter(lambda name: not keyword.iskeyword(name))


def test_a_rename_there_and_back_restores_every_byte(grammars: Grammars) -> None:
    """Not of a Java class: its file would have to be renamed as well, so that imports lead to it."""

    @given(st.sampled_from([case for case in SPEC if case.name in WORLD and not case.name.startswith("Java:")]), NAMES)
    def holds(case: Case, fresh: str) -> None:
        asked = case.one("rename")
        assert asked is not None
        files, name, under = WORLD[case.name], asked.options["name"], asked.options.get("path", "")
        there = renaming(files, name, fresh, grammars, under)
        assume(
            not any("another meaning" in place.why for place in there.uncertain)
        )  # half renamed: the way back is barred
        new = written(files, there)
        owner = name.rpartition(".")[0]
        back = written(
            new,
            renaming(
                new, f"{owner}.{fresh}" if owner or name.startswith(".") else fresh, there.name, grammars, there.path
            ),
        )
        assert {path: data.replace(b"{ add: add,", b"{ add,") for path, data in back.items()} == files

    holds()


def test_outside_of_its_places_no_byte_changes(grammars: Grammars) -> None:
    @given(st.sampled_from(sorted(WORLD)), NAMES)
    def holds(name: str, fresh: str) -> None:
        case, files = next(case for case in SPEC if case.name == name), WORLD[name]
        asked = case.one("rename")
        assert asked is not None
        found = renaming(files, asked.options["name"], fresh, grammars, asked.options.get("path", ""))
        new = written(files, found)
        for path, data in files.items():
            places = [place for place in found.certain if place.path == path]
            now = path if path in new else path.replace(f"/{found.name}.java", f"/{fresh}.java")
            assert new[now].count(fresh.encode()) == len(places)
            labelled = b"{ %b: %b," % (found.name.encode(), fresh.encode())
            plain = new[now].replace(labelled, b"{ %b," % fresh.encode())
            assert plain.replace(fresh.encode(), found.name.encode()) == data

    holds()


def test_a_stale_file_is_noticed_when_it_is_written(grammars: Grammars) -> None:
    files = {"a.py": b"def feed(): ...\n"}
    (change,) = renaming(files, "feed", "serve", grammars).changes
    assert len(change.expected_hash) == 64  # the whole hash of what was looked at; the Editor refuses any other


def test_what_cannot_be_a_name_is_refused_before_anything_is_read(grammars: Grammars) -> None:
    for name in ("", "a b", "1a", "a.b", "a-b", "feed", "a\n"):
        with pytest.raises(InvalidArgument):
            Renamer(RenameFiles(LANGUAGES, grammars, PathIndex([]), lambda _: None)).plan_renaming(
                "feed", name, ["a.py"]
            )


def test_files_that_are_gone_or_binary_are_passed_over(grammars: Grammars) -> None:
    files = {"a.py": b"def feed(): ...\n", "b.bin": b"\0feed"}
    renamer = Renamer(RenameFiles(LANGUAGES, grammars, PathIndex(files), files.get))
    assert len(renamer.plan_renaming("feed", "serve", [*files, "gone.py"]).certain) == 1
