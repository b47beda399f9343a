"""The plan and the review as MCP Apps: HTML that a client shows for the result of a tool.

The extension is SEP-1865 in its version 2026-01-26.

Only a client that declares the extension gets the links from tools to views and can read the views; the replies to all
others stay as they are. A view is one document without addresses of others, made of the files of the local page.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import mcp_types as types

from context_engine import tools
from context_engine.server.plain_call import APP_TYPE

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
