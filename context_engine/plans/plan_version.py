"""PURE. A version of a plan as it is kept: the plan, what is told of the version, and a seal that shows any change by hand.

    {"plan_id": "plan_...", "version": 2, "change_type": "refined", ..., "plan": {...}, "seal": "5d41402abc4b2a76..."}

The seal is a hash of everything else, taken from the values: how the file is laid out and how its lines end does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from context_engine.plans.model import Plan
from context_engine.plans.plan_progress import PlanEvent

ChangeType = Literal["created", "refined", "modified", "approved", "executed", "rolled_back"]
SEAL_CHARS = 32
"""128 bits: enough to notice any accident."""


class PlanVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of one version. `name` and `tags` are the plan's at that time; `content_hash` names what it says.

    `events` are what it appends to the log; the last of them, and no other, names the version.
    """

    plan_id: str
    version: int
    created_at: str
    change_type: ChangeType
    content_hash: str
    change_summary: str = ""
    author: str = ""
    provenance: str = ""
    name: str = ""
    tags: tuple[str, ...] = ()
    reason: str = ""
    rolled_back_from: int = 0
    rolled_back_to: int = 0
    submission_id: str = ""
    events: tuple[PlanEvent, ...]


def encode_version(version: PlanVersion, plan: Plan) -> bytes:
    """A version and its plan as they are written: what is said and not what follows from it, a field a line, for git."""
    told = {**msgspec.to_builtins(version), "plan": msgspec.to_builtins(plan)}
    return msgspec.json.format(msgspec.json.encode({**told, "seal": _seal(told)}), indent=1) + b"\n"


def decode_version(data: bytes) -> tuple[PlanVersion, Plan]:
    """What was written. Raises: ValueError, in words that go behind `it is damaged:`."""
    told = _decode_sealed(data)
    return msgspec.convert(told, PlanVersion), msgspec.convert(told["plan"], Plan)  # a ValidationError is a ValueError


def decode_metadata(data: bytes) -> PlanVersion:
    """The same without the plan. Raises: ValueError."""
    return msgspec.convert(_decode_sealed(data), PlanVersion)


def _decode_sealed(data: bytes) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from error
    if not isinstance(told, dict) or not {"plan", "seal"} <= told.keys():
        raise ValueError("it is no version of a plan")
    if told.pop("seal") != _seal(told):
        raise ValueError("it was changed after it was written")
    return told


def _seal(told: Mapping[str, Any]) -> str:
    plain = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(plain.encode()).hexdigest()[:SEAL_CHARS]
