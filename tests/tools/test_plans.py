"""The tools of the desk and of steps answer in JSON with the names of the contract, and ask a person where one can be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import (
    Conflict,
    ContextEngineError,
    NeedsApproval,
    UnsupportedHost,
)
from context_engine.tools.plan_step_tools import (
    complete_step,
    fail_step,
    request_approval,
    respond_approval,
    start_step,
    view_progress,
)
from context_engine.tools.plan_tools import delete_plan, list_plans, load_plan, rollback_plan, save_plan, view_history
from context_engine.tools.tool import Call, Tool, UserAnswer, UserQuestion
from tests.support.desks import PLANS, Desks
from tests.support.planned import detailed

CENTS = {
    "goal": "Money in cents",
    "steps": [
        {"title": "Types", "acceptance_criteria": ["no floats"], "files_to_create": ["src/cents.py"]},
        {"title": "Bank", "depends_on": [1], "acceptance_criteria": ["tests pass"]},
        {"title": "Shop", "depends_on": [1], "acceptance_criteria": ["tests pass"]},
    ],
    "risks": [{"issue": "rounding", "mitigation": "tests", "likelihood": "medium"}],
}


@pytest.fixture
def here(tmp_path: Path) -> Desks:
    return Desks(tmp_path)


def call(here: Desks, tool: Tool, answered: UserAnswer | None = None, /, **arguments: object) -> dict[str, Any]:
    asked: list[UserQuestion] = []

    def ask(question: UserQuestion) -> UserAnswer | None:
        asked.append(question)
        return answered

    reply = json.loads(here.run(tool, Call(ask=ask), **detailed(tool, arguments)).text)
    assert reply["ok"] is True
    return reply | ({"asked": [question.text for question in asked]} if asked else {})


def saved(here: Desks, **told: object) -> str:
    return call(here, save_plan, plan=CENTS, name="Cents", **told)["plan_id"]


def test_a_plan_is_saved_loaded_and_listed(here: Desks) -> None:
    reply = call(here, save_plan, plan=json.dumps(CENTS), name="Cents", tags="money, api")
    assert (reply["success"], reply["version"]) == (True, 1)
    assert reply["file_path"] == f"{PLANS}/{reply['plan_id']}/v0001.json"
    loaded = call(Desks(here.folder), load_plan, name="cents")
    plan = loaded["plan"]
    assert (plan["id"], plan["version"], plan["goal"]) == (reply["plan_id"], 1, "Money in cents")
    assert [(row["step_number"], row["depends_on"], row["blocks"]) for row in plan["steps"]] == [
        *((1, [], [2, 3]), (2, [1], []), (3, [1], []))
    ]
    assert (loaded["versions"], loaded["tags"], loaded.get("approvals", [])) == ([1], ["money", "api"], [])
    assert loaded["execution"]["ready_steps"] == [1]
    assert set(loaded["drift"]) == {"files_missing", "files_changed_since_plan", "commits_since"}
    listed = call(here, list_plans, status="ready", tags=["MONEY"])
    (row,) = listed["plans"]
    assert row.keys() >= {"id", "name", "goal", "status", "version", "step_count", "progress", "updated_at", "tags"}
    assert (listed["count"], listed["total"], row["step_count"], row["progress"]) == (1, 1, 3, 0.0)


def test_saving_again_needs_overwrite_and_says_when_nothing_changed(here: Desks) -> None:
    plan_id = saved(here)
    plan = call(here, load_plan, plan_id=plan_id)["plan"]
    with pytest.raises(Conflict, match="already"):
        here.run(save_plan, plan=plan)
    assert call(here, save_plan, plan=plan, overwrite=True)["unchanged"] is True
    plan["steps"][0]["title"] = "Whole types"
    assert call(here, save_plan, plan=plan, overwrite="true", expectedVersion="1")["version"] == 2
    with pytest.raises(Conflict):
        here.run(save_plan, plan=plan, overwrite=True, expected_version=1)


def test_a_step_that_starts_brings_the_code_it_is_about(here: Desks) -> None:
    here.write("src/cents.py", "TOTAL = 1.5\n")
    plan = {"goal": "Cents", "steps": [{"title": "Types", "files_to_modify": ["src/cents.py"], "checks": ["pytest"]}]}
    call(here, save_plan, plan=plan, name="Cents")
    started = call(here, start_step, plan_id="Cents", step_number=1)
    (file,) = started["packet"]["files"]
    assert (file["path"], file["change"], file["snippets"][0]["text"]) == ("src/cents.py", "modify", "TOTAL = 1.5\n")
    assert started["step"]["checks"] == ["pytest"]
    assert not {"title", "checks", "status", "acceptance_criteria"} & started["packet"].keys()


def test_a_step_starts_without_its_packet_where_that_is_not_wanted_or_cannot_be_made(
    here: Desks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise UnsupportedHost("nobody can read the tokenizer")

    saved(here)
    assert "packet" not in call(here, start_step, plan_id="Cents", step_number=1, include_packet=False)
    call(here, complete_step, plan_id="Cents", step_number=1, criteria_met=["1"])
    monkeypatch.setattr(here.plans, "sources", broken)
    started = call(here, start_step, plan_id="Cents", step_number=2)
    assert started["step"]["status"] == "in_progress"
    assert started["warnings"] == ["there is no packet: nobody can read the tokenizer"]


def test_a_plan_goes_from_start_to_end(here: Desks) -> None:
    plan_id = saved(here)
    started = call(here, start_step, plan_id="Cents", step_number=1, actor="Ada")
    assert (started["step"]["status"], started["step"]["actor"]) == ("in_progress", "Ada")
    done = call(
        here,
        complete_step,
        planId=plan_id,
        stepNumber="1",
        filesModified="src/cents.py,src/more.py",
        criteriaMet="no floats",
    )
    assert (done["unlocked"], done["progress"]["percentage"], done["plan_status"]) == ([2, 3], 33.3, "executing")
    assert (done["unexpected_files"], done["missing_files"]) == (["src/more.py"], [])
    assert "unmet_criteria" not in done
    call(here, start_step, plan_id=plan_id, step_uid="s2")
    failed = call(here, fail_step, plan_id=plan_id, step_number=2, error="no bank")
    assert (failed["step"]["error"], failed["retries_left"], failed["blocked"]) == ("no bank", 3, [])
    skipped = call(here, fail_step, plan_id=plan_id, step_number=2, skip=True)
    assert skipped["skipped"] == [2]
    call(here, start_step, plan_id=plan_id, step_number=3)
    done = call(here, complete_step, plan_id=plan_id, step_number=3, criteria_met=["1: seen"])
    assert done["plan_status"] == "completed"
    progress = call(Desks(here.folder), view_progress, plan_id=plan_id)
    assert (progress["status"], progress["percentage"]) == ("completed", 100.0)
    assert progress["counts"] == {"completed": 2, "skipped": 1}
    assert [row["status"] for row in progress["steps"]] == ["completed", "skipped", "completed"]


def test_a_step_is_answered_with_what_became_of_it_and_what_to_do_next(here: Desks) -> None:
    saved(here)

    def brief(tool: Tool, **arguments: object) -> list[str]:
        return here.run(tool, Call(reader="agent"), plan_id="Cents", **arguments).text.split("\n")

    head, step, *_ = brief(start_step, step_number=1, include_packet=False)
    assert head.endswith(" · plan_status executing · done 0 of 3")
    assert step == "step:"
    head, step, *_, last = brief(fail_step, step_number=1, error="it rains")
    assert (step, " · plan_status failed" in head) == ("step: step_number 1, status failed", True)
    assert last.startswith("next: fail_step 1 with retry: true")
    assert brief(fail_step, step_number=1, retry=True)[-1] == "next: start_step 1"
    assert brief(view_progress)[-1] == "next: start_step 1"
    assert " · done 0 of " in brief(start_step, step_number=1, include_packet=False)[0]
    assert brief(view_progress)[-1] == "next: complete_step or fail_step 1"


def test_progress_has_the_names_of_the_contract_before_anything_has_started(here: Desks) -> None:
    saved(here)
    progress = call(here, view_progress, plan_id="Cents")
    assert progress.keys() >= {
        *("plan_id", "status", "steps", "current_steps", "ready_steps", "blocked_steps", "percentage"),
        *("blocked", "critical_path_remaining", "next", "counts"),
    }
    assert (progress["status"], progress["ready_steps"], progress["next"]) == ("ready", [1], 1)
    assert "steps" not in call(here, view_progress, plan_id="Cents", include_steps=False)
    assert "Types" in here.run(view_progress, plan_id="Cents", format="text", include_steps=True).text


def test_history_tells_of_every_version_and_rollback_adds_one(here: Desks) -> None:
    plan_id = saved(here)
    plan = call(here, load_plan, plan_id=plan_id)["plan"]
    call(here, save_plan, plan=plan | {"goal": "Money in euros"}, overwrite=True, reason="asked for")
    back = call(here, rollback_plan, plan_id=plan_id, target_version=1, reason="no euros")
    assert (back["new_version"], back["plan"]["goal"], back["plan"]["version"]) == (3, "Money in cents", 3)
    assert back["reconciled"] == {"kept_completed": [], "lost": [], "reopened": []}
    history = call(here, view_history, plan_id="Cents", include_events=True)
    assert [(row["version"], row["change_type"], row.get("reason")) for row in history["versions"]] == [
        *((3, "rolled_back", "no euros"), (2, "modified", "asked for"), (1, "created", None))
    ]
    assert all(row["created_at"] and row["change_summary"] and row["author"] for row in history["versions"])
    assert [event["kind"] for event in history["events"]] == ["plan_created", "plan_changed", "rolled_back"]
    (newest,) = call(here, view_history, plan_id="Cents", limit=1, include_plans=True)["versions"]
    assert newest["plan"]["goal"] == "Money in cents"
    assert call(here, view_history, plan_id="Cents", until="2026-11-20")["versions"] == []
    assert "no euros" in here.run(view_history, plan_id="Cents", format="text").text


def test_a_deleted_plan_says_where_it_lies(here: Desks) -> None:
    plan_id = saved(here)
    deleted = call(here, delete_plan, plan_id="cents")
    assert deleted["trashed_to"].startswith(f"{PLANS}/.trash/{plan_id}-")
    assert call(here, list_plans)["next"] == "There are no plans yet: create_plan makes one."
    saved(here)
    assert call(here, delete_plan, plan_id="Cents", purge=True)["purged"] is True


# -- approvals ---------------------------------------------------------------------------------------------------------


def test_a_request_holds_what_a_person_wants_to_know(here: Desks) -> None:
    plan_id = saved(here)
    request = call(here, request_approval, plan_id="Cents", step_numbers="1,2", note="soon")["request"]
    assert request.keys() >= {
        *("id", "plan_id", "plan_version", "plan_hash", "type", "steps", "summary", "details_md"),
        *("affected_files", "risks", "created_at", "status"),
    }
    assert (request["plan_id"], request["type"], request["steps"]) == (plan_id, "step_group", [1, 2])
    assert (request["affected_files"], request["risks"]) == (["src/cents.py"], ["rounding"])
    planned = {"path": "src/cents.py", "change": "create", "steps": [1]}
    assert request["diffstat"] == {"summary": "1 file created", "files": [planned]}
    assert (request["status"], request["note"]) == ("pending", "soon")


def test_the_person_behind_the_client_is_asked_at_once_and_remembered_as_who_decided(here: Desks) -> None:
    saved(here)
    reply = call(here, request_approval, UserAnswer("accept", "approve", "go on"), plan_id="Cents")
    assert (reply["decision"], reply["plan_status"], reply["next_steps"]) == ("approved", "approved", [1])
    assert (reply["request"]["decided_by"], reply["request"]["comment"]) == ("user", "go on")
    assert "version 1" in reply["asked"][0] and "Money in cents" in reply["asked"][0]
    changes = call(here, request_approval, UserAnswer("accept", "request_modification", "Bank first"), plan_id="Cents")
    assert (changes["decision"], changes["plan_version"]) == ("modification_requested", 2)


@pytest.mark.parametrize("answered", [None, UserAnswer("decline"), UserAnswer("cancel")])
def test_without_an_answer_the_request_stays_pending_and_asking_again_makes_no_second_one(
    here: Desks, answered: UserAnswer | None
) -> None:
    saved(here)
    first = call(here, request_approval, answered, plan_id="Cents")
    again = call(here, request_approval, answered, plan_id="Cents")
    assert (first["request"]["status"], "decision" in first) == ("pending", False)
    assert (again["request"]["id"], again["is_new"]) == (first["request"]["id"], False)
    assert again["asked"] == first["asked"], "the question comes out the same, word for word"
    quiet = call(here, request_approval, answered, plan_id="Cents", ask_user=False)
    assert "asked" not in quiet


def test_an_agent_decides_and_says_for_whom(here: Desks) -> None:
    saved(here)
    request_id = call(here, request_approval, plan_id="Cents")["request"]["id"]
    done = call(
        here, respond_approval, request_id=request_id, action="approve", decided_by="user", comment="she said so"
    )
    assert (done["success"], done["request"]["status"]) == (True, "approved")
    assert done["request"]["decided_by"] == "agent for user", "what a caller says about itself is no proof"
    with pytest.raises(Conflict):
        here.run(respond_approval, request_id=request_id, action="reject")


def test_where_a_person_must_decide_the_agents_call_asks_one(tmp_path: Path) -> None:
    here = Desks(tmp_path, person_needed=True)
    saved(here)
    request_id = call(here, request_approval, plan_id="Cents")["request"]["id"]
    with pytest.raises(NeedsApproval, match="person"):
        here.run(respond_approval, request_id=request_id, action="approve")
    done = call(here, respond_approval, UserAnswer("accept", "reject", "no"), request_id=request_id, action="approve")
    assert (done["request"]["status"], done["request"]["decided_by"]) == ("rejected", "user")


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_long_plan_is_shown_in_parts_that_fit(here: Desks) -> None:
    steps = [
        {"title": f"Step {number}", "description": "x" * 300, "acceptance_criteria": ["y"]} for number in range(500)
    ]
    plan_id = call(here, save_plan, plan={"goal": "Long", "steps": steps})["plan_id"]
    seen: list[str] = []
    from_step: int | None = 1
    while from_step:
        text = here.run(load_plan, plan_id=plan_id, from_step=from_step, include_execution=False).text
        assert len(text) <= here.settings.result_chars_max
        reply = json.loads(text)
        seen += [row["title"] for row in reply["plan"]["steps"]]
        assert reply["steps_total"] == 500
        from_step = reply.get("next_step")
    assert seen == [step["title"] for step in steps]
    for tool, more in ((view_progress, {}), (start_step, {"step_number": 1}), (view_history, {"include_plans": True})):
        assert len(here.run(tool, plan_id=plan_id, **more).text) <= here.settings.result_chars_max
    assert len(here.run(load_plan, plan_id=plan_id).text) <= here.settings.result_chars_max


def test_a_step_that_has_no_room_even_alone_is_shown_by_its_beginning(here: Desks) -> None:
    long = {"title": "Long", "description": "x" * 90_000, "acceptance_criteria": ["y" * 900] * 80, "checks": ["z"]}
    plan_id = call(here, save_plan, plan={"goal": "Long", "steps": [long, {"title": "Short"}]})["plan_id"]
    text = here.run(load_plan, plan_id=plan_id).text
    assert len(text) <= here.settings.result_chars_max
    (first,) = json.loads(text)["plan"]["steps"]
    assert (first["title"], first["checks"], first["cut"]) == ("Long", ["z"], ["acceptance_criteria", "description"])
    assert first["description"].startswith("xxx") and first["description"].endswith("…")
    rest = call(here, load_plan, plan_id=plan_id, from_step=json.loads(text)["next_step"])
    assert [row["title"] for row in rest["plan"]["steps"]] == ["Short"]


def test_a_long_list_is_paged(here: Desks) -> None:
    for number in range(7):
        call(here, save_plan, plan={"goal": "x" * 100, "steps": []}, name=f"{number}")
    here.settings.result_chars_max = 1_500
    names: list[str] = []
    cursor = ""
    for _ in range(9):
        page = call(here, list_plans, cursor=cursor, sort_by="name", sort_order="asc")
        names += [row["name"] for row in page["plans"]]
        cursor = page.get("next_cursor", "")
        if not cursor:
            break
    assert names == [f"{number}" for number in range(7)]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (save_plan, {"plan": 7}),
        (save_plan, {"plan": "{"}),
        (
            save_plan,
            {"plan": {"goal": "g", "steps": [{"title": "a", "depends_on": [2]}, {"title": "b", "depends_on": [1]}]}},
        ),
        (save_plan, {"plan": {"goal": "g", "steps": [{"uid": "a", "title": "a"}, {"uid": "a", "title": "b"}]}}),
        (load_plan, {}),
        (load_plan, {"plan_id": "no"}),
        (load_plan, {"plan_id": "Cents", "version": 0}),
        (list_plans, {"status": "odd"}),
        (list_plans, {"limit": 201}),
        (list_plans, {"cursor": "x"}),
        (delete_plan, {"plan_id": "../.."}),
        (view_history, {"plan_id": "Cents", "since": "soon"}),
        (rollback_plan, {"plan_id": "Cents", "target_version": 9}),
        (rollback_plan, {"plan_id": "Cents", "target_version": 1, "execution": "shrug"}),
        (request_approval, {"plan_id": "Cents", "step_numbers": [1, 4]}),
        (respond_approval, {"request_id": "apr_no", "action": "approve"}),
        (start_step, {"plan_id": "Cents"}),
        (start_step, {"plan_id": "Cents", "step_number": 4}),
        (start_step, {"plan_id": "Cents", "step_number": 2}),
        (complete_step, {"plan_id": "Cents", "step_number": 1}),
        (complete_step, {"plan_id": "Cents", "step_number": 1, "evidence": 7}),
        (fail_step, {"plan_id": "Cents", "step_number": 1}),
        (view_progress, {"plan_id": "Nickels"}),
    ],
)
def test_a_refusal_names_the_next_step_and_writes_nothing(here: Desks, tool: Tool, arguments: dict[str, Any]) -> None:
    saved(here)
    before = {path: path.read_bytes() for path in here.folder.rglob("v*.json")}
    before |= {path: path.read_bytes() for path in here.folder.rglob("events.jsonl")}
    with pytest.raises(ContextEngineError) as refused:
        here.run(tool, **arguments)
    assert refused.value.suggestion
    after = {path: path.read_bytes() for name in ("v*.json", "events.jsonl") for path in here.folder.rglob(name)}
    assert after == before
