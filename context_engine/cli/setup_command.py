"""`ctx setup`: add ctx to the settings of a client - its entry, its hooks, its guidance - and remove it."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from context_engine.cli.clients import client_config, client_table, guidance_section, hook_config
from context_engine.cli.clients.client_config import ClientConfigFile
from context_engine.cli.clients.client_table import Client
from context_engine.cli.clients.config_paths import Machine, resolve_paths
from context_engine.cli.clients.hook_config import FORMATS, HookFormat
from context_engine.cli.clients.launch_command import LaunchCommand, find_own_launch_command, make_portable, starts_ctx
from context_engine.cli.common_options import find_project, print_json
from context_engine.cli.console import confirm, out, print_error, print_note, print_rows
from context_engine.cli.exit_codes import FAILED
from context_engine.errors import ContextEngineError, InvalidArgument, NotConfirmed
from context_engine.repo import check_workspace_root, nearest_project
from context_engine.server import ToolSelection
from context_engine.text import drop_empty, format_count

SERVER, HOOKS, GUIDANCE = "server", "hooks", "guidance"
"""The parts of ctx that a client can have: the entry that starts the server, hooks, a section for agents."""
PLUGIN = HookFormat(
    user=("$OPENCODE_CONFIG_DIR/plugins/ctx-hooks.js", "$CONFIG/opencode/plugins/ctx-hooks.js"),
    project=".opencode/plugins/ctx-hooks.js",
    events=(),
    after="opencode loads the plugin when it starts again.",
)
"""opencode's hooks are functions of a plugin (https://opencode.ai/docs/plugins): the whole file is ours."""
PLUGIN_COMMAND = 'const COMMAND = ["ctx"]'


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """The options of the command line. `in_project` selects the settings of the project, not of the user.

    `all_installed` selects every client that is installed, or with `remove` every one that has our entry. `hooks`
    writes the hooks, too; `remove` always removes them. `guidance` writes that alone.
    """

    roots: tuple[Path, ...] = ()
    profile: str = ""
    read_only: bool = False
    in_project: bool = False
    only_print: bool = False
    remove: bool = False
    all_installed: bool = False
    yes: bool = False
    hooks: bool = False
    guidance: bool = False
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The planned change of one file; `after` None deletes it. `pasted` are lines that the user adds by hand."""

    client: Client
    part: str
    config: ClientConfigFile
    after: str | None
    note: str = ""
    command: tuple[str, ...] = ()
    pasted: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.after == self.config.text and not self.pasted

    def diff_lines(self) -> Iterator[str]:
        """Yield the lines of the unified diff from the file as it is to its text after the change."""
        old, new = (text.splitlines(keepends=True) for text in (self.config.text, self.after or ""))
        name = str(self.config.path)
        names = name if self.config.exists else os.devnull, os.devnull if self.after is None else name
        return (line.rstrip("\r\n") for line in difflib.unified_diff(old, new, *names))


@dataclass(slots=True)
class SetupReport:
    """The changes of all files so far; with `as_json` it is printed at the end only."""

    as_json: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)
    has_failed: bool = False

    def show(self, text: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            out.print(text, markup=False)

    def add(self, change: ConfigChange, state: str, **more: Any) -> None:
        """Add the row of a file."""
        row = {"client": change.client.name, "part": change.part, "path": str(change.config.path), "state": state}
        details = {"diff": "\n".join(change.diff_lines()), "pasted": change.pasted, **more}
        self.rows.append({**row, **drop_empty(details)})

    def fail(self, client: Client, part: str, error: ContextEngineError) -> None:
        """Add the row of a client that could not be set up, or print the error and the entry to add by hand."""
        self.has_failed = True
        if self.as_json:
            self.rows.append({"client": client.name, "part": part, "state": "failed", "error": error.as_dict()})
            return
        print_error(error)
        if by_hand := error.details.get("by_hand"):
            print(f"\nThe entry, to add by hand:\n\n{by_hand}")


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
    report = SetupReport(wanted.as_json)
    if wanted.guidance:
        parts = (GUIDANCE,)
    else:
        parts = (HOOKS, SERVER) if wanted.hooks or wanted.remove else (SERVER,)
    for part in parts:  # one after the other: two of them may be in one file
        _set_up_part(part, clients, machine, wanted, report)
    if wanted.as_json:
        print_json(report.rows)
    return FAILED if report.has_failed else 0


def _set_up_part(
    part: str, clients: Sequence[Client], machine: Machine, wanted: SetupOptions, report: SetupReport
) -> None:
    """Plan the changes of one part, show those that the user cannot expect, ask, and write them."""
    changes = []
    for client in _select_for_part(part, clients, wanted):
        try:
            changes.append(PLANNERS[part](client, machine, wanted))
        except ContextEngineError as error:
            report.fail(client, part, error)
    changes = [change for change in changes if change.config.exists or change.part != HOOKS or not wanted.remove]
    if not wanted.as_json and (wanted.only_print or wanted.all_installed or part != SERVER):
        for line in chain.from_iterable(change.diff_lines() for change in changes):
            print(line)
    if not wanted.only_print:
        _check_confirmed([change for change in changes if not change.is_empty], wanted)
    for change in changes:
        _carry_out(change, wanted, report)


# -- planning ---------------------------------------------------------------------------------------------------------


def _select_all(machine: Machine, wanted: SetupOptions) -> list[Client]:
    """Return the clients that `--all` means: those that are installed, or that have our entry, in this scope.

    Raises: InvalidArgument if there are none.
    """
    project = _find_wanted_project(wanted)
    scope = client_config.PROJECT if project else client_config.USER
    known = client_config.list_config_states(machine, project)
    has_entry = {state.client.name for state in known if state.entry and state.scope == scope}
    found = [client for client in client_table.ALL if client_config.is_installed(client, machine)]
    problem = "no client was found on this machine"
    if wanted.guidance:
        found = [client for client in found if client.guidance]
    elif wanted.remove:
        found = [client for client in client_table.ALL if client.name in has_entry]
        problem = "no client has an entry for ctx"
    elif project:
        found = [client for client in found if client.project]
    if not found:
        raise InvalidArgument(
            problem, suggestion="`ctx setup` lists the clients; name one that is installed elsewhere."
        )
    return found


def _select_for_part(part: str, clients: Sequence[Client], wanted: SetupOptions) -> Sequence[Client]:
    """Return the clients that get a part: those with hooks, unless the user named others; one of several for a file."""
    if part == GUIDANCE:
        return list({client.guidance or client.name: client for client in clients}.values())
    if part == HOOKS and (wanted.remove or wanted.all_installed):
        return [client for client in clients if _find_hooks(client)]
    return clients


def _find_wanted_project(wanted: SetupOptions) -> Path | None:
    """Return the project around this folder if its settings are meant; None for those of the user."""
    return find_project(Path.cwd()) if wanted.in_project else None


def _check_profile(wanted: SetupOptions) -> None:
    profiles = tuple(part.strip() for part in wanted.profile.split(",") if part.strip())
    if wrong := ToolSelection(profiles=profiles).find_unknown_name():
        raise InvalidArgument(wrong, suggestion="`ctx serve --help` lists the profiles.")


def _plan_entry(client: Client, machine: Machine, wanted: SetupOptions) -> ConfigChange:
    """Plan the change of a client's entry.

    Raises: InvalidArgument if the settings cannot be read (`details` has the entry to add by hand), or if another
    server has our name.
    """
    project = _find_wanted_project(wanted)
    launch = _build_launch(client, wanted, project)
    entry = client.build_entry(launch)
    path = client_config.find_config_path(client, machine, project)
    try:
        now = client_config.read_config(path)
        present = client.get_entry(now.text)
        _check_ours(client, path, present)
        if client.language is None:
            is_done = present is None if wanted.remove else entry.items() <= (present or {}).items()
            pasted = "" if is_done else client.format_entry(entry)
            return ConfigChange(client, SERVER, now, now.text, pasted=pasted)
        if wanted.remove:
            return ConfigChange(client, SERVER, now, client_config.remove_entry(client, now))
        after = client.language.set_entry(now.text, client.path, entry)
    except InvalidArgument as error:
        if error.details.get("taken"):
            raise
        by_hand = "" if wanted.remove else client.format_entry(entry)
        raise _name_file(error, path, by_hand=by_hand) from error
    return ConfigChange(client, SERVER, now, after, launch.note, launch.command_line)


def _build_launch(client: Client, wanted: SetupOptions, project: Path | None) -> LaunchCommand:
    """Return the command line of the entry. Raises: InvalidArgument for a client that needs a root and gets none."""
    named = list(dict.fromkeys(str(check_workspace_root(root)) for root in wanted.roots))
    if not named and project and client.workspace:
        named = [client.workspace]
    if not named and client.needs_root and not wanted.remove:
        found = nearest_project(Path.cwd())
        if found is None:
            raise InvalidArgument(
                f"{client.title} has no open folder, and the current folder is not in a project",
                suggestion=f"Name one: `ctx setup {client.name} --root PATH`.",
            )
        named = [str(found)]
    words = ["serve", *(word for root in named for word in ("--root", root))]
    words += ["--profile", wanted.profile] if wanted.profile else []
    words += ["--read-only"] if wanted.read_only else []
    return _find_launch(project).with_args(words)


def _find_launch(project: Path | None) -> LaunchCommand:
    """Return the command that starts ctx; for a file of a project, which others share, without a path if possible."""
    launch = find_own_launch_command()
    return make_portable(launch) if project else launch


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


def _name_file(error: InvalidArgument, path: Path, **details: str) -> InvalidArgument:
    """Return the error with the name of the file."""
    return InvalidArgument(
        f"{path}: {error.message}",
        suggestion=f"{error.suggestion} Nothing was changed.",
        details={**error.details, **details},
    )


def _plan_guidance(client: Client, _: Machine, wanted: SetupOptions) -> ConfigChange:
    """Plan the change of the file from which a client takes guidance in this project.

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
        raise _name_file(error, path) from error
    return ConfigChange(client, GUIDANCE, now, after)


