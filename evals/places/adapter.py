"""The tools of the product behind the JSON-lines protocol of a bench of places: one request a line in, one answer out.

    {"root": folder, "query": text, "budget_tokens": n}    -> {"shown": [{path, first, last}, ...], "text": ..., "ms": ...}
    anything that fails                                     -> {"shown": [], "text": "", "ms": 0, "error": "..."}

`text` is the reply of `--tool` as an agent gets it, `shown` what its own lines say they show, in their order. Settings
come from the environment (CTX_EMBEDDER=none and so on); the index is in a folder that is thrown away. A bench
that counts 4 characters a token gets as many characters as the budget has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.engine import Engine
from context_engine.tools import Call, Tool, search_code
from context_engine.tools.context_tools import get_context
from evals.places.shown import Place, find_in_markdown, find_in_rows
from evals.retrieval.adapter import serve, stdout_of_our_own
from evals.scratch_engine import open_indexed

CHARS_PER_TOKEN = 4
"""How the bench counts."""


class Reply(NamedTuple):
    """What a system says to a question within a budget."""

    shown: list[Place]
    text: str
    ms: float


System = Callable[[Path, str, int], Reply]
"""Answers: folder, question, tokens."""


def ask_context(engine: Engine, query: str, tokens: int = 0) -> Reply:
    """Ask for a context bundle, of at least the least budget."""
    return _call(engine, get_context, query, max(500, tokens) if tokens else 0, find_in_markdown)


def ask_search(engine: Engine, query: str, tokens: int = 0) -> Reply:
    """Ask for search results, as many rows as fit the budget."""
    return _call(engine, search_code, query, tokens, find_in_rows)


TOOLS = {"context": ask_context, "search": ask_search}
"""Answer with a stated budget, without one as a caller asks who states nothing but the question."""


def cut(reply: Reply, tool: str, tokens: int) -> Reply:
    """Return the beginning of a reply of a tool."""
    text = reply.text[: CHARS_PER_TOKEN * tokens]
    return Reply((find_in_markdown if tool == "context" else find_in_rows)(text), text, reply.ms)


def _call(engine: Engine, tool: Tool, query: str, tokens: int, find: Callable[[str], list[Place]]) -> Reply:
    began = time.perf_counter()
    text = tool.call(engine, {"query": query} | ({"token_budget": tokens} if tokens else {}), Call()).text
    ms = (time.perf_counter() - began) * 1e3
    return Reply(find(text), text, ms)


def fill(pieces: Iterable[tuple[Place, str]], tokens: int) -> tuple[list[Place], str]:
    """Return the places and the text of pieces of code, one below the other, until the budget is filled."""
    shown, text = [], ""
    for place, code in pieces:
        if len(text) >= CHARS_PER_TOKEN * tokens:
            break
        text += f"{place.path}:{place.first}-{place.last}\n{code}\n"
        shown.append(place)
    return shown, text


class ToolSystem:
    """One of the tools, asked in one folder after the other; `cache_of` says where the index of a folder is kept."""

    def __init__(self, tool: str, cache_of: Callable[[Path], Path]) -> None:
        self._ask, self._cache_of = TOOLS[tool], cache_of
        self._root: Path | None = None
        self._engine: Engine | None = None

    def __call__(self, root: Path, query: str, tokens: int) -> Reply:
        """Answer a question about a folder, indexed first where it is not. Raises: whatever the tool refuses."""
        if self._root != root or self._engine is None:
            self.close()
            self._root, self._engine = root, open_indexed(root, self._cache_of(root))
        return self._ask(self._engine, query, tokens)

    def close(self) -> None:
        """Let go of the folder."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def answer(system: System, request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request, in the words of the protocol."""
    reply = system(Path(request["root"]), request["query"], int(request["budget_tokens"]))
    return {"shown": [place._asdict() for place in reply.shown], "text": reply.text, "ms": round(reply.ms, 1)}


def answer_requests(system: System) -> None:
    """Answer what comes on standard input until it ends; a request that fails is answered with nothing shown."""
    with stdout_of_our_own() as out:
        serve(lambda request: answer(system, request), sys.stdin, out, failed={"shown": [], "text": "", "ms": 0})


def main() -> None:
    """Parse the option, then answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=TOOLS, default="context")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="ctx-places-") as scratch,
        closing(ToolSystem(chosen.tool, lambda _: Path(tempfile.mkdtemp(dir=scratch)))) as system,
    ):
        answer_requests(system)


if __name__ == "__main__":
    main()
