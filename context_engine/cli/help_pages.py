"""The help pages of `ctx`: plain text of 80 columns, commands in groups, options with their values and defaults.

`commands.md` has the words: the first sentence of a page is shown in lists, and a list below `**Examples**` has its
examples. `scripts/command_pages.py` writes all pages into docs/help.txt.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

WIDTH = 80
LABEL_CHARS_MAX = 26
"""A longer option has its description on the next line."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Find code": ("search", "context", "read", "symbol", "trace"),
    "Change and review": ("review", "undo", "history"),
    "Plans and memory": ("plan", "memory"),
    "Agents": ("setup", "doctor", "gain", "ui"),
    "Index": ("index", "status", "why", "workspace"),
}
"""The commands that most people need. Others are named in one line below; `HIDDEN` are not listed."""
HIDDEN = ("hook",)
GLOBAL_OPTIONS = (
    ("-C DIR", "Run in this folder, as git does."),
    ("-q, -v", "Quieter (results and errors only) or more verbose output."),
    ("--color WHEN", "auto, always or never; NO_COLOR and FORCE_COLOR are respected."),
    ("--json", "Print JSON, if a command prints data."),
)
VALUE_NAMES = {
    "--analyzer": "NAME",
    "--base": "REF",
    "--changes": "TEXT",
    "--comment": "TEXT",
    "--content": "TEXT",
    "--exclude": "GLOB",
    "--expires": "DATE",
    "--fail-on": "PRIORITY",
    "--from": "FILE",
    "--include": "GLOB",
    "--invariants": "FILE",
    "--module": "PATH|NAME",
    "--on-similar": "ACTION",
    "--owner": "NAME",
    "--path": "PATH",
    "--query": "WORDS",
    "--supersedes": "ID",
    "--tokens": "FILE",
}
"""The value of an option whose own name does not say it."""
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
STYLES = re.compile(r"\x1b\[[0-9;]*m")
EXAMPLES = "**Examples**"
FOOTER = "Also -C, -q, -v and --color, as for every command: see ctx --help."
_CODE = re.compile(r"`([^`]*)`")


def render_help(command: Any, context: Any) -> str:
    """Return the page of a command or a group, with styles; that of `ctx` itself has its commands in groups."""
    if context.parent is None:
        return _render_root_page(command)
    description, examples = _split_help(command.help or "")
    parameters = [parameter for parameter in command.get_params(context) if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    options = [parameter for parameter in parameters if parameter.param_type_name == "option"]
    commands = getattr(command, "commands", {})
    expected = ["COMMAND"] if commands else [_argument_usage(parameter) for parameter in arguments]
    usage = " ".join([str(context.command_path), *expected])
    lines = [line for paragraph in description for line in (*_wrap(paragraph), "")]
    lines += [f"{_head('Usage:')} {usage} [OPTIONS]"]
    for title, rows in (
        ("Commands", [(name, summarize(child)) for name, child in commands.items()]),
        ("Arguments", [(_argument_name(parameter), _describe(parameter)) for parameter in arguments]),
        ("Options", [(_option_label(parameter), _describe(parameter)) for parameter in options]),
    ):
        if rows:
            lines += ["", _head(title), *_rows(rows)]
    if examples:
        lines += ["", _head("Examples"), *(f"  {line}" for line in examples)]
    lines += ["", FOOTER]
    return "\n".join(lines) + "\n"


def style_page(page: str, env: Mapping[str, str]) -> str:
    """Return a page with its styles where they are shown: on a terminal, and where the user forces them."""
    is_plain = bool(env.get("NO_COLOR")) or env.get("TERM", "dumb") in ("dumb", "unknown")
    if env.get("FORCE_COLOR") or (sys.stdout.isatty() and not is_plain):
        return page
    return STYLES.sub("", page)


def _render_root_page(group: Any) -> str:
    lines = [
        *_wrap(_plain(" ".join((group.help or "").split()))),
        "",
        f"{_head('Usage:')} ctx COMMAND [ARGUMENTS] [OPTIONS]",
        "",
    ]
    listed = {name for names in GROUPS.values() for name in names}
    width = max(map(len, listed)) + 2
    for title, names in GROUPS.items():
        lines += [_head(title)]
        lines += [f"  {name:<{width}}{summarize(group.commands[name])}" for name in names if name in group.commands]
    others = [name for name in sorted(group.list_commands(None)) if name not in listed and name not in HIDDEN]
    more = _wrap(f"More: {', '.join(others)}", hanging=6)
    lines += [more[0].replace("More:", _head("More:")), *more[1:]]
    lines += ["", _head("Options of every command, before or after its name"), *_rows(GLOBAL_OPTIONS)]
    lines += ["", "Exit codes: 0 found or done, 1 nothing found, 2 error.", _plain(group.epilog or "")]
    return "\n".join(lines) + "\n"


def summarize(command: Any) -> str:
    """Return the first sentence of a command's help, without its period."""
    first = _split_help(command.help or "")[0][:1]
    return re.split(r"(?<=[^.])\.(?: |$)", "".join(first), maxsplit=1)[0].rstrip(".")


def _split_help(text: str) -> tuple[list[str], list[str]]:
    r"""Return the paragraphs and the examples of a docstring.

    >>> _split_help("Find `it`\nsoon.\n\n**Examples**\n\n- `ctx find`\n- `ctx find -n 3` shows three")
    (['Find it soon.'], ['ctx find', 'ctx find -n 3   # shows three'])
    """
    text, _, listed = textwrap.dedent(text).partition(EXAMPLES)
    paragraphs = [_plain(" ".join(paragraph.split())) for paragraph in text.split("\n\n") if paragraph.strip()]
    examples = []
    for line in filter(None, map(str.strip, listed.split("\n"))):
        command, _, remark = line.removeprefix("- ").removeprefix("`").partition("`")
        examples.append(f"{command}   # {_plain(remark.strip())}" if remark.strip() else command)
    return paragraphs, examples


def _plain(text: str) -> str:
    return _CODE.sub(r"\1", text)


def _head(text: str) -> str:
    return f"{BOLD}{text}{PLAIN}"


def _wrap(text: str, *, hanging: int = 0) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False)


