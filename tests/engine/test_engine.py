"""The engine from the outside: what it answers, and how it takes bad input, full disks and damage."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from context_engine.engine import Engine
from context_engine.errors import (
    BinaryFile,
    FileNotFound,
    NotIndexed,
    TooLarge,
    UnsuitableRoot,
)
from context_engine.model import Filter, Query
from tests.support import preloaded
from tests.support.engines import answers, cache_for, found, grammars_folder, indexed, open_engine
from tests.support.tool_calls import text, told
from tests.support.trees import repository, tree

ZOO = {
    "zoo/cats.py": '"""Cats."""\n\nLIMIT = 3\n\n\nclass Cat:\n    """Purrs."""\n\n    def purr(self):\n        return LIMIT\n',
    "zoo/keeper.py": "from zoo.cats import Cat\n\n\ndef feed():\n    Cat().purr()\n",
    "README.md": f"# Zoo\n\nCats live here, {'and sleep in the sun, ' * 5}all day.\n\n## Feeding\n\nThe keeper feeds them twice a day, at eight and at five, with care.\n",
    "settings.yml": "cats: 3\n",
}


# -- what it answers --


def test_a_report_tells_what_a_run_did(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", ZOO)
    with open_engine(root) as engine:
        first = engine.index.update()
        assert (first.added, first.changed, first.removed, first.unchanged, first.files) == (4, 0, 0, 0, 4)
        assert first.chunks >= 5 and first.symbols >= 4
        tree(root, {"new.py": "x = 1\n", "settings.yml": "cats: 4\n", "zoo/cats.py": b"\0now binary"})
        (root / "README.md").unlink()
        os.utime(root / "zoo/keeper.py", ns=(5, 5))
        second = engine.index.update()
        assert (second.added, second.changed, second.removed, second.unchanged, second.files) == (1, 1, 2, 1, 3)
        third = engine.index.update()
        assert (third.added, third.changed, third.removed, third.unchanged, third.files) == (0, 0, 0, 3, 3)
        anew = engine.index.update(force=True)
        assert (anew.added, anew.removed, anew.files) == (3, 0, 3)


def test_the_status_tells_what_is_indexed_and_where(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", ZOO | {"blob.txt": b"\0"})
    with open_engine(root) as engine:
        absent = engine.status()
        assert (absent.state, absent.files, absent.languages, absent.indexed_at) == ("absent", 0, {}, None)
        report = engine.index.update()
        status = engine.status()
        assert (status.state, status.files, status.chunks, status.symbols) == (
            "ready",
            4,
            report.chunks,
            report.symbols,
        )
        assert status.languages == {"python": 2, "markdown": 1, "yaml": 1}
        assert status.skipped["binary"] == 1
        assert [row.path for row in status.skipped_examples if row.reason == "binary"] == ["blob.txt"]
        assert status.disk_bytes > 0 and Path(status.cache_folder).is_relative_to(cache_for(root))
        assert status.indexed_at is not None and status.indexed_at.endswith("Z")
        assert status.last_error is None


def test_a_hit_carries_its_place_its_title_its_text_and_its_reasons(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", ZOO)) as engine:
        hit = engine.search.find(Query("keeper feeds twice", filter=Filter(kinds=("documentation",)))).hits[0]
        assert (hit.chunk.path, hit.chunk.title, hit.chunk.kind) == ("README.md", "Zoo > Feeding", "documentation")
        lines = ZOO["README.md"].split("\n")
        assert hit.chunk.text == "\n".join(lines[hit.chunk.span.first - 1 : hit.chunk.span.last]).rstrip("\n")
        assert hit.score == pytest.approx(sum(hit.why.values()), abs=1e-4)
        assert not hit.stale


def test_a_symbols_chunk_is_the_outline_of_a_file(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", ZOO)) as engine:
        (hit, *_) = engine.search.find(Query("Cat purr", filter=Filter(kinds=("symbols",)))).hits
        assert hit.chunk.path == "zoo/cats.py"
        assert "class Cat (lines 6-10)" in hit.chunk.text
        assert "  method purr (lines 9-10)" in hit.chunk.text
        both = engine.search.find(Query("Cat purr", filter=Filter(kinds=("symbols", "definitions")))).hits
        assert {hit.chunk.kind for hit in both} == {"symbols", "definitions"}


def test_members_are_listed_below_their_type_wherever_a_file_has_them(tmp_path: Path) -> None:
    code = "package zoo\n\nfunc New() *Cat { return nil }\n\nfunc (c *Cat) Purr() {}\n\nfunc (d *Dog) Bark() {}\n\ntype Cat struct{}\n"
    with indexed(tree(tmp_path / "w", {"cats.go": code})) as engine:
        (hit,) = engine.search.find(Query("Cat Purr", filter=Filter(kinds=("symbols",)))).hits
    assert hit.chunk.text.split("\n") == [
        "package: zoo",
        "function New (lines 3-3)",
        "method Dog.Bark (lines 7-7)",
        "struct Cat (lines 9-9)",
        "  method Purr (lines 5-5)",
    ]


def test_an_index_is_found_again_by_the_next_process(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", ZOO)
    with indexed(root) as engine:
        before = answers(engine, ("cats", "feed"))
    with open_engine(root) as engine:
        assert answers(engine, ("cats", "feed")) == before
        assert engine.index.update().unchanged == 4


def test_a_first_search_imports_neither_memories_nor_references_nor_what_a_team_needs(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root):
        pass
    program = """
        import sys
        from pathlib import Path
        from context_engine.model import Query
        from tests.support.engines import open_engine
        with open_engine(Path(sys.argv[1])) as engine:
            engine.start_background_work(600)
            assert engine.search.find(Query("lion")).hits
            print(*sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(root)]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    unwanted = ("context_engine.memory.", "context_engine.references.", "context_engine.team.", "context_engine.edit.")
    assert [name for name in ended.stdout.split() if name.startswith(unwanted)] == []


