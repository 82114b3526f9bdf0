"""The profiler's tree of events: what stands below what, what operators were given, numbers, calls of Python."""

from __future__ import annotations

import gc
import json
import threading
import weakref

import pytest

import flambeau as torch
from flambeau._C import _profiler as records
from flambeau.profiler import _pattern_matcher, _utils, profile


def tree(prof) -> list:
    return prof.profiler.kineto_results.experimental_event_tree()


def shown(events, depth: int = 0) -> list[str]:
    return [line for e in events for line in ["  " * depth + e.name, *shown(e.children, depth + 1)]]


def named(prof, name: str):
    return next(e for e in _utils.traverse_dfs(tree(prof)) if e.name == name)


def of_kind(prof, kind: str) -> list:
    return [e for e in _utils.traverse_dfs(tree(prof)) if e.tag.name == kind]


def test_factories_stand_above_what_they_are_made_of() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3), torch.randn(2, 2), torch.rand_like(torch.ones(2))
    torch.manual_seed(0)
    with profile(profile_memory=True) as prof:
        found = torch.rand(3), torch.randn(2, 2), torch.rand_like(torch.ones(2))
        full = torch.full((2,), 3), torch.full((2,), True), torch.zeros(2, dtype=torch.int8, requires_grad=False)
        grown = torch.ones(2, requires_grad=True)
    assert all(torch.equal(a, b) for a, b in zip(expected, found))
    assert [x.dtype for x in full] == [torch.int64, torch.bool, torch.int8] and grown.requires_grad and grown.is_leaf
    assert shown(tree(prof))[:4] == ["aten::rand", "  aten::empty", "    [memory]", "  aten::uniform_"]
    assert shown([named(prof, "aten::rand_like")]) == [
        "aten::rand_like", "  aten::empty_like", "    aten::empty_strided", "      [memory]", "  aten::uniform_",
    ]  # fmt: skip


def test_what_operators_are_given() -> None:
    x = torch.ones(10, 10).as_strided([4, 4], [12, 3])
    y = torch.ones(4, 1, requires_grad=True)
    with profile(record_shapes=True) as prof:
        x + y
        torch.add(x, 9.5, alpha=0.9)
        torch.stack((x, x))
        x * y
    add, number = [e for e in tree(prof) if e.name == "aten::add"]
    fields = add.extra_fields
    assert add.tag is records._EventType.TorchOp and isinstance(fields, records._ExtraFields_TorchOp)
    assert fields.scope is torch.profiler.RecordScope.FUNCTION
    a, b, alpha = fields.inputs
    assert isinstance(a, records._TensorMetadata) and alpha == 1
    assert (a.sizes, a.strides, a.dtype, a.device, a.layout) == (
        [4, 4], [12, 3], torch.float32, torch.device("cpu"), torch.strided
    )  # fmt: skip
    assert (a.impl_ptr, a.storage_data_ptr) == (x._cdata, x.untyped_storage().data_ptr()) and b.sizes == [4, 1]
    assert [x.dtype for x in number.extra_fields.inputs[:2]] == [torch.float32, torch.float64]
    assert number.extra_fields.inputs[1].sizes == [] and number.extra_fields.inputs[2] == 0.9
    assert [t.storage_data_ptr for t in named(prof, "aten::stack").extra_fields.inputs[0]] == [a.storage_data_ptr] * 2
    assert named(prof, "aten::mul").extra_fields.sequence_number == fields.sequence_number + 1
    with profile() as prof:
        x + y
    assert tree(prof)[0].extra_fields.inputs == []


