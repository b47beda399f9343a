"""Context Engine: finds the right code in a repository, for people and for coding agents.

from context_engine import Engine, Query
"""

from __future__ import annotations

import os

from context_engine.lazy_exports import lazy_exports

TYPE_CHECKING = False  # spelled out, since `typing` takes longer to import than this file
if TYPE_CHECKING:
    from context_engine.engine import Engine
    from context_engine.errors import CallError, ContextEngineError, HostError
    from context_engine.model import Answer, Filter, Hit, Query
    from context_engine.settings import Settings

__version__ = "0.1.0"
__all__ = [
    "Answer", "CallError", "ContextEngineError", "Engine", "Filter", "Hit", "HostError", "Query", "Settings",
]  # fmt: skip
__getattr__ = lazy_exports(__name__)

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""Read when numpy is imported. Several threads wait for each other, and use the processor meanwhile: on two busy cores
25 products (a matrix of 4,096 x 256) take 60 to 260 ms instead of 1.5."""

_CLIENT = """ROOT WORKSPACE PROFILE TOOLS EXCLUDE_TOOLS READ_ONLY STRUCTURED CHUNKS_DIR AUDIT_LOG DAEMON QUIET VERBOSE
HTTP HTTP_TOKEN HTTP_TOKEN_FILE HTTP_TOKENS HTTP_NO_TOKEN HTTP_HOSTS HTTP_STATELESS HTTP_SHUTDOWN_TIMEOUT_S
HTTP_SHUTDOWN_DELAY_S"""
CLIENT_VARIABLES = frozenset(f"CTX_{name}" for name in _CLIENT.split())
"""Environment variables that each process reads for itself, most for options of `ctx serve`; they are no settings."""
