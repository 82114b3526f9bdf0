"""Spans of OpenTelemetry around requests, where it is installed; else nothing, at no cost.

Used by app.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Tracer:
    """Makes a span per request, a child of the one that the client's headers name."""

    def __init__(self) -> None:
        self.tracer: Any = None
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            return
        self.tracer, self.trace, self.extract = trace.get_tracer("flambeau.serve"), trace, propagate.extract

    def start(self, name: str, headers: Mapping[str, str], **attributes: Any) -> Any:
        """The span of a request, or None."""
        if self.tracer is None:
            return None
        return self.tracer.start_span(name, context=self.extract(headers), kind=self.trace.SpanKind.SERVER, attributes=attributes)

    def end(self, span: Any, status: int) -> None:
        if span is not None:
            span.set_attribute("http.response.status_code", status)
            if status >= 500:
                span.set_status(self.trace.Status(self.trace.StatusCode.ERROR))
            span.end()
