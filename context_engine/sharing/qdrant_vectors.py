"""The vectors of a team on Qdrant: a collection for each vector space, a point for each vector, a tenant index.

    ctx_<how they are made>_<dimensions> -> ..._s1_v1    the alias, and the collection behind it
    point                                                its id is derived from repository and key
        row                                              scale and numbers as machines store them; this is fetched
        dense                                            the same for Qdrant's own search: on disk, int8 in memory
        day                                              when it was last used

The row is stored next to the vector because it must come back bit for bit, and takes an eighth of the numbers as text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from uuid import UUID, uuid5

import numpy as np
from qdrant_client import QdrantClient, models

from context_engine.embedding import Keys, VectorRows, VectorSpace
from context_engine.sharing.qdrant_session import QdrantSession, ensure_collection, match_value
from context_engine.sharing.remote_vectors import (
    Mask,
    RemoteVectorStore,
    align_rows,
    check_shape,
    is_scale,
    key_bytes,
    split_messages,
)

SCHEMA = 1
"""Raise it when payloads change: the alias then names another collection, which is filled again."""
NUMBER_CHARS = 9
"""Length of one number of a vector in a request."""
POINT_BYTES = 300
"""Size of the rest of a point: its id, field names, scale and day."""
DECIMALS = 5
"""Of the numbers that Qdrant searches by, whose steps are greater than 0.001."""
PAGE_POINTS = 1_000
NAMES = UUID("a49ac7c2-770c-5740-a129-666a0300b4c0")
"""The namespace of our points."""
SCALE_BYTES = 4
FIELDS = {
    "repository": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "day": models.PayloadSchemaType.INTEGER,
}
"""All fields that our filters use."""

_match_alias = re.compile(r"ctx_([0-9a-f]+)_([0-9]+)").fullmatch


class QdrantVectors(RemoteVectorStore):
    """The vectors of one cluster. It connects at the first call."""

    def __init__(self, address: str, client: Callable[[], QdrantClient] | None = None) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument.

        `client` opens the connection; by default one over HTTP to the address.
        """
        self._session = QdrantSession(address, client)
        self.name = self._session.name

    # -- reading --

    def contains(self, repository: str, space: VectorSpace, keys: Keys) -> Mask:
        """Return which keys have a point."""
        stored = {point.id for point in self._find_points(repository, space, keys, [])}
        return np.fromiter((point_id in stored for point_id in _ids(repository, keys)), bool, len(keys))

    def fetch(self, repository: str, space: VectorSpace, keys: Keys) -> tuple[VectorRows, Mask]:
        """Return a row for each key, zeros where it is not stored, and which keys are."""
        rows = {point.id: _decode_row(point) for point in self._find_points(repository, space, keys, ["row"])}
        ids = zip(key_bytes(keys), _ids(repository, keys), strict=True)
        return align_rows(keys, space, {key: rows[point_id] for key, point_id in ids if point_id in rows})

    def count_by_space(self, repository: str) -> dict[VectorSpace, int]:
        """Count the rows by space."""
        own = models.Filter(must=[match_value("repository", repository)])
        counts = {space: self._count(alias, own) for alias, space in self._session.call(_list_spaces)}
        return {space: count for space, count in counts.items() if count}

    def check(self, repository: str, *, repair: bool = False) -> list[str]:
        """Return the problems of a repository's rows, as text; `repair` deletes what is damaged."""
        own = models.Filter(must=[match_value("repository", repository)])
        problems = []
        for alias, space in self._session.call(_list_spaces):
            points = self._session.scroll(alias, own, ["row"], limit=PAGE_POINTS)
            damaged = [point.id for point in points if not _is_sound(point, space)]
            if damaged:
                problems.append(
                    f"{len(damaged)} vectors of {space.dimensions} numbers ({space.fingerprint}) are damaged"
                )
            if damaged and repair:
                self._delete(alias, models.PointIdsList(points=damaged))
        return sorted(problems)

    def _find_points(
        self, repository: str, space: VectorSpace, keys: Keys, fields: list[str]
    ) -> Iterator[models.Record]:
        """Yield the points of some keys, in as many messages as needed."""
        alias = _alias(space)
        if (alias, space) not in self._session.call(_list_spaces):
            return
        for portion in split_messages(len(keys), 2 * space.dimensions + POINT_BYTES):
            ids = _ids(repository, keys[portion])
            yield from self._session.call(
                lambda client, ids=ids: client.retrieve(alias, ids, with_payload=fields or False)
            )

    def _count(self, alias: str, chosen: models.Filter) -> int:
        return self._session.call(lambda client: client.count(alias, count_filter=chosen)).count

    # -- writing --

    def put(self, repository: str, space: VectorSpace, keys: Keys, rows: VectorRows, day: int) -> int:
        """Store a row for each key, used on a day; return how many were new. Raises: InvalidVectors, DiskFull."""
        check_shape(space, keys, rows)
        self._session.call(lambda client: _create_collection(client, space, self.name))
        is_first = np.zeros(len(keys), bool)
        is_first[np.unique(keys, return_index=True)[1]] = True
        new = np.flatnonzero(is_first & ~self.contains(repository, space, keys))
        for portion in split_messages(len(new), space.dimensions * NUMBER_CHARS + POINT_BYTES):
            some = new[portion]
            points = _make_points(repository, keys[some], VectorRows(rows.values[some], rows.scales[some]), day)
            self._upsert(space, points, is_last=portion.stop >= len(new))
        return len(new)

    def _upsert(self, space: VectorSpace, points: list[models.PointStruct], *, is_last: bool) -> None:
        """Wait for the last of several messages only: the server has then carried out those before it."""
        self._session.call(lambda client: client.upsert(_alias(space), points, wait=is_last, update_filter=_NEVER))

    def mark_used(self, repository: str, space: VectorSpace, keys: Keys, day: int, before: int) -> None:
        """Store the day of use of these keys, where the stored day is before `before`."""
        for portion in split_messages(len(keys), POINT_BYTES):
            some = models.HasIdCondition(has_id=_ids(repository, keys[portion]))
            outdated = models.Filter(must=[some, _is_before(before)])
            self._session.call(
                lambda client, points=outdated: client.set_payload(_alias(space), {"day": day}, points=points)
            )

    def delete_unused(self, repository: str, before: int) -> int:
        """Delete the rows whose last use was before a day; return how many."""
        unused = models.Filter(must=[match_value("repository", repository), _is_before(before)])
        deleted = 0
        for alias, _ in self._session.call(_list_spaces):
            deleted += self._count(alias, unused)
            self._delete(alias, models.FilterSelector(filter=unused))
        return deleted

    def _delete(self, alias: str, chosen: models.PointsSelector) -> None:
        self._session.call(lambda client: client.delete(alias, points_selector=chosen))

    def close(self) -> None:
        """Close the connection; it is opened again when needed."""
        self._session.close()


