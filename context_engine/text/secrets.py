r"""PURE. Secrets in a text, masked before it leaves: keys of known shape, private keys, passwords in addresses.

    mask("url: postgres://app:Tr0ub4dor@db/app").text   ->   "url: postgres://app:[masked password]@db/app"

A rule stands here only if it is next to never wrong: an agent that is shown a mask instead of code cannot work. What is
masked is visible and says what it was; lines stay where they are; masking twice changes nothing more. The text may be
JSON, where an escape such as `\n` stands before a key: escapes and quotes are never touched.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Masked:
    """A text that may leave, and how many secrets it held."""

    text: str
    count: int


def mask(text: str) -> Masked:
    """The text with every secret replaced. A text that holds none of the anchors is answered as it is, at once."""
    total = 0
    for rule in RULES:
        if any(anchor in text for anchor in rule.anchors):
            text, count = rule.apply(text)
            total += count
    text, count = _assignments(text)
    return Masked(text, total + count)


def mask_keys(text: str) -> str:
    """The text with the keys masked that go over several lines, before a part of it is cut out.

    The middle of such a key cannot be told from other data. Lines keep their numbers.
    """
    rule = RULES[0]
    return rule.apply(text)[0] if any(anchor in text for anchor in rule.anchors) else text


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret: cheap words one of which must occur, a pattern, and a second look at what it found.

    Each pattern runs in linear time on any text: it begins with a word and cannot start again inside what it read.
    """

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    replace: Callable[[re.Match[str], str], str]

    def apply(self, text: str) -> tuple[str, int]:
        """The text with this kind masked, and how many there were."""
        count = 0

        def replaced(match: re.Match[str]) -> str:
            nonlocal count
            new = self.replace(match, f"[masked {self.kind}]")
            count += new != match.group()
            return new

        return self.pattern.sub(replaced, text), count


def masks(text: str) -> Counter[str]:
    """What stands in a text as it does where secrets were masked, and how often.

    >>> masks("url: postgres://app:[masked password]@db/app")
    Counter({'[masked password]': 1})
    """
    kinds = {f"[masked {kind}]" for kind in (*(rule.kind for rule in RULES), "secret")}
    return Counter(found for found in re.findall(r"\[masked [a-z ]+\]", text) if found in kinds)


# -- second looks -----------------------------------------------------------------------------------------------------

DISTINCT_MIN = 8
"""A key of 20 characters has 12 or more different ones; `xxxxxxxx` and `0000` are placeholders."""
PLACEHOLDERS = ("example", "placeholder", "changeme", "your", "dummy", "redacted", "xxxx", "****", "1234567890")


def whole(match: re.Match[str], mark: str) -> str:
    """All of it, unless it stands in for a key."""
    return match.group() if is_placeholder(match.group()) else mark


def last_group(match: re.Match[str], mark: str) -> str:
    """What the last group holds, by the same rule; what stands before it stays."""
    if is_placeholder(match[match.re.groups]):
        return match.group()
    start = match.start(match.re.groups) - match.start()
    return match.group()[:start] + mark + match.group()[start + len(match[match.re.groups]) :]


def is_placeholder(value: str) -> bool:
    """Whether a value stands where somebody shall put a key.

    >>> is_placeholder("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), is_placeholder("AKIAIOSFODNN7EXAMPLE")
    (True, True)
    """
    lowered = value.lower()
    return len(set(lowered)) < DISTINCT_MIN or any(word in lowered for word in PLACEHOLDERS)


def header(match: re.Match[str], mark: str) -> str:
    """A token after `Bearer`, if it is the value of an Authorization header and looks like no word."""
    before = match.string[max(0, match.start() - 40) : match.start()].lower()
    if "authorization" not in before or not re.search(r"\d", match[1]):
        return match.group()
    return last_group(match, mark)


STAND_IN = re.compile(
    r"(?:my|your|the|some|api|app|application|acs|user|auth|access|account|db|client|resource|secret|pass|word|wd|phrase|pwd|pw|key|token"
    r"|sid|login|domain|id|name|root|admin|test|guest|postgres|mysql|foo|bar|baz|xx|dsn)+"
)
"""Passwords made of nothing but these show where one goes (`apiKey`, `APP_TOKEN`, `pass2`)."""


def address(match: re.Match[str], mark: str) -> str:
    """The password in `scheme://user:password@host`, unless it only shows where one goes."""
    user, password = match[1], match[2]
    letters = re.sub(r"%[0-9A-Fa-f]{2}|[^a-z]", "", password.lower())
    if password == user or STAND_IN.fullmatch(letters) or len(set(password)) < 3 or "example" in letters:
        return match.group()
    return f"://{user}:{mark}@"


LINE_END = re.compile(r"((?:\\r)?\\n|\r?\n)")
"""Also as JSON writes it."""
AROUND_LINES = " \t\"'`+,;()\\"
"""What stands around a line of a key where it is written into a program."""
KEY_LINE = re.compile(r"[A-Za-z0-9+/=]+")
KEY_HEADER = re.compile(r"[A-Za-z-]+: .*")
KEY_LINE_CHARS_MIN = 32
"""The longest line of a key has 64 or more; code that only speaks of keys has none of these."""


