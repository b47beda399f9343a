"""The gate: every call ends in a reply, is counted, and leaves one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine import tools
from context_engine.errors import InvalidArgument, StorageCorrupt
from context_engine.secrets import RedactedText
from context_engine.server.dispatcher import ToolDispatcher, single_engine
from context_engine.server.metrics import Metrics
from context_engine.server.profiles import ToolSelection
from context_engine.server.server_log import create_log
from context_engine.settings import Settings
from context_engine.tools import Call, Reply, Tool
from context_engine.tools.arguments import Parameter, TextArg
from tests.support.tools_stand_in import StandIn, hit
from tests.support.waiting import Clock


def gate(engine: StandIn, **seams: Any) -> tuple[ToolDispatcher, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    return ToolDispatcher(lambda _: engine, log=lines.append, **seams), lines  # ty: ignore[invalid-argument-type] - a stand-in


def code(outcome: Any) -> str:
    return error(outcome)["code"]


def error(outcome: Any) -> dict[str, Any]:
    """The error of a call, whose text says at least what it is and what to do."""
    row = outcome.error.as_dict()
    assert outcome.reply.text.startswith(f"{row['code']}: ")
    assert row["suggestion"] in outcome.reply.text
    return row


def test_a_call_leaves_one_line_with_tool_time_outcome_and_size() -> None:
    door, lines = gate(StandIn())
    outcome = door.call("get_file", {"path": "src/auth.py"}, Call())
    assert lines[0].pop("ms") >= 0
    assert lines == [{"event": "call", "tool": "get_file", "ok": True, "chars": len(outcome.reply.text)}]


def test_at_debug_a_line_has_the_session_and_the_arguments_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    token = f"ghp_{'x7Kq2mZp9R' * 4}"[:40]
    door, lines = gate(StandIn(settings=Settings(log_level="debug")))
    door.call("read_file", {"path": f"src/{token}.py"}, Call(session="s1"))
    assert lines[0]["session"] == "s1"
    assert token not in lines[0]["arguments"]
    assert lines[0]["arguments"].startswith('{"path":"src/')
    create_log("debug")(lines[0])
    assert json.loads(capsys.readouterr().err)["at"].endswith("Z")


def test_an_error_becomes_a_reply_and_is_counted_by_its_code() -> None:
    door, lines = gate(StandIn())
    outcome = door.call("read_file", {"path": "missing.py"}, Call())
    assert outcome.reply.is_error
    assert code(outcome) == "FILE_NOT_FOUND"
    assert lines[0]["error"] == "FILE_NOT_FOUND"
    assert door.metrics.rows()["read_file"]["errors"] == {"FILE_NOT_FOUND": 1}


class Broken(StandIn):
    def search_for(self, query: Any) -> Any:
        raise ZeroDivisionError("division by zero")


def test_a_bug_in_a_tool_is_told_as_ours_and_the_trace_goes_to_the_log() -> None:
    door, lines = gate(Broken())
    outcome = door.call("codebase_retrieval", {"query": "q"}, Call())
    assert code(outcome) == "INTERNAL"
    assert "ZeroDivisionError" in error(outcome)["message"]
    assert "Traceback" in lines[0]["trace"]


@pytest.mark.parametrize("wrong", [ZeroDivisionError("division by zero"), StorageCorrupt("the index is damaged")])
def test_a_search_that_fails_names_a_tool_that_takes_another_way(wrong: Exception) -> None:
    class Failing(StandIn):
        def search_for(self, query: Any) -> Any:
            raise wrong

    door, _ = gate(Failing())
    assert "grep_codebase" in error(door.call("codebase_retrieval", {"query": "q"}, Call()))["suggestion"]
    mistaken = error(door.call("codebase_retrieval", {"query": ""}, Call()))
    assert "grep_codebase" not in mistaken["suggestion"], "what the caller can mend needs no other tool"


def test_a_reply_over_the_limit_is_refused_rather_than_sent() -> None:
    door, _ = gate(StandIn(), redact=lambda text: RedactedText(text * 1_000, 0))
    outcome = door.call("list_directory", {}, Call())
    assert outcome.error is not None
    assert outcome.error.code == "TOO_LARGE"


def test_a_lone_surrogate_never_reaches_the_wire() -> None:
    door, _ = gate(StandIn(hits=(hit(text="caf\udce9"),)))
    door.call("codebase_retrieval", {"query": "q"}, Call()).reply.text.encode("utf-8")


def test_unknown_tools_are_counted_as_one() -> None:
    door, _ = gate(StandIn())
    for number in range(50):
        door.call(f"tool_{number}", {}, Call())
    assert door.metrics.rows() == {"(unknown)": {**door.metrics.rows()["(unknown)"], "calls": 50, "ok": 0}}


def test_quantiles_are_right_to_within_a_tenth() -> None:
    metrics = Metrics()
    for ms in range(1, 1001):
        metrics.add("trace", float(ms))
    row = metrics.rows()["trace"]
    assert row["p50_ms"] == pytest.approx(500, rel=0.1)
    assert row["p95_ms"] == pytest.approx(950, rel=0.1)
    assert row["p99_ms"] == pytest.approx(990, rel=0.1)


def test_a_quieter_log_keeps_only_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    create_log("warning")({"event": "call", "ok": True})
    create_log("warning")({"event": "call", "ok": False})
    create_log("warning")({"event": "call", "ok": True, "slow": True})
    create_log("off")({"event": "call", "ok": False})
    assert [json.loads(line)["ok"] for line in capsys.readouterr().err.splitlines()] == [False, True]


# -- call_tool: whatever is not listed --------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"symbol": "login"}, '{"symbol": "login"}'])
def test_call_tool_reaches_a_hidden_tool_and_is_counted_under_its_name(arguments: object) -> None:
    door, lines = gate(StandIn())
    direct = door.call("trace", {"symbol": "login"}, Call()).reply
    reached = door.call("call_tool", {"name": "trace", "arguments": arguments}, Call()).reply
    assert reached == direct
    assert door.metrics.rows()["symbols"]["calls"] == 2
    assert "call_tool" not in door.metrics.rows()
    assert (lines[1]["tool"], lines[1]["via"]) == ("symbols", "call_tool")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "call_tool", "arguments": {"name": "trace"}}, "name is call_tool itself"),
        ({"name": "trcae"}, "no tool is called 'trcae'"),
        ({}, "name is missing"),
        ({"name": "trace", "arguments": [1]}, "arguments must be an object"),
        ({"name": "trace", "arguments": "symbol=login"}, "arguments must be an object"),
        ({"name": "trace", "symbol": "login"}, "unknown argument 'symbol'"),
    ],
)
def test_call_tool_refuses_what_leads_nowhere_as_an_argument(arguments: dict[str, Any], says: str) -> None:
    door, _ = gate(StandIn())
    outcome = door.call("call_tool", arguments, Call())
    assert error(outcome)["code"] == "INVALID_ARGUMENT"
    assert says in error(outcome)["message"]
    assert not tools.is_malformed(outcome.error or InvalidArgument(""))
    assert list(door.metrics.rows()) == ["call_tool"]


def test_the_manifest_says_which_tools_are_hidden_and_which_are_switched_off() -> None:
    door, _ = gate(StandIn(), selection=ToolSelection(read_only=True, exclude=("semantic_search",)))
    lines = door.call("tool_manifest", {}, Call()).reply.text.split("\n")
    rows = {key: names.split(", ") for key, _, names in (line.partition(": ") for line in lines[1:])}
    assert "hidden: use call_tool for those" in lines[0]
    assert "explain" in rows["hidden"]
    assert "symbols" in rows["listed"]
    assert "switched off by --exclude-tools: semantic_search" in lines
    writing = ", ".join(
        each.name for each in tools.ALL if each.touches in ("files", "records") or each.name == "clear_index"
    )
    assert f"switched off by --read-only: {writing}" in lines
    assert not {"clear_index", "semantic_search"} & set(rows), "what cannot be called is not offered"


# -- read-only and --exclude-tools ------------------------------------------------------------------------------------


@pytest.mark.parametrize("through", [False, True])
def test_read_only_refuses_what_writes_by_whatever_way(through: bool) -> None:
    door, _ = gate(StandIn(), selection=ToolSelection(read_only=True))
    asked = ("call_tool", {"name": "clear_index", "arguments": {"confirm": True}}) if through else ("clear_index", {})
    refused = error(door.call(*asked, Call()))
    assert refused["code"] == "ACCESS_DENIED"
    assert refused["message"] == "clear_index is switched off: the server was started with --read-only"
    assert not door.call("index_workspace", {}, Call()).reply.is_error, "the index is ours and can be built again"


def test_read_only_refuses_every_tool_that_touches_files_or_records(monkeypatch: pytest.MonkeyPatch) -> None:
    writing = [made_tool(f"write_{touches}", touches) for touches in ("files", "records")]
    monkeypatch.setattr(tools, "ALL", (*tools.ALL, *writing))
    door, _ = gate(StandIn(), selection=ToolSelection(read_only=True))
    assert [code(door.call(each.name, {"path": "x"}, Call())) for each in writing] == ["ACCESS_DENIED"] * 2
    free, _ = gate(StandIn())
    assert [free.call(each.name, {"path": "x"}, Call()).reply.text for each in writing] == ["done", "done"]


def made_tool(name: str, touches: Any) -> Tool:
    return Tool(name, "Write.", (Parameter("path", TextArg("Where.")),), touches, lambda *_, **__: Reply("done"))


@pytest.mark.parametrize("name", ["read_file", "get_file"])
def test_an_excluded_tool_is_refused_by_all_its_names(name: str) -> None:
    door, _ = gate(StandIn(), selection=ToolSelection(exclude=("read_file",)))
    refused = error(door.call(name, {"path": "src/auth.py"}, Call()))
    assert (refused["code"], refused["details"]["option"]) == ("ACCESS_DENIED", "--exclude-tools")


def test_without_call_tool_nothing_is_reached_through_it() -> None:
    door, _ = gate(StandIn(), selection=ToolSelection(exclude=("call_tool",)))
    assert error(door.call("call_tool", {"name": "trace"}, Call()))["details"]["tool"] == "call_tool"
    assert not door.call("trace", {"symbol": "login"}, Call()).reply.is_error


# -- rate limits ------------------------------------------------------------------------------------------------------


def test_a_tool_that_is_called_too_often_is_refused_and_served_again_after_the_wait() -> None:
    clock = Clock()
    settings = Settings(rate_limits_per_minute="read_file=20", rate_burst_minutes=1)
    door, lines = gate(StandIn(settings=settings), clock=clock)
    outcomes = [door.call("read_file", {"path": "src/auth.py"}, Call()) for _ in range(21)]
    assert [outcome.reply.is_error for outcome in outcomes] == [False] * 20 + [True]
    refused = error(outcomes[-1])
    assert (refused["code"], refused["retryable"]) == ("RATE_LIMITED", True)
    assert refused["message"].startswith("read_file was called too often")
    assert refused["details"] == {"tool": "read_file", "retry_after_s": 3, "per_minute": 20}
    assert "3 s" in refused["suggestion"]
    assert lines[-1]["error"] == "RATE_LIMITED"
    assert door.metrics.rows()["read_file"]["rate_limited"] == 1
    clock.now += refused["details"]["retry_after_s"]
    assert not door.call("read_file", {"path": "src/auth.py"}, Call()).reply.is_error


@pytest.mark.parametrize(("tool", "allowed"), [("read_file", 500), ("grep_codebase", 300), ("search_memory", 150)])
def test_the_built_in_limits_stop_a_loop(tool: str, allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "ALL", (made_tool(tool, "nothing"),))
    door, _ = gate(StandIn(), clock=Clock())
    outcomes = [door.call(tool, {"path": "x"}, Call()) for _ in range(allowed + 1)]
    assert [outcome.error for outcome in outcomes[:allowed]] == [None] * allowed
    assert error(outcomes[-1])["details"]["tool"] == tool


@pytest.mark.parametrize("settings", [Settings(rate_limits_per_minute="read_file=0"), Settings(rate_burst_minutes=0)])
def test_a_limit_of_zero_is_none(settings: Settings) -> None:
    door, _ = gate(StandIn(settings=settings), clock=Clock())
    assert not any(door.call("read_file", {"path": "src/auth.py"}, Call()).reply.is_error for _ in range(600))


def test_a_limit_for_a_tool_that_does_not_exist_is_told_once() -> None:
    settings = Settings(rate_limits_per_minute="read_fiel=20, write_file=3")
    door, lines = gate(StandIn(settings=settings))
    for _ in range(2):
        door.call("read_file", {"path": "a.py"}, Call())
    assert [line["why"] for line in lines if line["event"] == "settings"] == [
        "rate_limits_per_minute: no tool is called read_fiel"
    ]


def test_the_name_it_is_called_by_does_not_change_its_limit() -> None:
    settings = Settings(rate_limits_per_minute="read_file=1", rate_burst_minutes=3)
    door, _ = gate(StandIn(settings=settings), clock=Clock())
    path = {"path": "src/auth.py"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", path), ("get_file", path), ("call_tool", {"name": "read_file", "arguments": path}),
        ("read_file", path),
    ]  # fmt: skip
    assert [door.call(*each, Call()).reply.is_error for each in calls] == [False, False, False, True]


# -- slow calls, canceled calls, side by side ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "took_s", "slow"),
    [
        ({"path": "a.py"}, 0.4, False), ({"path": "a.py"}, 0.6, True),
        ({"path": "a.py", "includeDeps": True}, 1.9, False), ({"path": "a.py", "include_deps": "true"}, 2.1, True),
    ],
)  # fmt: skip
def test_a_call_over_its_maximum_time_is_reported(arguments: dict[str, Any], took_s: float, slow: bool) -> None:
    clock = Clock()

    class Slow(StandIn):
        def read(self, path: str, **lines: Any) -> Any:
            clock.now = took_s
            return super().read(path, **lines)

    door, lines = gate(Slow(), clock=clock)
    assert not door.call("read_file", arguments, Call()).reply.is_error
    assert lines[-1].get("slow", False) is slow
    assert door.metrics.rows()["read_file"].get("slow", 0) == slow
    assert lines[-1]["ms"] == pytest.approx(took_s * 1000)


def test_a_call_that_is_cancelled_before_it_begins_never_reaches_the_engine() -> None:
    engine = StandIn()
    door, _ = gate(engine)
    call = Call()
    call.cancel.set()
    assert code(door.call("codebase_retrieval", {"query": "q"}, call)) == "CANCELLED"
    assert engine.queries == []


# -- projects ---------------------------------------------------------------------------------------------------------


def test_the_project_is_taken_out_of_the_arguments_and_chooses_the_engine() -> None:
    lines: list[dict[str, Any]] = []
    engines: dict[str, Any] = {"": StandIn(text="none"), "api": StandIn(text="of api"), "web": StandIn(text="of web")}
    door = ToolDispatcher(engines.__getitem__, log=lines.append)
    read = {"path": "a.py", "project": "web"}
    assert "of web" in door.call("read_file", read, Call()).reply.text
    assert lines[-1]["project"] == "web"
    assert "of web" in door.call("call_tool", {"name": "read_file", "arguments": read}, Call()).reply.text
    around = {"name": "read_file", "arguments": {"path": "a.py"}, "project": "api"}
    assert "of api" in door.call("call_tool", around, Call()).reply.text
    assert "none" in door.call("read_file", {"path": "a.py", "project": None}, Call()).reply.text
    assert code(door.call("read_file", {"path": "a.py", "project": 3}, Call())) == "INVALID_ARGUMENT"


def test_one_project_may_be_named_and_no_other() -> None:
    engine: Any = StandIn()
    door = ToolDispatcher(single_engine(engine))
    assert not door.call("read_file", {"path": "a.py", "project": engine.root.name}, Call()).reply.is_error
    refused = error(door.call("read_file", {"path": "a.py", "project": "other"}, Call()))
    assert refused["details"]["valid"] == [engine.root.name]


# -- the mask ---------------------------------------------------------------------------------------------------------

SECRET = "gh" + "p_" + "q8Zt2Lw0Xv5Rb7Nc4Md9Kf1Hs6Jg3Pa0Ty8W"


def test_whatever_leaves_passes_the_mask_errors_too() -> None:
    door, _ = gate(StandIn(hits=(hit(text=f"key = {SECRET!r}"),), text=f"key = {SECRET!r}"))
    said = [
        door.call("codebase_retrieval", {"query": "q"}, Call()),
        door.call("codebase_retrieval", {SECRET: "q"}, Call()),
        door.call("read_file", {"path": "a.py"}, Call()),
        door.call(SECRET, {}, Call()),
    ]
    assert not any(SECRET in outcome.reply.text for outcome in said)
    assert all("[masked github token]" in outcome.reply.text for outcome in said)
    assert door.redact(SECRET) == "[masked github token]"


def test_what_the_mask_cannot_read_is_held_back() -> None:
    def broken(text: str) -> RedactedText:
        raise RecursionError("too deep")

    door, lines = gate(StandIn(text="hunter2"), redact=broken)
    outcome = door.call("read_file", {"path": "a.py"}, Call())
    assert outcome.reply.is_error
    assert error(outcome)["code"] == "INTERNAL"
    assert "hunter2" not in outcome.reply.text
    assert [line["event"] for line in lines] == ["bug", "call"]


def test_a_reply_says_how_many_secrets_it_masked_and_stays_json_where_it_was() -> None:
    door, _ = gate(StandIn(hits=(hit(text=f"key = {SECRET!r}"),), text=f"a\nkey = {SECRET!r}\nb"))
    found = json.loads(door.call("codebase_retrieval", {"query": "q"}, Call()).reply.text)
    assert (found["masked"], found["total"]) == (1, 1)
    lines = door.call("read_file", {"path": "a.py"}, Call()).reply.text.split("\n")
    assert lines[1:] == ["a", "key = '[masked github token]'", "b", "… 1 secret masked"]
    assert door.metrics.rows()["read_file"]["masked"] == 1
    door, _ = gate(StandIn())
    assert "masked" not in json.loads(door.call("codebase_retrieval", {"query": "q"}, Call()).reply.text)


# -- whatever is asked ------------------------------------------------------------------------------------------------

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
    | st.sampled_from(["src/auth.py", "login", "../..", "a\0b", "\ud800", "[", "{", "(a+)+$", "10**5000", "true", "5", "*", ""])
    | st.sampled_from([10**400, -(10**4000), float("nan"), float("inf"), "x" * 100_000, "[" * 50_000, "," * 50_000])
)  # fmt: skip
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
NAMES = sorted({name for each in tools.ALL for name in (each.name, *each.aliases)})
KEYS = sorted(
    {parameter.name for each in tools.ALL for parameter in each.parameters} | {"project", "filePath", "nonsense"}
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolDispatcher]:
    from context_engine.engine import Engine

    place = tmp_path_factory.mktemp("asked")
    root = place / "asked"
    root.mkdir()
    (root / ".git").mkdir()
    (root / "src").mkdir()
    (root / "src" / "auth.py").write_text("import os\n\n\ndef login(user):\n    return os.getenv(user)\n")
    settings = Settings(cache_folder=place / "cache", workers=0, watch=False, rate_burst_minutes=0)
    with Engine.open(root, settings=settings) as engine:
        engine.index.update()
        yield ToolDispatcher(single_engine(engine))


def holds(outcome: Any) -> None:
    """What is true of every outcome, whatever was asked."""
    text = outcome.reply.text
    assert len(text) <= 36_000
    text.encode("utf-8")
    assert outcome.reply.is_error == (outcome.error is not None)
    if outcome.error:
        assert outcome.error.code != "INTERNAL", text
        assert text.startswith(f"{outcome.error.code}: "), text


@given(st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), st.dictionaries(
    st.sampled_from([each.name for each in tools.find(name).parameters]), ANYTHING, max_size=4))))  # fmt: skip
def test_any_value_for_the_arguments_of_a_tool_ends_in_a_reply(
    real: ToolDispatcher, asked: tuple[str, dict[str, Any]]
) -> None:
    holds(real.call(*asked, Call()))
    holds(real.call("call_tool", {"name": asked[0], "arguments": asked[1]}, Call()))


HUGE: dict[str, Any] = {
    "a text of a megabyte": "x" * 1_000_000,
    "a megabyte of commas": "," * 1_000_000,
    "a megabyte of brackets": "[" * 1_000_000,
    "a list of a million": ["x"] * 1_000_000,
    "a number of 5,000 digits": 10**5_000,
    "nothing but lone surrogates": "\ud800" * 100,
}


@pytest.mark.parametrize("tool", tools.ALL, ids=lambda each: each.name)
def test_no_argument_of_any_tool_takes_something_huge(real: ToolDispatcher, tool: Tool) -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    for value in [*HUGE.values(), deep, {"x": deep}]:
        holds(real.call(tool.name, {parameter.name: value for parameter in tool.parameters}, Call()))
    holds(real.call(tool.name, {"y" * 1_000_000: 1, **{f"z{number}": 1 for number in range(1_000)}}, Call()))
    holds(real.call("z" * 1_000_000, {}, Call()))


def test_reading_tools_run_side_by_side() -> None:
    both = threading.Barrier(2, timeout=60)

    class Meeting(StandIn):
        def search_for(self, query: Any) -> Any:
            both.wait()  # passes only when two calls are inside at once
            return super().search_for(query)

    door, _ = gate(Meeting())
    outcomes: list[Any] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(door.call("codebase_retrieval", {"query": "q"}, Call())))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [outcome.reply.is_error for outcome in outcomes] == [False, False]
