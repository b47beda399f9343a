"""Importers find what people state on purpose, with its place, and leave alone what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context import KnowledgeEntry
from context_engine.memory.importers import (
    CONFIDENCE,
    add_dates,
    import_commits,
    import_file,
)
from context_engine.model import Commit

ADR = """# 3. Count money in cents

Date: 2026-01-05

## Status

Accepted

## Context

Floats lose cents.

## Decision

Amounts are whole numbers of cents.

They are divided in the last template only.
"""


def told(found: list[KnowledgeEntry]) -> list[tuple[str, str, int]]:
    return [(each.type, each.content, each.line) for each in found]


def test_an_architecture_decision_record_tells_its_decision_and_where_it_stands() -> None:
    (found,) = import_file("docs/adr/0003-cents.md", ADR, commit="0123456789abcdef")
    assert (found.type, found.title, found.content) == (
        "decision",
        "Count money in cents",
        "Amounts are whole numbers of cents.",
    )
    assert found.place == "docs/adr/0003-cents.md:13@0123456789ab"
    assert (found.status, found.confidence) == ("active", CONFIDENCE["adr"])


@pytest.mark.parametrize(
    "standing", ["Superseded by 0007", "Deprecated", "rejected", "Accepted\n\nSuperseded by [7](0007.md)"]
)
def test_a_decision_that_nobody_stands_by_says_so(standing: str) -> None:
    assert import_file("docs/adr/0003-cents.md", ADR.replace("Accepted", standing))[0].status == "stale"
    short = f"# Cents\n\nStatus: {standing.splitlines()[-1]}\n\nUse cents.\n"
    assert import_file("doc/decisions/0003-cents.md", short)[0].status == "stale"


@pytest.mark.parametrize(
    "path", ["docs/adr/README.md", "docs/adr/template.md", "docs/decisions/how-we-decide.md", "docs/a.md"]
)
def test_what_lies_beside_decisions_is_none(path: str) -> None:
    assert import_file(path, ADR) == []


RULES = """# Rules

Some prose - with a dash.

## Style

- Use tabs, never spaces,
  also in Makefiles.
