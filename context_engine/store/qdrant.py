"""A depot on Qdrant: one collection for all repositories, told apart by a tenant index. Only this file speaks to Qdrant.

    ctx_depot -> ctx_depot_v1     the alias, and the collection it stands for
    manifest                      one point a repository: its revision, and what counts
    piece                         a part of a segment; its id follows from repository, name and number
    writer                        one point a repository: who writes, and until when if nothing more is heard

Qdrant knows no transaction over several points, so the order is what keeps a state whole: pieces first, then the manifest, in
place of the revision it was made from or not at all (a conditional upsert), then what it no longer names is deleted. A kill in
between leaves pieces that nobody names, which the next commit deletes. What is found, and how it ranks, is no business of
Qdrant's (docs/decisions/0038).
"""

from __future__ import annotations

import base64
import math
import re
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from context_engine.errors import InvalidArgument, StoreUnusable
from context_engine.store.depot import PIECE_BYTES, Held, busy, unavailable

ALIAS = "ctx_depot"
COLLECTION = "ctx_depot_v1"
"""Raise the number when payloads change; the alias then says which one serves."""
SERVER_LEAST = (1, 16)
"""Older servers do not know conditional upserts, and would take any for an unconditional one."""
TIMEOUT_S = 10
LEASE_S = 60.0
"""A writer that was killed holds up the next one so long. Clocks of machines differ by less."""
RENEW_S = 15.0
LOCK_POLL_S = 0.1
PAGE_POINTS = 1_000

_ADDRESS = re.compile(r"(qdrant|http|https)://(?:([^@/]*)@)?([^/@]+)/?")


