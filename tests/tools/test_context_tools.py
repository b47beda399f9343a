"""The two tools that prepare somebody for a task, as a client calls them: their JSON, their limits, their errors."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from context_engine import tools
from context_engine.context.assist import open_runner
from context_engine.context.project_knowledge import KnowledgeEntry, ProjectKnowledge
from context_engine.engine import Engine
from context_engine.text import estimate_tokens
from context_engine.tools.context_tools import enhance_prompt
from context_engine.tools.tool import Call
from tests.support.chatting import MODEL, model_that_says, refused
from tests.support.endpoints import only_connecting_to
from tests.support.engines import indexed
from tests.support.trees import tree

CORPUS = Path(__file__).resolve().parents[2] / "evals" / "retrieval" / "tiny" / "corpus"


@pytest.fixture(scope="module")
def parcels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A parcel service in ten languages."""
    files = {path.relative_to(CORPUS).as_posix(): path.read_bytes() for path in CORPUS.rglob("*") if path.is_file()}
    with indexed(tree(tmp_path_factory.mktemp("tiny") / "w", files), staleness_ms=600_000) as engine:
        yield engine


def text(engine: Engine, query: str, **arguments: Any) -> str:
    return tools.call(engine, "get_context_for_prompt", {"query": query, **arguments}).text


def bundle(engine: Engine, query: str, **arguments: Any) -> dict[str, Any]:
    return json.loads(text(engine, query, **arguments))


def timeless(reply: str) -> str:
    return re.sub(r'"search_ms":\d+', "", reply)


def enhance(engine: Engine, prompt: str, **arguments: Any) -> dict[str, Any]:
    return json.loads(enhance_prompt.call(engine, {"prompt": prompt, **arguments}, Call()).text)


# -- get_context_for_prompt --


def test_a_bundle_has_the_shape_that_agents_know(parcels: Engine) -> None:
    reply = bundle(parcels, "how is the price of a parcel computed")
    assert [*reply] == ["summary", "query", "files", "memories", "discoveries", "external_hints", "hints", "metadata"]
    first = reply["files"][0]
    assert first["relevance"] == 1
    assert all({"path", "language", "relevance", "snippets", "related"} <= file.keys() for file in reply["files"])
    assert {"text", "lines", "relevance", "tokens"} <= first["snippets"][0].keys()
    counts = "total_files total_snippets total_tokens token_budget truncated sources"
    assert {*counts.split()} <= reply["metadata"].keys()
    assert reply["metadata"]["total_files"] == len(reply["files"]) <= 5
    assert {*reply["metadata"]["sources"]} == {"lexical", "semantic", "symbol", "history"}


def test_random_questions_keep_the_budget_show_no_line_twice_and_are_answered_alike(parcels: Engine) -> None:
    draw = random.Random(6)
    words = sorted({word for path in CORPUS.rglob("*.*") for word in re.findall(r"\w{4,20}", path.read_text("utf-8"))})
    for _ in range(20):
        query = " ".join(draw.sample(words, draw.randint(1, 6)))
        asked = {
            "token_budget": draw.choice((500, 900, 2_000, 8_000)),
            "max_files": draw.choice((1, 5, 20)),
            "min_relevance": 0,
        }
        reply = text(parcels, query, **asked)
        assert estimate_tokens(reply) <= asked["token_budget"], (query, asked)
        assert timeless(reply) == timeless(text(parcels, query, **asked))
        files = json.loads(reply)["files"]
        assert len({file["path"] for file in files}) == len(files) <= asked["max_files"]
        for file in files:
            spans = sorted(tuple(map(int, snippet["lines"].split("-"))) for snippet in file["snippets"])
            assert all(left[1] < right[0] for left, right in pairwise(spans))


def test_the_budget_counts_the_whole_reply_the_question_too(parcels: Engine) -> None:
    query = "price of a parcel " * 220
    for shape in ("json", "markdown"):
        reply = text(parcels, query, token_budget=500, format=shape)
        assert estimate_tokens(reply) <= 500


def test_markdown_shows_the_same_files_for_reading(parcels: Engine) -> None:
    shown = text(parcels, "how is the price of a parcel computed", format="markdown")
    for file in bundle(parcels, "how is the price of a parcel computed")["files"]:
        assert f"## {file['path']}" in shown
    assert shown.count("```") % 2 == 0 and "of 8,000 tokens" in shown


