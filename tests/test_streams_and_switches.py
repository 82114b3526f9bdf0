"""Streams and events of any device, and switches of PyTorch's executors, which programs name whatever computes them."""

from __future__ import annotations

import operator
import warnings

import pytest

import flambeau as torch
from flambeau._environment import is_fbcode
from flambeau.fx.experimental.sym_node import magic_methods


def test_streams_of_the_cpu_have_nothing_to_wait_for() -> None:
    stream = torch.Stream()
    assert (stream.device, stream.stream_id, stream.device_index, stream.query()) == (torch.device("cpu"), 0, -1, True)
    assert repr(stream) == "torch.Stream device_type=cpu, device_index=-1, stream_id=0"
    assert stream == torch.Stream("cpu") != torch.Stream("meta") and hash(stream) == hash(torch.Stream())
    with stream as entered:
        entered.synchronize()
    event = torch.Event(enable_timing=True)
    stream.wait_event(event)
    assert event.query() and repr(event) == "torch.Event device_type=cpu, device_index=-1, event_flag=1, event_id=0"
    with pytest.raises(RuntimeError, match="doesn't support events"):
        stream.record_event()
    with pytest.raises(ValueError, match="enable_timing=True"):
        event.elapsed_time(torch.Event())
    with pytest.raises(RuntimeError, match="not linked with support for cuda devices"):
        torch.Stream("cuda")


def test_switches_give_back_what_they_were() -> None:
    exchange = torch._C._jit_set_profiling_executor
    assert exchange(False) is True and exchange(True) is False
    strategy = [("STATIC", 2), ("DYNAMIC", 10)]
    assert torch._C._jit_set_bailout_depth(20) == 12
    assert torch._C._jit_set_fusion_strategy(strategy) == [("STATIC", 20)]
    before = torch._C._jit_can_fuse_on_cpu()
    torch._C._jit_override_can_fuse_on_cpu(not before)
    assert torch._C._jit_can_fuse_on_cpu() is not before
    torch._C._jit_override_can_fuse_on_cpu(before)
    torch._C._jit_set_emit_hooks(None, None)
    assert torch._C._jit_get_emit_hooks() == (None, None)


def test_classes_are_compiled_again() -> None:
    class Point:
        def __init__(self, x: int) -> None:
            self.x = x

    assert torch.jit.script(Point) is Point
    torch._C._jit_clear_class_registry()
    torch.jit._recursive.concrete_type_store = torch.jit._recursive.ConcreteTypeStore()
    torch.jit._state._clear_class_state()
    assert torch.jit.script(Point) is Point


def test_names_that_test_suites_ask_for() -> None:
    assert magic_methods["add"] is operator.add and not is_fbcode() and torch._dynamo.is_dynamo_supported()
    assert [getattr(torch.Tensor, name).fget.__name__ for name in ("shape", "dtype")] == ["shape", "dtype"]
    assert torch.Tensor.shape.fget(torch.ones(2)) == (2,) == torch.ones(2).shape
    with warnings.catch_warnings():
        torch.jit.TracerWarning.ignore_lib_warnings()
    torch.library.define("switches::more", "(Tensor x) -> Tensor")

    @torch.library.impl("switches::more", "CompositeImplicitAutograd")
    def more(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    assert torch.ops.switches.more(torch.ones(1)).item() == 2


def test_types_of_values() -> None:
    infer = torch._C._jit_try_infer_type
    for value, words in (
        (1, "int"),
        ([1, 2], "List[int]"),
        ((1, "a"), "Tuple[int, str]"),
        ({1: [2.0]}, "Dict[int, List[float]]"),
        ([None, torch.ones(1)], "Optional[Tensor]"),
        (torch.float32, "int"),
        ((), "Tuple["),
    ):
        assert infer(value).success() and words in str(infer(value).type())
    for value, words in (
        ([], "must have elements"),
        ([1, "a"], "Found int and str"),
        (object(), "Only tensors and"),
        (torch.nn.Linear(1, 1), "Cannot infer concrete type"),
    ):
        assert not infer(value).success() and words in infer(value).reason()
