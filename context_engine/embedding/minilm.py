"""The provider `minilm`: all-MiniLM-L6-v2 on this machine's processor, by onnxruntime. It never opens a socket.

Nothing is imported or read before the first text. `minilm_graph` builds the model, `model_files` lists its files, and
`model_install` installs it.
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from context_engine.embedding import model_files
from context_engine.embedding.embedder import Embedder, EmbedderConfig, Mode, compute_fingerprint, raise_if_cancelled
from context_engine.embedding.model_files import MINILM
from context_engine.embedding.wordpiece import TOKENS_MAX, WordPiece
from context_engine.errors import UnsupportedHost
from context_engine.repo import pip_install

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

DIMENSIONS = 384
TEXT_RECIPE = 1
"""Increased when `wordpiece` splits a text differently: vectors of two recipes are never compared."""
PADDED_TOKENS_MAX = 1_024
"""Tokens of one run with padding: more is not faster and takes memory that stays (design notes, embedding)."""


def open_embedder(choice: EmbedderConfig) -> Embedder:
    """Open the provider. Its files are checked but not loaded.

    Raises: UnsupportedHost when onnxruntime or the model is not here; StorageCorrupt when a file is too short or long.
    """
    if choice.models_folder is None:
        raise ValueError("minilm needs to know where models are kept")
    if find_spec("onnxruntime") is None:
        raise UnsupportedHost(
            "the provider minilm needs onnxruntime, which is not installed", suggestion=f"Install it: `{_install()}`"
        )
    return MiniLM(model_files.require_present(choice.models_folder, MINILM))


class MiniLM:
    """The model in a folder that `model_install.pull` made.

    The first text loads it, `close` frees it; threads may share it.

    `threads`: processor cores of one run; the background worker uses one.
    """

    name = "minilm"
    dimensions = DIMENSIONS
    tokens_max = TOKENS_MAX
    is_local = True

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self.fingerprint = compute_fingerprint(MINILM.fingerprint, TEXT_RECIPE, TOKENS_MAX)
        self._folder = folder
        self._threads = threads
        self._lock = threading.Lock()
        self._loaded: tuple[InferenceSession, WordPiece] | None = None
        self._closed = False

    def embed(self, texts: Sequence[str], mode: Mode, *, cancel: threading.Event | None = None) -> np.ndarray:  # noqa: ARG002 - this model asks and answers in one voice
        """Return one vector of length 1 for each text; a text longer than `tokens_max` counts by its beginning.

        Raises: Cancelled between two batches; ValueError after `close`; StorageCorrupt for a tampered file.
        """
        session, cutter = self._ready()
        rows = []
        for text in texts:
            raise_if_cancelled(cancel)
            rows.append(cutter.ids(text))
        vectors = np.zeros((len(texts), DIMENSIONS), np.float32)
        for batch in batch_by_length([len(row) for row in rows]):
            raise_if_cancelled(cancel)
            vectors[batch] = session.run(["vectors"], {"ids": pad_rows([rows[number] for number in batch])})[0]
        return vectors

    def close(self) -> None:
        """Free the model's memory. Runs in progress end normally."""
        with self._lock:
            self._closed, self._loaded = True, None
        _give_back()

    def _ready(self) -> tuple[InferenceSession, WordPiece]:
        """Return the model; the first caller loads it."""
        with self._lock:
            if self._closed:
                raise ValueError("this embedder is closed")
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> tuple[InferenceSession, WordPiece]:
        tokenizer = json.loads(model_files.read_checked(self._folder, MINILM, model_files.TOKENIZER))
        graph = model_files.read_checked(self._folder, MINILM, model_files.GRAPH)
        return _session(graph, self._threads), WordPiece.from_tokenizer(tokenizer, tokens_max=TOKENS_MAX)


def batch_by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers of texts that run together: of similar length, and few enough to fit with padding.

    >>> list(batch_by_length([3, 600, 2, 500]))
    [[2, 0], [3], [1]]
    """
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[number] > PADDED_TOKENS_MAX:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def pad_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows of one length, padded with 0, which the model ignores.

    >>> pad_rows([[7, 8], [9]]).tolist()
    [[7, 8], [9, 0]]
    """
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    for row, numbers in zip(ids, rows, strict=True):
        row[: len(numbers)] = numbers
    return ids


def _give_back() -> None:
    """Return freed memory to Linux; its C library would otherwise keep half of the model's memory."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library, which keeps less
            ctypes.CDLL(None).malloc_trim(0)


def _install() -> str:
    return f"{pip_install()} 'smart-context-engine[minilm]'"


def _session(graph: bytes, threads: int) -> InferenceSession:
    """Load the model into onnxruntime, configured to run next to other work.

    Raises: UnsupportedHost when onnxruntime is there and cannot be loaded.
    """
    try:
        import onnxruntime
    except ImportError as error:
        step = f"Install it again: `{_install()}`"
        raise UnsupportedHost(f"onnxruntime cannot be loaded: {error}", suggestion=step) from error
    onnxruntime.disable_telemetry_events()  # its Windows builds report to the system otherwise
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = True
    options.log_severity_level = 3  # errors only: stderr belongs to the log of `ctx serve`
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # threads that wait must not burn a core
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
