"""A connection to Qdrant: its address and key, one client, and its words for trouble turned into ours.

What is kept there and how it is laid out says who holds a session.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from qdrant_client import QdrantClient
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from context_engine.errors import ContextEngineError, DiskFull, InvalidArgument, StoreUnusable
from context_engine.sharing.remote_store import unavailable_error

SERVER_LEAST = (1, 16)
"""Older servers do not know conditional upserts, and would take any for an unconditional one."""
TIMEOUT_S = 10
"""For each step of a call: eleven megabytes (`PIECE_BYTES` as text) are carried out well within it."""
AGAIN_S = 1.0
"""A call that broke off sooner met a connection that had died while it rested; what took longer is not sent twice."""
KEY_VARIABLE = "QDRANT_API_KEY"

_ADDRESS = re.compile(r"(qdrant|http|https)://(?:([^@/]*)@)?([^/@]+)/?")
_HERE = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
Answer = TypeVar("Answer")


class QdrantSession:
    """One client, opened when it is first needed. Thread-safe.

    `client` opens it; by default one over HTTP to the address. `lay_out` makes what must be there, once a connection.
    """

    def __init__(
        self,
        address: str,
        client: Callable[[], QdrantClient] | None = None,
        *,
        lay_out: Callable[[QdrantClient, str], None],
    ) -> None:
        """`address`: `https://KEY@host:6333`, or `qdrant://host:6333` without TLS. Raises: InvalidArgument."""
        kind, key, host = _taken_apart(address)
        self.name = f"{kind}://{host}"
        scheme = "http" if kind == "qdrant" else kind
        if not key and _is_private(kind, host):
            key = os.environ.get(KEY_VARIABLE, "")
        self._open = client or (lambda: _over_http(f"{scheme}://{host}", key))
        self._lay_out = lay_out
        self._lock = threading.RLock()
        self._client: QdrantClient | None = None

    def call(self, call: Callable[[QdrantClient], Answer]) -> Answer:
        """What a call answers.

        It is sent again when the connection had died, or what it is about had gone: calls must bear that.

        Raises: StoreUnavailable, StoreUnusable, DiskFull.
        """
        for is_last in (False, True):
            began = time.monotonic()
            try:
                return call(self._connected())
            except UnexpectedResponse as error:
                if is_last or error.status_code != 404:
                    raise response_error(
                        self.name, error.status_code, error.reason_phrase, _text(error.content)
                    ) from error
                self.close()  # somebody dropped what we made: who connects anew lays it out
            except (ApiException, QdrantException, OSError) as error:
                if is_last or time.monotonic() - began > AGAIN_S:
                    raise unavailable_error(self.name, _why(error)) from error
        raise AssertionError  # the loop returns or raises

    def _connected(self) -> QdrantClient:
        with self._lock:
            if self._client is None:
                client = self._open()
                try:
                    _check_version(client, self.name)
                    self._lay_out(client, self.name)
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


def unusable_error(name: str, why: str, suggestion: str) -> StoreUnusable:
    """It answers, and cannot serve as it is."""
    return StoreUnusable(f"the shared store {name} cannot serve: {why}", suggestion=suggestion)


def response_error(name: str, status: int | None, reason: str, text: str) -> ContextEngineError:
    """What an answer that is not 200 means for us; `text` is what the server says about it.

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
            f"the shared store {name} has no room left",
            suggestion="free room on its machine; what was committed before is intact",
        )
    if status in (400, 409, 422):
        return unusable_error(
            name, text or reason, "see what Qdrant says; collections whose name begins with ctx_ must be ours alone"
        )
    return unavailable_error(name, f"{status} {reason} {text}")


def _text(content: bytes) -> str:
    """The sentence in an answer, as far as it is one of Qdrant's and not a page of some proxy."""
    found = re.search(rb'"error"\s*:\s*"((?:[^"\\]|\\.)*)"', content)
    return found[1].decode(errors="replace").replace('\\"', '"')[:300] if found else ""


def _why(error: Exception) -> object:
    cause = error.source if isinstance(error, ResponseHandlingException) else error
    return "what it says is not Qdrant's" if isinstance(cause, ValueError) else cause


def _over_http(url: str, key: str) -> QdrantClient:
    headers = {"api-key": key} if key else {}  # not as `api_key`: that warns of a tunnel which begins on this machine
    return QdrantClient(url=url, metadata=headers, timeout=TIMEOUT_S, check_compatibility=False)


def _taken_apart(address: str) -> tuple[str, str, str]:
    """(kind, key, host) of an address."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidArgument(
            "the address of the shared store is none of Qdrant",
            suggestion="write CTX_STORE_URL like https://KEY@host:6333 or qdrant://host:6333",
        )
    if found[2] and not _is_private(found[1], found[3]):
        raise InvalidArgument(
            "the key of the shared store would be sent in the clear", suggestion="write https:// before it"
        )
    return found[1], found[2] or "", found[3]


def _is_private(kind: str, host: str) -> bool:
    """Whether a key may travel: encrypted, or not beyond this machine, where a tunnel may begin.

    >>> [_is_private(*each) for each in (("https", "db:6333"), ("http", "localhost:6333"), ("qdrant", "db:6333"))]
    [True, True, False]
    """
    return kind == "https" or _HERE.fullmatch(host) is not None


def _check_version(client: QdrantClient, name: str) -> None:
    version = client.info().version
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < SERVER_LEAST:
        least = ".".join(map(str, SERVER_LEAST))
        raise unusable_error(name, f"it is Qdrant {version}, and {least} is needed", f"update it to {least} or newer")
