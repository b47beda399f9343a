"""The brief at the start of a session: what this repository is, how it is checked, its rules, and that ctx is here."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from context_engine.context import QUOTED_FROM_REPOSITORY, find_commands
from context_engine.errors import ContextEngineError
from context_engine.hooks.tool_notes import limit_lines
from context_engine.text import escape_line, format_count

if TYPE_CHECKING:
    from context_engine.engine import Engine

TOKENS_MAX = 300
COMMAND_KINDS = ("test", "lint", "types", "build")
RULES_MAX = 4
RULE_CHARS_MAX = 160
FOLDERS_MAX = 6
OWN_RULES: dict[str, tuple[str, ...]] = {
    "claude": ("CLAUDE.md",),
    "codex": ("AGENTS.md",),
    "gemini": ("GEMINI.md",),
    "cursor": ("AGENTS.md", ".cursorrules", ".cursor/rules/"),
    "opencode": ("AGENTS.md", "CLAUDE.md"),
}
"""The files of rules that a client reads by itself; their rules are not repeated."""
USE = (
    "To find code, ask the tools of ctx (in a shell: ctx search 'QUESTION', ctx symbol NAME) before you search by hand."
)


def describe_repository(client: str, engine: Engine) -> str:
    """Return the brief within its budget: the first lines that fit. Raises: NotIndexed."""
    return limit_lines(USE, [*_describe_landmarks(engine), *_list_rules(client, engine)], TOKENS_MAX)


def _describe_landmarks(engine: Engine) -> Iterator[str]:
    """Yield size, languages, folders, entry points, central files, and one command for each purpose."""
    landmarks = engine.search.overview()
    languages = ", ".join(f"{name} {count:,}" for name, count in landmarks.languages[:4])
    yield f"This repository: {format_count(landmarks.files, 'file')} ({languages})."
    if landmarks.folders:
        folders = (f"{escape_line(path)} ({count})" for path, count in landmarks.folders[:FOLDERS_MAX])
        yield f"Code is in {', '.join(folders)}."
    if landmarks.starts:
        yield f"It starts in {', '.join(map(escape_line, landmarks.starts[:3]))}."
    if landmarks.central:
        yield f"Most used: {', '.join(map(escape_line, landmarks.central[:4]))}."
    by_kind = {command.kind: command for command in reversed(find_commands(engine))}
    named = [f"{kind}: {escape_line(str(by_kind[kind]))}" for kind in COMMAND_KINDS if kind in by_kind]
    if named:
        yield f"Commands, by its own files: {'; '.join(named)}."


def _list_rules(client: str, engine: Engine) -> Iterator[str]:
    """Yield rules for every file, and of memories, that the client does not read by itself."""
    try:
        entries = engine.memory.knowledge.list_binding()
    except ContextEngineError:
        return
    own = OWN_RULES.get(client, ())
    rules = (entry for entry in entries if entry.type == "rule" and entry.scope.is_everywhere)
    unknown = (entry for entry in rules if not entry.place.startswith(own))
    for number, entry in enumerate(islice(unknown, RULES_MAX)):
        text = " ".join((entry.content or entry.title).split())[:RULE_CHARS_MAX]
        head = "" if number else f"Rules, {QUOTED_FROM_REPOSITORY}:\n"
        yield f"{head}- {escape_line(entry.place)} says: \u201c{escape_line(text)}\u201d"
