"""Formats of secrets times the places where they are written down: none is shown, and nothing is left of the value.

Values are drawn from the examples of the rules, so that no file of this repository holds a key.
"""

from __future__ import annotations

import base64
import html
import json
import time
from itertools import product
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.secrets import RedactionOptions, count_labels, redact
from context_engine.secrets.redacted_text import redact_keyed
from tests.support.secret_examples import drawn
from tests.support.secret_formats import PLACE_FORMATS, TOKEN_FORMATS

KEY = b"a key of thirty-two bytes, right"
FORMATS = {**TOKEN_FORMATS, **PLACE_FORMATS}
BEFORE = (
    *("", "-", "--", "_", "+", " -", "x-", "key-", "token-", "old_", "0x", "3-", "12:", "src/a.py-12-"),
    *("12\t", "# "),
)
AFTER = ("", "_", "-suffix", "_v2", "\n", '"')
PEM = drawn(
    "-----BEGIN RSA PRIVATE KEY-----\n<b64>\n<b64>\n<b64>\n<b40>\n-----END RSA PRIVATE KEY-----", "format"
).text.split("\n")


# -- what may be joined to a token ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKEN_FORMATS)
def test_a_token_with_a_prefix_of_its_own_is_masked_whatever_is_joined_to_it(name: str) -> None:
    for before, after in product(BEFORE, AFTER):
        token, _ = TOKEN_FORMATS[name].draw(before + after)
        text = f"first\n{before}{token}{after}\nlast"
        assert redact(text).text.startswith(f"first\n{before}[masked "), (before, after)
        assert token not in redact(text).text, (before, after)
        assert token not in redact_keyed(text, KEY).text, (before, after)


# -- keys without their first line ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", ["", "    ", "3-", "12: ", "+", "-", "k.pem-7-", '    "', "# "])
def test_lines_of_a_key_are_masked_without_its_first_line(lead: str) -> None:
    text = "\n".join(f"{lead}{line}" for line in PEM[2:-1])
    masked = redact(text).text
    assert not any(line in masked for line in PEM[2:-1])
    assert masked.count("\n") == text.count("\n")


@pytest.mark.parametrize("lead", ["", "    ", "3-", "+"])
def test_one_line_of_a_key_alone_is_masked(lead: str) -> None:
    assert redact(f"zebra\n{lead}{PEM[2]}\nzebra").text == f"zebra\n{lead}[masked key data]\nzebra"


def test_lines_of_a_key_in_a_string_with_escapes_are_masked_without_its_first_line() -> None:
    masked = redact('"private_key": "' + "\\n".join(PEM[2:-1]) + '\\n"').text
    assert not any(line in masked for line in PEM[2:-1])


@pytest.mark.parametrize("what", ["CERTIFICATE", "PUBLIC KEY", "PGP PUBLIC KEY BLOCK"])
def test_what_its_first_or_its_last_line_calls_public_is_shown(what: str) -> None:
    body = PEM[1:-1]
    assert redact("\n".join([f"-----BEGIN {what}-----", *body])).count == 0
    assert redact("\n".join([*body, f"-----END {what}-----"])).count == 0


def test_a_key_behind_a_certificate_in_one_file_is_masked() -> None:
    text = "\n".join(["-----BEGIN CERTIFICATE-----", PEM[1], PEM[2], "-----END CERTIFICATE-----", *PEM])
    assert redact(text).text.split("\n")[:6] == [*text.split("\n")[:5], "[masked private key]"]


# -- formats times contexts -------------------------------------------------------------------------------------------

