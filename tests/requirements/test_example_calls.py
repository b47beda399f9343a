"""Each example call and error case of the five documents, word for word, through the profile with their names."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from context_engine import tools
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.mcp_server import wire_tool
from context_engine.server.profiles import SEEDS, ToolSelection, list_tools
from context_engine.settings import Settings
from context_engine.tools import Call
from tests.support.engines import indexed
from tests.support.tools_stand_in import StandIn
from tests.support.trees import commit, git, repository, tree
from tests.support.waiting import Clock

SELECTION = ToolSelection(profiles=("seeds",))
CALLS = tomllib.loads((Path(__file__).parent / "calls.toml").read_text(encoding="utf-8"))["call"]
DOCUMENTS = sorted({row["at"].partition(":")[0] for row in CALLS})
VARY = frozenset(
    (
        *("id", "date", "score", "combined_score", "searchTime", "totalFound", "filesSearched", "fileSize"),
        *("size", "lines", "lastModified", "imports_count", "functions_count", "created_at", "updated_at"),
        *("confidence_score", "version"),
    )
)
"""Fields whose values differ from run to run, or follow from what is around the example."""
FORM = [f"// line {number}" for number in range(1, 301)]
FORM[46] = "const [data, setData] = useState(null);"
FORM[129] = "async function handleSubmit() { await post(new FormData()); }"
for line in (45, 128, 256):
    FORM[line - 1] = "retry();"
AUTH = [
    *(
        "import { TokenManager } from './TokenManager';",
        "import { UserRepository } from '../users/UserRepository';",
        "",
    ),
    *("export interface AuthContext { user: string }", "", "export function handleAuth(payload: string) {"),
    *("  return generateToken(payload);", "}", ""),
    *[f"// {number}" for number in range(10, 40)],
    *("  // Generate JWT token", "  function generateToken(payload) {", "  const token = jwt.sign(payload, SECRET);"),
    *("    return token;", "  }", ""),
]
HANDLER = 'package auth\n\nimport "fmt"\n\n// AuthHandler handles authentication.\ntype AuthHandler struct {\n}\n\n'
FILES = {
    "src/components/Form.tsx": "\n".join(FORM) + "\n",
    "src/components/Login.tsx": "export const handleSubmit = () => new FormData();\n",
    "src/lib/form.ts": "export type Sent = FormData;\n",
    "src/server/auth/AuthService.ts": "\n".join(AUTH),
    "src/server/auth/TokenManager.ts": "export class TokenManager { refresh() { return 1; } }\n",
    "src/server/users/UserRepository.ts": "export class UserRepository { find() { throw new Error('handling'); } }\n",
    "src/index.ts": "export function main() {\n  return 1;\n}\n",
    "src/frozen.ts": "const a = 1;\n",
    "file.ts": "\n" * 14 + "function (((\n",
    "internal/auth/handler.go": f"{HANDLER}func (h *AuthHandler) Open() {{ fmt.Println(h) }}\n\ntype Token struct {{\n}}\n",
    "config/database.yml": "database:\n  connection:\n    host: localhost\n    port: 5432\n",
    "docs/design.md": "---\ntags: [architecture]\n---\n# Authentication design decisions\n\nHow authentication works: tokens. #sessions\n",
    "src/data.ts": "\0FormData\n",
    **dict.fromkeys(("built/a.ts", "private/a.ts", "node_modules/a/index.ts"), "export const hiddenMarker = 1;\n"),
    ".gitignore": "built/\n",
    ".augmentignore": "private/\n",
    ".env": "PASSWORD=hunter2\n",
    ".env.local": "PASSWORD=hunter2\n",
}
MEMORIES = {
    "Token refresh race condition fixed with mutex lock": "issue",
    "Use JWT tokens stored in httpOnly cookies for auth": "pattern",
    "Implement token refresh with mutex locks to prevent race conditions": "pattern",
}


@pytest.fixture(scope="module")
def call(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Send a call as a strict client does: only what fits the schema that is listed."""
    schemas = {
        listed.name: listed.input_schema
        for listed in (wire_tool(tool, SELECTION) for tool in list_tools(tools.ALL, SELECTION))
    }
    root = repository(tmp_path_factory.mktemp("examples") / "shop", FILES)
    commit(root, "second", {"src/second.ts": "export const second = 2;\n"})
    (root / "src/frozen.ts").chmod(0o444)
    git(tree(root, {"src/staged.ts": "export const staged = 1;\n"}), "add", "--all")
    with indexed(root) as engine:
        dispatcher = ToolDispatcher(single_engine(engine), selection=SELECTION)

        def send(tool: str, sent: Mapping[str, Any]) -> str:
            jsonschema.validate(sent, schemas.get(tool, {}))
            return dispatcher.call(tool, sent, Call()).reply.text

        for content, subtype in MEMORIES.items():
            kept = json.loads(send("add_memory", {"content": content, "category": "facts", "tags": ["auth"]}))
            update = {"id": kept["id"], "subtype": subtype}
            assert not dispatcher.call("update_memory", update, Call()).reply.is_error
        yield send


