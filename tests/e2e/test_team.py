"""A team whose servers run on two machines: each has its own work trees and caches, and what one of them writes the other one knows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from typing import Any

import pytest

from tests.support.databases import forbid, new_database
from tests.support.sharing import Worker, place, worker
from tests.support.trees import commit, tree
from tests.support.waiting import until

PLAN = {"goal": "Money in cents", "steps": [{"title": "Count in cents", "acceptance_criteria": ["no float is left"]}]}


@pytest.fixture(scope="module")
def address() -> str:
    return new_database()


@pytest.fixture(scope="module")
def machines(address: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Worker, Worker]]:
    folder = tmp_path_factory.mktemp("team")
    here, there = place(folder / "here"), place(folder / "there")
    tree(here.folder / "till", {"till/cents.py": "def cents(price):\n    return eval(price)\n"})
    commit(here.folder / "till", "Cents")
    shutil.rmtree(there.folder / "till")
    shutil.copytree(here.folder / "till", there.folder / "till", symlinks=True)
    shared = {"CTX_STORE_URL": address, "CTX_STORE_RECORDS": "1"}
    with worker(here, **shared) as one, worker(there, **shared) as two:
        yield one, two


def call(machine: Worker, tool: str, token: str = "writer", **arguments: Any) -> dict[str, Any]:
    return json.loads(machine.call(token, tool, project="till", **arguments))


def soon(machine: Worker, tool: str, wanted: str, **arguments: Any) -> str:
    """What a machine says as soon as it has heard of something: it looks once a second."""

    def look() -> str:
        said = machine.call("writer", tool, project="till", **arguments)
        return said if wanted in said else ""

    return until(look)


def test_a_plan_made_here_is_approved_there_and_carried_out_here(machines: tuple[Worker, Worker]) -> None:
    here, there = machines
    plan_id = call(here, "save_plan", plan=PLAN, name="Cents")["plan_id"]
    request_id = call(there, "request_approval", plan_id=plan_id)["request"]["id"]
    soon(here, "load_plan", request_id, plan_id=plan_id, include_execution=True)
    call(there, "respond_approval", request_id=request_id, action="approve")
    again = call(here, "respond_approval", request_id=request_id, action="reject")
    assert again["error"]["code"] == "CONFLICT"
    call(here, "start_step", plan_id="Cents", step_number=1)
    assert call(there, "start_step", plan_id="Cents", step_number=1)["error"]["code"] == "CONFLICT"
    call(here, "complete_step", plan_id="Cents", step_number=1, criteria_met=["1"])
    soon(there, "list_plans", "completed")


def test_what_is_remembered_there_is_found_here(machines: tuple[Worker, Worker]) -> None:
    here, there = machines
    call(there, "add_memory", content="Badgers count the cellar on Mondays.", category="facts")
    assert "Badgers" in soon(here, "list_memories", "Badgers", query="who counts the cellar")


def test_a_review_that_ran_there_is_told_here(machines: tuple[Worker, Worker]) -> None:
    here, there = machines
    started = call(there, "reactive_review_pr", commit_hash="HEAD", base_ref="HEAD~1")
    told = soon(here, "get_review_status", '"completed"', session_id=started["session_id"], wait_s=20)
    assert "eval" in told


def test_without_the_database_both_read_and_neither_writes(machines: tuple[Worker, Worker], address: str) -> None:
    here, there = machines
    with forbid(address):
        refused = call(here, "add_memory", content="Nobody will read this.", category="facts")["error"]
        assert (refused["code"], refused["retryable"]) == ("STORE_UNAVAILABLE", True)
        assert "Cents" in there.call("writer", "list_plans", project="till")
    written = (here.place.folder / "till/.context-engine/memories").rglob("*.md")
    assert [path for path in written if "Nobody" in path.read_text()] == []
