"""The remote store on Qdrant: one collection for all repositories, told apart by a tenant index.

    ctx_depot -> ctx_depot_v1     the alias, and the collection it stands for
    manifest                      one point a repository: its revision, and what counts
    piece                         a part of a segment; its id follows from repository, name and number
    writer                        one point a repository: who writes, and until when if nothing more is heard

Qdrant knows no transaction over several points, so the order is what keeps a state whole: pieces first, then the
manifest, in place of the revision it was made from or not at all (a conditional upsert), then what it does not name is
deleted. A kill in between leaves pieces that nobody names: who tries again finds them there, and the next commit
deletes what it does not name. What is found, and how it ranks, is no business of Qdrant's (docs/decisions/0038).
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
from qdrant_client.http.exceptions import UnexpectedResponse

from context_engine.errors import ContextEngineError
from context_engine.sharing.qdrant_session import QdrantSession, unusable_error
from context_engine.sharing.remote_store import PIECE_BYTES, ManifestRevision, OnBytesSent, busy_error, read_pieces

ALIAS = "ctx_depot"
COLLECTION = "ctx_depot_v1"
"""Raise the number when payloads change; the alias then says which one serves."""
IN_ORDER = models.WriteOrdering.STRONG
"""Every replica sees writes in one order, so that all take the same side in a conditional one."""
LEASE_S = 60.0
"""A writer that was killed holds up the next one so long. Clocks of machines differ by less."""
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
"""All that a filter of ours names: in strict mode, as on Qdrant's cloud, others are refused."""


