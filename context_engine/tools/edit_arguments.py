"""What the arguments of the editing tools may be, and the edits they mean.

Agents know other editors, which have other words for the same: those are understood as well. What is not understood is
refused by its place, `edits[2].targt`, since an edit that is half understood must not be made.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from context_engine.edit.file_content import BYTES_MAX
from context_engine.edit.model import Edit, Fuzzy
from context_engine.text.spans import LineSpan
from context_engine.tools.arguments import (
    ENDLESS,
    ArgumentType,
    BooleanArg,
    IntegerArg,
    TextArg,
    argument_error,
    parse_json_text,
    suggest_nearest,
    to_snake_case,
)

if TYPE_CHECKING:
    from context_engine.edit.edit_request import Want
    from context_engine.edit.symbol_edits import Place, SymbolEdit

EDITS_MAX = 200
FILES_MAX = 100
"""One call; more of either is a program's work, which can be written and run."""
MATCHES_MAX = 10_000
"""Of one target in one file."""
DISTANCE_MAX = 100
"""Characters; the engine never takes more than one in ten, whatever is asked for."""

ALIASES = {
    **dict.fromkeys(("old_content", "old_string", "old_text", "old_str", "old", "search"), "target"),
    **dict.fromkeys(("new_content", "new_string", "new_text", "new_str", "new", "replacement"), "replace"),
    **dict.fromkeys(("lines", "range"), "line_range"),
    "before_context": "before",
    "after_context": "after",
    "fuzzy_match": "fuzzy",
    "file_path": "path",
}
"""Other words for the fields of an edit."""
_LINES = re.compile(r"\s*(\d{1,9})\s*(?:[-:,]\s*(\d{1,9})\s*)?")
PLACES: "Mapping[str, Place]" = {"replace": "replace", "insert_before": "before", "insert_after": "after"}
"""What can be done with a definition."""
SYMBOL = frozenset({"symbol", "insert_before", "insert_after"})
SYMBOL_EXAMPLE = 'Write {"symbol": "Class.method", "replace": "text"}, or insert_before or insert_after in its place.'
EDIT_EXAMPLE = 'Write {"target": "text as it stands in the file", "replace": "new text"}.'


@dataclass(frozen=True, slots=True)
class ContentArg(ArgumentType):
    """The text of a file or of a part of it: any length a file may have, blanks kept."""

    says: str

    def read(self, name: str, value: Any) -> str:
        """A text as it is. What a client made of JSON is refused: how it was written is not known any more."""
        if not isinstance(value, str):
            raise argument_error(name, "must be a text, as it shall stand in the file", "Send it as one string.")
        return TextArg("", most=BYTES_MAX).read(name, value)


@dataclass(frozen=True, slots=True)
class LineRangeArg(ArgumentType):
    """A range of lines, both ends included; empty for none."""

    says: str

    def read(self, name: str, value: Any) -> LineSpan:
        """An object with `start` and `end`, a pair, "10-20", or one line."""
        value = parse_json_text(value) if isinstance(value, str) else value
        ends: Sequence[Any] = ()
        if isinstance(value, Mapping):
            ends = [value.get("start"), value.get("end")] if set(value) <= {"start", "end"} else ()
        elif isinstance(value, list | tuple):
            ends = value
        elif match := _LINES.fullmatch(str(value)):
            ends = [match[1], match[2] or match[1]]
        if len(ends) != 2 or None in ends:
            raise argument_error(name, "is no range of lines", 'Write {"start": 10, "end": 20}, or "10-20".')
        first, last = (IntegerArg("", -ENDLESS, ENDLESS).read(name, each) for each in ends)
        return LineSpan(first, last)