- [Style guide](https://example.org/style)
- Short one
  * Nested rules count as well.

```sh
- not a bullet of prose
```

1. Run the tests first.
"""


@pytest.mark.parametrize(
    "path",
    [
        "AGENTS.md",
        "CLAUDE.md",
        "sub/AGENTS.md",
        ".cursor/rules/style.mdc",
        ".cursorrules",
        ".github/copilot-instructions.md",
    ],
)
def test_bullets_of_a_file_of_rules_are_rules(path: str) -> None:
    assert told(import_file(path, RULES)) == [
        ("rule", "Use tabs, never spaces, also in Makefiles.", 7),
        ("rule", "Nested rules count as well.", 11),
        ("rule", "Run the tests first.", 17),
    ]
    assert {each.title for each in import_file(path, RULES)} == {"Style"}


def test_a_guide_for_contributors_has_rules_where_it_names_what_they_bind() -> None:
    bullets = (
        "Be patient with newcomers, always",
        "Lines have at most 100 characters",
        "Run `make lint` before you ask",
    )
    text = "\n".join(["# Values", *(f"- {bullet}" for bullet in bullets), "- [Ask](https://a.b/c2) in the chat first"])
    assert [each.content for each in import_file("CONTRIBUTING.md", text)] == list(bullets[1:])
    assert len(import_file("AGENTS.md", text)) == 4


def test_a_changelog_has_decisions_under_the_headings_of_what_was_decided() -> None:
    text = "# Log\n\n## 2.0\n\n### Removed\n\n- The reader of v1 files.\n\n### Fixed\n\n- A crash without input.\n"
    (found,) = import_file("CHANGELOG.md", text)
    assert (found.type, found.title, found.content) == ("decision", "2.0: Removed", "The reader of v1 files.")
    assert import_file("src/CHANGELOG.py", text) == import_file("tests/fixtures/CHANGELOG.md", text) == []


GUIDE = """Comments
--------

Avoid phrasings like:

- "more reliable than before"

```md
- Open fences hold examples.
```

- **Check it first**. This means:
  - The tests pass.
  - New behavior is covered.
- **Never** open one yourself.
"""


def test_a_bullet_is_read_with_the_sentence_that_introduces_its_list() -> None:
    assert told(import_file("AGENTS.md", GUIDE)) == [
        ("rule", 'Avoid phrasings like: "more reliable than before"', 6),
        ("rule", "**Check it first**. This means: The tests pass.", 13),
        ("rule", "**Check it first**. This means: New behavior is covered.", 14),
        ("rule", "**Never** open one yourself.", 15),
    ]


@pytest.mark.parametrize(
    ("line", "content"),
    [
        ("    x = 1  # TODO: drop with 3.12", "TODO: drop with 3.12"),
        ("// FIXME(ann): wrong for leap years", "FIXME: wrong for leap years"),
        ("/* XXX this leaks memory */", "XXX: this leaks memory"),
        ("<!-- TODO: say how -->", "TODO: say how"),
        ("-- HACK - see #12 for why", "HACK: see #12 for why"),
        ("  * TODO cache the result", "TODO: cache the result"),
    ],
)
def test_what_somebody_left_to_do_in_a_comment_is_an_issue(line: str, content: str) -> None:
    assert told(import_file("src/a.x", f"first\n{line}\n")) == [("issue", content, 2)]


@pytest.mark.parametrize(
    "line",
    [
        "TODO = 'x y'",
        "# TODO",
        "todo_list.add(TODO)",
        "# TODOS: are many things",
        'print("TODO: not a comment")',
        "# see TODOLIST for more",
    ],
)
def test_what_is_no_comment_or_says_nothing_is_none(line: str) -> None:
    assert import_file("src/a.py", line) == []


@given(
    st.lists(st.sampled_from(["# TODO: one thing", "# TODO: another thing", "code()"]), max_size=6), st.integers(0, 5)
)
def test_lines_that_move_keep_their_ids_and_no_two_are_the_same(lines: list[str], moved: int) -> None:
    found = import_file("a.py", "\n".join(lines))
    later = import_file("a.py", "\n" * moved + "\n".join(lines))
    assert [each.id for each in later] == [each.id for each in found]
    assert [each.line - moved for each in later] == [each.line for each in found]
    assert len({each.id for each in found}) == len(found) == sum(line != "code()" for line in lines)


@given(st.text(), st.sampled_from(["docs/adr/0001-a.md", "AGENTS.md", "CONTRIBUTING.rst", "src/a.py"]))
def test_no_text_is_too_odd(text: str, path: str) -> None:
    found = import_file(path, text)
    assert found == import_file(path, text)
    assert all(0 < each.line <= text.count("\n") + len(text.splitlines()) + 1 for each in found)


def test_issues_get_the_commit_and_the_day_their_line_was_written() -> None:
    found = import_file("a.py", "# TODO: one thing\n# TODO: another thing\n", commit="aaaa")
    known = add_dates(found, lambda _, line: ("bbbb", "2026-01-01") if line == 1 else None)
    assert [(each.commit, each.date) for each in known] == [("bbbb", "2026-01-01"), ("aaaa", "")]


@pytest.mark.parametrize(
    ("subject", "body", "kind"),
    [
        ("fix(parser): keep the last line", "", "issue"),
        ("fix: a crash", "", "issue"),
        ("Handle empty input", "Fixes #12", "issue"),
        ('Revert "Handle empty input"', "", "issue"),
        ("feat(api)!: drop v1", "", "decision"),
        ("Rework the API", "Much new.\n\nBREAKING CHANGE: v1 is gone,\nuse v2.", "decision"),
        ("breaking: remove the old reader", "", "decision"),
        ("feat: add a flag", "Closes #3", ""),
        ("docs: fixes #4", "", ""),
        ("fix(deps): update all", "", ""),
        ("Prefix names", "", ""),
    ],
)
def test_the_history_tells_what_was_fixed_and_what_broke_on_purpose(subject: str, body: str, kind: str) -> None:
    found = import_commits([Commit("abc" * 13, 1_767_225_600, "", subject, body=body)])
    assert [each.type for each in found] == [kind] * bool(kind)
    for each in found:
        assert (each.place, each.date, each.source) == ("@abcabcabcabc", "2026-01-01T00:00:00.000Z", "git")
    if "BREAKING" in body:
        assert found[0].content == "v1 is gone, use v2."


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("The pipe may be closed\ntoo early.", "The pipe may be closed too early."),
        ("Closes #3\n\n* one\n* two three four five\n\nThe pipe may be closed too early.", "The pipe may be closed too early."),
        ("Signed-off-by: A Person of some length <a@b.c>", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("subject", ["fix: the pager", "breaking: the pager", "pager!: closed"])
def test_a_commit_says_why_it_was_made_where_its_message_does(subject: str, body: str, reason: str) -> None:
    (found,) = import_commits([Commit("abc" * 13, 0, "", subject, body=body)])
    assert found.content == "\n".join(filter(None, (subject, reason)))


def test_a_decision_keeps_more_of_its_message_than_a_fix() -> None:
    body = ("The stream may be closed too early. " * 14).strip()
    messages = [Commit("abc" * 13, 0, "", subject, body=body) for subject in ("breaking: close it", "fix: close it")]
    decision, fix = import_commits(messages)
    assert decision.content == f"breaking: close it\n{body}"
    assert len(fix.content) < 280 < len(body)
