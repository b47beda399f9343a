"""What a tool's arguments may be: each kind writes its JSON schema and reads what clients really send.

Clients send "5" for 5, "true" for true, a JSON array or a comma list as one string, camelCase for snake_case and null for
"not given". All of that is understood; what is not understood is refused in words that name the argument and its limits.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from context_engine.errors import ContextEngineError, InvalidArgument, UnknownTool

DESCRIPTION_CHARS_MAX = 80
REQUIRED: Any = object()
"""Stands for "no default"."""


MALFORMED = "malformed"
"""Marks, in an error's details, a refusal that a seed wants on the level of the protocol (JSON-RPC -32602)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What all kinds of arguments share. `says` describes the argument to an agent; the default is added to it."""

    json_type: ClassVar[str] = "string"

    def schema(self) -> dict[str, Any]:
        """The JSON schema of this kind, without description and default."""
        return {"type": self.json_type}

    def read(self, name: str, value: Any) -> Any:
        """The value this kind makes of what the client sent. Raises: InvalidArgument."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """A text of `least` to `most` characters."""

    says: str
    least: int = 0
    most: int = 2_000
    empty_is_malformed: bool = False

    def schema(self) -> dict[str, Any]:
        """With its length."""
        low = {"minLength": self.least} if self.least else {}
        return {"type": "string", **low, "maxLength": self.most}

    def read(self, name: str, value: Any) -> str:
        """Numbers are taken as they are written; anything else that is no text is refused."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise refused(name, f"must be a text, not {_shape(value)}")
        if self.least and not value.strip():
            raise refused(name, "is empty", f"Say what to look for in {name}.", malformed=self.empty_is_malformed)
        if len(value) > self.most:
            raise refused(name, f"has {len(value):,} characters, at most {self.most:,} are allowed", "Shorten it.")
        return value


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few words."""

    says: str
    among: tuple[str, ...]

    def schema(self) -> dict[str, Any]:
        """With the words."""
        return {"type": "string", "enum": list(self.among)}

    def read(self, name: str, value: Any) -> str:
        """Upper and lower case do not count."""
        word = value.strip().lower() if isinstance(value, str) else value
        if word not in self.among:
            raise refused(name, f"is {value!r}", f"It is one of {', '.join(self.among)}.{near(str(word), self.among)}")
        return str(word)


@dataclass(frozen=True, slots=True)
class Whole(Kind):
    """A whole number from `least` to `most`; with `clamp` what lies outside becomes the nearest one inside."""

    says: str
    least: int
    most: int
    clamp: bool = False

    def schema(self) -> dict[str, Any]:
        """With its range; none where it is clamped, since a strict client would refuse what we would take."""
        return {"type": "integer"} if self.clamp else {"type": "integer", "minimum": self.least, "maximum": self.most}

    def read(self, name: str, value: Any) -> int:
        """5, "5" and 5.0 are the same."""
        number = _number(name, value, "a whole number")
        if number != int(number):
            raise refused(name, f"must be a whole number, not {value}")
        if self.clamp:
            return max(self.least, min(self.most, int(number)))
        return int(_inside(name, number, self.least, self.most))


@dataclass(frozen=True, slots=True)
class Share(Kind):
    """A number from 0 to 1."""

    says: str

    def schema(self) -> dict[str, Any]:
        """With its range."""
        return {"type": "number", "minimum": 0, "maximum": 1}

    def read(self, name: str, value: Any) -> float:
        """0.5 and "0.5" are the same."""
        return _inside(name, _number(name, value, "a number"), 0, 1)


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    """True or false."""

    json_type: ClassVar[str] = "boolean"
    says: str

    def read(self, name: str, value: Any) -> bool:
        """Words and 0/1 are understood."""
        word = str(value).strip().lower()
        if word in ("true", "1", "yes", "on"):
            return True
        if word in ("false", "0", "no", "off", ""):
            return False
        raise refused(name, f"must be true or false, not {value!r}")


@dataclass(frozen=True, slots=True)
class Texts(Kind):
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
        listed = _listed(value) if isinstance(value, str) else value
        if not isinstance(listed, list | tuple) or not all(isinstance(item, str) for item in listed):
            raise refused(name, f"must be a list of texts, not {_shape(value)}", f'Write {name}: ["one", "two"].')
        found = tuple(dict.fromkeys(item.strip() for item in listed if item.strip()))
        if len(found) > self.most:
            raise refused(name, f"has {len(found)} entries, at most {self.most} are allowed")
        if self.among:
            one = Choice("", self.among)
            return tuple(dict.fromkeys(one.read(name, item) for item in found))
        return found


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
        """Its JSON schema. One client strips `default`, so the description says it too."""
        says = self.kind.says
        if self.default is REQUIRED or self.default is None or self.default in ("", ()):
            return {**self.kind.schema(), "description": says}
        written = json.dumps(self.default)
        described = f"{says.rstrip('.')} (default {written.strip(chr(34))})."
        return {**self.kind.schema(), "description": described, "default": self.default}


def schema_of(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The input schema of a tool."""
    listed = list(parameters)
    schema: dict[str, Any] = {"type": "object", "properties": {each.name: each.schema() for each in listed}}
    if required := [each.name for each in listed if each.required]:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def bind(parameters: Iterable[Parameter], arguments: Any) -> dict[str, Any]:
    """The arguments of a call by parameter name: named right, read, checked, defaults filled in.

    Raises: InvalidArgument, with the nearest valid name or the limits.
    """
    known = {each.name: each for each in parameters}
    if not isinstance(arguments, Mapping | None):
        raise InvalidArgument(f"arguments must be an object, not {_shape(arguments)}")
    given = _named(known, arguments or {})
    return {name: _value(each, given.get(name)) for name, each in known.items()}


