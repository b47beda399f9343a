"""Every setting: its name with its unit, its default, what it means. Read once, frozen, passed on as plain values.

The more trusted source wins: `CTX_*` environment variables, then the user's own file, then the repository's
`.context-engine/config.yml`, then the defaults. A repository is written by strangers: it may set only what cannot harm
the user (`SettingField.repository`); its other settings are ignored and listed in `Settings.ignored`.

>>> Settings.load(Path("/nowhere"), env={"CTX_QUIET_MS": "250"}).quiet_ms
250
"""

# ruff: noqa: RUF009 - setting() is dataclasses.field() with a meaning; nothing mutable is shared
from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from context_engine import CLIENT_VARIABLES
from context_engine.errors import InvalidArgument
from context_engine.repo import resolve_path
from context_engine.storage import (
    ConfinedFolder,
    UnsafePathError,
    readable_config_folder,
    user_cache_folder,
    user_config_folder,
    user_data_folder,
    workspace_id,
)
from context_engine.text import ParseError, read_yaml, suggest_nearest

CONFIG_FILE = Path(".context-engine") / "config.yml"
TOOLBOX_NAMES = {"webstorm": "web-storm", "phpstorm": "php-storm", "rider": "rd"}
EDITORS: Mapping[str, str] = {
    **{name: name + "://file{path}:{line}" for name in "vscode vscode-insiders vscodium cursor windsurf zed".split()},
    **{
        name: "jetbrains://" + TOOLBOX_NAMES.get(name, name) + "/navigate/reference?project={project}&path={file}:{row}"
        for name in "idea pycharm webstorm phpstorm goland clion rubymine rider".split()
    },
    "macvim": "mvim://open?url={url}&line={line}",
    "none": "",
}
"""Editor -> the address that opens a file in it, as its makers state it, with percent-encoded parts. JetBrains Toolbox
takes a path in the project and counts lines (`row`) from 0; MacVim takes a whole `file` address, encoded once more."""
PLACES = ("cache_folder", "data_folder")
"""Settings that are paths."""
CONFIG_BYTES_MAX = 100_000
"""A settings file has a few dozen lines; a larger file is something else."""
SHOWN_CHARS_MAX = 80
"""The characters of a wrong name or value that a message shows."""
OTHER_VARIABLES = CLIENT_VARIABLES | {"CTX_FAKE_NOW", "CTX_DEBUG"}
"""Environment variables of ours that are not settings: those of a client, a fixed clock for tests, tracebacks."""


@dataclass(frozen=True, slots=True)
class SettingField:
    """The meaning and the limits of a setting: `least`-`most` for numbers, `choices` for words, else any text.

    `repository`: a repository's own file may set it, too. Paths, limits, programs, addresses, logs and durability are
    the user's alone.
    """

    meaning: str
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    repository: bool = False


