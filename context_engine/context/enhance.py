"""Enhances a prompt: the user's words unchanged, and below them facts of the repository; checks rewritten versions.

Names in the prompt are resolved to path:line, an ambiguous name becomes a question, and a missing one is reported. If
nothing resolves and no file stands out, the prompt stays as it is, because an empty template is noise.

A rewritten version is accepted if it contains the original prompt unchanged, if every file and line it names exists,
and if it is no longer than the mode allows. Unknown names are only warnings: the task may create them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

from context_engine.context.assist import BriefSection, SecondPass, build_brief, truncate_text
from context_engine.context.budget import count_beginning
from context_engine.context.commands import Command, detect_commands
from context_engine.context.localizer import GatherRequest, locate_files
from context_engine.context.name_lookup import PromptReference, resolve_names
from context_engine.context.project_knowledge import QUOTED_FROM_REPOSITORY, KnowledgeEntry, ProjectKnowledge, Workspace
from context_engine.context.related_files import find_partners, is_test
from context_engine.errors import CallError, NotIndexed
from context_engine.model import Filter
from context_engine.search import Question, TaskText
from context_engine.text import estimate_tokens

EnhanceMode = Literal["light", "rich"]
ADDED_TOKENS_MAX: Mapping[EnhanceMode, int] = {"light": 600, "rich": 2_000}
LIKELY_MAX: Mapping[EnhanceMode, int] = {"light": 4, "rich": 10}
RELATED_MAX: Mapping[EnhanceMode, int] = {"light": 2, "rich": 8}
"""Tests; `rich` also names what usually changes together with a file, and one more place in each."""
PLACES_MAX: Mapping[EnhanceMode, int] = {"light": 1, "rich": 2}
CONSTRAINTS_MAX: Mapping[EnhanceMode, int] = {"light": 3, "rich": 8}
CHECKED_KINDS: Mapping[EnhanceMode, tuple[str, ...]] = {"light": ("test", "lint"), "rich": ("test", "lint", "types")}
LEXICAL_MIN = 5.0
"""Lexical score of the best file from which on likely files are listed: 6 of 100 prompts that name nothing reach it, 9
of 10 questions and commit subjects of small repositories, 6 of 10 of large ones (evals/bundle/floor.py)."""
RELEVANCE_MIN = 0.6
"""Smallest share of the best file's score for a likely file."""
CONSTRAINT_CHARS_MAX = 240
TOP_ITEMS_MAX = 1_000
"""Files at the top of a workspace that are examined for commands."""
BINDING_TYPES = frozenset(("rule", "decision", "pattern", "preferences", "decisions"))
"""Types of memories that bind a change of code; issues and facts do not."""

Section = Literal["references", "open_questions", "likely_files", "related", "constraints", "validation", "done_when"]
TITLES: Mapping[Section, str] = {
    "references": "Named here, and where it is:",
    "open_questions": "Open questions:",
    "likely_files": "Likely files:",
    "related": "Files that belong to them:",
    "constraints": f"Rules and decisions, {QUOTED_FROM_REPOSITORY}:",
    "validation": "How this repository is checked:",
    "done_when": "Done when:",
}
"""Sections in the order of importance: what has no room is left out from the end."""

PLACEHOLDER = "{prompt}"
"""Replaced in a draft by the prompt of the user, so that a draft need not repeat it."""
OBJECTION_CHARS_MAX = 80
PROMPT_TOKENS_MAX = 1_000
"""Tokens of the prompt in a brief; the facts get the other half."""
SCHEMA: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 20_000}
TASK = (
    "Write a better version of the prompt below for an agent that works on this repository. Write "
    f"{PLACEHOLDER} exactly where the prompt's own words shall be, once; before or after them say in a few sentences "
    "what the facts make clear: where to look, what to keep to, how to check the work. Invent nothing: name only "
    "files, lines, names and commands that are listed below."
)
HOST_BRIEF = (
    f"To reword it, send your version as draft: keep the original whole in it (or write {PLACEHOLDER} where it shall "
    "be), and name only what exists. It is checked; a draft that is not accepted comes back with the reason."
)


class LikelyFile(NamedTuple):
    """A file that the task is probably about, and the place in it; "" if only the history suggests it."""

    path: str
    place: str

    def __str__(self) -> str:
        """Format the file with its place."""
        return f"{self.path} ({self.place})" if self.place else self.path


T = TypeVar("T")


class PromptLine(NamedTuple):
    """One fact below a prompt: its section, the fact itself, and its text."""

    section: Section
    item: PromptReference | LikelyFile | KnowledgeEntry | Command | str
    text: str


