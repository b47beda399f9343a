"""The engine behind the JSON-lines protocol of a retrieval bench: one request a line in, one answer a line out.

    {"op": "index", "dir": "/abs/dir", "repo": "name"}      -> {"ok": true}
    {"op": "search", "query": "...", "top_k": 10}           -> {"results": [{path, start, end, content, score}, ...]}
    anything that fails                                     -> {"ok": false, "error": "..."}

Every `index` builds anew in a throw-away cache, with the settings of the environment (CTX_EMBEDDER=none and so on;
without it the static vectors that come with the product). Every `search` is a call of the tool `search_code` as an agent
makes it, so `content` is what an agent would read and `start`-`end` are the lines it would see. Nothing but answers is
ever written to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from context_engine.engine import Engine
from context_engine.tools import Call, search_code
from evals.scratch_engine import open_indexed

TOP_K = 10


class Bench:
    """One repository at a time, indexed into a folder that is gone when the bench is closed."""

    def __init__(self, *, whole_chunks: bool) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="ctx-bench-")
        self._whole_chunks = whole_chunks
        self._engine: Engine | None = None
        self._indexed = 0

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request. Raises: ValueError for an unknown one, and whatever the engine refuses."""
        if request.get("op") == "index":
            self._index(Path(request["dir"]))
            return {"ok": True}
        if request.get("op") == "search":
            return {"results": self._search(request["query"], int(request.get("top_k", TOP_K)))}
        raise ValueError(f"unknown op {request.get('op')!r}; there are index and search")

    def _index(self, folder: Path) -> None:
        self._leave()
        self._indexed += 1
        self._engine = open_indexed(folder, Path(self._scratch.name) / str(self._indexed))

    def _search(self, text: str, limit: int) -> list[dict[str, Any]]:
        if self._engine is None:
            raise ValueError("search before index")
        arguments: dict[str, Any] = {"query": text, "limit": limit, "format": "json"}
        if self._whole_chunks:
            arguments["detail"] = "rich"
        reply = search_code.call(self._engine, arguments, Call())
        return [result(row) for row in json.loads(reply.text)["results"]]

    def _leave(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def close(self) -> None:
        """Let go of the repository and delete every index."""
        self._leave()
        self._scratch.cleanup()


def result(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the tool in the words of the protocol.

    >>> result({"path": "a.py", "lines": "3-9", "content": "def a(): ...", "score": 1.5, "why": {}})
    {'path': 'a.py', 'start': 3, 'end': 9, 'content': 'def a(): ...', 'score': 1.5}
    """
    first, _, last = row["lines"].partition("-")
    return {
        "path": row["path"],
        "start": int(first),
        "end": int(last or first),
        "content": row.get("content", ""),
        "score": row["score"],
    }


def serve(
    answer: Callable[[dict[str, Any]], dict[str, Any]], source: IO[str], out: IO[str], failed: dict[str, Any]
) -> None:
    """Answer line after line until the input ends; a request that fails is answered with `failed` and the error."""
    for line in source:
        if not line.strip():
            continue
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other side waits for one line
            reply = failed | {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(reply, ensure_ascii=True) + "\n")
        out.flush()


@contextlib.contextmanager
def stdout_of_our_own() -> Iterator[IO[str]]:
    """Standard output for answers alone: whatever else prints, here or in a child process, goes to stderr."""
    ours = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with os.fdopen(ours, "w", encoding="utf-8") as out:
        yield out


def main() -> None:
    """Parse the options, then serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole-chunks", action="store_true", help="content is the whole chunk, not its telling part")
    chosen = parser.parse_args()
    bench = Bench(whole_chunks=chosen.whole_chunks)
    with stdout_of_our_own() as out, contextlib.closing(bench):
        serve(bench.answer, sys.stdin, out, failed={"ok": False})


if __name__ == "__main__":
    main()
