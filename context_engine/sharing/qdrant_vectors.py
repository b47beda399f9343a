"""The vectors of a team on Qdrant: a collection for each space, a point for each vector, told apart by a tenant index.

    ctx_<how they are made>_<numbers> -> ..._s1_v1    the alias, and the collection it stands for
    point                                             its id follows from repository and key
        row                                           scale and numbers as machines keep them: what is fetched
        dense                                         the same for Qdrant's own search: on disk, one byte a number in memory
        day                                           when it was last of use

The row lies beside the vector because it comes back as it was put, byte for byte, in an eighth of what the numbers take
as text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID, uuid5

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from context_engine.embedding import Keys, VectorRows, VectorSpace
from context_engine.sharing.qdrant_session import QdrantSession, unusable_error
from context_engine.sharing.remote_vectors import Mask, align_rows, check_shape, is_scale, key_bytes, split_messages

SCHEMA = 1
"""Raise it when payloads change: another collection takes the alias, and is filled anew."""
NUMBER_CHARS = 9
"""Of one number of a vector in a request."""
BESIDE_BYTES = 300
"""Of the rest of a point: its id, the names of fields, scale and day."""
DECIMALS = 5
"""Of the numbers that Qdrant searches by, whose steps are greater than .001."""
PAGE_POINTS = 1_000
NAMES = UUID("a49ac7c2-770c-5740-a129-666a0300b4c0")
"""The namespace of our points."""

SCALE_BYTES = 4

_IS_ALIAS = re.compile(r"ctx_([0-9a-f]+)_([0-9]+)").fullmatch


class QdrantVectors:
    """The remote vector store of one cluster. Thread-safe. Nothing is connected until it is asked.

    `client` opens the connection; by default one over HTTP to the address.
    """

    def __init__(self, address: str, client: Callable[[], QdrantClient] | None = None) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument."""
        self._session = QdrantSession(address, client, lay_out=lambda *_: None)
        self.name = self._session.name

    # -- reading --

    def contains(self, repository: str, space: VectorSpace, keys: Keys) -> Mask:
        """Which keys have a point."""
        found = {point.id for point in self._under(repository, space, keys, [])}
        return np.fromiter((each in found for each in _ids(repository, keys)), bool, len(keys))

    def fetch(self, repository: str, space: VectorSpace, keys: Keys) -> tuple[VectorRows, Mask]:
        """A row for each key, and which were found; the others are zeros."""
        rows = {point.id: _row(point) for point in self._under(repository, space, keys, ["row"])}
        ids = zip(key_bytes(keys), _ids(repository, keys), strict=True)
        return align_rows(keys, space, {key: rows[each] for key, each in ids if each in rows})

    def count_by_space(self, repository: str) -> dict[VectorSpace, int]:
        """How many rows there are, by space."""
        counts = {space: self._count(alias, _of(repository)) for alias, space in self._session.call(_spaces)}
        return {space: count for space, count in counts.items() if count}

    def check(self, repository: str, *, repair: bool = False) -> list[str]:
        """What is wrong with the rows of a repository, in words; a `repair` drops what is damaged."""
        troubles = []
        for alias, space in self._session.call(_spaces):
            damaged = [point.id for point in self._all(alias, repository) if not _is_sound(point, space)]
            if damaged:
                troubles.append(
                    f"{len(damaged)} vectors of {space.dimensions} numbers ({space.fingerprint}) are damaged"
                )
            if damaged and repair:
                self._delete(alias, models.PointIdsList(points=damaged))
        return sorted(troubles)

    def _under(self, repository: str, space: VectorSpace, keys: Keys, fields: list[str]) -> Iterator[models.Record]:
        """The points of some keys, in as many messages as it takes; none where nobody has put any."""
        alias = _alias(space)
        is_there = (alias, space) in self._session.call(_spaces)
        for portion in split_messages(len(keys) if is_there else 0, 2 * space.dimensions + BESIDE_BYTES):
            ids = _ids(repository, keys[portion])
            yield from self._session.call(partial(_retrieved, alias=alias, ids=ids, fields=fields))

    def _all(self, alias: str, repository: str) -> Iterator[models.Record]:
        at: Any = None
        while True:
            points, at = self._session.call(partial(_page, alias=alias, wanted=_of(repository), offset=at))
            yield from points
            if at is None:
                return

    def _count(self, alias: str, wanted: models.Filter) -> int:
        return self._session.call(lambda client: client.count(alias, count_filter=wanted)).count

    # -- writing --

    def put(self, repository: str, space: VectorSpace, keys: Keys, rows: VectorRows, day: int) -> int:
        """Keep a row for each key, used on a day; how many were new. Raises: InvalidVectors, DiskFull."""
        check_shape(space, keys, rows)
        self._session.call(lambda client: _lay_out(client, space, self.name))
        fresh = np.zeros(len(keys), bool)
        fresh[np.unique(keys, return_index=True)[1]] = True
        new = np.flatnonzero(fresh & ~self.contains(repository, space, keys))
        for portion in split_messages(len(new), space.dimensions * NUMBER_CHARS + BESIDE_BYTES):
            some = new[portion]
            points = _points(repository, keys[some], VectorRows(rows.values[some], rows.scales[some]), day)
            self._upsert(space, points, is_last=portion.stop >= len(new))
        return len(new)

    def _upsert(self, space: VectorSpace, points: list[models.PointStruct], *, is_last: bool) -> None:
        """Only the last message of several is waited for: those before it are carried out by then."""
        self._session.call(lambda client: client.upsert(_alias(space), points, wait=is_last, update_filter=_NEVER))

    def mark_used(self, repository: str, space: VectorSpace, keys: Keys, day: int, before: int) -> None:
        """These were used on a day; only those whose last day lies before another one are written."""
        for portion in split_messages(len(keys), BESIDE_BYTES):
            some = models.HasIdCondition(has_id=_ids(repository, keys[portion]))
            self._stamp(space, models.Filter(must=[some, _before(before)]), day)

    def _stamp(self, space: VectorSpace, old: models.Filter, day: int) -> None:
        self._session.call(lambda client: client.set_payload(_alias(space), {"day": day}, points=old))

    def delete_unused(self, repository: str, before: int) -> int:
        """Drop what was used before a day and never since; how many rows."""
        unused = models.Filter(must=[_is_of(repository), _before(before)])
        return sum(self._drop(alias, unused) for alias, _ in self._session.call(_spaces))

    def _drop(self, alias: str, unused: models.Filter) -> int:
        dropped = self._count(alias, unused)
        self._delete(alias, models.FilterSelector(filter=unused))
        return dropped

    def _delete(self, alias: str, chosen: models.PointsSelector) -> None:
        self._session.call(lambda client: client.delete(alias, points_selector=chosen))

    def close(self) -> None:
        """Close the connection; it is opened again when needed."""
        self._session.close()


