"""Report what a reader stumbles over in sound code: code that was left out, debug output, addresses, long lines.

Each of these may be right where it is, so none of them fails content. The linter or formatter of a project knows the
length that it allows; here a line is long for any project.
"""

from __future__ import annotations

import ast
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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

_TODO = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_TO_BE_WRITTEN = re.compile(
    r"(?:#|//|/\*|--|<!--|;|\"\"\")\s*(?:(?:TODO:?\s*)?(?:implement(?:ation)?(?: goes)? (?:this|me|here|the rest)"
    r"|your code (?:goes )?here"
    r"|add (?:your )?(?:code|logic|implementation) here|fill (?:this )?in|code goes here))\b",
    re.IGNORECASE,
)
_URL = re.compile(r"\bhttps?://[^\s<>\"'`)\]}]+", re.IGNORECASE)
_IP_ADDRESS = re.compile(r"(?<![\w.:])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_LOCAL_URL = re.compile(
    r"https?://(?:localhost|127\.|0\.0\.0\.0|\[::1\]|(?:[\w-]+\.)*example\.(?:com|org|net)\b|[\w.-]+\.(?:test|invalid|local)\b)"
)
_NAME_URL = re.compile(
    r"https?://(?:www\.w3\.org|schemas\.|json-schema\.org|[\w.-]*xmlsoap\.org)|apache\.org/licenses", re.IGNORECASE
)
"""URLs that only serve as names; no program opens them."""
_DOCUMENTATION_NETWORKS = tuple(
    map(ipaddress.IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "255.255.255.0/24"))
)
"""RFC 5737, and masks."""

DebugPattern = tuple[re.Pattern[str], str, str]


def _debug(pattern: str, severity: str, name: str) -> DebugPattern:
    return re.compile(pattern), severity, name


_JS = (
    _debug(r"^\s*debugger\b", "warning", "a breakpoint"),
    _debug(r"\bconsole\.(?:log|debug|trace)\s*\(", "info", "console output"),
)
DEBUG_OUTPUT: dict[str, tuple[DebugPattern, ...]] = {
    "python": (
        _debug(r"\bbreakpoint\s*\(|\bi?pdb\.set_trace\s*\(|^\s*import i?pdb\b", "warning", "a breakpoint"),
        _debug(r"^\s*print\s*\(", "info", "printed output"),
    ),
    **dict.fromkeys(("javascript", "typescript", "tsx", "vue", "svelte"), _JS),
    "rust": (_debug(r"\bdbg!\s*[(\[{]", "warning", "debug output"),),
    "ruby": (_debug(r"\bbinding\.(?:pry|irb|break)\b|^\s*byebug\b", "warning", "a breakpoint"),),
    "php": (_debug(r"(?<![>:$\w])(?:var_dump|print_r|dd|dump)\s*\(", "warning", "debug output"),),
    "java": (_debug(r"\bSystem\.(?:out|err)\.print|\.printStackTrace\s*\(\s*\)", "info", "printed output"),),
    "kotlin": (_debug(r"^\s*println\s*\(", "info", "printed output"),),
    "csharp": (
        _debug(r"\bDebugger\.Break\s*\(", "warning", "a breakpoint"),
        _debug(r"\bConsole\.Write", "info", "printed output"),
    ),
    "swift": (_debug(r"^\s*(?:debugPrint|dump)\s*\(", "info", "debug output"),),
    "elixir": (_debug(r"\bIEx\.pry\b|\bIO\.inspect\b", "info", "debug output"),),
}
"""Code that shows the state of a running program, by language; searched for in code without its strings and comments.

The checks of a change (`checks.leftover_checks`) look at syntax trees and at the role of the file, for two languages.
"""


