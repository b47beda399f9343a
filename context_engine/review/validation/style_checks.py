"""What a reader would stumble over in sound code: code that was left out, output for debugging, addresses, long lines.

Each of these may be right where it stands, so none of them fails content.
"""

from __future__ import annotations

import ast
import ipaddress
import re
import warnings
from collections.abc import Callable, Iterator, Sequence

from context_engine.edit.placeholder import placeholders
from context_engine.review.validation.remark import Remark, Severity

SHOWN_MAX = 20
"""Of one habit; who has more of it knows by then."""

_TODO = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_TO_BE_WRITTEN = re.compile(
    r"(?:#|//|/\*|--|<!--|;|\"\"\")\s*(?:(?:TODO:?\s*)?(?:implement(?:ation)?(?: goes)? (?:this|me|here|the rest)|your code (?:goes )?here"
    r"|add (?:your )?(?:code|logic|implementation) here|fill (?:this )?in|code goes here))\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`)\]}]+", re.IGNORECASE)
_NUMBERED = re.compile(r"(?<![\w.:])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")
_LOCAL = re.compile(
    r"https?://(?:localhost|127\.|0\.0\.0\.0|\[::1\]|(?:[\w-]+\.)*example\.(?:com|org|net)\b|[\w.-]+\.(?:test|invalid|local)\b)"
)
_NAMES_ONLY = re.compile(
    r"https?://(?:www\.w3\.org|schemas\.|json-schema\.org|[\w.-]*xmlsoap\.org)|apache\.org/licenses", re.IGNORECASE
)
"""Addresses that are names: nobody opens them."""

Debug = tuple[re.Pattern[str], Severity, str]


def _debug(pattern: str, severity: Severity, what: str) -> Debug:
    return re.compile(pattern), severity, what


