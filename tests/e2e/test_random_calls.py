"""Whatever a client sends, valid or broken, twenty at a time: each request gets one well-formed reply, and the server lives on.

Some hundred calls in the ordinary run; `CTX_TEST_CALLS` asks for more (`make abuse`).
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine import tools
from context_engine.errors import ContextEngineError
from context_engine.settings import list_settings
from tests.e2e.conftest import planted
from tests.e2e.wire import DOCUMENTS, PATIENCE_S, Wire

CALLS = int(os.environ.get("CTX_TEST_CALLS", "400"))
AT_ONCE = 20
pytestmark = pytest.mark.abuse
CHARS_MAX = list_settings()["result_chars_max"][0]

NASTY = [
    *("", " ", ".", "..", "../..", "/", "/etc/passwd", "..\\..\\x", "C:\\x", "a\0b", "~", ".env", ".git/config"),
    *("$(touch x)", "`touch x`", "; touch x", "| touch x", "-rf", "--help", "%s%n", "{}", "null", "NaN"),
    *("\u202e", "\ud800"),
    *("(a+)+$", "[", "(?<=a)b", "\\", "*", "**/*", "a{1000000}", "😀" * 50, "x" * 100_000, "1-", "5-2", "0-0"),
]
REAL = [
    *("till/auth.py", "till", "README.md", "web/cart.ts", "tests/test_orders.py", "ignored.log", "gone.py"),
    *("login", "Session", "hash_password", "Cart.add", "def", "password", "how are orders totalled", "import"),
    *("*", "1-5"),
    *("python", "definitions", "code", "**/*.py", "json", "callers", "symbols"),
]
TEXTS = st.sampled_from(NASTY) | st.sampled_from(REAL) | st.text(max_size=30)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
JUNK = st.recursive(
    SCALARS, lambda some: st.lists(some, max_size=4) | st.dictionaries(TEXTS, some, max_size=4), max_leaves=8
)


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema of ours allows, made of what occurs in the repository where a text is wanted."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "integer":
            return st.integers(schema.get("minimum", -5), min(schema.get("maximum", 50), 500))
        case "number":
            return st.floats(schema.get("minimum", 0), schema.get("maximum", 1))
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(fitting(schema.get("items", {})), max_size=4)
        case "object":
            return st.fixed_dictionaries({name: fitting(each) for name, each in schema.get("properties", {}).items()})
    return st.sampled_from(REAL)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Any]:
    """A tool's name and arguments: mostly right, often with one thing wrong, sometimes nonsense."""
    each = draw(st.sampled_from(tools.ALL))
    schema = each.schema
    required = {name: fitting(schema["properties"][name]) for name in schema.get("required", ())}
    others = {name: fitting(kind) for name, kind in schema["properties"].items() if name not in required}
    arguments: Any = draw(st.fixed_dictionaries(required, optional=others))
    match draw(st.integers(0, 9)):
        case 0:
            arguments[draw(TEXTS)] = draw(JUNK)
        case 1 if arguments:
            del arguments[draw(st.sampled_from(sorted(arguments)))]
        case 2 | 3 if arguments:
            arguments[draw(st.sampled_from(sorted(arguments)))] = draw(JUNK)
        case 4:
            return each.name, draw(JUNK)
        case 5:
            return draw(TEXTS), arguments
    return each.name, arguments


def written(method: str, params: Any) -> st.SearchStrategy[str]:
    return st.just(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))


NOISE = st.one_of(
    st.sampled_from(
        ["{", "[]", "null", "\u2028", "{}", '{"jsonrpc": "2.0"}', '{"jsonrpc": "1.0", "id": 1, "method": "ping"}']
    ),
    written("notifications/cancelled", {"requestId": 10**9, "reason": "never sent"}),
    written("notifications/nothing", {}),
    st.text(max_size=20).map(lambda text: json.dumps(text)),
)


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with Wire(planted(tmp_path_factory.mktemp("random") / "till"), options=DOCUMENTS) as wire:
        wire.shake_hands()
        yield wire
        assert wire.process.poll() is None
        assert wire.end() == 0


