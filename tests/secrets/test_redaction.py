"""Scrubbing: nothing of a secret is left, everything else is where it was, and what stands for it tells secrets apart only to us."""

from __future__ import annotations

import base64
import json
import re
import tomllib
from itertools import pairwise

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine.secrets import RedactionOptions, count_labels, redact
from context_engine.secrets.redacted_text import fingerprint, redact_keyed
from context_engine.secrets.secret_finder import find_secrets
from context_engine.secrets.secret_rules import Tier, builtin_rules
from tests.support.secret_examples import drawn

KEY = b"one workspace, thirty-two bytes "
OTHER = b"another one, thirty-two bytes ok"
TOKEN = drawn("ghp_<w36>", "one").text
SECOND = drawn("ghp_<w36>", "two").text
PEM = drawn(
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n<b64>\n<b64>\n<b20>\n-----END ENCRYPTED PRIVATE KEY-----", "pem"
).text
LABEL = re.compile(r"\[REDACTED:([a-z0-9-]+):([0-9a-f]{6})\]")


# -- what has to go ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('password = "$&Tr0ub4dor$1"', "$&Tr0ub4dor$1"),
        ("DB_PASSWORD=$&xK9#mQ2vL", "$&xK9#mQ2vL"),
        ('{"user": "app", "password": "Tr0ub4dor&3"}', "Tr0ub4dor&3"),
        (r'{"log": "{\"password\": \"Tr0ub4dor&3\"}"}', "Tr0ub4dor&3"),
        (r'{"password": "qu\"ote5-inside"}', r"qu\"ote5-inside"),
        ("password: hunter2-is-long", "hunter2-is-long"),
        (f"Authorization: Bearer {TOKEN[4:]}", TOKEN[4:]),
        ("redis://:s3cr3t-pw@localhost:6379/0", "s3cr3t-pw"),
        (PEM, PEM.split("\n")[1]),
        (PEM.replace("\n", "\\n"), PEM.split("\n")[2]),
        (f"x = 1  # {TOKEN}  gitleaks:allow", TOKEN),
        (f"\x1b[31m{TOKEN}\x1b[0m", TOKEN),
        (f"?next=%2Fx%3Dy%26t%3D{TOKEN}", TOKEN),
        (f'{{"a":"\\u003c{TOKEN}"}}', TOKEN),
    ],
)
def test_a_secret_goes_however_it_is_written(text: str, secret: str) -> None:
    assert secret in text
    redacted = redact_keyed(text, KEY)
    assert secret not in redacted.text
    assert redacted.count == 1
    assert LABEL.search(redacted.text)


