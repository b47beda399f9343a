"""Examples of secrets drawn anew from the notation of `secrets.toml`, so that no file of this repository holds a key."""

from __future__ import annotations

import base64
import random
import re
import string
import uuid
from dataclasses import dataclass

LETTERS = {
    "w": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "A": string.ascii_uppercase + string.digits,
    "l": string.ascii_letters,
    "d": string.digits,
    "x": "0123456789abcdef",
    "X": "0123456789ABCDEF",
    "s": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
    "T": string.ascii_uppercase + "234567",
    "r": string.ascii_lowercase + "234567",
    "Q": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
WITH_DIGITS = "waAsbTr"
DIGITS_EVERY = 4
"""A part of fewer characters need not have any."""
DRAWN = re.compile(rf"<(?:([{''.join(LETTERS)}B])(\d+)|(u))>")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A text with secrets in it, and what was drawn for them."""

    text: str
    parts: tuple[str, ...]


DIGITS_MIN = 2
"""Chance draws a key without digits once in fifty, which looks like a word to every reader; those are drawn again."""


def drawn(example: str, seed: str, digits_min: int = DIGITS_MIN) -> Drawn:
    """The example with its marks filled in; the same seed draws the same."""
    chance = random.Random(f"{seed}{example}")
    parts: list[str] = []

    def one(match: re.Match[str]) -> str:
        letter, count = match[1] or match[3], int(match[2] or 0)
        part = _part(letter, count, chance)
        while letter in WITH_DIGITS and sum(map(str.isdigit, part)) < min(digits_min, count // DIGITS_EVERY):
            part = _part(letter, count, chance)
        parts.append(part)
        return part

    return Drawn(DRAWN.sub(one, example), tuple(parts))


def _part(letter: str, count: int, chance: random.Random) -> str:
    if letter == "u":
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))
    if letter == "B":
        return base64.b64encode(f"user:{_part('w', count * 3 // 4 - 5, chance)}".encode()).decode()
    ends = (
        LETTERS["w"] if letter in "sb" else LETTERS[letter]
    )  # what begins and ends with a mark is cut by who quotes it
    inner = "".join(chance.choice(LETTERS[letter]) for _ in range(count - 2))
    return (chance.choice(ends) + inner + chance.choice(ends))[:count]
