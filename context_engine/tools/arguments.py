"""Types of tool arguments. Each type writes its JSON schema and reads what clients really send.

Clients send "5" for 5, "true" for true, a JSON array or a comma list as one string, camelCase for snake_case and null
for "not given". All of these are accepted. An error about any other value names the argument and its limits.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from context_engine.errors import ContextEngineError, InvalidArgument, UnknownTool
from context_engine.model import QUESTION_CHARS_MAX
from context_engine.text import (
    OUTPUT_BYTES_MAX,
    LineSpan,
    ParseError,
    compact_json,
    find_near_words,
    read_json,
    suggest_nearest,
)

UNKNOWN_MAX = 5
"""Unknown arguments that one error reports."""
ARGUMENTS_MAX = 200
"""Arguments of one call: ten times what any tool takes. More are rejected before any of them is read."""
REQUIRED: Any = object()
"""The default of an argument that has none."""
SHOWN_CHARS_MAX = 60
"""Characters of a wrong value that an error shows: enough to recognize it."""
HUGE = 10**SHOWN_CHARS_MAX
"""Integers from here on are not formatted: Python refuses to format the largest that JSON can contain."""
ENDLESS = 10**9
"""An integer argument with this maximum has no stated limit: no file has so many lines."""
TEXT_CHARS_MAX = 2_000
"""Longest name, reason or note; a question may have QUESTION_CHARS_MAX, and content has limits of its own."""
NAME_CHARS_MAX = 100
"""Longest name for which a similar name is suggested."""
LIMITS = frozenset(("minimum", "maximum", "minLength", "maxLength"))
"""The fields of a schema that a list of tools leaves out: a client pays for them in every request."""
MALFORMED = "malformed"
"""Marks, in an error's details, an error that an upstream spec wants at the protocol level (JSON-RPC -32602)."""
_LINES = re.compile(r"\s*(\d{1,9})\s*(?:[-:,]\s*(\d{1,9})\s*)?")


@dataclass(frozen=True, slots=True)
class ArgumentType:
    """Base of all argument types. `description` is what an agent reads; the default is added to it."""

    SCHEMA: ClassVar[Mapping[str, Any]] = {"type": "string"}
    description: str

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of this type, without description and default."""
        return {**self.SCHEMA}

    def read(self, name: str, value: Any) -> Any:
        """Return the value for what the client sent. Raises: InvalidArgument."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TextArg(ArgumentType):
    """A text of `least` to `most` characters."""

    least: int = 0
    most: int = TEXT_CHARS_MAX
    empty_is_malformed: bool = False

    def schema(self) -> dict[str, Any]:
        """Include the length limits unless they are the usual ones: a client pays for each word in every request."""
        if self.most in (TEXT_CHARS_MAX, QUESTION_CHARS_MAX):
            return {"type": "string"}
        return {"type": "string", **({"minLength": self.least} if self.least else {}), "maxLength": self.most}

    def read(self, name: str, value: Any) -> str:
        """Accept a text or a number."""
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < HUGE:
            value = str(value)
        if not isinstance(value, str):
            raise argument_error(name, f"must be a text, not {_name_type(value)}", f'Write {name}: "...".')
        size = len(value.strip())
        if self.least and not size:
            raise argument_error(name, "is empty", f"Write a text for {name}.", malformed=self.empty_is_malformed)
        if size < self.least:
            wrong = f"is {_format_value(value)}, which is too short"
            raise argument_error(name, wrong, f"Write at least {self.least} characters.")
        if len(value) > self.most:
            wrong = f"has {len(value):,} characters, at most {self.most:,} are allowed"
            raise argument_error(name, wrong, "Shorten it.")
        try:
            value.encode()
        except UnicodeEncodeError:  # JSON can contain half a surrogate pair
            wrong = "contains half a character (a lone surrogate)"
            raise argument_error(name, wrong, "Send the character whole.") from None
        return value


@dataclass(frozen=True, slots=True)
class ChoiceArg(ArgumentType):
    """One of a few words."""

    among: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        """Include the words; an empty one, which means that none is chosen, is not a word to a client."""
        return {"type": "string", "enum": list(filter(None, self.among))}

    def read(self, name: str, value: Any) -> str:
        """Accept one of the words in any case."""
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in self.among:
            one_of = f"It must be one of {', '.join(filter(None, self.among))}."
            raise argument_error(name, f"is {_format_value(value)}", one_of + suggest_nearest(word, self.among))
        return word


