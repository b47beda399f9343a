"""Files that a repository brings and we parse: no hang, no crash, no pattern or query of a stranger that takes forever."""

from __future__ import annotations

import time
from pathlib import Path

import platformdirs
import pytest

from context_engine.engine import Engine
from context_engine.errors import InvalidArgument
from context_engine.index.worker import load_languages
from context_engine.languages import Languages
from context_engine.languages.outline import outline_file
from context_engine.review.invariants import read_invariants_file
from context_engine.settings import Settings
from context_engine.storage.confined_folder import ConfinedFolder
from tests.security.test_security_untrusted import ALIAS_BOMB, MERGE_BOMB
from tests.support.engines import GRAMMARS
from tests.support.trees import tree

SECONDS_MAX = 10
QUERY = "((_)+ (_)+ (_)+ @name) @class"
"""It takes minutes on a list of 3,000 numbers."""


def language_file(root: Path, text: str) -> None:
    tree(root, {".context-engine/languages/x.toml": text})


def opened(root: Path) -> Engine:
    return Engine.open(root, settings=Settings(cache_folder=root.parent / "cache", workers=0))


def test_a_claim_of_a_repository_takes_no_longer_than_its_text(tmp_path: Path) -> None:
    root = tree(tmp_path / "here", {"a.py": "a" * 40 + "!\n", "pyproject.toml": ""})
    language_file(root, 'name = "x"\nsuffixes = [".x"]\n[claims]\n".py" = "(a+)+$"\n')
    started = time.process_time()
    with opened(root) as engine:
        assert engine.index.update().files >= 1
    assert time.process_time() - started < SECONDS_MAX


@pytest.mark.parametrize(
    "field", ["[claims]\n'.py' = '(?=a)'", "[comments]\ndocstring = '(a)\\1'", "[outline]\ndeclarator = '(?<!a)b'"]
)
def test_a_pattern_that_re2_cannot_run_is_refused_with_its_field(tmp_path: Path, field: str) -> None:
    language_file(tmp_path, f'name = "x"\n{field}\n')
    with pytest.raises(InvalidArgument, match="RE2") as caught:
        load_languages(tmp_path)
    assert caught.value.details["field"] in {"claims..py", "comments.docstring", "outline.declarator"}


@pytest.mark.parametrize("query", [QUERY, '((identifier) @name (#match? @name "^(a+)+$")) @class'])
def test_a_query_of_a_repository_is_not_run_and_one_of_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    text = f"name = 'x'\nbased_on = 'python'\nsuffixes = ['.x']\n[outline]\ndefinitions = '''{query}'''\n"
    root = tmp_path / "here"
    language_file(root, text)
    with pytest.raises(InvalidArgument, match="those are not run") as caught:
        load_languages(root)
    assert "languages" in caught.value.suggestion
    monkeypatch.setattr(platformdirs, "user_config_dir", lambda *_, **__: str(tmp_path / "config"))
    (root / ".context-engine" / "languages" / "x.toml").unlink()
    tree(tmp_path / "config", {"languages/x.toml": text})
    assert load_languages(root)["x"].definitions == query


def test_a_repository_may_bring_a_language_with_queries_of_ours(tmp_path: Path) -> None:
    language_file(tmp_path, 'name = "starlark"\nbased_on = "python"\nsuffixes = [".bzl"]\n')
    found = load_languages(tmp_path).detect("a.bzl")
    assert found is not None
    assert found.definitions == Languages.builtin()["python"].definitions


@pytest.mark.parametrize("parts", ["[]", '["<a>"]', '["<a>", "</a>"]', '["<a>", "</a>", ";("]'])
def test_a_repository_may_bring_a_language_with_incomplete_parts(tmp_path: Path, parts: str) -> None:
    text = f'name = "odd"\nbased_on = "javascript"\nsuffixes = [".odd"]\nonly_inside = [{parts}]\n'
    language_file(tmp_path, text)
    language = load_languages(tmp_path).detect("a.odd")
    assert language is not None
    outline_file(language, b"no <a>function alpha() {}</a> no", GRAMMARS)


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 5_000, "name = " + "9" * 5_000, ".".join("a" * 5_000) + " = 1", "name = 9999-99-99", "\x00"]
)
def test_a_hostile_language_file_is_one_short_sentence(tmp_path: Path, text: str) -> None:
    language_file(tmp_path, text)
    with pytest.raises(InvalidArgument) as caught:
        Languages.builtin().with_folder(ConfinedFolder(tmp_path).folder(".context-engine/languages"))
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("text", [ALIAS_BOMB, MERGE_BOMB, "[" * 50_000, "a: " + "9" * 5_000, "- &a [*a]"])
def test_hostile_rules_of_a_review_are_a_warning(text: str) -> None:
    started = time.process_time()
    found = read_invariants_file(".review-invariants.yml", text.encode())
    assert found.invariants == ()
    assert "nothing of it is used" in found.warnings[0]
    assert time.process_time() - started < SECONDS_MAX
