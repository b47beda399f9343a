"""PURE. Decides about an endpoint's answer: accept it, wait and ask again, or report an error that the user can act on.

Decides about an endpoint's answer: accept it, wait and ask again, or report an error that the user can act on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from context_engine import secrets
from context_engine.errors import EmbedderFailed, EmbedderUnusable, HostError
from context_engine.text import OUTPUT_BYTES_MAX, ParseError, read_json

FIRST_WAIT_S = 1.0
"""Wait before the second try if the endpoint does not state one; doubled each time."""
SAID_CHARS_MAX = 300
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
    """An answer, with header names in lower case.

    Status 0 means none; `failure` is then one word (refused, timeout, broken, huge), and the body says more.
    """

    status: int = 0
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    failure: str = ""


def compute_wait_s(answer: HttpAnswer, tries: int, patience: RetryPolicy, *, chance: float, now: float) -> float | None:
    """Return the seconds to wait before the next of `tries` tries; None if asking again is pointless.

    The endpoint's own Retry-After is kept; else each wait is twice the last, shortened by up to half by `chance` (0 to
    1), so that many who were turned away together do not come back together.
    """
    if tries >= patience.tries or not is_transient(answer) or answer.failure == "refused":
        return None
    stated = parse_retry_after(answer, now)
    if stated is None:
        return min(patience.wait_max_s, FIRST_WAIT_S * 2 ** (tries - 1)) * (1 - chance / 2)
    if stated <= patience.wait_max_s:
        return stated
    return None


def parse_retry_after(answer: HttpAnswer, now: float) -> float | None:
    """Return the seconds of a Retry-After header, a number or a date; None if it is neither.

    >>> def asked(value): return parse_retry_after(HttpAnswer(429, headers={"retry-after": value}), now=10)
    >>> asked("7"), asked("Thu, 01 Jan 1970 00:01:00 GMT"), asked("soon")
    (7.0, 50.0, None)
    """
    stated = answer.headers.get("retry-after", "").strip()
    if stated.isascii() and stated.replace(".", "", 1).isdigit():
        return float(stated)
    try:
        return max(0.0, parsedate_to_datetime(stated).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def is_transient(answer: HttpAnswer) -> bool:
    """Return whether the same question may succeed later, without any change here."""
    if answer.status == 429 and SPENT in answer.body:
        return False
    return answer.status in PASSING or answer.failure in ("refused", "timeout", "broken")


def response_error(answer: HttpAnswer, place: EndpointSpec, *, now: float) -> HostError | None:
    """Return the error for an answer; None if it is accepted."""
    if answer.status == 200 and not is_page(answer):
        return None
    what, next_step = _diagnosis(answer, place)
    if is_page(answer):
        message = ""
    else:
        message = extract_message(answer)
    if is_transient(answer):
        kind = EmbedderFailed
    else:
        kind = EmbedderUnusable
    details: dict[str, Any] = {"address": place.url, "model": place.model, "status": answer.status or answer.failure}
    wait = parse_retry_after(answer, now)
    if wait is not None:
        details["retry_after_s"] = wait
    return kind(f"{place.provider}: {what}{message and ': ' + message}", suggestion=next_step, details=details)


def _diagnosis(answer: HttpAnswer, place: EndpointSpec) -> tuple[str, str]:
    """Return what is wrong and what to do about it: the first row that applies."""
    status, trouble, where, later = answer.status, answer.failure, place.url, place.later
    rows: list[tuple[bool, str, str]] = [
        (trouble == "refused", f"nothing answers at {where}", place.start),
        (trouble == "timeout", f"no answer from {where} in time", f"Is it busy, or loading {place.model}? {later}"),
        (trouble == "broken", f"{where} broke off its answer", later),
        (trouble == "huge", f"{where} answers much more than was asked", "Check the address."),
        (
            300 <= status < 400,
            f"{where} sends us elsewhere",
            "Redirects are not followed: configure the right address.",
        ),
        (status in (401, 403), f"{where} refuses the key", "Check the environment variable that holds it."),
        (
            status == 429 and not is_transient(answer),
            f"the account at {where} is spent",
            "Add credit, or choose another.",
        ),
        (status == 429, f"{where} gets too many requests", later),
        (status in PASSING, f"{where} failed with status {status}", later),
        (is_page(answer), f"{where} answers with a web page, status {status}", "Check the address, also its path."),
        (status == 404, f"{where} has no model {place.model!r}, or the path is wrong", place.get_model),
        (status == 413, f"a text is too long for {place.model!r}", "Configure a smaller number of tokens."),
    ]
    fallback = f"{where} refused with status {status}", "Check model and address."
    return next(((what, next_step) for fits, what, next_step in rows if fits), fallback)


def is_page(answer: HttpAnswer) -> bool:
    """Return whether the answer is HTML instead of JSON."""
    return "html" in answer.headers.get("content-type", "") or answer.body.lstrip()[:1] == b"<"


def extract_message(answer: HttpAnswer) -> str:
    """Return the message of the endpoint; the beginning of the answer if that is not JSON."""
    try:
        return extract_json_message(read_json(answer.body, bytes_max=OUTPUT_BYTES_MAX))
    except ParseError:
        return sanitize_text(answer.body.decode("utf-8", "replace"))


def extract_json_message(value: Any) -> str:
    """Return the message in a JSON answer, from the fields that such endpoints use.

    >>> extract_json_message({"error": {"message": "no such model"}}), extract_json_message({"error": "out of memory"})
    ('no such model', 'out of memory')
    """
    for name in ("error", "message", "detail"):
        if isinstance(value, dict):
            value = value.get(name, value)
    return sanitize_text(value if isinstance(value, str) else json.dumps(value))


def sanitize_text(text: str) -> str:
    """Return words of another program so that they are safe to repeat: one line, short, no secrets."""
    return " ".join(secrets.redact(text[: 10 * SAID_CHARS_MAX]).text.split())[:SAID_CHARS_MAX]