@dataclass(frozen=True, slots=True)
class IntegerArg(ArgumentType):
    """An integer from `least` to `most`. With `clamp`, a value outside becomes the nearest limit."""

    least: int
    most: int
    clamp: bool = False

    def schema(self) -> dict[str, Any]:
        """Include the range, except with `clamp`: a client would reject values that the tool accepts."""
        if self.clamp:
            return {"type": "integer"}
        high = {"maximum": self.most} if self.most < ENDLESS else {}
        return {"type": "integer", "minimum": self.least, **high}

    def read(self, name: str, value: Any) -> int:
        """Accept 5, "5" and 5.0 alike."""
        number = _read_number(name, value, "a whole number")
        if number != int(number):
            shown = _format_value(value)
            raise argument_error(name, f"must be a whole number, not {shown}", f"Write {name}: {int(number)}.")
        if self.clamp:
            return max(self.least, min(self.most, int(number)))
        return int(_check_range(name, number, self.least, self.most))


@dataclass(frozen=True, slots=True)
class FractionArg(ArgumentType):
    """A number from 0 to 1."""

    SCHEMA: ClassVar[Mapping[str, Any]] = {"type": "number", "minimum": 0, "maximum": 1}

    def read(self, name: str, value: Any) -> float:
        """Accept 0.5 and "0.5" alike."""
        return _check_range(name, _read_number(name, value, "a number"), 0, 1)


@dataclass(frozen=True, slots=True)
class BooleanArg(ArgumentType):
    """True or false."""

    SCHEMA: ClassVar[Mapping[str, Any]] = {"type": "boolean"}

    def read(self, name: str, value: Any) -> bool:
        """Accept true and false, 0 and 1, and the usual words for them."""
        is_readable = isinstance(value, bool | str) or value in (0, 1)
        word = str(value).strip().lower() if is_readable else None
        if word in ("true", "1", "1.0", "yes", "on"):
            return True
        if word in ("false", "0", "0.0", "no", "off", ""):
            return False
        raise argument_error(name, f"must be true or false, not {_format_value(value)}", f"Write {name}: true.")


@dataclass(frozen=True, slots=True)
class TextListArg(ArgumentType):
    """A list of texts, or of some words if `among` has any."""

    among: tuple[str, ...] = ()
    most: int = 100

    def schema(self) -> dict[str, Any]:
        """Include the words."""
        words = {"enum": list(self.among)} if self.among else {}
        return {"type": "array", "items": {"type": "string", **words}}

    def read(self, name: str, value: Any) -> tuple[str, ...]:
        """Accept a list, a JSON array in a string, or a comma list; drop empty texts and repetitions."""
        if isinstance(value, str) and len(value) > self.most * TEXT_CHARS_MAX:
            raise argument_error(name, f"has {len(value):,} characters", f"Send a list of at most {self.most} entries.")
        items = split_list(value) if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not {type(item) for item in items[: self.most]} <= {str, int}:
            shown = _name_type(value)
            raise argument_error(name, f"must be a list of texts, not {shown}", f'Write {name}: ["one", "two"].')
        if len(items) > self.most:
            raise argument_error(name, f"has {len(items):,} entries, at most {self.most} are allowed", "Send fewer.")
        texts = filter(None, (TextArg("").read(name, item).strip() for item in items))
        if self.among:
            texts = (ChoiceArg("", self.among).read(name, text) for text in texts)
        return tuple(dict.fromkeys(texts))


@dataclass(frozen=True, slots=True)
class ObjectArg(ArgumentType):
    """An object that the tool checks. Without `fields` their names are free, and the schema asks for JSON in a text.

    Gemini and the strict mode of OpenAI refuse an object of which no field is named.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """Include the fields."""
        return {"type": "object", "properties": dict(self.fields)} if self.fields else {"type": "string"}

    def read(self, name: str, value: Any) -> Mapping[str, Any]:
        """Accept an object, or JSON text of one."""
        fields = parse_json_text(value)
        if not isinstance(fields, Mapping):
            wrong = f"must be an object, not {_name_type(fields)}"
            raise argument_error(name, wrong, f'Write {name}: {{"argument": "value"}}.')
        return fields


@dataclass(frozen=True, slots=True)
class ObjectListArg(ArgumentType):
    """A list of objects that the tool checks. `alone` is the field for a text in place of an object."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    alone: str = ""
    most: int = 100

    def schema(self) -> dict[str, Any]:
        """Include the fields."""
        return {"type": "array", "items": {"type": "object", "properties": dict(self.fields)}}

    def read(self, name: str, value: Any) -> tuple[Any, ...]:
        """Return a list; accept JSON in a text, or a single object."""
        return tuple(read_objects(name, value, self.most, f"Write {name}: [{{...}}].", alone=self.alone))


