"""The rules of secrets: each finds its examples and no rule finds a counter-example; a user's file is read as gitleaks reads it."""

from __future__ import annotations

import re
import sys

import pytest

from context_engine.errors import InvalidArgument
from context_engine.secrets import redact
from context_engine.secrets.redacted_text import redact_keyed
from context_engine.secrets.secret_finder import find_secrets
from context_engine.secrets.secret_rules import PLACES, SecretRule, builtin_rules, compile_pattern, read_rules
from context_engine.secrets.verifiers import VERIFIERS
from tests.support.secret_examples import DRAWN, drawn

RULES = builtin_rules().rules
KEY = b"a key of thirty-two bytes, right"
DRAWS = 5


def found_in(text: str, rule: SecretRule) -> set[str]:
    return {secret.rule for secret in find_secrets(text, path=rule.words[0] if rule.place == "file" else "")}


# -- our rules --------------------------------------------------------------------------------------------------------


def test_a_rule_is_whole_with_examples_and_counter_examples_beside_it() -> None:
    for rule in RULES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id)
        assert all((rule.title, rule.examples, rule.counter_examples)), rule.id
        assert rule.place in PLACES[:-1], rule.id
        assert bool(rule.words) == (rule.place not in ("any name", "line", "dots")), rule.id
        assert rule.verifier in VERIFIERS or rule.verifier == "pem", rule.id
        assert 0 <= rule.group <= re.compile(rule.pattern).groups, rule.id


def test_ids_are_given_once() -> None:
    assert len({rule.id for rule in builtin_rules().rules}) == len(RULES)
    assert len(RULES) >= 90


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_finds_its_examples(rule: SecretRule) -> None:
    for example in rule.examples:
        texts = [drawn(example, f"{draw}").text for draw in range(DRAWS)]
        assert sum(bool(found_in(text, rule)) for text in texts) == DRAWS, example
        assert any(rule.id in found_in(text, rule) for text in texts) or _is_covered(rule, texts), example


def _is_covered(rule: SecretRule, texts: list[str]) -> bool:
    """Whether a stronger rule takes the place of this one in every text: a span has one name."""
    others = {each for text in texts for each in found_in(text, rule)}
    by_id = {each.id: each for each in builtin_rules().rules}
    return any(by_id[other].tier == "strict" or rule.tier != "strict" for other in others)


def test_no_example_is_missed_and_nothing_of_it_leaks() -> None:
    missed, leaked, total = [], [], 0
    for rule in RULES:
        for example in rule.examples:
            for draw in range(DRAWS):
                told = drawn(example, f"again {draw}")
                redacted = redact_keyed(told.text, KEY, path=rule.words[0] if rule.place == "file" else "")
                total += 1
                missed += [told.text] if not redacted.count else []
                leaked += [told.text] if redacted.count and told.parts[-1] in redacted.text else []
    assert missed == []
    assert leaked == []
    assert total > DRAWS * len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_rule_finds_a_counter_example(rule: SecretRule) -> None:
    for example in rule.counter_examples:
        text = drawn(example, "counter").text
        assert found_in(text, rule) == set(), text


def test_replies_are_masked_by_the_rules_of_two_tiers_with_their_kind() -> None:
    for rule in RULES:
        path = rule.words[0] if rule.place == "file" else ""
        masked = [redact(drawn(rule.examples[0], f"{draw}").text, path=path) for draw in range(DRAWS)]
        # Without digits a value is a word.
        assert rule.tier == "broad" or sum(each.count > 0 for each in masked) >= DRAWS - 2, rule.id
        assert all(each.count == each.text.count("[masked ") for each in masked), rule.id


def test_no_example_holds_a_key_itself() -> None:
    for rule in RULES:
        for example in rule.examples:
            assert DRAWN.search(example), f"{rule.id}: {example}"


