"""The facts of an open workspace, for grounding: which files there are, what stands in them, which names are defined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from context_engine.context.fact_check import NEAR_MAX, Ground
from context_engine.context.gather import Workspace
from context_engine.context.resolve_references import of_module
from context_engine.errors import CallError, ContextEngineError, FileNotFound, InvalidPath
from context_engine.text.spans import LineSpan


def ground_of(workspace: Workspace, *, spans: Callable[[str], Sequence[LineSpan]] | None = None) -> Ground:
    """The facts as they are now, each looked up once. Without an index every name counts as defined: nobody could say."""

    @cache
    def looked_at(path: str) -> tuple[bool, str | None]:
        try:
            return True, workspace.read(path).text
        except (FileNotFound, InvalidPath):
            return _is_folder(path, workspace), None
        except ContextEngineError:
            return True, None  # binary, too large, or not for our eyes: there all the same

    @cache
    def near_symbols(name: str) -> tuple[str, ...] | None:
        bare = name.strip("` ").removesuffix("()").replace("->", ".")
        try:
            found = workspace.find_symbol(bare, limit=1)
            known = found.definitions or of_module(bare, workspace)
        except CallError:
            return None
        return None if known else found.near[:NEAR_MAX]

    return Ground(
        has_path=lambda path: looked_at(path)[0],
        text=lambda path: looked_at(path)[1],
        has_symbol=lambda name: near_symbols(name) is None,
        near_paths=lambda path: _near_paths(path, workspace),
        near_symbols=lambda name: near_symbols(name) or (),
        spans=spans,
    )


def _is_folder(path: str, workspace: Workspace) -> bool:
    try:
        workspace.list_directory(path, depth=1, max_items=1)
    except CallError:
        return False
    return True


def _near_paths(path: str, workspace: Workspace) -> Sequence[str]:
    """What the path may have been meant to be: the same name elsewhere, else what begins like it."""
    name = path.rpartition("/")[2]
    if same := workspace.files_named(name):
        return [str(each) for each in same[:NEAR_MAX]]
    return next((found for typed in (name, name.partition(".")[0]) if (found := _completed(typed, workspace))), ())


def _completed(typed: str, workspace: Workspace) -> Sequence[str]:
    return workspace.complete_path(typed, limit=NEAR_MAX)[0] if typed else ()
