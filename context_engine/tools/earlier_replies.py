"""Leave out of a reply the code that the client was shown before.

    known = find_shown(call, repeat, query, max_files)       # empty for a question that is asked again
    if known.may_replace(path, first, text): ...             # name the place in `list_shown` and leave the text out
    call.shown.add(path, first, text)                        # for every text that the reply does show

A tool that reads a place by its path only adds: its caller wants to see it.
"""

from collections.abc import Sequence
from typing import Annotated

from context_engine.context import ShownLines
from context_engine.tools.arguments import BooleanArg
from context_engine.tools.tool import Call

Repeat = Annotated[bool, BooleanArg("Show again what earlier replies showed.")]
PLACES_LISTED_MAX = 12


def find_shown(call: Call, repeat: bool, *question: object) -> ShownLines:
    """Return the lines that a reply may leave out: none if the caller wants them, or asks the same question again."""
    is_known = call.shown.note_question(*question)
    if repeat or is_known:
        return ShownLines()
    return call.shown


def list_shown(places: Sequence[str]) -> str:
    """Name the places that a reply leaves out, and how to get them; empty if there are none.

    >>> list_shown(["a.py:10-40", "b.py:7-21"])
    'a.py:10-40, b.py:7-21 (again: repeat=true)'
    """
    if not places:
        return ""
    if len(places) > PLACES_LISTED_MAX:
        more = f" and {len(places) - PLACES_LISTED_MAX} more"
    else:
        more = ""
    return f"{', '.join(places[:PLACES_LISTED_MAX])}{more} (again: repeat=true)"
