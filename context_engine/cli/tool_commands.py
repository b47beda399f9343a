"""Commands of the terminal that are views of a tool, made from the declarations of its parameters.

A `ToolCommand` says which parameters of a tool are words and options of the command, and how its reply is shown to a
person; `--json` prints the reply that an agent gets. `command_table` has the commands. A command works in a
`QueryPlace`, so it does the same in a process of its own and in the daemon.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import Parameter, Signature
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from context_engine import tools
from context_engine.cli.command_runner import INTERRUPTED, NOTHING_FOUND
from context_engine.cli.common_options import AsJson, CommandApp, HelpCommand, Root
from context_engine.cli.next_commands import name_commands, name_in_errors
from context_engine.cli.screens import Screen, process_screen
from context_engine.cli.workspace_choice import note_settings, open_engine, warn_of_index

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.server import ToolDispatcher

Values = Mapping[str, Any]
"""The words and options of a command line, by the names of their parameters."""
COLUMN_MAX = 44
"""Width of a column of places; a longer place pushes what follows it."""
NOT_THERE = ("not found: ", "not read: ")
"""The beginnings of a reply's last line that say what is missing."""
_PLACE = re.compile(r"(?P<place> *[^\s:|]*:\d+(?:-\d+)?)(?: (?P<what>.*?))?(?P<code> \| .*)?")
LISTS = ("results", "definitions", "steps", "plans", "memories")
"""The fields of replies that list what was found: if one is empty, nothing was."""


@dataclass(frozen=True, slots=True)
class QueryPlace:
    """Where a command works: the folder that relative paths start from, the Engine of the workspace, the screen.

    `ensure_index` builds the index if there is none, and returns whether there is one; the first text completes
    "nothing ...", the second is the question, whose files are indexed first.
    """

    folder: Path
    open: Callable[[], AbstractContextManager[Engine]]
    screen: Screen
    ensure_index: Callable[[Engine, str, str], bool]


@dataclass(frozen=True, slots=True)
class ShownReply:
    """A reply that is to be shown: what was asked for by which options, the reply, and where."""

    values: Values
    options: Mapping[str, str]
    text: str
    place: QueryPlace
    engine: Engine

    @property
    def row(self) -> dict[str, Any]:
        """The reply as JSON."""
        return json.loads(self.text)

    @property
    def screen(self) -> Screen:
        """The screen of the command."""
        return self.place.screen

    def reword(self, text: str) -> str:
        """Return a text that quotes no code in the words of the terminal."""
        return name_commands(text, self.options)


def show_reply(shown: ShownReply, *, in_columns: bool = False) -> int:
    """Print the text of a tool; return 1 if it lists nothing, or says what is missing.

    On a terminal the places at the beginnings of its lines are colored. Of a reply in columns no line begins with code,
    so all its notes are in the words of the terminal; of another one only the last line may be a note.
    """
    out, lines, last = shown.screen.out, shown.text.split("\n"), shown.text.rstrip("\n").count("\n")
    rows = [_PLACE.fullmatch(line) for line in lines] if out.is_terminal else []
    width = min(COLUMN_MAX, max((len(row["place"]) for row in rows if row and in_columns), default=0))
    for number, (line, row) in enumerate(zip_longest(lines, rows)):
        if row is None:
            is_note = line.startswith((*NOT_THERE, "… ")) or line.partition(": ")[0].isalpha()
            if is_note and (in_columns or number == last):
                out.write(shown.reword(line))
            else:
                (out.show if in_columns else out.write)(line)
            continue
        path, _, span = row["place"].rpartition(":")
        gap = " " * max(1, width + 2 - len(row["place"]))
        out.show((path, "bold cyan"), ":", (span, "green"), f"{gap}{row['what'] or ''}", (row["code"] or "", "dim"))
    return NOTHING_FOUND if shown.text.startswith("0 ") or lines[last].startswith(NOT_THERE) else 0


