"""The assist ladder: who takes a deterministic result further, if anybody does - a model, the calling agent, or nobody.

    climbed = ladder.climb(SecondPass("create_plan", brief, SCHEMA, {"plan_id": plan.id}), assist)
    if climbed.draft is not None: ...            # a model's draft, which keeps to its schema; hold it against the code

What a tool knows by itself is computed and stored before: a climb only adds to it, and whatever goes wrong on the way
is a warning, never an error. No rung needs another one. Nothing here reads a file.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from context_engine.context.proposals import Schema, compute_draft_id
from context_engine.errors import HostError

if TYPE_CHECKING:
    from context_engine.context.llm_endpoint import Check, ModelDraft, ModelTokens

AssistMode = Literal["auto", "host", "model", "off"]
ASSIST_MODES: tuple[AssistMode, ...] = ("auto", "host", "model", "off")
Used = Literal["none", "host", "model"]
"""Whose second pass an answer holds: nobody's, one that the caller handed in, a model's."""

NO_MODEL = (
    "no model is configured (CTX_ASSIST_ADDRESS, CTX_ASSIST_MODEL): the next step is offered to the agent instead"
)


@dataclass(frozen=True, slots=True)
class SecondPass:
    """What somebody is asked to fill in: a brief, the schema of the draft, and the call that takes the draft back.

    `arguments` are what that call of `tool` repeats; its argument `draft` takes the draft. A tool that stores a draft
    is told which pass it answers, so that the same hand-in counts once; one that does not store says `is_stored=False`.
    `host_brief` is a shorter brief for an agent that reads the facts in the same reply.
    """

    tool: str
    brief: str
    schema: Schema
    arguments: Mapping[str, Any]
    draft: str = "draft"
    is_stored: bool = True
    host_brief: str = ""

    @property
    def submission_id(self) -> str:
        """What names this pass: the same facts asked for in the same way have the same id."""
        return compute_draft_id([self.tool, self.brief, self.schema, self.arguments, self.draft])

    def next(self) -> dict[str, Any]:
        """The next step as a reply offers it to the calling agent."""
        template = {**self.arguments, self.draft: "<what keeps to schema>"}
        template |= {"submission_id": self.submission_id} if self.is_stored else {}
        told = self.host_brief or self.brief
        return {"tool": self.tool, "arguments_template": template, "schema": self.schema, "brief": told}


@dataclass(frozen=True, slots=True)
class SecondPassResult:
    """How far a climb came: a model's draft, or the next step for the agent, or neither; and what went wrong on the way."""

    used: Used = "none"
    draft: Any = None
    next: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    tokens: ModelTokens | None = None


class Model(Protocol):
    """What fills in a brief."""

    def fill(self, brief: str, schema: Schema, check: Check, cancel: threading.Event | None = None) -> ModelDraft:
        """A draft, or why there is none. Raises: Cancelled."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


def _nothing_wrong(_: Any) -> str:
    return ""


class SecondPassRunner:
    """The rungs of one Engine. Thread-safe; without a model nothing ever connects to anything."""

    def __init__(self, model: Model | None = None, *, trouble: str = NO_MODEL) -> None:
        """`trouble` says why there is no model, to those who ask for one."""
        self._model = model
        self._trouble = trouble

    def run(
        self, second: SecondPass, assist: str, *, check: Check = _nothing_wrong, cancel: threading.Event | None = None
    ) -> SecondPassResult:
        """Take a result further, as far as the caller wants. `check` says what is wrong with a draft beyond its schema.

        Raises: Cancelled, and nothing else.
        """
        if assist == "off":
            return SecondPassResult()
        if assist == "host":
            return SecondPassResult(next=second.next())
        if self._model is None:
            warned = assist == "model" or self._trouble != NO_MODEL
            return SecondPassResult(next=second.next(), warnings=(self._trouble,) if warned else ())
        filled = self._model.fill(second.brief, second.schema, check, cancel)
        if filled.failure:
            return SecondPassResult(next=second.next(), warnings=(filled.failure,), tokens=filled.tokens)
        return SecondPassResult("model", filled.draft, tokens=filled.tokens)

    def close(self) -> None:
        """Let go of what a model holds."""
        if self._model is not None:
            self._model.close()


def open_runner(address: str, model: str, key: str, *, wait_s: float) -> SecondPassRunner:
    """The ladder of a user's settings. A wrong address or key is told to those who climb, and stops nobody."""
    if not address and not model:
        return SecondPassRunner()
    missing = "CTX_ASSIST_MODEL" if address else "CTX_ASSIST_ADDRESS"
    if not (address and model):
        return SecondPassRunner(trouble=f"no model is asked: {missing} is not set")
    from context_engine.context.llm_endpoint import ChatModel  # only those who named a model pay for the way to it

    try:
        return SecondPassRunner(ChatModel(address, model, key, wait_s=wait_s))
    except HostError as error:
        return SecondPassRunner(trouble=f"no model is asked: {error.message}. {error.suggestion}")
