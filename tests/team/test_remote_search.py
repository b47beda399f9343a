"""Search inside PostgreSQL and Qdrant: the order is that of a local index, filters and rights are applied there."""

from __future__ import annotations

import atexit
import base64
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import psycopg
import pytest

from context_engine.engine import Engine
from context_engine.errors import InvalidArgument, NotIndexed, StoreUnavailable
from context_engine.index import SCHEMA_VERSION, StaticEncoder, describe, term_hashes
from context_engine.model import Filter, Query
from context_engine.search.question import Question
from context_engine.team import search_publisher, shared_index
from context_engine.team.candidate_store import CandidateQuery, FileFilter
from context_engine.team.postgres_search import SEARCH, PostgresSearch, compose_candidates
from context_engine.team.postgres_session import PostgresSession
from context_engine.team.qdrant_search import COLLECTION, QdrantSearch
from context_engine.team.qdrant_session import QdrantSession
from context_engine.team.remote_search import RemoteSearch, list_searchable
from context_engine.team.remote_store import open_backend
from tests.support.databases import new_database, new_shim, sql
from tests.support.engines import open_engine, snapshot_of
from tests.support.trees import tree

FILES = {
    "src/pool.py": '"""Connections that wait."""\n\n\nclass Pool:\n    """Keeps lions."""\n\n    def drain(self):\n'
    "        return self.close_all()\n",
    "src/web/session.py": "def close_session(pool):\n    pool.drain()  # lion\n",
    "src/web/retry.go": "package web\n\n// Retry calls again.\nfunc Retry(times int) error { return drain(times) }\n",
    "tests/test_pool.py": "from src.pool import Pool\n\n\ndef test_drain():\n    assert Pool().drain() == []\n",
    "docs/pool.md": "# The pool\n\nIt drains connections. #tuning\n\n## Retry\n\nA lion is tried again.\n",
    "config.json": '{"pool": {"size": 4, "drain": true}}\n',
}
QUESTIONS = ("how is the pool drained", "Pool", "where is the lion", "retry in src/web/retry.go:4")
FILTERS = (
    Filter(),
    Filter(kinds=("documentation",)),
    Filter(kinds=("symbols",)),
    Filter(languages=("python",)),
    Filter(tags=("tuning",)),
    Filter(tags=("web", "code")),
    Filter(include_paths=("src/**",)),
    Filter(include_paths=("*.py", "docs/")),
    Filter(exclude_paths=("*.py",)),
    Filter(exclude_paths=("src/", "!src/pool.py")),
    Filter(languages=("go",), include_paths=("**/web/*.go",)),
)
Publish = Callable[..., Engine]
OpenSearch = Callable[..., RemoteSearch]


class PostgresDatabase:
    """One PostgreSQL for all tests of a run."""

    def __init__(self) -> None:
        self.address = new_database()

    def read_texts(self) -> Iterator[bytes]:
        """The stored texts of all files."""
        with psycopg.connect(self.address) as connection:
            yield from (row[0] for row in connection.execute("SELECT texts FROM context_engine.search_file"))

    def count_leftovers(self) -> int:
        """Files of segments that no repository has."""
        with psycopg.connect(self.address) as connection:
            query = "SELECT count(*) FROM context_engine.search_file WHERE segment NOT IN (SELECT id FROM context_engine.search_segment)"
            return connection.execute(query).fetchone()[0]  # ty: ignore[not-subscriptable] - a count has a row

    def new(self) -> str:
        """The address of an empty database."""
        return new_database()

    def has_tables(self, address: str) -> bool:
        """Whether anything was created there."""
        return bool(PostgresSession(address).query(SEARCH, "SELECT 1"))


