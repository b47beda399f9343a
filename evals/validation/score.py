"""Validation on files that are sound, and on the same files damaged: none of the first may fail, most of the second should.

    python evals/validation/score.py SOURCE ... [--files 200] [--damaged 20]

A SOURCE is a git repository (its HEAD is read), a folder, or a zip of sources. Of each language so many files are
drawn, always the same ones; files that a project keeps because they are broken (fixtures, testdata) are left out.
`caught` fails the content, `told` at least warns where the sound file had no warning.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.languages import Grammars, Languages, blank_comments_and_strings
from context_engine.review import ValidationRequest, ValidationResult, ValidationService
from context_engine.secrets import redact
from context_engine.storage import user_cache_folder

LANGUAGES = ("python", "go", "java", "javascript", "typescript", "rust", "php", "csharp", "ruby", "c", "json", "yaml")
"""Ten languages of code and two of data."""
BROKEN = re.compile(
    r"(^|/)(fixtures?|testdata|test-data|__fixtures__|bad|invalid|broken|templates?|lib2to3/tests|test/|tests?/data|min\.js|node_modules)"
    r"|(^|/)(bad|badsyntax|invalid|fail\d*)[^/]*$|syntax[-_]?err|\.min\.js$|\.py[xdi]$|^files/|Yts\w+\.yml$|/resources/|"
    r"with-syntax|ParseError",
    re.IGNORECASE,
)
BYTES = range(300, 200_000)
Damage = Callable[[str, str, random.Random], str]


def main() -> int:
    """Draw, look, print; fail when a sound file fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--damaged", type=int, default=20)
    asked = parser.parse_args()
    service = make_service()
    drawn = draw(asked.sources, asked.files, service.parsers)
    failed = sound(drawn, service)
    damaged(drawn, service, asked.damaged)
    return 1 if failed else 0


def sound(drawn: dict[str, list[tuple[str, str]]], service: ValidationService) -> int:
    """Files as they are: how many fail, and how many are warned of."""
    print("| sound files | looked at | fail | warned of | not parsed |\n| --- | --- | --- | --- | --- |")
    failures: list[str] = []
    for language, files in drawn.items():
        counts = Counter[str]()
        for path, text in files:
            found = look(text, path, service)
            counts["warned"] += any(finding.severity == "warning" for finding in found.findings)
            counts["skipped"] += bool(found.skipped)
            if not found.has_passed:
                counts["failed"] += 1
                failures.append(f"{path}: {found.findings[0]}")
        print(f"| {language} | {len(files)} | {counts['failed']} | {counts['warned']} | {counts['skipped']} |")
    total = sum(map(len, drawn.values()))
    print(f"| all | {total:,} | {len(failures)} | | |\n")
    print(*failures[:40], sep="\n")
    return len(failures)


def damaged(drawn: dict[str, list[tuple[str, str]]], service: ValidationService, count: int) -> None:
    """The same files with something wrong: by kind of damage, and by language."""
    by_kind: dict[str, Counter[str]] = defaultdict(Counter)
    by_language: dict[str, Counter[str]] = defaultdict(Counter)
    for language, files in drawn.items():
        for path, text in files[:count]:
            before = look(text, path, service)
            for kind, damage in DAMAGES.items():
                broken = damage(text, code_of(text, path, service.parsers), random.Random(f"{path}{kind}"))
                if broken == text:
                    continue
                found = look(broken, path, service)
                told = not found.has_passed or len(found.findings) > len(before.findings)
                for counter in (by_kind[kind], by_language[language]):
                    counter.update({"all": 1, "caught": int(not found.has_passed), "told": int(told)})
    for name, rows in (("damage", by_kind), ("language", by_language)):
        print(f"\n| {name} | tried | caught | told |\n| --- | --- | --- | --- |")
        for key, counts in rows.items():
            shares = (f"{counts[what] / counts['all']:.0%}" for what in ("caught", "told"))
            print(f"| {key} | {counts['all']} | {' | '.join(shares)} |")


# -- damages -----------------------------------------------------------------------------------------------------------


def bracket_lost(text: str, code: str, chance: random.Random) -> str:
    """A closing bracket is gone."""
    return without(text, [found.start() for found in re.finditer(r"[)\]}]", code)], chance)


def bracket_added(text: str, code: str, chance: random.Random) -> str:
    """A bracket too many, at the end of a line of code."""
    return with_(
        text, [found.end() for found in re.finditer(r"[\w)];?$", code, re.MULTILINE)], chance.choice(")]}"), chance
    )


def quote_lost(text: str, code: str, chance: random.Random) -> str:
    """A string that does not end."""
    places = [
        at + 1
        for at, character in enumerate(text[1:], 1)
        if character == '"' and code[at] != '"' and text[at + 1 : at + 2] != '"'
    ]
    return without(text, [at - 1 for at in places], chance)


def cut(text: str, code: str, chance: random.Random) -> str:
    """The answer ended in the middle: inside some bracket."""
    inside, deep = [], 0
    for at, character in enumerate(code):
        deep += (character in "([{") - (character in ")]}")
        if deep > 0 and at > len(code) // 3:
            inside.append(at + 1)
    return text[: chance.choice(inside)] if inside else text