def find_differences(shown: Any, got: Any, path: str = "") -> dict[str, str]:
    """Return where a reply lacks what a document shows, each with both values.

    >>> find_differences({"a": [{"b": 1}, {"score": 0.5}], "c": "..."}, {"a": [{"b": 2}, {"score": 1.0}], "c": "x"})
    {'a.0.b': '1, not 2'}
    >>> find_differences({"a": [{}], "b": None, "score": 1}, {"a": [], "score": "x"})
    {'a.0': '{}, not None', 'b': 'None, not missing', 'score': "1, not 'x'"}
    """
    name = path.rpartition(".")[2]
    if isinstance(shown, dict) and isinstance(got, dict):
        pairs = [(key, value, got.get(key, KeyError)) for key, value in shown.items()]
    elif isinstance(shown, list) and isinstance(got, list):
        pairs = [(at, value, got[at] if at < len(got) else None) for at, value in enumerate(shown)]
    else:
        is_number = isinstance(shown, int | float) and isinstance(got, int | float)
        is_of_its_kind = (is_number or type(shown) is type(got)) and (name in VARY or shown == "...")
        text = "missing" if got is KeyError else repr(got)
        return {} if shown == got or is_of_its_kind else {path: f"{shown!r}, not {text}"}
    return {
        at: what
        for key, value, other in pairs
        for at, what in find_differences(value, other, f"{path}.{key}".lstrip(".")).items()
    }


def check(row: Mapping[str, Any], text: str) -> dict[str, str]:
    """Return the differences between a reply and the document; an error has what is shown beside it in its details."""
    reply = json.loads(text) if text.startswith("{") else {}
    error = reply.get("error", {})
    problems = {} if row.get("code", "") == error.get("code", "") else {"code": str(error)}
    problems |= {part: "not in the reply" for part in row.get("text", ()) if part not in text}
    shown = json.loads(row.get("shows", "{}"))
    if isinstance(shown.get("error"), str) and error:
        shown, reply = {key: value for key, value in shown.items() if key != "error"}, error["details"]
    found = find_differences(shown, reply)
    stated = row.get("differs", {})
    problems |= dict.fromkeys(stated.keys() - found.keys(), "does not differ any more")
    return problems | {path: what for path, what in found.items() if path not in stated}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_calls_of_a_document_are_answered_as_it_shows(call: Callable[..., str], document: str) -> None:
    known: dict[str, str] = {}
    wrong = {}
    for number, row in enumerate(CALLS):
        if row["at"].startswith(document):
            sent = {key: known.get(str(value), value) for key, value in json.loads(row["sent"], strict=False).items()}
            text = call(row["tool"], sent)
            reply = json.loads(text) if text.startswith("{") else {}
            ids = {"plan_id": reply.get("plan_id"), "session_id": reply.get("session_id")}
            ids["request_id"] = (reply.get("request") or {}).get("id")
            known |= {f"${name}": value for name, value in ids.items() if value}
            if problems := check(row, text):
                wrong[f"{number} {row['at']} {row['tool']}"] = problems, text[:600]
    assert wrong == {}


def test_every_tool_of_the_documents_is_called() -> None:
    assert {row["tool"] for row in CALLS} - {"unknown_tool"} == set(SEEDS)


def test_a_limit_names_the_tool_that_was_called() -> None:
    settings = Settings(rate_limits_per_minute="context_search=1", rate_burst_minutes=1)
    lines: list[dict[str, Any]] = []
    stand_in: Any = StandIn(settings=settings)
    dispatcher = ToolDispatcher(lambda _: stand_in, log=lines.append, clock=Clock())
    for _ in range(2):
        outcome = dispatcher.call("context_search", {"query": "token refresh"}, Call())
    assert outcome.error is not None
    assert outcome.error.message.startswith("context_search was called too often")
    assert [line["tool"] for line in lines if line["event"] == "call"] == ["context_search"] * 2


def test_advice_names_tools_as_the_client_sees_them(call: Callable[..., str]) -> None:
    advice = json.loads(call("context_search", {"query": "zebra stripes", "module": "zoo"}))["next"]
    assert "codebase_retrieval" in advice
    assert "search_code" not in advice
