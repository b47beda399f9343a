"""A diff is read as git counts it, refused with the line where it cannot be, and leads from one version to the other."""

from __future__ import annotations

import difflib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from context_engine.errors import DiffCombinedUnsupported, DiffInvalid, DiffTruncated
from context_engine.text.diff_reader import DiffLine, FileDiff, parse_diff
from context_engine.text.lines import LineSpan
from evals.diffs.replay import applied, numstat
from tests.support.changes import diff_text
from tests.support.trees import git, repository, tree

PLAIN = """diff --git a/x.py b/x.py
index 1111111..2222222 100644
--- a/x.py
+++ b/x.py
@@ -1,3 +1,4 @@ def f():
 one
-two
+TWO
+zwei
 three
"""

GOLDEN = {
    "plain": PLAIN,
    "quoted path": PLAIN.replace("a/x.py", r'"a/gr\303\266\303\237e\t.py"').replace(
        "b/x.py", r'"b/gr\303\266\303\237e\t.py"'
    ),
    "path with blanks": PLAIN.replace("x.py", "b/x b/ x.py").replace("b/x b/ x.py\n+++", "b/x b/ x.py\t\n+++"),
    "rename only": "diff --git a/old name b/new name\nsimilarity index 100%\nrename from old name\nrename to new name\n",
    "carriage returns in the header": PLAIN.replace("\n", "\r\n"),
    "carriage returns in the file": PLAIN.replace("two\n", "two\r\n").replace("TWO\n", "TWO\r\n"),
    "no newline at the end": PLAIN.replace(" three\n", "-three\n\\ No newline at end of file\n+three\n"),
    "mail": "From 0123 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH] x\n\n--- a note\n---\n x.py | 3 ++-\n\n"
    + PLAIN
    + "-- \n2.39.5\n\n",
    "mode change": "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n",
    "new empty file": "diff --git a/e b/e\nnew file mode 100644\nindex 0000000..e69de29\n",
    "deleted": "diff --git a/x b/x\ndeleted file mode 100644\nindex 1111111..0000000\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n",
    "removed lines that look like headers": "--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,2 @@\n--- a/q.sql\n-++ b/q.sql\n+@@ -1 +1 @@\n x\n",
    "submodule": "diff --git a/sub b/sub\nindex 1111111..2222222 160000\n--- a/sub\n+++ b/sub\n@@ -1 +1 @@\n"
    "-Subproject commit 1111111111111111111111111111111111111111\n+Subproject commit 2222222222222222222222222222222222222222\n",
    "binary": "diff --git a/x.png b/x.png\nindex 1111111..2222222 100644\nBinary files a/x.png and b/x.png differ\n",
    "two files": PLAIN + PLAIN.replace("x.py", "y.py"),
}


def counted(text: str, tmp_path: Path) -> dict[str, tuple[int, int]]:
    """What git itself counts."""
    said = subprocess.run(
        ["git", "apply", "--numstat", "-z"], cwd=tmp_path, input=text.encode(), capture_output=True, check=True
    )
    return numstat(said.stdout)


def counts(files: Sequence[FileDiff]) -> dict[str, tuple[int, int]]:
    return {each.path: (len(each.added_lines), len(each.removed_lines)) for each in files}


def only(text: str) -> FileDiff:
    [found] = parse_diff(text)
    return found


# -- what git counts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name in GOLDEN if name != "binary"]
)  # which git can only apply with its bytes
def test_the_lines_of_a_diff_are_those_that_git_counts(name: str, tmp_path: Path) -> None:
    assert counts(parse_diff(GOLDEN[name])) == counted(GOLDEN[name], tmp_path)


