"""The session benchmark: its agent is bounded and sees only what a request shows, and its figures are what they say."""

from __future__ import annotations

import doctest
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.sessions import agents, needed, parts, policy, report, run
from evals.sessions.policy import Ask, Edit, Match, Means, Read, Search, decide, find_matches
from tests.clients.dialects import MESSAGES
from tests.support.trees import repository

TASK = "Fix `round_cents`: negative amounts\n\nRefunds of one cent vanish because of how amounts are rounded."
FILES = {
    "billing/tax.py": "def rate(country):\n    return 19\n\n\ndef round_cents(amount):\n    return int(amount + 0.5)\n",
    "docs/money.md": "round_cents is used for every amount\n",
    "parcels/label.py": "def print_label(parcel):\n    return parcel.code\n",
}


@pytest.mark.parametrize("module", [parts, policy, report])
def test_examples_hold(module) -> None:
    assert doctest.testmod(module).failed == 0


# -- the policy --


results = st.lists(st.tuples(st.sampled_from(["a.py", "b/c.go", "tests/t.py"]), st.integers(1, 900)), max_size=20).map(
    lambda rows: "\n".join(f"{path}:{line}:code" for path, line in rows)
)


@given(st.text(max_size=200), st.lists(results, min_size=20, max_size=20), st.booleans(), st.booleans())
def test_every_session_ends_within_the_bounds(task: str, found: list[str], has_tool: bool, told: bool) -> None:
    history: list[tuple[policy.Action, str]] = []
    means = Means(has_tool, told)
    while not isinstance(action := decide(task, means, "", history), Edit):
        history.append((action, found[len(history)]))
        assert len(history) <= policy.SEARCHES_MAX + policy.READS_MAX + 1
    counts = [sum(isinstance(action, kind) for action, _ in history) for kind in (Search, Read, Ask)]
    assert counts[0] <= policy.SEARCHES_MAX
    assert counts[1] <= policy.READS_MAX
    assert counts[2] <= int(has_tool)


def test_without_anything_given_it_searches_for_the_most_telling_name_and_reads_around_it() -> None:
    search = decide(TASK, Means(), "", [])
    assert search == Search("round_cents")
    found = "docs/money.md:1:round_cents\nbilling/tax.py:500:def round_cents(amount):"
    assert decide(TASK, Means(), "", [(search, found)]) == Read("billing/tax.py", 440, 559)


def test_it_asks_first_when_it_is_told_to_and_otherwise_when_its_own_searches_fail() -> None:
    assert decide(TASK, Means(has_tool=True, told_first=True), "", []) == Ask(TASK)
    assert decide(TASK, Means(has_tool=True), "", []) == Search("round_cents")
    nothing = [(Search("round_cents"), ""), (Search("amounts"), "")]
    assert decide(TASK, Means(has_tool=True), "", nothing) == Ask(TASK)
    assert decide(TASK, Means(has_tool=False, told_first=True), "", []) == Search("round_cents")


@pytest.mark.parametrize(
    ("result", "matches"),
    [
        ("./src/a.py:12:def f():\n./src/a.py:13:    return 1", [Match("src/a.py", 12), Match("src/a.py", 13)]),
        ("src/a.py-11-import os\nsrc/a.py:12:def f():\n--", [Match("src/a.py", 12)]),
        ('Found 1 match for pattern "f":\n---\nFile: src/a.py\nL12: def f():\n---', [Match("src/a.py", 12)]),
        ("Found 1 matches\nsrc/a.py:\n  Line 12: def f():", [Match("src/a.py", 12)]),
        ("No files found", []),
    ],
)
def test_results_of_every_client_are_read(result: str, matches: list[Match]) -> None:
    assert find_matches(result) == matches


# -- what was seen --


