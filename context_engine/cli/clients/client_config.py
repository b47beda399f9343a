"""A client's settings file: found, read once, written whole or not at all, with the old one kept beside it."""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from context_engine.cli.clients import client_table
from context_engine.cli.clients.client_table import Client
from context_engine.cli.clients.config_paths import Machine
from context_engine.cli.clients.launch_command import starts_ctx
from context_engine.errors import AccessFailed, ContextEngineError, InvalidArgument
from context_engine.repo.executables import find_program
from context_engine.repo.file_writer import write_atomic

USER, PROJECT = "you", "this project"
"""For whom a settings file counts, in the words in which it is told."""


@dataclass(frozen=True, slots=True)
class ClientConfigFile:
    """The text of a settings file. `exists` is False for one that would be made."""

    path: Path
    text: str
    exists: bool
    bom: bytes = b""


@dataclass(frozen=True, slots=True)
class ClientConfigState:
    """What a client's settings file says of us: `entry` is ours, `problem` is why it cannot be read."""

    client: Client
    scope: str
    path: Path
    entry: dict[str, Any] | None = None
    problem: str = ""


def this_machine() -> Machine:
    """The machine this process runs on."""
    return Machine(sys.platform, os.environ, str(Path.home()))


def is_installed(client: Client, machine: Machine) -> bool:
    """Whether its command is there, or a folder that only it makes."""
    folders = {Path(place).parent for place in client.user(machine)} - {Path(machine.home_path)}
    files = (Path(place) for place in client.user(machine))
    return any(map(find_program, client.programs)) or any(each.exists() for each in (*folders, *files))


def find_config_path(client: Client, machine: Machine, project: Path | None) -> Path:
    """The file an entry belongs into: the first that exists, else the one to begin with.

    Raises: InvalidArgument for a client without settings in projects.
    """
    if project and not client.project:
        raise InvalidArgument(
            f"{client.title} has no settings inside a project", suggestion="Leave out --project; name a --root instead."
        )
    places = [project / name for name in client.project] if project else [Path(each) for each in client.user(machine)]
    return next((place for place in places if place.exists()), places[0])


def read_config(path: Path) -> ClientConfigFile:
    """The settings file, empty when there is none. Raises: AccessFailed, InvalidArgument when it is no UTF-8."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return ClientConfigFile(path, "", exists=False)
    except OSError as error:
        raise AccessFailed(
            f"{path} cannot be read: {error.strerror}", suggestion="Give this user permission to read it."
        ) from error
    bom = codecs.BOM_UTF8 if raw.startswith(codecs.BOM_UTF8) else b""
    try:
        return ClientConfigFile(path, raw[len(bom) :].decode("utf-8"), exists=True, bom=bom)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidArgument(
            f"line {line}: no UTF-8", suggestion="Save the file as UTF-8, then run the command again."
        ) from None


def write_config(config: ClientConfigFile, text: str, stamp: str) -> Path | None:
    """Put another text in its place; where the old one is kept, if there was one.

    Raises: WriteFailed, AccessFailed; the file is as it was then.
    """
    kept = _write_backup(config, stamp) if config.exists else None
    try:
        config.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AccessFailed(
            f"the folder {config.path.parent} cannot be made: {error.strerror}",
            suggestion="Check who may write there.",
        ) from error
    write_atomic(config.path, config.bom + text.encode("utf-8"))
    return kept


def list_config_states(
    machine: Machine, project: Path | None, clients: tuple[Client, ...] = client_table.ALL
) -> Iterator[ClientConfigState]:
    """What the settings files of these clients say of us, the user's and the project's; only of those that exist."""
    for client in clients:
        scopes = [(USER, None), *([(PROJECT, project)] if project and client.project else [])]
        for scope, where in scopes:
            path = find_config_path(client, machine, where)
            if path.exists():
                yield read_config_state(client, scope, path)


def read_config_state(client: Client, scope: str, path: Path) -> ClientConfigState:
    """What one settings file says of us."""
    try:
        entry = client.language.get_value(read_config(path).text, client.path)
    except ContextEngineError as error:
        return ClientConfigState(client, scope, path, problem=error.message)
    ours = isinstance(entry, dict) and starts_ctx(command_line_of(entry))
    return ClientConfigState(client, scope, path, entry if ours else None)


def command_line_of(entry: dict[str, Any]) -> tuple[str, ...]:
    """The command line of an entry, in whichever of the two shapes clients use.

    >>> command_line_of({"command": ["ctx", "serve"]}), command_line_of({"command": "ctx", "args": ["serve"]})
    (('ctx', 'serve'), ('ctx', 'serve'))
    """
    command, args = entry.get("command"), entry.get("args")
    listed = command if isinstance(command, list) else [command] if command else []
    return tuple(str(word) for word in (*listed, *(args if isinstance(args, list) else [])))


def _write_backup(config: ClientConfigFile, stamp: str) -> Path:
    """A copy of the file beside it, readable by nobody who could not read the file."""
    copy = config.path.with_name(f"{config.path.name}.ctx-backup-{stamp}")
    copy = next(each for each in (copy, *(Path(f"{copy}-{n}") for n in range(2, 1_000))) if not each.exists())
    try:
        descriptor = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(config.bom + config.text.encode("utf-8"))
        shutil.copymode(config.path, copy)
    except OSError as error:
        raise AccessFailed(
            f"no copy of {config.path} can be kept beside it: {error.strerror}",
            suggestion="Check who may write to its folder; nothing was changed.",
        ) from error
    return copy
