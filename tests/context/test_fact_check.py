"""What comes back from a second pass is held against the code: laws over small worlds, then a real workspace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.context.fact_check import (
    Claim,
    ClaimedLines,
    ClaimedQuote,
    RepositoryFacts,
    check_claims,
    is_inside_workspace,
)
from context_engine.text.lines import LineSpan

TEXTS = {"a.py": "x = 1\ny =  2\n\treturn x\n", "b.py": "", "c.py": "one\ntwo\n"}
GROUND = RepositoryFacts(has_path=TEXTS.__contains__, text=TEXTS.get, has_symbol={"x", "y"}.__contains__)


def reasons(*claims: Claim, ground: RepositoryFacts = GROUND) -> list[str]:
    return [each.reason for each in check_claims(claims, ground).rejected]


# -- laws --

PATHS = st.sampled_from([*TEXTS, "d.py", "e/f.py", "../a.py", "/a.py"])
CLAIMS = st.builds(
    Claim,
    item=st.integers(0, 9),
    place=st.sampled_from(["[0]", "[1]"]),
    paths=st.lists(PATHS, max_size=2),
    creates=st.lists(PATHS, max_size=1),
    symbols=st.lists(st.sampled_from("xyz"), max_size=2),
    lines=st.lists(st.builds(ClaimedLines, PATHS, st.integers(-1, 4), st.integers(-1, 4)), max_size=1),
    quotes=st.lists(st.builds(ClaimedQuote, PATHS, st.sampled_from(["x = 1", "two", "z"])), max_size=1),
)


@given(st.lists(CLAIMS, max_size=6))
def test_every_item_is_kept_or_rejected_and_nothing_is_lost(claims: list[Claim]) -> None:
    found = check_claims(claims, GROUND)
    assert sorted([*found.kept, *(each.item for each in found.rejected)]) == sorted(each.item for each in claims)
    assert all(each.reason for each in found.rejected)


@given(st.lists(CLAIMS, max_size=6))
def test_what_is_kept_names_only_what_is_there_or_is_to_be_made(claims: list[Claim]) -> None:
    created = {path for claim in claims for path in claim.creates}
    for number, claim in enumerate(claims):
        mine = [
            Claim(number, "", *(getattr(claim, name) for name in ("paths", "creates", "symbols", "lines", "quotes")))
        ]
        others = [Claim(-1, "", creates=[path]) for path in created]
        if number in check_claims([*mine, *others], GROUND).kept:
            assert all(path in TEXTS or path in created for path in claim.paths)
            assert all(is_inside_workspace(path) for path in (*claim.paths, *claim.creates))
            for lines in claim.lines:
                there = TEXTS.get(lines.path, "\n" * 9).count("\n")  # of a file that is to be made nobody knows
                assert 1 <= lines.first <= lines.last <= there


@given(st.lists(st.sampled_from(["x", "=", "1", "(", "y", "\u00e4"]), min_size=1, max_size=8), st.data())
def test_a_quote_is_found_whatever_its_whitespace_and_never_with_another_word(
    words: list[str], data: st.DataObject
) -> None:
    blanks = st.sampled_from([" ", "\n", "\t ", "  ", "\r\n"])
    text = "".join(word + data.draw(blanks) for word in words)
    quote = "".join(data.draw(blanks) + word for word in words)
    ground = RepositoryFacts(has_path={"a"}.__contains__, text={"a": text}.get)
    assert check_claims([Claim(1, "", quotes=[ClaimedQuote("a", quote)])], ground).kept == (1,)
    assert check_claims([Claim(1, "", quotes=[ClaimedQuote("a", f"{quote} never")])], ground).kept == ()


# -- one by one --


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (Claim(1, "", paths=["d.py"]), "there is no d.py"),
        (Claim(1, "", paths=["../a.py"]), "'../a.py' is not a path inside the workspace"),
        (Claim(1, "", creates=["/etc/cron.d/x"]), "'/etc/cron.d/x' is not a path inside the workspace"),
        (Claim(1, "", lines=[ClaimedLines("a.py", 2, 9)]), "lines 2-9 are not in a.py, which has 3"),
        (Claim(1, "", lines=[ClaimedLines("a.py", 3, 2)]), "3-2 is not a range of lines"),
        (Claim(1, "", lines=[ClaimedLines("a.py", 0, 1)]), "0-1 is not a range of lines"),
        (Claim(1, "", lines=[ClaimedLines("b.py", 1, 1)]), "lines 1 are not in b.py, which has 0"),
        (Claim(1, "", quotes=[ClaimedQuote("c.py", "one  three")]), "the quoted code is not in c.py: one three"),
    ],
)
def test_what_is_not_so_is_rejected_with_its_reason(claim: Claim, reason: str) -> None:
    assert reasons(claim) == [reason]


def test_a_file_that_any_item_creates_may_be_named_by_all() -> None:
    found = check_claims([Claim("test", "[0]", paths=["new.py"]), Claim("make", "[1]", creates=["new.py"])], GROUND)
    assert found.kept == ("test", "make") and not found.warnings


def test_an_unknown_name_and_a_file_that_exists_already_are_only_told_of() -> None:
    ground = RepositoryFacts(
        TEXTS.__contains__, TEXTS.get, {"x"}.__contains__, near_symbols=lambda _: ("x", "x1", "x2", "x3")
    )
    found = check_claims([Claim(1, "steps[0]", symbols=["x", "xx"], creates=["a.py"])], ground)
    assert found.kept == (1,)
    assert found.warnings == (
        "steps[0]: nothing here defines xx; nearest: x, x1, x2",
        "steps[0]: a.py is to be created and exists",
    )


def test_lines_must_lie_inside_one_hunk_where_there_is_a_diff() -> None:
    hunks = {"a.py": [LineSpan(1, 2), LineSpan(8, 9)]}
    ground = RepositoryFacts(TEXTS.__contains__, TEXTS.get, spans=lambda path: hunks.get(path, []))
    assert reasons(Claim(1, "", lines=[ClaimedLines("a.py", 8, 9)]), ground=ground) == []
    assert reasons(
        Claim(1, "", lines=[ClaimedLines("a.py", 2, 3)]),
        Claim(2, "", lines=[ClaimedLines("c.py", 1, 1)]),
        ground=ground,
    ) == [
        "lines 2-3 of a.py are not in the diff, which has 1-2, 8-9",
        "lines 1 of c.py are not in the diff, which has none",
    ]
