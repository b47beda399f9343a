"""Write the packages for clients and registries from one source: packaging/source, and the facts of pyproject.toml.

    python scripts/packages.py            write the committed files: plugins, extension, marketplaces
    python scripts/packages.py --check    write nothing; exit 1 and name the files that are out of date
    python scripts/packages.py --dist     write dist/: the MCP bundle, and server.json with its hash

Clients read marketplaces and plugins straight from a clone or from GitHub, so these are committed. The bundle contains the
whole package, so its hash changes with every commit: the bundle and server.json are built for a release only.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

SOURCE = ROOT / "packaging" / "source"
PLUGINS = "packaging/clients"
GUIDANCE = ROOT / "context_engine" / "cli" / "clients" / "guidance.md"
HOOKS_OF_OPENCODE = GUIDANCE.with_name("opencode_hooks.js")
DIST = ROOT / "dist"
MARKETPLACES = (
    ".claude-plugin/marketplace.json",
    ".agents/plugins/marketplace.json",
    ".cursor-plugin/marketplace.json",
)
"""Where Claude Code, Codex and Cursor look for the plugins of a repository."""
SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
BUNDLED = ("pyproject.toml", "README.md", "LICENSE", "uv.lock", "context_engine")
"""The contents of the MCP bundle besides its manifest: all that uv needs to install and run the package."""
ZIP_DATE = (1980, 1, 1, 0, 0, 0)
"""The oldest date of the format, so that the same files are the same bytes."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the packages repeat, from where it is defined."""

    package: str
    version: str
    description: str
    license: str
    keywords: tuple[str, ...]
    python: str
    tools: tuple[tuple[str, str], ...]
    """The tools that a client is shown, with their descriptions in one line."""
    reading_tools: tuple[str, ...]
    """The names of those that change nothing."""
    source: Mapping[str, Any]
    """packaging/source/packages.toml."""

    @property
    def writing_tools(self) -> list[str]:
        """The names of the other listed tools."""
        return [name for name, _ in self.tools if name not in self.reading_tools]


@dataclass(frozen=True, slots=True)
class Document:
    """A text with fields in front of it, as skills, subagents and commands are written."""

    fields: Mapping[str, str]
    body: str

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read a file of packaging/source."""
        _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
        return cls(dict(line.split(": ", 1) for line in head.splitlines()), body.lstrip("\n"))

    def format_with(self, **fields: str) -> str:
        """Return the text with these fields in front of it."""
        head = "".join(f"{name}: {value}\n" for name, value in fields.items())
        return f"---\n{head}---\n\n{self.body}"


def main(argv: Sequence[str]) -> int:
    """Write, check or build; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only name what is out of date")
    parser.add_argument("--dist", action="store_true", help="build the MCP bundle and server.json")
    asked = parser.parse_args(argv)
    if asked.dist:
        for path in build(DIST):
            print(path.relative_to(ROOT))
        return 0
    old = find_stale()
    for name in old:
        print(f"{name}{' is out of date: run `make packages`' if asked.check else ''}")
    if not asked.check:
        write(old)
    return int(asked.check and bool(old))


def find_stale() -> dict[str, str | None]:
    """Return the committed files that are out of date with the text they should have, None for one too many."""
    wanted = committed_files(facts())
    present = {path.relative_to(ROOT).as_posix(): path for path in _present_files()}
    texts = {name: path.read_text(encoding="utf-8") for name, path in present.items()}
    return {name: wanted.get(name) for name in sorted({*texts, *wanted}) if texts.get(name) != wanted.get(name)}


def write(stale: Mapping[str, str | None]) -> None:
    """Write the files that are out of date, and delete those that are too many."""
    for name, text in stale.items():
        if text is None:
            (ROOT / name).unlink()
            continue
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")


def _present_files() -> Iterator[Path]:
    yield from (path for path in (ROOT / PLUGINS).rglob("*") if path.is_file())
    yield from (path for name in MARKETPLACES if (path := ROOT / name).exists())


@cache
def facts() -> Facts:
    """Return the facts: pyproject.toml, the package's version, the tools that are listed, packages.toml."""
    from context_engine import __version__
    from context_engine.server.profiles import CORE
    from context_engine.tools import ALL

    listed = [tool for tool in ALL if tool.name in CORE]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return Facts(
        package=project["name"],
        version=__version__,
        description=project["description"],
        license=project["license"],
        keywords=tuple(project["keywords"]),
        python=project["requires-python"],
        tools=tuple((tool.name, tool.one_liner) for tool in listed),
        reading_tools=tuple(tool.name for tool in listed if tool.touches == "nothing"),
        source=tomllib.loads((SOURCE / "packages.toml").read_text(encoding="utf-8")),
    )


