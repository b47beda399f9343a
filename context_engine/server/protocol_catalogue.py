"""The replies of the protocol library to the first requests, as a generated file: `protocol_catalogue.json`.

    python -m context_engine.server.protocol_catalogue --write     after a change of tools, instructions or the library
    python -m context_engine.server.protocol_catalogue --check     exit code 1 when the file is not what the library says

`read` is all that a start needs, and imports nothing heavy; `made` asks the real server.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any

FILE = os.path.join(os.path.dirname(__file__), "protocol_catalogue.json")
WHO = {"name": "catalogue", "version": "0"}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
"""The lists that clients request first. All but the first are the same for every start with one project."""


def read_catalogue() -> dict[str, Any]:
    """Return the rows of all tools, and for each protocol its versions, results and order of schema keys."""
    with open(FILE, encoding="utf-8") as file:  # `importlib.resources` would take longer than all else here
        return json.load(file)


def build_catalogue() -> dict[str, Any]:
    """Build the catalogue from the replies of the server itself, once for each protocol."""
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    from context_engine import tools
    from context_engine.server import mcp_server

    opening = {"protocolVersion": HANDSHAKE_PROTOCOL_VERSIONS[-1], "capabilities": {}, "clientInfo": WHO}
    meta = {"protocolVersion": MODERN_PROTOCOL_VERSIONS[-1], "clientInfo": WHO, "clientCapabilities": {}}
    envelope = {"_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
    return {
        "tools": _in_wire_order([mcp_server.tool_row(tool) for tool in tools.ALL], MODERN_PROTOCOL_VERSIONS[-1]),
        "legacy": _build_protocol(
            HANDSHAKE_PROTOCOL_VERSIONS, {"initialize": opening, "ping": {}, **{each: {} for each in LISTS}}
        ),
        "modern": _build_protocol(
            MODERN_PROTOCOL_VERSIONS, {"server/discover": envelope, **dict.fromkeys(LISTS, envelope)}
        ),
    }


def format_catalogue(catalogue: Mapping[str, Any]) -> str:
    """The text of the file: one line a tool, so that a change of one is a difference that can be read."""
    tools = ",\n".join(json.dumps(row, ensure_ascii=False) for row in catalogue["tools"])
    eras = {era: catalogue[era] for era in ("legacy", "modern")}
    return f'{{"tools": [\n{tools}\n],{json.dumps(eras, ensure_ascii=False, indent=1)[1:]}\n'


def main(argv: Sequence[str]) -> int:
    """Write the file, or check it; the exit code."""
    now = format_catalogue(build_catalogue())
    if list(argv) == ["--write"]:
        with open(FILE, "w", encoding="utf-8") as file:
            file.write(now)
        return 0
    with open(FILE, encoding="utf-8") as file:
        is_current = file.read() == now
    if not is_current:
        sys.stderr.write(
            "protocol_catalogue.json is out of date: python -m context_engine.server.protocol_catalogue --write\n"
        )
    return 0 if is_current else 1


def _build_protocol(versions: Sequence[str], requests: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of one protocol; the bootstrap adds the tools of `tools/list` on request."""
    results = dict(zip(requests, _request_results(requests), strict=True))
    results["tools/list"]["tools"] = []
    return {"versions": list(versions), "results": results, "schema_order": _schema_order(versions[-1])}


def _request_results(requests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The results of some requests, method -> parameters, of a new connection to the live server."""
    import anyio
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    from context_engine.server import mcp_server
    from context_engine.server.dispatcher import ToolDispatcher
    from context_engine.server.projects import Projects

    server = mcp_server.build_server(ToolDispatcher(Projects((), log=lambda _: None).engine))

    async def converse() -> list[dict[str, Any]]:
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception]()
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage]()
        results = []
        async with to_server, from_server, anyio.create_task_group() as tasks:
            tasks.start_soon(server.run, from_client, to_client, server.create_initialization_options())
            for number, (method, params) in enumerate(requests.items()):
                request = types.JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
                await to_server.send(SessionMessage(request))
                results.append((await from_server.receive()).message.model_dump(by_alias=True)["result"])
            tasks.cancel_scope.cancel()
        return results

    return anyio.run(converse)


def _in_wire_order(rows: Sequence[Mapping[str, Any]], version: str) -> list[dict[str, Any]]:
    """The rows with the keys of each tool as the library orders them."""
    from mcp_types.methods import serialize_server_result

    page = {"tools": [row["tool"] for row in rows], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    tools = serialize_server_result("tools/list", version, page)["tools"]
    return [{**row, "tool": tool} for row, tool in zip(rows, tools, strict=True)]


def _schema_order(version: str) -> list[str]:
    """The keys of an `inputSchema` that the library puts first in a version; the others stay as they come."""
    from typing import get_args

    from mcp_types.methods import SERVER_RESULTS

    page: Any = SERVER_RESULTS["tools/list", version]
    (tool,) = get_args(page.model_fields["tools"].annotation)
    fields = tool.model_fields["input_schema"].annotation.model_fields
    return [field.alias or name for name, field in fields.items()]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
