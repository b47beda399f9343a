"""The gate: every call ends in a reply, is counted, and leaves one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from context_engine.errors import AccessDenied, UnsuitableRoot
from context_engine.server.gate import LOGS, Gate
from context_engine.server.metrics import Metrics
from context_engine.settings import Settings
from context_engine.tools import Call
from tests.tools_stand_in import StandIn, hit


def gate(engine: StandIn, **seams: Any) -> tuple[Gate, list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    return Gate(lambda: engine, log=lines.append, **seams), lines  # ty: ignore[invalid-argument-type] - a stand-in


def test_a_call_leaves_one_line_with_tool_time_outcome_and_size() -> None:
    door, lines = gate(StandIn())
    outcome = door.call("get_file", {"path": "src/auth.py"}, Call())
    assert lines[0].pop("ms") >= 0
    assert lines == [{"event": "call", "tool": "read_file", "ok": True, "chars": len(outcome.reply.text)}]


def test_an_error_becomes_a_reply_and_is_counted_by_its_code() -> None:
    door, lines = gate(StandIn())
    outcome = door.call("read_file", {"path": "missing.py"}, Call())
    assert outcome.reply.is_error
    assert json.loads(outcome.reply.text)["error"]["code"] == "FILE_NOT_FOUND"
    assert lines[0]["error"] == "FILE_NOT_FOUND"
    assert door.metrics.rows()["read_file"]["errors"] == {"FILE_NOT_FOUND": 1}


class Broken(StandIn):
    def search(self, query: Any) -> Any:
        raise ZeroDivisionError("division by zero")


def test_a_bug_in_a_tool_is_told_as_ours_and_the_trace_goes_to_the_log() -> None:
    door, lines = gate(Broken())
    outcome = door.call("codebase_retrieval", {"query": "q"}, Call())
    error = json.loads(outcome.reply.text)["error"]
    assert error["code"] == "INTERNAL"
    assert "ZeroDivisionError" in error["message"]
    assert "Traceback" in lines[0]["trace"]


def test_a_workspace_that_cannot_be_opened_is_an_error_of_each_call() -> None:
    def unopened() -> Any:
        raise UnsuitableRoot("/ is no workspace", suggestion="Start with --root.")

    outcome = Gate(unopened).call("index_status", {}, Call())
    assert json.loads(outcome.reply.text)["error"]["suggestion"] == "Start with --root."


def test_whatever_leaves_passes_the_mask_errors_too() -> None:
    door, _ = gate(StandIn(hits=(hit(text="password = 'hunter2'"),)), mask=lambda text: text.replace("hunter2", "***"))
    assert "hunter2" not in door.call("codebase_retrieval", {"query": "q"}, Call()).reply.text
    assert "hunter2" not in door.call("codebase_retrieval", {"hunter2": "q"}, Call()).reply.text


def test_a_call_that_is_not_admitted_never_reaches_the_engine() -> None:
    def refuse(name: str) -> None:
        raise AccessDenied(f"{name} is switched off")

    engine = StandIn()
    door, _ = gate(engine, admit=refuse)
    assert door.call("codebase_retrieval", {"query": "q"}, Call()).reply.is_error
    assert engine.queries == []


def test_a_reply_over_the_limit_is_refused_rather_than_sent() -> None:
    engine = StandIn(settings=Settings(result_chars_max=2_000))
    door, _ = gate(engine)
    reply = door.call("tool_manifest", {"schemas": True}, Call()).reply
    assert json.loads(reply.text)["error"]["code"] == "TOO_LARGE"


def test_a_lone_surrogate_never_reaches_the_wire() -> None:
    door, _ = gate(StandIn(hits=(hit(text="caf\udce9"),)))
    door.call("codebase_retrieval", {"query": "q"}, Call()).reply.text.encode("utf-8")


def test_index_status_shows_the_metrics_of_the_calls_before() -> None:
    door, _ = gate(StandIn())
    door.call("trace", {"symbol": "login"}, Call())
    stats = json.loads(door.call("index_status", {"include_stats": True}, Call()).reply.text)["stats"]
    assert stats["trace"]["calls"] == stats["trace"]["ok"] == 1
    assert stats["trace"]["p50_ms"] <= stats["trace"]["p99_ms"]


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
    LOGS["warning"]({"event": "call", "ok": True})
    LOGS["warning"]({"event": "call", "ok": False})
    LOGS["off"]({"event": "call", "ok": False})
    assert capsys.readouterr().err == '{"event": "call", "ok": false}\n'
