"""Write the generated parts of the documentation anew, and the packaging, or check the documentation.

    python scripts/docs.py            write
    python scripts/docs.py --check    write nothing; exit 1 and show the difference when something is out of date

A generated part stands between cog markers in the Markdown file itself, so a reader of the source sees where it comes
from. The functions below make the tables that those markers ask for; they import nothing of ours until they are called.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from context_engine.errors import ContextEngineError
    from context_engine.tools import Tool

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES_NAMED = 4
"""A check of more languages shows their number."""
TOOL_GROUPS = {
    "search_code": "Listed to an agent",
    "explain": "Symbols and history",
    "read_file": "Reading",
    "safe_replace": "Editing",
    "add_memory": "Memories and prompts",
    "create_plan": "Plans",
    "review_changes": "Reviews and checks of content",
    "scout": "Searches by the names of the documents",
    "index_status": "The index",
}
"""The first tool of each group of the catalogue -> its title."""


def main(argv: list[str]) -> int:
    """Run cog over every Markdown file that asks for it, and those who write other files; the exit code."""
    files = [str(path.relative_to(ROOT)) for path in generated_files()]
    check = "--check" in argv
    how = ["--check", "--diff", "--check-fail-msg=run `make docs`"] if check else ["-r"]
    cog = ["-m", "cogapp", *how, "-P", "-U", "-I", ".", "--verbosity=1", *files]
    # tests compare these with what they are made from, so a check has nothing to do
    writers = [["-m", "scripts.command_pages", "--write"]]
    others = [] if check else [*writers, ["scripts/packages.py"]]
    return max(subprocess.run([sys.executable, *each], cwd=ROOT, check=False).returncode for each in [*others, cog])


def generated_files() -> list[Path]:
    """The Markdown files at the root and in docs/ with a cog marker in them, in a fixed order."""
    candidates = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    return [path for path in candidates if "<!-- [[[" + "cog" in path.read_text(encoding="utf-8")]


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    titles = list(head)
    lines = [titles, ["---"] * len(titles), *([escaped(str(cell)) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def escaped(cell: str) -> str:
    """A cell's text with `|` escaped, and `*` too where it stands outside of code."""
    parts = cell.replace("|", "\\|").split("`")
    return "`".join(part if at % 2 else part.replace("*", "\\*") for at, part in enumerate(parts))


def errors() -> str:
    """docs/errors.md: the error tree, a table for each kind of who must act."""
    from context_engine import errors as tree

    parts = []
    for kind in (tree.CallError, tree.HostError, tree.BugError):
        rows = [
            (f"`{error.code}`", f"`{error.__name__}`", first_sentence(error), "yes" if error.retryable else "no")
            for error in below(kind)
        ]
        parts.append(f"## {kind.__name__}: {first_sentence(kind)}\n")
        parts.append(table(["code", "class", "means", "same call may succeed later"], rows) + "\n")
    return "\n".join(parts)


def below(kind: type[ContextEngineError]) -> Iterator[type[ContextEngineError]]:
    """An error class and all below it, in the order they are written."""
    yield kind
    for child in kind.__subclasses__():
        yield from below(child)


def first_sentence(thing: type) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((thing.__doc__ or "").strip().split("\n\n")[0].split())


def tools() -> str:
    """docs/tools.md: the catalogue in the order agents see it, in groups, with every argument."""
    from context_engine.tools import ALL

    groups: dict[str, list[Tool]] = {}
    for tool in ALL:
        title = TOOL_GROUPS.get(tool.name) or list(groups)[-1]
        groups.setdefault(title, []).append(tool)
    parts = []
    for title, members in groups.items():
        overview = table(["tool", "does"], [(f"[`{tool.name}`](#{tool.name})", tool.one_liner) for tool in members])
        parts += [f"## {title}\n\n{overview}\n", *map(tool_section, members)]
    return "\n".join(parts)


