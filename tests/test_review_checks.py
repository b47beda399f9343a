"""Each check finds what its examples mark and nothing else: the examples beside it are its tests."""

from __future__ import annotations

import pytest

from context_engine.review.checks import listed
from context_engine.review.checks.check import Check, Example, TextRun
from context_engine.review.source import Parsers, Source

TEXT = [(check, example) for check in listed.TEXT for example in check.examples]


def named(check: Check, example: Example) -> str:
    return f"{check.rule}: {example.new.splitlines()[0][:40]}"


@pytest.mark.parametrize(("check", "example"), TEXT, ids=[named(*each) for each in TEXT])
def test_a_text_check_finds_what_its_examples_mark(check: Check[TextRun], example: Example, parsers: Parsers) -> None:
    found = check.run(Source(example.path, example.text.encode(), parsers))
    assert sorted({note.span.first for note in found}) == list(example.flagged)
