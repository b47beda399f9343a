"""A long run indexes first what is probably asked about."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from context_engine.index.build_order import FILE_BYTES_MIN, list_recent_files, rank_files, split_rounds
from context_engine.languages import Languages
from context_engine.repo import Git
from tests.support.trees import commit, repository, tree

sizes = st.dictionaries(
    st.sampled_from([f"{folder}/{n}.py" for folder in "abc" for n in range(9)]), st.integers(0, 9_000)
)


@given(sizes, st.integers(1, 9_000))
def test_every_file_comes_once_in_rounds_that_grow_up_to_a_limit(files: dict[str, int], bytes_min: int) -> None:
    rounds = list(split_rounds(files, lambda _: 0, bytes_min, 4 * bytes_min))
    assert [path for chosen in rounds for path in chosen] == sorted(files)
    for number, chosen in enumerate(rounds):
        assert sum(max(files[path], FILE_BYTES_MIN) for path in chosen[:-1]) < bytes_min * min(4, 2**number)


def test_recent_files_come_before_source_and_source_before_the_rest(tmp_path: Path) -> None:
    root = repository(tree(tmp_path / "w", {"docs/a.md": "a", "src/b.py": "b", "tests/test_c.py": "c", "d.json": "{}"}))
    commit(root, "Begin")
    (root / "docs/old.md").write_text("new")
    commit(root, "Write docs")
    (root / "d.json").write_text("[]")
    recent = list_recent_files(Git(root))
    assert recent[:2] == ["d.json", "docs/old.md"]
    rank = rank_files(recent[:2], Languages.builtin())
    paths = ["docs/a.md", "tests/test_c.py", "src/b.py", "docs/old.md", "d.json"]
    assert sorted(paths, key=rank) == ["d.json", "docs/old.md", "src/b.py", "tests/test_c.py", "docs/a.md"]


def test_a_folder_without_git_has_no_recent_files(tmp_path: Path) -> None:
    assert list_recent_files(Git(tree(tmp_path / "w", {"a.py": "a"}))) == []