@dataclass(frozen=True, slots=True)
class EnhancedPrompt:
    """A prompt with its facts. `lines` are the facts shown, `references` all names that were looked up."""

    text: str
    original: str
    objective: str
    lines: tuple[PromptLine, ...]
    references: tuple[PromptReference, ...]
    warnings: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether anything was added."""
        return self.text != self.original

    def list_texts(self, section: Section) -> list[str]:
        """Return the lines of a section."""
        return [line.text for line in self.lines if line.section == section]

    def list_items(self, kind: type[T]) -> list[T]:
        """Return the facts of one type."""
        return [line.item for line in self.lines if isinstance(line.item, kind)]


def build_enhanced_prompt(
    prompt: str, mode: EnhanceMode, file_filter: Filter, workspace: Workspace, team: ProjectKnowledge
) -> EnhancedPrompt:
    """Return the prompt, and below it the known facts within the tokens of the mode.

    Raises: as `Engine.search`, but never for a missing index.
    """
    commands, question = find_commands(workspace), Question.of(prompt)
    references = tuple(resolve_names(question.names, workspace))
    likely, warnings = _find_likely_files(prompt, mode, file_filter, workspace, team)
    places = (place.path for reference in references if not reference.is_ambiguous for place in reference.places)
    named = list(dict.fromkeys(places))
    lines = [*_reference_lines(references)]
    lines += (PromptLine("likely_files", file, str(file)) for file in likely if file.path not in named)
    if not lines:
        return EnhancedPrompt(prompt, prompt, question.objective, (), references, warnings)
    files = list(dict.fromkeys([*named, *(file.path for file in likely)]))
    related = islice(_list_related(files, mode, workspace, team), RELATED_MAX[mode])
    lines += (PromptLine("related", text, text) for text in related)
    lines += _memory_lines(prompt, mode, files, team)
    first_of_kind = {command.kind: command for command in reversed(commands)}
    checks = [first_of_kind[kind] for kind in CHECKED_KINDS[mode] if kind in first_of_kind]
    lines += (PromptLine("validation", command, f"{command.kind}: {command}") for command in checks)
    lines += (PromptLine("done_when", item, item) for item in question.items)
    most = ADDED_TOKENS_MAX[mode]
    kept = lines[: count_beginning(len(lines), lambda count: estimate_tokens(_format_facts(lines[:count])) <= most)]
    text = prompt + _format_facts(kept) if kept else prompt
    return EnhancedPrompt(text, prompt, question.objective, tuple(kept), references, warnings)


def _format_facts(lines: Sequence[PromptLine]) -> str:
    parts = []
    for section, title in TITLES.items():
        rows = [f"- {line.text}" for line in lines if line.section == section]
        if rows:
            parts.append("\n".join([title, *rows]))
    return "\n\n---\n" + "\n\n".join(parts) + "\n"


# -- lines of facts ---------------------------------------------------------------------------------------------------


def _reference_lines(references: Sequence[PromptReference]) -> Iterator[PromptLine]:
    """Yield where each name leads, then a question for each name with no place or several."""
    for reference in references:
        if len(reference.places) == 1 and not reference.is_ambiguous:
            note = f"; {reference.note}" if reference.note else ""
            yield PromptLine("references", reference, f"{_quote(reference.text)}: {reference.places[0]}{note}")
    for reference in references:
        if reference.is_ambiguous:
            *first, last = map(str, reference.places)
            choices = f"{', '.join(first)} or {last}" if first else last
            more = f" and {reference.more} more" if reference.more else ""
            question = f"{_quote(reference.text)} may be {choices}{more}: which is meant?"
            yield PromptLine("open_questions", reference, question)
        elif reference.is_missing:
            text = f"{_quote(reference.text)} was not found{_format_nearest(reference)}"
            yield PromptLine("open_questions", reference, text)


def _quote(text: str) -> str:
    return " ".join(text.split()) if "`" in text or "\n" in text else f"`{text}`"


def _format_nearest(reference: PromptReference) -> str:
    return f"; nearest: {', '.join(reference.near)}" if reference.near else ""


def _list_related(
    files: Sequence[str], mode: EnhanceMode, workspace: Workspace, team: ProjectKnowledge
) -> Iterator[str]:
    """Yield the tests named after the files; in the rich mode, also what usually changes together with them."""
    shown = set(files)
    for path in files:
        partners = () if is_test(path) else find_partners(path, workspace.symbols.files_named)[:1]
        found = [(test, "tests") for test in partners]
        if team.history and mode == "rich":
            together = team.history.list_usual_cochanges(path)
            found += [(partner.path, "usually changes together with") for partner in together[:2]]
        for other, relation in found:
            if other not in shown:
                shown.add(other)
                yield f"{other} {relation} {path}"


def _memory_lines(
    prompt: str, mode: EnhanceMode, files: Collection[str], team: ProjectKnowledge
) -> Iterator[PromptLine]:
    recalled = team.recall(prompt, CONSTRAINTS_MAX[mode] * 2, files) if team.recall else ()
    binding = [item for item in recalled if item.type in BINDING_TYPES]
    for item in binding[: CONSTRAINTS_MAX[mode]]:
        yield PromptLine("constraints", item, item.quote(CONSTRAINT_CHARS_MAX))


# -- facts of the workspace -------------------------------------------------------------------------------------------


def _find_likely_files(
    prompt: str, mode: EnhanceMode, file_filter: Filter, workspace: Workspace, team: ProjectKnowledge
) -> tuple[list[LikelyFile], tuple[str, ...]]:
    """Return the files that the prompt is about, best first, and warnings; no file if none stands out of the noise."""
    if not prompt.strip():
        return [], ()
    request = GatherRequest(
        prompt, LIKELY_MAX[mode], file_filter, RELEVANCE_MIN, spots_per_file=PLACES_MAX[mode], lexical_min=LEXICAL_MIN
    )
    try:
        found, _ = locate_files(request, workspace, team.predict_changes)
    except NotIndexed as error:
        return [], (f"{error.message}: {error.suggestion}",)
    if found.is_weak:
        return [], ()
    likely = []
    for file in found.files:
        symbols = dict.fromkeys(place.symbol for place in file.spots if place.symbol)
        likely.append(LikelyFile(file.path, ", ".join(symbols)))
    return likely, ()


def find_commands(workspace: Workspace) -> list[Command]:
    """Return the commands that files at the top of the workspace state. A file that cannot be read states none."""
    entries = workspace.files.list_directory(".", depth=1, max_items=TOP_ITEMS_MAX, include_hidden=True)

    def read(name: str) -> str:
        try:
            return workspace.files.read(name).text
        except CallError:
            return ""

    return detect_commands([entry.name for entry in entries if not entry.is_folder], read)


# -- rewritten versions -----------------------------------------------------------------------------------------------


class RewriteObjection(NamedTuple):
    """A part of a draft that is not accepted, and why."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class PromptRewrite:
    """A draft with the user's prompt in it, the objections to it, and warnings."""

    text: str
    objections: tuple[RewriteObjection, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def problem(self) -> str:
        """The objections in one sentence; empty if the draft is accepted."""
        return "; ".join(f"{objection.text}: {objection.reason}" for objection in self.objections)


def build_rewrite_request(enhanced: EnhancedPrompt, mode: EnhanceMode) -> SecondPass:
    """Return the second pass over an enhanced prompt. A model gets the facts; the calling agent has read them."""
    words = truncate_text(enhanced.original, PROMPT_TOKENS_MAX)
    facts = [line.text for line in enhanced.lines]
    brief = build_brief(TASK, [BriefSection("The prompt", [words]), BriefSection("Facts", facts)])
    arguments = {"prompt": "<the same prompt>", "mode": mode}
    return SecondPass("enhance_prompt", brief, SCHEMA, arguments, is_stored=False, host_brief=HOST_BRIEF)


def check_rewrite(draft: str, enhanced: EnhancedPrompt, mode: EnhanceMode, workspace: Workspace) -> PromptRewrite:
    """Return a draft with the prompt in it, and what is wrong with it. Raises: as `Engine.find_symbol`."""
    original = enhanced.original.strip()
    text = insert_prompt(draft, original)
    objections, warnings = _check_names(text, enhanced, workspace)
    if original not in text:
        reason = "the draft must keep the original prompt as it is"
        objections.insert(0, RewriteObjection(original[:OBJECTION_CHARS_MAX], reason))
    added, most = estimate_tokens(text) - estimate_tokens(enhanced.original), ADDED_TOKENS_MAX[mode]
    if added > most:
        reason = f"it adds {added:,} tokens, {mode} allows {most:,}"
        objections.append(RewriteObjection(text[:OBJECTION_CHARS_MAX], reason))
    return PromptRewrite(text, tuple(objections), tuple(warnings))


def insert_prompt(draft: str, words: str) -> str:
    """Return the draft with the user's words in place of `{prompt}`; unchanged if it contains them already.

    >>> insert_prompt("Whole cents only: {prompt}", "round up"), insert_prompt("fill {prompt} in", "fill {prompt}")
    ('Whole cents only: round up', 'fill {prompt} in')
    """
    if words in draft:
        return draft
    return draft.replace(PLACEHOLDER, words, 1)


def _check_names(text: str, enhanced: EnhancedPrompt, workspace: Workspace) -> tuple[list[RewriteObjection], list[str]]:
    """Check what a draft names beyond prompt and facts: objections to files and lines, warnings about the rest."""
    known = {name.text for name in TaskText(enhanced.text).names}
    objections: list[RewriteObjection] = []
    warnings: list[str] = []
    new = (name for name in TaskText(text).names if name.text not in known)
    for reference in resolve_names(new, workspace):
        name, nearest = reference.text, _format_nearest(reference)
        if reference.kind == "path" and reference.is_missing:
            objections.append(RewriteObjection(name, f"not found{nearest}"))
        elif reference.kind == "path" and reference.note:
            objections.append(RewriteObjection(name, reference.note))
        elif reference.is_missing:
            warnings.append(f"nothing here defines {name}{nearest}")
    return objections, warnings
