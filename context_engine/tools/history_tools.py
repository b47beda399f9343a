"""A tool that answers from git: the commits that changed a path, wrote some lines or a symbol; or one commit."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.errors import FileNotFound, InvalidArgument, InvalidPath
from context_engine.text import LineSpan, compact_json, drop_empty, escape_controls, escape_line, format_count
from context_engine.timestamps import format_timestamp
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, TextArg
from context_engine.tools.reply import NOTE_CHARS, count_fitting, keep_fitting, pick_fields
from context_engine.tools.tool import Reply, tool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from context_engine.engine import Engine
    from context_engine.history import CodeHistory, CommitMessage

BODY_LINES_SHOWN = 12
"""Lines of a commit's message after its subject; of several commits together, a third each."""
FILES_SHOWN = 30
HASH_CHARS = 10
_PLACE = re.compile(r"(.+?):(\d{1,7})(?:-(\d{1,7}))?")
_HASH = re.compile(r"[0-9a-fA-F]{7,64}")


@dataclass(frozen=True, slots=True)
class _HistoryTarget:
    """The commit, or the path with perhaps a range of its lines, that a caller asks about, and how to name it."""

    name: str
    path: str = ""
    span: LineSpan | None = None
    commit: str = ""
    note: str = ""


@tool(touches="nothing", rare=("format",))
def history(
    engine: "Engine",
    target: Annotated[str, TextArg("path, path:10-30, a symbol or a commit; empty: all."), "path"] = "",
    limit: Annotated[int, IntegerArg("Most commits.", 1, 100)] = 10,
    diff: Annotated[bool, BooleanArg("Show a commit's diff, too.")] = False,
    format: Annotated[str, ChoiceArg("text or json.", ("text", "json"))] = "text",  # noqa: A002 - the argument
) -> Reply:
    """Show the commits that changed a file, wrote some lines or a symbol, with their messages; or one commit.

    Example: {"target": "app/pool.py:40-55"}
    """
    from context_engine.history import CodeHistory  # starts nothing, but most sessions never need it

    commits = CodeHistory(engine.git, engine.files.root)
    asked = _resolve(engine, target.strip())
    if asked.commit:
        row = _commit_row(commits, asked)
    elif asked.span:
        row = _lines_row(commits, asked, asked.span, limit)
    else:
        row = _path_row(commits, asked, limit)
    lines = [escape_controls(line) for line in commits.read_diff(asked.commit)] if diff and asked.commit else []
    write = _as_json if format == "json" else _as_text
    return Reply(write(row, lines, engine.settings.result_chars_max))


def _resolve(engine: "Engine", target: str) -> _HistoryTarget:
    """Return what a target names: a path before a commit, a commit before a symbol.

    Raises: InvalidPath, AccessDenied, FileNotFound, InvalidArgument.
    """
    if not target:
        return _HistoryTarget("the repository")
    place = _PLACE.fullmatch(target)
    if place and (path := _find_path(engine, place[1])):
        first = int(place[2])
        return _in_file(engine, path, LineSpan(first, int(place[3] or first)))
    path = _find_path(engine, target)
    if not path and "/" in target:
        path = str(engine.files.root.rel(target.rstrip("/"), must_exist=False))  # perhaps deleted
    if path:
        return _HistoryTarget(path, path)
    if _HASH.fullmatch(target) or target.startswith(("HEAD", "@")):
        commit = engine.git.commit(target)
        return _HistoryTarget(commit, commit=commit)
    return _resolve_symbol(engine, target)


def _find_path(engine: "Engine", text: str) -> str:
    """Return the path of a file or folder that exists; "" if none does. Raises: AccessDenied."""
    try:
        return str(engine.files.root.rel(text))
    except (FileNotFound, InvalidPath):
        return ""


def _in_file(engine: "Engine", path: str, span: LineSpan) -> _HistoryTarget:
    lines = engine.files.read(path).lines
    inside = span.clip(lines)
    if inside is None:
        raise InvalidArgument(
            f"{path} has {format_count(lines, 'line')}, and no line {span}", suggestion="name lines of the file"
        )
    return _HistoryTarget(f"{path}:{inside}", path, inside)


def _resolve_symbol(engine: "Engine", name: str) -> _HistoryTarget:
    found = engine.symbols.find(name, limit=4)
    if not found.definitions:
        near = f": near are {', '.join(found.near)}" if found.near else ""
        raise FileNotFound(
            f"no path, commit or symbol of the index is named {name!r}{near}",
            suggestion="give a path, path:line, a commit hash, or a symbol that symbols finds",
            details={"target": name},
        )
    first, *others = found.definitions
    note = ", ".join(f"{other.path}:{other.span.first}" for other in others)
    return _HistoryTarget(
        f"{first.qualified} ({first.path}:{first.span})",
        str(first.path),
        first.span,
        note=f"also defined in {note}" if note else "",
    )


