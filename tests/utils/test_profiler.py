"""torch.autograd.profiler: the older interface, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.autograd import profiler


def test_a_measured_stretch(tmp_path: Path) -> None:
    assert not torch.autograd._profiler_enabled()
    with profiler.profile() as measured, profiler.record_function("block"):
        assert torch.autograd._profiler_enabled()
        torch.ones(3) @ torch.ones(3)
    assert measured.function_events is not None and measured.self_cpu_time_total > 0
    assert {"block", "aten::matmul"} <= {event.key for event in measured.key_averages()}
    lines = measured.key_averages().table(sort_by="cpu_time_total", row_limit=1).splitlines()
    heads = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls"]
    assert lines[0].startswith("----------------  ------------  ------------") and len(lines) == 6
    assert lines[1] == "".join(head.rjust(16 if head == "Name" else 12) + "  " for head in heads)
    assert lines[3].split()[0] == "block" and lines[3].split()[3] == "100.00%" and lines[3].split()[-1] == "1"
    assert lines[-1].startswith("Self CPU time total: ")
    measured.function_events.export_chrome_trace(str(tmp_path / "trace.json"))
    names = {event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]}
    assert names == {"block", "aten::matmul"}
    with pytest.raises(RuntimeError, match="not reentrant"), measured:
        pass


def test_what_measures_nothing() -> None:
    off = profiler.profile(enabled=False)
    with off as entered:
        assert entered is None and not torch.autograd._profiler_enabled()
    assert off.function_events is None and repr(off) == "<unfinished torch.autograd.profile>"
    with pytest.raises(RuntimeError, match="didn't finish running"):
        off.key_averages()
    with pytest.raises(RuntimeError, match="NVTX functions not installed"), profiler.emit_nvtx():
        pass


def test_another_profiler_may_stop_it() -> None:
    with profiler.profile() as measured:
        torch.ones(2) + 1
        torch.autograd._disable_profiler()
        assert not torch.autograd._profiler_enabled()
        torch.ones(2) * 2
    assert [event.key for event in measured.function_events] == ["aten::add"]
