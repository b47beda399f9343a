"""The rules and decisions of a project as one page, for an agent to read before it begins."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from context_engine.context.project_knowledge import REPOSITORY_WORDS
from context_engine.tools.truncate import count_fitting, cut_to_size

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.memory.knowledge import Known

ROW_CHARS_MAX = 400
"""A rule is a sentence or two; its source has the full text."""
TITLES = {"rule": "Rules", "decision": "Decisions"}


def render_rules_page(engine: "Engine", *, chars_max: int) -> str:
    """Render as many rules and decisions as fit, and the number of the others."""
    known = engine.memory.informed().binding()
    rows = [_row(item) for item in known]
    count = count_fitting(rows, chars_max=max(chars_max - 200, 0))
    lines = [f"These are {REPOSITORY_WORDS}.", ""] if known else []
    for kind, title in TITLES.items():
        lines += _section(title, kind, known[:count])
    if count < len(known):
        lines += ["", f"… {len(known) - count:,} more: context_search finds them by words."]
    return "\n".join(lines).strip() or (
        "No rules or decisions are known yet. They come from AGENTS.md, CONTRIBUTING.md and the like, decision records and "
        "breaking commits; add_memory adds one."
    )


def _section(title: str, kind: str, known: Sequence["Known"]) -> Iterator[str]:
    rows = [_row(item) for item in known if item.type == kind]
    if rows:
        yield from (f"## {title}", "", *rows, "")


def _row(known: "Known") -> str:
    content = " ".join(known.content.split())
    title = "" if known.title in content else f"**{known.title}**: "
    if len(content) > ROW_CHARS_MAX:
        content = cut_to_size(content, ROW_CHARS_MAX - 1) + "…"
    return f"- {title}{content} ({known.place})"
