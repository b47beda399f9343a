"""The rules for secrets and their files: the builtin rules, and a user's `gitleaks.toml` with the same schema.

A builtin rule also has the place of its words: at the `start` of the secret, in the `name` of its assignment, `near`
it, or `anywhere`, as in gitleaks. Patterns are run by RE2 in linear time. Without RE2 the builtin patterns are run by
`re` and those of a user not at all. Invalid patterns are skipped and named.

All words are searched in one pass over a text, and only their places are examined further.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from context_engine.errors import InvalidArgument
from context_engine.storage import prepare_type
from context_engine.text import ParseError, compile_linear, load_re2, read_toml

Tier = Literal["strict", "reply", "broad"]
WordPlace = Literal["start", "name", "near", "line", "dots", "file", "any name", "anywhere"]

CONFIDENCE: Mapping[Tier, float] = {"strict": 0.95, "reply": 0.75, "broad": 0.75}
"""The share of correct findings per tier: strict rules know the shape of a key, broad ones its surroundings."""
PLACES: tuple[WordPlace, ...] = get_args(WordPlace)
TIERS: tuple[Tier, ...] = get_args(Tier)
"""Each is searched with those before it."""
THEIRS = 1_000_000
"""The rank of a user's rules, above all builtin ones."""
USER_PATTERN_CHARS_MAX = 2_000
"""The longest pattern of a known rule file has 700."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The values, lines and paths of findings that are allowed."""

    patterns: tuple[str, ...] = ()
    stop_words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    target: str = "secret"
    rules: frozenset[str] = frozenset()


_TOML_NAMES = {"title": "description", "pattern": "regex", "words": "keywords", "group": "secretGroup"}
"""The names of fields as gitleaks has them."""


class SecretRule(msgspec.Struct, frozen=True, rename=_TOML_NAMES):
    """One kind of secret: words of which one must occur, a pattern, and a verifier of its matches.

    `rank` is its position in the file: a later rule is more specific, and names what several rules find. With `joins`
    it is also found after `-` and `_`, as in `old-ghp_...`.
    """

    id: str
    title: str
    pattern: str
    words: tuple[str, ...] = ()
    place: WordPlace = "anywhere"
    tier: Tier = "broad"
    confidence: float = 0.0
    kind: str = ""
    group: int = 0
    entropy: float = 0.0
    verifier: str = ""
    rank: int = 0
    path: str = ""
    joins: bool = True
    allowances: tuple[Allowance, ...] = ()
    examples: tuple[str, ...] = ()
    counter_examples: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Derive what the rule does not state."""
        msgspec.structs.force_setattr(self, "kind", self.kind or self.id.replace("-", " "))
        msgspec.structs.force_setattr(self, "confidence", self.confidence or CONFIDENCE[self.tier])


@dataclass(frozen=True)
class SecretRules:
    """A set of rules. `skipped` names the unreadable ones; `allowances` apply to every rule."""

    rules: tuple[SecretRule, ...]
    skipped: tuple[str, ...] = ()
    allowances: tuple[Allowance, ...] = ()
    off: frozenset[str] = field(default_factory=frozenset)
    _indexes: dict[Tier, WordIndex] = field(default_factory=dict, compare=False)

    def extend(self, more: SecretRules) -> SecretRules:
        """Return these rules with those of a user. Redaction uses all builtin rules, whatever a user disables."""
        return SecretRules(
            (*self.rules, *more.rules),
            (*self.skipped, *more.skipped),
            (*self.allowances, *more.allowances),
            self.off | more.off,
        )

    @cached_property
    def by_place(self) -> Mapping[WordPlace, tuple[SecretRule, ...]]:
        """The rules by the place of their words; those of a user apply `anywhere`."""
        return {place: tuple(rule for rule in self.rules if rule.place == place) for place in PLACES}

    def words(self, mode: Tier) -> WordIndex:
        """Return the index of the words of a tier and of stricter ones; it is made once."""
        if mode not in self._indexes:
            tiers = TIERS[: TIERS.index(mode) + 1]
            self._indexes[mode] = WordIndex(rule for rule in self.rules if rule.tier in tiers)
        return self._indexes[mode]

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds in the labels of these rules."""
        return frozenset(rule.kind for rule in self.rules)


@lru_cache(maxsize=1)
def builtin_rules() -> SecretRules:
    """Return the builtin rules."""
    text = Path(__file__).with_name("rules").joinpath("secrets.toml").read_text("utf-8")
    rules = msgspec.convert(read_toml(text, is_ours=True)["rules"], prepare_type(tuple[SecretRule, ...]))
    return SecretRules(tuple(msgspec.structs.replace(rule, rank=rank) for rank, rule in enumerate(rules)))


# -- a user's rules ---------------------------------------------------------------------------------------------------


def read_rules(text: str, name: str) -> SecretRules:
    """Return the rules of a `gitleaks.toml`; an invalid rule is skipped. Raises: InvalidArgument for invalid TOML."""
    try:
        content = read_toml(text)
    except ParseError as error:
        raise InvalidArgument(f"{name} cannot be read: {error}", suggestion=f"Correct {name}, or delete it.") from None
    rules, skipped = [], []
    for number, row in enumerate(_tables(content.get("rules")), 1):
        label = str(row.get("id") or f"rule {number}")
        try:
            rules.append(_user_rule(row, label))
        except (re.error, ValueError, TypeError, OverflowError) as error:
            skipped.append(f"{name}: {label}: {error}")
    off = chain.from_iterable(_texts(table.get("disabledRules")) for table in _tables([content.get("extend")]))
    return SecretRules(tuple(rules), tuple(skipped), _allowances(content), frozenset(off))