# -- without an index --


def test_without_an_index_a_search_says_what_to_call_and_builds_nothing(tmp_path: Path) -> None:
    with open_engine(tree(tmp_path / "w", ZOO)) as engine:
        for ask in (
            lambda: engine.search.find(Query("cats")),
            lambda: engine.symbols.find("Cat"),
            lambda: engine.symbols.trace("Cat"),
        ):
            with pytest.raises(NotIndexed) as refused:
                ask()
            assert "index_workspace" in refused.value.suggestion
        engine.index.live.close()
        assert engine.status().state == "absent"


def test_clearing_deletes_the_index_and_tells_the_bytes(tmp_path: Path) -> None:
    with indexed(tree(tmp_path / "w", ZOO)) as engine:
        assert engine.clear_index() > 1_000
        assert engine.status().state == "absent"
        with pytest.raises(NotIndexed):
            engine.search.find(Query("cats"))
        assert engine.index.update().added == 4


# -- bad calls --


@pytest.mark.parametrize("root", ["/", "~", "nowhere"])
def test_a_root_that_is_everything_or_nothing_is_refused(tmp_path: Path, root: str) -> None:
    place = str(tmp_path / root) if root == "nowhere" else root
    with pytest.raises((UnsuitableRoot, FileNotFound)) as refused:
        Engine.open(place)
    assert refused.value.suggestion


# -- bad files --