def _find_hooks(client: Client) -> HookFormat | None:
    """Return the format of a client's hooks, if ctx answers any of it."""
    return PLUGIN if client.name == "opencode" else FORMATS.get(client.name)


def _plan_hooks(client: Client, machine: Machine, wanted: SetupOptions) -> ConfigChange:
    """Plan the change of a client's hooks.

    Raises: InvalidArgument for a client without hooks, settings that cannot be read, and a file that is not ours.
    """
    form = _find_hooks(client)
    if form is None:
        named = ", ".join([*FORMATS, "opencode"])
        raise InvalidArgument(f"{client.title} has no hooks for ctx", suggestion=f"These clients have: {named}.")
    project = _find_wanted_project(wanted)
    path = project / form.project if project else Path(resolve_paths(form.user, machine)[0])
    now = client_config.read_config(path)
    launch = _find_launch(project)
    try:
        plan = _plan_plugin if form is PLUGIN else _plan_hook_entries
        after = now.text if wanted.remove and not now.exists else plan(client, now, launch, is_removed=wanted.remove)
    except InvalidArgument as error:
        raise _name_file(error, path) from error
    return ConfigChange(client, HOOKS, now, after, "" if wanted.remove else form.after)


def _plan_hook_entries(client: Client, now: ClientConfigFile, launch: LaunchCommand, *, is_removed: bool) -> str | None:
    """Return the settings with the hooks or without them; None deletes the file, which has nothing else."""
    form = FORMATS[client.name]

    def add(text: str) -> str:
        return hook_config.add_hooks(form, text, lambda event: _join_command(launch, event, client.name))

    if not is_removed:
        return add(now.text)
    without = hook_config.remove_hooks(form, now.text)
    return now.text if without == now.text else client_config.find_text_before(now, add, default=without)


