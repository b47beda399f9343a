"""Fuzz tests of what configures us: settings, rules, language files, ignore files, front matter, manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import platformdirs
import pytest

from context_engine.context.commands import detect_commands
from context_engine.index.file_roles import front_matter_tags, inline_tag_places
from context_engine.languages import Languages
from context_engine.languages.comments import read_file_header
from context_engine.languages.language import read_language
from context_engine.languages.outline import outline_file
from context_engine.memory import memory_file
from context_engine.repo.ignore_rules import LEVELS, IgnoreRules, PlacedRules, RuleStack
from context_engine.review.checks.change_checks import dependencies
from context_engine.review.invariants import read_invariants_file
from context_engine.review.source_versions import FileVersion
from context_engine.secrets.secret_finder import find_secrets
from context_engine.secrets.secret_rules import read_rules
from context_engine.settings import Settings
from context_engine.text.json_reader import ParseError, read_json
from context_engine.text.untrusted_data import read_toml, read_yaml
from tests.security.fuzzing import as_bytes, fuzz, mutated
from tests.support.changes import PARSERS

YAML = [
    "quiet_ms: 20\nwatch: no\napprovals_mode: required\n",
    "base: &base {paths: [a, b], n: 1_0}\nrule: {<<: *base, c: ~}\ntext: |\n  two\n  lines\nday: 2024-02-29\n",
    "? [a]\n: b\n- c\n",
]
TOML = [
    "name = \"x\"\n[a.b]\nc = [1, {d = 1979-05-27T07:32:00Z}]\n\"e\" = '''f'''\n",
    "[[a]]\nb = 0x1f\n[a.c]\nd=1.5e3 # g\n",
]
JSON = ['{"a": [1, 2.5e3, "\\u00e9", null, true], "b": {"c": {}}}', '[{"scripts": {"test": "x"}}]']


@pytest.mark.parametrize(
    ("name", "seeds", "read"), [("YAML", YAML, read_yaml), ("TOML", TOML, read_toml), ("JSON", JSON, read_json)]
)
def test_texts_of_values(name: str, seeds: list[str], read: Any) -> None:
    fuzz(name, mutated(seeds), lambda text: repr(read(text)), ParseError)


@pytest.mark.parametrize("whose", ["repository", "user"])
def test_settings(whose: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_config_dir", lambda *_, **__: str(tmp_path / "config"))
    file = tmp_path / {"repository": ".context-engine", "user": "config"}[whose] / "config.yml"
    file.parent.mkdir()

    def load(text: str) -> None:
        file.write_bytes(as_bytes(text))
        Settings.load(tmp_path, {}).notes()

    names = [
        f"{name}: " for name in ("cache_folder", "rate_limits_per_minute", "flush", "workers", "log_level", "store_url")
    ]
    fuzz(f"settings of the {whose}", mutated(YAML, names), load)


def test_invariants() -> None:
    seeds = [
        (
            'invariants:\n  - id: A\n    rule: No print.\n    paths: ["src/**"]\n    severity: P1\n'
            '    deny: {regex: {pattern: "\\\\bprint\\\\(", flags: i}}\n'
        ),
        '- {id: B, when: {regex: "@route"}, require: {regex: x}, scope: file}\n- {id: C, ast: "f($A)", paths: a}\n',
    ]

    def read(text: str) -> None:
        for rule in read_invariants_file("rules.yml", as_bytes(text)).invariants:
            rule.applies_to("src/a.py")
            for pattern in (rule.deny, rule.when, rule.require):
                if pattern:
                    pattern.search("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!")

    fuzz("invariants", mutated(seeds, ["(a+)+$", "(?=", "[[:", "**/", "!"]), read)


def test_language_files() -> None:
    builtin = Languages.builtin()
    known = {language.name: language for language in builtin.listed}
    folder = Path(__file__).resolve().parent.parent.parent / "context_engine" / "languages"
    seeds = [
        (folder / f"{name}.toml").read_text("utf-8").partition("[[examples]]")[0] for name in ("python", "cpp", "vue")
    ]
    source = b"/* " + b"a" * 60 + b"!\nclass A { void f(); };\ndef g():\n    'doc'\n"

    def read(text: str) -> None:
        language = read_language(text, "mine.toml", known)
        Languages((language, *builtin.listed)).detect("a.h", b"a" * 60 + b"!")
        read_file_header(language, source)
        outline_file(language, source, PARSERS.grammars)

    fuzz(
        "language files",
        mutated(seeds, ['docstring = "(a+)+$"\n', 'based_on = "c"\n', "[claims]\n", '".h" = "(a|a)*b"\n']),
        read,
    )


def test_gitleaks_rules() -> None:
    seeds = [
        (
            '[extend]\nuseDefault = true\ndisabledRules = ["github-token"]\n[[rules]]\nid = "acme"\ndescription = "A"\n'
            "regex = '''(?i)acme[_-]key\\s*=\\s*\"(acme-[0-9a-z]{12})\"'''\nsecretGroup = 1\nkeywords = [\"acme\"]\nentropy = 2.5\n"
            '[[rules.allowlists]]\nregexes = ["x"]\nstopwords = ["y"]\npaths = ["z"]\n[allowlist]\nregexTarget = "line"\n'
        )
    ]
    text = 'acme_key = "acme-0123456789ab"\n' + "a" * 200 + "!\n"
    fuzz(
        "gitleaks rules",
        mutated(seeds, ["(a+)+$", "(a|aa)+$", "nan", "inf"]),
        lambda rules: find_secrets(text, rules=read_rules(rules, "g.toml")),
    )


def test_ignore_files() -> None:
    seeds = [
        "*.log\n!keep.log\n/build/\n**/node_modules/**\na/**/b\n[a-z]?.tmp\n\\#x\n[[:alpha:]]*\n",
        "*\n!*/\n!*.py\n",
    ]
    names = ["a" * 250 + "!", "aaaa.log", "keep.log", "build", ".git", "\udcff"]

    def read(text: str) -> None:
        stack = RuleStack(PlacedRules(IgnoreRules(level, text), base) for level in LEVELS for base in ("", "src"))
        for folder in ("", "src", "src/a/a/a/a/a/b"):
            view = stack.at(folder)
            for name in names:
                for is_folder in (False, True):
                    stack.words(view.value(name, is_folder))

    texts = mutated(seeds, ["*a" * 30, "**/" * 30, "[" * 20, "?" * 30, "a*" * 30 + "b"])
    as_read = texts.map(lambda text: as_bytes(text).decode("utf-8", "surrogateescape"))  # as files are decoded
    fuzz("ignore files", as_read, read)


def test_front_matter() -> None:
    seeds = [
        "---\nid: mem_1\ntags: [a, b]\nmine: {deep: [1, yes]} # note\n\n# end\n---\nBody #tag `x`.\n",
        "---\r\n{a: b}\r\n---\r\n",
    ]

    def read(text: str) -> None:
        front_matter_tags(text)
        list(inline_tag_places(text))
        if not memory_file.parse_front_matter(text).problem:
            after = memory_file.update_fields(text, {"id": "mem_2", "tags": ["x"], "mine": None})
            assert memory_file.parse_front_matter(after).fields.get("id") == "mem_2"
        memory_file.replace_body(text, "Other.\n")

    fuzz("front matter", mutated(seeds), read)


def test_manifests() -> None:
    seeds = [
        '{"scripts": {"test": "jest", "lint": "eslint ."}, "dependencies": {"a": "^1"}, "prettier": {"printWidth": 90}}',
        '[project]\ndependencies = ["a>=1"]\n[tool.ruff]\nline-length = 100\n[tool.poetry.group.dev.dependencies]\nb = "*"\n',
        "test: a b\n\tc\ntasks:\n  lint:\n    x\nrequire x.y/z v1\n gem 'a', '1'\n",
    ]
    names = "package.json composer.json pyproject.toml Cargo.toml go.mod Gemfile deno.json Makefile justfile".split()

    def read(text: str) -> None:
        detect_commands([*names, "tox.ini", "Taskfile.yml"], lambda _: text)
        for name in names:
            dependencies(FileVersion(name, as_bytes(text), PARSERS))

    fuzz("manifests", mutated(seeds, ["{a,b}" * 12, "*" * 40, "[!"]), read)