def test_numbers_of_tensors_and_of_memory() -> None:
    x = torch.ones(3)
    with profile(record_shapes=True, profile_memory=True) as prof:
        y = x.view(3, 1).sin()
        y.resize_(100)
        y.cos_()
        del y
        torch.empty(2)
        gc.collect()
    sin, cos = named(prof, "aten::sin").extra_fields.inputs[0], named(prof, "aten::cos_").extra_fields.inputs[0]
    assert sin.id == 0 != cos.id and named(prof, "aten::view").extra_fields.inputs[0].id == sin.id
    memory = [e.extra_fields for e in of_kind(prof, "Allocation")]
    sizes = [m.alloc_size for m in memory]
    assert sizes == [12, 400, -12, -400, 8, -8]
    assert {m.id for m in memory[:4]} == {cos.id} and {m.id for m in memory[4:]} == {None}
    assert [m.allocation_id == memory[0].allocation_id for m in memory[:4]] == [True, False, True, False]
    assert named(prof, "aten::resize_").children[0].extra_fields is memory[1]
    assert memory[0].total_allocated - 12 == memory[3].total_allocated and memory[0].device == torch.device("cpu")
    assert [e.self_cpu_memory_usage for e in prof.events() if e.name == "[memory]"] == [-400, -8]


def test_memory_that_one_profiler_saw_another_sees_freed() -> None:
    with profile(profile_memory=True) as prof:
        x = torch.empty(3, 4)
    (taken,) = of_kind(prof, "Allocation")
    with profile(profile_memory=True) as prof:
        del x
    (freed,) = of_kind(prof, "Allocation")
    assert (freed.extra_fields.ptr, freed.extra_fields.alloc_size) == (taken.extra_fields.ptr, -48)
    y = torch.ones(7)
    with profile(profile_memory=True) as prof:
        y.add_(1)
        del y
    assert of_kind(prof, "Allocation") == []  # of before any profiler


def test_tensors_at_one_address_are_told_apart() -> None:
    with profile(record_shapes=True) as prof:
        for _ in range(50):
            torch.ones(1)
    fills = [e.extra_fields.inputs[0].impl_ptr for e in _utils.traverse_dfs(tree(prof)) if e.name == "aten::fill_"]
    assert len(set(fills)) == 50


def called_here(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)


def test_calls_of_python() -> None:
    layer = torch.nn.Linear(2, 1)
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    with profile(with_stack=True, record_shapes=True, profile_memory=True) as prof:
        called_here(layer(torch.ones(1, 2))).sum().backward()
        sgd.step()
    relu = named(prof, "aten::relu")
    assert isinstance(relu.parent.extra_fields, records._ExtraFields_PyCCall)
    assert relu.parent.name.startswith("<built-in method relu of type object at ")
    call = relu.parent.parent.extra_fields
    assert isinstance(call, records._ExtraFields_PyCall) and call.callsite.function_name == "called_here"
    assert call.callsite.file_name.endswith("test_profiler_tree.py")
    assert call.caller.function_name == "test_calls_of_python" and call.module is None
    module = named(prof, "nn.Module: Linear_0").extra_fields.module
    assert (module.cls_name, module.self_ptr) == ("Linear", id(layer))
    assert [(name, p.storage_data_ptr, g) for name, p, g in module.parameters] == [
        ("weight", layer.weight.data_ptr(), None), ("bias", layer.bias.data_ptr(), None)
    ]  # fmt: skip
    weight = named(prof, "aten::linear").extra_fields.inputs[1]
    assert weight.id == module.parameters[0][1].id
    (step,) = [e for e in of_kind(prof, "PyCall") if e.name.endswith("_optimizer_step_code")]
    optimizer = step.extra_fields.optimizer
    assert optimizer.self_ptr == id(sgd) and optimizer.parameters[0][0].id == weight.id
    (_, grad, state) = optimizer.parameters[0]
    assert grad.storage_data_ptr == layer.weight.grad.data_ptr()
    assert [(name, t.storage_data_ptr) for name, t in state] == [
        ("momentum_buffer", sgd.state[layer.weight]["momentum_buffer"].data_ptr())
    ]
    for event in of_kind(prof, "PyCall"):
        above = event.parent
        while above is not None and above.tag is not records._EventType.PyCall:
            above = above.parent
        assert above is None or above.extra_fields.callsite.function_name == event.extra_fields.caller.function_name