# -- what is committed ----------------------------------------------------------------------------------------------


def committed_files(known: Facts) -> dict[str, str]:
    """Return the text of every generated file that is committed, by its path in the repository."""
    plugins = {
        "claude": claude_plugin(known),
        "codex": codex_plugin(known),
        "cursor": cursor_plugin(known),
        "gemini": gemini_extension(known),
        "opencode": opencode_plugin(known),
    }
    files = {
        f"{PLUGINS}/{client}/{name}": text for client, all_of_it in plugins.items() for name, text in all_of_it.items()
    }
    return {**files, **marketplaces(known)}


def marketplaces(known: Facts) -> dict[str, str]:
    """Return the lists of plugins at the root of the repository, for the clients that read one."""
    source = known.source
    about = {"name": source["name"], "description": known.description}
    head = {"name": source["marketplace"], "owner": {"name": source["author"]}}
    policy = {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}
    codex = {"name": source["name"], "source": {"source": "local", "path": f"./{PLUGINS}/codex"}, "policy": policy}
    claude_name, codex_name, cursor_name = MARKETPLACES
    return {
        claude_name: as_json(
            {
                **head,
                "metadata": {"description": f"The {source['title']} for Claude Code."},
                "plugins": [{**about, "version": known.version, "source": f"./{PLUGINS}/claude"}],
            }
        ),
        codex_name: as_json(
            {
                "name": source["marketplace"],
                "interface": {"displayName": source["title"]},
                "plugins": [{**codex, "category": source["category"]}],
            }
        ),
        cursor_name: as_json({**head, "plugins": [{**about, "source": f"./{PLUGINS}/cursor"}]}),
    }


def claude_plugin(known: Facts) -> dict[str, str]:
    """Return the plugin for Claude Code: server, hooks, skill, explorer and slash commands."""
    explorer = Document.read(SOURCE / "explorer.md")
    tools = ", ".join(
        ["Read", *(f"mcp__plugin_{name}_{name}__{tool}" for name in ("ctx",) for tool in known.reading_tools)]
    )
    return {
        ".claude-plugin/plugin.json": as_json(
            {
                "name": known.source["name"],
                "displayName": known.source["title"],
                **manifest_facts(known),
                "network": {"hosts": []},
            }
        ),
        ".mcp.json": as_json({"mcpServers": {"ctx": {**SERVER, "alwaysLoad": True}}}),
        **skill(known),
        **hooks("claude"),
        "agents/explorer.md": explorer.format_with(
            name="explorer", description=explorer.fields["description"], tools=tools
        ),
        **{
            f"commands/{name}.md": one.format_with(
                description=one.fields["description"], **{"argument-hint": f"[{one.fields['argument']}]"}
            )
            for name, one in commands().items()
        },
        "README.md": readme(
            known,
            "Claude Code",
            ("claude plugin marketplace add .", "claude plugin install ctx@context-engine"),
            "`claude mcp list` shows `plugin:ctx:ctx` as connected.",
        ),
    }


def codex_plugin(known: Facts) -> dict[str, str]:
    """Return the plugin for Codex: server, hooks and skill."""
    source = known.source
    interface = {
        "displayName": source["title"],
        "shortDescription": source["summary"],
        "longDescription": source["about"],
        "developerName": source["author"],
        "category": source["category"],
        "capabilities": ["Interactive", "Write"],
        "defaultPrompt": list(source["prompts"]),
    }
    return {
        ".codex-plugin/plugin.json": as_json(
            {
                "name": source["name"],
                **manifest_facts(known),
                "skills": "./skills/",
                "mcpServers": "./.mcp.json",
                "interface": interface,
            }
        ),
        ".mcp.json": as_json({"mcpServers": {"ctx": SERVER}}),
        **skill(known),
        **hooks("codex"),
        "README.md": readme(
            known,
            "Codex",
            ("codex plugin marketplace add .", "codex plugin add ctx@context-engine"),
            "`codex mcp list` shows `ctx`.",
        ),
    }


def cursor_plugin(known: Facts) -> dict[str, str]:
    """Return the plugin for Cursor: server, hooks, skill, explorer and slash commands."""
    explorer = Document.read(SOURCE / "explorer.md")
    return {
        ".cursor-plugin/plugin.json": as_json(
            {
                "name": known.source["name"],
                "displayName": known.source["title"],
                **manifest_facts(known),
                "category": "developer-tools",
            }
        ),
        "mcp.json": as_json({"mcpServers": {"ctx": SERVER}}),
        **skill(known),
        **hooks("cursor"),
        "agents/explorer.md": explorer.format_with(
            name="ctx-explorer", description=explorer.fields["description"], readonly="true"
        ),
        **{
            f"commands/ctx-{name}.md": one.format_with(name=f"ctx-{name}", description=one.fields["description"])
            for name, one in commands().items()
        },
        "README.md": readme(
            known,
            "Cursor",
            (),
            "In Cursor open Customize, add this repository as a marketplace and install the plugin, or link this folder into `~/.cursor/plugins/local`.",
        ),
    }


