"""Argument types of the editing tools, and the edits they describe.

Agents know other editors, so the field names of those are accepted as well. An unknown field is an error that names its
position, "edit 2: targt is unknown": an edit that is only half understood must not be made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from context_engine.edit import BYTES_MAX, AnyEdit, Edit, Fuzzy, LineEdit, SymbolEdit, SymbolPlace
from context_engine.text import suggest_nearest
from context_engine.tools.arguments import (
    ArgumentType,
    BooleanArg,
    IntegerArg,
    LineRangeArg,
    ObjectListArg,
    TextArg,
    argument_error,
    parse_json_text,
    read_objects,
    to_snake_case,
)
from context_engine.tools.structured_replies import COUNT, FLAG, TEXT, texts

EDITS_MAX = 200
FILES_MAX = 100
"""Limits of one call; for more edits an agent can write and run a program."""
MATCHES_MAX = 10_000
"""Matches of one target in one file."""

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
PLACES: Mapping[str, SymbolPlace] = {"replace": "replace", "insert_before": "before", "insert_after": "after"}
"""The edits of a definition, and where each puts its text."""
SYMBOL = frozenset({"symbol", "insert_before", "insert_after"})
SYMBOL_EXAMPLE = (
    'Write {"symbol": "Class.method", "replace": "text"}, with target for a text inside of it, or insert_before or'
    " insert_after in place of replace."
)
EDIT_EXAMPLE = 'Write {"target": "text as it is in the file", "replace": "new text"}, or line_range in place of target.'


@dataclass(frozen=True, slots=True)
class ContentArg(ArgumentType):
    """The text of a file or of a part of it, of any length that a file may have, with its whitespace."""

    def read(self, name: str, value: Any) -> str:
        """Accept a text only: how a client formatted a JSON value before parsing it is unknown."""
        if not isinstance(value, str):
            raise argument_error(name, "must be a text, exactly as it goes into the file", "Send it as one string.")
        return TextArg("", most=BYTES_MAX).read(name, value)


@dataclass(frozen=True, slots=True)
class FuzzyMatchArg(ArgumentType):
    """How far a place may differ from its target."""

    SCHEMA: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {"enabled": FLAG, "maxDistance": COUNT, "whitespaceOnly": FLAG},
    }

    def read(self, name: str, value: Any) -> Fuzzy:
        """Accept an object, or a flag that turns fuzzy matching on or off."""
        value = parse_json_text(value)
        if not isinstance(value, Mapping):
            return Fuzzy(enabled=BooleanArg("").read(name, value))
        flag = BooleanArg("")
        kinds = {"enabled": flag, "max_distance": IntegerArg("", 0, 100), "whitespace_only": flag}
        read = read_typed(name, value, kinds)
        return Fuzzy(read.get("enabled", True), read.get("max_distance", 5), read.get("whitespace_only", True))


@dataclass(frozen=True, slots=True)
class AnchorArg(ArgumentType):
    """The lines around a place, and the line range it must be in, with the fields of upstream spec 000."""

    SCHEMA: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "beforeContext": TEXT,
            "afterContext": TEXT,
            "lineRange": {"type": "object", "properties": {"start": COUNT, "end": COUNT}},
        },
    }

    def read(self, name: str, value: Any) -> Mapping[str, Any]:
        """Return the fields of an edit that it sets: before, after, line_range."""
        value = parse_json_text(value)
        if not isinstance(value, Mapping):
            raise argument_error(name, "must be an object", 'Write {"beforeContext": "the line before"}.')
        return read_typed(name, value, {field: _FIELDS[field] for field in ("before", "after", "line_range")})


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
"""The fields of an edit, with their types."""
EDIT_OPTIONS = ("before", "after", "line_range", "occurrence", "expected_matches", "fuzzy")
"""Those that an `Edit` may have besides its texts."""


@dataclass(frozen=True, slots=True)
class EditListArg(ObjectListArg):
    """A list of edits of one file, each as `read_edit` takes it."""

    fields: Mapping[str, Any] = field(default_factory=lambda: texts("target replace"))

    def read(self, name: str, value: Any) -> tuple[AnyEdit, ...]:
        """Accept a list, JSON text of one, or a single edit."""
        listed = read_objects(name, value, EDITS_MAX, EDIT_EXAMPLE, least=1)
        return tuple(read_edit(name_entry(name, number), edit) for number, edit in enumerate(listed, 1))


@dataclass(frozen=True, slots=True)
class FileEdits:
    """The edits of one file."""

    path: str
    edits: tuple[AnyEdit, ...]
    expected_hash: str = ""


@dataclass(frozen=True, slots=True)
class FileEditsArg(ObjectListArg):
    """A list of files, each with its edits."""

    fields: Mapping[str, Any] = field(default_factory=lambda: {"path": TEXT, "edits": EditListArg("").schema()})

    def read(self, name: str, value: Any) -> tuple[FileEdits, ...]:
        """Accept a list, or JSON text of one."""
        kinds = {"path": TextArg("", 1), "edits": EditListArg(""), "expected_hash": TextArg("")}
        files = []
        example = 'Write {"path": "src/a.py", "edits": [...]}.'
        for number, row in enumerate(read_objects(name, value, FILES_MAX, example, least=1), 1):
            entry = name_entry(name, number)
            read: dict[str, Any] = {"path": "", "edits": ()} | read_typed(entry, row, kinds)
            for part in ("path", "edits"):
                if not read[part]:
                    kinds[part].read(name_field(entry, part), read[part])  # raises: it is missing
            files.append(FileEdits(**read))
        return tuple(files)


def name_entry(name: str, number: int) -> str:
    """Name an entry of a list as all messages about edits do: `edits[2]` would be the third in a JSON path.

    >>> name_entry("edits", 2), name_entry("file 1: edits", 3)
    ('edit 2', 'file 1: edit 3')
    """
    return f"{name.removesuffix('s')} {number}"


def name_field(name: str, field: str) -> str:
    """Name a field of an entry or of an object.

    >>> name_field("edit 2", "targt"), name_field("edit 2: fuzzy", "enabled")
    ('edit 2: targt', 'edit 2: fuzzy.enabled')
    """
    return f"{name}: {field}" if name[-1:].isdigit() else f"{name}.{field}"


def read_typed(name: str, value: Mapping[str, Any], kinds: Mapping[str, ArgumentType]) -> dict[str, Any]:
    """Read the fields of an object by their canonical names and types; null counts as absent.

    Raises: InvalidArgument.
    """
    sent: dict[str, Any] = {}
    for key, content in value.items():
        field = to_snake_case(str(key))
        if field not in kinds:
            field = ALIASES.get(field, field)
        if field not in kinds:
            hint = suggest_nearest(field, kinds) or f"There are {', '.join(kinds)}."
            raise argument_error(name_field(name, str(key)[:60]), "is unknown", hint)
        if field in sent and sent[field] != content:
            raise argument_error(name_field(name, field), "is given twice with different values", "Send it once.")
        if content is not None:
            sent[field] = content
    return {field: kinds[field].read(name_field(name, field), content) for field, content in sent.items()}


def read_edit(name: str, value: Mapping[str, Any]) -> AnyEdit:
    """Read one edit. Raises: InvalidArgument."""
    if "path" in map(ALIASES.get, value, value):
        example = 'Write path next to edits; for several files, files: [{"path": "src/a.py", "edits": [...]}].'
        raise argument_error(name_field(name, "path"), "is not part of an edit", example)
    read = read_typed(name, value, _FIELDS)
    read = {**read.pop("anchor", {}), **read}
    if not SYMBOL.isdisjoint(read):  # exactly one action, and no other location than a line range or a target in it
        actions = [field for field in PLACES if field in read]
        inside = {"target"} if actions == ["replace"] else set()
        unexpected = sorted(read.keys() - {"symbol", "line_range", *actions, *inside})
        if "symbol" not in read or len(actions) != 1 or unexpected:
            found = " and ".join([*actions, *unexpected[:1]])
            raise argument_error(name, f"has {found or 'no action'}", SYMBOL_EXAMPLE)
        text, lines = read[actions[0]], read.get("line_range")
        return SymbolEdit(read["symbol"], text, PLACES[actions[0]], lines, read.get("target", ""))
    if read.keys() == {"line_range", "replace"}:
        return LineEdit(read["line_range"], read["replace"])
    for part in ("target", "replace"):
        if part not in read:
            raise argument_error(name_field(name, part), "is missing", EDIT_EXAMPLE)
    if read.get("occurrence") and (read.get("line_range") or read.get("expected_matches", 1) > 1):
        wrong = "cannot be combined with line_range or expected_matches"
        raise argument_error(name_field(name, "occurrence"), wrong, "Send one of them.")
    return build_edit(read)


def build_edit(read: Mapping[str, Any]) -> Edit:
    """Build an edit from its fields."""
    options = {field: read[field] for field in EDIT_OPTIONS if field in read}
    return Edit(read["target"], read["replace"], **options)
