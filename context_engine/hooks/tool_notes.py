"""Notes at the start of a session and after a tool of the client, as far as there is something to add.

At the start: that ctx is here, how the repository is checked, and its rules. After a search: where the
name is defined, and the symbols around the matches. After the read of a long file: the lines that matter for the
prompt. After the read of a definition or an edit: the other lines with its name, and its tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.context import (
    QUOTED_FROM_REPOSITORY,
    ShownLines,
    describe_mentions_at,
    find_commands,
    find_symbol_at,
)
from context_engine.errors import ContextEngineError
from context_engine.hooks.hook_events import HookEvent
from context_engine.hooks.prompt_context import PROBABILITY_MIN, limit_lines
from context_engine.model import Query
from context_engine.text import LineSpan, escape_line, format_count

if TYPE_CHECKING:
    from context_engine.engine import Engine

TOKENS_MAX = 300
MATCHED_FILES_MAX = 8
"""Files whose matches are named; each may have to be parsed."""
SYMBOLS_MAX = 16
LINES_LISTED = 5
DEFINITIONS_MAX = 3
LONG_FILE_LINES = 300
"""A shorter file may well be read whole."""
READ_SHARE_MIN = 0.5
"""A smaller share of a file was probably chosen on purpose."""
PLACES_MAX, CHANCE_MIN = 3, 0.15
"""Places that are named. Agents had no use for what is less likely (evals/agents, evals/injection)."""
COMMAND_KINDS = ("test", "lint", "types", "build")
RULES_MAX = 4
RULE_CHARS_MAX = 160
OWN_RULES: dict[str, tuple[str, ...]] = {
    "claude": ("CLAUDE.md",),
    "codex": ("AGENTS.md",),
    "gemini": ("GEMINI.md",),
    "cursor": ("AGENTS.md", ".cursorrules", ".cursor/rules/"),
    "opencode": ("AGENTS.md", "CLAUDE.md"),
}
"""The files of rules that a client reads by itself; their rules are not repeated."""
AGENT_FILES = tuple({name for names in OWN_RULES.values() for name in names})
USE = (
    "To find code, ask the tools of ctx (in a shell: ctx search 'QUESTION', ctx symbol NAME) before you search by hand."
)

_MATCH = re.compile(r"^(?:(?P<path>[^\n:]{1,400}):)?(?P<line>\d{1,7}):(?P<text>.*)", re.MULTILINE)
_IDENTIFIER = re.compile(r"(?:\\b|\^|class |def |func |fn |function )*(?P<name>[A-Za-z_]\w{2,80})(?:\\b|\\?\(|\$)*")


def describe_repository(client: str, engine: Engine) -> str:
    """Return the brief within its budget: a command for each purpose, and rules. Raises: NotIndexed."""
    by_kind = {command.kind: command for command in reversed(find_commands(engine))}
    named = [f"{kind}: {escape_line(str(by_kind[kind]))}" for kind in COMMAND_KINDS if kind in by_kind]
    commands = [f"Commands, by its own files: {'; '.join(named)}."] if named else []
    return limit_lines(USE, [*commands, *_list_rules(client, engine)], TOKENS_MAX) or USE


def _list_rules(client: str, engine: Engine) -> Iterator[str]:
    """Yield rules for every file, of memories and files for agents, that the client does not read by itself."""
    try:
        entries = engine.memory.knowledge.list_binding()
    except ContextEngineError:
        return
    own = OWN_RULES.get(client, ())
    rules = (entry for entry in entries if entry.type == "rule" and entry.scope.is_everywhere)
    for_agents = (rule for rule in rules if rule.is_memory or rule.place.startswith(AGENT_FILES))
    unknown = (entry for entry in for_agents if not entry.place.startswith(own))
    for number, entry in enumerate(islice(unknown, RULES_MAX)):
        text = " ".join((entry.content or entry.title).split())[:RULE_CHARS_MAX]
        head = "" if number else f"Rules, {QUOTED_FROM_REPOSITORY}:\n"
        yield f"{head}- {escape_line(entry.place)} says: \u201c{escape_line(text)}\u201d"


def describe_matches(event: HookEvent, engine: Engine, shown: ShownLines) -> str:
    """Return where a searched name is defined, and the symbols around the matching lines, now recorded as shown."""
    lines = []
    if named := _IDENTIFIER.fullmatch(event.pattern.strip()):  # the pattern looks for one name
        for definition in engine.symbols.find(named["name"], limit=DEFINITIONS_MAX).definitions:
            if definition.name == named["name"]:
                place = f"{escape_line(definition.path)}:{definition.span.first}-{definition.span.last}"
                lines.append(f"defined: {place} {definition.kind} {definition.qualified}")
    matches: dict[str, dict[int, str]] = {}
    for match in _MATCH.finditer(event.output):
        path = join_folder(match["path"] or event.path, event)
        if path and (path in matches or len(matches) < MATCHED_FILES_MAX):
            matches.setdefault(path, {})[int(match["line"])] = match["text"]
    symbols = [text for path, found in matches.items() for text in _name_symbols(path, found, engine, shown)]
    return limit_lines("ctx on these matches:", [*lines, *symbols[:SYMBOLS_MAX]], TOKENS_MAX)


def describe_read(event: HookEvent, engine: Engine, prompt: str, shown: ShownLines) -> str:
    """Return which lines of a long file most likely matter for the prompt of the session; of a part, its mentions."""
    if not event.path:
        return ""
    outline = engine.symbols.outline(join_folder(event.path, event), details=False)
    path, lines = outline.path, outline.lines
    read = LineSpan(event.first, event.last) if event.last else LineSpan(1, lines)
    if not prompt or lines < LONG_FILE_LINES or read.lines < READ_SHARE_MIN * lines:
        mentions = describe_mentions_at(path, [read], engine, shown)
        return limit_lines(f"ctx on these lines of {escape_line(path)}:", mentions, TOKENS_MAX)
    answer = engine.search.find(Query(prompt, PLACES_MAX * 4, chunks_per_file=PLACES_MAX, files_max=4))
    likely = [hit.chunk for hit in answer.hits if hit.chunk.path == path and hit.chance >= CHANCE_MIN][:PLACES_MAX]
    matter = sum(chunk.span.lines for chunk in likely)
    if answer.probability < PROBABILITY_MIN or not likely or matter > READ_SHARE_MIN * lines:
        return ""
    of_all = f"{format_count(matter, 'line')} of {lines:,} in {escape_line(path)}"
    places = [f"{chunk.span} {escape_line(chunk.symbol)}".rstrip() for chunk in likely]
    return limit_lines(f"ctx: for this request most likely {of_all} matter:", places, TOKENS_MAX)


def describe_edit(event: HookEvent, engine: Engine, shown: ShownLines) -> str:
    """Return the other lines with the names of the definitions that an edit changed, and their tests."""
    if not event.path:
        return ""
    file = engine.files.read(join_folder(event.path, event))
    lines = describe_mentions_at(file.path, find_written_lines(file.text, event.written), engine, shown)
    return limit_lines(f"ctx on this edit of {escape_line(file.path)}:", lines, TOKENS_MAX)


def find_written_lines(text: str, written: str) -> list[LineSpan]:
    r"""Return the lines of a text that an edit wrote; none if it cannot be found, because it deleted or was changed.

    >>> find_written_lines("a\nb\nc\n", "b\nc")
    [LineSpan(first=2, last=3)]
    """
    stripped = written.strip("\n")
    at = text.find(stripped) if stripped.strip() else -1
    if at < 0:
        return []
    first = text.count("\n", 0, at) + 1
    return [LineSpan(first, first + stripped.count("\n"))]


def _name_symbols(path: str, found: Mapping[int, str], engine: Engine, shown: ShownLines) -> Iterator[str]:
    """Yield each symbol of a file that contains some of the lines."""
    try:
        outline = engine.symbols.outline(path, details=False)
    except ContextEngineError:  # a file that the client may read, and we may not
        return
    symbols = [symbol for _, symbol in outline.symbols]
    spans = {symbol.qualified: symbol.span for symbol in symbols}
    by_symbol: dict[str, list[int]] = {}
    for number, text in found.items():
        shown.add(outline.path, number, text)
        around = find_symbol_at(LineSpan(number, number), symbols)
        if around and spans[around].contains(LineSpan(number, number)):
            by_symbol.setdefault(around, []).append(number)
    for name, lines in by_symbol.items():
        span = spans[name]
        listed = ", ".join(map(str, lines[:LINES_LISTED])) + (" …" if len(lines) > LINES_LISTED else "")
        yield f"{escape_line(outline.path)}: {listed} in {escape_line(name)} ({span.first}-{span.last})"


def join_folder(path: str, event: HookEvent) -> str:
    """Return a path as the agent means it, from the folder where it works; the Engine checks it."""
    return str(Path(event.folder, path)) if path else ""
