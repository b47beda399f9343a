"""`ctx serve --otel`: spans of the calls for OpenTelemetry, sent where its own variables (`OTEL_...`) say.

Off by default. The protocol library creates a span of each message, under the trace that the client names. Here they
get an exporter and the facts of the dispatcher: tool, project, error and token. They contain neither arguments nor
texts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from context_engine import __version__
from context_engine.errors import UnsupportedHost
from context_engine.repo import pip_install
from context_engine.server.server_log import Log

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

SERVICE_NAME = "ctx"
SPAN_FIELDS = ("tool", "via", "project", "token", "role", "error", "ms", "chars")
"""The fields of a log line that become attributes of a span."""
OF_THE_LIBRARY = frozenset(
    "mcp.method.name mcp.protocol.version jsonrpc.request.id gen_ai.operation.name gen_ai.tool.name gen_ai.prompt.name "
    "error.type rpc.response.status_code".split()
)
"""The attributes of the protocol library that are exported. New ones of a later release, such as addresses, are not."""
FLUSH_MS = 400
"""The time for the last spans when the server ends; the whole end stays under two seconds."""


class TraceExporter:
    """An exporter of spans, active until it is closed."""

    def __init__(self) -> None:
        """Start the exporter. Raises: UnsupportedHost when the extra is not installed."""
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            raise UnsupportedHost(
                "--otel needs OpenTelemetry, which is not installed",
                suggestion=f"Install it: `{pip_install()} 'smart-context-engine[otel]'`, or leave --otel out.",
            ) from None
        named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", SERVICE_NAME), "service.version": __version__}
        self._provider = TracerProvider(resource=Resource.create(named))
        self._provider.add_span_processor(BatchSpanProcessor(_strip_exported(OTLPSpanExporter())))
        trace.set_tracer_provider(self._provider)

    def close(self) -> None:
        """Send the remaining spans, for a bounded time."""
        self._provider.force_flush(FLUSH_MS)


def add_span_attributes(log: Log) -> Log:
    """Return a log that also adds the attributes of a line to the span of its call."""
    from opentelemetry.trace import get_current_span

    def write(line: dict[str, Any]) -> None:
        if line.get("event") in ("call", "read"):
            get_current_span().set_attributes(span_attributes(line))
        log(line)

    return write


def span_attributes(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span from a log line.

    >>> span_attributes({"event": "call", "tool": "trace", "ok": False, "error": "NOT_INDEXED", "trace": "..."})
    {'ctx.tool': 'trace', 'ctx.error': 'NOT_INDEXED'}
    """
    return {f"ctx.{key}": line[key] for key in SPAN_FIELDS if key in line}


def _strip_exported(exporter: SpanExporter) -> SpanExporter:
    """Make an exporter send stripped spans only, and return it."""
    send = exporter.export

    def send_stripped(spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return send([strip_span(span) for span in spans])

    exporter.export = send_stripped
    return exporter


def strip_span(span: ReadableSpan) -> ReadableSpan:
    """Return a copy of a span for export. Error texts contain files and arguments, so only the code stays."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Status

    known = span.attributes or {}
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes={key: known[key] for key in known if key in OF_THE_LIBRARY or key.startswith("ctx.")},
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
