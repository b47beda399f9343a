"""Word pieces: equal to the reference on any text, identifiers split as the recipe says, nothing slow, nothing unsafe."""

from __future__ import annotations

import json
import random
import re
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.embedding.wordpiece import (
    WORD_CHARS_MAX,
    WORDS_KEPT_MAX,
    WordPiece,
    lower_letters,
    normalize_character,
)

ROOT = Path(__file__).resolve().parents[2]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
PIECES = [
    *string.ascii_lowercase,
    *(f"##{letter}" for letter in string.ascii_lowercase if letter not in "qz"),  # so that some words are unknown
    *(string.punctuation + string.digits),
    *("##" + digit for digit in string.digits),
    *"get file config parse http read ##er ##ing ##s cls sep 中 文 か ##な α σ ##σ … ä".split(),
]
VOCABULARY = {piece: number for number, piece in enumerate(dict.fromkeys(SPECIAL + PIECES))}
TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [],
    "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "lowercase": True},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": WORD_CHARS_MAX,
        "vocab": VOCABULARY,
    },
}
TRUE_TOKENIZERS = sorted((ROOT / "build" / "models").glob("minilm-*/tokenizer.json"))

plain = WordPiece.from_tokenizer(TOKENIZER, split_identifiers=False)
cutter = WordPiece.from_tokenizer(TOKENIZER)
NAMES = {number: piece for piece, number in VOCABULARY.items()}

# Characters of today's alphabets, marks, blanks and symbols. What Unicode 9 and later added is left out: the reference
# looks characters up in tables of Unicode 8.
CHARACTERS = st.characters(max_codepoint=0x2FFF, categories=["L", "N", "Z", "Sm", "Sc", "Cc", "Cf"]).filter(
    lambda char: ord(char) < 0x500 or 0x2000 < ord(char) < 0x2100
)
WORLD = st.sampled_from(
    [*"abzAZ019_-+.,:(){}[]#$ \t\n\r\0é́äßİΣσ中文字かな가…—¿€→🎉\u200b\u2028\ufeff\ufffd", "get", "File", "[CLS]"]
)
TEXTS = st.lists(WORLD | CHARACTERS, max_size=60).map("".join)


def shown(ids: list[int]) -> str:
    return " ".join(NAMES[number] for number in ids)


def words(text: str) -> str:
    """The pieces without the two special ones."""
    return shown(cutter.ids(text)[1:-1])


def reference(tokenizer: dict[str, Any]) -> Any:
    """The same tokenizer in the library everybody uses; the test is left out where it is not installed."""
    known = pytest.importorskip("tokenizers").Tokenizer.from_str(json.dumps(tokenizer))
    known.no_padding()
    known.no_truncation()
    return known


# -- against the reference ----------------------------------------------------------------------------------------


@given(TEXTS)
def test_pieces_are_those_of_the_reference_on_any_text(text: str) -> None:
    expected = reference(TOKENIZER).encode(text, add_special_tokens=False).ids
    assert plain.pieces(text, 10_000) == expected


def test_pieces_are_those_of_the_reference_on_thousands_of_texts() -> None:
    known = reference(TOKENIZER)
    chance = random.Random(4)
    sources = [
        path.read_text("utf-8")
        for folder in ("context_engine", "docs")
        for path in sorted((ROOT / folder).rglob("*.*"))
        if path.suffix in (".py", ".md", ".toml")
    ]
    whole = "\n".join(sources)
    starts = [chance.randrange(len(whole)) for _ in range(3_000)]
    texts = [whole[start : start + chance.randrange(400)] for start in starts]
    expected = [encoded.ids for encoded in known.encode_batch(texts, add_special_tokens=False)]
    assert [plain.pieces(text, 10_000) for text in texts] == expected


@pytest.mark.skipif(not TRUE_TOKENIZERS, reason="`ctx model pull minilm` was not run for this tree")
def test_pieces_of_the_true_vocabulary_are_those_of_the_reference() -> None:
    tokenizer = json.loads(TRUE_TOKENIZERS[0].read_text("utf-8"))
    tokenizer["added_tokens"] = []  # a `[CLS]` inside a text is text for us, and a command there
    known, ours = reference(tokenizer), WordPiece.from_tokenizer(tokenizer, split_identifiers=False)
    known.enable_truncation(128)
    texts = [path.read_text("utf-8")[:2_000] for path in sorted((ROOT / "context_engine").rglob("*.py"))]
    texts += [path.read_text("utf-8")[:2_000] for path in sorted((ROOT / "context_engine").rglob("*.toml"))]
    assert [ours.ids(text) for text in texts] == [encoded.ids for encoded in known.encode_batch(texts)]


