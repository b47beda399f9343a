"""create_plan and execute_plan as an agent calls them: plans that are kept, packets, changes written all or none."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.context.assist import SecondPassRunner
from context_engine.context.llm_endpoint import ChatModel
from context_engine.engine import Engine
from context_engine.errors import (
    AccessDenied,
    CallError,
    ContextEngineError,
    FileNotFound,
    InvalidArgument,
    NeedsApproval,
    NoMatch,
    StaleFile,
)
from context_engine.text import compact_json, estimate_tokens
from context_engine.tools.edit_tools import undo_edit
from context_engine.tools.plan_creation_tools import create_plan
from context_engine.tools.plan_step_tools import execute_plan
from context_engine.tools.tool import Call, Tool
from tests.support.chatting import MODEL, model_that_says
from tests.support.endpoints import Reply as EndpointReply
from tests.support.engines import indexed
from tests.support.planned import detailed, with_model
from tests.support.trees import git, repository

FILES = {
    "shop/__init__.py": "",
    "shop/prices.py": "def price(item):\n    return item.cost * 2\n\n\ndef tax(sum):\n    return sum // 5\n",
    "shop/orders.py": "from shop.prices import price\n\n\ndef order(items):\n    return sum(price(item) for item in items)\n",
    "shop/bills.py": "from shop.prices import price, tax\n\n\ndef bill(item):\n    return price(item) + tax(price(item))\n",
    "tests/test_prices.py": "from shop.prices import tax\n\n\ndef test_tax():\n    assert tax(10) == 2\n",
    "Makefile": "test:\n\tpytest\n",
    ".gitignore": ".context-engine/\n",
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("shops") / "shop", FILES)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    root = repository(tmp_path_factory.mktemp("open") / "shop", FILES)
    with indexed(root, watch=False, flush=False) as engine:
        yield engine


@pytest.fixture
def shop(opened: Engine) -> Iterator[Engine]:
    """One workspace for all tests, each of which finds it as it was in the beginning."""
    yield opened
    git(opened.root, "reset", "--hard", "--quiet", "main")
    git(opened.root, "clean", "-fdq")
    shutil.rmtree(opened.root / ".context-engine" / "plans", ignore_errors=True)


def told(made: Tool, engine: Engine, **arguments: Any) -> dict[str, Any]:
    reply = made.call(engine, detailed(made, arguments), Call(session="agent"))
    return json.loads(reply.text)


def plan(engine: Engine, **arguments: Any) -> dict[str, Any]:
    return told(create_plan, engine, **arguments)


def execute(engine: Engine, **arguments: Any) -> dict[str, Any]:
    return told(execute_plan, engine, **arguments)


def steps(*rows: dict[str, Any], goal: str = "Sell in cents") -> dict[str, Any]:
    return {"goal": goal, "steps": [{"title": f"step {number}", **row} for number, row in enumerate(rows, 1)]}


def kept(engine: Engine, *rows: dict[str, Any]) -> str:
    """The id of a plan of these steps, kept."""
    return plan(engine, task="Sell in cents", draft=steps(*rows))["persistence"]["plan_id"]


def status(engine: Engine) -> str:
    return git(engine.root, "status", "--porcelain")


def text(engine: Engine, path: str) -> str:
    return (engine.root / path).read_text()


# -- create_plan -------------------------------------------------------------------------------------------------------


def test_a_plan_is_made_kept_and_answered_with_what_it_rests_on(shop: Engine) -> None:
    made = plan(shop, task="rename function `price` to cost")
    assert (made["ok"], made["status"], made["meta"]["assist_used"]) == (True, "ready", "none")
    files = {path for step in made["plan"]["steps"] for path in step["files_to_modify"]}
    assert files >= set(git(shop.root, "grep", "-lw", "price").split("\n"))
    assert made["persistence"]["saved"]
    assert (shop.root / made["persistence"]["file_path"]).is_file()
    assert made["planning_context"]["index_freshness"] == "fresh"
    assert made["plan"]["base_commit"] == git(shop.root, "rev-parse", "HEAD")
    assert shop.plans.repository.load(made["plan"]["id"]).plan.goal == "rename function `price` to cost"


def test_a_plan_has_the_fields_that_were_promised(shop: Engine) -> None:
    """And one that is not kept is in the reply."""
    reply = plan(shop, task="Fix `tax`: it must round up", generate_diagrams=True, auto_save=False)
    assert reply["persistence"] == {"saved": False}
    assert not (shop.root / ".context-engine" / "plans").exists()
    made = reply["plan"]
    names = "id version goal scope mvp_features nice_to_have_features architecture risks milestones steps"
    assert made.keys() >= {*names.split(), "testing_strategy", "confidence_score", "dependency_graph"}
    assert set(made["scope"]) == {"included", "excluded", "assumptions", "constraints"}
    assert set(made["architecture"]) == {"notes", "patterns_used", "diagrams"}
    assert set(made["testing_strategy"]) == {"unit", "integration", "coverage_target"}
    assert set(made["dependency_graph"]) >= {"nodes", "edges", "critical_path", "parallel_groups", "execution_order"}
    assert 0 < made["confidence_score"] < 1
    assert made["questions_for_clarification"] == []
    for risk in made["risks"]:
        assert set(risk) == {"issue", "mitigation", "likelihood"}
    for each in made["milestones"]:
        assert set(each) == {"name", "steps_included", "estimated_time"}
    for step in made["steps"]:
        assert step["priority"] in ("high", "medium", "low")
        assert step["estimated_effort"] == ""  # no one said how long it takes
        assert {"step_number", "title", "description", "files_to_modify", "files_to_create"} <= set(step)
        assert {"depends_on", "blocks", "can_parallel_with", "acceptance_criteria"} <= set(step)
    assert [each["type"] for each in made["architecture"]["diagrams"]] == ["dependencies"]


def test_as_many_likely_files_are_looked_at_as_the_caller_wants(shop: Engine) -> None:
    few, more = (
        plan(shop, task="Sell orders with bills and prices", max_context_files=count)["planning_context"]
        for count in (1, 5)
    )
    likely = [path for path in few["files_considered"] if not path.startswith("tests/")]
    assert len(likely) == 1 < len(more["files_considered"])
    assert set(few["files_next"]) <= set(more["files_considered"])


def test_a_model_makes_a_plan_better_if_what_it_says_is_true(shop: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    untrue, good = steps({"files_to_modify": ["shop/nowhere.py"]}), steps({"files_to_modify": ["shop/prices.py"]})
    circle = steps({"depends_on": [2]}, {"depends_on": [1]})
    model = with_model(shop, monkeypatch, untrue, circle, good)
    made = plan(shop, task="Fix tax: it must round up")
    assert (made["plan"]["version"], made["plan"]["provenance"], made["meta"]["assist_used"]) == (2, "model", "model")
    assert "shop/nowhere.py" in model.wrong[0]
    assert "wait for each other" in model.wrong[1]
    assert isinstance(made["next"], str)
    assert made["planning_context"]["files_considered"]


RIGHT = {
    "goal": "Round up",
    "steps": [
        {"title": "Round up in tax", "files_to_modify": ["shop/prices.py"], "priority": "high"},
        {"title": "Test it", "files_to_modify": ["tests/test_prices.py"], "depends_on": [1], "priority": "low"},
    ],
}
HALF_RIGHT = {
    "goal": "Round up",
    "steps": [
        {"title": "Round up in tax", "files_to_modify": ["shop/price.py", "shop/prices.py"], "priority": "high"},
        {"title": "Ask the bank", "files_to_modify": ["shop/bank.py"], "depends_on": [1]},
        {"title": "Test it", "files_to_modify": ["tests/test_prices.py"], "depends_on": [2, 9], "priority": "low"},
    ],
}
REFUSED = ["steps[0]: step 1 changes shop/price.py", "steps[1]: step 2 changes shop/bank.py", "steps[1]: none of its"]


def with_endpoint(engine: Engine, monkeypatch: pytest.MonkeyPatch, address: str, wait_s: float = 20) -> None:
    monkeypatch.setattr(engine, "second_pass", SecondPassRunner(ChatModel(address, MODEL, wait_s=wait_s)))


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        (json.dumps(RIGHT), []),
        (f"Here is the plan:\n```json\n{json.dumps(RIGHT, indent=2)}\n```\nShall I start [now]?", []),
        (f"<think>{{}} first?</think>The plan is {json.dumps(RIGHT)}, as {{you}} asked.", []),
        (json.dumps(HALF_RIGHT), REFUSED),
    ],
    ids=["right", "fenced", "prose", "half-right"],
)
def test_what_is_right_of_an_answer_of_a_model_or_an_agent_is_kept_and_completed(
    shop: Engine, monkeypatch: pytest.MonkeyPatch, answer: str, refused: list[str]
) -> None:
    asked = {"task": "Fix `tax`: it must round up", "generate_diagrams": True}
    with model_that_says(answer) as server:
        with_endpoint(shop, monkeypatch, server.address)
        by_model = plan(shop, **asked, assist="model")
        (question,) = server.asked
        shop.second_pass.close()
    by_agent = plan(shop, **asked, draft=answer, strict=False)
    assert "def tax(sum):\n    return sum // 5" in question.body["messages"][1]["content"]
    for made, author in ((by_model, "model"), (by_agent, "host")):
        drafted = made["plan"]
        assert (made["ok"], drafted["provenance"]) == (True, author)
        assert [(step["title"], step["files_to_modify"], step["depends_on"]) for step in drafted["steps"]] == [
            ("Round up in tax", ["shop/prices.py"], []),
            ("Test it", ["tests/test_prices.py"], [1]),
        ]
        found = [f"{item['place']}: {item['reason']}" for item in made.get("rejected", [])]
        assert [reason[: len(start)] for reason, start in zip(found, refused, strict=True)] == refused
        assert drafted["scope"]["included"] == ["shop", "tests"]
        assert [part["steps_included"] for part in drafted["milestones"]] == [[1], [2]]
        assert "Test it" in drafted["architecture"]["diagrams"][0]["mermaid"]
        assert "tests/test_prices.py, run by make test" in drafted["testing_strategy"]["unit"]
        assert drafted["confidence_score"] >= 0.7


def test_confidence_is_that_of_the_steps_that_were_accepted(shop: Engine) -> None:
    beside = steps({"files_to_modify": ["Makefile"]})
    likely = steps({"files_to_modify": ["shop/prices.py"]})
    asked = {"task": "Fix `tax`: it must round up"}
    scores = [plan(shop, **asked, draft=draft)["plan"]["confidence_score"] for draft in (beside, likely)]
    assert scores[0] < 0.5 < scores[1]


@pytest.mark.parametrize("trouble", ["slow", "dead"])
def test_a_model_that_does_not_answer_leaves_the_plan_and_offers_the_next_step(
    shop: Engine, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    with model_that_says(EndpointReply(hang=True)) as server:
        with_endpoint(shop, monkeypatch, server.address if trouble == "slow" else "http://127.0.0.1:1", wait_s=1)
        made = plan(shop, task="Fix tax: it must round up")
        shop.second_pass.close()
    assert (made["ok"], made["plan"]["version"], made["plan"]["provenance"]) == (True, 1, "core")
    assert made["warnings"]
    assert "def tax(sum):" in made["next"]["brief"]


def test_a_model_that_fails_costs_a_warning_and_nothing_else(shop: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with_model(shop, monkeypatch, steps({"files_to_modify": ["shop/nowhere.py"]}))
    made = plan(shop, task="Fix tax: it must round up")
    assert (made["plan"]["version"], made["plan"]["provenance"]) == (1, "core")
    assert made["warnings"][-1] == "the model gave no plan that is true"
    assert made["next"]["tool"] == "create_plan"


def test_a_model_may_write_the_changes_of_a_step_which_are_shown_first(
    shop: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = kept(shop, *THREE)
    model = with_model(shop, monkeypatch, {"changes": ROUND})
    done = execute(shop, plan_id=plan_id, step_number=1, additional_context="Round up.")
    assert done["results"][0]["would_apply"][0]["added"] == 1
    assert "return sum // 5" in model.asked[0]
    assert "Round up." in model.asked[0]
    assert status(shop) == ""


def test_without_a_model_the_caller_hears_how_to_hand_in_changes(shop: Engine) -> None:
    plan_id = kept(shop, *THREE)
    offered = execute(shop, plan_id=plan_id, step_number=1, assist="host")["next"]
    assert offered["arguments_template"]["step_number"] == 1
    assert estimate_tokens(offered["brief"]) <= 2_000
    assert execute(shop, plan_id=plan_id, step_number=1, assist="off")["next"] == "start_step 1"


def test_a_draft_becomes_the_next_version_of_its_plan(shop: Engine) -> None:
    first = plan(shop, task="Fix tax: it must round up")["plan"]["id"]
    draft = steps({"title": "Round up", "files_to_modify": ["shop/prices.py"], "acceptance_criteria": ["tax(11) == 3"]})
    made = plan(shop, task="Fix tax: it must round up", draft=json.dumps(draft), plan_id=first)
    assert (made["plan"]["id"], made["plan"]["version"], made["plan"]["provenance"]) == (first, 2, "host")
    assert made["meta"]["assist_used"] == "host"
    assert [step["title"] for step in made["plan"]["steps"]] == ["Round up"]


def test_a_draft_that_names_what_is_not_there_is_rejected_with_the_nearest_and_nothing_is_kept(shop: Engine) -> None:
    draft = steps({"files_to_modify": ["shop/price.py"]})
    made = plan(shop, task="Sell in cents", draft=draft)
    assert (made["ok"], made["status"], made["persistence"]) == (False, "draft_rejected", {"saved": False})
    assert "shop/prices.py" in json.dumps(made["validation"]["errors"])
    shown = create_plan.call(shop, {"task": "Sell in cents", "draft": draft}, Call(reader="agent")).text
    assert "plan:" not in shown
    assert not (shop.root / ".context-engine" / "plans").exists()


def test_evidence_that_does_not_stand_is_taken_out_and_told_of(shop: Engine) -> None:
    proofs = [
        {"kind": "definition", "path": "shop/prices.py", "line": 1, "symbol": "price"},
        {"kind": "definition", "path": "shop/prices.py", "line": 999},
    ]
    made = plan(shop, task="Sell in cents", draft=steps({"files_to_modify": ["shop/prices.py"], "evidence": proofs}))
    assert [each["line"] for each in made["plan"]["steps"][0]["evidence"]] == [1]
    assert [each["place"] for each in made["rejected"]] == ["steps[0].evidence[1]"]


def test_a_plan_id_without_a_draft_is_refused(shop: Engine) -> None:
    with pytest.raises(InvalidArgument, match="goes with a draft"):
        plan(shop, task="Sell in cents", plan_id="plan_1")


def test_a_reply_has_the_steps_what_is_open_and_what_to_do_next_and_load_plan_has_the_rest(shop: Engine) -> None:
    text = create_plan.call(shop, {"task": "rename function `price` to cost"}, Call(reader="agent")).text
    head, title, first, *_, last = text.split("\n")
    assert head.startswith("ready · plan_id plan_")
    assert (title, first, last) == ("steps:", "- 1. Change price (shop/prices.py)", "next: start_step 1")
    whole = create_plan.call(shop, {"task": "rename function `price` to cost"}, Call()).text
    assert 4 * len(text) < len(whole)
    asked = json.loads(create_plan.call(shop, {"task": "Let `prise` round up"}, Call()).text)
    assert (asked["status"], asked["questions"][0]["id"]) == ("needs_clarification", "q1")
    assert "clarifications" in asked["next"]


def test_a_brief_and_a_schema_come_only_to_a_caller_that_asks_for_them(shop: Engine) -> None:
    for assist, is_sent in (("host", True), ("model", True), ("auto", False), ("off", False)):
        reply = create_plan.call(shop, {"task": "Let tax round up", "assist": assist}, Call()).text
        way_on = json.loads(reply)["next"]
        assert ("schema" in way_on) is is_sent
        assert is_sent or isinstance(way_on, str)
        if is_sent:
            assert way_on["arguments_template"]["plan_id"] == json.loads(reply)["plan_id"]
            assert "shop/prices.py" in way_on["brief"]
            assert "def tax(sum):" in way_on["brief"]
            assert estimate_tokens(way_on["brief"]) <= 8_000
            small = create_plan.call(
                shop, {"task": "Let tax round up", "assist": assist, "context_token_budget": 300}, Call()
            )
            assert estimate_tokens(json.loads(small.text)["next"]["brief"]) <= 300


def test_a_plan_of_very_many_files_still_fits_a_reply(tmp_path: Path) -> None:
    files = {
        f"package_with_a_name_{number % 40}/module_with_a_name_{number}.py": "greet_everybody()\n"
        for number in range(400)
    }
    root = repository(tmp_path / "many", files | {"core.py": "def greet_everybody(): return 1\n"})
    with indexed(root, watch=False, flush=False) as engine:
        reply = create_plan.call(engine, {"task": "rename greet_everybody to hail"}, Call())
        made = json.loads(reply.text)
        assert len(reply.text) <= engine.settings.result_chars_max
        assert (made["steps_shown"], made["next_step"]) == (1, 2)
        assert len(engine.plans.repository.load(made["persistence"]["plan_id"]).plan.files) == 401


# -- execute_plan: packets ---------------------------------------------------------------------------------------------

THREE = (
    {
        "title": "Cents",
        "files_to_modify": ["shop/prices.py"],
        "evidence": [{"kind": "definition", "path": "shop/prices.py", "line": 5}],
    },
    {"title": "Orders", "files_to_modify": ["shop/orders.py"], "depends_on": [1]},
    {"title": "Bills", "files_to_modify": ["shop/bills.py"], "depends_on": [1]},
)
ROUND = [{"path": "shop/prices.py", "edits": [{"old": "return sum // 5", "new": "return -(-sum // 5)"}]}]


def test_a_packet_holds_the_code_of_its_step_and_marks_nothing(shop: Engine) -> None:
    done = execute(shop, plan_id=kept(shop, *THREE))
    (packet,) = done["packets"]
    (file,) = packet["files"]
    assert (packet["step"], file["path"], file["change"]) == (1, "shop/prices.py", "modify")
    assert hashlib.sha256(text(shop, "shop/prices.py").encode()).hexdigest().startswith(file["sha"])
    assert "def tax(sum):\n    return sum // 5" in file["snippets"][0]["text"]
    assert (done["progress"]["current_steps"], done["progress"]["ready_steps"]) == ([], [1])


def test_a_packet_shows_a_whole_definition_from_the_comment_above_it(shop: Engine) -> None:
    body = "".join(f"    value_{number} = {number}\n" for number in range(30))
    (shop.root / "shop" / "rates.py").write_text(
        f"# How rates are made.\n# They round up.\ndef rate(sum):\n{body}\n\ndef other(): ...\n"
    )
    proof = {"kind": "search", "path": "shop/rates.py", "line": 1, "symbol": "rate"}
    plan_id = kept(shop, {"files_to_modify": ["shop/rates.py"], "evidence": [proof]})
    (snippet,) = execute(shop, plan_id=plan_id)["packets"][0]["files"][0]["snippets"]
    assert (snippet["lines"], snippet["symbol"]) == ("1-33", "rate")
    assert snippet["text"].startswith("# How rates are made.") and snippet["text"].endswith("value_29 = 29\n")


def test_a_packet_does_not_show_a_whole_class_because_search_finds_its_head(shop: Engine) -> None:
    body = "".join(f"    def rate_{number}(self):\n        return {number}\n\n" for number in range(90))
    (shop.root / "shop" / "rates.py").write_text(f"class Rates:\n{body}")
    shown = {}
    for kind in ("search", "definition"):
        proof = {"kind": kind, "path": "shop/rates.py", "line": 1, "symbol": "Rates"}
        plan_id = kept(shop, {"files_to_modify": ["shop/rates.py"], "evidence": [proof]})
        shown[kind] = execute(shop, plan_id=plan_id)["packets"][0]["files"][0]["snippets"][0]["text"]
    assert "return 3\n" in shown["search"] and "return 89\n" not in shown["search"]
    assert "return 89\n" in shown["definition"]


def test_the_brief_of_an_agent_repeats_nothing_of_the_reply(shop: Engine) -> None:
    made = json.loads(create_plan.call(shop, {"task": "Fix `taxes`: round up", "assist": "host"}, Call()).text)
    brief, replied = made["next"]["brief"], (*made["steps"], made["questions"][0]["text"])
    assert "def tax(sum):" in brief and "make test" in brief
    assert not [text for text in replied if text in brief]


LICENSE = "".join(f"# Line {number} of the license.\n" for number in range(30))


def test_a_packet_of_a_draft_shows_what_its_text_names_and_no_license(shop: Engine) -> None:
    body = "".join(f"    value_{number} = {number}\n" for number in range(90))
    for name in ("rates", "taxes"):
        (shop.root / "shop" / f"{name}.py").write_text(
            f"{LICENSE}\n\ndef first(): ...\n\n\ndef {name}_of_year(sum):\n{body}"
        )
    said = "Round up in `shop.rates.rates_of_year`, as taxes_of_year() in shop/taxes.py does."
    shop.index.update()
    plan_id = kept(shop, {"description": said, "files_to_modify": ["shop/rates.py"]})
    packet = execute(shop, plan_id=plan_id)["packets"][0]
    assert [(file["path"], file["change"]) for file in packet["files"]] == [
        ("shop/rates.py", "modify"),
        ("shop/taxes.py", "read"),
    ]
    for file, name in zip(packet["files"], ("rates", "taxes"), strict=True):
        (snippet,) = file["snippets"]
        assert snippet["text"].startswith(f"def {name}_of_year(sum):") and snippet["text"].endswith("value_89 = 89\n")


def test_a_packet_of_a_draft_without_names_shows_the_best_place_of_its_file(shop: Engine) -> None:
    (shop.root / "shop" / "rates.py").write_text(
        f"{LICENSE}\n\ndef first():\n    return 1\n\n\ndef discount(sum):\n    return sum / 2  # of students\n"
    )
    shop.index.update()
    plan_id = kept(shop, {"description": "Let students pay a third.", "files_to_modify": ["shop/rates.py"]})
    shown = "".join(snippet["text"] for snippet in execute(shop, plan_id=plan_id)["packets"][0]["files"][0]["snippets"])
    assert "of students" in shown and "license" not in shown


def test_all_that_is_ready_after_a_step_is_done_comes_as_packets(shop: Engine) -> None:
    plan_id = kept(shop, *THREE)
    shop.plans.steps.start(plan_id, 1)
    shop.plans.steps.complete(plan_id, 1)
    done = execute(shop, plan_id=plan_id, mode="all_ready")
    assert [packet["step"] for packet in done["packets"]] == [2, 3]
    assert execute(shop, plan_id=plan_id, mode="all_ready", max_steps=1)["packets"][0]["step"] == 2


def test_a_packet_keeps_its_budget_whatever_its_files_hold(tmp_path: Path) -> None:
    body = "\n".join(f"    value_{number} = compute_something_long({number})" for number in range(12))
    files = {f"m{number}.py": f"def handle_{number}():\n{body}\n" for number in range(60)}
    with indexed(repository(tmp_path / "large", files), watch=False, flush=False) as engine:
        proofs = [{"kind": "reference", "path": path, "line": 3} for path in files]
        plan_id = kept(engine, {"files_to_modify": sorted(files), "evidence": proofs})
        (packet,) = execute(engine, plan_id=plan_id)["packets"]
    assert estimate_tokens(compact_json(packet)) <= 2_000
    assert packet["files_left_out"] > 0
    assert [bool(file.get("snippets")) for file in packet["files"]].count(True) > 1


def test_a_plan_that_nobody_kept_gives_packets_and_previews_and_no_more(shop: Engine) -> None:
    sent = steps(*THREE)
    assert execute(shop, plan=sent)["packets"][0]["step"] == 1
    assert execute(shop, plan=sent, changes=ROUND)["results"][0]["is_preview"]
    with pytest.raises(InvalidArgument, match="kept"):
        execute(shop, plan=sent, changes=ROUND, apply_changes=True)


def test_files_that_hold_secrets_are_not_read_out_in_packets(shop: Engine) -> None:
    token = "ghp_" + "aB3dE5gH7jK9" * 3
    (shop.root / "shop" / "keys.py").write_text(f"TOKEN = '{token}'\n")
    reply = execute_plan.call(shop, {"plan_id": kept(shop, {"files_to_modify": ["shop/keys.py"]})}, Call()).text
    assert "TOKEN" in reply
    assert token not in reply


# -- execute_plan: changes ---------------------------------------------------------------------------------------------


def test_a_preview_shows_the_difference_and_writes_nothing(shop: Engine) -> None:
    done = execute(shop, plan_id=kept(shop, *THREE), changes=ROUND)
    (row,) = done["results"][0]["would_apply"]
    assert (row["added"], row["removed"]) == (1, 1)
    assert "-    return sum // 5\n+    return -(-sum // 5)" in row["diff"]
    assert status(shop) == ""
    assert done["progress"]["current_steps"] == []


def test_changes_are_applied_verified_and_complete_their_step(shop: Engine) -> None:
    plan_id = kept(shop, *THREE)
    done = execute(shop, plan_id=plan_id, changes=ROUND, apply_changes=True)
    (result,) = done["results"]
    assert (result["success"], result["completed"], result["step_number"]) == (True, True, 1)
    assert [(each["kind"], each["passed"]) for each in result["verification"]] == [("syntax", True)]
    assert "return -(-sum // 5)" in text(shop, "shop/prices.py")
    assert result["applied"][0]["after_sha"] == hashlib.sha256(text(shop, "shop/prices.py").encode()).hexdigest()
    assert done["progress"]["ready_steps"] == [2, 3]


def test_what_was_applied_is_taken_back_by_its_backup_id(shop: Engine) -> None:
    before = text(shop, "shop/prices.py")
    rename = {"path": "shop/orders.py", "change_type": "rename", "new_path": "shop/ordering.py"}
    new = {"path": "shop/cents/__init__.py", "change_type": "create", "content": "CENT = 1\n"}
    gone = {"path": "shop/bills.py", "change_type": "delete"}
    plan_id = kept(shop, {"files_to_modify": ["shop/prices.py"]})
    done = execute(shop, plan_id=plan_id, changes=[*ROUND, rename, new, gone], apply_changes=True)
    assert sorted(status(shop).split("\n")) == [
        " D shop/bills.py", " D shop/orders.py", " M shop/prices.py", "?? shop/cents/", "?? shop/ordering.py",
    ]  # fmt: skip
    undo_edit.call(shop, {"undo_id": done["backup_id"]}, Call(session="agent"))
    assert status(shop) == ""
    assert text(shop, "shop/prices.py") == before


def test_one_bad_hunk_and_nothing_is_written(shop: Engine) -> None:
    good = "@@ -5,2 +5,2 @@\n def tax(sum):\n-    return sum // 5\n+    return sum // 4\n"
    bad = "@@ -1,1 +1,1 @@\n-from shop.nowhere import price\n+from shop.money import price\n"
    plan_id = kept(shop, {"files_to_modify": ["shop/prices.py", "shop/bills.py"]})
    changes = [{"path": "shop/prices.py", "diff": good}, {"path": "shop/bills.py", "diff": bad}]
    with pytest.raises(NoMatch, match="nothing was written"):
        execute(shop, plan_id=plan_id, changes=changes, apply_changes=True)
    assert status(shop) == ""
    assert execute(shop, plan_id=plan_id)["progress"]["current_steps"] == []  # the step was not begun either


def test_a_renamed_file_keeps_its_bytes_and_its_mode_and_may_change_its_text(shop: Engine) -> None:
    script = shop.root / "shop" / "run.sh"
    script.write_bytes(b"#!/bin/sh\r\necho one\r\n")
    script.chmod(0o755)
    change = {"path": "shop/run.sh", "change_type": "rename", "new_path": "bin/go.sh"}
    plan_id = kept(shop, {"files_to_modify": ["shop/run.sh"], "files_to_create": ["bin/go.sh"]})
    edits = [{"old": "echo one", "new": "echo two"}]
    execute(shop, plan_id=plan_id, changes=[{**change, "edits": edits}], apply_changes=True)
    moved = shop.root / "bin" / "go.sh"
    assert moved.read_bytes() == b"#!/bin/sh\r\necho two\r\n"
    assert moved.stat().st_mode & 0o777 == 0o755
    assert not script.exists()


def test_a_file_that_the_step_does_not_name_is_told_of_or_refused(shop: Engine) -> None:
    plan_id = kept(shop, *THREE)
    change = [{"path": "shop/bills.py", "edits": [{"old": "def bill(item)", "new": "def bill(item, tip=0)"}]}]
    done = execute(shop, plan_id=plan_id, step_number=1, changes=change)
    assert done["warnings"] == ["the step does not name shop/bills.py"]
    with pytest.raises(InvalidArgument, match="does not name"):
        execute(shop, plan_id=plan_id, step_number=1, changes=change, apply_changes=True, strict=True)
    assert status(shop) == ""


BILLS = {"path": "shop/bills.py", "base_sha": "0" * 64}
PRICES = {"path": "shop/prices.py"}
NOWHERE = {"path": "shop/nowhere.py"}
NEW = {"change_type": "create", "content": "x"}
DELETED = {"change_type": "delete"}
RENAMED = {"change_type": "rename", "new_path": "b.py"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        *((NEW | {"path": path}, CallError) for path in ("../outside.py", "/etc/passwd", "shop/../../outside.py")),
        (NEW | {"path": ".context-engine/config.yml"}, AccessDenied),
        *((BILLS | change, StaleFile) for change in ({"content": "x"}, DELETED, RENAMED)),
        *((NOWHERE | change, FileNotFound) for change in ({"content": "x"}, DELETED, RENAMED)),
        (PRICES, InvalidArgument),
        (PRICES | {"content": "x = 1\n", "diff": "@@ -1 +1 @@\n-a\n+b\n"}, InvalidArgument),
        (PRICES | NEW, InvalidArgument),
        (PRICES | DELETED | {"content": "x"}, InvalidArgument),
        (PRICES | {"change_type": "rename"}, InvalidArgument),
        (PRICES | RENAMED | {"new_path": "shop/bills.py"}, InvalidArgument),
        (PRICES | {"content": "x\n", "new_path": "b.py"}, InvalidArgument),
        (PRICES | {"change_type": "explode"}, InvalidArgument),
        (PRICES | {"text": "x"}, InvalidArgument),
        ({"path": "new.py", "change_type": "create"}, InvalidArgument),
        ({"content": "x\n"}, InvalidArgument),
    ],
)
def test_a_change_that_cannot_be_meant_or_made_is_refused_and_nothing_is_written(
    shop: Engine, change: dict[str, Any], error: type[ContextEngineError]
) -> None:
    with pytest.raises(error):
        execute(shop, plan_id=kept(shop, *THREE), step_number=1, changes=[change], apply_changes=True)
    assert status(shop) == ""
    assert not (shop.root.parent / "outside.py").exists()


def test_a_change_that_does_not_parse_is_written_told_of_and_leaves_the_step_open(shop: Engine) -> None:
    plan_id = kept(shop, *THREE)
    broken = [{"path": "shop/prices.py", "edits": [{"old": "def tax(sum):", "new": "def tax(sum:"}]}]
    done = execute(shop, plan_id=plan_id, changes=broken, apply_changes=True, mode="all_ready")
    (result,) = done["results"]
    assert (done["ok"], result["success"], result["completed"], done["packets"]) == (False, False, False, [])
    assert "new syntax error" in result["error"]
    assert f"undo_id {done['backup_id']}" in result["error"]
    assert done["progress"]["current_steps"] == [1]
    mended = [{"path": "shop/prices.py", "edits": [{"old": "def tax(sum:", "new": "def tax(sum):\n    # rounds"}]}]
    assert execute(shop, plan_id=plan_id, changes=mended, apply_changes=True)["results"][0]["completed"]


def test_a_step_is_open_as_long_as_a_file_of_it_was_not_touched(shop: Engine) -> None:
    plan_id = kept(shop, {"files_to_modify": ["shop/prices.py", "shop/bills.py"]})
    done = execute(shop, plan_id=plan_id, changes=ROUND, apply_changes=True)
    assert done["results"][0]["remaining_files"] == ["shop/bills.py"]
    assert done["progress"]["current_steps"] == [1]


def test_who_works_on_somebody_elses_step_hears_of_it(shop: Engine) -> None:
    plan_id = kept(shop, *THREE)
    shop.plans.steps.start(plan_id, 1, actor="Ada")
    done = execute(shop, plan_id=plan_id, step_number=1, changes=ROUND, apply_changes=True)
    assert done["warnings"] == ["the step was started by Ada"]
    assert done["results"][0]["completed"]


def test_nothing_is_written_before_an_approval_that_is_required(template: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(template), "shop")
    with indexed(tmp_path / "shop", watch=False, flush=False, approvals_mode="required") as engine:
        plan_id = kept(engine, *THREE)
        with pytest.raises(NeedsApproval):
            execute(engine, plan_id=plan_id, changes=ROUND, apply_changes=True)
        assert status(engine) == ""
        request = engine.plans.approvals.request(plan_id).approval.id
        engine.plans.approvals.respond(request, "approve", by="user")
        assert execute(engine, plan_id=plan_id, changes=ROUND, apply_changes=True)["results"][0]["completed"]


def test_a_secret_in_a_change_is_objected_to_and_the_step_stays_open(shop: Engine) -> None:
    token = "ghp_" + "aB3dE5gH7jK9" * 3
    change = {"path": "shop/keys.py", "change_type": "create", "content": f"TOKEN = '{token}'\n"}
    plan_id = kept(shop, {"files_to_create": ["shop/keys.py"]})
    (result,) = execute(shop, plan_id=plan_id, changes=[change], apply_changes=True, verify="lint")["results"]
    assert (result["success"], result["completed"]) == (False, False)
    assert [each["passed"] for each in result["verification"] if each["kind"] == "review"] == [False]
    assert "shop/keys.py" in result["error"]
    assert token not in json.dumps(result)


def test_only_commands_that_the_user_allowed_are_run(template: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", str(template), "shop")
    with indexed(tmp_path / "shop", watch=False, flush=False, verify_commands="git diff --exit-code") as engine:
        plan_id = kept(engine, {**THREE[0], "checks": ["touch owned"], "acceptance_criteria": ["touch owned"]})
        (result,) = execute(engine, plan_id=plan_id, changes=ROUND, apply_changes=True, verify="tests")["results"]
        ran, refused = [each for each in result["verification"] if each["kind"] == "tests"]
        assert (ran["name"], ran["passed"]) == ("git diff --exit-code", False)
        assert (refused["name"], refused["passed"]) == ("touch owned", None)
        assert not (engine.root / "owned").exists()


def test_a_whole_plan_is_carried_out_by_its_own_packets(shop: Engine) -> None:
    plan_id = kept(shop, *THREE)
    for path, old, new in (
        ("shop/prices.py", "cost * 2", "cost * 200"),
        ("shop/orders.py", "sum(price", "0 + sum(price"),
        ("shop/bills.py", "return price(item) +", "return price(item) + 0 +"),
    ):
        number = execute(shop, plan_id=plan_id)["packets"][0]["step"]
        edits = [{"old": old, "new": new}]
        done = execute(
            shop, plan_id=plan_id, step_number=number, changes=[{"path": path, "edits": edits}], apply_changes=True
        )
    assert (done["progress"]["status"], done["progress"]["percentage"]) == ("completed", 100)
