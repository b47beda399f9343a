"""Define a tool: a function whose signature is its schema and whose docstring is its description for agents.

    @tool(touches="nothing")
    def history(engine, target: Annotated[str, TextArg("A path, a symbol or a commit.")], ...) -> Reply:
        '''Show the commits that changed a file...'''

A tool that reports progress, can be canceled or asks the user takes a second argument, `call`. This module knows
neither the catalog nor the protocol. Files with tools must not defer their annotations: they are read here.
"""

import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from context_engine.context import ShownLines
from context_engine.tools.arguments import REQUIRED, Parameter, TextArg, bind, schema_of
from context_engine.tools.structured_replies import OTHER_TOOLS, OUTPUT_SCHEMAS, write_structured
from context_engine.tools.text_form import format_reply

if TYPE_CHECKING:
    from context_engine.search import ServedChunks

Touches = Literal["nothing", "index", "records", "files", "anything"]
"""What a call may change: nothing, the index (which can be rebuilt), memories and plans, the user's files, or whatever
the called tool changes."""

Reader = Literal["", "documents", "agent", "program"]
"""The reader of a reply. An agent or a person gets text, with the facts to go on; a program one JSON object; a caller
that knows the documents, and Python code, JSON where the documents show it."""
CHOICE, COMMENT = "choice", "comment"
"""The fields of the form in which a client asks its user."""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question that a tool asks the user of a client; without choices the answer is free text."""

    text: str
    choices: tuple[str, ...] = ()
    with_comment: bool = False

    @property
    def form(self) -> dict[str, Any]:
        """Return the JSON schema of the form: flat and with texts only, since that is all every client can show."""
        choice: dict[str, Any] = {"type": "string", "title": "Your decision" if self.choices else "Your answer"}
        if self.choices:
            choice["enum"] = list(self.choices)
        fields = {CHOICE: choice}
        if self.with_comment:
            fields[COMMENT] = {"type": "string", "title": "Comment"}
        return {"type": "object", "properties": fields, "required": [CHOICE]}

    def read_answer(self, action: str, content: Mapping[str, Any] | None) -> "UserAnswer | None":
        """Read the answer from a completed form; None if it does not answer this question.

        >>> UserQuestion("Go on?", ("yes", "no")).read_answer("accept", {"choice": "yes"})
        UserAnswer(action='accept', choice='yes', comment='')
        >>> UserQuestion("Go on?", ("yes", "no")).read_answer("accept", {"choice": "maybe"})
        """
        if action == "decline" or action == "cancel":
            return UserAnswer(action)
        fields = {name: value for name, value in (content or {}).items() if isinstance(value, str)}
        choice = fields.get(CHOICE, "").strip()
        if action != "accept" or not choice or (self.choices and choice not in self.choices):
            return None
        return UserAnswer("accept", choice, fields.get(COMMENT, "").strip() if self.with_comment else "")


@dataclass(frozen=True, slots=True)
class UserAnswer:
    """The user's reaction to a question: an answer, a refusal, or a closed form."""

    action: Literal["accept", "decline", "cancel"]
    choice: str = ""
    comment: str = ""


def no_answer(question: UserQuestion) -> UserAnswer | None:  # noqa: ARG001 - the caller passes it
    """Return None, since no user can be asked."""
    return None


@dataclass(frozen=True, slots=True)
class Reply:
    """The text that the caller reads. `is_error` marks a failure."""

    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """The context of one call: progress, cancellation, metrics and the client.

    `chunks` returns the folder of chunk files that is served with the workspace, None if there is none. `listed` are
    the tool names that the client sees, None if unknown. `disabled` maps a tool to the option that disables it.
    `session` identifies the client, whose reads and edits are tracked; empty if unknown. `connection` is the same where
    no two clients can share it, else empty. `client` is the name that the program gives itself. `shown` has the lines
    that this connection was shown: tools that find code add what they show and leave out what is in it; tools that read
    a named place only add.

    `ask` asks the user of the client and returns None without an answer: the tool continues and leaves the decision
    open. Some clients answer by repeating the call. The tool then runs again from the start, so the code before a
    question must be idempotent, and the question must have the same words.

    For a program the reply is one JSON object, as `Tool.output_schema` describes it.
    """

    progress: Callable[[Any], None] | None = None
    cancel: threading.Event = field(default_factory=threading.Event)
    metrics: Callable[[], Mapping[str, Any]] | None = None
    chunks: Callable[[], "ServedChunks"] | None = None
    listed: frozenset[str] | None = None
    disabled: Mapping[str, str] = field(default_factory=dict)
    session: str = ""
    connection: str = ""
    client: str = ""
    shown: ShownLines = field(default_factory=ShownLines)
    ask: Callable[[UserQuestion], UserAnswer | None] = no_answer
    reader: Reader = ""

    @property
    def structured(self) -> bool:
        """Whether the reply is for a program."""
        return self.reader == "program"

    @property
    def is_brief(self) -> bool:
        """Whether the reply has the facts to go on, and not all that is known."""
        return self.reader == "agent"


