"""Real engines over small real folders: no watcher, no helper processes, a cache of their own unless told otherwise."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from context_engine.engine import Engine
from context_engine.index.describe import describe_file
from context_engine.index.encoder import StaticEncoder
from context_engine.index.postings import IndexedFile, SegmentBuilder
from context_engine.index.segment import Segment
from context_engine.index.snapshot import Snapshot
from context_engine.languages import Grammars, Languages
from context_engine.model import Query
from context_engine.settings import Settings

LANGUAGES = Languages.builtin()


def grammars_folder() -> Path:
    """One folder of unpacked parsers for all tests of this machine: unpacking takes longer than most tests."""
    folder = Path(gettempdir()) / f"context-engine-test-grammars-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    folder.mkdir(exist_ok=True)
    return folder


GRAMMARS = Grammars(grammars_folder())


def cache_for(root: Path) -> Path:
    """An empty cache beside the workspace, with the parsers in it."""
    cache = root.parent / f"{root.name}-cache"
    cache.mkdir(exist_ok=True)
    if not (cache / "grammars").exists():
        (cache / "grammars").symlink_to(grammars_folder())
    return cache


def open_engine(root: Path, **knobs: Any) -> Engine:
    """An engine on `root` that looks at the workspace before every answer."""
    chosen: dict[str, Any] = {
        "cache_folder": cache_for(root),
        "data_folder": root.parent / f"{root.name}-home",
        "workers": 0,
        "staleness_ms": 0,
    } | knobs
    return Engine.open(root, settings=Settings(**chosen))


@contextmanager
def indexed(root: Path, **knobs: Any) -> Generator[Engine]:
    """An engine on `root` whose index is there."""
    with open_engine(root, **knobs) as engine:
        engine.index.update()
        yield engine


def snapshot_of(engine: Engine) -> Snapshot:
    """What the index of an engine holds now."""
    snapshot = engine.index.store.snapshot()
    assert snapshot is not None
    return snapshot


def described(path: str, text: str) -> IndexedFile:
    """A file as an indexer describes it."""
    data = text.encode()
    return describe_file(path, data, text, LANGUAGES, GRAMMARS, size=len(data), mtime_ns=1, sha256=b"s" * 32)


def segment_of(files: Mapping[str, str], encoder: StaticEncoder | None = None) -> Segment:
    """These files in one segment, in their order."""
    builder = SegmentBuilder(encoder)
    for path, text in files.items():
        builder.add(described(path, text))
    return builder.build()


def found(engine: Engine, text: str, **asked: Any) -> list[str]:
    """The paths of the hits, best first."""
    return [str(hit.chunk.path) for hit in engine.search.find(Query(text, **asked)).hits]


def answers(engine: Engine, texts: tuple[str, ...], **asked: Any) -> dict[str, list[tuple[str, int, str]]]:
    """What each query finds: (path, first line, title), best first."""
    return {
        text: [
            (str(h.chunk.path), h.chunk.span.first, h.chunk.title)
            for h in engine.search.find(Query(text, **asked)).hits
        ]
        for text in texts
    }