def test_a_sparse_file_of_two_gigabytes_costs_nothing(tmp_path: Path) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with (root / "huge.txt").open("wb") as out:
        out.truncate(2 << 30)
    with indexed(root) as engine:
        assert found(engine, "lion") == ["a.py"]
        assert engine.status().skipped == {"too_large": 1}
        with pytest.raises((TooLarge, BinaryFile)):
            engine.files.read("huge.txt")
        with pytest.raises((TooLarge, BinaryFile)):
            engine.files.read("huge.txt", first=1, last=2)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_an_unreadable_folder_is_told_and_the_rest_is_indexed(tmp_path: Path) -> None:
    tree(tmp_path / "w", {"a.py": "def lion(): ...\n", "closed/b.py": "def lion(): ...\n", "c.py": "def lion(): ...\n"})
    done = as_nobody(
        tmp_path,
        """
        (root / "closed").chmod(0)
        (root / "c.py").chmod(0)
        with engine() as one:
            one.index.update()
            print(found(one), sorted(one.status().skipped.items()))
            (root / "closed").chmod(0o755)
            (root / "c.py").chmod(0o644)
            one.index.update()
            print(found(one), one.status().skipped)
        """,
    )
    assert done == ["['a.py'] [('unreadable', 2)]", "['a.py', 'c.py', 'closed/b.py'] {}"]


# -- bad disks --


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_cache_that_cannot_be_written_is_told_with_the_way_out(tmp_path: Path) -> None:
    tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    done = as_nobody(
        tmp_path,
        """
        with engine() as one:
            one.index.update()
            places = [one.cache_folder, *(path for path in one.cache_folder.rglob("*"))]
        for place in places:
            place.chmod(0o555 if place.is_dir() else 0o444)
        (root / "b.py").write_text("lion = 1")
        with engine() as one:
            try:
                one.index.update()
            except HostError as error:
                print(error.code, "CTX_CACHE_FOLDER" in error.suggestion)
            try:
                print(found(one)[:1])
            except HostError as error:
                print(error.code, bool(error.suggestion))
        for place in places:
            place.chmod(0o755 if place.is_dir() else 0o644)
        with engine() as one:
            one.index.update()
            print(found(one))
        """,
    )
    assert done[0] == "WRITE_FAILED True"
    assert done[-1] == "['a.py', 'b.py']"


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
@pytest.mark.parametrize("limit", [0, 1_000, 30_000, 60_000, 100_000])
def test_no_room_for_a_file_is_a_full_disk_and_what_was_there_still_answers(tmp_path: Path, limit: int) -> None:
    root = tree(tmp_path / "w", {"a.py": "def lion(): ...\n"})
    with indexed(root):
        tree(root, {f"f{n}.py": f"def lion{n}(): ...\n" * 40 for n in range(60)})
    script = """
        import resource, sys
        from tests.support.engines import found, open_engine
        from context_engine.errors import DiskFull
        from pathlib import Path
        root, limit = Path(sys.argv[1]), int(sys.argv[2])
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        with open_engine(root, staleness_ms=600_000) as engine:
            try:
                engine.index.update()
                print("indexed")
            except DiskFull as error:
                print("full", "free some space" in error.suggestion or "CTX_CACHE_FOLDER" in error.suggestion)
            try:
                engine.index.live._stale.clear()
                print(found(engine, "lion")[0])
            except DiskFull as error:
                print("closed")  # SQLite needs 32 kB of its own to read at all
    """
    done = python(script, str(root), str(limit))
    assert done in (["full True", "a.py"], ["indexed", "a.py"]) or (limit < 40_000 and done == ["full True", "closed"])
    with open_engine(root) as engine:
        assert engine.index.update().files == 61
        assert engine.index.store.check() == []
        assert found(engine, "lion7")[0] == "f7.py"


# -- other processes --


def python(script: str, *arguments: str, **options) -> list[str]:
    """What a script prints, line by line, run by a Python of its own in the repository."""
    done = preloaded.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *arguments],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout.splitlines()