def word_garbled(text: str, code: str, chance: random.Random) -> str:
    """Two letters of a keyword change places."""
    words = list(
        re.finditer(r"\b(?:return|function|class|import|def|func|public|static|struct|while|elif|else)\b", code)
    )
    if not words:
        return text
    word = chance.choice(words)
    said = word.group()
    return f"{text[: word.start()]}{said[:-2]}{said[-1]}{said[-2]}{text[word.end() :]}"


def operator_doubled(text: str, code: str, chance: random.Random) -> str:
    """`x = = y`."""
    return with_(text, [found.start() + 1 for found in re.finditer(r" = ", code)], "= ", chance)


def fence_left(text: str, _code: str, _chance: random.Random) -> str:
    """The fence of the Markdown that the code came in."""
    return f"```\n{text}```\n"


def talk_left(text: str, _code: str, _chance: random.Random) -> str:
    """A sentence before the code."""
    return f"Here is the updated file, with the changes you've asked for:\n\n{text}"


def conflict(text: str, code: str, chance: random.Random) -> str:
    """A merge that nobody resolved."""
    return with_(text, starts(code), "<<<<<<< HEAD\nold\n=======\nnew\n>>>>>>> topic\n", chance)


def nul(text: str, code: str, chance: random.Random) -> str:
    """A NUL."""
    return with_(text, starts(code), "\0", chance)


def bidi(text: str, code: str, chance: random.Random) -> str:
    """A line that is shown in another order than it is read in."""
    return with_(text, starts(code), "\u202e", chance)


DAMAGES: dict[str, Damage] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(bracket_lost, bracket_added, quote_lost, cut, word_garbled, operator_doubled),
        *(fence_left, talk_left, conflict, nul, bidi),
    )
}


def without(text: str, places: list[int], chance: random.Random) -> str:
    """The text without one of these characters."""
    at = chance.choice(places) if places else None
    return text if at is None else text[:at] + text[at + 1 :]


def with_(text: str, places: list[int], what: str, chance: random.Random) -> str:
    """The text with something put in at one of these places."""
    at = chance.choice(places) if places else None
    return text if at is None else text[:at] + what + text[at:]


def starts(code: str) -> list[int]:
    """Where a line of code begins."""
    return [found.start() for found in re.finditer(r"^(?=\S)", code, re.MULTILINE)]


# -- files -------------------------------------------------------------------------------------------------------------


def make_service() -> ValidationService:
    """Parsers, and nobody who knows a workspace."""
    redactor: Any = SimpleNamespace(find=lambda _text, _path: (), redact=redact)
    return ValidationService(Languages.builtin(), Grammars(user_cache_folder() / "grammars"), redactor)


def look(text: str, path: str, service: ValidationService) -> ValidationResult:
    """Tier 1 alone."""
    return service.validate(
        text, ValidationRequest(kind="generated_code", path=path, redacts=False, tiers=frozenset({1}))
    )


def code_of(text: str, path: str, parsers: Any) -> str:
    """The text with strings and comments blank, character by character; all of it where nobody can tell."""
    language = parsers.languages.detect(path, text.encode())
    data = (
        blank_comments_and_strings(language, text.encode(), parsers.grammars)
        if language and language.grammar and text.isascii()
        else None
    )
    return data.decode() if data is not None else text


def draw(sources: list[Path], count: int, parsers: Any) -> dict[str, list[tuple[str, str]]]:
    """So many files of each language, the same ones each time."""
    by_language: dict[str, list[tuple[str, Callable[[], bytes]]]] = defaultdict(list)
    for source in sources:
        for path, read in listed(source):
            language = parsers.languages.detect(path)
            if language is not None and language.name in LANGUAGES and not BROKEN.search(path):
                by_language[language.name].append((path, read))
    return {language: list(texts(by_language[language], count)) for language in LANGUAGES}


def texts(files: list[tuple[str, Callable[[], bytes]]], count: int) -> Iterator[tuple[str, str]]:
    """Files in a shuffled order until there are enough of a fitting size."""
    for path, read in random.Random(7).sample(files, len(files)):
        if count <= 0:
            return
        data = read()
        try:
            text = data.decode("utf-8") if len(data) in BYTES else ""
        except UnicodeDecodeError:
            continue
        if text:
            count -= 1
            yield path, text.replace("\r\n", "\n")


def listed(source: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The files of a source, and how to read each."""
    if source.suffix == ".zip":
        archive = zipfile.ZipFile(source)
        yield from ((name, lambda name=name: archive.read(name)) for name in archive.namelist())
    elif (source / "HEAD").exists():
        names = git(source, "ls-tree", "-r", "-z", "--name-only", "HEAD").decode("utf-8", "replace").split("\0")
        yield from ((name, lambda name=name: git(source, "cat-file", "blob", f"HEAD:{name}")) for name in names if name)
    else:
        for folder, _, names in os.walk(source):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    yield path.relative_to(source).as_posix(), path.read_bytes


def git(repository: Path, *args: str) -> bytes:
    """What git says; nothing when it does not know the file, as of a submodule."""
    return subprocess.run(["git", *args], cwd=repository, capture_output=True, check=False).stdout


if __name__ == "__main__":
    sys.exit(main())