def snake(name: str) -> str:
    """`includeDeps` -> `include_deps`.

    >>> snake("includeDeps"), snake("top_k"), snake("topK"), snake("include-paths")
    ('include_deps', 'top_k', 'top_k', 'include_paths')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()


def near(word: str, known: Iterable[str]) -> str:
    """The words "Did you mean ...?" when something close is known, else nothing."""
    close = difflib.get_close_matches(word, list(known), 1, 0.6)
    return f" Did you mean {close[0]}?" if close else ""


def refused(name: str, why: str, suggestion: str = "", *, malformed: bool = False) -> InvalidArgument:
    """The error about one argument."""
    details = {"argument": name} | ({MALFORMED: True} if malformed else {})
    return InvalidArgument(f"{name} {why}", suggestion=suggestion.strip(), details=details)


def is_malformed(error: ContextEngineError) -> bool:
    """Whether the protocol itself must refuse the call: an unknown tool, or what a seed calls malformed."""
    return isinstance(error, UnknownTool) or bool(error.details.get(MALFORMED))


def _named(known: Mapping[str, Parameter], arguments: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for key, value in arguments.items():
        name = key if key in known else snake(str(key))
        if name not in known:
            raise _unknown(str(key), name, known)
        if name in given and given[name] != value:
            raise refused(name, "is given twice with different values", "Send it once.")
        given[name] = value
    return given


def _unknown(key: str, name: str, known: Mapping[str, Parameter]) -> InvalidArgument:
    suggestion = near(name, known).strip() or f"It takes {', '.join(known) or 'no arguments'}."
    return InvalidArgument(
        f"unknown argument {key!r}", suggestion=suggestion, details={"argument": key, "valid": list(known)}
    )


def _value(parameter: Parameter, sent: Any) -> Any:
    if sent is not None:
        return parameter.kind.read(parameter.name, sent)
    if not parameter.required:
        return parameter.default
    malformed = getattr(parameter.kind, "empty_is_malformed", False)
    raise refused(parameter.name, "is missing", parameter.kind.says, malformed=malformed)


def _number(name: str, value: Any, wanted: str) -> float:
    if isinstance(value, str):
        try:
            value = float(value.strip().replace("_", ""))
        except ValueError:
            raise refused(name, f"must be {wanted}, not {value!r}") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        raise refused(name, f"must be {wanted}, not {_shape(value)}")
    return value


def _inside(name: str, number: float, least: float, most: float) -> float:
    if not least <= number <= most:
        raise refused(name, f"is {number:g}", f"It goes from {least} to {most}.")
    return number


def _listed(text: str) -> Any:
    """A JSON array, or parts between commas; commas inside braces belong to a glob (`*.{ts,tsx}`)."""
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            pass  # not JSON after all: `[ab]*.py` is a glob
    return re.split(r",(?![^{]*\})", text)


def _shape(value: Any) -> str:
    names = {bool: "a flag", str: "a text", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)
