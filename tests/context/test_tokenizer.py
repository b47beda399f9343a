"""Who has the tokenizer of his model gets budgets counted by it; a file or library that is missing is said to be so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from context_engine.context.project_knowledge import load_tokenizer
from context_engine.errors import InvalidArgument, UnsupportedHost
from context_engine.tools.context_tools import get_context
from context_engine.tools.tool import Call
from tests.support.engines import indexed
from tests.support.trees import tree


@pytest.fixture
def bytewise(tmp_path: Path) -> Path:
    """A tokenizer for which every character is a token of its own."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_tokens_are_those_of_the_tokenizer(bytewise: Path) -> None:
    count = load_tokenizer(bytewise)
    assert [count(""), count("a"), count("abc")] == [0, 1, 3]


def test_a_budget_is_kept_as_the_named_tokenizer_counts(tmp_path: Path, bytewise: Path) -> None:
    files = {f"src/pool_{n}.py": f"def drain_{n}(pool):\n    return pool.drain({n})\n" * 3 for n in range(9)}
    with indexed(tree(tmp_path / "w", files), tokenizer_file=bytewise) as engine:
        reply = get_context.call(
            engine, {"query": "drain the pool", "token_budget": 1_500, "format": "json"}, Call()
        ).text
        assert len(reply) <= 1_500 and json.loads(reply)["files"]
        assert (
            abs(json.loads(reply)["metadata"]["total_tokens"] - len(reply)) < 9
        )  # the time it took is counted as if long


def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    for name in ("other.json", "missing.json"):
        with pytest.raises(InvalidArgument, match=name):
            load_tokenizer(tmp_path / name)


def test_without_the_library_the_way_on_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UnsupportedHost) as caught:
        load_tokenizer(tmp_path / "tokenizer.json")
    assert "pip install tokenizers" in caught.value.suggestion


def test_without_a_file_nothing_is_imported_and_a_bound_is_kept(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", {"a.py": "def drain():\n    pass\n"})) as engine:
        assert engine.memory.get_project_knowledge().count_tokens("drain") >= 1
