"""Report what a reader stumbles over in sound code: code that was left out, debug output, addresses, long lines.

Each of these may be right where it is, so none of them fails content. The linter or formatter of a project knows the
length that it allows; here a line is long for any project.
"""

from __future__ import annotations

import ast
import ipaddress
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from context_engine.edit import placeholders
from context_engine.review.content_parsers import parse_python
from context_engine.review.validation.validation_request import make_finding

if TYPE_CHECKING:
    from context_engine.model import Finding

LINE_LENGTH = 120
"""The widest limit that is usual; most projects allow less, and their linter says so."""
SHOWN_MAX = 20
"""Findings of one kind; more of them say nothing new."""

_TODO = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
_TO_BE_WRITTEN = re.compile(
    r"(?:#|//|/\*|--|<!--|;|\"\"\")\s*(?:(?:TODO:?\s*)?(?:implement(?:ation)?(?: goes)? (?:this|me|here|the rest)"
    r"|your code (?:goes )?here"
    r"|add (?:your )?(?:code|logic|implementation) here|fill (?:this )?in|code goes here))\b",
    re.IGNORECASE,
)
_URL = re.compile(r"\bhttps?://[^\s<>\"'`)\]}]+", re.IGNORECASE)
_IP_ADDRESS = re.compile(r"(?<![\w.:])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_NO_MACHINE = re.compile(
    r"https?://(?:localhost|127\.|0\.0\.0\.0|\[::1\]|(?:[\w-]+\.)*example\.(?:com|org|net)\b|[\w.-]+\.(?:test|invalid|local)\b"
    r"|www\.w3\.org|schemas\.|json-schema\.org|[\w.-]*xmlsoap\.org|(?:www\.)?apache\.org/licenses)",
    re.IGNORECASE,
)
"""URLs of this machine, of documentation, and those that only serve as names."""
_DOCUMENTATION_NETWORKS = tuple(
    map(ipaddress.IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "255.255.255.0/24"))
)
"""RFC 5737, and masks."""

_BREAKPOINT, _OUTPUT = ("warning", "a breakpoint"), ("info", "printed output")
_JS = ((r"^\s*debugger\b", *_BREAKPOINT), (r"\bconsole\.(?:log|debug|trace)\s*\(", *_OUTPUT))
DEBUG_OUTPUT: dict[str, tuple[tuple[str, str, str], ...]] = {
    "python": (
        (r"\bbreakpoint\s*\(|\bi?pdb\.set_trace\s*\(|^\s*import i?pdb\b", *_BREAKPOINT),
        (r"^\s*print\s*\(", *_OUTPUT),
    ),
    **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte"), _JS),
    "rust": ((r"\bdbg!\s*[(\[{]", "warning", "debug output"),),
    "ruby": ((r"\bbinding\.(?:pry|irb|break)\b|^\s*byebug\b", *_BREAKPOINT),),
    "php": ((r"(?<![>:$\w])(?:var_dump|print_r|dd|dump)\s*\(", "warning", "debug output"),),
    "java": ((r"\bSystem\.(?:out|err)\.print|\.printStackTrace\s*\(\s*\)", *_OUTPUT),),
    "kotlin": ((r"^\s*println\s*\(", *_OUTPUT),),
    "csharp": ((r"\bDebugger\.Break\s*\(", *_BREAKPOINT), (r"\bConsole\.Write", *_OUTPUT)),
    "swift": ((r"^\s*(?:debugPrint|dump)\s*\(", *_OUTPUT),),
    "elixir": ((r"\bIEx\.pry\b|\bIO\.inspect\b", *_OUTPUT),),
}
"""Code that shows the state of a running program, by language; searched for in code without its strings and comments.

The checks of a change look at syntax trees and at the role of the file, for two languages.
"""


def check_style(lines: Sequence[str], code: Sequence[str], language: str, width: int) -> Iterator[Finding]:
    """Report all style findings; `code` are the lines without strings and comments; `width` 0 is any length."""
    checks = (
        find_omissions(lines),
        _find_todos(lines),
        _find_debug_output(code, language),
        _find_addresses(lines),
        _find_long_lines(lines, width),
        _find_mixed_indents(code),
    )
    for findings in checks:
        yield from islice(findings, SHOWN_MAX)


