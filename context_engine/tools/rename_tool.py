"""The tool that renames a definition: it separates certain places from uncertain ones, and changes only the certain ones."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from context_engine.text.visible_text import escape_line
from context_engine.tools.arguments import BooleanArg, TextArg
from context_engine.tools.excerpt import clip_line
from context_engine.tools.tool import Call, Reply, tool
from context_engine.tools.truncate import NOTE_CHARS, count_fitting, format_count

if TYPE_CHECKING:
    from context_engine.edit.apply import EditResult
    from context_engine.edit.rename import NameOccurrence, Renaming
    from context_engine.engine import Engine

LINE_CHARS_MAX = 120


@tool(touches="files", instead="search_files")
def rename_symbol(
    engine: "Engine",
    call: Call,
    name: Annotated[str, TextArg("Definition, such as main or Class.method.", 1)],
    new_name: Annotated[str, TextArg("New name, without its owner.", 1)],
    path: Annotated[str, TextArg("File or folder of the definition.")] = "",
    dry_run: Annotated[bool, BooleanArg("Only list the places.")] = True,
) -> Reply:
    """Rename a function, class, method or variable and its references in all files, as one edit that undo_edit reverts.

    Lists the sure places and the others; with dry_run false it changes the sure ones only.
    """
    found = engine.edits.rename_symbol(name, new_name, path=path, cancel=call.cancel)
    receipt = None if dry_run else engine.edits.apply(found.changes, session=call.session)
    return Reply(_format_renaming(found, receipt, engine.settings.result_chars_max))


def _format_renaming(found: "Renaming", receipt: "EditResult | None", chars_max: int) -> str:
    """Format what was renamed, or would be; uncertain places come first, since a person must check them."""
    files = len({place.path for place in found.certain})
    sure = f"{format_count(len(found.certain), 'sure place')} in {format_count(files, 'file')}"
    done = f"renamed · undo {receipt.undo_id}" if receipt else "dry run: nothing was written"
    head = f"{found.kind} {found.symbol} ({escape_line(found.path)}:{found.line}) -> {found.new_name} · {sure} · {done}"
    unsure = list(_rows(found.uncertain))
    heading = [
        f"{format_count(len(found.uncertain), 'place')} not sure, left as {'it is' if len(unsure) == 1 else 'they are'}:"
    ]
    rows = [*(heading + unsure if unsure else []), *(["sure:", *_rows(found.certain)] if receipt is None else [])]
    ending = [*_ending(found, receipt), *(f"note: {note}" for note in found.notes)]
    room = chars_max - NOTE_CHARS - len(head) - sum(len(line) + 1 for line in ending)
    count = count_fitting(rows, chars_max=room)
    left = [f"… {format_count(len(rows) - count, 'more line')} did not fit"] if count < len(rows) else []
    return "\n".join([head, *rows[:count], *left, *ending])


def _rows(places: "Sequence[NameOccurrence]") -> Iterator[str]:
    for place in places:
        why = f"{place.why} | " if place.why else ""
        yield f"{escape_line(place.path)}:{place.line}:{place.column} {why}{clip_line(place.text.strip(), LINE_CHARS_MAX)}"


def _ending(found: "Renaming", receipt: "EditResult | None") -> Iterator[str]:
    """Yield a note on other uses of the name, and the next step."""
    if found.others:
        yield f"{format_count(found.others, 'place')} of this name certainly mean{'s' * (found.others == 1)} something else"
    if receipt is None:
        yield "To change the sure ones: the same call with dry_run false."