def _before(day: int) -> models.FieldCondition:
    return models.FieldCondition(key="day", range=models.Range(lt=day))


def _is_of(repository: str) -> models.FieldCondition:
    return models.FieldCondition(key="repository", match=models.MatchValue(value=repository))


def _of(repository: str) -> models.Filter:
    return models.Filter(must=[_is_of(repository)])


def _alias(space: VectorSpace) -> str:
    """Under what a space is found."""
    return f"ctx_{space.fingerprint}_{space.dimensions}"


def _spaces(client: QdrantClient) -> list[tuple[str, VectorSpace]]:
    """The spaces that are there, each with its alias."""
    names = [each.alias_name for each in client.get_aliases().aliases]
    return [(name, VectorSpace(found[1], int(found[2]))) for name in names if (found := _IS_ALIAS(name))]


def _retrieved(client: QdrantClient, alias: str, ids: list[str], fields: list[str]) -> list[models.Record]:
    return client.retrieve(alias, ids, with_payload=fields or False)


def _page(client: QdrantClient, alias: str, wanted: models.Filter, offset: Any) -> tuple[list[models.Record], Any]:
    return client.scroll(alias, scroll_filter=wanted, limit=PAGE_POINTS, offset=offset, with_payload=["row"])


def _ids(repository: str, keys: Keys) -> list[str]:
    """The ids of the points of some keys."""
    return [str(uuid5(NAMES, f"{repository}\n{key.hex()}")) for key in key_bytes(keys)]


def _points(repository: str, keys: Keys, rows: VectorRows, day: int) -> list[models.PointStruct]:
    dense = rows.floats().round(DECIMALS).tolist()
    made = []
    for number, (point, scale) in enumerate(zip(_ids(repository, keys), rows.scales, strict=True)):
        row = base64.b64encode(scale.tobytes() + rows.values[number].tobytes()).decode()
        payload = {"repository": repository, "row": row, "day": day}
        made.append(models.PointStruct(id=point, vector={"dense": dense[number]}, payload=payload))
    return made


def _row(point: models.Record) -> tuple[float, bytes]:
    """The scale and the numbers of a point; of one that is damaged whatever can be no row."""
    try:
        row = base64.b64decode((point.payload or {})["row"], validate=True)
        return float(np.frombuffer(row[:SCALE_BYTES], "<f4")[0]), row[SCALE_BYTES:]
    except (KeyError, TypeError, ValueError, IndexError):
        return 0.0, b""


def _is_sound(point: models.Record, space: VectorSpace) -> bool:
    scale, numbers = _row(point)
    return len(numbers) == space.dimensions and is_scale(scale)


def _lay_out(client: QdrantClient, space: VectorSpace, name: str) -> None:
    """Make the collection of a space where there is none. Raises: StoreUnusable when another version's serves."""
    alias = _alias(space)
    collection = f"{alias}_s{SCHEMA}_v1"
    serving = {each.alias_name: each.collection_name for each in client.get_aliases().aliases}.get(alias)
    if serving is None:
        with suppress(UnexpectedResponse, ValueError):  # somebody else was quicker
            _create(client, collection, space)
        made = models.CreateAlias(collection_name=collection, alias_name=alias)
        client.update_collection_aliases([models.CreateAliasOperation(create_alias=made)])
    elif serving != collection:
        raise unusable_error(
            name,
            f"{alias} stands for {serving}, and this program knows {collection}",
            "use the same release of smart-context-engine everywhere, or another cluster",
        )


def _create(client: QdrantClient, collection: str, space: VectorSpace) -> None:
    """No graph of neighbours: who searches looks at the small copies of one repository's vectors, which takes a millisecond."""
    small = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
    client.create_collection(
        collection,
        vectors_config={
            "dense": models.VectorParams(size=space.dimensions, distance=models.Distance.DOT, on_disk=True)
        },
        hnsw_config=models.HnswConfigDiff(m=0),
        quantization_config=models.ScalarQuantization(scalar=small),
        on_disk_payload=True,
    )
    tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    client.create_payload_index(collection, "repository", field_schema=tenant)
    client.create_payload_index(collection, "day", field_schema=models.PayloadSchemaType.INTEGER)


_NEVER = models.Filter(must=[_before(0)])
"""An upsert under this condition leaves a point that is there as it is: no day lies before the first."""
