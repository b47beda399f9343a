"""`ctx setup`: add ctx to the MCP configuration of a client, and remove it."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from context_engine.cli.clients import client_config, client_table
from context_engine.cli.clients.client_config import ClientConfigFile
from context_engine.cli.clients.client_table import Client
from context_engine.cli.clients.config_paths import Machine
from context_engine.cli.clients.launch_command import LaunchCommand, find_own_launch_command, make_portable, starts_ctx
from context_engine.cli.common_options import find_project
from context_engine.cli.console import out, print_error, print_note, print_rows
from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.repo import check_workspace_root, nearest_project
from context_engine.server import ToolSelection


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """The options of the command line. `in_project` selects the settings of the project, not of the user."""

    roots: tuple[Path, ...] = ()
    profile: str = ""
    read_only: bool = False
    in_project: bool = False
    only_print: bool = False
    remove: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The planned change of one settings file."""

    client: Client
    config: ClientConfigFile
    after: str
    entry: dict[str, Any]
    note: str = ""


def setup(names: Sequence[str], wanted: SetupOptions) -> int:
    """Set up the named clients, or list all; return the exit code."""
    machine = client_config.this_machine()
    if not names:
        _show_all(machine)
        return 0
    clients = [client_table.find_client(name) for name in dict.fromkeys(names)]
    _check_profile(wanted)
    failed = False
    for client in clients:
        try:
            change = plan_change(client, machine, wanted)
            if wanted.only_print:
                _print_diff(change)
            else:
                _write_change(change, wanted)
        except ContextEngineError as error:
            print_error(error)
            if by_hand := error.details.get("by_hand"):
                print(f"\nThe entry, to add by hand:\n\n{by_hand}")
            failed = True
    return int(failed)


def plan_change(client: Client, machine: Machine, wanted: SetupOptions) -> ConfigChange:
    """Plan the change of the client's settings, without writing.

    Raises: InvalidArgument if they cannot be read (`details` has the entry to add by hand), or if another server has
    our name.
    """
    project = find_project(Path.cwd()) if wanted.in_project else None
    launch = _launch(client, wanted, project)
    entry = client.entry(launch)
    path = client_config.find_config_path(client, machine, project)
    try:
        now = client_config.read_config(path)
        present = client.language.get_value(now.text, client.path)
        _check_ours(client, path, present)
        if wanted.remove:
            after = client.language.remove_entry(now.text, client.path)
        else:
            after = client.language.set_entry(now.text, client.path, entry)
    except InvalidArgument as error:
        raise _add_entry(error, client, path, entry, wanted) from error
    return ConfigChange(client, now, after, entry, "" if wanted.remove else launch.note)


# -- deciding -------------------------------------------------------------------------------------------------------


def _check_profile(wanted: SetupOptions) -> None:
    profiles = tuple(part.strip() for part in wanted.profile.split(",") if part.strip())
    if wrong := ToolSelection(profiles=profiles).find_unknown_name():
        raise InvalidArgument(wrong, suggestion="ctx serve --help lists the profiles.")


def _launch(client: Client, wanted: SetupOptions, project: Path | None) -> LaunchCommand:
    """Return the command line of the entry."""
    named = list(dict.fromkeys(str(check_workspace_root(root)) for root in wanted.roots))
    if not named and project and client.workspace:
        named = [client.workspace]
    if not named and client.needs_root and not wanted.remove:
        named = [str(_root_for(client))]
    words = ["serve", *(word for root in named for word in ("--root", root))]
    words += ["--profile", wanted.profile] if wanted.profile else []
    words += ["--read-only"] if wanted.read_only else []
    launch = find_own_launch_command()
    return (make_portable(launch) if project else launch).with_args(words)


def _root_for(client: Client) -> Path:
    """Return the project around the current folder, for a client without an open folder. Raises: InvalidArgument."""
    found = nearest_project(Path.cwd())
    if found is None:
        raise InvalidArgument(
            f"{client.title} has no open folder, and the current folder is not in a project",
            suggestion=f"Name one: ctx setup {client.name} --root PATH",
        )
    return found


def _check_ours(client: Client, path: Path, present: Any) -> None:
    """Check that an entry with our name starts ctx. Raises: InvalidArgument."""
    if not isinstance(present, dict) or starts_ctx(client_config.command_line_of(present)):
        return
    started = shlex.join(client_config.command_line_of(present)) or str(
        present.get("url") or present.get("httpUrl") or present
    )
    raise InvalidArgument(
        f"in {path} {client.section}.{client_table.NAME} is another server: {started}",
        suggestion="Rename or remove that entry, then run the command again.",
        details={"taken": True},
    )


def _add_entry(
    error: InvalidArgument, client: Client, path: Path, entry: dict[str, Any], wanted: SetupOptions
) -> InvalidArgument:
    """Return the error with the name of the file, and the entry in the format of the file."""
    if error.details.get("taken"):
        return error
    by_hand = "" if wanted.remove else client.language.set_entry("", client.path, entry)
    step = f"{error.suggestion} Nothing was changed."
    return InvalidArgument(f"{path}: {error.message}", suggestion=step, details={**error.details, "by_hand": by_hand})


# -- writing and printing ---------------------------------------------------------------------------------------------


def _print_diff(change: ConfigChange) -> None:
    """Print what would change as a diff."""
    if change.after == change.config.text:
        print_note(f"{change.client.title}: nothing to do in {change.config.path}")
        return
    before = change.config.text.splitlines(keepends=True)
    now = str(change.config.path) if change.config.exists else "/dev/null"
    for line in difflib.unified_diff(before, change.after.splitlines(keepends=True), now, str(change.config.path)):
        print(line.rstrip("\r\n"))


def _write_change(change: ConfigChange, wanted: SetupOptions) -> None:
    """Write the file and print what was done."""
    title, path = change.client.title, change.config.path
    if change.after == change.config.text:
        state = "is not in" if wanted.remove else "is in"
        out.print(f"{title}: nothing to do, {client_table.NAME} {state} {path}", markup=False)
        return
    backup = client_config.write_config(
        change.config, change.after, datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    )
    out.print(f"{title}: {client_table.NAME} {'removed from' if wanted.remove else 'written to'} {path}", markup=False)
    rows = {"  backup": str(backup) if backup else ""}
    if not wanted.remove:
        command_line = shlex.join(client_config.command_line_of(change.entry))
        rows = {"  starts": command_line, **rows, "  check": change.client.check}
    print_rows(rows.items())
    if change.note:
        print_note(f"note: {change.note}")


def _show_all(machine: Machine) -> None:
    """Print for each client whether it is installed and set up."""
    project = nearest_project(Path.cwd())
    known = list(client_config.list_config_states(machine, project))
    print_rows((client.name, _state(client, machine, known)) for client in client_table.ALL)
    print_note(
        "ctx setup CLIENT writes the entry; --print shows it, --remove removes it, --project is for this project only"
    )


def _state(client: Client, machine: Machine, known: Sequence[client_config.ClientConfigState]) -> str:
    mine = [state for state in known if state.client is client]
    notes = [f"set up for {config.scope} in {config.path}" for config in mine if config.entry]
    notes += [f"{config.path} cannot be read: {config.problem}" for config in mine if config.problem]
    if not notes:
        is_here = client_config.is_installed(client, machine)
        notes = [f"found, not set up: ctx setup {client.name}" if is_here else "not found on this machine"]
    return f"{client.title}: {'; '.join(notes)}"
