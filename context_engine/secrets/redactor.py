"""Redact secrets for one workspace: with its key, and with the rules of its own `gitleaks.toml`.

    redactor.redact('password = "..."').text

The labels of redacted secrets depend on a key: it is random, created once, and readable by its owner alone. So the same
secret has the same label in every text of a workspace, and nobody without the key can try out passwords against labels.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.secrets.redacted_text import (
    RedactedText,
    RedactionOptions,
    fingerprint,
    redact_keyed,
    replace_copies,
)
from context_engine.secrets.secret_finder import DetectedSecret, find_secrets
from context_engine.secrets.secret_rules import SecretRules, builtin_rules, read_rules
from context_engine.storage import StateFolder

RULE_FILES = (".gitleaks.toml", "gitleaks.toml", ".context-engine/gitleaks.toml")
"""The files of a team's own rules; the first existing one counts."""

KEPT_S = 1.0
"""The rules are read again after this time: a plan or a review has thousands of texts."""


class Redactor:
    """The redaction of secrets for one workspace. Thread-safe. `read` returns a file of the workspace, or None."""

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

    def redact(self, text: str, options: RedactionOptions = RedactionOptions(), *, path: str = "") -> RedactedText:  # noqa: B008 - a value that cannot change
        """Return the text without its secrets. The text is not stored."""
        return redact_keyed(text, self._key(), options, path=path, rules=self.rules())

    def redact_parts(self, wholes: Iterable[tuple[str, str]]) -> Callable[[str], str]:
        """Return a function that redacts parts of texts: a line of a key is recognized only in its whole text.

        `wholes` are the paths and texts, which are searched when the first part is redacted.
        """

        @cache
        def values() -> Mapping[str, str]:
            found: dict[str, str] = {}
            for path, text in wholes:
                for redaction in self.redact(text, path=path).redactions:
                    found |= {text[start:stop]: redaction.replacement for start, stop in redaction.parts}
            return found

        return lambda part: self.redact(replace_copies(part, values())).text if part else part

    def find(self, text: str, path: str = "") -> tuple[DetectedSecret, ...]:
        """Return the secrets of a text, without those that are declared to be harmless."""
        found = find_secrets(text, path=path, rules=self.rules())
        return tuple(secret for secret in found if not secret.is_allowed)

    def fingerprint(self, value: str) -> str:
        """Return a value that distinguishes secrets of this workspace without revealing them."""
        return fingerprint(value, self._key())

    def rules(self) -> SecretRules:
        """Return the builtin rules and those of the workspace, at most a second old; `skipped` has its problems."""
        with self._lock:
            if self._rules_kept is None or self._clock() - self._looked_s > KEPT_S:
                self._rules_kept = self._load_rules()
            return self._rules_kept

    def reload_rules(self) -> None:
        """Read the file of the workspace now."""
        with self._lock:
            self._rules_kept = self._load_rules()

    def _load_rules(self) -> SecretRules:
        name, source = self._source()
        self._looked_s = self._clock()
        if self._rules_kept is not None and source == self._source_kept:
            return self._rules_kept
        self._source_kept = source
        if source:
            return builtin_rules().extend(_read_or_skip(source, name))
        return builtin_rules()

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
    """Return the rules of a file; one that is not TOML has none and is named, because the builtin rules still apply."""
    try:
        return read_rules(source.decode("utf-8", "replace"), name)
    except InvalidArgument as error:
        return SecretRules((), (error.message,))


NAME = "secrets.key"
KEY_BYTES = 32
"""As many as SHA-256 has."""


def load_label_key(folder: Path) -> bytes:
    """Return the key in the state folder of a workspace; create it if it is missing.

    Where nothing can be written, the key lasts as long as the caller keeps it.
    """
    files = StateFolder(folder)
    key = _read(files)
    if key is None:
        with suppress(ContextEngineError):
            files.make()
            files.create(NAME, os.urandom(KEY_BYTES), flush=False, mode=0o600)  # another process may have been first
        key = _read(files)
    return key or os.urandom(KEY_BYTES)


def _read(files: StateFolder) -> bytes | None:
    """Return a whole key, or None. A damaged one is replaced: new labels do no harm."""
    key = files.read(NAME, bytes_max=KEY_BYTES)
    if isinstance(key, bytes) and len(key) == KEY_BYTES:
        return key
    if isinstance(key, bytes):
        with suppress(ContextEngineError):
            files.remove(NAME)
    return None
