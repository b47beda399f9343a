"""The MCP resources: the state of the index, the metrics of the calls, and the files of the workspace.

    ctx://status                     what index_status says, as JSON
    ctx://rules                      the rules and decisions that hold here, as Markdown
    ctx://metrics                    calls, errors and latencies per tool, as JSON
    ctx://file/src/app.py            the text of a file, under the rules of read_file
    ctx://file/src/app.py?project=web  the same where several projects are open; likewise ctx://status?project=web

There is no list of files: a client finds them by completion, or with the tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from urllib.parse import quote, unquote

import mcp_types as types

from context_engine import tools
from context_engine.errors import AccessDenied, FileNotFound
from context_engine.secrets import collect_redactions
from context_engine.server.dispatcher import ToolDispatcher
from context_engine.tools import Call, render_rules_page

STATUS, RULES, METRICS, FILE = "ctx://status", "ctx://rules", "ctx://metrics", "ctx://file/"
WHICH = "?project="
SENDER = "(resource)"
"""The name under which the metrics count masked secrets."""
JSON = "application/json"
APP_TYPE = "text/html;profile=mcp-app"
"""The media type of a view (SEP-1865)."""
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
class ResourceContent:
    """The content of a resource."""

    mime_type: str
    text: str


def list_resources(projects: Sequence[str]) -> list[types.Resource]:
    """Return the resources with an address of their own: status and rules of each project, and the metrics."""
    named = projects if len(projects) > 1 else ("",)
    return [
        *(_status_resource(project) for project in named),
        *(_rules_resource(project) for project in named),
        types.Resource(
            uri=METRICS,
            name="metrics",
            title="Call metrics",
            description="Calls, errors and latencies of each tool since the server started.",
            mime_type=JSON,
        ),
    ]


def file_template(projects: Sequence[str]) -> types.ResourceTemplate:
    """Return the template of the addresses of files."""
    return types.ResourceTemplate(
        uri_template=FILE + "{+path}" + ("{?project}" if len(projects) > 1 else ""),
        name="file",
        title="A file of the workspace",
        description="The text of a file, up to 1 MB, with secrets masked. Paths are relative to the workspace.",
    )


def read_resource(dispatcher: ToolDispatcher, uri: str, call: Call) -> ResourceContent:
    """Return the redacted content of an address.

    Raises: FileNotFound for an unknown address, and why a file must not or cannot be read.
    """
    project = project_in_uri(uri)
    address = uri.rpartition(WHICH)[0] if WHICH in uri else uri
    if address == STATUS:
        return _read_status(dispatcher, project, call)
    if address == RULES:
        engine = dispatcher.engine(project)
        with collect_redactions():
            page = render_rules_page(engine, chars_max=engine.settings.result_chars_max)
            return ResourceContent(MIME_TYPES["markdown"], dispatcher.redact(page, SENDER))
    if uri == METRICS:
        return ResourceContent(
            JSON, dispatcher.redact(json.dumps(dispatcher.metrics.rows(), ensure_ascii=False), SENDER)
        )
    if address.startswith(FILE):
        return _read_file(dispatcher, unquote(address.removeprefix(FILE)), project)
    raise FileNotFound(
        f"there is no resource {uri}", suggestion=f"There are {STATUS}, {RULES}, {METRICS} and {FILE}path/of/a/file."
    )


def project_in_uri(uri: str) -> str:
    """Return the project in an address; empty without one.

    >>> project_in_uri("ctx://file/a.py?project=a%2Fweb"), project_in_uri("ctx://status")
    ('a/web', '')
    """
    if WHICH in uri:
        return unquote(uri.rpartition(WHICH)[2])
    return ""


def mime_type(language: str) -> str:
    """Return the media type of the files of a language.

    >>> mime_type("markdown"), mime_type("python")
    ('text/markdown', 'text/x-python')
    """
    return MIME_TYPES.get(language, f"text/x-{language}")


def _read_status(dispatcher: ToolDispatcher, project: str, call: Call) -> ResourceContent:
    """Return the reply of the tool: counted, limited and redacted as its calls are."""
    outcome = dispatcher.call("index_status", {"project": project} if project else {}, call)
    if outcome.error:
        raise outcome.error
    return ResourceContent(JSON, outcome.reply.text)


def _read_file(dispatcher: ToolDispatcher, path: str, project: str) -> ResourceContent:
    """Read a file; refuse when the tool that reads files is switched off."""
    if off := [name for name in ("read", "read_file") if dispatcher.selection.excludes(name)]:
        raise AccessDenied(f"files are not read out: {off[0]} is switched off with --exclude-tools")
    with collect_redactions():
        read = dispatcher.engine(project).files.read(path)
        return ResourceContent(mime_type(read.language), dispatcher.redact(read.text, SENDER))


def _rules_resource(project: str) -> types.Resource:
    return types.Resource(
        uri=RULES + (WHICH + quote(project, safe="") if project else ""),
        name=f"rules of {project}" if project else "rules",
        title=f"Rules and decisions of {project}" if project else "Rules and decisions",
        description="The rules of this project, from memories, agent rules, contributing guides and decision records.",
        mime_type=MIME_TYPES["markdown"],
    )


def _status_resource(project: str) -> types.Resource:
    return types.Resource(
        uri=STATUS + (WHICH + quote(project, safe="") if project else ""),
        name=f"status of {project}" if project else "status",
        title=f"Index status of {project}" if project else "Index status",
        description="What is indexed and how fresh it is, as index_status reports it.",
        mime_type=JSON,
    )


# -- app views ---------------------------------------------------------------------------------------------------------

# The plan and the review as MCP Apps: HTML that a client shows for the result of a tool.
#
# The extension is SEP-1865 in its version 2026-01-26.
#
# Only a client that declares the extension gets the links from tools to views and can read the views; the replies to
# all others stay as they are. A view is one document without addresses of others, made of the files of the local
# page.

_IMPORT = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?:default )?", re.MULTILINE)
PAGE = """<!doctype html>
<html lang="en" class="embedded">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main id="main"></main>
<div id="toast" class="toast" role="status"></div>
<script type="module">
{script}</script>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class AppView:
    """A view: its name, which tools use, its title, and its scripts in the order of their imports."""

    name: str
    title: str
    scripts: tuple[str, ...]

    @property
    def uri(self) -> str:
        """The address of the view."""
        return f"ui://ctx/{self.name}"


