"""The options of `ctx serve`: one table, from which parsing, help and environment twins are made. Stdlib only.

>>> options = parse_options(["--root", "/src/web", "--profile", "core,plan"], {"CTX_READ_ONLY": "1"})
>>> options.roots, options.shown.profiles, options.shown.read_only
(('/src/web',), ('core', 'plan'), True)

An option wins over its twin. What cannot be understood ends the process with one line on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import os
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence

from context_engine.server.profiles import PROFILES, ToolSelection, find_unknown_name

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any, NoReturn

ServeOption = namedtuple("ServeOption", "name kind twin metavar meaning")  # noqa: PYI024 - annotations need `typing`
"""`kind`: `paths` (repeatable; the twin holds them as PATH does), `names` (comma list, repeatable), `text`, `flag`."""

OPTIONS = (
    ServeOption(
        *("root", "paths", "CTX_ROOT", "PATH"),
        "A project to serve; repeatable. Default: the folders the client works in, else the project around this folder.",
    ),
    ServeOption(
        *("workspace", "text", "CTX_WORKSPACE", "NAME"),
        "Serve all repositories of a workspace (ctx workspace), searched together where a call names no project.",
    ),
    ServeOption(
        "profile", "names", "CTX_PROFILE", "NAMES", f"Which tools are listed: {', '.join(PROFILES)} (default core)."
    ),
    ServeOption(
        "tools", "names", "CTX_TOOLS", "NAMES", "List these tools; alone: only these, with --profile: these too."
    ),
    ServeOption("exclude-tools", "names", "CTX_EXCLUDE_TOOLS", "NAMES", "Neither list nor run these tools."),
    ServeOption("read-only", "flag", "CTX_READ_ONLY", "", "Refuse every tool that writes files or records."),
    ServeOption(
        *("chunks-dir", "text", "CTX_CHUNKS_DIR", "PATH"),
        "Answer cortex_search from this folder of chunk files (ctx chunk export), followed while it changes.",
    ),
    ServeOption(
        *("http", "text", "CTX_HTTP", "[HOST:]PORT"),
        "Serve streamable HTTP instead of stdio; the host is 127.0.0.1 unless you name one.",
    ),
    ServeOption(
        *("token-file", "text", "CTX_HTTP_TOKEN_FILE", "PATH"),
        "With --http: the file that holds the bearer token. CTX_HTTP_TOKEN holds the token itself.",
    ),
    ServeOption(
        *("http-host", "names", "CTX_HTTP_HOSTS", "NAMES"),
        "With --http: further names this server is reached by, behind a proxy.",
    ),
    ServeOption(
        *("tokens", "text", "CTX_HTTP_TOKENS", "PATH"),
        "With --http, for a team: the file of tokens that ctx token makes; each has a role and the projects it may see.",
    ),
    ServeOption(
        *("audit-log", "text", "CTX_AUDIT_LOG", "PATH"),
        "With --tokens: a line for each call, of who called what; - is stderr. Default: the log.",
    ),
    ServeOption(
        *("stateless", "flag", "CTX_HTTP_STATELESS", ""),
        "With --http: keep no sessions, so that any of several servers can answer any request.",
    ),
    ServeOption(
        *("drain", "text", "CTX_HTTP_DRAIN_S", "SECONDS"),
        "With --http: how long calls under way may take when the server is told to end (default 0.6).",
    ),
    ServeOption(
        *("notice", "text", "CTX_HTTP_NOTICE_S", "SECONDS"),
        "With --http: how long before it lets nobody in /ready says that the server will end (default 0), so that a proxy "
        "which asks for that sends nobody to a closed door.",
    ),
    ServeOption(
        *("otel", "flag", "CTX_OTEL", ""),
        "With --http: send spans of the calls to where OpenTelemetry's own variables say. Needs the extra otel.",
    ),
)
TOKEN_VARIABLE = "CTX_HTTP_TOKEN"  # noqa: S105 - the name of a variable; an option would show the token in every process list
VARIABLES = (*(option.twin for option in OPTIONS), TOKEN_VARIABLE)
"""Every environment variable that is read here."""
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")

ServeOptions = namedtuple(  # noqa: PYI024 - as above
    "ServeOptions",
    "roots shown chunks_dir http token_file http_hosts http_token tokens audit_log stateless drain otel workspace called notice",
    defaults=(None, None, False, None, False, None, (), None),
)
"""What was asked for: `roots` as they were typed, `shown` as `profiles.Shown`, `None` for what was not said.

