"""Trees that are stored change no answer: not when they are there, not when they are damaged, not when they are few."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from context_engine.engine import Engine
from context_engine.index import SyntaxCache, TreeStore
from context_engine.index import syntax_cache as syntax_cache_module
from context_engine.model import Trace
from tests.support.engines import GRAMMARS, LANGUAGES, indexed
from tests.support.trees import tree

OURS = Path(__file__).resolve().parents[2] / "context_engine"
SOURCE = b"class Cat:\n    def meow(self): ...\n\nCat().meow()\n"
MANY = 1 << 30


def copied(folder: Path) -> Path:
    """Some packages of this project, and files of three other languages."""
    files = {
        str(path.relative_to(OURS)): path.read_text("utf-8")
        for package in ("text", "edit", "resolution")
        for path in sorted((OURS / package).glob("*.py"))
    }
    files["web/cat.ts"] = "export class Cat { meow() { return this.purr() } purr() {} }\nnew Cat().meow()\n"
    files["web/zoo.go"] = "package zoo\n\ntype Cat struct{}\n\nfunc (c Cat) Meow() {}\n\nfunc f() { Cat{}.Meow() }\n"
    files["web/Cat.java"] = "class Cat { void meow() { purr(); } void purr() {} }\n"
    return tree(folder / "project", files)


def traces(engine: Engine) -> list[Trace]:
    """Impacts and callers of a definition of every third file."""
    found = []
    snapshot = engine.index.live.snapshot()
    assert snapshot is not None
    for path in sorted(snapshot.by_path)[::3]:
        for symbol in [row for row in engine.symbols.outline(path).symbols if row[1].kind in ("function", "method")][
            :2
        ]:
            name = symbol[1].qualified
            found += [engine.symbols.trace(name, "impact"), engine.symbols.trace(name, with_possible=True)]
    return [replace(trace, freshness="") for trace in found]  # it tells how long ago the files were looked at


def test_answers_are_the_same_with_trees_that_are_parsed_stored_or_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(tmp_path)
    with indexed(root) as engine:
        parsed = traces(engine)
        database = engine.cache_folder / "trees" / "trees.db"
    assert len(parsed) > 30
    assert any(trace.edges for trace in parsed)

    with indexed(root) as engine, monkeypatch.context() as patched:
        patched.setattr(syntax_cache_module, "read_syntax", lambda *_: pytest.fail("a stored tree was parsed again"))
        assert traces(engine) == parsed

    content = bytearray(database.read_bytes())
    for at in range(5_000, len(content), 997):
        content[at] ^= 0x55
    database.write_bytes(content)
    with indexed(root) as engine:
        assert traces(engine) == parsed

    database.write_bytes(b"this is no database" * 500)
    with indexed(root) as engine:
        assert traces(engine) == parsed
        engine.symbols.close()
        assert TreeStore(database.parent, lambda: MANY).find_missing([b"x"]) == [b"x"]
    assert database.read_bytes().startswith(b"SQLite format 3")


def test_a_link_in_place_of_the_store_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"")
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "trees.db").symlink_to(victim)
    store = TreeStore(tmp_path / "trees", lambda: MANY)
    assert not store.put({b"key": b"tree"})
    assert store.get(b"key") is None
    store.clear()
    assert victim.read_bytes() == b""


def test_a_full_store_keeps_the_trees_that_were_used_last(tmp_path: Path) -> None:
    today = [0.0]
    store = TreeStore(tmp_path / "trees", lambda: 1_000, clock=lambda: today[0] * 86_400)
    for number in range(10):
        today[0] = number
        store.put({bytes([number]): bytes(100)})
    today[0] = 11
    store.put({}, used=[b"\x00"])
    store.put({b"new": bytes(100)})
    kept = [number for number in range(10) if store.get(bytes([number])) is not None]
    assert kept == [0, *range(4, 10)]
    assert store.get(b"new") == bytes(100)


def test_a_store_of_another_release_is_replaced(tmp_path: Path) -> None:
    store = TreeStore(tmp_path / "trees", lambda: MANY)
    store.put({b"key": b"tree"})
    store.close()
    with closing(apsw.Connection(str(tmp_path / "trees" / "trees.db"))) as db:
        db.execute("PRAGMA user_version = 99")
    assert store.put({b"other": b"tree"})
    assert store.get(b"key") is None
    assert store.get(b"other") == b"tree"


def test_a_process_that_follows_edits_stores_the_trees_of_all_files(tmp_path: Path) -> None:
    contents = {f"{number}.py": SOURCE + b"# %d\n" % number for number in range(70)} | {"notes.md": b"# Cat\n"}
    store = TreeStore(tmp_path / "trees", lambda: MANY)
    cache = SyntaxCache(LANGUAGES, GRAMMARS, store, contents.get)
    cache.fill(contents)
    names = GRAMMARS.names("python")
    assert names is not None
    wanted = [
        syntax_cache_module.make_key(LANGUAGES["python"], names, content)[0]
        for path, content in contents.items()
        if path.endswith(".py")
    ]
    until = time.monotonic() + 60
    while store.find_missing(wanted) and time.monotonic() < until:
        time.sleep(0.05)
    assert store.find_missing(wanted) == []
    cache.close()


def test_trees_in_memory_are_bounded_and_the_last_used_ones_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(syntax_cache_module, "KEPT_BYTES_MAX", 3 * len(SOURCE))
    cache = SyntaxCache(LANGUAGES, GRAMMARS)
    first = cache.read("1.py", SOURCE)
    for number in range(2, 5):
        cache.read(f"{number}.py", SOURCE)
        assert cache.read("1.py", SOURCE) is first
    cache.read("5.py", SOURCE)
    cache.read("6.py", SOURCE)
    cache.read("7.py", SOURCE)
    assert cache.read("1.py", SOURCE) is not first
    assert cache.read("1.py", SOURCE + b"\n") is not cache.read("1.py", SOURCE)
