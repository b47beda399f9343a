"""The remote store on Qdrant: one collection for all repositories, with a tenant index that separates them.

    ctx_depot -> ctx_depot_v1     the alias, and the collection behind it
    manifest                      one point per repository: the manifest and its revision
    piece                         a part of a segment; its id is derived from repository, name and number
    writer                        one point per repository: who writes, and until when unless the lease is renewed

Qdrant has no transaction over several points, so the order of the writes keeps a state whole. Pieces come first. Then
the manifest replaces the revision it was made from, or nothing (a conditional upsert). Then pieces that it does not
name are deleted. A kill in between leaves pieces that no manifest names: the next attempt reuses them, or the next
commit deletes them. Qdrant does not search or rank here (docs/decisions/0038).
"""

from __future__ import annotations

import base64
import math
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from qdrant_client import QdrantClient, models

from context_engine.errors import ContextEngineError
from context_engine.sharing.qdrant_session import QdrantSession, ensure_collection, match_value
from context_engine.sharing.remote_store import (
    PIECE_BYTES,
    ManifestRevision,
    RemoteStore,
    RepositoryLease,
    busy_error,
)

ALIAS = "ctx_depot"
COLLECTION = "ctx_depot_v1"
"""Raise the number when payloads change; the alias then names the collection in use."""
IN_ORDER = models.WriteOrdering.STRONG
"""Every replica sees writes in one order, so that all decide a conditional write the same way."""
LEASE_S = 60.0
"""The next writer waits this long for one that was killed. Clocks of machines differ by less."""
RENEW_S = 15.0
LOCK_POLL_S = 0.1
PAGE_POINTS = 1_000
FIELDS = {
    "repository": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    "what": models.PayloadSchemaType.KEYWORD,
    "name": models.PayloadSchemaType.KEYWORD,
    "owner": models.PayloadSchemaType.KEYWORD,
    "revision": models.PayloadSchemaType.INTEGER,
    "until": models.PayloadSchemaType.FLOAT,
    "sent_at": models.PayloadSchemaType.FLOAT,
}
"""All fields that our filters use: in strict mode, as on Qdrant's cloud, others are refused."""