def test_lines_know_their_numbers_in_both_versions() -> None:
    change = only(PLAIN)
    assert change.hunks[0].lines == (
        DiffLine(" ", 1, 1, "one"),
        DiffLine("-", 2, 0, "two"),
        DiffLine("+", 0, 2, "TWO"),
        DiffLine("+", 0, 3, "zwei"),
        DiffLine(" ", 3, 4, "three"),
    )
    assert (change.hunks[0].old, change.hunks[0].new, change.hunks[0].section) == (
        LineSpan(1, 3),
        LineSpan(1, 4),
        "def f():",
    )
    assert change.added_numbers == {2, 3}
    assert (change.old_blob, change.new_blob, change.old_mode, change.new_mode) == (
        "1111111",
        "2222222",
        "100644",
        "100644",
    )


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("a/src/x.py", "b/src/x.py", "src/x.py"),
        ("src/x.py", "src/x.py", "src/x.py"),
        ("i/src/x.py", "w/src/x.py", "src/x.py"),
        ("before/src/x.py", "after/src/x.py", "src/x.py"),
        ("a/src/x.py\t2026-01-01 00:00:00 +0000", "b/src/x.py\t2026-01-02 00:00:00 +0000", "src/x.py"),
        ("a/a/x.py", "b/a/x.py", "a/x.py"),
        ("a/x.py", "a/x.py", "a/x.py"),
    ],
)
def test_what_a_program_puts_before_a_name_is_left_out(old: str, new: str, path: str) -> None:
    change = only(f"--- {old}\n+++ {new}\n@@ -1 +1 @@\n-x\n+y\n")
    assert (change.old_path, change.new_path, change.kind) == (path, path, "modified")


def test_files_that_come_and_go_have_one_name() -> None:
    gone = only(GOLDEN["deleted"])
    assert (gone.kind, gone.old_path, gone.new_path, gone.path, gone.new_blob) == ("deleted", "x", "", "x", "")
    come = only("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+one\n")
    assert (come.kind, come.old_path, come.new_path, come.hunks[0].old) == ("added", "", "x", None)
    empty = only(GOLDEN["new empty file"])
    assert (empty.kind, empty.old_path, empty.new_path, empty.new_mode) == ("added", "", "e", "100644")


def test_kinds_of_files_that_are_no_text_are_told() -> None:
    assert only(GOLDEN["binary"]).is_binary
    assert only(
        "diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\ndelta 5\nMcmZQzU|?Wi0096101yBG\n\ndelta 4\nLcmZQz00IC5\n\n"
    ).is_binary
    assert only(GOLDEN["submodule"]).is_submodule
    assert only("Submodule vendor/lib 1111111..2222222:\n  > commit\n").is_submodule
    assert only(
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+to\n\\ No newline at end of file\n"
    ).is_symlink
    assert only("--- a/b.bin\n+++ b/b.bin\n@@ -1,1 +1,1 @@\n-x\n+version https://git-lfs.github.com/spec/v1\n").is_lfs
    assert not only(PLAIN).is_lfs


def test_a_diff_that_was_converted_as_a_whole_is_read_as_it_was() -> None:
    assert parse_diff(PLAIN.replace("\n", "\r\n")) == parse_diff(PLAIN)
    kept = only(GOLDEN["carriage returns in the file"])
    assert [line.text for line in kept.added_lines] == ["TWO\r", "zwei"]


def test_a_trimmed_end_does_not_cost_the_last_blank_line() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n \n"
    assert parse_diff(text.strip()) == parse_diff(text)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "garbage", "--- a/x\nno more\n", "1c1\n< a\n---\n> b\n", "*** a\n--- b\n***************\n*** 1 ****\n"]
)
def test_a_text_without_a_change_is_refused(text: str) -> None:
    with pytest.raises(DiffInvalid):
        parse_diff(text)


@pytest.mark.parametrize(
    "text", ["diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1,1 -1,1 +1,2 @@@\n  a\n++b\n", "diff --combined x\n"]
)
def test_a_combined_diff_is_refused_with_the_way_to_ask(text: str) -> None:
    with pytest.raises(DiffCombinedUnsupported) as caught:
        parse_diff(text)
    assert "--first-parent" in caught.value.suggestion


@pytest.mark.parametrize("lines", range(4, 9))
def test_a_diff_that_was_cut_is_refused(lines: int) -> None:
    with pytest.raises(DiffTruncated):
        parse_diff("\n".join(PLAIN.split("\n")[:lines]))


def test_a_hunk_that_goes_on_in_another_file_is_refused() -> None:
    cut = PLAIN.replace(" three\n", "")
    with pytest.raises(DiffTruncated, match="1 old and 1 new"):
        parse_diff(cut + PLAIN)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("-1,3 +1,4", "-1,2 +1,3"),
        PLAIN.replace("@@ -1,3 +1,4 @@", "@@ ... @@"),
        "@@ -1 +1 @@\n-a\n+b\n",
        PLAIN.replace("-1,3 +1,4", "-1,1 +1,4"),
    ],
)
def test_a_hunk_that_contradicts_its_header_is_refused(text: str) -> None:
    with pytest.raises(DiffInvalid):
        parse_diff(text)


