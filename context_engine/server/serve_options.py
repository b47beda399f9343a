"""The options of `ctx serve`: one table for parsing, help and environment variables. Standard library only.

>>> options = parse_options(["--root", "/src/web", "--profile", "core,plan"], {"CTX_READ_ONLY": "1"})
>>> options.roots, options.selection.profiles, options.selection.read_only
(('/src/web',), ('core', 'plan'), True)

An option takes precedence over its environment variable. An invalid option or value ends the process with one line on
stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import os
from collections import namedtuple
from collections.abc import Mapping, Sequence

from context_engine.server.profiles import PROFILES, ToolSelection, suggest_known

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from typing import Any, NoReturn

ServeOption = namedtuple("ServeOption", "name kind variable metavar meaning")  # noqa: PYI024 - annotations need `typing`
"""The kinds are `paths` (repeatable; the variable lists them as PATH does), `names` (comma list, repeatable), `text`,
`seconds` and `flag`."""

OPTIONS = (
    ServeOption(
        *("root", "paths", "CTX_ROOT", "PATH"),
        "A project to serve; repeatable. Default: the folders the client works in, else the project around "
        "this folder.",
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
        *("structured", "flag", "CTX_STRUCTURED", ""),
        "For clients that are programs: list tools with the schemas of their replies, and reply in structured content.",
    ),
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
        "With --http: the file with the bearer token, else one that the first start makes in your config folder. "
        "CTX_HTTP_TOKEN is the token itself.",
    ),
    ServeOption(
        *("no-token", "flag", "CTX_HTTP_NO_TOKEN", ""),
        "With --http on this machine: ask for no token. Every user of this machine can read and write these files.",
    ),
    ServeOption(
        *("http-host", "names", "CTX_HTTP_HOSTS", "NAMES"),
        "With --http: further names this server is reached by, behind a proxy.",
    ),
    ServeOption(
        *("tokens", "text", "CTX_HTTP_TOKENS", "PATH"),
        "With --http, for a team: the file of tokens that ctx token creates; each has a role and the visible projects.",
    ),
    ServeOption(
        *("audit-log", "text", "CTX_AUDIT_LOG", "PATH"),
        "With --tokens: the file for a line about each call, with token and tool; - is stderr. Default: the log.",
    ),
    ServeOption(
        *("stateless", "flag", "CTX_HTTP_STATELESS", ""),
        "With --http: keep no sessions, so that any of several servers can answer any request.",
    ),
    ServeOption(
        *("shutdown-timeout", "seconds", "CTX_HTTP_SHUTDOWN_TIMEOUT_S", "SECONDS"),
        "With --http: how long running calls may take once the server is asked to end (default 0.6).",
    ),
    ServeOption(
        *("shutdown-delay", "seconds", "CTX_HTTP_SHUTDOWN_DELAY_S", "SECONDS"),
        "With --http: how long /ready reports the end before the server stops accepting requests (default 0), so that "
        "a load balancer can send clients elsewhere.",
    ),
)
TOKEN_VARIABLE = "CTX_HTTP_TOKEN"  # noqa: S105 - the name of a variable; an option would show the token in every process list
CLIENT_VARIABLE = "CLAUDE_PROJECT_DIR"
"""Set by one client for the servers that it starts; the others send the folders over the protocol."""
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")
SECONDS_MAX = 3_600.0

ServeOptions = namedtuple(  # noqa: PYI024 - as above
    "ServeOptions",
    "roots selection http_token chunks_dir http token_file http_hosts tokens audit_log stateless workspace"
    " shutdown_timeout shutdown_delay no_token given_names",
    defaults=(None, None, None, None, (), None, None, False, None, 0.6, 0.0, False, ()),
)
"""The parsed options: `roots` as they were typed; None for a text option that is not set.

`given_names` are (path, name) pairs of the folders of a workspace; empty until the workspace has been read.
"""


def parse_options(argv: Sequence[str], env: Mapping[str, str]) -> ServeOptions:
    """Read the command line, and the environment variables of the options that it leaves out.

    Raises: SystemExit, 2 for an invalid option or value.
    """
    parser = _create_parser()
    given, unknown = parser.parse_known_args(list(argv))
    for word in unknown:
        if not word.startswith("-"):
            parser.error(f"unexpected argument {word!r}; did you mean --root {word}?")
        names = [f"--{option.name}" for option in OPTIONS]
        parser.error(f"there is no option {word}; {suggest_known(word.partition('=')[0], names, 'the options are')}")
    values = {}
    for option in OPTIONS:
        value = _option_value(parser, option, vars(given)[option.name], env.get(option.variable, "").strip())
        values[option.name.replace("-", "_")] = value
    profiles, tools = values.pop("profile"), values.pop("tools")
    profiles = profiles or (() if tools else ("core",))
    limits = values.pop("exclude_tools"), values.pop("read_only")
    selection = ToolSelection(profiles, tools, *limits, structured=values.pop("structured"))
    if problem := selection.find_unknown_name():
        parser.error(problem)
    roots, hosts = values.pop("root"), values.pop("http_host")
    return ServeOptions(roots, selection, env.get(TOKEN_VARIABLE) or None, http_hosts=hosts, **values)


class _Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        option, is_missing, _ = message.removeprefix("argument ").partition(": expected one argument")
        if is_missing:
            message = f"{option} needs a value; ctx serve --help shows which"
        self.exit(2, f"ctx serve: {message}\n")


def _create_parser() -> _Parser:
    parser = _Parser(allow_abbrev=False, add_help=False)
    actions = {"flag": {"action": "store_const", "const": True}, "text": {}, "seconds": {}}
    for option in OPTIONS:
        how: dict[str, Any] = actions.get(option.kind, {"action": "append"})
        parser.add_argument(f"--{option.name}", dest=option.name, **how)
    return parser


def _option_value(parser: _Parser, option: ServeOption, given: Any, text: str) -> Any:
    """Return the value of an option: from the command line, else the text of its variable, else nothing of its kind."""
    if option.kind == "flag":
        if text.lower() not in (*YES, *NO):
            parser.error(f"{option.variable} is {text!r}; it must be 1 or 0")
        return given or text.lower() in YES
    if option.kind == "text":
        return given or text or None
    if option.kind == "seconds":
        return _parse_seconds(parser, option, text if given is None else given)
    if option.kind == "paths":
        return tuple(given or (path for path in text.split(os.pathsep) if path.strip()))
    words = ",".join(given or [text]).split(",")
    return tuple(dict.fromkeys(filter(None, map(str.strip, words))))


def _parse_seconds(parser: _Parser, option: ServeOption, text: str) -> float:
    if not text:
        return ServeOptions._field_defaults[option.name.replace("-", "_")]
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= SECONDS_MAX:
        parser.error(f"--{option.name} {text!r} is not a duration; write seconds, 0 to {SECONDS_MAX:,.0f}, such as 20")
    return seconds