class QdrantDepot:
    """The depot behind one alias. Thread-safe. Nothing is connected until it is asked.

    `client` opens the connection; by default one over HTTP to the address.
    """

    def __init__(self, address: str, client: Callable[[], QdrantClient] | None = None) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument."""
        kind, key, host = _taken_apart(address)
        self.name = f"{kind}://{host}"
        scheme = "http" if kind == "qdrant" else kind
        self._open = client or (lambda: _over_http(f"{scheme}://{host}", key))
        self._lock = threading.RLock()
        self._client: QdrantClient | None = None
        self._owner: dict[str, str] = {}

    # -- reading --

    def revision(self, repository: str) -> int:
        """Rises with every change, clearing included."""
        found = self._point(_id(repository, "manifest"), ["revision"])
        return found["revision"] if found else 0

    def held(self, repository: str) -> Held:
        """The manifest and its revision."""
        found = self._point(_id(repository, "manifest"), ["revision", "content"])
        if found is None:
            return Held(0, None)
        content = found.get("content")
        return Held(found["revision"], None if content is None else base64.b64decode(content))

    def fetch(self, repository: str, name: str, target: Path) -> None:
        """Write a segment to a file. Raises: FileNotFoundError when it is not there, or no longer."""
        size, number = 1, 0
        with open(target, "wb") as out:
            while out.tell() < size:
                found = self._point(_id(repository, "piece", name, number), ["size", "content"])
                if found is None:
                    raise FileNotFoundError(name)
                size = found["size"]
                out.write(base64.b64decode(found["content"]))
                number += 1

    def sizes(self, repository: str) -> dict[str, int]:
        """Bytes of each segment that is there as a whole."""
        there: dict[str, int] = {}
        whole: dict[str, int] = {}
        for piece in self._all(models.Filter(must=_of(repository, "piece")), ["name", "size", "bytes"]):
            there[piece["name"]] = there.get(piece["name"], 0) + piece["bytes"]
            whole[piece["name"]] = piece["size"]
        return {name: size for name, size in there.items() if size == whole[name]}

    def repositories(self) -> list[str]:
        """Those that have something on it, sorted."""
        filled = models.Filter(must=[_is("what", "manifest"), _is("is_filled", True)])
        return sorted(found["repository"] for found in self._all(filled, ["repository"]))

    def _point(self, point: str, fields: list[str]) -> dict[str, Any] | None:
        with self._asked() as client:
            found = client.retrieve(ALIAS, [point], with_payload=fields)
        return dict(found[0].payload or {}) if found else None

    def _all(self, wanted: models.Filter, fields: list[str]) -> Iterator[dict[str, Any]]:
        offset = None
        while True:
            with self._asked() as client:
                points, offset = client.scroll(
                    ALIAS, scroll_filter=wanted, limit=PAGE_POINTS, offset=offset, with_payload=fields
                )
            yield from (dict(point.payload or {}) for point in points)
            if offset is None:
                return

    # -- writing --

    @contextmanager
    def writing(self, repository: str, wait_s: float) -> Generator[None]:
        """The right to write, as long as this process is heard of. Raises: StorageBusy."""
        owner = token_hex(8)
        until = time.monotonic() + wait_s
        while not self._leased(repository, owner):
            if time.monotonic() >= until:
                raise busy(repository)
            time.sleep(LOCK_POLL_S)
        ended = threading.Event()
        renewing = threading.Thread(target=self._renewed, args=(repository, owner, ended), daemon=True)
        renewing.start()
        self._owner[repository] = owner
        try:
            yield
        finally:
            del self._owner[repository]
            ended.set()
            renewing.join()
            mine = models.Filter(must=[_has(_id(repository, "writer")), _is("owner", owner)])
            with suppress(Exception), self._asked() as client:  # it ends by itself, only later
                client.delete(ALIAS, points_selector=models.FilterSelector(filter=mine))

    def _leased(self, repository: str, owner: str) -> bool:
        """Take the lease, or hold it for longer, unless somebody else has it."""
        now = time.time()
        point = _id(repository, "writer")
        free = models.Filter(
            should=[_is("owner", owner), models.FieldCondition(key="until", range=models.Range(lt=now))]
        )
        payload = {"repository": repository, "what": "writer", "owner": owner, "until": now + LEASE_S}
        self._upsert(point, payload, free)
        found = self._point(point, ["owner"])
        return found is not None and found["owner"] == owner

    def _renewed(self, repository: str, owner: str, ended: threading.Event) -> None:
        while not ended.wait(RENEW_S):
            with suppress(Exception):  # a lease that is lost shows at the commit, whose revision then does not fit
                self._leased(repository, owner)

    def commit(
        self, repository: str, revision: int, manifest: bytes, added: Mapping[str, Path], dropped: Collection[str]
    ) -> int:
        """Pieces, then the manifest in place of `revision`, then what it no longer names is gone."""
        owner = self._owner[repository]
        for name, path in added.items():
            self._put(repository, name, path, revision + 1)
        self._swap(repository, revision, base64.b64encode(manifest).decode())
        self._drop(repository, list(dropped), revision + 1, owner)
        return revision + 1

    def _put(self, repository: str, name: str, path: Path, revision: int) -> None:
        size, owner = path.stat().st_size, self._owner[repository]
        with open(path, "rb") as source:
            for number in range(max(1, math.ceil(size / PIECE_BYTES))):
                content = source.read(PIECE_BYTES)
                payload = {
                    "repository": repository,
                    "what": "piece",
                    "name": name,
                    "number": number,
                    "size": size,
                    "bytes": len(content),
                    "revision": revision,
                    "owner": owner,
                    "content": base64.b64encode(content).decode(),
                }
                self._upsert(_id(repository, "piece", name, number), payload)

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
        }
        point = _id(repository, "manifest")
        self._upsert(point, payload, models.Filter(must=[_is("revision", revision)]))
        found = self._point(point, ["revision", "owner"])
        if found != {"revision": revision + 1, "owner": owner}:
            raise busy(repository)

    def _drop(self, repository: str, names: Sequence[str], revision: int, owner: str) -> None:
        """Delete segments by name, and pieces that somebody was killed over before they counted."""
        orphans = models.Filter(
            must=[*_of(repository, "piece"), _is("revision", revision)], must_not=[_is("owner", owner)]
        )
        unnamed = [models.FieldCondition(key="name", match=models.MatchAny(any=list(names)))] if names else []
        with self._asked() as client:
            client.delete(ALIAS, points_selector=models.FilterSelector(filter=orphans))
            if unnamed:
                gone = models.Filter(must=[*_of(repository, "piece"), *unnamed])
                client.delete(ALIAS, points_selector=models.FilterSelector(filter=gone))

    def clear(self, repository: str) -> int:
        """Drop manifest and segments; bytes freed."""
        freed = sum(self.sizes(repository).values())
        self._swap(repository, self.revision(repository), None)
        with self._asked() as client:
            client.delete(
                ALIAS, points_selector=models.FilterSelector(filter=models.Filter(must=_of(repository, "piece")))
            )
        return freed

    def _upsert(self, point: str, payload: dict[str, Any], only_if: models.Filter | None = None) -> None:
        with self._asked() as client:
            client.upsert(ALIAS, [models.PointStruct(id=point, vector={}, payload=payload)], update_filter=only_if)

    # -- the connection --

    @contextmanager
    def _asked(self) -> Generator[QdrantClient]:
        """The client, its words for trouble turned into ours."""
        try:
            yield self._connected()
        except UnexpectedResponse as error:
            if error.status_code in (401, 403):
                raise _unusable(
                    self.name, "it refuses the key", "put the key into CTX_STORE_URL, before the @"
                ) from error
            raise unavailable(self.name, f"{error.status_code} {error.reason_phrase}") from error
        except (ResponseHandlingException, ApiException, OSError) as error:
            raise unavailable(self.name, error) from error

    def _connected(self) -> QdrantClient:
        with self._lock:
            if self._client is None:
                client = self._open()
                _check_version(client, self.name)
                _lay_out(client, self.name)
                self._client = client
            return self._client

    def close(self) -> None:
        """Let go of the connection; it can be used again afterwards."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None


