"""A tool that explains why a file is in the index or not, and why a name was not found."""

import re
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import CallError
from context_engine.model import TextQuery
from context_engine.text import compact_json, dotted_name, drop_empty, escape_line, format_count
from context_engine.tools.arguments import ChoiceArg, TextArg
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.index import PathExplanation

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


@tool(touches="nothing", rare=("format",))
def explain(
    engine: "Engine",
    call: Call,
    target: Annotated[str, TextArg("A path, or a symbol."), "path"],
    format: Annotated[str, ChoiceArg("text or json.", ("text", "json"))] = "text",  # noqa: A002 - the argument
) -> Reply:
    """Explain why a file is in the index or not, by which ignore rule or limit; or why a name is not found.

    Example: {"target": "dist/app.js"}
    """
    row = explain_target(engine, target, call)
    return Reply(compact_json(row) if format == "json" else format_explanation(row))


def explain_target(engine: "Engine", target: str, call: Call) -> dict[str, Any]:
    """Return the explanation of a path or a symbol as a reply row; a path is what exists or has a slash."""
    explainer = engine.index.path_explainer()
    found = explainer.explain(target)
    is_name = _NAME.fullmatch(target) is not None and len(target) <= NAME_CHARS_MAX
    if found.state == "missing" and is_name:
        row = _explain_symbol(engine, target, call)
        is_file_name = "." in target and engine.languages.detect(target, b"") is not None
        if row["state"] == "undefined" and is_file_name:
            return _path_row(found)
        return row
    return _path_row(found)


def _path_row(found: "PathExplanation") -> dict[str, Any]:
    row = {
        "path": found.path,
        "state": found.state,
        "in_index": found.is_indexed,
        "reason": found.reason,
        "detail": found.detail,
        "because_of": found.cause,
        "notes": list(found.notes),
    }
    return {key: value for key, value in row.items() if value not in ("", [])}


def _explain_symbol(engine: "Engine", name: str, call: Call) -> dict[str, Any]:
    """Return why a name is found or not: similar names, lines with it as text, files outside of the index."""
    found = engine.symbols.find(name, limit=PLACES_SHOWN)
    row: dict[str, Any] = {"symbol": name, "state": "defined" if found.total else "undefined"}
    if found.total:
        row["definitions"] = [f"{one.path}:{one.span.first} {one.kind} {one.qualified}" for one in found.definitions]
        row["count"] = found.total
        return row
    word = dotted_name(name).rpartition(".")[2]
    notes = _explain_text(engine, word, call)
    unindexed = engine.index.path_explainer().find_word(word)
    if unindexed:
        shown = "; ".join(f"{path} ({why})" for path, why in unindexed[:PLACES_SHOWN])
        notes.append(f"{format_count(len(unindexed), 'file')} outside of the index with the name: {shown}")
    row |= {"near": list(found.near), "notes": notes}
    if found.freshness != "fresh":
        row["freshness"] = found.freshness
    return drop_empty(row)


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
    plain = [file.path for file in scan.files if not _has_grammar(engine, file.path)]
    if plain:
        if len(plain) > 1:
            more = f" and {len(plain) - 1:,} more"
        else:
            more = ""
        notes.append(f"{plain[0]}{more}: a language without a grammar, so its definitions are not known")
    return notes


def _has_grammar(engine: "Engine", path: str) -> bool:
    language = engine.languages.detect(path, b"")
    return language is not None and bool(language.grammar)


def format_explanation(row: dict[str, Any]) -> str:
    """Format an explanation: the target and its state, then each fact on a line."""
    reason = str(row.get("reason", "")).replace("_", " ")
    head = f"{escape_line(row.get('path') or row['symbol'])}: {STATES[row['state']]}"
    lines = [f"{head}: {reason}" if reason else head]
    if row.get("because_of"):
        lines.append(f"because of its folder {escape_line(row['because_of'])}")
    facts = [row.get("detail", ""), *row.get("definitions", ()), *row.get("notes", ())]
    lines += [f"  {escape_line(fact)}" for fact in facts if fact]
    if row.get("near"):
        lines.append(f"  similar names: {', '.join(row['near'])}")
    if row.get("freshness"):
        lines.append(f"  {row['freshness']}")
    return "\n".join(lines)