def read_objects(
    name: str, value: Any, most: int, example: str, *, least: int = 0, alone: str = ""
) -> list[Mapping[str, Any]]:
    """Accept a list of objects, JSON text of one, or a single object. Raises: InvalidArgument.

    With `alone`, a text in place of an object is an object with that one field.
    """
    items = parse_json_text(value)
    listed = [items] if isinstance(items, Mapping) or (alone and isinstance(items, str)) else items
    if isinstance(listed, list | tuple):  # an entry over the limit may be anything: its text is not even parsed
        listed = [*map(parse_json_text, listed[:most]), *listed[most:]]
    if isinstance(listed, list) and alone:
        listed = [{alone: item} if isinstance(item, str) else item for item in listed]
    if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
        raise argument_error(name, "must be a list of objects", example)
    if not least <= len(listed) <= most:
        raise argument_error(name, f"has {len(listed):,} entries, {least} to {most} are allowed", example)
    return listed


@dataclass(frozen=True, slots=True)
class LineRangeArg(ArgumentType):
    """A range of lines, both ends included; empty for none."""

    def read(self, name: str, value: Any) -> LineSpan:
        """Accept an object with `start` and `end`, a pair, "10-20", or one line."""
        value = parse_json_text(value)
        ends: Sequence[Any] = ()
        if isinstance(value, Mapping):
            ends = [value.get("start"), value.get("end")] if set(value) <= {"start", "end"} else ()
        elif isinstance(value, list | tuple):
            ends = value
        elif isinstance(value, int) and not isinstance(value, bool):
            ends = [value, value]
        elif match := _LINES.fullmatch(value if isinstance(value, str) else ""):
            ends = [match[1], match[2] or match[1]]
        if len(ends) != 2 or None in ends:
            raise argument_error(name, "is not a line range", 'Write {"start": 10, "end": 20}, or "10-20".')
        return LineSpan(*(IntegerArg("", -ENDLESS, ENDLESS).read(name, end) for end in ends))


@dataclass(frozen=True, slots=True)
class LineRangesArg(ArgumentType):
    """A list of line ranges, each an object with `start` and `end`. The tool checks whether a file has those lines."""

    SCHEMA: ClassVar[Mapping[str, Any]] = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"start": {"type": "integer"}, "end": {"type": "integer"}},
            "required": ["start", "end"],
            "additionalProperties": False,
        },
    }
    most: int = 200

    def read(self, name: str, value: Any) -> tuple[LineSpan, ...]:
        """Accept a list, JSON text of one, or a single range; the numbers may be texts."""
        listed = read_objects(name, value, self.most, f'Write {name}: [{{"start": 10, "end": 20}}].')
        return tuple(LineRangeArg("").read(name, ends) for ends in listed)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool: its name in snake_case, its type, its default (`REQUIRED`: none), and its older names."""

    name: str
    kind: Any
    default: Any = REQUIRED
    older: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether a call must have it."""
        return self.default is REQUIRED

    def schema(self, *, with_limits: bool = True) -> dict[str, Any]:
        """Return its JSON schema, with the default unless that is empty, false or, out of range, means "not given".

        The limits of its value can be left out, since an error names them.
        """
        schema: dict[str, Any] = {**self.kind.schema(), "description": self.kind.description}
        is_empty = self.default in ("", (), {}) or any(self.default is none for none in (REQUIRED, None, False))
        if not is_empty and not (self.default == 0 and schema.get("minimum", 0) > 0):
            schema["default"] = list(self.default) if isinstance(self.default, tuple) else self.default
        return {key: value for key, value in schema.items() if with_limits or key not in LIMITS}

    def under(self, *, older: bool, camel: bool = False) -> str:
        """Return its name, or the one that it had before; with `camel`, in camelCase."""
        name = self.older[0] if older and self.older else self.name
        first, *rest = name.split("_") if camel else [name]
        return first + "".join(map(str.capitalize, rest))


