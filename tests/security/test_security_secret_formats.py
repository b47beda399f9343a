"""Formats of secrets times the places where they are written down: none is shown, and nothing is left of the value.

Values are drawn from the examples of the rules, so that no file of this repository holds a key.
"""

from __future__ import annotations

from itertools import product

import pytest

from context_engine.text.secrets import mask, mask_source, scrub
from tests.secret_examples import drawn

KEY = b"a key of thirty-two bytes, right"
TOKENS = {
    "github": "ghp_<w36>",
    "github fine-grained": "github_pat_<w22>_<w59>",
    "gitlab": "glpat-<s20>",
    "aws": "AKIA<T16>",
    "slack": "xoxb-<d12>-<d12>-<w24>",
    "stripe": "sk_live_<w24>",
    "openai": "sk-proj-<s48>",
    "anthropic": "sk-ant-api03-<s93>",
    "google": "AIza<s35>",
    "npm": "npm_<w36>",
    "hugging face": "hf_<l30><d4>",
    "sendgrid": "SG.<s22>.<s43>",
    "jwt": "eyJ<s20>.eyJ<s60>.<s43>",
    "vault": "hvs.<s90>",
    "shopify": "shpat_<x32>",
    "digitalocean": "dop_v1_<x64>",
}
BEFORE = (
    "",
    "-",
    "--",
    "_",
    "+",
    " -",
    "x-",
    "key-",
    "token-",
    "old_",
    "0x",
    "3-",
    "12:",
    "src/a.py-12-",
    "12\t",
    "# ",
)
AFTER = ("", "_", "-suffix", "_v2", "\n", '"')
PEM = drawn(
    "-----BEGIN RSA PRIVATE KEY-----\n<b64>\n<b64>\n<b64>\n<b40>\n-----END RSA PRIVATE KEY-----", "format"
).text.split("\n")


# -- what may be joined to a token ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_with_a_prefix_of_its_own_is_masked_whatever_is_joined_to_it(name: str) -> None:
    for before, after in product(BEFORE, AFTER):
        token = drawn(TOKENS[name], before + after).text
        text = f"first\n{before}{token}{after}\nlast"
        assert mask(text).text.startswith(f"first\n{before}[masked "), (before, after)
        assert token not in mask(text).text, (before, after)
        assert token not in scrub(text, KEY).text, (before, after)


# -- keys without their first line ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", ["", "    ", "3-", "12: ", "+", "-", "k.pem-7-", '    "', "# "])
def test_lines_of_a_key_are_masked_without_its_first_line(lead: str) -> None:
    text = "\n".join(f"{lead}{line}" for line in PEM[2:-1])
    masked = mask(text).text
    assert not any(line in masked for line in PEM[2:-1])
    assert masked.count("\n") == text.count("\n")


@pytest.mark.parametrize("lead", ["", "    ", "3-", "+"])
def test_one_line_of_a_key_alone_is_masked(lead: str) -> None:
    assert mask(f"zebra\n{lead}{PEM[2]}\nzebra").text == f"zebra\n{lead}[masked key data]\nzebra"


def test_lines_of_a_key_in_a_string_with_escapes_are_masked_without_its_first_line() -> None:
    masked = mask('"private_key": "' + "\\n".join(PEM[2:-1]) + '\\n"').text
    assert not any(line in masked for line in PEM[2:-1])


@pytest.mark.parametrize("what", ["CERTIFICATE", "PUBLIC KEY", "PGP PUBLIC KEY BLOCK"])
def test_what_its_first_or_its_last_line_calls_public_is_shown(what: str) -> None:
    body = PEM[1:-1]
    assert mask("\n".join([f"-----BEGIN {what}-----", *body])).count == 0
    assert mask("\n".join([*body, f"-----END {what}-----"])).count == 0


def test_a_key_behind_a_certificate_in_one_file_is_masked() -> None:
    text = "\n".join(["-----BEGIN CERTIFICATE-----", PEM[1], PEM[2], "-----END CERTIFICATE-----", *PEM])
    assert mask(text).text.split("\n")[:6] == [*text.split("\n")[:5], "[masked private key]"]


# -- a part of a file with the whole of it in view --------------------------------------------------------------------


def test_each_line_of_a_file_is_shown_without_what_only_the_rest_of_the_file_gives_away() -> None:
    body = [line[:50] for line in PEM[1:-1]]
    source = mask_source("\n".join(["a", PEM[0], *body, PEM[-1], "z"]), path="k.yml")
    shown = [source.lines(number, number).text for number in range(1, len(body) + 5)]
    assert shown == ["a", PEM[0], *["[masked private key]"] * len(body), PEM[-1], "z"]
    assert source.lines(1, len(body) + 4).text == mask(source.source).text


@pytest.mark.parametrize("start", range(0, 60, 7))
def test_a_part_that_begins_inside_of_a_secret_shows_nothing_of_it(start: int) -> None:
    token = drawn("ghp_<w36>", "cut").text
    source = mask_source(f"before {token} after")
    assert not any(token[place : place + 4] in source.cut(start, 60).text for place in range(37))
