"""PURE. The JSON schemas of replies for programs: `outputSchema` of the tools, and the JSON of a reply without fields.

The tools of the default list have fields of their own. Other tools reply in the JSON that they always had, or in one
field `text`. An error has the field `error` in place of the required ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_engine.text import OUTPUT_BYTES_MAX, ParseError, compact_json, read_json

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
OPEN: Schema = {"type": "object"}


def texts(names: str) -> dict[str, Schema]:
    """Return fields that are texts."""
    return dict.fromkeys(names.split(), TEXT)


def list_of(item: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": item}


def object_of(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> dict[str, Any]:
    """Return the schema of an object; fields that are not named may be there."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


DRAFT_FIELDS = {"findings": list_of({"type": "object", "properties": texts("quote category title body message")})}
"""The fields of findings that an agent sends; the schema in `next` has the others."""
ERROR = object_of({**texts("code message suggestion"), "retryable": FLAG, "details": OPEN})


def reply_of(
    required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, *others: Mapping[str, Schema]
) -> dict[str, Any]:
    """Return the schema of a reply: these fields or those of another form, or an error; `masked` counts secrets."""
    properties = {key: field for form in (required, *others, optional or {}) for key, field in form.items()}
    forms = [{"required": list(form)} for form in (required, *others)] + [{"required": ["error"]}]
    return {"type": "object", "properties": {**properties, "masked": COUNT, "error": ERROR}, "anyOf": forms}


_PLACE = {**texts("project chunk symbol content"), "score": NUMBER, "why": OPEN, "stale": FLAG}
_FOUND = object_of(texts("path lines"), {**_PLACE, "more": list_of(object_of(texts("lines"), _PLACE))})
_FRAGMENT = object_of(texts("lines text"), {"why": list_of(TEXT)})
_FILE = object_of({**texts("path sha256"), "total_lines": COUNT, "fragments": list_of(_FRAGMENT)})
_LINE = object_of({"line": COUNT, "text": TEXT}, {"column": COUNT})
_MATCHES = object_of({"path": TEXT, "total": COUNT, "lines": list_of(_LINE)})
_DEFINITION = object_of(texts("path lines kind name"), texts("signature doc"))
_STEP = object_of({**texts("path source target certainty evidence"), "line": COUNT, "depth": COUNT})
_SYMBOL = object_of({**texts("lines kind name"), "depth": COUNT}, texts("signature"))
_OUTLINE = object_of(
    {**texts("path language"), "total_lines": COUNT, "symbols": list_of(_SYMBOL)},
    {"problems": list_of(TEXT), "symbols_left_out": COUNT},
)
_CHANGED = object_of(texts("path syntax"), {"lines": list_of(TEXT), "how": list_of(TEXT), "sha256": TEXT})
_SNIPPET = object_of(
    texts("text lines"), {"relevance": NUMBER, "tokens": COUNT, "symbol": TEXT, "goes_on_at_line": COUNT}
)
_RELATED = object_of(texts("path why"), {"line": COUNT, "text": TEXT})
_BUNDLED = object_of(
    {**texts("path language"), "relevance": NUMBER, "snippets": list_of(_SNIPPET), "related": list_of(_RELATED)},
    texts("summary"),
)
_KNOWN = object_of(texts("id type"), {**texts("title content where"), "score": NUMBER})
_RESULT = object_of(
    {**texts("id type content module date source"), "score": NUMBER},
    {**texts("project title status stale_reason"), "session": {"type": ["string", "null"]}, "links": list_of(TEXT)},
)
_TOOL = object_of(texts("name description"), {"inputSchema": OPEN, "aliases": list_of(TEXT), "hidden": FLAG})

OUTPUT_SCHEMAS: Mapping[str, Schema] = {
    "search_code": reply_of(
        {**texts("engine freshness"), "total": COUNT, "results": list_of(_FOUND)},
        {**texts("shown_before weak reason next"), "shown": COUNT, "near_tags": list_of(TEXT)},
    ),
    "read": reply_of({"files": list_of(_FILE)}, {"pages": list_of(TEXT), "notes": list_of(TEXT)}),
    "search_text": reply_of(
        {"total": COUNT, "files_searched": COUNT, "files": list_of(_MATCHES)}, texts("cursor reason next note")
    ),
    "symbols": reply_of(
        {"definitions": list_of(_DEFINITION), "total": COUNT, "freshness": TEXT},
        {
            **dict.fromkeys(("near", "tests", "notes"), list_of(TEXT)),
            **dict.fromkeys(("possible", "definitions_left_out", "steps_left_out"), COUNT),
            **texts("reason next"),
            "truncated": FLAG,
        },
        {"steps": list_of(_STEP), "freshness": TEXT},
        {"outline": _OUTLINE},
    ),
    "edit_file": reply_of(
        {"files": list_of(_CHANGED), "written": FLAG},
        {**texts("undo_id diff"), "affected": list_of(TEXT), "notes": list_of(TEXT), "lines_left_out": COUNT},
    ),
    "write_file": reply_of(
        {"files": list_of(_CHANGED), "written": FLAG, "action": TEXT}, {"undo_id": TEXT, "notes": list_of(TEXT)}
    ),
    "get_context": reply_of(
        {
            **texts("summary query"),
            "files": list_of(_BUNDLED),
            "memories": list_of(_KNOWN),
            "discoveries": list_of(_KNOWN),
            "external_hints": list_of(object_of({"url": TEXT, "mentioned_in": list_of(TEXT), "fetched": FLAG})),
            "hints": list_of(TEXT),
            "metadata": OPEN,
        },
        {**texts("shown_before reason note"), "warnings": list_of(TEXT)},
    ),
    "search_memory": reply_of(
        {**texts("query engine"), "results": list_of(_RESULT), "totalFound": COUNT, "searchTime": NUMBER},
        {**texts("note next"), "warnings": list_of(TEXT), "results_left_out": COUNT},
    ),
    "list_tools": reply_of(
        {"tools": list_of(_TOOL), "total": COUNT},
        {"switched_off": {**OPEN, "additionalProperties": TEXT}, "next": TEXT, "tools_left_out": COUNT},
    ),
}
"""Tool -> the schema of its replies to programs."""
OTHER_TOOLS: Schema = {"type": "object", "properties": {"text": TEXT, "masked": COUNT, "error": ERROR}}
"""Of all other tools, and of `call_tool`, whose reply is that of the called tool."""


def write_structured(text: str) -> str:
    """Return a reply as one JSON object: as it is, or in the field `text`.

    >>> write_structured('{"total":1}'), write_structured("edited a.py")
    ('{"total":1}', '{"text":"edited a.py"}')
    """
    if read_object(text) is not None:
        return text
    return compact_json({"text": text})


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is, None if it is something else."""
    if not text.startswith("{"):
        return None
    try:
        value = read_json(text, bytes_max=OUTPUT_BYTES_MAX)
    except ParseError:
        return None
    return value if isinstance(value, dict) else None