DRAWS = 3
LEFT_CHARS_MIN = 6
"""So much of a secret may be left by chance, and tells nobody the rest."""
WRITINGS = {
    "JSON": '{{"value": "{}"}}',
    "YAML": "value: {}\n",
    "TOML": 'value = "{}"\n',
    "environment": "VALUE={}\n",
    "XML": "<value>{}</value>",
    "PHP": "$value = '{}';",
    "Python": "value = '{}'",
    "JavaScript": "const value = `{}`;",
    "a call": 'Client("{}")',
    "a comment": "# was {} before",
    "an address": "https://x.test/?v={}&w=1",
}
ESCAPED = {
    "all of it in an address": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "its signs in an address": lambda text: quote(text, safe="").replace("-", "%2D").replace("_", "%5F"),
    "its signs in an address, twice": lambda text: text.replace("-", "%252D").replace("_", "%255F"),
    "escapes of JSON": lambda text: "".join(f"\\u{ord(letter):04x}" for letter in text),
    "escapes of JavaScript": lambda text: "".join(f"\\u{{{ord(letter):x}}}" for letter in text),
    "escapes of Python": lambda text: "".join(f"\\x{ord(letter):02x}" for letter in text),
    "HTML, decimal": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "HTML, hexadecimal": lambda text: "".join(f"&#x{ord(letter):X};" for letter in text),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 of JSON": lambda text: base64.b64encode(json.dumps({"value": text}).encode()).decode(),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(f"v={text}".encode()).decode(),
}
BASE64_BYTES_MIN = 30
"""What is shorter has less than forty letters in base64, as many as a checksum or a long name: nothing so short is
decoded."""


def is_left(secret: str, text: str) -> bool:
    """Return whether the first or the second half of a secret is in a text."""
    half = max(LEFT_CHARS_MIN, len(secret) // 2)
    return secret[:half] in text or secret[-half:] in text


def test_there_are_more_than_seventy_formats() -> None:
    assert len(FORMATS) >= 120


@pytest.mark.parametrize("name", TOKEN_FORMATS)
def test_a_token_is_masked_in_every_language(name: str) -> None:
    for writing in WRITINGS.values():
        token, _ = TOKEN_FORMATS[name].draw(writing)
        text = writing.format(token)
        assert not is_left(token, redact(text).text), text
        assert not is_left(token, redact_keyed(text, KEY).text), text


NEEDS_PATH = {"rails master key"}


@pytest.mark.parametrize("name", PLACE_FORMATS)
@pytest.mark.parametrize("is_path_known", [True, False])
def test_a_secret_is_masked_in_the_file_where_it_is_written_down(name: str, is_path_known: bool) -> None:
    form = PLACE_FORMATS[name]
    path = form.path if is_path_known else ""
    if not is_path_known and name in NEEDS_PATH:
        pytest.skip("nothing but the name of its file says that it is a secret")
    for draw in range(DRAWS):
        text, secret = form.draw(f"{name} {draw}")
        texts = (text, f"first\n{text}\nlast\n", text.replace("\n", "\r\n"))
        for surrounded in texts[:1] if name in NEEDS_PATH else texts:
            masked = redact(surrounded, path=path)
            assert not is_left(secret, masked.text), surrounded
            assert not is_left(secret, redact_keyed(surrounded, KEY, path=path).text), surrounded
            assert masked.text.count("\n") == surrounded.count("\n")


@pytest.mark.parametrize("name", PLACE_FORMATS)
def test_a_secret_inside_a_string_of_json_is_masked(name: str) -> None:
    if name in NEEDS_PATH:
        pytest.skip("nothing but the name of its file says that it is a secret")
    text, secret = PLACE_FORMATS[name].draw("json")
    masked = redact(json.dumps({"content": text})).text
    assert not is_left(secret, json.loads(masked)["content"])


@pytest.mark.parametrize("name", TOKEN_FORMATS)
def test_a_token_is_masked_in_every_form_that_hides_its_letters(name: str) -> None:
    for form, escape in ESCAPED.items():
        token, _ = TOKEN_FORMATS[name].draw(form)
        if form.startswith("base64") and len(token) < BASE64_BYTES_MIN:
            continue
        escaped = escape(token)
        for text in (f'x = "{escaped}"', f"a {escaped} b", f"?v={escaped}&w=1"):
            assert not is_left(escaped, redact(text).text), (form, text)
            assert not is_left(escaped, redact_keyed(text, KEY).text), (form, text)


def test_an_address_with_a_password_is_masked_when_it_is_part_of_another_one() -> None:
    text, secret = PLACE_FORMATS["password in an address"].draw("part")
    for escaped in (quote(text, safe=""), html.escape(text).replace("@", "&#64;"), text.replace("/", "\\u002f")):
        assert secret not in redact(f"next={escaped}").text


# -- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["password in YAML", "password in Python", "uuid behind a telling name", "redis address"]
)
def test_every_further_copy_of_a_value_is_masked(name: str) -> None:
    text, secret = PLACE_FORMATS[name].draw("copy")
    masked = redact(f"log: tried {secret} and [{secret}]\n{text}\ncheck({secret})\n")
    assert secret not in masked.text
    assert masked.count == 4