def test_memories_and_discoveries_stand_apart(parcels: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        KnowledgeEntry(
            "mem_1", "decisions", "Cents", "Money is counted in cents.", "memory", "memories/1.md", score=0.9
        ),
        KnowledgeEntry("dis_2", "rule", "", "Weights are grams.", "discovery", "AGENTS.md", 4, score=0.5),
    ]
    monkeypatch.setattr(
        parcels.memory,
        "get_project_knowledge",
        lambda: ProjectKnowledge(recall=lambda _text, _limit, _files=None: rows),
    )
    reply = bundle(parcels, "price of a parcel")
    assert [each["id"] for each in reply["memories"]] == ["mem_1"]
    assert [each["where"] for each in reply["discoveries"]] == ["AGENTS.md:4"]
    assert reply["metadata"]["absent"] == ["history"]
    assert "decisions mem_1 (memories/1.md): Cents: Money" in text(parcels, "price of a parcel", format="markdown")


# -- enhance_prompt --


def test_a_named_function_is_resolved_in_the_first_reference(parcels: Engine) -> None:
    reply = enhance(parcels, "why does volumetric_grams() round up?")
    (found,) = parcels.symbols.find("volumetric_grams").definitions
    place = {"path": "parcels/pricing.py", "line": found.span.first, "symbol": "volumetric_grams"}
    assert reply["references"][0]["resolved"] == [place]
    assert reply["changed"] and reply["original"] in reply["enhanced_prompt"]
    assert {*reply["sections"]} == {
        *("objective", "references", "likely_files", "related", "constraints", "validation", "open_questions"),
        "done_when",
    }


def test_every_path_of_the_answer_exists(parcels: Engine) -> None:
    def paths(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            yield from (each for key, each in value.items() if key == "path")
            yield from (path for each in value.values() for path in paths(each))
        elif isinstance(value, list):
            yield from (path for each in value for path in paths(each))

    found = list(
        paths(enhance(parcels, "the price of a parcel is rounded in parcels/pricing.py and `nowhere.py`", mode="rich"))
    )
    assert found and all((parcels.root / path).is_file() for path in found)


def test_an_agent_may_hand_back_its_own_version_and_it_is_checked(parcels: Engine) -> None:
    prompt = "round up in parcels/pricing.py"
    offered = enhance(parcels, prompt)["next"]
    assert offered["tool"] == "enhance_prompt" and "next" not in enhance(parcels, prompt, assist="off")
    good = enhance(parcels, prompt, draft=f"In the pricing of parcels: {prompt}, always to whole cents.")
    assert good["rejected"] == [] and good["enhanced_prompt"].endswith("whole cents.")
    bad = enhance(parcels, prompt, draft="round up in parcels/nothing.py")
    assert [each["text"] for each in bad["rejected"]] == [prompt, "parcels/nothing.py"]
    assert bad["enhanced_prompt"].startswith(prompt)


def test_a_line_that_is_not_there_and_a_draft_that_grew_too_long_are_rejected(parcels: Engine) -> None:
    prompt = "round up in parcels/pricing.py"
    far = enhance(parcels, prompt, draft=f"{prompt}, see parcels/pricing.py:9999")
    assert [each["text"] for each in far["rejected"]] == ["parcels/pricing.py:9999"]
    assert far["meta"] == {"assist_used": "none"}
    long = f"{prompt}. " + "Mind the rounding of grams. " * 200
    assert "light allows 600" in enhance(parcels, prompt, draft=long)["rejected"][0]["reason"]
    assert enhance(parcels, prompt, draft=long, mode="rich")["meta"] == {"assist_used": "host"}


def test_a_model_rewords_a_prompt_when_the_user_named_one(parcels: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = "round up in parcels/pricing.py"
    invented, good = "{prompt}, as in parcels/ghost.py", "Whole cents only. {prompt}"
    with model_that_says({"draft": invented}, {"draft": good}) as server, only_connecting_to(server.server_address[1]):
        monkeypatch.setattr(parcels, "second_pass", open_runner(server.address, MODEL, "", wait_s=20))
        reply = enhance(parcels, prompt)
        assert "parcels/ghost.py: not found" in server.asked[1].body["messages"][3]["content"]
        assert "next" not in enhance(parcels, prompt, assist="off") and len(server.asked) == 2
        parcels.second_pass.close()
    assert reply["enhanced_prompt"] == f"Whole cents only. {prompt}" and reply["changed"]
    assert reply["meta"] == {"assist_used": "model", "model": {"prompt_tokens": 200, "completion_tokens": 40}}
    assert "next" not in reply and reply["original"] == prompt


def test_a_model_that_fails_leaves_the_facts_the_next_step_and_a_warning(
    parcels: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = "round up in parcels/pricing.py"
    alone = enhance(parcels, prompt, assist="host")
    with model_that_says(refused("overloaded", 503)) as server:
        monkeypatch.setattr(parcels, "second_pass", open_runner(server.address, MODEL, "", wait_s=20))
        reply = enhance(parcels, prompt, assist="model")
        parcels.second_pass.close()
    assert "status 503" in reply.pop("warnings")[0]
    assert reply == alone
