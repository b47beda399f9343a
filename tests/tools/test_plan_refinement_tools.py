"""refine_plan, visualize_plan and compare_plan_versions as an agent calls them, on plans that are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.context.assist import SecondPassRunner, find_problem
from context_engine.engine import Engine
from context_engine.errors import ContextEngineError, Cycle, InvalidArgument, PlanNotFound, PreconditionFailed
from context_engine.plans.plan_diff import FieldChange, comparable_value
from context_engine.plans.plan_json import PROMISED, parse_plan, without_empty
from context_engine.text import estimate_tokens
from context_engine.tools.plan_creation_tools import refine_plan
from context_engine.tools.plan_step_tools import complete_step, execute_plan, start_step, view_progress
from context_engine.tools.plan_tools import (
    compare_plan_versions,
    list_plans,
    load_plan,
    save_plan,
    view_history,
    visualize_plan,
)
from context_engine.tools.tool import Call, Tool
from tests.support.engines import indexed, open_engine
from tests.support.planned import apply_changes, detailed, with_model
from tests.support.trees import repository

FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": "def price(item):\n    return item.cost * 2\n\n\ndef tax(sum):\n    return sum // 5\n",
    "shop/orders.py": "from shop.prices import price\n\n\ndef order(items):\n    return sum(map(price, items))\n",
    "web/bills.py": "from shop.prices import price, tax\n\n\ndef bill(item):\n    return price(item) + tax(price(item))\n",
    ".gitignore": ".context-engine/\n",
}
PLAN = {
    "goal": "Charge tax",
    "steps": [
        {"title": "Write tax", "files_to_modify": ["shop/prices.py"], "acceptance_criteria": ["rounds"]},
        {"title": "Use it", "files_to_modify": ["shop/orders.py", "web/bills.py"], "depends_on": [1]},
        {"title": "Ship it", "depends_on": [1, 2]},
    ],
    "questions_for_clarification": ["Which rate?"],
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = repository(tmp_path_factory.mktemp("shops") / "shop", FILES)
    with indexed(root, watch=False, flush=False) as engine:
        yield engine


@pytest.fixture
def shop(template: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(template, "second_pass", SecondPassRunner(), raising=False)
    return template


def told(made: Tool, engine: Engine, **arguments: Any) -> dict[str, Any]:
    return json.loads(made.call(engine, detailed(made, arguments), Call(session="agent")).text)


def text(made: Tool, engine: Engine, **arguments: Any) -> str:
    return made.call(engine, arguments, Call(session="agent")).text


def refused(kind: type[ContextEngineError], made: Tool, engine: Engine, **arguments: Any) -> ContextEngineError:
    with pytest.raises(kind) as caught:
        made.call(engine, arguments, Call(session="agent"))
    return caught.value


def kept(engine: Engine) -> str:
    return told(save_plan, engine, plan=PLAN)["plan_id"]


def on_disk(engine: Engine, plan_id: str) -> dict[str, bytes]:
    folder = Path(engine.root) / ".context-engine" / "plans" / plan_id
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# -- refine_plan ------------------------------------------------------------------------------------------------------


def test_a_refined_plan_is_the_next_version(shop: Engine) -> None:
    plan_id = kept(shop)
    found = told(refine_plan, shop, plan_id=plan_id, operations=[{"op": "remove_step", "step": 2}])
    assert (found["ok"], found["version"], found["persistence"]["version"]) == (True, 2, 2)
    assert [(step["step_number"], step["uid"]) for step in found["plan"]["steps"]] == [(1, "s1"), (2, "s3")]
    assert found["plan"]["steps"][1]["depends_on"] == [1]
    assert found["applied_operations"] == [{"op": "remove_step", "said": "removed step 2 'Use it'", "steps": ["s2"]}]
    assert found["diff"]["summary"] == "1 step removed (2), step 2 changed (depends_on)"
    versions = told(view_history, shop, plan_id=plan_id)["versions"]
    assert [(each["version"], each["change_type"]) for each in versions] == [(2, "refined"), (1, "created")]
    assert versions[0]["change_summary"] == "1 step removed (2), step 2 changed (depends_on)"


def test_feedback_in_words_stays_open_with_a_brief_and_the_schema_of_operations(shop: Engine) -> None:
    plan_id = kept(shop)
    found = told(
        refine_plan,
        shop,
        plan_id=plan_id,
        operations=[{"op": "remove_step", "step": 3}],
        feedback="make it nicer",
        focus_steps=[2],
        assist="host",
    )
    assert [step["title"] for step in found["plan"]["steps"]] == ["Write tax", "Use it"]
    assert (found["status"], found["open_feedback"]) == ("needs_refinement", ["steps 2: make it nicer"])
    assert "needs_refinement" in view_progress.call(shop, {"plan_id": plan_id}, Call()).text
    following = found["next"]
    assert following["tool"] == "refine_plan"
    assert following["arguments_template"]["plan_id"] == plan_id
    assert following["arguments_template"]["expected_version"] == 2
    assert "make it nicer" not in following["brief"], "it is in the reply"
    assert "2. Use it (after 1): shop/orders.py, web/bills.py" in following["brief"]
    assert estimate_tokens(following["brief"]) <= 2_000
    operations = {"op": "set_files", "step": 2, "add": ["shop/prices.py"]}, {"op": "forget_step"}
    assert [bool(find_problem({"operations": [row]}, following["schema"])) for row in operations] == [False, True]
    assert isinstance(told(refine_plan, shop, plan_id=plan_id, feedback="really?", assist="off")["next"], str)


def test_an_answer_closes_its_question_and_what_it_names_is_looked_up(shop: Engine) -> None:
    plan_id = kept(shop)
    found = told(refine_plan, shop, plan_id=plan_id, clarifications={"q1": "the one of `order` in shop/__init__.py"})
    assert (found["status"], found["plan"]["questions_for_clarification"]) == ("ready", [])
    assert found["warnings"] == ["shop/__init__.py, which an answer names, is in no step: add it with set_files"]


def test_a_file_that_is_not_there_is_rejected_and_nothing_kept(shop: Engine) -> None:
    plan_id = kept(shop)
    before = on_disk(shop, plan_id)
    found = told(
        refine_plan,
        shop,
        plan_id=plan_id,
        operations=[{"op": "set_files", "step": 1, "files_to_modify": ["shop/price.py"]}],
    )
    assert (found["ok"], found["status"], found["persistence"]) == (False, "draft_rejected", {"saved": False})
    assert "Did you mean shop/prices.py?" in found["validation"]["errors"][0]["suggestion"]
    assert on_disk(shop, plan_id) == before
    wrong = [{"op": "set_files", "step": 1, "files_to_modify": ["no.py"]}]
    shown = refine_plan.call(shop, {"plan_id": plan_id, "operations": wrong}, Call(reader="agent")).text
    assert shown.startswith("draft_rejected · ")
    assert "step 1 changes no.py" in shown


def test_a_draft_takes_the_place_of_a_plan_and_keeps_its_steps(shop: Engine) -> None:
    plan_id = kept(shop)
    told(refine_plan, shop, plan_id=plan_id, feedback="make it nicer")
    draft = {"goal": "Charge tax nicely", "steps": [{"title": "Write tax", "files_to_modify": ["shop/prices.py"]}, {"title": "Test it", "files_to_create": ["tests/test_tax.py"], "depends_on": [1]}]}  # fmt: skip
    found = told(refine_plan, shop, plan_id=plan_id, draft=draft, expected_version=2)
    assert (found["version"], found["meta"]["assist_used"]) == (3, "host")
    assert [step["uid"] for step in found["plan"]["steps"]] == ["s1", "s4"]
    assert found["open_feedback"] == []
    again = told(refine_plan, shop, plan_id=plan_id, draft=draft, expected_version=3)
    assert (again["version"], again["persistence"]["unchanged"]) == (3, True)
    assert len(told(view_history, shop, plan_id=plan_id)["versions"]) == 3


def test_a_draft_that_is_not_true_is_rejected_or_refused(shop: Engine) -> None:
    plan_id = kept(shop)
    found = told(
        refine_plan, shop, plan_id=plan_id, draft={"goal": "g", "steps": [{"title": "a", "files_to_modify": ["no.py"]}]}
    )
    assert (found["ok"], found["status"]) == (False, "draft_rejected")
    refused(Cycle, refine_plan, shop, plan_id=plan_id, draft={"goal": "g", "steps": [{"title": "a", "depends_on": 1}]})
    refused(InvalidArgument, refine_plan, shop, plan_id=plan_id, draft={"goal": "g"}, feedback="remove step 1")
    told(start_step, shop, plan_id=plan_id, step_number=1)
    told(complete_step, shop, plan_id=plan_id, step_number=1, force=True)
    other = {"goal": "g", "steps": [{"title": "Other", "uid": "s1"}]}
    refused(PreconditionFailed, refine_plan, shop, plan_id=plan_id, draft=other)
    assert told(load_plan, shop, plan_id=plan_id)["version"] == 1
    assert told(refine_plan, shop, plan_id=plan_id, draft=other, force_reopen=True)["version"] == 2
    assert told(load_plan, shop, plan_id=plan_id)["execution"]["ready_steps"] == [1]


def test_operations_take_up_the_feedback(shop: Engine) -> None:
    plan_id = kept(shop)
    told(refine_plan, shop, plan_id=plan_id, feedback="make it nicer")
    told(refine_plan, shop, plan_id=plan_id, clarifications={"q1": "the lower one"})
    assert told(load_plan, shop, plan_id=plan_id)["plan"]["open_feedback"] == ["make it nicer"]
    found = told(
        refine_plan, shop, plan_id=plan_id, operations=[{"op": "update_step", "step": 2, "title": "Use it nicely"}]
    )
    assert (found["status"], found["open_feedback"]) == ("ready", [])


def test_a_plan_with_open_feedback_is_called_ready_by_no_tool(shop: Engine) -> None:
    plan_id = kept(shop)
    told(refine_plan, shop, plan_id=plan_id, clarifications={"q1": "the lower one"})
    asked: dict[str, Any] = {"plan_id": plan_id}

    def statuses() -> set[str]:
        loaded = [told(load_plan, shop, **asked)["execution"]["status"]]
        brief = [told(view_progress, shop, **asked, include_steps=False), told(execute_plan, shop, **asked)]
        listed = [row["status"] for row in told(list_plans, shop)["plans"] if row["id"] == plan_id]
        return {*loaded, *listed, *(row["plan_status"] for row in brief)}

    assert statuses() == {"ready"}
    assert told(refine_plan, shop, **asked, feedback="step 1 is wrong")["status"] == "needs_refinement"
    assert statuses() == {"needs_refinement"}


def test_a_plan_is_read_without_empty_fields_that_no_document_promises_and_can_be_sent_back(shop: Engine) -> None:
    plan_id = kept(shop)
    loaded = told(load_plan, shop, plan_id=plan_id)
    assert without_empty(loaded["plan"], PROMISED) == loaded["plan"]
    assert parse_plan(loaded["plan"]).plan == shop.plans.repository.load(plan_id).plan
    shown = load_plan.call(shop, {"plan_id": plan_id}, Call(reader="agent")).text
    assert shown.startswith("# ")
    assert len(shown) < len(json.dumps(loaded)) / 2, "an agent reads the same in half of it"


def test_a_model_takes_up_what_is_left(shop: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = {"operations": [{"op": "update_step", "step": 1, "title": "Write tax nicely"}]}

    wrong = ({"operations": [{"op": "set_files", "step": step, "add": ["no.py"]}]} for step in (1, 9))
    model = with_model(shop, monkeypatch, *wrong, draft)
    plan_id = kept(shop)
    found = told(refine_plan, shop, plan_id=plan_id, feedback="make it nicer")
    assert (found["version"], found["meta"]["assist_used"], found["open_feedback"]) == (3, "model", [])
    assert (len(model.wrong), "make it nicer" in model.asked[0], find_problem(draft, model.schemas[0])) == (2, True, "")
    assert found["plan"]["provenance"] == "model"
    assert found["diff"]["from_version"] == 1
    risk = {"op": "add_risk", "issue": "It rounds"}
    tried = told(refine_plan, shop, plan_id=kept(shop), operations=[risk], feedback="make it nicer", auto_save=False)[
        "plan"
    ]
    assert ([row["issue"] for row in tried["risks"]], tried["steps"][0]["title"]) == (["It rounds"], "Write tax nicely")


def test_a_plan_in_hand_can_be_refined_without_being_kept(shop: Engine) -> None:
    before = len(list((Path(shop.root) / ".context-engine" / "plans").iterdir()))
    found = told(
        refine_plan, shop, current_plan=json.dumps(PLAN), operations=[{"op": "remove_step", "step": 3}], auto_save=False
    )
    assert [step["title"] for step in found["plan"]["steps"]] == ["Write tax", "Use it"]
    assert found["persistence"] == {"saved": False}
    assert len(list((Path(shop.root) / ".context-engine" / "plans").iterdir())) == before
    new = told(refine_plan, shop, current_plan=PLAN, operations=[{"op": "remove_step", "step": 3}])
    assert new["version"] == 1
    assert told(load_plan, shop, plan_id=new["persistence"]["plan_id"])["plan"]["goal"] == "Charge tax"


def test_nothing_to_do_and_no_plan_are_refused_with_the_next_call(shop: Engine) -> None:
    assert "operations" in refused(InvalidArgument, refine_plan, shop, plan_id=kept(shop)).suggestion
    assert "list_plans" in refused(InvalidArgument, refine_plan, shop, feedback="x").suggestion
    refused(PlanNotFound, refine_plan, shop, plan_id="nowhere", feedback="x")


# -- visualize_plan ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("dependencies", ['n2["2 · Use it"]', "n1 --> n2"]),
        ("progress", ["class n1 readyStyle", "class n2,n3 waitingStyle"]),
        ("gantt", ["n1, 2026-11-21, 3h", "n2, after n1, 3h"]),
        ("architecture", ['m1["shop/orders.py · step 2"]', 'm2["shop/prices.py · step 1"]', "m1 --> m2", "m3 --> m2"]),
    ],
)
def test_a_plan_is_drawn(shop: Engine, kind: str, holds: list[str]) -> None:
    asked: dict[str, Any] = {"plan_id": kept(shop), "diagram_type": kind}
    found = told(visualize_plan, shop, **asked, start_date="2026-11-21" if kind == "gantt" else "")
    assert (found["diagram_type"], found["plan_id"], found["plan_version"]) == (kind, asked["plan_id"], 1)
    assert all(part in found["mermaid"] for part in holds)
    assert found["legend"]
    assert found["omitted"] == []


def test_a_plan_in_hand_and_an_old_version_are_drawn(shop: Engine) -> None:
    assert "n3" in told(visualize_plan, shop, plan=PLAN, direction="LR")["mermaid"]
    plan_id = kept(shop)
    told(refine_plan, shop, plan_id=plan_id, operations=[{"op": "remove_step", "step": 3}])
    assert "n3" not in told(visualize_plan, shop, plan_id=plan_id)["mermaid"]
    assert "n3" in told(visualize_plan, shop, plan_id=plan_id, version=1)["mermaid"]


def test_the_architecture_of_a_plan_is_drawn_without_an_index(tmp_path: Path) -> None:
    with open_engine(repository(tmp_path / "shop", FILES), watch=False, flush=False) as engine:
        found = told(visualize_plan, engine, plan=PLAN, diagram_type="architecture")
    assert "m1 --> m2" in found["mermaid"]
    assert "no index" in found["warnings"][0]


def test_what_cannot_be_drawn_is_refused(shop: Engine) -> None:
    refused(PlanNotFound, visualize_plan, shop, plan_id="nowhere")
    assert "list_plans" in refused(InvalidArgument, visualize_plan, shop).suggestion
    for wrong in ("soon", "1900-01-01", "9999-12-31"):
        refused(InvalidArgument, visualize_plan, shop, plan=PLAN, diagram_type="gantt", start_date=wrong)
    refused(InvalidArgument, visualize_plan, shop, plan=PLAN, diagram_type="pie")
    refused(InvalidArgument, visualize_plan, shop, plan={"steps": []})


# -- compare_plan_versions ---------------------------------------------------------------------------------------------


def test_two_versions_are_compared_field_by_field(shop: Engine) -> None:
    plan_id = kept(shop)
    told(refine_plan, shop, plan_id=plan_id, operations=[{"op": "update_step", "step": 2, "description": "with care"}, {"op": "move_step", "step": 3, "to": 1}])  # fmt: skip
    found = told(compare_plan_versions, shop, plan_id=plan_id, from_version=1, to_version=2)
    assert [(row["path"], row["new_value"]) for row in found["field_changes"]] == [("/steps/s2/description", "with care"), ("/step_order", ["s3", "s1", "s2"])]  # fmt: skip
    assert found["steps_moved"] == [{"uid": "s3", "from": 3, "to": 1}]
    assert [row["uid"] for row in found["steps_modified"]] == ["s2"]
    changes = [
        FieldChange(row["path"], row["type"], row["old_value"], row["new_value"]) for row in found["field_changes"]
    ]
    one, other = (comparable_value(shop.plans.repository.load(plan_id, version).plan) for version in (1, 2))
    plain = [json.loads(json.dumps(value)) for value in (one, other)]
    assert apply_changes(plain[0], changes) == plain[1]
    shown = text(compare_plan_versions, shop, plan_id=plan_id, from_version=1, to_version=2, format="text")
    assert "| step 3: description | modified |  | with care |" in shown


# -- large plans -------------------------------------------------------------------------------------------------------


def test_a_refinement_is_answered_with_what_was_done_and_what_is_open(shop: Engine) -> None:
    plan_id = told(save_plan, shop, plan={"goal": "G", "steps": [{"title": "One"}, {"title": "Two"}]})["plan_id"]
    operations = [{"op": "move_step", "step": 1, "to": "end"}]
    asked = {"plan_id": plan_id, "operations": operations, "feedback": "also consider discounts"}
    head, *rest = refine_plan.call(shop, asked, Call(reader="agent")).text.split("\n")
    assert head == f"needs_refinement · plan_id {plan_id} · version 2"
    assert rest[:2] == ["applied: moved step 1 to 2", "open_feedback: also consider discounts"]
    assert rest[2].startswith("next: open_feedback needs operations: refine_plan")


def test_replies_about_a_thousand_steps_fit(shop: Engine) -> None:
    big = {
        "goal": "Much",
        "steps": [{"title": f"Step {n}", "depends_on": [n - 1] if n > 1 else []} for n in range(1, 1001)],
    }
    plan_id = told(save_plan, shop, plan=big)["plan_id"]
    operations = [{"op": "update_step", "step": n, "description": "x" * 500} for n in range(1, 201)]
    most = shop.settings.result_chars_max
    refined = text(refine_plan, shop, plan_id=plan_id, operations=operations)
    assert len(refined) <= most
    assert json.loads(refined)["diff"]["field_changes_left_out"] > 0
    assert len(text(compare_plan_versions, shop, plan_id=plan_id, from_version=1, to_version=2)) <= most
    for kind in ("dependencies", "progress", "gantt", "architecture"):
        assert len(text(visualize_plan, shop, plan_id=plan_id, diagram_type=kind)) <= most
