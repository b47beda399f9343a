"""No valid construct costs a file its definitions: not its own, and not those around it.

`constructs/LANGUAGE.txt` has short valid pieces of a language, each below a line `>> names`: what must be outlined.
`python -m tests.languages.test_constructs` prints how many are found.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from context_engine.languages import Languages, outline_file
from tests.support.engines import GRAMMARS

FOLDER = Path(__file__).parent / "constructs"
LANGUAGES = Languages.builtin()
PLAIN = {
    "python": "class {0}:\n    pass",
    "javascript": "class {0} {{ }}",
    "typescript": "class {0} {{ }}",
    "go": "func {0}() {{\n}}",
    "java": "class {0} {{\n}}",
    "kotlin": "class {0} {{\n}}",
    "csharp": "class {0} {{\n}}",
    "c": "int {0}(void) {{\n}}",
    "cpp": "class {0} {{\n}};",
    "rust": "struct {0} {{\n}}",
    "php": "class {0} {{\n}}",
    "ruby": "class {0}\nend",
    "swift": "class {0} {{\n}}",
    "scala": "class {0} {{\n}}",
    "lua": "function {0}()\nend",
    "bash": "{0}() {{\n:\n}}",
    "dart": "class {0} {{\n}}",
}
"""A plain definition, for each language in which one may be anywhere; the others are read alone."""
ENDS = ("namespace A", "global using", "__END__", "#!", "module")
"""Constructs that belong to the start or the end of a file are read alone, too."""


def read_constructs(language: str) -> Iterator[tuple[list[str], str]]:
    """Yield the names of each construct of a language, and its text."""
    for construct in (FOLDER / f"{language}.txt").read_text("utf-8").removeprefix(">> ").split("\n>> "):
        names, _, text = construct.partition("\n")
        yield names.split(), text


def find_missing(language: str, names: list[str], text: str) -> set[str]:
    """Return the names that an outline of the construct, alone or between two definitions, does not have."""
    plain = PLAIN.get(language)
    start = "<?php\n" if language == "php" else ""
    missing = set(names) - read_names(language, f"{start}{text}\n")
    if plain is not None and not any(mark in text for mark in ENDS):
        source = f"{start}{plain.format('Before')}\n{text}\n{plain.format('After')}\n"
        missing |= {"Before", *names, "After"} - read_names(language, source)
    return missing


def read_names(language: str, source: str) -> set[str]:
    """Return the names that the outline of a text has."""
    return {symbol.name for symbol in outline_file(LANGUAGES[language], source.encode(), GRAMMARS).symbols}


@pytest.mark.parametrize("language", sorted(file.stem for file in FOLDER.iterdir()))
def test_no_construct_costs_a_file_a_definition(language: str) -> None:
    lost = [
        (missing, text) for names, text in read_constructs(language) if (missing := find_missing(language, names, text))
    ]
    assert not lost


@pytest.mark.parametrize(
    ("language", "start"), [("java", ""), ("php", "<?php\n"), ("php", "#!/usr/bin/php\n\n<?php\n")]
)
def test_a_broken_method_costs_its_class_no_other_and_its_error_is_the_only_one(language: str, start: str) -> None:
    kind = "function" if start else "int"
    methods = "\n".join(f"    {kind} m{number}() {{\n        return {number};\n    }}" for number in range(9))
    broken = f"    {kind} broken( {{ ) int\n        [[ return;\n    }}\n"
    source = f"{start}class C {{\n{broken}{methods}\n}}\nclass D {{\n}}\n".encode()
    found = outline_file(LANGUAGES[language], source, GRAMMARS, details=True)
    above = start.count("\n")
    names = [
        (symbol.name, symbol.first - above, symbol.last - above) for symbol in found.symbols if symbol.name != "broken"
    ]
    inner = [(f"m{number}", 5 + 3 * number, 7 + 3 * number) for number in range(9)]
    assert names == [("C", 1, 32), *inner, ("D", 33, 34)]
    assert {problem.line - above for problem in found.problems} <= {2, 3, 4}


@pytest.mark.parametrize("after", ["", "?>\n<b><?php two() ?></b>\n"])
def test_a_broken_php_file_keeps_what_its_parser_found_and_its_errors(after: str) -> None:
    source = f"<?php\nfunction one() {{}}\nfunction broken( {{\n    [[ ) return\n class ) ( {{{{\n\nfunction two() {{\n}}\n{after}"
    found = outline_file(LANGUAGES["php"], source.encode(), GRAMMARS, details=True)
    assert {"one", "two"} <= {symbol.name for symbol in found.symbols} and found.problems


def print_table() -> None:
    """Print for each language how many constructs there are and how many are found, and the others."""
    for file in sorted(FOLDER.iterdir()):
        constructs = list(read_constructs(file.stem))
        lost = [(missing, text) for names, text in constructs if (missing := find_missing(file.stem, names, text))]
        print(f"| {file.stem} | {len(constructs)} | {len(constructs) - len(lost)} |")
        for missing, text in lost:
            print("   ", sorted(missing), repr(text[:150]))


if __name__ == "__main__":
    print_table()