def _path_row(commits: "CodeHistory", asked: _HistoryTarget, limit: int) -> dict[str, Any]:
    changes = commits.list_changes(asked.path, most=limit + 1)
    if not changes:
        raise FileNotFound(f"no commit has {asked.path}", suggestion="check the path", details={"path": asked.path})
    rows = [_message_row(message) for message in changes[:limit]]
    return {"target": asked.name, "commits": rows, "more": len(changes) > limit}


def _lines_row(commits: "CodeHistory", asked: _HistoryTarget, span: LineSpan, limit: int) -> dict[str, Any]:
    found = commits.find_origins(asked.path, span)
    rows = [
        _message_row(origin.message) | {"lines": ", ".join(map(str, origin.lines))} for origin in found.origins[:limit]
    ]
    uncommitted = ", ".join(map(str, found.uncommitted))
    row = {"target": asked.name, "commits": rows, "uncommitted": uncommitted, "note": asked.note}
    return row | {"more": len(found.origins) > limit, "written_by": len(found.origins)}


def _commit_row(commits: "CodeHistory", asked: _HistoryTarget) -> dict[str, Any]:
    (message,) = commits.read_commits([asked.commit])
    files = [
        drop_empty(pick_fields(file, "path was")) | pick_fields(file, "added removed")
        for file in commits.list_files(asked.commit)
    ]
    return {"target": asked.commit, "commits": [_message_row(message)], "files": files}


def _message_row(message: "CommitMessage") -> dict[str, Any]:
    date = format_timestamp(message.at)[:10]
    return {"hash": message.hash, "date": date, **pick_fields(message, "author subject body")}


# -- text and JSON ----------------------------------------------------------------------------------------------------


def _as_json(row: dict[str, Any], diff: "Sequence[str]", chars_max: int) -> str:
    room = chars_max - NOTE_CHARS
    count = count_fitting(map(compact_json, row["commits"]), chars_max=room)
    shown = row | {"commits": row["commits"][:count], "files": row.get("files", [])[:FILES_SHOWN]}
    shown["more"] = row.get("more") or count < len(row["commits"]) or None
    lines = diff[: count_fitting(map(compact_json, diff), chars_max=room - len(compact_json(shown)))]
    return compact_json(drop_empty(shown | {"diff": "\n".join(lines), "lines_left_out": len(diff) - len(lines)}))


def _as_text(row: dict[str, Any], diff: "Sequence[str]", chars_max: int) -> str:
    if "files" in row:
        (commit,) = row["commits"]
        head = f"{commit['hash']} {commit['date']} {escape_line(commit['author'])}"
        message = [head, escape_line(commit["subject"]), *_body(commit, BODY_LINES_SHOWN)]
        lines = [*message, *_files_text(row["files"]), *diff]
    else:
        lines = [_headline(row)]
        for commit in row["commits"]:
            lines += _message_lines(commit, BODY_LINES_SHOWN // 3 if "lines" in commit else 0)
        if row.get("more"):
            lines.append("… there are more: raise limit")
        if row.get("note"):
            lines.append(f"note: {escape_line(row['note'])}")
    shown = keep_fitting(
        lines,
        chars_max=chars_max - NOTE_CHARS,
        name_rest=lambda left: f"… {format_count(left, 'more line')} did not fit",
    )
    return "\n".join(shown)


def _headline(row: dict[str, Any]) -> str:
    target = escape_line(row["target"])
    if "written_by" not in row:
        return f"{target}: the newest commits"
    parts = [f"written in {format_count(row['written_by'], 'commit')}"] if row["written_by"] else []
    if row["uncommitted"]:
        parts.append(f"lines {row['uncommitted']} are in no commit yet")
    return f"{target}: {'; '.join(parts)}"


def _message_lines(commit: dict[str, Any], body_lines: int) -> list[str]:
    where = ""
    if "lines" in commit:
        where = f" ({'line' if commit['lines'].isdigit() else 'lines'} {commit['lines']})"
    head = f"{commit['hash'][:HASH_CHARS]} {commit['date']} {escape_line(commit['author'])}: "
    return [f"{head}{escape_line(commit['subject'])}{where}", *_body(commit, body_lines)]


def _body(commit: dict[str, Any], most: int) -> list[str]:
    lines = [f"    {escape_line(line)}" for line in commit["body"].split("\n") if line.strip()]
    if most and len(lines) > most:
        return [*lines[:most], f"    … {format_count(len(lines) - most, 'more line')}"]
    return lines[:most]


def _files_text(files: "Sequence[dict[str, Any]]") -> list[str]:
    lines = [format_count(len(files), "file")]
    for file in files[:FILES_SHOWN]:
        was = f" (was {escape_line(file['was'])})" if "was" in file else ""
        counts = "binary" if file["added"] < 0 else f"+{file['added']} -{file['removed']}"
        lines.append(f"  {escape_line(file['path'])}{was} {counts}")
    if len(files) > FILES_SHOWN:
        lines.append(f"  … {len(files) - FILES_SHOWN:,} more")
    return lines
