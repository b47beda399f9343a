"""Which requests a server that a team shares accepts: by the tokens of the team, each with its grant.

A tool that is called too often reports that in its reply, where an agent reads it (RATE_LIMITED). The limit here is far
higher, because a call comes with lists, notifications and pings, and a client does not read the reason of a 429.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from context_engine.errors import ContextEngineError
from context_engine.server.authentication import OPEN_PATHS, HttpRefusal, unauthorized_refusal
from context_engine.server.rate_limits import RateLimiter
from context_engine.server.server_log import Log, RepeatFilter
from context_engine.team.token_file import Grant, TokenFile

REQUESTS_A_CALL = 6
"""A client of an older protocol version sends three requests to connect and one to leave. A call is one request, or two
with a ping."""
HINT = (
    "Send the header `Authorization: Bearer <token>`; the operator of this server creates one with `ctx token create`."
)


class Authenticator:
    """The check of the tokens of a team. Thread-safe. `log` receives a line for each refused request."""

    def __init__(
        self,
        tokens: TokenFile,
        *,
        log: Log,
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
        """Return the grant of a request, or why it is refused; None for a path without a token.

        `address`, where the request comes from, is for the log.
        """
        if path in OPEN_PATHS:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else ""
        try:
            grant = self._tokens.find_grant(token)
        except ContextEngineError as error:
            self._log({"event": "tokens", "ok": False, "error": error.as_dict()})
            return HttpRefusal(503, "The tokens of this server cannot be read; its log has the reason.")
        if grant is None:
            refusal = unauthorized_refusal(HINT, is_invalid="authorization" in headers)
        elif grant.is_expired(self._now()):  # only its holder learns that it was valid
            refusal = unauthorized_refusal(f"This token has expired. {HINT}", is_invalid=True)
        elif (refusal := self._refuse_excess(grant)) is None:
            return grant
        self._log_refusal(refusal, path, grant.name if grant else "", address)
        return refusal

    def _log_refusal(self, refusal: HttpRefusal, path: str, token: str, address: str) -> None:
        """Log a refusal; of many with one token and address some are left out and counted."""
        left_out = self._repeats.admit((refusal.status, token, address), self._clock())
        if left_out is None:
            return
        line: dict[str, Any] = {"event": "refused", "ok": False, "status": refusal.status, "path": path[:100]}
        optional = {"token": token, "from": address, "left_out": left_out}
        self._log(line | {key: value for key, value in optional.items() if value})

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