@dataclass(frozen=True, slots=True)
class FuzzyMatchArg(ArgumentType):
    """How far a place may differ from its target."""

    json_type: ClassVar[str] = "object"
    says: str

    def schema(self) -> dict[str, Any]:
        """With its fields."""
        fields = {"enabled": "boolean", "maxDistance": "integer", "whitespaceOnly": "boolean"}
        return {"type": "object", "properties": {name: {"type": kind} for name, kind in fields.items()}}

    def read(self, name: str, value: Any) -> Fuzzy:
        """An object, or a flag that turns it on or off."""
        value = parse_json_text(value) if isinstance(value, str) else value
        if not isinstance(value, Mapping):
            return Fuzzy(enabled=BooleanArg("").read(name, value))
        kinds: Mapping[str, ArgumentType] = {
            "enabled": BooleanArg(""),
            "max_distance": IntegerArg("", 0, DISTANCE_MAX),
            "whitespace_only": BooleanArg(""),
        }
        given = read_fields(name, value, tuple(kinds))
        read: dict[str, Any] = {field: kinds[field].read(f"{name}.{field}", each) for field, each in given.items()}
        return Fuzzy(read.get("enabled", True), read.get("max_distance", 5), read.get("whitespace_only", True))


@dataclass(frozen=True, slots=True)
class AnchorArg(ArgumentType):
    """What must stand around a place, and on which lines it must be."""

    json_type: ClassVar[str] = "object"
    says: str

    def schema(self) -> dict[str, Any]:
        """With its fields, as seed 000 has them."""
        ends = {"type": "object", "properties": {"start": {"type": "integer"}, "end": {"type": "integer"}}}
        text = {"type": "string"}
        return {"type": "object", "properties": {"beforeContext": text, "afterContext": text, "lineRange": ends}}

    def read(self, name: str, value: Any) -> Mapping[str, Any]:
        """The fields of an edit that it stands for: before, after, line_range."""
        value = parse_json_text(value) if isinstance(value, str) else value
        if not isinstance(value, Mapping):
            raise argument_error(name, "must be an object", 'Write {"beforeContext": "the line before"}.')
        given = read_fields(name, value, ("before", "after", "line_range"))
        return {field: _FIELDS[field].read(f"{name}.{field}", each) for field, each in given.items()}


_FIELDS: Mapping[str, Any] = {
    "target": ContentArg(""),
    "replace": ContentArg(""),
    "before": ContentArg(""),
    "after": ContentArg(""),
    "line_range": LineRangeArg(""),
    "occurrence": IntegerArg("", 1, MATCHES_MAX),
    "expected_matches": IntegerArg("", 1, MATCHES_MAX),
    "fuzzy": FuzzyMatchArg(""),
    "anchor": AnchorArg(""),
    "symbol": TextArg("The name of a definition.", 1),
    "insert_before": ContentArg(""),
    "insert_after": ContentArg(""),
}
"""What an edit may say."""


@dataclass(frozen=True, slots=True)
class EditListArg(ArgumentType):
    """A list of edits of one file."""

    json_type: ClassVar[str] = "array"
    says: str

    def schema(self) -> dict[str, Any]:
        """With the fields that are needed most, the others in words: each is paid for in every request of a client."""
        known = {field: {"type": "string"} for field in ("target", "replace", "before", "after", "line_range")}
        return {"type": "array", "items": {"type": "object", "properties": known}}

    def read(self, name: str, value: Any) -> "tuple[Want, ...]":
        """A list, one written as JSON in a text, or an edit alone."""
        listed = read_objects(name, value, EDITS_MAX, EDIT_EXAMPLE)
        return tuple(_read_edit(f"{name}[{number}]", each) for number, each in enumerate(listed, 1))


@dataclass(frozen=True, slots=True)
class FileEdits:
    """What is wanted of one file."""

    path: str
    wants: "tuple[Want, ...]"
    expected_hash: str = ""


@dataclass(frozen=True, slots=True)
class FileEditsArg(ArgumentType):
    """A list of files, each with its edits."""

    json_type: ClassVar[str] = "array"
    says: str

    def schema(self) -> dict[str, Any]:
        """Without its fields: they are those of the tool itself."""
        return {"type": "array", "items": {"type": "object"}}

    def read(self, name: str, value: Any) -> tuple[FileEdits, ...]:
        """A list, or one written as JSON in a text."""
        listed = read_objects(name, value, FILES_MAX, 'Write {"path": "src/a.py", "edits": [...]}.')
        return tuple(self._file(f"{name}[{number}]", each) for number, each in enumerate(listed, 1))

    def _file(self, name: str, value: Mapping[str, Any]) -> FileEdits:
        given = read_fields(name, value, ("path", "edits", "expected_hash"))
        path = TextArg("The file.", 1).read(f"{name}.path", given.get("path", ""))
        wants = EditListArg("").read(f"{name}.edits", given.get("edits", ()))
        return FileEdits(path, wants, TextArg("").read(f"{name}.expected_hash", given.get("expected_hash", "")))


