"""The engine behind the JSON-lines protocol of a retrieval bench: one request a line in, one answer a line out.

    {"op": "index", "dir": "/abs/dir", "repo": "name"}      -> {"ok": true}
    {"op": "search", "query": "...", "top_k": 10}           -> {"results": [{path, start, end, content, score}, ...]}
    anything that fails                                     -> {"ok": false, "error": "..."}

Every `index` builds anew in a throw-away cache. Every `search` is a call of the tool `codebase_retrieval` as an agent
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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
if (ROOT / "context_engine").is_dir():  # a checkout answers for itself, whatever else is installed
    sys.path.insert(0, str(ROOT))

from context_engine.engine import Engine  # noqa: E402 - the path had to be set first
from context_engine.settings import Settings  # noqa: E402
from context_engine.tools import Call, codebase_retrieval  # noqa: E402

TOP_K = 10
RESULT_CHARS_MAX = 1_000_000
"""Fifty rows fit: the bench cuts by tokens itself."""


class Bench:
    """One repository at a time, indexed into a folder that is gone when the bench is closed."""

    def __init__(self, *, workers: int, whole_chunks: bool) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="ctx-bench-")
        self._workers = workers
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
        cache = Path(self._scratch.name) / str(self._indexed)
        cache.mkdir()
        self._share_grammars(cache)
        # An eval's corpus does not change under it, so answers need not look for edits.
        settings = Settings(
            cache_folder=cache, workers=self._workers, staleness_ms=600_000, result_chars_max=RESULT_CHARS_MAX
        )
        self._engine = Engine.open(folder, settings=settings)
        self._engine.index.update()

    def _share_grammars(self, cache: Path) -> None:
        """Parsers are unpacked once a process, as on a user's machine; where links are not allowed, once an index."""
        grammars = Path(self._scratch.name) / "grammars"
        grammars.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):
            (cache / "grammars").symlink_to(grammars, target_is_directory=True)

    def _search(self, text: str, limit: int) -> list[dict[str, Any]]:
        if self._engine is None:
            raise ValueError("search before index")
        arguments = {"query": text, "top_k": limit}
        if self._whole_chunks:
            arguments["profile"] = "rich"
        reply = codebase_retrieval.call(self._engine, arguments, Call())
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


def serve(bench: Bench, source: IO[str], out: IO[str]) -> None:
    """Answer line after line until the input ends; a request that fails is answered, not fatal."""
    for line in source:
        if not line.strip():
            continue
        try:
            reply = bench.answer(json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other side waits for one line
            reply = {"ok": False, "error": f"{type(error).__name__}: {error}"}
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
    parser.add_argument("--workers", type=int, default=0, help="processes that help indexing (default: none)")
    parser.add_argument("--whole-chunks", action="store_true", help="content is the whole chunk, not its telling part")
    chosen = parser.parse_args()
    bench = Bench(workers=chosen.workers, whole_chunks=chosen.whole_chunks)
    with stdout_of_our_own() as out, contextlib.closing(bench):
        serve(bench, sys.stdin, out)


if __name__ == "__main__":
    main()
