"""What every vector remote keeps: rows bit for bit, each repository's its own, the first one put; and engines that share one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.cli.index_commands import _embed
from context_engine.embedding.vector_rows import Keys, VectorRows, VectorSpace, hash_texts, quantize
from context_engine.engine import Engine
from context_engine.errors import InvalidVectors, StoreUnavailable, StoreUnusable
from context_engine.model import Hit, Query
from context_engine.sharing import remote_vectors
from context_engine.sharing.remote_store import open_vector_store
from context_engine.sharing.remote_vectors import RemoteVectorStore
from context_engine.tools.index_tools import status_row
from tests.support.databases import forbid, new_database, sever, sql
from tests.support.endpoints import EmbeddingServer, embedding_server
from tests.support.engines import indexed
from tests.support.remote_vector_stores import REMOTE_STORES, database
from tests.support.scripted import LONG_S
from tests.support.trees import tree

SPACE = VectorSpace("feed", 4)
OTHER = VectorSpace("beef", 4)


@pytest.fixture(params=list(REMOTE_STORES), scope="module")
def remote(request: pytest.FixtureRequest) -> Iterator[RemoteVectorStore]:
    opened = REMOTE_STORES[request.param]()
    yield opened
    opened.close()


@pytest.fixture
def app() -> str:
    """A repository that nobody else has."""
    return repository()


def repository() -> str:
    return f"team/{uuid4().hex}"


def keys(*texts: object) -> Keys:
    return hash_texts([str(text) for text in texts])


def rows(*seeds: int, dimensions: int = 4) -> VectorRows:
    """For each number a row of its own."""
    made = [np.random.default_rng(seed).standard_normal(dimensions) for seed in seeds]
    return quantize(np.array(made, np.float32).reshape(len(seeds), dimensions))


def put(remote: RemoteVectorStore, app: str, *seeds: int, space: VectorSpace = SPACE, day: int = 100) -> int:
    return remote.put(app, space, keys(*seeds), rows(*seeds), day)


def held(remote: RemoteVectorStore, app: str, *seeds: int, space: VectorSpace = SPACE) -> list[int]:
    """Which of these are there; each that is must be the row that was put."""
    fetched, found = remote.fetch(app, space, keys(*seeds))
    assert remote.contains(app, space, keys(*seeds)).tolist() == found.tolist()
    wanted = rows(*seeds)
    assert (fetched.values == np.where(found[:, None], wanted.values, 0)).all()
    assert (fetched.scales == np.where(found, wanted.scales, 0)).all()
    return [seed for seed, there in zip(seeds, found.tolist(), strict=True) if there]


# -- rows --


def test_before_anything_was_put_nothing_is_known(remote: RemoteVectorStore, app: str) -> None:
    assert held(remote, app, 1, 2) == []
    assert (remote.count_by_space(app), remote.check(app), remote.delete_unused(app, 1 << 20)) == ({}, [], 0)
    assert held(remote, app) == []


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=16, max_size=16),
            st.lists(st.integers(-127, 127), min_size=4, max_size=4),
            st.floats(0, 2.0**100, width=32),
        ),
        min_size=1,
        max_size=5,
        unique_by=lambda row: row[0],
    )
)
@settings(max_examples=25, deadline=None)
def test_a_row_comes_back_as_it_was_put_bit_for_bit(remote: RemoteVectorStore, given_rows: list[tuple]) -> None:
    """Every machine that fetches it ranks like the one that made it."""
    app = repository()
    stated = np.array([key for key, _, _ in given_rows], "S16")
    wanted = VectorRows(
        np.array([numbers for _, numbers, _ in given_rows], np.int8),
        np.array([scale for _, _, scale in given_rows], np.float32),
    )
    assert remote.put(app, SPACE, stated, wanted, 100) == len(stated)
    fetched, found = remote.fetch(app, SPACE, stated[::-1])
    assert found.all()
    assert fetched.values.tobytes() == wanted.values[::-1].tobytes()
    assert fetched.scales.tobytes() == wanted.scales[::-1].tobytes()
    assert remote.check(app) == [], "keys are whole, zeros at their end as well"


def test_the_first_row_put_under_a_key_stays_and_only_new_ones_are_counted(remote: RemoteVectorStore, app: str) -> None:
    assert put(remote, app, 1, 2) == 2
    assert remote.put(app, SPACE, keys(2, 3, 3), rows(7, 3, 8), 100) == 1
    assert held(remote, app, 3, 1, 4, 2, 2) == [3, 1, 2, 2]
    assert remote.count_by_space(app) == {SPACE: 3}


def test_no_repository_and_no_space_sees_what_is_anothers(remote: RemoteVectorStore, app: str) -> None:
    other = repository()
    put(remote, app, 1, 2)
    put(remote, other, 2, 3)
    put(remote, app, 9, space=OTHER)
    assert (held(remote, app, 1, 2, 3, 9), held(remote, other, 1, 2, 3, 9)) == ([1, 2], [2, 3])
    assert held(remote, app, 1, 9, space=OTHER) == [9]
    assert remote.delete_unused(other, 1 << 20) == 2
    assert remote.count_by_space(app) == {SPACE: 2, OTHER: 1}
    assert remote.count_by_space(other) == {}


def test_what_takes_many_messages_arrives_whole(
    remote: RemoteVectorStore, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_vectors, "MESSAGE_BYTES", 700)
    many = tuple(range(50))
    assert put(remote, app, *many) == 50
    assert held(remote, app, *many, 99) == list(many)
    remote.mark_used(app, SPACE, keys(*many), 200, 150)
    assert remote.delete_unused(app, 150) == 0


def test_thousands_of_keys_are_one_message() -> None:
    assert len(list(remote_vectors.split_messages(5_000, 444))) == 1


def test_rows_of_another_size_are_refused_and_nothing_is_kept(remote: RemoteVectorStore, app: str) -> None:
    for wrong in (rows(1, dimensions=5), rows(1, 2), VectorRows(rows(1).values, np.array([np.nan], np.float32))):
        with pytest.raises(InvalidVectors):
            remote.put(app, SPACE, keys(1), wrong, 100)
    assert remote.count_by_space(app) == {}


# -- what nobody uses --


def test_what_nobody_has_used_for_long_goes_and_what_was_used_stays(remote: RemoteVectorStore, app: str) -> None:
    put(remote, app, 1, 2, day=100)
    put(remote, app, 3, day=130)
    put(remote, app, 4, space=OTHER, day=100)
    remote.mark_used(app, SPACE, keys(2), day=140, before=110)
    remote.mark_used(app, SPACE, keys(3), day=140, before=110)
    assert remote.delete_unused(app, before=131) == 3
    assert held(remote, app, 1, 2, 3) == [2], "3 was recent enough not to be stamped, and then was not used again"
    assert remote.count_by_space(app) == {SPACE: 1}


# -- several at once --


def test_writers_of_the_same_vectors_in_another_order_do_not_wait_for_each_other_for_ever(
    remote: RemoteVectorStore, app: str
) -> None:
    orders = [range(60), range(59, -1, -1), range(30, 90)]
    done: list[int] = []

    def write(seeds: range) -> None:
        for _ in range(3):
            put(remote, app, *seeds)
            remote.mark_used(app, SPACE, keys(*seeds), 200, 150)
        done.append(len(seeds))

    writers = [threading.Thread(target=write, args=(seeds,)) for seeds in orders]
    for each in writers:
        each.start()
    for each in writers:
        each.join(30)
    assert sorted(done) == [60, 60, 60]
    assert held(remote, app, *range(90)) == list(range(90))


# -- trouble --


def test_a_database_that_is_away_is_told_and_found_again_when_it_is_back() -> None:
    address = new_database()
    remote = open_vector_store(address)
    put(remote, "app", 1)
    with forbid(address), pytest.raises(StoreUnavailable):
        remote.fetch("app", SPACE, keys(1))
    assert held(remote, "app", 1) == [1]
    sever(address)
    assert held(remote, "app", 1) == [1], "a connection that was cut is no trouble of the one who asks next"
    remote.close()


def test_who_may_only_read_fetches_and_is_told_that_he_may_not_put() -> None:
    address = new_database()
    owner = open_vector_store(address)
    put(owner, "app", 1)
    name = f"reads_{uuid4().hex}"
    sql(
        address,
        f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA context_engine TO {name};"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA context_engine TO {name}",
    )
    reader = open_vector_store(address.replace("postgres:@", f"{name}:@"))
    assert held(reader, "app", 1) == [1]
    with pytest.raises(StoreUnusable):
        put(reader, "app", 2)
    for each in (owner, reader):
        each.close()
    sql(address, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_tables_of_another_version_are_not_touched() -> None:
    address = new_database()
    remote = open_vector_store(address)
    put(remote, "app", 1)
    sql(address, "UPDATE context_engine.layout SET version = 99 WHERE part = 'vectors'")
    sever(address)
    with pytest.raises(StoreUnusable, match="99"):
        remote.fetch("app", SPACE, keys(1))
    remote.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE context_engine.vector SET numbers = '\\x00'::bytea",
        "UPDATE context_engine.vector SET scale = 'NaN'",
        "UPDATE context_engine.vector SET scale = -1",
    ],
)
def test_what_is_damaged_on_postgres_is_not_found_and_told(damage: str) -> None:
    remote, app = REMOTE_STORES["postgres"](), repository()
    put(remote, app, 1, 2)
    number = f"(SELECT id FROM context_engine.vector_space WHERE repository = '{app}')"
    sql(database(), f"{damage} WHERE space = {number} AND key = '\\x{bytes(keys(1)[0]).hex()}'::bytea")
    assert remote.fetch(app, SPACE, keys(1, 2))[1].tolist() == [False, True]
    (told,) = remote.check(app)
    assert told.startswith("1 vectors of 4 numbers")
    assert (remote.check(app, repair=True), remote.check(app)) == ([told], [])
    assert put(remote, app, 1, 2) == 1, "what was damaged is given anew"
    assert held(remote, app, 1, 2) == [1, 2]


# -- engines --

FILES = {f"src/part_{number}.py": f"def part_{number}(tax):\n    return tax * {number}\n" for number in range(12)}
ASKED = tuple(Query(text) for text in ("part of the tax", "return tax * 7", "part_3"))


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


@pytest.fixture
def team(tmp_path: Path, server: EmbeddingServer) -> dict[str, Any]:
    """The knobs of all who share an index and its vectors."""
    return {
        "store_url": database(), "store_repository": f"{tmp_path.name}/engines",
        "embedder": "openai-compatible", "embedding_model": "words", "embedding_address": server.address,
    }  # fmt: skip


def told(engine: Engine) -> list[list[tuple]]:
    """All that can be seen of answers in which the model takes part, scores to the last bit."""
    return [
        [(str(hit.chunk.path), hit.chunk.span.first, hit.score, dict(hit.why)) for hit in answered(engine, asked)]
        for asked in ASKED
    ]


def answered(engine: Engine, asked: Query) -> tuple[Hit, ...]:
    """The hits once the model has had its say: on a busy machine the first answer may go out without."""
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        hits = engine.search.find(asked).hits
        if any("model" in hit.why for hit in hits):
            return tuple(hits)
    raise AssertionError(f"the model never took part in {asked}")


def kept(engine: Engine) -> dict[bytes, bytes]:
    """Every row on this machine of what is indexed, byte for byte."""
    thinker, snapshot = engine.embeddings._new, engine.index.store.snapshot()
    assert thinker is not None and snapshot is not None
    vectors = thinker.vectors()
    assert vectors is not None
    wanted = np.concatenate([snapshot.file_column("card_key"), snapshot.chunk_column("key")])
    found, is_there = vectors.get(wanted)
    assert is_there.all()
    return {
        bytes(key): scale.tobytes() + row.tobytes()
        for key, scale, row in zip(wanted, found.scales, found.values, strict=True)
    }


def test_what_one_machine_has_embedded_no_other_embeds(
    tmp_path: Path, team: dict[str, Any], server: EmbeddingServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows are the same to the last byte, answers to the last bit, and the model of the second reads no passage."""
    with indexed(tree(tmp_path / "ci", FILES), store_shares=True, **team) as ci:
        assert ci.embeddings.embed_all() == (12, 12)
        first = kept(ci), told(ci)
        server.asked.clear()
        with indexed(tree(tmp_path / "desk", FILES), **team) as desk:
            assert desk.embeddings.embed_all() == (12, 12)
            assert [asked.texts for asked in server.asked] == [["dimensions"]], "the model says who it is, and no more"
            assert status_row(desk.status())["embeddings"]["from_team"] == 24
            assert (kept(desk), told(desk)) == first
            assert _embed(desk) == 0
    assert "24 of the vectors from the team" in capsys.readouterr().out


