r"""PURE. The section on ctx in a project's file for agents (AGENTS.md, CLAUDE.md, GEMINI.md), between two markers.

Added at the end. Removing it gives every byte back, also a missing newline at the end.

>>> text = add_section("# Rules\n", "Ask ctx first.\n")
>>> remove_section(text), add_section(text, "Ask ctx first.\n") == text
('# Rules\n', True)
"""

from __future__ import annotations

from context_engine.errors import InvalidArgument

BEGIN = "<!-- ctx: begin, written by `ctx setup CLIENT --guidance`; changes between these lines are lost -->"
END = "<!-- ctx: end -->"


def add_section(text: str, guidance: str) -> str:
    """Return the text with the section, at the end or in place of the present one. Raises: InvalidArgument."""
    newline = "\r\n" if "\r\n" in text else "\n"
    section = f"{BEGIN}\n{guidance.rstrip()}\n{END}".replace("\n", newline)
    if place := _find_section(text):
        start, stop = place
        return text[:start] + section + text[stop:]
    if text and not text.endswith("\n"):
        return f"{text}{newline}{newline}{section}"
    return f"{text}{newline if text else ''}{section}{newline}"


def remove_section(text: str) -> str:
    """Return the text without the section and the empty line before it. Raises: InvalidArgument."""
    place = _find_section(text)
    if place is None:
        return text
    start, stop = place
    newline = "\r\n" if "\r\n" in text else "\n"
    before, after = text[:start], text[stop:]
    if after.startswith(newline):
        gap = newline
    else:
        gap = 2 * newline
    return before.removesuffix(gap) + after.removeprefix(newline)


def _find_section(text: str) -> tuple[int, int] | None:
    """Return the range of the section with its markers; None without one. Raises: InvalidArgument for half of one."""
    if text.count(BEGIN) == 0 and text.count(END) == 0:
        return None
    start, stop = text.find(BEGIN), text.find(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or stop < start:
        line = text.count("\n", 0, max(start, stop, 0)) + 1
        raise InvalidArgument(
            f"line {line}: the markers of the section on ctx are not a pair",
            suggestion="Remove the lines with `ctx: begin` and `ctx: end`, then run the command again.",
        )
    return start, stop + len(END)
