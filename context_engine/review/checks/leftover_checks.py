"""What is left behind by hand: conflict markers, notes to oneself, stops of a debugger, characters that hide code, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from context_engine.review.checks.check import PYTHON, Example, Note, Rule, at, js, on_line, py
from context_engine.text.spans import LineSpan

if TYPE_CHECKING:
    from context_engine.review.source_versions import Source


@Rule(
    "conflict-marker",
    "Conflict marker",
    "A merge was not finished: both sides stand in the file.",
    priority=0,
    confidence=0.97,
    category="correctness",
    needs_whole=False,
    mentions=("<<<<<<<",),
    examples=(
        py("<<<<<<< HEAD «\nx = 1\n======= «\nx = 2\n>>>>>>> topic «"),
        Example("docs/a.rst", "Title\n=======\n\ntext"),
        py("text = '''\n    <<<<<<< HEAD\n    >>>>>>> topic\n'''"),
    ),
).text
def conflict_marker(source: Source) -> Iterator[Note]:
    """The three lines git writes, in their order."""
    lines = [(number, line) for number, line in enumerate(source.lines, 1) if _MARKER.match(line)]
    kinds = "".join(line[0] for _, line in lines)
    for found in re.finditer(r"<\|?=>", kinds):
        yield from (on_line(number) for number, _ in lines[found.start() : found.end()])


_MARKER = re.compile(r"(?:<{7} \S|\|{7} |={7}$|>{7} \S)")


@Rule(
    "hidden-character",
    "Character that hides code",
    "What a person reads here is not what the machine runs (Trojan Source).",
    priority=0,
    confidence=0.95,
    category="security",
    needs_whole=False,
    examples=(
        py("if access != 'user\u202e \u2066# admin': «\n    pass"),
        py("name = 'Zoë'\nflag = '👨\u200d👩\u200d👧'"),
        Example("i18n/ar.json", '{"a": "\u202bمرحبا\u202c"}'),
    ),
).text
def hidden_character(source: Source) -> Iterator[Note]:
    """Marks that turn the direction of text, in code; translations need them."""
    if source.language is None or source.language.content != "code" or not _TURNING.search(source.text):
        return
    for number, line in enumerate(source.lines, 1):
        if found := _TURNING.search(line):
            yield on_line(
                number, f"U+{ord(found[0]):04X} turns the direction of the text: it does not run as it reads."
            )


_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")


@Rule(
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
def secret(source: Source) -> Iterator[Note]:
    """What the rules for secrets find; what only looks like one weighs less."""
    is_sample = _is_sample(source.path)
    for each in source.secrets:
        strict = each.tier == "strict"
        yield Note(
            LineSpan(each.line, each.line),
            f"{each.title}: once pushed it is known. Revoke it, and read it from the environment or a secret store.",
            title=f"{each.title} in the file",
            priority=0 if strict else 1,
            confidence=SAMPLE_CONFIDENCE if is_sample and each.rule in UNSIGNED else each.confidence,
        )


SAMPLE_CONFIDENCE = 0.5
"""In tests, docs and examples most of what looks like a password was made up."""
UNSIGNED = frozenset({
    *("assigned-secret", "password", "secret", "random-value", "token", "jwt", "encrypted-token", "session-cookie"),
    *("password-in-address", "secret-in-address", "basic-authorization", "token-authorization", "curl-password"),
    *("connection-password", "private-key", "putty-private-key"),
})  # fmt: skip
"""Kinds that no provider has signed with a beginning of its own: a made-up one looks the same."""


def _is_sample(path: str) -> bool:
    return bool(
        re.search(r"(?:^|/)(?:tests?|specs?|__tests__|docs?|examples?|fixtures?|samples?)(?:/|$)|[._]test\.", path)
    )


@Rule(
    "breakpoint",
    "Debugger left in",
    "It stops the program and waits for somebody at its terminal.",
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
).text
def left_breakpoint(source: Source) -> Iterator[Note]:
    """`breakpoint()` and `pdb.set_trace()`."""
    for found in source.matches("(expression_statement (call function: (_) @name) @it)"):
        if found["name"].text in ("breakpoint", "pdb.set_trace", "ipdb.set_trace", "pudb.set_trace"):
            yield at(found["it"])


@Rule(
    "debug-print",
    "Debug output",
    "A library that prints spoils the output of whoever uses it.",
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
        Example("scripts/make.py", "print('made')"),
    ),
).text
def debug_print(source: Source) -> Iterator[Note]:
    """`print` in a module that is no program."""
    if "__main__" in source.text or _TALKS.search(source.path):
        return
    for found in source.matches(
        '(expression_statement (call function: (identifier) @_name arguments: (_) @given (#eq? @_name "print")) @it)'
    ):
        if "file=" not in found["given"].text:
            yield at(found["it"])


_TALKS = re.compile(
    r"(?:^|/)(?:scripts?|bin|tools?|cli|examples?|docs?(?:_src)?|bench\w*|hacking)/|(?:cli|main|manage|setup)\.py$"
)


@Rule(
    "todo",
    "Unfinished",
    "A note to oneself becomes an issue, or it is forgotten.",
    priority=3,
    confidence=0.5,
    category="maintainability",
    needs_whole=False,
    examples=(
        py("def f():\n    # TODO: retries «\n    return 1"),
        js("// FIXME later «\nrun();"),
        py("todo = load('TODO')"),
        Example("docs/a.md", "TODO: write"),
    ),
).text
def todo(source: Source) -> Iterator[Note]:
    """TODO, FIXME, XXX or HACK at the start of a comment."""
    if source.language is None or source.language.content != "code":
        return
    for number, line in enumerate(source.lines, 1):
        if _TODO.search(line):
            yield on_line(number)


_TODO = re.compile(r"(?:^|\s)(?://|#|--|/?\*+)\s*(?:TODO|FIXME|XXX|HACK)\b")

ALL = (conflict_marker, hidden_character, secret, left_breakpoint, debug_print, todo)
