"""What a tool's arguments may be: each kind writes its JSON schema and reads what clients really send.

Clients send "5" for 5, "true" for true, a JSON array or a comma list as one string, camelCase for snake_case and null for
"not given". All of that is understood; what is not understood is refused in words that name the argument and its limits.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from context_engine.errors import ContextEngineError, InvalidArgument, UnknownTool
from context_engine.text.spans import LineSpan
from context_engine.text.untrusted_data import OUTPUT_BYTES_MAX, ParseError, read_json

DESCRIPTION_CHARS_MAX = 80
WRONG_MAX = 20
"""Unknown arguments told of in one error: more than any tool takes."""
ARGUMENTS_MAX = 200
"""Of one call: ten times what any tool takes. More are refused before one of them is looked at."""
REQUIRED: Any = object()
"""Stands for "no default"."""


SHOWN_CHARS_MAX = 60
"""Of a wrong value, an error shows so much: it is to be recognised, not repeated."""
HUGE = 10**SHOWN_CHARS_MAX
"""A whole number from here on is not even written out: Python refuses to write the largest that JSON can carry."""
TEXT_CHARS_MAX = 2_000
"""Nobody searches for more; a text of a tool that takes content has a limit of its own."""
NAME_CHARS_MAX = 100
"""Longer than any name: nothing near is looked for."""
MALFORMED = "malformed"
"""Marks, in an error's details, a refusal that a seed wants on the level of the protocol (JSON-RPC -32602)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentType:
    """What all kinds of arguments share. `says` describes the argument to an agent; the default is added to it."""

    json_type: ClassVar[str] = "string"

    def schema(self) -> dict[str, Any]:
        """The JSON schema of this kind, without description and default."""
        return {"type": self.json_type}

    def read(self, name: str, value: Any) -> Any:
        """The value this kind makes of what the client sent. Raises: InvalidArgument."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TextArg(ArgumentType):
    """A text of `least` to `most` characters."""

    says: str
    least: int = 0
    most: int = TEXT_CHARS_MAX
    empty_is_malformed: bool = False

    def schema(self) -> dict[str, Any]:
        """With its length where that is its own: each word here is paid for in every request of a client."""
        if self.most == TEXT_CHARS_MAX:
            return {"type": "string"}
        return {"type": "string", **({"minLength": self.least} if self.least else {}), "maxLength": self.most}

    def read(self, name: str, value: Any) -> str:
        """Numbers are taken as they are written; anything else that is no text is refused."""
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < HUGE:
            value = str(value)
        if not isinstance(value, str):
            raise argument_error(name, f"must be a text, not {_shape(value)}", f'Write {name}: "...".')
        if self.least and not value.strip():
            raise argument_error(
                name, "is empty", f"Say what to look for in {name}.", malformed=self.empty_is_malformed
            )
        if len(value.strip()) < self.least:
            raise argument_error(
                name, f"is {_written(value)}, which says too little", f"Write at least {self.least} characters."
            )
        if len(value) > self.most:
            raise argument_error(
                name, f"has {len(value):,} characters, at most {self.most:,} are allowed", "Shorten it."
            )
        return _encodable(name, value)


@dataclass(frozen=True, slots=True)
class ChoiceArg(ArgumentType):
    """One of a few words."""

    says: str
    among: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        """With the words."""
        return {"type": "string", "enum": list(self.among)}

    def read(self, name: str, value: Any) -> str:
        """Upper and lower case do not count."""
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in self.among:
            one_of = f"It is one of {', '.join(filter(None, self.among))}."
            raise argument_error(name, f"is {_written(value)}", one_of + suggest_nearest(word, self.among))
        return word


ENDLESS = 10**9
"""Numbers with this limit have none worth telling: no file has so many lines."""


@dataclass(frozen=True, slots=True)
class IntegerArg(ArgumentType):
    """A whole number from `least` to `most`; with `clamp` what lies outside becomes the nearest one inside."""

    says: str
    least: int
    most: int
    clamp: bool = False

    def schema(self) -> dict[str, Any]:
        """With its range, as far as it says something; none where it is clamped: a client would refuse what we take."""
        if self.clamp:
            return {"type": "integer"}
        high = {"maximum": self.most} if self.most < ENDLESS else {}
        return {"type": "integer", "minimum": self.least, **high}

    def read(self, name: str, value: Any) -> int:
        """5, "5" and 5.0 are the same."""
        number = _number(name, value, "a whole number")
        if number != int(number):
            raise argument_error(
                name, f"must be a whole number, not {_written(value)}", f"Write {name}: {int(number)}."
            )
        if self.clamp:
            return max(self.least, min(self.most, int(number)))
        return int(_inside(name, number, self.least, self.most))


@dataclass(frozen=True, slots=True)
class FractionArg(ArgumentType):
    """A number from 0 to 1."""

    says: str

    def schema(self) -> dict[str, Any]:
        """With its range."""
        return {"type": "number", "minimum": 0, "maximum": 1}

    def read(self, name: str, value: Any) -> float:
        """0.5 and "0.5" are the same."""
        return _inside(name, _number(name, value, "a number"), 0, 1)


@dataclass(frozen=True, slots=True)
class BooleanArg(ArgumentType):
    """True or false."""

    json_type: ClassVar[str] = "boolean"
    says: str

    def read(self, name: str, value: Any) -> bool:
        """Words and 0/1 are understood."""
        word = str(value).strip().lower() if isinstance(value, bool | str) or value in (0, 1) else None
        if word in ("true", "1", "1.0", "yes", "on"):
            return True
        if word in ("false", "0", "0.0", "no", "off", ""):
            return False
        raise argument_error(name, f"must be true or false, not {_written(value)}", f"Write {name}: true.")


@dataclass(frozen=True, slots=True)
class TextListArg(ArgumentType):
    """A list of texts, perhaps out of a few words only."""

    says: str
    among: tuple[str, ...] = ()
    most: int = 100

    def schema(self) -> dict[str, Any]:
        """With the words."""
        items: dict[str, Any] = {"type": "string", "enum": list(self.among)} if self.among else {"type": "string"}
        return {"type": "array", "items": items}

    def read(self, name: str, value: Any) -> tuple[str, ...]:
        """A list, a JSON array in a string, or a comma list; blanks and repetitions dropped."""
        if isinstance(value, str) and len(value) > self.most * TEXT_CHARS_MAX:
            raise argument_error(name, f"has {len(value):,} characters", f"Send a list of at most {self.most} entries.")
        listed = _listed(value) if isinstance(value, str) else value
        if not isinstance(listed, list | tuple) or not all(_is_item(item) for item in listed[: self.most]):
            raise argument_error(
                name, f"must be a list of texts, not {_shape(value)}", f'Write {name}: ["one", "two"].'
            )
        if len(listed) > self.most:
            raise argument_error(name, f"has {len(listed):,} entries, at most {self.most} are allowed", "Send fewer.")
        one = TextArg("")
        found = tuple(filter(None, dict.fromkeys(one.read(name, item).strip() for item in listed)))
        if self.among:
            among = ChoiceArg("", self.among)
            return tuple(dict.fromkeys(among.read(name, item) for item in found))
        return found


@dataclass(frozen=True, slots=True)
class ObjectArg(ArgumentType):
    """An object of whatever fields, for somebody else to check."""

    json_type: ClassVar[str] = "object"
    says: str

    def read(self, name: str, value: Any) -> Mapping[str, Any]:
        """An object, or one written as JSON in a text."""
        value = parse_json_text(value) if isinstance(value, str) and value.strip() else value
        if not isinstance(value, Mapping):
            raise argument_error(
                name, f"must be an object, not {_shape(value)}", f'Write {name}: {{"argument": "value"}}.'
            )
        return value


@dataclass(frozen=True, slots=True)
class LineRangesArg(ArgumentType):
    """A list of line ranges, each an object with `start` and `end`. Whether a file has those lines, its reader says."""

    json_type: ClassVar[str] = "array"
    says: str
    most: int = 200

    def schema(self) -> dict[str, Any]:
        """With both ends of a range."""
        ends = {"start": {"type": "integer"}, "end": {"type": "integer"}}
        items = {"type": "object", "properties": ends, "required": [*ends], "additionalProperties": False}
        return {"type": "array", "items": items}

    def read(self, name: str, value: Any) -> tuple[LineSpan, ...]:
        """A list, or one written as JSON in a text; a range alone is a list of one, and numbers may be texts."""
        listed = parse_json_text(value) if isinstance(value, str) else value
        listed = [listed] if isinstance(listed, Mapping) else listed
        if not isinstance(listed, list | tuple):
            raise argument_error(
                name, f"must be a list of ranges, not {_shape(value)}", _SPANS_EXAMPLE.format(name=name)
            )
        if len(listed) > self.most:
            raise argument_error(name, f"has {len(listed):,} entries, at most {self.most} are allowed", "Send fewer.")
        return tuple(self._span(name, each) for each in listed)

    def _span(self, name: str, value: Any) -> LineSpan:
        if not isinstance(value, Mapping) or set(value) != {"start", "end"}:
            raise argument_error(name, "holds what is no range of lines", _SPANS_EXAMPLE.format(name=name))
        line = IntegerArg("", -ENDLESS, ENDLESS)
        return LineSpan(line.read(f"{name}.start", value["start"]), line.read(f"{name}.end", value["end"]))


_SPANS_EXAMPLE = 'Write {name}: [{{"start": 10, "end": 20}}].'


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool: its name in snake_case, its kind, and its default (`REQUIRED`: none)."""

    name: str
    kind: Any
    default: Any = REQUIRED

    @property
    def required(self) -> bool:
        """Whether a call without it is refused."""
        return self.default is REQUIRED

    def schema(self) -> dict[str, Any]:
        """Its JSON schema. The default stands in the description alone: one client strips the keyword, all pay for it."""
        says = self.kind.says
        if self.default is REQUIRED or self.default is None or self.default in ("", (), {}):
            return {**self.kind.schema(), "description": says}
        written = json.dumps(self.default).strip('"')
        return {**self.kind.schema(), "description": f"{says.rstrip('.')} (default {written})."}


