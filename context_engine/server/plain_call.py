"""PURE. A call of a tool that needs nothing of the protocol library: its parameters, and the abilities of its client.

`bootstrap.BootstrapResponder.read_call` decides which calls are plain; `direct_calls` answers them. Only what every
interpreter has loaded already is imported, because the first reply waits for it.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any

CLIENT_CHARS_MAX = 60
APPS = "io.modelcontextprotocol/ui"
APP_TYPE = "text/html;profile=mcp-app"
"""The extension for views, and the media type of a view (SEP-1865)."""
TURN_KEY = "x-codex-turn-metadata"
"""One client sends its folders with every call, under this key of `_meta`."""

_PlainCallFields = namedtuple(  # noqa: PYI024 - see above
    "_PlainCallFields", "message capabilities version envelope client", defaults=[""]
)


class PlainCall(_PlainCallFields):
    """A request `tools/call`, the capabilities of its client with its name, and the version of the protocol.

    `envelope` has the fields that each result of a version since 2026-07-28 has besides its own.

    >>> params = {"name": "read", "arguments": {"path": "a.py"}, "_meta": {"progressToken": 3}}
    >>> call = PlainCall({"id": 7, "params": params}, {"elicitation": {}}, "2025-06-18", {})
    >>> call.id, call.name, call.arguments, call.progress_token, call.shows_forms, call.has_roots
    (7, 'read', {'path': 'a.py'}, 3, True, False)
    """

    __slots__ = ()

    @property
    def id(self) -> Any:
        """The id of the request."""
        return self.message["id"]

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.message["params"]["name"]

    @property
    def arguments(self) -> Any:
        """The arguments of the tool; None without any."""
        return self.message["params"].get("arguments")

    @property
    def meta(self) -> Mapping[str, Any]:
        """The remarks of the client about the call."""
        return self.message["params"].get("_meta", {})

    @property
    def progress_token(self) -> str | int | None:
        """The token of the progress reports that the client wants."""
        return self.meta.get("progressToken")

    @property
    def is_modern(self) -> bool:
        """Whether the client sends its capabilities with each request."""
        return bool(self.envelope)

    @property
    def shows_forms(self) -> bool:
        """Whether the client shows forms; one that declares no mode does, because older clients had no other."""
        can = self.capabilities.get("elicitation")
        return can is not None and ("form" in can or "url" not in can)

    @property
    def has_roots(self) -> bool:
        """Whether the client can be asked for its folders."""
        return self.capabilities.get("roots") is not None


def shows_apps(capabilities: Mapping[str, Any]) -> bool:
    """Return whether a client shows views of tools (MCP Apps), by its capabilities as on the wire.

    >>> shows_apps({"extensions": {APPS: {"mimeTypes": [APP_TYPE]}}}), shows_apps({"extensions": {APPS: {}}})
    (True, False)
    """
    settings = (capabilities.get("extensions") or {}).get(APPS) or {}
    types = settings.get("mimeTypes")
    return isinstance(types, list) and APP_TYPE in types


def read_client_name(info: Any) -> str:
    """Return the name that a client gives itself in its `clientInfo`; empty without one.

    >>> read_client_name({"name": "some-agent", "version": "1"}), read_client_name(None)
    ('some-agent', '')
    """
    name = info.get("name") if isinstance(info, dict) else ""
    return str(name or "")[:CLIENT_CHARS_MAX]


def workspaces_in_meta(meta: Mapping[str, Any] | None) -> list[str]:
    """Return the folders in the `_meta` of a call, in either form: a mapping by path, or a list.

    >>> workspaces_in_meta({"x-codex-turn-metadata": {"workspaces": {"/work/web": {"latest_git_commit_hash": "1a"}}}})
    ['/work/web']
    >>> workspaces_in_meta({"x-codex-turn-metadata": '{"workspaces": ["/a"]}'}), workspaces_in_meta(None)
    (['/a'], [])
    """
    turn = (meta or {}).get(TURN_KEY)
    if isinstance(turn, str):
        turn = _parse_object(turn)
    if isinstance(turn, Mapping):
        found = turn.get("workspaces")
    else:
        found = None
    if not isinstance(found, Mapping | list):
        return []
    return [path for path in found if isinstance(path, str)]


def _parse_object(text: str) -> Any:
    import json  # one client sends a text

    try:
        return json.loads(text)
    except ValueError:
        return None
