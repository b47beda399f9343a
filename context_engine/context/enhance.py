"""A prompt with what the repository knows about it: the user's words as they are, and below them nothing but facts.

What the prompt names is resolved to path:line, what is ambiguous becomes a question, what is not there is said not to
be. If nothing resolves and no file stands out, the prompt stays as it is: an empty template is noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from context_engine.context.clauses import extract_clauses, extract_objective
from context_engine.context.commands import NAMES, READ, Command, detect_commands
from context_engine.context.gather import SIGNALS
from context_engine.context.project_knowledge import QUOTED_FROM_REPOSITORY, ProjectKnowledge, RememberedItem
from context_engine.context.references import parse_mentions
from context_engine.context.resolve_references import PromptReference, resolve_mentions
from context_engine.context.workspace import Workspace
from context_engine.errors import CallError, NotIndexed
from context_engine.model import Filter, Hit, Query

EnhanceMode = Literal["light", "rich"]
ADDED_TOKENS_MAX: Mapping[EnhanceMode, int] = {"light": 600, "rich": 2_000}
LIKELY_MAX: Mapping[EnhanceMode, int] = {"light": 4, "rich": 10}
CONSTRAINTS_MAX: Mapping[EnhanceMode, int] = {"light": 3, "rich": 8}
LEXICAL_MIN = 5.0
"""What the words of a prompt must be worth in the best file before any is named: 6 of 100 prompts that name nothing
reach it, 9 of 10 questions and commit subjects of small repositories, 6 of 10 of large ones (evals/bundle/floor.py)."""
RELEVANCE_MIN = 0.6
"""Of the best file's score; what lies below is no likely place."""
QUERY_CHARS_MAX = 2_000
CONSTRAINT_CHARS_MAX = 240
TOP_ITEMS_MAX = 1_000
"""Files at the top of a workspace that are looked at for commands."""
BINDING_TYPES = frozenset(("rule", "decision", "pattern", "preferences", "decisions"))
"""What is remembered and binds somebody who changes code; issues and facts do not."""

Section = Literal["references", "open_questions", "likely_files", "constraints", "validation", "done_when"]
TITLES: Mapping[Section, str] = {
    "references": "Named here, and where it is:",
    "open_questions": "Open questions:",
    "likely_files": "Likely files:",
    "constraints": f"Rules and decisions, {QUOTED_FROM_REPOSITORY}:",
    "validation": "How this repository is checked:",
    "done_when": "Done when:",
}
"""In the order of importance: what has no room is left out from the end."""


class LikelyFile(NamedTuple):
    """A file the task is likely about, and the place in it that was found; "" when history alone knows of it."""

    path: str
    place: str


T = TypeVar("T")
PromptItem = PromptReference | LikelyFile | RememberedItem | Command | str


class PromptLine(NamedTuple):
    """One fact: what it is, and how it is told."""

    section: Section
    item: PromptItem
    text: str