def gemini_extension(known: Facts) -> dict[str, str]:
    """Return the extension for Gemini CLI: server, hooks, context file, skill and slash commands."""
    manifest = {
        "name": known.source["name"],
        "version": known.version,
        "description": known.description,
        "mcpServers": {"ctx": SERVER},
        "contextFileName": "GEMINI.md",
    }
    return {
        "gemini-extension.json": as_json(manifest),
        "GEMINI.md": GUIDANCE.read_text(encoding="utf-8"),
        **skill(known),
        **hooks("gemini"),
        **{f"commands/ctx/{name}.toml": gemini_command(one) for name, one in commands().items()},
        "README.md": readme(
            known,
            "Gemini CLI",
            (f"gemini extensions install ./{PLUGINS}/gemini",),
            "`gemini mcp list` shows `ctx` in a folder that Gemini trusts.",
        ),
    }


def opencode_plugin(known: Facts) -> dict[str, str]:
    """Return the plugins for opencode: one with server, explorer and slash commands, one with the hooks."""
    explorer = Document.read(SOURCE / "explorer.md")
    writing = dict.fromkeys(("write", "edit", "patch", "bash", *(f"ctx_{tool}" for tool in known.writing_tools)), False)
    package = {
        "mcp": {"ctx": {"type": "local", "command": [SERVER["command"], *SERVER["args"]]}},
        "agent": {
            "ctx-explorer": {
                "mode": "subagent",
                "description": explorer.fields["description"],
                "prompt": explorer.body,
                "tools": writing,
            }
        },
        "command": {
            f"ctx-{name}": {"description": one.fields["description"], "template": one.body}
            for name, one in commands().items()
        },
    }
    script = (SOURCE / "opencode.js").read_text(encoding="utf-8")
    return {
        "ctx-hooks.js": HOOKS_OF_OPENCODE.read_text(encoding="utf-8"),
        "ctx.js": script.replace("const PACKAGE = {}", f"const PACKAGE = {as_json(package).strip()}"),
        "README.md": readme(
            known,
            "opencode",
            (f"cp {PLUGINS}/opencode/*.js ~/.config/opencode/plugins/",),
            "`opencode mcp list` shows `ctx`.",
        ),
    }


# -- the parts --------------------------------------------------------------------------------------------------------

SERVER: Mapping[str, Any] = {"command": "ctx", "args": ["serve"]}
"""A plugin is the same on every machine, so it starts ctx by its name."""


def manifest_facts(known: Facts) -> dict[str, Any]:
    """Return the members that the manifests of plugins have in common."""
    return {
        "version": known.version,
        "description": known.description,
        "author": {"name": known.source["author"]},
        "license": known.license,
        "keywords": list(known.keywords),
    }


def skill(known: Facts) -> dict[str, str]:
    """Return the skill, in the place where every client looks for it."""
    return {f"skills/{known.source['name']}/SKILL.md": (SOURCE / "skill.md").read_text(encoding="utf-8")}


def hooks(client: str) -> dict[str, str]:
    """Return the hooks that `ctx setup CLIENT --hooks` writes, in the place where every client looks for them in a package.

    An older ctx has no command `hook`: its error must not stop a prompt, so the command line always succeeds.
    """
    from context_engine.cli.clients.client_table import find_client
    from context_engine.cli.clients.hook_config import add_hooks

    form = find_client(client).hooks
    assert form
    text = add_hooks(form, "", lambda event: f"ctx hook {event} --client {client} || exit 0")
    return {"hooks/hooks.json": as_json(json.loads(text))}


def commands() -> dict[str, Document]:
    """Return the slash commands by their names."""
    return {path.stem: Document.read(path) for path in sorted((SOURCE / "commands").glob("*.md"))}


def gemini_command(one: Document) -> str:
    """Return a slash command in Gemini's format, which has a placeholder of its own."""
    body = one.body.replace("$ARGUMENTS", "{{args}}")
    return f'description = {json.dumps(one.fields["description"])}\nprompt = """\n{body}"""\n'