def tool_section(tool: Tool) -> str:
    """The part of docs/tools.md about one tool."""
    older = "; ".join(f"`{alias}`{older_arguments(tool)}" for alias in tool.aliases)
    also = f" Older name: {older}." if older else ""
    changes = "" if tool.hints.read_only else f" Changes: {tool.touches}."
    arguments = table(["argument", "type", "means"], argument_rows(tool.schema))
    return f"### {tool.name}\n\n{tool.description}{also}{changes}\n\n{arguments}\n"


def older_arguments(tool: Tool) -> str:
    """The older names of a tool's arguments."""
    names = [f"`{parameter.older[0]}` = `{parameter.name}`" for parameter in tool.parameters if parameter.older]
    return f", with {', '.join(names)}" if names else ""


def argument_rows(schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """One row for each property of a tool's argument schema."""
    required = schema.get("required", ())
    for name, one in schema["properties"].items():
        must = ", required" if name in required else ""
        means = one.get("description", "")
        if "default" in one:
            means = f"{means.rstrip('.')} (default {json.dumps(one['default'])})."
        yield f"`{name}`", f"{one.get('type', 'any')}{limits(one)}{must}", means


def limits(schema: Mapping[str, Any]) -> str:
    """What a number or a list of words may be, as the schema says it; an agent reads it there."""
    words = schema.get("enum") or schema.get("items", {}).get("enum")
    if words:
        return f": {', '.join(words)}"
    least, most = schema.get("minimum"), schema.get("maximum")
    if most is not None:
        return f" {least}-{most}"
    return f" from {least}" if least is not None else ""


def checks() -> str:
    """docs/guides/reviews.md: a row for each check of a review, in the order in which they run."""
    from context_engine.review.checks import CHECKS

    rows = []
    for check in CHECKS:
        languages = ", ".join(check.languages) or "any file"
        if len(check.languages) > LANGUAGES_NAMED:
            languages = f"{len(check.languages)} languages"
        rows.append((f"`{check.rule}`", check.title, check.priority, f"{check.confidence:.2f}", languages))
    return table(("rule", "finding", "P", "confidence", "in"), rows)


def clients() -> str:
    """docs/guides/clients.md: a row for each client of `ctx setup`, from the table that the command uses."""
    from context_engine.cli.clients.client_table import ALL

    rows = []
    for client in ALL:
        files = "; ".join(f"`{one}`" for pattern in client.user for one in pattern.split("|"))
        in_project = f"`{client.project[0]}`" if client.project else ""
        title = f"[{client.title}]({client.source})"
        rows.append((title, f"`{client.name}`", files, in_project, f"`{client.section}`", client.check))
    head = ("client, and its documentation", "`ctx setup`", "your settings", "a project's", "key", "check")
    return table(head, rows)


def install_links() -> str:
    """docs/guides/clients.md: the links that set up an editor with one click."""
    from scripts.packages import install_links as links

    return "\n".join(f"- [{title}]({link}): `{link}`" for title, link in links().items())


def promises_summary() -> str:
    """docs/promises.md: how many promises are kept, by document and by issue."""
    from tests.requirements.promises import DOCUMENTS, ISSUES, PROMISES, kept, open_by_issue

    by_document = []
    for document, title in DOCUMENTS.items():
        own = tuple(promise for promise in PROMISES if promise.document == document)
        by_document.append((document, title, len(own), len(kept(own)), len(own) - len(kept(own))))
    total = len(PROMISES), len(kept()), len(PROMISES) - len(kept())
    by_document.append(("", "all", *total))
    still_open = open_by_issue()
    by_issue = [(number, title, still_open[number]) for number, title in ISSUES.items()]
    documents = table(["", "document", "promises", "kept", "pending"], by_document)
    return f"{documents}\n\n{table(['issue', 'what it builds', 'promises it still has to keep'], by_issue)}"


def programs() -> str:
    """docs/security.md: each program that the product starts."""
    from scripts import reach

    return table(["program", "when", "how it is held", "where"], reach.rows(reach.PROGRAMS))


def addresses() -> str:
    """docs/security.md: each address that the product connects to or listens on."""
    from scripts import reach

    return table(["address", "when", "how it is held", "where"], reach.rows(reach.ADDRESSES))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
