"""Authentication of requests: find the grant of the token of a request, or the HTTP reply that refuses it.

    401  no token, one that is none of ours, or one whose time has passed
    429  more requests than the token's rate has room for; `Retry-After` says when
    503  the file with the tokens cannot be read: nobody is let in, and the log says why

A tool that is called too often is told so in its reply, where an agent reads it (RATE_LIMITED). The limit here stands
far above: a call does not come alone, but with lists, notifications and pings, and a client reads no reason out of a
429.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from context_engine.errors import ContextEngineError
from context_engine.server.grants import Grant
from context_engine.server.logging_bridge import RepeatFilter
from context_engine.server.origin_check import OPEN_PATHS, HttpRefusal
from context_engine.server.rate_limits import RateLimiter
from context_engine.server.token_file import TokenFile

REQUESTS_A_CALL = 6
"""A client of an older protocol version sends three requests to connect and one to leave; a call is one request, or two
with a ping."""
HOW = (
    "Send the header `Authorization: Bearer <token>`; the operator of this server creates one with `ctx token create`."
)


class Authenticator:
    """Lets in who shows a token of the file. Thread-safe. `log` hears of each that is not let in."""

    def __init__(
        self,
        tokens: TokenFile,
        *,
        log: Callable[[dict[str, Any]], None],
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._log = log
        self._now = now
        self._clock = clock
        self._rates: dict[Grant, RateLimiter] = {}
        self._lock = threading.Lock()
        self._repeats = RepeatFilter()

    def authenticate(self, path: str, headers: Mapping[str, str], address: str = "") -> Grant | HttpRefusal | None:
        """Whose request this is, or why it is refused; None for a path that is open to everybody.

        `address` is where it comes from, for the log.
        """
        if path in OPEN_PATHS:
            return None
        try:
            grant = self._tokens.find_grant(_bearer_token(headers))
        except ContextEngineError as error:
            self._log({"event": "tokens", "ok": False, "error": error.as_dict()})
            return HttpRefusal(503, "The tokens of this server cannot be read; its log says why.")
        refusal = (
            self._refuse_unknown(headers)
            if grant is None
            else self._refuse_expired(grant) or self._refuse_excess(grant)
        )
        if refusal is None:
            return grant
        self._log_refusal(refusal, path, grant.name if grant else "", address)
        return refusal

    def _log_refusal(self, refusal: HttpRefusal, path: str, token: str, address: str) -> None:
        """Log a refusal; of many from one place some are left out, and counted."""
        left_out = self._repeats.admit((refusal.status, token, address), self._clock())
        if left_out is None:
            return
        line: dict[str, Any] = {"event": "refused", "ok": False, "status": refusal.status, "path": path[:100]}
        more = {"token": token, "from": address, "left_out": left_out}
        self._log(line | {key: value for key, value in more.items() if value})

    def _refuse_unknown(self, headers: Mapping[str, str]) -> HttpRefusal:
        return _unauthorized_refusal(HOW, "invalid_token" if "authorization" in headers else "")

    def _refuse_expired(self, grant: Grant) -> HttpRefusal | None:
        """Refuse an expired token; only its holder learns that it was valid."""
        if not grant.is_expired(self._now()):
            return None
        return _unauthorized_refusal(f"This token has expired. {HOW}", "invalid_token")

    def _refuse_excess(self, grant: Grant) -> HttpRefusal | None:
        if not grant.per_minute:
            return None
        with self._lock:
            rate = grant.per_minute * REQUESTS_A_CALL
            limits = self._rates.setdefault(grant, RateLimiter({grant.id: rate}, burst_minutes=1))
            wait_s = math.ceil(limits.wait_s(grant.id, self._clock()))
        if not wait_s:
            return None
        return HttpRefusal(429, f"Too many requests with this token. Wait {wait_s} s.", {"retry-after": str(wait_s)})


def _bearer_token(headers: Mapping[str, str]) -> str:
    """The bearer token in the headers; empty when there is none."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _unauthorized_refusal(text: str, error: str) -> HttpRefusal:
    why = f', error="{error}"' if error else ""
    return HttpRefusal(401, text, {"www-authenticate": f'Bearer realm="ctx"{why}'})
