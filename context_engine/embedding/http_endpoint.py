"""An HTTP endpoint with retries: JSON in, JSON out, never longer than allowed.

Only the configured address is ever contacted: redirects are not followed, and the system's proxy is used only for other
machines. `http_retry` decides what an answer means; clock and randomness are passed in.
"""

from __future__ import annotations

import ipaddress
import json
import queue
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from context_engine.embedding.embedder import raise_if_cancelled
from context_engine.embedding.http_retry import (
    EndpointSpec,
    HttpAnswer,
    RetryPolicy,
    compute_wait_s,
    extract_message,
    response_error,
    sanitize_text,
)
from context_engine.errors import EmbedderUnusable
from context_engine.text import OUTPUT_BYTES_MAX, ParseError, read_json

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 5.0
"""A running machine accepts within well under a second, even on the other side of the world."""
ANSWER_BYTES_MAX = 64_000_000
"""32 vectors of 4,096 numbers in JSON are 3 MB; anything this much larger is not an answer to our question."""
LOOK_S = 0.02
"""Interval in which a wait checks for cancellation, sooner than a person notices."""


def build_url(address: str, path: str, provider: str) -> str:
    """Return the URL to ask.

    An address without a path gets all of `path`, one with a path what follows its first step, if it lacks it.

    >>> build_url("http://127.0.0.1:1234", "/v1/embeddings", "x")
    'http://127.0.0.1:1234/v1/embeddings'
    >>> build_url("https://a.io/api/v1/", "/v1/embeddings", "x")
    'https://a.io/api/v1/embeddings'

    Raises: EmbedderUnusable when it is not a plain http address.
    """
    try:
        parts = urlsplit(address.strip())
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or "@" in parts.netloc or parts.query or parts.fragment:
        shown = "what is configured"
        if "@" not in address:
            shown = sanitize_text(address)
        raise EmbedderUnusable(
            f"{provider}: {shown or 'nothing'} is not the address of an endpoint",
            suggestion=f"Configure it like http://127.0.0.1:1234{path}; a key goes into the environment.",
        )
    root, step = path[: path.index("/", 1)], path[path.index("/", 1) :]
    stated = parts.path.rstrip("/") or root
    return f"{parts.scheme}://{parts.netloc}{stated if stated.endswith(step) else stated + step}"


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine: a loopback address, or `localhost`, which is one by its standard.

    >>> is_loopback("http://[::1]:80/x"), is_loopback("http://localhost"), is_loopback("http://127.0.0.1.evil.io")
    (True, True, False)
    """
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def pause(seconds: float, cancel: threading.Event | None) -> None:
    """Wait, unless canceled. Raises: Cancelled."""
    (cancel or threading.Event()).wait(seconds)
    raise_if_cancelled(cancel)


class Endpoint:
    """One address and its connections. Thread-safe; nothing is opened before the first question."""

    def __init__(
        self,
        place: EndpointSpec,
        key: str = "",
        *,
        chance: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
        pause: Callable[[float, threading.Event | None], None] = pause,
    ) -> None:
        """Check the key. Raises: EmbedderUnusable if it is not valid."""
        if not key.isascii() or not key.isprintable():
            raise EmbedderUnusable(
                f"{place.provider}: the key holds characters that no key has",
                suggestion="Set the environment variable again, without quotes or line breaks.",
            )
        self.info = place
        self._key = key.strip()
        self._chance, self._now, self._pause = chance, now, pause
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None
        self._closed = False

    def post(self, question: Mapping[str, Any], patience: RetryPolicy, cancel: threading.Event | None = None) -> Any:
        """Return the endpoint's answer to a JSON question, parsed.

        Raises: EmbedderFailed (asking later may help), EmbedderUnusable (a person must act), Cancelled; ValueError
        after `close()`.
        """
        content = json.dumps(question).encode()
        tries, wait = 0, 0.0
        while True:
            raise_if_cancelled(cancel)
            answer = self._exchange(content, patience.answer_s, cancel)
            tries += 1
            wait = compute_wait_s(answer, tries, patience, chance=self._chance(), now=self._now())
            if wait is None:
                return self._parse_answer(answer)
            self._pause(wait, cancel)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._closed = True
            if self._client is not None:
                self._client.close()

    def open_client(self) -> httpx2.Client:
        """Return the one client, made when first needed, because the library is slow to import.

        Raises: ValueError after close.
        """
        import httpx2

        with self._lock:
            if self._closed:
                raise ValueError("the embedder is closed")
            if self._client is None:
                self._client = httpx2.Client(trust_env=not is_loopback(self.info.url), follow_redirects=False)
            return self._client

    def _exchange(self, content: bytes, answer_s: float, cancel: threading.Event | None) -> HttpAnswer:
        """Return one answer, after `answer_s` at the latest, however slowly it arrives.

        Another thread does the reading, so that this one can leave at once when it is canceled.
        """
        client = self.open_client()
        answers: queue.SimpleQueue[HttpAnswer] = queue.SimpleQueue()
        left = threading.Event()

        def fetch() -> None:
            answer = HttpAnswer(failure="broken")  # stays so when our own code fails; the thread reports that by itself
            try:
                answer = self._fetch(client, content, answer_s, left)
            finally:
                answers.put(answer)

        threading.Thread(target=fetch, name="ctx-embedding-request", daemon=True).start()
        deadline = time.monotonic() + answer_s
        try:
            while (rest := deadline - time.monotonic()) > 0:
                raise_if_cancelled(cancel)
                try:
                    return answers.get(timeout=min(rest, LOOK_S) if cancel else rest)
                except queue.Empty:
                    continue
            return HttpAnswer(failure="timeout")
        finally:
            left.set()

    def _fetch(self, client: httpx2.Client, content: bytes, answer_s: float, left: threading.Event) -> HttpAnswer:
        """Return the answer, or why there is none. Reading ends if the caller has left, or the answer is much too long.

        Reading ends if the caller has left, or the answer is much too long.
        """
        import httpx2

        headers = {"content-type": "application/json", "accept": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        timeout = httpx2.Timeout(answer_s, connect=min(CONNECT_S, answer_s))
        body = bytearray()
        try:
            with client.stream("POST", self.info.url, content=content, headers=headers, timeout=timeout) as response:
                for part in response.iter_bytes():
                    body += part
                    if left.is_set() or len(body) > ANSWER_BYTES_MAX:
                        return HttpAnswer(failure="huge")
                return HttpAnswer(response.status_code, bytes(body), dict(response.headers))
        except httpx2.TimeoutException:
            return HttpAnswer(failure="timeout")
        except (httpx2.ConnectError, httpx2.InvalidURL) as error:
            return HttpAnswer(failure="refused", body=str(error).encode())
        except httpx2.HTTPError as error:
            return HttpAnswer(failure="broken", body=str(error).encode())

    def _parse_answer(self, answer: HttpAnswer) -> Any:
        """Return the parsed body of an accepted answer, without the key, which some endpoints repeat."""
        if self._key:
            answer = replace(answer, body=answer.body.replace(self._key.encode(), b"***"))
        if error := response_error(answer, self.info, now=self._now()):
            raise error
        try:
            return read_json(answer.body, bytes_max=OUTPUT_BYTES_MAX, has_constants=True)
        except ParseError:
            message = extract_message(answer)
            raise EmbedderUnusable(
                f"{self.info.provider}: {self.info.url} answers with something that is not JSON: {message}",
                suggestion="Check the address, also its path.",
                details={"address": self.info.url, "model": self.info.model, "status": answer.status},
            ) from None