def setting(default: Any, meaning: str, **limits: Any) -> Any:
    """Declare a setting with its default and its meaning."""
    return field(default=default, metadata={"setting": SettingField(meaning, **limits)})


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of one workspace. `docs/settings.md` is generated from these lines."""

    cache_folder: Path | None = setting(None, "Where indexes are kept; empty: the user's cache folder of this system.")
    index_bytes_max: int = setting(1_000_000, "Larger files are listed as skipped, not indexed.", least=1_000)
    workers: int = setting(
        -1, "Processes that help indexing (a server has one more): 0 none, -1 as fit the cores.", least=-1, most=256
    )
    watch: bool = setting(True, "Follow edits while `ctx serve` runs.")
    quiet_ms: int = setting(500, "How long no file must change before edits are indexed.", least=0, most=60_000)
    staleness_ms: int = setting(
        0,
        "An answer may call a look at the files this old fresh; 0 looks before every answer.",
        least=0,
        most=600_000,
    )
    flush: bool = setting(
        True, "An edit is answered when it is on the disk; off: the system decides when it gets there."
    )
    result_chars_max: int = setting(
        36_000, "Longest reply of a tool; clients cut what is longer.", least=2_000, most=1_000_000
    )
    data_folder: Path | None = setting(
        None, "Where memories of scope user are kept; empty: the user's data folder of this system."
    )
    access_scoring: bool = setting(
        True, "Count which files are read and edited; those count a little more in answers.", repository=True
    )
    session_memory: bool = setting(True, "Name code that a connection was shown before instead of repeating it.")
    gain: bool = setting(True, "Count calls and characters of each session for `ctx gain`, in the data folder.")
    call_texts: bool = setting(
        True, "Keep the texts of the last 200 calls for `ctx ui`, there as well, secrets masked."
    )
    editor: str = setting("vscode", "The editor in which `ctx ui` opens files.", choices=tuple(EDITORS))
    rate_limits_per_minute: str = setting(
        "", "Limits beside and over the built-in ones, as `read_file=300, grep_codebase=0`; 0 lifts one."
    )
    rate_burst_minutes: int = setting(
        5, "A limited tool may use this many minutes' worth of calls at once; 0 lifts all limits.", least=0, most=1_440
    )
    embedder: str = setting(
        "static",
        "What finds code by meaning (docs/guides/embeddings.md); none: words alone find it.",
        choices=("static", "none", "openai-compatible", "ollama", "sentence-transformers", "model2vec"),
    )
    embedding_model: str = setting("", "Its model: a name the endpoint knows, or a folder.")
    embedding_address: str = setting("", "Where an endpoint is asked, as `http://127.0.0.1:11434`.")
    embedding_key_variable: str = setting("", "The environment variable that holds the key of the endpoint.")
    embedding_dimensions: int = setting(0, "Numbers in a vector; 0: as many as the model gives.", least=0, most=65_536)
    embedding_query_prefix: str = setting("", "Words that the model wants before a question.")
    embedding_passage_prefix: str = setting("", "Words that the model wants before what is searched.")
    vectors_bytes_max: int = setting(
        1_000_000_000,
        "Disk for vectors of all workspaces; those that were made first go first.",
        least=10_000_000,
    )
    store_url: str = setting(
        "", "The PostgreSQL where a team shares its index, or the Qdrant that searches it; empty: none."
    )
    store_repository: str = setting("", "What this workspace is called there; empty: where its repository comes from.")
    store_shares: bool = setting(
        False,
        "Share what is indexed here with all who use that database; off: only start from what is there.",
    )
    store_search: bool = setting(
        False,
        "Also share what a PostgreSQL needs to search by itself; a Qdrant always gets it.",
    )
    store_visible: str = setting(
        "",
        "Repositories there that clients of a server may search as project `store`: names or globs.",
    )
    store_records: bool = setting(
        False,
        "Plans, memories and reviews are the team's as well, on that PostgreSQL; off: this machine's.",
    )
    approvals_mode: str = setting(
        "optional",
        "Whether a step of a plan may start before somebody approved of it.",
        choices=("optional", "required"),
        repository=True,
    )
    approvals_require_human: bool = setting(
        False, "Only a person may decide about a request for approval, no agent.", repository=True
    )
    plan_retries_max: int = setting(
        3, "How often a failed step of a plan may be tried again.", least=0, most=1_000, repository=True
    )
    plan_evidence_required: bool = setting(
        False, "A step of a plan is only completed with evidence that its checks ran.", repository=True
    )
    verify_commands: str = setting(
        "",
        "What execute_plan may run to verify a step, as `pytest -q; npm test`; nothing else is ever run.",
    )
    assist_address: str = setting(
        "", "Where a language model is asked for second passes (docs/guides/assist.md); empty: none is."
    )
    assist_model: str = setting("", "Its name, as that endpoint knows it.")
    assist_key_variable: str = setting("", "The environment variable that holds its key.")
    assist_wait_s: int = setting(40, "Longest time a call gives the model, its repair included.", least=1, most=600)
    review_programs: str = setting(
        "",
        "Analyzers that may run code of the project in a review, as `eslint, tsc`: yours, from the PATH;"
        " `node_modules/.bin/eslint` is the project's own.",
    )
    scip_index: str = setting(
        "auto",
        "The SCIP index for traces and renames: auto (`index.scip` in the workspace), off, or its path.",
    )
    daemon_idle_minutes: int = setting(
        15,
        "The local process behind `ctx search` ends when it was not used for so long.",
        least=1,
        most=10_080,
    )
    daemon_engines: int = setting(
        8, "Work trees it keeps open besides those in use; the least recently used are closed.", least=1, most=1_000
    )
    log_level: str = setting(
        "info", "What `ctx serve` logs; debug: arguments, too.", choices=("debug", "info", "warning", "error", "off")
    )

    ignored: tuple[str, ...] = ()
    """Names that the repository's file sets and only the user may set."""
    unusable: str = ""
    """What is in place of our folder or of the repository's settings, as a sentence; they are not used then."""

    @classmethod
    def load(cls, root: str | Path | None, env: Mapping[str, str] | None = None) -> Settings:
        """Return the settings of the workspace at `root`; None: those of the user alone.

        `env` is the environment; None: that of this process.

        Raises: InvalidArgument, naming the place, the key and the nearest key that exists.
        """
        by_source, ignored, unusable = _read_layers(root, os.environ if env is None else env)
        values = {name: value for layer in by_source.values() for name, value in layer.items()}
        return cls(**values, ignored=ignored, unusable=unusable)

    @classmethod
    def find_sources(cls, root: str | Path | None) -> dict[str, str]:
        """Return the settings that are not defaults, each with the file or the variable that it comes from.

        Raises: InvalidArgument, as `load`.
        """
        by_source, _, _ = _read_layers(root, os.environ)
        sources = {name: source for source, layer in by_source.items() for name in layer}
        return {name: source or f"CTX_{name.upper()}" for name, source in sources.items()}

    def workspace_cache(self, root: Path) -> Path:
        """Return the folder of what is derived from a workspace: its index above all."""
        return (self.cache_folder or user_cache_folder()) / "workspaces" / workspace_id(root)

    def check_folders(self, root: Path) -> None:
        """Refuse folders of the user inside a workspace: what is read from there as ours could be the repository's.

        Raises: InvalidArgument.
        """
        folders = {
            "cache_folder": self.cache_folder or user_cache_folder(),
            "data_folder": self.data_folder or user_data_folder(),
        }
        for name, folder in folders.items():
            if Path(resolve_path(folder)).is_relative_to(root):
                raise InvalidArgument(
                    f"{name} is {folder}, inside the workspace:"
                    " a repository could bring an index or memories of its own along",
                    suggestion=f"Set CTX_{name.upper()} to a folder outside of {root}.",
                    details={"setting": name, "path": str(folder)},
                )

    def notes(self) -> list[tuple[str, str]]:
        """Return what is ignored of the repository's settings, and next steps; see `Engine.notes`."""
        remove = "Remove it: a repository may have brought it along."
        return [(self.unusable, remove)] * bool(self.unusable) + [
            (
                f"{CONFIG_FILE.as_posix()} sets {name}, which only the user may set: it is ignored",
                f"Set {name} in {user_file()}, or CTX_{name.upper()} in the environment.",
            )
            for name in self.ignored
        ]


