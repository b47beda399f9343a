"""What a tool is: a function whose signature is its schema and whose docstring is what an agent reads.

    @tool(touches="nothing")
    def find_symbol(engine, call, name: Annotated[str, Text("Name, qualified name or glob.")], ...) -> Reply:
        '''Find where a function, class or variable is defined...'''

This module knows neither the catalogue nor the protocol. Family files must not defer their annotations: they are read here.
"""

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from context_engine.tools.arguments import REQUIRED, Parameter, bind, schema_of
from context_engine.tools.tool_questions import UserAnswer, UserQuestion, no_answer

if TYPE_CHECKING:
    from context_engine.search.served_chunks import ServedChunks

Touches = Literal["nothing", "index", "records", "files", "anything"]
"""What a call may change: nothing, the index (derived, rebuildable), records of ours, the user's files, or whatever the
tool changes that it reaches."""

RESULT_CHARS_KEY = "anthropic/maxResultSizeChars"
RESULT_CHARS = 500_000
"""What one client takes before it shows a preview of 2 kB instead: its own ceiling, since we keep replies short ourselves."""
ALWAYS_LOAD_KEY = "anthropic/alwaysLoad"
"""Clients that look tools up only when they need one keep these before the model's eyes."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the caller reads: one text. `is_error` marks a refusal or failure."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """The circumstances of one call: who hears of its progress, how it is cancelled, where to read the metrics.

    `chunks` gives the folder of chunk files that is served beside the workspace, None when there is none. `listed` are the
    names the client was shown, None when nobody knows; `disabled` names the option that forbids a tool. `session` tells
    clients apart: what one of them has read and edited; empty when nobody knows who calls.

    `ask` puts a question to the person behind the client: None when nobody can be asked, or nobody answers. Some clients
    answer by repeating the call: then the tool is run again from its start, so whatever comes before a question must
    change nothing, or nothing twice, and the question must come out the same, word for word.
    """

    progress: Callable[[Any], None] | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    metrics: Callable[[], Mapping[str, Any]] | None = None
    chunks: Callable[[], "ServedChunks"] | None = None
    listed: frozenset[str] | None = None
    disabled: Mapping[str, str] = field(default_factory=dict)
    session: str = ""
    ask: Callable[[UserQuestion], UserAnswer | None] = no_answer


@dataclass(frozen=True, slots=True)
class Hints:
    """The four annotations of the protocol; clients decide by them whether to ask a person first."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool = False


HINTS: Mapping[Touches, Hints] = {
    "nothing": Hints(read_only=True, destructive=False, idempotent=True),
    "index": Hints(read_only=False, destructive=False, idempotent=True),
    "records": Hints(read_only=False, destructive=False, idempotent=False),
    "files": Hints(read_only=False, destructive=True, idempotent=False),
    "anything": Hints(read_only=False, destructive=True, idempotent=False),
}


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing an agent can ask for. `aliases` are other names for exactly the same; `always_load`: see `meta`.

    `instead` is a tool that finds things another way: when this one is broken, that one may not be. `error_fields` is what
    a seed wants to stand beside the error of a refusal. `rare` names arguments that `tool_manifest` shows and the lists of a
    client do not: each word there is paid for in every request.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    touches: Touches
    run: Callable[..., Reply]
    aliases: tuple[str, ...] = ()
    destructive: bool = False
    always_load: bool = False
    instead: str = ""
    error_fields: Mapping[str, Any] = field(default_factory=dict)
    rare: frozenset[str] = frozenset()

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return schema_of(self.parameters)

    @property
    def listed_schema(self) -> dict[str, Any]:
        """The same without what is rarely needed, for the lists of a client."""
        return schema_of(each for each in self.parameters if each.name not in self.rare)

    @property
    def hints(self) -> Hints:
        """The annotations that follow from what it touches."""
        base = HINTS[self.touches]
        return Hints(base.read_only, base.destructive or self.destructive, base.idempotent, base.open_world)

    @property
    def meta(self) -> dict[str, Any]:
        """The hints that are no part of the protocol, for `_meta` in tools/list."""
        return {RESULT_CHARS_KEY: RESULT_CHARS} | ({ALWAYS_LOAD_KEY: True} if self.always_load else {})

    @property
    def one_liner(self) -> str:
        """The first sentence of its description."""
        return self.description.split(". ")[0].rstrip(".") + "."

    def call(self, engine: Any, arguments: Any, call: Call) -> Reply:
        """Bind the arguments and run. Raises: whatever the Engine raises, and InvalidArgument."""
        return self.run(engine, call, **bind(self.parameters, arguments))


def tool(
    *,
    touches: Touches,
    aliases: tuple[str, ...] = (),
    destructive: bool = False,
    always_load: bool = False,
    instead: str = "",
    error_fields: Mapping[str, Any] | None = None,
    rare: tuple[str, ...] = (),
) -> Callable[[Callable[..., Reply]], Tool]:
    """Make a tool of a function `(engine, call, ...) -> Reply`."""

    def made(run: Callable[..., Reply]) -> Tool:
        description = " ".join((run.__doc__ or "").split())
        name = getattr(run, "__name__", "")
        parameters, beside = _parameters(run), error_fields or {}
        return Tool(
            name,
            description,
            parameters,
            touches,
            run,
            aliases,
            destructive,
            always_load,
            instead,
            beside,
            frozenset(rare),
        )

    return made


def _parameters(run: Callable[..., Reply]) -> tuple[Parameter, ...]:
    """One per argument after `engine` and `call`; the kind stands in its annotation."""
    listed = list(inspect.signature(run).parameters.values())[2:]
    return tuple(
        Parameter(each.name, get_args(each.annotation)[1], REQUIRED if each.default is each.empty else each.default)
        for each in listed
    )
