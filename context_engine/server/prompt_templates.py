"""Prompts that a user picks in the client, and completions while the user types.

A prompt sends the agent to the right tools with what the index knows already, in under 600 tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

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
SENDER, COMPLETION_SENDER = "(prompt)", "(completion)"
"""The names under which the metrics count masked secrets."""
VALUES_MAX = 100
"""The protocol allows as many in one answer."""
TYPED_CHARS_MAX = 1_000
"""No path or name is longer."""

FormatCall = Callable[..., str]
"""`format_call("read", items=[...])` returns the call as an agent would write it; empty for a tool that is off."""


class PromptTemplate(NamedTuple):
    """One prompt; `write` yields the paragraphs of its text."""

    title: str
    description: str
    arguments: tuple[types.PromptArgument, ...]
    write: Callable[[Engine, Mapping[str, str], FormatCall], Iterator[str]]


def list_prompts(projects: Sequence[str]) -> list[types.Prompt]:
    """Return the prompts for `prompts/list`."""
    return [
        types.Prompt(
            name=name,
            title=prompt.title,
            description=prompt.description,
            arguments=list(_arguments_of(name, projects).values()),
        )
        for name, prompt in PROMPTS.items()
    ]


def find_prompt(name: str) -> PromptTemplate:
    """Return the prompt of a name. Raises: InvalidArgument, with the nearest name."""
    if name not in PROMPTS:
        suggestion = suggest_nearest(name, PROMPTS).strip() or f"There are {', '.join(PROMPTS)}."
        raise InvalidArgument(f"no prompt is called {name!r}", suggestion=suggestion)
    return PROMPTS[name]


def render_prompt(
    dispatcher: ToolDispatcher,
    name: str,
    arguments: Mapping[str, str],
    *,
    listed: frozenset[str],
    projects: Sequence[str],
) -> str:
    """Return the redacted text of a prompt. Raises: InvalidArgument, and why a workspace did not open."""
    given = _check_arguments(name, arguments, projects)
    project = given.pop("project", "")
    format_call = partial(_format_call, listed, frozenset(dispatcher.forbidden), project)
    with collect_redactions():
        text = "\n\n".join(find_prompt(name).write(dispatcher.engine(project), given, format_call))
        return dispatcher.redact(text, SENDER)


def _arguments_of(name: str, projects: Sequence[str]) -> dict[str, types.PromptArgument]:
    """Return the arguments of a prompt by name, with `project` where there are several. Raises: InvalidArgument."""
    arguments = list(find_prompt(name).arguments)
    if len(projects) > 1:
        description = f"One of {', '.join(projects)}."
        arguments.append(types.PromptArgument(name="project", description=description, required=True))
    return {argument.name: argument for argument in arguments}


def _check_arguments(prompt: str, arguments: Mapping[str, str], projects: Sequence[str]) -> dict[str, str]:
    """Return the non-empty arguments. Raises: InvalidArgument for a missing, unknown or too long one."""
    known = _arguments_of(prompt, projects)
    given = {name: value.strip() for name, value in arguments.items() if value.strip()}
    for name, value in given.items():
        if name not in known:
            nearest = suggest_nearest(name, known).strip() or f"It has {', '.join(known)}."
            raise InvalidArgument(f"the prompt {prompt} has no argument {name!r}", suggestion=nearest)
        if len(value) > QUESTION_CHARS_MAX:
            raise InvalidArgument(
                f"the prompt {prompt} takes at most {QUESTION_CHARS_MAX:,} characters of {name}",
                suggestion="Say the rest in the conversation.",
            )
    for name, argument in known.items():
        if argument.required and name not in given:
            raise InvalidArgument(f"the prompt {prompt} needs {name}", suggestion=argument.description or "")
    return given


def _format_call(listed: frozenset[str], off: frozenset[str], project: str, tool: str, **arguments: Any) -> str:
    """Return a call by the name of its tool, or through `call_tool` where the client does not list it."""
    if tool in off:
        return ""
    given = arguments | ({"project": project} if project else {})
    if tool not in listed and "call_tool" in listed:
        tool, given = "call_tool", {"name": tool, "arguments": given}
    return f"{tool} {json.dumps(given, ensure_ascii=False)}"


# -- the prompts -------------------------------------------------------------------------------------------------


def _write_begin(engine: Engine, given: Mapping[str, str], call: FormatCall) -> Iterator[str]:
    task = given.get("task", "")
    subject = f" on this: {task}" if task else ""
    yield (
        f"Before work begins{subject}, here is what holds in this project. Keep to it; where the task asks for "
        "something else, say so and ask."
    )
    yield render_rules_page(engine, chars_max=RULES_CHARS)
    if engine.status().state != "ready":
        yield _describe_missing_index(engine, call)
    yield from _list_steps(
        "Then:",
        (call("get_context", query=task[:QUERY_CHARS]) if task else "", "what to read first"),
        (call("search_memory", query=task[:QUERY_CHARS] or "what the task is about"), "known issues and patterns"),
        (
            call("add_memory", category="decisions", content="what was decided, and why"),
            "what the team should remember",
        ),
    )


def _write_understand(engine: Engine, given: Mapping[str, str], call: FormatCall) -> Iterator[str]:
    area, question = given.get("area", ""), given.get("question", "")
    aim = f"to answer: {question}" if question else "well enough to change it safely."
    yield f"Learn how {area or 'this code base'} works, {aim}\nState nothing that you have not read."
    if engine.status().state != "ready":
        yield _describe_missing_index(engine, call)
    is_folder = area.endswith("/")
    inside = {"include": [f"{area}**" if is_folder else area]} if area else {}
    general = f"how does {area} work" if area else "what does this project do and how is it built"
    outlined = "path/of/a/file" if is_folder or not area else area
    yield from _list_steps(
        "Go on in this order:",
        (call("search_code", query=question or general, **inside), "the places worth reading"),
        (call("symbols", path=outlined, relation="outline"), "a file's skeleton before its text"),
        (call("symbols", name="Name", relation="callers"), "who uses what you found"),
        (call("read", items=["path/of/a/file:1-60"]), "the lines themselves"),
    )
    yield (
        "Then report what it is for, its main parts and how they work together, where a change would begin, and what "
        "you are not sure of. Give path:line for every statement."
    )


def _write_find(engine: Engine, given: Mapping[str, str], call: FormatCall) -> Iterator[str]:
    yield f"Find in this repository: {given['what']}"
    yield _describe_places(engine, given["what"], call)
    yield from _list_steps(
        "Go on with:",
        (call("read", items=["path/of/a/file:1-60"]), "the lines themselves"),
        (call("search_code", query="other words for it"), "other places"),
        (call("symbols", name="Name", relation="callers"), "who uses a name"),
    )
    yield (
        "Give path:line for each place and a sentence on what is there. If it does not exist, say so and what "
        "you tried."
    )


def _write_change(engine: Engine, given: Mapping[str, str], call: FormatCall) -> Iterator[str]:
    task, target = given["task"], given.get("target", "")
    traced = {"path": target} if "/" in target else {"name": target or "Name"}
    yield f"Make this change: {task}"
    yield _describe_places(engine, target or task, call)
    yield from _list_steps(
        "Read those places. Then, before you edit:",
        (call("search_code", query=task[:QUERY_CHARS]), "more of them"),
        (call("symbols", **traced, relation="impact", depth=2), "what depends on what you touch"),
        (call("search_code", query=f"test {target or task}"[:QUERY_CHARS]), "the tests to extend"),
    )
    yield (
        "Make the smallest change that does it, in the style of the code around it, with a test that fails without it. "
        "Edits are searchable at once. Run the tests, then report what changed, path:line, and what could break."
    )


def _list_steps(above: str, *steps: tuple[str, str]) -> Iterator[str]:
    """Yield a paragraph with a line for each call that can be made, and its purpose."""
    lines = [f"- {call} for {purpose}" for call, purpose in steps if call]
    if lines:
        yield "\n".join([above, *lines])


def _argument(name: str, description: str, *, required: bool = False) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=description, required=required)


PROMPTS: Mapping[str, PromptTemplate] = {
    "begin": PromptTemplate(
        "Begin with what the team knows",
        "Start a task with the rules and decisions of this project before the agent's eyes.",
        (_argument("task", "What is to be done; empty: the rules alone."),),
        _write_begin,
    ),
    "understand": PromptTemplate(
        "Understand this code",
        "Learn how this code base, or a part of it, works: sends the agent from the landmarks to the lines.",
        (
            _argument("area", "A file or folder to look at; empty: everything."),
            _argument("question", "What you want to know; empty: a tour."),
        ),
        _write_understand,
    ),
    "find": PromptTemplate(
        "Find something in the code",
        "Find where something is: starts at the best places the index knows.",
        (_argument("what", "A behavior in plain words, or a symbol.", required=True),),
        _write_find,
    ),
    "change": PromptTemplate(
        "Change the code safely",
        "Make a change: the places it concerns, what depends on them, and the tests, before the first edit.",
        (
            _argument("task", "What is to be different afterwards.", required=True),
            _argument("target", "The symbol or file it is about, if you know it."),
        ),
        _write_change,
    ),
}
"""All prompts by name, in the order in which clients list them."""


# -- what the index knows -----------------------------------------------------------------------------------------


def _describe_places(engine: Engine, what: str, call: FormatCall) -> str:
    """Return where a symbol is defined; for any other text, and for an unknown symbol, what a search finds."""
    try:
        is_name = len(what.split()) == 1 and "/" not in what
        found = engine.symbols.find(what, limit=PLACES_MAX) if is_name else None
        if found and found.definitions:
            places = [f"- {symbol.path}:{symbol.span} {symbol.qualified}" for symbol in found.definitions]
            return "\n".join([f"Defined here, says the index ({found.freshness}):", *places])
        answer = engine.search.find(Query(what, limit=PLACES_MAX, chunks_per_file=1))
    except NotIndexed:
        return _describe_missing_index(engine, call)
    if not answer.hits:
        return f"The index has no place for it: {answer.reason}."
    chunks = [hit.chunk for hit in answer.hits]
    titled = [f"- {chunk.path}:{chunk.span} {chunk.title}".removesuffix(f" {chunk.path}") for chunk in chunks]
    return "\n".join([f"Start here, says the index ({answer.freshness}), best first:", *titled])


def _describe_missing_index(engine: Engine, call: FormatCall) -> str:
    if engine.status().state == "building":
        return "The index is still being built, so nothing can be said beforehand; the tools answer as it grows."
    return f"There is no index yet, so nothing can be said beforehand: call {call('index_workspace')} first."


# -- completions -------------------------------------------------------------------------------------------------------

COMPLETED = {("understand", "area"): "places", ("find", "what"): "symbols", ("change", "target"): "names"}
"""Prompt and argument -> what it is completed by: `places` are files and folders; `names` are symbols, or places once a
slash is typed."""


def complete_argument(
    dispatcher: ToolDispatcher, params: types.CompleteRequestParams, projects: Sequence[str]
) -> types.Completion:
    """Return at most 100 completions of an argument, and their total number. Raises: InvalidArgument."""
    given = (params.context.arguments if params.context else None) or {}
    typed = params.argument.value[:TYPED_CHARS_MAX]
    kind = _completion_kind(params.ref, params.argument.name, projects)
    if kind == "names":
        kind = "places" if "/" in typed else "symbols"
    values: Sequence[str] = ()
    if kind == "projects":
        values = [name for name in projects if name.lower().startswith(typed.lower())]
    total = len(values)
    if kind in ("files", "places", "symbols"):
        search = dispatcher.engine(given.get("project", "")).search
        if kind == "symbols":
            values, total = search.complete_symbol(typed, limit=VALUES_MAX)
        else:
            values, total = search.complete_path(typed, limit=VALUES_MAX, folders=kind == "places")
    shown = [dispatcher.redact(value, COMPLETION_SENDER) for value in values]
    return types.Completion(values=shown, total=total, has_more=total > len(shown))


def _completion_kind(
    ref: types.PromptReference | types.ResourceTemplateReference, argument: str, projects: Sequence[str]
) -> str:
    """Return the kind of completion of an argument; empty without one. Raises: InvalidArgument for an unknown one."""
    if isinstance(ref, types.PromptReference):
        kinds = {name: COMPLETED.get((ref.name, name), "") for name in _arguments_of(ref.name, projects)}
    elif ref.uri != (known := resources.file_template(projects).uri_template):
        raise InvalidArgument(f"there is no resource template {ref.uri}", suggestion=f"There is {known}.")
    else:
        kinds = {"path": "files"}
    if len(projects) > 1:
        kinds["project"] = "projects"
    if argument not in kinds:
        nearest = suggest_nearest(argument, kinds).strip() or f"There is {', '.join(kinds)}."
        raise InvalidArgument(f"there is no argument {argument!r}", suggestion=nearest)
    return kinds[argument]