def user_file() -> Path:
    """Return where the user's own settings for all workspaces are."""
    return user_config_folder() / CONFIG_FILE.name


@cache
def list_settings() -> Mapping[str, tuple[Any, SettingField]]:
    """Return name -> (default, field), in the order of the class: what the docs table and the checks read."""
    listed = [one for one in fields(Settings) if "setting" in one.metadata]
    return MappingProxyType({one.name: (one.default, one.metadata["setting"]) for one in listed})


def _read_layers(
    root: str | Path | None, env: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any]], tuple[str, ...], str]:
    """Return the values of each source, what a repository may not set, and what is in place of its folder.

    The least trusted source comes first: two files by their paths, then the environment as `""`.

    Raises: InvalidArgument.
    """
    file, own = Path(root or "") / CONFIG_FILE, user_file()
    raw, unusable = (b"", "") if root is None else _repository_bytes(Path(root))
    stated = _parse_file(file, raw)
    permitted = {key: value for key, value in stated.items() if list_settings()[key][1].repository}
    layers = {str(file): (file, permitted), str(own): (own, _parse_file(own, _user_bytes(own)))}
    by_source = {
        source: {key: _check_value(place, key, value) for key, value in layer.items()}
        for source, (place, layer) in layers.items()
    }
    by_source[""] = _from_environment(env)
    return by_source, tuple(key for key in stated if key not in permitted), unusable


def _repository_bytes(root: Path) -> tuple[bytes, str]:
    """Return the settings of the repository, and why they are not used: a link, a pipe or a device is never opened.

    Raises: InvalidArgument.
    """
    try:
        return ConfinedFolder(root).read_bytes(CONFIG_FILE.as_posix(), bytes_max=CONFIG_BYTES_MAX), ""
    except FileNotFoundError:
        return b"", ""
    except OSError as error:
        if error.filename == CONFIG_FILE.parent.name:
            return b"", f"{error.filename} {error.strerror}: not used, and files can be read but not edited"
        if isinstance(error, UnsafePathError):
            return b"", f"{error.filename} {error.strerror}: not used"
        if isinstance(error, NotADirectoryError):  # there is no such workspace
            return b"", ""
        raise _unreadable(root / CONFIG_FILE, error) from None


