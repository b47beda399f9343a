"""A tool that explains why a file is in the index or not, and why a name was not found."""

import re
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import CallError
from context_engine.model import TextQuery
from context_engine.text import compact_json, dotted_name, drop_empty, escape_line, format_count
from context_engine.tools.arguments import ChoiceArg, TextArg
from context_engine.tools.reply import join_first, pick_fields
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine

PLACES_SHOWN = 3
NAME_CHARS_MAX = 200
_NAME = re.compile(r"[^\W\d][\w$]*(?:(?:\.|::|#)[^\W\d][\w$]*)*(?:\(\))?")
STATES = {
    "indexed": "in the index",
    "edited": "in the index, edited since",
    "waiting": "not in the index yet",
    "excluded": "not in the index",
    "folder": "a folder of the index",
    "missing": "there is no such file",
    "outside": "outside of this workspace",
    "defined": "defined",
    "undefined": "not defined in the index",
}
"""The words for each state of a path or a name."""


@tool(touches="nothing")
def explain(
    engine: "Engine",
    call: Call,
    target: Annotated[str, TextArg("A path, or a symbol."), "path"],
    *,
    format: Annotated[str, ChoiceArg("text or json.", ("text", "json"))] = "text",  # noqa: A002 - the argument
) -> Reply:
    """Explain why a file is in the index or not, by which ignore rule or limit; or why a name is not found.

    Example: {"target": "dist/app.js"}
    """
    found = engine.index.path_explainer().explain(target)
    row = drop_empty(
        pick_fields(found, "path state")
        | {"in_index": found.is_indexed}
        | pick_fields(found, "reason detail")
        | {"because_of": found.cause, "notes": list(found.notes)}
    )
    if found.state == "missing" and len(target) <= NAME_CHARS_MAX and _NAME.fullmatch(target):  # not a path: a name?
        is_file_name = "." in target and engine.languages.detect(target, b"") is not None
        of_symbol = _explain_symbol(engine, target, call)
        if of_symbol["state"] == "defined" or not is_file_name:
            row = of_symbol
    return Reply(compact_json(row) if format == "json" else format_explanation(row))


def _explain_symbol(engine: "Engine", name: str, call: Call) -> dict[str, Any]:
    """Return why a name is found or not: similar names, lines with it as text, files outside of the index."""
    found = engine.symbols.find(name, limit=PLACES_SHOWN)
    row: dict[str, Any] = {"symbol": name, "state": "defined" if found.total else "undefined"}
    if found.total:
        places = [f"{one.path}:{one.span.first} {one.kind} {one.qualified}" for one in found.definitions]
        return row | {"definitions": places, "count": found.total}
    word = dotted_name(name).rpartition(".")[2]
    notes = _explain_text(engine, word, call)
    unindexed = engine.index.path_explainer().find_word(word)
    if unindexed:
        shown = "; ".join(f"{path} ({why})" for path, why in unindexed[:PLACES_SHOWN])
        notes.append(f"{format_count(len(unindexed), 'file')} outside of the index with the name: {shown}")
    freshness = found.freshness if found.freshness != "fresh" else ""
    return drop_empty(row | {"near": list(found.near), "notes": notes, "freshness": freshness})


def _explain_text(engine: "Engine", word: str, call: Call) -> list[str]:
    """Return what the text of the files says of a word that no outline defines."""
    query = TextQuery(queries=(rf"\b{re.escape(word)}\b",), regex=True, case_sensitive=True)
    try:
        scan = engine.text_search.scan(query, progress=call.progress, cancel=call.cancel)
    except CallError as error:
        return [error.message]
    if not scan.files:
        return [f"no line of this workspace has {word}"]
    notes = [f"{format_count(scan.lines, 'line')} of {format_count(len(scan.files), 'file')} have it only as text"]
    notes.append(f"for example {', '.join(file.path for file in scan.files[:PLACES_SHOWN])}")
    languages = {file.path: engine.languages.detect(file.path, b"") for file in scan.files}
    plain = [path for path, language in languages.items() if language is None or not language.grammar]
    if plain:
        notes.append(f"{join_first(plain, 1)}: a language without a grammar, so its definitions are not known")
    return notes


def format_explanation(row: dict[str, Any]) -> str:
    """Format an explanation: the target and its state, then each fact on a line."""
    reason = str(row.get("reason", "")).replace("_", " ")
    cause = f", because of its folder {escape_line(row['because_of'])}" if "because_of" in row else ""
    head = f"{escape_line(row.get('path') or row['symbol'])}: {STATES[row['state']]}"
    facts = [row.get("detail", ""), *row.get("definitions", ()), *row.get("notes", ())]
    if "near" in row:
        facts.append(f"similar names: {', '.join(row['near'])}")
    facts.append(row.get("freshness", ""))
    lines = [f"  {escape_line(fact)}" for fact in facts if fact]
    return "\n".join([f"{head}: {reason}{cause}" if reason else f"{head}{cause}", *lines])
