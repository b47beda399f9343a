"""The registry of embedders: a table whose rows are imported only when they are chosen.

Other packages add rows by an entry point of the group `context_engine.embedders`, `name = "module:function"`; ours come
first. The function takes an `EmbedderConfig` and returns an `Embedder`.
"""

from __future__ import annotations

from pkgutil import resolve_name

from context_engine.embedding.embedder import Embedder, EmbedderConfig, Provider
from context_engine.errors import EmbedderUnusable, UnsupportedHost
from context_engine.repo import pip_install
from context_engine.text import suggest_nearest

GROUP = "context_engine.embedders"
_ROOM = "context_engine.embedding"

PROVIDERS: tuple[Provider, ...] = (
    Provider("none", "", "words only, no vectors"),
    Provider(
        "static", f"{_ROOM}.static_embedder:open_embedder", "our own table of code words; always there, numpy alone"
    ),
    Provider(
        "minilm",
        f"{_ROOM}.minilm:open_embedder",
        "all-MiniLM-L6-v2 on this machine, in a form we build",
        needs="pip install onnxruntime, then ctx model pull minilm",
    ),
    Provider(
        "openai-compatible", f"{_ROOM}.remote_embedder:open_openai_compatible", "any endpoint with /v1/embeddings"
    ),
    Provider("ollama", f"{_ROOM}.remote_embedder:open_ollama", "a model that Ollama serves"),
    Provider(
        "sentence-transformers",
        f"{_ROOM}.model_folder:open_sentence_transformers",
        "a model folder, run by sentence-transformers and torch",
        needs="pip install 'smart-context-engine[sentence-transformers]'",
    ),
    Provider(
        "model2vec",
        f"{_ROOM}.model_folder:open_model2vec",
        "a Model2Vec folder",
        needs="pip install 'smart-context-engine[model2vec]'",
    ),
)


def list_providers() -> tuple[Provider, ...]:
    """Return all rows, ours first; rows of other packages with a name of ours are left out. Nothing is imported."""
    from importlib.metadata import entry_points  # 8 ms that no search needs

    ours = {row.name for row in PROVIDERS}
    found = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    others = {
        point.name: Provider(point.name, point.value, f"from the package {point.dist.name if point.dist else '?'}")
        for point in reversed(found)
        if point.name not in ours
    }
    return PROVIDERS + tuple(others[name] for name in sorted(others))


def _list_for(name: str) -> tuple[Provider, ...]:
    """Return rows with this name, if there is one: the packages installed are not searched for one of ours."""
    if any(row.name == name for row in PROVIDERS):
        return PROVIDERS
    return list_providers()


def open_embedder(choice: EmbedderConfig, rows: tuple[Provider, ...] | None = None) -> Embedder | None:
    """Open the chosen embedder; None for `none`.

    Raises: EmbedderUnusable for a name that no row has, and for whatever its maker finds wrong; UnsupportedHost when
    something it needs is not installed. Both name the next step.
    """
    row = _row(choice.provider, _list_for(choice.provider) if rows is None else rows)
    if not row.maker:
        return None
    try:
        return resolve_name(row.maker)(choice)
    except ImportError as error:
        raise _not_installed(row, error) from error


def find_embedder_problem(name: str) -> str:
    """Return the problem of an embedder name; empty if there is an embedder of that name.

    >>> find_embedder_problem("minilm"), find_embedder_problem("minilmm")
    ('', "there is no embedder 'minilmm'. Did you mean minilm?")
    """
    if name == "auto" or name in {row.name for row in PROVIDERS}:  # without a look at the installed packages
        return ""
    try:
        _row(name, list_providers())
    except EmbedderUnusable as error:
        return f"{error.message}. {error.suggestion}"
    return ""


def _row(name: str, rows: tuple[Provider, ...]) -> Provider:
    names = [row.name for row in rows]
    if name in names:
        return rows[names.index(name)]
    raise EmbedderUnusable(
        f"there is no embedder {name[:60]!r}",
        suggestion=suggest_nearest(name, names).strip() or f"There are {', '.join(names)}.",
        details={"embedders": names},
    )


def _not_installed(row: Provider, error: ImportError) -> UnsupportedHost:
    """Return the error that names the missing module, and how to install it."""
    missing = (error.name or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and missing:
        what = f"{missing} is not installed"
    else:
        what = str(error)
    return UnsupportedHost(
        f"the embedder {row.name} cannot start: {what}",
        suggestion=f"Run: {(row.needs or f'pip install {missing}').replace('pip install', pip_install(), 1)}",
        details={"embedder": row.name, "missing": missing},
    )