def schema_of(
    parameters: Iterable[Parameter], *, older: bool = False, camel: bool = False, with_limits: bool = True
) -> dict[str, Any]:
    """Return the input schema of a tool; with `older`, under the names that its arguments had before."""
    listed = {parameter.under(older=older, camel=camel): parameter for parameter in parameters}
    properties = {name: parameter.schema(with_limits=with_limits) for name, parameter in listed.items()}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [name for name, parameter in listed.items() if parameter.required]:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def bind(parameters: Iterable[Parameter], arguments: Any) -> dict[str, Any]:
    """Read the arguments of a call: map their names, check their values, and fill in the defaults.

    Raises: InvalidArgument, which names every wrong argument, with the corrected call or the limits of a value.
    """
    known = {parameter.name: parameter for parameter in parameters}
    arguments = parse_json_text(arguments)
    if not isinstance(arguments, Mapping | None):
        raise InvalidArgument(f"arguments must be an object, not {_name_type(arguments)}")
    if arguments and len(arguments) > ARGUMENTS_MAX:
        raise InvalidArgument(
            f"a call has at most {ARGUMENTS_MAX} arguments, and this one has {len(arguments):,}",
            suggestion=f"It takes {', '.join(known) or 'no arguments'}.",
        )
    sent, unknown, errors = _match_names(known, arguments or {})
    values: dict[str, Any] = {}
    for name, parameter in known.items():
        try:
            if name in sent:
                values[name] = parameter.kind.read(*sent[name])
            elif not parameter.required:
                values[name] = parameter.default
        except InvalidArgument as error:
            errors.append(error)
    missing = [parameter for name, parameter in known.items() if parameter.required and name not in sent]
    if unknown or missing:
        right = {name: given for name, given in sent.items() if name in values}
        errors.insert(0, _names_error(known, right, unknown, missing))
    if not errors:
        return values
    if len(errors) == 1:
        raise errors[0]
    is_broken = any(MALFORMED in error.details for error in errors)
    raise InvalidArgument(
        "; ".join(error.message for error in errors),
        suggestion=" ".join(dict.fromkeys(error.suggestion for error in errors if error.suggestion)),
        details={"argument": errors[0].details["argument"]} | ({MALFORMED: True} if is_broken else {}),
    )


def parse_json_text(value: Any) -> Any:
    """Return the value of a JSON text; anything else, and what is nested too deep, stays as it is."""
    try:
        return read_json(value, bytes_max=OUTPUT_BYTES_MAX) if isinstance(value, str) else value
    except ParseError:
        return value