_JS = (
    _debug(r"^\s*debugger\b", "warning", "a breakpoint"),
    _debug(r"\bconsole\.(?:log|debug|trace)\s*\(", "info", "console output"),
)
DEBUGGING: dict[str, tuple[Debug, ...]] = {
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
"""Language -> what somebody writes to watch a program run, looked for in code without its strings and comments."""


def habits(
    lines: Sequence[str], code: Sequence[str] | None, language: str, width: int, *, is_prose: bool = False
) -> Iterator[Remark]:
    """All of them. `code` are the lines without strings and comments, None where nobody can tell; `width` 0 is any length.

    Prose may speak of what is left to do, and where.
    """
    yield from _first(_left_out(lines))
    if is_prose:
        return
    yield from _first(
        _each(
            lines,
            _TODO,
            "todo",
            "info",
            "unfinished",
            lambda said: f"{said} is left",
            "Do it, or write it down elsewhere.",
        )
    )
    yield from _first(_debugging(code or (), language))
    yield from _first(_addresses(lines))
    yield from _first(_too_long(lines, width))
    yield from _first(_mixed_indents(code or ()))


def empty_bodies(text: str) -> Iterator[Remark]:
    """Python functions whose body is `...`: right in a stub, a protocol or an abstract class, else nobody wrote it."""
    module = python_module(text)
    for owner in ast.walk(module) if module else ():
        for node in getattr(owner, "body", ()) if isinstance(owner, ast.Module | ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_left_open(node, owner):
                says = f"{node.name} has no body but ..."
                yield Remark(
                    2, "warning", "unfinished", "empty-body", says, node.lineno, node.col_offset + 1, "Write it."
                )


def python_module(text: str) -> ast.Module | None:
    """The tree of a text in Python, None when it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a string is told by whoever runs it
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_left_open(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: ast.AST) -> bool:
    """Whether a body is dots alone, and nothing says that it may be."""
    body = [
        each
        for each in node.body
        if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) and each.value.value is not ...)
    ]
    dots = all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in body)
    said = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    bases = {ast.unparse(each).partition("[")[0].rpartition(".")[2] for each in getattr(owner, "bases", ())}
    may = (
        said & {"abstractmethod", "overload", "abstractproperty", "setter"}
        or bases & {"Protocol", "ABC"}
        or getattr(owner, "keywords", ())
    )
    return bool(body) and dots and not may


def _first(remarks: Iterator[Remark]) -> Iterator[Remark]:
    for _, remark in zip(range(SHOWN_MAX), remarks, strict=False):
        yield remark


def _each(
    lines: Sequence[str],
    pattern: re.Pattern[str],
    rule: str,
    severity: Severity,
    category: str,
    says: Callable[[str], str],
    way_on: str,
) -> Iterator[Remark]:
    for number, line in enumerate(lines, 1):
        if found := pattern.search(line):
            yield Remark(2, severity, category, rule, says(found.group().strip()), number, found.start() + 1, way_on)


def _left_out(lines: Sequence[str]) -> Iterator[Remark]:
    """Lines that stand for code which is not there."""
    said = set(placeholders("\n".join(lines)))
    for number, line in enumerate(lines, 1):
        if line.strip() in said or _TO_BE_WRITTEN.search(line):
            says = f"this stands for code that is not there: {line.strip()[:80]}"
            yield Remark(
                2, "warning", "unfinished", "placeholder", says, number, 1, "Write the code that it stands for."
            )


def _debugging(code: Sequence[str], language: str) -> Iterator[Remark]:
    for pattern, severity, what in DEBUGGING.get(language, ()):
        yield from _each(
            code,
            pattern,
            "debug-output",
            severity,
            "debugging",
            lambda said, what=what: f"{what}: {said}",
            "Delete it, or use a logger.",
        )


def _addresses(lines: Sequence[str]) -> Iterator[Remark]:
    """Addresses of machines; those of documentation and of this machine are nobody's."""
    for number, line in enumerate(lines, 1):
        for found in _ADDRESS.finditer(line):
            if not (_LOCAL.match(found.group()) or _NAMES_ONLY.search(found.group())):
                says = f"an address is written into it: {found.group()[:80]}"
                yield Remark(
                    2, "info", "hard-coded", "hard-coded-url", says, number, found.start() + 1, "Make it a setting."
                )
        for found in _NUMBERED.finditer(line):
            if _is_somebodys(found.group()):
                says = f"an address is written into it: {found.group()}"
                yield Remark(
                    2, "info", "hard-coded", "hard-coded-ip", says, number, found.start() + 1, "Make it a setting."
                )


def _is_somebodys(said: str) -> bool:
    """Whether four numbers are the address of a machine, and not of this one, of documentation, or a version.

    >>> _is_somebodys("8.8.8.8"), _is_somebodys("127.0.0.1"), _is_somebodys("192.0.2.1"), _is_somebodys("1.2.3.400")
    (True, False, False, False)
    """
    try:
        address = ipaddress.IPv4Address(said)
    except ValueError:
        return False
    documented = any(address in network for network in _DOCUMENTED)
    return not (
        address.is_loopback or address.is_unspecified or address.is_multicast or documented or int(address) < 1 << 24
    )


_DOCUMENTED = tuple(
    map(ipaddress.IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "255.255.255.0/24"))
)


def _too_long(lines: Sequence[str], width: int) -> Iterator[Remark]:
    """Lines over the limit, but for those that hold one word which nobody can break."""
    for number, line in enumerate(lines, 1):
        shown = line.rstrip("\r")
        if width and len(shown) > width and not _ADDRESS.search(shown) and len(shown.split()) > 2:
            says = f"the line has {len(shown):,} characters, {width} are usual here"
            yield Remark(2, "info", "style", "long-line", says, number, width + 1, "Break it.")


def _mixed_indents(code: Sequence[str]) -> Iterator[Remark]:
    """Tabs and blanks in one content: the first line that does it otherwise than most."""
    indents = [(number, line[0]) for number, line in enumerate(code, 1) if line[:1] in "\t " and line.strip()]
    tabs = sum(mark == "\t" for _, mark in indents)
    if 0 < tabs < len(indents) and min(tabs, len(indents) - tabs) * 10 <= len(indents):
        rare = "\t" if tabs * 2 < len(indents) else " "
        number = next(number for number, mark in indents if mark == rare)
        words = ("a tab", "blanks") if rare == "\t" else ("blanks", "tabs")
        yield Remark(
            2,
            "info",
            "style",
            "mixed-indentation",
            f"{words[0]} here, {words[1]} elsewhere",
            number,
            1,
            "Indent alike.",
        )
