"""`ctx setup CLIENT --hooks`: add the hooks of ctx to a client, and remove them."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from context_engine.cli.clients import client_config, hook_config
from context_engine.cli.clients.client_config import ClientConfigFile
from context_engine.cli.clients.client_table import Client
from context_engine.cli.clients.config_paths import Machine, resolve_paths
from context_engine.cli.clients.hook_config import FORMATS, HookFormat
from context_engine.cli.clients.launch_command import LaunchCommand, find_own_launch_command, make_portable
from context_engine.cli.console import out, print_error, print_note
from context_engine.errors import ContextEngineError, InvalidArgument
from context_engine.text import drop_empty

# -- setup report ------------------------------------------------------------------------------------------------------

# The changes of `ctx setup` to each settings file: printed as they happen, or collected as rows of JSON.

State = Literal["unchanged", "planned", "written", "removed", "failed"]


@dataclass(slots=True)
class SetupReport:
    """The rows of all files so far; with `as_json` nothing is printed before the end."""

    as_json: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list)

    def show(self, text: str) -> None:
        """Print a line for people."""
        if not self.as_json:
            out.print(text, markup=False)

    def show_diff(self, config: ClientConfigFile, after: str | None) -> None:
        """Print what would change in a file; `after` None deletes it."""
        if not self.as_json:
            for line in diff_lines(config, after):
                print(line)

    def add(
        self, client: Client, part: str, state: State, config: ClientConfigFile, after: str | None, **more: Any
    ) -> None:
        """Add the row of a file; `part` is what of ctx it has: server, hooks or guidance."""
        row = {"client": client.name, "part": part, "path": str(config.path), "state": state}
        self.rows.append({**row, **drop_empty({"diff": "\n".join(diff_lines(config, after)), **more})})

    def fail(self, client: Client, part: str, error: ContextEngineError) -> None:
        """Add the row of a client that could not be set up, or print the error and the entry to add by hand."""
        if self.as_json:
            self.rows.append({"client": client.name, "part": part, "state": "failed", "error": error.as_dict()})
            return
        print_error(error)
        if by_hand := error.details.get("by_hand"):
            print(f"\nThe entry, to add by hand:\n\n{by_hand}")


def diff_lines(config: ClientConfigFile, after: str | None) -> Iterator[str]:
    """Yield the lines of the unified diff from the file as it is to its text after the change."""
    old, new = (text.splitlines(keepends=True) for text in (config.text, after or ""))
    name = str(config.path)
    names = name if config.exists else "/dev/null", "/dev/null" if after is None else name
    return (line.rstrip("\r\n") for line in difflib.unified_diff(old, new, *names))


# -- hook setup --------------------------------------------------------------------------------------------------------

PLUGIN = HookFormat(
    user=("$OPENCODE_CONFIG_DIR/plugins/ctx-hooks.js", "$CONFIG/opencode/plugins/ctx-hooks.js"),
    project=".opencode/plugins/ctx-hooks.js",
    events=(),
    after="opencode loads the plugin when it starts again.",
)
"""opencode's hooks are functions of a plugin (https://opencode.ai/docs/plugins): the whole file is ours."""
PLUGIN_COMMAND = 'const COMMAND = ["ctx"]'


@dataclass(frozen=True, slots=True)
class HookChange:
    """The planned change of the hooks of one client; `after` None deletes the file."""

    client: Client
    form: HookFormat
    config: ClientConfigFile
    after: str | None


@dataclass(frozen=True, slots=True)
class HookOptions:
    """Where and how: the settings of a `project` or of the user; `remove` the hooks or add them; `only_print` it."""

    project: Path | None = None
    remove: bool = False
    only_print: bool = False


def set_up_hooks(clients: Sequence[Client], machine: Machine, wanted: HookOptions, report: SetupReport) -> bool:
    """Add the hooks to these clients, or remove them; return whether all went well. Each change is shown as a diff."""
    went_well = True
    for client in clients:
        try:
            change = plan_hooks(client, machine, wanted)
            if change is not None:
                _carry_out(change, wanted, report)
        except ContextEngineError as error:
            report.fail(client, "hooks", error)
            went_well = False
    return went_well


