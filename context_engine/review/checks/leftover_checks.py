"""Leftovers: conflict markers, hidden characters, secrets, breakpoints, debug output, TODO comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.model import Finding
from context_engine.review.checks.check import PYTHON, CheckExample, CheckRule, at_capture, js, on_line, py
from context_engine.review.checks.hidden_characters import find_conflicts, find_hidden_characters

if TYPE_CHECKING:
    from context_engine.review.source_versions import FileVersion


@CheckRule(
    "conflict-marker",
    "Conflict marker",
    "A merge was not finished: the file contains both sides.",
    priority=0,
    confidence=0.97,
    category="correctness",
    needs_whole=False,
    mentions=("<<<<<<<",),
    examples=(
        py("<<<<<<< HEAD «\nx = 1\n======= «\nx = 2\n>>>>>>> topic «"),
        CheckExample("docs/a.rst", "Title\n=======\n\ntext"),
        py("text = '''\n    <<<<<<< HEAD\n    >>>>>>> topic\n'''"),
    ),
).text
def conflict_marker(source: FileVersion) -> Iterator[Finding]:
    """Report the lines that git writes around the two sides of a conflict, in their order."""
    for conflict in find_conflicts(source.lines):
        yield from map(on_line, conflict)


@CheckRule(
    "hidden-character",
    "Character that hides code",
    "Readers see other code here than the machine runs (Trojan Source).",
    priority=0,
    confidence=0.95,
    category="security",
    needs_whole=False,
    examples=(
        py("if access != 'user\u202e \u2066# admin': «\n    pass"),
        py("name = 'Zoë'\nflag = '👨\u200d👩\u200d👧'"),
        CheckExample("i18n/ar.json", '{"a": "\u202bمرحبا\u202c"}'),
    ),
).text
def hidden_character(source: FileVersion) -> Iterator[Finding]:
    """Report characters that change the direction of text, in code; translations need them."""
    if source.language is None or source.language.content != "code":
        return
    reported = 0
    for hidden in find_hidden_characters(source.lines):
        if hidden.is_bidi and hidden.line > reported:
            code = f"U+{ord(hidden.character):04X}"
            yield on_line(hidden.line, f"{code} changes the direction of the text: the code does not run as it reads.")
            reported = hidden.line


@CheckRule(
    "secret",
    "Secret in the file",
    "Once pushed it is known: revoke it, and read it from the environment or a secret store.",
    priority=0,
    confidence=0.95,
    category="security",
    needs_whole=False,
    examples=(
        py("import os\nkey = os.environ['KEY']"),
        py("token = get_token(request)"),
    ),
).text
def secret(source: FileVersion) -> Iterator[Finding]:
    """Report what the rules for secrets find; what only looks like a secret has less confidence."""
    is_sample = _is_sample(source.path)
    for detected in source.secrets:
        is_strict = detected.tier == "strict"
        is_unsure = is_sample and detected.rule in UNSIGNED
        yield on_line(
            detected.line,
            f"{detected.title}: once pushed it is known. Revoke it; read it from the environment or a secret store.",
            title=f"{detected.title} in the file",
            priority=0 if is_strict else 1,
            confidence=SAMPLE_CONFIDENCE if is_unsure else detected.confidence,
        )


SAMPLE_CONFIDENCE = 0.5
"""In tests, docs and examples most apparent passwords are made up."""
UNSIGNED = frozenset({
    *("assigned-secret", "password", "secret", "random-value", "token", "jwt", "encrypted-token", "session-cookie"),
    *("password-in-address", "secret-in-address", "basic-authorization", "token-authorization", "curl-password"),
    *("connection-password", "private-key", "putty-private-key"),
})  # fmt: skip
"""Kinds without the prefix of a provider: a made-up one looks the same."""


def _is_sample(path: str) -> bool:
    return bool(
        re.search(r"(?:^|/)(?:tests?|specs?|__tests__|docs?|examples?|fixtures?|samples?)(?:/|$)|[._]test\.", path)
    )


# `breakpoint()` and `pdb.set_trace()`.
left_breakpoint = CheckRule(
    "breakpoint",
    "Debugger left in",
    "It stops the program, which waits at its terminal.",
    priority=1,
    confidence=0.9,
    category="correctness",
    languages=PYTHON,
    in_tests=True,
    mentions=("breakpoint", "set_trace"),
    examples=(
        py("def f():\n    breakpoint() «"),
        py("def f():\n    import pdb; pdb.set_trace() «"),
        py("def f():\n    debugger.breakpoint(3)"),
    ),
).query(
    "(expression_statement (call function: (_) @name) @it)",
    lambda found: found["name"].text in ("breakpoint", "pdb.set_trace", "ipdb.set_trace", "pudb.set_trace"),
)


@CheckRule(
    "debug-print",
    "Debug output",
    "A library that prints spoils the output of its users.",
    priority=2,
    confidence=0.55,
    category="maintainability",
    languages=PYTHON,
    in_tests=False,
    mentions=("print(",),
    examples=(
        py("def load():\n    print('here') «"),
        py("def load():\n    print('no', file=sys.stderr)"),
        py("def main():\n    print('done')\nif __name__ == '__main__':\n    main()"),
        CheckExample("scripts/make.py", "print('made')"),
    ),
).text
def debug_print(source: FileVersion) -> Iterator[Finding]:
    """Report `print` in a module that is not a program."""
    if "__main__" in source.text or _TALKS.search(source.path):
        return
    for found in source.matches(
        '(expression_statement (call function: (identifier) @_name arguments: (_) @given (#eq? @_name "print")) @it)'
    ):
        if "file=" not in found["given"].text:
            yield at_capture(found["it"])


_TALKS = re.compile(
    r"(?:^|/)(?:scripts?|bin|tools?|cli|examples?|docs?(?:_src)?|bench\w*|hacking)/|(?:cli|main|manage|setup)\.py$"
)


@CheckRule(
    "todo",
    "Unfinished",
    "A note in the code is forgotten; an issue is not.",
    priority=3,
    confidence=0.5,
    category="maintainability",
    needs_whole=False,
    examples=(
        py("def f():\n    # TODO: retries «\n    return 1"),
        js("// FIXME later «\nrun();"),
        py("todo = load('TODO')"),
        CheckExample("docs/a.md", "TODO: write"),
    ),
).text
def todo(source: FileVersion) -> Iterator[Finding]:
    """Report TODO, FIXME, XXX or HACK at the start of a comment."""
    if source.language is None or source.language.content != "code":
        return
    for number, line in enumerate(source.lines, 1):
        if _TODO.search(line):
            yield on_line(number)


_TODO = re.compile(r"(?:^|\s)(?://|#|--|/?\*+)\s*(?:TODO|FIXME|XXX|HACK)\b")