def find_omissions(lines: Sequence[str]) -> Iterator[Finding]:
    """Report placeholders of code that was left out."""
    omissions = set(placeholders("\n".join(lines)))
    for number, line in enumerate(lines, 1):
        if line.strip() in omissions or _TO_BE_WRITTEN.search(line):
            message = f"this is a placeholder for missing code: {line.strip()[:80]}"
            yield make_finding(
                2, "warning", "unfinished", "placeholder", message, (number, 1), "Write the missing code."
            )


def _find_todos(lines: Sequence[str]) -> Iterator[Finding]:
    for number, line in enumerate(lines, 1):
        if found := _TODO.search(line):
            place = (number, found.start() + 1)
            message, advice = f"{found.group()} is left", "Do it, or write it down elsewhere."
            yield make_finding(2, "info", "unfinished", "todo", message, place, advice)


def _find_debug_output(code: Sequence[str], language: str) -> Iterator[Finding]:
    for pattern, severity, noun in DEBUG_OUTPUT.get(language, ()):
        for number, line in enumerate(code, 1):
            if found := re.search(pattern, line):
                place, message = (number, found.start() + 1), f"{noun}: {found.group().strip()}"
                advice = "Delete it, or use a logger."
                yield make_finding(2, severity, "debugging", "debug-output", message, place, advice)


def _find_addresses(lines: Sequence[str]) -> Iterator[Finding]:
    """Report addresses of machines, except those of documentation and of this machine."""
    for number, line in enumerate(lines, 1):
        urls = [found for found in _URL.finditer(line) if not _NO_MACHINE.match(found.group())]
        addresses = [found for found in _IP_ADDRESS.finditer(line) if _is_machine(found.group())]
        for rule, places in (("hard-coded-url", urls), ("hard-coded-ip", addresses)):
            for found in places:
                message = f"an address is hard-coded: {found.group()[:80]}"
                place = (number, found.start() + 1)
                yield make_finding(2, "info", "hard-coded", rule, message, place, "Make it a setting.")


def _is_machine(text: str) -> bool:
    """Whether four numbers are the address of another machine, and not a version or an example.

    >>> _is_machine("8.8.8.8"), _is_machine("127.0.0.1"), _is_machine("192.0.2.1"), _is_machine("1.2.3.400")
    (True, False, False, False)
    """
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified or address.is_multicast or int(address) < 1 << 24:
        return False
    return not any(address in network for network in _DOCUMENTATION_NETWORKS)


def _find_long_lines(lines: Sequence[str], width: int) -> Iterator[Finding]:
    """Report lines over the limit, except those with one word that cannot be broken."""
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r")
        if width and len(text) > width and not _URL.search(text) and len(text.split()) > 2:
            message = f"the line has {len(text):,} characters, {width} are usual here"
            yield make_finding(2, "info", "style", "long-line", message, (number, width + 1), "Break it.")


def _find_mixed_indents(code: Sequence[str]) -> Iterator[Finding]:
    """Report the first line that is indented otherwise than most: with tabs or with spaces."""
    indents = [(number, line[0]) for number, line in enumerate(code, 1) if line[:1] in "\t " and line.strip()]
    tabs = sum(mark == "\t" for _, mark in indents)
    spaces = len(indents) - tabs
    # A tenth at most: half and half is a choice.
    if 0 < min(tabs, spaces) * 10 <= len(indents):
        rare, message = (
            ("\t", "a tab here, spaces elsewhere") if tabs < spaces else (" ", "spaces here, tabs elsewhere")
        )
        line = next(number for number, mark in indents if mark == rare)
        yield make_finding(2, "info", "style", "mixed-indentation", message, (line, 1), "Indent alike.")


def find_empty_bodies(text: str) -> Iterator[Finding]:
    """Report Python functions whose body is `...`, except in stubs, protocols and abstract classes."""
    try:
        module = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for owner in ast.walk(module):
        for node in owner.body if isinstance(owner, ast.Module | ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_empty(node, owner):
                message, place = f"{node.name} has no body but ...", (node.lineno, node.col_offset + 1)
                yield make_finding(2, "warning", "unfinished", "empty-body", message, place, "Write it.")


def _is_empty(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.AST) -> bool:
    """Whether a body is only `...`, where nothing allows that."""
    constants = [
        statement.value.value
        for statement in node.body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    ]
    if len(constants) < len(node.body) or ... not in constants:
        return False
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in getattr(owner, "bases", ())}
    is_declared = decorators & {"abstractmethod", "overload", "abstractproperty", "setter"}
    return not (is_declared or bases & {"Protocol", "ABC"} or getattr(owner, "keywords", ()))