def _user_bytes(path: Path) -> bytes:
    """Return the user's own file, which may well be a link. Raises: InvalidArgument."""
    try:
        if readable_config_folder() is None:
            return b""
        with path.open("rb") as file:
            return file.read(CONFIG_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> InvalidArgument:
    return _wrong(path, f"cannot be read: {error.strerror or error}", "Make it a readable file, or remove it.")


def _parse_file(path: Path, raw: bytes) -> dict[str, Any]:
    """Parse a settings file and check its names. Raises: InvalidArgument."""
    if not raw:
        return {}  # most workspaces have none, and need no parser of YAML
    try:
        stated = read_yaml(raw, bytes_max=CONFIG_BYTES_MAX)
    except ParseError as error:
        raise _wrong(path, f"cannot be read: {error}", "Write one `name: value` a line.") from None
    if stated is None:
        return {}
    if not isinstance(stated, dict):
        raise _wrong(path, "is not a mapping", "Write one `name: value` a line.")
    for key in (str(key)[:SHOWN_CHARS_MAX] for key in stated if key not in list_settings()):
        near = suggest_nearest(key, list_settings()).strip() or f"There are {', '.join(list_settings())}."
        raise _wrong(path, f"has {key!r}, which is not a setting", near)
    return stated


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    """Read the settings of the `CTX_*` variables.

    An unknown `CTX_*` variable belongs to another program, unless its name is similar to one of ours.
    """
    names = {f"CTX_{name.upper()}": name for name in list_settings()}
    ours = (variable for variable in env if variable.startswith("CTX_") and variable not in OTHER_VARIABLES)
    for variable in ours:
        near = difflib.get_close_matches(variable, names, 1, 0.85)
        if near and variable not in names:
            raise _wrong("the environment", f"has {variable}, which is not a setting", f"Did you mean {near[0]}?")
    if env.get("CTX_DAEMON"):
        _flag("CTX_DAEMON", "daemon", env["CTX_DAEMON"])  # read before settings are
    return {name: _check_value(variable, name, env[variable]) for variable, name in names.items() if env.get(variable)}


def _check_value(place: object, name: str, value: Any) -> Any:
    """Convert a value to the type of its setting. Raises: InvalidArgument if it is outside the limits."""
    default, known = list_settings()[name]
    if name in PLACES:
        return _path(place, name, value)
    if name == "rate_limits_per_minute":
        return _rates(place, name, value)
    if name == "scip_index" and str(value).strip().lower() not in ("auto", "off"):
        return str(_path(place, name, value))
    if isinstance(default, bool):
        return _flag(place, name, value)
    if isinstance(default, int):
        return _whole(place, name, value, known)
    if not known.choices:
        return str(value) if name.endswith("_prefix") else str(value).strip()
    word = str(value).strip().lower()
    if word not in known.choices:
        near = suggest_nearest(word, known.choices)
        raise _wrong_value(place, name, value, f"It is one of {', '.join(known.choices)}.{near}")
    return word


def _path(place: object, name: str, value: Any) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value or not value.strip():
        raise _wrong_value(place, name, value, f"It is the path of a {name.rpartition('_')[2]}.")
    try:
        path = Path(value).expanduser()
    except RuntimeError:  # ~name, which is not a user of this machine
        path = Path()
    if not path.is_absolute():
        raise _wrong_value(place, name, value, "The path must be absolute (or start with ~).")
    return path


def _rates(place: object, name: str, value: Any) -> str:
    """Pairs of a tool's name and a number, which a YAML file may also write as a mapping."""
    pairs = value
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{tool}={rate}" for tool, rate in value.items())
    if not isinstance(pairs, str) or not re.fullmatch(r"(\s*[a-z_]{1,60}\s*=\s*\d{1,6}\s*(,|$))*", pairs):
        raise _wrong_value(place, name, value, "Write it like `read_file=300, grep_codebase=0`.")
    return pairs


def _flag(place: object, name: str, value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in ("true", "1", "yes", "on", "false", "0", "no", "off"):
        raise _wrong_value(place, name, value, "It is true or false.")
    return word in ("true", "1", "yes", "on")


def _whole(place: object, name: str, value: Any, known: SettingField) -> int:
    try:
        number = int(str(value).strip().replace("_", ""))
    except ValueError:
        raise _wrong_value(place, name, value, "It is a whole number.") from None
    if isinstance(value, bool) or (known.least is not None and number < known.least):
        raise _wrong_value(place, name, value, f"It is at least {known.least}.")
    if known.most is not None and number > known.most:
        raise _wrong_value(place, name, value, f"It is at most {known.most:,}.")
    return number


def _wrong_value(place: object, name: str, value: Any, rule: str) -> InvalidArgument:
    written = repr(value)
    shown = written if len(written) <= SHOWN_CHARS_MAX else f"{written[:SHOWN_CHARS_MAX]}…"
    return _wrong(place, f"sets {name} to {shown}", rule)


def _wrong(place: object, what: str, suggestion: str) -> InvalidArgument:
    return InvalidArgument(f"settings: {place} {what}", suggestion=suggestion, details={"place": str(place)})