class QdrantStore:
    """The remote store behind one alias. Thread-safe. Nothing is connected until it is asked.

    `client` opens the connection; by default one over HTTP to the address.
    """

    def __init__(self, address: str, client: Callable[[], QdrantClient] | None = None) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument."""
        self._session = QdrantSession(address, client, lay_out=_lay_out)
        self.name = self._session.name
        self._owner: dict[str, str] = {}
        self._until: dict[str, float] = {}

    # -- reading --

    def revision(self, repository: str) -> int:
        """Rises with every change, clearing included."""
        found = self._point(_id(repository, "manifest"), ["revision"])
        return found["revision"] if found else 0

    def read_manifest(self, repository: str) -> ManifestRevision:
        """Return the manifest and its revision."""
        found = self._point(_id(repository, "manifest"), ["revision", "content", "committed_at"])
        if found is None:
            return ManifestRevision(0, None)
        content = found.get("content")
        manifest = None if content is None else base64.b64decode(content)
        return ManifestRevision(found["revision"], manifest, found.get("committed_at", 0.0))

    def fetch(self, repository: str, name: str, target: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Write a segment to a file. Raises: FileNotFoundError when it is not there, or no longer."""
        size, number = 1, 0
        with open(target, "wb") as out:
            while out.tell() < size:
                found = self._point(_id(repository, "piece", name, number), ["size", "content"])
                if found is None:
                    raise FileNotFoundError(name)
                size = found["size"]
                content = base64.b64decode(found["content"])
                out.write(content)
                sent(len(content))
                number += 1

    def list_segment_sizes(self, repository: str) -> dict[str, int]:
        """Return the bytes of each segment that is stored completely."""
        there: dict[str, int] = {}
        whole: dict[str, int] = {}
        for piece in self._all(models.Filter(must=_of(repository, "piece")), ["name", "size", "bytes"]):
            there[piece["name"]] = there.get(piece["name"], 0) + piece["bytes"]
            whole[piece["name"]] = piece["size"]
        return {name: size for name, size in there.items() if size == whole[name]}

    def count_stored_bytes(self, repository: str) -> int:
        """Bytes of all its pieces."""
        return sum(piece["bytes"] for piece in self._all(models.Filter(must=_of(repository, "piece")), ["bytes"]))

    def list_repositories(self) -> list[str]:
        """Those that have something on it, sorted; such too of which only pieces have arrived."""
        either = models.FieldCondition(key="what", match=models.MatchAny(any=["manifest", "piece"]))
        found = self._all(models.Filter(must=[either]), ["repository", "is_filled"])
        return sorted({each["repository"] for each in found if each.get("is_filled", True)})

    def _point(self, point: str, fields: list[str], *, written: bool = False) -> dict[str, Any] | None:
        """Some fields of a point; `written`: as most replicas have it, because we have just written it."""
        seen = models.ReadConsistencyType.MAJORITY if written else None
        found = self._session.call(
            lambda client: client.retrieve(ALIAS, [point], with_payload=fields, consistency=seen)
        )
        return dict(found[0].payload or {}) if found else None

    def _all(self, wanted: models.Filter, fields: list[str]) -> Iterator[dict[str, Any]]:
        offset = None
        while True:
            points, offset = self._session.call(
                lambda client, start=offset: client.scroll(
                    ALIAS, scroll_filter=wanted, limit=PAGE_POINTS, offset=start, with_payload=fields
                )
            )
            yield from (dict(point.payload or {}) for point in points)
            if offset is None:
                return

    # -- writing --

    @contextmanager
    def acquire_lease(self, repository: str, wait_s: float) -> Generator[None]:
        """The right to write, as long as this process is heard of. Raises: StorageBusy."""
        owner = token_hex(8)
        until = time.monotonic() + wait_s
        while not self._leased(repository, owner):
            if time.monotonic() >= until:
                raise busy_error(repository)
            time.sleep(LOCK_POLL_S)
        ended = threading.Event()
        renewing = threading.Thread(target=self._renewed, args=(repository, owner, ended), daemon=True)
        renewing.start()
        self._owner[repository] = owner
        try:
            yield
        finally:
            ended.set()
            renewing.join()
            del self._owner[repository], self._until[repository]
            mine = models.Filter(must=[_has(_id(repository, "writer")), _is("owner", owner)])
            with suppress(ContextEngineError):  # it ends by itself, only later
                self._delete(mine)

    def _leased(self, repository: str, owner: str) -> bool:
        """Take the lease, or hold it for longer, unless somebody else has it."""
        now = time.time()
        point = _id(repository, "writer")
        free = models.Filter(
            should=[_is("owner", owner), models.FieldCondition(key="until", range=models.Range(lt=now))]
        )
        payload = {"repository": repository, "what": "writer", "owner": owner, "until": now + LEASE_S}
        self._upsert(point, payload, free)
        found = self._point(point, ["owner"], written=True)
        if found is None or found["owner"] != owner:
            return False
        self._until[repository] = now + LEASE_S
        return True

    def _renewed(self, repository: str, owner: str, ended: threading.Event) -> None:
        while not ended.wait(RENEW_S):
            with suppress(ContextEngineError):  # a lost lease shows at the commit, whose revision then does not fit
                self._leased(repository, owner)

    def stage(self, repository: str, name: str, path: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Send a segment ahead of its commit; each piece that arrived stays, and is not sent again."""
        numbers = range(math.ceil(path.stat().st_size / PIECE_BYTES))
        ids = [_id(repository, "piece", name, number) for number in numbers]
        there, now = models.Filter(must=[models.HasIdCondition(has_id=list(ids))]), {"sent_at": time.time()}
        self._session.call(lambda client: client.set_payload(ALIAS, now, points=there, ordering=IN_ORDER))
        found = self._session.call(lambda client: client.retrieve(ALIAS, ids, with_payload=["number"]))
        self._put(repository, name, path, {(point.payload or {})["number"] for point in found}, sent)

    def restore(self, repository: str, name: str, path: Path, sent: OnBytesSent = lambda _: None) -> None:
        """Put every piece of a segment in the place of what is left of it."""
        self._put(repository, name, path, (), sent)

    def commit(
        self, repository: str, revision: int, manifest: bytes, added: Mapping[str, Path], named: Collection[str]
    ) -> int:
        """Pieces, then the manifest in place of `revision`, then what it does not name is gone."""
        for name, path in added.items():
            self.stage(repository, name, path)
        self._swap(repository, revision, base64.b64encode(manifest).decode())
        self._drop(repository, named)
        return revision + 1

    def _drop(self, repository: str, named: Collection[str]) -> None:
        """Delete pieces that the manifest does not name, but for those that who took the lease meanwhile has sent for the next."""
        ours = models.FieldCondition(key="sent_at", range=models.Range(lt=self._until[repository]))
        kept = [models.FieldCondition(key="name", match=models.MatchAny(any=sorted(named)))] if named else []
        self._delete(models.Filter(must=[*_of(repository, "piece"), ours], must_not=kept))

    def _put(self, repository: str, name: str, path: Path, there: Collection[int], sent: OnBytesSent) -> None:
        """The pieces of a segment, but those that are there."""
        size = path.stat().st_size
        for number, content in read_pieces(path):
            if number not in there:
                payload = {
                    "repository": repository,
                    "what": "piece",
                    "name": name,
                    "number": number,
                    "size": size,
                    "bytes": len(content),
                    "sent_at": time.time(),
                    "content": base64.b64encode(content).decode(),
                }
                self._upsert(_id(repository, "piece", name, number), payload)
            sent(len(content))

    def _swap(self, repository: str, revision: int, content: str | None) -> None:
        """Put a manifest in place of a revision, and look whether it is ours that lies there."""
        owner = self._owner[repository]
        payload = {
            "repository": repository,
            "what": "manifest",
            "is_filled": content is not None,
            "content": content,
            "revision": revision + 1,
            "owner": owner,
            "committed_at": time.time(),
        }
        point = _id(repository, "manifest")
        self._upsert(point, payload, models.Filter(must=[_is("revision", revision)]))
        found = self._point(point, ["revision", "owner"], written=True)
        if found != {"revision": revision + 1, "owner": owner}:
            raise busy_error(repository)

    def clear(self, repository: str) -> int:
        """Delete the manifest and the segments; return the bytes freed."""
        freed = self.count_stored_bytes(repository)
        self._swap(repository, self.revision(repository), None)
        self._drop(repository, [])
        return freed

    def _upsert(self, point: str, payload: dict[str, Any], only_if: models.Filter | None = None) -> None:
        points = [models.PointStruct(id=point, vector={}, payload=payload)]
        self._session.call(lambda client: client.upsert(ALIAS, points, update_filter=only_if, ordering=IN_ORDER))

    def _delete(self, chosen: models.Filter) -> None:
        gone = models.FilterSelector(filter=chosen)
        self._session.call(lambda client: client.delete(ALIAS, points_selector=gone, ordering=IN_ORDER))

    def close(self) -> None:
        """Close the connection; it is opened again when needed."""
        self._session.close()


def _lay_out(client: QdrantClient, name: str) -> None:
    """Make the collection where there is none. Raises: StoreUnusable when another version's serves."""
    aliases = {each.alias_name: each.collection_name for each in client.get_aliases().aliases}
    if ALIAS not in aliases:
        with suppress(UnexpectedResponse, ValueError):  # somebody else was quicker
            client.create_collection(COLLECTION, vectors_config={}, on_disk_payload=True)
        for field, kind in FIELDS.items():
            client.create_payload_index(COLLECTION, field, field_schema=kind)
        made = models.CreateAlias(collection_name=COLLECTION, alias_name=ALIAS)
        client.update_collection_aliases([models.CreateAliasOperation(create_alias=made)])
    elif aliases[ALIAS] != COLLECTION:
        raise unusable_error(
            name,
            f"{ALIAS} stands for {aliases[ALIAS]}, and this program knows {COLLECTION}",
            "use the same release of smart-context-engine everywhere, or another cluster",
        )


def _id(repository: str, *what: str | int) -> str:
    """The id of a point follows from what it is, so that a second attempt writes over the first."""
    return str(uuid5(NAMESPACE_URL, "\n".join(map(str, (repository, *what)))))


def _of(repository: str, what: str) -> list[models.FieldCondition]:
    return [_is("repository", repository), _is("what", what)]


def _is(key: str, value: str | int | bool) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _has(point: str) -> models.HasIdCondition:
    return models.HasIdCondition(has_id=[point])