def _rows(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Return a label and its description on each line, aligned."""
    rows = list(pairs)
    width = max((len(label) for label, _ in rows if len(label) <= LABEL_CHARS_MAX), default=0) + 2
    for label, text in rows:
        lines = textwrap.wrap(text, WIDTH - width - 2, break_long_words=False, break_on_hyphens=False) or [""]
        if len(label) > LABEL_CHARS_MAX:
            yield f"  {label}"
        else:
            yield f"  {label:<{width}}{lines.pop(0)}".rstrip()
        yield from (f"  {'':<{width}}{line}" for line in lines)


def _argument_name(parameter: Any) -> str:
    return (parameter.metavar or parameter.name.upper()).strip("[]")


def _argument_usage(parameter: Any) -> str:
    name = _argument_name(parameter)
    if parameter.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if parameter.required else f"[{name}]"


def _option_label(parameter: Any) -> str:
    """Return the spellings of an option and its value, as `-n, --limit N`; the short spelling comes first."""
    names: list[str] = sorted(parameter.opts, key=len)
    if not any(len(name) == 2 for name in names):
        names[0] = f"    {names[0]}"
    label = ", ".join(names)
    if parameter.is_flag or parameter.name == "help":
        return label
    return f"{label} {_value_name(parameter)}"


def _value_name(parameter: Any) -> str:
    if parameter.metavar:
        return parameter.metavar
    if isinstance(getattr(parameter, "min", None), int | float):
        return "N"
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if kind is Path:
        return "PATH"
    option = str(max(parameter.opts, key=len))
    return VALUE_NAMES.get(option, option.lstrip("-").upper().replace("-", "_"))


def _describe(parameter: Any) -> str:
    """Return the description of a parameter with its words, range and default."""
    text = _plain(parameter.help or "")
    facts = []
    listed = getattr(getattr(parameter, "type_descriptor", None), "choices", None) or ()
    choices = [str(choice) for choice in listed if str(choice)]
    if choices and not all(word in text for word in choices):
        facts.append(f"one of {', '.join(choices)}")
    if getattr(parameter, "max", None) is not None:
        facts.append(f"{parameter.min:,} to {parameter.max:,}")
    default = parameter.default
    if not callable(default) and not isinstance(default, bool) and default not in (None, "", (), []):
        facts.append(f"default {default}")
    return f"{text} [{'; '.join(facts)}]" if facts else text
