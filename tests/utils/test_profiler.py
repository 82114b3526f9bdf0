"""torch.autograd.profiler: the older interface, and the table."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.autograd import profiler
from flambeau.profiler import profile


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
    assert {"block", "aten::ones", "aten::matmul"} <= names
    with pytest.raises(RuntimeError, match="not reentrant"), measured:
        pass


def test_which_profiler_measures() -> None:
    kinds = torch._C._profiler.ActiveProfilerType
    assert torch._C._autograd._profiler_type() is kinds.NONE
    with profile():
        assert torch._C._autograd._profiler_type() is kinds.KINETO
    with pytest.raises(NotImplementedError, match="ask a debugger"):
        torch._C._profiler.symbolize_addresses([1], "fast")


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
    assert names_of(roots(measured.function_events)) == ["aten::ones", "aten::add"]


def names_of(events) -> list[str]:
    return [event.name for event in events]


def roots(events) -> list:
    return [event for event in events if event.cpu_parent is None]


def test_backward_passes_and_optimizers() -> None:
    weight = torch.ones(2, 3, requires_grad=True)
    sgd = torch.optim.SGD([weight], lr=0.1)
    with profile() as measured:
        sgd.zero_grad()
        (weight * 2).sum().backward()
        sgd.step()
    top = [event for event in measured.events() if event.cpu_parent is None]
    turn = "autograd::engine::evaluate_function: "
    assert names_of(top) == [
        "Optimizer.zero_grad#SGD.zero_grad", "aten::mul", "aten::sum", "aten::ones_like", turn + "SumBackward0",
        turn + "MulBackward0", turn + "torch::autograd::AccumulateGrad", "Optimizer.step#SGD.step",
    ]  # fmt: skip
    assert names_of(top[4].cpu_children) == ["SumBackward0"]
    assert names_of(top[4].cpu_children[0].cpu_children) == ["aten::expand"]
    assert top[0].is_user_annotation and not top[1].is_user_annotation
    assert all(event.end >= event.start for event in measured.events())


def test_a_failing_call_ends_its_event() -> None:
    with profile() as measured, torch.profiler.record_function("block"):
        with pytest.raises(RuntimeError):
            torch.ones(2) + torch.ones(3)
        torch.zeros(1)
    assert names_of(measured.events()[0].cpu_children) == ["aten::ones", "aten::ones", "aten::add", "aten::zeros"]


def test_operators_of_programs_and_functions_are_shown_with_what_they_are_made_of() -> None:
    @torch.library.custom_op("tests_profiler::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Thrice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = torch.ones(2, requires_grad=True)
    with profile() as measured:
        twice(x.detach())
        Thrice.apply(x).sum().backward()
    shown = {event.name: names_of(event.cpu_children) for event in measured.events()}
    assert shown["tests_profiler::twice"] == shown["Thrice"] == shown["ThriceBackward"] == ["aten::mul"]


def test_shapes_stacks_and_memory(tmp_path: Path) -> None:
    layer, x = torch.nn.Linear(4, 2), torch.ones(3, 4)
    with profile(record_shapes=True, with_stack=True, profile_memory=True) as measured:
        layer(x)
        layer(torch.ones(5, 4))
        x[0]
    events = {event.name: event for event in measured.events()}
    assert events["aten::linear"].input_shapes == [[5, 4], [2, 4], [2]]
    assert events["aten::select"].input_shapes == [[3, 4], [], []]
    assert events["aten::linear"].cpu_memory_usage == 40 and events["aten::select"].cpu_memory_usage == 0
    assert events["aten::linear"].stack[0].endswith(": test_shapes_stacks_and_memory")
    together = measured.key_averages()
    assert [(e.count, e.cpu_memory_usage) for e in together if e.key == "aten::linear"] == [(2, 64)]
    apart = measured.key_averages(group_by_input_shape=True)
    assert [e.input_shapes for e in apart if e.key == "aten::linear"] == [[[3, 4], [2, 4], [2]], [[5, 4], [2, 4], [2]]]
    heads = apart.table().splitlines()[1].split("  ")
    assert [head.strip() for head in heads if head.strip()][6:] == ["CPU Mem", "Self CPU Mem", "# of Calls", "Input Shapes"]
    assert "40 B" in apart.table()
    assert "Source Location" in measured.key_averages(group_by_stack_n=1).table()
    measured.export_stacks(str(tmp_path / "stacks"))
    assert any("test_shapes_stacks_and_memory " in line for line in (tmp_path / "stacks").read_text().splitlines())
    with pytest.raises(ValueError, match="metric should be one of"):
        measured.export_stacks(str(tmp_path / "stacks"), "else")


def test_steps_of_a_schedule() -> None:
    def steps(prof) -> list:
        return [event for event in prof.events() if event.name not in ("aten::empty", "aten::zero_")]

    cycles = []
    plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    with profile(schedule=plan, on_trace_ready=lambda p: cycles.append((p.step_num, names_of(steps(p))))) as measured:
        for _ in range(6):
            torch.zeros(1)
            measured.step()
    assert cycles == [(4, ["ProfilerStep*", "aten::zeros"] * 2)]
    assert [event.trace_name for event in steps(measured)][::2] == ["ProfilerStep#2", "ProfilerStep#3"]
    with pytest.raises(AssertionError, match=r"active=0 \(need > 0\)"):
        torch.profiler.schedule(wait=0, warmup=0, active=0)
    with pytest.raises(AssertionError, match="must be initialized before accessing events"):
        profile().events()
    with profile() as empty:
        pass
    assert empty.key_averages().table() == ""
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        empty.export_stacks("nowhere")


def test_other_threads_are_not_measured() -> None:
    with profile() as measured:
        thread = threading.Thread(target=lambda: torch.zeros(2).add(1))
        thread.start()
        thread.join()
        torch.ones(1)
    assert names_of(measured.events()) == ["aten::ones", "aten::empty", "aten::fill_"]


def test_beside_a_mode_and_another_profiler() -> None:
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 2)
    with profile() as outer, Watch(), profile() as inner:
        x.t() @ x
        torch.nn.functional.softmax(x, -1)
    assert seen == ["t", "matmul", "softmax"]
    assert names_of(outer.events()) == names_of(inner.events()) == ["aten::t", "aten::matmul", "aten::mm", "aten::softmax"]
    torch.add(x, x)
    code = torch.add.__code__
    with profile():
        assert torch.add.__code__ is not code
    torch.add(x, x)
    assert torch.add.__code__ is code


def test_a_stretch_says_what_it_is_given(tmp_path) -> None:
    x = torch.ones(4, 4)
    fast = torch._C._profiler._RecordFunctionFast("fast", [x, "text"], {"stream": 0, "grid": 'a"b', "debug": True})
    with torch.profiler.profile(record_shapes=True) as prof:
        assert torch.autograd.profiler._is_profiler_enabled
        for _ in range(2):
            with fast:
                x.add(x)
        handle = torch.autograd._record_function_with_args_enter("given", 1, [x, x], x)
        torch.autograd._record_function_with_args_exit(handle)
        with torch.profiler.record_function("annotated", "1, 2"):
            pass
    assert not torch.autograd.profiler._is_profiler_enabled
    events = {event.name: event for event in prof.events()}
    assert events["fast"].input_shapes == [[4, 4], []] and events["fast"].kwinputs["debug"] is True
    assert [event.name for event in prof.events()].count("fast") == 2
    assert events["given"].input_shapes == [[], [], [4, 4]] and events["annotated"].input_shapes == [[]]
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    written = [each for each in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if each["name"] == "fast"]
    assert written[0]["cat"] == "cpu_op" and (written[0]["args"]["stream"], written[0]["args"]["grid"]) == (0, "None")
    with pytest.warns(UserWarning, match="Only string, int, float and bool"):
        torch._C._profiler._RecordFunctionFast("fast", keyword_values={"grid": [1]})


def test_pipes_of_data_are_seen_item_by_item() -> None:
    from flambeau.utils.data import IterDataPipe
    from flambeau.utils.data.datapipes.iter import IterableWrapper

    class Own(IterDataPipe):
        def __init__(self) -> None:
            self.left = 2

        def __iter__(self):
            return self

        def __next__(self) -> int:
            self.left -= 1
            if self.left < 0:
                raise StopIteration
            return self.left

        def more(self) -> str:
            return "more"

    assert iter(Own()).more() == "more" and list(iter(Own())) == [1, 0]
    with profile() as measured:
        list(Own())
        list(IterableWrapper([3]).mux(IterableWrapper([4])))
    names = names_of(measured.events())
    assert names[:3] == ["Own()"] * 3 and all(event.is_user_annotation for event in measured.events())
    assert names[3] == "Multiplexer(datapipes=(IterableWrapper, IterableWrapper))"
    assert names[4] == "IterableWrapper(deepcopy=True, iterable=[3])"


def test_there_are_no_marks_for_other_profilers() -> None:
    assert not torch.profiler.itt.is_available()
    with pytest.raises(RuntimeError, match="ITT functions not installed"):
        torch.profiler.itt.range_push("block")


def test_what_operators_are_made_of_is_shown_every_time() -> None:
    x = torch.ones(4, 4)
    for _ in range(3):  # a call that was made before has a plan of its own
        with profile() as measured:
            x @ x
        assert names_of(measured.events()) == ["aten::matmul", "aten::mm"]


def test_operations_are_counted() -> None:
    x, image, weight = torch.ones(4, 5), torch.ones(2, 4, 8, 8), torch.ones(6, 2, 3, 3)
    with profile(with_flops=True) as measured:
        torch.mm(x, x.t())
        torch.nn.functional.linear(x, torch.ones(6, 5))
        torch.nn.functional.conv2d(image, weight, groups=2, padding=1, stride=2)
        x + 1
        x.sin()
    counted = {event.name: event.flops for event in measured.events() if event.flops}
    assert counted == {"aten::mm": 160, "aten::linear": 240, "aten::conv2d": 6912, "aten::add": 20}
    assert all(event.input_shapes == [] for event in measured.events())
    lines = measured.key_averages().table().splitlines()
    assert lines[1].split("  ")[-2].strip() == "Total FLOPs"
    assert {line.split()[0]: line.split()[-1] for line in lines if line.strip().startswith("aten::")}["aten::mm"] == "160.000"
    with profile() as measured:
        torch.mm(x, x.t())
    assert "FLOPs" not in measured.key_averages().table()
