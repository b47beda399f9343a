"""The rules for secrets, and their files: the builtin rules, and a user's `gitleaks.toml` with the same schema.

A rule of ours also says where its words stand: at the `start` of the secret, in the `name` that it is given to, `near`
it, or nowhere in particular (`anywhere`, as in gitleaks). Patterns are run by RE2, whose time grows with the text and
with nothing else; where that is not installed, ours by `re` and a user's not at all. Patterns that cannot be read are
skipped and named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import resources
from typing import Any, Literal, Protocol

from context_engine.errors import InvalidArgument
from context_engine.secrets.prefilter import WordIndex, aho_corasick
from context_engine.text import ParseError, compile_linear, load_re2, read_toml

Tier = Literal["strict", "reply", "broad"]
Place = Literal["start", "name", "near", "line", "file", "any name", "anywhere"]

CONFIDENCE: Mapping[Tier, float] = {"strict": 0.95, "reply": 0.75, "broad": 0.75}
"""How often each tier is right: strict rules know the shape of a key, broad ones what stands around it."""
PLACES: tuple[Place, ...] = ("start", "name", "near", "line", "file", "any name", "anywhere")
THEIRS = 1_000_000
"""The rank of a user's rules: above all of ours."""
USER_PATTERN_CHARS_MAX = 2_000
"""The longest pattern of a known rule file has 700."""


class CompiledPattern(Protocol):
    """A compiled pattern over bytes, of RE2 or of `re`."""

    @property
    def groups(self) -> int:
        """How many groups it has."""
        ...

    def finditer(self, text: bytes, /) -> Iterator[Any]:
        """Every place where it matches, in order."""
        ...

    def search(self, text: bytes, /) -> Any:
        """The first of them, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Allowance:
    """When a finding is none: its value, its line or its path is one of these."""

    patterns: tuple[str, ...] = ()
    stop_words: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    target: str = "secret"
    rules: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One kind of secret: words one of which must occur, a pattern, and a second look at what it found.

    `rank` is its place in the file: what comes later knows more, and gives its name to what several rules find.
    `joins` says that its beginning is no word of its own: it is found behind `-` and `_` too, as in `old-ghp_...`.
    """

    id: str
    title: str
    pattern: str
    words: tuple[str, ...] = ()
    place: Place = "anywhere"
    tier: Tier = "broad"
    confidence: float = 0.75
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