def check_style(
    lines: Sequence[str], code: Sequence[str] | None, language: str, width: int, *, is_prose: bool = False
) -> Iterator[Finding]:
    """Report all style findings.

    `code` are the lines without strings and comments, None if unknown; `width` 0 is any length.

    Prose may say what is left to do, and where.
    """
    yield from islice(_find_omissions(lines), SHOWN_MAX)
    if is_prose:
        return
    checks: tuple[Iterable[Finding], ...] = (
        _search(
            lines, _TODO, ("todo", "info", "unfinished"), "{} is left".format, "Do it, or write it down elsewhere."
        ),
        _find_debug_output(code or (), language),
        _find_addresses(lines),
        _find_long_lines(lines, width),
        _find_mixed_indents(code or ()),
    )
    for findings in checks:
        yield from islice(findings, SHOWN_MAX)


def find_empty_bodies(text: str) -> Iterator[Finding]:
    """Report Python functions whose body is `...`, except in stubs, protocols and abstract classes."""
    try:
        module = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for owner in ast.walk(module):
        if not isinstance(owner, ast.Module | ast.ClassDef):
            continue
        for node in owner.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_empty(node, owner):
                message = f"{node.name} has no body but ..."
                place = (node.lineno, node.col_offset + 1)
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
    is_in_interface = bases & {"Protocol", "ABC"} or getattr(owner, "keywords", ())
    return not (is_declared or is_in_interface)


def _search(
    lines: Sequence[str],
    pattern: re.Pattern[str],
    rule: tuple[str, str, str],
    describe: Callable[[str], str],
    advice: str,
) -> Iterator[Finding]:
    """Report each line with the pattern. `rule` is its name, severity and category."""
    name, severity, category = rule
    for number, line in enumerate(lines, 1):
        if found := pattern.search(line):
            message = describe(found.group().strip())
            yield make_finding(2, severity, category, name, message, (number, found.start() + 1), advice)


def _find_omissions(lines: Sequence[str]) -> Iterator[Finding]:
    """Report placeholders of code that was left out."""
    omissions = set(placeholders("\n".join(lines)))
    for number, line in enumerate(lines, 1):
        if line.strip() in omissions or _TO_BE_WRITTEN.search(line):
            message = f"this is a placeholder for missing code: {line.strip()[:80]}"
            advice = "Write the missing code."
            yield make_finding(2, "warning", "unfinished", "placeholder", message, (number, 1), advice)


def _find_debug_output(code: Sequence[str], language: str) -> Iterator[Finding]:
    for pattern, severity, name in DEBUG_OUTPUT.get(language, ()):
        rule = ("debug-output", severity, "debugging")
        yield from _search(code, pattern, rule, (name + ": {}").format, "Delete it, or use a logger.")


def _find_addresses(lines: Sequence[str]) -> Iterator[Finding]:
    """Report addresses of machines, except those of documentation and of this machine."""
    for number, line in enumerate(lines, 1):
        for found in _URL.finditer(line):
            if not (_LOCAL_URL.match(found.group()) or _NAME_URL.search(found.group())):
                yield _report_address("hard-coded-url", found.group()[:80], (number, found.start() + 1))
        for found in _IP_ADDRESS.finditer(line):
            if _is_machine(found.group()):
                yield _report_address("hard-coded-ip", found.group(), (number, found.start() + 1))


def _report_address(rule: str, address: str, place: tuple[int, int]) -> Finding:
    message = f"an address is hard-coded: {address}"
    return make_finding(2, "info", "hard-coded", rule, message, place, "Make it a setting.")


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
    if not 0 < tabs < len(indents) or min(tabs, spaces) * 10 > len(indents):
        return
    is_tab_rare = tabs < spaces
    rare = "\t" if is_tab_rare else " "
    if is_tab_rare:
        message = "a tab here, spaces elsewhere"
    else:
        message = "spaces here, tabs elsewhere"
    line = next(number for number, mark in indents if mark == rare)
    yield make_finding(2, "info", "style", "mixed-indentation", message, (line, 1), "Indent alike.")
