"""Each example call and error case of the five documents, word for word, through the profile with their names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from context_engine import tools
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.mcp_server import wire_tool
from context_engine.server.profiles import ToolSelection, list_tools
from context_engine.settings import Settings
from context_engine.tools import Call
from tests.support.engines import indexed
from tests.support.tools_stand_in import StandIn
from tests.support.trees import repository
from tests.support.waiting import Clock

SELECTION = ToolSelection(profiles=("seeds",))
FORM = [f"// line {number}" for number in range(1, 301)]
FORM[46] = "const [data, setData] = useState(null);"
FORM[129] = "async function handleSubmit() { await post(new FormData()); }"
for line in (45, 128, 256):
    FORM[line - 1] = "retry();"
AUTH = "src/server/auth/AuthService.ts"
FILES = {
    "src/components/Form.tsx": "\n".join(FORM) + "\n",
    "src/components/Login.tsx": "export const handleSubmit = () => new FormData();\n",
    "src/lib/form.ts": "export type Sent = FormData;\n",
    AUTH: (
        "import { TokenManager } from './TokenManager';\n\nexport interface AuthContext { user: string }\n\n"
        "export function handleAuth(payload: string) {\n  const token = jwt.sign(payload, SECRET);\n  return token;\n}\n"
    ),
    "src/server/auth/TokenManager.ts": "export class TokenManager { refresh() { return 1; } }\n",
    "docs/design.md": "---\ntags: [architecture]\n---\n# Authentication design decisions\n\nSessions, not tokens.\n",
    ".env": "PASSWORD=hunter2\n",
}
MEMORY = "Token refresh race condition fixed with mutex lock"


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[str, Any]]]:
    """Send a call as a strict client does: only what fits the schema that is listed."""
    schemas = {
        listed.name: listed.input_schema
        for listed in (wire_tool(tool, SELECTION) for tool in list_tools(tools.ALL, SELECTION))
    }
    root = repository(tmp_path_factory.mktemp("examples") / "shop", FILES)
    with indexed(root) as engine:
        dispatcher = ToolDispatcher(single_engine(engine), selection=SELECTION)

        def send(tool: str, sent: dict[str, Any]) -> dict[str, Any]:
            jsonschema.validate(sent, schemas[tool])
            text = dispatcher.call(tool, sent, Call()).reply.text
            return json.loads(text) if text.startswith("{") else {"text": text}

        for content, subtype in ((MEMORY, "issue"), ("Use JWT tokens stored in httpOnly cookies for auth", "pattern")):
            send("add_memory", {"content": content, "category": "facts", "tags": ["auth"]})
            kept = dispatcher.call("list_memories", {"query": content, "full": True}, Call()).reply.text
            memory = json.loads(kept)["memories"][0]["id"]
            assert not dispatcher.call("update_memory", {"id": memory, "subtype": subtype}, Call()).reply.is_error
        yield send


REPLACE = {
    "filePath": "./src/components/Form.tsx",
    "oldContent": "const [data, setData] = useState(null);",
    "newContent": "const [data, setData] = useState<FormData | null>(null);",
    "anchor": {"lineRange": {"start": 45, "end": 50}},
}
EXAMPLES: list[tuple[str, dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
    # 000, the workflow
    (
        "scout",
        {"keywords": ["handleSubmit", "FormData"], "rootPath": "./src"},
        lambda reply: len(reply["files"]) == 3 and reply["totalMatches"] == 5,
    ),
    (
        "read_regions",
        {"filePath": "./src/components/Form.tsx", "regions": [{"start": 45, "end": 60}, {"start": 120, "end": 135}]},
        lambda reply: [region["start"] for region in reply["regions"]] == [42, 117],
    ),
    (
        "read_regions",
        {
            "filePath": "./src/components/Form.tsx",
            "regions": [{"start": start, "end": end} for start, end in ((10, 15), (12, 18), (50, 55), (52, 60))],
        },
        lambda reply: (
            reply["merged"] and [(one["start"], one["end"]) for one in reply["regions"]] == [(7, 21), (47, 63)]
        ),
    ),
    ("safe_replace", REPLACE | {"dryRun": True}, lambda reply: reply["success"] and "FormData | null" in str(reply)),
    (
        "safe_replace",
        {"filePath": "src/components/Form.tsx", "oldContent": "retry();", "newContent": "again();"},
        lambda reply: (
            reply["error"]["code"] == "MULTIPLE_MATCHES"
            and [one["line"] for one in reply["error"]["details"]["matches"]] == [45, 128, 256]
        ),
    ),
    # 001, the table of tools
    (
        "edit_file",
        {"path": "src/lib/form.ts", "edits": [{"target": "Sent", "replace": "Kept"}], "dryRun": True},
        lambda reply: "Kept" in str(reply),
    ),
    (
        "search_files",
        {"path": "src", "query": "FormData", "includes": ["*.tsx"], "excludes": ["Login.tsx"]},
        lambda reply: "Form.tsx" in str(reply) and "Login.tsx" not in str(reply),
    ),
    (
        "read_fragment",
        {"path": AUTH, "keywords": ["jwt"], "lines": ["1-1"], "context": 1},
        lambda reply: "jwt.sign" in str(reply) and "TokenManager" in str(reply),
    ),
    ("list_directory", {"path": "src"}, lambda reply: "components" in str(reply)),
    # 002, the example definitions
    ("semantic_search", {"query": "sign a token", "top_k": 3}, lambda reply: "AuthService" in str(reply)),
    ("get_file", {"path": AUTH}, lambda reply: "handleAuth" in str(reply)),
    (
        "create_plan",
        {"task": "Refresh the token in TokenManager", "max_context_files": 5, "generate_diagrams": True},
        lambda reply: "error" not in reply,
    ),
    ("get_context_for_prompt", {"query": "token refresh", "max_files": 2}, lambda reply: "TokenManager" in str(reply)),
    # 003, the examples and the error cases
    (
        "context_search",
        {"query": "how does authentication work", "type": "all", "limit": 5},
        lambda reply: reply["totalFound"] >= 1,
    ),
    (
        "context_search",
        {"query": "token refresh issue", "type": "issue", "module": "auth", "limit": 3},
        lambda reply: [(row["content"], row["module"]) for row in reply["results"]] == [(MEMORY, "auth")],
    ),
    ("context_search", {"query": "ab"}, lambda reply: reply["error"]["code"] == "INVALID_ARGUMENT"),
    ("read_file", {"path": AUTH, "includeDeps": False}, lambda reply: "handleAuth" in str(reply)),
    (
        "read_file",
        {"path": AUTH, "includeDeps": True, "maxDepth": 1},
        lambda reply: [one["path"] for one in reply["dependencies"]] == ["src/server/auth/TokenManager.ts"],
    ),
    ("read_file", {"path": "invalid/path.ts"}, lambda reply: reply["error"]["code"] == "FILE_NOT_FOUND"),
    ("read_file", {"path": ".env"}, lambda reply: reply["error"]["code"] == "ACCESS_DENIED"),
    ("grep_codebase", {"pattern": "jwt.sign", "caseSensitive": False}, lambda reply: reply["totalMatches"] == 1),
    (
        "grep_codebase",
        {"pattern": "interface.*Context", "filePattern": "**/*.ts", "limit": 20},
        lambda reply: reply["matches"][0]["file"] == AUTH,
    ),
    (
        "grep_codebase",
        {"pattern": "function handleAuth", "caseSensitive": True, "filePattern": "src/server/**/*.ts"},
        lambda reply: reply["matches"][0]["line"] == 5,
    ),
    ("grep_codebase", {"pattern": "[invalid("}, lambda reply: "not a pattern" in reply["error"]["message"]),
    ("grep_codebase", {"pattern": "nonexistent"}, lambda reply: (reply["matches"], reply["totalMatches"]) == ([], 0)),
    # 004, the query examples
    (
        "cortex_search",
        {
            "query": "authentication design decisions",
            "chunk_types": ["documentation"],
            "tags": ["architecture"],
        },
        lambda reply: "docs/design.md" in str(reply["results"][0]),
    ),
    (
        "cortex_search",
        {"query": "authentication handler implementation", "chunk_types": ["symbols", "definitions"]},
        lambda reply: reply["total"] >= 1,
    ),
    (
        "cortex_search",
        {"query": "database connection settings", "chunk_types": ["data"]},
        lambda reply: "results" in reply,
    ),
    ("cortex_search", {"query": "how does authentication work"}, lambda reply: reply["total"] >= 1),
    (
        "cortex_search",
        {"query": "error handling patterns", "tags": ["typescript", "code"]},
        lambda reply: all(row["chunk"]["tags"].count("typescript") for row in reply["results"]),
    ),
]


@pytest.mark.parametrize(("tool", "sent", "holds"), EXAMPLES, ids=[f"{row[0]}-{at}" for at, row in enumerate(EXAMPLES)])
def test_an_example_of_the_documents_is_answered_as_they_say(
    call: Callable[..., dict[str, Any]], tool: str, sent: dict[str, Any], holds: Callable[[dict[str, Any]], bool]
) -> None:
    reply = call(tool, sent)
    assert holds(reply), reply


def test_a_limit_names_the_tool_that_was_called() -> None:
    settings = Settings(rate_limits_per_minute="context_search=1", rate_burst_minutes=1)
    lines: list[dict[str, Any]] = []
    stand_in: Any = StandIn(settings=settings)
    dispatcher = ToolDispatcher(lambda _: stand_in, log=lines.append, clock=Clock())
    for _ in range(2):
        outcome = dispatcher.call("context_search", {"query": "token refresh"}, Call())
    error = json.loads(outcome.reply.text)["error"]
    assert error["message"].startswith("context_search was called too often")
    assert [line["tool"] for line in lines if line["event"] == "call"] == ["context_search"] * 2


def test_advice_names_tools_as_the_client_sees_them(call: Callable[..., dict[str, Any]]) -> None:
    advice = call("context_search", {"query": "zebra stripes", "module": "zoo"})["next"]
    assert "codebase_retrieval" in advice
    assert "search_code" not in advice


def test_changes_of_a_plan_are_requested_in_the_words_of_its_document(call: Callable[..., dict[str, Any]]) -> None:
    plan = call("create_plan", {"task": "Add a logout to src/server/auth/TokenManager.ts"})["plan_id"]
    request = call("request_approval", {"plan_id": plan})["request"]["id"]
    sent = {"request_id": request, "action": "request_changes", "modifications": "Only the server."}
    assert call("respond_approval", sent)["request"]["status"] == "modification_requested"