def _user_rule(row: Mapping[str, Any], label: str) -> SecretRule:
    """Return one rule of a user. Raises: ValueError, TypeError, OverflowError or re.error for an invalid one."""
    pattern = row.get("regex", "")
    if not isinstance(pattern, str) or not pattern:
        raise ValueError("it has no regex")
    if load_re2() is None:
        raise ValueError("google-re2 is not installed")
    if len(pattern) > USER_PATTERN_CHARS_MAX:
        raise ValueError(f"its regex is longer than {USER_PATTERN_CHARS_MAX:,} characters")
    groups = compile_pattern(pattern).groups
    group = int(row.get("secretGroup", 1 if groups else 0))
    if not 0 <= group <= groups:
        raise ValueError(f"its secretGroup is {group}, its regex has {groups} groups")
    path = str(row.get("path", ""))
    compile_pattern(path)
    return SecretRule(
        label,
        str(row.get("description") or label),
        pattern,
        words=tuple(_texts(row.get("keywords"))),
        kind=label,
        rank=THEIRS,
        group=group,
        entropy=float(row.get("entropy", 0)),
        path=path,
        allowances=_allowances(row),
    )


def _allowances(row: Mapping[str, Any]) -> tuple[Allowance, ...]:
    """Return the entries of `[allowlist]` or `[[allowlists]]`, without invalid ones."""
    return tuple(
        Allowance(
            _runnable(table.get("regexes")),
            tuple(map(str.lower, _texts(table.get("stopwords")))),
            _runnable(table.get("paths")),
            str(table.get("regexTarget", "secret")),
            frozenset(_texts(table.get("targetRules"))),
        )
        for table in (*_tables([row.get("allowlist")]), *_tables(row.get("allowlists")))
    )


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [table for table in value if isinstance(table, Mapping)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _runnable(value: Any) -> tuple[str, ...]:
    return tuple(pattern for pattern in _texts(value) if len(pattern) <= USER_PATTERN_CHARS_MAX and _compiles(pattern))


def _compiles(pattern: str) -> bool:
    try:
        compile_pattern(pattern)
    except (re.error, ValueError):
        return False
    return load_re2() is not None


# -- patterns ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def compile_own(pattern: str) -> re.Pattern[bytes]:
    """Compile a builtin pattern.

    It is tried only at the places of words, and reads a bounded number of characters from there. So `re` is as safe as
    RE2, and ten times as fast to compile and to call.
    """
    return re.compile(pattern.encode())


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[bytes]:
    """Compile a pattern for a whole text, for RE2, whose patterns have the same methods, or for `re` without RE2.

    Raises: ValueError.
    """
    return compile_linear(pattern.encode()) if load_re2() else re.compile(pattern.encode())


def describe_engines() -> dict[str, str]:
    """Return the engines that search for patterns and for words on this machine."""
    return {"patterns": "re2" if load_re2() else "re", "words": "aho-corasick" if aho_corasick() else "one by one"}


# -- the search for words ---------------------------------------------------------------------------------------------

Find = Callable[[bytes], Iterable[tuple[int, int, int]]]
"""Number of a word, where it starts, where it stops."""


class WordIndex:
    """The words of rules: those of a name match in any case, others with their case."""

    def __init__(self, rules: Iterable[SecretRule]) -> None:
        by_folded: dict[bytes, dict[bytes, list[SecretRule]]] = defaultdict(lambda: defaultdict(list))
        for rule in rules:
            for word in map(str.encode, rule.words if rule.place in ("start", "near", "name") else ()):
                by_folded[word.lower()][b"" if rule.place == "name" else word].append(rule)
        self._values = [[(word, tuple(values)) for word, values in by_word.items()] for by_word in by_folded.values()]
        self._find = create_finder(list(by_folded))

    def find_places(self, data: bytes) -> Iterator[tuple[int, int, Sequence[SecretRule]]]:
        """Yield the spans of words with their rules, overlapping ones too."""
        values_by_number = self._values
        for number, start, stop in self._find(data.lower()):
            for word, values in values_by_number[number]:
                if not word or data.startswith(word, start):
                    yield start, stop, values


def create_finder(words: Sequence[bytes]) -> Find:
    """Return a search for all of these words: Aho-Corasick, or one word after the other where that is not installed."""
    engine = aho_corasick()
    if engine is None or not words:
        return lambda data: _one_by_one(words, data)
    kind, fastest = engine.MatchKind.Standard, engine.Implementation.DFA
    automaton = engine.BytesAhoCorasick(words, matchkind=kind, implementation=fastest)
    return lambda data: automaton.find_matches_as_indexes(data, overlapping=True)


def _one_by_one(words: Sequence[bytes], data: bytes) -> Iterator[tuple[int, int, int]]:
    for number, word in enumerate(words):
        start = data.find(word)
        while start >= 0:
            yield number, start, start + len(word)
            start = data.find(word, start + 1)


def aho_corasick() -> Any:
    """Return the module, or None where it is not installed."""
    try:
        import ahocorasick_rs
    except ImportError:
        return None
    return ahocorasick_rs
