"""The specifications in `specs/` are run as they are read: each heading is a case, its fenced blocks are what it is made of.

`edit*.md`: a `file`, one or more edits (`target`, `replace`, perhaps `before` and `after` of the anchor), and either
what the file `becomes` or `refused CODE` with words that the refusal must have, as it is sent in JSON. Behind `target`
may stand `lines=2-3`, `expected=2`, `whitespace=exact` or `characters=5`; behind `file`, `changed` says that it changed
since it was read. What cannot be seen is written so: → a tab, · a blank at the end of a line, ␍ a carriage return, ⏎ a
line break at the end of a target or a replacement, ∎ the end of a file without one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from context_engine.edit.delta import apply_delta, reverse_delta
from context_engine.edit.file_edit import edit_file
from context_engine.edit.model import Edit, Fuzzy
from context_engine.edit.patch import EditPlan, plan
from context_engine.errors import CallError
from context_engine.text.lines import LineSpan
from tests.support.edits import editing

SPECS = Path(__file__).resolve().parents[1] / "specs"
PLANNING_CODES = {
    *(
        "INVALID_EDIT",
        "NO_CHANGE",
        "NO_MATCH",
        "MULTIPLE_MATCHES",
        "ANCHOR_FAILED",
        "FUZZY_UNSAFE",
        "CONFLICT",
        "STALE_FILE",
    ),
    *("INVALID_LINE_RANGE",),
}
"""Those of files that are no text (BINARY_FILE, ENCODING, TOO_LARGE) cannot be written in Markdown:
test_edit_content.py."""

SEEN = {"→": "\t", "·": " ", "␍": "\r"}


@dataclass(frozen=True)
class Block:
    kind: str
    options: dict[str, str]
    text: str


@dataclass(frozen=True)
class Case:
    name: str
    blocks: list[Block]

    def one(self, kind: str) -> Block | None:
        return next((block for block in self.blocks if block.kind == kind), None)

    def files(self, kind: str = "file") -> dict[str, bytes]:
        """The blocks of a kind that name a path."""
        return {block.options["path"]: content(block) for block in self.blocks if block.kind == kind}


PART = re.compile(r"^```(?P<kind>\S[^\n]*)\n(?P<text>.*?)^```$|^#+ +(?P<name>.+?) *$", flags=re.MULTILINE | re.DOTALL)


def cases(spec: Path) -> list[Case]:
    found: list[Case] = []
    for part in PART.finditer(spec.read_text(encoding="utf-8")):
        if part["name"]:
            found.append(Case(part["name"], []))
        else:
            found[-1].blocks.append(block(part["kind"], part["text"]))
    return [case for case in found if case.blocks]


def block(words: str, text: str) -> Block:
    kind, *options = words.split()
    for seen, meant in SEEN.items():
        text = text.replace(seen, meant)
    return Block(kind, dict(option.partition("=")[::2] for option in options), text)


def content(block: Block) -> bytes:
    return block.text.replace("∎\n", "").encode()


def edits(case: Case) -> list[Edit]:
    found: list[Edit] = []
    for each in case.blocks:
        text = each.text.removesuffix("\n").replace("⏎", "\n")
        if each.kind == "target":
            found.append(edit(text, each.options))
        elif each.kind in ("replace", "before", "after"):
            field = "replacement" if each.kind == "replace" else each.kind
            found[-1] = replace(found[-1], **{field: text})
    return found


def edit(target: str, options: dict[str, str]) -> Edit:
    fuzzy = Fuzzy(enabled=options.get("whitespace") != "exact")
    if "characters" in options:
        fuzzy = replace(fuzzy, whitespace_only=False, distance_max=int(options["characters"]))
    first, _, last = options.get("lines", "").partition("-")
    lines = LineSpan(int(first), int(last)) if first else None
    return Edit(target, "", line_range=lines, expected_matches=int(options.get("expected", 1)), fuzzy=fuzzy)


def planned_after_a_change(root: Path, data: bytes, wanted: list[Edit]) -> EditPlan:
    """The plan for a file that a session has read before it became what it is: by the editor, which knows what was read."""
    (root / "file.txt").write_bytes(data)
    with editing(root) as one:
        one.reads.note_read("s", "file.txt", "0" * 64)
        receipt = one.apply([edit_file("file.txt", partial(plan, edits=wanted))], dry_run=True, session="s")
    return receipt.files[0].planned


ALL = [(spec, case) for spec in sorted(SPECS.glob("edit*.md")) for case in cases(spec)]


@pytest.mark.parametrize(("spec", "case"), ALL, ids=[f"{spec.stem}: {case.name}" for spec, case in ALL])
def test_the_specification_holds(spec: Path, case: Case, tmp_path: Path) -> None:
    file = case.one("file")
    assert file is not None
    data, refused, becomes = content(file), case.one("refused"), case.one("becomes")
    wanted, changed = edits(case), "changed" in file.options
    if refused:
        with pytest.raises(CallError) as caught:
            planned_after_a_change(tmp_path, data, wanted) if changed else plan(data, wanted)
        told = json.dumps(caught.value.as_dict(), ensure_ascii=False, default=str)
        assert {caught.value.code} == set(refused.options)
        assert [words for words in refused.text.splitlines() if words not in told] == [], told
        assert caught.value.suggestion
    elif becomes:
        planned = planned_after_a_change(tmp_path, data, wanted) if changed else plan(data, wanted)
        assert planned.data.decode() == content(becomes).decode()
        assert apply_delta(reverse_delta(planned.delta), planned.data) == data


def test_a_case_of_edits_says_what_comes_of_them() -> None:
    assert [case.name for _, case in ALL if bool(case.one("refused")) == bool(case.one("becomes"))] == []


def test_every_code_of_a_plan_has_a_case() -> None:
    assert {code for _, case in ALL if (refused := case.one("refused")) for code in refused.options} == PLANNING_CODES