@dataclass(frozen=True)
class SecretRules:
    """A set of rules. `skipped` names the unreadable ones; `allowances` apply to every rule."""

    rules: tuple[SecretRule, ...]
    skipped: tuple[str, ...] = ()
    allowances: tuple[Allowance, ...] = ()
    off: frozenset[str] = field(default_factory=frozenset)

    def extend(self, more: SecretRules) -> SecretRules:
        """These rules and those of a user. Nothing of ours is switched off where secrets are taken out."""
        return SecretRules(
            (*self.rules, *more.rules),
            (*self.skipped, *more.skipped),
            (*self.allowances, *more.allowances),
            self.off | more.off,
        )

    @cached_property
    def by_id(self) -> Mapping[str, SecretRule]:
        """Each rule by its id."""
        return {rule.id: rule for rule in self.rules}

    @cached_property
    def values(self) -> tuple[SecretRule, ...]:
        """Those that go by a value alone, whatever its name is."""
        return tuple(rule for rule in self.rules if rule.place == "any name")

    @cached_property
    def lines(self) -> tuple[SecretRule, ...]:
        """Those that go by the shape of whole lines."""
        return tuple(rule for rule in self.rules if rule.place == "line")

    @cached_property
    def user_rules(self) -> tuple[SecretRule, ...]:
        """Those of a user, which name no place."""
        return tuple(rule for rule in self.rules if rule.place == "anywhere")

    @cached_property
    def files(self) -> tuple[SecretRule, ...]:
        """Those that go by the name of a file."""
        return tuple(rule for rule in self.rules if rule.place == "file")

    @cached_property
    def strict(self) -> WordIndex[SecretRule]:
        """Where words of strict rules stand."""
        return _index_words(rule for rule in self.rules if rule.tier == "strict")

    @cached_property
    def reply(self) -> WordIndex[SecretRule]:
        """Where words of the rules stand by which replies are masked."""
        return _index_words(rule for rule in self.rules if rule.tier != "broad")

    @cached_property
    def broad(self) -> WordIndex[SecretRule]:
        """Where words of any rule stand."""
        return _index_words(self.rules)

    def words(self, mode: Tier) -> WordIndex[SecretRule]:
        """Return where words of the rules of a tier, and of stricter ones, stand."""
        return self.strict if mode == "strict" else self.reply if mode == "reply" else self.broad

    def words_in_base64(self, mode: Tier) -> WordIndex[SecretRule]:
        """Return what is looked for in base64: in replies tokens alone, of which nothing else can be the text."""
        return self.broad if mode == "broad" else self.strict

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds that the labels of these rules name."""
        return frozenset(rule.kind for rule in self.rules)


def _index_words(rules: Iterable[SecretRule]) -> WordIndex[SecretRule]:
    rules = tuple(rules)
    exact = [(word, rule) for rule in rules if rule.place in ("start", "near") for word in rule.words]
    loose = [(word, rule) for rule in rules if rule.place == "name" for word in rule.words]
    return WordIndex(exact, loose)


@lru_cache(maxsize=1)
def builtin_rules() -> SecretRules:
    """The rules that this package brings along."""
    text = (resources.files("context_engine.secrets") / "rules" / "secrets.toml").read_text("utf-8")
    return SecretRules(
        tuple(_builtin_rule(row, rank) for rank, row in enumerate(read_toml(text, is_ours=True)["rules"]))
    )


def _builtin_rule(row: Mapping[str, Any], rank: int) -> SecretRule:
    return SecretRule(
        id=row["id"],
        title=row["description"],
        pattern=row["regex"],
        words=tuple(row.get("keywords", ())),
        place=row["place"],
        tier=row.get("tier", "broad"),
        confidence=row.get("confidence", CONFIDENCE[row.get("tier", "broad")]),
        kind=row.get("kind", row["id"].replace("-", " ")),
        group=row.get("secretGroup", 0),
        entropy=row.get("entropy", 0.0),
        verifier=row.get("look", ""),
        rank=rank,
        joins=row.get("joins", True),
        examples=tuple(row["examples"]),
        counter_examples=tuple(row.get("counter_examples", ())),
    )


# -- a user's rules ---------------------------------------------------------------------------------------------------


def read_rules(text: str, name: str) -> SecretRules:
    """The rules of a `gitleaks.toml`.

    Raises: InvalidArgument when it is no TOML; a rule that cannot be read is skipped.
    """
    try:
        told = read_toml(text)
    except ParseError as error:
        raise InvalidArgument(f"{name} cannot be read: {error}", suggestion=f"Correct {name}, or delete it.") from None
    rules, skipped = [], []
    for number, row in enumerate(_tables(told.get("rules")), 1):
        label = str(row.get("id") or f"rule {number}")
        try:
            rules.append(_user_rule(row, label))
        except (re.error, ValueError, TypeError) as error:
            skipped.append(f"{name}: {label}: {error}")
    extend = told.get("extend")
    off = extend.get("disabledRules", ()) if isinstance(extend, Mapping) else ()
    return SecretRules(tuple(rules), tuple(skipped), _allowances(told), frozenset(map(str, off)))


def _user_rule(row: Mapping[str, Any], label: str) -> SecretRule:
    """One rule of a user. Raises: ValueError, TypeError or re.error for what cannot be run."""
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
        id=label,
        title=str(row.get("description") or label),
        pattern=pattern,
        words=tuple(str(word) for word in row.get("keywords", ())),
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
            _runnable(each.get("regexes")),
            tuple(word.lower() for word in _texts(each.get("stopwords"))),
            _runnable(each.get("paths")),
            str(each.get("regexTarget", "secret")),
            frozenset(_texts(each.get("targetRules"))),
        )
        for each in (*_tables([row.get("allowlist")]), *_tables(row.get("allowlists")))
    )


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, Sequence) else []


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, Sequence) else []


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
    """A pattern of ours.

    It is tried only at places where a word stands, and reads a bounded number of characters from there.

    So `re` is as safe as RE2, and ten times as fast to compile and to call.
    """
    return re.compile(pattern.encode())


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> CompiledPattern:
    """A pattern that runs over a whole text, by RE2; where that is missing, by `re`, which runs ours alone.

    Raises: ValueError.
    """
    return compile_linear(pattern.encode()) if load_re2() else re.compile(pattern.encode())


def describe_engines() -> dict[str, str]:
    """Return the engines that search for patterns and for words on this machine."""
    return {"patterns": "re2" if load_re2() else "re", "words": "aho-corasick" if aho_corasick() else "one by one"}