def plan_hooks(client: Client, machine: Machine, wanted: HookOptions) -> HookChange | None:
    """Plan the change of a client's hooks; None if there is nothing to remove.

    Raises: InvalidArgument for a client without hooks, settings that cannot be read, and a file that is not ours.
    """
    if not has_hooks(client):
        if wanted.remove:
            return None
        named = ", ".join([*FORMATS, "opencode"])
        raise InvalidArgument(f"{client.title} has no hooks for ctx", suggestion=f"These clients have: {named}.")
    form = FORMATS.get(client.name, PLUGIN)
    if wanted.project:
        path = wanted.project / form.project
    else:
        path = Path(resolve_paths(form.user, machine)[0])
    now = client_config.read_config(path)
    if wanted.remove and not now.exists:
        return None
    try:
        after = _plan_text(form, now, wanted, _command_builder(wanted))
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{path}: {error.message}", suggestion=f"{error.suggestion} Nothing was changed."
        ) from error
    return HookChange(client, form, now, after)


def has_hooks(client: Client) -> bool:
    """Return whether ctx answers hooks of this client."""
    return client.name in FORMATS or client.name == "opencode"


def _plan_text(
    form: HookFormat, now: ClientConfigFile, wanted: HookOptions, build: Callable[[], LaunchCommand]
) -> str | None:
    if form is PLUGIN:
        return _plan_plugin(now, wanted, build())
    name = next(name for name, known in FORMATS.items() if known is form)

    def add(text: str) -> str:
        return hook_config.add_hooks(form, text, lambda event: _join_command(build(), event, name))

    if not wanted.remove:
        return add(now.text)
    without = hook_config.remove_hooks(form, now.text)
    if without == now.text:
        return now.text
    return client_config.find_text_before(now, add, default=without)


def _plan_plugin(now: ClientConfigFile, wanted: HookOptions, launch: LaunchCommand) -> str | None:
    """Return the plugin of opencode, or None to delete it. Raises: InvalidArgument for a file of another author."""
    template = client_config.read_plugin_template()
    if now.exists and now.text.partition("\n")[0] != template.partition("\n")[0]:
        raise InvalidArgument("this plugin was not written by ctx", suggestion="Rename or remove it, then repeat this.")
    if wanted.remove:
        return None
    return template.replace(PLUGIN_COMMAND, f"const COMMAND = {json.dumps(launch.command_line)}")


def _command_builder(wanted: HookOptions) -> Callable[[], LaunchCommand]:
    def build() -> LaunchCommand:
        launch = find_own_launch_command()
        if wanted.project:
            return make_portable(launch)
        return launch

    return build


def _join_command(launch: LaunchCommand, event: str, client: str) -> str:
    """Return the command line of an event, for the shell of this system."""
    words = launch.with_args(("hook", event, "--client", client)).command_line
    if os.name == "nt":
        return subprocess.list2cmdline(words)
    return shlex.join(words)


def _carry_out(change: HookChange, wanted: HookOptions, report: SetupReport) -> None:
    """Show the change, write it unless it is only to be shown, and report what was done."""
    title, path = change.client.title, change.config.path
    if change.after == change.config.text:
        report.show(f"{title}: nothing to do, hooks {'are not' if wanted.remove else 'are'} in {path}")
        report.add(change.client, "hooks", "unchanged", change.config, change.after)
        return
    report.show_diff(change.config, change.after)
    if wanted.only_print:
        report.add(change.client, "hooks", "planned", change.config, change.after)
        return
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    backup = str(client_config.write_config(change.config, change.after, stamp) or "")
    note = "" if wanted.remove else change.form.after
    state: State = "removed" if wanted.remove else "written"
    report.add(change.client, "hooks", state, change.config, change.after, backup=backup, note=note)
    report.show(f"{title}: hooks {'removed from' if wanted.remove else 'written to'} {path}")
    if backup:
        report.show(f"  backup  {backup}")
    if note and not report.as_json:
        print_note(f"note: {note}")