def _plan_plugin(_: Client, now: ClientConfigFile, launch: LaunchCommand, *, is_removed: bool) -> str | None:
    """Return the plugin of opencode, or None to delete it. Raises: InvalidArgument for a file of another author."""
    template = client_config.read_plugin_template()
    if now.exists and now.text.partition("\n")[0] != template.partition("\n")[0]:
        raise InvalidArgument("this plugin was not written by ctx", suggestion="Rename or remove it, then repeat this.")
    if is_removed:
        return None
    return template.replace(PLUGIN_COMMAND, f"const COMMAND = {json.dumps(launch.command_line)}")


def _join_command(launch: LaunchCommand, event: str, client: str) -> str:
    """Return the command line of an event, for the shell of this system."""
    words = launch.with_args(("hook", event, "--client", client)).command_line
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


PLANNERS = {SERVER: _plan_entry, HOOKS: _plan_hooks, GUIDANCE: _plan_guidance}


# -- writing ----------------------------------------------------------------------------------------------------------


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


def _carry_out(change: ConfigChange, wanted: SetupOptions, report: SetupReport) -> None:
    """Write a file, unless that is not wanted, and report what was done."""
    title, path = change.client.title, change.config.path
    name = client_table.NAME if change.part == SERVER else change.part
    if change.is_empty:
        verb = "are" if change.part == HOOKS else "is"
        report.show(f"{title}: nothing to do, {name} {verb}{' not' if wanted.remove else ''} in {path}")
        report.add(change, "unchanged")
        return
    if change.pasted:
        action = f"remove the entry {name} from" if wanted.remove else "paste these lines into"
        report.show(f"{title}: ctx does not write YAML; {action} {path}\n\n{change.pasted}")
        report.add(change, "by_hand")
        return
    if wanted.only_print:
        report.add(change, "planned")
        return
    try:
        stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
        backup = str(client_config.write_config(change.config, change.after, stamp) or "")
    except ContextEngineError as error:
        report.fail(change.client, change.part, error)
        return
    report.show(f"{title}: {name} {'removed from' if wanted.remove else 'written to'} {path}")
    check = "" if wanted.remove or change.part != SERVER else change.client.check
    state = "removed" if wanted.remove else "written"
    report.add(change, state, backup=backup, note=change.note, command=change.command, check=check)
    if not report.as_json:
        print_rows([("  starts", shlex.join(change.command)), ("  backup", backup), ("  check", check)])
        if change.note:
            print_note(f"note: {change.note}")