@pytest.mark.parametrize(
    "text",
    [
        "token = getTokenFromRequest(req)",
        "password = getpass.getpass()",
        'password: "${DB_PASSWORD}"',
        "password: $DB_PASSWORD",
        '"password": "password"',
        'help="the password of the user"',
        'token_url = "https://login.test/oauth2/v2.0/token"',
        "sha256 = 3f786850e387550fdab836ed7e6dc881de23001b3f786850e387550fdab836ed",
        '"integrity": "sha512-' + TOKEN[4:] * 2 + '=="',
        "eslint-visitor-keys/-/eslint-visitor-keys-4.2.1.tgz",
        "yield 'missing password' => ['esendex://email:@host?accountreference=ACCOUNT&from=FROM1'];",
        "data = 'key2=value2x&key3=value3&key4=value4'",
        "$password = $module.Params.password",
        "esxi_password: @ESXI2_PASSWORD",
        "assertArrayHasKey('workflow.workflow2.guard.t1', $listeners)",
        "git@github.com:owner/repo.git",
        "",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact_keyed(text, KEY).text == text


def test_a_secret_wrapped_in_base64_goes_and_one_wrapped_twice_is_not_looked_for() -> None:
    once = base64.b64encode(f'{{"user": "app", "token": "{TOKEN}"}}'.encode()).decode()
    twice = base64.b64encode(once.encode()).decode()
    assert redact_keyed(f"data: {once}\n", KEY).text == f"data: {redact_keyed(once, KEY).text}\n"
    assert once not in redact_keyed(once, KEY).text
    assert redact_keyed(f"data: {twice}", KEY).text == f"data: {twice}"
    plain = base64.b64encode(b"a text of more than forty letters that holds no secret at all").decode()
    assert redact_keyed(plain, KEY).text == plain


def test_of_rules_that_overlap_one_label_is_left_and_it_covers_them_all() -> None:
    text = f'api_token = "{TOKEN}-and-the-rest-9x8y7z"'
    redacted = redact_keyed(text, KEY)
    assert LABEL.sub("_", redacted.text) == 'api_token = "_"'
    assert redacted.count == 1


# -- what stands for it -----------------------------------------------------------------------------------------------


def test_the_same_secret_has_the_same_label_where_the_key_is_the_same() -> None:
    text = redact_keyed(f"{TOKEN}\n{SECOND}\n{TOKEN}\n", KEY).text
    first, second, third = LABEL.findall(text)
    assert (first[0], first) == ("github-token", third)
    assert first != second
    assert redact_keyed(TOKEN, KEY).text != redact_keyed(TOKEN, OTHER).text
    assert fingerprint(TOKEN, KEY).startswith(first[1])


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        (RedactionOptions(replacement="label"), r"\[REDACTED:github-token:[0-9a-f]{6}\]"),
        (RedactionOptions(replacement="hash"), r"\[REDACTED:[0-9a-f]{12}\]"),
        (RedactionOptions(replacement="fixed"), r"\[REDACTED\]"),
        (RedactionOptions(show=4), r"ghp_\[REDACTED:github-token:[0-9a-f]{6}\]"),
    ],
)
def test_how_a_secret_is_replaced_can_be_chosen(how: RedactionOptions, shape: str) -> None:
    redacted = redact_keyed(f"x {TOKEN} y", KEY, how)
    assert re.fullmatch(f"x {shape} y", redacted.text)
    assert redact_keyed(redacted.text, KEY, how).text == redacted.text
    assert count_labels(redacted.text).total() == 1


def test_a_value_of_the_allowlist_stays_and_another_one_goes() -> None:
    redacted = redact_keyed(f"{TOKEN} {SECOND}", KEY, RedactionOptions(allowed=frozenset({TOKEN})))
    assert redacted.text.startswith(f"{TOKEN} [REDACTED")
    assert redacted.count == 1


def test_strict_redacting_leaves_what_only_its_surroundings_give_away() -> None:
    text = f'password = "hunter2-is-long"\n{TOKEN}'
    assert redact_keyed(text, KEY, RedactionOptions(mode="strict")).text.startswith(
        'password = "hunter2-is-long"\n[REDACTED'
    )
    assert redact_keyed(text, KEY).count == 2


def test_the_lines_of_a_private_key_stay_unless_nobody_wants_them() -> None:
    text = f"before\n{PEM}\nafter"
    kept, joined = redact_keyed(text, KEY).text, redact_keyed(text, KEY, RedactionOptions(keep_structure=False)).text
    assert kept.split("\n")[3:] == ["", "", *text.split("\n")[-2:]]
    assert kept.count("\n") == text.count("\n")
    assert joined.count("\n") == text.count("\n") - 2


# -- where it stood ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "é😀 = ", "\n\n  x: ", "a\r\nü "])
def test_places_are_told_in_characters_and_lines_of_the_text(before: str) -> None:
    text = f"{before}{TOKEN}\nafter"
    (secret,) = find_secrets(text, "strict")
    assert text[secret.start : secret.stop] == TOKEN
    lines = text.split("\n")
    assert lines[secret.line - 1][secret.column - 1 :].startswith(TOKEN)
    (found,) = redact_keyed(text, KEY).redactions
    assert (found.secret.line, found.secret.column, found.length) == (secret.line, secret.column, len(TOKEN))


def test_what_was_masked_and_what_was_redacted_is_known_again() -> None:
    assert count_labels(redact(TOKEN).text) == {"[masked github token]": 1}
    assert count_labels(redact_keyed(f"{TOKEN} {TOKEN}", KEY).text).total() == 2
    assert count_labels("[masked ball] [REDACTED] [REDACTED by the court] [redacted:x:123456]") == {"[REDACTED]": 1}


