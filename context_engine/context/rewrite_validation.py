"""Somebody's own version of an enhanced prompt: what they are asked for, and whether what they wrote may stand.

It stands when the user's words are in it as they are, every file and line it names is there, and it is no longer than
the mode allows. Names that nobody defines and commands that no file backs are only told of: they may be what is to be
made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from context_engine.context.enhance import ADDED_TOKENS_MAX, EnhancedPrompt, EnhanceMode, find_commands
from context_engine.context.project_knowledge import ProjectKnowledge
from context_engine.context.references import parse_mentions
from context_engine.context.refinement import SecondPass
from context_engine.context.refinement_prompt import BriefSection, build_brief, truncate_text
from context_engine.context.resolve_references import PromptReference, resolve_mentions
from context_engine.context.workspace import Workspace

PROMPT = "{prompt}"
"""Stands in a draft for the user's own words, so that nobody has to repeat them."""
SHOWN_CHARS_MAX = 80
PROMPT_TOKENS_MAX = 1_000
"""Of the user's words in a brief, which leaves the facts the other half."""
SCHEMA: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 20_000}
TASK = (
    f"Write a better version of the prompt below for an agent that works on this repository. Write {PROMPT} exactly where the "
    "prompt's own words shall stand, once; before or after them say in a few sentences what the facts make clear: where to "
    "look, what to keep to, how to check the work. Invent nothing: name only files, lines, names and commands that stand below."
)
TO_HOST = (
    f"To reword it, send your version as draft: keep the original whole in it (or write {PROMPT} where it shall stand), and "
    "name only what is there. It is checked; a draft that does not hold comes back with the reason."
)


class RewriteObjection(NamedTuple):
    """What cannot stand in a draft, and why."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class PromptRewrite:
    """A draft with the user's words in it; why it does not stand, if it does not; and what is to be said of it."""

    text: str
    objections: tuple[RewriteObjection, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """The objections in a sentence; empty when it stands."""
        return "; ".join(f"{each.text}: {each.reason}" for each in self.objections)


def build_rewrite_request(made: EnhancedPrompt, mode: EnhanceMode) -> SecondPass:
    """The second pass over an enhanced prompt. The calling agent has read the facts; a model is told them."""
    words = truncate_text(made.original, PROMPT_TOKENS_MAX)
    told = build_brief(
        TASK, [BriefSection("The prompt", [words]), BriefSection("Facts", [line.text for line in made.lines])]
    )
    arguments = {"prompt": "<the same prompt>", "mode": mode}
    return SecondPass("enhance_prompt", told, SCHEMA, arguments, is_stored=False, host_brief=TO_HOST)


def check_rewrite(
    draft: str, made: EnhancedPrompt, mode: EnhanceMode, workspace: Workspace, team: ProjectKnowledge
) -> PromptRewrite:
    """What becomes of a draft. Raises: as `Engine.find_symbol`."""
    text = insert_prompt(draft, made.original.strip())
    objections, warnings = _of_names(text, made, workspace)
    if made.original.strip() not in text:
        shown = made.original.strip()[:SHOWN_CHARS_MAX]
        objections.insert(0, RewriteObjection(shown, "the draft must keep the original prompt as it is"))
    added, most = team.count_tokens(text) - team.count_tokens(made.original), ADDED_TOKENS_MAX[mode]
    if added > most:
        objections.append(RewriteObjection(text[:SHOWN_CHARS_MAX], f"it adds {added:,} tokens, {mode} allows {most:,}"))
    return PromptRewrite(text, tuple(objections), tuple(warnings))


def insert_prompt(draft: str, words: str) -> str:
    """The draft with the user's words where it wants them; one that holds them already is left alone.

    >>> insert_prompt("Whole cents only: {prompt}", "round up"), insert_prompt("fill {prompt} in", "fill {prompt}")
    ('Whole cents only: round up', 'fill {prompt} in')
    """
    return draft if words in draft else draft.replace(PROMPT, words, 1)


def _of_names(text: str, made: EnhancedPrompt, workspace: Workspace) -> tuple[list[RewriteObjection], list[str]]:
    """What a draft names beyond the prompt and the facts: objections to files and lines, warnings of the rest."""
    known = {mention.text for mention in parse_mentions(made.text)}
    objections: list[RewriteObjection] = []
    warnings: list[str] = []
    new = (mention for mention in parse_mentions(text) if mention.text not in known)
    for each in resolve_mentions(new, workspace, find_commands(workspace)):
        if each.kind == "path" and each.is_missing:
            objections.append(RewriteObjection(each.text, f"not found{_nearest(each)}"))
        elif each.kind == "path" and each.note:
            objections.append(RewriteObjection(each.text, each.note))
        elif each.is_missing:
            warnings.append(f"nobody defines {each.text}{_nearest(each)}")
        elif each.kind == "command" and not each.places:
            warnings.append(f"no file at the top of the repository backs `{each.text}`")
    return objections, warnings


def _nearest(reference: PromptReference) -> str:
    return f"; nearest: {', '.join(reference.near)}" if reference.near else ""
