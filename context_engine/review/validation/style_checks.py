"""Report what a reader stumbles over in sound code: code that was left out, debug output, addresses, long lines.

Each of these may be right where it is, so none of them fails content.
"""

from __future__ import annotations

import ast
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from context_engine.edit import placeholders
from context_engine.review.validation.validation_request import report

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

_BREAKPOINT, _DEBUG, _OUTPUT = ("warning", "a breakpoint"), ("warning", "debug output"), ("info", "printed output")
_JS = {r"^\s*debugger\b": _BREAKPOINT, r"\bconsole\.(?:log|debug|trace)\s*\(": _OUTPUT}
DEBUG_OUTPUT: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "python": {
        r"\bbreakpoint\s*\(|\bi?pdb\.set_trace\s*\(|^\s*import i?pdb\b": _BREAKPOINT,
        r"^\s*print\s*\(": _OUTPUT,
    },
    **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte"), _JS),
    "rust": {r"\bdbg!\s*[(\[{]": _DEBUG},
    "ruby": {r"\bbinding\.(?:pry|irb|break)\b|^\s*byebug\b": _BREAKPOINT},
    "php": {r"(?<![>:$\w])(?:var_dump|print_r|dd|dump)\s*\(": _DEBUG},
    "java": {r"\bSystem\.(?:out|err)\.print|\.printStackTrace\s*\(\s*\)": _OUTPUT},
    "kotlin": {r"^\s*println\s*\(": _OUTPUT},
    "csharp": {r"\bDebugger\.Break\s*\(": _BREAKPOINT, r"\bConsole\.Write": _OUTPUT},
    "swift": {r"^\s*(?:debugPrint|dump)\s*\(": _OUTPUT},
    "elixir": {r"\bIEx\.pry\b|\bIO\.inspect\b": _OUTPUT},
}
"""Code that shows the state of a running program; searched for in code without its strings and comments."""


def check_style(lines: Sequence[str], code: Sequence[str], language: str, width: int) -> Iterator[Finding]:
    """Report all style findings; `code` are the lines without strings and comments; `width` 0 is any length."""
    yield from find_omissions(lines)
    yield from _find_all("todo", lines, _TODO, "left to do")
    for pattern, (severity, noun) in DEBUG_OUTPUT.get(language, {}).items():
        yield from _find_all("debug-output", code, pattern, noun, severity=severity)
    hard_coded = "an address is hard-coded"
    yield from _find_all("hard-coded-url", lines, _URL, hard_coded, lambda url: not _NO_MACHINE.match(url))
    yield from _find_all("hard-coded-ip", lines, _IP_ADDRESS, hard_coded, _is_machine)
    if width:
        yield from islice(_find_long_lines(lines, width), SHOWN_MAX)
    yield from _find_mixed_indents(code)


def _find_all(
    rule: str,
    lines: Sequence[str],
    pattern: str | re.Pattern[str],
    noun: str,
    is_wanted: Callable[[str], bool] = bool,
    **fields: str,
) -> Iterator[Finding]:
    """Report the first places of a pattern."""
    places = ((number, found) for number, line in enumerate(lines, 1) for found in re.finditer(pattern, line))
    for number, found in islice((place for place in places if is_wanted(place[1].group())), SHOWN_MAX):
        yield report(rule, f"{noun}: {found.group().strip()[:80]}", (number, found.start() + 1), **fields)


def find_omissions(lines: Sequence[str]) -> Iterable[Finding]:
    """Report placeholders of code that was left out."""
    omissions = set(placeholders("\n".join(lines)))
    found = (
        report("placeholder", f"this is a placeholder for missing code: {line.strip()[:80]}", (number, 1))
        for number, line in enumerate(lines, 1)
        if line.strip() in omissions or _TO_BE_WRITTEN.search(line)
    )
    return islice(found, SHOWN_MAX)


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
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r")
        if len(text) > width and not _URL.search(text) and len(text.split()) > 2:
            message = f"the line has {len(text):,} characters, {width} are usual here"
            yield report("long-line", message, (number, width + 1))


def _find_mixed_indents(code: Sequence[str]) -> Iterator[Finding]:
    """Report the first line that is indented otherwise than nine of ten: with tabs or with spaces."""
    indents = [(number, line[0]) for number, line in enumerate(code, 1) if line[:1] in "\t " and line.strip()]
    tabs = sum(mark == "\t" for _, mark in indents)
    rare, common = sorted((("\t", "a tab", tabs), (" ", "spaces", len(indents) - tabs)), key=lambda kind: kind[2])
    if 0 < rare[2] * 10 <= len(indents):
        line = next(number for number, mark in indents if mark == rare[0])
        usual = "tabs" if common[0] == "\t" else "spaces"
        yield report("mixed-indentation", f"{rare[1]} here, {usual} elsewhere", (line, 1))


def find_empty_bodies(module: ast.Module | None) -> Iterator[Finding]:
    """Report Python functions whose body is `...`, except in stubs, protocols and abstract classes."""
    for owner in ast.walk(module) if module else ():
        for node in owner.body if isinstance(owner, ast.Module | ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_empty(node, owner):
                yield report("empty-body", f"{node.name} has no body but ...", (node.lineno, node.col_offset + 1))


def _is_empty(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.AST) -> bool:
    expressions = [statement.value for statement in node.body if isinstance(statement, ast.Expr)]
    constants = [value.value for value in expressions if isinstance(value, ast.Constant)]
    if len(constants) < len(node.body) or ... not in constants:
        return False
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in getattr(owner, "bases", ())}
    is_declared = decorators & {"abstractmethod", "overload", "abstractproperty", "setter"}
    return not (is_declared or bases & {"Protocol", "ABC"} or getattr(owner, "keywords", ()))
