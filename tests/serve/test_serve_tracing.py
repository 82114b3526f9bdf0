"""Spans of OpenTelemetry, where it is installed; and that nothing is asked for where it is not."""

from __future__ import annotations

import sys

import pytest

from flambeau.serve.tracing import Tracer


def test_without_it_there_are_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    tracer = Tracer()
    assert tracer.start("GET /ping", {}) is None
    tracer.end(None, 500)


def test_spans_continue_the_clients() -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk isn't installed")
    export = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    kept = export.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = Tracer()
    tracer.tracer = provider.get_tracer("test")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    span = tracer.start("POST /predictions/m", {"traceparent": parent}, **{"request.id": "a"})
    tracer.end(span, 503)
    (found,) = kept.get_finished_spans()
    assert trace.format_trace_id(found.context.trace_id) == parent[3:35] and found.attributes["http.response.status_code"] == 503
    assert found.attributes["request.id"] == "a" and found.status.status_code is trace.StatusCode.ERROR