def read_fields(name: str, value: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """The fields of an object by their own names; null is the same as not given. Raises: InvalidArgument."""
    found: dict[str, Any] = {}
    for key, each in value.items():
        field = to_snake_case(str(key))
        field = field if field in known else ALIASES.get(field, field)
        if field not in known:
            raise argument_error(
                f"{name}.{str(key)[:60]}",
                "is unknown",
                suggest_nearest(field, known) or f"There are {', '.join(known)}.",
            )
        if field in found and found[field] != each:
            raise argument_error(f"{name}.{field}", "is given twice with different values", "Send it once.")
        if each is not None:
            found[field] = each
    return found


def _read_edit(name: str, value: Mapping[str, Any]) -> "Want":
    """One edit of the list."""
    given = read_fields(name, value, tuple(_FIELDS))
    read = {field: _FIELDS[field].read(f"{name}.{field}", each) for field, each in given.items()}
    read = {**read.pop("anchor", {}), **read}
    if SYMBOL.intersection(read):
        return _build_request(_read_symbol_edit(name, read))
    for field in ("target", "replace"):
        if field not in read:
            raise argument_error(f"{name}.{field}", "is missing", EDIT_EXAMPLE)
    if read.get("occurrence") and (read.get("line_range") or read.get("expected_matches", 1) > 1):
        raise argument_error(
            f"{name}.occurrence", "goes with neither line_range nor expected_matches", "Send one of them."
        )
    return build_edit(read)


def _read_symbol_edit(name: str, read: Mapping[str, Any]) -> "SymbolEdit":
    """An edit of a definition: one thing is done with it, and nothing else is said of where it stands than its lines."""
    does = [field for field in PLACES if field in read]
    strange = sorted(read.keys() - {"symbol", "line_range", *does})
    if "symbol" not in read or len(does) != 1 or strange:
        wrong = f" and {strange[0]}" if strange else ""
        raise argument_error(name, f"has {' and '.join(does) or 'nothing to do'}{wrong}", SYMBOL_EXAMPLE)
    from context_engine.edit.symbol_edits import SymbolEdit  # it brings the parsers, too

    return SymbolEdit(read["symbol"], read[does[0]], PLACES[does[0]], read.get("line_range"))


def build_edit(read: Mapping[str, Any]) -> "Want":
    """An edit out of its fields."""
    edit = Edit(
        target=read["target"],
        replacement=read["replace"],
        before=read.get("before", ""),
        after=read.get("after", ""),
        line_range=read.get("line_range"),
        expected_matches=read.get("expected_matches", 1),
        fuzzy=read.get("fuzzy", Fuzzy()),
    )
    return _build_request(edit, read.get("occurrence", 0))


def _build_request(edit: "Edit | SymbolEdit", occurrence: int = 0) -> "Want":
    from context_engine.edit.edit_request import Want  # it brings the parsers, which nobody needs who lists tools

    return Want(edit, occurrence)


def read_objects(name: str, value: Any, most: int, example: str) -> Sequence[Mapping[str, Any]]:
    """A list of objects, one written as JSON in a text, or an object alone. Raises: InvalidArgument."""
    listed = parse_json_text(value) if isinstance(value, str) else value
    listed = [listed] if isinstance(listed, Mapping) else listed
    if _is_list(listed):  # an entry over the limit may be anything: its text is not even parsed
        parsed = [parse_json_text(entry) if isinstance(entry, str) else entry for entry in listed[:most]]
        listed = [*parsed, *listed[most:]]
    if not _is_list(listed) or not all(isinstance(each, Mapping) for each in listed):
        raise argument_error(name, "must be a list of objects", example)
    if not 1 <= len(listed) <= most:
        raise argument_error(name, f"has {len(listed):,} entries, 1 to {most} are allowed", example)
    return listed


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