# -- laws -------------------------------------------------------------------------------------------------------------

RULES = builtin_rules().rules
SECRETS = st.builds(
    lambda number, seed: drawn(RULES[number].examples[0], str(seed)).text,
    st.integers(0, len(RULES) - 1),
    st.integers(0, 99),
)
PIECES = st.sampled_from(
    (
        *(
            "\n",
            "\r\n",
            "\\n",
            " ",
            '"',
            "'",
            "=",
            ": ",
            ">",
            "<",
            ",",
            "{",
            "}",
            "&",
            "$&",
            "\x00",
            "é",
            "😀",
            "İ",
            "a",
            "7",
        ),
        *("password", "api_key", "token", "Bearer ", "://a:b7c8d9@", "-----BEGIN PRIVATE KEY-----"),
        *("[REDACTED:x-y:012345]", "[REDACTED", "[masked secret]"),
    )
)
TEXTS = st.lists(SECRETS | PIECES | st.text(max_size=12), max_size=9).map("".join)
MODES: st.SearchStrategy[Tier] = st.sampled_from(["strict", "broad"])


@example(
    "Bearer token\n" + drawn("<b64>\n<b64>\n<b42>==\n-----END RSA PRIVATE KEY-----", "0").text
)  # a name, and behind an escape something like its value
@given(TEXTS)
def test_json_stays_json_with_the_same_shape(text: str) -> None:
    told = {"content": text, "more": [text, 1]}
    redacted = json.loads(redact_keyed(json.dumps(told), KEY).text)
    assert (set(redacted), len(redacted["more"]), redacted["more"][1]) == (set(told), 2, 1)


@pytest.mark.parametrize("before", ["\n", "\t", "é", "\x00", '"', "\\n"])
def test_a_secret_after_an_escape_leaves_valid_json(before: str) -> None:
    key = drawn("<w44>AzFu<w6>==", "near").text
    redacted = redact_keyed(json.dumps({"content": before + key}), KEY).text
    content = json.loads(redacted)["content"]
    assert content.startswith(before if before != "\\n" else "\\")
    assert LABEL.search(content)


def test_a_label_between_two_lines_of_a_key_takes_nothing_with_it() -> None:
    line = drawn("<b64>", "line").text
    told = {"first": f"{line}\n", "between": "[REDACTED:x-y:012345]", "last": f"{line}\n"}
    redacted = json.loads(redact_keyed(json.dumps(told), KEY).text)
    assert redacted.keys() == told.keys()
    assert redacted["between"] == told["between"]
    assert line not in json.dumps(redacted)


@given(st.lists(SECRETS.filter(lambda each: each.isprintable()), min_size=1, max_size=4))
def test_settings_files_stay_what_they_are(secrets: list[str]) -> None:
    as_toml = "".join(f"key{number} = {json.dumps(each)}\n" for number, each in enumerate(secrets))
    assert len(tomllib.loads(redact_keyed(as_toml, KEY).text)) == len(secrets)
    as_yaml = "".join(f"key{number}: {json.dumps(each)}\n" for number, each in enumerate(secrets))
    assert len(yaml.safe_load(redact_keyed(as_yaml, KEY).text)) == len(secrets)


@given(TEXTS)
def test_what_is_found_lies_in_order_and_apart(text: str) -> None:
    found = find_secrets(text)
    assert all(0 <= each.start < each.stop <= len(text) for each in found)
    assert all(before.stop <= after.start for before, after in pairwise(found))
    assert all(each.parts[0][0] == each.start and each.parts[-1][1] == each.stop for each in found)


BOT_TOKEN = drawn(next(rule for rule in RULES if rule.id == "discord-bot-token").examples[0], "0").text


@example(
    f"{BOT_TOKEN}{BOT_TOKEN}%"
)  # by its name the second value ends with the sign, and the first is no copy of that
@given(TEXTS)
def test_what_strict_rules_find_broad_ones_find_too(text: str) -> None:
    strict, broad = find_secrets(text, "strict"), find_secrets(text, "broad")
    assert all(any(one.start <= each.start and each.stop <= one.stop for one in broad) for each in strict)
