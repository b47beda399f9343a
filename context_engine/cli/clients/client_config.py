"""Find, read and write a client's settings file and its file for agents: atomically, with a backup next to it."""

from __future__ import annotations

import codecs
import errno
import glob
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_engine.cli.clients import client_table
from context_engine.cli.clients.client_table import Client, Machine, resolve_paths
from context_engine.cli.clients.launch_command import starts_ctx
from context_engine.errors import AccessFailed, ContextEngineError, InvalidArgument
from context_engine.repo import find_program, write_atomic

BACKUP = ".ctx-backup-"
BACKUPS_MAX = 20
"""Backups that are compared with the file when the entry is removed, the newest first."""
USER, PROJECT = "you", "this project"
"""The scopes of a settings file, as messages name them."""
BEGIN = "<!-- ctx: begin, written by `ctx setup CLIENT --guidance`; changes between these lines are lost -->"
END = "<!-- ctx: end -->"


@dataclass(frozen=True, slots=True)
class ClientConfigFile:
    """The text of a settings file. `exists` is False for a file that would be created."""

    path: Path
    text: str
    exists: bool
    bom: bytes = b""


@dataclass(frozen=True, slots=True)
class ClientConfigState:
    """The state of a client's settings file: `entry` is ours, `problem` is why the file cannot be read."""

    client: Client
    scope: str
    path: Path
    entry: dict[str, Any] | None = None
    problem: str = ""


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    return Machine(sys.platform, os.environ, str(Path.home()))


def is_installed(client: Client, machine: Machine) -> bool:
    """Whether the client's command exists, or a folder that only the client creates."""
    files = [Path(path) for path in client.user_paths(machine)]
    own = [Path(path) for path in resolve_paths(client.folders, machine)]
    folders = own or [path.parent for path in files if path.parent != Path(machine.home_path)]
    return any(map(find_program, client.programs)) or any(path.exists() for path in (*folders, *files))


def find_config_path(client: Client, machine: Machine, project: Path | None) -> Path:
    """Return the file for an entry: the first that exists, else the preferred one.

    Raises: InvalidArgument for a client without settings in projects.
    """
    places = [Path(path) for path in client.user_paths(machine)]
    if project:
        places = [project / name for name in client.project]
    if not places:
        raise InvalidArgument(
            f"{client.title} has no settings inside a project", suggestion="Leave out --project; name a --root instead."
        )
    return next((place for place in places if place.exists()), places[0])


def list_config_states(
    machine: Machine, project: Path | None, clients: tuple[Client, ...] = client_table.ALL
) -> Iterator[ClientConfigState]:
    """Yield the states of the existing settings files of these clients, the user's and the project's."""
    for client in clients:
        scopes = {USER: None} | ({PROJECT: project} if project and client.project else {})
        for scope, where in scopes.items():
            path = find_config_path(client, machine, where)
            if not path.exists():
                continue
            try:
                entry = client.get_entry(read_config(path).text)
            except ContextEngineError as error:
                yield ClientConfigState(client, scope, path, problem=error.message)
                continue
            is_ours = isinstance(entry, dict) and starts_ctx(command_line_of(entry))
            yield ClientConfigState(client, scope, path, entry if is_ours else None)


