"""Completions while a person types: paths and symbols of the index, and the names of the open projects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import mcp_types as types

from context_engine.errors import InvalidArgument
from context_engine.server import prompt_templates, resources
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.server.prompt_templates import Completes
from context_engine.tools.arguments import suggest_nearest

if TYPE_CHECKING:
    from context_engine.engine import Engine

VALUES_MAX = 100
"""As many as the protocol allows in one answer."""
SENDER = "(completion)"
TYPED_CHARS_MAX = 1_000
"""No path or name is longer."""


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
        values=[dispatcher.redact(value, SENDER) for value in values], total=total, has_more=total > len(values)
    )


def _find_names(engine: Engine, kind: Completes, typed: str) -> tuple[Sequence[str], int]:
    """The names of a kind that the index knows."""
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
    """The arguments of a prompt, or of the template of files."""
    if isinstance(ref, types.PromptReference):
        return {
            each.name: each.completes
            for each in prompt_templates.template_arguments(prompt_templates.find_prompt(ref.name), projects)
        }
    known = resources.file_template(projects).uri_template
    if ref.uri != known:
        raise InvalidArgument(f"there is no resource template {ref.uri}", suggestion=f"There is {known}.")
    return {"path": "files"} if len(projects) < 2 else {"path": "files", "project": "projects"}