def to_snake_case(name: str) -> str:
    """Convert a name to snake_case.

    >>> to_snake_case("includeDeps"), to_snake_case("top_k"), to_snake_case("topK"), to_snake_case("include-paths")
    ('include_deps', 'top_k', 'top_k', 'include_paths')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def argument_error(name: str, why: str, suggestion: str = "", *, malformed: bool = False) -> InvalidArgument:
    """Build the error about one argument."""
    details = {"argument": name} | ({MALFORMED: True} if malformed else {})
    return InvalidArgument(f"{name} {why}", suggestion=suggestion.strip(), details=details)


def is_malformed(error: ContextEngineError) -> bool:
    """Whether an error belongs to the protocol level: an unknown tool, or an argument that an upstream spec rejects."""
    return isinstance(error, UnknownTool) or bool(error.details.get(MALFORMED))


def _match_names(
    known: Mapping[str, Parameter], arguments: Mapping[str, Any]
) -> tuple[dict[str, tuple[str, Any]], dict[str, Any], list[InvalidArgument]]:
    """Return parameter -> the name and the value that were sent, the unknown arguments, and an error for repetitions.

    Null means that the client did not send an argument.
    """
    names = {older: parameter.name for parameter in known.values() for older in parameter.older}
    names |= {name: name for name in known}
    sent: dict[str, tuple[str, Any]] = {}
    unknown: dict[str, Any] = {}
    errors: list[InvalidArgument] = []
    for key, value in arguments.items():
        written = key if key in names else to_snake_case(str(key)[:NAME_CHARS_MAX])
        name = names.get(written, "")
        if name in sent and sent[name][1] != value:
            errors.append(argument_error(written, "is given twice with different values", "Send it once."))
        elif name and value is not None:
            sent[name] = written, value
        elif not name and len(unknown) < UNKNOWN_MAX:
            unknown[str(key)[:SHOWN_CHARS_MAX]] = value
    return sent, unknown, errors


NAMES_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "path": ("include", "include_paths", "under", "paths"),
    "file": ("path", "include", "include_paths"),
    "directory": ("path", "include", "include_paths"),
    "glob": ("include", "include_paths"),
    "pattern": ("query", "name"),
    "regex": ("query",),
    "text": ("query",),
    "start_line": ("items", "lines", "line_range"),
    "offset": ("items", "lines", "cursor"),
    "end_line": ("items", "lines", "line_range"),
    "replace_all": ("edits",),
    "head_limit": ("limit", "max_matches"),
    "type": ("kind", "languages"),
    "usages": ("relation",),
}
"""An argument of tools of other products -> our arguments that do the same, the best first."""


def _names_error(
    known: Mapping[str, Parameter],
    sent: Mapping[str, tuple[str, Any]],
    unknown: Mapping[str, Any],
    missing: Sequence[Parameter],
) -> InvalidArgument:
    """Build the error about unknown and missing arguments, with the call that was probably meant."""
    call = {written: _repeat_value(value) for written, value in sent.values()}
    wanted = [parameter.name for parameter in missing]
    others = []
    for key, value in unknown.items():
        name = _find_meant(to_snake_case(key), known)
        if name and name not in sent:
            call.setdefault(name, _repeat_value(value))
        else:
            others.append(_repeat_value(value))
    for name in wanted:
        if name not in call:
            call[name] = others.pop(0) if others else "..."
    parts = [f"unknown argument {', '.join(map(repr, unknown))}"] if unknown else []
    parts += [f"{' and '.join(wanted)} {'is' if len(wanted) == 1 else 'are'} missing"] if wanted else []
    details = {"argument": [*unknown, *wanted][0]}
    if any(getattr(parameter.kind, "empty_is_malformed", False) for parameter in missing):
        details[MALFORMED] = True
    return InvalidArgument("; ".join(parts), suggestion=f"Send {compact_json(call)}", details=details)


def _find_meant(key: str, known: Mapping[str, Parameter]) -> str:
    """Return the argument that an unknown one was probably meant to be; empty if none is like it."""
    names = {name: parameter.name for parameter in known.values() for name in (*parameter.older, parameter.name)}
    elsewhere = [ours for ours in NAMES_ELSEWHERE.get(key, ()) if ours in known]
    near = find_near_words(key, names, 1)
    return next((names[name] for name in (*elsewhere, *near)), "")


def _repeat_value(value: Any) -> Any:
    """Return a value as an error repeats it: dots for one that is long or has parts."""
    is_short = len(value) <= SHOWN_CHARS_MAX if isinstance(value, str) else isinstance(value, bool | int | float)
    return value if is_short and not _is_huge(value) else "..."


def _read_number(name: str, value: Any, expected: str) -> float:
    if isinstance(value, str):
        try:
            value = float(value.strip().replace("_", ""))
        except ValueError:
            shown = _format_value(value)
            raise argument_error(name, f"must be {expected}, not {shown}", f"Write {name}: 1.") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < float("inf"):  # also not NaN
        raise argument_error(name, f"must be {expected}, not {_name_type(value)}", f"Write {name}: 1.")
    return value


def _check_range(name: str, number: float, least: float, most: float) -> float:
    if not least <= number <= most:
        raise argument_error(name, f"is {_format_value(number)}", f"It must be between {least} and {most}.")
    return number


def split_list(text: str) -> list[Any]:
    """Parse a JSON array, or split a text at its commas, except inside the braces of a glob.

    >>> split_list('["a,b"]'), split_list("src/*.{ts,tsx},docs/**"), split_list("{a,b")
    (['a,b'], ['src/*.{ts,tsx}', 'docs/**'], ['{a', 'b'])
    """
    if text.lstrip().startswith("[") and isinstance(array := parse_json_text(text), list):
        return array  # else it may be a glob such as `[ab]*.py`
    parts: list[str] = []
    open_braces = 0
    for part in text.split(","):
        if open_braces > 0:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
        open_braces += part.count("{") - part.count("}")
    return parts if open_braces <= 0 else text.split(",")


def _format_value(value: Any) -> str:
    """Format a value for an error: short ones in full, others by their beginning or their type.

    >>> _format_value("yes"), _format_value(5), _format_value([1, 2]), _format_value("x" * 100)[-5:]
    ("'yes'", '5', 'a list', "x'...")
    >>> _format_value(10**5000)
    'a huge number'
    """
    if isinstance(value, str):
        return repr(value[:SHOWN_CHARS_MAX]) + ("..." if len(value) > SHOWN_CHARS_MAX else "")
    if _is_huge(value):
        return "a huge number"
    if isinstance(value, bool | int | float):
        return str(value)
    return _name_type(value)


def _is_huge(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= HUGE


def _name_type(value: Any) -> str:
    names = {bool: "a flag", str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)
