"""Search several repositories as one: a `MultiRepo` answers as an Engine does, with one ranking for all of them.

Its services are those of its Engines, joined (`repo/joint_service.py`): those that answer questions, and none that
writes. Callers and imports are followed inside of each repository. The Engines belong to the caller, who opens and
closes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from context_engine.context import Workspace
from context_engine.engine import Engine
from context_engine.repo import JointService

if TYPE_CHECKING:
    from context_engine.memory import KnowledgeService

Service = TypeVar("Service", bound=JointService)


class MultiRepo(Workspace):
    """Open Engines by name, in the order that breaks ties. Thread-safe."""

    def __init__(self, engines: Mapping[str, Engine], absent: Mapping[str, str] | None = None) -> None:
        """Use at least one Engine. `absent` are others that are unavailable, and why: each answer reports them."""
        self.engines, self.absent = dict(engines), dict(absent or {})
        self.settings = next(iter(self.engines.values())).settings
        self.index = self._join(lambda engine: engine.index)
        self.search = self._join(lambda engine: engine.search)
        self.text_search = self._join(lambda engine: engine.text_search)
        self.symbols = self._join(lambda engine: engine.symbols)
        self.files = self._join(lambda engine: engine.files)

    @cached_property
    def memory(self) -> KnowledgeService:
        """What is known of all of them."""
        return self._join(lambda engine: engine.memory)

    def _join(self, choose: Callable[[Engine], Service]) -> Service:
        services = {name: choose(engine) for name, engine in self.engines.items()}
        return type(next(iter(services.values()))).join(services, self.absent)
