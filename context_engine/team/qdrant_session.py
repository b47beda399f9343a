"""A connection to Qdrant by its REST interface: address and key, one request at a time, its errors in our words.

Qdrant's own client takes 50 MB of memory and a second or more to import.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import msgspec

from context_engine.errors import ContextEngineError, DiskFull, InvalidArgument, StoreUnusable
from context_engine.team.remote_store import unavailable_error

VERSION_MIN = (1, 16)
"""Older servers do not know conditional upserts, and would take any for an unconditional one."""
TIMEOUT_S = 10
"""For each step of a request: four megabytes are transferred well within it."""
RETRY_MAX_S = 1.0
"""A request that failed sooner used a connection that had died while idle. One that took longer is not repeated."""
KEY_VARIABLE = "QDRANT_API_KEY"
PAGE_POINTS = 1_000

_ADDRESS = re.compile(r"(qdrant|http|https)://(?:([^@/]*)@)?([^/@]+)/?")
_LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
_PORT = 6333


class QdrantSession:
    """Requests to one server. Thread-safe; connections are opened when they are needed and used again."""

    def __init__(self, address: str) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument."""
        kind, key, host = _parse_address(address)
        self.name = f"{kind}://{host}"
        port = "" if re.search(r":\d+$", host) else f":{_PORT}"
        self._base = f"{'https' if kind == 'https' else 'http'}://{host}{port}"
        if not key and _is_private(kind, host):
            key = os.environ.get(KEY_VARIABLE, "")
        self._headers = {"content-type": "application/json"} | ({"api-key": key} if key else {})
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None
        self._is_checked = False

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the result of a request, None where its collection does not exist.

        It must be idempotent: it is repeated when the connection had died. Raises: StoreUnavailable, StoreUnusable,
        DiskFull.
        """
        if not self._is_checked:
            _check_version(self._exchange("GET", "/", None, "version"), self.name)
            self._is_checked = True
        return self._exchange(method, path, body)

    def scroll(self, collection: str, must: list[dict[str, Any]], fields: list[str]) -> Iterator[dict[str, Any]]:
        """Yield all points that meet these conditions, with their id and some fields of their payload."""
        offset: Any = None
        while True:
            body = {"filter": {"must": must}, "limit": PAGE_POINTS, "with_payload": fields}
            page = self.request(
                "POST",
                f"/collections/{collection}/points/scroll",
                body if offset is None else body | {"offset": offset},
            )
            if page is None:
                return
            for point in page["points"]:
                yield {"id": point["id"], **(point.get("payload") or {})}
            offset = page.get("next_page_offset")
            if offset is None:
                return

    def close(self) -> None:
        """Close the connections; they are opened again when needed."""
        with self._lock:
            client, self._client = self._client, None
            self._is_checked = False
        if client is not None:
            client.close()

    def _exchange(self, method: str, path: str, body: Mapping[str, Any] | None, part: str = "result") -> Any:
        """Return one part of an answer."""
        content = None if body is None else msgspec.json.encode(body)
        for is_last in (False, True):
            start_s = time.monotonic()
            try:
                answer = self._open().request(method, path, content=content)
                if answer.status_code == 200:
                    return msgspec.json.decode(answer.content)[part]
            except (msgspec.DecodeError, LookupError, TypeError) as error:
                raise unavailable_error(self.name, "its answer is not Qdrant's") from error
            except (OSError, httpx2.HTTPError) as error:
                if is_last or time.monotonic() - start_s > RETRY_MAX_S:
                    raise unavailable_error(self.name, str(error) or type(error).__name__) from error
            else:
                text = _error_text(answer.content)
                if answer.status_code == 404 and "doesn't exist" in text:
                    return None
                raise response_error(self.name, answer.status_code, answer.reason_phrase, text)
        raise AssertionError  # the loop returns or raises

    def _open(self) -> httpx2.Client:
        with self._lock:
            if self._client is None:
                self._client = httpx2.Client(
                    base_url=self._base, headers=self._headers, timeout=TIMEOUT_S, trust_env=False
                )
            return self._client


def match_value(key: str, value: str | int) -> dict[str, Any]:
    """Return the condition that a field has a value."""
    return {"key": key, "match": {"value": value}}


def match_any(key: str, values: list[str] | list[int]) -> dict[str, Any]:
    """Return the condition that a field has one of some values."""
    return {"key": key, "match": {"any": values}}


def unusable_error(name: str, why: str, suggestion: str) -> StoreUnusable:
    """Return the error for a server that answers, but cannot serve as it is."""
    return StoreUnusable(f"the shared store {name} cannot serve: {why}", suggestion=suggestion)


def response_error(name: str, status: int, reason: str, text: str) -> ContextEngineError:
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


def _check_version(version: str, name: str) -> None:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < VERSION_MIN:
        needed = ".".join(map(str, VERSION_MIN))
        raise unusable_error(name, f"it is Qdrant {version}, and {needed} is needed", f"update it to {needed} or newer")
