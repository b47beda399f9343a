"""A function that the title of a long question names, and that is defined once, is the first place of the answer."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

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


def test_the_tests_of_a_function_do_not_make_its_name_ambiguous(tmp_path: Path) -> None:
    files = {**REPOSITORY, "tests/test_tools.py": f"import zoo\n\n\n{HELPER}\n\ndef test_it():\n    assert zoo\n"}
    with open_tree(tmp_path, files) as engine:
        assert first_hit(engine, "Speed up write_string of the tools").chunk.path == "zoo/tools.py"


def test_words_choose_the_part_of_a_long_function_that_the_title_names(tmp_path: Path) -> None:
    lines = [f"    out.pad({number})" for number in range(120)]
    lines[90:90] = ["    buffer = bytes(text)  # the allocation: each string of an encoder is copied to the heap"]
    long = "def write_string(out, text):\n" + "\n".join(lines) + "\n"
    with open_tree(tmp_path, {**ENCODERS, "zoo/tools.py": long}) as engine:
        hit = first_hit(engine, "Speed up write_string")
        assert hit.chunk.path == "zoo/tools.py" and "buffer = bytes(text)" in hit.chunk.text


def test_a_class_in_the_title_does_not_win_by_its_name_alone(tmp_path: Path) -> None:
    files = {**REPOSITORY, "zoo/tools.py": f"class StringWriter:\n    pass\n\n\n{FILLER}"}
    with open_tree(tmp_path, files) as engine:
        assert first_hit(engine, "Speed up StringWriter").chunk.path in ENCODERS