def command_line_of(entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the command line of an entry, in any of the formats that clients use.

    >>> command_line_of({"command": ["ctx", "serve"]}), command_line_of({"command": "ctx", "args": ["serve"]})
    (('ctx', 'serve'), ('ctx', 'serve'))
    """
    words: list[Any] = []
    for value in (entry.get("command", entry.get("cmd")), entry.get("args") or []):
        words += value if isinstance(value, list) else [value]
    return tuple(str(word) for word in words if word)


# -- reading and writing ----------------------------------------------------------------------------------------------


def read_config(path: Path) -> ClientConfigFile:
    """Read the settings file; empty if it does not exist. Raises: AccessFailed, InvalidArgument if it is not UTF-8."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return ClientConfigFile(path, "", exists=False)
    except OSError as error:
        step = "It must be a file that this user may read."
        raise AccessFailed(f"{path} cannot be read: {error.strerror}", suggestion=step) from error
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    try:
        return ClientConfigFile(path, raw[len(bom) :].decode("utf-8"), exists=True, bom=bom)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        step = "Save the file as UTF-8, then run the command again."
        raise InvalidArgument(f"line {line}: not UTF-8", suggestion=step) from None


def read_plugin_template() -> str:
    """Return the plugin of opencode, in which the command line of ctx is still to be set."""
    return Path(__file__).with_name("opencode_hooks.js").read_text(encoding="utf-8")


def write_config(config: ClientConfigFile, text: str | None, stamp: str) -> Path | None:
    """Replace the text of a settings file; return the path of the backup, if one is needed. None deletes the file.

    Raises: WriteFailed, AccessFailed; the file is unchanged then.
    """
    step = "Make it and its folder writable, then run the command again; nothing was changed."
    try:
        if config.exists and not config.path.stat().st_mode & stat.S_IWUSR:
            raise PermissionError(errno.EACCES, "it is read-only")
        if text is None:
            config.path.unlink()
            return None
        config.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        action = "deleted" if text is None else "written"
        raise AccessFailed(f"{config.path} cannot be {action}: {error.strerror}", suggestion=step) from error
    raw = config.bom + config.text.encode("utf-8")
    backup = None
    if config.exists:
        copy = config.path.with_name(f"{config.path.name}{BACKUP}{stamp}")
        backup = next(path for path in (copy, *(Path(f"{copy}-{n}") for n in range(2, 1_000))) if not path.exists())
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(raw)
            shutil.copymode(config.path, backup)
        except OSError as error:
            problem = f"{config.path} cannot be backed up next to it: {error.strerror}"
            raise AccessFailed(problem, suggestion=step) from error
    written = config.bom + text.encode("utf-8")
    write_atomic(config.path, written)
    with suppress(OSError):  # the file equals a backup again: neither that one nor the newest is needed
        if restored := [path for path in _list_backups(config.path) if path.read_bytes() == written]:
            for path in filter(None, (*restored, backup)):
                path.unlink()
            return None
    return backup


def _list_backups(path: Path) -> list[Path]:
    """Return the backups of a settings file, the newest first."""
    return sorted(path.parent.glob(f"{glob.escape(path.name)}{BACKUP}*"), reverse=True)


# -- removing ---------------------------------------------------------------------------------------------------------


def remove_entry(client: Client, config: ClientConfigFile) -> str | None:
    """Return the text without our entry; None if the file contains nothing else and would not exist without it.

    If nothing but the entry was added since a backup, that is the text of the backup, to the last byte: whether an
    empty section was there before cannot be seen in the text.
    """
    entry = client.get_entry(config.text)
    if client.editor is None or not isinstance(entry, dict):
        return config.text

    def add(before: str) -> str:
        return client.editor.set_entry(before, client.path, entry) if client.get_entry(before) is None else ""

    return find_text_before(config, add, default=client.editor.remove_entry(config.text, client.path))


def remove_guidance(config: ClientConfigFile) -> str | None:
    """Return the text without our section; None if the file contains nothing else. Raises: InvalidArgument."""
    without = remove_section(config.text)
    if without == config.text:
        return without
    return find_text_before(config, lambda before: add_section(before, read_guidance()), default=without)


def find_text_before(config: ClientConfigFile, add: Callable[[str], str], *, default: str) -> str | None:
    """Return the text of a backup, or None for no file, to which `add` alone made the text of today; else `default`."""

    def adds_only(before: str) -> bool:
        with suppress(ContextEngineError):
            return before != config.text and add(before) == config.text
        return False

    for backup in _list_backups(config.path)[:BACKUPS_MAX]:
        with suppress(ContextEngineError):
            before = read_config(backup).text
            if adds_only(before):
                return before
    if adds_only("") and not config.path.is_symlink():
        return None
    return default


# -- guidance ---------------------------------------------------------------------------------------------------------


def read_guidance() -> str:
    """Return our section for the file from which a client takes guidance, without its markers."""
    return Path(__file__).with_name("guidance.md").read_text(encoding="utf-8")


def add_section(text: str, guidance: str) -> str:
    """Return the text with the section, at the end or in place of the present one. Raises: InvalidArgument."""
    newline = "\r\n" if "\r\n" in text else "\n"
    section = f"{BEGIN}\n{guidance.rstrip()}\n{END}".replace("\n", newline)
    if place := _find_section(text):
        return text[: place[0]] + section + text[place[1] :]
    if text and not text.endswith("\n"):
        return f"{text}{newline}{newline}{section}"
    return f"{text}{newline if text else ''}{section}{newline}"


def remove_section(text: str) -> str:
    """Return the text as it was before the section, the empty line before it, too. Raises: InvalidArgument."""
    place = _find_section(text)
    if place is None:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    before, after = text[: place[0]], text[place[1] :]
    gap = newline if after.startswith(newline) else 2 * newline
    return before.removesuffix(gap) + after.removeprefix(newline)


def _find_section(text: str) -> tuple[int, int] | None:
    """Return the range of the section with its markers; None without one. Raises: InvalidArgument for half of one."""
    start, stop = text.find(BEGIN), text.find(END)
    if start == stop == -1:
        return None
    if text.count(BEGIN) != 1 or text.count(END) != 1 or stop < start:
        line = text.count("\n", 0, max(start, stop)) + 1
        raise InvalidArgument(
            f"line {line}: the markers of the section on ctx are not a pair",
            suggestion="Remove the lines with `ctx: begin` and `ctx: end`, then run the command again.",
        )
    return start, stop + len(END)
