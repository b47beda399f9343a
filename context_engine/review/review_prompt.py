"""PURE.

What an agent or a model is shown for a second look at a change: numbered hunks, what the checks found, the rules.

It has 2,000 tokens; what has no room is counted, never hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from context_engine.context.refinement_prompt import BRIEF_TOKENS_MAX, BriefSection, build_brief
from context_engine.model import Finding
from context_engine.review.finding import PRIORITIES
from context_engine.text import DiffHunk, FileDiff

TASK = (
    "Review this change as an experienced colleague would. Report only what is wrong in the new lines: logic errors, broken "
    "callers, missed cases, races, leaks, security holes. Each finding names its file, its lines as numbered below and quotes "
    "the line it is about, word for word. No praise, no style, nothing you are not sure of; an empty list is a good answer."
)
LINE_CHARS = 200
FINDINGS_MAX = 12
RULES_MAX = 12


def review_brief(
    files: Iterable[FileDiff],
    findings: Sequence[Finding],
    rules: Sequence[str] = (),
    *,
    instructions: str = "",
    tokens_max: int = BRIEF_TOKENS_MAX,
) -> str:
    """The brief: the task, what the checks found, the rules of the repository, then as many hunks as have room, in their order."""
    shown = [(file.path, hunk) for file in files for hunk in file.hunks if hunk.new]
    task = f"{TASK}\n{instructions.strip()}" if instructions.strip() else TASK
    parts = [
        BriefSection(
            "The checks found already (do not repeat them)", [_finding(each) for each in findings[:FINDINGS_MAX]]
        ),
        BriefSection("Rules of this repository", list(rules[:RULES_MAX])),
        BriefSection("Hunks", [_numbered(number, *each) for number, each in enumerate(shown, 1)]),
    ]
    return build_brief(task, parts, tokens_max=tokens_max)


def _numbered(number: int, path: str, hunk: DiffHunk) -> str:
    inside = f" in {hunk.section}" if hunk.section else ""
    lines = (f"{line.mark}{line.new or '':>5} {line.text[:LINE_CHARS].rstrip()}" for line in hunk.lines)
    return "\n".join((f"[{number}] {path}:{hunk.new}{inside}", *lines))


def _finding(finding: Finding) -> str:
    return f"{PRIORITIES[finding.priority]} {finding.path}:{finding.span} {finding.rule}: {finding.title}"
