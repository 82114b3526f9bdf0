"""The faces of the namespace: what they answer without the thing they stand for, and what they do."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.utils import _pytree as pytree
from flambeau.utils.checkpoint import checkpoint, checkpoint_sequential

ROOMS = """_C _C._nn __config__ _jit_internal _tensor _tensor_str _utils accelerator amp ao.quantization backends compiler
compiler_api cpu cpu.amp cuda cuda.amp distributed export futures hub jit mps multiprocessing onnx overrides profiler
quantization return_types testing types utils.benchmark utils.checkpoint utils.collect_env utils.cpp_extension
utils.deterministic utils.hooks utils.model_zoo version xpu"""


@pytest.mark.parametrize("room", ROOMS.split())
def test_a_room_imports(room: str) -> None:
    importlib.import_module("flambeau." + room)


def test_there_is_no_cuda() -> None:
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and torch.cuda.memory_allocated() == 0
    torch.cuda.manual_seed_all(0)
    torch.cuda.empty_cache()
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.cuda.current_device()
    with pytest.raises(TypeError, match=r"type torch.cuda.FloatTensor not available"):
        torch.cuda.FloatTensor(2)


def test_switches_of_backends_can_be_set() -> None:
    with torch.backends.cudnn.flags(enabled=False):
        assert torch.backends.cudnn.enabled is False
    assert torch.backends.cudnn.enabled is True
    assert not torch.backends.flags_frozen()
    torch.backends.disable_global_flags()
    try:
        with pytest.raises(RuntimeError, match=r"not allowed to set torch\.backends\.cudnn flags after disable_global_flags"):
            torch.backends.cudnn.enabled = False
        with torch.backends.cudnn.flags(enabled=False):
            assert torch.backends.flags_frozen() and torch.backends.cudnn.enabled is False
        assert torch.backends.cudnn.enabled is True
    finally:
        torch.backends._frozen[0] = False
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.get_float32_matmul_precision() == "high"
    torch.set_float32_matmul_precision("highest")
    assert torch.backends.cuda.matmul.allow_tf32 is False


def test_what_is_not_there_says_what_to_do() -> None:
    for call in (
        lambda: torch.export.Constraint(),
        lambda: torch.ao.nn.quantized.LSTM(1, 1),
        lambda: torch.sparse.to_sparse_semi_structured(torch.eye(4)),
    ):
        with pytest.raises(NotImplementedError, match="not implemented in flambeau"):
            call()
    assert torch.compile(model, disable=True) is model and not torch.distributed.is_initialized() and not torch.jit.is_scripting()
    assert (
        torch.jit.ignore(model) is model and torch.jit.script_if_tracing(math.sqrt)(4.0) == 2 and not isinstance(1, torch.SymInt)
    )


def test_old_types() -> None:
    x = torch.FloatTensor([1, 2])
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor) and x.type() == "torch.FloatTensor"
    assert torch.LongTensor([1.5]).tolist() == [1] and x.type(torch.DoubleTensor).dtype is torch.float64
    assert x.type("torch.LongTensor").dtype is torch.int64 and torch.LongTensor(2, 3).shape == (2, 3)
    with pytest.warns(UserWarning, match="deprecated"):
        torch.set_default_tensor_type("torch.DoubleTensor")
    assert torch.zeros(1).dtype is torch.float64
    torch.set_default_dtype(torch.float32)


def test_determinism_switches() -> None:
    torch.use_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled() and torch.get_deterministic_debug_mode() == 2
    torch.set_deterministic_debug_mode("warn")
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_deterministic_debug_mode(0)
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_device_as_a_context() -> None:
    with torch.device("meta"):
        assert torch.ones(2).device.type == "meta" and torch.get_default_device().type == "meta"
    assert torch.ones(2).device.type == "cpu"


# ---------------------------------------------------------------- checkpoint


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4))


def gradients(run) -> list:
    net, x = model(), torch.randn(3, 4, requires_grad=True)
    torch.manual_seed(1)
    run(net, x).sum().backward()
    return [x.grad.tolist(), *[p.grad.tolist() for p in net.parameters()]]


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_changes_no_gradient(reentrant: bool) -> None:
    plain = gradients(lambda net, x: net(x))
    assert gradients(lambda net, x: checkpoint(net, x, use_reentrant=reentrant)) == plain
    assert gradients(lambda net, x: checkpoint_sequential(net, 2, x, use_reentrant=reentrant)) == plain


def test_checkpoint_runs_again_once_and_for_higher_orders() -> None:
    calls = []

    def function(x):
        calls.append(1)
        return x.exp().sin()

    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    checkpoint(function, x, use_reentrant=False).sum().backward()
    assert len(calls) == 2
    (first,) = torch.autograd.grad(checkpoint(function, x, use_reentrant=False).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    e = x.detach().exp()
    torch.testing.assert_close(second, e * e.cos() - e * e * e.sin())


def test_checkpoint_notices_another_program() -> None:
    calls = []

    def function(x):
        calls.append(1)
        return (x.sin() * x if len(calls) == 1 else x.cos()).exp()

    with pytest.raises(torch.utils.checkpoint.CheckpointError, match="A different number of tensors was saved"):
        checkpoint(function, torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\)"):
        x = torch.ones(2, requires_grad=True)
        torch.autograd.grad(checkpoint(torch.sin, x, use_reentrant=True).sum(), x)


# ---------------------------------------------------------------- trees, comparison, profiler


def test_trees() -> None:
    tree = {"a": [1, (2, 3)], "b": None}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, 3, None] and pytree.tree_unflatten(leaves, spec) == tree and spec.num_leaves == 4
    assert pytree.tree_map(lambda a, b: a + b, [1, {"x": 2}], [10, {"x": 20}]) == [11, {"x": 22}]
    assert pytree.keystr(pytree.tree_flatten_with_path(tree)[0][2][0]) == "['a'][1][1]"
    assert type(pytree.tree_map(lambda x: x, torch.ones(2, 2).max(0))) is torch.return_types.max
    with pytest.raises(ValueError, match="holds 4 items"):
        pytree.tree_unflatten([1], spec)


def test_assert_close_says_where() -> None:
    with pytest.raises(AssertionError) as caught:
        torch.testing.assert_close([1, torch.tensor([1.0, 2, 3])], [1, torch.tensor([1.0, 2, 4])])
    assert str(caught.value) == (
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
        "Greatest absolute difference: 1.0 at index (2,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)\n\nThe failure occurred for item [1]"
    )
    with pytest.raises(ValueError, match="must be either specified or omitted"):
        torch.testing.assert_close(1, 1, rtol=1.0)
    with pytest.raises(TypeError, match="No comparison pair was able to handle"):
        torch.testing.assert_close("a", "a")


def test_make_tensor_repeats_pytorch() -> None:
    torch.manual_seed(0)
    made = torch.testing.make_tensor((2, 3), dtype=torch.float32, device="cpu")
    torch.testing.assert_close(made, torch.tensor([[-0.0674, 4.8280, -7.4074], [-6.6235, -3.4664, 2.4134]]), rtol=0, atol=1e-4)


def test_profiler() -> None:
    x = torch.randn(8, 8)
    with torch.profiler.profile() as prof, torch.profiler.record_function("stretch"):
        (x @ x + 1).sum()
    names = {event.key: event.count for event in prof.key_averages()}
    assert names["stretch"] == 1 and names["aten::matmul"] == 1 and "aten::add" in names
    assert "Self CPU time total" in prof.key_averages().table(sort_by="cpu_time_total")


def write_sum(index: int, x: torch.Tensor, folder: str) -> None:
    if index == 1 and folder == "fail":
        raise ValueError("no")
    if folder != "fail":
        (Path(folder) / str(index)).write_text(str(float(x.sum())))


def test_spawn_sends_tensors_by_value_and_errors_back(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(write_sum, args=(torch.ones(3), str(tmp_path)), nprocs=2)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"0": "3.0", "1": "3.0"}
    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="Process 1 terminated with the following error"):
        torch.multiprocessing.spawn(write_sum, args=(torch.ones(3), "fail"), nprocs=2)


@pytest.mark.parametrize(
    ("room", "name", "kind", "words"),
    [
        ("cuda", "synchronize", AssertionError, "Torch not compiled with CUDA enabled"),
        ("cuda", "Stream", RuntimeError, "torch.cuda.Stream requires CUDA support"),
        ("cuda", "CUDAGraph", RuntimeError, "Tried to instantiate dummy base class CUDAGraph"),
        ("xpu", "mem_get_info", AssertionError, "Torch not compiled with XPU enabled"),
        ("xpu", "Event", RuntimeError, "Tried to instantiate dummy base class Event"),
        ("mtia", "set_device", RuntimeError, "Cannot execute setCurrentDevice() without MTIA backend."),
        ("mtia", "init", AssertionError, "Torch not compiled with MTIA enabled."),
        ("mps", "empty_cache", RuntimeError, "Cannot execute emptyCache() without MPS backend."),
        ("accelerator", "memory_stats", RuntimeError, "Cannot access accelerator device when none is available."),
    ],
)
def test_what_needs_a_device_is_called_by_its_name_and_raises(room: str, name: str, kind: type[Exception], words: str) -> None:
    thing = getattr(getattr(torch, room), name)
    assert (thing.__module__, thing.__qualname__) == (f"flambeau.{room}", name) and "aises" in thing.__doc__
    with pytest.raises(kind) as raised:
        thing(1)
    assert str(raised.value) == words


def test_contexts_of_streams_do_nothing() -> None:
    for room in (torch.cuda, torch.xpu):
        assert room.StreamContext.__module__ == room.__name__ and isinstance(room.stream(None), room.StreamContext)
        with room.stream(None) as entered:
            assert entered is None


def test_there_is_no_other_accelerator() -> None:
    assert not torch.mtia.is_available() and torch.mtia.device_count() == 0 and torch.xpu.max_memory_allocated() == 0
    with pytest.raises(RuntimeError, match=r"Cannot execute getCurrentDevice\(\) without MTIA backend"):
        torch.mtia.current_device()
    with pytest.raises(AssertionError, match="Torch not compiled with XPU enabled"):
        torch.xpu.synchronize()
    with pytest.raises(RuntimeError, match="Tried to instantiate dummy base class Stream"):
        torch.xpu.Stream()
    with pytest.raises(RuntimeError, match="NVTX functions not installed"):
        torch.cuda.nvtx.range_push("x")
    assert torch.cuda.memory.memory_allocated() == 0 and torch.cuda.random.get_rng_state_all() == []
