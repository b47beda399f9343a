"""PURE. The instructions of the server for a model: they name only tools that its client lists."""

from __future__ import annotations

from collections.abc import Collection

PURPOSE = "Finds code in this repository."
LEADS = (
    (("search_code", "codebase_retrieval"), "Before you grep or open files, ask {} in plain words"),
    (("read", "read_fragment"), "{} shows several places at once"),
    (("symbols", "find_symbol"), "{} finds definitions and callers"),
    (("search_text", "search_files"), "{} greps"),
)
"""The names of a tool, the newest first, and what to use it for: one sentence out of those that are listed."""
FACTS = "The index is local and follows edits."
DETAILS = (
    (("get_context", "get_context_for_prompt"), "For a task: {}."),
    (("edit_file",), "To change code: {}."),
    (("search_memory", "context_search"), "Decisions and rules: {}."),
)
"""The purpose of each tool, for clients that show no descriptions before a model asks for them."""
MORE = "Undo, rename, plans, reviews, index: {}, then {}."
MANIFEST = ("list_tools", "tool_manifest")


def format_instructions(listed: Collection[str]) -> str:
    r"""Return the instructions for a client that sees these tools.

    Some clients show a model only the first 250 characters: the first paragraph has the purpose and when to use it.

    >>> format_instructions(("read", "edit_file")).split("\n\n")[0]
    'Finds code in this repository. read shows several places at once.'
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