class QdrantDatabase:
    """One server with Qdrant's own engine for all tests of a run."""

    def __init__(self) -> None:
        self.shim = new_shim(Path(tempfile.mkdtemp(prefix="ctx-qdrant-")))
        self.address = self.shim.url
        atexit.register(lambda: (self.shim.stop(), shutil.rmtree(self.shim.folder, ignore_errors=True)))

    def points(self, kind: str) -> list[dict[str, Any]]:
        """All points of a kind."""
        chosen = [{"key": "what", "match": {"value": kind}}]
        with closing(QdrantSession(self.address)) as session:
            return list(session.scroll(COLLECTION, chosen, ["repository", "segment", "texts", "segments"]))

    def read_texts(self) -> Iterator[bytes]:
        return (base64.b64decode(point["texts"]) for point in self.points("file") if point["texts"])

    def count_leftovers(self) -> int:
        named = {part["key"] for state in self.points("state") for part in state["segments"]}
        kinds = ("file", "terms", "importance")
        return sum(point["segment"] not in named for kind in kinds for point in self.points(kind))

    def new(self) -> str:
        shim = new_shim(Path(tempfile.mkdtemp(prefix="ctx-qdrant-", dir=self.shim.folder.parent)))
        atexit.register(lambda: (shim.stop(), shutil.rmtree(shim.folder, ignore_errors=True)))
        return shim.url

    def has_tables(self, address: str) -> bool:
        with closing(QdrantSession(address)) as session:
            return bool(session.request("GET", "/collections")["collections"])


Database = PostgresDatabase | QdrantDatabase
KINDS = {"postgres": cache(PostgresDatabase), "qdrant": cache(QdrantDatabase)}


@pytest.fixture(params=list(KINDS))
def database(request: pytest.FixtureRequest) -> Database:
    return KINDS[request.param]()


@cache
def encoder() -> StaticEncoder:
    return StaticEncoder()


@pytest.fixture
def publish(tmp_path: Path, database: Database) -> Iterator[Publish]:
    """Opens a machine that publishes its files as a repository, and indexes them."""
    opened: list[Engine] = []

    def open_one(name: str = "app", files: dict[str, str] = FILES, *, searchable: bool = True) -> Engine:
        root = tree(tmp_path / name, files)
        engine = open_engine(
            root,
            store_url=database.address,
            store_repository=f"{tmp_path}/{name}",
            store_shares=True,
            store_search=searchable,
        )
        opened.append(engine)
        engine.index.update()
        return engine

    yield open_one
    for engine in opened:
        engine.close()


@pytest.fixture
def search(tmp_path: Path, database: Database) -> Iterator[OpenSearch]:
    """Opens the search of some repositories as a server does that has none of them."""
    with closing(open_backend(database.address, "Search")) as store:
        yield lambda *names: RemoteSearch(store, [f"{tmp_path}/{name}" for name in names], encoder().query)


def rows(found: Any, cut: int = 0) -> list[tuple[Any, ...]]:
    """The parts of each hit that a reply shows; `cut` characters of each path are the name of its repository."""
    return [
        (str(hit.chunk.path)[cut:], hit.chunk.span, hit.chunk.kind, hit.chunk.text, hit.chunk.tags, hit.score)
        for hit in found.hits
    ]


# -- order --


def test_a_search_in_the_database_answers_as_the_local_index(
    publish: Publish, search: OpenSearch, tmp_path: Path
) -> None:
    """Same places, texts and scores: all files of so small a repository are candidates."""
    engine, remote = publish(), search("app")
    for text, chosen in product(QUESTIONS, FILTERS):
        if "retry.go" in text and not chosen.is_empty:
            continue  # a file that is named and filtered out changes the local order of the others
        query = Query(text, 50, chosen)
        local, answer = engine.search.find(query), remote.find(query)
        found, expected = rows(answer, len(f"{tmp_path}/app:")), rows(local)
        if not chosen.is_empty:  # the best value of a signal is that of the files that pass
            found, expected = ([row[:-1] for row in shown] for shown in (found, expected))
        assert found == expected, (text, chosen)
        assert answer.engine == "hybrid" or not answer.hits


