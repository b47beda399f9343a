"""Quote the outcome of a program that checks a change, and never its words.

A repository may make a program print a file of the user: `extend = "~/.pgpass"`. So only known forms are quoted: a
class of error, a count of tests, a file of the workspace with a line or the name of a test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from context_engine.repo.file_reader import size_and_mtime
from context_engine.repo.paths import is_sensitive

PLACES_MAX = 20
"""More failing places than a reader looks at."""
LOOKUPS_MAX = 2_000
"""Words of an output that are looked up as names of files: a long log names thousands."""
COUNTS_MAX = 3
"""A test run ends with its counts; those before are its progress."""
REASONS = (
    *("dubious ownership", "not a git repository", "unknown revision", "bad revision", "bad object", "bad config"),
    *("index file corrupt", "does not appear to be a git repository", "repository not found", "authentication failed"),
    *("could not read from remote repository", "could not resolve host", "could not read username", "not allowed"),
    *("remote branch", "already exists", "lazy fetching disabled", "unknown repository extension"),
    *("expected git repo version", "connection refused", "connection timed out", "no such file or directory"),
    *("does not exist", "permission denied", "no space left on device", "out of memory", "cannot find module"),
    *("could not find config file", "no matching package", "command not found", "parse error", "syntax error"),
    *("unrecognized arguments", "invalid value", "unsupported"),
)
"""Fixed words of known programs that say why they failed; the first that occurs is quoted."""
_ERROR_CLASS = re.compile(r"\b[A-Z][A-Za-z]{0,40}(?:Error|Exception)\b")
_COUNTS = re.compile(
    r"\b\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|tests?|total|passing|failing|pending)\b"
    r"|\b(?:failures|errors|skipped)=\d+"
)
_PLACE = re.compile(
    r"(?<![\w.@+/-])(?P<path>[\w.@+/-]++)"
    r"(?:::(?P<test>\w++(?:::\w++)*)|(?::|\(|\", line )(?P<line>\d+))"
)
_WORD = re.compile(r"\S+")
_EDGES = "'\"`.,:;()[]{}<>"


def name_reason(output: str) -> str:
    r"""Return the class of error in an output, in fixed words; empty when it has none that is known.

    >>> name_reason("ruff failed\n Cause: TOML parse error at line 1\n 1 | db:prod:admin:secret")
    'parse error'
    >>> name_reason("Traceback\nValueError: secret"), name_reason("secret")
    ('ValueError', '')
    """
    plain = output.lower()
    if reason := next((reason for reason in REASONS if reason in plain), ""):
        return reason
    found = _ERROR_CLASS.search(output)
    return found[0] if found else ""


def describe_exit(code: int | None, output: str) -> str:
    """Return how a program failed.

    >>> describe_exit(2, "error: unrecognized arguments: secret")
    'exit code 2 (unrecognized arguments)'
    """
    reason = name_reason(output)
    return f"exit code {code} ({reason})" if reason else f"exit code {code}"


def summarize_output(output: str, root: Path) -> str:
    """Return what an output says in known forms, one per line: the counts of tests, and the places that it names."""
    lines = output.replace(f"{root}/", "").splitlines()
    counts = [", ".join(_COUNTS.findall(line)) for line in lines]
    places = dict.fromkeys(_find_places(lines, root))
    left_out = [f"... {len(places) - PLACES_MAX} more places"] if len(places) > PLACES_MAX else []
    return "\n".join([*list(filter(None, counts))[-COUNTS_MAX:], *list(places)[:PLACES_MAX], *left_out])


def _find_places(lines: list[str], root: Path) -> Iterator[str]:
    """Yield the files of the workspace that an output names with a line or a test, and the error class in that line."""
    exists: dict[str, bool] = {}
    for line in lines:
        for found in _PLACE.finditer(line):
            path = found["path"]
            if path not in exists:
                if len(exists) >= LOOKUPS_MAX:
                    return
                is_ours = not path.startswith("/") and ".." not in path.split("/") and not is_sensitive(path)
                exists[path] = is_ours and size_and_mtime(str(root / path)) is not None
            if exists[path]:
                error = _ERROR_CLASS.search(line)
                place = f"{path}::{found['test']}" if found["test"] else f"{path}:{found['line']}"
                yield f"{place} {error[0]}" if error else place


def quote_known_words(message: str, source: str) -> str:
    """Return a message about a source without the values that are not in it: only plain words are taken on trust.

    >>> quote_known_words("Type 'string' has no 'area2'; db:prod:Xr7!kd9", "box.area2()")
    "Type 'string' has no 'area2'; …"
    """

    def quote(word: re.Match[str]) -> str:
        bare = word[0].strip(_EDGES)
        return word[0] if not bare or bare.isalpha() or bare in source else "…"

    return _WORD.sub(quote, message)
