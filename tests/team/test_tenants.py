"""Segments are sent ahead of the list that names them; repositories of a database are listed and removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_engine.errors import NotIndexed, StoreUnavailable
from context_engine.index.embedded_store import SCHEMA_VERSION
from context_engine.team import postgres_store, remote_store
from context_engine.team.index_stores import list_tenants, remove_tenant
from context_engine.team.manifest import SegmentRef, decode_manifest
from context_engine.team.postgres_store import PostgresStore
from context_engine.team.shared_store import SharedStore
from tests.contracts.test_store import fill, holding
from tests.team.test_shared_store import REMOTE_STORES

PIECE_BYTES = 1_000
"""Each of the segments below takes three of them or more."""


@pytest.fixture(params=list(REMOTE_STORES))
def place(request: pytest.FixtureRequest) -> Iterator[PostgresStore]:
    with closing(REMOTE_STORES[request.param]()) as opened:
        yield opened


@pytest.fixture
def there(place: PostgresStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SharedStore:
    monkeypatch.setattr(postgres_store, "PIECE_BYTES", PIECE_BYTES)
    return SharedStore(tmp_path / "there", place, f"{tmp_path}/app")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The segment of each piece that is really sent to a database."""
    import psycopg

    names: list[str] = []
    execute = psycopg.Connection.execute

    def executed(self: Any, query: Any, params: Any = None, **more: Any) -> Any:
        if isinstance(query, str) and query.startswith("INSERT INTO context_engine.piece"):
            names.append(params[1])
        return execute(self, query, params, **more)

    monkeypatch.setattr(psycopg.Connection, "execute", executed)
    return names


def fill_until_cut_off(store: SharedStore, files: dict[str, str], pieces: int) -> None:
    """Index some files on a connection that is lost after so many pieces."""
    left, read_pieces = [pieces], postgres_store.read_pieces

    def cut(path: Path) -> Iterator[tuple[int, bytes]]:
        for piece in read_pieces(path):
            left[0] -= 1
            if left[0] < 0:
                raise remote_store.unavailable_error("the database", "connection lost")
            yield piece

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(postgres_store, "read_pieces", cut)
        with pytest.raises(StoreUnavailable):
            fill(store, files)


def listed(store: SharedStore) -> tuple[SegmentRef, ...]:
    """The segments that the remote store lists."""
    manifest = store.remote.read_manifest(store.repository).manifest
    return decode_manifest(manifest).segments if manifest else ()


# -- interrupted commits ------------------------------------------------------------------------------------------


def test_an_interrupted_commit_sends_only_what_has_not_arrived(there: SharedStore, sent: list[str]) -> None:
    """An index run that is killed while it sends what it made: the next one makes the same."""
    fill_until_cut_off(there, {"a.py": "lion"}, 2)
    assert (len(sent), there.remote.read_manifest(there.repository).manifest) == (2, None)
    fill(there, {"a.py": "lion"})
    sizes = {part.name: part.size for part in listed(there)}  # the same bytes may be listed twice
    assert len(sent) == sum(-(-size // PIECE_BYTES) for size in sizes.values())
    assert holding(there.snapshot(), "lion") == ["a.py"]


def test_what_an_abandoned_commit_sent_is_dropped_by_the_next_one(there: SharedStore, tmp_path: Path) -> None:
    fill_until_cut_off(there, {"a.py": "lion"}, 2)
    other = SharedStore(tmp_path / "other", there.remote, f"{tmp_path}/app")
    fill(other, {"b.py": "dodo"})
    assert {part.name for part in listed(other)} == set(there.remote.list_segment_sizes(there.repository))
    assert there.remote.count_stored_bytes(there.repository) == sum(part.size for part in listed(other))


# -- the repositories of a database -------------------------------------------------------------------------------


def test_a_list_contains_complete_indexes_and_interrupted_ones(
    there: SharedStore, place: PostgresStore, tmp_path: Path
) -> None:
    fill(there, {f"{name}.py": name for name in ("lion", "tiger", "lynx")})
    fill_until_cut_off(SharedStore(tmp_path / "half", place, f"{tmp_path}/half"), {"a.py": "lion"}, 2)
    found = {entry.repository: entry for entry in list_tenants(place) if entry.repository.startswith(str(tmp_path))}
    whole, begun = found[f"{tmp_path}/app"], found[f"{tmp_path}/half"]
    assert (whole.schema, whole.files, whole.chunks) == (SCHEMA_VERSION, 3, 3)
    assert whole.bytes == sum(part.size for part in listed(there))
    assert whole.committed_at > 1_700_000_000
    assert (begun.bytes, begun.files, begun.chunks, begun.committed_at) == (2 * PIECE_BYTES, None, None, 0)


def test_what_is_removed_is_gone_for_all_and_can_be_indexed_again(
    there: SharedStore, place: PostgresStore, tmp_path: Path
) -> None:
    half = SharedStore(tmp_path / "half", place, f"{tmp_path}/half")
    fill(there, {"a.py": "lion"})
    fill_until_cut_off(half, {"a.py": "lion"}, 2)
    for name in ("app", "half"):
        remove_tenant(place, f"{tmp_path}/{name}")
        with pytest.raises(NotIndexed) as refused:
            remove_tenant(place, f"{tmp_path}/{name}")
        assert f"{tmp_path}/{name}" not in refused.value.suggestion
    assert (there.snapshot(), place.list_segment_sizes(half.repository)) == (None, {})
    fill(there, {"a.py": "lion"})
    assert set(there.files()) == {"a.py"}


def test_an_index_of_another_release_is_listed_and_removed_by_its_number(place: PostgresStore, tmp_path: Path) -> None:
    older = f"{SCHEMA_VERSION - 1}/{tmp_path}/app"
    with place.acquire_lease(older, 0) as lease:
        lease.commit(0, b"what this release cannot read", {}, ())
    (entry,) = [entry for entry in list_tenants(place) if entry.repository == f"{tmp_path}/app"]
    assert (entry.schema, entry.files) == (SCHEMA_VERSION - 1, None)
    with pytest.raises(NotIndexed):
        remove_tenant(place, f"{tmp_path}/app")
    remove_tenant(place, f"{tmp_path}/app", SCHEMA_VERSION - 1)
    assert older not in place.list_repositories()