def test_edited_and_removed_files_are_searched_as_they_are_now(
    publish: Publish, search: OpenSearch, tmp_path: Path
) -> None:
    engine = publish(files=FILES | {f"src/other{number}.py": f"def other{number}(): ...\n" for number in range(12)})
    (engine.root / "src/pool.py").write_text("class Pool:\n    def fill(self):\n        return 'walrus'\n")
    (engine.root / "docs/pool.md").unlink()
    engine.index.update()
    snapshot = snapshot_of(engine)
    assert not snapshot.all_alive
    found = {str(hit.chunk.path).rpartition(":")[2] for hit in search("app").find(Query("pool walrus drain", 50)).hits}
    assert "src/pool.py" in found
    gone = search("app").find(Query("connections are drained, a lion is tried again", 50))
    assert "docs/pool.md" not in repr(gone.hits)
    texts = [hit.chunk.text for hit in search("app").find(Query("walrus")).hits]
    assert "walrus" in texts[0]
    assert (
        rows(search("app").find(Query("walrus", 1)), len(f"{tmp_path}/app:"))[0][:2]
        == rows(engine.search.find(Query("walrus", 1)))[0][:2]
    )


def test_several_repositories_are_ranked_as_one(publish: Publish, search: OpenSearch, tmp_path: Path) -> None:
    publish("one", {"a.py": "def lion():\n    return 'cat'\n"})
    publish("two", {"b.py": "def lion_cage():\n    return lion\n", "c.md": "# Tiger\n"})
    answer = search("one", "two").find(Query("lion"))
    assert [(hit.project, str(hit.chunk.path)) for hit in answer.hits] == [
        (f"{tmp_path}/one", f"{tmp_path}/one:a.py"),
        (f"{tmp_path}/two", f"{tmp_path}/two:b.py"),
    ]
    alone = search("one").find(Query("lion")).hits[0]
    assert alone.score != answer.hits[0].score, "its statistics are those of both"


# -- what the database does --


def test_the_database_filters_before_it_counts_candidates(publish: Publish, tmp_path: Path, database: Database) -> None:
    publish()
    with closing(open_backend(database.address, "Search")) as store:
        query = candidates_of("pool drain")
        everything = found_paths(store, tmp_path, query)
        assert set(everything) == FILES.keys()
        for chosen, path in (
            (FileFilter(languages=["go"]), "src/web/retry.go"),
            (FileFilter(tags_all=["tuning"]), "docs/pool.md"),
            (FileFilter(tags_any=["data"]), "config.json"),
            (FileFilter(included=["^src/web/s"]), "src/web/session.py"),
            (FileFilter(excluded=["^src/", "^tests/", "md$"]), "config.json"),
        ):
            assert found_paths(store, tmp_path, replace(query, filter=chosen, limit=1)) == [path]


def candidates_of(text: str) -> CandidateQuery:
    hashes = Question.of(text).hashes
    return CandidateQuery(hashes.view("<i8").tolist(), [[1.0] * len(hashes)] * 5)


def found_paths(store: PostgresSearch | QdrantSearch, tmp_path: Path, query: CandidateQuery) -> list[str]:
    from context_engine.team.search_rows import join_files

    found = store.find_candidates([f"{SCHEMA_VERSION}/{tmp_path}/app"], query)
    return join_files([row.payload for row in found], term_hashes([])).paths


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_every_part_of_the_plan_is_reached_through_the_repositories_that_may_be_seen(
    publish: Publish, tmp_path: Path, database: Database
) -> None:
    publish()
    statement, values = compose_candidates([f"{tmp_path}/app"], candidates_of("pool drain"))
    with psycopg.connect(database.address) as connection:
        ((plan,),) = connection.execute(b"EXPLAIN (FORMAT JSON) " + statement.encode(), values).fetchall()
    scans = list(scans_of(plan[0]["Plan"], ""))
    assert {table for table, _ in scans} == {"search_segment", "search_term", "search_file"}
    for table, conditions in scans:
        if table == "search_segment":
            assert f"repository = ANY ('{{{tmp_path}/app}}'" in conditions.replace('"', "")
        else:
            assert re.search(r"\bsegment(_\d+)?\.id\b|\bfound\.segment\b", conditions), (table, conditions)


