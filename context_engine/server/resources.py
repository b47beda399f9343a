"""The MCP resources: the state of the index, the rules, the metrics of the calls, and the files of the workspace.

    ctx://status                     what index_status says, as JSON
    ctx://rules                      the rules and decisions that hold here, as Markdown
    ctx://metrics                    calls, errors and latencies per tool, as JSON
    ctx://file/src/app.py?project=web  the text of a file, under the rules of read_file

`?project=` is for servers of several projects. There is no list of files: a client finds them by completion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
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
JSON, MARKDOWN = "application/json", "text/markdown"
APP_TYPE = "text/html;profile=mcp-app"
"""The media type of a view (SEP-1865)."""
MIME_TYPES = {
    **{name: f"text/{name}" for name in ("css", "html", "javascript", "markdown", "xml")},
    **{name: f"application/{name}" for name in ("json", "sql", "toml", "yaml")},
    "rst": "text/prs.fallenstein.rst",
    "text": "text/plain",
    "xml": "application/xml",
}
"""The languages whose type is registered; the others go by the customary `text/x-<language>`."""


def list_resources(projects: Sequence[str]) -> list[types.Resource]:
    """Return the resources with an address of their own: status and rules of each project, and the metrics."""
    kinds = (
        (STATUS, "status", "Index status", "What is indexed and how fresh it is, as index_status reports it.", JSON),
        (
            *(RULES, "rules", "Rules and decisions"),
            "The rules of this project, from memories, agent rules, contributing guides and decision records.",
            MARKDOWN,
        ),
    )
    listed = []
    for uri, name, title, description, mime_type in kinds:
        for project in projects if len(projects) > 1 else ("",):
            of = f" of {project}" if project else ""
            address = uri + (WHICH + quote(project, safe="") if project else "")
            listed.append(
                types.Resource(
                    uri=address, name=name + of, title=title + of, description=description, mime_type=mime_type
                )
            )
    description = "Calls, errors and latencies of each tool since the server started."
    metrics = types.Resource(uri=METRICS, name="metrics", title="Call metrics", description=description, mime_type=JSON)
    return [*listed, metrics]


def file_template(projects: Sequence[str]) -> types.ResourceTemplate:
    """Return the template of the addresses of files."""
    return types.ResourceTemplate(
        uri_template=FILE + "{+path}" + ("{?project}" if len(projects) > 1 else ""),
        name="file",
        title="A file of the workspace",
        description="The text of a file, up to 1 MB, with secrets masked. Paths are relative to the workspace.",
    )


def read_resource(dispatcher: ToolDispatcher, uri: str, call: Call) -> types.TextResourceContents:
    """Return the redacted content of an address.

    Raises: FileNotFound for an unknown address, and why a file must not or cannot be read.
    """
    project = project_in_uri(uri)
    address = uri.rpartition(WHICH)[0] if WHICH in uri else uri
    if address == STATUS:
        call = replace(call, reader="documents")
        outcome = dispatcher.call("index_status", {"project": project} if project else {}, call)
        if outcome.error:
            raise outcome.error
        return types.TextResourceContents(uri=uri, mime_type=JSON, text=outcome.reply.text)
    with collect_redactions():
        if address == RULES:
            engine = dispatcher.engine(project)
            text, kind = render_rules_page(engine, chars_max=engine.settings.result_chars_max), MARKDOWN
        elif uri == METRICS:
            text, kind = json.dumps(dispatcher.metrics.rows(), ensure_ascii=False), JSON
        elif address.startswith(FILE):
            if off := [name for name in ("read", "read_file") if dispatcher.selection.excludes(name)]:
                raise AccessDenied(f"files are not read out: {off[0]} is switched off with --exclude-tools")
            file = dispatcher.engine(project).files.read(unquote(address.removeprefix(FILE)))
            text, kind = file.text, mime_type(file.language)
        else:
            known = f"There are {STATUS}, {RULES}, {METRICS} and {FILE}path/of/a/file."
            raise FileNotFound(f"there is no resource {uri}", suggestion=known)
        return types.TextResourceContents(uri=uri, mime_type=kind, text=dispatcher.redact(text, SENDER))


def project_in_uri(uri: str) -> str:
    """Return the project in an address; empty without one.

    >>> project_in_uri("ctx://file/a.py?project=a%2Fweb"), project_in_uri("ctx://status")
    ('a/web', '')
    """
    _, which, project = uri.rpartition(WHICH)
    return unquote(project) if which else ""


def mime_type(language: str) -> str:
    """Return the media type of the files of a language.

    >>> mime_type("markdown"), mime_type("python")
    ('text/markdown', 'text/x-python')
    """
    return MIME_TYPES.get(language, f"text/x-{language}")


# -- views of plans and reviews (MCP Apps, SEP-1865 of 2026-01-26) -----------------------------------------------------

# Only a client that declares the extension gets the links from tools to views, and can read them. A view is one
# document without addresses of others, made of the files of the local page.

APP_VIEWS = {
    "ui://ctx/plan": ("Plan", ("kit.js", "plans.js", "embedded.js", "embedded_plan.js")),
    "ui://ctx/review": ("Review", ("kit.js", "diff.js", "reviews.js", "embedded.js", "embedded_review.js")),
}
"""Address -> title, and scripts in the order of their imports; its end is the `view` of the tools that use it."""
_IMPORT_OR_EXPORT = re.compile(r"^(?:import .*;\n|export (?:default )?)", re.MULTILINE)
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


def link_views(listed: Sequence[types.Tool]) -> list[types.Tool]:
    """Return the tools with the address of the view that shows their results."""
    linked = []
    for tool in listed:
        uri = f"ui://ctx/{tools.find(tool.name).view}"
        meta = {**(tool.meta or {}), "ui": {"resourceUri": uri}}
        linked.append(tool.model_copy(update={"meta": meta}) if uri in APP_VIEWS else tool)
    return linked


def list_views() -> list[types.Resource]:
    """Return the views as resources."""
    return [
        types.Resource(uri=uri, name=uri.rpartition("/")[2], title=title, mime_type=APP_TYPE)
        for uri, (title, _) in APP_VIEWS.items()
    ]


@cache
def render_view(uri: str) -> types.TextResourceContents:
    """Return the document of a view; its scripts are one module, without their imports of each other."""
    title, names = APP_VIEWS[uri]
    assets = files("context_engine") / "ui" / "assets"
    script = "\n".join((assets / name).read_text(encoding="utf-8") for name in names)
    style = (assets / "style.css").read_text(encoding="utf-8")
    page = PAGE.format(title=title, style=style, script=_IMPORT_OR_EXPORT.sub("", script))
    return types.TextResourceContents(uri=uri, mime_type=APP_TYPE, text=page)
