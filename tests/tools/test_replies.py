"""What the replies of the tools look like: the seeds' shapes, few tokens, nothing cut in silence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from context_engine import tools
from context_engine.errors import Cancelled, InvalidArgument, NotConfirmed, StorageBusy
from context_engine.model import Filter
from context_engine.settings import Settings
from context_engine.tools import Call
from context_engine.tools.reply import cut_excerpt
from tests.support.tool_calls import text, told
from tests.support.tools_stand_in import LOGIN, StandIn, hit

# -- codebase_retrieval -----------------------------------------------------------------------------------------------


def test_codebase_retrieval_answers_rows_under_a_header() -> None:
    assert told(StandIn(), "codebase_retrieval", query="log in") == {
        "engine": "lexical",
        "freshness": "fresh",
        "total": 1,
        "results": [
            {
                "path": "src/auth.py",
                "lines": "10-12",
                "symbol": "login",
                "content": LOGIN,
                "score": 4.0,
                "why": {"chunk": 2.4, "name": 1.52},
            }
        ],
    }


def test_filters_reach_the_engine_normalised() -> None:
    engine = StandIn()
    text(
        engine, "codebase_retrieval", query="q", topK="3", includePaths="src/**", excludePaths=["*.md"],
        chunkTypes="definitions", tags=["#Auth", "python"], languages=["Python"], minScore="0.5",
    )  # fmt: skip
    query = engine.queries[0]
    assert query.filter == Filter(("definitions",), ("python",), ("auth", "python"), ("src/**",), ("*.md",))
    assert (query.files_max, query.min_score) == (3, 0.5)


@pytest.mark.parametrize("name", ["codebase_retrieval", "semantic_search", "cortex_search"])
def test_no_reply_is_over_the_limit_and_the_rest_is_announced(name: str) -> None:
    hits = tuple(hit(f"src/part_{number}.py", f"word {number}\n" * 200) for number in range(50))
    engine = StandIn(hits=hits, settings=Settings(result_chars_max=5_000))
    limit = {"limit": 50} if name == "cortex_search" else {"top_k": 50}
    reply = text(engine, name, query="word", **limit)
    assert len(reply) <= 5_000
    assert any(rest in reply for rest in ("did not fit", "more files: lower `top_k`"))
    assert "part_0.py" in reply


def test_an_empty_answer_says_why_and_what_next() -> None:
    reply = told(StandIn(hits=()), "codebase_retrieval", query="q")
    assert reply["results"] == []
    assert reply["reason"] == "no match"
    assert "the name of a symbol" in reply["next"]


SHORT_FUNCTIONS = """func open() {
	screen.open()
}

// restore puts the terminal back.
func restore() {
	terminal.reset()
}

