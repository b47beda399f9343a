"""Find, read and write a client's settings file: atomically, with a backup next to it."""

from __future__ import annotations

import codecs
import glob
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_engine.cli.clients import client_table, guidance_section
from context_engine.cli.clients.client_table import Client
from context_engine.cli.clients.config_paths import Machine, resolve_paths
from context_engine.cli.clients.launch_command import starts_ctx
from context_engine.errors import AccessFailed, ContextEngineError, InvalidArgument
from context_engine.repo import find_program, write_atomic

BACKUP = ".ctx-backup-"
BACKUPS_MAX = 20
"""Backups that are compared with the file when the entry is removed, the newest first."""
USER, PROJECT = "you", "this project"
"""The scopes of a settings file, as messages name them."""


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
    if project and not client.project:
        raise InvalidArgument(
            f"{client.title} has no settings inside a project", suggestion="Leave out --project; name a --root instead."
        )
    if project:
        places = [project / name for name in client.project]
    else:
        places = [Path(path) for path in client.user_paths(machine)]
    return next((place for place in places if place.exists()), places[0])


def read_config(path: Path) -> ClientConfigFile:
    """Read the settings file; empty if it does not exist. Raises: AccessFailed, InvalidArgument if it is not UTF-8."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return ClientConfigFile(path, "", exists=False)
    except OSError as error:
        raise AccessFailed(
            f"{path} cannot be read: {error.strerror}", suggestion="Give this user permission to read it."
        ) from error
    bom = b""
    if raw.startswith(codecs.BOM_UTF8):
        bom = codecs.BOM_UTF8
    try:
        return ClientConfigFile(path, raw[len(bom) :].decode("utf-8"), exists=True, bom=bom)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidArgument(
            f"line {line}: not UTF-8", suggestion="Save the file as UTF-8, then run the command again."
        ) from None


def read_plugin_template() -> str:
    """Return the plugin of opencode, in which the command line of ctx is still to be set."""
    return Path(__file__).with_name("opencode_hooks.js").read_text(encoding="utf-8")


def read_guidance() -> str:
    """Return our section for the file from which a client takes guidance, without its markers."""
    return Path(__file__).with_name("guidance.md").read_text(encoding="utf-8")


def write_config(config: ClientConfigFile, text: str | None, stamp: str) -> Path | None:
    """Replace the text of a settings file; return the path of the backup, if there was a file. None deletes the file.

    Raises: WriteFailed, AccessFailed; the file is unchanged then.
    """
    kept = None
    if config.exists and text is not None:
        kept = _write_backup(config, stamp)
    try:
        if text is None:
            config.path.unlink()
            return kept
        config.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if text is None:
            action = "deleted"
        else:
            action = "written: its folder cannot be created"
        raise AccessFailed(
            f"{config.path} cannot be {action}: {error.strerror}",
            suggestion="Check the permissions of the folders around it.",
        ) from error
    write_atomic(config.path, config.bom + text.encode("utf-8"))
    return kept


def remove_entry(client: Client, config: ClientConfigFile) -> str | None:
    """Return the text without our entry; None if the file contains nothing else and would not exist without it.

    If nothing but the entry was added since a backup, that is the text of the backup, to the last byte: whether an
    empty section was there before cannot be seen in the text.
    """
    entry = client.get_entry(config.text)
    if client.language is None or not isinstance(entry, dict):
        return config.text

    language = client.language

    def add(before: str) -> str:
        return language.set_entry(before, client.path, entry) if client.get_entry(before) is None else ""

    return find_text_before(config, add, default=language.remove_entry(config.text, client.path))


def remove_guidance(config: ClientConfigFile) -> str | None:
    """Return the text without our section; None if the file contains nothing else. Raises: InvalidArgument."""
    guidance = read_guidance()
    without = guidance_section.remove_section(config.text)
    if without == config.text:
        return without
    return find_text_before(config, lambda before: guidance_section.add_section(before, guidance), default=without)


def find_text_before(config: ClientConfigFile, add: Callable[[str], str], *, default: str) -> str | None:
    """Return the text of a backup, or None for no file, to which `add` alone made the text of today; else `default`."""

    def adds_only(before: str) -> bool:
        with suppress(ContextEngineError):
            return before != config.text and add(before) == config.text
        return False

    for before in _read_backups(config.path):
        if adds_only(before):
            return before
    if adds_only("") and not config.path.is_symlink():
        return None
    return default


def _read_backups(path: Path) -> Iterator[str]:
    """Yield the texts of the newest backups of a file."""
    for backup in sorted(path.parent.glob(f"{glob.escape(path.name)}{BACKUP}*"), reverse=True)[:BACKUPS_MAX]:
        with suppress(ContextEngineError):
            yield read_config(backup).text


def list_config_states(
    machine: Machine, project: Path | None, clients: tuple[Client, ...] = client_table.ALL
) -> Iterator[ClientConfigState]:
    """Yield the states of the existing settings files of these clients, the user's and the project's."""
    for client in clients:
        scopes = [(USER, None), *([(PROJECT, project)] if project and client.project else [])]
        for scope, where in scopes:
            path = find_config_path(client, machine, where)
            if path.exists():
                yield read_config_state(client, scope, path)


def read_config_state(client: Client, scope: str, path: Path) -> ClientConfigState:
    """Read the state of one settings file."""
    try:
        entry = client.get_entry(read_config(path).text)
    except ContextEngineError as error:
        return ClientConfigState(client, scope, path, problem=error.message)
    ours = isinstance(entry, dict) and starts_ctx(command_line_of(entry))
    return ClientConfigState(client, scope, path, entry if ours else None)


def command_line_of(entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the command line of an entry, in any of the formats that clients use.

    >>> command_line_of({"command": ["ctx", "serve"]}), command_line_of({"command": "ctx", "args": ["serve"]})
    (('ctx', 'serve'), ('ctx', 'serve'))
    """
    command, args = entry.get("command", entry.get("cmd")), entry.get("args")
    if isinstance(command, list):
        words = command
    else:
        words = [command]
    if isinstance(args, list):
        words = [*words, *args]
    return tuple(str(word) for word in words if word)


def _write_backup(config: ClientConfigFile, stamp: str) -> Path:
    """Write a copy of the file next to it, with the same permissions."""
    copy = config.path.with_name(f"{config.path.name}{BACKUP}{stamp}")
    copy = next(path for path in (copy, *(Path(f"{copy}-{n}") for n in range(2, 1_000))) if not path.exists())
    try:
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(config.bom + config.text.encode("utf-8"))
        shutil.copymode(config.path, copy)
    except OSError as error:
        raise AccessFailed(
            f"{config.path} cannot be backed up next to it: {error.strerror}",
            suggestion="Check the permissions of its folder; nothing was changed.",
        ) from error
    return copy
