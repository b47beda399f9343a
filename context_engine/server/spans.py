"""`ctx serve --otel`: spans of the calls for OpenTelemetry, sent to where its own variables (`OTEL_...`) say. Off by default.

The protocol library makes a span of each message, under the trace that the client names. Here they get an exporter, and what
only the gate knows: the tool that ran, its project, its error, whose token it was. Neither arguments nor texts are in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from context_engine.errors import UnsupportedHost
from context_engine.server.about import NAME, VERSION

TOLD = ("tool", "via", "project", "token", "role", "error", "ms", "chars")
"""What of a line of the log a span takes over."""
FLUSH_MS = 400
"""The last spans get this long when the server ends; all of its end stays under two seconds."""

Log = Callable[[dict[str, Any]], None]


class Spans:
    """An exporter of spans, at work until it is closed."""

    def __init__(self) -> None:
        """Raises: UnsupportedHost when the extra is not installed."""
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise UnsupportedHost(
                "--otel needs OpenTelemetry, which is not installed",
                suggestion="pip install 'smart-context-engine[otel]', or leave --otel out.",
            ) from None
        named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", NAME), "service.version": VERSION}
        self._provider = TracerProvider(resource=Resource.create(named))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(self._provider)

    def close(self) -> None:
        """Send what is left, for a bounded time."""
        self._provider.force_flush(FLUSH_MS)


def noted(log: Log) -> Log:
    """A log that also tells the span of the call that it is about."""
    from opentelemetry.trace import get_current_span

    def tell(line: dict[str, Any]) -> None:
        if line.get("event") in ("call", "read"):
            get_current_span().set_attributes(attributes(line))
        log(line)

    return tell


def attributes(line: Mapping[str, Any]) -> dict[str, Any]:
    """What a span is told of a line of the log.

    >>> attributes({"event": "call", "tool": "trace", "ok": False, "error": "NOT_INDEXED", "trace": "..."})
    {'ctx.tool': 'trace', 'ctx.error': 'NOT_INDEXED'}
    """
    return {f"ctx.{key}": line[key] for key in TOLD if key in line}
