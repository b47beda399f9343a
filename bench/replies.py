"""Count what the list of tools and ten typical replies cost a model, in tokens of o200k.

    python bench/replies.py REPOSITORY                    the tools of this version
    python bench/replies.py REPOSITORY --older            the same ten requests by the names of version 0.2

Counts with the tokenizer of scripts/tokens.py (`npm install --prefix build/tokens gpt-tokenizer`). The repository is
indexed in a temporary cache. Run it with the package of another version on the path to compare versions:
`PYTHONPATH=../older python bench/replies.py REPOSITORY --older`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

QUESTION = "how are the files of an edit written, all or none"
REQUESTS: dict[str, tuple[tuple[str, dict[str, Any]], tuple[tuple[str, dict[str, Any]], ...]]] = {
    "a question": (
        ("search_code", {"query": QUESTION}),
        (("codebase_retrieval", {"query": QUESTION}),),
    ),
    "a question, 4,000 tokens": (
        ("search_code", {"query": "how is a token budget kept", "token_budget": 4_000}),
        (("codebase_retrieval", {"query": "how is a token budget kept", "max_tokens": 4_000}),),
    ),
    "a symbol in words": (
        ("search_code", {"query": "RateLimiter"}),
        (("codebase_retrieval", {"query": "RateLimiter"}),),
    ),
    "all for a task": (
        ("get_context", {"query": "add a limit of calls for each project", "token_budget": 4_000}),
        (("get_context_for_prompt", {"query": "add a limit of calls for each project", "token_budget": 4_000}),),
    ),
    "three places of two files": (
        (
            "read",
            {
                "items": [
                    "context_engine/text/words.py#estimate_tokens",
                    "context_engine/text/words.py:1-20",
                    "context_engine/timestamps.py",
                ]
            },
        ),
        (
            ("read_fragment", {"path": "context_engine/text/words.py", "symbols": ["estimate_tokens"]}),
            ("read_file", {"path": "context_engine/text/words.py", "start_line": 1, "end_line": 20}),
            ("read_file", {"path": "context_engine/timestamps.py"}),
        ),
    ),
    "a definition": (
        ("symbols", {"name": "RateLimiter"}),
        (("find_symbol", {"name": "RateLimiter"}),),
    ),
    "callers": (
        ("symbols", {"name": "estimate_tokens", "relation": "callers"}),
        (("trace", {"symbol": "estimate_tokens"}),),
    ),
    "a word in all files": (
        ("search_text", {"query": "estimate_tokens", "limit": 20}),
        (("search_files", {"query": "estimate_tokens", "limit": 20}),),
    ),
    "decisions": (
        ("search_memory", {"query": "why is the index made of segments"}),
        (("context_search", {"query": "why is the index made of segments"}),),
    ),
    "which tool": (
        ("list_tools", {"query": "undo the last edit"}),
        (("tool_manifest", {"query": "undo the last edit"}),),
    ),
}
"""Ten requests: by a tool of the default list, and by what version 0.2 listed for it, in as many calls as it took."""


def main() -> None:
    """Print the counts, one line each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("repository", type=Path)
    options.add_argument("--older", action="store_true", help="ask by the names of version 0.2")
    chosen = options.parse_args()
    from scripts import tokens

    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"CTX_CACHE_FOLDER": cache, "CTX_GAIN": "false"}
        texts = collect_replies(chosen.repository.resolve(), older=chosen.older)
    for name, text in texts.items():
        print(f"{name:28} {count(tokens, [text]):6,}")
    listed = tokens.profile_texts("core")
    print(f"{'ten replies':28} {count(tokens, list(texts.values())):6,}")
    print(f"{'the default list':28} {count(tokens, listed):6,}  {len(listed)} tools")


def collect_replies(root: Path, *, older: bool) -> dict[str, str]:
    """Return the text of the replies to each request."""
    from context_engine import Engine, tools
    from context_engine.tools import Call

    texts = {}
    with Engine.open(root) as engine:
        engine.index.update()
        for name, (current, before) in REQUESTS.items():
            calls = before if older else (current,)
            texts[name] = "\n".join(tools.call(engine, tool, arguments, Call()).text for tool, arguments in calls)
    return texts


def count(tokens: Any, texts: list[str]) -> int:
    """Return the tokens of texts by the tokenizer; raises SystemExit without it."""
    counts = tokens.counted(texts)
    if counts is None:
        raise SystemExit("the tokenizer is missing: npm install --prefix build/tokens gpt-tokenizer")
    return sum(counts)


if __name__ == "__main__":
    main()