# -- identifiers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("getHTTPFile", "get http file"),
        ("parse_config_file2", "parse config file 2"),
        ("__get__", "get"),
        ("_", ""),
        ("READ_FILE", "read file"),
        ("get(File.configs)", "get ( file . config ##s )"),
        ("http2Reading", "http 2 read ##ing"),
        ("getÄFile", "get a file"),
        ("readFilé", "read file"),
        ("中get文", "中 get 文"),
    ],
)
def test_an_identifier_is_cut_where_a_reader_would(text: str, pieces: str) -> None:
    assert words(text) == pieces


@given(st.text(string.ascii_letters + string.digits + "_", max_size=40))
def test_the_parts_of_an_identifier_are_those_the_recipe_names(name: str) -> None:
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)
    assert cutter.pieces(name, 1_000) == plain.pieces(" ".join(parts), 1_000)


@given(st.lists(st.sampled_from([*"abc ._(", "get", "[CLS]", "\n"])).map("".join))
def test_text_without_capitals_digits_or_underscores_is_cut_as_ever(text: str) -> None:
    text = text.replace("_", "").lower()
    assert cutter.ids(text) == plain.ids(text)


# -- special pieces, the cap, hostile texts -----------------------------------------------------------------------


def test_what_looks_like_a_special_piece_is_text() -> None:
    assert words("[CLS] file [SEP]") == "[ cls ] file [ sep ]"


@given(TEXTS)
def test_a_text_is_framed_and_capped(text: str) -> None:
    small = WordPiece(VOCABULARY, tokens_max=9)
    ids = small.ids(text)
    assert (ids[0], ids[-1], len(ids) <= 9) == (small.cls, small.sep, True)
    assert ids[1:-1] == cutter.pieces(text, 1_000)[:7]
    assert not {small.cls, small.sep, small.pad} & set(ids[1:-1])


def test_the_cap_is_128_unless_another_is_asked_for() -> None:
    assert len(cutter.ids("file " * 1_000)) == 128
    assert len(WordPiece(VOCABULARY, tokens_max=16).ids("file " * 1_000)) == 16


@pytest.mark.parametrize(
    ("unit", "count"),
    [
        ("a", 3),
        ("aA", 128),
        ("_", 2),
        (" ", 2),
        ("中", 128),
        ("🎉", 3),
        ("\u0316\u0300", 2),
        ("e\u0316\u0300", 3),
        ("(", 128),
        ("\0", 2),
    ],
    ids=ascii,
)
def test_a_megabyte_without_a_blank_is_cut_like_any_text(unit: str, count: int) -> None:
    assert len(cutter.ids(unit * (1_000_000 // len(unit)))) == count


def test_a_word_of_a_hundred_characters_is_cut_and_a_longer_one_unknown() -> None:
    assert len(plain.pieces("a" * WORD_CHARS_MAX, 1_000)) == WORD_CHARS_MAX
    assert plain.pieces("a" * (WORD_CHARS_MAX + 1), 1_000) == [plain.unknown]
    assert words("quiz get") == "[UNK] get"


@given(TEXTS)
def test_the_same_text_has_the_same_pieces_whatever_was_cut_before(text: str) -> None:
    assert WordPiece(VOCABULARY).ids(text) == cutter.ids(text) == cutter.ids(text)


def test_more_different_words_than_are_remembered_change_nothing() -> None:
    letters = "abcdefghij"
    numbers = range(WORDS_KEPT_MAX + 500)
    text = " ".join("".join(letters[int(digit)] for digit in str(number)) for number in numbers)
    fresh = WordPiece(VOCABULARY)
    assert len(fresh.pieces(text, 10**9)) == sum(len(str(number)) for number in numbers)
    assert fresh.pieces("get files", 9) == cutter.pieces("get files", 9)


@given(st.characters())
def test_the_normal_form_of_a_character_is_its_own_normal_form(char: str) -> None:
    form = normalize_character(char)
    assert "".join(map(normalize_character, form.strip())).strip() == form.strip()


def test_half_a_surrogate_pair_vanishes() -> None:
    assert words("get\ud800File") == "get file"
    assert lower_letters("ΣΑΣ") == "σασ"


# -- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"lowercase": False}},
        {"normalizer": None},
        {"model": {**TOKENIZER["model"], "type": "BPE"}},
        {"model": {**TOKENIZER["model"], "max_input_chars_per_word": 200}},
    ],
    ids=["cased", "no normalizer", "BPE", "longer words"],
)
def test_a_tokenizer_of_another_kind_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"uncased WordPiece|characters"):
        WordPiece.from_tokenizer(TOKENIZER | change)