def _is_before(day: int) -> models.FieldCondition:
    return models.FieldCondition(key="day", range=models.Range(lt=day))


def _alias(space: VectorSpace) -> str:
    return f"ctx_{space.fingerprint}_{space.dimensions}"


def _list_spaces(client: QdrantClient) -> list[tuple[str, VectorSpace]]:
    """Return the spaces that exist, each with its alias."""
    matches = (_match_alias(known.alias_name) for known in client.get_aliases().aliases)
    return [(match[0], VectorSpace(match[1], int(match[2]))) for match in matches if match]


def _ids(repository: str, keys: Keys) -> list[str]:
    return [str(uuid5(NAMES, f"{repository}\n{key.hex()}")) for key in key_bytes(keys)]


def _make_points(repository: str, keys: Keys, rows: VectorRows, day: int) -> list[models.PointStruct]:
    dense = rows.floats().round(DECIMALS).tolist()
    points = []
    for number, (point_id, scale) in enumerate(zip(_ids(repository, keys), rows.scales, strict=True)):
        row = base64.b64encode(scale.tobytes() + rows.values[number].tobytes()).decode()
        payload = {"repository": repository, "row": row, "day": day}
        points.append(models.PointStruct(id=point_id, vector={"dense": dense[number]}, payload=payload))
    return points


def _decode_row(point: models.Record) -> tuple[float, bytes]:
    """Return scale and numbers of a point; of a damaged one, values that cannot be a row."""
    try:
        row = base64.b64decode((point.payload or {})["row"], validate=True)
        return float(np.frombuffer(row[:SCALE_BYTES], "<f4")[0]), row[SCALE_BYTES:]
    except (KeyError, TypeError, ValueError, IndexError):
        return 0.0, b""


def _is_sound(point: models.Record, space: VectorSpace) -> bool:
    scale, numbers = _decode_row(point)
    return len(numbers) == space.dimensions and is_scale(scale)


def _create_collection(client: QdrantClient, space: VectorSpace, name: str) -> None:
    """Create the collection of a space. Raises: StoreUnusable when the alias names another version.

    It has no graph of neighbors: a search reads the int8 copies of one repository's vectors, in about a millisecond.
    """
    collection = f"{_alias(space)}_s{SCHEMA}_v1"

    def create() -> None:
        small = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        dense = models.VectorParams(size=space.dimensions, distance=models.Distance.DOT, on_disk=True)
        client.create_collection(
            collection,
            vectors_config={"dense": dense},
            hnsw_config=models.HnswConfigDiff(m=0),
            quantization_config=models.ScalarQuantization(scalar=small),
            on_disk_payload=True,
        )

    ensure_collection(client, name, _alias(space), collection, create=create, fields=FIELDS)


_NEVER = models.Filter(must=[_is_before(0)])
"""An upsert under this condition does not change a point that exists, since no day is before the first."""