class QdrantStore(RemoteStore):
    """The remote store behind one alias. It connects at the first call."""

    def __init__(self, address: str, client: Callable[[], QdrantClient] | None = None) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument.

        `client` opens the connection; by default one over HTTP to the address.
        """
        self._session = QdrantSession(address, client, prepare=_create_collection)
        self.name = self._session.name

    def revision(self, repository: str) -> int:
        """Return the revision."""
        manifest = self.read_point(_id(repository, "manifest"), ["revision"])
        if manifest:
            return manifest["revision"]
        return 0

    def read_manifest(self, repository: str) -> ManifestRevision:
        """Return the manifest and its revision."""
        fields = self.read_point(_id(repository, "manifest"), ["revision", "content", "committed_at"])
        if fields is None:
            return ManifestRevision(0, None)
        content = fields.get("content")
        if content is None:
            manifest = None
        else:
            manifest = base64.b64decode(content)
        return ManifestRevision(fields["revision"], manifest, fields.get("committed_at", 0.0))

    def read_piece(self, repository: str, name: str, number: int) -> tuple[int, bytes] | None:
        """Return the size of a segment and one of its pieces."""
        piece = self.read_point(_id(repository, "piece", name, number), ["size", "content"])
        if piece:
            return (piece["size"], base64.b64decode(piece["content"]))
        return None

    def list_segment_sizes(self, repository: str) -> dict[str, int]:
        """Return the size of each segment that is stored completely."""
        arrived: dict[str, int] = {}
        complete: dict[str, int] = {}
        for piece in self._read_all(models.Filter(must=_points_of(repository, "piece")), ["name", "size", "bytes"]):
            arrived[piece["name"]] = arrived.get(piece["name"], 0) + piece["bytes"]
            complete[piece["name"]] = piece["size"]
        return {name: size for name, size in arrived.items() if size == complete[name]}

    def count_stored_bytes(self, repository: str) -> int:
        """Return the size of all pieces."""
        pieces = self._read_all(models.Filter(must=_points_of(repository, "piece")), ["bytes"])
        return sum(piece["bytes"] for piece in pieces)

    def list_repositories(self) -> list[str]:
        """Return the repositories that have a manifest or pieces, sorted."""
        either = models.FieldCondition(key="what", match=models.MatchAny(any=["manifest", "piece"]))
        points = self._read_all(models.Filter(must=[either]), ["repository", "is_filled"])
        return sorted({point["repository"] for point in points if point.get("is_filled", True)})

    @contextmanager
    def acquire_lease(self, repository: str, wait_s: float) -> Generator[RepositoryLease]:
        """Acquire the right to write, as long as this process renews it. Raises: StorageBusy."""
        lease = _QdrantLease(self, repository)
        deadline = time.monotonic() + wait_s
        while not lease.renew():
            if time.monotonic() >= deadline:
                raise busy_error(repository)
            time.sleep(LOCK_POLL_S)
        ended = threading.Event()
        renewal = threading.Thread(target=lease.keep_renewing, args=(ended,), daemon=True)
        renewal.start()
        try:
            yield lease
        finally:
            ended.set()
            renewal.join()
            with suppress(ContextEngineError):  # it expires by itself, only later
                lease.release()

    def close(self) -> None:
        """Close the connection; it is opened again when needed."""
        self._session.close()

    def read_point(self, point: str, fields: list[str], *, is_own_write: bool = False) -> dict[str, Any] | None:
        """Return some fields of a point; after an own write, as the majority of the replicas has it."""
        if is_own_write:
            consistency = models.ReadConsistencyType.MAJORITY
        else:
            consistency = None
        points = self._session.call(
            lambda client: client.retrieve(ALIAS, [point], with_payload=fields, consistency=consistency)
        )
        if points:
            return dict(points[0].payload or {})
        return None

    def find_stored_pieces(self, ids: list[str]) -> set[int]:
        """Return the numbers of those pieces that are stored, and mark them as sent now."""
        stored, now = models.Filter(must=[models.HasIdCondition(has_id=list(ids))]), {"sent_at": time.time()}
        self._session.call(lambda client: client.set_payload(ALIAS, now, points=stored, ordering=IN_ORDER))
        points = self._session.call(lambda client: client.retrieve(ALIAS, ids, with_payload=["number"]))
        return {(point.payload or {})["number"] for point in points}

    def upsert(self, point: str, payload: dict[str, Any], only_if: models.Filter | None = None) -> None:
        """Write a point. A condition applies only to a point that exists."""
        points = [models.PointStruct(id=point, vector={}, payload=payload)]
        self._session.call(lambda client: client.upsert(ALIAS, points, update_filter=only_if, ordering=IN_ORDER))

    def delete(self, chosen: models.Filter) -> None:
        """Delete points."""
        selector = models.FilterSelector(filter=chosen)
        self._session.call(lambda client: client.delete(ALIAS, points_selector=selector, ordering=IN_ORDER))

    def _read_all(self, chosen: models.Filter, fields: list[str]) -> Iterator[dict[str, Any]]:
        pages = self._session.scroll(ALIAS, chosen, fields, limit=PAGE_POINTS)
        return (dict(point.payload or {}) for point in pages)


class _QdrantLease(RepositoryLease):
    """A lease that its owner has to renew."""

    def __init__(self, store: QdrantStore, repository: str) -> None:
        self._store = store
        self._repository = repository
        self._owner = token_hex(8)
        self._expires_at = 0.0

    def renew(self) -> bool:
        """Take or prolong the lease, unless another process has it; return whether it is ours."""
        now = time.time()
        point = _id(self._repository, "writer")
        expired = models.FieldCondition(key="until", range=models.Range(lt=now))
        payload = {
            "repository": self._repository,
            "what": "writer",
            "owner": self._owner,
            "until": now + LEASE_S,
        }
        self._store.upsert(point, payload, models.Filter(should=[match_value("owner", self._owner), expired]))
        writer = self._store.read_point(point, ["owner"], is_own_write=True)
        if writer is None or writer["owner"] != self._owner:
            return False
        self._expires_at = now + LEASE_S
        return True

    def keep_renewing(self, ended: threading.Event) -> None:
        """Renew the lease until its block has ended."""
        while not ended.wait(RENEW_S):
            with suppress(ContextEngineError):  # a lost lease fails the commit, whose revision then does not fit
                self.renew()

    def release(self) -> None:
        """Give up the lease, unless another process has it by now."""
        writer = models.HasIdCondition(has_id=[_id(self._repository, "writer")])
        self._store.delete(models.Filter(must=[writer, match_value("owner", self._owner)]))

    def commit(self, revision: int, manifest: bytes, added: Mapping[str, Path], named: Collection[str]) -> int:
        """Send the new pieces, replace the manifest of `revision`, then delete the pieces that are not named."""
        for name, path in added.items():
            numbers = range(math.ceil(path.stat().st_size / PIECE_BYTES))
            ids = [_id(self._repository, "piece", name, number) for number in numbers]
            self._send_pieces(name, path, self._store.find_stored_pieces(ids))
        self._swap(revision, base64.b64encode(manifest).decode())
        self._delete_unnamed(named)
        return revision + 1

    def clear(self) -> int:
        """Delete the manifest and the segments; return the bytes freed."""
        freed = self._store.count_stored_bytes(self._repository)
        self._swap(self._store.revision(self._repository), None)
        self._delete_unnamed(())
        return freed

    def write_piece(self, name: str, number: int, size: int, content: bytes) -> None:
        """Store one piece of a segment."""
        payload = {
            "repository": self._repository,
            "what": "piece",
            "name": name,
            "number": number,
            "size": size,
            "bytes": len(content),
            "sent_at": time.time(),
            "content": base64.b64encode(content).decode(),
        }
        self._store.upsert(_id(self._repository, "piece", name, number), payload)

    def _swap(self, revision: int, content: str | None) -> None:
        """Replace the manifest of a revision, then check that ours is stored. Raises: StorageBusy."""
        payload = {
            "repository": self._repository,
            "what": "manifest",
            "is_filled": content is not None,
            "content": content,
            "revision": revision + 1,
            "owner": self._owner,
            "committed_at": time.time(),
        }
        point = _id(self._repository, "manifest")
        self._store.upsert(point, payload, models.Filter(must=[match_value("revision", revision)]))
        stored = self._store.read_point(point, ["revision", "owner"], is_own_write=True)
        if stored != {"revision": revision + 1, "owner": self._owner}:
            raise busy_error(self._repository)

    def _delete_unnamed(self, named: Collection[str]) -> None:
        """Delete pieces that the manifest does not name.

        Pieces that were sent after our lease expired belong to the next writer, and stay.
        """
        is_old = models.FieldCondition(key="sent_at", range=models.Range(lt=self._expires_at))
        if named:
            kept = [models.FieldCondition(key="name", match=models.MatchAny(any=sorted(named)))]
        else:
            kept = []
        self._store.delete(models.Filter(must=[*_points_of(self._repository, "piece"), is_old], must_not=kept))


def _create_collection(client: QdrantClient, name: str) -> None:
    """Create the collection if it does not exist. Raises: StoreUnusable when the alias names another version."""

    def create() -> None:
        client.create_collection(COLLECTION, vectors_config={}, on_disk_payload=True)

    ensure_collection(client, name, ALIAS, COLLECTION, create=create, fields=FIELDS)


def _id(repository: str, *parts: str | int) -> str:
    """Return the id of a point, derived from what it is, so that a second attempt overwrites the first."""
    return str(uuid5(NAMESPACE_URL, "\n".join(map(str, (repository, *parts)))))


def _points_of(repository: str, what: str) -> list[models.FieldCondition]:
    return [match_value("repository", repository), match_value("what", what)]
