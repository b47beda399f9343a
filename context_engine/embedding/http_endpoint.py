"""JSON questions to an HTTP address of the user's choice, asked again while that may help.

Only the configured address is ever contacted: redirects are not followed, and the system's proxy is used only for other
machines. An answer is neither waited for nor read without end, and the key is masked in whatever is repeated of it.
"""

from __future__ import annotations

import ipaddress
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from context_engine import secrets
from context_engine.embedding.embedder import raise_if_cancelled
from context_engine.errors import EmbedderFailed, EmbedderUnusable
from context_engine.text import OUTPUT_BYTES_MAX, ParseError, read_json

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 5.0
"""A running machine accepts within well under a second, even on the other side of the world."""
FIRST_WAIT_S = 1.0
"""Wait before the second try if the endpoint does not state one; doubled each time."""
ANSWER_BYTES_MAX = 64_000_000
"""32 vectors of 4,096 numbers in JSON are 3 MB; anything this much larger is not an answer to our question."""
LOOK_S = 0.02
"""Interval in which a wait checks for cancellation, sooner than a person notices."""
MESSAGE_CHARS_MAX = 300
"""Characters of the endpoint's own words in an error."""
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
"""Statuses that the same request may not get again."""
SPENT = b"insufficient_quota"
"""In a 429 that no waiting changes: the account is empty."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Time limit of one answer, number of tries, and the longest wait between them."""

    answer_s: float
    tries: int
    wait_max_s: float


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """The provider, URL and model, and what the user can do: `start` if nothing answers, `get_model` if it is missing.

    `later` describes what happens meanwhile, if the user need not do anything.
    """

    provider: str
    url: str
    model: str
    start: str
    get_model: str
    later: str = "Nothing needs to be done: it is asked again later, and search goes on by words."


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, with header names in lower case. Status 0 means none; `failure` is one word for what is wrong."""

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""

    @property
    def is_transient(self) -> bool:
        """Whether the same question may succeed later, without any change here."""
        if self.status == 429 and SPENT in self.body:
            return False
        return self.status in PASSING or self.failure in ("refused", "timeout", "broken")

    @property
    def retry_after_s(self) -> float | None:
        """The seconds that the endpoint asks to wait; None if it states none, or a date."""
        stated = self.headers.get("retry-after", "").strip()
        return float(stated) if stated.isascii() and stated.isdigit() else None


def pause(seconds: float, cancel: threading.Event | None) -> None:
    """Wait, unless canceled. Raises: Cancelled."""
    (cancel or threading.Event()).wait(seconds)
    raise_if_cancelled(cancel)


class Endpoint:
    """One address and its connections. Thread-safe; nothing is opened before the first question."""

    def __init__(
        self, spec: EndpointSpec, key: str = "", *, pause: Callable[[float, threading.Event | None], None] = pause
    ) -> None:
        """Check the key. Raises: EmbedderUnusable if it is not valid."""
        if not key.isascii() or not key.isprintable():
            raise EmbedderUnusable(
                f"{spec.provider}: the key holds characters that no key has",
                suggestion="Set the environment variable again, without quotes or line breaks.",
            )
        self.spec = spec
        self._key = key.strip()
        self._pause = pause
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None
        self._is_closed = False

    def post(self, question: Mapping[str, Any], policy: RetryPolicy, cancel: threading.Event | None = None) -> Any:
        """Return the endpoint's answer to a JSON question, parsed.

        Between two tries it waits as long as the endpoint asks for, else twice as long each time.

        Raises: EmbedderFailed (asking later may help), EmbedderUnusable (a person must act), Cancelled; ValueError
        after `close()`.
        """
        content = json.dumps(question).encode()
        tries = 0
        while True:
            raise_if_cancelled(cancel)
            answer = self._exchange(content, policy.answer_s, cancel)
            wait_s = answer.retry_after_s
            if wait_s is None:
                wait_s = min(FIRST_WAIT_S * 2**tries, policy.wait_max_s)
            tries += 1
            is_last = tries >= policy.tries or wait_s > policy.wait_max_s
            if is_last or not answer.is_transient or answer.failure == "refused":
                return self._parse(answer)
            self._pause(wait_s, cancel)

    def open_client(self) -> httpx2.Client:
        """Return the one client, made when first needed, because the library is slow to import.

        Raises: ValueError after close.
        """
        import httpx2

        with self._lock:
            if self._is_closed:
                raise ValueError("the endpoint is closed")
            if self._client is None:
                self._client = httpx2.Client(trust_env=not is_loopback(self.spec.url), follow_redirects=False)
            return self._client

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._is_closed = True
            if self._client is not None:
                self._client.close()

    def _exchange(self, content: bytes, answer_s: float, cancel: threading.Event | None) -> HttpAnswer:
        """Return one answer, after `answer_s` at the latest, however slowly it arrives.

        Another thread does the reading, so that this one can leave at once when it is canceled.
        """
        client = self.open_client()
        answers: queue.SimpleQueue[HttpAnswer] = queue.SimpleQueue()
        is_left = threading.Event()

        def fetch() -> None:
            answers.put(self._fetch(client, content, answer_s, is_left))

        threading.Thread(target=fetch, name="ctx-endpoint", daemon=True).start()
        deadline = time.monotonic() + answer_s
        try:
            while (rest_s := deadline - time.monotonic()) > 0:
                raise_if_cancelled(cancel)
                try:
                    return answers.get(timeout=min(rest_s, LOOK_S) if cancel else rest_s)
                except queue.Empty:
                    continue
            return HttpAnswer(failure="timeout")
        finally:
            is_left.set()

    def _fetch(self, client: httpx2.Client, content: bytes, answer_s: float, is_left: threading.Event) -> HttpAnswer:
        """Return the answer, or why there is none. Reading ends when the caller has left, or at the limit."""
        import httpx2

        headers = {"content-type": "application/json", "accept": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        timeout = httpx2.Timeout(answer_s, connect=min(CONNECT_S, answer_s))
        body = bytearray()
        try:
            with client.stream("POST", self.spec.url, content=content, headers=headers, timeout=timeout) as response:
                for part in response.iter_bytes():
                    body += part
                    if is_left.is_set() or len(body) > ANSWER_BYTES_MAX:
                        return HttpAnswer(failure="huge")
                masked = bytes(body).replace(self._key.encode(), b"***") if self._key else bytes(body)
                return HttpAnswer(response.status_code, masked, dict(response.headers))
        except httpx2.TimeoutException:
            return HttpAnswer(failure="timeout")
        except (httpx2.ConnectError, httpx2.InvalidURL) as error:
            return HttpAnswer(failure="refused", body=str(error).encode())
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for an answer
            return HttpAnswer(failure="broken", body=str(error).encode())

    def _parse(self, answer: HttpAnswer) -> Any:
        """Return the parsed body of an answer. Raises: EmbedderFailed, EmbedderUnusable."""
        is_page = "html" in answer.headers.get("content-type", "") or answer.body.lstrip()[:1] == b"<"
        if answer.status == 200 and not is_page:
            try:
                return read_json(answer.body, bytes_max=OUTPUT_BYTES_MAX, has_constants=True)
            except ParseError:
                answer = replace(answer, failure="nonsense")
        elif is_page and answer.status in (200, 404):
            answer = replace(answer, failure="page", body=b"")
        problem, next_step = self._diagnose(answer)
        message = _read_message(answer.body)
        kind = EmbedderFailed if answer.is_transient else EmbedderUnusable
        raise kind(
            f"{self.spec.provider}: {problem}: {message}".removesuffix(": "),
            suggestion=next_step,
            details={"address": self.spec.url, "model": self.spec.model, "status": answer.failure or answer.status},
        )

    def _diagnose(self, answer: HttpAnswer) -> tuple[str, str]:
        """Return what is wrong with an answer, and what to do about it."""
        url, model, later = self.spec.url, self.spec.model, self.spec.later
        check_key = "Check the environment variable that holds it."
        known: dict[int | str, tuple[str, str]] = {
            "refused": (f"nothing answers at {url}", self.spec.start),
            "timeout": (f"no answer from {url} in time", f"Is it busy, or loading {model}? {later}"),
            "broken": (f"{url} broke off its answer", later),
            "huge": (f"{url} answers much more than was asked", "Check the address."),
            "nonsense": (f"{url} answers with something that is not JSON", "Check the address, also its path."),
            "page": (f"{url} answers with a web page, status {answer.status}", "Check the address, also its path."),
            401: (f"{url} refuses the key", check_key),
            403: (f"{url} refuses the key", check_key),
            404: (f"{url} has no model {model!r}, or the path is wrong", self.spec.get_model),
            413: (f"a text is too long for {model!r}", "Choose a model with a longer window."),
            429: (f"{url} gets too many requests", later),
        }
        if answer.status == 429 and not answer.is_transient:
            return f"the account at {url} is spent", "Add credit, or choose another."
        if (answer.failure or answer.status) in known:
            return known[answer.failure or answer.status]
        if answer.status in PASSING:
            return f"{url} failed with status {answer.status}", later
        if answer.status // 100 == 3:
            return f"{url} sends us elsewhere", "Redirects are not followed: configure the right address."
        return f"{url} refused with status {answer.status}", "Check model and address."


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
        is_sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if not is_sound or "@" in parts.netloc or parts.query or parts.fragment:
        shown = "what is configured" if "@" in address else _clean(address)
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


def extract_json_message(value: Any) -> str:
    """Return the message in a JSON answer, from the fields that such endpoints use.

    >>> extract_json_message({"error": {"message": "no such model"}}), extract_json_message({"error": "out of memory"})
    ('no such model', 'out of memory')
    """
    for name in ("error", "message", "detail"):
        if isinstance(value, dict):
            value = value.get(name, value)
    return _clean(value if isinstance(value, str) else json.dumps(value))


def _read_message(body: bytes) -> str:
    """Return the message of an answer; its beginning if that is not JSON."""
    try:
        return extract_json_message(read_json(body, bytes_max=OUTPUT_BYTES_MAX))
    except ParseError:
        return _clean(body.decode("utf-8", "replace"))


def _clean(text: str) -> str:
    """Return words of another program so that they are safe to repeat: one line, short, no secrets."""
    return " ".join(secrets.redact(text[: 10 * MESSAGE_CHARS_MAX]).text.split())[:MESSAGE_CHARS_MAX]