@pytest.mark.slow
@settings(max_examples=max(1, CALLS // AT_ONCE), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batch=st.lists(calls(), min_size=AT_ONCE, max_size=AT_ONCE),
    noise=st.lists(NOISE, max_size=3),
    cancelled=st.booleans(),
)
def test_every_call_gets_one_well_formed_reply(
    wire: Wire, tried: Callable[..., None], batch: list[tuple[str, Any]], noise: list[str], cancelled: bool
) -> None:
    tried(len(batch) + len(noise))
    first = send_all(wire, batch)
    for line in noise:
        wire.send(line)
    gone = {first} if cancelled else set()
    for number in gone:
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    replies = collected(wire, set(range(first, first + AT_ONCE)) - gone)
    for reply in replies:
        check(reply)


ODD = [
    *(
        None,
        True,
        -1,
        0,
        10**30,
        1e308,
        "",
        " ",
        "\0",
        "\ud800",
        "../..",
        "x" * 300_000,
        [],
        {},
        [[[[[]]]]],
        {"a": {"b": None}},
    ),
    *(list(range(20_000)), [None], [""], [{}], {"": ""}),
]
"""Values that no argument expects."""


def odd_calls() -> list[tuple[str, Any]]:
    """Each argument of each tool with each odd value, beside the plainest other ones that are required."""
    plain = {"integer": 1, "number": 0.5, "boolean": False, "array": [], "object": {}, "string": "till/auth.py"}
    made: list[tuple[str, Any]] = []
    for tool in tools.ALL:
        kinds = tool.schema["properties"]
        required = {
            name: kinds[name].get("enum", [plain[kinds[name].get("type", "string")]])[0]
            for name in tool.schema.get("required", ())
        }
        made += [(tool.name, required | {name: value}) for name in (*kinds, "unknown") for value in ODD]
        made += [(tool.name, value) for value in ODD]
    return made


@pytest.mark.slow
def test_no_value_of_an_argument_ends_in_an_error_of_ours(wire: Wire, tried: Callable[..., None]) -> None:
    calls = odd_calls()
    chosen = random.Random(41).sample(calls, min(CALLS, len(calls)))
    wrong = []
    for at in range(0, len(chosen), AT_ONCE):
        batch = chosen[at : at + AT_ONCE]
        tried(len(batch))
        first = send_all(wire, batch)
        for reply in collected(wire, set(range(first, first + len(batch)))):
            try:
                check(reply)
            except AssertionError as error:
                name, arguments = batch[reply["id"] - first]
                wrong.append(f"{name} {str(arguments)[:200]}: {str(error)[:300]}")
    assert wrong == []


def send_all(wire: Wire, batch: list[tuple[str, Any]]) -> int:
    """Send the calls at once; the id of the first of them."""
    first = len(wire.lines) * 1_000 + 1_000_000  # ids of their own for each batch
    for number, (name, arguments) in enumerate(batch):
        request = {"jsonrpc": "2.0", "id": first + number, "method": "tools/call"}
        wire.send(request | {"params": {"name": name, "arguments": arguments}})
    return first


def collected(wire: Wire, wanted: set[int]) -> list[dict[str, Any]]:
    """The replies with these ids, each of them once, in the order of their arrival."""
    found: list[dict[str, Any]] = []
    until = time.monotonic() + PATIENCE_S
    while wanted:
        assert time.monotonic() < until, f"no reply to {sorted(wanted)}; the log ends with {wire.log[-3:]}"
        message = wire.next()
        if message.get("id") in wanted:
            wanted.discard(message["id"])
            found.append(message)
    return found


CODES = {
    each.code
    for each in [ContextEngineError, *ContextEngineError.__subclasses__()]
    for each in [each, *each.__subclasses__()]
}


def check(reply: dict[str, Any]) -> None:
    """The form of a reply to tools/call."""
    assert reply["jsonrpc"] == "2.0"
    assert ("result" in reply) != ("error" in reply), reply
    if "error" in reply:
        assert isinstance(reply["error"]["code"], int)
        assert reply["error"]["message"]
        return
    (block,) = reply["result"]["content"]
    assert block["type"] == "text"
    assert len(block["text"]) <= CHARS_MAX
    if reply["result"].get("isError"):
        code, _, message = block["text"].partition(": ")
        if block["text"].startswith("{"):
            error = json.loads(block["text"])["error"]
            assert set(error) == {"code", "message", "suggestion", "retryable", "details"}
            code, message = error["code"], error["message"]
        assert code in CODES
        assert code != "INTERNAL", block
        assert message


def test_no_query_reached_a_shell(wire: Wire, tmp_path: Path) -> None:
    """Behind the others: nothing named `x` came into being where the server works."""
    assert not Path("x").exists()
