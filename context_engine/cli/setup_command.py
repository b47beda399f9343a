"""`ctx setup`: add ctx to the MCP configuration of a client, and remove it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from context_engine.cli.clients import client_config, client_table, guidance_section
from context_engine.cli.clients.client_config import ClientConfigFile
from context_engine.cli.clients.client_table import Client
from context_engine.cli.clients.config_paths import Machine
from context_engine.cli.clients.launch_command import LaunchCommand, find_own_launch_command, make_portable, starts_ctx
from context_engine.cli.common_options import find_project, print_json
from context_engine.cli.console import confirm, print_note, print_rows
from context_engine.cli.exit_codes import FAILED
from context_engine.cli.hook_setup import HookOptions, SetupReport, State, has_hooks, set_up_hooks
from context_engine.errors import ContextEngineError, InvalidArgument, NotConfirmed
from context_engine.repo import check_workspace_root, nearest_project
from context_engine.server import ToolSelection
from context_engine.text import format_count


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """The options of the command line. `in_project` selects the settings of the project, not of the user."""

    roots: tuple[Path, ...] = ()
    profile: str = ""
    read_only: bool = False
    in_project: bool = False
    only_print: bool = False
    remove: bool = False
    all_installed: bool = False
    """Select every client that is installed, or with `remove` every one that has our entry."""
    yes: bool = False
    hooks: bool = False
    """Write the hooks, too; `remove` always removes them."""
    guidance: bool = False
    """Write the section on ctx into the project's file for agents, instead of the entry."""
    as_json: bool = False

    @property
    def part(self) -> str:
        """The part of ctx that is written: the entry of the server, or the guidance for agents."""
        return "guidance" if self.guidance else "server"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The planned change of one settings file."""

    client: Client
    config: ClientConfigFile
    after: str | None
    """The text to write; None deletes the file, which has nothing but our entry."""
    entry: dict[str, Any]
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return self.after == self.config.text


def setup(names: Sequence[str], wanted: SetupOptions) -> int:
    """Set up the named or all installed clients, or list all; return the exit code.

    Raises: InvalidArgument, NotConfirmed; nothing is written then.
    """
    machine = client_config.this_machine()
    if not names and not wanted.all_installed:
        _show_all(machine, as_json=wanted.as_json)
        return 0
    if names and wanted.all_installed:
        raise InvalidArgument("--all selects the clients itself", suggestion="Name clients, or use --all.")
    if wanted.guidance and wanted.hooks:
        raise InvalidArgument("--guidance is written alone", suggestion="Run the command again for --hooks.")
    clients = [client_table.find_client(name) for name in dict.fromkeys(names)] or _select_all(machine, wanted)
    _check_profile(wanted)
    if wanted.guidance:  # several clients read one file
        clients = list({client.guidance or client.name: client for client in clients}.values())
    report = SetupReport(wanted.as_json)
    hooks_went_well = wanted.guidance or _set_up_hooks(clients, machine, wanted, report)
    changes = [change for client in clients if (change := _plan(client, machine, wanted, report))]
    if wanted.only_print or wanted.all_installed or wanted.guidance:
        for change in changes:
            report.show_diff(change.config, change.after)
    if wanted.only_print:
        _report_plans(changes, wanted, report)
    else:
        _check_confirmed([change for change in changes if not change.is_empty], wanted)
        changes = [change for change in changes if _write_change(change, wanted, report)]
    if wanted.as_json:
        print_json(report.rows)
    if len(changes) < len(clients) or not hooks_went_well:
        return FAILED
    return 0


def _set_up_hooks(clients: Sequence[Client], machine: Machine, wanted: SetupOptions, report: SetupReport) -> bool:
    """Add or remove the hooks of the clients, as far as that is wanted; `--all` skips clients that have none."""
    if not wanted.hooks and not wanted.remove:
        return True
    project = _find_wanted_project(wanted)
    chosen = [client for client in clients if has_hooks(client) or not wanted.all_installed]
    options = HookOptions(project, remove=wanted.remove, only_print=wanted.only_print)
    return set_up_hooks(chosen, machine, options, report)


def _find_wanted_project(wanted: SetupOptions) -> Path | None:
    """Return the project around this folder if its settings are meant; None for those of the user."""
    return find_project(Path.cwd()) if wanted.in_project else None


def _select_all(machine: Machine, wanted: SetupOptions) -> list[Client]:
    """Return the clients that `--all` means: those that are installed, or that have our entry, in this scope.

    Raises: InvalidArgument if there are none.
    """
    project = _find_wanted_project(wanted)
    if project:
        scope = client_config.PROJECT
    else:
        scope = client_config.USER
    known = client_config.list_config_states(machine, project)
    has_entry = {state.client.name for state in known if state.entry and state.scope == scope}
    if wanted.guidance:
        found = [
            client for client in client_table.ALL if client.guidance and client_config.is_installed(client, machine)
        ]
    elif wanted.remove:
        found = [client for client in client_table.ALL if client.name in has_entry]
    else:
        usable = [client for client in client_table.ALL if client.project or not project]
        found = [client for client in usable if client_config.is_installed(client, machine)]
    if not found:
        if wanted.remove:
            problem = "no client has an entry for ctx"
        else:
            problem = "no client was found on this machine"
        raise InvalidArgument(
            problem, suggestion="`ctx setup` lists the clients; name one that is installed elsewhere."
        )
    return found


def _plan(client: Client, machine: Machine, wanted: SetupOptions, report: SetupReport) -> ConfigChange | None:
    """Plan the change of one client; report the error of one that cannot be changed."""
    try:
        if wanted.guidance:
            return plan_guidance(client, wanted)
        return plan_change(client, machine, wanted)
    except ContextEngineError as error:
        report.fail(client, wanted.part, error)
    return None


def _is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def _check_confirmed(changes: Sequence[ConfigChange], wanted: SetupOptions) -> None:
    """Ask before several files are changed that the user did not name. Raises: InvalidArgument, NotConfirmed."""
    if not wanted.all_installed or wanted.yes or not changes:
        return
    if not _is_interactive():
        raise InvalidArgument("stdin is not a terminal, so you cannot be asked", suggestion="Repeat it with --yes.")
    if not confirm(f"Change {format_count(len(changes), 'file')}?"):
        raise NotConfirmed("nothing was changed", suggestion="Answer y, or use --yes.")


def plan_change(client: Client, machine: Machine, wanted: SetupOptions) -> ConfigChange:
    """Plan the change of the client's settings, without writing.

    Raises: InvalidArgument if they cannot be read (`details` has the entry to add by hand), or if another server has
    our name.
    """
    project = _find_wanted_project(wanted)
    launch = _launch(client, wanted, project)
    entry = client.build_entry(launch)
    path = client_config.find_config_path(client, machine, project)
    try:
        now = client_config.read_config(path)
        present = client.language.get_value(now.text, client.path)
        _check_ours(client, path, present)
        if wanted.remove:
            after = client_config.remove_entry(client, now)
        else:
            after = client.language.set_entry(now.text, client.path, entry)
    except InvalidArgument as error:
        raise _add_entry(error, client, path, entry, wanted) from error
    return ConfigChange(client, now, after, entry, "" if wanted.remove else launch.note)


def plan_guidance(client: Client, wanted: SetupOptions) -> ConfigChange:
    """Plan the change of the file from which a client takes guidance in this project, without writing.

    Raises: InvalidArgument for a client that has no such file, and for a file with half of a section.
    """
    if not client.guidance:
        files = sorted({one.guidance for one in client_table.ALL if one.guidance})
        raise InvalidArgument(
            f"the documentation of {client.title} names no file for guidance in a project",
            suggestion=f"Clients that read {', '.join(files)} have one; `ctx setup` lists the clients.",
        )
    path = (find_project(Path.cwd()) or Path.cwd()) / client.guidance
    now = client_config.read_config(path)
    try:
        if wanted.remove:
            after = client_config.remove_guidance(now)
        else:
            after = guidance_section.add_section(now.text, client_config.read_guidance())
    except InvalidArgument as error:
        raise InvalidArgument(f"{path}: {error.message}", suggestion=error.suggestion) from error
    return ConfigChange(client, now, after, {})


# -- deciding -------------------------------------------------------------------------------------------------------


def _check_profile(wanted: SetupOptions) -> None:
    profiles = tuple(part.strip() for part in wanted.profile.split(",") if part.strip())
    if wrong := ToolSelection(profiles=profiles).find_unknown_name():
        raise InvalidArgument(wrong, suggestion="`ctx serve --help` lists the profiles.")


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
            suggestion=f"Name one: `ctx setup {client.name} --root PATH`.",
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
    if wanted.remove:
        by_hand = ""
    else:
        by_hand = client.language.set_entry("", client.path, entry)
    step = f"{error.suggestion} Nothing was changed."
    return InvalidArgument(f"{path}: {error.message}", suggestion=step, details={**error.details, "by_hand": by_hand})


# -- writing and printing ---------------------------------------------------------------------------------------------


def _report_plans(changes: Sequence[ConfigChange], wanted: SetupOptions, report: SetupReport) -> None:
    """Report the changes that `--print` does not make."""
    for change in changes:
        if change.is_empty and not wanted.as_json:
            print_note(f"{change.client.title}: nothing to do in {change.config.path}")
        state: State = "unchanged" if change.is_empty else "planned"
        report.add(change.client, wanted.part, state, change.config, change.after, note=change.note)


def _write_change(change: ConfigChange, wanted: SetupOptions, report: SetupReport) -> bool:
    """Write the file and report what was done; False, after an error message, if the file cannot be written."""
    title, path = change.client.title, change.config.path
    if change.is_empty:
        place = "is not in" if wanted.remove else "is in"
        report.show(f"{title}: nothing to do, {client_table.NAME} {place} {path}")
        report.add(change.client, wanted.part, "unchanged", change.config, change.after)
        return True
    try:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        backup = client_config.write_config(change.config, change.after, stamp)
    except ContextEngineError as error:
        report.fail(change.client, wanted.part, error)
        return False
    report.show(f"{title}: {client_table.NAME} {'removed from' if wanted.remove else 'written to'} {path}")
    details: dict[str, Any] = {"backup": str(backup or ""), "note": change.note}
    if change.entry and not wanted.remove:
        details |= {"command": client_config.command_line_of(change.entry), "check": change.client.check}
    state: State = "removed" if wanted.remove else "written"
    report.add(change.client, wanted.part, state, change.config, change.after, **details)
    if not wanted.as_json:
        _show_details(details)
    return True


def _show_details(details: Mapping[str, Any]) -> None:
    names = {"command": "  starts", "backup": "  backup", "check": "  check"}
    shown = {**details, "command": shlex.join(details.get("command", ()))}
    print_rows((label, shown.get(name, "")) for name, label in names.items())
    if details["note"]:
        print_note(f"note: {details['note']}")


def _show_all(machine: Machine, *, as_json: bool) -> None:
    """Print for each client whether it is installed and set up."""
    project = nearest_project(Path.cwd())
    known = list(client_config.list_config_states(machine, project))
    if as_json:
        print_json([_format_client(client, machine, known) for client in client_table.ALL])
        return
    print_rows((client.name, _state(client, machine, known)) for client in client_table.ALL)
    print_note(
        "ctx setup CLIENT writes the entry, ctx setup --all that of every client found; "
        "--print shows it, --remove removes it, --project is for this project only"
    )


def _format_client(
    client: Client, machine: Machine, known: Sequence[client_config.ClientConfigState]
) -> dict[str, object]:
    """Return a client with each of its settings files: whether our entry is in it, or why it cannot be read."""
    files = [
        {"scope": config.scope, "path": str(config.path), "is_set_up": bool(config.entry), "problem": config.problem}
        for config in known
        if config.client is client
    ]
    is_here = client_config.is_installed(client, machine)
    return {"client": client.name, "title": client.title, "is_installed": is_here, "files": files}


def _state(client: Client, machine: Machine, known: Sequence[client_config.ClientConfigState]) -> str:
    mine = [state for state in known if state.client is client]
    notes = [f"set up for {config.scope} in {config.path}" for config in mine if config.entry]
    notes += [f"{config.path} cannot be read: {config.problem}" for config in mine if config.problem]
    if not notes:
        is_here = client_config.is_installed(client, machine)
        notes = [f"found, not set up: ctx setup {client.name}" if is_here else "not found on this machine"]
    return f"{client.title}: {'; '.join(notes)}"
