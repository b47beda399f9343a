"""Laws of a review, over any text: nothing breaks it, what did not change has nothing new, every finding points into its file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.review.checks import CHECKS
from context_engine.review.reviewer import Reviewer
from context_engine.review.source_versions import ReviewedFile
from context_engine.text.diff_reader import parse_diff
from tests.support.changes import PARSERS, changed_file, diff_text, list_examples

PATHS = st.sampled_from(
    [
        "a.py",
        "b.ts",
        "c.tsx",
        "d.js",
        "e.go",
        "f.json",
        "g.yml",
        "h.toml",
        "Dockerfile",
        ".github/workflows/i.yml",
        "j.md",
    ]
)
SNIPPETS = sorted({line for check in CHECKS for example in list_examples(check) for line in example.text.split("\n")})
LINES = st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=12).map(lambda text: " ".join(text.split())))
TEXTS = st.lists(LINES, min_size=1, max_size=12).map(lambda lines: "\n".join(lines) + "\n")
REVIEWER = Reviewer()


@given(PATHS, TEXTS, TEXTS)
def test_every_finding_is_about_a_line_of_the_new_version(path: str, old: str, new: str) -> None:
    file = changed_file(path, old, new)
    for finding in REVIEWER.review_file(file).findings:
        assert file.new is not None
        assert 1 <= finding.span.first <= finding.span.last <= len(file.new.lines)
        assert finding.quote == file.new.line(finding.span.first).strip()
        assert finding.title and finding.body and finding.id


@given(PATHS, TEXTS, TEXTS)
def test_what_did_not_change_has_nothing_new(path: str, text: str, other: str) -> None:
    diff = parse_diff(diff_text(path, text, text + "\n" + other))[0]
    unchanged = ReviewedFile.of(diff, text.encode(), text.encode(), PARSERS)
    assert [each for each in REVIEWER.review_file(unchanged).findings if each.is_new] == []


@given(PATHS, st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_break_a_review(path: str, old: bytes, new: bytes) -> None:
    file = ReviewedFile.of(parse_diff(diff_text(path, "a\n", "b\n"))[0], old, new, PARSERS)
    looked = REVIEWER.review_file(file)
    assert looked.coverage.path == path
