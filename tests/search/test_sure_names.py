"""A function that a long question names surely is the first place of the answer.

Either its title names the function and it is defined once, or its title or lead names the function with its owner.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.model import Hit, Query
from tests.support.engines import indexed
from tests.support.trees import tree

BODY = """

The heap grows with each string that an encoder writes, because the writer copies the string into a new buffer of bytes
before the encoder writes it. Encoders write many strings, so the allocation of the buffer shows in each profile.
"""
HELPER = 'def write_string(writer, string):\n    """Write a string."""\n    writer.send(bytes(string))\n'
ENCODERS = {
    f"zoo/{name}_encoder.py": f'"""Encode {name}: the encoder writes strings to a writer, from a buffer of bytes."""\n\n\n'
    + "\n\n".join(
        f"def encode_{part}(writer, string):\n"
        f'    """Write the string of the {part}: the heap allocation of the buffer is in the encoder."""\n'
        f"    buffer = bytes(string)\n    write_string(writer, buffer)\n"
        for part in ("head", "body", "tail", "paw")
    )
    for name in ("cat", "dog", "owl")
}
FILLER = "\n\n".join(f"def pad_{number}(out):\n    return out.pad({number})\n" for number in range(60))
REPOSITORY = {**ENCODERS, "zoo/tools.py": f'"""Helpers."""\n\n\n{FILLER}\n\n{HELPER}'}


@contextmanager
def open_tree(folder: Path, files: Mapping[str, str]) -> Generator[Engine]:
    with indexed(tree(folder, dict(files))) as engine:
        yield engine


def first_hit(engine: Engine, title: str) -> Hit:
    return engine.search.find(Query(title + BODY, 5, chunks_per_file=1)).hits[0]


def test_a_function_that_the_title_names_and_that_is_defined_once_comes_first(tmp_path: Path) -> None:
    with open_tree(tmp_path, REPOSITORY) as engine:
        hit = first_hit(engine, "Speed up write_string")
        assert hit.chunk.path == "zoo/tools.py" and "def write_string" in hit.chunk.text
        assert "def write_string" not in first_hit(engine, "Speed up the strings").chunk.text


def test_a_name_that_is_defined_twice_leads_nowhere_by_itself(tmp_path: Path) -> None:
    files = {**REPOSITORY, "zoo/others.py": HELPER}
    with open_tree(tmp_path, files) as engine:
        assert first_hit(engine, "Speed up write_string").chunk.path in ENCODERS


USES = "        self.plant.water = self.valve.lost(self.night)\n" * 20
DRAIN = "    def drain(self):\n" + "        self.level = self.level - self.step\n" * 25
PLANT = {
    f"plant/{file}.py": f"class {owner}:\n"
    + "\n\n".join([*(f"    def {part}(self):\n{USES}" for part in ("fill", "close", "turn")), DRAIN])
    for file, owner in (("north", "Tank"), ("south", "Basin"), ("west", "Well"))
}
LOST = "Water is lost at night\n\nThe plant calls {} before the valve is closed."


def first_of_plant(engine: Engine, question: str) -> Hit:
    return engine.search.find(Query(question, 5, chunks_per_file=1)).hits[0]


@pytest.mark.parametrize("spelled", ["`Well.drain`", "Well#drain", "Well::drain()", "west.drain"])
def test_a_member_that_the_lead_names_with_its_owner_comes_first(tmp_path: Path, spelled: str) -> None:
    with open_tree(tmp_path, {**PLANT, "tests/test_west.py": PLANT["plant/west.py"]}) as engine:
        hit = first_of_plant(engine, LOST.format(spelled))
        assert hit.chunk.path == "plant/west.py" and "def drain" in hit.chunk.text
        assert "def drain" not in first_of_plant(engine, LOST.format("drain")).chunk.text


def test_a_member_of_another_owner_or_of_many_files_leads_nowhere(tmp_path: Path) -> None:
    with open_tree(tmp_path, {**PLANT, "plant/east.py": PLANT["plant/west.py"]}) as engine:
        two, none, suffix = (first_of_plant(engine, LOST.format(name)) for name in ("Well.drain", "Lake.drain", "a.py"))
        assert "def drain" in two.chunk.text
        assert "def drain" not in none.chunk.text and "def drain" not in suffix.chunk.text
    overloads = PLANT["plant/west.py"] + f"\n\n{DRAIN}\n\n{DRAIN}"
    with open_tree(tmp_path / "overloads", {**PLANT, "plant/west.py": overloads}) as engine:
        assert "def drain" not in first_of_plant(engine, LOST.format("Well.drain")).chunk.text
    many = {f"plant/well_{number}.py": PLANT["plant/west.py"] for number in range(3)}
    with open_tree(tmp_path / "many", {**PLANT, **many}) as engine:
        assert "def drain" not in first_of_plant(engine, LOST.format("Well.drain")).chunk.text


def test_a_test_that_a_long_question_says_it_ran_is_below_the_code(tmp_path: Path) -> None:
    test = "".join(
        f"def test_{part}_of_the_encoder():\n    # the heap allocation of the buffer: encoders write strings\n"
        f"    assert encode_{part}(writer, string)\n\n\n"
        for part in ("head", "body", "tail", "paw")
    )
    with open_tree(tmp_path, {**REPOSITORY, "tests/test_cat_encoder.py": test}) as engine:
        passing = first_hit(engine, "Encoders grow the heap\n\nI ran `pytest tests/test_cat_encoder.py`, all pass.")
        assert passing.chunk.path in ENCODERS
        failing = first_hit(engine, 'Encoders grow the heap\n\n  File "tests/test_cat_encoder.py", line 3, in test\n')
        assert failing.chunk.path == "tests/test_cat_encoder.py"
        asked = engine.search.find(Query("what is in tests/test_cat_encoder.py", 5, chunks_per_file=1)).hits[0]
        assert asked.chunk.path == "tests/test_cat_encoder.py"
