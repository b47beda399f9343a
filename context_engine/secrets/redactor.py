"""Taking the secrets out of texts for one workspace: with its key, and with the rules of its own `gitleaks.toml`.

result = redactor.redact('password = "..."')
result.text, result.count
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from context_engine.errors import InvalidArgument
from context_engine.secrets.masked_text import replace_copies
from context_engine.secrets.redaction import LABEL_HEX, KeyedRedaction, RedactionOptions, fingerprint, redact_keyed
from context_engine.secrets.redaction_key import load_label_key
from context_engine.secrets.secret_finder import DetectedSecret, find_secrets
from context_engine.secrets.secret_rules import SecretRules, builtin_rules, read_rules

RULE_FILES = (".gitleaks.toml", "gitleaks.toml", ".context-engine/gitleaks.toml")
"""Where a team keeps its own rules; the first that is there counts."""

KEPT_S = 1.0
"""A plan or a review has thousands of texts; nobody edits the rules between two of them."""


class Redactor:
    """Redacts secrets for one workspace. Thread-safe. `read` gives a file of the workspace, or None."""

    def __init__(
        self, folder: Path, read: Callable[[str], bytes | None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._key_kept: bytes | None = None
        self._source_kept = b""
        self._rules_kept: SecretRules | None = None
        self._looked_s = 0.0

    def redact(self, text: str, options: RedactionOptions = RedactionOptions(), *, path: str = "") -> KeyedRedaction:  # noqa: B008 - a value that cannot change
        """The text without its secrets. It is stored nowhere."""
        return redact_keyed(text, self._key(), options, path=path, rules=self.rules())

    def redact_parts(self, wholes: Iterable[tuple[str, str]]) -> Callable[[str], str]:
        """Return a function that redacts parts of texts, which are given with their paths: a line of a key needs its context.

        The texts are searched when the first part comes.
        """

        @cache
        def values() -> Mapping[str, str]:
            return {value: label for path, text in wholes for value, label in self._labeled_values(text, path)}

        return lambda part: self.redact(replace_copies(part, values())).text if part else part

    def _labeled_values(self, text: str, path: str) -> Iterator[tuple[str, str]]:
        """The secrets of a text, each with its label; of several lines each by itself."""
        for each in find_secrets(text, path=path, rules=self.rules()):
            value = "".join(text[start:stop] for start, stop in each.parts)
            label = f"[REDACTED:{each.rule}:{self.fingerprint(value)[:LABEL_HEX]}]"
            yield from ((text[start:stop], label) for start, stop in each.parts)

    def find(self, text: str, path: str = "") -> tuple[DetectedSecret, ...]:
        """Return the secrets of a text, without those that are declared to be harmless."""
        return tuple(each for each in find_secrets(text, path=path, rules=self.rules()) if not each.is_allowed)

    def fingerprint(self, value: str) -> str:
        """Return a value that distinguishes secrets of this workspace without revealing them."""
        return fingerprint(value, self._key())

    def rules(self) -> SecretRules:
        """Our rules, and those of the workspace as its file was a moment ago; what is wrong with it is named in `skipped`."""
        with self._lock:
            if self._rules_kept is None or self._clock() - self._looked_s > KEPT_S:
                self._rules_kept = self._load_rules()
            return self._rules_kept

    def reload_rules(self) -> None:
        """Look at the workspace's file now."""
        with self._lock:
            self._rules_kept = self._load_rules()

    def _load_rules(self) -> SecretRules:
        name, source = self._source()
        self._looked_s = self._clock()
        if self._rules_kept is not None and source == self._source_kept:
            return self._rules_kept
        self._source_kept = source
        return builtin_rules().extend(_read_or_skip(source, name)) if source else builtin_rules()

    def _source(self) -> tuple[str, bytes]:
        for name in RULE_FILES:
            source = self._read(name)
            if source is not None:
                return name, source
        return "", b""

    def _key(self) -> bytes:
        with self._lock:
            if self._key_kept is None:
                self._key_kept = load_label_key(self._folder)
            return self._key_kept


def _read_or_skip(source: bytes, name: str) -> SecretRules:
    """The rules of a file; one that is no TOML has none and is named, for ours still hold."""
    try:
        return read_rules(source.decode("utf-8", "replace"), name)
    except InvalidArgument as error:
        return SecretRules((), (error.message,))
