"""The span that loads tell the node daemon."""

import os
import subprocess
import sys

import pytest
from tetris._native import trace_parent

TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7


def test_the_current_span_of_opentelemetry_is_that_of_loads() -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    assert trace_parent() is None
    context = trace.SpanContext(TRACE, SPAN, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        assert trace_parent() == f"00-{TRACE:032x}-{SPAN:016x}-01"
    assert trace_parent() is None


def test_a_program_without_opentelemetry_has_the_span_of_its_environment() -> None:
    parent = f"00-{TRACE:032x}-{SPAN:016x}-00"
    code = "import sys; from tetris._native import trace_parent; print(trace_parent(), 'opentelemetry' in sys.modules)"
    environment = os.environ | {"TRACEPARENT": parent}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.split() == [parent, "False"]
