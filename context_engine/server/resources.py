"""What a client may read by address: the state of the index, the metrics of the calls, and the files of the workspace.

    ctx://status                     what index_status says, as JSON
    ctx://rules                      the rules and decisions that hold here, as Markdown
    ctx://metrics                    calls, errors and latencies per tool, as JSON
    ctx://file/src/app.py            the text of a file, under the rules of read_file
    ctx://file/src/app.py?project=web  the same where several projects are open; likewise ctx://status?project=web

There is no list of files: a client finds them by completion, or with the tools.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote

import mcp_types as types

from context_engine.errors import AccessDenied, FileNotFound
from context_engine.secrets.masked_text import noting
from context_engine.server.dispatcher import Gate
from context_engine.tools import Call
from context_engine.tools.rules_page import render_rules_page

STATUS, RULES, METRICS, FILE = "ctx://status", "ctx://rules", "ctx://metrics", "ctx://file/"
WHICH = "?project="
SENDER = "(resource)"
"""Under this name the metrics count what was masked here."""
JSON = "application/json"
MIME_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "javascript": "text/javascript",
    "json": JSON,
    "markdown": "text/markdown",
    "rst": "text/prs.fallenstein.rst",
    "sql": "application/sql",
    "text": "text/plain",
    "toml": "application/toml",
    "xml": "application/xml",
    "yaml": "application/yaml",
}
"""The languages whose type is registered; the others go by the customary `text/x-<language>`."""


@dataclass(frozen=True, slots=True)
class Content:
    """One resource, read."""

    mime_type: str
    text: str


def listed(projects: Sequence[str]) -> list[types.Resource]:
    """The resources with an address of their own: a status for each project where there are several, and the metrics."""
    return [
        *(_status(project) for project in (projects if len(projects) > 1 else ("",))),
        *(_rules(project) for project in (projects if len(projects) > 1 else ("",))),
        types.Resource(
            uri=METRICS,
            name="metrics",
            title="Call metrics",
            description="Calls, errors and latencies of each tool since the server started.",
            mime_type=JSON,
        ),
    ]


def template(projects: Sequence[str]) -> types.ResourceTemplate:
    """The address of any file of the workspace."""
    return types.ResourceTemplate(
        uri_template=FILE + "{+path}" + ("{?project}" if len(projects) > 1 else ""),
        name="file",
        title="A file of the workspace",
        description="The text of a file, up to 1 MB, with secrets masked. Paths are relative to the workspace.",
    )


def read(gate: Gate, uri: str, call: Call) -> Content:
    """What stands at an address, masked.

    Raises: FileNotFound where there is nothing, and why it must not or cannot be read.
    """
    address, project = uri.rpartition(WHICH)[0] if WHICH in uri else uri, project_in(uri)
    if address == STATUS:
        return _told(gate, project, call)
    if address == RULES:
        engine = gate.engine(project)
        with noting():
            page = render_rules_page(engine, chars_max=engine.settings.result_chars_max)
            return Content(MIME_TYPES["markdown"], gate.mask(page, SENDER))
    if uri == METRICS:
        return Content(JSON, gate.mask(json.dumps(gate.metrics.rows(), ensure_ascii=False), SENDER))
    if address.startswith(FILE):
        return _file(gate, unquote(address.removeprefix(FILE)), project)
    raise FileNotFound(
        f"there is no resource {uri}", suggestion=f"There are {STATUS}, {RULES}, {METRICS} and {FILE}path/of/a/file."
    )


def project_in(uri: str) -> str:
    """The project that an address names; empty when it names none.

    >>> project_in("ctx://file/a.py?project=a%2Fweb"), project_in("ctx://status")
    ('a/web', '')
    """
    return unquote(uri.rpartition(WHICH)[2]) if WHICH in uri else ""


def mime_type(language: str) -> str:
    """The media type of a language's files.

    >>> mime_type("markdown"), mime_type("python")
    ('text/markdown', 'text/x-python')
    """
    return MIME_TYPES.get(language, f"text/x-{language}")


def _told(gate: Gate, project: str, call: Call) -> Content:
    """What the tool says: counted, limited and masked as its calls are."""
    outcome = gate.call("index_status", {"project": project} if project else {}, call)
    if outcome.error:
        raise outcome.error
    return Content(JSON, outcome.reply.text)


def _file(gate: Gate, path: str, project: str) -> Content:
    """Who switched the reading of files off did not mean this way of it to stay open."""
    if "read_file" in gate.shown.exclude:
        raise AccessDenied("files are not read out: read_file is switched off with --exclude-tools")
    with noting():
        read = gate.engine(project).read(path)
        return Content(mime_type(read.language), gate.mask(read.text, SENDER))


def _rules(project: str) -> types.Resource:
    return types.Resource(
        uri=RULES + (WHICH + quote(project, safe="") if project else ""),
        name=f"rules of {project}" if project else "rules",
        title=f"Rules and decisions of {project}" if project else "Rules and decisions",
        description="What holds in this project, out of memories, agent rules, contributing guides and decision records.",
        mime_type=MIME_TYPES["markdown"],
    )


def _status(project: str) -> types.Resource:
    return types.Resource(
        uri=STATUS + (WHICH + quote(project, safe="") if project else ""),
        name=f"status of {project}" if project else "status",
        title=f"Index status of {project}" if project else "Index status",
        description="What is indexed and how fresh it is, as index_status tells it.",
        mime_type=JSON,
    )