# -- the list of clients ----------------------------------------------------------------------------------------------


def _show_all(machine: Machine, *, as_json: bool) -> None:
    """Print for each client whether it is installed and set up."""
    rows = [_format_client(client, machine) for client in client_table.ALL]
    if as_json:
        print_json(rows)
        return
    print_rows((row["client"], f"{row['title']}: {_describe_client(row)}") for row in rows)
    print_note(
        "ctx setup CLIENT writes the entry, ctx setup --all that of every client found; "
        "--print shows it, --remove removes it, --project is for this project only"
    )


def _format_client(client: Client, machine: Machine) -> dict[str, Any]:
    """Return a client with each of its settings files: whether our entry is in it, or why it cannot be read."""
    states = client_config.list_config_states(machine, nearest_project(Path.cwd()), (client,))
    files = [
        {"scope": state.scope, "path": str(state.path), "is_set_up": bool(state.entry), "problem": state.problem}
        for state in states
    ]
    is_here = client_config.is_installed(client, machine)
    return {"client": client.name, "title": client.title, "is_installed": is_here, "files": files}


def _describe_client(row: dict[str, Any]) -> str:
    notes = [f"set up for {file['scope']} in {file['path']}" for file in row["files"] if file["is_set_up"]]
    notes += [f"{file['path']} cannot be read: {file['problem']}" for file in row["files"] if file["problem"]]
    if row["is_installed"]:
        return "; ".join(notes) or f"found, not set up: ctx setup {row['client']}"
    return "; ".join(notes) or "not found on this machine"