def test_traces(tmp_path) -> None:
    x = torch.ones(3, requires_grad=True)
    with profile(with_stack=True, record_shapes=True, profile_memory=True) as prof:
        (x * x.detach()).sin().sum().backward()
        prof.add_metadata("text", "value")
        prof.add_metadata_json("list", "[1, 2]")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert (trace["text"], trace["list"], trace["with_stack"]) == ("value", [1, 2], 1) and "with_modules" not in trace
    events = trace["traceEvents"]
    assert [e["name"] for e in events[-4:]] == [
        "PyTorch Profiler (0)",
        "process_sort_index",
        "Iteration Start: PyTorch Profiler",
        "Record Window End",
    ]
    mul = next(e for e in events if e["name"] == "aten::mul")
    assert mul["args"]["Input Dims"] == [[3], [3]] and mul["args"]["Input Strides"] == [[1], [1]]
    assert mul["args"]["Input type"] == ["float", "float"] and mul["args"]["Sequence number"] >= 0
    memory = next(e for e in events if e["name"] == "[memory]")
    assert memory["ph"] == "i" and memory["args"]["Bytes"] == 12 and "dur" not in memory
    lines = [e for e in events if e.get("cat") == "fwdbwd"]
    starts = {e["id"]: e["ts"] for e in lines if e["ph"] == "s"}
    at = {e["ts"]: e["name"] for e in events if e["ph"] == "X"}
    assert [at[starts[i]] for i in (1, 2, 3)] == ["aten::sum", "aten::sin", "aten::mul"]
    records._set_fwd_bwd_enabled_val(False)
    try:
        prof.export_chrome_trace(str(tmp_path / "trace.json"))
    finally:
        records._set_fwd_bwd_enabled_val(True)
    assert "fwdbwd" not in (tmp_path / "trace.json").read_text()


def test_what_measuring_cost() -> None:
    with profile() as prof:
        torch.ones(2)
    stats = prof._stats()
    assert stats.number_of_events == 0 == stats.function_events_build_tree_call_duration_us
    assert len(prof.events()) == stats.number_of_events == 3 and stats.function_events_build_tree_call_duration_us > 0
    assert stats.profiling_window_duration_sec > 0 < stats.profiler_enable_call_duration_us
    tracker = torch.autograd.profiler.KinetoStepTracker
    before = tracker.current_step()
    for _ in range(3):
        tracker.increment_step("somebody")
    tracker.increment_step("somebody else")
    assert tracker.current_step() >= before + 1 and tracker.erase_step_count("somebody") and not tracker.erase_step_count("x")


class Event:
    """An event of another device's profile."""

    def __init__(self, number: int, start: int, duration: int, name: str = "", kernel: int = 0, on_device: bool = False) -> None:
        self.id, self.start_time_ns, self.duration_time_ns, self.end_time_ns = number, start, duration, start + duration
        self.name, self.children, self.parent = name or f"event {number}", [], None
        self.kernel, self.on_device = kernel, on_device

    def start_ns(self) -> int:
        return self.start_time_ns

    def duration_ns(self) -> int:
        return self.duration_time_ns

    def linked_correlation_id(self) -> int:
        return self.kernel

    def device_type(self) -> torch.profiler.DeviceType:
        return torch.profiler.DeviceType.CUDA if self.on_device else torch.profiler.DeviceType.CPU


class Measured:
    def __init__(self, own: list[Event], kernels: list[Event]) -> None:
        self.kineto_results = self
        self.experimental_event_tree, self.events = lambda: own, lambda: kernels


def test_queues_and_idleness() -> None:
    kernels = [Event(0, 10 * i, 5, "cudaLaunchKernel", i) for i in range(1, 6)]
    kernels += [Event(0, 100 * i, 90, "kernel", i, True) for i in range(1, 6)]
    own = [Event(1, 0, 60), Event(2, 60, 300), Event(3, 500, 200)]
    found = _utils.BasicEvaluation(Measured(own, kernels))
    assert [x.queue_depth for x in found.queue_depth_list] == [1, 2, 3, 4, 5, 4, 3, 2, 1, 0]
    metrics = [found.metrics[key] for key in found.event_keys]
    assert [m.queue_depth for m in metrics] == [0, 5, 0] and [m.idle_time_ns for m in metrics] == [10, 0, 110]
    assert [key.event.id for key in found.rank_events(2)] == [1, 2] and metrics[2].fraction_idle_time == 0.55
    assert _utils.EventKey(Event(1, 5, 5)).intervals_overlap([_utils.Interval(0, 9), _utils.Interval(8, 12)]) == 5
    assert _utils.BasicEvaluation(Measured(own, [])).compute_queue_depth() == []


