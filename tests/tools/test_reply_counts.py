"""A count of one is in the singular in every reply."""

from __future__ import annotations

import re
from pathlib import Path

from context_engine import tools
from context_engine.engine import Engine, Settings
from tests.support.engines import cache_for
from tests.support.trees import tree

PLURAL_OF_ONE = re.compile(r"\b1 (files|chunks|symbols|steps|matches|places|lines|edits|definitions)\b")
CALLS = (
    ("codebase_retrieval", {"query": "pay"}),
    ("semantic_search", {"query": "pay"}),
    ("search_files", {"query": "pay"}),
    ("scout", {"keywords": ["pay"]}),
    ("grep_codebase", {"pattern": "pay"}),
    ("find_symbol", {"name": "pay"}),
    ("find_symbol", {"outline": "a.py"}),
    ("trace", {"symbol": "pay"}),
    ("read_file", {"path": "a.py"}),
    ("read_fragment", {"path": "a.py", "symbols": ["pay"]}),
    ("read_regions", {"file_path": "a.py", "regions": [{"start": 1, "end": 1}]}),
    ("list_directory", {}),
    ("get_context_for_prompt", {"query": "pay the bill", "format": "markdown"}),
    ("rename_symbol", {"name": "pay", "new_name": "settle"}),
    ("edit_file", {"path": "a.py", "edits": [{"target": "return 1", "replace": "return 2"}]}),
    ("undo_edit", {"list": True}),
    ("index_status", {}),
    ("tool_manifest", {"query": "undo"}),
)


def test_no_reply_has_one_thing_in_the_plural(tmp_path: Path) -> None:
    root = tree(tmp_path / "project", {"a.py": "def pay():\n    return 1\n"})
    with Engine.open(root, settings=Settings(cache_folder=cache_for(root))) as engine:
        engine.index.update()
        for name, arguments in CALLS:
            text = tools.call(engine, name, arguments).text
            assert not PLURAL_OF_ONE.search(text), f"{name}: {text}"