def show_text(shown: ShownReply) -> int:
    """Print the text of a tool that quotes no code in the words of the terminal; return as `show_reply`."""
    return show_reply(replace(shown, text=shown.reword(shown.text)))


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """A command that calls a tool.

    `words` are the parameters that are given without an option: `*query` takes all further words, and `?plan` may be
    left out. `options` has the other parameters, each with its option if that has another name. `own` are parameters
    of the command alone, which `prepare` reads: it returns the arguments that it adds or replaces. With `shows_json`
    the reply is shown from its JSON, else from its text. `nothing` completes the message of a command that needs the
    index and was interrupted while it was built.
    """

    tool: str
    words: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    defaults: Values = field(default_factory=dict)
    complete: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    prepare: Callable[[Engine, Path, dict[str, Any]], Mapping[str, Any]] = lambda *_: {}
    show: Callable[[ShownReply], int] = show_text
    shows_json: bool = False
    nothing: str = ""

    @property
    def forms(self) -> dict[str, list[str]]:
        """The name of the word, or the option in its forms, for each argument of the tool; the longest form is last."""
        words = [word.strip("*?") for word in self.words]
        options = {name: option.split() or [f"--{name.replace('_', '-')}"] for name, option in self.options.items()}
        return {name: [name.rpartition("_")[0].upper() or name.upper()] for name in words} | options

    def signature(self) -> dict[str, tuple[Any, Any]]:
        """Return (annotation, default) of each parameter of the command."""
        parameters = tools.find(self.tool).parameters if self.tool else ()
        known = {parameter.name: parameter for parameter in parameters}
        listed: dict[str, tuple[Any, Any]] = {}
        forms = self.forms
        for word in self.words:
            name = word.strip("*?")
            metavar = f"{forms[name][0]}{'...' if word.startswith('*') else ''}"
            asked = typer.Argument(
                metavar=f"[{metavar}]" if word.startswith("?") else metavar,
                help=known[name].kind.description,
                autocompletion=self.complete.get(name),
            )
            kind: Any = list[str] if word.startswith("*") else str
            listed[name] = (Annotated[kind, asked], "" if word.startswith("?") else ...)
        listed |= {name: self.own[name] for name in self.own if name not in listed}
        listed["root"] = (Root, None)
        for name in self.options:
            parameter = known[name]
            default = self.defaults.get(name, None if parameter.required else parameter.default)
            listed[name] = _build_option(parameter.kind, forms[name], default, self.complete.get(name))
        return listed | {"as_json": (AsJson, False)}

    def run(self, place: QueryPlace, values: Values) -> int:
        """Call the tool and show its reply; return the exit code. Raises: the error of the tool."""
        options = {name: forms[-1] for name, forms in self.forms.items()}
        with name_in_errors(options):
            return self._run(place, values, options)

    def _run(self, place: QueryPlace, values: Values, options: Mapping[str, str]) -> int:
        as_json = bool(values.get("as_json"))
        given = {name.strip("*?"): name for name in self.words} | {name: name for name in self.options}
        arguments = {name: _read_words(values[name], is_joined=word.startswith("*")) for name, word in given.items()}
        chosen = _drop_unset(arguments)  # a wrong argument is reported before an index is built for it
        tools.bind((parameter for parameter in tools.find(self.tool).parameters if parameter.name in chosen), chosen)
        with place.open() as engine:
            if self.nothing and not self._ensure_index(place, engine, next(iter(arguments.values()), "")):
                return INTERRUPTED
            arguments |= self.prepare(engine, place.folder, {**values, **arguments})
            text = call_for_text(engine, self.tool, _drop_unset(arguments), structured=as_json or self.shows_json)
            if as_json:
                place.screen.out.write(text)
                return exit_code_of(json.loads(text))
            return self.show(ShownReply(values, options, text, place, engine))

    def _ensure_index(self, place: QueryPlace, engine: Engine, question: str) -> bool:
        """Return whether there is an index, after building a missing one; warn of what went wrong with it."""
        is_there = place.ensure_index(engine, self.nothing, question)
        warn_of_index(engine, place.screen)
        if is_there:
            note_settings(engine.notes(), place.screen)
        return is_there


def exit_code_of(row: Mapping[str, Any]) -> int:
    """Return the exit code of a reply: 1 if it lists nothing."""
    return NOTHING_FOUND if any(name in row and not row[name] for name in LISTS) else 0


def _drop_unset(arguments: Values) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value not in (None, "", (), [])}


def _read_words(value: Any, *, is_joined: bool) -> Any:
    """Return a value as its tool takes it: the words of a question as one text, comma lists as their entries."""
    if isinstance(value, list | tuple):
        return " ".join(value) if is_joined else split_lists(value)
    return value


def split_lists(values: Iterable[str]) -> list[str]:
    """Return the entries of comma lists; the commas in the braces of a glob stay.

    >>> split_lists(["python,go", "*.{ts,tsx}", "a,,b"])
    ['python', 'go', '*.{ts,tsx}', 'a', 'b']
    """
    return [part for value in values for part in map(str.strip, tools.split_list(value)) if part]


# -- calling a tool ---------------------------------------------------------------------------------------------------


