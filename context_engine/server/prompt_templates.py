"""Prompts a person picks in their client: each sends the agent to the right tools with what the index already knows.

A prompt is short (the texts here and the facts in them stay under 600 tokens), names only tools that exist, and says so
when there is no index to take facts from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import mcp_types as types

from context_engine.errors import InvalidArgument, NotIndexed
from context_engine.model import Query
from context_engine.secrets.masked_text import collect_redactions
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.tools.arguments import suggest_nearest
from context_engine.tools.memory_tools import render_rules_page

if TYPE_CHECKING:
    from context_engine.engine import Engine

PLACES_MAX = 6
"""Places named as a start: the agent searches further itself."""
QUERY_CHARS = 200
"""The part of a long task that goes into a call: the important words come first."""
ARGUMENT_CHARS_MAX = 4_000
"""A task may be a page; whatever is longer belongs into the conversation."""

RULES_CHARS = 1_800
"""The rules in a prompt, about 450 tokens; `ctx://rules` has all of them."""
SENDER = "(prompt)"
"""Under this name the metrics count what was masked here."""

Completes = Literal["", "files", "places", "symbols", "names", "projects"]
"""The completions of an argument. `places` are files and folders; `names` are symbols, or places once a slash is
typed."""


@dataclass(frozen=True, slots=True)
class TemplateArgument:
    """One blank of a prompt."""

    name: str
    description: str
    required: bool = False
    completes: Completes = ""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """One prompt; `write` makes its text of an engine, the arguments given, and the way to spell a call."""

    name: str
    title: str
    description: str
    arguments: tuple[TemplateArgument, ...]
    write: Callable[[Engine, Mapping[str, str], CallFormatter], str]


@dataclass(frozen=True, slots=True)
class CallFormatter:
    """How a call of a tool is spelled for this client: by its name, or through `call_tool` when it is not listed."""

    listed: frozenset[str]
    forbidden: Sequence[str] = ()
    project: str = ""

    def format(self, tool: str, **arguments: Any) -> str:
        """The call, as an agent would make it; nothing for a tool that is switched off."""
        if tool in self.forbidden:
            return ""
        given = arguments | ({"project": self.project} if self.project else {})
        if tool in self.listed or "call_tool" not in self.listed:
            return f"{tool} {json.dumps(given, ensure_ascii=False)}"
        return f"call_tool {json.dumps({'name': tool, 'arguments': given}, ensure_ascii=False)}"


def list_prompts(projects: Sequence[str]) -> list[types.Prompt]:
    """The prompts as `prompts/list` shows them."""
    return [
        types.Prompt(
            name=each.name,
            title=each.title,
            description=each.description,
            arguments=[
                types.PromptArgument(name=blank.name, description=blank.description, required=blank.required)
                for blank in template_arguments(each, projects)
            ],
        )
        for each in PROMPTS
    ]


def find_prompt(name: str) -> PromptTemplate:
    """The prompt of that name. Raises: InvalidArgument, with the nearest name."""
    for each in PROMPTS:
        if each.name == name:
            return each
    names = [each.name for each in PROMPTS]
    raise InvalidArgument(
        f"no prompt is called {name!r}",
        suggestion=suggest_nearest(name, names).strip() or f"There are {', '.join(names)}.",
    )


def template_arguments(prompt: PromptTemplate, projects: Sequence[str]) -> tuple[TemplateArgument, ...]:
    """Its arguments; with several projects also which one is meant."""
    if len(projects) < 2:
        return prompt.arguments
    return (
        *prompt.arguments,
        TemplateArgument("project", f"One of {', '.join(projects)}.", required=True, completes="projects"),
    )


def render_prompt(
    dispatcher: ToolDispatcher,
    name: str,
    arguments: Mapping[str, str],
    *,
    listed: frozenset[str],
    projects: Sequence[str],
) -> str:
    """The text of a prompt, masked. Raises: InvalidArgument, and why a workspace did not open."""
    prompt = find_prompt(name)
    given = _check_arguments(prompt, arguments, projects)
    project = given.pop("project", "")
    with collect_redactions():
        return dispatcher.redact(
            prompt.write(
                dispatcher.engine(project), given, CallFormatter(listed, tuple(dispatcher.forbidden), project)
            ),
            SENDER,
        )


def _check_arguments(prompt: PromptTemplate, arguments: Mapping[str, str], projects: Sequence[str]) -> dict[str, str]:
    """The arguments, blanks dropped. Raises: InvalidArgument for one that is missing, unknown or too long."""
    known = {each.name: each for each in template_arguments(prompt, projects)}
    given = {name: value.strip() for name, value in arguments.items() if value.strip()}
    for name, value in given.items():
        if name not in known:
            raise _argument_error(
                prompt,
                f"has no argument {name!r}",
                suggest_nearest(name, known).strip() or f"It has {', '.join(known)}.",
            )
        if len(value) > ARGUMENT_CHARS_MAX:
            raise _argument_error(
                prompt,
                f"takes at most {ARGUMENT_CHARS_MAX:,} characters of {name}",
                "Say the rest in the conversation.",
            )
    for name, each in known.items():
        if each.required and name not in given:
            raise _argument_error(prompt, f"needs {name}", each.description)
    return given


def _argument_error(prompt: PromptTemplate, what: str, suggestion: str) -> InvalidArgument:
    return InvalidArgument(f"the prompt {prompt.name} {what}", suggestion=suggestion)


# -- the four of them --------------------------------------------------------------------------------------------


def _write_understand(engine: Engine, given: Mapping[str, str], calls: CallFormatter) -> str:
    area, question = given.get("area", ""), given.get("question", "")
    wanted = question or (f"how does {area} work" if area else "what does this project do and how is it built")
    inside = {"include_paths": [f"{area}**" if area.endswith("/") else area]} if area else {}
    outlined = area if area and not area.endswith("/") else "path/of/a/file"
    aim = f"to answer: {question}" if question else "well enough to change it safely."
    return _join_paragraphs(
        f"Learn how {area or 'this code base'} works, {aim}\nState nothing that you have not read.",
        *_describe_overview(engine, calls),
        *_format_steps(
            "Go on in this order:",
            (calls.format("codebase_retrieval", query=wanted, **inside), "the places worth reading"),
            (calls.format("find_symbol", outline=outlined), "a file's skeleton before its text"),
            (calls.format("trace", symbol="Name", direction="callers"), "who uses what you found"),
            (_lines_of_a_file(calls), "the lines themselves"),
        ),
        "Then tell what it is for, its main parts and how they work together, where a change would begin, and what you "
        "are not sure of. Give path:line for every statement.",
    )


def _write_find(engine: Engine, given: Mapping[str, str], calls: CallFormatter) -> str:
    return _join_paragraphs(
        f"Find in this repository: {given['what']}",
        *_describe_places(engine, given["what"], calls),
        *_format_steps(
            "Go on with:",
            (_lines_of_a_file(calls), "the lines themselves"),
            (calls.format("codebase_retrieval", query="other words for it"), "other places"),
            (calls.format("trace", symbol="Name", direction="callers"), "who uses a name"),
        ),
        "Give path:line for each place and a sentence on what is there. If it does not exist, say so and what you tried.",
    )


def _write_change(engine: Engine, given: Mapping[str, str], calls: CallFormatter) -> str:
    task, target = given["task"], given.get("target", "")
    traced = {"path": target} if "/" in target else {"symbol": target or "Name"}
    return _join_paragraphs(
        f"Make this change: {task}",
        *_describe_places(engine, target or task, calls),
        *_format_steps(
            "Read those places. Then, before you edit:",
            (calls.format("codebase_retrieval", query=task[:QUERY_CHARS]), "more of them"),
            (calls.format("trace", **traced, direction="impact", depth=2), "what depends on what you touch"),
            (calls.format("codebase_retrieval", query=f"test {target or task}"[:QUERY_CHARS]), "the tests to extend"),
        ),
        "Make the smallest change that does it, in the style of the code around it, with a test that fails without it. "
        "Edits are searchable at once. Run the tests, then tell what changed, path:line, and what could break.",
    )


def _write_begin(engine: Engine, given: Mapping[str, str], calls: CallFormatter) -> str:
    task = given.get("task", "")
    asked = (
        (calls.format("get_context_for_prompt", query=task[:QUERY_CHARS]), "what to read first") if task else ("", "")
    )
    return _join_paragraphs(
        f"Before work begins{f' on this: {task}' if task else ''}, here is what holds in this project. Keep to it; where the "
        "task asks for something else, say so and ask.",
        render_rules_page(engine, chars_max=RULES_CHARS),
        *([_describe_missing_index(engine, calls)] if engine.status().state != "ready" else []),
        *_format_steps(
            "Then:",
            asked,
            (
                calls.format("context_search", query=task[:QUERY_CHARS] or "what the task is about"),
                "known issues and patterns",
            ),
            (
                calls.format("add_memory", category="decisions", content="what was decided, and why"),
                "what the team should remember",
            ),
        ),
    )


def _format_steps(above: str, *steps: tuple[str, str]) -> Iterator[str]:
    """A paragraph with a line for each call that can be made, and what it is for."""
    told = [f"- {call} for {what}" for call, what in steps if call]
    if told:
        yield "\n".join([above, *told])


def _join_paragraphs(*paragraphs: str) -> str:
    return "\n\n".join(paragraphs)


def _lines_of_a_file(calls: CallFormatter) -> str:
    return calls.format("read_file", path="path/of/a/file", start_line=1, end_line=60)


PROMPTS: tuple[PromptTemplate, ...] = (
    PromptTemplate(
        "begin",
        "Begin with what the team knows",
        "Start a task with the rules and decisions of this project before the agent's eyes.",
        (TemplateArgument("task", "What is to be done; empty: the rules alone."),),
        _write_begin,
    ),
    PromptTemplate(
        "understand",
        "Understand this code",
        "Learn how this code base, or a part of it, works: sends the agent from the landmarks to the lines.",
        (
            TemplateArgument("area", "A file or folder to look at; empty: everything.", completes="places"),
            TemplateArgument("question", "What you want to know; empty: a tour."),
        ),
        _write_understand,
    ),
    PromptTemplate(
        "find",
        "Find something in the code",
        "Find where something is: starts at the best places the index knows.",
        (TemplateArgument("what", "A behaviour in plain words, or a symbol.", required=True, completes="symbols"),),
        _write_find,
    ),
    PromptTemplate(
        "change",
        "Change the code safely",
        "Make a change: the places it concerns, what depends on them, and the tests, before the first edit.",
        (
            TemplateArgument("task", "What is to be different afterwards.", required=True),
            TemplateArgument("target", "The symbol or file it is about, if you know it.", completes="names"),
        ),
        _write_change,
    ),
)
"""Every prompt, in the order a person sees them."""


# -- what the index knows -----------------------------------------------------------------------------------------


def _describe_overview(engine: Engine, calls: CallFormatter) -> Iterator[str]:
    """Size, languages, folders, entry points and central files, a line each."""
    try:
        known = engine.search.overview()
    except NotIndexed:
        yield _describe_missing_index(engine, calls)
        return
    facts = {
        "files": f"{known.files:,} ({_format_counts(known.languages)})",
        "the program, by files": _format_counts(known.folders),
        "seems to start in": ", ".join(known.starts),
        "much leans on": ", ".join(known.central),
    }
    told = [f"- {name}: {fact}" for name, fact in facts.items() if fact]
    yield "\n".join([f"What the index knows ({known.freshness}):", *told])


def _describe_places(engine: Engine, what: str, calls: CallFormatter) -> Iterator[str]:
    """Where a symbol is defined; for anything else, and for a symbol that is not, what a search finds."""
    try:
        found = engine.symbols.find(what, limit=PLACES_MAX) if len(what.split()) == 1 and "/" not in what else None
        if found and found.definitions:
            rows = [(each.path, each.span.first, each.span.last, each.qualified) for each in found.definitions]
            yield "\n".join([f"Defined here, says the index ({found.freshness}):", *_format_places(rows)])
            return
        answer = engine.search.find(Query(what, limit=PLACES_MAX, chunks_per_file=1))
    except NotIndexed:
        yield _describe_missing_index(engine, calls)
        return
    rows = [(hit.chunk.path, hit.chunk.span.first, hit.chunk.span.last, hit.chunk.title) for hit in answer.hits]
    told = f"Start here, says the index ({answer.freshness}), best first:"
    yield "\n".join([told, *_format_places(rows)]) if rows else f"The index has no place for it: {answer.reason}."


def _format_places(rows: Iterable[tuple[str, int, int, str]]) -> list[str]:
    return [f"- {path}:{first}-{last} {title if title != path else ''}".rstrip() for path, first, last, title in rows]


def _format_counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def _describe_missing_index(engine: Engine, calls: CallFormatter) -> str:
    if engine.status().state == "building":
        return "The index is still being built, so nothing can be said beforehand; the tools answer as it grows."
    return f"There is no index yet, so nothing can be said beforehand: call {calls.format('index_workspace')} first."
