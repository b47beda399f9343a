"""PURE. Replies before the protocol library is loaded, and a queue of the messages that wait for it.

    bootstrap = BootstrapResponder(catalogue, selection, private="4f1c")
    bootstrap.respond(initialize)    # a reply: it is in the catalogue
    bootstrap.respond(tools_call)    # None: it waits
    bootstrap.take_calls()           # the waiting calls that need nothing of the library
    bootstrap.hand_over()            # the messages for the library, which is loaded by now
    bootstrap.is_repeat(reply_id)    # whether a reply of the library repeats one that was sent from here

A request is answered only where the library would give exactly the same reply; all others wait. The opening of a
connection is replayed to the library under a private id, because the library needs its state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from context_engine.server.instructions import format_instructions
from context_engine.server.plain_call import PlainCall, read_client_name, shows_apps
from context_engine.server.profiles import list_tools

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any

    from context_engine.server.profiles import ToolSelection

META = "io.modelcontextprotocol/"
PROTOCOL_VERSION = f"{META}protocolVersion"

# The shapes of values that are answered here. A key with ? may be missing. The key ... means every other key; without
# it others may have any value. A tuple lists the possible words or types, and [x] is a list of x.
ICON = {"src": str, "mimeType?": str, "sizes?": [str], "theme?": ("light", "dark")}
WHO = {"name": str, "version": str, "title?": str, "description?": str, "websiteUrl?": str, "icons?": [ICON]}
ABILITIES = {
    "roots?": {"listChanged?": bool},
    "sampling?": {"context?": dict, "tools?": dict},
    "elicitation?": {"form?": dict, "url?": dict},
    "experimental?": {...: dict},
    "extensions?": {...: dict},
    "tasks?": {
        "list?": dict,
        "cancel?": dict,
        "requests?": {"elicitation?": {"create?": dict}, "sampling?": {"createMessage?": dict}},
    },
}
META_OF_LEGACY = {"progressToken?": (str, int)}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
META_OF_MODERN = {
    PROTOCOL_VERSION: str,
    f"{META}clientCapabilities": ABILITIES,
    f"{META}clientInfo?": WHO,
    f"{META}logLevel?": LEVELS,
    **META_OF_LEGACY,
}
OPENING = {"protocolVersion": str, "capabilities": ABILITIES, "clientInfo": WHO, "_meta?": META_OF_LEGACY}
CALL_TOOL = "call_tool"
"""The tool that calls another one."""
SCHEMAS = ("inputSchema", "outputSchema")
OF_ONE_PROJECT = ("prompts/list", "resources/list", "resources/templates/list")
"""Methods whose replies name the projects if there are several; then the library answers."""
WITH_VIEWS = ("tools/list", "resources/list")
"""Methods whose replies name views to clients that show them; then the library answers."""
CALLING = {"name": str, "arguments?": dict}
"""The parameters of a call that the library is not needed for, besides `_meta`; with any other one it is."""
INITIALIZED = "notifications/initialized"
WAITING_MAX = 16
"""Messages that the library might need one day; a client that sends more of them gets it."""
ASKING = {"legacy": {"_meta?": META_OF_LEGACY}, "modern": {"_meta": META_OF_MODERN}}


class BootstrapResponder:
    """One connection, until `hand_over`. Not thread-safe."""

    def __init__(self, catalogue: Mapping[str, Any], selection: ToolSelection, *, private: str) -> None:
        """`catalogue` comes from `read_catalogue`. `private` is the secret prefix of the ids of replays."""
        self._catalogue = catalogue
        self._selection = selection
        self._private = private
        self._protocol = ""
        self._is_initialized = False
        self._capabilities: dict[str, Any] = {}
        self._client = ""
        self._version = ""
        self._waiting: list[dict[str, Any]] = []
        self._replays = 0

    def respond(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the reply where it is certain; keep the messages that the library must receive."""
        if "method" not in message or "id" not in message:
            if not self.withdraw(message):
                self._waiting.append(message)
            return None
        opens = not self._protocol
        self._protocol = self._protocol or _opened_protocol(message)
        result = self._result(message["method"], message.get("params") or {})
        if result is None:
            self._waiting.append(message)
            return None
        if opens or message["method"] == "initialize":
            self._waiting.append(self.replay_of(message))
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    @property
    def waiting(self) -> int:
        """The number of kept messages."""
        return len(self._waiting)

    def read_call(self, message: dict[str, Any]) -> PlainCall | None:
        """Return a call of a tool that needs nothing of the library; None for every other message."""
        params = message.get("params") or {}
        if message.get("method") != "tools/call" or "id" not in message or not _has_only(params, CALLING):
            return None
        opens = not self._protocol
        protocol = self._protocol = self._protocol or _opened_protocol(message)
        if not self._has_plain_result("tools/call", params):
            return None
        if protocol == "legacy":
            return PlainCall(message, self._capabilities, self._version, {}, self._client)
        meta = params["_meta"]
        if opens:  # the library learns from another request how this client speaks
            self._waiting.append(self.replay_of({**message, "method": "server/discover", "params": {"_meta": meta}}))
        listed = self._catalogue["modern"]["results"]["tools/list"]
        envelope = {key: listed[key] for key in ("resultType", "_meta")}
        client = read_client_name(meta.get(f"{META}clientInfo"))
        return PlainCall(message, meta[f"{META}clientCapabilities"], meta[PROTOCOL_VERSION], envelope, client)

    def take_calls(self) -> list[PlainCall]:
        """Return the waiting calls that need nothing of the library, and keep the other messages."""
        messages, self._waiting = self._waiting, []
        calls = []
        for message in messages:
            call = self.read_call(message)
            if call is None:
                self._waiting.append(message)
            else:
                calls.append(call)
        return calls

    @property
    def needs_library(self) -> bool:
        """Whether a message waits that only the library can answer; the opening waits for nothing."""
        return len(self._waiting) > WAITING_MAX or any(
            message.get("method") != INITIALIZED and not self.is_repeat(message.get("id")) for message in self._waiting
        )

    def hand_over(self) -> list[dict[str, Any]]:
        """Return the messages for the library in order. From now on the library receives all messages itself."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def keep(self, message: dict[str, Any]) -> None:
        """Keep a message for the library."""
        self._waiting.append(message)

    def take_back(self, messages: Sequence[dict[str, Any]]) -> None:
        """Keep messages that were handed over to a daemon, which has gone, before those that came since."""
        self._waiting = [*messages, *self._waiting]

    def replay_of(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message of the opening under a private id: the library needs its state, not the client its reply."""
        self._replays += 1
        return {**message, "id": f"{self._private}-{self._replays}"}

    def may_write(self, message: Mapping[str, Any]) -> bool:
        """Return whether a request may change anything, by the hints of its tool."""
        if message["method"] != "tools/call":
            return False
        params = message.get("params") or {}
        name = params.get("name")
        if name == CALL_TOOL:
            arguments = params.get("arguments")
            if isinstance(arguments, dict):
                name = arguments.get("name")
            else:
                name = None
            if not isinstance(name, str):
                return True
        for row in self._catalogue["tools"]:
            if name == row["tool"]["name"] or name in row["aliases"]:
                return not row["tool"]["annotations"]["readOnlyHint"]
        return False  # there is no such tool

    def is_repeat(self, reply_id: Any) -> bool:
        """Return whether the client has this reply of the library already."""
        return isinstance(reply_id, str) and reply_id.startswith(f"{self._private}-")

    def _result(self, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request, or None where the library must give it."""
        if method == "initialize":
            return self._initialize_result(params)
        template = self._catalogue[self._protocol]["results"].get(method)
        if template is None or not self._has_plain_result(method, params):
            return None
        if method == "tools/list":
            return {**template, "tools": list(self._listed_tools())}
        return {**template, **({"instructions": self._instructions()} if "instructions" in template else {})}

    def _initialize_result(self, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the reply to `initialize`: the requested protocol version, else the newest one with a handshake."""
        era = self._catalogue["legacy"]
        if self._protocol != "legacy" or not matches_shape(params, OPENING):
            return None
        self._is_initialized = True
        self._capabilities = params["capabilities"]
        self._client = read_client_name(params["clientInfo"])
        requested = params["protocolVersion"]
        if requested in era["versions"]:
            version = requested
        else:
            version = era["versions"][-1]
        self._version = version
        template = era["results"]["initialize"]
        return {**template, "protocolVersion": version, "instructions": self._instructions()}

    def _instructions(self) -> str:
        return format_instructions([tool["name"] for tool in list_tools(self._catalogue["tools"], self._selection)])

    def _has_plain_result(self, method: str, params: Mapping[str, Any]) -> bool:
        """Return whether the library would answer these parameters on this connection with the plain result."""
        if not matches_shape(params, ASKING[self._protocol]) or params.get("cursor") is not None:
            return False
        if method in OF_ONE_PROJECT and len(self._selection.projects) > 1:
            return False
        if method in WITH_VIEWS and shows_apps(self._capabilities_of(params)):
            return False
        if self._protocol == "modern":
            return params["_meta"][PROTOCOL_VERSION] in self._catalogue["modern"]["versions"]
        return (self._is_initialized or method == "ping") and not _has_envelope(params)

    def _capabilities_of(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._protocol == "modern":
            return params["_meta"][f"{META}clientCapabilities"]
        return self._capabilities

    def _listed_tools(self) -> Iterator[dict[str, Any]]:
        """Yield the listed tools; their schemas have the key order of the protocol version."""
        order = self._catalogue[self._protocol]["schema_order"]
        for tool in list_tools(self._catalogue["tools"], self._selection):
            yield {**tool, **{key: order_keys(tool[key], order) for key in SCHEMAS if key in tool}}

    def withdraw(self, message: Mapping[str, Any]) -> bool:
        """Drop a waiting request that this message cancels, and return whether there was one."""
        if message.get("method") != "notifications/cancelled":
            return False
        wanted = str((message.get("params") or {}).get("requestId"))  # some clients turn 7 into "7" here
        for index in reversed(range(len(self._waiting))):
            request = self._waiting[index]
            if "method" in request and str(request.get("id")) == wanted:
                del self._waiting[index]
                return True
        return False


def matches_shape(value: Any, shape: Any) -> bool:
    """Return whether a JSON value has one of the shapes above.

    >>> matches_shape({"name": "x", "version": "1", "more": None}, WHO), matches_shape({"name": "x"}, WHO)
    (True, False)
    """
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_matches_key(value, key, inner, shape) for key, inner in shape.items())
    if isinstance(shape, list):
        return isinstance(value, list) and all(matches_shape(item, shape[0]) for item in value)
    if isinstance(shape, tuple):
        kinds = [choice for choice in shape if isinstance(choice, type)]
        return value in [choice for choice in shape if choice not in kinds] or any(
            type(value) is kind for kind in kinds
        )
    return type(value) is shape


def order_keys(keys: Mapping[str, Any], order: Sequence[str]) -> dict[str, Any]:
    """Return the keys in another order: those of `order` first.

    >>> order_keys({"type": 1, "more": 2, "required": 3}, ("required", "type"))
    {'required': 3, 'type': 1, 'more': 2}
    """
    return {key: keys[key] for key in order if key in keys} | dict(keys)


def _matches_key(value: Mapping[str, Any], key: Any, shape: Any, whole: Mapping[Any, Any]) -> bool:
    """Return whether a value matches one key of a shape."""
    if key is ...:
        others = [item for name, item in value.items() if name not in whole]
        return all(matches_shape(item, shape) for item in others)
    name = key.removesuffix("?")
    if name in value:
        return matches_shape(value[name], shape)
    return key != name


def _has_only(params: Mapping[str, Any], shape: Mapping[str, Any]) -> bool:
    """Return whether parameters have a shape and no others besides `_meta`."""
    known = {key.removesuffix("?") for key in shape}
    return params.keys() <= {*known, "_meta"} and matches_shape(params, shape)


def _opened_protocol(request: Mapping[str, Any]) -> str:
    """Return the protocol of the first request: it is modern if it states its protocol version itself."""
    opens_modern = request["method"] != "initialize" and _has_envelope(request.get("params") or {})
    if opens_modern:
        return "modern"
    return "legacy"


def _has_envelope(params: Mapping[str, Any]) -> bool:
    meta = params.get("_meta")
    return isinstance(meta, dict) and PROTOCOL_VERSION in meta