def scans_of(node: dict[str, Any], above: str) -> Iterator[tuple[str, str]]:
    """Each scan of a table of ours with its conditions and those of the joins around it."""
    conditions = above + "".join(str(value) for name, value in node.items() if name.endswith(("Cond", "Filter")))
    if str(node.get("Relation Name", "")).startswith("search_"):
        inner = "".join(str(part.get("Index Cond", "")) for part in node.get("Plans", []))
        yield node["Relation Name"], conditions + inner
    for part in node.get("Plans", []):
        yield from scans_of(part, conditions)


def test_no_question_shows_what_another_repository_has(publish: Publish, search: OpenSearch) -> None:
    """Each repository has a word of its own in all its texts; 100 questions ask for words of others."""
    chance = random.Random(5)
    names = [f"tenant{number}" for number in range(6)]
    for name in names:
        mark = f"zq{name}"
        texts = {f"{mark}/{place}.py": f"def {mark}_{place}():\n    return 'lion {mark}'\n" for place in range(3)}
        publish(name, texts)
    for _ in range(100):
        seen = chance.sample(names, chance.randint(1, 3))
        other = chance.choice(names)
        text = chance.choice([f"zq{other}", f"lion zq{other}_1", f"zq{other}/2.py:1 fails", "lion"])
        chosen = chance.choice([Filter(), Filter(include_paths=(f"zq{other}/**",)), Filter(tags=(f"zq{other}",))])
        answer = search(*seen).find(Query(text, 50, chosen))
        assert {hit.project.rpartition("/")[2] for hit in answer.hits} <= set(seen)
        shown = repr(answer)
        assert not [name for name in names if name not in seen and f"zq{name}" in shown]
        assert answer.hits or other not in seen, "what may be seen is found"


def test_texts_of_a_repository_that_may_not_be_seen_are_not_read(
    publish: Publish, tmp_path: Path, database: Database
) -> None:
    publish("one", {"a.py": "lion = 1\n"})
    publish("two", {"b.py": "lion = 2\n"})
    with closing(open_backend(database.address, "Search")) as store:
        mine, other = (f"{SCHEMA_VERSION}/{tmp_path}/{name}" for name in ("one", "two"))
        hidden = store.find_candidates([other], candidates_of("lion"))
        places = [(row.segment, row.number) for row in hidden]
        assert store.read_texts([other], places)
        assert store.read_texts([mine], places) == {}


def test_the_texts_of_all_hits_come_in_few_messages(
    publish: Publish, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    publish(
        files={f"src/lion{number}.py": f"def lion_{number}():\n    return 'lion {number}'\n" for number in range(30)}
    )
    with closing(open_backend(database.address, "Search")) as store:
        messages: list[int] = []
        read = store.read_texts

        def read_and_count(repositories: Any, files: Any) -> Any:
            messages.append(len(files))
            return read(repositories, files)

        monkeypatch.setattr(store, "read_texts", read_and_count)
        hits = RemoteSearch(store, [f"{tmp_path}/app"], None).find(Query("lion", 30)).hits
    assert len(hits) == 30
    assert all(hit.chunk.text.startswith("def lion_") for hit in hits)
    assert len(messages) == 1


def test_secrets_are_masked_before_they_are_stored(publish: Publish, search: OpenSearch, database: Database) -> None:
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    publish(files={"deploy.py": f'def deploy():\n    token = "{secret}"\n    return token\n'})
    text = search("app").find(Query("deploy token")).hits[0].chunk.text
    assert "def deploy" in text
    assert secret not in text
    stored = [*map(search_publisher.unpack_texts, database.read_texts())]
    assert stored
    assert secret not in repr(stored)


# -- publishing --


def update_unpublished(engine: Engine) -> None:
    """Index while the rows cannot be written."""

    def fail(*_: object) -> None:
        raise StoreUnavailable("away")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shared_index, "publish_rows", fail)
        with pytest.raises(StoreUnavailable):
            engine.index.update()