@given(
    st.lists(
        st.sampled_from(
            [
                *PLAIN.split("\n"),
                "diff --cc x",
                "@@ -1 +1 @@",
                "+++ b/y",
                "--- a/y",
                "\\ No",
                "Binary files a and b differ",
            ]
        )
    )
)
def test_whatever_lines_come_they_are_read_or_refused(lines: list[str]) -> None:
    try:
        found = parse_diff("\n".join(lines))
    except (DiffInvalid, DiffTruncated, DiffCombinedUnsupported):
        return
    assert found


# -- laws --------------------------------------------------------------------------------------------------------------

LINES = st.lists(
    st.sampled_from(["a", "b", "", " ", "-- x", "++ y", "@@ -1 +1 @@", "\\ z", "diff --git a/x b/x", "ü\r", "\f"]),
    max_size=9,
)


@given(LINES, LINES, st.integers(0, 3))
def test_the_hunks_put_into_the_old_text_give_the_new_one(old: list[str], new: list[str], context: int) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    text = "".join(difflib.unified_diff(_split(before), _split(after), "a/x", "b/x", n=context))
    if before == after:
        return
    change = only(text)
    assert applied(change, before) == after
    assert all(_split(after)[line.new - 1] == f"{line.text}\n" for line in change.added_lines)
    assert all(_split(before)[line.old - 1] == f"{line.text}\n" for line in change.removed_lines)


def _split(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")[:-1]]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
def test_what_git_writes_of_a_small_world_is_read_as_git_counts_it(tmp_path: Path) -> None:
    root = repository(
        tmp_path / "repo", {"a b": "1\n", 'q"x': "1\n2\n", "moved": "l\n" * 20, "bin": b"\0", "gone": "x", "ä/ü": "1"}
    )
    git(root, "mv", "moved", "there\tnow")
    git(root, "rm", "--quiet", "gone")
    tree(root, {"a b": "2\n", 'q"x': "1\r\n2\n", "bin": b"\0\1", "ä/ü": "1\n", "new\nline": "n\n", "empty": ""})
    git(root, "add", "--all")
    for style in ((), ("-c", "core.quotepath=on"), ("-c", "diff.noprefix=true"), ("-c", "diff.mnemonicPrefix=true")):
        text = git(root, *style, "diff", "--cached", "-M") + "\n"
        assert counts(parse_diff(text)) == numstat(git(root, "diff", "--cached", "-M", "--numstat", "-z").encode()), (
            style
        )


TEXTS = st.builds(
    lambda lines, ends: "".join(f"{line}\n" for line in lines) if ends or not lines else "\n".join(lines),
    st.lists(st.sampled_from(["a", "b", "", "c\r"]), max_size=8),
    st.booleans(),
).filter(lambda text: text != "")


@given(TEXTS, TEXTS)
def test_a_diff_leads_from_the_old_version_to_the_new_and_back(old: str, new: str) -> None:
    assume(old != new)
    file = parse_diff(diff_text("x", old, new))[0]
    assert file.apply(old) == new
    assert file.revert(new) == old


PLAIN_LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n"]), min_size=1, max_size=8)


@given(PLAIN_LINES, PLAIN_LINES)
def test_a_diff_without_context_leads_there_as_well(old: list[str], new: list[str]) -> None:
    assume(old != new)
    file = parse_diff("".join(difflib.unified_diff(old, new, "a/x", "b/x", n=0)))[0]
    assert file.apply("".join(old)) == "".join(new)
    assert file.revert("".join(new)) == "".join(old)


@given(TEXTS, TEXTS, TEXTS)
def test_a_diff_that_was_made_for_another_file_gives_nothing_or_keeps_what_is_beside_it(
    old: str, new: str, other: str
) -> None:
    assume(old != new)
    file = parse_diff(diff_text("x", old, new))[0]
    made = file.apply(other)
    gone = [line.text for line in file.removed_lines]
    assert made is None or all(line in other.split("\n") for line in gone)
