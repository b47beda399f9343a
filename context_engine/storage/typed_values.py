"""Types that msgspec decodes stored data to, safe in any number of threads."""

from __future__ import annotations

from functools import cache
from threading import Lock
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind")
_lock = Lock()


def prepare_type(kind: type[Kind]) -> type[Kind]:
    """Return a type that msgspec has inspected; every class that a function decodes or converts to is passed through.

    msgspec (0.20) inspects a type at its first use, without a lock: two threads that do so at once crash the process.
    """
    _inspect(kind)
    return kind


@cache
def _inspect(kind: Any) -> None:
    with _lock:
        msgspec.json.Decoder(kind)
