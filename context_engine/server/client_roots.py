"""Ask a client for its folders: by `roots/list` before protocol version 2026-07-28, by `input_required` since.

A client that named a folder at the start is never asked. One that says nothing is not held against it: the project
around the server's own folder is taken, or a later error says what to set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from context_engine.errors import InvalidArgument
from context_engine.repo.workspace_roots import uri_to_path
from context_engine.server.projects import Projects

FIRST_MODERN_VERSION = "2026-07-28"
KEY = "roots"
"""The key of the answer of a client since protocol version 2026-07-28."""
PATIENCE_S = 3.0
"""A client that declares roots and does not answer within this time has none."""
TURN = "x-codex-turn-metadata"
"""One client sends its folders with every call instead, under this key of `_meta`."""


async def settle_projects(
    context: ServerRequestContext[Any], answers: Mapping[str, Any] | None, projects: Projects | None
) -> types.InputRequiredResult | None:
    """Settle the projects, or give what the client must answer first. `answers` are the request's input responses."""
    if projects is None or projects.is_settled:
        return None
    capabilities = context.session.client_capabilities
    roots: list[str] = []
    if capabilities is not None and capabilities.roots is not None:
        if context.protocol_version < FIRST_MODERN_VERSION:
            roots = await _request_roots(context)
        elif answers is None or KEY not in answers:
            return types.InputRequiredResult(input_requests={KEY: types.ListRootsRequest()})
        else:
            roots = _root_paths(answers[KEY])
    await anyio.to_thread.run_sync(lambda: projects.settle(roots=roots, workspaces=workspaces_in_meta(context.meta)))
    return None


async def forget_roots(projects: Projects, context: ServerRequestContext[Any], params: Any) -> None:  # noqa: ARG001 - a handler
    """The client's folders changed: its next call is asked for them again."""
    projects.unsettle()


async def _request_roots(context: ServerRequestContext[Any]) -> list[str]:
    """Request the roots of a client before protocol version 2026-07-28; none when it does not answer."""
    riding = ServerMessageMetadata(related_request_id=context.request_id)  # on the stream of the call, which is open
    with anyio.move_on_after(PATIENCE_S):
        try:
            request = types.ListRootsRequest()
            return _root_paths(await context.session.send_request(request, types.ListRootsResult, metadata=riding))
        except MCPError:
            pass  # it declared what it cannot do
    return []


def _root_paths(answer: Any) -> list[str]:
    """Return roots as paths, without those that are not folders of this machine."""
    return list(_uri_paths(str(root.uri) for root in getattr(answer, "roots", None) or ()))


def _uri_paths(uris: Iterable[str]) -> Iterable[str]:
    for uri in uris:
        try:
            yield uri_to_path(uri, windows=os.name == "nt")
        except InvalidArgument:
            continue


def workspaces_in_meta(meta: Mapping[str, Any] | None) -> list[str]:
    """The folders that a call's `_meta` mentions, in either spelling: a mapping by path, or a list.

    >>> workspaces_in_meta({"x-codex-turn-metadata": {"workspaces": {"/work/web": {"latest_git_commit_hash": "1a"}}}})
    ['/work/web']
    >>> workspaces_in_meta({"x-codex-turn-metadata": '{"workspaces": ["/a"]}'}), workspaces_in_meta(None)
    (['/a'], [])
    """
    turn = (meta or {}).get(TURN)
    if isinstance(turn, str):
        try:
            turn = json.loads(turn)
        except ValueError:
            return []
    found = turn.get("workspaces") if isinstance(turn, Mapping) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, Mapping | list) else []
