"""Edits that name a definition land on it and nowhere else, and their text stands there as the file's own does.

`specs/symbols.md` is run here: a `file`, edits that `replace` a symbol or put a text `before` or `after` it, or that
quote a `target` which becomes what stands under `with`; then what the file `becomes`, or `refused CODE` with words of
the refusal.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.edit.delta import apply_delta, reverse_delta
from context_engine.edit.indent import Doubt
from context_engine.edit.model import Edit, SymbolEdit
from context_engine.edit.patch import plan
from context_engine.edit.symbol_edits import laid_out, resolve_symbols, trim
from context_engine.errors import CallError, FuzzyUnsafe, NoChange
from context_engine.languages import Languages, outline_file
from context_engine.text.lines import LineSpan
from tests.project.test_specs import SPECS, Case, cases, content
from tests.support.engines import GRAMMARS

LANGUAGES = Languages.builtin()
SPEC = cases(SPECS / "symbols.md")


def edits(case: Case) -> list[Edit | SymbolEdit]:
    found: list[Edit | SymbolEdit] = []
    for each in case.blocks:
        if each.kind in ("replace", "before", "after"):
            first, _, last = each.options.get("lines", "").partition("-")
            lines = LineSpan(int(first), int(last)) if first else None
            found.append(SymbolEdit(each.options["symbol"], each.text, each.kind, lines))
        elif each.kind == "target":
            found.append(Edit(each.text.removesuffix("\n"), ""))
        elif each.kind == "with":
            before = found.pop()
            assert isinstance(before, Edit)
            found.append(Edit(before.target, each.text.removesuffix("\n")))
    return found


@pytest.mark.parametrize("case", SPEC, ids=[case.name for case in SPEC])
def test_the_specification_of_symbol_edits_holds(case: Case) -> None:
    file, refused, becomes = case.one("file"), case.one("refused"), case.one("becomes")
    assert file is not None and bool(refused) != bool(becomes)
    data, path = content(file), file.options["path"]
    if refused:
        with pytest.raises(CallError) as caught:
            plan(data, resolve_symbols(data, path, edits(case), LANGUAGES, GRAMMARS))
        told = json.dumps(caught.value.as_dict(), ensure_ascii=False)
        assert {caught.value.code} == set(refused.options), told
        assert [words for words in refused.text.splitlines() if words not in told] == [], told
        assert caught.value.suggestion
    elif becomes:
        planned = plan(data, resolve_symbols(data, path, edits(case), LANGUAGES, GRAMMARS))
        assert planned.data.decode() == content(becomes).decode()
        assert apply_delta(reverse_delta(planned.delta), planned.data) == data


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (path, path.read_bytes())
        for path in sorted((Path(__file__).parents[2] / "evals/retrieval/tiny/corpus").rglob("*"))
        if path.suffix in (".py", ".go", ".java", ".rs", ".ts", ".rb", ".c")
    ],
    ids=lambda each: each.name if isinstance(each, Path) else "",
)
def test_a_definition_replaced_by_its_own_text_changes_nothing(path: Path, source: bytes) -> None:
    language = LANGUAGES.detect(path.name, source)
    assert language is not None
    lines = source.decode().split("\n")
    symbols = outline_file(language, source, GRAMMARS).symbols
    assert symbols
    refused = []
    for symbol in symbols:
        text = "\n".join(lines[symbol.first - 1 : symbol.last])
        edit = SymbolEdit(symbol.name, text, "replace", LineSpan(symbol.line, symbol.line))
        with pytest.raises((NoChange, FuzzyUnsafe)) as caught:
            plan(source, resolve_symbols(source, path.name, [edit], LANGUAGES, GRAMMARS))
        refused += [symbol.name] if caught.type is FuzzyUnsafe else []
    assert len(refused) < len(symbols) / 2, refused  # constants that share a line


def test_a_file_that_is_not_in_utf8_is_edited_by_symbol() -> None:
    data = 'def one(): return "caf\xe9"\n'.encode("latin-1")
    edit = SymbolEdit("one", 'def one(): return "\xf6"')
    assert plan(data, resolve_symbols(data, "a.py", [edit], LANGUAGES, GRAMMARS)).data == b'def one(): return "\xf6"\n'


def test_a_file_in_utf16_is_edited_by_symbol() -> None:
    data = "\ufeffdef one():\r\n    return 'ä'\r\n".encode("utf-16-le")
    edit = SymbolEdit("one", "def one():\n    return 'ö'")
    assert plan(data, resolve_symbols(data, "a.py", [edit], LANGUAGES, GRAMMARS)).data.decode("utf-16") == (
        "def one():\r\n    return 'ö'\r\n"
    )


# -- laws of the layout ----------------------------------------------------------------------------------------------

BODIES = st.recursive(
    st.just(["x = 1"]),
    lambda inner: st.lists(inner, min_size=1, max_size=3).map(
        lambda parts: ["if y:", *(f"    {line}" for part in parts for line in part)]
    ),
    max_leaves=4,
)


@given(BODIES, st.integers(0, 3))
def test_a_text_is_laid_out_alike_however_it_was_indented(body: list[str], depth: int) -> None:
    lines = ["def f():", *(f"    {line}" for line in body)]
    indent = "    " * depth
    nearby = ["class A:", "    class B:", "        class C:", "            def g():", "                pass"]
    whole = "\n".join(indent + line for line in lines)
    relative, cut_off = "\n".join(lines), whole.lstrip()
    for text in (whole, relative, cut_off):
        try:
            assert laid_out(text, indent, nearby) == whole
        except Doubt:
            assert text is not whole


@given(st.text(alphabet="a{}:() \t\n", max_size=40), st.sampled_from(["", "    ", "\t"]))
def test_laying_out_keeps_every_character_that_is_not_blank(text: str, indent: str) -> None:
    try:
        placed = laid_out(trim(text) or "a", indent, ["a", f"{indent}b"])
    except Doubt:
        return
    assert "".join(placed.split()) == "".join((trim(text) or "a").split())
