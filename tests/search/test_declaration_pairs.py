"""A header and the file that implements it are found by their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.search.rankers import IMPLEMENTATIONS, pair_declarations
from context_engine.search.searcher import Searcher
from tests.support.engines import indexed
from tests.support.trees import tree


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


def test_pairs_are_kept_over_edits_and_follow_files_that_come_and_go(tmp_path: Path) -> None:
    root = tree(
        tmp_path / "w", {"zoo/cat.h": "int purr();\n", "zoo/cat.c": "int purr() { return 1; }\n", "a.c": "int a = 1;\n"}
    )

    def named_pairs(searcher: Searcher) -> list[tuple[str, str]]:
        paths = searcher.snapshot.paths
        return [(paths[first], paths[second]) for first, second in searcher.view.declarations.tolist()]

    with indexed(root) as engine:
        first = engine.search.searcher()
        assert first is not None
        assert named_pairs(first) == [("zoo/cat.h", "zoo/cat.c")]
        for path, text, kept in (
            ("zoo/cat.c", "int purr() { return 2; }\n", [("zoo/cat.h", "zoo/cat.c")]),
            ("zoo/cat.h", "int purr();\nint hiss();\n", [("zoo/cat.h", "zoo/cat.c")]),
            ("a.h", "int a;\n", [("a.h", "a.c"), ("zoo/cat.h", "zoo/cat.c")]),
            ("zoo/cat.c", None, [("a.h", "a.c")]),
        ):
            before = engine.search.searcher()
            file = root / path
            if text is None:
                file.unlink()
            else:
                file.write_text(text)
            engine.index.builder.index_paths([path])
            now = engine.search.searcher()
            assert now is not None and now is not before
            assert sorted(named_pairs(now)) == kept
            assert sorted(named_pairs(Searcher(now.snapshot))) == kept