def schema_of(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The input schema of a tool."""
    listed = list(parameters)
    schema: dict[str, Any] = {"type": "object", "properties": {each.name: each.schema() for each in listed}}
    if required := [each.name for each in listed if each.required]:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def bind(parameters: Iterable[Parameter], arguments: Any) -> dict[str, Any]:
    """The arguments of a call by parameter name: named right, read, checked, defaults filled in.

    Raises: InvalidArgument, which tells of every wrong argument, each with the nearest valid name or its limits.
    """
    known = {each.name: each for each in parameters}
    arguments = parse_json_text(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(arguments, Mapping | None):
        raise InvalidArgument(f"arguments must be an object, not {_shape(arguments)}")
    if arguments and len(arguments) > ARGUMENTS_MAX:
        raise InvalidArgument(
            f"a call has at most {ARGUMENTS_MAX} arguments, and this one has {len(arguments):,}",
            suggestion=f"It takes {', '.join(known) or 'no arguments'}.",
            details={"valid": list(known)},
        )
    given, wrong = _named(known, arguments or {})
    values: dict[str, Any] = {}
    for name, each in known.items():
        try:
            values[name] = _value(each, given.get(name))
        except InvalidArgument as error:
            wrong.append(error)
    if wrong:
        raise _together(wrong)
    return values


def parse_json_text(text: str) -> Any:
    """What a JSON text holds; the text itself when it is none, or is nested deeper than anybody means."""
    try:
        return read_json(text, bytes_max=OUTPUT_BYTES_MAX)
    except ParseError:
        return text


def to_snake_case(name: str) -> str:
    """`includeDeps` -> `include_deps`.

    >>> to_snake_case("includeDeps"), to_snake_case("top_k"), to_snake_case("topK"), to_snake_case("include-paths")
    ('include_deps', 'top_k', 'top_k', 'include_paths')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def suggest_nearest(word: str, known: Iterable[str]) -> str:
    """The words "Did you mean ...?" when something close is known, else nothing."""
    close = difflib.get_close_matches(word, list(known), 1, 0.6) if len(word) <= NAME_CHARS_MAX else ()
    return f" Did you mean {close[0]}?" if close else ""


def argument_error(name: str, why: str, suggestion: str = "", *, malformed: bool = False) -> InvalidArgument:
    """The error about one argument."""
    details = {"argument": name} | ({MALFORMED: True} if malformed else {})
    return InvalidArgument(f"{name} {why}", suggestion=suggestion.strip(), details=details)


def is_malformed(error: ContextEngineError) -> bool:
    """Whether the protocol itself must refuse the call: an unknown tool, or what a seed calls malformed."""
    return isinstance(error, UnknownTool) or bool(error.details.get(MALFORMED))


def _named(
    known: Mapping[str, Parameter], arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], list[InvalidArgument]]:
    """The values by parameter name, and what cannot be placed."""
    given: dict[str, Any] = {}
    wrong: list[InvalidArgument] = []
    for key, value in arguments.items():
        name = key if key in known else to_snake_case(str(key)[:NAME_CHARS_MAX])
        if name not in known:
            wrong += [_unknown(str(key), name, known)] if len(wrong) < WRONG_MAX else []
        elif name in given and given[name] != value:
            wrong.append(argument_error(name, "is given twice with different values", "Send it once."))
        else:
            given[name] = value
    return given, wrong