def call_for_text(engine: Engine, name: str, arguments: Values, *, structured: bool = False) -> str:
    """Return the text of a tool's reply, or its JSON. Raises: the error of the tool."""
    outcome = build_dispatcher(engine, structured=structured).call(name, dict(arguments), tools.Call())
    if outcome.error:
        raise outcome.error
    return outcome.reply.text


def build_dispatcher(opened: Engine | Mapping[str, Engine], *, structured: bool = False) -> ToolDispatcher:
    """Return the dispatcher that a client gets; at the terminal no tool is hidden. `structured`: replies in JSON.

    Of several repositories, by their names, each call says which one it means, or is for all.
    """
    from context_engine.server import ToolDispatcher, ToolSelection, find_project_path, single_engine

    selection = ToolSelection(profiles=("all",), structured=structured)
    if not isinstance(opened, Mapping):
        return ToolDispatcher(single_engine(opened), selection=selection)
    roots = {name: str(engine.root) for name, engine in opened.items()}
    by_root = {str(engine.root): engine for engine in opened.values()}
    return ToolDispatcher(
        lambda project: by_root[find_project_path(roots, project)],
        selection=selection,
        project_names=lambda: tuple(opened),
    )


# -- the parameters of a command line ---------------------------------------------------------------------------------


def _build_option(kind: Any, names: Sequence[str], default: Any, complete: Any) -> tuple[Any, Any]:
    """Return the annotation and the default of an option for a parameter of a tool."""
    among = tuple(filter(None, getattr(kind, "among", ())))
    asked: dict[str, Any] = {"help": kind.description, "autocompletion": complete}
    name, words = type(kind).__name__, str
    if name == "BooleanArg":
        return Annotated[bool, typer.Option(*names, **asked)], bool(default)
    if name == "IntegerArg":
        words, most = int, kind.most
        asked |= {"min": kind.least, "max": most if most != tools.ENDLESS else None}
    elif name == "FractionArg":
        words = float
        asked |= {"min": 0, "max": 1}
    elif name == "TextListArg":
        words, default = list[str], None
        if among and not complete:
            asked["autocompletion"] = lambda incomplete: [(word, "") for word in among if word.startswith(incomplete)]
    elif name == "ChoiceArg":
        words = Literal[among]  # ty: ignore[invalid-type-form] - the words of the tool
    return Annotated[words | None, typer.Option(*names, **asked)], None if default == "" else default


def build_parameters(signature: Mapping[str, tuple[Any, Any]]) -> list[Any]:
    """Build the parameters of a command line, through a function that has them."""

    def stand_in(**_: Any) -> None:
        """Do nothing; this is never called."""

    stand_in.__annotations__ = {name: annotation for name, (annotation, _) in signature.items()}
    stand_in.__signature__ = Signature(  # ty: ignore[missing-attribute] - where `inspect` looks for it
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in signature.items()
        ]
    )
    app = CommandApp(add_completion=False)
    app.command(add_help_option=False)(stand_in)
    return list(typer.main.get_command(app).params)


class ToolCommandLine(HelpCommand):
    """The command line of a `ToolCommand`; its tool is imported when the command is used."""

    def __init__(self, command: ToolCommand, **options: Any) -> None:
        super().__init__(**options)
        self.tool_command = command
        self._own_params: list[Any] = []

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters."""
        if not self._own_params:
            self._own_params = build_parameters(self.tool_command.signature())
        return [*self._own_params, *super().get_params(ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Run the command in this process, and leave with its exit code."""
        raise typer.Exit(run_here(self.tool_command, ctx.params))


def add_commands(app: CommandApp, commands: Mapping[str, ToolCommand]) -> None:
    """Define the commands of a group."""

    def nothing() -> None:
        """Do nothing: `ToolCommandLine.invoke` runs the command."""

    for name, command in commands.items():
        app.command(name, cls=partial(ToolCommandLine, command))(nothing)


def run_here(command: ToolCommand, values: Values) -> int:
    """Run a command in this process; return the exit code. Raises: the error of its tool."""
    unfinished: list[Path] = []

    def ensure_index(engine: Engine, nothing: str, question: str) -> bool:
        if engine.index.is_complete():
            return True
        from context_engine.cli import progress

        is_there = progress.ensure_index(engine, nothing, question)
        if is_there and not engine.index.is_complete():
            unfinished.append(engine.root)
        return is_there

    screen = process_screen()
    code = command.run(QueryPlace(Path.cwd(), lambda: open_engine(values.get("root")), screen, ensure_index), values)
    for folder in unfinished:
        from context_engine.cli.daemon_commands import hand_over_index

        screen.note(hand_over_index(folder))
    return code