@pytest.mark.parametrize("team", ["postgres"], indirect=True)
def test_who_does_not_share_embeds_what_is_his_alone_and_gives_nothing(
    tmp_path: Path, team: dict[str, Any], server: EmbeddingServer
) -> None:
    with indexed(tree(tmp_path / "ci", FILES), store_shares=True, **team) as ci:
        ci.embeddings.embed_all()
        server.asked.clear()
        mine = {"src/mine.py": "def mine():\n    return 'a secret of my work tree'\n"}
        with indexed(tree(tmp_path / "desk", FILES | mine), **team) as desk:
            assert desk.embeddings.embed_all() == (13, 13)
            passages = [text for asked in server.asked for text in asked.texts if text != "dimensions"]
            assert [text.split(" | ")[0] for text in passages] == ["mine", "src/mine.py"]
        remote = open_vector_store(team["store_url"])
        assert list(remote.count_by_space(team["store_repository"]).values()) == [24]
        remote.close()


@pytest.mark.parametrize("team", ["postgres"], indirect=True)
def test_another_repository_on_the_same_store_learns_nothing_of_what_was_embedded(
    tmp_path: Path, team: dict[str, Any], server: EmbeddingServer
) -> None:
    with indexed(tree(tmp_path / "ci", FILES), store_shares=True, **team) as ci:
        ci.embeddings.embed_all()
        server.asked.clear()
        elsewhere = team | {"store_repository": f"{tmp_path.name}/other"}
        with indexed(tree(tmp_path / "other", FILES), store_shares=True, **elsewhere) as other:
            other.embeddings.embed_all()
            assert sum(len(asked.texts) for asked in server.asked) == 1 + 24
            assert other.status().embeddings.taken == 0


def test_while_the_database_is_away_a_reader_embeds_by_himself_and_who_shares_is_told(
    tmp_path: Path, server: EmbeddingServer
) -> None:
    address = new_database()
    knobs: dict[str, Any] = {
        "store_url": address, "store_repository": "app",
        "embedder": "openai-compatible", "embedding_model": "words", "embedding_address": server.address,
    }  # fmt: skip
    with (
        indexed(tree(tmp_path / "ci", FILES), store_shares=True, **knobs) as ci,
        indexed(tree(tmp_path / "desk", FILES), **knobs) as desk,
    ):
        with forbid(address):
            with pytest.raises(StoreUnavailable):
                ci.embeddings.embed_all()
            assert desk.embeddings.embed_all() == (12, 12)
            assert "does not answer" in desk.status().embeddings.team
        assert ci.embeddings.embed_all() == (12, 12)
        remote = open_vector_store(address)
        assert sum(remote.count_by_space("app").values()) == 24
        remote.close()
