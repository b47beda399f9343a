"""Prompts that a user picks in the client, and completions while the user types.

A prompt sends the agent to the right tools with what the index knows already. It is short (texts and facts stay under
600 tokens), names only existing tools, and reports a missing index.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import mcp_types as types

from context_engine.errors import InvalidArgument, NotIndexed
from context_engine.model import QUESTION_CHARS_MAX, Query
from context_engine.secrets import collect_redactions
from context_engine.server import resources
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.text import suggest_nearest
from context_engine.tools import render_rules_page

if TYPE_CHECKING:
    from context_engine.engine import Engine

PLACES_MAX = 6
"""The number of places to start from; the agent searches further itself."""
QUERY_CHARS = 200
"""The part of a long task that goes into a call: the important words come first."""
RULES_CHARS = 1_800
"""The rules in a prompt, about 450 tokens; `ctx://rules` has all of them."""
SENDER = "(prompt)"
"""The name under which the metrics count masked secrets."""
COMPLETION_SENDER = "(completion)"
VALUES_MAX = 100
"""The protocol allows as many in one answer."""
TYPED_CHARS_MAX = 1_000
"""No path or name is longer."""

Completes = Literal["", "files", "places", "symbols", "names", "projects"]
"""The completions of an argument. `places` are files and folders; `names` are symbols, or places once a slash is
typed."""


@dataclass(frozen=True, slots=True)
class TemplateArgument:
    """One argument of a prompt."""

    name: str
    description: str
    required: bool = False
    completes: Completes = ""


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """One prompt; `write` creates its text from an engine, the given arguments and a formatter of calls."""

    name: str
    title: str
    description: str
    arguments: tuple[TemplateArgument, ...]
    write: Callable[[Engine, Mapping[str, str], CallFormatter], str]


@dataclass(frozen=True, slots=True)
class CallFormatter:
    """The format of tool calls for a client: by name, or through `call_tool` for a tool that is not listed."""

    listed: frozenset[str]
    forbidden: Sequence[str] = ()
    project: str = ""

    def format(self, tool: str, **arguments: Any) -> str:
        """Return the call as an agent would write it; empty for a tool that is switched off."""
        if tool in self.forbidden:
            return ""
        given = arguments | ({"project": self.project} if self.project else {})
        if tool in self.listed or "call_tool" not in self.listed:
            return f"{tool} {json.dumps(given, ensure_ascii=False)}"
        return f"call_tool {json.dumps({'name': tool, 'arguments': given}, ensure_ascii=False)}"


def list_prompts(projects: Sequence[str]) -> list[types.Prompt]:
    """Return the prompts for `prompts/list`."""
    return [_listed_prompt(prompt, projects) for prompt in PROMPTS]


def _listed_prompt(prompt: PromptTemplate, projects: Sequence[str]) -> types.Prompt:
    arguments = [
        types.PromptArgument(name=argument.name, description=argument.description, required=argument.required)
        for argument in template_arguments(prompt, projects)
    ]
    return types.Prompt(name=prompt.name, title=prompt.title, description=prompt.description, arguments=arguments)


def find_prompt(name: str) -> PromptTemplate:
    """Return the prompt of a name. Raises: InvalidArgument, with the nearest name."""
    for prompt in PROMPTS:
        if prompt.name == name:
            return prompt
    names = [prompt.name for prompt in PROMPTS]
    raise InvalidArgument(
        f"no prompt is called {name!r}",
        suggestion=suggest_nearest(name, names).strip() or f"There are {', '.join(names)}.",
    )


def template_arguments(prompt: PromptTemplate, projects: Sequence[str]) -> tuple[TemplateArgument, ...]:
    """Return the arguments of a prompt, with `project` where there are several."""
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
    """Return the redacted text of a prompt. Raises: InvalidArgument, and why a workspace did not open."""
    prompt = find_prompt(name)
    given = _check_arguments(prompt, arguments, projects)
    project = given.pop("project", "")
    calls = CallFormatter(listed, tuple(dispatcher.forbidden), project)
    with collect_redactions():
        return dispatcher.redact(prompt.write(dispatcher.engine(project), given, calls), SENDER)


def _check_arguments(prompt: PromptTemplate, arguments: Mapping[str, str], projects: Sequence[str]) -> dict[str, str]:
    """Return the non-empty arguments. Raises: InvalidArgument for a missing, unknown or too long one."""
    known = {argument.name: argument for argument in template_arguments(prompt, projects)}
    given = {name: value.strip() for name, value in arguments.items() if value.strip()}
    for name, value in given.items():
        if name not in known:
            suggestion = suggest_nearest(name, known).strip() or f"It has {', '.join(known)}."
            raise _argument_error(prompt, f"has no argument {name!r}", suggestion)
        if len(value) > QUESTION_CHARS_MAX:
            problem = f"takes at most {QUESTION_CHARS_MAX:,} characters of {name}"
            raise _argument_error(prompt, problem, "Say the rest in the conversation.")
    for name, argument in known.items():
        if argument.required and name not in given:
            raise _argument_error(prompt, f"needs {name}", argument.description)
    return given


def _argument_error(prompt: PromptTemplate, what: str, suggestion: str) -> InvalidArgument:
    return InvalidArgument(f"the prompt {prompt.name} {what}", suggestion=suggestion)


# -- the prompts -------------------------------------------------------------------------------------------------


def _write_understand(engine: Engine, given: Mapping[str, str], calls: CallFormatter) -> str:
    area, question = given.get("area", ""), given.get("question", "")
    general = f"how does {area} work" if area else "what does this project do and how is it built"
    if area:
        inside = {"include": [f"{area}**" if area.endswith("/") else area]}
    else:
        inside = {}
    outlined = area if area and not area.endswith("/") else "path/of/a/file"
    aim = f"to answer: {question}" if question else "well enough to change it safely."
    return _join_paragraphs(
        f"Learn how {area or 'this code base'} works, {aim}\nState nothing that you have not read.",
        *_describe_overview(engine, calls),
        *_format_steps(
            "Go on in this order:",
            (calls.format("search_code", query=question or general, **inside), "the places worth reading"),
            (calls.format("symbols", path=outlined, relation="outline"), "a file's skeleton before its text"),
            (calls.format("symbols", name="Name", relation="callers"), "who uses what you found"),
            (_lines_of_a_file(calls), "the lines themselves"),
        ),
        "Then report what it is for, its main parts and how they work together, where a change would begin, and what "
        "you are not sure of. Give path:line for every statement.",
    )


def _write_find(engine: Engine, given: Mapping[str, str], calls: CallFormatter) -> str:
    return _join_paragraphs(
        f"Find in this repository: {given['what']}",
        *_describe_places(engine, given["what"], calls),
        *_format_steps(
            "Go on with:",
            (_lines_of_a_file(calls), "the lines themselves"),
            (calls.format("search_code", query="other words for it"), "other places"),
            (calls.format("symbols", name="Name", relation="callers"), "who uses a name"),
        ),
        "Give path:line for each place and a sentence on what is there. If it does not exist, say so and what "
        "you tried.",
    )


def _write_change(engine: Engine, given: Mapping[str, str], calls: CallFormatter) -> str:
    task, target = given["task"], given.get("target", "")
    traced = {"path": target} if "/" in target else {"name": target or "Name"}
    return _join_paragraphs(
        f"Make this change: {task}",
        *_describe_places(engine, target or task, calls),
        *_format_steps(
            "Read those places. Then, before you edit:",
            (calls.format("search_code", query=task[:QUERY_CHARS]), "more of them"),
            (calls.format("symbols", **traced, relation="impact", depth=2), "what depends on what you touch"),
            (calls.format("search_code", query=f"test {target or task}"[:QUERY_CHARS]), "the tests to extend"),
        ),
        "Make the smallest change that does it, in the style of the code around it, with a test that fails without it. "
        "Edits are searchable at once. Run the tests, then report what changed, path:line, and what could break.",
    )


def _write_begin(engine: Engine, given: Mapping[str, str], calls: CallFormatter) -> str:
    task = given.get("task", "")
    subject = f" on this: {task}" if task else ""
    context_call = calls.format("get_context", query=task[:QUERY_CHARS]) if task else ""
    search_call = calls.format("search_memory", query=task[:QUERY_CHARS] or "what the task is about")
    memory_call = calls.format("add_memory", category="decisions", content="what was decided, and why")
    return _join_paragraphs(
        f"Before work begins{subject}, here is what holds in this project. Keep to it; where the task asks for "
        "something else, say so and ask.",
        render_rules_page(engine, chars_max=RULES_CHARS),
        *([_describe_missing_index(engine, calls)] if engine.status().state != "ready" else []),
        *_format_steps(
            "Then:",
            (context_call, "what to read first"),
            (search_call, "known issues and patterns"),
            (memory_call, "what the team should remember"),
        ),
    )


def _format_steps(above: str, *steps: tuple[str, str]) -> Iterator[str]:
    """Yield a paragraph with a line for each call that can be made, and its purpose."""
    lines = [f"- {call} for {purpose}" for call, purpose in steps if call]
    if lines:
        yield "\n".join([above, *lines])


def _join_paragraphs(*paragraphs: str) -> str:
    return "\n\n".join(paragraphs)


def _lines_of_a_file(calls: CallFormatter) -> str:
    return calls.format("read", items=["path/of/a/file:1-60"])


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
        (TemplateArgument("what", "A behavior in plain words, or a symbol.", required=True, completes="symbols"),),
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
"""All prompts, in the order in which clients list them."""


# -- what the index knows -----------------------------------------------------------------------------------------


def _describe_overview(engine: Engine, calls: CallFormatter) -> Iterator[str]:
    """Yield size, languages, folders, entry points and central files, one line each."""
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
    lines = [f"- {name}: {fact}" for name, fact in facts.items() if fact]
    yield "\n".join([f"What the index knows ({known.freshness}):", *lines])


def _describe_places(engine: Engine, what: str, calls: CallFormatter) -> Iterator[str]:
    """Yield where a symbol is defined; for any other text, and for an unknown symbol, what a search finds."""
    try:
        is_name = len(what.split()) == 1 and "/" not in what
        found = engine.symbols.find(what, limit=PLACES_MAX) if is_name else None
        if found and found.definitions:
            rows = [
                (symbol.path, symbol.span.first, symbol.span.last, symbol.qualified) for symbol in found.definitions
            ]
            yield "\n".join([f"Defined here, says the index ({found.freshness}):", *_format_places(rows)])
            return
        answer = engine.search.find(Query(what, limit=PLACES_MAX, chunks_per_file=1))
    except NotIndexed:
        yield _describe_missing_index(engine, calls)
        return
    rows = [(hit.chunk.path, hit.chunk.span.first, hit.chunk.span.last, hit.chunk.title) for hit in answer.hits]
    if not rows:
        yield f"The index has no place for it: {answer.reason}."
        return
    yield "\n".join([f"Start here, says the index ({answer.freshness}), best first:", *_format_places(rows)])


def _format_places(rows: Iterable[tuple[str, int, int, str]]) -> list[str]:
    titled = ((path, first, last, "" if title == path else title) for path, first, last, title in rows)
    return [f"- {path}:{first}-{last} {title}".rstrip() for path, first, last, title in titled]


def _format_counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts)


def _describe_missing_index(engine: Engine, calls: CallFormatter) -> str:
    if engine.status().state == "building":
        return "The index is still being built, so nothing can be said beforehand; the tools answer as it grows."
    return f"There is no index yet, so nothing can be said beforehand: call {calls.format('index_workspace')} first."


# -- completions -------------------------------------------------------------------------------------------------------


def complete_argument(
    dispatcher: ToolDispatcher, params: types.CompleteRequestParams, projects: Sequence[str]
) -> types.Completion:
    """Return at most 100 completions of an argument, and their total number. Raises: InvalidArgument."""
    given = (params.context.arguments if params.context else None) or {}
    typed = params.argument.value[:TYPED_CHARS_MAX]
    match _completion_kind(params, projects):
        case "":
            values: Sequence[str] = ()
            total = 0
        case "projects":
            values = [name for name in projects if name.lower().startswith(typed.lower())]
            total = len(values)
        case kind:
            values, total = _find_names(dispatcher.engine(given.get("project", "")), kind, typed)
    return types.Completion(
        values=[dispatcher.redact(value, COMPLETION_SENDER) for value in values],
        total=total,
        has_more=total > len(values),
    )


def _find_names(engine: Engine, kind: Completes, typed: str) -> tuple[Sequence[str], int]:
    """Return names of a kind from the index, and their total number."""
    if kind == "names":
        kind = "places" if "/" in typed else "symbols"
    if kind == "symbols":
        return engine.search.complete_symbol(typed, limit=VALUES_MAX)
    return engine.search.complete_path(typed, limit=VALUES_MAX, folders=kind == "places")


def _completion_kind(params: types.CompleteRequestParams, projects: Sequence[str]) -> Completes:
    """Return the kind of completion of an argument.

    Raises: InvalidArgument for an unknown prompt, template or argument.
    """
    kinds = _completion_kinds(params.ref, projects)
    name = params.argument.name
    if name not in kinds:
        raise InvalidArgument(
            f"there is no argument {name!r}",
            suggestion=suggest_nearest(name, kinds).strip() or f"There is {', '.join(kinds)}.",
        )
    return kinds[name]


def _completion_kinds(
    ref: types.PromptReference | types.ResourceTemplateReference, projects: Sequence[str]
) -> Mapping[str, Completes]:
    """Return argument -> completions of a prompt, or of the template of files."""
    if isinstance(ref, types.PromptReference):
        arguments = template_arguments(find_prompt(ref.name), projects)
        return {argument.name: argument.completes for argument in arguments}
    known = resources.file_template(projects).uri_template
    if ref.uri != known:
        raise InvalidArgument(f"there is no resource template {ref.uri}", suggestion=f"There is {known}.")
    if len(projects) < 2:
        return {"path": "files"}
    return {"path": "files", "project": "projects"}
