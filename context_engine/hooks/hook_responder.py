"""Answers events of hooks by asking the Engine, and remembers what each session was given."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from context_engine.context import ShownLines, ShownLinesBySession
from context_engine.hooks import hook_events
from context_engine.hooks.hook_events import HookEvent
from context_engine.hooks.prompt_context import build_prompt_context
from context_engine.hooks.repository_brief import describe_repository
from context_engine.hooks.tool_notes import describe_edit, describe_matches, describe_read
from context_engine.secrets import collect_redactions, redact_reply
from context_engine.text import escape_controls

if TYPE_CHECKING:
    from context_engine.engine import Engine

PROMPTS_KEPT = 64
"""Sessions whose last prompt is kept, for the notes about files that they read."""
FRESH_SOURCES = frozenset(("startup", "clear", "compact"))
"""A session that starts like this has nothing of what it was given before in its window."""


class HookResponder:
    """Answers the hooks of many sessions. Thread-safe."""

    def __init__(self) -> None:
        self._shown = ShownLinesBySession()
        self._prompts: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, engine: Engine, event: HookEvent) -> str:
        """Return the context for an event, with secrets redacted; empty if there is nothing to say.

        Raises: ContextEngineError, such as NotIndexed.
        """
        with collect_redactions():
            text = self._answers[event.kind](self, engine, event) if event.kind in self._answers else ""
            return escape_controls(redact_reply(text.encode("utf-8", "replace").decode("utf-8")).text)

    def _answer_prompt(self, engine: Engine, event: HookEvent) -> str:
        if not event.prompt.strip():
            return ""
        self._keep_prompt(event)
        return build_prompt_context(event.prompt, engine, self._get_shown(engine, event))

    def _answer_session(self, engine: Engine, event: HookEvent) -> str:
        if event.source in FRESH_SOURCES:
            self._shown.forget(event.session, str(engine.root))
        return describe_repository(event.client, engine)

    def _answer_search(self, engine: Engine, event: HookEvent) -> str:
        return describe_matches(event, engine)

    def _answer_read(self, engine: Engine, event: HookEvent) -> str:
        """Return which lines matter; a file that the client has read need not be given again."""
        if event.path:
            if event.last:
                lines = (event.first, event.last)
            else:
                lines = (None, None)
            file = engine.files.read(str(Path(event.folder, event.path)), first=lines[0], last=lines[1])
            self._get_shown(engine, event).add(file.path, file.span.first, file.text)
        with self._lock:
            prompt = self._prompts.get(event.session, "")
        return describe_read(event, engine, prompt)

    def _answer_edit(self, engine: Engine, event: HookEvent) -> str:
        return describe_edit(event, engine)

    _answers: ClassVar[Mapping[str, Callable[[HookResponder, Engine, HookEvent], str]]] = {
        hook_events.PROMPT: _answer_prompt,
        hook_events.SESSION: _answer_session,
        hook_events.SUBAGENT: _answer_session,
        hook_events.SEARCH: _answer_search,
        hook_events.READ: _answer_read,
        hook_events.EDIT: _answer_edit,
    }

    def _get_shown(self, engine: Engine, event: HookEvent) -> ShownLines:
        return self._shown.get(event.session, str(engine.root))

    def _keep_prompt(self, event: HookEvent) -> None:
        with self._lock:
            self._prompts[event.session] = event.prompt
            self._prompts.move_to_end(event.session)
            if len(self._prompts) > PROMPTS_KEPT:
                self._prompts.popitem(last=False)