def _over_http(url: str, key: str) -> QdrantClient:
    return QdrantClient(url=url, api_key=key or None, timeout=TIMEOUT_S, check_compatibility=False)


def _taken_apart(address: str) -> tuple[str, str, str]:
    """(kind, key, host) of an address."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidArgument(
            "the address of the shared store is none of Qdrant",
            suggestion="write CTX_STORE_URL like https://KEY@host:6333 or qdrant://host:6333",
        )
    if found[2] and found[1] != "https":
        raise InvalidArgument(
            "the key of the shared store would be sent in the clear", suggestion="write https:// before it"
        )
    return found[1], found[2] or "", found[3]


def _check_version(client: QdrantClient, name: str) -> None:
    version = client.info().version
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < SERVER_LEAST:
        least = ".".join(map(str, SERVER_LEAST))
        raise _unusable(name, f"it is Qdrant {version}, and {least} is needed", f"update it to {least} or newer")


def _lay_out(client: QdrantClient, name: str) -> None:
    """Make the collection where there is none. Raises: StoreUnusable when another version's serves."""
    aliases = {each.alias_name: each.collection_name for each in client.get_aliases().aliases}
    if ALIAS not in aliases:
        with suppress(UnexpectedResponse, ValueError):  # somebody else was quicker
            client.create_collection(COLLECTION, vectors_config={}, on_disk_payload=True)
        for field, kind in (
            ("repository", models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)),
            ("what", models.PayloadSchemaType.KEYWORD),
            ("name", models.PayloadSchemaType.KEYWORD),
        ):
            client.create_payload_index(COLLECTION, field, field_schema=kind)
        made = models.CreateAlias(collection_name=COLLECTION, alias_name=ALIAS)
        client.update_collection_aliases([models.CreateAliasOperation(create_alias=made)])
    elif aliases[ALIAS] != COLLECTION:
        raise _unusable(
            name,
            f"{ALIAS} stands for {aliases[ALIAS]}, and this program knows {COLLECTION}",
            "use the same release of smart-context-engine everywhere, or another cluster",
        )


def _unusable(name: str, why: str, suggestion: str) -> StoreUnusable:
    return StoreUnusable(f"the shared store {name} cannot serve: {why}", suggestion=suggestion)


def _id(repository: str, *what: str | int) -> str:
    """The id of a point follows from what it is, so that a second attempt writes over the first."""
    return str(uuid5(NAMESPACE_URL, "\n".join(map(str, (repository, *what)))))


def _of(repository: str, what: str) -> list[models.FieldCondition]:
    return [_is("repository", repository), _is("what", what)]


def _is(key: str, value: str | int | bool) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def _has(point: str) -> models.HasIdCondition:
    return models.HasIdCondition(has_id=[point])
