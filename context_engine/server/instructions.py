"""PURE. The instructions of the server for a model: they name only tools that its client lists.

This module imports only what every interpreter has loaded already, because the first reply waits for it.
"""

from __future__ import annotations

from collections.abc import Collection

PURPOSE = "Finds code in this repository."
LEADS = (
    (("search_code", "codebase_retrieval"), "Before you grep or open files, ask {} in plain words"),
    (("read", "read_fragment"), "{} shows the lines you need of several files at once"),
    (("symbols", "find_symbol"), "{} finds definitions and callers"),
    (("search_text", "search_files"), "{} greps"),
)
"""The names of a tool, the newest first, and what to use it for: one sentence out of those that are listed."""
FACTS = "Local and current: the index follows edits. Answers name path and lines; an empty one gives the next step."
DETAILS = (
    (("get_context", "get_context_for_prompt"), "For a task, {} gives all there is to read first, within a budget."),
    (("edit_file",), "To change code call {}; it refuses an uncertain edit and says what to send instead."),
    (("search_memory", "context_search"), "{} knows the decisions and rules of this project."),
)
MORE = "More tools (undo, rename, plans, reviews, index) are found with {} and run with {}."
MANIFEST = ("list_tools", "tool_manifest")


def format_instructions(listed: Collection[str]) -> str:
    r"""Return the instructions for a client that sees these tools.

    Some clients show a model only the first 250 characters: the first paragraph has the purpose and when to use it.

    >>> format_instructions(("read", "edit_file")).split("\n\n")[0]
    'Finds code in this repository. read shows the lines you need of several files at once.'
    """
    leads = "; ".join(_name_tools(LEADS, listed))
    details = [FACTS, *_name_tools(DETAILS, listed)]
    manifest = next((name for name in MANIFEST if name in listed), "")
    if manifest and "call_tool" in listed:
        details.append(MORE.format(manifest, "call_tool"))
    if leads:
        return f"{PURPOSE} {leads}.\n\n{' '.join(details)}"
    return f"{PURPOSE}\n\n{' '.join(details)}"


def _name_tools(texts: tuple[tuple[tuple[str, ...], str], ...], listed: Collection[str]) -> list[str]:
    """Return the texts whose tool is listed, with the name that it is listed under."""
    named = [(next((name for name in names if name in listed), ""), text) for names, text in texts]
    return [text.format(name) for name, text in named if name]
