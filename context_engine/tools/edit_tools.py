"""Tools that change files: the Engine decides and writes, and the reply reports the result.

A reply is short, since the caller knows the request: where the changes are now, the new hash, how to undo them.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from context_engine.context import describe_mentions_at
from context_engine.edit import AnyEdit, Fuzzy, LineEdit, Placement, content_of
from context_engine.errors import CallError, InvalidArgument
from context_engine.secrets import redact_file
from context_engine.text import (
    LineSpan,
    compact_json,
    decode,
    drop_empty,
    escape_line,
    format_count,
    join_first,
    split_lines,
)
from context_engine.tools.arguments import BooleanArg, IntegerArg, TextArg, TextListArg, argument_error
from context_engine.tools.edit_arguments import (
    ALIASES,
    AnchorArg,
    ContentArg,
    EditListArg,
    FileEdits,
    FileEditsArg,
    FuzzyMatchArg,
    LineRangeArg,
    build_edit,
    read_edit,
)
from context_engine.tools.reply import NOTE_CHARS, SHA_CHARS, add_text, clip_line, keep_fitting
from context_engine.tools.tool import Call, Reply, tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from context_engine.edit import EditedFile, EditPlan, EditResult, JournalEntry, NameOccurrence, Renaming
    from context_engine.engine import Engine

PLACES_SHOWN_MAX = 20
"""Most changed places that a reply lists for one file."""
PREVIEW_CONTEXT = 3
PREVIEW_LINES_MAX = 200
"""The limit of a unified diff, too."""
FILES_FOLLOWED_MAX = 3
"""Edited files whose uses and tests are named: each may take some parsing."""
OLD = tuple(name for name, field in ALIASES.items() if field == "target")
NEW = tuple(name for name, field in ALIASES.items() if field == "replace")
"""The names of other editors for the two texts of an edit."""
Lines = list[str]
"""`list` is the name of an argument below."""


@tool(touches="files")
def edit_file(
    engine: "Engine",
    call: Call,
    path: Annotated[str, TextArg("File to edit."), "file_path"] = "",
    target: Annotated[str | None, ContentArg("Unique text to replace."), *OLD] = None,
    replace: Annotated[str | None, ContentArg("New text; empty: delete."), *NEW] = None,
    symbol: Annotated[str | None, TextArg("Definition to replace, or around target.")] = None,
    line_range: Annotated[LineSpan | None, LineRangeArg("10-20: to replace, or around target.")] = None,
    edits: Annotated[
        tuple[AnyEdit, ...],
        EditListArg("Several; also symbol, line_range, insert_after."),
    ] = (),
    files: Annotated[tuple[FileEdits, ...], FileEditsArg("Several.")] = (),
    expected_hash: Annotated[str, TextArg("sha256 you read.")] = "",
    dry_run: Annotated[bool, BooleanArg("Only show the diff.")] = False,
    *,
    labels_are_text: Annotated[bool, BooleanArg("Write labels of redacted secrets as text.")] = False,
) -> Reply:
    """Edit files, all or none: replace a text, a definition or lines.

    Example: {"path": "a.py", "target": "max(0,", "replace": "max(1,"}
    """
    flat = {"target": target, "replace": replace, "symbol": symbol, "line_range": line_range}
    if sent := {field: value for field, value in flat.items() if value is not None}:
        if edits or files:
            raise argument_error(next(iter(sent)), "cannot be combined with a list of edits", "Put it into the list.")
        edits = (read_edit("edit", sent),)
    changes = [
        engine.edits.change_parts(
            file.path,
            file.edits,
            expected_hash=file.expected_hash or _hash_for_lines(engine, call, file),
            labels_are_text=labels_are_text,
        )
        for file in _collect_edits(path, edits, files, expected_hash)
    ]
    receipt = engine.edits.apply(changes, dry_run=dry_run, session=call.session, check_syntax=True)
    if dry_run:
        return Reply(_preview(receipt, engine.settings.result_chars_max, as_json=call.structured))
    affected: list[str] = []  # other lines with the names of the changed definitions, and their tests
    for file in receipt.files[:FILES_FOLLOWED_MAX] if receipt.undo_id else ():
        spans = [place.now for place in file.planned.placements]
        affected += describe_mentions_at(file.path, spans, engine, call.shown)
    if call.structured:
        return Reply(compact_json(_edited_fields(receipt) | drop_empty({"affected": affected})))
    undo, rows = _undo(receipt), [(file.path, _places(file), _sha(file), file.syntax) for file in receipt.files]
    if len(rows) == 1:
        lines = [_line("edited " + rows[0][0], *rows[0][1:], undo)]
    else:
        lines = [_line(f"edited {format_count(len(rows), 'file')}", undo), *(_line(*row) for row in rows)]
    return Reply("\n".join([*lines, *_notes(receipt), *affected]))


def _collect_edits(
    path: str, edits: Sequence[AnyEdit], files: Sequence[FileEdits], expected_hash: str
) -> Sequence[FileEdits]:
    """Return the files with their edits, whichever of the two forms the caller used."""
    example = 'Write {"path": "src/a.py", "edits": [{"target": "old", "replace": "new"}]}'
    is_one_file = bool(path.strip() or edits or expected_hash)
    if is_one_file == bool(files):
        raise InvalidArgument(
            "path and edits, or files: one of the two is needed",
            suggestion=f"{example}; put expected_hash next to its path.",
        )
    if is_one_file and not (path.strip() and edits):
        missing = "edits are" if path.strip() else "path is"
        raise InvalidArgument(f"{missing} missing", suggestion=f"{example}.")
    return files or [FileEdits(path, tuple(edits), expected_hash)]


def _hash_for_lines(engine: "Engine", call: Call, file: FileEdits) -> str:
    """Return the hash of the last read, which edits by line numbers need. Raises: InvalidArgument without a read."""
    if not any(isinstance(edit, LineEdit) for edit in file.edits):
        return ""
    if seen := engine.edits.hash_as_read(file.path, call.session):
        return seen
    raise argument_error(
        "line_range",
        "counts the lines of a file that was not read in this session",
        "Read the file first, send expected_hash, or quote the text as target.",
    )


@tool(touches="files")
def write_file(
    engine: "Engine",
    call: Call,
    path: Annotated[str, TextArg("File to write.")],
    content: Annotated[str, ContentArg("Its whole text.")],
    expected_hash: Annotated[str, TextArg("sha256 you read.")] = "",
    overwrite: Annotated[bool, BooleanArg("Also an existing file.")] = True,
    *,
    labels_are_text: Annotated[bool, BooleanArg("Write labels of redacted secrets as text.")] = False,
) -> Reply:
    r"""Write a whole file; edit_file changes parts.

    Example: {"path": "a.md", "content": "# A\n"}
    """
    change = engine.edits.change_whole(
        path, content, overwrite=overwrite, expected_hash=expected_hash, labels_are_text=labels_are_text
    )
    receipt = engine.edits.apply([change], session=call.session, check_syntax=True)
    file = receipt.files[0]
    verb = ("replaced" if file.before else "created") if receipt.undo_id else "unchanged"
    if call.structured:
        return Reply(compact_json(_edited_fields(receipt) | {"action": verb}))
    head = _line(f"{verb} {file.path}", _sha(file), file.syntax, _undo(receipt))
    return Reply("\n".join([head, *_notes(receipt)]))


@tool(touches="files", error_fields={"success": False})
def safe_replace(
    engine: "Engine",
    call: Call,
    file_path: Annotated[str, TextArg("File path.")],
    old_content: Annotated[str, ContentArg("Text to find.")],
    new_content: Annotated[str, ContentArg("Text to put there.")],
    anchor: Annotated["Mapping[str, Any] | None", AnchorArg("Text around it, or its lines.")] = None,
    fuzzy_match: Annotated[Fuzzy | None, FuzzyMatchArg("Default: enabled, 5, whitespaceOnly.")] = None,
    dry_run: Annotated[bool, BooleanArg("Preview only.")] = False,
    expected_matches: Annotated[int, IntegerArg("How many to replace.", 1, 10_000)] = 1,
    *,
    expected_hash: Annotated[str, TextArg("sha256 of the file you read.")] = "",
) -> Reply:
    """Replace one text in a file safely, as JSON: an error unless exactly one place matches."""
    fields = {"target": old_content, "replace": new_content, "expected_matches": expected_matches, **(anchor or {})}
    edit = build_edit(fields | {"fuzzy": fuzzy_match or Fuzzy()})
    change = engine.edits.change_parts(file_path, [edit], expected_hash=expected_hash)
    receipt = engine.edits.apply([change], dry_run=dry_run, session=call.session, check_syntax=True)
    file = receipt.files[0]
    first, *others = file.planned.placements
    row: dict[str, Any] = {"success": True, "matchInfo": _match(first)}
    if others:
        row["matches"] = [_match(place) for place in (first, *others[: PLACES_SHOWN_MAX - 1])]
    if dry_run:
        row["preview"] = _preview_places(file.planned, file.path)
    row["updatedLines"] = {"start": first.now.first, "end": (first, *others)[-1].now.last}
    row |= {} if dry_run else {"newHash": file.after[:SHA_CHARS], "undoId": receipt.undo_id}
    return Reply(compact_json(row | {"syntax": file.syntax} | drop_empty({"warnings": _warnings(receipt)})))


def _match(place: Placement) -> dict[str, Any]:
    """Return a match as in upstream spec 000: any inexact one is fuzzy, with distance 0 if only whitespace differs."""
    kind = {"matchType": "exact"} if place.match_type == "exact" else {"matchType": "fuzzy", "distance": place.distance}
    return {"line": place.span.first, "column": place.column, **kind}


def _preview_places(planned: "EditPlan", path: str) -> dict[str, Any]:
    """Return the changed lines with their context, before and after; `lineRange` is the range of `before`."""
    texts = planned.content.norm, content_of(planned.data).norm
    before, after = (split_lines(redact_file(text, path)) for text in texts)
    first = max(1, planned.placements[0].span.first - PREVIEW_CONTEXT)
    last = min(len(before), planned.placements[-1].span.last + PREVIEW_CONTEXT)
    sides = {"before": before[first - 1 : last], "after": after[first - 1 : last + len(after) - len(before)]}
    row: dict[str, Any] = {}
    for side, lines in sides.items():
        more = len(lines) - PREVIEW_LINES_MAX
        rest = [f"… {format_count(more, 'more line')}"] if more > 0 else []
        row[side] = "\n".join([*lines[:PREVIEW_LINES_MAX], *rest])
    return row | {"lineRange": {"start": first, "end": last}}


@tool(touches="files")
def undo_edit(
    engine: "Engine",
    call: Call,
    steps: Annotated[int, IntegerArg("How many edits.", 1, 100)] = 1,
    redo: Annotated[bool, BooleanArg("Redo undone edits.")] = False,
    list: Annotated[bool, BooleanArg("Only list what can be undone.")] = False,  # noqa: A002 - the contract's name
    undo_id: Annotated[str, TextArg("This edit; empty: your newest.")] = "",
) -> Reply:
    """Undo your last edits, newest first, or redo them; also after a restart. Refuses where a file changed since."""
    if list:
        return Reply(_history(engine.edits.history(20)))
    if undo_id and steps > 1:
        raise InvalidArgument("undo_id names one edit, steps means several", suggestion="Send one of them.")
    turn, verb = (engine.edits.redo, "redone") if redo else (engine.edits.undo, "undone")
    lines: Lines = []
    for step in range(steps):
        try:
            receipt = turn(undo_id, session=call.session)
        except CallError as error:
            if not step:
                raise
            lines.append(f"stopped after {format_count(step, 'edit')}: {error.message}. {error.suggestion}")
            break
        lines.append(f"{verb}: edit {receipt.undo_id}")
        lines += [f"{escape_line(file.path)} · {_sha(file)}" for file in receipt.files]
    return Reply("\n".join(lines))


def _history(past: Sequence["JournalEntry"]) -> str:
    """Format a line for each edit, newest first."""
    if not past:
        return "nothing was edited yet"
    lines = [f"{format_count(len(past), 'edit')}, newest first"]
    for edit in past:
        files = join_first([f"{what} {path}" for path, what in edit.files], PLACES_SHOWN_MAX)
        date = datetime.fromtimestamp(edit.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        lines.append(_line(f"edit {edit.undo_id}", date, files, "undone" if edit.is_undone else ""))
    return "\n".join(lines)


# -- what an edit did -------------------------------------------------------------------------------------------------


def _line(*parts: str) -> str:
    """Join the parts that are not empty in one line."""
    return " · ".join(filter(None, map(escape_line, parts)))


def _undo(receipt: "EditResult") -> str:
    return f"undo {receipt.undo_id}" if receipt.undo_id else ""


def _sha(file: "EditedFile") -> str:
    return f"sha256 {file.after[:SHA_CHARS]}" if file.after else "deleted"


def _places(file: "EditedFile") -> str:
    """Format the changed lines by their new numbers, and how an inexact place was recognized."""
    places = file.planned.placements
    shown = [f"{place.now}{f' ({how})' if (how := _how(place)) else ''}" for place in places[:PLACES_SHOWN_MAX]]
    more = f" +{len(places) - PLACES_SHOWN_MAX}" if len(places) > PLACES_SHOWN_MAX else ""
    one = len(places) == 1 and places[0].now.lines == 1
    return f"line{'' if one else 's'} {', '.join(shown)}{more}"


def _how(place: Placement) -> str:
    """Format how a place differs from its target.

    >>> line = LineSpan(1, 1)
    >>> _how(Placement(0, line, 1, line)), _how(Placement(0, line, 1, line, grade=5, distance=2))
    ('', 'fuzzy, distance 2')
    """
    if place.match_type == "exact":
        return ""
    return f"{place.match_type}{f', distance {place.distance}' if place.distance else ''}"


def _warnings(receipt: "EditResult") -> list[str]:
    """Return what to know of the files, each with its path if there are several, and of the edit as a whole."""
    warnings = []
    for file in receipt.files:
        prefix = f"{escape_line(file.path)}: " if len(receipt.files) > 1 else ""
        name = decode(file.old_data or b"").label
        own = [f"encoded in {name}"] if name else []
        warnings += [f"{prefix}{warning}" for warning in (*own, *file.planned.warnings)]
    return [*warnings, *receipt.warnings]


def _notes(receipt: "EditResult") -> list[str]:
    return [f"note: {warning}" for warning in _warnings(receipt)]


def _edited_fields(receipt: "EditResult") -> dict[str, Any]:
    """Return what was written, or would be, for programs."""
    files = []
    for file in receipt.files:
        places = file.planned.placements[:PLACES_SHOWN_MAX]
        row = {
            "path": file.path,
            "lines": [str(place.now) for place in places],
            "how": list(filter(None, map(_how, places))),
            "sha256": file.after[:SHA_CHARS],
        }
        files.append(drop_empty(row) | {"syntax": file.syntax})
    head = {"files": files, "written": bool(receipt.undo_id)}
    return head | drop_empty({"undo_id": receipt.undo_id, "notes": _warnings(receipt)})


def _preview(receipt: "EditResult", chars_max: int, *, as_json: bool) -> str:
    from context_engine.edit import format_redacted_diff  # its library aligns lines, and a list of tools needs none

    lines: Lines = []
    for file in receipt.files:
        diff = format_redacted_diff(file.path, file.old_data, file.new_data)
        lines += diff.removesuffix("\n").split("\n")
    if as_json:
        return compact_json(add_text(_edited_fields(receipt), "diff", lines, chars_max))
    heads = [_line(file.path, _places(file), file.syntax) for file in receipt.files]
    summary = ["dry run: nothing was written", *heads, *_notes(receipt)]
    room = chars_max - NOTE_CHARS - sum(len(line) + 1 for line in summary)
    return "\n".join([*summary, *keep_fitting(lines, room)])


# -- rename_symbol ----------------------------------------------------------------------------------------------------


@tool(touches="files", instead="search_text")
def rename_symbol(
    engine: "Engine",
    call: Call,
    name: Annotated[str, TextArg("Definition, such as main or Class.method, or a file.")],
    new_name: Annotated[str, TextArg("New name, without its owner.")],
    path: Annotated[str, TextArg("File or folder of the definition.")] = "",
    dry_run: Annotated[bool, BooleanArg("Only list the places.")] = True,
    accept: Annotated[tuple[str, ...], TextListArg("Unsure places to change too: path:line; all; none.")] = (),
) -> Reply:
    """Rename a function, class, method or variable and its references in all files, as one edit that undo_edit reverts.

    Lists the sure places and the others; with dry_run false it changes the sure ones, if accept decides on the others.
    """
    found = engine.edits.rename_symbol(name, new_name, path=path, accept=accept, cancel=call.cancel)
    open_uses = [f"{place.path}:{place.line}" for place in found.uncertain if place.is_open]
    if open_uses and not dry_run and not accept:
        raise InvalidArgument(
            f"{format_count(len(open_uses), 'use')} of {found.symbol} may be meant: "
            f"{join_first([*map(escape_line, open_uses)], 12)}; nothing was written",
            suggestion='Look at them (dry_run), then give those to rename as well in accept, or ["all"] or ["none"].',
            details={"places": open_uses},
        )
    receipt = engine.edits.apply(found.changes, dry_run=dry_run, session=call.session)
    return Reply(_format_renaming(found, receipt, engine.settings.result_chars_max))


def _format_renaming(found: "Renaming", receipt: "EditResult", chars_max: int) -> str:
    """Format what was renamed, or would be; uncertain places come first, since a person must check them."""
    files = len({place.path for place in found.certain})
    sure = f"{format_count(len(found.certain), 'sure place')} in {format_count(files, 'file')}"
    done = f"renamed · undo {receipt.undo_id}" if receipt.undo_id else "dry run: nothing was written"
    head = f"{found.kind} {found.symbol} ({escape_line(found.path)}:{found.line}) -> {found.new_name} · {sure} · {done}"
    rows: Lines = []
    if unsure := list(_rename_rows(found.uncertain)):
        remain = "it is" if len(unsure) == 1 else "they are"
        rows += [f"{format_count(len(unsure), 'place')} not sure, left as {remain}:", *unsure]
    if not receipt.undo_id:
        rows += ["sure:", *_rename_rows(found.certain)]
    ending = []
    if found.others:
        verb = "means" if found.others == 1 else "mean"
        ending.append(f"{format_count(found.others, 'place')} of this name certainly {verb} something else")
    if not receipt.undo_id:
        ending.append("To change the sure ones: the same call with dry_run false.")
    ending += [*(f"note: {note}" for note in found.notes), *_notes(receipt)]
    room = chars_max - NOTE_CHARS - len(head) - sum(len(line) + 1 for line in ending)
    shown = keep_fitting(rows, room)
    return "\n".join([head, *shown, *ending])


def _rename_rows(places: "Sequence[NameOccurrence]") -> Iterator[str]:
    for place in places:
        why = f"{place.why} | " if place.why else ""
        yield f"{escape_line(place.path)}:{place.line}:{place.column} {why}{clip_line(place.text.strip(), 120)}"