def readme(known: Facts, client: str, steps: Sequence[str], check: str) -> str:
    """Return the page of a package: what it is, how it is installed, how to see that it works."""
    install = "Then, from a clone of the repository:\n\n```sh\n" + "\n".join(steps) + "\n```\n\n" if steps else ""
    return (
        f"# {known.source['title']} for {client}\n\n"
        "<!-- Written by scripts/packages.py from packaging/source; do not edit. -->\n\n"
        f"{known.source['about']}\n\n"
        "The package starts the command `ctx`, so [install it](../../../docs/guides/install.md) first; `ctx --version` must "
        f"answer in the shell that starts {client}. {install}{check}\n"
    )


def as_json(value: Any) -> str:
    """Return JSON as it is committed."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def install_links() -> dict[str, str]:
    """Return the links that set up an editor with one click, by its title.

    Formats: https://cursor.com/docs/mcp/install-links and https://code.visualstudio.com/api/extension-guides/ai/mcp.
    """
    from context_engine.cli.clients.client_table import NAME, find_client
    from context_engine.cli.clients.launch_command import LaunchCommand

    launch = LaunchCommand(SERVER["command"], tuple(SERVER["args"]))
    cursor, vscode = (json.dumps(find_client(name).build_entry(launch)) for name in ("cursor", "vscode"))
    encoded = quote(base64.b64encode(cursor.encode()).decode(), safe="")
    named = json.dumps({"name": NAME, **json.loads(vscode)}, separators=(",", ":"))
    return {
        "Cursor": f"cursor://anysphere.cursor-deeplink/mcp/install?name={NAME}&config={encoded}",
        "VS Code": f"vscode:mcp/install?{quote(named, safe='')}",
    }


# -- what is built for a release ----------------------------------------------------------------------------------------


def build(folder: Path) -> tuple[Path, Path]:
    """Write the MCP bundle and server.json into a folder; return their paths."""
    known = facts()
    bundle = pack_bundle(known)
    folder.mkdir(parents=True, exist_ok=True)
    packed, entry = folder / bundle_name(known), folder / "server.json"
    packed.write_bytes(bundle)
    entry.write_text(as_json(server_entry(known, hashlib.sha256(bundle).hexdigest())), encoding="utf-8")
    return packed, entry


def bundle_name(known: Facts) -> str:
    """Return the file name of the MCP bundle."""
    return f"{known.source['marketplace']}-{known.version}.mcpb"


def pack_bundle(known: Facts) -> bytes:
    """Return the MCP bundle. The same files give the same bytes: sorted names, one date, no compression."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(bundled_files(known).items()):
            info = zipfile.ZipInfo(name, ZIP_DATE)
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(info, data)
    return out.getvalue()


def bundled_files(known: Facts) -> dict[str, bytes]:
    """Return the contents of the bundle by their paths."""
    files = {"manifest.json": as_json(bundle_manifest(known)).encode()}
    for name in BUNDLED:
        top = ROOT / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    return files


def bundle_manifest(known: Facts) -> dict[str, Any]:
    """Return the manifest of the bundle, by version 0.4 of its specification: uv installs and runs the package."""
    start = ("run", "--frozen", "--directory", "${__dirname}", "ctx", "serve", "--root", "${user_config.project}")
    project = {
        "type": "directory",
        "title": "Project folder",
        "description": "The project that is indexed and searched.",
        "required": True,
    }
    return {
        "manifest_version": "0.4",
        "name": known.source["marketplace"],
        "display_name": known.source["title"],
        "version": known.version,
        "description": known.description,
        "long_description": known.source["about"],
        "author": {"name": known.source["author"]},
        "license": known.license,
        "keywords": list(known.keywords),
        "server": {
            "type": "uv",
            "entry_point": "context_engine/__main__.py",
            "mcp_config": {"command": "uv", "args": list(start)},
        },
        "user_config": {"project": project},
        "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": known.python}},
        "tools": [{"name": name, "description": text} for name, text in known.tools],
    }


def server_entry(known: Facts, bundle_sha256: str) -> dict[str, Any]:
    """Return the entry for the MCP registry: the package on PyPI, and the bundle of a release with its hash."""
    source = known.source
    root = {
        "type": "named",
        "name": "--root",
        "description": "The project to search; without it the client's own workspace is taken.",
        "format": "filepath",
        "isRequired": False,
    }
    from_pypi = {
        "registryType": "pypi",
        "registryBaseUrl": "https://pypi.org",
        "identifier": known.package,
        "version": known.version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "serve"}, root],
    }
    from_release = {
        "registryType": "mcpb",
        "identifier": f"{source['releases']}/v{known.version}/{bundle_name(known)}",
        "version": known.version,
        "fileSha256": bundle_sha256,
        "transport": {"type": "stdio"},
    }
    return {
        "$schema": SERVER_SCHEMA,
        "name": source["registry_name"],
        "title": source["title"],
        "description": known.description,
        "version": known.version,
        "packages": [from_pypi, from_release],
    }


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
