"""What the documents promise of a search, kept by the real engine over a small shop: four kinds, tags, shapes, limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine import tools
from context_engine.engine import Engine
from context_engine.errors import InvalidArgument
from context_engine.model import CHUNK_KINDS
from tests.support.engines import indexed, open_engine
from tests.support.tool_calls import told
from tests.support.trees import tree

AUTH_GO = """package auth

import (
	"errors"
	"os"
)

const SessionMinutes = 30

// Handler answers authentication requests.
type Handler struct {
	store map[string]string
}

// Authenticate checks a password and opens a session for the user.
func (h *Handler) Authenticate(user string, password string) error {
	if h.store[user] != password {
		return errors.New("authentication failed")
	}
	return nil
}
"""

SHOP = {
    "README.md": "# Shop\n\nA shop that sells lamps to people. Authentication is described in the decisions.\n",
    "docs/decisions/0001-authentication.md": (
        "---\ntags: [architecture, Security]\n---\n# Authentication design decisions\n\n"
        "We authenticate with sessions and not with tokens, because a session can be ended at once. #sessions\n\n"
        "## Rejected\n\nTokens that live for a week: nobody can take them back. See issue #42 and the colour #ff8800.\n"
    ),
    "docs/guide.md": "# Guide\n\nHow to buy a lamp: put it into the cart, then pay. Authentication comes first. #howto\n",
    "internal/auth/handler.go": AUTH_GO,
    "internal/auth/handler_test.go": 'package auth\n\nfunc TestAuthenticate() {\n\tHandler{}.Authenticate("a", "b")\n}\n',
    "web/errors.ts": (
        "/** Retries when an error says that it may help. */\n"
        "export function handleError(error: Error): boolean {\n  return error.name === 'Timeout'\n}\n"
    ),
    "worker/errors.py": (
        "RETRIES_MAX = 5\n\n\ndef handle_error(error):\n    '''Handle an error by a pattern.'''\n    raise error\n"
    ),
    "config/database.yml": "database:\n  connection:\n    host: localhost\n    pool_size: 5\n",
    "config/limits.py": "# Settings of the database connection.\nDATABASE_CONNECTIONS_MAX = 20\nDATABASE_TIMEOUT_S = 3\n",
    "node_modules/lamp/index.js": "export function authenticate(handler) { return handler }\n",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with indexed(tree(tmp_path_factory.mktemp("promised") / "shop", SHOP)) as engine:
        yield engine


def cortex(engine: Engine, query: str, **arguments: Any) -> list[dict[str, Any]]:
    """The chunks of an answer, best first."""
    return [row["chunk"] for row in told(engine, "cortex_search", query=query, **arguments)["results"]]


def files(chunks: list[dict[str, Any]]) -> list[str]:
    return [chunk["metadata"]["file_path"] for chunk in chunks]


# -- all kinds --


def test_without_kinds_all_four_are_searched_and_found(engine: Engine) -> None:
    found = cortex(engine, "how does authentication work in the session handler, and what are its minutes")
    assert {chunk["chunk_type"] for chunk in found} == set(CHUNK_KINDS)


# -- kinds --


@pytest.mark.parametrize("kind", CHUNK_KINDS)
def test_only_the_kinds_asked_for_come_back(engine: Engine, kind: str) -> None:
    found = cortex(engine, "authentication handler database connection error", chunk_types=[kind])
    assert {chunk["chunk_type"] for chunk in found} == {kind}


def test_an_overview_lists_functions_and_types_and_counts_them(engine: Engine) -> None:
    (overview,) = cortex(engine, "Authenticate Handler", chunk_types=["symbols"], tags=["go"], limit=1)
    assert overview["title"] == "internal/auth/handler.go symbols"
    assert "struct Handler" in overview["text"]
    assert "Authenticate" in overview["text"]
    metadata = overview["metadata"]
    assert {name: metadata[name] for name in ("imports_count", "types_count", "functions_count")} == {
        "imports_count": 2, "types_count": 1, "functions_count": 1,
    }  # fmt: skip


# -- tags --


@pytest.mark.parametrize(
    ("tag", "path"),
    [
        ("go", "internal/auth/handler.go"),
        ("code", "internal/auth/handler.go"),
        ("documentation", "docs/decisions/0001-authentication.md"),
        ("decisions", "docs/decisions/0001-authentication.md"),
        ("internal", "internal/auth/handler.go"),
        ("architecture", "docs/decisions/0001-authentication.md"),
        ("security", "docs/decisions/0001-authentication.md"),
        ("sessions", "docs/decisions/0001-authentication.md"),
        ("howto", "docs/guide.md"),
    ],
)
def test_a_tag_of_language_kind_path_front_matter_or_text_finds_its_chunk(engine: Engine, tag: str, path: str) -> None:
    found = cortex(engine, "authentication", tags=[tag])
    assert path in files(found)
    assert all(tag in chunk["tags"] for chunk in found)


@pytest.mark.parametrize("tags", [["go", "code"], ["documentation", "architecture"], ["typescript", "definitions"]])
def test_a_result_has_all_tags_whatever_their_order(engine: Engine, tags: list[str]) -> None:
    found = cortex(engine, "authentication handler error", tags=tags)
    assert found
    assert all(set(tags) <= set(chunk["tags"]) for chunk in found)
    assert cortex(engine, "authentication handler error", tags=tags[::-1]) == found


def test_numbers_and_colours_are_no_tags_and_an_unknown_tag_names_its_neighbours(engine: Engine) -> None:
    for tag in ("42", "ff8800"):
        assert cortex(engine, "tokens", tags=[tag]) == []
    reply = told(engine, "cortex_search", query="authentication", tags=["architectur"])
    assert (reply["results"], reply["total"]) == ([], 0)
    assert "architecture" in reply["near_tags"]


# -- the answer --


def test_the_answer_has_the_shape_of_its_document(engine: Engine) -> None:
    reply = told(engine, "cortex_search", query="authentication")
    assert reply["total"] == len(reply["results"]) > 0
    for row in reply["results"]:
        assert set(row) == {"chunk", "combined_score"}
        chunk = row["chunk"]
        assert set(chunk) == {
            "id", "chunk_type", "title", "text", "tags", "metadata", "created_at", "updated_at",
        }  # fmt: skip
        metadata = chunk["metadata"]
        assert {"source", "file_path", "language", "line_start", "line_end"} <= set(metadata)
        assert metadata["source"] == ("markdown" if chunk["chunk_type"] == "documentation" else "code")
        assert chunk["created_at"] == chunk["updated_at"] == engine.index.indexed_at()
        if chunk["chunk_type"] != "symbols":
            lines = SHOP[metadata["file_path"]].split("\n")
            written = "\n".join(lines[metadata["line_start"] - 1 : metadata["line_end"]])
            assert chunk["text"] == written.rstrip("\n")


def test_scores_fall_from_one_and_the_best_comes_first(engine: Engine) -> None:
    rows = told(engine, "cortex_search", query="authentication handler of a session")["results"]
    scores = [row["combined_score"] for row in rows]
    assert scores[0] == 1
    assert scores == sorted(scores, reverse=True)


def test_a_least_score_drops_what_is_below_it_and_none_is_asked_for_by_default(engine: Engine) -> None:
    query = "authentication handler of a session"
    everything = told(engine, "cortex_search", query=query)["results"]
    assert everything == told(engine, "cortex_search", query=query, min_score=0)["results"]
    assert min(row["combined_score"] for row in everything) < 0.3
    some = told(engine, "cortex_search", query=query, min_score=0.3)["results"]
    assert some == [row for row in everything if row["combined_score"] >= 0.3]


def test_all_that_a_limit_allows_comes_page_by_page(tmp_path: Path) -> None:
    files = {f"lamp_{n}.py": f"def lamp_{n}():\n" + "    use('lamp', 'oil')\n" * 40 for n in range(60)}
    with indexed(tree(tmp_path / "w", files)) as engine:
        asked = {"query": "lamp", "limit": 100, "chunk_types": ["definitions"]}
        pages = [told(engine, "cortex_search", **asked)]
        while "cursor" in pages[-1]:
            pages.append(told(engine, "cortex_search", cursor=pages[-1]["cursor"], **asked))
    found = [row["chunk"]["id"] for page in pages for row in page["results"]]
    assert len(pages) > 1
    assert len(set(found)) == len(found) == pages[0]["total"] == 60


def test_a_limit_is_met_by_default_by_request_and_by_clamping(tmp_path: Path) -> None:
    files = {f"lamps/lamp_{n}.py": f"def lamp_{n}():\n    return 'lamp'\n" for n in range(110)}
    files["one.md"] = "\n".join(f"# Lamp {n}\n\n{'Lamp. ' * 30}" for n in range(30))
    with indexed(tree(tmp_path / "w", files)) as engine:
        for asked, given in (({}, 15), ({"limit": 4}, 4), ({"limit": 0}, 1), ({"limit": 500}, 100)):
            assert told(engine, "cortex_search", query="lamp", tags=["definitions"], **asked)["total"] == given
        assert len(cortex(engine, "lamp", limit=20, tags=["documentation"])) == 20, "one file alone fills the limit too"
        for tool in ("codebase_retrieval", "semantic_search"):
            for asked, given in (({}, 10), ({"top_k": 3}, 3), ({"top_k": 50}, 50)):
                assert len(rows_of(engine, tool, **asked)) == given
            with pytest.raises(InvalidArgument):
                rows_of(engine, tool, top_k=51)


def rows_of(engine: Engine, tool: str, **arguments: Any) -> list[Any]:
    """The results, as rows of JSON or as headings of places."""
    text = tools.call(engine, tool, {"query": "lamp", "include_paths": ["lamps/**"], **arguments}).text
    return json.loads(text)["results"] if text.startswith("{") else [x for x in text.split("\n") if x.startswith("###")]


def test_the_same_question_gets_the_same_answer_byte_for_byte(engine: Engine) -> None:
    first = tools.call(engine, "cortex_search", {"query": "authentication"}).text
    tools.call(engine, "codebase_retrieval", {"query": "error", "tags": ["python"]})
    tools.call(engine, "find_symbol", {"name": "Handler"})
    assert tools.call(engine, "cortex_search", {"query": "authentication"}).text == first


def test_no_dependency_folder_comes_into_an_answer(engine: Engine) -> None:
    for tool in ("codebase_retrieval", "semantic_search", "cortex_search"):
        assert "node_modules" not in tools.call(engine, tool, {"query": "authenticate lamp"}).text
    assert "node_modules" not in tools.call(engine, "list_directory", {}).text


def test_every_text_of_an_answer_stands_in_the_workspace(engine: Engine) -> None:
    """Nothing is written, summed up or decided for the reader: what comes back is what stands there."""
    for row in told(engine, "codebase_retrieval", query="authentication error", profile="rich")["results"]:
        first, _, last = row["lines"].partition("-")
        lines = SHOP[row["path"]].split("\n")[int(first) - 1 : int(last or first)]
        assert row["content"] == "\n".join(lines).rstrip("\n")


def test_all_ways_to_search_ask_one_engine_and_find_the_same_best_file(engine: Engine) -> None:
    query = "check a password and open a session for the user"
    assert told(engine, "codebase_retrieval", query=query)["results"][0]["path"] == "internal/auth/handler.go"
    markdown = tools.call(engine, "semantic_search", {"query": query}).text
    assert next(x for x in markdown.split("\n") if x.startswith("## ")) == "## internal/auth/handler.go"
    assert files(cortex(engine, query))[0] == "internal/auth/handler.go"


def test_the_old_index_answers_until_the_new_one_is_complete(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", SHOP)) as engine:
        before = tools.call(engine, "codebase_retrieval", {"query": "authenticate"}).text
        heard: list[str] = []

        def ask(_: object) -> None:
            heard.append(
                json.loads(tools.call(engine, "codebase_retrieval", {"query": "authenticate"}).text)["results"]
            )

        tools.call(engine, "reindex_workspace", {}, tools.Call(progress=ask))
        assert heard
        assert all(each == json.loads(before)["results"] for each in heard)


def test_what_is_known_of_each_file_survives_a_restart(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", SHOP)
    with indexed(root) as engine:
        status = engine.status()
        answer = tools.call(engine, "cortex_search", {"query": "authentication"}).text
    with open_engine(root) as engine:
        assert (engine.status().files, engine.status().languages) == (status.files, status.languages)
        assert tools.call(engine, "cortex_search", {"query": "authentication"}).text == answer
        assert engine.index.update().unchanged == status.files


def test_status_and_answer_say_that_words_and_meaning_were_asked(engine: Engine) -> None:
    state = told(engine, "index_status")
    assert (state["engine"], state["embeddings"]["static"]) == ("hybrid", "ready")
    reply = told(engine, "codebase_retrieval", query="how is a password checked")
    assert reply["engine"] == "hybrid"
    assert reply["results"][0]["path"] == "internal/auth/handler.go"
    assert {"static", "static_card"} & set(reply["results"][0]["why"])