@pytest.mark.parametrize("missing", ["re2", "ahocorasick_rs"])
def test_without_an_engine_the_same_is_found(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [drawn(rule.examples[0], "engine").text for rule in RULES[::5]]
    text = "\n".join(texts)
    expected = [(secret.rule, secret.start, secret.stop) for secret in find_secrets(text)]
    monkeypatch.setitem(sys.modules, missing, None)
    compile_pattern.cache_clear()
    again = type(builtin_rules())(RULES)
    try:
        assert [(secret.rule, secret.start, secret.stop) for secret in find_secrets(text, rules=again)] == expected
    finally:
        compile_pattern.cache_clear()
    assert len(expected) >= len(texts) - 2


# -- a user's gitleaks.toml -------------------------------------------------------------------------------------------

THEIRS = """
title = "ours"

[extend]
useDefault = true
disabledRules = ["github-token"]

[[rules]]
id = "acme"
description = "Acme key"
regex = '''(?i)acme[_-]key\\s*=\\s*"(acme-[0-9a-z]{12})"'''
secretGroup = 1
keywords = ["acme"]
entropy = 2.5

  [[rules.allowlists]]
  regexes = ['''^acme-000''']
  stopwords = ["sample"]

[[rules]]
id = "broken"
regex = '''(?=never)'''

[[rules]]
id = "empty"

[[rules]]
id = "in-settings"
regex = '''pin:\\d{6}'''
path = '''\\.conf$'''

[allowlist]
paths = ['''^fixtures/''']
regexTarget = "line"
regexes = ['''not a secret''']
"""


def test_rules_of_a_user_are_found_beside_ours() -> None:
    rules = builtin_rules().extend(read_rules(THEIRS, "gitleaks.toml"))
    text = 'a = 1\nACME_KEY = "acme-4f5g6h7j8k9l"\n'
    (secret,) = find_secrets(text, rules=rules)
    assert (secret.rule, secret.title, secret.line, text[secret.start : secret.stop]) == (
        "acme",
        "Acme key",
        2,
        "acme-4f5g6h7j8k9l",
    )
    assert "acme-4f5g" not in redact_keyed(text, KEY, rules=rules).text
    assert find_secrets('ACME_KEY = "acme-aaaaaaaaaaaa"', rules=rules) == ()  # too little entropy


def test_a_pattern_that_cannot_be_run_is_skipped_and_named() -> None:
    rules = read_rules(THEIRS, "gitleaks.toml")
    assert [rule.id for rule in rules.rules] == ["acme", "in-settings"]
    assert [said.split(": ")[1] for said in rules.skipped] == ["broken", "empty"]
    assert redact_keyed("x", KEY, rules=rules).skipped_rules == rules.skipped


def test_a_rule_with_a_path_holds_for_these_files_only() -> None:
    rules = read_rules(THEIRS, "gitleaks.toml")
    assert [each.rule for each in find_secrets("pin:123456", path="a/b.conf", rules=rules)] == ["in-settings"]
    assert find_secrets("pin:123456", path="a/b.py", rules=rules) == ()


@pytest.mark.parametrize(
    ("line", "path", "is_allowed"),
    [
        ('acme_key = "acme-4f5g6h7j8k9l"', "a.py", False),
        ('acme_key = "acme-0004f5g6h7j8"', "a.py", True),
        ('acme_key = "acme-sample4f5g6h"', "a.py", True),
        ('acme_key = "acme-4f5g6h7j8k9l"  # not a secret', "a.py", True),
        ('acme_key = "acme-4f5g6h7j8k9l"', "fixtures/a.py", True),
        ('acme_key = "acme-4f5g6h7j8k9l"  # gitleaks:allow', "a.py", True),
        ('acme_key = "acme-4f5g6h7j8k9l"  # pragma: allowlist secret', "a.py", True),
    ],
)
def test_what_somebody_declared_to_be_none_is_marked_in_findings_and_redacted_all_the_same(
    line: str, path: str, is_allowed: bool
) -> None:
    rules = builtin_rules().extend(read_rules(THEIRS, "gitleaks.toml"))
    (secret,) = find_secrets(line, path=path, rules=rules)
    assert secret.is_allowed is is_allowed
    assert "acme-" not in redact_keyed(line, KEY, path=path, rules=rules).text


def test_a_rule_that_a_user_switched_off_is_marked_and_still_redacted() -> None:
    rules = builtin_rules().extend(read_rules(THEIRS, "gitleaks.toml"))
    token = drawn("ghp_<w36>", "off").text
    assert [secret.is_allowed for secret in find_secrets(token, rules=rules)] == [True]
    assert token not in redact_keyed(token, KEY, rules=rules).text


WRONG_VALUES = (
    "-1",
    "2.5",
    "inf",
    "nan",
    "9e400",
    "true",
    "'x'",
    "[1]",
    "[[]]",
    "{ a = 1 }",
    "[{ a = 1 }]",
    "2026-11-29",
)


@pytest.mark.parametrize(
    "field",
    [
        *("rules", "allowlist", "allowlists", "extend", "extend.disabledRules"),
        *(f"allowlist.{name}" for name in ("regexes", "stopwords", "paths", "regexTarget", "targetRules")),
        *(f"rule.{name}" for name in ("id", "regex", "secretGroup", "description", "keywords", "entropy", "path")),
    ],
)
def test_what_is_wrong_in_a_file_is_skipped_and_the_rest_is_searched_for(field: str) -> None:
    own = "[[rules]]\nid = 'own'\nregex = 'pin:([0-9]{6})'\n"
    of_rule = field.removeprefix("rule.")
    for value in WRONG_VALUES:
        if of_rule != field:
            odd = {"id": "'odd'", "regex": "'odd'", of_rule: value}
            text = f"{own}[[rules]]\n" + "".join(f"{key} = {known}\n" for key, known in odd.items())
        else:
            text = f"{field} = {value}\n" + own * (field != "rules")
        found = find_secrets("pin:123456", path="a.py", rules=read_rules(text, "gitleaks.toml"))
        assert ("own" in [secret.rule for secret in found]) is (field != "rules"), text


def test_a_file_that_is_no_toml_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidArgument, match=r"gitleaks\.toml cannot be read: not TOML"):
        read_rules("= 1", "gitleaks.toml")
