"""Generate `protocol_catalogue.json`, the replies of the protocol library to the first requests of a client.

python -m scripts.protocol_catalogue --write     after a change of tools, instructions or the library
python -m scripts.protocol_catalogue --check     exit code 1 when the file is not up to date
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from mcp_types.methods import SERVER_RESULTS, serialize_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from context_engine import tools
from context_engine.server import ToolDispatcher, mcp_server
from context_engine.server.projects import Projects
from context_engine.server.serve import CATALOGUE_FILE

CLIENT = {"name": "catalogue", "version": "0"}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
"""The lists that clients request first. All but the first are the same for every start with one project."""


def build_catalogue() -> dict[str, Any]:
    """Build the catalogue from the replies of the server itself, once for each protocol."""
    opening = {"protocolVersion": HANDSHAKE_PROTOCOL_VERSIONS[-1], "capabilities": {}, "clientInfo": CLIENT}
    meta = {"protocolVersion": MODERN_PROTOCOL_VERSIONS[-1], "clientInfo": CLIENT, "clientCapabilities": {}}
    envelope = {"_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
    legacy = {"initialize": opening, "ping": {}, **{method: {} for method in LISTS}}
    modern = {"server/discover": envelope, **dict.fromkeys(LISTS, envelope)}
    return {
        "tools": _in_wire_order([mcp_server.tool_row(tool) for tool in tools.ALL], MODERN_PROTOCOL_VERSIONS[-1]),
        "legacy": _build_protocol(HANDSHAKE_PROTOCOL_VERSIONS, legacy),
        "modern": _build_protocol(MODERN_PROTOCOL_VERSIONS, modern),
    }


def format_catalogue(catalogue: Mapping[str, Any]) -> str:
    """Format the file with one line per tool, so that the diff of a change is readable."""
    tools = ",\n".join(json.dumps(row, ensure_ascii=False) for row in catalogue["tools"])
    eras = {era: catalogue[era] for era in ("legacy", "modern")}
    return f'{{"tools": [\n{tools}\n],{json.dumps(eras, ensure_ascii=False, indent=1)[1:]}\n'


def main(argv: Sequence[str]) -> int:
    """Write the file, or check it. Return the exit code."""
    catalogue = format_catalogue(build_catalogue())
    file = Path(CATALOGUE_FILE)
    if list(argv) == ["--write"]:
        file.write_text(catalogue, encoding="utf-8")
        return 0
    if file.read_text(encoding="utf-8") == catalogue:
        return 0
    sys.stderr.write("protocol_catalogue.json is out of date: python -m scripts.protocol_catalogue --write\n")
    return 1


def _build_protocol(versions: Sequence[str], requests: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of one protocol; the bootstrap adds the tools of `tools/list` on request."""
    results = dict(zip(requests, _request_results(requests), strict=True))
    results["tools/list"]["tools"] = []
    return {"versions": list(versions), "results": results, "schema_order": _schema_order(versions[-1])}


def _request_results(requests: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results of requests (method -> parameters) of a new connection to the server."""
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
    """Return the rows with the keys of each tool as the library orders them."""

    def ordered(wires: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        page = {"tools": list(wires), "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        return serialize_server_result("tools/list", version, page)["tools"]

    return [{**row, "tool": ordered([row["tool"]])[0], "aliases": ordered(row["aliases"])} for row in rows]


def _schema_order(version: str) -> list[str]:
    """Return the keys of an `inputSchema` that the library puts first in a version; the others stay in order."""
    page: Any = SERVER_RESULTS["tools/list", version]
    (tool,) = get_args(page.model_fields["tools"].annotation)
    fields = tool.model_fields["input_schema"].annotation.model_fields
    return [field.alias or name for name, field in fields.items()]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