def _together(wrong: Sequence[InvalidArgument]) -> InvalidArgument:
    """One error for all of them; a single one stays as it is."""
    if len(wrong) == 1:
        return wrong[0]
    rows = [each.details | {"message": each.message, "suggestion": each.suggestion} for each in wrong]
    malformed = {MALFORMED: True} if any(MALFORMED in each.details for each in wrong) else {}
    return InvalidArgument(
        "; ".join(each.message for each in wrong),
        suggestion=" ".join(dict.fromkeys(each.suggestion for each in wrong if each.suggestion)),
        details={"arguments": rows} | malformed,
    )


def _unknown(key: str, name: str, known: Mapping[str, Parameter]) -> InvalidArgument:
    suggestion = suggest_nearest(name, known).strip() or f"It takes {', '.join(known) or 'no arguments'}."
    shown = key[:SHOWN_CHARS_MAX]
    return InvalidArgument(
        f"unknown argument {shown!r}", suggestion=suggestion, details={"argument": shown, "valid": list(known)}
    )


def _value(parameter: Parameter, sent: Any) -> Any:
    if sent is not None:
        return parameter.kind.read(parameter.name, sent)
    if not parameter.required:
        return parameter.default
    malformed = getattr(parameter.kind, "empty_is_malformed", False)
    raise argument_error(parameter.name, "is missing", parameter.kind.says, malformed=malformed)


