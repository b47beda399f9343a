"""Files are grouped as they are changed: by folder, what is imported before what imports it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.plans.plan_draft import folder_of, group_files


def test_of_folders_that_import_each_other_the_first_waits_for_the_other() -> None:
    groups = group_files(
        ["a/x.py", "b/y.py", "c/z.py"], {"a/x.py": {"b/y.py"}, "b/y.py": {"a/x.py"}, "c/z.py": {"a/x.py"}}
    )
    assert [(each.paths, each.needs) for each in groups] == [
        (("b/y.py",), ()),
        (("a/x.py",), (0,)),
        (("c/z.py",), (1,)),
    ]


def test_imports_of_other_files_do_not_count() -> None:
    assert [each.needs for each in group_files(["a/x.py", "b/y.py"], {"a/x.py": {"elsewhere.py"}})] == [(), ()]


PATHS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("123")).map("/".join), unique=True, max_size=8)
IMPORTS = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("123")).map("/".join), PATHS.map(set), max_size=8
)


@given(PATHS, IMPORTS)
def test_every_file_is_in_one_group_and_a_group_needs_only_what_stands_before_it(
    paths: list[str], imports: dict
) -> None:
    groups = group_files(paths, imports)
    assert sorted(path for each in groups for path in each.paths) == sorted(paths)
    place = {path: at for at, each in enumerate(groups) for path in each.paths}
    for at, each in enumerate(groups):
        assert all(need < at for need in each.needs)
        others = {place[target] for path in each.paths for target in imports.get(path, ()) if target in place}
        assert set(each.needs) == {other for other in others if other < at}
        assert {folder_of(path) for path in each.paths} & {
            folder_of(path) for path in paths if place[path] != at
        } == set()
