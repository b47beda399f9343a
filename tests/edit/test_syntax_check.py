"""After an edit the answer says what no longer parses: new errors only, in one short line, and never an exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.syntax_check import BYTES_MAX, SyntaxReport, find_new_errors
from context_engine.languages import Languages
from tests.support.engines import GRAMMARS

LANGUAGES = Languages.builtin()
SOUND = {
    "a.py": ("def f():\n    return (1)\n", "def f(:\n    return (1)\n", 1),
    "a.go": ("package a\n\nfunc f() {\n}\n", "package a\n\nfunc f() {\n", 3),
    "a.ts": ("const a = [1];\nf(a);\n", "const a = [1];\nf(a;\n", 2),
    "A.java": ("class A {\n    int a;\n}\n", "class A {\n    int a = (1;\n}\n", 2),
    "a.rs": ("fn f() -> u8 {\n    1\n}\n", "fn f() -> {\n    1\n}\n", 1),
    "a.json": ('{"a": 1}\n', '{"a": 1,, }\n', 1),
}


@pytest.mark.parametrize("path", SOUND)
def test_a_new_error_is_told_with_its_line(path: str) -> None:
    before, after, line = SOUND[path]
    report = find_new_errors(before.encode(), after.encode(), path, LANGUAGES, GRAMMARS)
    assert not report.is_sound and line in {error.line for error in report.errors}
    assert report.summary.startswith("new syntax error at line ") and len(report.summary) < 150


@pytest.mark.parametrize("path", SOUND)
def test_a_sound_file_stays_sound_and_a_mended_one_is_sound(path: str) -> None:
    before, after, _ = SOUND[path]
    for old in (before.encode(), after.encode(), None):
        assert find_new_errors(old, before.encode(), path, LANGUAGES, GRAMMARS).summary == "syntax ok"


def test_errors_that_were_there_before_do_not_count_wherever_they_are_now() -> None:
    before = "x = )\ny = 1\nz = )\n"
    after = "# one\n# two\nx = )\ny = 2\nz = )\n"
    assert find_new_errors(before.encode(), after.encode(), "a.py", LANGUAGES, GRAMMARS).is_sound
    worse = after.replace("y = 2", "def f(:\n    pass")
    assert not find_new_errors(before.encode(), worse.encode(), "a.py", LANGUAGES, GRAMMARS).is_sound


@pytest.mark.parametrize(
    ("path", "after", "why"),
    [
        ("a.xyz", b"one", "no parser"),
        ("a.txt", b"one", "no parser"),
        ("a.py", b"one\0", "NUL"),
        ("a.py", b"#" * BYTES_MAX + b"\nx = 1\n", "bytes"),
        ("a.py", b"x = '" + b"a" * 30_000 + b"'\n", "line of more than"),
    ],
)
def test_what_cannot_be_checked_says_so(path: str, after: bytes, why: str) -> None:
    report = find_new_errors(b"", after, path, LANGUAGES, GRAMMARS)
    assert report.is_sound and why in report.summary and report.summary.startswith("syntax not checked: ")


def test_it_never_raises_and_a_file_beside_itself_is_sound() -> None:
    @given(
        st.binary(max_size=80), st.binary(max_size=80), st.sampled_from(["a.py", "a.go", "a.ts", "a.vue", "a.md", "a"])
    )
    def holds(before: bytes, after: bytes, path: str) -> None:
        assert isinstance(find_new_errors(before, after, path, LANGUAGES, GRAMMARS).summary, str)
        assert find_new_errors(after, after, path, LANGUAGES, GRAMMARS).is_sound

    holds()


def test_utf16_is_checked_as_text() -> None:
    old, new = ("\ufeffx = 1\n".encode("utf-16-le"), "\ufeffx = (\n".encode("utf-16-le"))
    assert find_new_errors(old, old, "a.py", LANGUAGES, GRAMMARS) == SyntaxReport()
    assert not find_new_errors(old, new, "a.py", LANGUAGES, GRAMMARS).is_sound