@pytest.mark.parametrize("word", ["password", "wordpress", "correcthorse", "12345678", "admin"])
def test_a_word_that_is_also_a_password_is_masked_where_it_is_one_and_nowhere_else(word: str) -> None:
    text = f"user: x\nthe {word} of the page\npassword: {word}\n"
    assert f"the {word} of the page" in redact(text, path="a.yml").text


def test_a_value_of_eight_thousand_letters_is_masked_whole() -> None:
    long = drawn("<w7900>", "long").text
    for text in (f'client_secret = "{long}"', f"API_TOKEN={long}\n", f'{{"access_token": "{long}"}}'):
        assert len(redact(text).text) < 100, text[:40]


# -- laws -------------------------------------------------------------------------------------------------------------

NAMES = sorted(FORMATS)
PIECES = st.builds(lambda name, seed: FORMATS[name].draw(seed)[0], st.sampled_from(NAMES), st.sampled_from("abcdefg"))
FILLING = st.sampled_from(
    ("\n", " ", "-", "_", "+", '"', "'", "=", "%5F", "\\u005f", "&#95;", "\\n", "[masked secret]", "12-", "é", "x")
) | st.text(max_size=8)
PATHS = st.sampled_from(("", "a.py", "a.yml", ".env", "tests/test_a.py", "docs/a.md", "go.sum"))
TEXTS = st.lists(PIECES | FILLING, max_size=7).map("".join)


@given(TEXTS, PATHS)
def test_masking_twice_changes_nothing_more_and_moves_no_line(text: str, path: str) -> None:
    once = redact(text, path=path)
    assert redact(once.text, path=path).text == once.text
    assert once.text.count("\n") == text.count("\n")
    assert (once.count == 0) == (once.text == text)
    in_json = json.loads(redact(json.dumps({"content": text})).text)
    assert set(in_json) == {"content"}
    assert in_json["content"].count("\n") == text.count("\n")


@given(TEXTS, PATHS)
def test_labels_of_the_same_secret_are_the_same_and_known_again(text: str, path: str) -> None:
    redacted = redact_keyed(text, KEY, RedactionOptions(), path=path)
    assert redact_keyed(text, KEY, RedactionOptions(), path=path).text == redacted.text
    assert redacted.text.count("\n") == text.count("\n")
    assert redact_keyed(redacted.text, KEY, RedactionOptions(), path=path).text == redacted.text
    labels = {found.replacement for found in redacted.redactions}
    assert all(
        label in labels or label.startswith("[REDACTED") or label in text for label in count_labels(redacted.text)
    )


# -- hostile texts ----------------------------------------------------------------------------------------------------

HOSTILE = (
    *(
        "= %41 &#65; QUFB A a 0 - _ / é $ [ ghp_ -ghp_ eyJ eyJ. eyJ- _eyJ key= key: ?key= password= "
        "password=a token=' a:b@ :// ://a: ://a:b@ ://a:bcd@ 0x 12- x_key_ sk- sk_live_ AKIA xoxb- "
        "server=a;pwd= hooks.slack.com/ [REDACTED: a=ba=ba=ba=ba=ba=ba=ba=b :AA %3D :5432:a:b: $apr1$ "
    ).split(),
    *("\\u0041", "\\x41", '"', "key: ", 'password="', 'secret="', "token\n", "api_key api_key ", "-----BEGIN "),
    *("-----BEGIN PRIVATE KEY-----", "\\n", "Bearer ", "curl -u a:", "Authorization: ", "Cookie: a=b; ", "discord "),
    "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB\n",
    "machine a login b ",
    "]:587 a",
)
HOSTILE_BYTES, HOSTILE_S = 100_000, 5.0


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_text_is_read_in_linear_time(piece: str) -> None:
    # Quadratic work on so many characters takes a quarter of a minute and more; the bound leaves room for a machine that is busy with others.
    text = piece * (HOSTILE_BYTES // len(piece))
    began = time.process_time()
    redact(text)
    redact_keyed(text, KEY)
    assert time.process_time() - began < HOSTILE_S
