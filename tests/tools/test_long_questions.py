"""An issue with its logs is a question: every tool takes 64 KB, finds what it names, and does not repeat it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.model import QUESTION_CHARS_MAX
from context_engine.tools import Call, search_code
from context_engine.tools.context_tools import enhance_prompt, get_context
from context_engine.tools.search_tools import cortex_search, semantic_search
from tests.support.engines import indexed
from tests.support.trees import tree

HEAD = """\
Heavy parcels are refused

### Steps to reproduce
Run the shop and order an anvil.

Traceback (most recent call last):
  File "/home/ann/shop/main.py", line 4, in <module>
    order("anvil")
  File "/home/ann/shop/parcels/scales.py", line 3, in weigh
    return grams / 0
ZeroDivisionError: division by zero

"""
LOG = "".join(
    f"2024-05-01T12:00:{n % 60:02d}Z INFO [web-{n}] GET /orders/{n * 7919} took {n} ms\n" for n in range(2_000)
)
ISSUE = (HEAD + LOG)[:QUESTION_CHARS_MAX]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    files = {
        "parcels/scales.py": "LIMIT = 3\n\ndef weigh(grams):\n    return grams / LIMIT\n",
        "parcels/orders.py": "def order(name):\n    '''Order parcels: heavy parcels are refused.'''\n    return name\n",
        "main.py": "from parcels.orders import order\n\n\norder('anvil')\n",
    }
    with indexed(tree(tmp_path_factory.mktemp("shop") / "w", files)) as engine:
        yield engine


@pytest.mark.parametrize("searching", [search_code, semantic_search, cortex_search, get_context])
def test_a_search_takes_an_issue_with_its_log_and_finds_the_frame(shop: Engine, searching) -> None:
    assert len(ISSUE) == QUESTION_CHARS_MAX
    reply = searching.call(shop, {"query": ISSUE}, Call()).text
    assert "parcels/scales.py" in reply and len(reply) < 12_000


def test_the_innermost_frame_is_the_first_row(shop: Engine) -> None:
    rows = json.loads(search_code.call(shop, {"query": ISSUE, "format": "json"}, Call()).text)["results"]
    assert rows[0]["path"] == "parcels/scales.py" and "def weigh" in rows[0]["content"]


def test_a_frame_of_another_version_leads_to_its_function_and_not_to_its_line(tmp_path: Path) -> None:
    padding = "".join(f"    lamp_{n} = {n}  # one of the lamps of the hall\n" for n in range(60))
    files = {"hall.py": f"def light(hall):\n{padding}\n\ndef weigh(grams):\n    return grams / 0\n{padding}"}
    issue = HEAD.replace("parcels/scales.py", "hall.py")
    assert 'hall.py", line 3, in weigh' in issue
    with indexed(tree(tmp_path / "w", files)) as engine:
        rows = json.loads(search_code.call(engine, {"query": issue, "format": "json"}, Call()).text)["results"]
        reply = json.loads(enhance_prompt.call(engine, {"prompt": issue, "assist": "off"}, Call()).text)
    assert "def weigh" in rows[0]["content"]
    assert "hall.py:64 (weigh)" in reply["enhanced_prompt"] and "hall.py:3 " not in reply["enhanced_prompt"]


def test_an_enhanced_prompt_has_the_facts_and_only_the_beginning_of_a_long_prompt(shop: Engine) -> None:
    reply = json.loads(enhance_prompt.call(shop, {"prompt": ISSUE, "assist": "off"}, Call()).text)
    assert "parcels/scales.py:3 (weigh)" in reply["enhanced_prompt"]
    assert reply["original"].startswith(HEAD[:500]) and len(reply["original"]) < 2_100
    assert len(reply["enhanced_prompt"]) < 6_000
