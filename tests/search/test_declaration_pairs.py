"""A header and the file that implements it are found by their names."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.search.declaration_pairs import IMPLEMENTATIONS, pair_declarations


@pytest.mark.parametrize(
    ("declaring", "others", "implementing"),
    [
        ("a/cat.h", ["a/cat.c", "b/cat.c"], "a/cat.c"),
        ("include/zoo/cat.hpp", ["src/cat.cpp", "src/zoo/cat.cpp"], "src/zoo/cat.cpp"),
        ("include/cat.h", ["lib/core/cat.mm"], "lib/core/cat.mm"),
        ("cat.mli", ["cat.ml", "cat.c"], "cat.ml"),
        ("zoo/cat.pyi", ["zoo/cat.pyx"], "zoo/cat.pyx"),
        ("cat.h", ["a/cat.c", "b/cat.c"], None),
        ("cat.h", ["cat.py", "cat.hpp", "cats.c"], None),
        ("cat.mli", ["cat.c"], None),
    ],
)
def test_a_file_is_paired_with_the_nearest_one_that_implements_it(
    declaring: str, others: list[str], implementing: str | None
) -> None:
    paths = [declaring, *others]
    found = {paths[first]: paths[second] for first, second in pair_declarations(paths)}
    assert found.get(declaring) == implementing


NAMES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "a/", "b/a/"]),
    st.sampled_from("xy"),
    st.sampled_from([".h", ".c", ".cc", ".ml", ".mli"]),
)


@given(st.lists(st.tuples(NAMES, st.booleans()), unique_by=lambda pair: pair[0]))
def test_files_that_are_gone_pair_as_if_they_had_never_been(files: list[tuple[str, bool]]) -> None:
    paths = [path for path, _ in files]
    named = [(paths[a], paths[b]) for a, b in pair_declarations(paths, [lives for _, lives in files])]
    living = [path for path, lives in files if lives]
    assert named == [(living[a], living[b]) for a, b in pair_declarations(living)]
    assert all(first.endswith(tuple(IMPLEMENTATIONS)) for first, _ in named)


def test_many_files_of_one_name_are_paired_in_linear_time() -> None:
    began = time.perf_counter()
    paths = [
        f"{side}/{number}/index{suffix}" for side, suffix in (("a", ".h"), ("b", ".c")) for number in range(20_000)
    ]
    assert len(pair_declarations(paths)) == 20_000
    assert time.perf_counter() - began < 2.0