def test_patterns(tmp_path, capsys) -> None:
    x = torch.ones(20, 4)
    conv = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3, 1, 1), torch.nn.BatchNorm2d(3))
    with profile(with_stack=True, record_shapes=True) as prof:
        for i in range(20):
            x[i] = i
        conv(torch.ones(1, 3, 8, 8)).sum().backward()
        conv.zero_grad(set_to_none=False)
        next(iter(torch.utils.data.DataLoader(x, batch_size=2)))
    kinds = [_pattern_matcher.ForLoopIndexingPattern, _pattern_matcher.Conv2dBiasFollowedByBatchNorm2dPattern,
             _pattern_matcher.GradNotSetToNonePattern, _pattern_matcher.SynchronizedDataLoaderPattern]  # fmt: skip
    assert [len(kind(prof).matched_events()) for kind in kinds] == [1, 1, 1, 1]
    _pattern_matcher.report_all_anti_patterns(prof, json_report_dir=str(tmp_path))
    report = json.loads((tmp_path / "torchtidy_report.json").read_text())
    (entries,) = [entries for path, entries in report.items() if path.endswith("test_profiler_tree.py")]
    assert sorted(entries[0]) == ["line_number", "message", "name", "url"] and "4 events" not in capsys.readouterr().out
    with profile(with_stack=True, record_shapes=True) as prof:
        for i in range(5):
            x[i] = i
        torch.nn.Conv2d(3, 3, 3)(torch.ones(1, 3, 8, 8))
    assert [len(kind(prof).matched_events()) for kind in kinds] == [0, 0, 0, 0]
    pattern = _pattern_matcher.Pattern(prof)
    first, second = pattern.root_of(named(prof, "aten::conv2d")), named(prof, "aten::select")
    assert pattern.root_of(second) is first and pattern.prev_of(pattern.next_of(second)) is second
    with pytest.raises(NotImplementedError, match="must say which events it matches"):
        pattern.matched_events()


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="counters of the hardware are not read"):
        records._ExperimentalConfig(profiler_metrics=["kineto__tensor_core_insts"])
    with pytest.raises(NotImplementedError, match="enter one in each thread"):
        records._ExperimentalConfig(profile_all_threads=True)


def test_calls_of_other_threads() -> None:
    begun, go_on, done = threading.Barrier(3), threading.Event(), threading.Barrier(3)

    def called_meanwhile() -> int:
        return len("text")

    def waiting_before() -> None:
        begun.wait()
        go_on.wait()

    def work() -> None:
        waiting_before()
        called_meanwhile()
        done.wait()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    begun.wait()
    with profile(with_stack=True) as prof:
        go_on.set()
        done.wait()
        late = threading.Thread(target=called_meanwhile)
        late.start()
        late.join()
    for worker in workers:
        worker.join()
    calls, every = of_kind(prof, "PyCall"), set()
    for name, threads in (("waiting_before", 2), ("called_meanwhile", 2), ("test_calls_of_other_threads", 1)):
        seen = [e.start_tid for e in calls if e.name.endswith(f": {name}")]
        assert len(seen) == len(set(seen)) == threads, name
        every.update(seen)
    assert len(every) == 3  # the test runner may have threads of its own
    assert any(e.name == "<built-in function len>" and e.start_tid != 1 for e in of_kind(prof, "PyCCall"))
    before = len(calls)
    called_meanwhile()
    assert len(of_kind(prof, "PyCall")) == before


def test_a_profiler_holds_nothing_of_the_program() -> None:
    class Held:
        pass

    def outer() -> weakref.ref:
        held = Held()

        def inner() -> None:
            _ = held

        with profile(with_stack=True):
            inner()
        return weakref.ref(held)

    gc.disable()
    try:
        assert outer()() is None
    finally:
        gc.enable()