def private_key(match: re.Match[str], mark: str) -> str:
    """The lines of a key, as far as what follows its BEGIN is made of them; an END may be cut off."""
    lines = LINE_END.split(match["body"])  # lines at even places, what ends them at odd ones
    longest = 0
    for place in range(0, len(lines), 2):
        line = lines[place].strip(AROUND_LINES)
        if KEY_LINE.fullmatch(line):
            lines[place] = lines[place].replace(line, "" if longest else mark, 1)
            longest = max(longest, len(line))
        elif line and not KEY_HEADER.fullmatch(line):
            break
    if longest < KEY_LINE_CHARS_MIN:
        return match.group()
    return match.group().removesuffix(match["body"]) + "".join(lines)


# -- the rules --------------------------------------------------------------------------------------------------------


def _key(kind: str, anchors: tuple[str, ...], prefix: str, rest: str) -> Rule:
    """A rule for keys that begin with a word, at the start of a word or after an escape, and end with their letters."""
    start = rf"{prefix}(?:(?<![A-Za-z0-9_-]{prefix})|(?<=\\[nrt]{prefix}))"
    return Rule(kind, anchors, re.compile(rf"{start}{rest}(?![A-Za-z0-9_-])"), whole)


RULES: tuple[Rule, ...] = (
    Rule(
        "private key",
        ("PRIVATE KEY",),
        re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?P<body>(?:[^-]|-(?!----))*)"),
        private_key,
    ),
    _key("aws key", ("AKIA", "ASIA"), r"A[KS]IA", r"(?=[A-Z]{0,15}\d)[0-9A-Z]{16}"),
    _key("github token", ("gh",), r"gh[pousr]_", r"[A-Za-z0-9]{36,}"),
    _key("github token", ("github_pat_",), r"github_pat_", r"[A-Za-z0-9_]{22,}"),
    _key("gitlab token", ("glpat-",), r"glpat-", r"[A-Za-z0-9_-]{20,}"),
    _key("slack token", ("xox",), r"xox[abprs]-", r"(?=[A-Za-z-]{0,20}\d)[A-Za-z0-9-]{20,}"),
    _key("npm token", ("npm_",), r"npm_", r"[A-Za-z0-9]{36}"),
    _key("hugging face token", ("hf_",), r"hf_", r"[A-Za-z0-9]{34}"),
    _key("api key", ("sk-",), r"sk-", r"(?:(?:ant|proj)-[A-Za-z0-9_-]{24,}|(?=[A-Za-z]{0,30}\d)[A-Za-z0-9]{48})"),
    _key("api key", ("k_live_",), r"[rs]k_live_", r"[A-Za-z0-9]{24,}"),
    _key("google key", ("AIza",), r"AIza", r"[0-9A-Za-z_-]{35}"),
    _key("jwt", ("eyJ",), r"eyJ", r"[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    Rule("token", ("Bearer ",), re.compile(r"Bearer ([A-Za-z0-9._~+/-]{20,}=*)"), header),
    Rule(
        "password",
        ("://",),
        re.compile(r"""://([^\s/:@\\"'`<>{}$()]{0,64}):([^\s/:@?#\\"'`<>{}$()\[\]]{3,128})@(?=[A-Za-z0-9\[])"""),
        address,
    ),
)
"""In the order they are applied: what a key's own shape shows is not called a mere password."""

# -- values given to a name ------------------------------------------------------------------------------------------

NAME_ENDS = ("password", "passwd", "secret", "token", "key")
KEYS = ("api", "access", "private", "secret", "auth", "signing", "encryption")
"""What stands before `key` where the key is a secret: most keys are those of a mapping."""
ASSIGNED = re.compile(
    r"""(?:_?base)?(?:\\?["'])?\s{0,8}(?::=|=>|=|:)\s{0,8}(\\?["'`])([^\s"'`\\${}<>()\[\]]{16,200})\1""", re.IGNORECASE
)
"""What follows a name: `= "value"`, `: 'value'`, `": "value"`. Words and calls are no literals."""
ENTROPY_BITS_MIN = 3.5
"""Of each character: random letters and digits have 3.9 and more at length 16, words joined by `_` about 3."""
DIGITS_MIN = 2
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _assignments(text: str) -> tuple[str, int]:
    """Random values given to names such as `password` and `api_key`."""
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text  # a few letters grow when they are lowered, and places must be the same in both
    found = sorted({span for name in NAME_ENDS for span in _assigned(text, lowered, name)}, reverse=True)
    parts: list[str] = []
    stop_before = len(text)
    for start, stop in found:
        parts += [text[stop:stop_before], "[masked secret]"]
        stop_before = start
    return text[:stop_before] + "".join(reversed(parts)), len(found)


def _assigned(text: str, lowered: str, name: str) -> Iterator[tuple[int, int]]:
    """Where the values stand that are given to names with this end."""
    place = lowered.find(name)
    while place >= 0:
        stop = place + len(name)
        if name != "key" or lowered[max(0, place - 12) : place].rstrip("_-").endswith(KEYS):
            match = ASSIGNED.match(text, stop)
            if match and is_random(match[2]):
                yield match.span(2)
        place = lowered.find(name, stop)


def is_random(value: str) -> bool:
    """Whether nobody would choose such a value: digits among letters, hardly a character twice.

    >>> is_random("q8Zt2Lw0Xv5Rb7Nc"), is_random("user_token_header_v2"), is_random("0b1e9c7e-3d5f-4a53-9f6e-2f4e4c1f9a11")
    (True, False, False)
    """
    if sum(character.isdigit() for character in value) < DIGITS_MIN or value.isdigit():
        return False
    if is_placeholder(value) or UUID.fullmatch(value):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= ENTROPY_BITS_MIN