@dataclass(frozen=True, slots=True)
class Hints:
    """The four annotations of the protocol; clients use them to decide whether to ask the user first."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that an agent can call; for `always_load` see `meta`.

    `aliases` maps its names in the documents to arguments that are listed there, with their defaults; `alias` is the
    name it is used under.

    `instead` is a tool to use if this one is broken. `error_fields` are fields that an upstream spec adds to an error.
    `rare` names arguments that only `list_tools` shows, since a client pays for each listed word in every request.
    `view` is the view that shows its results inside clients with MCP Apps: plan or review.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    touches: Touches
    run: Callable[..., Reply]
    takes_call: bool = True
    aliases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    alias: str = ""
    destructive: bool = False
    always_load: bool = False
    instead: str = ""
    error_fields: Mapping[str, Any] = field(default_factory=dict)
    rare: frozenset[str] = frozenset()
    view: str = ""

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of its arguments."""
        return schema_of(self.parameters, older=bool(self.alias))

    def list_schema(self, names: Collection[str] = (), *, camel: bool = False) -> dict[str, Any]:
        """Return the schema for the tool list of a client: without limits, and without rare arguments but these."""
        listed = (one for one in self.parameters if one.name not in self.rare or one.name in names)
        return schema_of(listed, older=bool(self.alias), camel=camel, with_limits=False)

    @property
    def output_schema(self) -> Mapping[str, Any]:
        """Return the JSON schema of its structured replies."""
        return OUTPUT_SCHEMAS.get(self.name, OTHER_TOOLS)

    @property
    def hints(self) -> Hints:
        """Return the annotations that follow from what it touches."""
        return Hints(
            read_only=self.touches == "nothing",
            destructive=self.destructive or self.touches in ("files", "anything"),
            idempotent=self.touches in ("nothing", "index"),
        )

    @property
    def meta(self) -> dict[str, Any]:
        """Return hints for `_meta`: the longest reply of one client, and the tools that others always load."""
        return {"anthropic/maxResultSizeChars": 500_000} | ({"anthropic/alwaysLoad": True} if self.always_load else {})

    @property
    def one_liner(self) -> str:
        """Return the first sentence of its description."""
        return self.description.split(". ")[0].rstrip(".") + "."

    def under(self, alias: str) -> "Tool":
        """Return the tool as it is under a name in the documents: with the names and defaults of arguments there."""
        defaults = self.aliases[alias]
        parameters = tuple(
            replace(parameter, default=defaults.get(parameter.name, parameter.default)) for parameter in self.parameters
        )
        description = f"{self.one_liner} Another name of {self.name}."
        rare = self.rare - defaults.keys()
        return replace(self, alias=alias, description=description, parameters=parameters, rare=rare)

    def call(self, engine: Any, arguments: Any, call: Call) -> Reply:
        """Bind the arguments and run. Raises: the errors of the Engine, and InvalidArgument."""
        values = bind(self.parameters, arguments)
        if "format" in values and (call.structured or values["format"] == ""):
            values["format"] = "text" if call.is_brief else "json"
        context = (engine, call) if self.takes_call else (engine,)
        reply = self.run(*context, **values)
        if call.structured:
            return replace(reply, text=write_structured(reply.text))
        if call.is_brief and values.get("format") != "json":
            return replace(reply, text=format_reply(reply.text))
        return reply


def tool(
    *, touches: Touches, error_fields: Mapping[str, Any] | None = None, **options: Any
) -> Callable[[Callable[..., Reply]], Tool]:
    """Make a tool from a function `(engine, [call,] ..., *, ...) -> Reply`. `options` are other fields of `Tool`.

    Arguments after the `*` are rare.
    """

    def make_tool(run: Callable[..., Reply]) -> Tool:
        signature = inspect.signature(run).parameters
        parameters = []
        for argument in signature.values():
            if argument.name not in ("engine", "call"):
                _, kind, *older = get_args(argument.annotation)  # the type, then its other names
                default = REQUIRED if argument.default is argument.empty else argument.default
                if default is REQUIRED and isinstance(kind, TextArg):
                    kind = replace(kind, least=max(1, kind.least))
                parameters.append(Parameter(argument.name, kind, default, tuple(older)))
        rare = (argument.name for argument in signature.values() if argument.kind is argument.KEYWORD_ONLY)
        return Tool(
            name=getattr(run, "__name__", ""),
            description=" ".join((run.__doc__ or "").split()),
            parameters=tuple(parameters),
            touches=touches,
            run=run,
            takes_call="call" in signature,
            rare=frozenset(rare),
            error_fields=error_fields or {},
            **options,
        )

    return make_tool