`called` are the names that a workspace gives to its folders, (path, name) each; nothing until somebody looks it up.
"""


def parse_options(argv: Sequence[str], env: Mapping[str, str]) -> ServeOptions:
    """Read the command line, and the environment for what it leaves open.

    Raises: SystemExit, 0 after --help, 2 when something cannot be understood.
    """
    parser = _parser()
    given, rest = parser.parse_known_args(list(argv))
    if rest:
        parser.error(_describe_unknown(rest[0]))
    said = {option.name: _option_value(parser, option, vars(given)[option.name], env) for option in OPTIONS}
    tools = said["tools"] or ()
    profiles = said["profile"] or (() if tools else ("core",))
    shown = ToolSelection(profiles, tools, said["exclude-tools"] or (), said["read-only"] or False)
    if trouble := find_unknown_name(shown):
        parser.error(trouble)
    return ServeOptions(
        said["root"] or (),
        shown,
        said["chunks-dir"],
        said["http"],
        said["token-file"],
        said["http-host"] or (),
        env.get(TOKEN_VARIABLE) or None,
        said["tokens"],
        said["audit-log"],
        said["stateless"] or False,
        said["drain"],
        said["otel"] or False,
        said["workspace"],
        notice=said["notice"],
    )


def help_text() -> str:
    """What `ctx serve --help` prints."""
    return _parser().format_help()


class _Parser(argparse.ArgumentParser):
    """argparse that complains in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"ctx serve: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="ctx serve",
        usage="ctx serve [OPTIONS]",
        description="Serve projects to a coding agent over MCP. Clients start it; you rarely do. "
        "Indexing runs beside the answers, edits are followed, and the process ends with its client.",
        epilog="Examples: ctx serve --root ~/src/web; ctx serve --profile core,plan --read-only; ctx serve --http 8931. "
        "In a client's settings: command ctx, arguments serve --root /path; ctx setup CLIENT writes that. "
        "Each option has a twin in the environment, shown in brackets; the option wins.",
        allow_abbrev=False,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help="Show this and leave.")
    for option in OPTIONS:
        how: dict[str, Any] = {
            "flag": {"action": "store_const", "const": True},
            "text": {"metavar": option.metavar},
        }.get(option.kind, {"metavar": option.metavar, "action": "append"})
        parser.add_argument(f"--{option.name}", dest=option.name, help=f"{option.meaning} [{option.twin}]", **how)
    return parser


def _option_value(parser: _Parser, option: ServeOption, given: Any, env: Mapping[str, str]) -> Any:
    """The value of one option: from the command line, else from its twin, else None."""
    from_variable = env.get(option.twin, "").strip()
    if option.kind == "flag":
        return given or _flag(parser, option, from_variable)
    if option.kind == "text":
        return given or from_variable or None
    if option.kind == "paths":
        return tuple(given or (path for path in from_variable.split(os.pathsep) if path.strip())) or None
    return tuple(_names(given or [from_variable])) or None


def _names(texts: Iterable[str]) -> Iterable[str]:
    """The words of comma lists, each once, in order.

    >>> list(_names(["core, plan", "core"]))
    ['core', 'plan']
    """
    return dict.fromkeys(word for text in texts for each in text.split(",") if (word := each.strip()))


def _flag(parser: _Parser, option: ServeOption, twin: str) -> bool:
    if twin.lower() not in (*YES, *NO):
        parser.error(f"{option.twin} is {twin!r}; it is 1 or 0")
    return twin.lower() in YES


def _describe_unknown(word: str) -> str:
    import difflib  # only a start that fails pays for it

    names = [f"--{option.name}" for option in OPTIONS]
    if not word.startswith("-"):
        return f"does not know what {word!r} is for; did you mean --root {word}?"
    close = difflib.get_close_matches(word.partition("=")[0], names, 1, 0.6)
    return f"there is no option {word}; " + (f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}")
