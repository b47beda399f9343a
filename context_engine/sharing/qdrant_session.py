"""A connection to Qdrant: its address and key, one client, and the translation of its errors.

The users of a session decide which collections and points there are.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from context_engine.errors import ContextEngineError, DiskFull, InvalidArgument, StoreUnusable
from context_engine.sharing.remote_store import unavailable_error

VERSION_MIN = (1, 16)
"""Older servers do not know conditional upserts, and would take any for an unconditional one."""
TIMEOUT_S = 10
"""For each step of a call: eleven megabytes (`PIECE_BYTES` as text) are transferred well within it."""
RETRY_MAX_S = 1.0
"""A call that failed sooner used a connection that had died while idle. A call that took longer is not repeated."""
KEY_VARIABLE = "QDRANT_API_KEY"

_ADDRESS = re.compile(r"(qdrant|http|https)://(?:([^@/]*)@)?([^/@]+)/?")
_LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
Answer = TypeVar("Answer")


class QdrantSession:
    """One client, opened when it is first needed. Thread-safe."""

    def __init__(
        self,
        address: str,
        client: Callable[[], QdrantClient] | None = None,
        *,
        prepare: Callable[[QdrantClient, str], None] = lambda *_: None,
    ) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument.

        `client` opens the connection; by default one over HTTP to the address. `prepare` creates what must exist, once
        per connection.
        """
        kind, key, host = _parse_address(address)
        self.name = f"{kind}://{host}"
        scheme = "http" if kind == "qdrant" else kind
        if not key and _is_private(kind, host):
            key = os.environ.get(KEY_VARIABLE, "")
        self._open = client or (lambda: _connect_over_http(f"{scheme}://{host}", key))
        self._prepare = prepare
        self._lock = threading.RLock()
        self._client: QdrantClient | None = None

    def call(self, call: Callable[[QdrantClient], Answer]) -> Answer:
        """Return the answer to a call.

        The call is repeated when the connection had died, or when its collection was gone, so it must be idempotent.
        Raises: StoreUnavailable, StoreUnusable, DiskFull.
        """
        for is_last in (False, True):
            start_s = time.monotonic()
            try:
                return call(self._connect())
            except UnexpectedResponse as error:
                if is_last or error.status_code != 404:
                    text = _error_text(error.content)
                    raise response_error(self.name, error.status_code, error.reason_phrase, text) from error
                self.close()  # our collection was dropped: the next connection creates it again
            except (ApiException, QdrantException, OSError) as error:
                if is_last or time.monotonic() - start_s > RETRY_MAX_S:
                    raise unavailable_error(self.name, _reason(error)) from error
        raise AssertionError  # the loop returns or raises

    def scroll(self, alias: str, chosen: models.Filter, fields: list[str], *, limit: int) -> Iterator[models.Record]:
        """Yield all points that match a filter, `limit` at a time."""
        offset: Any = None
        while True:
            points, offset = self.call(
                lambda client, start=offset: client.scroll(
                    alias, scroll_filter=chosen, limit=limit, offset=start, with_payload=fields
                )
            )
            yield from points
            if offset is None:
                return

    def _connect(self) -> QdrantClient:
        with self._lock:
            if self._client is None:
                client = self._open()
                try:
                    _check_version(client, self.name)
                    self._prepare(client, self.name)
                except BaseException:
                    client.close()
                    raise
                self._client = client
            return self._client

    def close(self) -> None:
        """Close the connection; it is opened again when needed."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None


def ensure_collection(
    client: QdrantClient,
    name: str,
    alias: str,
    collection: str,
    *,
    create: Callable[[], None],
    fields: Mapping[str, Any],
) -> None:
    """Create a collection with its indexed fields and its alias, unless the alias exists.

    Raises: StoreUnusable when the alias belongs to the collection of another release.
    """
    in_use = {known.alias_name: known.collection_name for known in client.get_aliases().aliases}.get(alias)
    if in_use is None:
        with suppress(UnexpectedResponse, ValueError):  # another process was quicker
            create()
        for field, schema in fields.items():
            client.create_payload_index(collection, field, field_schema=schema)
        entry = models.CreateAlias(collection_name=collection, alias_name=alias)
        client.update_collection_aliases([models.CreateAliasOperation(create_alias=entry)])
    elif in_use != collection:
        raise unusable_error(
            name,
            f"{alias} is the alias of {in_use}, and this program knows {collection}",
            "use the same release of smart-context-engine everywhere, or another cluster",
        )


def match_value(key: str, value: str | int | bool) -> models.FieldCondition:
    """Return the condition that a field has a value."""
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def unusable_error(name: str, why: str, suggestion: str) -> StoreUnusable:
    """Return the error for a server that answers, but cannot serve as it is."""
    return StoreUnusable(f"the shared store {name} cannot serve: {why}", suggestion=suggestion)


def response_error(name: str, status: int | None, reason: str, text: str) -> ContextEngineError:
    """Return our error for an answer that is not 200; `text` is the server's explanation.

    >>> response_error("https://host", 403, "Forbidden", "").code
    'STORE_UNUSABLE'
    >>> response_error("https://host", 503, "Service Unavailable", "").code
    'STORE_UNAVAILABLE'
    """
    if status == 401:
        return unusable_error(
            name, "it refuses the key", f"put the key into {KEY_VARIABLE}; it is sent over https:// alone"
        )
    if status == 403:
        return unusable_error(name, "its key may not do this", "take a key that may write, or do not share from here")
    if status == 413 or "larger than allowed" in text:
        return unusable_error(
            name,
            "it takes no messages of our size",
            "let it and the proxy before it take 16 MB: service.max_request_size_mb, client_max_body_size",
        )
    if "no space left" in text.lower():
        return DiskFull(
            f"the shared store {name} has no space left",
            suggestion="free space on its machine; what was committed before is intact",
        )
    if status in (400, 409, 422):
        return unusable_error(
            name, text or reason, "see what Qdrant says; collections whose name begins with ctx_ must be ours alone"
        )
    return unavailable_error(name, f"{status} {reason} {text}")


def _error_text(content: bytes) -> str:
    """Return the sentence in an answer of Qdrant; empty for an answer from a proxy."""
    found = re.search(rb'"error"\s*:\s*"((?:[^"\\]|\\.)*)"', content)
    if found:
        return found[1].decode(errors="replace").replace('\\"', '"')[:300]
    return ""


def _reason(error: Exception) -> object:
    if isinstance(error, ResponseHandlingException):
        cause = error.source
    else:
        cause = error
    if isinstance(cause, ValueError):
        return "its answer is not Qdrant's"
    return cause


def _connect_over_http(url: str, key: str) -> QdrantClient:
    headers = {"api-key": key} if key else {}  # not as `api_key`, which warns of a tunnel that begins on this machine
    return QdrantClient(url=url, metadata=headers, timeout=TIMEOUT_S, check_compatibility=False)


def _parse_address(address: str) -> tuple[str, str, str]:
    """Return (kind, key, host) of an address. Raises: InvalidArgument."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidArgument(
            "the address of the shared store is not an address of Qdrant",
            suggestion="write CTX_STORE_URL like https://KEY@host:6333 or qdrant://host:6333",
        )
    kind, key, host = found.groups()
    if key and not _is_private(kind, host):
        raise InvalidArgument(
            "the key of the shared store would be sent in the clear", suggestion="write https:// before it"
        )
    return kind, key or "", host


def _is_private(kind: str, host: str) -> bool:
    """Whether a key may be sent: encrypted, or to this machine only, where a tunnel may begin.

    >>> _is_private("https", "db:6333"), _is_private("http", "localhost:6333"), _is_private("qdrant", "db:6333")
    (True, True, False)
    """
    return kind == "https" or _LOCAL_HOST.fullmatch(host) is not None


def _check_version(client: QdrantClient, name: str) -> None:
    version = client.info().version
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < VERSION_MIN:
        needed = ".".join(map(str, VERSION_MIN))
        raise unusable_error(name, f"it is Qdrant {version}, and {needed} is needed", f"update it to {needed} or newer")
