"""PURE.

A plan as one HTML file: its Markdown and the source of its Mermaid diagrams, readable offline and without a script.

Every text is escaped, and the content security policy of the file allows its own style sheet and nothing else. Markup
that slipped through would therefore neither run nor fetch anything.
"""

from __future__ import annotations

import hashlib
import unicodedata
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import msgspec

from context_engine.plans import mermaid
from context_engine.plans.model import Plan
from context_engine.plans.plan_events import Approval, Execution
from context_engine.plans.plan_json import PlanVersion
from context_engine.plans.plan_markdown import render_history, render_plan, render_table, single_line

HTML_BYTES_MAX = 1_000_000
"""A larger file is too large to attach to a ticket or an email; texts are cut until it fits."""
HTML_VERSIONS_MAX = 30
_STYLE = (
    ":root { color-scheme: light dark; }"
    " body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font-family: system-ui, sans-serif; }"
    " pre { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5; }"
    " pre.mermaid { padding: 1rem; border: 1px solid; }"
)
_LAYOUT_CHARS = "\n\t\u200c\u200d"
"""Control and joining characters that a page may contain."""
_KEYS_KEPT = frozenset("uid id base_commit created_at provenance priority likelihood".split())
"""Fields of a plan that are short by their type and must not be cut."""


class _Limits(NamedTuple):
    """How much of a plan is shown: characters of a text, and items of a list other than the steps."""

    chars: int
    items: int


_LIMITS = (_Limits(20_000, 500), _Limits(2_000, 60), _Limits(300, 8), _Limits(100, 2), _Limits(30, 0))
"""Tried in this order until the file is small enough; with the last ones 2,000 steps, the maximum, always fit."""


def render_html(
    plan: Plan,
    execution: Execution | None = None,
    approvals: Sequence[Approval] = (),
    versions: Sequence[PlanVersion] = (),
) -> str:
    """Return the plan as HTML of less than a megabyte; `versions` are newest first.

    The diagrams show all steps that Mermaid can draw; texts and lists are cut where the plan is too large.
    """
    html = ""
    for limits in _LIMITS:
        text = _plan_text(_shorten_plan(plan, limits), execution, approvals[: limits.items], versions)
        html = _document(plan, execution, text, is_cut=limits != _LIMITS[0])
        if len(html.encode()) < HTML_BYTES_MAX:
            break
    return html


def _document(plan: Plan, execution: Execution | None, text: str, *, is_cut: bool) -> str:
    digest = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    warning = "<p>The plan is too large for one file: long texts and lists are cut or left out.</p>\n" if is_cut else ""
    diagrams = "".join(
        f'<h2>{title}</h2>\n<pre class="mermaid">{_escape(diagram.mermaid)}</pre>\n<p>{_escape(diagram.legend)}</p>\n'
        for title, diagram in _diagrams(plan, execution)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_escape(single_line(plan.goal[: mermaid.LABEL_CHARS]))}</title>\n"
        f"<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'{warning}<pre class="plan" dir="auto">{_escape(text)}</pre>\n{diagrams}</body>\n</html>\n'
    )


def _diagrams(plan: Plan, execution: Execution | None) -> list[tuple[str, mermaid.MermaidDiagram]]:
    """Return the diagrams of the page: dependencies (with progress, if there is any) and the earliest times."""
    if not plan.steps:
        return []
    steps = mermaid.draw_progress(plan, execution) if execution else mermaid.draw_dependencies(plan)
    return [("Dependencies", steps), ("Earliest times", mermaid.draw_gantt(plan, execution))]


def _plan_text(
    plan: Plan, execution: Execution | None, approvals: Sequence[Approval], versions: Sequence[PlanVersion]
) -> str:
    """Return the Markdown of the plan, followed by its approvals and its versions."""
    parts = [render_plan(plan, execution)]
    if approvals:
        rows = [_approval_cells(approval, plan) for approval in approvals]
        parts.append(f"## Approvals\n\n{render_table(('decision', 'about', 'by'), rows)}\n")
    if len(versions) > 1:
        parts.append(f"## Versions\n\n{render_history(versions[:HTML_VERSIONS_MAX])}")
    return "\n".join(parts)


def _approval_cells(approval: Approval, plan: Plan) -> tuple[str, str, str]:
    number = plan.step_numbers()
    steps = ", ".join(str(number[uid]) for uid in approval.steps if uid in number)
    about = f"steps {steps}" if steps else "the whole plan"
    comment = approval.comment or approval.modifications or approval.note
    by = " · ".join(filter(None, (approval.decided_by, comment)))
    return approval.status.replace("_", " "), f"{about}, version {approval.plan_version}", by


def _shorten_plan(plan: Plan, limits: _Limits) -> Plan:
    """Return the plan with its texts and lists cut to the limits; it keeps every step."""
    return msgspec.convert(_shorten(msgspec.to_builtins(plan), "", limits), Plan)


def _shorten(value: Any, key: str, limits: _Limits) -> Any:
    if isinstance(value, str):
        is_short = key in _KEYS_KEPT or len(value) <= limits.chars
        return value if is_short else value[: limits.chars].rstrip() + "…"
    if isinstance(value, dict):
        return {name: _shorten(part, name, limits) for name, part in value.items()}
    if isinstance(value, list | tuple):
        shown = value if key == "steps" else value[: limits.items]
        return [_shorten(part, "uid" if key == "depends_on" else "", limits) for part in shown]
    return value


def _escape(text: str) -> str:
    r"""Return a text as HTML, without control characters and marks that change the direction of text.

    >>> _escape("<b>\x00\u202e & \ud800\n")
    '&lt;b&gt; &amp; \n'
    """
    shown = "".join(char for char in text if char in _LAYOUT_CHARS or unicodedata.category(char)[0] != "C")
    return escape(shown)