@dataclass(frozen=True, slots=True)
class EnhancedPrompt:
    """The prompt with its facts. `lines` are those that are told, `references` all that were looked up."""

    text: str
    original: str
    objective: str
    lines: tuple[PromptLine, ...]
    references: tuple[PromptReference, ...]
    left_out: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether anything was added."""
        return self.text != self.original

    def list_texts(self, section: Section) -> list[str]:
        """The lines of a section."""
        return [line.text for line in self.lines if line.section == section]

    def list_items(self, kind: type[T]) -> list[T]:
        """The facts of one kind that are told."""
        return [line.item for line in self.lines if isinstance(line.item, kind)]


def build_enhanced_prompt(
    prompt: str, mode: EnhanceMode, chosen: Filter, workspace: Workspace, team: ProjectKnowledge
) -> EnhancedPrompt:
    """The prompt, and below it what is known, within the tokens of the mode.

    Raises: as `Engine.search`, but for no index.
    """
    known = find_commands(workspace)
    references = resolve_mentions(parse_mentions(prompt), workspace, known)
    likely, warnings = _likely(prompt, mode, chosen, workspace, team)
    told = [*_of_references(references), *_of_files(likely, references)]
    if not told:
        return EnhancedPrompt(prompt, prompt, extract_objective(prompt), (), tuple(references), 0, warnings)
    told += [*_of_memory(prompt, mode, team), *_of_commands(known, mode), *_of_clauses(prompt)]
    kept = list(told)
    while kept and team.count_tokens(_added(kept)) > ADDED_TOKENS_MAX[mode]:
        kept.pop()
    text = prompt + _added(kept) if kept else prompt
    return EnhancedPrompt(
        text, prompt, extract_objective(prompt), tuple(kept), tuple(references), len(told) - len(kept), warnings
    )


def _added(lines: Sequence[PromptLine]) -> str:
    """What is put below the prompt."""
    parts = []
    for section, title in TITLES.items():
        rows = [f"- {line.text}" for line in lines if line.section == section]
        parts += ["\n".join([title, *rows])] if rows else []
    return "\n\n---\n" + "\n\n".join(parts) + "\n"


# -- what is told -----------------------------------------------------------------------------------------------------


def _of_references(references: Sequence[PromptReference]) -> Iterator[PromptLine]:
    """Where each name leads; then the questions of those that lead nowhere or to several places."""
    for each in references:
        if len(each.places) == 1 and not each.is_ambiguous:
            note = f"; {each.note}" if each.note else ""
            yield PromptLine("references", each, f"{_quoted(each.text)}: {each.places[0]}{note}")
    for each in references:
        if each.is_ambiguous:
            more = f" and {each.more} more" if each.more else ""
            yield PromptLine(
                "open_questions", each, f"{_quoted(each.text)} may be {_or(each.places)}{more}: which is meant?"
            )
        elif each.is_missing:
            near = f"; nearest: {', '.join(each.near)}" if each.near else ""
            yield PromptLine("open_questions", each, f"{_quoted(each.text)} was not found{near}")


def _of_files(likely: Sequence[LikelyFile], references: Sequence[PromptReference]) -> Iterator[PromptLine]:
    """The files that were not named already."""
    named = {place.path for each in references if not each.is_ambiguous for place in each.places}
    for each in likely:
        if each.path not in named:
            yield PromptLine("likely_files", each, f"{each.path}{f' ({each.place})' if each.place else ''}")


def _of_memory(prompt: str, mode: EnhanceMode, team: ProjectKnowledge) -> Iterator[PromptLine]:
    """Rules, decisions and patterns, each with its id."""
    recalled = team.recall(prompt[:QUERY_CHARS_MAX], CONSTRAINTS_MAX[mode] * 2) if team.recall else ()
    binding = [each for each in recalled if each.type in BINDING_TYPES]
    for each in binding[: CONSTRAINTS_MAX[mode]]:
        yield PromptLine("constraints", each, each.quote(CONSTRAINT_CHARS_MAX))


def _of_commands(known: Sequence[Command], mode: EnhanceMode) -> Iterator[PromptLine]:
    """One command for each purpose."""
    for kind in ("test", "lint", "types") if mode == "rich" else ("test", "lint"):
        command = next((each for each in known if each.kind == kind), None)
        if command:
            yield PromptLine("validation", command, f"{kind}: {command}")


def _of_clauses(prompt: str) -> Iterator[PromptLine]:
    yield from (PromptLine("done_when", clause, clause) for clause in extract_clauses(prompt))


def _quoted(text: str) -> str:
    return f"`{text}`" if "`" not in text and "\n" not in text else " ".join(text.split())


def _or(places: Sequence[object]) -> str:
    """The places as a choice."""
    named = [str(place) for place in places]
    return ", ".join(named[:-1]) + f" or {named[-1]}" if len(named) > 1 else named[0]


# -- what is known ----------------------------------------------------------------------------------------------------


def _likely(
    prompt: str, mode: EnhanceMode, chosen: Filter, workspace: Workspace, team: ProjectKnowledge
) -> tuple[list[LikelyFile], tuple[str, ...]]:
    """The files the prompt is about, best first; none when no file stands out of the noise."""
    if not prompt[:QUERY_CHARS_MAX].strip():
        return [], ()
    query = Query(prompt[:QUERY_CHARS_MAX], LIKELY_MAX[mode], chosen, RELEVANCE_MIN, chunks_per_file=1)
    try:
        hits = workspace.search.find(query).hits
    except NotIndexed as error:
        return [], (f"{error.message}: {error.suggestion}",)
    if not hits or lexical_score(hits[0]) < LEXICAL_MIN:
        return [], ()
    titles = {hit.chunk.path: hit.chunk.title for hit in reversed(hits) if hit.chunk.title != hit.chunk.path}
    ranked = team.predict_changes(query) if team.predict_changes else [(str(hit.chunk.path), hit.score) for hit in hits]
    best = list(dict.fromkeys(path for path, score in ranked if score >= RELEVANCE_MIN * ranked[0][1]))
    return [LikelyFile(path, titles.get(path, "")) for path in best[: LIKELY_MAX[mode]]], ()


def lexical_score(hit: Hit) -> float:
    """What the words alone are worth of a hit's score: what is common to every tier of the index."""
    return sum(share for name, share in hit.why.items() if SIGNALS.get(name) not in ("semantic", "structure"))


def find_commands(workspace: Workspace) -> list[Command]:
    """The commands that the files at the top of the workspace back."""
    entries = workspace.files.list_directory(".", depth=1, max_items=TOP_ITEMS_MAX, include_hidden=True)
    names = [each.name for each in entries if not each.is_folder and NAMES.fullmatch(each.name)]
    return detect_commands({name: _text(name, workspace) if READ.fullmatch(name) else "" for name in names})


def _text(name: str, workspace: Workspace) -> str:
    try:
        return workspace.files.read(name).text
    except CallError:
        return ""