def test_a_run_that_is_interrupted_before_it_publishes_is_completed_by_the_next_one(
    publish: Publish, search: OpenSearch, database: Database
) -> None:
    engine = publish()
    (engine.root / "new.py").write_text("def walrus(): ...\n")

    update_unpublished(engine)
    answer = search("app").find(Query("walrus pool"))
    assert "walrus" not in repr(answer.hits), "the former revision is searched"
    is_known = isinstance(database, PostgresDatabase)  # Qdrant has the rows alone, and no newer index
    assert answer.freshness.endswith("1 repository being published") == is_known
    engine.index.update()
    answer = search("app").find(Query("walrus"))
    assert [str(hit.chunk.path).rpartition(":")[2] for hit in answer.hits] == ["new.py"]
    assert "being published" not in answer.freshness


def test_edits_of_one_file_are_published_together_after_runs_that_were_interrupted(
    publish: Publish, search: OpenSearch, database: Database
) -> None:
    """Each edit leaves a segment of dead files behind, and each merge of these is an empty segment of the same name."""
    engine = publish()

    for number in range(6):
        (engine.root / "src/pool.py").write_text(f"def walrus_{number}(): ...\n")
        update_unpublished(engine)
    engine.index.update()
    (hit, *_) = search("app").find(Query("walrus_5", 5)).hits
    assert hit.chunk.text == "def walrus_5(): ..."
    assert database.count_leftovers() == 0


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_revision_changes_whole_or_not_at_all(
    publish: Publish, search: OpenSearch, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    """The database ends the connection in the middle of a publication; for Qdrant see test_qdrant_search.py."""
    engine = publish()
    before = rows(search("app").find(Query("pool", 50)))
    (engine.root / "src/pool.py").write_text("def pool_of_walrus(): ...\n")
    split = search_publisher.split_files
    publishing = "pid <> pg_backend_pid() AND query LIKE 'COPY%'"

    def split_and_cut(segment: Any) -> Iterator[Any]:
        for number, row in enumerate(split(segment)):
            if number == 0:
                sql(database.address, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {publishing}")
            yield row

    with monkeypatch.context() as patched:
        patched.setattr(search_publisher, "split_files", split_and_cut)
        with pytest.raises(StoreUnavailable):
            engine.index.update()
    assert rows(search("app").find(Query("pool", 50))) == before
    engine.index.update()
    assert rows(search("app").find(Query("pool", 50))) != before


def test_a_repository_that_is_removed_is_searched_no_more(
    publish: Publish, search: OpenSearch, tmp_path: Path, database: Database
) -> None:
    engine = publish()
    with closing(open_backend(database.address, "Search")) as store:
        assert f"{tmp_path}/app" in list_searchable(store)
        engine.index.store.clear()
        assert f"{tmp_path}/app" not in list_searchable(store)
    with pytest.raises(NotIndexed):
        search("app").find(Query("pool"))
    assert database.count_leftovers() == 0


# -- trouble --


def test_a_database_that_was_never_searchable_has_nothing_to_search(database: Database) -> None:
    address = database.new()
    with closing(open_backend(address, "Search")) as store:
        assert store.list_repositories() == []
        with pytest.raises(NotIndexed):
            RemoteSearch(store, ["app"], None).find(Query("lion"))
    assert not database.has_tables(address), "and a question creates no tables"


def test_only_a_database_searches() -> None:
    with pytest.raises(InvalidArgument, match="no store is known"):
        open_backend("embedded", "Search")


# -- between the stores --


def test_an_index_of_one_machine_becomes_searchable_in_the_database_without_parsing_a_file(
    publish: Publish, search: OpenSearch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_engine(tree(tmp_path / "app", FILES)) as alone:
        alone.index.update()
        expected = rows(alone.search.find(Query("pool drain", 50)))
    parsed: list[str] = []
    describe_file = describe.describe_file

    def describe_and_note(path: str, *rest: Any, **more: Any) -> Any:
        parsed.append(path)
        return describe_file(path, *rest, **more)

    monkeypatch.setattr(describe, "describe_file", describe_and_note)
    engine = publish()
    assert parsed == []
    assert rows(search("app").find(Query("pool drain", 50)), len(f"{tmp_path}/app:")) == expected
    (engine.root / "src/pool.py").write_text("def walrus(): ...\n")
    engine.index.update()
    assert parsed == ["src/pool.py"], "and later changes are indexed as ever"