def as_nobody(folder: Path, script: str) -> list[str]:
    """What a script prints that runs without the rights of root; it knows `root`, `engine()` and `found(engine)`."""
    opening = """
        import os, sys
        from pathlib import Path
        from context_engine.engine import Engine
        from context_engine.model import Query
        from context_engine.settings import Settings
        from context_engine.errors import HostError
        root = Path(sys.argv[1]) / "w"
        os.makedirs(sys.argv[1] + "/cache", exist_ok=True)
        if not Path(sys.argv[1] + "/cache/grammars").exists():
            os.symlink(sys.argv[2], sys.argv[1] + "/cache/grammars")
        with Engine.open(sys.argv[1] + "/w", settings=Settings(cache_folder=Path(sys.argv[1]) / "warm", workers=0)) as warm:
            warm.index.update()  # loads all modules while they can still be read
            warm.search.find(Query("lion"))
            warm.status()
        if os.getuid() == 0:
            for at, _, names in os.walk(sys.argv[1]):
                for name in ["", *names]:
                    os.chown(os.path.join(at, name), 65534, 65534, follow_symlinks=False)
            above = Path(sys.argv[1])
            while above != above.parent:
                os.chmod(above, os.stat(above).st_mode | 0o711)
                above = above.parent
            os.setgid(65534)
            os.setuid(65534)
        def engine():
            return Engine.open(root, settings=Settings(cache_folder=Path(sys.argv[1]) / "cache", workers=0, staleness_ms=600_000))
        def found(one):
            return sorted(str(hit.chunk.path) for hit in one.search.find(Query("lion", 50)).hits)
    """
    return python(textwrap.dedent(opening) + textwrap.dedent(script), str(folder), str(grammars_folder()))


def test_the_middle_of_a_private_key_is_masked_in_whatever_part_of_a_file_is_shown(tmp_path: Path) -> None:
    body = [f"{n:02}Zk9QmVr7TtYxW3sLp0JhGfDdAaSsQqEeRrTtYyUuIiOoPpLlKkJjHhGg{n:02}" for n in range(60)]
    lines = [
        "# zebra",
        "KEY = '''-----BEGIN RSA PRIVATE KEY-----",
        *body,
        "-----END RSA PRIVATE KEY-----'''",
        "def zebra():",
    ]
    lines += ["    return KEY"]
    root = tree(tmp_path / "w", {"a.py": "\n".join(lines) + "\n"})
    with indexed(root) as engine:
        parts = [engine.files.read("a.py", first=20, last=30).text]
        parts += [hit.chunk.text for hit in engine.search.find(Query("zebra", 50, chunks_per_file=50)).hits]
        whole = engine.files.read("a.py").text
    assert not any(line in part for line in body for part in [*parts, whole])
    assert parts[0].count("\n") == 11
    assert whole.count("\n") == len(lines)


def test_the_package_exports_what_a_python_user_needs() -> None:
    import context_engine

    assert [name for name in context_engine.__all__ if not hasattr(context_engine, name)] == []
    assert context_engine.Engine is Engine
    with pytest.raises(AttributeError):
        context_engine.nothing  # noqa: B018 - asked for, not used


def test_each_run_and_each_command_counts_the_same_skipped_files(tmp_path: Path) -> None:
    noise = {f"{number:03}.log": "x\n" for number in range(60)}
    files = {
        ".gitignore": "*.log\n",
        "a.py": "b = 1\n",
        "c.dat2": b"a\0b",
        "d.js": "e" * 20_000,
        "f.png": b"x",
        "s/g.q": b"\0",
    }
    with indexed(repository(tmp_path / "w", noise | files)) as engine:
        first = engine.status()
        assert first.skipped == {"ignored": 60, "binary": 3, "minified": 1}
        assert [file.path for file in first.skipped_examples[:5]] == ["c.dat2", "d.js", "f.png", "s/g.q", "000.log"]
        for part in (None, None, "s"):
            report = engine.index.update(path=part)
            assert (report.skipped, report.skipped_examples[:20]) == (first.skipped, first.skipped_examples)
            assert told(engine, "index_status")["skipped"] == first.skipped
        assert "left out: 60 ignored, 3 binary, 1 minified" in text(engine, "explain", target=".")