APP_VIEWS = (
    AppView(
        "plan",
        "Plan",
        ("kit.js", "plans.js", "embedded.js", "embedded_plan.js"),
    ),
    AppView(
        "review",
        "Review",
        ("kit.js", "diff.js", "reviews.js", "embedded.js", "embedded_review.js"),
    ),
)


def link_views(listed: list[types.Tool]) -> list[types.Tool]:
    """Return the tools with the address of the view that shows their results."""
    addresses = {view.name: view.uri for view in APP_VIEWS}
    shown = [addresses.get(tools.find(tool.name).view, "") for tool in listed]
    return [_link(tool, uri) if uri else tool for tool, uri in zip(listed, shown, strict=True)]


def list_views() -> list[types.Resource]:
    """Return the views as resources."""
    return [types.Resource(uri=view.uri, name=view.name, title=view.title, mime_type=APP_TYPE) for view in APP_VIEWS]


def find_view(uri: str) -> AppView | None:
    """Return the view of an address."""
    return next((view for view in APP_VIEWS if view.uri == uri), None)


@cache
def render_view(view: AppView) -> str:
    """Return the document of a view; its scripts are one module, without their imports of each other."""
    assets = files("context_engine") / "ui" / "assets"
    scripts = [(assets / name).read_text(encoding="utf-8") for name in view.scripts]
    script = "\n".join(_EXPORT.sub("", _IMPORT.sub("", text)) for text in scripts)
    style = (assets / "style.css").read_text(encoding="utf-8")
    return PAGE.format(title=view.title, style=style, script=script)


def _link(tool: types.Tool, uri: str) -> types.Tool:
    return tool.model_copy(update={"meta": {**(tool.meta or {}), "ui": {"resourceUri": uri}}})
