"""`ctx setup`: add ctx to the settings of a client - its entry, its hooks, its guidance - and remove it."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from context_engine.cli.clients import client_config, client_table, hook_config
from context_engine.cli.clients.client_config import ClientConfigFile
from context_engine.cli.clients.client_table import Client, HookFormat, resolve_paths
from context_engine.cli.clients.launch_command import LaunchCommand, find_own_launch_command, make_portable, starts_ctx
from context_engine.cli.command_runner import FAILED, show_error
from context_engine.cli.hook_command import is_trusted, record_trust
from context_engine.cli.screens import process_screen
from context_engine.cli.workspace_choice import find_project, print_json
from context_engine.errors import ContextEngineError, InvalidArgument, NotConfirmed
from context_engine.repo import check_workspace_root, nearest_project
from context_engine.server import ToolSelection
from context_engine.text import drop_empty, format_count

SERVER, HOOKS, GUIDANCE = "server", "hooks", "guidance"
"""The parts of ctx that a client can have: the entry that starts the server, hooks, a section for agents."""
PLUGIN_COMMAND = 'const COMMAND = ["ctx"]'


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """The options of the command line. `project` selects the settings of the project, not of the user.

    `all_installed` selects every client that is installed, or with `remove` every one that has our entry. `hooks`
    writes the hooks, too, and trusts the project around the current folder with them, as `trust` does alone; `remove`
    always removes them, and with `trust` takes that back. `guidance` writes that alone.
    """

    root: Sequence[Path] = ()
    profile: str = ""
    read_only: bool = False
    project: bool = False
    only_print: bool = False
    remove: bool = False
    all_installed: bool = False
    yes: bool = False
    hooks: bool = False
    guidance: bool = False
    trust: bool = False
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

    def diff_lines(self) -> list[str]:
        """Return the lines of the unified diff from the file as it is to its text after the change."""
        old, new = (text.splitlines(keepends=True) for text in (self.config.text, self.after or ""))
        name = str(self.config.path)
        names = name if self.config.exists else os.devnull, os.devnull if self.after is None else name
        return [line.rstrip("\r\n") for line in difflib.unified_diff(old, new, *names)]


def setup(names: Sequence[str], wanted: SetupOptions) -> int:
    """Set up the named or all installed clients, or list all; return the exit code.

    Raises: InvalidArgument, NotConfirmed; nothing is written then.
    """
    if (wanted.trust or wanted.hooks or wanted.remove) and not wanted.only_print:
        _settle_trust(wanted)
    if not names and not wanted.all_installed:
        if not wanted.trust:
            _show_all(as_json=wanted.as_json)
        return 0
    if names and wanted.all_installed:
        raise InvalidArgument("--all selects the clients itself", suggestion="Name clients, or use --all.")
    if wanted.guidance and wanted.hooks:
        raise InvalidArgument("--guidance is written alone", suggestion="Run the command again for --hooks.")
    profiles = tuple(part.strip() for part in wanted.profile.split(",") if part.strip())
    if wrong := ToolSelection(profiles=profiles).find_unknown_name():
        raise InvalidArgument(wrong, suggestion="`ctx serve --help` lists the profiles.")
    return _Setup(wanted).run(names)


def _settle_trust(wanted: SetupOptions) -> None:
    """Let hooks quote the project around the current folder, or no longer; say so, and where they still may.

    Raises: InvalidArgument if there is none, OSError.
    """
    root = nearest_project(Path.cwd())
    if root is None:
        if wanted.trust:
            raise InvalidArgument("there is no project here", suggestion="Run it in the project that you mean.")
        return
    if wanted.trust or not wanted.remove:
        record_trust(root, is_trusted=not wanted.remove)
    elif not is_trusted(root):
        return
    if not wanted.as_json:
        may = "may" if is_trusted(root) else "may not"
        step = "`ctx setup --trust` lets them, `ctx setup --trust --remove` no longer"
        process_screen().note(f"hooks {may} quote {root}; {step}")


class _Setup:
    """One run: plans the changes of each part, shows those that the user cannot expect, asks, and writes them."""

    def __init__(self, wanted: SetupOptions) -> None:
        self._wanted = wanted
        self._machine = client_config.this_machine()
        self._project = find_project(Path.cwd()) if wanted.project else None
        self._screen = process_screen()
        self._rows: list[dict[str, Any]] = []
        self._has_failed = False

    def run(self, names: Sequence[str]) -> int:
        """Set up the clients; return the exit code."""
        wanted = self._wanted
        clients = [client_table.find_client(name) for name in dict.fromkeys(names)] or self._select_all()
        planners = {SERVER: self._plan_entry}
        if wanted.guidance:
            planners = {GUIDANCE: self._plan_guidance}
        elif wanted.hooks or wanted.remove:
            planners = {HOOKS: self._plan_hooks, SERVER: self._plan_entry}
        for part, plan in planners.items():  # one after the other: two of them may be in one file
            changes = []
            for client in self._select_for_part(part, clients):
                try:
                    changes.append(plan(client))
                except ContextEngineError as error:
                    self._fail(client, part, error)
            if part == HOOKS and wanted.remove:
                changes = [change for change in changes if change.config.exists]
            if not wanted.as_json and (wanted.only_print or wanted.all_installed or part != SERVER):
                for line in (line for change in changes for line in change.diff_lines()):
                    print(line)
            if not wanted.only_print:
                self._check_confirmed([change for change in changes if not change.is_empty])
            for change in changes:
                self._carry_out(change)
        if wanted.as_json:
            print_json(self._rows)
        return FAILED if self._has_failed else 0

    # -- planning --

    def _select_all(self) -> list[Client]:
        """Return the clients that `--all` means: those that are installed, or that have our entry, in this scope.

        Raises: InvalidArgument if there are none.
        """
        wanted, problem = self._wanted, "no client was found on this machine"
        found = [client for client in client_table.ALL if client_config.is_installed(client, self._machine)]
        if wanted.guidance:
            found = [client for client in found if client.guidance]
        elif wanted.remove:
            problem = "no client has an entry for ctx"
            scope = client_config.PROJECT if self._project else client_config.USER
            states = client_config.list_config_states(self._machine, self._project)
            found = [state.client for state in states if state.entry and state.scope == scope]
        elif self._project:
            found = [client for client in found if client.project]
        if not found:
            step = "`ctx setup` lists the clients; name one that is installed elsewhere."
            raise InvalidArgument(problem, suggestion=step)
        return found

    def _select_for_part(self, part: str, clients: Sequence[Client]) -> Sequence[Client]:
        """Return the clients that get a part: those with hooks, unless the user named others; one for each file."""
        if part == GUIDANCE:
            return list({client.guidance or client.name: client for client in clients}.values())
        if part == HOOKS and (self._wanted.remove or self._wanted.all_installed):
            return [client for client in clients if client.hooks]
        return clients

    def _plan_entry(self, client: Client) -> ConfigChange:
        """Plan the change of a client's entry.

        Raises: InvalidArgument if the settings cannot be read (`details` has the entry to add by hand), or if another
        server has our name.
        """
        launch = self._find_launch().with_args(self._build_words(client))
        entry = client.build_entry(launch)
        path = client_config.find_config_path(client, self._machine, self._project)
        try:
            now = client_config.read_config(path)
            present = client.get_entry(now.text)
            if isinstance(present, dict) and not starts_ctx(client_config.command_line_of(present)):
                return self._refuse_other(client, path, present)
            if client.editor is None:
                is_done = present is None if self._wanted.remove else entry.items() <= (present or {}).items()
                pasted = "" if is_done else client.format_entry(entry)
                return ConfigChange(client, SERVER, now, now.text, pasted=pasted)
            if self._wanted.remove:
                return ConfigChange(client, SERVER, now, client_config.remove_entry(client, now))
            after = client.editor.set_entry(now.text, client.path, entry)
        except InvalidArgument as error:
            if error.details.get("taken"):
                raise
            by_hand = "" if self._wanted.remove else client.format_entry(entry)
            raise _name_file(error, path, by_hand=by_hand) from error
        return ConfigChange(client, SERVER, now, after, launch.note, launch.command_line)

    def _build_words(self, client: Client) -> list[str]:
        """Return the arguments of the entry. Raises: InvalidArgument for a client that needs a root and gets none."""
        wanted = self._wanted
        named = list(dict.fromkeys(str(check_workspace_root(root)) for root in wanted.root))
        if not named and self._project and client.workspace:
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
        return words + (["--read-only"] if wanted.read_only else [])

    def _find_launch(self) -> LaunchCommand:
        """Return the command that starts ctx; for a file that others share, without a path if possible."""
        launch = find_own_launch_command()
        return make_portable(launch) if self._project else launch

    @staticmethod
    def _refuse_other(client: Client, path: Path, present: dict[str, Any]) -> ConfigChange:
        """Refuse to replace another server. Raises: InvalidArgument."""
        started = shlex.join(client_config.command_line_of(present))
        started = started or str(present.get("url") or present.get("httpUrl") or present)
        raise InvalidArgument(
            f"in {path} {client.section}.{client_table.NAME} is another server: {started}",
            suggestion="Rename or remove that entry, then run the command again.",
            details={"taken": True},
        )

    def _plan_guidance(self, client: Client) -> ConfigChange:
        """Plan the change of the file from which a client takes guidance in this project.

        Raises: InvalidArgument for a client that has no such file, and for a file with half of a section.
        """
        if not client.guidance:
            files = sorted({one.guidance for one in client_table.ALL if one.guidance})
            raise InvalidArgument(
                f"the documentation of {client.title} names no file for guidance in a project",
                suggestion=f"Clients that read {', '.join(files)} have one; `ctx setup` lists the clients.",
            )
        now = client_config.read_config(find_project(Path.cwd()) / client.guidance)
        try:
            if self._wanted.remove:
                after = client_config.remove_guidance(now)
            else:
                after = client_config.add_section(now.text, client_config.read_guidance())
        except InvalidArgument as error:
            raise _name_file(error, now.path) from error
        return ConfigChange(client, GUIDANCE, now, after)

    def _plan_hooks(self, client: Client) -> ConfigChange:
        """Plan the change of a client's hooks.

        Raises: InvalidArgument for a client without hooks, settings that cannot be read, and a file that is not ours.
        """
        form = client.hooks
        if form is None:
            named = ", ".join(one.name for one in client_table.ALL if one.hooks)
            raise InvalidArgument(f"{client.title} has no hooks for ctx", suggestion=f"These clients have: {named}.")
        path = self._project / form.project if self._project else Path(resolve_paths(form.user, self._machine)[0])
        now = client_config.read_config(path)
        after: str | None = now.text
        try:
            if now.exists or not self._wanted.remove:
                change = self._change_hook_entries if form.events else self._change_plugin
                after = change(client.name, form, now)
        except InvalidArgument as error:
            raise _name_file(error, path) from error
        return ConfigChange(client, HOOKS, now, after, "" if self._wanted.remove else form.after)

    def _change_hook_entries(self, name: str, form: HookFormat, now: ClientConfigFile) -> str | None:
        """Return the settings with the hooks or without them; None deletes the file, which has nothing else."""
        launch = self._find_launch()

        def join(event: str) -> str:
            words = launch.with_args(("hook", event, "--client", name)).command_line
            return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)

        if not self._wanted.remove:
            return hook_config.add_hooks(form, now.text, join)
        without = hook_config.remove_hooks(form, now.text)
        if without == now.text:
            return without
        return client_config.find_text_before(
            now, lambda before: hook_config.add_hooks(form, before, join), default=without
        )

    def _change_plugin(self, _: str, __: HookFormat, now: ClientConfigFile) -> str | None:
        """Return the plugin of opencode, or None to delete it. Raises: InvalidArgument for a file of another author."""
        template = client_config.read_plugin_template()
        if now.exists and now.text.partition("\n")[0] != template.partition("\n")[0]:
            step = "Rename or remove it, then repeat this."
            raise InvalidArgument("this plugin was not written by ctx", suggestion=step)
        if self._wanted.remove:
            return None
        return template.replace(PLUGIN_COMMAND, f"const COMMAND = {json.dumps(self._find_launch().command_line)}")

    # -- writing --

    def _check_confirmed(self, changes: Sequence[ConfigChange]) -> None:
        """Ask before several files are changed that the user did not name. Raises: InvalidArgument, NotConfirmed."""
        if not self._wanted.all_installed or self._wanted.yes or not changes:
            return
        if not _is_interactive():
            raise InvalidArgument("stdin is not a terminal, so you cannot be asked", suggestion="Repeat it with --yes.")
        if not self._screen.confirm(f"Change {format_count(len(changes), 'file')}?"):
            raise NotConfirmed("nothing was changed", suggestion="Answer y, or use --yes.")

    def _carry_out(self, change: ConfigChange) -> None:
        """Write a file, unless that is not wanted, and report what was done."""
        wanted, title, path = self._wanted, change.client.title, change.config.path
        name = client_table.NAME if change.part == SERVER else change.part
        if change.is_empty:
            verb = "are" if change.part == HOOKS else "is"
            text = f"{title}: nothing to do, {name} {verb}{' not' if wanted.remove else ''} in {path}"
            return self._report(change, "unchanged", text)
        if change.pasted:
            action = f"remove the entry {name} from" if wanted.remove else "paste these lines into"
            text = f"{title}: ctx does not write YAML; {action} {path}\n\n{change.pasted}"
            return self._report(change, "by_hand", text)
        if wanted.only_print:
            return self._report(change, "planned")
        try:
            stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
            backup = str(client_config.write_config(change.config, change.after, stamp) or "")
        except ContextEngineError as error:
            return self._fail(change.client, change.part, error)
        check = "" if wanted.remove or change.part != SERVER else change.client.check
        state = "removed" if wanted.remove else "written"
        text = f"{title}: {name} {'removed from' if wanted.remove else 'written to'} {path}"
        self._report(change, state, text, backup=backup, note=change.note, command=change.command, check=check)
        if not wanted.as_json:
            command = shlex.join(change.command)
            self._screen.out.show_rows([("  starts", command), ("  backup", backup), ("  check", check)])
            if change.note:
                self._screen.note(f"note: {change.note}")
        return None

    def _report(self, change: ConfigChange, state: str, text: str = "", **more: Any) -> None:
        """Add the row of a file, and print a line for people."""
        row = {"client": change.client.name, "part": change.part, "path": str(change.config.path), "state": state}
        details = {"diff": "\n".join(change.diff_lines()), "pasted": change.pasted, **more}
        self._rows.append({**row, **drop_empty(details)})
        if text and not self._wanted.as_json:
            print(text)

    def _fail(self, client: Client, part: str, error: ContextEngineError) -> None:
        """Add the row of a client that could not be set up, or print the error and the entry to add by hand."""
        self._has_failed = True
        self._rows.append({"client": client.name, "part": part, "state": "failed", "error": error.as_dict()})
        if self._wanted.as_json:
            return
        show_error(error, self._screen)
        if by_hand := error.details.get("by_hand"):
            print(f"\nThe entry, to add by hand:\n\n{by_hand}")


def _name_file(error: InvalidArgument, path: Path, **details: str) -> InvalidArgument:
    step = f"{error.suggestion} Nothing was changed."
    return InvalidArgument(f"{path}: {error.message}", suggestion=step, details={**error.details, **details})


def _is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def _show_all(*, as_json: bool) -> None:
    """Print for each client whether it is installed and set up in each of its files, or why one cannot be read."""
    machine, rows, lines = client_config.this_machine(), [], []
    for client in client_table.ALL:
        states = list(client_config.list_config_states(machine, nearest_project(Path.cwd()), (client,)))
        is_here = client_config.is_installed(client, machine)
        files = [
            {"scope": state.scope, "path": str(state.path), "is_set_up": bool(state.entry), "problem": state.problem}
            for state in states
        ]
        rows.append({"client": client.name, "title": client.title, "is_installed": is_here, "files": files})
        notes = [f"set up for {state.scope} in {state.path}" for state in states if state.entry]
        notes += [f"{state.path} cannot be read: {state.problem}" for state in states if state.problem]
        notes += [f"found, not set up: ctx setup {client.name}"] if is_here and not notes else []
        lines.append((client.name, f"{client.title}: {'; '.join(notes)}" if notes else ""))
    if as_json:
        print_json(rows)
        return
    screen = process_screen()
    screen.out.show_rows([*lines, ("not found", ", ".join(name for name, text in lines if not text))])
    screen.note(
        "ctx setup CLIENT writes the entry, ctx setup --all that of every client found; "
        "--print shows it, --remove removes it, --project is for this project only"
    )
