"""Each language file proves itself: its examples are outlined and compared with what it says they hold."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from context_engine.languages import Grammars, Languages, Outline, SymbolReference, find_references, outline_file
from context_engine.languages.language import ORDER


def rendered(found: Outline, uses: list[SymbolReference], details: bool) -> str:
    """An outline as text: `kind name first-last`, children indented, then imports, uses and problems."""
    lines: list[str] = []
    depths: list[int] = []
    for symbol in found.symbols:
        depths.append(depths[symbol.parent] + 1 if symbol.parent >= 0 else 0)
        name = f"{symbol.owner}.{symbol.name}" if symbol.owner else symbol.name
        span = f"{symbol.first}-{symbol.last}"
        if details:
            span += f" | {symbol.signature}" + (f" | {symbol.doc!r}" if symbol.doc else "")
        lines.append("  " * depths[-1] + f"{symbol.kind} {name} {span}")
    for imported in found.imports:
        names = f" ({', '.join(imported.names)})" if imported.names else ""
        lines.append(f"import {imported.target}{names} {imported.line}")
    lines += [f"{use.kind} {use.name} {use.line}:{use.column}" for use in uses]
    lines += [f"problem {problem.line}:{problem.column} {problem.title}" for problem in found.problems]
    return "\n".join(lines)


def examples() -> list[object]:
    """Every example of every language file."""
    folder = resources.files("context_engine.languages")
    cases = []
    for name in ORDER:
        found = tomllib.loads((folder / f"{name}.toml").read_text("utf-8")).get("examples", [])
        cases += [pytest.param(name, example, id=f"{name}-{number}") for number, example in enumerate(found)]
    return cases


@pytest.mark.parametrize(("name", "example"), examples())
def test_a_language_outlines_its_examples_as_its_file_says(
    name: str, example: dict[str, object], grammars: Grammars
) -> None:
    details = bool(example.get("details"))
    source, language = str(example["source"]).encode(), Languages.builtin()[name]
    found = outline_file(language, source, grammars, details=details)
    uses = find_references(language, source, found.symbols, grammars) if details else []
    assert rendered(found, uses, details) == str(example["outline"]).rstrip("\n")


@pytest.fixture(scope="session")
def grammars(tmp_path_factory: pytest.TempPathFactory) -> Grammars:
    """The parsers, unpacked once a test run."""
    return Grammars(tmp_path_factory.mktemp("grammars"))