func draw() {
	screen.flush()
}"""


def test_an_excerpt_starts_with_the_definition_that_answers_and_leaves_out_the_next_one() -> None:
    before, shown = cut_excerpt(SHORT_FUNCTIONS, "restore terminal", lines_max=6, chars_max=900, heads=[0, 4, 9])
    assert (before, shown.split("\n")[0], shown.split("\n")[-1]) == (4, "// restore puts the terminal back.", "}")


def test_an_excerpt_leaves_out_the_end_of_a_definition_that_has_nothing_of_the_query() -> None:
    text = "    )\n    return command\n" + SHORT_FUNCTIONS.partition("}\n\n")[2]
    assert cut_excerpt(text, "restore terminal", lines_max=4, chars_max=900, heads=[-9, 2, 7])[0] == 2


@given(st.lists(st.text("ab c", max_size=12), min_size=1, max_size=12), st.integers(1, 9), st.sets(st.integers(-4, 11)))
@example(lines=[""] * 4, lines_max=2, heads={0, 1})
def test_an_excerpt_starts_inside_no_definition_that_fits(lines: list[str], lines_max: int, heads: set[int]) -> None:
    known = sorted(head for head in heads if head < len(lines))
    before, shown = cut_excerpt("\n".join(lines), "a b", lines_max=lines_max, chars_max=900, heads=known)
    assert shown.split("\n") == lines[before : before + shown.count("\n") + 1]
    ends = [*known[1:], len(lines)]
    assert not any(
        max(0, head) < before < end <= max(0, head) + lines_max for head, end in zip(known, ends, strict=False)
    )


@given(st.lists(st.text("ab c", max_size=12), min_size=1, max_size=12), st.integers(1, 9), st.integers(1, 40))
def test_an_excerpt_is_a_run_of_whole_lines_within_its_limits(lines: list[str], lines_max: int, chars_max: int) -> None:
    before, shown = cut_excerpt("\n".join(lines), "a b", lines_max=lines_max, chars_max=chars_max)
    run = shown.split("\n")
    assert lines[before : before + len(run)] == run
    assert len(run) <= lines_max * 1.25 + 1
    assert len(shown) <= chars_max * 1.25 or len(run) == 1


# -- semantic_search --------------------------------------------------------------------------------------------------


def test_semantic_search_is_markdown_grouped_by_file() -> None:
    engine = StandIn(hits=(hit("a.py", first=50), hit("b.py", score=3.0), hit("a.py", first=1, score=2.0)))
    reply = text(engine, "semantic_search", query="log in")
    assert reply.startswith("lexical\n\n## a.py\n### 1-3 login (score 2.0)\n```python\ndef login")
    assert reply.index("### 50-52") < reply.index("## b.py")


def test_semantic_search_deep_gives_whole_chunks() -> None:
    engine = StandIn(hits=(hit(text="\n".join(f"x{number}" for number in range(100))),))
    assert "x99" in text(engine, "semantic_search", query="x1", mode="deep")
    assert "x99" not in text(engine, "semantic_search", query="x1")


def test_a_weak_answer_says_so_first_and_has_code_only_for_who_asks() -> None:
    hits = tuple(hit(f"{name}.py", first=first) for name in "abcde" for first in (1, 50))
    engine = StandIn(hits=hits, weakness="probably nothing here")
    first, *places, last = text(engine, "search_code", query="log in").split("\n")
    assert first == "weak: probably nothing here · lexical"
    assert [place.partition(":")[0] for place in places] == ["a.py", "b.py", "c.py"]
    assert last.startswith("next: ")
    asked = text(engine, "search_code", query="log in", token_budget=900)
    assert asked.startswith(first) and "\n@@ a.py" in asked


@pytest.mark.parametrize(("tool", "row"), [("semantic_search", "\n## "), ("cortex_search", '"id":')])
def test_a_weak_answer_is_the_best_of_three_files_and_says_why(tool: str, row: str) -> None:
    hits = tuple(hit(f"{name}.py", first=first) for name in "abcde" for first in (1, 50))
    reply = text(StandIn(hits=hits, weakness="probably nothing here"), tool, query="log in")
    assert reply.count(row) == 3 and all(f"{name}.py" in reply for name in "abc")
    assert "probably nothing here" in reply
    assert text(StandIn(hits=hits), tool, query="log in").count(row) > 3


# -- cortex_search ----------------------------------------------------------------------------------------------------


def test_an_unknown_tag_answers_nothing_plus_near_tags() -> None:
    engine = StandIn(hits=(), reason="no chunk carries the tag pyton", near_tags=("python",))
    reply = told(engine, "cortex_search", query="q", tags=["pyton"])
    assert (reply["results"], reply["total"], reply["near_tags"]) == ([], 0, ["python"])


# -- symbols and the graph --------------------------------------------------------------------------------------------


def test_find_symbol_gives_place_signature_and_doc_line() -> None:
    assert text(StandIn(), "find_symbol", name="login") == (
        "1 definition\nsrc/auth.py:10-12 function auth.login\n    def login(user, password)\n    Let a user in."
    )


def test_trace_gives_evidence_for_each_step() -> None:
    assert text(StandIn(), "trace", symbol="login") == (
        "1 caller\nsrc/app.py:7 main | login(user, password)\nnotes: dynamic calls are not seen"
    )


def test_trace_needs_a_symbol_or_a_path() -> None:
    with pytest.raises(InvalidArgument, match="name is missing"):
        text(StandIn(), "trace")


# -- the index --------------------------------------------------------------------------------------------------------


class Busy(StandIn):
    """Refuses twice, as while the server's own run is under way."""

    refusals = 2

    def update(self, **arguments: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise StorageBusy("this workspace is being indexed already")
        return super().update(**arguments)


def test_index_workspace_waits_for_a_run_that_is_under_way() -> None:
    assert told(Busy(), "index_workspace")["files"] == 2


def test_waiting_for_a_run_can_be_cancelled() -> None:
    call = Call()
    call.cancel.set()
    with pytest.raises(Cancelled):
        tools.call(Busy(), "reindex_workspace", {}, call)  # ty: ignore[invalid-argument-type] - a stand-in


def test_clear_index_wants_to_be_confirmed() -> None:
    with pytest.raises(NotConfirmed) as caught:
        text(StandIn(), "clear_index")
    assert "confirm: true" in caught.value.suggestion
    assert told(StandIn(), "clear_index", confirm=True)["freed_bytes"] == 4096


def test_index_status_leaves_out_what_is_empty() -> None:
    reply = told(StandIn(), "index_status")
    assert reply["files"] == 2
    assert reply["stale"] == 0
    assert not {"last_error", "stale_files", "building", "next", "stats"} & set(reply)
