"""A tool that answers from git: the commits that changed a path, wrote some lines or a symbol; or one commit."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from context_engine.errors import FileNotFound, InvalidArgument, InvalidPath
from context_engine.text import LineSpan, compact_json, drop_empty, escape_controls, escape_line, format_count
from context_engine.timestamps import format_timestamp
from context_engine.tools.arguments import BooleanArg, ChoiceArg, IntegerArg, TextArg
from context_engine.tools.reply import NOTE_CHARS, Listing, add_text, count_rest, keep_fitting, pick_fields
from context_engine.tools.tool import Reply, tool

if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.history import CodeHistory
    from context_engine.model import Commit

BODY_LINES_SHOWN = 12
"""Lines of a commit's message after its subject; of several commits together, a third each."""
FILES_SHOWN = 30
_PLACE = re.compile(r"(.+?):(\d{1,7})(?:-(\d{1,7}))?")
_HASH = re.compile(r"[0-9a-fA-F]{7,64}")


class _HistoryTarget(NamedTuple):
    """The commit, the path, or the lines of a file, perhaps as a commit has it, that a caller asks about."""

    name: str
    path: str = ""
    span: LineSpan | None = None
    commit: str = ""
    note: str = ""


@tool(touches="nothing")
def history(
    engine: "Engine",
    target: Annotated[str, TextArg("Path, path:10-30, symbol or commit; empty: all."), "path"] = "",
    limit: Annotated[int, IntegerArg("Maximum commits.", 1, 100)] = 10,
    diff: Annotated[bool, BooleanArg("Show a commit's diff, too.")] = False,
    *,
    format: Annotated[str, ChoiceArg("text or json.", ("text", "json"))] = "text",  # noqa: A002 - the argument
) -> Reply:
    """Show the commits that changed a file, wrote some lines or a symbol, with their messages; or one commit.

    Example: {"target": "app/pool.py:40-55"}
    """
    from context_engine.history import CodeHistory  # starts nothing, but most sessions never need it

    commits, as_json = CodeHistory(engine.git, engine.files.root), format == "json"
    asked, chars_max = _resolve(engine, target.strip()), engine.settings.result_chars_max
    if asked.commit and not asked.path:
        shown = list(map(escape_controls, commits.read_diff(asked.commit))) if diff else []
        return Reply(_show_commit(commits, asked.commit, shown, chars_max, as_json=as_json))
    notes: dict[str, Any] = {"note": asked.note}
    if asked.span:
        found = commits.find_origins(asked.path, asked.span, asked.commit)
        rows = [_message_row(origin.message) | {"lines": ", ".join(map(str, origin.lines))} for origin in found.origins]
        head = f"written in {format_count(len(rows), 'commit')}"
        notes["uncommitted"] = ", ".join(map(str, found.uncommitted))
    else:
        rows = list(map(_message_row, commits.list_changes(asked.path, most=limit + 1)))
        head = "the newest commits"
        if not rows:
            inner = engine.git.inner_repository(asked.path)
            step = f"{inner} is a repository of its own: ask in a workspace there." if inner else "check the path"
            raise FileNotFound(f"no commit has {asked.path}", suggestion=step, details={"path": asked.path})
    if engine.git.shallow_commits():
        notes["shallow"] = "the clone is shallow, so older commits are missing: git fetch --unshallow"
    has_more = len(rows) > limit
    notes["next"] = "raise `limit` for more" if has_more else ""
    listing = Listing(
        head=f"{escape_line(asked.name)}: {head}",
        fields={"target": asked.name} | ({"more": True} if has_more else {}),
        name="commits",
        lines=map(_message_text, rows[:limit]),
        rows=rows[:limit],
        notes=notes,
        more=": raise `limit`",
    )
    return listing.write(chars_max, as_json=as_json)


def _resolve(engine: "Engine", target: str) -> _HistoryTarget:
    """Return what a target names: a path before a commit, a commit before a symbol.

    Raises: InvalidPath, AccessDenied, FileNotFound, InvalidArgument.
    """
    if not target:
        return _HistoryTarget("the repository")
    if place := _PLACE.fullmatch(target):
        first = int(place[2])
        return _in_file(engine, place[1], LineSpan(first, int(place[3] or first)))
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


def _in_file(engine: "Engine", text: str, span: LineSpan) -> _HistoryTarget:
    """Return lines of a file of the work tree; else, deleted or left out by a sparse checkout, of the last commit."""
    path = _find_path(engine, text)
    if not path:
        path, note = str(engine.files.root.rel(text, must_exist=False)), "the work tree has no such file, HEAD has"
        return _HistoryTarget(f"{path}:{span}", path, span, "HEAD", note)
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
            suggestion="give a path, path:line, a commit hash or the name of a symbol",
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


def _message_row(message: "Commit") -> dict[str, Any]:
    date = format_timestamp(message.at)[:10]
    return {"hash": message.hash, "date": date, **pick_fields(message, "author subject body")}


def _message_text(commit: Mapping[str, Any]) -> str:
    """Format a commit in a line; one that wrote lines with these, and the beginning of its message."""
    head = f"{commit['hash'][:10]} {commit['date']} {escape_line(commit['author'])}: "
    line = f"{head}{escape_line(commit['subject'])}"
    if "lines" not in commit:
        return line
    noun = "line" if commit["lines"].isdigit() else "lines"
    return "\n".join([f"{line} ({noun} {commit['lines']})", *_body(commit, BODY_LINES_SHOWN // 3)])


def _body(commit: Mapping[str, Any], most: int) -> list[str]:
    lines = [f"    {escape_line(line)}" for line in commit["body"].split("\n") if line.strip()]
    return [*lines[:most], *(f"    {rest}" for rest in count_rest(len(lines) - most, noun="line"))]


def _show_commit(commits: "CodeHistory", commit: str, diff: Sequence[str], chars_max: int, *, as_json: bool) -> str:
    (message,) = commits.read_commits([commit])
    row, files = _message_row(message), commits.list_files(commit)
    if as_json:
        listed = [drop_empty(pick_fields(file, "path was")) | pick_fields(file, "added removed") for file in files]
        fields = {"target": commit, "commits": [row], "files": listed[:FILES_SHOWN]}
        return compact_json(add_text(fields, "diff", diff, chars_max) if diff else fields)
    lines = [f"{row['hash']} {row['date']} {escape_line(row['author'])}", escape_line(row["subject"])]
    lines += [*_body(row, BODY_LINES_SHOWN), format_count(len(files), "file")]
    for file in files[:FILES_SHOWN]:
        was = f" (was {escape_line(file.was)})" if file.was else ""
        counts = "binary" if file.added < 0 else f"+{file.added} -{file.removed}"
        lines.append(f"  {escape_line(file.path)}{was} {counts}")
    lines += [f"  {rest}" for rest in count_rest(len(files) - FILES_SHOWN)]
    return "\n".join(keep_fitting([*lines, *diff], chars_max - NOTE_CHARS))
