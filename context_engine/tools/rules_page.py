"""The rules and decisions of a project as one page: what a client pulls before work begins."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from context_engine.context.project_knowledge import REPOSITORY_WORDS
from context_engine.tools.truncate import count_fitting, cut_to_size, format_count

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.memory.knowledge import Known

ROW_CHARS_MAX = 400
"""A rule is a sentence or two; the whole stands where its place says."""
TITLES = {"rule": "Rules", "decision": "Decisions"}


def render_rules_page(engine: "Engine", *, chars_max: int) -> str:
    """Markdown with a line for each, as many as fit, and how many there are beyond; it says so when there is none."""
    held = engine.memory.informed().binding()
    rows = [_row(each) for each in held]
    count = count_fitting(rows, chars_max=max(chars_max - 200, 0))
    lines = [f"These are {REPOSITORY_WORDS}.", ""] if held else []
    lines += [line for kind, title in TITLES.items() for line in _section(title, kind, held[:count])]
    if count < len(held):
        lines += ["", f"… {format_count(len(held) - count, 'more')}: context_search finds them by words."]
    return "\n".join(lines).strip() or (
        "No rule and no decision is known yet. They are read out of AGENTS.md, CONTRIBUTING.md and the like, decision records "
        "and breaking commits; add_memory writes them down."
    )


def _section(title: str, kind: str, held: Sequence["Known"]) -> Iterator[str]:
    rows = [_row(each) for each in held if each.type == kind]
    if rows:
        yield from (f"## {title}", "", *rows, "")


def _row(known: "Known") -> str:
    content = " ".join(known.content.split())
    title = "" if known.title in content else f"**{known.title}**: "
    told = content if len(content) <= ROW_CHARS_MAX else cut_to_size(content, ROW_CHARS_MAX - 1) + "…"
    return f"- {title}{told} ({known.place})"