def test_a_hunk_is_seen_when_a_line_of_its_own_was_shown_in_any_form(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", FILES)
    hunks = needed.telling_lines(root, {"billing/tax.py": [[6, 6]], "parcels/label.py": [[1, 1]]})
    assert len(hunks) == 2
    assert needed.count_seen(hunks, "     6\t    return int(amount + 0.5)") == 1
    assert needed.count_seen(hunks, json.dumps({"content": FILES["billing/tax.py"]})) == 1
    assert needed.count_seen(hunks, "round_cents") == 0


# -- a session, with a client of a few lines --


def play(setup: str, root: Path, *, words: str = "") -> run.Session:
    """Play a session with the shell tools of Claude Code's dialect; the commands are really run."""
    task = {"id": "t", "query": TASK, "hunks": {"billing/tax.py": [[6, 6]]}}
    session = run.Session(agents.CLAUDE, setup, root, task)
    messages: list[dict[str, Any]] = [{"role": "user", "content": TASK}]
    tools = [{"name": name} for name in ("Bash", "Read")]
    with run.PolicyModel(session) as model:
        for _ in range(10):
            events = list(model.answer(MESSAGES, {"system": words, "tools": tools, "messages": messages}))
            block = events[1][1]["content_block"]
            if block["type"] == "text":
                return session
            given = json.loads(events[2][1]["delta"]["partial_json"])
            result = {"type": "tool_result", "content": result_of(block["name"], given, root)}
            messages += [{"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]
    raise AssertionError("the session did not end")


def result_of(tool: str, given: dict[str, Any], root: Path) -> str:
    if tool == "Bash":
        return subprocess.run(given["command"], shell=True, cwd=root, capture_output=True, text=True, check=True).stdout
    lines = Path(given["file_path"]).read_text().split("\n")[given["offset"] - 1 :][: given["limit"]]
    return "\n".join(f"{given['offset'] + n}\t{line}" for n, line in enumerate(lines))


def test_a_session_finds_the_place_with_the_client_s_own_means(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", FILES)
    session = play("without", root)
    assert session.actions[0] == Search("round_cents")
    assert isinstance(session.actions[-1], Edit)
    assert Read("billing/tax.py", 1, 120) in session.actions
    assert needed.count_seen(needed.telling_lines(root, session.task["hunks"]), session.seen) == 1
    sizes = [sum(part.values()) for part in session.parts]
    assert sizes == sorted(sizes), "each request holds the whole conversation"
    assert session.parts[0]["reads"] == 0 < session.parts[-1]["reads"]


def test_a_session_with_the_code_in_its_first_request_is_one_request(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", FILES)
    session = play(
        "hooks", root, words="billing/tax.py:1-2 x\n```python\n# negative refunds of amounts\ndef round_cents(\n```\n"
    )
    assert session.actions == [Edit()]
    assert len(session.parts) == 1


# -- the parts of a request --

TOOL = {"name": "mcp__ctx__read", "description": "Read."}
OWN = {"name": "Read", "description": "Read."}


@pytest.mark.parametrize(
    "tools",
    [
        [OWN, TOOL],
        [{"type": "function", "function": OWN}, {"type": "function", "function": TOOL}],
        [{"functionDeclarations": [OWN, TOOL]}],
        [OWN, {"type": "namespace", "name": "mcp__ctx__", "description": "", "tools": [TOOL]}],
    ],
)
def test_the_list_of_the_server_is_counted_apart_from_the_tools_of_each_client(tools: list[dict[str, Any]]) -> None:
    measured = parts.measure_parts({"tools": tools}, [], "", "")
    assert len(json.dumps(TOOL)) - 4 <= measured["list"] <= len(json.dumps(tools)) - len(json.dumps(OWN))


def test_the_parts_of_a_request_add_up_to_all_of_it() -> None:
    given = "ctx on this request: a.py:1-2"
    instructions, guidance = "Finds code in this repository. More of it.", "Ask ctx first."
    said = f"Rules: {guidance}\n{instructions[:35]}\nUserPromptSubmit: {given}\n</system-reminder>\nFix it."
    body = {"system": said, "tools": [TOOL], "messages": ["def f(): ..."]}
    measured = parts.measure_parts(body, [("replies", "def f(): ...")], instructions, guidance)
    assert sum(measured.values()) == parts.count_visible_chars(body)
    assert (measured["instructions"], measured["guidance"], measured["replies"]) == (35, len(guidance), 12)
    assert measured["hooks"] == len(given) + 1


# -- the table --
