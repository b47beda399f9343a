"""validate_content answers in JSON: whether content passed, what was found, what was not looked at and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.engine import Engine
from context_engine.tools.content_tools import validate_content
from context_engine.tools.tool import Call
from tests.support.engines import open_engine
from tests.support.trees import tree

KEY = "ghp_" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU0vW2xY4"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    root = tree(tmp_path / "work", {"src/app.py": "def login():\n    return 1\n", ".env": "TOKEN=xyz\n"})
    with open_engine(root) as opened:
        yield opened


def call(engine: Engine, content: str, **arguments: object) -> dict[str, Any]:
    return json.loads(validate_content.call(engine, {"content": content} | arguments, Call()).text)


def test_the_reply_says_what_was_found_where_and_how_it_is_called(engine: Engine) -> None:
    said = call(engine, "def 1x() retrn {}", file_path="a.py")
    assert said.keys() == {"ok", "passed", "findings", "by_severity", "tiers_run", "tiers_skipped", "secrets_scrubbed"}
    assert (said["passed"], said["tiers_run"]) == (False, [0, 1, 2])
    assert said["by_severity"] == {"error": 1, "warning": 0, "info": 0}
    (row,) = said["findings"]
    assert {"id", "tier", "severity", "category", "rule_id", "message", "line", "column", "suggestion"} == row.keys()
    assert (row["tier"], row["severity"], row["line"], row["column"]) == (1, "error", 1, 5)


def test_secrets_are_found_and_taken_out_unless_the_caller_says_no(engine: Engine) -> None:
    said = call(engine, f'key = "{KEY}"\n', file_path="a.py")
    assert (said["passed"], said["secrets_scrubbed"], said["findings"][0]["tier"]) == (False, 1, 0)
    assert KEY not in json.dumps(said)
    assert said["scrubbed_content"].count("\n") == 1
    quiet = call(engine, f'key = "{KEY}"\n', file_path="a.py", scrub_secrets=False)
    assert (quiet["passed"], quiet["findings"], quiet["secrets_scrubbed"]) == (True, [], 0)


def test_what_it_names_is_held_against_the_workspace(engine: Engine) -> None:
    (row,) = call(engine, "See `src/app.py` and `src/ap.py`.", content_type="markdown")["findings"]
    assert (row["rule_id"], row["line"], row["severity"]) == ("unknown-file", 1, "warning")
    assert "src/ap.py" in row["message"]
    rows = call(engine, "from . import app\nfrom .nowhere import x\n", file_path="src/b.py")["findings"]
    assert [(row["rule_id"], row["line"]) for row in rows] == [("unresolved-import", 2)]


def test_a_file_that_must_not_be_read_out_cannot_be_guessed_at(engine: Engine) -> None:
    place = {"file_path": ".env", "line_range": {"start": 1, "end": 1}}
    row = {"title": "t", "body": "b", "priority": 1, "confidence_score": 1, "code_location": place}
    answers = [
        [
            each["message"]
            for each in call(engine, json.dumps(row | {"quote": quote}), content_type="review_finding")["findings"]
        ]
        for quote in ("TOKEN=xyz", "TOKEN=abc")
    ]
    assert answers[0]
    assert answers[0] == answers[1]


def test_what_has_no_room_is_counted_and_never_changes_the_verdict(engine: Engine) -> None:
    many = "# TODO\n" * 30 + "x = (\n"
    said = call(engine, many, file_path="a.py", max_findings=2)
    assert (len(said["findings"]), said["passed"]) == (2, False)
    assert said["findings"][0]["severity"] == "error"
    assert "19 infos more" in said["warnings"][0]
    large = call(engine, f'key = "{KEY}"\n' + "# word word\n" * 5_000, file_path="a.py")
    assert "scrubbed_content" not in large
    assert any("scrub_secrets" in warning for warning in large["warnings"])


def test_arguments_are_understood_as_clients_send_them(engine: Engine) -> None:
    words = {"contentType": "JSON", "tiers": "[1]", "scrubSecrets": "false", "maxFindings": "5"}
    said = call(engine, '{"a": 1}', schema='{"required": ["b"]}', **words)
    assert (said["passed"], said["tiers_run"]) == (False, [1])


# -- tier 3 ------------------------------------------------------------------------------------------------------------

CONTENT = "def total(prices):\n    return sum(prices) / len(prices)\n"
DRAFT = {
    "findings": [
        {
            "line": 1,
            "quote": "return sum(prices) / len(prices)",
            "category": "correctness",
            "message": "It divides: a total is no mean.",
            "suggestion": "Return the sum.",
        },
        {"line": 9, "quote": "x", "category": "clarity", "message": "There is no such line.", "suggestion": ""},
    ]
}


def test_a_second_pass_is_offered_when_it_is_asked_for(engine: Engine) -> None:
    said = call(engine, CONTENT, file_path="a.py", tiers=["1", "3"])
    assert (said["passed"], said["tiers_run"], said["meta"]) == (True, [0, 1], {"assist_used": "none"})
    assert said["tiers_skipped"][0]["tier"] == 3
    step = said["next"]
    assert (step["tool"], step["arguments_template"]["content"]) == ("validate_content", "<the same content>")
    assert "2:     return sum(prices)" in step["brief"]
    assert "next" not in call(engine, CONTENT, tiers=["3"], assist="off")
    assert "next" not in call(engine, CONTENT)


def test_what_an_agent_found_stands_where_its_quote_stands_or_not_at_all(engine: Engine) -> None:
    said = call(engine, CONTENT, file_path="a.py", tiers=["3"], findings=DRAFT)
    (row,) = said["findings"]
    assert (row["tier"], row["line"], row["severity"], row["rule_id"]) == (3, 2, "warning", "critique-correctness")
    assert [each["place"] for each in said["rejected"]] == ["findings[1]"]
    assert (said["passed"], said["meta"]["assist_used"], said["tiers_run"]) == (True, "host", [0, 3])


def test_the_brief_of_a_second_pass_holds_no_secret(engine: Engine) -> None:
    assert KEY not in json.dumps(call(engine, f'key = "{KEY}"\n', tiers=["3"]))