def _number(name: str, value: Any, wanted: str) -> float:
    if isinstance(value, str):
        try:
            value = float(value.strip().replace("_", ""))
        except ValueError:
            raise argument_error(name, f"must be {wanted}, not {_written(value)}", f"Write {name}: 1.") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        raise argument_error(name, f"must be {wanted}, not {_shape(value)}", f"Write {name}: 1.")
    return value


def _inside(name: str, number: float, least: float, most: float) -> float:
    if not least <= number <= most:
        raise argument_error(name, f"is {_written(number)}", f"It goes from {least} to {most}.")
    return number


def _listed(text: str) -> Any:
    """A JSON array, or parts between commas; what is no JSON after all may be a glob (`[ab]*.py`)."""
    if text.lstrip().startswith("["):
        found = parse_json_text(text)
        if isinstance(found, list):
            return found
    return _parts(text)


def _parts(text: str) -> list[str]:
    """The parts between commas; commas inside braces belong to a glob.

    >>> _parts("src/*.{ts,tsx},docs/**"), _parts("{a,b")
    (['src/*.{ts,tsx}', 'docs/**'], ['{a', 'b'])
    """
    parts: list[str] = []
    inside = 0
    for part in text.split(","):
        if inside > 0:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
        inside += part.count("{") - part.count("}")
    return parts if inside <= 0 else text.split(",")


def _is_item(value: Any) -> bool:
    """A text, or a whole number that stands for one."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def _encodable(name: str, text: str) -> str:
    """The text, if it can be written at all: JSON can carry halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argument_error(name, "holds half a character (a lone surrogate)", "Send the character whole.") from None
    return text


def _written(value: Any) -> str:
    """A value as an error shows it: whole when it is short, else its beginning or what it is.

    >>> _written("yes"), _written(5), _written([1, 2]), _written("x" * 100)[-5:], _written(10**5000)
    ("'yes'", '5', 'a list', "x'...", 'a huge number')
    """
    if isinstance(value, str):
        return repr(value[:SHOWN_CHARS_MAX]) + ("..." if len(value) > SHOWN_CHARS_MAX else "")
    if isinstance(value, int) and abs(value) >= HUGE:
        return "a huge number"
    return str(value) if isinstance(value, bool | int | float) else _shape(value)


def _shape(value: Any) -> str:
    names = {bool: "a flag", str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)
