"""Tools that change files: each says what it wants, the Engine decides and writes, the reply says what became of it.

A reply is short, since its reader knows what he sent: where the changes are now, the new hash, how to undo them.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, cast

from context_engine.edit.model import Fuzzy, Placement
from context_engine.errors import CallError, InvalidArgument
from context_engine.secrets.masked_text import redact_file
from context_engine.text.lines import split_lines
from context_engine.text.spans import LineSpan
from context_engine.text.visible_text import escape_line
from context_engine.tools.arguments import BooleanArg, IntegerArg, TextArg
from context_engine.tools.edit_arguments import (
    AnchorArg,
    ContentArg,
    EditListArg,
    FileEdits,
    FileEditsArg,
    FuzzyMatchArg,
    build_edit,
)
from context_engine.tools.file_tools import SHA_CHARS
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import NOTE_CHARS, compact_json, count_fitting, format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from context_engine.edit.apply import ChangedFile, EditResult, PastEdit
    from context_engine.edit.edit_request import Want
    from context_engine.edit.file_edit import FileEdit
    from context_engine.edit.patch import EditPlan
    from context_engine.engine import Engine

PLACES_SHOWN_MAX = 20
"""Changed places that are named one by one; who made more of them in a file can read it."""
PREVIEW_CONTEXT = 3
PREVIEW_LINES_MAX = 200
"""As many as a unified diff shows."""
STEPS_MAX = 100
HISTORY_MAX = 20


@tool(touches="files", rare=("labels_are_text",))
def edit_file(
    engine: "Engine",
    call: Call,
    path: Annotated[str, TextArg("File.")] = "",
    edits: Annotated[
        tuple["Want", ...],
        EditListArg("Also occurrence, expected_matches, fuzzy, symbol, insert_before, insert_after."),
    ] = (),
    files: Annotated[tuple[FileEdits, ...], FileEditsArg("[{path, edits}].")] = (),
    expected_hash: Annotated[str, TextArg("sha256.")] = "",
    dry_run: Annotated[bool, BooleanArg("Diff only.")] = False,
    labels_are_text: Annotated[bool, BooleanArg("Labels of masked secrets in the new text are meant as text.")] = False,
) -> Reply:
    """Edit files, all or none: replace each target, which must be unique or narrowed down."""
    asked = _collect_edits(path, edits, files, expected_hash)
    changes = [
        engine.edits.change_parts(
            each.path, each.wants, expected_hash=each.expected_hash, labels_are_text=labels_are_text
        )
        for each in asked
    ]
    receipt, syntax = _apply_changes(engine, call, changes, dry_run=dry_run)
    if dry_run:
        return Reply(_previews(receipt, syntax, engine.settings.result_chars_max))
    return Reply(_format_edits(receipt, syntax))


@tool(touches="files", rare=("labels_are_text",))
def write_file(
    engine: "Engine",
    call: Call,
    path: Annotated[str, TextArg("File.", 1)],
    content: Annotated[str, ContentArg("Text.")],
    expected_hash: Annotated[str, TextArg("sha256.")] = "",
    overwrite: Annotated[bool, BooleanArg("Replace.")] = True,
    labels_are_text: Annotated[bool, BooleanArg("Labels of masked secrets in the new text are meant as text.")] = False,
) -> Reply:
    """Write a whole file, new or old; edit_file changes parts."""
    change = engine.edits.change_whole(
        path, content, overwrite=overwrite, expected_hash=expected_hash, labels_are_text=labels_are_text
    )
    receipt, syntax = _apply_changes(engine, call, [change])
    file = receipt.files[0]
    verb = "unchanged" if not receipt.undo_id else "replaced" if file.before else "created"
    return Reply("\n".join([_line(f"{verb} {file.path}", _sha(file), syntax[0], receipt), *_notes(receipt)]))


@tool(touches="files", error_fields={"success": False}, rare=("expected_hash", "expected_matches"))
def safe_replace(
    engine: "Engine",
    call: Call,
    file_path: Annotated[str, TextArg("File path.", 1)],
    old_content: Annotated[str, ContentArg("Text to find.")],
    new_content: Annotated[str, ContentArg("Text to put there.")],
    anchor: Annotated["Mapping[str, Any] | None", AnchorArg("What must stand around it.")] = None,
    fuzzy_match: Annotated[Fuzzy | None, FuzzyMatchArg("Default: enabled, 5, whitespaceOnly.")] = None,
    dry_run: Annotated[bool, BooleanArg("Preview only.")] = False,
    expected_hash: Annotated[str, TextArg("sha256 of the file you read.")] = "",
    expected_matches: Annotated[int, IntegerArg("Replace so many.", 1, 10_000)] = 1,
) -> Reply:
    """Replace one text in a file by another, safely, as JSON: only where exactly one place is meant, else refused."""
    fields = {"target": old_content, "replace": new_content, "expected_matches": expected_matches, **(anchor or {})}
    want = build_edit(fields | {"fuzzy": fuzzy_match or Fuzzy()})
    change = engine.edits.change_parts(file_path, [want], expected_hash=expected_hash)
    receipt, syntax = _apply_changes(engine, call, [change], dry_run=dry_run)
    return Reply(compact_json(_replace_row(receipt, syntax[0], dry_run=dry_run)))


@tool(touches="files")
def undo_edit(
    engine: "Engine",
    call: Call,
    steps: Annotated[int, IntegerArg("How many edits.", 1, STEPS_MAX)] = 1,
    redo: Annotated[bool, BooleanArg("Do undone edits again.")] = False,
    list: Annotated[bool, BooleanArg("Only list what can be undone.")] = False,  # noqa: A002 - the contract's name
    undo_id: Annotated[str, TextArg("This edit; empty: your newest.")] = "",
) -> Reply:
    """Undo your last edits, newest first, or redo them; also after a restart. Refuses where a file changed since."""
    if list:
        return Reply(_history(engine.edits.history(HISTORY_MAX)))
    if undo_id and steps > 1:
        raise InvalidArgument("undo_id names one edit, steps means several", suggestion="Send one of them.")
    turn, verb = (engine.edits.redo, "done again") if redo else (engine.edits.undo, "undone")
    return Reply("\n".join(_run_turns(verb, lambda: turn(undo_id, session=call.session), steps)))


# -- what is asked ----------------------------------------------------------------------------------------------------


def _collect_edits(
    path: str, edits: Sequence["Want"], files: Sequence[FileEdits], expected_hash: str
) -> Sequence[FileEdits]:
    """The files and their edits, whichever way they were sent."""
    one = bool(path.strip() or edits or expected_hash)
    if one == bool(files):
        raise InvalidArgument(
            "path and edits, or files: one of the two is needed",
            suggestion='Write {"path": "src/a.py", "edits": [{"target": "old", "replace": "new"}]}; a hash goes beside its path.',
        )
    if files:
        return files
    if not (path.strip() and edits):
        missing = "edits are" if path.strip() else "path is"
        raise InvalidArgument(
            f"{missing} missing",
            suggestion='Write {"path": "src/a.py", "edits": [{"target": "old", "replace": "new"}]}.',
        )
    return [FileEdits(path, tuple(edits), expected_hash)]


def _apply_changes(
    engine: "Engine", call: Call, changes: Sequence["FileEdit"], *, dry_run: bool = False
) -> "tuple[EditResult, list[str]]":
    """Make the changes; with the receipt comes of each file whether it still parses."""
    receipt = engine.edits.apply(changes, dry_run=dry_run, session=call.session, check_syntax=True)
    return receipt, [file.syntax for file in receipt.files]


# -- edit_file and write_file -----------------------------------------------------------------------------------------


def _format_edits(receipt: "EditResult", syntax: Sequence[str]) -> str:
    """A line for the file, or one for each; then what the caller may not have meant."""
    if len(receipt.files) == 1:
        file = receipt.files[0]
        line = _line(f"edited {file.path}", _places(file), _sha(file), syntax[0], receipt)
        return "\n".join([line, *_notes(receipt)])
    rows = [_line(file.path, _places(file), _sha(file), said) for file, said in zip(receipt.files, syntax, strict=True)]
    head = f"edited {format_count(len(rows), 'file')} · undo {receipt.undo_id}"
    return "\n".join([head, *rows, *_notes(receipt)])


def _line(*parts: "str | EditResult") -> str:
    """What is not empty, in one line; of a receipt how to undo it."""
    told = [
        escape_line(part) if isinstance(part, str) else f"undo {part.undo_id}" if part.undo_id else "" for part in parts
    ]
    return " · ".join(filter(None, told))


def _places(file: "ChangedFile") -> str:
    """The lines that are changed, as they count now, and how a place was recognised that does not fit exactly."""
    places = _placements(file)
    shown = [f"{each.now}{_how(each)}" for each in places[:PLACES_SHOWN_MAX]]
    more = f" +{len(places) - PLACES_SHOWN_MAX}" if len(places) > PLACES_SHOWN_MAX else ""
    one = len(places) == 1 and places[0].now.lines == 1
    return f"line{'' if one else 's'} {', '.join(shown)}{more}"


def _how(place: Placement) -> str:
    """How a place differs from its target.

    >>> line = LineSpan(1, 1)
    >>> _how(Placement(0, line, 1, line)), _how(Placement(0, line, 1, line, rung=5, distance=2))
    ('', ' (fuzzy, distance 2)')
    """
    if place.match_type == "exact":
        return ""
    return f" ({place.match_type}{f', distance {place.distance}' if place.distance else ''})"


def _sha(file: "ChangedFile") -> str:
    return f"sha256 {file.after[:SHA_CHARS]}" if file.after else "deleted"


def _notes(receipt: "EditResult") -> Iterator[str]:
    several = len(receipt.files) > 1
    for file in receipt.files:
        for each in getattr(file.planned, "warnings", ()):
            yield f"note: {f'{escape_line(file.path)}: ' if several else ''}{each}"
    for each in receipt.warnings:
        yield f"note: {each}"


def _previews(receipt: "EditResult", syntax: Sequence[str], chars_max: int) -> str:
    """What would become of each file, as unified diffs; those that do not fit are counted."""
    heads, diffs = [], []
    for file, said in zip(receipt.files, syntax, strict=True):
        heads.append(_line(file.path, _places(file), said))
        diffs.append(masked_diff(_planned_patch(file), file.path))
    told = ["dry run: nothing was written", *heads, *_notes(receipt)]
    lines = [line for diff in diffs for line in diff.removesuffix("\n").split("\n")]
    count = count_fitting(lines, chars_max=chars_max - NOTE_CHARS - sum(len(line) + 1 for line in told))
    left = [f"… {format_count(len(lines) - count, 'more line')} of the diff did not fit"] if count < len(lines) else []
    return "\n".join([*told, *lines[:count], *left])


def masked_diff(planned: "EditPlan", path: str) -> str:
    """A unified diff in which the secrets of the whole file are masked: a diff shows parts that tell nothing by themselves."""
    hidden: dict[str, str] = {}
    for text in _texts(planned):
        shown = redact_file(text, path)
        if shown != text:
            hidden |= {a: b for a, b in zip(text.split("\n"), shown.split("\n"), strict=True) if a != b}
    diff = planned.preview(path)
    return "\n".join(line[:1] + hidden.get(line[1:], line[1:]) for line in diff.split("\n")) if hidden else diff


def _texts(planned: "EditPlan") -> tuple[str, str]:
    """The file before and after, each line ended by a line feed."""
    parts, at = [], 0
    for patch in planned.patches:
        parts += [planned.content.text[at : patch.start], patch.text]
        at = patch.stop
    return planned.content.norm, "".join([*parts, planned.content.text[at:]]).replace("\r\n", "\n")


def _planned_patch(file: "ChangedFile") -> "EditPlan":
    """What `edit.patch` gave for a file that was edited; only a file that was written whole has another plan."""
    return cast("EditPlan", file.planned)


def _placements(file: "ChangedFile") -> tuple[Placement, ...]:
    return _planned_patch(file).placements


# -- safe_replace -----------------------------------------------------------------------------------------------------


def _replace_row(receipt: "EditResult", syntax: str, *, dry_run: bool) -> dict[str, Any]:
    """The result in the words of seed 000, and what it leaves out: where the lines are now, the hash, how to undo."""
    file = receipt.files[0]
    first, *others = _placements(file)
    row: dict[str, Any] = {"success": True, "matchInfo": _match(first)}
    if others:
        row["matches"] = [_match(each) for each in (first, *others[: PLACES_SHOWN_MAX - 1])]
    if dry_run:
        row["preview"] = _preview(_planned_patch(file), file.path)
    row["updatedLines"] = _ends(LineSpan(first.now.first, (first, *others)[-1].now.last))
    row |= {} if dry_run else {"newHash": file.after[:SHA_CHARS], "undoId": receipt.undo_id}
    row["syntax"] = syntax
    warnings = [note.removeprefix("note: ") for note in _notes(receipt)]
    return row | ({"warnings": warnings} if warnings else {})


def _match(place: Placement) -> dict[str, Any]:
    """A match as seed 000 tells it: what is not exact is fuzzy, at a distance of 0 when only whitespace differs."""
    told: dict[str, Any] = {"line": place.span.first, "column": place.column}
    if place.match_type == "exact":
        return told | {"matchType": "exact"}
    return told | {"matchType": "fuzzy", "distance": place.distance}


def _preview(planned: "EditPlan", path: str) -> dict[str, Any]:
    """The changed lines with those around them, before and after; `lineRange` are the lines of `before`."""
    before, after = (split_lines(redact_file(text, path)) for text in _texts(planned))
    first = max(1, planned.placements[0].span.first - PREVIEW_CONTEXT)
    last = min(len(before), planned.placements[-1].span.last + PREVIEW_CONTEXT)
    grown = len(after) - len(before)
    return {
        "before": _cut(before[first - 1 : last]),
        "after": _cut(after[first - 1 : last + grown]),
        "lineRange": _ends(LineSpan(first, last)),
    }


def _cut(lines: Sequence[str]) -> str:
    """Lines as one text, cut where a preview has shown enough."""
    more = len(lines) - PREVIEW_LINES_MAX
    return "\n".join([*lines[:PREVIEW_LINES_MAX], *([f"… {format_count(more, 'more line')}"] if more > 0 else [])])


def _ends(span: LineSpan) -> dict[str, int]:
    return {"start": span.first, "end": span.last}


# -- undo_edit --------------------------------------------------------------------------------------------------------


def _run_turns(verb: str, turn: "Callable[[], EditResult]", steps: int) -> Iterator[str]:
    """What was turned back, one edit after the other, until one refuses. Raises: what the first one raises."""
    for step in range(steps):
        try:
            yield _format_turn(verb, turn())
        except CallError as error:
            if not step:
                raise
            yield f"stopped after {format_count(step, 'edit')}: {error.message}. {error.suggestion}"
            return


def _format_turn(verb: str, receipt: "EditResult") -> str:
    rows = [f"{escape_line(file.path)} · {_sha(file)}" for file in receipt.files]
    return "\n".join([f"{verb}: edit {receipt.undo_id}", *rows])


def _history(past: Sequence["PastEdit"]) -> str:
    """One line for each edit, newest first."""
    if not past:
        return "nothing was edited yet"
    lines = [f"{format_count(len(past), 'edit')}, newest first"]
    for each in past:
        files = ", ".join(f"{what} {path}" for path, what in each.files[:PLACES_SHOWN_MAX])
        more = len(each.files) - PLACES_SHOWN_MAX
        at = datetime.fromtimestamp(each.at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        undone = "undone" if each.is_undone else ""
        lines.append(_line(f"edit {each.undo_id}", at, f"{files}{f' and {more} more' if more > 0 else ''}", undone))
    return "\n".join(lines)
